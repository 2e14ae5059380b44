/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See metrics.h. */
#include "sample/metrics.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/containers.h"
#include "base/mem.h"
#include "base/text.h"
#include "model/session.h"

static const struct {
	uint64_t ns;
	const char *text;
} bounds[] = {
#define X(ns, text) { ns, text },
	METRICS_STEP_BOUNDS(X)
#undef X
};

_Static_assert(sizeof(bounds) / sizeof(bounds[0]) == METRICS_STEP_BUCKETS - 1,
	       "a bucket per bound");

/* ---- sums ---- */

void metrics_window__step(struct metrics_window *w, uint64_t ns)
{
	uint32_t i = 0;

	while (i < METRICS_STEP_BUCKETS - 1 && ns > bounds[i].ns)
		i++;
	w->steps[i]++;
	w->step_ns += ns;
}

void metrics_window__op(struct metrics_window *w, const char *name, uint32_t uid, uint64_t self_ns)
{
	struct metrics_op op = { .uid = uid, .self_ns = self_ns };

	term_text__copy(op.name, sizeof(op.name), name);
	vec_push(w->ops, w->op_cnt, w->op_cap, op);
}

static struct metrics_label *find(struct metrics *m, const char *name)
{
	for (uint32_t i = 0; i < m->op_cnt; i++)
		if (!strcmp(m->ops[i].op.name, name))
			return &m->ops[i];
	return NULL;
}

static uint32_t count_of(const struct metrics *m, uint32_t uid)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < m->op_cnt; i++)
		n += m->ops[i].op.uid == uid;
	return n;
}

/* Whose name goes, so that one of this user may come: of who has two more, and most, else an own
 * one. */
static uint32_t giver(const struct metrics *m, uint32_t uid)
{
	uint32_t most = count_of(m, uid) + 1, from = uid;

	for (uint32_t i = 0; i < m->op_cnt; i++) {
		uint32_t n = count_of(m, m->ops[i].op.uid);

		if (n > most) {
			most = n;
			from = m->ops[i].op.uid;
		}
	}
	return from;
}

/* The name of that user (any: of anybody) that has had no time for longest; NULL: there is none. */
static struct metrics_label *oldest(struct metrics *m, uint32_t uid, bool any)
{
	struct metrics_label *at = NULL;

	for (uint32_t i = 0; i < m->op_cnt; i++)
		if ((any || m->ops[i].op.uid == uid) && (!at || m->ops[i].used < at->used))
			at = &m->ops[i];
	return at;
}

/* A place for a new name; NULL: there is none. The time of the name that had it goes to the
 * others. */
static struct metrics_label *new_label(struct metrics *m, const struct metrics_op *op)
{
	struct metrics_label *at;
	uint32_t from;

	if (!op->self_ns || !strcmp(op->name, METRICS_OTHER))
		return NULL;
	if (m->op_cnt < METRICS_OPS) {
		at = &m->ops[m->op_cnt++];
	} else {
		at = oldest(m, 0, true);
		if (at->used + METRICS_IDLE > m->turn) {
			from = giver(m, op->uid);
			at = oldest(m, from, false);
			if (!at || (from == op->uid && at->used == m->turn))
				return NULL;
		}
		m->sum.rest_ns += at->op.self_ns;
	}
	*at = (struct metrics_label){ .op = *op };
	at->op.self_ns = 0;
	return at;
}

static void add_ops(struct metrics *m, const struct metrics_window *w)
{
	struct metrics_label *label;

	m->turn++;
	m->sum.rest_ns += w->rest_ns;
	for (uint32_t i = 0; i < w->op_cnt; i++) /* no new name takes the place of these */
		if ((label = find(m, w->ops[i].name)))
			label->used = m->turn;
	for (uint32_t i = 0; i < w->op_cnt; i++) {
		const struct metrics_op *op = &w->ops[i];

		label = find(m, op->name) ?: new_label(m, op);
		if (!label) {
			m->sum.rest_ns += op->self_ns;
			continue;
		}
		label->used = m->turn;
		label->op.self_ns += op->self_ns;
		if (label->op.uid != op->uid)
			label->op.uid = METRICS_NO_USER;
	}
}

static void add_gpu(struct metrics_window *sum, const struct metrics_gpu *gpu)
{
	uint32_t i = 0;

	while (i < sum->gpu_cnt && sum->gpus[i].id != gpu->id)
		i++;
	if (i == METRICS_GPUS)
		return;
	if (i == sum->gpu_cnt)
		sum->gpus[sum->gpu_cnt++].id = gpu->id;
	sum->gpus[i].busy_ns += gpu->busy_ns;
}

void metrics__add(struct metrics *m, const struct metrics_window *w)
{
	struct metrics_window *sum = &m->sum;

	m->last = *w;
	m->last.ops = NULL;
	sum->window_ns += w->window_ns;
	sum->operators += w->operators;
	sum->cost_ns += w->cost_ns;
	add_ops(m, w);
	for (uint32_t i = 0; i < METRICS_STEP_BUCKETS; i++)
		sum->steps[i] += w->steps[i];
	sum->step_ns += w->step_ns;
	sum->partial_steps += w->partial_steps;
	sum->has_memory |= w->has_memory;
	sum->alloc_bytes[0] = metrics__sum(sum->alloc_bytes[0], w->alloc_bytes[0]);
	sum->alloc_bytes[1] = metrics__sum(sum->alloc_bytes[1], w->alloc_bytes[1]);
	sum->has_faults |= w->has_faults;
	sum->minor_faults += w->minor_faults;
	sum->major_faults += w->major_faults;
	sum->has_waits |= w->has_waits;
	for (uint32_t i = 0; i < PTB_WAIT_CNT; i++)
		sum->wait_ns[i] = metrics__sum(sum->wait_ns[i], w->wait_ns[i]);
	for (uint32_t i = 0; i < w->gpu_cnt && i < METRICS_GPUS; i++)
		add_gpu(sum, &w->gpus[i]);
	for (uint32_t i = 0; i < PTB_CNT_MAP; i++)
		sum->losses[i] += w->losses[i];
}

/* ---- text ---- */

struct text {
	FILE *out;
	bool openmetrics;
	const char *name; /* of the family */
	const char *end;  /* what its samples' names end with */
};

/* type: of OpenMetrics. The unit is the end of the name, "": none. */
static void family(struct text *t, const char *name, const char *type, const char *unit,
		   const char *help)
{
	bool counter = !strcmp(type, "counter"), info = !strcmp(type, "info");

	t->name = name;
	t->end = counter ? "_total" : info ? "_info" : "";
	if (t->openmetrics) {
		fprintf(t->out, "# TYPE %s %s\n", name, type);
		if (*unit)
			fprintf(t->out, "# UNIT %s %s\n", name, unit);
		fprintf(t->out, "# HELP %s %s\n", name, help);
	} else { /* which names samples, and knows no info */
		fprintf(t->out, "# HELP %s%s %s\n", name, t->end, help);
		fprintf(t->out, "# TYPE %s%s %s\n", name, t->end, info ? "gauge" : type);
	}
}

/* Begins a line; label NULL: none. */
static void sample(struct text *t, const char *label, const char *value)
{
	fprintf(t->out, "%s%s", t->name, t->end);
	if (label) {
		fprintf(t->out, "{%s=\"", label);
		/* texts of others have no line ends: metrics_window__op() */
		for (; *value; value++) {
			if (*value == '"' || *value == '\\')
				fputc('\\', t->out);
			fputc(*value, t->out);
		}
		fputs("\"}", t->out);
	}
	fputc(' ', t->out);
}

static void put_number(struct text *t, const char *label, const char *value, uint64_t v)
{
	sample(t, label, value);
	fprintf(t->out, "%" PRIu64 "\n", v);
}

/* Exact, so that no counter decreases by rounding. */
static void put_seconds(struct text *t, const char *label, const char *value, uint64_t ns)
{
	sample(t, label, value);
	fprintf(t->out, "%" PRIu64 ".%09" PRIu64 "\n", ns / 1000000000, ns % 1000000000);
}

static void put_ratio(struct text *t, const char *label, const char *value, uint64_t part,
		      uint64_t whole)
{
	sample(t, label, value);
	fprintf(t->out, "%.9g\n", (double)part / (double)whole);
}

static void put_process(struct text *t, const struct metrics *m)
{
	family(t, "ptbpf_build", "info", "", "Version of ptbpf.");
	put_number(t, "version", m->version, 1);
	family(t, "process_start_time_seconds", "gauge", "seconds",
	       "Unix time at which ptbpf sample began.");
	put_seconds(t, NULL, NULL, m->start_unix_ns);
	family(t, "ptbpf_cpu_seconds", "counter", "seconds",
	       "Processor time of ptbpf itself, recording and exporting included.");
	put_seconds(t, NULL, NULL, m->cpu_ns);
}

static void put_windows(struct text *t, const struct metrics *m)
{
	static const char *const results[METRICS_RESULTS] = { "complete", "incomplete", "skipped",
							      "failed" };

	family(t, "ptbpf_windows", "counter", "", "Windows by their result.");
	for (uint32_t i = 0; i < METRICS_RESULTS; i++)
		put_number(t, "result", results[i], m->windows[i]);
	family(t, "ptbpf_window_seconds", "counter", "seconds", "Time recorded in windows.");
	put_seconds(t, NULL, NULL, m->sum.window_ns);
	family(t, "ptbpf_targets", "gauge", "",
	       "Processes that were there when the last window was due.");
	put_number(t, NULL, NULL, m->targets);
	if (!m->begin_unix_ns)
		return;
	family(t, "ptbpf_last_window_begin_seconds", "gauge", "seconds",
	       "Unix time at which the last window was to begin.");
	put_seconds(t, NULL, NULL, m->begin_unix_ns);
	family(t, "ptbpf_last_window_late_seconds", "gauge", "seconds",
	       "How much later than that the last window began.");
	put_seconds(t, NULL, NULL, m->late_ns);
}

static void put_overhead(struct text *t, const struct metrics *m)
{
	family(t, "ptbpf_overhead_seconds", "counter", "seconds",
	       "Time that probes and samples took of the targets' threads, at least.");
	put_seconds(t, NULL, NULL, m->sum.cost_ns);
	if (m->last.has_cost && m->last.window_ns) {
		family(t, "ptbpf_last_window_overhead_ratio", "gauge", "ratio",
		       "The same, as a share of the last window.");
		put_ratio(t, NULL, NULL, m->last.cost_ns, m->last.window_ns);
	}
}

static void put_operators(struct text *t, const struct metrics *m)
{
	family(t, "ptbpf_operators", "counter", "", "Operators recorded.");
	put_number(t, NULL, NULL, m->sum.operators);
	family(t, "ptbpf_operator_self_seconds", "counter", "seconds",
	       "Self time of operators on the CPU; other: all those without a name here.");
	for (uint32_t i = 0; i < m->op_cnt; i++)
		put_seconds(t, "operator", m->ops[i].op.name, m->ops[i].op.self_ns);
	put_seconds(t, "operator", METRICS_OTHER, m->sum.rest_ns);
}

static void put_steps(struct text *t, const struct metrics *m)
{
	uint64_t cnt = 0;

	family(t, "ptbpf_step_duration_seconds", "histogram", "seconds",
	       "Duration of steps that lie wholly in a window.");
	t->end = "_bucket";
	for (uint32_t i = 0; i < METRICS_STEP_BUCKETS; i++) {
		cnt += m->sum.steps[i];
		put_number(t, "le", i < METRICS_STEP_BUCKETS - 1 ? bounds[i].text : "+Inf", cnt);
	}
	t->end = "_count";
	put_number(t, NULL, NULL, cnt);
	t->end = "_sum";
	put_seconds(t, NULL, NULL, m->sum.step_ns);
	family(t, "ptbpf_partial_steps", "counter", "", "Steps of which a window has only a part.");
	put_number(t, NULL, NULL, m->sum.partial_steps);
}

static void put_memory(struct text *t, const struct metrics *m)
{
	static const char *const classes[] = { "cpu", "accelerator" };
	static const struct {
		enum ptb_rss_kind kind;
		const char *name;
	} kinds[] = { { PTB_RSS_ANON, "anon" },
		      { PTB_RSS_FILE, "file" },
		      { PTB_RSS_SHMEM, "shmem" } };

	if (m->begin_unix_ns) {
		family(t, "ptbpf_resident_memory_bytes", "gauge", "bytes",
		       "Resident memory of the targets at the end of the last window.");
		for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
			put_number(t, "kind", kinds[i].name, m->last.rss[kinds[i].kind]);
	}
	if (m->sum.has_memory) {
		family(t, "ptbpf_allocated_bytes", "counter", "bytes",
		       "Bytes that PyTorch allocated in windows, frees not subtracted.");
		for (size_t i = 0; i < 2; i++)
			put_number(t, "device", classes[i], m->sum.alloc_bytes[i]);
	}
	if (m->last.has_device_memory) {
		family(t, "ptbpf_accelerator_allocated_memory_bytes", "gauge", "bytes",
		       "Memory that tensors have on accelerators, when PyTorch last reported it in the last window.");
		put_number(t, NULL, NULL, m->last.device_bytes);
		family(t, "ptbpf_accelerator_reserved_memory_bytes", "gauge", "bytes",
		       "Memory that PyTorch's allocator has of accelerators, likewise.");
		put_number(t, NULL, NULL, m->last.device_reserved_bytes);
	}
	if (m->sum.has_faults) {
		family(t, "ptbpf_page_faults", "counter", "",
		       "Page faults of the targets in windows.");
		put_number(t, "kind", "minor", m->sum.minor_faults);
		put_number(t, "kind", "major", m->sum.major_faults);
	}
	if (m->sum.has_waits) {
		family(t, "ptbpf_wait_seconds", "counter", "seconds",
		       "What the main threads of the targets waited for in windows.");
		for (uint32_t i = 0; i < PTB_WAIT_CNT; i++)
			put_seconds(t, "reason", wait__name(i), m->sum.wait_ns[i]);
	}
}

static void put_gpus(struct text *t, const struct metrics *m)
{
	const struct metrics_window *sum = &m->sum, *last = &m->last;
	char id[16];

	if (sum->gpu_cnt) {
		family(t, "ptbpf_gpu_busy_seconds", "counter", "seconds",
		       "Time in windows in which a kernel, copy or fill ran on the GPU.");
		for (uint32_t i = 0; i < sum->gpu_cnt; i++) {
			snprintf(id, sizeof(id), "%u", sum->gpus[i].id);
			put_seconds(t, "gpu", id, sum->gpus[i].busy_ns);
		}
	}
	if (last->gpu_cnt && last->window_ns) {
		family(t, "ptbpf_last_window_gpu_busy_ratio", "gauge", "ratio",
		       "The same, as a share of the last window.");
		for (uint32_t i = 0; i < last->gpu_cnt && i < METRICS_GPUS; i++) {
			snprintf(id, sizeof(id), "%u", last->gpus[i].id);
			put_ratio(t, "gpu", id, last->gpus[i].busy_ns, last->window_ns);
		}
	}
}

/* Counters of what was lost, but not those of lost time, which end with _NS. */
static void put_losses(struct text *t, const struct metrics *m)
{
	static const struct {
		uint32_t id;
		bool loss;
		const char *name;
	} rows[] = {
#define X(name, nr, where, loss, text) { nr, loss, #name },
		PTB_COUNTERS(X)
#undef X
	};

	family(t, "ptbpf_losses", "counter", "",
	       "What windows lack, by reason: records, names, processes and others.");
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char reason[32];
		size_t n = strlen(rows[i].name);

		if (!rows[i].loss || (n > 3 && !strcmp(rows[i].name + n - 3, "_NS")))
			continue;
		for (size_t c = 0; c <= n && c < sizeof(reason); c++)
			reason[c] = (char)tolower((unsigned char)rows[i].name[c]);
		put_number(t, "reason", reason, m->sum.losses[rows[i].id]);
	}
}

char *metrics__text(const struct metrics *m, bool openmetrics, size_t *len)
{
	struct text t = { .openmetrics = openmetrics };
	char *buf = NULL;

	t.out = xmemstream(&buf, len);
	put_process(&t, m);
	put_windows(&t, m);
	put_overhead(&t, m);
	put_operators(&t, m);
	put_steps(&t, m);
	put_memory(&t, m);
	put_gpus(&t, m);
	put_losses(&t, m);
	if (openmetrics)
		fputs("# EOF\n", t.out);
	if (fclose(t.out)) {
		free(buf);
		return NULL;
	}
	return buf;
}
