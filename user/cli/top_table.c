/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The tables of ptbpf top: which columns they have, on a screen and in JSON; see top.h. */
#include <stdlib.h>
#include <string.h>

#include "base/containers.h"
#include "base/mem.h"
#include "base/text.h"
#include "cli/top.h"

double top__share(uint64_t ns, uint64_t of)
{
	return of ? 100 * (double)ns / (double)of : 0;
}

double top__a_second(uint64_t cnt, uint64_t ns)
{
	return ns ? (double)cnt * 1e9 / (double)ns : 0;
}

uint64_t top__operators_ns(const struct top_frame *f)
{
	uint64_t most = 0;

	for (uint32_t i = 0; i < f->process_cnt; i++)
		if (f->processes[i].operators_ns > most)
			most = f->processes[i].operators_ns;
	return most;
}

enum unit { SHARE, RATE, THOUSANDTHS, MEAN, DURATION, BYTES, NUMBER };

struct column {
	const char *heading, *key; /* key: of JSON */
	int width;
	enum unit unit;
	uint32_t value;
	int drop; /* those with the highest number go first where there is no room; 0: it stays */
};

/* Values of a row about a process, which is made of struct top_process. */
enum { P_CPU, P_RESIDENT, P_STEPS, P_STEP, P_MAIN, P_GIL, P_COST, P_CNT };
_Static_assert((int)P_CNT <= (int)TOP_VALUES, "a row has room for them");

#define COLUMNS_MAX 8
#define NUMBER_PID UINT32_MAX
#define NUMBER_TID (UINT32_MAX - 1)

static const struct table {
	const char *name, *key, *last; /* last: heading of the names */
	struct column columns[COLUMNS_MAX];
} tables[TOP_VIEWS] = {
	/* clang-format off */
	[TOP_OPERATORS] = { "Operators", "operators", "operator", {
		{ "self", "self_ns", 7, SHARE, TOP_SELF, 0 },
		{ "total", "total_ns", 6, SHARE, TOP_TOTAL, 2 },
		{ "GPU", "device_ns", 6, SHARE, TOP_DEVICE, 1 },
		{ "calls/s", "calls", 8, RATE, TOP_CALLS, 0 },
		{ "mean", NULL, 9, MEAN, TOP_TOTAL, 3 } } },
	[TOP_LINES] = { "Lines", "lines", "line", {
		{ "on CPU", "running_ns", 7, SHARE, TOP_RAN, 0 },
		{ "queue", "queued_ns", 6, SHARE, TOP_QUEUED, 1 },
		{ "blocked", "blocked_ns", 8, SHARE, TOP_BLOCKED, 0 } } },
	[TOP_THREADS] = { "Threads", "threads", "thread", {
		{ "on CPU", "on_cpu_ns", 7, SHARE, TOP_ON_CPU, 0 },
		{ "queue", "cpu_wait_ns", 6, SHARE, TOP_WAITS + WAITS_CPU, 0 },
		{ "GIL", "gil_wait_ns", 6, SHARE, TOP_WAITS + WAITS_GIL, 0 },
		{ "lock", "lock_wait_ns", 6, SHARE, TOP_WAITS + WAITS_LOCK, 1 },
		{ "I/O", "io_wait_ns", 6, SHARE, TOP_WAITS + WAITS_IO, 2 },
		{ "sleep", "sleep_ns", 6, SHARE, TOP_WAITS + WAITS_SLEEP, 3 },
		{ "other", "other_wait_ns", 6, SHARE, TOP_WAITS + WAITS_OTHER, 4 },
		{ "tid", "tid", 8, NUMBER, NUMBER_TID, 5 } } },
	[TOP_PROCESSES] = { "Processes", "processes", "process", {
		{ "CPU", "cpu_ns", 6, SHARE, P_CPU, 0 },
		{ "memory", "resident_bytes", 9, BYTES, P_RESIDENT, 0 },
		{ "steps/s", "steps_per_second", 8, THOUSANDTHS, P_STEPS, 0 },
		{ "step", "step_ns", 8, DURATION, P_STEP, 1 },
		{ "main", "main_on_cpu_ns", 6, SHARE, P_MAIN, 2 },
		{ "GIL", "main_gil_wait_ns", 6, SHARE, P_GIL, 3 },
		{ "cost", "cost_ns", 6, SHARE, P_COST, 4 },
		{ "pid", "pid", 8, NUMBER, NUMBER_PID, 0 } } },
	/* clang-format on */
};

uint32_t top__columns(uint32_t kind)
{
	uint32_t n = 0;

	while (n < COLUMNS_MAX && tables[kind].columns[n].heading)
		n++;
	return n;
}

/* What a share or a rate of a view is of. */
static uint64_t whole(const struct screen *s)
{
	return s->v->kind == TOP_PROCESSES ? s->f->wall_ns :
	       s->v->kind == TOP_OPERATORS ? top__operators_ns(s->f) :
					     s->f->window_ns;
}

static uint64_t value(const struct top_row *r, const struct column *c)
{
	if (c->value == NUMBER_PID)
		return r->pid;
	if (c->value == NUMBER_TID)
		return r->tid;
	if (c->unit == MEAN)
		return r->values[TOP_CALLS] ? r->values[c->value] / r->values[TOP_CALLS] : 0;
	return r->values[c->value];
}

static struct cell text_of(const struct column *c, uint64_t v, uint64_t of)
{
	switch (c->unit) {
	case SHARE:
		return cell__format("%.1f%%", top__share(v, of));
	case RATE:
		return top__a_second(v, of) < 100 ? cell__format("%.3g", top__a_second(v, of)) :
						    cell__count((uint64_t)top__a_second(v, of));
	case THOUSANDTHS:
		return cell__format("%.3g", (double)v / 1000);
	case MEAN:
	case DURATION:
		return unit__ns_or_dash((double)v);
	case BYTES:
		return cell__bytes((double)v);
	default:
		return cell__format("%llu", (unsigned long long)v);
	}
}

static struct top_row process_row(const struct top_process *p)
{
	double steps = top__a_second(p->steps, p->steps_ns);
	struct top_row r = { .pid = p->pid,
			     .values = { [P_CPU] = p->cpu_ns,
					 [P_RESIDENT] = p->resident,
					 [P_STEPS] = (uint64_t)(1000 * steps),
					 [P_STEP] = p->step_ns,
					 [P_MAIN] = p->main[TOP_ON_CPU],
					 [P_GIL] = p->main[TOP_WAITS + WAITS_GIL],
					 [P_COST] = p->cost_ns } };

	memcpy(r.name, p->name, sizeof(r.name));
	return r;
}

/* All rows of the view that pass the filter, which the caller frees. */
static struct top_row *rows_of(const struct top_view *v, const struct top_frame *f, uint32_t *cnt)
{
	bool procs = v->kind == TOP_PROCESSES;
	uint32_t all = procs ? f->process_cnt : f->cnt[v->kind], n = 0;
	struct top_row *rows = xcalloc(all + 1ULL, sizeof(*rows));

	for (uint32_t i = 0; i < all; i++) {
		rows[n] = procs ? process_row(&f->processes[i]) : f->rows[v->kind][i];
		n += !v->filter[0] || strcasestr(rows[n].name, v->filter);
	}
	*cnt = n;
	return rows;
}

uint32_t top__rows(const struct top_view *v, const struct top_frame *frame)
{
	uint32_t cnt;

	free(rows_of(v, frame, &cnt));
	return cnt;
}

struct order {
	const struct column *by;
	bool reversed;
};

static int compare(const void *a, const void *b, void *arg)
{
	const struct order *o = arg;
	int cmp = sort__cmp(value(b, o->by), value(a, o->by));

	if (!cmp)
		cmp = strcmp(((const struct top_row *)a)->name, ((const struct top_row *)b)->name);
	return o->reversed ? -cmp : cmp;
}

#define NAME_LEAST 16 /* columns, before the others go */

/* Which columns have room, as bits. */
static uint32_t choose(const struct screen *s, const struct table *t)
{
	uint32_t cnt = top__columns(s->v->kind), kept = (1u << cnt) - 1;
	int room = s->v->width - NAME_LEAST;

	for (uint32_t i = 0; i < cnt && !s->f->gpu_cnt; i++)
		if (t->columns[i].value == TOP_DEVICE && s->v->kind == TOP_OPERATORS)
			kept &= ~(1u << i);

	for (;;) {
		int used = 0, worst = 0;
		uint32_t drop = 0;

		for (uint32_t i = 0; i < cnt; i++) {
			const struct column *c = &t->columns[i];

			if (!(kept >> i & 1))
				continue;
			used += c->width + 1;
			if (c->drop > worst && i != s->v->sort[s->v->kind]) {
				worst = c->drop;
				drop = i;
			}
		}
		if (used <= room || !worst)
			return kept;
		kept &= ~(1u << drop);
	}
}

static void put_headings(struct screen *s, const struct table *t, uint32_t kept)
{
	screen__begin_line(s, 1);
	screen__style(s, STYLE_HEAD);
	for (uint32_t i = 0; i < top__columns(s->v->kind); i++) {
		char text[32];

		if (!(kept >> i & 1))
			continue;
		snprintf(text, sizeof(text), "%s%s",
			 i != s->v->sort[s->v->kind] ? "" :
			 s->v->reversed              ? "^" :
						       "*",
			 t->columns[i].heading);
		screen__style(s, i == s->v->sort[s->v->kind] ? STYLE_SORT : "");
		screen__put_padded(s, text, t->columns[i].width, false);
		screen__style(s, STYLE_END STYLE_HEAD);
		screen__put(s, " ");
	}
	screen__put_padded(s, t->last, s->v->height ? s->v->width - s->at : 0, true);
	screen__end_line(s);
	screen__style(s, STYLE_END);
}

static void put_row(struct screen *s, const struct table *t, uint32_t kept, const struct top_row *r)
{
	screen__begin_line(s, 1);
	for (uint32_t i = 0; i < top__columns(s->v->kind); i++)
		if (kept >> i & 1) {
			screen__put_padded(
				s, text_of(&t->columns[i], value(r, &t->columns[i]), whole(s)).text,
				t->columns[i].width, false);
			screen__put(s, " ");
		}
	screen__put_name(s, r->name, s->v->width);
}

/* Why a view has no rows. */
static const char *why_empty(const struct screen *s)
{
	if (s->v->filter[0])
		return "nothing matches the filter";
	if (s->v->kind == TOP_OPERATORS && !whole(s))
		return "press o to record operators";
	if (s->v->kind == TOP_OPERATORS)
		return "no operator ran";
	return s->v->kind == TOP_LINES ? "no line of Python was seen" : "nothing was seen";
}

void top_table__put(struct screen *s, uint32_t max)
{
	const struct table *t = &tables[s->v->kind];
	uint32_t kept = choose(s, t), cnt;
	struct top_row *rows = rows_of(s->v, s->f, &cnt);
	struct order o = { &t->columns[s->v->sort[s->v->kind]], s->v->reversed };

	sort__array_r(rows, cnt, sizeof(*rows), compare, &o);
	put_headings(s, t, kept);
	for (uint32_t i = s->v->first; i < cnt && i - s->v->first < max && !s->off; i++)
		put_row(s, t, kept, &rows[i]);
	if (!cnt) {
		screen__begin_line(s, 1);
		screen__put(s, why_empty(s));
	}
	free(rows);
}

const char *top_table__name(uint32_t kind)
{
	return tables[kind].name;
}

bool top_table__has_rows(const struct screen *s)
{
	return s->f->cnt[s->v->kind] || whole(s);
}

/* ---- JSON ---- */

static void put_values(struct doc *d, const struct table *t, const struct top_row *r)
{
	DOC(d, FACT("name", (const char *)r->name));
	for (const struct column *c = t->columns; c < t->columns + COLUMNS_MAX && c->heading; c++)
		if (c->key)
			DOC(d, c->unit == THOUSANDTHS ? FACT(c->key, (double)value(r, c) / 1000) :
							FACT(c->key, value(r, c)));
}

int top__json(const struct top_view *v, const struct top_frame *f)
{
	const struct output_args args = { .json = true, .row_limit = -1 };
	struct top_view view = *v;
	struct doc d;

	doc__begin(&d, &args);
	DOC(&d, FACT("window_ns", f->window_ns), FACT("wall_ns", f->wall_ns),
	    FACT("own_cpu_ns", f->own_ns), FACT("lost", f->lost), FACT("samples", f->samples),
	    FACT("waits", f->has_waits));
	doc__all(&d, "gpus", f->gpu_cnt, NULL);
	for (uint32_t i; doc__next(&d, &i);)
		DOC(&d, FACT("id", f->gpus[i].id), FACT("busy_ns", f->gpus[i].ns));
	for (uint32_t k = 0; k < TOP_VIEWS; k++) {
		uint32_t cnt;
		struct top_row *rows;

		view.kind = k;
		rows = rows_of(&view, f, &cnt);
		doc__all(&d, tables[k].key, cnt, NULL);
		for (uint32_t i; doc__next(&d, &i);)
			put_values(&d, &tables[k], &rows[i]);
		free(rows);
	}
	return doc__finish(&d);
}
