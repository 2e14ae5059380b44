/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See probe_target.h. */
#include "probe_target.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <signal.h>
#include <unistd.h>

#include "base/containers.h"
#include "probe/probe_set.h"

const struct named_site op_sites[2] = {
	{ "site_op_enter", PTB_PROG_OP_ENTER, 0 },
	{ "site_op_exit", PTB_PROG_OP_EXIT, 0 },
};
const struct named_site throw_sites[4] = {
	{ "site_outer_enter", PTB_PROG_OP_ENTER, 0 },
	{ "site_outer_exit", PTB_PROG_OP_EXIT, 0 },
	{ "site_inner_enter", PTB_PROG_OP_ENTER, 0 },
	{ "site_inner_exit", PTB_PROG_OP_EXIT, 0 },
};

#define DEADLINE_MS 300000 /* for a hung one only: a busy machine may be very slow */

static void must(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "test set-up failed: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* One line without its end; NULL: end of file or too late. Valid until the next call. */
static char *read_line(struct target *t, char *line, size_t cap)
{
	struct pollfd pfd = { .fd = t->from, .events = POLLIN };

	for (;;) {
		char *end = memchr(t->buf, '\n', t->len);
		ssize_t n;

		if (end) {
			uint32_t len = (uint32_t)(end - t->buf);

			must(len < cap, "line too long");
			memcpy(line, t->buf, len);
			line[len] = '\0';
			t->len -= len + 1;
			memmove(t->buf, end + 1, t->len);
			return line;
		}
		if (poll(&pfd, 1, DEADLINE_MS) <= 0)
			return NULL;
		n = read(t->from, t->buf + t->len, sizeof(t->buf) - t->len);
		if (n <= 0)
			return NULL;
		t->len += (uint32_t)n;
	}
}

void target__read_sites(struct target *t)
{
	char line[256];

	t->value_cnt = 0;
	while (read_line(t, line, sizeof(line))) {
		if (!strcmp(line, "ready"))
			return;
		must(t->value_cnt < 64 && sscanf(line, "site %31s %lu", t->values[t->value_cnt].name,
						 &t->values[t->value_cnt].value) == 2,
		     line);
		t->value_cnt++;
	}
	must(false, "target ended early");
}

void target__start(struct target *t, const char *path)
{
	int down[2], up[2];

	memset(t, 0, sizeof(*t));
	t->path = path;
	must(!pipe(down) && !pipe(up), "pipe");
	t->pid = fork();
	must(t->pid >= 0, "fork");
	if (t->pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(down[0], 0);
		dup2(up[1], 1);
		close_range(3, ~0u, 0);
		execl(path, path, (char *)NULL);
		_exit(127);
	}
	close(down[0]);
	close(up[1]);
	t->to = fdopen(down[1], "w");
	t->from = up[0];
	must(t->to != NULL, "fdopen");
	target__read_sites(t);
}

uint64_t target__value(const struct target *t, const char *name)
{
	for (uint32_t i = 0; i < t->value_cnt; i++)
		if (!strcmp(t->values[i].name, name))
			return t->values[i].value;
	must(false, name);
	return 0;
}

void target__send(struct target *t, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vfprintf(t->to, fmt, ap);
	va_end(ap);
	fputc('\n', t->to);
	fflush(t->to);
}

bool target__answer(struct target *t, uint64_t *sum)
{
	char line[256];

	return read_line(t, line, sizeof(line)) && sscanf(line, "done %lu", sum) == 1;
}

uint64_t target__run(struct target *t, const char *command)
{
	uint64_t sum;

	target__send(t, "%s", command);
	return target__answer(t, &sum) ? sum : ~0ull;
}

int target__stop(struct target *t)
{
	int status = -1;

	fclose(t->to);
	close(t->from);
	waitpid(t->pid, &status, 0);
	return status;
}

uint64_t target__code_addr(const struct target *t, uint64_t offset)
{
	unsigned long start, end, off, addr = 0;
	char path[32], line[512], perms[5];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)t->pid);
	f = fopen(path, "r");
	must(f != NULL, path);
	while (!addr && fgets(line, sizeof(line), f))
		if (sscanf(line, "%lx-%lx %4s %lx", &start, &end, perms, &off) == 4 &&
		    perms[2] == 'x' && off <= offset && offset - off < end - start)
			addr = start + (offset - off);
	fclose(f);
	return addr;
}

/* Some kernels let only its tracer do that. */
uint8_t target__swap_code(const struct target *t, uint64_t addr, uint8_t byte)
{
	long word;

	must(!ptrace(PTRACE_ATTACH, t->pid, NULL, NULL), "PTRACE_ATTACH");
	must(waitpid(t->pid, NULL, __WALL) == t->pid, "waitpid");
	errno = 0;
	word = ptrace(PTRACE_PEEKTEXT, t->pid, (void *)addr, NULL);
	must(!errno, "PTRACE_PEEKTEXT");
	must(!ptrace(PTRACE_POKETEXT, t->pid, (void *)addr, (void *)((word & ~0xffl) | byte)),
	     "PTRACE_POKETEXT");
	must(!ptrace(PTRACE_DETACH, t->pid, NULL, NULL), "PTRACE_DETACH");
	return (uint8_t)word;
}

/* ---- records ---- */

static void keep(void *arg, uint32_t ring, const void *rec, uint32_t len)
{
	struct records *r = arg;

	(void)ring;
	must(((const struct ptb_rec_hdr *)rec)->len == len, "record length");
	vec_push(r->items, r->cnt, r->cap, vec_dup(rec, len, 1));
}

void records__collect(struct records *r, struct probe_set *ps)
{
	for (uint32_t i = 0; i < probe_set__ring_cnt(ps); i++)
		must(probe_set__drain(ps, i, keep, r) >= 0, "drain");
}

void records__clear(struct records *r)
{
	for (uint32_t i = 0; i < r->cnt; i++)
		free(r->items[i]);
	free(r->items);
	memset(r, 0, sizeof(*r));
}

void records__sort_by_time(struct records *r)
{
	for (uint32_t i = 1; i < r->cnt; i++) {
		struct ptb_rec_hdr *x = r->items[i];
		uint32_t k = i;

		for (; k && r->items[k - 1]->ts_ns > x->ts_ns; k--)
			r->items[k] = r->items[k - 1];
		r->items[k] = x;
	}
}

uint32_t records__count(const struct records *r, uint8_t kind, uint32_t site)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < r->cnt; i++)
		n += r->items[i]->kind == kind && r->items[i]->site == site;
	return n;
}

const void *records__find(const struct records *r, uint8_t kind, uint32_t nth)
{
	for (uint32_t i = 0; i < r->cnt; i++)
		if (r->items[i]->kind == kind && nth-- == 0)
			return r->items[i];
	return NULL;
}

bool record__text_is(const void *rec, size_t fixed, uint32_t text_len, const char *text)
{
	const struct ptb_rec_hdr *h = rec;
	const char *tail = (const char *)rec + fixed;
	size_t padded = (text_len + 7u) & ~7u;

	if (h->len != fixed + padded || text_len != strlen(text) || memcmp(tail, text, text_len))
		return false;
	for (size_t i = text_len; i < padded; i++)
		if (tail[i])
			return false;
	return true;
}

/* ---- probes ---- */

struct probe_set *open_set(uint64_t ring_bytes, enum links links, bool tasks)
{
	struct probe_set_opts opts = { .ring_bytes = ring_bytes,
				       .follow_tasks = tasks,
				       .force_perf = links != LINKS_MULTI };
	struct probe_set *ps = NULL;

	must(!probe_set__open(&opts, &ps), "probe_set__open");
	return ps;
}

struct probe_set *open_memory_set(enum links links)
{
	struct probe_set_opts opts = { .ring_bytes = 1 << 23,
				       .follow_tasks = true,
				       .force_perf = links != LINKS_MULTI,
				       .memory = true,
				       .kernel_memory = true };
	struct probe_set *ps = NULL;

	must(!probe_set__open(&opts, &ps), "probe_set__open");
	return ps;
}

struct probe_set *open_args_set(enum links links, enum probe_args args)
{
	struct probe_set_opts opts = { .force_perf = links != LINKS_MULTI, .args = args };
	struct probe_set *ps = NULL;

	must(!probe_set__open(&opts, &ps), "probe_set__open");
	return ps;
}

void take_insns(struct probe_lib *lib)
{
	int fd = open(lib->access_path, O_RDONLY | O_CLOEXEC);

	must(fd >= 0, lib->access_path);
	lib->name = lib->access_path;
	for (uint32_t i = 0; i < lib->cnt; i++) {
		lib->sites[i].insn_len = 1;
		must(pread(fd, lib->sites[i].insn, 1, (off_t)lib->sites[i].offset) == 1, "pread");
	}
	close(fd);
}

int attach_sites_to(struct probe_set *ps, struct target *t, const struct ptb_proc_cfg *facts,
		    const struct named_site *sites, uint32_t cnt, uint32_t *proc)
{
	struct probe_site list[32] = {};
	struct probe_lib lib = { .access_path = t->path, .sites = list, .cnt = cnt };
	struct ptb_proc_cfg cfg = {};
	uint32_t idx;

	if (facts)
		cfg = *facts;
	cfg.tgid = (uint32_t)t->pid;
	must(cnt <= 32, "sites");
	for (uint32_t i = 0; i < cnt; i++) {
		list[i].id = i + 1;
		list[i].offset = target__value(t, sites[i].name);
		list[i].prog = sites[i].prog;
		list[i].args = sites[i].args;
	}
	take_insns(&lib);
	return probe_set__add_process(ps, &cfg, &lib, 1, proc ? proc : &idx);
}

uint32_t trace_events_of(pid_t pid)
{
	int fs = fsopen("tracefs", FSOPEN_CLOEXEC), dir, fd;
	char *line = NULL;
	size_t cap = 0;
	uint32_t n = 0;
	FILE *f;
	int owner;

	must(fs >= 0 && !fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0), "tracefs");
	dir = fsmount(fs, FSMOUNT_CLOEXEC, 0);
	fd = openat(dir, "uprobe_events", O_RDONLY | O_CLOEXEC);
	f = fdopen(fd, "r");
	must(f != NULL, "uprobe_events");
	while (getline(&line, &cap, f) > 0)
		n += sscanf(line, "p:ptbpf_%*u_%d/", &owner) == 1 && owner == (int)pid;
	free(line);
	fclose(f);
	close(dir);
	close(fs);
	return n;
}

bool must_skip(void)
{
	char detail[256];
	const struct feature *f = kern_features__blocker(detail, sizeof(detail));

	if (f)
		printf("SKIP: %s: %s\n", f->title, detail);
	return f != NULL;
}

bool kernel_may_skip(void)
{
	FILE *f = fopen("/sys/kernel/debug/sched/preempt", "re");
	char line[128] = "";

	if (f) {
		if (!fgets(line, sizeof(line), f))
			line[0] = '\0';
		fclose(f);
	}
	return strstr(line, "(lazy)") || strstr(line, "(full)");
}
