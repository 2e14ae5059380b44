/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* From two captures to an answer; see diff_priv.h. */
#include "diff/diff.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "diff/diff_priv.h"

uint32_t diff__text_id(struct diff *d, const char *text)
{
	return *text ? strtab__add(d->texts, text, strlen(text)) : 0;
}

struct diff_row *diff__row(struct diff *d, enum diff_view view, uint64_t k0, uint64_t k1)
{
	struct diff_rows *v = &d->views[view];
	struct diff_row *r = list__keyed(KEYED_LIST(v, rows, row), k0, k1);

	r->key = (uint32_t)k0;
	return r;
}

/* ---- parts ---- */

static const struct {
	const char *key, *name;
} parts[] = {
	[TIME_OPERATORS] = { "operators", "operators" },
	[TIME_LOADER] = { "data_loader", "data loader" },
	[TIME_OPTIMIZER] = { "optimizer", "optimizer" },
	[TIME_COLLECTIVES] = { "collectives", "collectives" },
	[DIFF_PART_PYTHON] = { "python", "Python, outside of operators" },
#define X(id, nr, text, group) [DIFF_PART_WAIT + (nr)] = { text, "waits: " text },
	PTB_WAITS(X)
#undef X
		[DIFF_PART_UNPROBED] = { "unprobed", "not in the steps with operators" },
};

const char *diff_part__key(uint32_t part)
{
	return parts[part].key;
}

const char *diff_part__name(uint32_t part)
{
	return parts[part].name;
}

static void add_parts(struct diff *d)
{
	for (uint32_t p = 0; p < DIFF_PART_CNT; p++) {
		struct diff_row *r = diff__row(d, DIFF_PARTS, p, 0);

		r->label[DIFF_A] = r->label[DIFF_B] = diff__text_id(d, diff_part__name(p));
	}
}

/* ---- the verdict ---- */

static bool has_sched(const struct diff *d)
{
	return session__info(d->side[DIFF_A].s)->has_sched &&
	       session__info(d->side[DIFF_B].s)->has_sched;
}

enum diff_verdict diff__verdict_of(const struct diff *d, const struct diff_interval *in)
{
	double same = DIFF_SAME_SHARE * d->whole.a;

	if (diff_interval__is_certain(in) && fabs(in->diff) >= same)
		return in->diff > 0 ? DIFF_SLOWER : DIFF_FASTER;
	if (diff_interval__is_certain(in) || (in->low > -same && in->high < same))
		return DIFF_SAME;
	return DIFF_INCONCLUSIVE;
}

/*
 * On a busy machine steps vary by their waits for a CPU, which the program's own time has not. It
 * is a share of the whole step, since the same machine makes caches colder, too.
 */
static void decide(struct diff *d)
{
	d->verdict = diff__verdict_of(d, &d->answer);
	d->has_own = has_sched(d) && !d->by_later;
	if (has_sched(d))
		d->own = diff_judge__own(d);
	if (d->verdict == DIFF_INCONCLUSIVE && d->has_own) {
		d->verdict = diff__verdict_of(d, &d->own);
		d->by_own = d->verdict != DIFF_INCONCLUSIVE;
	}
	if (d->by_own)
		d->answer = d->own;
	if (d->verdict == DIFF_INCONCLUSIVE)
		snprintf(
			d->reason, sizeof(d->reason),
			"steps vary too much to tell: record more of them, or on a quieter machine");
}

struct diff_sample diff_side__steps(const struct diff_side *s, bool later)
{
	struct diff_sample of = { .v = later ? s->later : s->steps + s->warm,
				  .cnt = later ? s->later_cnt : s->cnt - s->warm };

	for (uint32_t i = 0; i < of.cnt; i++)
		of.step_ns += of.v[i] / of.cnt;
	return of;
}

static struct diff_interval steps_interval(const struct diff *d, bool later)
{
	const struct diff_sample of[DIFF_SIDES] = { diff_side__steps(&d->side[DIFF_A], later),
						    diff_side__steps(&d->side[DIFF_B], later) };

	return diff_stats__interval(of);
}

static bool has_steps(struct diff *d)
{
	for (uint32_t side = 0; side < DIFF_SIDES; side++)
		if (!d->side[side].proc || !d->side[side].cnt) {
			snprintf(
				d->reason, sizeof(d->reason),
				"no whole step in %s: record longer, or name what ends a step with --step-on",
				d->side[side].name);
			return false;
		}
	return true;
}

static bool has_enough_steps(struct diff *d)
{
	for (uint32_t side = 0; side < DIFF_SIDES; side++) {
		uint32_t cnt = diff_side__steps(&d->side[side], d->by_later).cnt;

		if (cnt >= DIFF_STEPS_MIN)
			continue;
		snprintf(d->reason, sizeof(d->reason),
			 "too few steps: %u in %s, %d are needed; record longer", cnt,
			 d->side[side].name, DIFF_STEPS_MIN);
		return false;
	}
	return true;
}

static void judge(struct diff *d)
{
	d->verdict = DIFF_NOT_COMPARABLE;
	if (!has_steps(d))
		return;
	d->by_later = d->side[DIFF_A].later_cnt >= DIFF_STEPS_MIN &&
		      d->side[DIFF_B].later_cnt >= DIFF_STEPS_MIN;
	diff_match__places(d);
	diff_config__find(d);
	d->step = steps_interval(d, false);
	d->answer = d->whole = d->by_later ? steps_interval(d, true) : d->step;
	if (!diff_config__is_comparable(d))
		return;
	d->verdict = DIFF_INCONCLUSIVE;
	d->judged = has_enough_steps(d);
	if (!d->judged)
		return;
	diff_judge__measure(d);
	decide(d);
	diff_judge__explain(d);
}

/* ---- the answer ---- */

static void answer(const struct diff *d, struct diff_answer *out)
{
	const struct diff_interval *in = d->has_own ? &d->own : &d->answer;
	double limit = d->args->fail_above;

	*out = (struct diff_answer){ .fails = false };
	for (uint32_t side = DIFF_SIDES; side--;)
		if (d->side[side].lacks[0]) {
			out->incomplete = true;
			snprintf(out->said, sizeof(out->said), "%.200s: %.700s", d->side[side].name,
				 d->side[side].lacks);
		}
	if (limit < 0)
		return;
	if (!d->judged) {
		out->undecided = true;
		snprintf(out->said, sizeof(out->said), "%s", d->reason);
	} else if (in->low > limit * d->whole.a && diff__verdict_of(d, in) == DIFF_SLOWER) {
		out->fails = true;
		snprintf(out->said, sizeof(out->said), "a step is slower by more than %.3g%%: %s",
			 100 * limit, diff__effect(d, in).text);
	}
}

static void free_diff(struct diff *d)
{
	for (uint32_t side = 0; side < DIFF_SIDES; side++) {
		struct diff_side *ds = &d->side[side];

		for (uint32_t n = 0; n < ds->node_cnt; n++) {
			free(ds->nodes[n].self.list);
			hashmap__clear(&ds->nodes[n].shapes);
		}
		free(ds->nodes);
		hashmap__clear(&ds->node_ids);
		free(ds->steps);
		free(ds->begins);
		free(ds->later);
		for (uint32_t p = 0; p < d->place_cnt; p++)
			free(d->places[p].nodes[side]);
	}
	for (uint32_t v = 0; v < DIFF_VIEWS; v++) {
		for (uint32_t r = 0; r < d->views[v].row_cnt; r++)
			for (uint32_t side = 0; side < DIFF_SIDES; side++)
				free(d->views[v].rows[r].of[side].list);
		free(d->views[v].rows);
		hashmap__clear(&d->views[v].row_ids);
	}
	free(d->places);
	free(d->by_self);
	free(d->configs);
	strtab__free(d->texts);
}

int diff__print(const struct diff_args *args, struct diff_answer *out)
{
	struct diff d = { .args = args, .texts = strtab__new() };
	int err = 0;

	add_parts(&d);
	for (uint32_t side = 0; side < DIFF_SIDES && !err; side++) {
		d.side[side].s = args->s[side];
		d.side[side].name = args->names[side];
		err = diff_collect__run(&d, side);
	}
	if (!err) {
		judge(&d);
		answer(&d, out);
		err = args->markdown ? diff_markdown__put(&d) : diff_doc__put(&d);
	}
	free_diff(&d);
	return err;
}
