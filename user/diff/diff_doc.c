/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The difference as a document. Key names are a contract:
 * schemas/formats/diff_report.schema.json.
 */
#include <math.h>
#include <stdlib.h>

#include "base/mem.h"
#include "diff/diff_priv.h"

#define PATH_TEXT 1024

static const char *const verdicts[] = {
	[DIFF_SLOWER] = "slower",
	[DIFF_FASTER] = "faster",
	[DIFF_SAME] = "same",
	[DIFF_INCONCLUSIVE] = "inconclusive",
	[DIFF_NOT_COMPARABLE] = "not comparable",
};

struct cell diff__heading(enum diff_verdict v)
{
	static const char *const texts[] = {
		[DIFF_SLOWER] = "A step is slower",
		[DIFF_FASTER] = "A step is faster",
		[DIFF_SAME] = "A step takes as long as before",
		[DIFF_INCONCLUSIVE] = "Inconclusive",
		[DIFF_NOT_COMPARABLE] = "Not comparable",
	};

	if (v == DIFF_SAME)
		return cell__format("%s, within %.0f %%", texts[v], 100 * DIFF_SAME_SHARE);
	return cell__format("%s", texts[v]);
}

/* ---- figures ---- */

struct cell diff__signed_ns(double ns)
{
	if (fabs(ns) < 0.5)
		return cell__format("0");
	return cell__format("%c%s", ns < 0 ? '-' : '+', unit__ns(fabs(ns)).text);
}

struct cell diff__effect(const struct diff *d, const struct diff_interval *in)
{
	return cell__format("%+.1f %% (95 %%: %+.1f to %+.1f %%)", 100 * in->diff / d->whole.a,
			    100 * in->low / d->whole.a, 100 * in->high / d->whole.a);
}

static struct cell change_ns(double v)
{
	return diff__signed_ns(v);
}

static struct cell amount_ns(double v)
{
	return v < 0 ? diff__signed_ns(v) : unit__ns_or_dash(v);
}

static struct doc_fact whole(const char *key, double v)
{
	return isfinite(v) ? fact__i64(key, (int64_t)llround(v)) : fact__null(key);
}

static void put_interval(struct doc *doc, const struct diff_interval *in)
{
	DOC(doc, whole("a", in->a), whole("b", in->b), whole("diff", in->diff),
	    whole("low", in->low), whole("high", in->high));
}

/* ---- steps ---- */

static void put_side(struct doc *doc, const struct diff *d, uint32_t side, const char *key)
{
	const struct diff_side *ds = &d->side[side];
	const struct diff_sample of = diff_side__steps(ds, d->by_later);
	double *v = of.cnt ? vec_dup(of.v, of.cnt, sizeof(*v)) : NULL;
	uint32_t cnt = of.cnt;

	if (v)
		sort__doubles(v, cnt);
	doc__object(doc, key);
	DOC(doc, FACT("capture", ds->name), FACT("steps", cnt), FACT("warm_up_steps", ds->warm),
	    FACT("complete", (bool)!ds->lacks[0]));
	if (ds->proc)
		DOC(doc, FACT("pid", ds->proc->pid), FACT("tid", ds->t.tid),
		    FACT("command_line", ds->proc->cmdline));
	if (v)
		DOC(doc, whole("mean_ns", of.step_ns), whole("median_ns", v[cnt / 2]),
		    whole("p10_ns", v[(cnt - 1) / 10]),
		    whole("p90_ns", v[(uint64_t)(cnt - 1) * 9 / 10]));
	doc__end(doc);
	if (v)
		doc__line(doc, "%-6s  %s: %s a step (median %s, p90 %s; %u steps%s)",
			  side == DIFF_A ? "Before" : "After", ds->name, unit__ns(of.step_ns).text,
			  unit__ns(v[cnt / 2]).text, unit__ns(v[(uint64_t)(cnt - 1) * 9 / 10]).text,
			  cnt, ds->warm ? cell__format(" after %u of warm-up", ds->warm).text : "");
	else
		doc__line(doc, "%-6s  %s: no step", side == DIFF_A ? "Before" : "After", ds->name);
	free(v);
}

static void put_method(struct doc *doc)
{
	doc__object(doc, "method");
	DOC(doc, FACT("statistic", "mean"), FACT("interval", "circular block bootstrap"),
	    FACT("confidence", DIFF_CONFIDENCE), FACT("resamples", (uint32_t)DIFF_RESAMPLES),
	    FACT("blocks", (uint32_t)DIFF_BLOCKS), FACT("block_ns", (uint64_t)DIFF_BLOCK_NS));
	doc__end(doc);
}

static void put_verdict(struct doc *doc, const struct diff *d)
{
	DOC(doc, FACT("verdict", verdicts[d->verdict]),
	    *d->reason ? FACT("reason", (const char *)d->reason) : NO_FACT);
	if (d->judged) {
		doc__object(doc, "difference");
		DOC(doc, whole("ns", d->answer.diff), whole("low_ns", d->answer.low),
		    whole("high_ns", d->answer.high), FACT("share", d->answer.diff / d->whole.a),
		    FACT("low", d->answer.low / d->whole.a),
		    FACT("high", d->answer.high / d->whole.a), FACT("unprobed", d->by_later),
		    FACT("without_cpu_waits", d->by_own));
		doc__end(doc);
	}
	if (d->has_own) {
		doc__object(doc, "own_time");
		put_interval(doc, &d->own);
		doc__end(doc);
	}
	doc__style(doc, d->verdict == DIFF_SLOWER ? DOC_ALERT : DOC_HEADING);
	doc__line(doc, "%s%s: %s", diff__heading(d->verdict).text,
		  d->by_own ? ", but for its waits for a CPU" : "",
		  d->judged ? diff__effect(d, &d->answer).text : d->reason);
	if (d->by_own)
		doc__line(doc, "With them nothing can be told: %s",
			  diff__effect(d, &d->whole).text);
	else if (d->has_own)
		doc__line(doc, "Of that, not waits for a CPU: %s", diff__effect(d, &d->own).text);
	if (d->judged && *d->reason)
		doc__line(doc, "%s", d->reason);
	put_method(doc);
}

/* ---- causes ---- */

static void put_cause(struct doc *doc, const struct diff *d, const struct diff_cause *c,
		      uint32_t nr)
{
	const struct diff_place *p = &d->places[c->place];
	char name[PATH_TEXT], path[PATH_TEXT];
	double calls[DIFF_SIDES] = { 0 };

	if (c->place) {
		diff_place__name(d, c->place, name, sizeof(name));
		diff_place__path(d, p->parent, path, sizeof(path));
		for (uint32_t side = 0; side < DIFF_SIDES; side++)
			calls[side] = diff_place__calls(d, c->place, side);
	} else {
		snprintf(name, sizeof(name), "%s", diff_part__name(c->part));
	}
	DOC(doc, FACT("what", c->place ? "place" : "part"), FACT("name", (const char *)name),
	    c->place ? FACT("within", (const char *)path) : NO_FACT,
	    c->place ? FACT("with_what_it_calls", c->total) : NO_FACT,
	    c->place ? FACT("calls_a", calls[DIFF_A]) : NO_FACT,
	    c->place ? FACT("calls_b", calls[DIFF_B]) : NO_FACT,
	    d->shifts ? NO_FACT : FACT("share", c->in.diff / d->answer.diff),
	    FACT("share_of_step", c->in.diff / d->whole.a));
	put_interval(doc, &c->in);
	doc__gap(doc);
	doc__style(doc, nr == 1 ? DOC_TOP : DOC_PLAIN);
	doc__line(doc, "%u. %s%s: %s a step, %.0f%% of %s", nr, name,
		  c->total ? " and what it calls" : "", diff__signed_ns(c->in.diff).text,
		  100 * c->in.diff / (d->shifts ? d->whole.a : d->answer.diff),
		  d->shifts ? "it" : "the difference");
	doc__line(doc, "   95 %%    %s to %s", diff__signed_ns(c->in.low).text,
		  diff__signed_ns(c->in.high).text);
	if (!c->place)
		return;
	if (*path)
		doc__line(doc, "   in      %s", path);
	doc__line(doc, "   calls   %.4g a step%s, then %.4g%s", calls[DIFF_A],
		  p->name[DIFF_A] ? "" : " (not there)", calls[DIFF_B],
		  p->name[DIFF_B] ? "" : " (not there)");
}

static void put_causes(struct doc *doc, const struct diff *d)
{
	if (d->shifts && d->cause_cnt) {
		doc__gap(doc);
		doc__line(doc, "Parts of a step differ all the same:");
	}
	doc__all(doc, "causes", d->cause_cnt, NULL);
	for (uint32_t i; doc__next(doc, &i);)
		put_cause(doc, d, &d->causes[i], i + 1);
	if (d->waits_grow) {
		doc__gap(doc);
		doc__line(doc, "Waits for a CPU have changed with the time on it: %s a step.",
			  diff__signed_ns(
				  diff_judge__part(d, DIFF_PART_WAIT + PTB_WAIT_CPU)->in.diff)
				  .text);
	}
	if (d->cause_cnt || (d->verdict != DIFF_SLOWER && d->verdict != DIFF_FASTER))
		return;
	doc__gap(doc);
	doc__line(doc, "Nothing stands out: no part is for certain %.0f%% of the difference.",
		  100 * DIFF_CAUSE_SHARE);
}

/* ---- lists ---- */

static const struct doc_column time_columns[] = {
	{ ".a", "before", 10, amount_ns, 0, 0 },    { ".b", "after", 10, amount_ns, 0, 0 },
	{ ".diff", "change", 10, change_ns, 0, 0 }, { ".interval", "95 %", -26, NULL, 0, 1 },
	{ ".name", "a step", 0, NULL, 0, 0 },       { 0 },
};
static const struct doc_column byte_columns[] = {
	{ ".a", "before", 10, cell__bytes, 0, 0 },
	{ ".b", "after", 10, cell__bytes, 0, 0 },
	{ ".diff", "change", 10, cell__change, 0, 0 },
	{ ".name", "a step", 0, NULL, 0, 0 },
	{ 0 },
};

static void put_row(struct doc *doc, const char *name, const struct diff_interval *in)
{
	DOC(doc, FACT("name", name));
	put_interval(doc, in);
	DOC(doc, FACT(".a", in->a), FACT(".b", in->b), FACT(".diff", in->diff),
	    FACT(".name", name));
	if (isfinite(in->low) && (in->low < 0 || in->high > 0))
		doc__cell(doc, ".interval", "%s to %s", diff__signed_ns(in->low).text,
			  diff__signed_ns(in->high).text);
}

static void put_labelled(struct doc *doc, const struct diff *d, const struct diff_row *r)
{
	const char *a = strtab__text(d->texts, r->label[DIFF_A]),
		   *b = strtab__text(d->texts, r->label[DIFF_B]);

	put_row(doc, *b ? b : a, &r->in);
	if (*a && *b && r->label[DIFF_A] != r->label[DIFF_B]) /* a line has moved */
		DOC(doc, FACT("name_before", a));
}

static void put_places(struct doc *doc, const struct diff *d)
{
	char path[PATH_TEXT];

	doc__title(doc, "Operators by their place, without what they call");
	doc__list(doc, "operators", d->place_cnt - 1, time_columns);
	for (uint32_t i; doc__next(doc, &i);) {
		uint32_t place = d->by_self[i];

		put_row(doc, diff_place__path(d, place, path, sizeof(path)),
			&d->places[place].self);
		DOC(doc, FACT("calls_a", diff_place__calls(d, place, DIFF_A)),
		    FACT("calls_b", diff_place__calls(d, place, DIFF_B)));
	}
}

static const struct {
	const char *key, *title;
	enum diff_view view;
} lists[] = {
	{ "parts", "Parts of a step, which sum to it", DIFF_PARTS },
	{ "states", "What its thread did", DIFF_STATES },
	{ "lines", "Operators by line of Python", DIFF_LINES },
	{ "modules", "Operators by module", DIFF_MODULES },
	{ "kernels", "GPU work", DIFF_KERNELS },
	{ "memory", "Memory", DIFF_MEMORY },
};

static bool is_empty(const struct diff_row *r)
{
	return r->in.a <= 0 && r->in.b <= 0 && fabs(r->in.diff) <= 0;
}

static void put_list(struct doc *doc, const struct diff *d, size_t nr)
{
	const struct diff_rows *v = &d->views[lists[nr].view];
	bool parts = lists[nr].view == DIFF_PARTS;
	uint32_t cnt = v->row_cnt;

	while (cnt && is_empty(&v->rows[cnt - 1]))
		cnt--;
	doc__title(doc, "%s", lists[nr].title);
	(parts ? doc__all : doc__list)(doc, lists[nr].key, cnt,
				       lists[nr].view == DIFF_MEMORY ? byte_columns : time_columns);
	for (uint32_t i; doc__next(doc, &i);) {
		if (parts)
			DOC(doc, FACT("part", diff_part__key(v->rows[i].key)));
		put_labelled(doc, d, &v->rows[i]);
	}
}

static void put_configuration(struct doc *doc, const struct diff *d)
{
	if (d->config_cnt) {
		doc__gap(doc);
		doc__style(doc, DOC_HEADING);
		doc__line(doc, "Configuration that differs");
	}
	doc__all(doc, "configuration", d->config_cnt, NULL);
	for (uint32_t i; doc__next(doc, &i);) {
		const struct diff_config *c = &d->configs[i];

		DOC(doc, FACT("what", (const char *)c->what),
		    FACT("a", (const char *)c->value[DIFF_A]),
		    FACT("b", (const char *)c->value[DIFF_B]));
		doc__line(doc, "  %s", c->what);
		doc__line(doc, "    before  %s",
			  *c->value[DIFF_A] ? c->value[DIFF_A] : "not known");
		doc__line(doc, "    after   %s",
			  *c->value[DIFF_B] ? c->value[DIFF_B] : "not known");
	}
}

static void put_losses(struct doc *doc, const struct diff *d)
{
	for (uint32_t side = 0; side < DIFF_SIDES; side++) {
		const struct diff_side *ds = &d->side[side];

		if (!ds->lacks[0])
			continue;
		doc__gap(doc);
		doc__style(doc, DOC_ALERT);
		doc__line(doc, "%s is incomplete and its figures are bounds: %s", ds->name,
			  ds->lacks);
	}
}

int diff_doc__put(struct diff *d)
{
	struct doc doc;

	doc__begin(&doc, d->args->out);
	doc__break(&doc);
	put_verdict(&doc, d);
	doc__break(&doc);
	put_side(&doc, d, DIFF_A, "a");
	doc__break(&doc);
	put_side(&doc, d, DIFF_B, "b");
	if (d->judged) {
		put_causes(&doc, d);
		put_list(&doc, d, 0);
		put_places(&doc, d);
		for (size_t i = 1; i < sizeof(lists) / sizeof(*lists); i++)
			put_list(&doc, d, i);
	}
	put_configuration(&doc, d);
	put_losses(&doc, d);
	return doc__finish(&doc);
}
