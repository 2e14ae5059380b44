/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Differences of all rows and places, and which of them are causes. */
#include <math.h>
#include <stdlib.h>

#include "base/mem.h"
#include "diff/diff_priv.h"

/* ---- series as amounts of every step that counts ---- */

static void add_series(const struct diff_side *ds, const struct diff_series *s, double *out)
{
	for (uint32_t i = 0; i < s->cnt; i++)
		if (s->list[i].step >= ds->warm)
			out[s->list[i].step - ds->warm] += s->list[i].v;
}

static double mean_of(const struct diff_side *ds, const struct diff_series *s)
{
	double sum = 0;

	for (uint32_t i = 0; i < s->cnt; i++)
		sum += s->list[i].step >= ds->warm ? s->list[i].v : 0;
	return sum / (ds->cnt - ds->warm);
}

static double *amounts_new(const struct diff_side *ds)
{
	return xcalloc(ds->cnt, sizeof(double));
}

static double *amounts_of(const struct diff_side *ds, const struct diff_series *s)
{
	double *v = amounts_new(ds);

	add_series(ds, s, v);
	return v;
}

static struct diff_interval interval_of(const struct diff *d, double *of[DIFF_SIDES])
{
	struct diff_sample sides[DIFF_SIDES];
	struct diff_interval in;

	for (uint32_t side = 0; side < DIFF_SIDES; side++) {
		sides[side] = diff_side__steps(&d->side[side], false);
		sides[side].v = of[side];
	}
	in = diff_stats__interval(sides);
	free(of[DIFF_A]);
	free(of[DIFF_B]);
	return in;
}

static struct diff_interval row_interval(const struct diff *d, const struct diff_row *r)
{
	double *of[DIFF_SIDES];

	for (uint32_t side = 0; side < DIFF_SIDES; side++)
		of[side] = amounts_of(&d->side[side], &r->of[side]);
	return interval_of(d, of);
}

const struct diff_row *diff_judge__part(const struct diff *d, uint32_t part)
{
	const struct diff_rows *v = &d->views[DIFF_PARTS];
	uint32_t r = 0;

	while (v->rows[r].key != part)
		r++;
	return &v->rows[r];
}

/* Of a step `own` parts of the time without waits for a CPU, and `waits` of these. */
static struct diff_interval weighted(const struct diff *d, double own, double waits)
{
	const struct diff_row *r = diff_judge__part(d, DIFF_PART_WAIT + PTB_WAIT_CPU);
	double *of[DIFF_SIDES];

	for (uint32_t side = 0; side < DIFF_SIDES; side++) {
		const struct diff_side *ds = &d->side[side];
		double *v = of[side] = amounts_of(ds, &r->of[side]);

		for (uint32_t i = 0; i < ds->cnt - ds->warm; i++)
			v[i] = waits * v[i] + own * (ds->steps[ds->warm + i] - v[i]);
	}
	return interval_of(d, of);
}

struct diff_interval diff_judge__own(const struct diff *d)
{
	return weighted(d, 1, 0);
}

/* A caller is before what it calls. */
static bool *mark_below(const struct diff *d, uint32_t place, uint32_t end)
{
	bool *in = xcalloc(end, sizeof(*in));

	in[place] = true;
	for (uint32_t p = place + 1; p < end; p++)
		in[p] = in[d->places[p].parent];
	return in;
}

struct diff_interval diff_place__interval(const struct diff *d, uint32_t place, bool total)
{
	double *of[DIFF_SIDES];
	uint32_t end = total ? d->place_cnt : place + 1;
	bool *in = mark_below(d, place, end);

	for (uint32_t side = 0; side < DIFF_SIDES; side++) {
		of[side] = amounts_new(&d->side[side]);
		for (uint32_t p = place; p < end; p++)
			for (uint32_t i = 0; in[p] && i < d->places[p].node_cnt[side]; i++)
				add_series(&d->side[side],
					   &d->side[side].nodes[d->places[p].nodes[side][i]].self,
					   of[side]);
	}
	free(in);
	return interval_of(d, of);
}

/* ---- differences, at first without intervals ---- */

static void measure_places(struct diff *d)
{
	for (uint32_t p = d->place_cnt; p--;) {
		struct diff_place *at = &d->places[p];
		double mean[DIFF_SIDES] = { 0 };

		for (uint32_t side = 0; side < DIFF_SIDES; side++)
			for (uint32_t i = 0; i < at->node_cnt[side]; i++)
				mean[side] +=
					mean_of(&d->side[side],
						&d->side[side].nodes[at->nodes[side][i]].self);
		at->self.diff = mean[DIFF_B] - mean[DIFF_A];
		at->total.diff += at->self.diff;
		if (p)
			d->places[at->parent].total.diff += at->total.diff;
	}
}

static int by_self(const void *a, const void *b, void *arg)
{
	const struct diff *d = arg;
	double x = fabs(d->places[*(const uint32_t *)a].self.diff),
	       y = fabs(d->places[*(const uint32_t *)b].self.diff);

	return (x < y) - (x > y);
}

static int by_diff(const void *a, const void *b)
{
	const struct diff_interval *i = &((const struct diff_row *)a)->in,
				   *k = &((const struct diff_row *)b)->in;
	double x = fabs(i->diff), y = fabs(k->diff);

	if (x <= y && x >= y) {
		x = fmax(i->a, i->b);
		y = fmax(k->a, k->b);
	}
	return (x < y) - (x > y);
}

static void sort_places(struct diff *d)
{
	d->by_self = xcalloc(d->place_cnt, sizeof(*d->by_self));
	for (uint32_t p = 1; p < d->place_cnt; p++)
		d->by_self[p - 1] = p;
	sort__array_r(d->by_self, d->place_cnt - 1, sizeof(*d->by_self), by_self, d);
	for (uint32_t i = 0; i < report__shown(d->place_cnt - 1, d->args->out->row_limit); i++)
		d->places[d->by_self[i]].self = diff_place__interval(d, d->by_self[i], false);
}

static void sort_rows(struct diff *d, struct diff_rows *v, bool all)
{
	for (uint32_t r = 0; r < v->row_cnt; r++) {
		struct diff_interval *in = &v->rows[r].in;

		in->a = mean_of(&d->side[DIFF_A], &v->rows[r].of[DIFF_A]);
		in->b = mean_of(&d->side[DIFF_B], &v->rows[r].of[DIFF_B]);
		in->diff = in->b - in->a;
	}
	sort__array(v->rows, v->row_cnt, sizeof(*v->rows), by_diff);
	for (uint32_t r = 0; r < v->row_cnt; r++)
		if (all || r < report__shown(v->row_cnt, d->args->out->row_limit))
			v->rows[r].in = row_interval(d, &v->rows[r]);
}

/* Where the answer is of other steps than the parts, what these do not have. */
static void add_unprobed(struct diff *d)
{
	struct diff_row *r = diff__row(d, DIFF_PARTS, DIFF_PART_UNPROBED, 0);

	r->label[DIFF_A] = r->label[DIFF_B] = diff__text_id(d, diff_part__name(DIFF_PART_UNPROBED));
	r->in = (struct diff_interval){ .a = d->answer.a - d->step.a,
					.b = d->answer.b - d->step.b,
					.diff = d->answer.diff - d->step.diff,
					.low = NAN,
					.high = NAN };
	sort__array(d->views[DIFF_PARTS].rows, d->views[DIFF_PARTS].row_cnt, sizeof(*r), by_diff);
}

/* ---- causes ---- */

static bool is_much(const struct diff *d, double diff)
{
	return diff * d->to_explain > 0 && fabs(diff) >= DIFF_CAUSE_SHARE * fabs(d->to_explain);
}

static bool add_cause(struct diff *d, struct diff_cause c)
{
	if (!is_much(d, c.in.diff) || !diff_interval__is_certain(&c.in) ||
	    d->cause_cnt == DIFF_CAUSES_SHOWN)
		return false;
	d->causes[d->cause_cnt++] = c;
	return true;
}

static bool add_place(struct diff *d, uint32_t place, bool total)
{
	return add_cause(d, (struct diff_cause){ .place = place,
						 .total = total,
						 .in = diff_place__interval(d, place, total) });
}

/* What is much of it: it or what it calls, where that accounts for most, else all together. */
static void explain(struct diff *d, uint32_t place)
{
	const struct diff_place *p = &d->places[place];
	double sum = is_much(d, p->self.diff) && place ? p->self.diff : 0;

	for (uint32_t k = place + 1; k < d->place_cnt; k++)
		if (d->places[k].parent == place && is_much(d, d->places[k].total.diff))
			sum += d->places[k].total.diff;
	if (place && fabs(sum) < DIFF_CHILD_SHARE * fabs(p->total.diff)) {
		add_place(d, place, true);
		return;
	}
	if (place && is_much(d, p->self.diff))
		add_place(d, place, false);
	for (uint32_t k = place + 1; k < d->place_cnt; k++)
		if (d->places[k].parent == place && is_much(d, d->places[k].total.diff))
			explain(d, k);
}

static enum time_class class_of(const struct diff *d, uint32_t place)
{
	const struct diff_place *p = &d->places[place];
	uint32_t side = p->node_cnt[DIFF_B] ? DIFF_B : DIFF_A;

	return d->side[side].nodes[p->nodes[side][0]].class;
}

/* On a busy machine a program that does more waits more: only what is beyond that is a cause. */
static void explain_cpu_waits(struct diff *d)
{
	const struct diff_row *r = diff_judge__part(d, DIFF_PART_WAIT + PTB_WAIT_CPU);

	d->to_explain = d->answer.diff;
	if (d->own.a <= 0 || d->by_own || !is_much(d, r->in.diff))
		return;
	d->waits_grow =
		!add_cause(d, (struct diff_cause){ .part = r->key,
						   .in = weighted(d, -r->in.a / d->own.a, 1) });
}

/* Parts that no place accounts for. */
static void explain_parts(struct diff *d)
{
	const struct diff_rows *v = &d->views[DIFF_PARTS];
	bool named[TIME_CLASSES + 1] = { false };

	for (uint32_t i = 0; i < d->cause_cnt; i++)
		named[class_of(d, d->causes[i].place)] = true;
	for (uint32_t r = 0; r < v->row_cnt; r++)
		if (v->rows[r].key > TIME_CLASSES ?
			    v->rows[r].key != DIFF_PART_WAIT + PTB_WAIT_CPU :
			    !named[v->rows[r].key])
			add_cause(d, (struct diff_cause){ .part = v->rows[r].key,
							  .in = v->rows[r].in });
}

static int by_size(const void *a, const void *b)
{
	double x = fabs(((const struct diff_cause *)a)->in.diff),
	       y = fabs(((const struct diff_cause *)b)->in.diff);

	return (x < y) - (x > y);
}

void diff_judge__measure(struct diff *d)
{
	measure_places(d);
	sort_places(d);
	for (uint32_t v = 0; v < DIFF_VIEWS; v++)
		sort_rows(d, &d->views[v], v == DIFF_PARTS);
	if (d->by_later)
		add_unprobed(d);
}

static void explain_both(struct diff *d)
{
	double least = DIFF_SHIFT_SHARE * d->whole.a / DIFF_CAUSE_SHARE;

	d->shifts = true;
	for (d->to_explain = least; d->to_explain >= -least; d->to_explain -= 2 * least) {
		explain(d, 0);
		explain_parts(d);
	}
}

/* Does the program's own time differ, which may be small beside waits for a CPU? */
static bool own_differs(const struct diff *d)
{
	if (!d->has_own || d->own.diff * d->answer.diff <= 0)
		return false;
	return diff__verdict_of(d, &d->own) == d->verdict ||
	       (diff_interval__is_certain(&d->own) &&
		fabs(d->own.diff) >= DIFF_OWN_SHARE * d->own.a);
}

static void explain_step(struct diff *d)
{
	d->to_explain = own_differs(d) ? d->own.diff : d->answer.diff;
	explain(d, 0);
	explain_parts(d);
	explain_cpu_waits(d);
}

void diff_judge__explain(struct diff *d)
{
	if (d->verdict == DIFF_SLOWER || d->verdict == DIFF_FASTER)
		explain_step(d);
	else
		explain_both(d);
	sort__array(d->causes, d->cause_cnt, sizeof(*d->causes), by_size);
}
