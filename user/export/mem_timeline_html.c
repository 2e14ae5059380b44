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
#define PLOT_X 80
#define PLOT_Y 30
#define PLOT_H 420
#define PLOT_W COLUMNS
#define TICKS_MAX 8
#define OWNER_ROWS 30

static const struct {
	const char *name, *color; /* torch's _CATEGORY_TO_COLORS */
} categories[MEM_CATEGORY_CNT] = {
	[MEM_PARAMETER] = { "PARAMETER", "darkgreen" },
	[MEM_OPTIMIZER_STATE] = { "OPTIMIZER_STATE", "goldenrod" },
	[MEM_INPUT] = { "INPUT", "black" },
	[MEM_TEMPORARY] = { "TEMPORARY", "mediumpurple" },
	[MEM_ACTIVATION] = { "ACTIVATION", "red" },
	[MEM_GRADIENT] = { "GRADIENT", "mediumblue" },
	[MEM_AUTOGRAD_DETAIL] = { "AUTOGRAD_DETAIL", "royalblue" },
	[MEM_UNKNOWN] = { "Unknown", "grey" },
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
	return PLOT_Y + PLOT_H - (p->peak ? (double)bytes / (double)p->peak * PLOT_H : 0);
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

	fprintf(p->f, "%u,%.1f %u,%.1f ", PLOT_X + i + (back ? 1 : 0), y,
		PLOT_X + i + (back ? 0 : 1), y);
}

static void put_areas(const struct page *p)
{
	uint32_t i;
	bool any;

	for (uint32_t k = 0; k < MEM_CATEGORY_CNT; k++) {
		for (i = 0, any = false; i < COLUMNS && !any; i++)
			any = p->columns[i].sizes[k] > 0;
		if (!any)
			continue;
		fprintf(p->f, "<polygon class='area' fill='%s' points='", categories[k].color);
		for (i = 0; i < COLUMNS; i++)
			put_edge(p, i, (int)k + 1, false);
		for (i = COLUMNS; i-- > 0;)
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

	fprintf(p->f, "<rect class='frame' x='%d' y='%d' width='%d' height='%d'/>\n", PLOT_X,
		PLOT_Y, PLOT_W, PLOT_H);
	step = tick_step(ms, &decimals);
	for (int i = 0; has_tick(step, i, ms); i++) {
		double x = PLOT_X + PLOT_W * step * i / ms;

		fprintf(p->f,
			"<line class='tick' x1='%.1f' y1='%d' x2='%.1f' y2='%d'/>\n<text class='x' x='%.1f' y='%d'>%.*f</text>\n",
			x, PLOT_Y + PLOT_H, x, PLOT_Y + PLOT_H + 5, x, PLOT_Y + PLOT_H + 18,
			decimals, step * i);
	}
	step = tick_step(most, &decimals);
	for (int i = 0; has_tick(step, i, most); i++) {
		double y = PLOT_Y + PLOT_H - (most > 0 ? PLOT_H * step * i / most : 0);

		fprintf(p->f,
			"<line class='tick' x1='%d' y1='%.1f' x2='%d' y2='%.1f'/>\n<text class='y' x='%d' y='%.1f'>%.*f</text>\n",
			PLOT_X - 5, y, PLOT_X, y, PLOT_X - 8, y + 4, decimals, step * i);
	}
	fprintf(p->f, "<text class='x' x='%d' y='%d'>Time (ms)</text>\n", PLOT_X + PLOT_W / 2,
		PLOT_Y + PLOT_H + 40);
	fprintf(p->f,
		"<text class='x' transform='translate(16 %d) rotate(-90)'>Memory (%s)</text>\n",
		PLOT_Y + PLOT_H / 2, p->unit);
}

static void put_peak_mark(const struct page *p)
{
	uint32_t x = PLOT_X + column_of(p, p->peak_ns);
	bool right = x > PLOT_X + PLOT_W / 2;

	fprintf(p->f,
		"<line class='peak' x1='%u' y1='%d' x2='%u' y2='%d'/>\n<text class='%s' x='%u' y='%d'>peak: ",
		x, PLOT_Y - 6, x, PLOT_Y + PLOT_H, right ? "y" : "peak", right ? x - 4 : x + 4,
		PLOT_Y - 8);
	put_bytes(p->f, (uint64_t)p->peak);
	fprintf(p->f, "</text>\n");
}

/* ---- script: what the pointer shows ---- */

static void put_names(const struct page *p)
{
	for (int k = 0; k < MEM_CATEGORY_CNT; k++)
		fprintf(p->f, "%s'%s'", k ? "," : "", categories[k].name);
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
		fprintf(p->f, "<br>Max memory reserved: ");
		put_bytes(p->f, p->tl->device.max_reserved);
	}
}

static void put_categories(const struct page *p)
{
	for (int k = 0; k < MEM_CATEGORY_CNT; k++)
		fprintf(p->f, "<span class='key' style='background:%s'></span>%s",
			categories[k].color, categories[k].name);
}

static void put_peak_ms(const struct page *p)
{
	fprintf(p->f, "%.3f", (double)(p->peak_ns - p->begin_ns) / 1e6);
}

static void put_peak(const struct page *p)
{
	put_bytes(p->f, (uint64_t)p->peak);
}

static void put_owner(const struct page *p, const struct owned *o)
{
	const struct timeline_owner *who = &p->tl->owners[o->owner];

	fprintf(p->f, "<tr><td>");
	if (!o->owner) {
		fprintf(p->f, "<i>from before the window</i>");
	} else if (!*who->op) {
		fprintf(p->f, "<i>no operator</i>");
	} else {
		html__put_text(p->f, *o->within ? o->within : who->op);
		fprintf(p->f, "</td><td>");
		html__put_text(p->f, who->op);
	}
	if (!o->owner || !*who->op)
		fprintf(p->f, "</td><td>");
	fprintf(p->f, "</td><td>");
	html__put_text(p->f, who->annotation);
	fprintf(p->f, "</td><td>%s</td><td class='n'>", categories[o->category].name);
	put_bytes(p->f, (uint64_t)o->bytes);
	fprintf(p->f, "</td><td class='n'>%.1f %%</td></tr>\n",
		p->peak ? 100.0 * (double)o->bytes / (double)p->peak : 0.0);
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
		fprintf(p->f, "<tr><td colspan='4'>%u more</td><td class='n'>",
			p->owned_cnt - OWNER_ROWS);
		put_bytes(p->f, (uint64_t)rest);
		fprintf(p->f, "</td><td class='n'>%.1f %%</td></tr>\n",
			100.0 * (double)rest / (double)p->peak);
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

static const struct field {
	const char *name;
	void (*put)(const struct page *p); /* or */
	const char *template;              /* or */
	int number;
} fields[] = {
	{ "style", .template = css },
	{ "device", .put = put_device_name },
	{ "max_allocated", .put = put_max_allocated },
	{ "max_reserved", .put = put_max_reserved },
	{ "categories", .put = put_categories },
	{ "width", .number = PLOT_X + PLOT_W + 30 },
	{ "height", .number = PLOT_Y + PLOT_H + 50 },
	{ "left", .number = PLOT_X },
	{ "top", .number = PLOT_Y },
	{ "bottom", .number = PLOT_Y + PLOT_H },
	{ "areas", .put = put_areas },
	{ "axes", .put = put_axes },
	{ "peak_mark", .put = put_peak_mark },
	{ "peak_ms", .put = put_peak_ms },
	{ "peak", .put = put_peak },
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
