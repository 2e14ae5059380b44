/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Another ptbpf that `ptbpf sample` starts by exec, and the ends of its pipes: it reports lines of
 * JSON (--progress-fd), reads lines (--notes-fd), and what it prints on stderr is printed here. It
 * gets SIGTERM when ptbpf sample ends.
 */
#ifndef SAMPLE_CHILD_H
#define SAMPLE_CHILD_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Words of a command line; zeroed: none. */
struct words {
	char **list; /* NULL-terminated */
	uint32_t cnt, cap;
};

void words__add(struct words *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void words__copy(struct words *w, const struct words *from);
void words__free(struct words *w);

struct child_pipe {
	int fd; /* -1: it has ended */
	char *buf;
	uint32_t len, cap, at; /* at: from there on it has not been taken */
};

struct sample_child {
	pid_t pid; /* 0: none */
	int pidfd;
	int notes; /* where its lines are written to; -1: that is over */
	struct child_pipe progress, messages;
	pid_t stuck; /* a read of the memory of this process is not answered, -1: not known which; it may never end. 0: no */
};

/*
 * words: its command and options, to which those of the pipes are added. keep: a descriptor that it
 * shares, so that a lock lasts as long as it does; -1: none. 0 or negative errno.
 */
int sample_child__start(struct sample_child *c, struct words *words, int keep);
/* Writes lines for it. Negative errno: it has ended, or does not read. */
int sample_child__note(struct sample_child *c, const char *text);
void sample_child__end_notes(struct sample_child *c);
/* The next line that it has reported, to be freed; NULL: none yet. Also prints its messages. */
cJSON *sample_child__read(struct sample_child *c);
/* It has ended, or is stuck. */
bool sample_child__ended(const struct sample_child *c);
/* Waits for its end, unless it is stuck, and closes the pipes. Its exit code; negative: minus
 * the signal; -1000: it is stuck. */
#define SAMPLE_CHILD_STUCK (-1000)
int sample_child__end(struct sample_child *c);

/* Numbers of a line; 0 where it has none. */
uint64_t child_line__u64(const cJSON *line, const char *key);
uint64_t child_line__whole(const cJSON *number);
double child_line__double(const cJSON *line, const char *key);
uint64_t child_line__ns(const cJSON *line, const char *key); /* of seconds */
bool child_line__bool(const cJSON *line, const char *key);
/* Copies a text; "": there is none. */
void child_line__text(const cJSON *line, const char *key, char *buf, size_t cap);

#endif /* SAMPLE_CHILD_H */
