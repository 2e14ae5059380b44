/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A session made of plain values, for tests of exporters: replaces user/model, so that an exporter
 * can report anything, also what no capture would contain.
 */
#ifndef TESTS_FAKE_SESSION_H
#define TESTS_FAKE_SESSION_H

#include "model/session.h"

#define FAKE_META_MAX 8
#define FAKE_NAME_MAX 8

struct session {
	struct session_info info;
	uint64_t counters[PTB_CNT_MAP];
	struct {
		const char *key, *json;
	} meta[FAKE_META_MAX];
	const char *comm;                 /* of every thread */
	const char *names[FAKE_NAME_MAX]; /* by name id */
	const struct memory_block *live;  /* at the end */
	uint32_t live_cnt;
	uint64_t step_order;              /* of the slice SESSION_STEP_ID */
	const struct py_frame *py_frames; /* by number - 1 */
	uint32_t py_frame_cnt;
	const struct py_stack *py_stacks; /* by number - 1 */
	uint32_t py_stack_cnt;
};

/* One sealed second of process 100 that began at 5 s; nothing lost. */
struct session fake_session(void);

/* Bits of a tensor's keys in these sessions. */
#define FAKE_KEY_NESTED 0x10u
#define FAKE_KEY_SPARSE 0x20u
#define FAKE_KEY_CSR 0x40u

/* A slice of thread 100/100 that tests change as they need. */
struct slice fake_slice(uint64_t id, const char *name, uint64_t begin_ns, uint64_t end_ns);

#endif /* TESTS_FAKE_SESSION_H */
