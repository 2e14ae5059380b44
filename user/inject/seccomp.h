/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Whether the target's seccomp filters allow what is injected. */
#ifndef INJECT_SECCOMP_H
#define INJECT_SECCOMP_H

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * What a seccomp filter can answer to a system call, of which not everything need be known: where
 * the filter tests what is not known, both paths are followed. So the answers are all that the
 * kernel could get, and with everything known the one that it gets. Programs are hostile bytes:
 * everything is bounded, nothing is run.
 */

#define SECCOMP_PROG_MAX BPF_MAXINSNS
#define SECCOMP_ANSWERS_MAX 24
#define SECCOMP_WORDS (sizeof(struct seccomp_data) / 4)

struct seccomp_prog {
	const struct sock_filter *insns;
	uint32_t len;
};

/* One bit for each 32-bit word of struct seccomp_data, in its order. */
#define SECCOMP_KNOWN_NR 0x1u
#define SECCOMP_KNOWN_ARCH 0x2u
#define SECCOMP_KNOWN_LOW(arg) (1u << (4 + 2 * (arg)))
#define SECCOMP_KNOWN_ALL 0xffffu

struct seccomp_call {
	struct seccomp_data data;
	uint32_t known;
};

struct seccomp_answers {
	uint32_t ret[SECCOMP_ANSWERS_MAX];
	uint32_t cnt;
	bool any; /* and others, that are not known */
};

/* 0; -EINVAL: no program that the kernel would take (Linux kernel/seccomp.c,
 * seccomp_check_filter()). */
int seccomp_eval__check(const struct seccomp_prog *prog);

struct seccomp_scratch; /* memory for the work, for any number of programs one after the other */
struct seccomp_scratch *seccomp_scratch__new(void);
void seccomp_scratch__free(struct seccomp_scratch *s);

/* `prog` has passed the check. Replaces what `out` has. */
void seccomp_eval__run(struct seccomp_scratch *s, const struct seccomp_prog *prog,
		       const struct seccomp_call *call, struct seccomp_answers *out);

/* What the kernel makes of the answers of two filters: the stricter, and of two alike that of the
 * newer one. */
void seccomp_eval__both(const struct seccomp_answers *newer, const struct seccomp_answers *older,
			struct seccomp_answers *out);

/*
 * May a thread with seccomp filters load the agent? Only if they let each system call through that
 * the loader, the agent's constructor and its thread make, or answer it with an error that these
 * cope with. A filter that is not understood, or whose answer hangs on what is not known
 * beforehand, is a no.
 */

/* The filters, the oldest first. rseq: threads register for restartable sequences, and must be able
 * to (glibc from 2.35). 0; -EPERM: no (why: a sentence). */
int seccomp_check__progs(const struct seccomp_prog *progs, uint32_t cnt, bool rseq, char *why,
			 size_t cap);

/* The same for a thread that the caller traces and that is stopped; also other errors, where its
 * filters cannot be read. */
int seccomp_check__thread(pid_t tid, bool rseq, char *why, size_t cap);

/* The idx-th call that an injection, or the agent after it, makes or may make. *spare: any error
 * will do. False: there are no more. */
bool seccomp_check__call(uint32_t idx, struct seccomp_call *out, bool *spare);

#endif /* INJECT_SECCOMP_H */
