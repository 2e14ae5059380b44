/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The part of `report --memory` that holds torch's blocks against the size of the process, and says what of
 * the difference the kernel explains and what is not known. Must not claim more than was seen.
 */
#include <inttypes.h>

#include "export/mem_names.h"
#include "report/cells.h"
#include "report/mem_report_priv.h"

#define bytes(buf, v) cell__bytes(buf, v)
#define change(buf, v) mr_text__change(buf, v)

/* Differences below this share of the size, or this many bytes, are not worth a sentence. */
#define NOISE_SHARE 0.02
#define NOISE_BYTES (1 << 20)

struct balance {
	const struct mem_report *mr;
	const struct mr_view *v;
	const struct mr_device *cpu; /* NULL: torch's allocations were not recorded, or there were none */
	FILE *out;
	double rss, torch; /* change over the window */
};

static double diff(uint64_t a, uint64_t b)
{
	return (double)a - (double)b;
}

static void put_row(const struct balance *b, const char *name, uint64_t begin, bool has_peak,
		    uint64_t peak, uint64_t end)
{
	char c0[CELL], c1[CELL], c2[CELL], c3[CELL];

	fprintf(b->out, "  %-22s %12s", name, bytes(c0, (double)begin));
	if (b->cpu)
		fprintf(b->out, " %12s", has_peak ? bytes(c1, (double)peak) : "?");
	fprintf(b->out, " %12s %12s\n", bytes(c2, (double)end), change(c3, diff(end, begin)));
}

static void put_table(const struct balance *b)
{
	static const uint32_t kinds[] = { PTB_RSS_ANON, PTB_RSS_FILE, PTB_RSS_SHMEM, PTB_RSS_SWAP };
	const struct mr_proc *p = b->v->proc;
	const struct mr_device *d = b->cpu;
	bool has_peak = d && d->has_rss_at_peak;
	uint32_t i;

	fprintf(b->out, "\n%s\n",
		d ? "torch's CPU blocks against the resident size (RSS)" : "The resident size (RSS)");
	fprintf(b->out, "  %-22s %12s", "", "begin");
	if (d)
		fprintf(b->out, " %12s", "torch's peak");
	fprintf(b->out, " %12s %12s\n", "end", "change");
	if (d)
		put_row(b, "torch, of the window", d->begin, true, d->peak, d->now);
	put_row(b, "RSS", mr__resident(p->rss_begin), has_peak,
		d ? mr__resident(d->rss_at_peak) : 0, mr__resident(p->rss));
	for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		uint32_t k = kinds[i];
		char name[MEM_NAME_MAX];

		if (!p->rss_begin[k] && !p->rss[k] && !p->rss_peak[k])
			continue;
		snprintf(name, sizeof(name), "  %s", mem_name__rss(k));
		put_row(b, name, p->rss_begin[k], has_peak, d ? d->rss_at_peak[k] : 0, p->rss[k]);
	}
}

static void put_kernel(const struct balance *b)
{
	const struct mr_kernel *k = &b->v->proc->sum;
	char c0[CELL], c1[CELL], c2[CELL], c3[CELL];
	double gone = (double)k->fault_bytes - b->rss;

	if (!b->mr->info->has_kernel_memory)
		return;
	fprintf(b->out, "  The kernel: page faults brought in %s", bytes(c0, (double)k->fault_bytes));
	if (gone > NOISE_BYTES)
		fprintf(b->out, ", %s were released", bytes(c1, gone));
	if (k->map_bytes || k->unmap_bytes)
		fprintf(b->out, ";\n    mapped %s, unmapped %s", bytes(c0, (double)k->map_bytes),
			bytes(c1, (double)k->unmap_bytes));
	if (k->brk_bytes)
		fprintf(b->out, "; heap (brk) %s", change(c2, (double)k->brk_bytes));
	if (k->advise_bytes)
		fprintf(b->out, "; madvise on %s", bytes(c3, (double)k->advise_bytes));
	fputc('\n', b->out);
}

/* What the numbers above leave open, in words. */
static void put_difference(const struct balance *b)
{
	const struct mr_proc *p = b->v->proc;
	double d = b->rss - b->torch, noise = (double)mr__resident(p->rss) * NOISE_SHARE;
	double file = diff(p->rss[PTB_RSS_FILE], p->rss_begin[PTB_RSS_FILE]);
	double swap = diff(p->rss[PTB_RSS_SWAP], p->rss_begin[PTB_RSS_SWAP]);
	char c0[CELL], c1[CELL];

	if (!b->cpu)
		return;
	if (noise < NOISE_BYTES)
		noise = NOISE_BYTES;
	if (d > noise) {
		fprintf(b->out, "  RSS grew by %s more than torch's blocks", bytes(c0, d));
		if (file > NOISE_BYTES)
			fprintf(b->out, ", %s of it pages of files", bytes(c1, file < d ? file : d));
		fputs(": memory of others than torch\n    (Python, libraries), or freed blocks that malloc keeps\n",
		      b->out);
	} else if (d < -noise) {
		fprintf(b->out,
			"  torch's blocks grew by %s more than RSS: pages not touched yet, or memory\n"
			"    that the process had before",
			bytes(c0, -d));
		if (swap > NOISE_BYTES)
			fprintf(b->out, "; %s were swapped out", bytes(c1, swap));
		fputc('\n', b->out);
	}
	if (p->freed_unknown)
		fprintf(b->out,
			"  %" PRIu64 " block%s from before the window %s freed in it, of unknown size: torch's change "
			"is less by that\n",
			p->freed_unknown, p->freed_unknown == 1 ? "" : "s",
			p->freed_unknown == 1 ? "was" : "were");
}

static const struct mr_device *cpu_device(const struct mr_view *v)
{
	uint32_t i;

	for (i = 0; i < v->device_cnt; i++)
		if (!v->devices[i]->type)
			return v->devices[i];
	return NULL;
}

void mr_text__balance(const struct mem_report *mr, const struct mr_view *v, FILE *out)
{
	struct balance b = { .mr = mr, .v = v, .cpu = cpu_device(v), .out = out };

	if (!v->proc->has_rss)
		return;
	b.rss = diff(mr__resident(v->proc->rss), mr__resident(v->proc->rss_begin));
	b.torch = b.cpu ? diff(b.cpu->now, b.cpu->begin) : 0.0;
	put_table(&b);
	put_kernel(&b);
	put_difference(&b);
}
