/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What the reports about memory, GPUs and ranks conclude, as sentences; see report.h. */
#include <stdarg.h>
#include <stdio.h>

#include "ranks/rank_times.h"
#include "report/report_priv.h"

#define GPU_IDLE_SHARE 0.3 /* of the window, from which on a GPU is idle */

struct finding *findings__add(struct findings *found, double weight, const char *fmt, ...)
{
	struct finding *f;
	va_list ap;

	if (found->cnt == FINDINGS_MAX)
		return NULL;
	f = &found->list[found->cnt++];
	f->weight = weight;
	va_start(ap, fmt);
	vsnprintf(f->text, sizeof(f->text), fmt, ap);
	va_end(ap);
	return f;
}

void finding__next(struct finding *f, const char *fmt, ...)
{
	va_list ap;

	if (!f)
		return;
	va_start(ap, fmt);
	vsnprintf(f->next, sizeof(f->next), fmt, ap);
	va_end(ap);
}

static int by_weight(const void *a, const void *b)
{
	const struct finding *x = a, *y = b;

	return (x->weight < y->weight) - (x->weight > y->weight);
}

void findings__sort(struct findings *found)
{
	sort__array(found->list, found->cnt, sizeof(*found->list), by_weight);
}

static void find_leak(const struct mr_printer *p, const struct output_args *args,
		      struct findings *found)
{
	const struct mr_view *v = p->v;
	const struct mr_group *g = v->leaks;
	struct mr_who_text who;

	if (v->leak_cnt && v->periods_before >= MR_LEAK_PERIODS_MIN) {
		who = mr_say__who(p, &g->who);
		finding__next(
			findings__add(found, 0.9, "GROWS %s%s, %s a %s: %s kept from %u of %u",
				      who.text, who.line,
				      cell__change((double)g->kept_before / v->periods_before).text,
				      v->by_step ? "step" : "tenth of the window",
				      cell__bytes((double)g->kept).text, g->periods,
				      v->periods_before + 1),
			"ptbpf report %s --memory", args->capture);
	} else if (v->other.per_period > 0) {
		finding__next(
			findings__add(
				found, 0.8,
				"GROWS the process by %s a %s, not PyTorch's tensors: Python objects or a library",
				cell__change(v->other.per_period).text,
				v->by_step ? "step" : "tenth of the window"),
			"ptbpf report %s --memory", args->capture);
	}
}

void mem_report__find(void *o, const struct output_args *args, struct findings *found)
{
	struct mem_report *mr = o;
	struct mr_view *views = mr_rank__new(mr);
	struct doc d = { .args = args };
	struct mr_printer p = { .d = &d, .mr = mr };

	for (uint32_t i = 0; i < mr->proc_cnt; i++) {
		p.v = &views[i];
		find_leak(&p, args, found);
	}
	mr_rank__free(views, mr->proc_cnt);
}

void gpu_report__find(void *o, const struct output_args *args, struct findings *found)
{
	struct gpu_report *gr = o;

	gr_rank__all(gr);
	for (uint32_t i = 0; i < gr->device_cnt; i++) {
		const struct gr_device *dev = &gr->devices[i];
		double idle = time__share(dev->idle_ns + dev->short_ns, gr__window_ns(gr));
		const struct gr_why *why = NULL;
		char where[320] = "";

		for (uint32_t k = 0; k < gr->why_cnt && !why; k++)
			if (gr->whys[k].device == dev->id)
				why = &gr->whys[k];
		if (idle <= GPU_IDLE_SHARE || dev->last_work == dev->first_work)
			continue;
		if (why)
			gr__where_text(gr, where, sizeof(where), &why->why);
		finding__next(findings__add(found, idle,
					    "GPU %u runs no kernel %.0f%% of the window%s%s%s%s",
					    dev->id, 100 * idle, why ? ", mostly " : "",
					    why ? gr_causes[why->why.cause].text : "",
					    *where ? ": " : "", where),
			      "ptbpf report %s --gpu", args->capture);
	}
}

void rank_times__find(struct rank_times *rt, const struct output_args *args, struct findings *found)
{
	const struct rank_times_result *r = rank_times__finish(rt);

	for (uint32_t i = 0; i < r->rank_cnt && r->rank_cnt > 1 && r->matched; i++) {
		const struct rank_time *t = &r->ranks[i];

		if (!t->verdict.slow)
			continue;
		finding__next(findings__add(found, t->verdict.share,
					    "%s %u %s late by %s a step (%.0f%%)%s%s",
					    t->has_rank ? "rank" : "process",
					    t->has_rank ? t->rank.rank : t->proc->pid,
					    r->guessed ? "seems" : "is",
					    unit__ns(t->verdict.excess_ns).text,
					    100 * t->verdict.share,
					    t->what_cnt ? ", mostly in " : "",
					    t->what_cnt ? t->what[0].name : ""),
			      "ptbpf report %s --skew", args->capture);
	}
}
