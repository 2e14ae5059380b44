/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * NATIVE_STACK records: where the threads of a process that does nothing stand in C++, and so which operators are open. A stack is copied from outside
 * between two readings of the thread's registers; it counts if the thread has not run between them.
 */
#define LOG_DOMAIN "recorder"
#include "base/log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/limits.h"
#include "code/unwind.h"
#include "probe/thread_regs.h"
#include "record/recorder_priv.h"
#include "target/remote_mem.h"

#define ROUNDS 5 /* for threads that run */
#define ROUND_NS 20000000

struct native_stacks {
	pid_t pid;
	struct thread_regs *program;
	struct ptb_thread_regs *rows;  /* as they were first read */
	struct unwind_thread *threads; /* of the same index */
	bool *done;                    /* its stack is that of its registers */
	uint32_t cnt;
	uint64_t bytes;
};

static const struct ptb_thread_regs *find_row(const struct ptb_thread_regs *rows, uint32_t cnt,
					      uint32_t tid)
{
	for (uint32_t i = 0; i < cnt; i++)
		if (rows[i].tid == tid)
			return &rows[i];
	return NULL;
}

static int copy_stack(struct native_stacks *ns, struct unwind_thread *t)
{
	uint64_t left = LIMIT_NATIVE_STACKS - ns->bytes;
	size_t len = LIMIT_NATIVE_STACK < left ? LIMIT_NATIVE_STACK : (size_t)left;
	uint8_t *room = malloc(len + 1), *fit;
	ssize_t n;

	if (!room)
		return -ENOMEM;
	n = len ? remote__read_some(ns->pid, t->regs[PTB_DWARF_SP], room, len) : 0;
	if (n <= 0) {
		free(room);
		return 0;
	}
	fit = realloc(room, (size_t)n);
	t->stack = fit ? fit : room;
	t->stack_len = (uint32_t)n;
	ns->bytes += (uint64_t)n;
	return 0;
}

static void drop_stack(struct native_stacks *ns, struct unwind_thread *t)
{
	ns->bytes -= t->stack_len;
	free(t->stack);
	t->stack = NULL;
	t->stack_len = 0;
}

/* Copies the stacks of the threads that have none yet and do not run. 0 or negative errno. */
static int copy_round(struct native_stacks *ns)
{
	struct ptb_thread_regs *before, *after = NULL;
	uint32_t before_cnt, after_cnt;
	int err = thread_regs__read(ns->program, &before, &before_cnt);

	if (err)
		return err;
	for (uint32_t i = 0; i < ns->cnt && !err; i++) {
		const struct ptb_thread_regs *row = find_row(before, before_cnt, ns->rows[i].tid);

		if (ns->done[i] || !row || row->running)
			continue;
		ns->rows[i] = *row;
		memcpy(ns->threads[i].regs, row->regs, sizeof(row->regs));
		err = copy_stack(ns, &ns->threads[i]);
	}
	if (!err)
		err = thread_regs__read(ns->program, &after, &after_cnt);
	for (uint32_t i = 0; i < ns->cnt && !err; i++) {
		const struct ptb_thread_regs *row = find_row(after, after_cnt, ns->rows[i].tid);

		if (ns->done[i] || !ns->threads[i].stack)
			continue;
		ns->done[i] = row && !row->running && row->switches == ns->rows[i].switches;
		if (!ns->done[i])
			drop_stack(ns, &ns->threads[i]);
	}
	free(before);
	free(after);
	return err;
}

static bool any_missing(const struct native_stacks *ns)
{
	for (uint32_t i = 0; i < ns->cnt; i++)
		if (!ns->done[i])
			return true;
	return false;
}

static int copy_stacks(struct native_stacks *ns)
{
	const struct timespec pause = { .tv_nsec = ROUND_NS };
	int err = thread_regs__open(ns->pid, &ns->program);

	if (!err)
		err = thread_regs__read(ns->program, &ns->rows, &ns->cnt);
	ns->threads = err ? NULL : calloc(ns->cnt + 1, sizeof(*ns->threads));
	ns->done = err ? NULL : calloc(ns->cnt + 1, sizeof(*ns->done));
	if (!err && (!ns->threads || !ns->done))
		err = -ENOMEM;
	for (int i = 0; i < ROUNDS && !err && (!i || any_missing(ns)); i++) {
		if (i)
			nanosleep(&pause, NULL);
		err = copy_round(ns);
	}
	return err;
}

/* The length of the text, of at most `max` bytes and whole lines. */
static size_t whole_lines(const char *text, size_t max)
{
	size_t len = strlen(text);

	if (len <= max)
		return len;
	while (max && text[max - 1] != '\n')
		max--;
	return max;
}

static void put_stack(struct recorder *r, uint32_t tgid, uint32_t tid, const char *text)
{
	static const char rest[] = "...\n";
	size_t len = whole_lines(text, LIMIT_NATIVE_TEXT - sizeof(rest));
	union {
		struct ptb_text rec;
		char room[sizeof(struct ptb_text) + LIMIT_NATIVE_TEXT + 8];
	} *u = calloc(1, sizeof(*u));

	if (!u)
		return;
	u->rec.h.tgid = tgid;
	u->rec.h.tid = tid;
	memcpy(u->room + sizeof(u->rec), text, len);
	if (text[len]) {
		memcpy(u->room + sizeof(u->rec) + len, rest, sizeof(rest) - 1);
		len += sizeof(rest) - 1;
	}
	u->rec.text_len = (uint32_t)len;
	recorder__put(r, PTB_REC_NATIVE_STACK, &u->rec.h,
		      (uint32_t)((sizeof(u->rec) + len + 7) & ~(size_t)7));
	free(u);
}

void recorder__native_stacks(struct recorder *r, uint32_t tgid)
{
	const struct recorder_proc *p = recorder__find_proc(r, tgid);
	struct native_stacks ns = { .pid = (pid_t)tgid };
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
			put_stack(r, tgid, ns.rows[i].tid, ns.threads[i].text ? ns.threads[i].text : "");
		free(ns.threads[i].stack);
		free(ns.threads[i].text);
	}
	free(ns.threads);
	free(ns.done);
	free(ns.rows);
	thread_regs__close(ns.program);
}
