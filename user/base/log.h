/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What is said to the user: messages and standard output. */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdbool.h>

/*
 * Messages for people, on stderr only, each one line, escaped for terminals as a whole
 * (base/text.h). A file that logs defines LOG_DOMAIN before including this. The function that knows
 * what was attempted on which object reports it once; callers add nothing.
 */

#define LOG_REPEAT_NS 600000000000ULL

enum log_level { LOG_ERROR, LOG_WARN, LOG_HINT, LOG_INFO, LOG_DEBUG };

#ifndef LOG_DOMAIN
#define LOG_DOMAIN "ptbpf"
#endif

#define pr_error(...) log__print(LOG_ERROR, LOG_DOMAIN, __VA_ARGS__)
#define pr_warn(...) log__print(LOG_WARN, LOG_DOMAIN, __VA_ARGS__)
#define pr_hint(...) log__print(LOG_HINT, LOG_DOMAIN, __VA_ARGS__) /* what the user can do next */
#define pr_info(...) log__print(LOG_INFO, LOG_DOMAIN, __VA_ARGS__)
#define pr_debug(...) log__print(LOG_DEBUG, LOG_DOMAIN, __VA_ARGS__)

void log__print(enum log_level level, const char *domain, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* The domains of files that have debug messages. */
#define LOG_DOMAINS                                                                                \
	"agent, attach, capture_writer, cuda, elf_child, inject, kmem, libbpf, live_ops, "         \
	"op_args, op_sites, plan, plan_cache, plan_key, proc_cfg, proc_ops, progress, "            \
	"python, recorder, run, sample, sampler, targets, torch_libs, unwind"
/* Debug messages of these comma-separated domains ("all": every one) are shown; NULL: none. False:
 * a word is none of them. */
bool log__enable_domains(const char *domains);
void log__set_quiet(bool quiet); /* no info messages, and no line of progress */
/* stderr is a terminal of so many columns, 0: it is none; errors and warnings have a colour. */
void log__set_terminal(int columns, bool colour);
/*
 * One line on the terminal that the next one replaces, and that goes before anything else is
 * written: what ptbpf does now. NULL: it goes. Without a terminal there is none. It may be called
 * often: a line stays for LOG_LINE_NS at least.
 */
#define LOG_LINE_NS 200000000ULL
void log__line(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/*
 * From now on an error or warning that names a process ("pid 4242") is printed once in
 * LOG_REPEAT_NS, with the hint that follows; the next one says how many were left out.
 */
void log__limit_repeats(void);
/* Prints a line that another ptbpf, which prints errors and warnings only, has written for
 * people. The limit applies. */
void log__forward(const char *line);
/* True once an error was printed: one that comes up a call chain then has its sentence already. */
bool log__has_error(void);
/* What errors are about, printed before each ("FILE:LINE"); the caller's, until the next call.
 * NULL: nothing. */
void log__set_context(const char *context);

/* Text of an errno value, positive or negative ("No such file or directory"). Static storage. */
const char *errstr(int err);

/* The end of what a command prints on standard output. */

/*
 * Flushes standard output. err: 0, or the negative errno of the printing function. Returns 0 or a
 * negative errno, with a message that names `what` ("the table"; NULL: none), but for -ECANCELED. A
 * reader that closed its end of the pipe (head) is no error.
 */
int std_out__end(const char *what, int err);

#endif /* BASE_LOG_H */
