/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Another ptbpf, started by exec, and what it reports. */
#ifndef SAMPLE_CHILD_H
#define SAMPLE_CHILD_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct words;

struct child_pipe {
	int fd; /* -1: its end has come */
	char *buf;
	uint32_t len, cap, at; /* at: the bytes before it have been taken */
};

/*
 * It reports lines of JSON (--progress-fd), reads lines (--notes-fd), and what it prints on stderr
 * is printed here. It gets SIGTERM when the daemon ends.
 */
struct child {
	pid_t pid; /* 0: there is none */
	int pidfd;
	int notes; /* where its lines are written to; -1: closed */
	struct child_pipe progress, messages;
	/* it waits for this process's memory, and may never end; -1: for one that is not known; 0:
	 * it does not */
	pid_t stuck;
};

/*
 * words: its command and options, which are freed. keep: a descriptor that it shares, so that a
 * lock lasts as long as it does; it is CHILD_KEPT_FD there; -1: none. 0 or negative errno.
 */
#define CHILD_KEPT_FD 5
int child__start(struct child *c, struct words *words, int keep);
/* Writes lines for it. False: it has ended, or does not read. */
bool child__note(struct child *c, const char *text);
void child__end_notes(struct child *c);
/* The next line that it has reported, to be freed, and its "event"; NULL: none yet. Prints its
 * messages. */
cJSON *child__read(struct child *c, const char **event);
bool child__ended(const struct child *c); /* or it is stuck */
/*
 * Waits for its end, unless it is stuck, and closes the pipes. Its exit code, CHILD_STUCK, or minus
 * the signal that ended it.
 */
#define CHILD_STUCK (-1000)
int child__end(struct child *c);

void words__copy(struct words *w, const struct words *from);

/* Values of a line; 0, false or "" where it has none. */
uint64_t line__u64(const cJSON *line, const char *key);
uint64_t line__ns(const cJSON *line, const char *key); /* of seconds */
uint64_t line__number(const cJSON *number);
bool line__bool(const cJSON *line, const char *key);
void line__text(const cJSON *line, const char *key, char *buf, size_t cap);

#endif /* SAMPLE_CHILD_H */
