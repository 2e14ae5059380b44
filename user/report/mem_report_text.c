/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * `report --memory` for people: of each process first what to look at, in a few lines, then lists. Only what
 * there is data for. Computes nothing that mem_report_rank.c could not be asked for by a program as well.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/term_text.h"
#include "export/loss_account.h"
#include "export/mem_names.h"
#include "report/cells.h"
#include "report/mem_report_priv.h"

#define LINE 100
#define PEAK_TOP 3
#define bytes(buf, v) cell__bytes(buf, v)
#define duration(buf, ns) cell__duration(buf, ns)
#define put_text(out, text, max) cell__put_text(out, text, max)
#define change(buf, v) mr_text__change(buf, v)

struct printer {
	const struct mem_report *mr;
	const struct mr_view *v;
	const struct mem_report_opts *opts;
	FILE *out;
};

/* ---- cells ---- */

const char *mr_text__change(char *buf, double v)
{
	char text[CELL];

	snprintf(buf, CELL, "%s%s", v > 0 ? "+" : "", cell__bytes(text, v));
	return buf;
}

static double diff(uint64_t a, uint64_t b)
{
	return (double)a - (double)b;
}

/* "+3.214 s, step 31" */
static const char *when(const struct printer *p, char *buf, uint64_t ts, int64_t step)
{
	uint64_t begin = p->mr->info->begin_ns;
	int n = snprintf(buf, CELL, "+%.3f s", ts > begin ? (double)(ts - begin) / 1e9 : 0.0);

	if (step >= 0)
		snprintf(buf + n, CELL - (size_t)n, ", step %" PRId64, step);
	return buf;
}

static const char *period(const struct printer *p)
{
	return p->v->by_step ? "step" : "tenth of the window";
}

/* "aten::clone > aten::empty_like in "loss"" */
static void who_text(const struct printer *p, char *buf, size_t cap, const struct mr_who *who)
{
	const char *op = MR_TEXT(p->mr, who->op), *outer = MR_TEXT(p->mr, who->outer);
	const char *annotation = MR_TEXT(p->mr, who->annotation);
	static const char engine[] = "autograd::engine::evaluate_function: ";
	bool within = *outer && strcmp(outer, op) != 0;

	if (!strncmp(outer, engine, sizeof(engine) - 1))
		outer += sizeof(engine) - 1;
	snprintf(buf, cap, "%s%s%s%s%s%s", within ? outer : "", within ? " > " : "",
		 *op ? op : "outside of operators", *annotation ? " in \"" : "", annotation,
		 *annotation ? "\"" : "");
}

/* Shapes of an operator without tensors among its inputs say nothing. */
static const char *shapes_text(const struct printer *p, uint32_t id)
{
	const char *shapes = MR_TEXT(p->mr, id);

	return strpbrk(shapes, "0123456789?") ? shapes : "";
}

/* The last cell of a row that has `used` columns so far; the shapes below it where they do not fit. */
static void put_who(const struct printer *p, const struct mr_who *who, size_t used,
		    const char *shapes, uint32_t shape_cnt)
{
	char name[512], more[64] = "";
	size_t room = used < LINE - 20 ? LINE - used : 20;

	who_text(p, name, sizeof(name), who);
	put_text(p->out, name, room);
	if (shape_cnt > 1)
		snprintf(more, sizeof(more), " and %u other shapes", shape_cnt - 1);
	if (*shapes) {
		if (term_text__width(name) + 1 + term_text__width(shapes) + strlen(more) > room) {
			fprintf(p->out, "\n%*s", (int)used + 2, "");
			room -= 2;
		} else {
			fputc(' ', p->out);
		}
		put_text(p->out, shapes, room);
	}
	fprintf(p->out, "%s\n", more);
}

__attribute__((format(printf, 2, 3))) static void title(const struct printer *p, const char *fmt, ...)
{
	va_list ap;

	fputc('\n', p->out);
	va_start(ap, fmt);
	vfprintf(p->out, fmt, ap);
	va_end(ap);
	fputc('\n', p->out);
}

static void put_rest(const struct printer *p, uint32_t shown, uint32_t cnt)
{
	if (shown < cnt)
		fprintf(p->out, "  ... %u more (--row-limit)\n", cnt - shown);
}

/* ---- the first lines ---- */

static void put_oom(const struct printer *p, const struct mr_oom *o)
{
	char at[CELL], size[CELL], had[CELL], device[MEM_NAME_MAX], name[512];

	who_text(p, name, sizeof(name), &o->who);
	fprintf(p->out, "  OUT OF MEMORY  %s: ", when(p, at, o->ts, o->step));
	if (o->kill) {
		fprintf(p->out, "the kernel killed process %u (%s resident)\n", p->v->proc->tgid,
			bytes(size, (double)o->bytes));
		fprintf(p->out, "%17swhen ", "");
		if (o->by_tid)
			fprintf(p->out, "thread %u %s", o->by_tid,
				o->by_tgid == p->v->proc->tgid ? "" : "of another process ");
		fprintf(p->out, "asked for memory: ");
	} else {
		fprintf(p->out, "%s refused on %s, which had %s\n", bytes(size, (double)o->bytes),
			mem_name__device(device, o->device_type, o->device_index),
			bytes(had, (double)o->allocated));
		fprintf(p->out, "%17sasked by ", "");
	}
	put_text(p->out, name, LINE - 26);
	fputc('\n', p->out);
}

static void put_ooms(const struct printer *p)
{
	uint64_t all = p->v->proc->ooms + p->v->proc->oom_kills;
	uint32_t shown = mr__shown(p->v->oom_cnt, p->opts->row_limit), i;

	for (i = 0; i < shown; i++)
		put_oom(p, p->v->ooms[p->v->oom_cnt - shown + i]); /* the last ones end the story */
	if (shown < all)
		fprintf(p->out, "%17s%" PRIu64 " more before these\n", "", all - shown);
}

static void put_slope(const struct printer *p, const struct mr_growth *steps, const struct mr_growth *time)
{
	char text[CELL];
	double slope;

	if (mr_growth__slope(p->v->by_step ? steps : time, &slope))
		fprintf(p->out, "; %s a %s", change(text, slope), period(p));
}

/* The size of the process grows, but torch's blocks do not: who touched new pages is the next thing to ask. */
static void put_foreign_growth(const struct printer *p)
{
	const struct mr_view *v = p->v;
	const struct mr_proc *pr = v->proc;
	double rss, torch = 0.0, one;
	char per[CELL], name[512];
	uint32_t i;

	if (!mr_growth__noisy_slope(v->by_step ? &pr->by_step : &pr->by_time, &rss) || rss < 0)
		return;
	for (i = 0; i < v->device_cnt; i++)
		if (!v->devices[i]->type &&
		    mr_growth__slope(v->by_step ? &v->devices[i]->by_step : &v->devices[i]->by_time, &one))
			torch += one;
	if (torch * 2 > rss)
		return;
	fprintf(p->out,
		"  GROWS          RSS by %s a %s, outside of torch's "
		"blocks",
		change(per, rss), period(p));
	if (v->fault_cnt) {
		who_text(p, name, sizeof(name), &v->faults[0]->who);
		fprintf(p->out, ";\n%17smost pages came in by ", "");
		put_text(p->out, name, LINE - 39);
	}
	fputc('\n', p->out);
}

static void put_growing(const struct printer *p)
{
	const struct mr_view *v = p->v;
	const struct mr_group *g = v->leaks;
	char per[CELL], kept[CELL], name[512];

	if (!p->mr->info->has_memory || !v->device_cnt)
		return;
	if (v->by_step && v->periods_before < MR_LEAK_PERIODS_MIN) {
		fprintf(p->out,
			"  GROWS          unknown: %u steps are too few, record "
			"longer\n",
			v->proc->steps);
		return;
	}
	if (!v->leak_cnt) {
		fprintf(p->out,
			"  GROWS          no torch memory: no operator keeps blocks from "
			"each %s\n",
			period(p));
		return;
	}
	who_text(p, name, sizeof(name), &g->who);
	fputs("  GROWS          ", p->out);
	put_text(p->out, name, LINE - 17);
	fprintf(p->out, "\n%17s%s a %s: %s kept from %u of %u", "",
		change(per, (double)g->kept_before / v->periods_before), period(p),
		bytes(kept, (double)g->kept), g->periods, v->periods_before + 1);
	if (*shapes_text(p, g->shapes) && g->shape_cnt == 1) {
		fputs(", inputs ", p->out);
		put_text(p->out, shapes_text(p, g->shapes), 32);
	}
	if (v->leak_cnt > 1)
		fprintf(p->out, "; %u more below", v->leak_cnt - 1);
	fputc('\n', p->out);
}

static void put_device(const struct printer *p, const struct mr_device *d)
{
	struct mr_group top[PEAK_TOP];
	char device[MEM_NAME_MAX], peak[CELL], end[CELL], at[CELL], text[CELL], name[512];
	uint32_t cnt = d->peak_nr ? mr_rank__at_peak(p->mr, d, false, top, PEAK_TOP) : 0, i;
	int used = fprintf(p->out, "  torch, %s", mem_name__device(device, d->type, d->index));

	fprintf(p->out, "%*s peak %s", used < 16 ? 16 - used : 0, "", bytes(peak, (double)d->peak));
	if (d->peak_nr)
		fprintf(p->out, " at %s", when(p, at, d->peak_ts, d->peak_step));
	fprintf(p->out, "; %s at the end", bytes(end, (double)d->now));
	put_slope(p, &d->by_step, &d->by_time);
	if (d->reserved_peak)
		fprintf(p->out, "; reserved %s", bytes(text, (double)d->reserved_peak));
	fputc('\n', p->out);
	for (i = 0; i < cnt; i++) {
		who_text(p, name, sizeof(name), &top[i].who);
		fprintf(p->out, "    %-12s %10s  ", i ? "" : "at the peak",
			bytes(text, (double)top[i].peak));
		put_text(p->out, name, LINE - 29);
		fputc('\n', p->out);
	}
}

static void put_rss(const struct printer *p)
{
	const struct mr_proc *pr = p->v->proc;
	char end[CELL], peak[CELL], at[CELL];
	double slope;

	if (!pr->has_rss)
		return;
	fprintf(p->out, "  RSS            peak %s at %s; %s at the end",
		bytes(peak, (double)mr__resident(pr->rss_peak)),
		when(p, at, pr->rss_peak_ts, pr->rss_peak_step),
		bytes(end, (double)mr__resident(pr->rss)));
	if (mr_growth__noisy_slope(p->v->by_step ? &pr->by_step : &pr->by_time, &slope))
		fprintf(p->out, "; %s a %s", change(at, slope), period(p));
	fputc('\n', p->out);
}

static const char *comm(const struct printer *p)
{
	const struct session_info *info = p->mr->info;
	uint32_t i;

	for (i = 0; i < info->process_cnt; i++)
		if (info->processes[i].tgid == p->v->proc->tgid && info->processes[i].comm)
			return info->processes[i].comm;
	return "";
}

static void put_head(const struct printer *p)
{
	const struct session_info *info = p->mr->info;
	const struct mr_proc *pr = p->v->proc;

	fprintf(p->out, "Memory of process %u (", pr->tgid);
	put_text(p->out, comm(p), 32);
	fprintf(p->out, "), %.3f s",
		info->end_ns > info->begin_ns ? (double)(info->end_ns - info->begin_ns) / 1e9 : 0.0);
	if (pr->steps)
		fprintf(p->out, ", %u steps (%" PRId64 " to %" PRId64 ")", pr->steps,
			pr->first_step, pr->last_step);
	else if (info->has_memory)
		fputs(", no steps known (--step-on NAME)", p->out);
	fputc('\n', p->out);
}

/* ---- lists ---- */

static void put_leaks(const struct printer *p)
{
	const struct mr_view *v = p->v;
	uint32_t shown = mr__shown(v->leak_cnt, p->opts->row_limit), i;
	char per[CELL], kept[CELL];

	if (!v->leak_cnt)
		return;
	title(p, "Growing: blocks never freed, from at least %u %ss and over half of those before the last",
	      MR_LEAK_PERIODS_MIN, v->by_step ? "step" : "tenth");
	fprintf(p->out, "  %10s %10s %8s %9s  operator in annotation, input shapes\n",
		v->by_step ? "per step" : "per tenth", "kept", "blocks",
		v->by_step ? "steps" : "tenths");
	for (i = 0; i < shown; i++) {
		const struct mr_group *g = &v->leaks[i];

		fprintf(p->out, "  %10s %10s %8" PRIu64 " %4u/%-4u  ",
			bytes(per, (double)g->kept_before / v->periods_before),
			bytes(kept, (double)g->kept), g->kept_cnt, g->periods, v->periods_before + 1);
		put_who(p, &g->who, 45, shapes_text(p, g->shapes), g->shape_cnt);
	}
	put_rest(p, shown, v->leak_cnt);
}

/* "12..59", "59", "before" */
static const char *from_periods(char *buf, const struct mr_group *g)
{
	if (g->last_period < 0)
		snprintf(buf, CELL, "before");
	else if (g->first_period == g->last_period)
		snprintf(buf, CELL, "%" PRId64, g->last_period);
	else
		snprintf(buf, CELL, "%" PRId64 "..%" PRId64,
			 g->first_period < 0 ? 0 : g->first_period, g->last_period);
	return buf;
}

static void put_live(const struct printer *p)
{
	const struct mr_view *v = p->v;
	uint32_t shown = mr__shown(v->live_cnt, p->opts->row_limit), i;
	uint64_t sum = 0, cnt = 0;
	char kept[CELL], from[CELL], device[MEM_NAME_MAX];

	for (i = 0; i < v->live_cnt; i++) {
		sum += v->live[i]->kept;
		cnt += v->live[i]->kept_cnt;
	}
	if (!cnt)
		return;
	title(p, "Live at the end, allocated in the window: %s in %" PRIu64 " blocks",
	      bytes(kept, (double)sum), cnt);
	fprintf(p->out, "  %10s %8s %12s  operator in annotation, input shapes\n", "bytes",
		"blocks", v->by_step ? "of step" : "of tenth");
	for (i = 0; i < shown; i++) {
		const struct mr_group *g = v->live[i];
		const struct mr_device *d = &p->mr->devices[g->device];
		int used = fprintf(p->out, "  %10s %8" PRIu64 " %12s  ",
				   bytes(kept, (double)g->kept), g->kept_cnt, from_periods(from, g));

		if (d->type)
			used += fprintf(p->out, "%s: ", mem_name__device(device, d->type, d->index));
		put_who(p, &g->who, (size_t)used, shapes_text(p, g->shapes), 1);
	}
	put_rest(p, shown, v->live_cnt);
}

static void put_faults(const struct printer *p)
{
	const struct mr_view *v = p->v;
	uint32_t shown = mr__shown(v->fault_cnt, p->opts->row_limit), i;
	char in[CELL], mapped[CELL];

	if (!v->fault_cnt)
		return;
	title(p, "Page faults: %" PRIu64 ", %" PRIu64 " of them major, brought in %s",
	      v->proc->sum.faults, v->proc->sum.major, bytes(in, (double)v->proc->sum.fault_bytes));
	fprintf(p->out, "  %10s %9s %7s %11s  operator in annotation\n", "brought in", "faults",
		"major", "mapped, net");
	for (i = 0; i < shown; i++) {
		const struct mr_kernel *k = v->faults[i];

		fprintf(p->out, "  %10s %9" PRIu64 " %7" PRIu64 " %11s  ",
			bytes(in, (double)k->fault_bytes), k->faults, k->major,
			change(mapped, diff(k->map_bytes, k->unmap_bytes) + (double)k->brk_bytes));
		put_who(p, &k->who, 45, "", 1);
	}
	put_rest(p, shown, v->fault_cnt);
}

static void put_stalls(const struct printer *p)
{
	const struct mr_view *v = p->v;
	const struct mr_kernel *s = &v->proc->sum;
	uint32_t shown = mr__shown(v->stall_cnt, p->opts->row_limit), i;
	char reclaim[CELL], compact[CELL], longest[CELL];

	if (!v->stall_cnt)
		return;
	title(p,
	      "Threads stalled for memory: %" PRIu64 " times %s in reclaim, %" PRIu64 " times "
	      "%s in compaction",
	      s->reclaims, duration(reclaim, s->reclaim_ns), s->compactions,
	      duration(compact, s->compact_ns));
	fprintf(p->out, "  %11s %11s %8s %11s  operator in annotation\n", "reclaim", "compaction",
		"times", "longest");
	for (i = 0; i < shown; i++) {
		const struct mr_kernel *k = v->stalls[i];

		fprintf(p->out, "  %11s %11s %8" PRIu64 " %11s  ", duration(reclaim, k->reclaim_ns),
			duration(compact, k->compact_ns), k->reclaims + k->compactions,
			k->longest_ns ? duration(longest, k->longest_ns) : "");
		put_who(p, &k->who, 49, "", 1);
	}
	put_rest(p, shown, v->stall_cnt);
}

static void put_apis(const struct printer *p)
{
	const struct mr_view *v = p->v;
	uint32_t i;
	char asked[CELL], time[CELL];

	if (!v->api_cnt)
		return;
	title(p, "CUDA memory calls");
	fprintf(p->out, "  %-24s %8s %11s %11s\n", "call", "times", "asked for", "time");
	for (i = 0; i < v->api_cnt; i++) {
		const struct mr_api *a = v->apis[i];

		const char *name = MR_TEXT(p->mr, a->name);
		size_t width = term_text__width(name);

		fputs("  ", p->out);
		put_text(p->out, name, LINE);
		fprintf(p->out, "%*s %8" PRIu64 " %11s %11s", width < 24 ? 24 - (int)width : 0, "",
			a->calls, a->bytes ? bytes(asked, (double)a->bytes) : "",
			duration(time, a->ns));
		if (a->no_result)
			fprintf(p->out, "  of %" PRIu64 " the return was not seen", a->no_result);
		fputc('\n', p->out);
	}
}

static void put_process(const struct printer *p)
{
	uint32_t i;

	put_head(p);
	put_ooms(p);
	put_growing(p);
	put_foreign_growth(p);
	for (i = 0; i < p->v->device_cnt; i++)
		put_device(p, p->v->devices[i]);
	put_rss(p);
	put_leaks(p);
	put_live(p);
	mr_text__balance(p->mr, p->v, p->out);
	put_stalls(p);
	put_faults(p);
	put_apis(p);
}

int mr_text__print(struct mem_report *mr, const struct mr_view *views, uint32_t cnt,
		   const struct session_totals *totals, const struct mem_report_opts *opts, FILE *out)
{
	struct printer p = { .mr = mr, .opts = opts, .out = out };
	char account[2048];
	uint32_t i;

	errno = 0;
	for (i = 0; i < cnt; i++) {
		p.v = &views[i];
		if (i)
			fputc('\n', out);
		put_process(&p);
	}
	if (!mr->info->has_memory)
		fputs("\ntorch's allocations were not recorded: attach with --profile-memory\n", out);
	if (!mr->info->has_kernel_memory)
		fputs("\nThe kernel's part (faults, maps, reclaim) was not recorded: attach with --kernel-memory\n",
		      out);
	if (loss_account__incomplete(mr->info, totals, account, sizeof(account)))
		fprintf(out, "\nThe capture is incomplete and the figures are bounds: %s\n", account);
	if (fflush(out) || ferror(out))
		return errno ? -errno : -EIO;
	return 0;
}
