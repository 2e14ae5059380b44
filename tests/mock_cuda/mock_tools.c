/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Calls and activities to a tool; see mock_tools.h. */
#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "mock_tools.h"

#define MAX_DEPTH 8

struct call {
	enum mock_domain domain;
	const char *name;
	uint64_t begin;
};

static __thread struct call calls[MAX_DEPTH];
static __thread int depth;
static __thread uint32_t correlation;
static uint32_t last_correlation;
static mock_report_fn tool;
static mock_node_fn _Atomic node_tool;
int mock_cuda_listening;

uint64_t mock_tools__now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ULL + (uint64_t)ts.tv_nsec;
}

void mock_cuda_listen(mock_report_fn report)
{
	__atomic_store_n(&tool, report, __ATOMIC_RELEASE);
	mock_driver__set_tools(report != NULL);
	__atomic_store_n(&mock_cuda_listening, report != NULL, __ATOMIC_RELEASE);
}

void mock_cuda_watch_nodes(mock_node_fn node_made)
{
	node_tool = node_made;
}

void mock_tools__node_made(const struct mock_activity *node, const struct mock_activity *original)
{
	mock_node_fn node_made = node_tool;

	if (node_made)
		node_made(node, original);
}

void mock_tools__report(struct mock_activity *a)
{
	mock_report_fn report = __atomic_load_n(&tool, __ATOMIC_ACQUIRE);

	a->correlation = correlation;
	a->tid = (uint32_t)syscall(SYS_gettid);
	a->pthread = (uint64_t)pthread_self();
	if (report)
		report(a);
}

void mock_call_begin(enum mock_domain domain, const char *name)
{
	if (!depth)
		correlation = __atomic_add_fetch(&last_correlation, 1, __ATOMIC_RELAXED);
	if (depth < MAX_DEPTH) {
		calls[depth].domain = domain;
		calls[depth].name = name;
		calls[depth].begin = mock_tools__now();
	}
	depth++;
}

void mock_call_end(int result)
{
	struct mock_activity a = { .what = MOCK_CALL, .result = result };

	if (!depth || --depth >= MAX_DEPTH)
		return;
	a.nested = depth > 0;
	a.domain = calls[depth].domain;
	a.name = calls[depth].name;
	a.begin = calls[depth].begin;
	a.end = mock_tools__now();
	mock_tools__report(&a);
}
