/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Kernel memory events that do not happen by themselves: the target or a cgroup brings them about. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/magic.h>

#include "kmem_sums.h"
#include "suite.h"

#define SCAN_SUCCEED 1 /* mm/khugepaged.c, enum scan_result */

/* Attempts may fail before one succeeds, and the kernel's own thread may be the first to succeed. */
static void check_attempts(const struct records *r, uint32_t pid)
{
	const struct ptb_kmem_event *e;
	uint64_t pages = 0;

	for (uint32_t i = 0; (e = records__find(r, PTB_REC_KMEM_EVENT, i)); i++) {
		if (e->what != PTB_KMEM_HUGE_PAGE)
			continue;
		CU_ASSERT_EQUAL(e->h.tgid, pid);
		CU_ASSERT(e->h.tid == pid || !e->h.tid);
		CU_ASSERT_EQUAL(e->pages, e->failed == SCAN_SUCCEED ? 512 : 0);
		pages += e->pages;
	}
	CU_ASSERT_EQUAL(pages, 512);
}

TEST("a huge page")
{
	struct records r = {};
	struct probe_set *ps;
	struct target t;
	uint64_t err;
	char line[64];

	ps = open_traced(&t);
	probe_set__activate(ps);
	target__run(&t, "work 3 1024");
	snprintf(line, sizeof(line), "work %d 0", DO_COLLAPSE);
	err = target__run(&t, line);
	records__collect(&r, ps);
	if (err == EINVAL) {
		printf("SKIP: this kernel puts no huge pages together on request ");
	} else {
		CU_ASSERT_EQUAL(err, 0);
		check_attempts(&r, (uint32_t)t.pid);
	}
	records__clear(&r);
	probe_set__free(ps);
	CU_ASSERT_EQUAL(target__stop(&t), 0);
}

/* The target has the whole machine's memory compacted, and is stopped meanwhile. */
TEST("compaction")
{
	const struct ptb_kmem_stall *s;
	struct records r = {};
	struct probe_set *ps;
	struct target t;
	uint64_t err, reported = 0;
	struct sums sums;
	char line[64];

	ps = open_traced(&t);
	probe_set__activate(ps);
	snprintf(line, sizeof(line), "work %d 0", DO_COMPACT);
	err = target__run(&t, line);
	probe_set__flush_sums(ps);
	records__collect(&r, ps);
	if (err) {
		printf("SKIP: memory cannot be compacted on request: %s ", strerror((int)err));
	} else {
		sums = sum_between(&r, &t, 0, ~0ull);
		CU_ASSERT(sums.compactions > 0);
		for (uint32_t i = 0; (s = records__find(&r, PTB_REC_KMEM_STALL, i)); i++) {
			CU_ASSERT_EQUAL(s->what, PTB_STALL_COMPACTION);
			CU_ASSERT(s->h.ts_ns - s->begin_ns >= PTB_KMEM_STALL_MIN_NS);
			reported += s->h.ts_ns - s->begin_ns;
		}
		CU_ASSERT(reported <= sums.compact_ns);
		CU_ASSERT(reported >= sums.compact_ns / 2);
	}
	records__clear(&r);
	probe_set__free(ps);
	CU_ASSERT_EQUAL(target__stop(&t), 0);
}

#define LIMIT (24 << 20)

static bool write_to(const char *dir, const char *name, const char *text)
{
	char path[256];
	FILE *f;
	bool good;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "we");
	if (!f)
		return false;
	good = fputs(text, f) >= 0;
	return !fclose(f) && good;
}

/* A memory cgroup with a limit and the process in it: version 1 or 2, whichever there is. */
static bool make_cgroup(char *dir, size_t cap, pid_t pid)
{
	static const char *const cgroups[][2] = {
		{ "/sys/fs/cgroup/memory", "memory.limit_in_bytes" },
		{ "/sys/fs/cgroup", "memory.max" },
	};
	char limit[32], who[32];

	snprintf(limit, sizeof(limit), "%d", LIMIT);
	snprintf(who, sizeof(who), "%d", (int)pid);
	for (int i = 0; i < 2; i++) {
		snprintf(dir, cap, "%s/ptbpf-unit-%d", cgroups[i][0], (int)getpid());
		if (mkdir(dir, 0755))
			continue;
		if (write_to(dir, cgroups[i][1], limit) && write_to(dir, "cgroup.procs", who)) {
			write_to(dir, "memory.swap.max", "0");
			write_to(dir, "memory.swappiness", "0");
			return true;
		}
		rmdir(dir);
	}
	return false;
}

/* Traced, in a cgroup with a limit; NULL: there is none to be had here. */
static struct probe_set *open_limited(struct target *t, char *dir, size_t cap)
{
	struct probe_set *ps = open_traced(t);

	if (make_cgroup(dir, cap, t->pid)) {
		probe_set__activate(ps);
		return ps;
	}
	printf("SKIP: no memory cgroup can be made here ");
	probe_set__free(ps);
	CU_ASSERT_EQUAL(target__stop(t), 0);
	return NULL;
}

static bool is_memory(const char *dir)
{
	struct statfs fs;

	return statfs(dir, &fs) == 0 && (fs.f_type == TMPFS_MAGIC || fs.f_type == RAMFS_MAGIC);
}

/* A file larger than the limit: the kernel takes its pages back. */
TEST("a limit: reclaim")
{
	const struct ptb_kmem_stall *s;
	struct records r = {};
	struct probe_set *ps;
	char dir[128], line[64];
	struct sums sums;
	struct target t;

	if (is_memory("/var/tmp")) {
		printf("SKIP: a file in /var/tmp is memory that cannot be taken back ");
		return;
	}
	ps = open_limited(&t, dir, sizeof(dir));
	if (!ps)
		return;
	snprintf(line, sizeof(line), "work %d %d", DO_FILE, 4 * LIMIT / 4096);
	CU_ASSERT_NOT_EQUAL(target__run(&t, line), ~0ull);
	records__collect(&r, ps);
	sums = sum_between(&r, &t, 0, ~0ull);
	CU_ASSERT(sums.reclaims > 0 && sums.reclaim_ns > 0);
	for (uint32_t i = 0; (s = records__find(&r, PTB_REC_KMEM_STALL, i)); i++) {
		CU_ASSERT_EQUAL(s->what, PTB_STALL_MEMCG_RECLAIM);
		CU_ASSERT_EQUAL(s->h.tid, (uint32_t)t.pid);
	}
	records__clear(&r);
	probe_set__free(ps);
	CU_ASSERT_EQUAL(target__stop(&t), 0);
	CU_ASSERT_EQUAL(rmdir(dir), 0);
}

/* More memory than the limit: the kernel kills, and what the thread did until then is not lost with it. */
TEST("a limit: the OOM killer")
{
	const struct ptb_kmem_event *e = NULL;
	const struct ptb_rec_hdr *last_enter = NULL;
	struct records r = {};
	struct probe_set *ps;
	char dir[128];
	struct sums sums;
	struct target t;
	int status;

	ps = open_limited(&t, dir, sizeof(dir));
	if (!ps)
		return;
	target__run(&t, "region 16384");
	target__send(&t, "work %d 16384", DO_WRITE);
	status = target__stop(&t);
	CU_ASSERT(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	probe_set__flush_sums(ps);
	records__collect(&r, ps);
	last_enter = records__find(&r, PTB_REC_OP_ENTER,
				   records__count(&r, PTB_REC_OP_ENTER, WORK_ENTER) - 1);
	for (uint32_t i = 0; (e = records__find(&r, PTB_REC_KMEM_EVENT, i)); i++)
		if (e->what == PTB_KMEM_OOM_KILL)
			break;
	CU_ASSERT_FATAL(e && last_enter);
	CU_ASSERT(e->h.ts_ns > last_enter->ts_ns);
	CU_ASSERT(e->h.tgid == (uint32_t)t.pid && e->by_tgid == e->h.tgid && e->by_tid == e->h.tid);
	CU_ASSERT(e->pages > LIMIT / 4096 / 2 && e->pages <= LIMIT / 4096 + 4096);
	sums = sum_between(&r, &t, last_enter->ts_ns, ~0ull);
	CU_ASSERT(sums.minor > LIMIT / 4096 / 2);
	records__clear(&r);
	probe_set__free(ps);
	CU_ASSERT_EQUAL(rmdir(dir), 0);
}

PROBE_SUITE("probe_kmem_rare")
