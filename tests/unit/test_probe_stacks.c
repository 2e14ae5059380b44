/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Python stacks of a program that is no Python: layouts under which its own thread block is the thread state and the frame, which
 * is its own caller. test_python.py has stacks of CPython.
 */
#include <errno.h>
#include <poll.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "probe_target.h"
#include "ptb_agent.h"
#include "suite.h"
#include "base/proc_read.h"

#define SAMPLE_HZ 50
#define TIMER_HZ 2000
#define SELF 0x10 /* glibc's tcbhead_t: the thread pointer itself, which is also its first word */

static struct ptb_py_layout make_layout(void)
{
	return (struct ptb_py_layout){
		.slot = SELF,
		.code_type = 0x1230,
		.off = { .tstate_thread_id = SELF,
			 .tstate_cframe = PTB_PY_NONE,
			 .interp_code_ends = PTB_PY_NONE,
			 .str_state = 16,
			 .frame_code = SELF,
			 .frame_owner = PTB_PY_NONE,
			 .code_linetable = 128,
			 .lines = PTB_PY_LOCATIONS },
	};
}

struct run {
	struct probe_set *ps;
	struct target t;
	struct records r;
	uint32_t proc;
};

static void begin(struct run *run, enum links links, bool stacks)
{
	struct probe_set_opts opts = { .force_perf = links != LINKS_MULTI, .stacks = stacks };

	memset(run, 0, sizeof(*run));
	CU_ASSERT_EQUAL_FATAL(probe_set__open(&opts, &run->ps), 0);
	target__start(&run->t, TARGET_CALLS);
	CU_ASSERT_EQUAL_FATAL(attach_sites_to(run->ps, &run->t, NULL, op_sites, 2, &run->proc), 2);
}

/* 400 entries and exits in a window. */
static void call(struct run *run)
{
	records__clear(&run->r);
	probe_set__activate(run->ps);
	CU_ASSERT_NOT_EQUAL(target__run(&run->t, "calls 100 1"), ~0ull);
	probe_set__deactivate(run->ps);
	records__collect(&run->r, run->ps);
	CU_ASSERT_EQUAL(records__count(&run->r, PTB_REC_OP_ENTER, 1), 200);
	CU_ASSERT_EQUAL(records__count(&run->r, PTB_REC_OP_EXIT, 2), 200);
}

static void end(struct run *run)
{
	records__clear(&run->r);
	probe_set__free(run->ps);
	CU_ASSERT_EQUAL(target__stop(&run->t), 0);
}

/* A stack before each entry, all the same one; its number. */
static uint64_t expect_stacks(const struct run *run)
{
	const struct ptb_py_stack *first = records__find(&run->r, PTB_REC_PY_STACK, 0);

	CU_ASSERT_EQUAL_FATAL(records__count(&run->r, PTB_REC_PY_STACK, 0), 200);
	for (uint32_t i = 0; i < run->r.cnt; i++) {
		const struct ptb_py_stack *s = (const void *)run->r.items[i];

		if (s->h.kind != PTB_REC_PY_STACK)
			continue;
		CU_ASSERT_EQUAL(s->id, first->id);
		CU_ASSERT_FATAL(i + 1 < run->r.cnt);
		CU_ASSERT_EQUAL(run->r.items[i + 1]->kind, PTB_REC_OP_ENTER);
		CU_ASSERT_EQUAL(run->r.items[i + 1]->ts_ns, s->h.ts_ns);
	}
	return first->id;
}

/* Once in a window. */
static void expect_def(const struct run *run, uint64_t id, uint32_t flags)
{
	const struct ptb_py_stack_def *def = records__find(&run->r, PTB_REC_PY_STACK_DEF, 0);

	CU_ASSERT_EQUAL_FATAL(records__count(&run->r, PTB_REC_PY_STACK_DEF, 0), 1);
	CU_ASSERT_EQUAL(def->id, id);
	CU_ASSERT_EQUAL(def->frame_cnt, 0);
	CU_ASSERT_EQUAL(def->flags, flags);
	CU_ASSERT_EQUAL(def->h.len, sizeof(*def));
}

static void expect_none(const struct run *run)
{
	CU_ASSERT_EQUAL(records__count(&run->r, PTB_REC_PY_STACK, 0), 0);
	CU_ASSERT_EQUAL(records__count(&run->r, PTB_REC_PY_STACK_DEF, 0), 0);
}

TEST_LINKS("a stack before each entry, described once")
{
	struct ptb_py_layout layout = make_layout();
	struct run run;
	uint64_t id;

	begin(&run, links, true);
	call(&run);
	expect_none(&run); /* its layout is not known */
	CU_ASSERT_EQUAL(probe_set__python(run.ps, run.proc, &layout), 0);
	call(&run);
	id = expect_stacks(&run);
	CU_ASSERT_NOT_EQUAL(id, 0);
	expect_def(&run, id, PTB_PY_FAULT);
	CU_ASSERT_EQUAL(probe_set__counter(run.ps, PTB_CNT_PY_FAULT), 200);
	call(&run); /* another window: it has another number, and is described again */
	CU_ASSERT_NOT_EQUAL(expect_stacks(&run), id);
	expect_def(&run, expect_stacks(&run), PTB_PY_FAULT);
	end(&run);
}

/* A frame that is its own caller. */
TEST("a chain without an end")
{
	struct ptb_py_layout layout = make_layout();
	struct run run;

	layout.off.frame_owner = 8;
	layout.off.frame_native = 0;
	begin(&run, LINKS_MULTI, true);
	CU_ASSERT_EQUAL(probe_set__python(run.ps, run.proc, &layout), 0);
	call(&run);
	expect_def(&run, expect_stacks(&run), PTB_PY_CUT);
	CU_ASSERT_EQUAL(probe_set__counter(run.ps, PTB_CNT_PY_CUT), 200);
	end(&run);
}

/* All programs that take stacks, beside all that they may be with: each has the frame limit of BPF programs. */
TEST("beside all other programs")
{
	static const bool perf[] = { false, true };

	for (uint32_t i = 0; i < 2; i++) {
		const struct probe_set_opts opts = { .force_perf = perf[i],
						     .follow_tasks = true,
						     .watch_children = true,
						     .args = PROBE_ARGS_FULL,
						     .identities = true,
						     .memory = true,
						     .kernel_memory = true,
						     .cuda_calls = true,
						     .agent = true,
						     .stacks = true };
		struct probe_set *ps = NULL;

		CU_ASSERT_EQUAL(probe_set__open(&opts, &ps), 0);
		probe_set__free(ps);
	}
}

TEST("a thread state that is wrong")
{
	struct ptb_py_layout layout = make_layout();
	struct run run;

	layout.off.tstate_thread_id = 8; /* the thread's dtv */
	begin(&run, LINKS_MULTI, true);
	CU_ASSERT_EQUAL(probe_set__python(run.ps, run.proc, &layout), 0);
	call(&run);
	CU_ASSERT_EQUAL(expect_stacks(&run), 0);
	CU_ASSERT_EQUAL(records__count(&run.r, PTB_REC_PY_STACK_DEF, 0), 0);
	CU_ASSERT_EQUAL(probe_set__counter(run.ps, PTB_CNT_PY_NO_STATE), 200);
	layout.slot = 1 << 30; /* no memory */
	CU_ASSERT_EQUAL(probe_set__python(run.ps, run.proc, &layout), 0);
	call(&run);
	CU_ASSERT_EQUAL(expect_stacks(&run), 0);
	CU_ASSERT_EQUAL(probe_set__counter(run.ps, PTB_CNT_PY_NO_STATE), 400);
	layout.code_type = 0;
	CU_ASSERT_EQUAL(probe_set__python(run.ps, run.proc, &layout), 0);
	call(&run);
	expect_none(&run);
	end(&run);
}

TEST("layouts that are refused")
{
	struct ptb_py_layout layout = make_layout();
	struct run run;

	begin(&run, LINKS_MULTI, false);
	CU_ASSERT_EQUAL(probe_set__python(run.ps, run.proc, &layout), -EINVAL);
	call(&run);
	expect_none(&run);
	end(&run);
	begin(&run, LINKS_MULTI, true);
	CU_ASSERT_EQUAL(probe_set__python(run.ps, run.proc + 1, &layout), -EINVAL);
	layout.off.frame_instr = PTB_PY_FRAME_BYTES;
	CU_ASSERT_EQUAL(probe_set__python(run.ps, run.proc, &layout), -EINVAL);
	layout = make_layout();
	layout.off.code_linetable = 512;
	CU_ASSERT_EQUAL(probe_set__python(run.ps, run.proc, &layout), -EINVAL);
	end(&run);
}

/* The slot of a process that is gone is not the next one's. */
TEST("the next process")
{
	struct ptb_py_layout layout = make_layout();
	struct target old;
	struct run run;
	uint32_t proc;

	begin(&run, LINKS_MULTI, true);
	CU_ASSERT_EQUAL(probe_set__python(run.ps, run.proc, &layout), 0);
	probe_set__remove_process(run.ps, run.proc);
	old = run.t;
	target__start(&run.t, TARGET_CALLS);
	CU_ASSERT_EQUAL_FATAL(attach_sites_to(run.ps, &run.t, NULL, op_sites, 2, &proc), 2);
	CU_ASSERT_EQUAL(proc, run.proc);
	call(&run);
	expect_none(&run);
	end(&run);
	CU_ASSERT_EQUAL(target__stop(&old), 0);
}

/* ---- samples ---- */

struct sums {
	uint32_t running, blocked, wrong;
	uint64_t id;
};

/* Of the target's one thread, whose stack is always the same. */
static struct sums sum_samples(const struct run *run, uint32_t hz)
{
	struct sums sums = { 0 };

	for (uint32_t i = 0; i < run->r.cnt; i++) {
		const struct ptb_py_sample *s = (const void *)run->r.items[i];

		if (s->h.kind != PTB_REC_PY_SAMPLE || s->flags & PTB_SAMPLE_NO_STACK)
			continue;
		sums.running += (s->flags & ~(uint32_t)PTB_SAMPLE_MEMORY) == PTB_SAMPLE_RAN;
		sums.blocked += !s->flags;
		sums.id = sums.id ? sums.id : s->id;
		sums.wrong += s->id != sums.id || !s->id || s->h.tgid != (uint32_t)run->t.pid ||
			      s->h.tid != s->h.tgid || s->h.site || s->ns % (1000000000 / hz) ||
			      s->ns < 1000000000 / hz;
	}
	return sums;
}

static void wait_for_ticks(struct probe_set *ps, uint32_t cnt)
{
	struct pollfd p = { .fd = probe_set__sample_fd(ps), .events = POLLIN };

	while (cnt-- && poll(&p, 1, 60000) == 1)
		probe_set__sample_now(ps);
}

static void begin_samples(struct run *run, const struct ptb_py_layout *layout, uint32_t hz)
{
	const struct probe_set_opts opts = { .stacks = true, .sample_hz = hz };
	struct ptb_proc_cfg cfg = { 0 };

	memset(run, 0, sizeof(*run));
	CU_ASSERT_EQUAL_FATAL(probe_set__open(&opts, &run->ps), 0);
	target__start(&run->t, TARGET_CALLS);
	cfg.tgid = (uint32_t)run->t.pid;
	CU_ASSERT_EQUAL_FATAL(probe_set__add_process(run->ps, &cfg, NULL, 0, &run->proc), 0);
	CU_ASSERT_EQUAL(probe_set__python(run->ps, run->proc, layout), 0);
	CU_ASSERT_EQUAL(probe_set__sample(run->ps, run->proc), 0);
}

static void run_samples(uint32_t hz)
{
	struct ptb_py_layout layout = make_layout();
	struct run run;
	struct sums sums;

	begin_samples(&run, &layout, hz);
	probe_set__activate(run.ps);
	wait_for_ticks(run.ps, 20); /* it waits for commands */
	records__collect(&run.r, run.ps);
	sums = sum_samples(&run, hz);
	CU_ASSERT(sums.blocked >= 15); /* but for those before it waited */
	for (uint32_t i = 0; i < 1000 && sums.running < 5; i++) {
		CU_ASSERT_NOT_EQUAL_FATAL(target__run(&run.t, "calls 1000000 1"), ~0ull);
		records__collect(&run.r, run.ps);
		sums = sum_samples(&run, hz);
	}
	probe_set__deactivate(run.ps);
	CU_ASSERT(sums.running >= 5);
	CU_ASSERT_EQUAL(sums.wrong, 0);
	CU_ASSERT_NOT_EQUAL(records__find(&run.r, PTB_REC_PY_STACK_DEF, 0), NULL);
	CU_ASSERT_NOT_EQUAL(probe_set__counter(run.ps, PTB_CNT_SAMPLES_NS), 0);
	CU_ASSERT_NOT_EQUAL(probe_set__counter(run.ps, PTB_CNT_PY_FAULT), 0);
	end(&run);
}

/* By the processors' ticks, and by timers, since there are fewer ticks a second. */
TEST("samples of a thread that waits, and then runs")
{
	run_samples(SAMPLE_HZ);
	run_samples(TIMER_HZ);
}

/* ---- open operators: of an agent that this test plays, in the target's memory ---- */

#define NAME(n) (PTB_OPEN_NAME | (n))

struct open_memory {
	uint64_t thread_has; /* address of ops */
	uint32_t on, pad;
	struct ptb_open_ops ops;
};

static uint64_t thread_pointer_of(pid_t pid)
{
	struct user_regs_struct regs = { 0 };

	CU_ASSERT_EQUAL_FATAL(ptrace(PTRACE_ATTACH, pid, NULL, NULL), 0);
	CU_ASSERT_EQUAL_FATAL(waitpid(pid, NULL, __WALL), pid);
	CU_ASSERT_EQUAL_FATAL(ptrace(PTRACE_GETREGS, pid, NULL, &regs), 0);
	ptrace(PTRACE_DETACH, pid, NULL, NULL);
	return regs.fs_base;
}

/* The end of its heap, which nothing uses. */
static uint64_t room_in(pid_t pid)
{
	unsigned long begin, end = 0;
	char path[64], line[512];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	f = fopen(path, "r");
	CU_ASSERT_PTR_NOT_NULL_FATAL(f);
	while (fgets(line, sizeof(line), f))
		if (strstr(line, "[heap]") && sscanf(line, "%lx-%lx", &begin, &end) == 2)
			break;
	fclose(f);
	CU_ASSERT_NOT_EQUAL_FATAL(end, 0);
	return end - 4096;
}

static void write_open(const struct run *run, uint64_t room, struct open_memory m)
{
	struct remote_mem *rm;

	CU_ASSERT_EQUAL_FATAL(remote_mem__open(run->t.pid, true, &rm), 0);
	CU_ASSERT_EQUAL_FATAL(remote_mem__write(rm, room, &m, sizeof(m)), 0);
	remote_mem__close(rm);
}

/* What samples say that are taken from now on, running and blocked: all the same. False: there are different ones. */
static bool one_answer(struct run *run, uint64_t *op, bool *known)
{
	struct ptb_py_sample *first = NULL;
	bool ran = false, blocked = false, same = true;

	for (uint32_t i = 0; i < 1000 && !(ran && blocked); i++) {
		/* what was seen of it when it stood still counts until it runs */
		CU_ASSERT_NOT_EQUAL_FATAL(target__run(&run->t, "calls 300000 1"), ~0ull);
		if (!i) {
			records__collect(&run->r, run->ps);
			records__clear(&run->r);
			continue;
		}
		wait_for_ticks(run->ps, 2);
		records__collect(&run->r, run->ps);
		for (uint32_t k = 0; k < run->r.cnt; k++) {
			struct ptb_py_sample *s = (void *)run->r.items[k];

			if (s->h.kind != PTB_REC_PY_SAMPLE || s->flags & PTB_SAMPLE_NO_STACK)
				continue;
			first = first ? first : s;
			ran |= s->flags & PTB_SAMPLE_RAN;
			blocked |= !(s->flags & PTB_SAMPLE_RAN);
			same &= s->op == first->op && !((s->flags ^ first->flags) & PTB_SAMPLE_OPS);
		}
	}
	*op = first ? first->op : 0;
	*known = first && first->flags & PTB_SAMPLE_OPS;
	records__clear(&run->r);
	return ran && blocked && same;
}

static void expect_op(struct run *run, uint64_t room, struct open_memory m, uint64_t want, bool known)
{
	uint64_t op;
	bool is;

	write_open(run, room, m);
	CU_ASSERT(one_answer(run, &op, &is));
	CU_ASSERT_EQUAL(op, want);
	CU_ASSERT_EQUAL(is, known);
}

TEST("samples with open operators")
{
	struct ptb_py_layout layout = make_layout();
	struct run run;
	uint64_t room;

	begin_samples(&run, &layout, SAMPLE_HZ);
	room = room_in(run.t.pid);
	const struct open_memory two = { .thread_has = room + offsetof(struct open_memory, ops),
					 .on = 1,
					 .ops = { .h.cnt = 2, .ops = { { 1, NAME(7) }, { 2, NAME(8) } } } };
	struct open_memory m = two;

	layout.open_tls = (int64_t)(room - thread_pointer_of(run.t.pid));
	layout.open_on = room + offsetof(struct open_memory, on);
	probe_set__activate(run.ps);
	write_open(&run, room, two);
	expect_op(&run, room, m, 0, false); /* it has not been asked yet */
	CU_ASSERT_EQUAL(probe_set__python(run.ps, run.proc, &layout), 0);
	expect_op(&run, room, m, NAME(8), true);
	m.ops.ops[1].rf = 0;
	expect_op(&run, room, m, NAME(7), true);
	m.ops.ops[0].rf = 0;
	expect_op(&run, room, m, 0, true);
	m.ops.h.cnt = 0;
	expect_op(&run, room, m, 0, true);
	CU_ASSERT_EQUAL(probe_set__counter(run.ps, PTB_CNT_OPEN_UNREAD), 0);
	m.thread_has = 0;
	expect_op(&run, room, m, 0, false);
	CU_ASSERT_EQUAL(probe_set__counter(run.ps, PTB_CNT_OPEN_UNREAD), 0);
	for (uint32_t i = 0; i < 5; i++) {
		uint64_t before = probe_set__counter(run.ps, PTB_CNT_OPEN_UNREAD);

		m = two;
		m.on = i != 0;
		m.ops.h.over = i == 1;
		m.ops.h.cnt = i == 2 ? ~0u : 2;
		m.thread_has = i == 3 ? ~0ull - 4 : m.thread_has;
		m.ops.ops[1].name = i == 4 ? 0 : m.ops.ops[1].name;
		expect_op(&run, room, m, 0, false);
		CU_ASSERT(probe_set__counter(run.ps, PTB_CNT_OPEN_UNREAD) > before);
	}
	probe_set__deactivate(run.ps);
	end(&run);
}

/* Outside of a window, of a process that is no longer sampled, and with a thread state that is wrong. */
TEST("samples that are not there")
{
	struct ptb_py_layout layout = make_layout();
	struct run run;

	layout.off.tstate_thread_id = 8;
	begin_samples(&run, &layout, SAMPLE_HZ);
	CU_ASSERT_NOT_EQUAL(target__run(&run.t, "calls 1000 1"), ~0ull);
	probe_set__activate(run.ps);
	wait_for_ticks(run.ps, 3);
	records__collect(&run.r, run.ps);
	CU_ASSERT_EQUAL(records__count(&run.r, PTB_REC_PY_SAMPLE, 0), 3);
	CU_ASSERT_EQUAL(sum_samples(&run, SAMPLE_HZ).blocked, 0);
	CU_ASSERT_NOT_EQUAL(probe_set__counter(run.ps, PTB_CNT_PY_NO_STATE), 0);
	probe_set__remove_process(run.ps, run.proc);
	wait_for_ticks(run.ps, 3);
	records__collect(&run.r, run.ps);
	CU_ASSERT_EQUAL(records__count(&run.r, PTB_REC_PY_SAMPLE, 0), 3);
	probe_set__deactivate(run.ps);
	end(&run);
}

PROBE_SUITE("probe_stacks")
