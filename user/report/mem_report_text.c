/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * `report --memory` for people: of each process first a summary in a few lines, then lists, only of what was
 * recorded.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/term_text.h"
#include "export/mem_names.h"
#include "report/mem_report_priv.h"

#define PEAK_TOP 3

struct printer {
	const struct mem_report *mr;
	const struct mr_view *v;
	const struct report_opts *opts;
	FILE *out;
};

/* ---- cells ---- */

static double diff(uint64_t a, uint64_t b)
{
	return (double)a - (double)b;
}

/* "+3.214 s, step 31" */
static struct cell when(const struct printer *p, uint64_t ts, int64_t step)
{
	uint64_t begin = p->mr->info->begin_ns;
	double seconds = ts > begin ? (double)(ts - begin) / 1e9 : 0.0;

	return step < 0 ? cell__format("+%.3f s", seconds) :
			  cell__format("+%.3f s, step %" PRId64, seconds, step);
}

static const char *period(const struct printer *p)
{
	return p->v->by_step ? "step" : "tenth of the window";
}

/*
 * "aten::clone > aten::empty_like in "loss" at train.py:31", in at most `max` characters, of which the line has what it needs up
 * to half; returns how many all of it has.
 */
static size_t put_who_text(const struct printer *p, const struct mr_who *who, size_t max)
{
	const char *op = MR_TEXT(p->mr, who->op), *outer = MR_TEXT(p->mr, who->outer);
	const char *annotation = MR_TEXT(p->mr, who->annotation);
	static const char engine[] = "autograd::engine::evaluate_function: ";
	bool within = *outer && strcmp(outer, op) != 0;
	const char *line = MR_TEXT(p->mr, who->line);
	size_t line_width = *line ? term_text__width(line) + 4 : 0, room;
	char text[512];

	if (!strncmp(outer, engine, sizeof(engine) - 1))
		outer += sizeof(engine) - 1;
	snprintf(text, sizeof(text), "%s%s%s%s%s%s", within ? outer : "", within ? " > " : "",
		 *op ? op : "outside of operators", *annotation ? " in \"" : "", annotation,
		 *annotation ? "\"" : "");
	room = line_width > max / 2 ? max / 2 : line_width;
	cell__put_text(p->out, text, max - room);
	if (*line) {
		fputs(" at ", p->out);
		cell__put_text(p->out, line, room > 4 ? room - 4 : 0);
	}
	return term_text__width(text) + line_width;
}

/* Shapes of an operator without tensors among its inputs say nothing. */
static const char *shapes_text(const struct printer *p, uint32_t id)
{
	const char *shapes = MR_TEXT(p->mr, id);

	return strpbrk(shapes, "0123456789?") ? shapes : "";
}

/* The last cell of a row that has `used` columns so far; the shapes below it where they do not fit. */
static void put_mem_who(const struct printer *p, const struct mr_who *who, size_t used,
			const char *shapes, uint32_t shape_cnt)
{
	size_t room = used < REPORT_LINE - 20 ? REPORT_LINE - used : 20;

	size_t width = put_who_text(p, who, room);
	char more[64] = "";

	if (shape_cnt > 1)
		snprintf(more, sizeof(more), " and %u other shapes", shape_cnt - 1);
	if (*shapes) {
		if (width + 1 + term_text__width(shapes) + strlen(more) > room) {
			fprintf(p->out, "\n%*s", (int)used + 2, "");
			room -= 2;
		} else {
			fputc(' ', p->out);
		}
		cell__put_text(p->out, shapes, room);
	}
	fprintf(p->out, "%s\n", more);
}

/* ---- the first lines ---- */

static void put_oom(const struct printer *p, const struct mr_oom *o)
{
	fprintf(p->out, "  OUT OF MEMORY  %s: ", when(p, o->ts, o->step).text);
	if (o->kill) {
		fprintf(p->out, "the kernel killed process %u (%s resident)\n", p->v->proc->tgid,
			cell__bytes((double)o->bytes).text);
		fprintf(p->out, "%17swhen ", "");
		if (o->by_tid)
			fprintf(p->out, "thread %u %s", o->by_tid,
				o->by_tgid == p->v->proc->tgid ? "" : "of another process ");
		fprintf(p->out, "asked for memory: ");
	} else {
		fprintf(p->out, "%s refused on %s, which had %s\n", cell__bytes((double)o->bytes).text,
			mem_name__device(o->device_type, o->device_index).text,
			cell__bytes((double)o->allocated).text);
		fprintf(p->out, "%17sasked by ", "");
	}
	put_who_text(p, &o->who, REPORT_LINE - 26);
	fputc('\n', p->out);
}

static void put_mem_ooms(const struct printer *p)
{
	uint64_t all = p->v->proc->ooms + p->v->proc->oom_kills;
	uint32_t shown = report__shown(p->v->oom_cnt, p->opts->row_limit);

	for (uint32_t i = 0; i < shown; i++)
		put_oom(p, p->v->ooms[p->v->oom_cnt - shown + i]); /* the latest */
	if (shown < all)
		fprintf(p->out, "%17s%" PRIu64 " more before these\n", "", all - shown);
}

static void put_mem_slope(const struct printer *p, const struct mr_growths *g)
{
	double slope;

	if (mr_growth__slope(g, p->v->by_step, &slope))
		fprintf(p->out, "; %s a %s", cell__change(slope).text, period(p));
}

/* The size of the process grows, but torch's blocks do not: names who touched new pages. */
static void put_foreign_growth(const struct printer *p)
{
	const struct mr_view *v = p->v;
	const struct mr_proc *pr = v->proc;
	double rss, torch = 0.0, one;

	if (!pr->runs || !mr_growth__noisy_slope(&pr->growth, v->by_step, &rss) || rss < 0)
		return;
	for (uint32_t i = 0; i < v->device_cnt; i++)
		if (!v->devices[i]->type && mr_growth__slope(&v->devices[i]->growth, v->by_step, &one))
			torch += one;
	if (torch * 2 > rss)
		return;
	fprintf(p->out,
		"  GROWS          RSS by %s a %s, outside of torch's "
		"blocks",
		cell__change(rss).text, period(p));
	if (v->fault_cnt) {
		fprintf(p->out, ";\n%17smost pages came in by ", "");
		put_who_text(p, &v->faults[0]->who, REPORT_LINE - 39);
	}
	fputc('\n', p->out);
}

static void put_growing(const struct printer *p)
{
	const struct mr_view *v = p->v;
	const struct mr_group *g = v->leaks;
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
	fputs("  GROWS          ", p->out);
	put_who_text(p, &g->who, REPORT_LINE - 17);
	fprintf(p->out, "\n%17s%s a %s: %s kept from %u of %u", "",
		cell__change((double)g->kept_before / v->periods_before).text, period(p),
		cell__bytes((double)g->kept).text, g->periods, v->periods_before + 1);
	if (*shapes_text(p, g->shapes) && g->shape_cnt == 1) {
		fputs(", inputs ", p->out);
		cell__put_text(p->out, shapes_text(p, g->shapes), 32);
	}
	if (v->leak_cnt > 1)
		fprintf(p->out, "; %u more below", v->leak_cnt - 1);
	fputc('\n', p->out);
}

static void put_mem_device(const struct printer *p, const struct mr_device *d)
{
	struct mr_group top[PEAK_TOP];
	uint32_t cnt = d->peak_nr ? mr_rank__at_peak(p->mr, d, false, top, PEAK_TOP) : 0;
	int used = fprintf(p->out, "  torch, %s", mem_name__device(d->type, d->index).text);

	fprintf(p->out, "%*s peak %s", used < 16 ? 16 - used : 0, "", cell__bytes((double)d->peak).text);
	if (d->peak_nr)
		fprintf(p->out, " at %s", when(p, d->peak_ts, d->peak_step).text);
	fprintf(p->out, "; %s at the end", cell__bytes((double)d->now).text);
	put_mem_slope(p, &d->growth);
	if (d->reserved_peak)
		fprintf(p->out, "; reserved %s", cell__bytes((double)d->reserved_peak).text);
	fputc('\n', p->out);
	for (uint32_t i = 0; i < cnt; i++) {
		fprintf(p->out, "    %-12s %10s  ", i ? "" : "at the peak",
			cell__bytes((double)top[i].peak).text);
		put_who_text(p, &top[i].who, REPORT_LINE - 29);
		fputc('\n', p->out);
	}
}

static void put_mem_rss(const struct printer *p)
{
	const struct mr_proc *pr = p->v->proc;
	double slope;

	if (!pr->has_rss)
		return;
	fprintf(p->out, "  RSS            peak %s at %s; %s at the end",
		cell__bytes((double)mr__resident(pr->rss_peak)).text,
		when(p, pr->rss_peak_ts, pr->rss_peak_step).text,
		cell__bytes((double)mr__resident(pr->rss)).text);
	if (mr_growth__noisy_slope(&pr->growth, p->v->by_step, &slope))
		fprintf(p->out, "; %s a %s", cell__change(slope).text, period(p));
	fputc('\n', p->out);
}

static const char *comm(const struct printer *p)
{
	const struct session_info *info = p->mr->info;

	for (uint32_t i = 0; i < info->process_cnt; i++)
		if (info->processes[i].tgid == p->v->proc->tgid && info->processes[i].comm)
			return info->processes[i].comm;
	return "";
}

static void put_mem_head(const struct printer *p)
{
	const struct session_info *info = p->mr->info;
	const struct mr_proc *pr = p->v->proc;

	fprintf(p->out, "Memory of process %u (", pr->tgid);
	cell__put_text(p->out, comm(p), 32);
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

static void put_mem_leaks(const struct printer *p)
{
	const struct mr_view *v = p->v;
	uint32_t shown = report__shown(v->leak_cnt, p->opts->row_limit);

	if (!v->leak_cnt)
		return;
	report__title(p->out,
		      "Growing: blocks never freed, from at least %u %ss and over half of those before the last",
		      MR_LEAK_PERIODS_MIN, v->by_step ? "step" : "tenth");
	fprintf(p->out, "  %10s %10s %8s %9s  operator in annotation, input shapes\n",
		v->by_step ? "per step" : "per tenth", "kept", "blocks",
		v->by_step ? "steps" : "tenths");
	for (uint32_t i = 0; i < shown; i++) {
		const struct mr_group *g = &v->leaks[i];

		fprintf(p->out, "  %10s %10s %8" PRIu64 " %4u/%-4u  ",
			cell__bytes((double)g->kept_before / v->periods_before).text,
			cell__bytes((double)g->kept).text, g->kept_cnt, g->periods,
			v->periods_before + 1);
		put_mem_who(p, &g->who, 45, shapes_text(p, g->shapes), g->shape_cnt);
	}
	report__put_rest(p->out, shown, v->leak_cnt);
}

/* "12..59", "59", "before" */
static struct cell from_periods(const struct mr_group *g)
{
	if (g->last_period < 0)
		return cell__format("before");
	if (g->first_period == g->last_period)
		return cell__format("%" PRId64, g->last_period);
	return cell__format("%" PRId64 "..%" PRId64, g->first_period < 0 ? 0 : g->first_period,
			    g->last_period);
}

static void put_mem_live(const struct printer *p)
{
	const struct mr_view *v = p->v;
	uint32_t shown = report__shown(v->live_cnt, p->opts->row_limit);
	uint64_t sum = 0, cnt = 0;

	for (uint32_t i = 0; i < v->live_cnt; i++) {
		sum += v->live[i]->kept;
		cnt += v->live[i]->kept_cnt;
	}
	if (!cnt)
		return;
	report__title(p->out, "Live at the end, allocated in the window: %s in %" PRIu64 " blocks",
		      cell__bytes((double)sum).text, cnt);
	fprintf(p->out, "  %10s %8s %12s  operator in annotation, input shapes\n", "bytes",
		"blocks", v->by_step ? "of step" : "of tenth");
	for (uint32_t i = 0; i < shown; i++) {
		const struct mr_group *g = v->live[i];
		const struct mr_device *d = &p->mr->devices[g->device];
		int used = fprintf(p->out, "  %10s %8" PRIu64 " %12s  ",
				   cell__bytes((double)g->kept).text, g->kept_cnt, from_periods(g).text);

		if (d->type)
			used += fprintf(p->out, "%s: ", mem_name__device(d->type, d->index).text);
		put_mem_who(p, &g->who, (size_t)used, shapes_text(p, g->shapes), 1);
	}
	report__put_rest(p->out, shown, v->live_cnt);
}

/*
 * ---- torch's blocks against the size of the process ----
 *
 * What of the difference the kernel's events explain, and what is not known.
 */

/* Differences below this share of the size, or this many bytes, are not reported. */
#define NOISE_SHARE 0.02
#define NOISE_BYTES (1 << 20)

struct balance {
	const struct printer *p;
	const struct mr_device *cpu; /* NULL: torch's allocations were not recorded, or there were none */
	double rss, torch;           /* change over the window */
};

static void put_balance_row(const struct balance *b, const char *name, uint64_t begin,
			    bool has_peak, uint64_t peak, uint64_t end)
{
	fprintf(b->p->out, "  %-22s %12s", name, cell__bytes((double)begin).text);
	if (b->cpu)
		fprintf(b->p->out, " %12s", has_peak ? cell__bytes((double)peak).text : "?");
	fprintf(b->p->out, " %12s %12s\n", cell__bytes((double)end).text,
		cell__change(diff(end, begin)).text);
}

static void put_balance_rows(const struct balance *b)
{
	static const uint32_t kinds[] = { PTB_RSS_ANON, PTB_RSS_FILE, PTB_RSS_SHMEM, PTB_RSS_SWAP };
	const struct mr_proc *p = b->p->v->proc;
	const struct mr_device *d = b->cpu;
	bool has_peak = d && d->has_rss_at_peak;

	fprintf(b->p->out, "\n%s\n",
		d ? "torch's CPU blocks against the resident size (RSS)" : "The resident size (RSS)");
	fprintf(b->p->out, "  %-22s %12s", "", "begin");
	if (d)
		fprintf(b->p->out, " %12s", "torch's peak");
	fprintf(b->p->out, " %12s %12s\n", "end", "change");
	if (d)
		put_balance_row(b, "torch, of the window", d->begin, true, d->peak, d->now);
	put_balance_row(b, "RSS", mr__resident(p->rss_begin), has_peak,
			d ? mr__resident(d->rss_at_peak) : 0, mr__resident(p->rss));
	for (uint32_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		uint32_t k = kinds[i];

		if (!p->rss_begin[k] && !p->rss[k] && !p->rss_peak[k])
			continue;
		put_balance_row(b, cell__format("  %s", mem_name__rss(k)).text, p->rss_begin[k],
				has_peak, d ? d->rss_at_peak[k] : 0, p->rss[k]);
	}
}

static void put_mem_kernel_sums(const struct balance *b)
{
	const struct mr_kernel *k = &b->p->v->proc->sum;
	double gone = (double)k->fault_bytes - b->rss;

	if (!b->p->mr->info->has_kernel_memory)
		return;
	fprintf(b->p->out, "  The kernel: page faults brought in %s",
		cell__bytes((double)k->fault_bytes).text);
	if (gone > NOISE_BYTES)
		fprintf(b->p->out, ", %s were released", cell__bytes(gone).text);
	if (k->map_bytes || k->unmap_bytes)
		fprintf(b->p->out, ";\n    mapped %s, unmapped %s",
			cell__bytes((double)k->map_bytes).text,
			cell__bytes((double)k->unmap_bytes).text);
	if (k->brk_bytes)
		fprintf(b->p->out, "; heap (brk) %s", cell__change((double)k->brk_bytes).text);
	if (k->advise_bytes)
		fprintf(b->p->out, "; madvise on %s", cell__bytes((double)k->advise_bytes).text);
	fputc('\n', b->p->out);
}

/* A sentence about the difference between torch's blocks and the size of the process. */
static void put_difference(const struct balance *b)
{
	const struct mr_proc *p = b->p->v->proc;
	double d = b->rss - b->torch, noise = (double)mr__resident(p->rss) * NOISE_SHARE;
	double file = diff(p->rss[PTB_RSS_FILE], p->rss_begin[PTB_RSS_FILE]);
	double swap = diff(p->rss[PTB_RSS_SWAP], p->rss_begin[PTB_RSS_SWAP]);

	if (!b->cpu)
		return;
	if (noise < NOISE_BYTES)
		noise = NOISE_BYTES;
	if (d > noise) {
		fprintf(b->p->out, "  RSS grew by %s more than torch's blocks", cell__bytes(d).text);
		if (file > NOISE_BYTES)
			fprintf(b->p->out, ", %s of it pages of files",
				cell__bytes(file < d ? file : d).text);
		fputs(": memory of others than torch\n    (Python, libraries), or freed blocks that malloc keeps\n",
		      b->p->out);
	} else if (d < -noise) {
		fprintf(b->p->out,
			"  torch's blocks grew by %s more than RSS: pages not touched yet, or memory\n"
			"    that the process had before",
			cell__bytes(-d).text);
		if (swap > NOISE_BYTES)
			fprintf(b->p->out, "; %s were swapped out", cell__bytes(swap).text);
		fputc('\n', b->p->out);
	}
	if (p->freed_unknown)
		fprintf(b->p->out,
			"  %" PRIu64 " block%s from before the window %s freed in it, of unknown size: torch's change "
			"is less by that\n",
			p->freed_unknown, p->freed_unknown == 1 ? "" : "s",
			p->freed_unknown == 1 ? "was" : "were");
}

static const struct mr_device *cpu_device(const struct mr_view *v)
{
	for (uint32_t i = 0; i < v->device_cnt; i++)
		if (!v->devices[i]->type)
			return v->devices[i];
	return NULL;
}

static void put_balance(const struct printer *p)
{
	const struct mr_proc *pr = p->v->proc;
	struct balance b = { .p = p, .cpu = cpu_device(p->v) };

	if (!pr->has_rss)
		return;
	b.rss = diff(mr__resident(pr->rss), mr__resident(pr->rss_begin));
	b.torch = b.cpu ? diff(b.cpu->now, b.cpu->begin) : 0.0;
	put_balance_rows(&b);
	put_mem_kernel_sums(&b);
	put_difference(&b);
}

/* ---- lists of what the kernel did ---- */

static void put_faults(const struct printer *p)
{
	const struct mr_view *v = p->v;
	uint32_t shown = report__shown(v->fault_cnt, p->opts->row_limit);

	if (!v->fault_cnt)
		return;
	report__title(p->out, "Page faults: %" PRIu64 ", %" PRIu64 " of them major, brought in %s",
		      v->proc->sum.faults, v->proc->sum.major,
		      cell__bytes((double)v->proc->sum.fault_bytes).text);
	fprintf(p->out, "  %10s %9s %7s %11s  operator in annotation\n", "brought in", "faults",
		"major", "mapped, net");
	for (uint32_t i = 0; i < shown; i++) {
		const struct mr_kernel *k = v->faults[i];

		fprintf(p->out, "  %10s %9" PRIu64 " %7" PRIu64 " %11s  ",
			cell__bytes((double)k->fault_bytes).text, k->faults, k->major,
			cell__change(diff(k->map_bytes, k->unmap_bytes) + (double)k->brk_bytes).text);
		put_mem_who(p, &k->who, 45, "", 1);
	}
	report__put_rest(p->out, shown, v->fault_cnt);
}

static void put_stalls(const struct printer *p)
{
	const struct mr_view *v = p->v;
	const struct mr_kernel *s = &v->proc->sum;
	uint32_t shown = report__shown(v->stall_cnt, p->opts->row_limit);

	if (!v->stall_cnt)
		return;
	report__title(p->out,
		      "Threads stalled for memory: %" PRIu64 " times %s in reclaim, %" PRIu64 " times "
		      "%s in compaction",
		      s->reclaims, cell__duration(s->reclaim_ns).text, s->compactions,
		      cell__duration(s->compact_ns).text);
	fprintf(p->out, "  %11s %11s %8s %11s  operator in annotation\n", "reclaim", "compaction",
		"times", "longest");
	for (uint32_t i = 0; i < shown; i++) {
		const struct mr_kernel *k = v->stalls[i];

		fprintf(p->out, "  %11s %11s %8" PRIu64 " %11s  ", cell__duration(k->reclaim_ns).text,
			cell__duration(k->compact_ns).text, k->reclaims + k->compactions,
			k->longest_ns ? cell__duration(k->longest_ns).text : "");
		put_mem_who(p, &k->who, 49, "", 1);
	}
	report__put_rest(p->out, shown, v->stall_cnt);
}

static void put_mem_apis(const struct printer *p)
{
	const struct mr_view *v = p->v;

	if (!v->api_cnt)
		return;
	report__title(p->out, "CUDA memory calls");
	fprintf(p->out, "  %-24s %8s %11s %11s\n", "call", "times", "asked for", "time");
	for (uint32_t i = 0; i < v->api_cnt; i++) {
		const struct mr_api *a = v->apis[i];

		const char *name = MR_TEXT(p->mr, a->name);
		size_t width = term_text__width(name);

		fputs("  ", p->out);
		cell__put_text(p->out, name, REPORT_LINE);
		fprintf(p->out, "%*s %8" PRIu64 " %11s %11s", width < 24 ? 24 - (int)width : 0, "",
			a->calls, a->bytes ? cell__bytes((double)a->bytes).text : "",
			cell__duration(a->ns).text);
		if (a->no_result)
			fprintf(p->out, "  of %" PRIu64 " the return was not seen", a->no_result);
		fputc('\n', p->out);
	}
}

static void put_mem_process(const struct printer *p)
{
	put_mem_head(p);
	put_mem_ooms(p);
	put_growing(p);
	put_foreign_growth(p);
	for (uint32_t i = 0; i < p->v->device_cnt; i++)
		put_mem_device(p, p->v->devices[i]);
	put_mem_rss(p);
	put_mem_leaks(p);
	put_mem_live(p);
	put_balance(p);
	put_stalls(p);
	put_faults(p);
	put_mem_apis(p);
}

int mr_text__print(struct mem_report *mr, const struct mr_view *views, uint32_t cnt,
		   const struct session_totals *totals, const struct report_opts *opts, FILE *out)
{
	struct printer p = { .mr = mr, .opts = opts, .out = out };

	errno = 0;
	for (uint32_t i = 0; i < cnt; i++) {
		p.v = &views[i];
		if (i)
			fputc('\n', out);
		put_mem_process(&p);
	}
	if (!mr->info->has_memory)
		fputs("\ntorch's allocations were not recorded: attach with --profile-memory\n", out);
	if (!mr->info->has_kernel_memory)
		fputs("\nThe kernel's part (faults, maps, reclaim) was not recorded: attach with --kernel-memory\n",
		      out);
	report__put_incomplete(out, mr->info, totals);
	return report__flush(out);
}
