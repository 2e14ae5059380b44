/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The table of operators in a live process: c10::Dispatcher, read from outside (pytorch aten/src/ATen/core/dispatch/Dispatcher.h). */
#ifndef TARGET_LIVE_OPS_H
#define TARGET_LIVE_OPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct live_op {
	uint64_t opdef; /* address of OperatorDef */
	char *name;     /* "aten::add.Tensor", "mylib::foo" */
	bool unobserved; /* torch's profiler never records it (OperatorEntry::is_observed_ is false) */
};

struct live_ops {
	struct live_op *ops;
	uint32_t cnt;
	bool observed_known;   /* is_observed_ could be located (by agreement over all operators) */
	uint32_t observed_off; /* then: where it is */
};

/*
 * Walks c10::Dispatcher's operator list from outside. `singleton` addresses come from the plan
 * (runtime addresses of c10::Dispatcher::singleton()::s in each library; the non-zero one counts).
 * observed_off: where is_observed_ was in another process with these libraries, which is tried first, since to locate
 * it is the larger part of the work; 0: not known.
 * At most 100,000 nodes; stops on next == head. 0 or negative errno.
 */
int live_ops__read(pid_t pid, const uint64_t *singletons, uint32_t cnt, bool old_string_abi,
		   uint32_t observed_off, struct live_ops *out);
void live_ops__free(struct live_ops *lo);
/* The address of the last one, which is another when one was added since: three small reads. 0 or negative errno. */
int live_ops__tail(pid_t pid, const uint64_t *singletons, uint32_t cnt, uint64_t *tail);

/* What a reader has of the table already. */
struct live_ops_seen {
	bool (*known)(void *arg, uint64_t opdef);
	void *arg;
	uint32_t observed_off; /* of an earlier reading */
	bool old_string_abi;
};
/* The operators after the last known one, newest first. 0; -E2BIG: so many that all should be read; -EAGAIN: they
 * are being registered; another negative errno. */
int live_ops__newest(pid_t pid, const uint64_t *singletons, uint32_t cnt,
		     const struct live_ops_seen *seen, struct live_ops *out);
/* Reads one operator's name by its OperatorDef address (registered after the walk). */
int live_ops__name_at(pid_t pid, uint64_t opdef, bool old_string_abi, char *buf, size_t cap);

#endif /* TARGET_LIVE_OPS_H */
