/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See rank_world.h. All times of the job are since its begin; what a rank does is the same whoever asks. */
#include "rank_world.h"

#include <stdio.h>

#define LOADING_NS (1 * RW_MS)
#define ADD_NS (2 * RW_MS)
#define WORK_NS (5 * RW_MS)

struct funcs {
	uint32_t add, reduce, mul;
};

/* Up to 0.4 ms, different in each step of each rank. */
static uint64_t jitter(uint32_t rank, uint32_t step)
{
	return rank_world__mix(rank * 7919 + step) % 400000;
}

static bool is_slow(const struct rank_job *job, uint32_t rank, uint32_t step)
{
	return rank == job->slow && step >= job->since;
}

/* From the begin of a step to the rank's call of the reduction. */
static uint64_t own_ns(const struct rank_job *job, uint32_t rank, uint32_t step)
{
	return WORK_NS + jitter(rank, step) +
	       (is_slow(job, rank, step) ? job->loading_ns + job->op_ns + job->other_ns : 0);
}

/* The last rank's call, since the begin of the step. */
static uint64_t last_ns(const struct rank_job *job, uint32_t step)
{
	uint64_t last = 0;

	for (uint32_t r = 0; r < job->ranks; r++)
		last = own_ns(job, r, step) > last ? own_ns(job, r, step) : last;
	return last;
}

static void put_step(struct builder *b, const struct funcs *f, const struct rank_job *job,
		     uint64_t t, uint32_t rank, uint32_t step)
{
	bool slow = is_slow(job, rank, step);
	uint64_t loaded = t + 100 + LOADING_NS + (slow ? job->loading_ns : 0);
	uint64_t call = t + own_ns(job, rank, step), done = t + last_ns(job, step) + 50000;

	builder__annotate(b, t + 100, 0xa000, 0x1,
			  "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__");
	builder__enter(b, f->mul, t + 500, 0x9000);
	builder__exit(b, f->mul, t + 5000, 0x8f00);
	builder__scope_end(b, loaded, 0xa000, 0x1);
	builder__enter(b, f->add, loaded + 1000, 0x9000);
	builder__exit(b, f->add, loaded + 1000 + ADD_NS + (slow ? job->op_ns : 0), 0x8f00);
	builder__enter(b, f->reduce, call, 0x9000);
	builder__exit(b, f->reduce, call + 20000, 0x8f00);
	builder__enter(b, f->mul, done + 3000, 0x9000);
	builder__exit(b, f->mul, done + 5000, 0x8f00);
	if (job->no_optimizer)
		return;
	builder__annotate(b, done + 10000, 0xa000, 0x2, "Optimizer.step#SGD.step");
	builder__scope_end(b, done + 60000, 0xa000, 0x2);
}

struct builder *rank_world__capture(const struct rank_job *job, const struct rank_machine *m,
				    uint32_t rank, uint32_t late)
{
	uint64_t t = 0, begin = 0;
	struct builder *b;
	struct funcs f;
	char text[128];

	for (uint32_t s = 0; s < job->steps; s++) {
		if (s == late)
			begin = t + 50;
		t += last_ns(job, s) + 200000;
	}
	b = builder__new(m->mono_ns + begin, m->mono_ns + t);
	/* ids differ between captures */
	for (uint32_t i = 0; i < rank; i++)
		builder__op(b, "aten::unused");
	f = (struct funcs){ .add = builder__op(b, "aten::add.Tensor"),
			    .reduce = builder__op(b, "c10d::allreduce_"),
			    .mul = builder__op(b, "aten::mul.Tensor") };
	snprintf(text, sizeof(text), "\"%s\"", m->host);
	builder__meta(b, "host", text);
	snprintf(text, sizeof(text), "\"%s\"", m->boot);
	builder__meta(b, "boot_id", text);
	builder__meta(b, "pid_namespace", "\"4026531836\"");
	builder__clock(b, m->mono_ns + begin, RW_UNIX + begin + (uint64_t)m->wrong_ns, 200);
	builder__process(b, m->pid, "python3", "python3.11", m->mono_ns + begin);
	snprintf(text, sizeof(text), "{\"environment\": {\"RANK\": %u, \"WORLD_SIZE\": %u}}", rank,
		 job->ranks);
	builder__job(b, m->pid, text);
	builder__thread_name(b, m->pid, m->pid, "python3");
	builder__thread(b, m->pid, m->pid);
	t = 0;
	for (uint32_t s = 0; s < job->steps; s++) {
		if (s >= late)
			put_step(b, &f, job, m->mono_ns + t, rank, s);
		t += last_ns(job, s) + 200000;
		builder__round(b, m->mono_ns + t);
	}
	return b;
}
