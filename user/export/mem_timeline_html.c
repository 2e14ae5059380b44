/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The memory timeline as one page that loads nothing: stacked areas in torch's colours and order,
 * the peak and who owned it. The page is html/mem_timeline.html with its style and script; this
 * file fills in their {{fields}}.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/containers.h"
#include "base/mem.h"
#include "export/facts_json.h"
#include "export/mem_timeline_priv.h"
#include "export/stack_tree.h"

#define COLUMNS 1000 /* of the picture; each shows its highest state */
#define PLOT_H 420   /* heights in its own unit */
#define TICKS_MAX 8
#define OWNER_ROWS 30

static const char *const categories[MEM_CATEGORY_CNT] = {
	/* the page's style has torch's _CATEGORY_TO_COLORS, by number */
	[MEM_PARAMETER] = "PARAMETER",
	[MEM_OPTIMIZER_STATE] = "OPTIMIZER_STATE",
	[MEM_INPUT] = "INPUT",
	[MEM_TEMPORARY] = "TEMPORARY",
	[MEM_ACTIVATION] = "ACTIVATION",
	[MEM_GRADIENT] = "GRADIENT",
	[MEM_AUTOGRAD_DETAIL] = "AUTOGRAD_DETAIL",
	[MEM_UNKNOWN] = "Unknown",
};

struct column { /* the state at a time within it */
	uint64_t t;
	int64_t sizes[MEM_CATEGORY_CNT], total;
	int64_t last[MEM_CATEGORY_CNT], last_total; /* with which it ends */
	bool any;
};

struct owned {
	const char *within;
	uint32_t owner;
	int category;
	int64_t bytes;
};

struct page {
	const struct timeline *tl;
	const struct session_totals *totals;
	FILE *f;
	uint64_t begin_ns, span_ns; /* of the picture */
	uint64_t peak_ns;
	int64_t peak;
	struct column *columns;
	struct owned *owned; /* at the peak, biggest first */
	uint32_t owned_cnt, owned_cap;
	struct hashmap owned_ids;
	const char *unit;
	double unit_bytes;
};

/* ---- what is shown ---- */

/* The largest unit that fits into so many bytes. */
static const char *unit_of(uint64_t bytes, double *unit_bytes)
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
	size_t i = 0;

	*unit_bytes = 1;
	while (i + 1 < sizeof(units) / sizeof(units[0]) && (double)bytes >= 1024 * *unit_bytes) {
		*unit_bytes *= 1024;
		i++;
	}
	return units[i];
}

static uint32_t column_of(const struct page *p, uint64_t t)
{
	uint64_t off = t > p->begin_ns ? t - p->begin_ns : 0;
	uint64_t i = (uint64_t)((double)off / (double)p->span_ns * COLUMNS);

	return i < COLUMNS ? (uint32_t)i : COLUMNS - 1;
}

static void put_state(const struct page *p, const struct timeline_walk *w)
{
	struct column *c = &p->columns[column_of(p, w->t)];

	if (!c->any || w->total > c->total) {
		c->t = w->t > p->begin_ns ? w->t : p->begin_ns;
		c->total = w->total;
		memcpy(c->sizes, w->sizes, sizeof(c->sizes));
	}
	memcpy(c->last, w->sizes, sizeof(c->last));
	c->last_total = w->total;
	c->any = true;
}

/* A state lasts until the next one: a column without events shows the last state of the one before,
 * and so does a column that begins higher than any of its own states. */
static void fill_columns(struct page *p)
{
	struct column *c, *before = NULL;

	for (uint32_t i = 0; i < COLUMNS; i++) {
		c = &p->columns[i];
		if (before && (!c->any || before->last_total > c->total)) {
			c->t = p->begin_ns + (uint64_t)((double)p->span_ns * i / COLUMNS);
			c->total = before->last_total;
			memcpy(c->sizes, before->last, sizeof(c->sizes));
		}
		if (before && !c->any) {
			memcpy(c->last, before->last, sizeof(c->last));
			c->last_total = before->last_total;
		}
		before = c;
	}
}

static void make_columns(struct page *p)
{
	const struct session_info *info = session__info(p->tl->s);
	uint64_t last_ns = timeline__first_ns(p->tl);
	struct timeline_walk w;

	p->begin_ns = last_ns ? last_ns : info->begin_ns;
	timeline_walk__begin(&w, p->tl, 1);
	while (timeline_walk__next(&w)) {
		last_ns = w.t ? w.t : last_ns;
		if (w.total > p->peak) {
			p->peak = w.total;
			p->peak_ns = w.t ? w.t : p->begin_ns;
		}
	}
	p->span_ns = last_ns > p->begin_ns ? last_ns - p->begin_ns : 1;
	p->columns = xcalloc(COLUMNS, sizeof(*p->columns));
	timeline_walk__begin(&w, p->tl, 1);
	while (timeline_walk__next(&w))
		put_state(p, &w);
	fill_columns(p);
	p->unit = unit_of((uint64_t)p->peak, &p->unit_bytes);
}

static int biggest_first(const void *a, const void *b)
{
	const struct owned *x = a, *y = b;

	if (x->bytes != y->bytes)
		return x->bytes > y->bytes ? -1 : 1;
	if (x->owner != y->owner)
		return x->owner < y->owner ? -1 : 1;
	return x->category - y->category;
}

static void add_bytes(struct page *p, const struct mem_row *r, int category, int64_t bytes)
{
	uint64_t source = (uint64_t)r->owner << 8 | (uint32_t)category;
	struct owned *o = list__keyed(KEYED_LIST(p, owned, owned), source, (uintptr_t)r->within);

	*o = (struct owned){ r->within, r->owner, category, o->bytes + bytes };
}

/* Who owned what lived at the peak, from the rows up to then. */
static void find_owners(struct page *p)
{
	const struct timeline *tl = p->tl;
	const struct mem_row *r;
	int64_t bytes;

	for (r = tl->rows; r < tl->rows + tl->row_cnt && r->ts_ns <= p->peak_ns; r++) {
		if (!timeline__is_row(tl, r) || r->owner >= tl->owner_cnt)
			continue;
		bytes = r->action == MEM_PREEXISTING || r->action == MEM_CREATE ?
				(int64_t)r->bytes :
				-(int64_t)r->bytes;
		add_bytes(p, r, r->category, bytes);
		if (r->action == MEM_INCREMENT_VERSION)
			add_bytes(p, r, r->next_category, -bytes);
	}
	sort__array(p->owned, p->owned_cnt, sizeof(*p->owned), biggest_first);
	while (p->owned_cnt && p->owned[p->owned_cnt - 1].bytes <= 0)
		p->owned_cnt--;
}

/* ---- texts ---- */

static void put_bytes(FILE *f, uint64_t bytes)
{
	double unit_bytes;
	const char *unit = unit_of(bytes, &unit_bytes);

	fprintf(f, "%.*f %s", unit_bytes > 1 ? 2 : 0, (double)bytes / unit_bytes, unit);
}

/* ---- picture ---- */

static double y_of(const struct page *p, int64_t bytes)
{
	return PLOT_H - (p->peak ? (double)bytes / (double)p->peak * PLOT_H : 0);
}

static int64_t stacked(const struct column *c, int upto)
{
	int64_t sum = 0;

	for (int i = 0; i < upto; i++)
		sum += c->sizes[i];
	return sum;
}

static void put_edge(const struct page *p, uint32_t i, int category, bool back)
{
	const struct column *c = &p->columns[i];
	double y = y_of(p, stacked(c, category));

	fprintf(p->f, "%u,%.1f %u,%.1f ", i + (back ? 1 : 0), y, i + (back ? 0 : 1), y);
}

static bool occurs(const struct page *p, uint32_t category)
{
	for (uint32_t i = 0; i < COLUMNS; i++)
		if (p->columns[i].sizes[category] > 0)
			return true;
	return false;
}

static void put_areas(const struct page *p)
{
	for (uint32_t k = 0; k < MEM_CATEGORY_CNT; k++) {
		if (!occurs(p, k))
			continue;
		fprintf(p->f, "<polygon class='area c%u' points='", k);
		for (uint32_t i = 0; i < COLUMNS; i++)
			put_edge(p, i, (int)k + 1, false);
		for (uint32_t i = COLUMNS; i-- > 0;)
			put_edge(p, i, (int)k, true);
		fprintf(p->f, "'/>\n");
	}
}

/* Ticks of an axis up to `most`: 1, 2 or 5 times a power of ten apart, at most TICKS_MAX of them
 * above 0. */
static double tick_step(double most, int *decimals)
{
	static const double factors[] = { 1, 2, 5, 10 };
	int power = most > 0 ? (int)floor(log10(most / TICKS_MAX)) : 0;
	size_t i = 0;

	while (i < 3 && pow(10, power) * factors[i] * TICKS_MAX < most)
		i++;
	power += i == 3;
	*decimals = power < 0 ? -power : 0;
	return pow(10, power) * (i == 3 ? 1 : factors[i]);
}

/* Is there a tick i? */
static bool has_tick(double step, int i, double most)
{
	return step * i <= most * (1 + 1e-9);
}

static void put_axes(const struct page *p)
{
	double ms = (double)p->span_ns / 1e6, most = (double)p->peak / p->unit_bytes, step;
	int decimals;

	step = tick_step(ms, &decimals);
	for (int i = 0; has_tick(step, i, ms); i++)
		fprintf(p->f, "<span class='x' style='left:%.2f%%'>%.*f</span>\n",
			100 * step * i / ms, decimals, step * i);
	step = tick_step(most, &decimals);
	for (int i = 0; has_tick(step, i, most); i++)
		fprintf(p->f, "<span class='y' style='bottom:%.2f%%'>%.*f</span>\n",
			most > 0 ? 100 * step * i / most : 0, decimals, step * i);
}

static void put_unit(const struct page *p)
{
	fputs(p->unit, p->f);
}

static void put_peak_mark(const struct page *p)
{
	double left = 100.0 * column_of(p, p->peak_ns) / COLUMNS;
	bool right = left > 50;

	fprintf(p->f, "<div id='peak' style='left:%.2f%%'><span class='%s'>peak: ", left,
		right ? "before" : "behind");
	put_bytes(p->f, (uint64_t)p->peak);
	fprintf(p->f, "</span></div>\n");
}

/* ---- script: what the pointer shows ---- */

static void put_names(const struct page *p)
{
	for (int k = 0; k < MEM_CATEGORY_CNT; k++)
		fprintf(p->f, "%s'%s'", k ? "," : "", categories[k]);
}

/* [ns since the begin, bytes of each category] for each column */
static void put_columns(const struct page *p)
{
	const struct column *c;

	for (int i = 0; i < COLUMNS; i++) {
		c = &p->columns[i];
		fprintf(p->f, "%s[%" PRIu64, i ? "," : "",
			c->t > p->begin_ns ? c->t - p->begin_ns : 0);
		for (int k = 0; k < MEM_CATEGORY_CNT; k++)
			fprintf(p->f, ",%" PRId64, c->sizes[k]);
		fprintf(p->f, "]");
	}
}

/* ---- page ---- */

static void put_device_name(const struct page *p)
{
	html__put_text(p->f, p->tl->device.name);
}

static void put_max_allocated(const struct page *p)
{
	uint64_t most = p->tl->device.max_allocated;

	put_bytes(p->f, most ? most : (uint64_t)p->peak);
}

static void put_max_reserved(const struct page *p)
{
	if (p->tl->device.max_reserved) {
		fprintf(p->f, ", reserved ");
		put_bytes(p->f, p->tl->device.max_reserved);
	}
}

static void put_categories(const struct page *p)
{
	for (uint32_t k = 0; k < MEM_CATEGORY_CNT; k++)
		if (occurs(p, k))
			fprintf(p->f,
				"<span class='key'><svg class='area c%u' viewBox='0 0 1 1'><rect "
				"width='1' height='1'/></svg>%s</span>\n",
				k, categories[k]);
}

static void put_process(const struct page *p)
{
	html__put_process(p->f, p->tl->s, p->tl->tgid);
}

static void put_when(const struct page *p)
{
	html__put_when(p->f, p->tl->s, p->tl->tgid);
}

/* The report's sentences, of which each begins a paragraph and goes on in indented lines. */
static void put_headline(const struct page *p)
{
	const char *text = p->tl->headline;
	bool open = false, ended = false; /* ended: no comma is needed before the next line */

	while (*text) {
		size_t blanks = strspn(text, " "), len = strcspn(text + blanks, "\n");
		char *line = xstrndup(text + blanks, len);
		bool begins = !strncmp(line, "GROWS", 5);

		if (begins)
			fprintf(p->f, "%s<p class='grows'><strong>GROWS</strong> ",
				open ? "</p>\n" : "");
		else
			fputs(ended ? " " : ", ", p->f);
		open |= begins;
		html__put_text(p->f, line + (begins ? 5 + strspn(line + 5, " ") : 0));
		ended = *line && strchr(".:;,", line[strlen(line) - 1]);
		free(line);
		text += blanks + len;
		text += *text == '\n';
	}
	if (open)
		fputs("</p>\n", p->f);
}

static void put_peak_ms(const struct page *p)
{
	fprintf(p->f, "%.3f", (double)(p->peak_ns - p->begin_ns) / 1e6);
}

static void put_peak(const struct page *p)
{
	put_bytes(p->f, (uint64_t)p->peak);
}

static bool has_lines(const struct page *p)
{
	return session__info(p->tl->s)->has_py_stacks;
}

static void put_line_heading(const struct page *p)
{
	if (has_lines(p))
		fputs("<th>Line</th>", p->f);
}

static void put_cell(const struct page *p, const char *text)
{
	fputs("<td>", p->f);
	html__put_text(p->f, text);
	fputs("</td>", p->f);
}

static void put_share(const struct page *p, int64_t bytes)
{
	fputs("<td class='n'>", p->f);
	put_bytes(p->f, (uint64_t)bytes);
	fprintf(p->f, "</td><td class='n'>%.1f %%</td></tr>\n",
		p->peak ? 100.0 * (double)bytes / (double)p->peak : 0.0);
}

static void put_owner(const struct page *p, const struct owned *o)
{
	const struct timeline_owner *who = &p->tl->owners[o->owner];

	fputs("<tr>", p->f);
	if (!o->owner || !*who->op) {
		fprintf(p->f, "<td><i>%s</i></td><td></td>",
			o->owner ? "no operator" : "from before the window");
	} else {
		put_cell(p, *o->within ? o->within : who->op);
		put_cell(p, who->op);
	}
	put_cell(p, who->annotation);
	if (has_lines(p))
		put_cell(p, who->line);
	put_cell(p, categories[o->category]);
	put_share(p, o->bytes);
}

static void put_owners(const struct page *p)
{
	int64_t rest = 0;
	uint32_t i;

	for (i = 0; i < p->owned_cnt && i < OWNER_ROWS; i++)
		put_owner(p, &p->owned[i]);
	for (; i < p->owned_cnt; i++)
		rest += p->owned[i].bytes;
	if (rest) {
		fprintf(p->f, "<tr><td colspan='%d'>%u more</td>", has_lines(p) ? 5 : 4,
			p->owned_cnt - OWNER_ROWS);
		put_share(p, rest);
	}
}

/* How the categories were found, and what the picture lacks. */
static void put_notes(const struct page *p)
{
	const struct session_totals *totals = p->totals;
	const struct session_info *info = session__info(p->tl->s);
	const struct mem_flow_account *a = &p->tl->account;
	char text[1024];

	if (a->too_many)
		fprintf(p->f, "No categories: too many tensors to follow. ");
	else if (!info->has_results)
		fprintf(p->f,
			"No categories: operators' tensors were not recorded (--execution-trace does). ");
	else
		fprintf(p->f,
			"Categories follow from %" PRIu64 " tensors of %" PRIu64
			" operators; what does not "
			"follow from them is unknown%s. ",
			a->tensors, a->ops,
			a->no_parameters ? ", and so are parameters: none was recorded as such" :
					   "");
	if (a->leftovers)
		fprintf(p->f,
			"%" PRIu64 " blocks from before the window may be inputs or belong "
			"to a training step that had begun: they are unknown. ",
			a->leftovers);
	if (a->undecided)
		fprintf(p->f,
			"%" PRIu64 " blocks may be gradients, parameters or optimizer "
			"state: they are unknown. ",
			a->undecided);
	if (a->cut_ops)
		fprintf(p->f, "Arguments of %" PRIu64 " operators were cut. ", a->cut_ops);
	if (totals->freed_unknown)
		fprintf(p->f,
			"%" PRIu64
			" blocks that were freed had been allocated before the window; those that no "
			"operator had as a tensor are not here. ",
			totals->freed_unknown);
	if (loss_account__incomplete(info, totals, text, sizeof(text))) {
		fprintf(p->f, "The capture is incomplete: ");
		html__put_text(p->f, text);
	}
}

/* ---- templates ---- */

static const char html[] = {
#include "export/html/mem_timeline.html.inc"
};
static const char css[] = {
#include "export/html/mem_timeline.css.inc"
};
static const char script[] = {
#include "export/html/mem_timeline.js.inc"
};

static void put_style(const struct page *p)
{
	fprintf(p->f, "%s%s", html_style, css);
}

static const struct field {
	const char *name;
	void (*put)(const struct page *p); /* or */
	const char *template;              /* or */
	int number;
} fields[] = {
	{ "style", .put = put_style },
	{ "process", .put = put_process },
	{ "when", .put = put_when },
	{ "headline", .put = put_headline },
	{ "device", .put = put_device_name },
	{ "max_allocated", .put = put_max_allocated },
	{ "max_reserved", .put = put_max_reserved },
	{ "categories", .put = put_categories },
	{ "width", .number = COLUMNS },
	{ "height", .number = PLOT_H },
	{ "areas", .put = put_areas },
	{ "axes", .put = put_axes },
	{ "unit", .put = put_unit },
	{ "peak_mark", .put = put_peak_mark },
	{ "peak_ms", .put = put_peak_ms },
	{ "peak", .put = put_peak },
	{ "line_heading", .put = put_line_heading },
	{ "owners", .put = put_owners },
	{ "notes", .put = put_notes },
	{ "script", .template = script },
	{ "names", .put = put_names },
	{ "columns", .put = put_columns },
};

static void put_field(void *arg, FILE *f, const char *name, size_t len)
{
	const struct page *p = arg;

	for (size_t i = 0; i < sizeof(fields) / sizeof(*fields); i++) {
		if (strlen(fields[i].name) != len || memcmp(fields[i].name, name, len) != 0)
			continue;
		if (fields[i].template)
			html__put_template(f, fields[i].template, put_field, arg);
		else if (fields[i].put)
			fields[i].put(p);
		else
			fprintf(f, "%d", fields[i].number);
	}
}

int timeline__write_html(const struct timeline *tl, const struct session_totals *totals,
			 struct out_file *of)
{
	struct page p = { .tl = tl, .totals = totals, .f = out_file__stream(of) };

	make_columns(&p);
	find_owners(&p);
	html__put_template(p.f, html, put_field, &p);
	free(p.columns);
	free(p.owned);
	hashmap__clear(&p.owned_ids);
	return out_file__end_stream(of, p.f);
}
