/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Records of hostile captures; see hostile_capture.c. The cases are in hostile_cases.c. */
#ifndef TESTS_HOSTILE_CAPTURE_H
#define TESTS_HOSTILE_CAPTURE_H

#include <stddef.h>
#include <stdint.h>

#include "ptb_event.h"

#define TGID 100
#define BEGIN_NS 1000ULL
#define END_NS (1ULL << 61)

enum { OP = 1, BOXED, NODE, FIRST_FREE }; /* function ids */

struct hostile_case {
	const char *name;
	void (*put)(void);
	const char *reports; /* that it is aimed at: letters of test_capture_hostile.py */
	uint64_t repeat;     /* of the last block; 0: not */
};

extern const struct hostile_case hostile_cases[]; /* ends with a name that is NULL */
extern uint64_t hostile_scale;

void put_control(void *rec, uint8_t kind, size_t len);
void put_ring(void *rec, uint8_t kind, size_t len, uint64_t ts); /* tgid, tid: TGID where they are 0 */
void put_round(uint64_t watermark_ns);
uint32_t put_name(const char *text);
void put_meta(const char *key, const char *json);
void put_func(uint32_t func, const char *name, uint32_t kind);
void put_process(uint32_t tgid);
void put_clock(uint64_t mono_ns, uint64_t real_ns, uint64_t err_ns);
void put_enter(uint32_t func, uint64_t ts, uint64_t sp);
void put_exit(uint32_t func, uint64_t ts, uint64_t sp);
void put_scope(uint64_t ts, uint64_t sp, uint64_t handle, const char *text);
void put_scope_end(uint64_t ts, uint64_t sp, uint64_t handle);

#endif /* TESTS_HOSTILE_CAPTURE_H */
