/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The sentences of `report --memory`, and its account of the process's size, which has sentences
 * and a table.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "export/texts.h"
#include "report/report_priv.h"

#define PEAK_TOP 3

static double diff(uint64_t a, uint64_t b)
{
	return (double)a - (double)b;
}

/* "+3.214 s, step 31" */
static struct cell when(const struct mr_printer *p, uint64_t ts, int64_t step)
{
	double seconds = (double)mr__since_begin(p->mr, ts) / 1e9;

	return step < 0 ? cell__format("+%.3f s", seconds) :
			  cell__format("+%.3f s, step %" PRId64, seconds, step);
}

static const char *period(const struct mr_printer *p)
{
	return p->v->by_step ? "step" : "tenth of the window";
}

struct mr_who_text mr_say__who(const struct mr_printer *p, const struct mr_who *who)
{
	const char *op = MR_TEXT(p->mr, who->op), *outer = MR_TEXT(p->mr, who->outer);
	const char *annotation = MR_TEXT(p->mr, who->annotation), *line = MR_TEXT(p->mr, who->line);
	bool within = *outer && strcmp(outer, op) != 0;
	struct mr_who_text t;

	if (!strncmp(outer, SESSION_NODE, sizeof(SESSION_NODE) - 1))
		outer += sizeof(SESSION_NODE) - 1;
	snprintf(t.text, sizeof(t.text), "%s%s%s%s%s%s", within ? outer : "", within ? " > " : "",
		 *op ? op : "outside of operators", *annotation ? " in \"" : "", annotation,
		 *annotation ? "\"" : "");
	snprintf(t.line, sizeof(t.line), "%s%s", *line ? " at " : "", line);
	return t;
}

/* Who asked, in the rest of the line. */
static void end_with_who(struct mr_printer *p, const struct mr_who *who)
{
	struct mr_who_text t = mr_say__who(p, who);

	doc__cut(p->d, t.text, t.line, 0);
	doc__end_line(p->d);
}

const char *mr_say__shapes(const struct mr_printer *p, uint32_t id)
{
	const char *shapes = MR_TEXT(p->mr, id);

	return strpbrk(shapes, "0123456789?") ? shapes : "";
}

/* ---- the first lines ---- */

static void say_oom(struct mr_printer *p, const struct mr_oom *o)
{
	doc__style(p->d, DOC_ALERT);
	doc__say(p->d, "  OUT OF MEMORY  %s: ", when(p, o->ts, o->step).text);
	if (!o->kill) {
		doc__line(p->d, "%s refused on %s, which had %s",
			  cell__bytes((double)o->bytes).text,
			  mem_name__device(o->device_type, o->device_index).text,
			  cell__bytes((double)o->allocated).text);
		doc__say(p->d, "%17sasked by ", "");
	} else {
		doc__line(p->d, "the Linux kernel killed process %u (%s resident)",
			  p->v->proc->tgid, cell__bytes((double)o->bytes).text);
		doc__say(p->d, "%17swhen ", "");
		if (o->by_tid)
			doc__say(p->d, "thread %u %s", o->by_tid,
				 o->by_tgid == p->v->proc->tgid ? "" : "of another process ");
		doc__say(p->d, "asked for memory: ");
	}
	end_with_who(p, &o->who);
}

static void say_ooms(struct mr_printer *p)
{
	uint64_t all = p->v->proc->ooms + p->v->proc->oom_kills;
	uint32_t shown = report__shown(p->v->oom_cnt, p->d->args->row_limit);

	for (uint32_t i = 0; i < shown; i++)
		say_oom(p, p->v->ooms[p->v->oom_cnt - shown + i]); /* the latest */
	if (shown < all)
		doc__line(p->d, "%17s%" PRIu64 " more before these", "", all - shown);
}

static void say_growing(struct mr_printer *p)
{
	const struct mr_view *v = p->v;
	const struct mr_group *g = v->leaks;

	if (!p->mr->info->has_memory || !v->device_cnt)
		return;
	if (v->by_step && v->periods_before < MR_LEAK_PERIODS_MIN) {
		doc__line(p->d, "  GROWS          unknown: %u step%s too few, record longer",
			  v->proc->steps, v->proc->steps == 1 ? " is" : "s are");
		return;
	}
	if (!v->leak_cnt) {
		doc__line(p->d,
			  "  GROWS          no torch memory: no operator keeps blocks from each %s",
			  period(p));
		return;
	}
	doc__style(p->d, DOC_ALERT);
	doc__say(p->d, "  GROWS          ");
	end_with_who(p, &g->who);
	doc__say(p->d, "%17s%s a %s: %s kept from %u of %u", "",
		 cell__change((double)g->kept_before / v->periods_before).text, period(p),
		 cell__bytes((double)g->kept).text, g->periods, v->periods_before + 1);
	if (*mr_say__shapes(p, g->shapes) && g->shape_cnt == 1) {
		doc__say(p->d, ", inputs ");
		doc__cut(p->d, mr_say__shapes(p, g->shapes), "", 32);
	}
	if (v->leak_cnt > 1)
		doc__say(p->d, "; %u more below", v->leak_cnt - 1);
	doc__end_line(p->d);
}

/*
 * The size of the process grows, but torch's blocks do not: which mappings did. Who touched new
 * pages first says nothing about who keeps them.
 */
static void say_other_growth(struct mr_printer *p)
{
	const struct mr_other *o = &p->v->other;
	bool torch = p->mr->info->has_memory, kernel = p->mr->info->has_kernel_memory;
	const struct {
		const char *name;
		double bytes;
	} all[] = {
		{ "heap (brk)", o->heap },
		{ kernel ? "anonymous mappings" : "heap or anonymous mappings", o->anonymous },
		{ "shared memory", o->shared },
		{ "pages of files", o->file },
	};
	double most = o->heap + o->anonymous + o->shared + o->file;
	const char *sep = "";

	if (o->per_period <= 0)
		return;
	doc__style(p->d, DOC_ALERT);
	doc__say(p->d, "  GROWS          RSS by %s a %s, ", cell__change(o->per_period).text,
		 period(p));
	if (torch && o->torch > 0)
		doc__say(p->d, "%s of it ", cell__bytes(o->per_period - o->torch).text);
	doc__line(p->d, torch ? "not PyTorch's tensors:" : "PyTorch's or others':");
	doc__line(p->d, "%17s%s. What grew:", "",
		  torch ? "Python objects or a library" : "--profile-memory tells");
	doc__say(p->d, "%17s", "");
	for (uint32_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
		if (all[i].bytes * 10 < most)
			continue;
		doc__say(p->d, "%s%s %s", sep, all[i].name, cell__change(all[i].bytes).text);
		sep = ", ";
	}
	doc__end_line(p->d);
}

void mr_say__growth(struct mr_printer *p)
{
	say_growing(p);
	say_other_growth(p);
}

void mr_say__device(struct mr_printer *p, const struct mr_device *d)
{
	struct mr_group top[PEAK_TOP];
	uint32_t cnt = d->peak_nr ? mr_rank__at_peak(p->mr, d, false, top, PEAK_TOP) : 0;
	double slope;

	doc__say(p->d, "  torch, %-7s peak %s", mem_name__device(d->type, d->index).text,
		 cell__bytes((double)d->peak).text);
	if (d->peak_nr)
		doc__say(p->d, " at %s", when(p, d->peak_ts, d->peak_step).text);
	doc__say(p->d, "; %s at the end", cell__bytes((double)d->now).text);
	if (mr_growth__slope(&d->growth, p->v->by_step, &slope))
		doc__say(p->d, "; %s a %s", cell__change(slope).text, period(p));
	if (d->reserved_peak)
		doc__say(p->d, "; reserved %s", cell__bytes((double)d->reserved_peak).text);
	doc__end_line(p->d);
	for (uint32_t i = 0; i < cnt; i++) {
		doc__say(p->d, "    %-12s %10s  ", i ? "" : "at the peak",
			 cell__bytes((double)top[i].peak).text);
		end_with_who(p, &top[i].who);
	}
}

void mr_say__rss(struct mr_printer *p)
{
	const struct mr_proc *pr = p->v->proc;
	double slope;

	doc__say(p->d, "  RSS            peak %s at %s; %s at the end",
		 cell__bytes((double)mr__resident(pr->rss_peak)).text,
		 when(p, pr->rss_peak_ts, pr->rss_peak_step).text,
		 cell__bytes((double)mr__resident(pr->rss)).text);
	if (mr_growth__noisy_slope(&pr->growth, p->v->by_step, &slope))
		doc__say(p->d, "; %s a %s", cell__change(slope).text, period(p));
	doc__end_line(p->d);
}

void mr_say__head(struct mr_printer *p)
{
	const struct session_info *info = p->mr->info;
	const struct mr_proc *pr = p->v->proc;
	const char *comm = "";

	for (uint32_t i = 0; i < info->process_cnt; i++)
		if (info->processes[i].tgid == pr->tgid && info->processes[i].comm)
			comm = info->processes[i].comm;
	doc__say(p->d, "Memory of process %u (", pr->tgid);
	doc__cut(p->d, comm, "", 32);
	doc__say(p->d, "), %.3f s", (double)mr__since_begin(p->mr, info->end_ns) / 1e9);
	if (pr->steps)
		doc__say(p->d, ", %u step%s (%" PRId64 " to %" PRId64 ")", pr->steps,
			 plural(pr->steps, "s"), pr->first_step, pr->last_step);
	else if (info->has_memory)
		doc__say(p->d, ", no steps known (--step-on NAME)");
	doc__end_line(p->d);
	say_ooms(p);
	mr_say__growth(p);
}

/*
 * ---- torch's blocks against the size of the process ----
 *
 * What of the difference the kernel's events explain, and what is not known. Of the text only.
 */

/* Differences below this share of the size, or this many bytes, are not reported. */
#define NOISE_SHARE 0.02
#define NOISE_BYTES (1 << 20)

static void balance_row(struct mr_printer *p, const char *name, uint64_t begin,
			const uint64_t *peak, uint64_t end)
{
	DOC(p->d, FACT(".name", name), FACT(".begin", begin));
	if (peak)
		DOC(p->d, FACT(".peak", *peak));
	doc__cell(p->d, ".peak", "?");
	DOC(p->d, FACT(".end", end), FACT(".change", diff(end, begin)));
}

/* cpu: NULL: torch's allocations were not recorded, or there were none. */
static void balance_rows(struct mr_printer *p, const struct mr_device *cpu)
{
	static const uint32_t kinds[] = { PTB_RSS_ANON, PTB_RSS_FILE, PTB_RSS_SHMEM, PTB_RSS_SWAP };
	static const struct doc_column columns[] = {
		{ ".name", "", -22, NULL, 0, 0 },
		{ ".begin", "begin", 12, cell__bytes, 0, 0 },
		{ ".peak", "torch's peak", 12, cell__bytes, 0, 0 },
		{ ".end", "end", 12, cell__bytes, 0, 0 },
		{ ".change", "change", 12, cell__change, 0, 0 },
		{ 0 },
	}, without_torch[] = { columns[0], columns[1], columns[3], columns[4], columns[5] };
	const struct mr_proc *pr = p->v->proc;
	const uint64_t *at_peak = cpu && cpu->has_rss_at_peak ? cpu->rss_at_peak : NULL;
	uint64_t all = at_peak ? mr__resident(at_peak) : 0;

	doc__title(p->d, "%s",
		   cpu ? "torch's CPU blocks against the resident size (RSS)" :
			 "The resident size (RSS)");
	doc__all(p->d, NULL, 6, cpu ? columns : without_torch);
	for (uint32_t i; doc__next(p->d, &i);) {
		uint32_t k = i < 2 ? 0 : kinds[i - 2];

		if (!i && cpu)
			balance_row(p, "torch, of the window", cpu->begin, &cpu->peak, cpu->now);
		else if (i == 1)
			balance_row(p, "RSS", mr__resident(pr->rss_begin), at_peak ? &all : NULL,
				    mr__resident(pr->rss));
		else if (i > 1 && (pr->rss_begin[k] || pr->rss[k] || pr->rss_peak[k]))
			balance_row(p, cell__format("  %s", mem_name__rss(k)).text,
				    pr->rss_begin[k], at_peak ? &at_peak[k] : NULL, pr->rss[k]);
	}
}

static void say_kernel_sums(struct mr_printer *p, double rss_change)
{
	const struct mr_kernel *k = &p->v->proc->sum;
	double gone = (double)k->fault_bytes - rss_change;

	if (!p->mr->info->has_kernel_memory)
		return;
	doc__say(p->d, "  The Linux kernel: page faults brought in %s",
		 cell__bytes((double)k->fault_bytes).text);
	if (gone > NOISE_BYTES)
		doc__say(p->d, ", %s were released", cell__bytes(gone).text);
	if (k->map_bytes || k->unmap_bytes) {
		doc__line(p->d, ";");
		doc__say(p->d, "    mapped %s, unmapped %s", cell__bytes((double)k->map_bytes).text,
			 cell__bytes((double)k->unmap_bytes).text);
	}
	if (k->brk_bytes)
		doc__say(p->d, "; heap (brk) %s", cell__change((double)k->brk_bytes).text);
	if (k->advise_bytes)
		doc__say(p->d, "; madvise on %s", cell__bytes((double)k->advise_bytes).text);
	doc__end_line(p->d);
}

/* A sentence about the difference between torch's blocks and the size of the process. */
static void say_difference(struct mr_printer *p, double d)
{
	const struct mr_proc *pr = p->v->proc;
	double noise = (double)mr__resident(pr->rss) * NOISE_SHARE;
	double file = diff(pr->rss[PTB_RSS_FILE], pr->rss_begin[PTB_RSS_FILE]);
	double swap = diff(pr->rss[PTB_RSS_SWAP], pr->rss_begin[PTB_RSS_SWAP]);

	if (noise < NOISE_BYTES)
		noise = NOISE_BYTES;
	if (d > noise) {
		doc__say(p->d, "  RSS grew by %s more than torch's blocks", cell__bytes(d).text);
		if (file > NOISE_BYTES)
			doc__say(p->d, ", %s of it pages of files",
				 cell__bytes(file < d ? file : d).text);
		doc__line(p->d, ": memory of others than torch");
		doc__line(p->d, "    (Python, libraries), or freed blocks that malloc keeps");
	} else if (d < -noise) {
		doc__line(
			p->d,
			"  torch's blocks grew by %s more than RSS: pages not touched yet, or memory",
			cell__bytes(-d).text);
		doc__say(p->d, "    that the process had before");
		if (swap > NOISE_BYTES)
			doc__say(p->d, "; %s were swapped out", cell__bytes(swap).text);
		doc__end_line(p->d);
	}
	if (pr->freed_unknown)
		doc__line(p->d,
			  "  %" PRIu64
			  " block%s from before the window %s freed in it, of unknown size: "
			  "torch's change is less by that",
			  pr->freed_unknown, pr->freed_unknown == 1 ? "" : "s",
			  pr->freed_unknown == 1 ? "was" : "were");
}

void mr_say__balance(struct mr_printer *p)
{
	const struct mr_proc *pr = p->v->proc;
	const struct mr_device *cpu = NULL;
	double rss = diff(mr__resident(pr->rss), mr__resident(pr->rss_begin));

	for (uint32_t i = p->v->device_cnt; i-- > 0;)
		if (!p->v->devices[i]->type)
			cpu = p->v->devices[i];
	if (!pr->has_rss)
		return;
	balance_rows(p, cpu);
	say_kernel_sums(p, rss);
	if (cpu)
		say_difference(p, rss - diff(cpu->now, cpu->begin));
}
