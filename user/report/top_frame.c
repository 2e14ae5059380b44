/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What `ptbpf top` shows of one window; see report.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "report/report_priv.h"

struct top_sums {
	const struct session *s;
	const struct session_info *info;
	struct key_averages *ka;
	void *gpus; /* of gpus_report; NULL: no GPU data */
	struct py_lines lines;
	struct text_ids texts;
	struct line_sum {
		uint32_t line;
		uint64_t values[TOP_VALUES];
	} * rows;
	struct thread_sum {
		uint32_t tgid, tid;
		uint64_t since_ns, until_ns, values[TOP_VALUES];
	} * threads;
	uint32_t row_cnt, row_cap, thread_cnt, thread_cap;
	struct hashmap row_ids, thread_ids;
};

static struct thread_sum *thread_of(struct top_sums *ts, uint32_t tgid, uint32_t tid)
{
	struct thread_sum *t = list__keyed(KEYED_LIST(ts, threads, thread), tgid, tid);

	t->tgid = tgid;
	t->tid = tid;
	return t;
}

static void take_sample(void *arg, const struct py_sample *ps)
{
	struct top_sums *ts = arg;
	enum py_sample_state state = py_sample__state(ps);
	uint32_t line = py_lines__id(&ts->lines, ts->s, &ts->texts, ps->stack);
	struct thread_sum *t;

	if (line) {
		struct line_sum *l = list__keyed(KEYED_LIST(ts, rows, row), line, 0);

		l->line = line;
		l->values[state] += ps->ns;
	}
	if (ts->info->has_sched)
		return;
	t = thread_of(ts, ps->tgid, ps->tid); /* better than nothing */
	t->values[state == SAMPLE_RUNNING ? TOP_ON_CPU :
		  state == SAMPLE_QUEUED  ? TOP_WAITS + WAITS_CPU :
					    TOP_WAITS + WAITS_OTHER] += ps->ns;
}

static void take_wait(void *arg, const struct sched_event *ev)
{
	struct thread_sum *t = thread_of(arg, ev->at.tgid, ev->at.tid);

	for (uint32_t i = 0; i < PTB_WAIT_CNT; i++)
		t->values[TOP_WAITS + wait__group(i)] += ev->ns[i];
	if (!ev->since_ns)
		return;
	t->since_ns = ev->since_ns;
	t->until_ns = ev->end_ns;
}

/* ---- rows ---- */

static int by_first(const void *a, const void *b)
{
	return sort__cmp(((const struct top_row *)b)->values[0],
			 ((const struct top_row *)a)->values[0]);
}

/* Takes all of them, which are freed. */
static void set_rows(struct top_frame *f, enum top_list list, struct top_row *all, uint32_t cnt)
{
	sort__array(all, cnt, sizeof(*all), by_first);
	f->all[list] = cnt;
	f->cnt[list] = cnt < TOP_ROWS ? cnt : TOP_ROWS;
	memcpy(f->rows[list], all, f->cnt[list] * sizeof(*all));
	free(all);
}

static void add_operators(struct top_sums *ts, struct top_frame *f)
{
	uint32_t cnt, n = 0;
	const struct ka_row *rows = key_averages__rows(ts->ka, &cnt);
	struct top_row *all = xcalloc(cnt + 1ULL, sizeof(*all));

	for (uint32_t i = 0; i < cnt; i++) {
		const struct ka_row *r = &rows[i];
		struct top_row *to = &all[n];

		if (!r->category || strcmp(r->category, "cpu_op") != 0)
			continue;
		term_text__copy(to->name, sizeof(to->name), r->key);
		to->values[TOP_SELF] = (int64_t)r->self_cpu_ns > 0 ? r->self_cpu_ns : 0;
		to->values[TOP_TOTAL] = r->cpu_total_ns;
		to->values[TOP_CALLS] = r->count;
		to->values[TOP_DEVICE] = r->self_device_ns;
		n++;
	}
	set_rows(f, TOP_OPERATORS, all, n);
}

static void add_lines(struct top_sums *ts, struct top_frame *f)
{
	struct top_row *all = xcalloc(ts->row_cnt + 1ULL, sizeof(*all));

	for (uint32_t i = 0; i < ts->row_cnt; i++) {
		const char *text = text_ids__text(&ts->texts, ts->rows[i].line);
		size_t len = strlen(text), room = sizeof(all[i].name) - 1;

		/* the end says most */
		term_text__copy(all[i].name, sizeof(all[i].name),
				len > room ? text + len - room : text);
		memcpy(all[i].values, ts->rows[i].values, sizeof(all[i].values));
	}
	set_rows(f, TOP_LINES, all, ts->row_cnt);
}

static void add_threads(struct top_sums *ts, struct top_frame *f)
{
	struct top_row *all = xcalloc(ts->thread_cnt + 1ULL, sizeof(*all));

	for (uint32_t i = 0; i < ts->thread_cnt; i++) {
		struct thread_sum *t = &ts->threads[i];
		uint64_t lived = t->until_ns - t->since_ns;

		for (uint32_t v = TOP_WAITS; v < TOP_VALUES; v++)
			lived -= t->values[v] < lived ? t->values[v] : lived;
		if (ts->info->has_sched)
			t->values[TOP_ON_CPU] = lived;
		term_text__copy(all[i].name, sizeof(all[i].name),
				session__thread_label(ts->s, t->tgid, t->tid));
		all[i].pid = t->tgid;
		all[i].tid = t->tid;
		memcpy(all[i].values, t->values, sizeof(t->values));
	}
	for (uint32_t i = 0; i < f->process_cnt; i++) {
		struct top_process *p = &f->processes[i];
		const uint64_t *at = hashmap__get(&ts->thread_ids, p->pid, p->pid);

		if (at)
			memcpy(p->main, ts->threads[*at].values, sizeof(p->main));
	}
	set_rows(f, TOP_THREADS, all, ts->thread_cnt);
}

static void add_processes(struct top_sums *ts, struct top_frame *f)
{
	const struct session_info *info = ts->info;

	for (uint32_t i = 0; i < info->process_cnt && f->process_cnt < TOP_PROCS; i++) {
		const struct session_process *sp = &info->processes[i];
		struct top_process *p = &f->processes[f->process_cnt++];
		char name[TOP_NAME];

		p->pid = sp->tgid;
		command__short(name, sizeof(name), sp->cmdline);
		term_text__copy(p->name, sizeof(p->name), name);
		p->operators_ns = session__probed_until(ts->s, sp->tgid) - info->begin_ns;
		p->agent = sp->source;
	}
}

static int run(struct top_sums *ts, struct top_frame *f, struct session *s)
{
	const struct session_info *info = ts->info;
	struct session_totals totals = { 0 };
	struct session_sink sinks[3] = {
		{ .arg = ts, .sample = take_sample, .sched = take_wait },
		key_averages__sink(ts->ka),
	};
	int err;

	if (ts->gpus)
		sinks[2] = gpus_report.sink(ts->gpus);
	err = session__run(s, sinks, ts->gpus ? 3 : 2, &totals);
	if (err)
		return err;
	f->window_ns = info->end_ns - info->begin_ns;
	f->operators = totals.ops;
	f->samples = totals.samples;
	f->lost = session_info__counter(info, PTB_CNT_RING_FULL) +
		  session_info__counter(info, PTB_CNT_AGENT_LOST);
	f->has_waits = info->has_sched;
	if (ts->gpus)
		f->gpu_cnt = gpu_report__busy(ts->gpus, f->gpus, TOP_GPUS);
	add_processes(ts, f);
	add_operators(ts, f);
	add_lines(ts, f);
	add_threads(ts, f);
	return 0;
}

int top_frame__fill(struct top_frame *f, struct session *s)
{
	struct top_sums ts = { .s = s, .info = session__info(s), .ka = key_averages__new(NULL) };
	int err;

	memset(f, 0, sizeof(*f));
	text_ids__init(&ts.texts);
	py_lines__init(&ts.lines, s);
	if (ts.info->has_gpu)
		gpus_report.open(&(struct output_args){ .s = s }, &ts.gpus);
	err = run(&ts, f, s);
	key_averages__free(ts.ka);
	gpus_report.free(ts.gpus);
	py_lines__free(&ts.lines);
	text_ids__free(&ts.texts);
	hashmap__clear(&ts.row_ids);
	hashmap__clear(&ts.thread_ids);
	free(ts.rows);
	free(ts.threads);
	return err;
}

bool top_frame__check(struct top_frame *f, size_t len)
{
	if (len != sizeof(*f) || f->process_cnt > TOP_PROCS || f->gpu_cnt > TOP_GPUS)
		return false;
	for (uint32_t i = 0; i < f->process_cnt; i++)
		f->processes[i].name[TOP_NAME - 1] = '\0';
	for (uint32_t l = 0; l < TOP_LISTS; l++) {
		if (f->cnt[l] > TOP_ROWS)
			return false;
		for (uint32_t i = 0; i < f->cnt[l]; i++)
			f->rows[l][i].name[TOP_NAME - 1] = '\0';
	}
	return true;
}
