/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Drives the programs of tests/workloads and collects what the rings deliver, for tests of
 * user/probe. */
#ifndef TESTS_PROBE_TARGET_H
#define TESTS_PROBE_TARGET_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "probe/probe_set.h"

struct target {
	pid_t pid;
	const char *path;
	FILE *to;
	int from;
	char buf[8192];
	uint32_t len;
	struct {
		char name[32];
		uint64_t value;
	} values[64];
	uint32_t value_cnt;
};

/* Starts it and reads its sites; aborts the test program when that fails. */
void target__start(struct target *t, const char *path);
void target__read_sites(struct target *t); /* again, after exec */
uint64_t target__value(const struct target *t, const char *name);
void target__send(struct target *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Reads "done N" within the deadline; false: it died or is late. */
bool target__answer(struct target *t, uint64_t *sum);
uint64_t target__run(struct target *t, const char *command); /* send + answer; ~0 on failure */
int target__stop(struct target *t);                          /* closes its input; wait status */
/* Where it has the code at this offset of the file. */
uint64_t target__code_addr(const struct target *t, uint64_t offset);
/* Writes one byte of code, as a process that changes its own; what was there. */
uint8_t target__swap_code(const struct target *t, uint64_t addr, uint8_t byte);

/* Copies of records in delivery order, per ring one after the other. */
struct records {
	struct ptb_rec_hdr **items;
	uint32_t cnt, cap;
};
void records__collect(struct records *r, struct probe_set *ps);
void records__clear(struct records *r);
void records__sort_by_time(struct records *r);
uint32_t records__count(const struct records *r, uint8_t kind, uint32_t site);
const void *records__find(const struct records *r, uint8_t kind, uint32_t nth); /* NULL: not there */
/* The text tail of a record with a fixed part of `fixed` bytes equals `text`. */
bool record__text_is(const void *rec, size_t fixed, uint32_t text_len, const char *text);

/* The two methods to attach; the last is that of kernels without uprobe_multi. */
enum links { LINKS_MULTI, LINKS_TRACE };
struct probe_set *open_set(uint64_t ring_bytes, enum links links, bool tasks);
struct probe_set *open_memory_set(enum links links); /* with tasks, allocators and kernel memory */
struct probe_set *open_args_set(enum links links, enum probe_args args);
/* Sets the instructions of the sites to the file's bytes there, as if they had been analysed. */
void take_insns(struct probe_lib *lib);
/* Attaches one site per (name, program) pair, ids from 1; returns what add_process returns. */
struct named_site {
	const char *name;
	uint8_t prog;
	uint32_t args; /* argument program */
};
/* Entry and end of the target's operator; of its two functions, one in the other, through which it throws. */
extern const struct named_site op_sites[2], throw_sites[4];
int attach_sites_to(struct probe_set *ps, struct target *t, const struct ptb_proc_cfg *facts,
		    const struct named_site *sites, uint32_t cnt, uint32_t *proc);

/* Uprobes that are defined in tracefs in a name of ptbpf process `pid`. */
uint32_t trace_events_of(pid_t pid);

/* True, with the reason printed, when this machine cannot run these tests. */
bool must_skip(void);
#define PROBE_SUITE(name)                                                                          \
	int main(void)                                                                             \
	{                                                                                          \
		return must_skip() ? 77 : run_suite(name);                                         \
	}

/* TEST() by both kinds of `links`. */
#define TEST_LINKS(what)                                                                           \
	static void SUITE_ID(run_, __LINE__)(enum links links);                                    \
	static void SUITE_ID(multi_, __LINE__)(void)                                               \
	{                                                                                          \
		SUITE_ID(run_, __LINE__)(LINKS_MULTI);                                             \
	}                                                                                          \
	static void SUITE_ID(trace_, __LINE__)(void)                                               \
	{                                                                                          \
		SUITE_ID(run_, __LINE__)(LINKS_TRACE);                                             \
	}                                                                                          \
	__attribute__((constructor)) static void SUITE_ID(add_, __LINE__)(void)                    \
	{                                                                                          \
		suite__add(__LINE__, what " (uprobe_multi)", SUITE_ID(multi_, __LINE__));          \
		suite__add(__LINE__, what " (tracefs)", SUITE_ID(trace_, __LINE__));               \
	}                                                                                          \
	static void SUITE_ID(run_, __LINE__)(enum links links)

/*
 * Linux 7.0 and later preempt programs at tracepoints where the kernel is preempted anywhere (commit a46023d5616e). Meanwhile
 * the same program is skipped for other threads of that processor, and counted (PTB_CNT_MISSED).
 */
bool kernel_may_skip(void);

#endif /* TESTS_PROBE_TARGET_H */
