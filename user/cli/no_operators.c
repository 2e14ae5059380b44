/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* When a window has nothing in it: what its processes did instead, and who may be meant. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/proc_read.h"
#include "base/text.h"
#include "cli/live.h"
#include "target/proc_info.h"
#include "target/torch.h"

#define KIDS_MAX 16 /* that are named */
#define CALLS_MAX 4 /* where threads wait, that are named */
#define DEPTH_MAX 8 /* of descendants that are inspected */
#define THREADS_MAX 4096

struct kids {
	pid_t pids[KIDS_MAX];
	uint32_t cnt;
};

static void find_kids(pid_t pid, uint32_t depth, struct kids *found)
{
	pid_t *kids = NULL;
	int n = proc__children(pid, &kids);

	for (int i = 0; i < n; i++) {
		if (found->cnt < KIDS_MAX && torch_proc__peek(kids[i]) > 0)
			found->pids[found->cnt++] = kids[i];
		if (depth < DEPTH_MAX)
			find_kids(kids[i], depth + 1, found);
	}
	free(kids);
}

void no_operators__say_children(pid_t pid)
{
	struct kids kids = { .cnt = 0 };
	char list[KIDS_MAX * 12] = "";
	size_t len = 0;

	find_kids(pid, 0, &kids);
	for (uint32_t i = 0; i < kids.cnt; i++)
		len += (size_t)snprintf(list + len, sizeof(list) - len, "%s%d", i ? "," : "",
					kids.pids[i]);
	if (kids.cnt)
		pr_hint("child%s %s of pid %d run%s PyTorch: use --children, or --pid %s",
			kids.cnt == 1 ? "" : "ren", list, pid, kids.cnt == 1 ? "s" : "", list);
}

struct states {
	uint32_t threads, running, waiting;
	char calls[CALLS_MAX][48]; /* of the kernel's functions in which threads wait */
	uint32_t call_cnt;
};

static void take_thread(pid_t pid, pid_t tid, struct states *s)
{
	struct thread_status st;
	char *call = NULL;
	size_t len;
	uint32_t i = 0;

	if (thread_status__read(pid, tid, &st))
		return;
	s->threads++;
	if (st.state == 'R')
		s->running++;
	if (st.state == 'R' || proc_file__read(pid, tid, "wchan", &call, &len))
		return;
	s->waiting++;
	while (i < s->call_cnt && strcmp(s->calls[i], call) != 0)
		i++;
	if (i == s->call_cnt && i < CALLS_MAX && *call && strcmp(call, "0") != 0)
		snprintf(s->calls[s->call_cnt++], sizeof(s->calls[0]), "%s", call);
	free(call);
}

static void say_states(pid_t pid)
{
	struct states s = { .threads = 0 };
	pid_t *tids = NULL;
	int n = proc__threads(pid, &tids);
	char calls[CALLS_MAX * 50] = "";
	size_t len = 0;

	for (int i = 0; i < n && i < THREADS_MAX; i++)
		take_thread(pid, tids[i], &s);
	free(tids);
	for (uint32_t i = 0; i < s.call_cnt; i++)
		len += (size_t)snprintf(calls + len, sizeof(calls) - len, "%s%s",
					i ? ", " : " in the Linux kernel's ", s.calls[i]);
	if (s.threads)
		pr_info("pid %d: of its %u thread%s %u run%s and %u wait%s%s", pid, s.threads,
			plural(s.threads, "s"), s.running, s.running == 1 ? "s" : "", s.waiting,
			s.waiting == 1 ? "s" : "", calls);
}

void no_operators__say(const struct run_cfg *cfg, uint64_t window_ns)
{
	pr_warn("no operator ran in these %.3g s", (double)window_ns / 1e9);
	for (uint32_t i = 0; i < cfg->pids.cnt; i++) {
		say_states(cfg->pids.pids[i]);
		if (!cfg->rec.children)
			no_operators__say_children(cfg->pids.pids[i]);
	}
}
