/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * NATIVE_STACK records: the C++ stacks of a process's threads, which show the open operators of a
 * process that does nothing. A stack is copied from outside between two readings of the thread's
 * registers, and is valid if the thread has not run between them. A sample of its Python stack is
 * taken in between, too, so that both are from one moment. The record has the time just before the
 * sample.
 */
#define LOG_DOMAIN "recorder"
#include "base/log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/containers.h"
#include "base/limits.h"
#include "base/mem.h"
#include "code/code.h"
#include "probe/probe_set.h"
#include "record/recorder_priv.h"
#include "target/proc.h"

#define ROUNDS 5 /* attempts for threads that run */
#define ROUND_NS 20000000

struct native_stacks {
	pid_t pid;
	struct thread_regs *program;
	struct probe_set *samples;
	struct unwind_thread *threads; /* the threads at the first reading */
	/* By thread: when its stack matched its registers; 0: not yet. */
	uint64_t *done_ns;
	uint32_t cnt;
	uint64_t bytes;
};

struct regs_table {
	struct ptb_thread_regs *rows; /* sorted by tid */
	uint32_t cnt;
};

static int cmp_tid(const void *a, const void *b)
{
	const struct ptb_thread_regs *x = a, *y = b;

	return sort__cmp(x->tid, y->tid);
}

static int read_regs(const struct native_stacks *ns, struct regs_table *t)
{
	int err = thread_regs__read(ns->program, &t->rows, &t->cnt);

	if (!err && t->cnt)
		qsort(t->rows, t->cnt, sizeof(*t->rows), cmp_tid);
	return err;
}

static const struct ptb_thread_regs *find_row(const struct regs_table *t, uint32_t tid)
{
	const struct ptb_thread_regs key = { .tid = tid };

	return t->cnt ? bsearch(&key, t->rows, t->cnt, sizeof(key), cmp_tid) : NULL;
}

static void copy_stack(struct native_stacks *ns, struct unwind_thread *t)
{
	uint64_t left = LIMIT_NATIVE_STACKS - ns->bytes;
	size_t len = LIMIT_NATIVE_STACK < left ? LIMIT_NATIVE_STACK : (size_t)left;
	uint8_t *room = xmalloc(len + 1);
	ssize_t n;

	n = len ? remote__read_some(ns->pid, t->at.regs[PTB_DWARF_SP], room, len) : 0;
	if (n <= 0) {
		free(room);
		return;
	}
	t->stack = xrealloc(room, (size_t)n);
	t->stack_len = (uint32_t)n;
	ns->bytes += (uint64_t)n;
}

/* Copies the stacks of idle threads that have none yet. 0 or negative errno. */
static int copy_round(struct native_stacks *ns)
{
	struct regs_table before, after = { .rows = NULL };
	int err = read_regs(ns, &before);
	uint64_t now;

	if (err)
		return err;
	for (uint32_t i = 0; i < ns->cnt; i++) {
		const struct ptb_thread_regs *row = find_row(&before, ns->threads[i].at.tid);

		if (ns->done_ns[i] || !row || row->running)
			continue;
		ns->threads[i].at = *row;
		copy_stack(ns, &ns->threads[i]);
	}
	now = clock__mono_ns();
	probe_set__sample_once(ns->samples);
	err = read_regs(ns, &after);
	for (uint32_t i = 0; i < ns->cnt && !err; i++) {
		const struct ptb_thread_regs *row = find_row(&after, ns->threads[i].at.tid);

		if (ns->done_ns[i] || !ns->threads[i].stack)
			continue;
		if (row && !row->running && row->switches == ns->threads[i].at.switches) {
			ns->done_ns[i] = now;
			continue;
		}
		ns->bytes -= ns->threads[i].stack_len;
		free(ns->threads[i].stack);
		ns->threads[i].stack = NULL;
		ns->threads[i].stack_len = 0;
	}
	free(before.rows);
	free(after.rows);
	return err;
}

static bool any_missing(const struct native_stacks *ns)
{
	for (uint32_t i = 0; i < ns->cnt; i++)
		if (!ns->done_ns[i])
			return true;
	return false;
}

static int find_threads(struct native_stacks *ns)
{
	struct ptb_thread_regs *rows;
	int err = thread_regs__read(ns->program, &rows, &ns->cnt);

	if (err)
		return err;
	ns->threads = xcalloc(ns->cnt, sizeof(*ns->threads));
	ns->done_ns = xcalloc(ns->cnt, sizeof(*ns->done_ns));
	for (uint32_t i = 0; i < ns->cnt; i++)
		ns->threads[i].at = rows[i];
	free(rows);
	return 0;
}

static int copy_stacks(struct native_stacks *ns)
{
	const struct timespec pause = { .tv_nsec = ROUND_NS };
	int err = thread_regs__open(ns->pid, &ns->program);

	if (!err)
		err = find_threads(ns);
	for (int i = 0; i < ROUNDS && !err && (!i || any_missing(ns)); i++) {
		if (i)
			nanosleep(&pause, NULL);
		err = copy_round(ns);
	}
	return err;
}

/* Length of the whole lines at the text's begin, at most `max` bytes. */
static size_t whole_lines(const char *text, size_t max)
{
	size_t len = strlen(text);

	if (len <= max)
		return len;
	while (max && text[max - 1] != '\n')
		max--;
	return max;
}

static void put_stack(struct recorder *r, uint32_t tgid, uint32_t tid, uint64_t ts_ns,
		      const char *text)
{
	static const char rest[] = "...\n";
	uint64_t now = clock__mono_ns();
	const struct ptb_text head = { .h.ts_ns = now,
				       .h.tgid = tgid,
				       .h.tid = tid,
				       .id = ts_ns ? (uint32_t)((now - ts_ns + 999) / 1000) : 0 };
	size_t len = whole_lines(text, LIMIT_NATIVE_TEXT - sizeof(rest));
	char *cut = NULL;

	if (text[len])
		cut = xasprintf("%.*s%s", (int)len, text, rest);
	text = cut ? cut : text;
	recorder__put_text(r, PTB_REC_NATIVE_STACK, &head, text, strlen(text));
	free(cut);
}

void recorder__native_stacks(struct recorder *r, struct probe_set *samples, uint32_t tgid)
{
	const struct recorder_proc *p = recorder__find_proc(r, tgid);
	struct native_stacks ns = { .pid = (pid_t)tgid, .samples = samples };
	int err = p ? copy_stacks(&ns) : -ESRCH;

	if (!err && !recorder__is_there(p))
		err = -ESRCH;
	if (!err)
		err = unwind__threads(ns.pid, ns.threads, ns.cnt);
	if (err) {
		pr_warn("the native stacks of process %u cannot be read: %s", tgid, errstr(err));
		recorder__meta_text(r, "native_stacks_missing", errstr(err));
	}
	for (uint32_t i = 0; i < ns.cnt && ns.threads; i++) {
		if (!err)
			put_stack(r, tgid, ns.threads[i].at.tid, ns.done_ns[i],
				  ns.threads[i].text ? ns.threads[i].text : "");
		free(ns.threads[i].stack);
		free(ns.threads[i].text);
	}
	free(ns.threads);
	free(ns.done_ns);
	thread_regs__close(ns.program);
}
