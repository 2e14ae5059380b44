/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See metrics.h. */
#include "sample/metrics.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/term_text.h"

static const struct {
	uint64_t ns;
	const char *text;
} bounds[] = {
#define X(ns, text) { ns, text },
	METRICS_STEP_BOUNDS(X)
#undef X
};

_Static_assert(sizeof(bounds) / sizeof(bounds[0]) == METRICS_STEP_BUCKETS - 1, "a bucket per bound");

/* ---- sums ---- */

void metrics_window__step(struct metrics_window *w, uint64_t ns)
{
	uint32_t i = 0;

	while (i < METRICS_STEP_BUCKETS - 1 && ns > bounds[i].ns)
		i++;
	w->steps[i]++;
	w->step_ns += ns;
}

static int find_name(const struct metrics *m, const char *name)
{
	for (uint32_t i = 0; i < m->op_cnt; i++)
		if (!strcmp(m->ops[i].name, name))
			return (int)i;
	return -1;
}

static struct metrics_op *find_new(struct metrics_window *w, const char *name)
{
	for (uint32_t i = 0; i < w->new_op_cnt; i++)
		if (!strcmp(w->new_ops[i].name, name))
			return &w->new_ops[i];
	return NULL;
}

/* Of which user a name goes, so that one of this user may come: of whoever has two more, and most, else an own one. */
static uint32_t giver(const uint32_t *uids, uint32_t cnt, uint32_t uid)
{
	uint32_t most = 0, own = 0, from = uid;

	for (uint32_t i = 0; i < cnt; i++)
		own += uids[i] == uid;
	for (uint32_t i = 0; i < cnt; i++) {
		uint32_t n = 0;

		for (uint32_t k = 0; k < cnt; k++)
			n += uids[k] == uids[i];
		if (n > most && n > own + 1) {
			most = n;
			from = uids[i];
		}
	}
	return from;
}

/* A place among the new names: a free one, or that of the one with least time of the giver; NULL: there is none. */
static struct metrics_op *place_for(struct metrics_window *w, const struct metrics_op *op)
{
	uint32_t uids[METRICS_NEW_OPS], from;
	struct metrics_op *least = NULL;

	if (w->new_op_cnt < METRICS_NEW_OPS)
		return &w->new_ops[w->new_op_cnt++];
	for (uint32_t i = 0; i < METRICS_NEW_OPS; i++)
		uids[i] = w->new_ops[i].uid;
	from = giver(uids, METRICS_NEW_OPS, op->uid);
	for (uint32_t i = 0; i < METRICS_NEW_OPS; i++)
		if (uids[i] == from && (!least || w->new_ops[i].self_ns < least->self_ns))
			least = &w->new_ops[i];
	if (!least || (from == op->uid && least->self_ns >= op->self_ns))
		return NULL;
	w->rest_ns += least->self_ns;
	return least;
}

void metrics_window__op(struct metrics_window *w, const struct metrics *known, const char *name,
			uint32_t uid, uint64_t self_ns)
{
	struct metrics_op op = { .uid = uid, .self_ns = self_ns }, *at;
	int nr;

	w->known_turn = known->turn;
	term_text__copy(op.name, sizeof(op.name), name);
	nr = find_name(known, op.name);
	at = find_new(w, op.name); /* of names that are equal where they are cut */
	if (nr >= 0) {
		w->op_ns[nr] += self_ns;
		if (known->ops[nr].uid != uid)
			w->shared |= 1ULL << nr;
		return;
	}
	if (at) {
		at->self_ns += self_ns;
		if (at->uid != uid)
			at->uid = METRICS_NO_USER;
		return;
	}
	at = self_ns && strcmp(op.name, METRICS_OTHER) != 0 ? place_for(w, &op) : NULL;
	if (at)
		*at = op;
	else
		w->rest_ns += self_ns;
}

/* The name of that user (any: of anybody) that has had no time for longest; -1: there is none. */
static int oldest(const struct metrics *m, uint32_t uid, bool any)
{
	int at = -1;

	for (uint32_t i = 0; i < m->op_cnt; i++)
		if ((any || m->ops[i].uid == uid) && (at < 0 || m->ops[i].used < m->ops[at].used))
			at = (int)i;
	return at;
}

/* A place for a new name of the user; -1: there is none. What had it is among the others from now on. */
static int find_place(struct metrics *m, uint32_t uid)
{
	uint32_t uids[METRICS_OPS], from;
	int at;

	if (m->op_cnt < METRICS_OPS)
		return (int)m->op_cnt++;
	at = oldest(m, 0, true);
	if (m->ops[at].used + METRICS_IDLE > m->turn) {
		for (uint32_t i = 0; i < METRICS_OPS; i++)
			uids[i] = m->ops[i].uid;
		from = giver(uids, METRICS_OPS, uid);
		at = oldest(m, from, false);
		if (at < 0 || (from == uid && m->ops[at].used == m->turn))
			return -1;
	}
	m->sum.rest_ns += m->sum.op_ns[at];
	m->sum.op_ns[at] = 0;
	return at;
}

static void add_new_op(struct metrics *m, const struct metrics_op *op)
{
	int nr = find_name(m, op->name); /* another window may have added it meanwhile */
	struct metrics_label *label;

	if (nr < 0) {
		nr = find_place(m, op->uid);
		if (nr < 0) {
			m->sum.rest_ns += op->self_ns;
			return;
		}
		m->ops[nr] = (struct metrics_label){ .uid = op->uid, .given = m->turn };
		memcpy(m->ops[nr].name, op->name, sizeof(op->name));
	}
	label = &m->ops[nr];
	label->used = m->turn;
	if (label->uid != op->uid)
		label->uid = METRICS_NO_USER;
	m->sum.op_ns[nr] += op->self_ns;
}

static void add_ops(struct metrics *m, const struct metrics_window *w)
{
	m->turn++;
	m->sum.rest_ns += w->rest_ns;
	for (uint32_t i = 0; i < METRICS_OPS; i++) {
		struct metrics_label *label = &m->ops[i];

		if (label->given > w->known_turn) { /* the window means the name before */
			m->sum.rest_ns += w->op_ns[i];
			continue;
		}
		m->sum.op_ns[i] += w->op_ns[i];
		if (w->op_ns[i])
			label->used = m->turn;
		if (w->shared >> i & 1)
			label->uid = METRICS_NO_USER;
	}
	for (uint32_t i = 0; i < w->new_op_cnt && i < METRICS_NEW_OPS; i++)
		add_new_op(m, &w->new_ops[i]);
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
static void family(struct text *t, const char *name, const char *type, const char *unit, const char *help)
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
		for (; *value; value++) { /* texts of others have no line ends: metrics_window__op() */
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

static void put_ratio(struct text *t, const char *label, const char *value, uint64_t part, uint64_t whole)
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
	family(t, "ptbpf_targets", "gauge", "", "Processes that were there when the last window was due.");
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
		put_seconds(t, "operator", m->ops[i].name, m->sum.op_ns[i]);
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
	} kinds[] = { { PTB_RSS_ANON, "anon" }, { PTB_RSS_FILE, "file" }, { PTB_RSS_SHMEM, "shmem" } };

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
		family(t, "ptbpf_page_faults", "counter", "", "Page faults of the targets in windows.");
		put_number(t, "kind", "minor", m->sum.minor_faults);
		put_number(t, "kind", "major", m->sum.major_faults);
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
