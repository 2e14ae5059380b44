/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * All that a capture knows as a page that loads nothing: html/page.html, in which the documents of
 * the reports stand as JSON, and html/page.js, which shows them. Names in it are foreign: the
 * script makes them texts, never markup, and the policy in the page's head lets no other script
 * run.
 */
#define LOG_DOMAIN "page"
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "base/jsonw.h"
#include "base/mem.h"
#include "base/text.h"
#include "export/stack_tree.h"
#include "page/page_priv.h"
#include "report/report.h"
#include "why/why.h"

#define JSON_BUF_SZ (64 * 1024)
#define ROWS_OF_TABLES 500
#define ROWS_OF_LISTS 100
#define DOCUMENTS_BYTES (5 << 19) /* of all together; those that are beyond it are left out */

static const struct {
	const char *key; /* of the element that has it */
	const struct output *output;
	int rows;
} documents[] = {
	{ "why", &why_report, ROWS_OF_LISTS },
	{ "steps", &page_steps, 0 },
	{ "operators", &operators_report, ROWS_OF_TABLES },
	{ "lines", &lines_report, ROWS_OF_TABLES },
	{ "modules", &modules_report, ROWS_OF_TABLES },
	{ "open_operators", &sampled_operators_report, ROWS_OF_TABLES },
	{ "flame", &page_flame, 0 },
	{ "memory", &memory_report, ROWS_OF_LISTS },
	{ "memory_time", &page_memory, 0 },
	{ "sched", &sched_report, ROWS_OF_LISTS },
	{ "samples", &page_samples, 0 },
	{ "gpu", &gpus_report, ROWS_OF_LISTS },
	{ "ranks", &skew_report, ROWS_OF_LISTS },
};
#define DOCUMENT_CNT (sizeof(documents) / sizeof(*documents))

struct page {
	struct out_file *of;
	const struct output_args *args; /* during finish */
	const char *capture;
	struct stack_tree *tree;
	int err;
	struct page_document {
		struct output_args args;
		void *o;
		const char *lacks; /* options of a recording that has it; NULL: this one has */
		char *text;
		size_t len;
		bool left_out;
	} documents[DOCUMENT_CNT];
};

/* ---- documents ---- */

void page_json__begin(struct jsonw *w, const struct output_args *args)
{
	jsonw__init(w, jsonw__to_stream, args->out, JSON_BUF_SZ);
	jsonw__begin_obj(w);
}

int page_json__end(struct jsonw *w)
{
	int err;

	jsonw__end_obj(w);
	err = jsonw__flush(w);
	jsonw__free(w);
	return err;
}

static void free_page(void *o)
{
	struct page *p = o;

	if (!p)
		return;
	for (size_t i = 0; i < DOCUMENT_CNT; i++) {
		documents[i].output->free(p->documents[i].o);
		free(p->documents[i].text);
	}
	stack_tree__free(p->tree);
	out_file__free(p->of);
	free(p);
}

/* The reports have their own options, not those of a table beside the page. */
static struct output_args args_of(const struct page *p, const struct output_args *args, size_t i)
{
	return (struct output_args){
		.output = documents[i].output,
		.s = args->s,
		.capture = p->capture,
		.totals = args->totals,
		.json = true,
		.embedded = true,
		.tree = p->tree,
		.times = args->times,
		.row_limit = documents[i].rows,
		.sort_by = "self_cpu_time_total",
		.exact_memory = args->exact_memory,
	};
}

static int open_page(const struct output_args *args, void **out)
{
	struct page *p = xcalloc(1, sizeof(*p));
	int err = 0;

	out_file__open(args, &p->of);
	p->tree = stack_tree__new();
	p->capture = path__base(args->capture);
	for (size_t i = 0; i < DOCUMENT_CNT && !err; i++) {
		struct page_document *d = &p->documents[i];

		d->args = args_of(p, args, i);
		d->lacks = output__lacks(&d->args);
		if (!d->lacks)
			err = documents[i].output->open(&d->args, &d->o);
	}
	if (err)
		free_page(p);
	else
		*out = p;
	return err;
}

static uint32_t page_sinks(void *o, struct session_sink list[OUTPUT_SINKS])
{
	struct page *p = o;
	uint32_t n = 0;

	for (size_t i = 0; i < DOCUMENT_CNT; i++) {
		const struct output *output = documents[i].output;

		if (!p->documents[i].o)
			continue;
		if (output->sinks)
			n += output->sinks(p->documents[i].o, &list[n]);
		else
			list[n++] = output->sink(p->documents[i].o);
	}
	return n;
}

static int finish_documents(struct page *p)
{
	size_t left = DOCUMENTS_BYTES;
	int err = 0;

	for (size_t i = 0; i < DOCUMENT_CNT && !err; i++) {
		struct page_document *d = &p->documents[i];

		if (!d->o)
			continue;
		d->args.out = xmemstream(&d->text, &d->len);
		err = documents[i].output->finish(d->o, &d->args);
		fclose(d->args.out);
		d->left_out = d->len > left;
		left -= d->left_out ? 0 : d->len;
	}
	return err;
}

/* ---- fields ---- */

static void put_json(FILE *f, const char *key, const char *text, size_t len)
{
	fprintf(f, "<script type=\"application/json\" id=\"doc-%s\">", key);
	html__put_json(f, text, len);
	fputs("</script>\n", f);
}

/* What the reports have in common, and what could not be made. */
static void put_facts(struct page *p, FILE *f)
{
	char *text = NULL;
	size_t len = 0;
	const struct output_args args = { .s = p->args->s,
					  .totals = p->args->totals,
					  .json = true,
					  .out = xmemstream(&text, &len) };
	struct doc d;

	doc__begin(&d, &args);
	DOC(&d, FACT("capture_name", p->capture));
	doc__object(&d, "lacks");
	for (size_t i = 0; i < DOCUMENT_CNT; i++)
		if (p->documents[i].lacks)
			DOC(&d, FACT(documents[i].key, p->documents[i].lacks));
	doc__end(&d);
	doc__object(&d, "left_out");
	for (size_t i = 0; i < DOCUMENT_CNT; i++)
		if (p->documents[i].left_out)
			DOC(&d, FACT(documents[i].key, (uint64_t)p->documents[i].len));
	doc__end(&d);
	p->err = doc__finish(&d);
	fclose(args.out);
	put_json(f, "facts", text, len);
	free(text);
}

static void put_documents(struct page *p, FILE *f)
{
	put_facts(p, f);
	for (size_t i = 0; i < DOCUMENT_CNT; i++)
		if (p->documents[i].len && !p->documents[i].left_out)
			put_json(f, documents[i].key, p->documents[i].text, p->documents[i].len);
}

static void put_text_of(FILE *f, const cJSON *object, const char *key, const char *before)
{
	const char *text = cJSON_GetStringValue(cJSON_GetObjectItem(object, key));

	if (text) {
		fputs(before, f);
		html__put_text(f, text);
	}
}

/* For a browser without scripts: the first document's causes. */
static void put_verdict(struct page *p, FILE *f)
{
	cJSON *why = cJSON_ParseWithLength(p->documents[0].text, p->documents[0].len);
	const cJSON *causes = cJSON_GetObjectItem(why, "causes"), *cause;

	if (!cJSON_GetArraySize(causes))
		fputs("<p>Nothing stands out.</p>", f);
	cJSON_ArrayForEach(cause, causes)
	{
		const cJSON *share = cJSON_GetObjectItem(cause, "share");

		fputs("<p>", f);
		put_text_of(f, cause, "title", "");
		if (cJSON_IsNumber(share))
			fprintf(f, ", %.1f %%", 100 * share->valuedouble);
		put_text_of(f, cause, "evidence", ": ");
		put_text_of(f, cause, "change", ". To change: ");
		fputs(".</p>\n", f);
	}
	cJSON_Delete(why);
}

static void put_title(struct page *p, FILE *f)
{
	html__put_process(f, p->args->s, 0);
}

static void put_when(struct page *p, FILE *f)
{
	html__put_when(f, p->args->s, 0);
	fputs("; ", f);
	html__put_text(f, p->capture);
}

static const char html[] = {
#include "page/html/page.html.inc"
};

static const struct field {
	const char *name;
	void (*put)(struct page *p, FILE *f); /* or */
	const char *text;
} fields[] = {
	{ "title", put_title, NULL },
	{ "when", put_when, NULL },
	{ "verdict", put_verdict, NULL },
	{ "documents", put_documents, NULL },
	/* What the policy permits by its hash. */
	{ "style", NULL,
	  (const char[]){
#include "page/html/page.css.inc"
	  } },
	{ "style_hash", NULL,
	  (const char[]){
#include "page/html/page.css.hash.inc"
	  } },
	{ "script", NULL,
	  (const char[]){
#include "page/html/page.js.inc"
	  } },
	{ "script_hash", NULL,
	  (const char[]){
#include "page/html/page.js.hash.inc"
	  } },
	{ "flame_script", NULL,
	  (const char[]){
#include "export/html/flamegraph.js.inc"
	  } },
	{ "flame_script_hash", NULL,
	  (const char[]){
#include "export/html/flamegraph.js.hash.inc"
	  } },
};

static void put_field(void *arg, FILE *f, const char *name, size_t len)
{
	struct page *p = arg;

	for (size_t i = 0; i < sizeof(fields) / sizeof(*fields); i++) {
		if (strlen(fields[i].name) != len || memcmp(fields[i].name, name, len) != 0)
			continue;
		if (fields[i].put)
			fields[i].put(p, f);
		else
			fputs(fields[i].text, f);
	}
}

static int finish_page(void *o, const struct output_args *args)
{
	struct page *p = o;
	FILE *f;
	int err;

	p->args = args;
	err = finish_documents(p);
	if (err)
		return err;
	f = out_file__stream(p->of);
	html__put_template(f, html, put_field, p);
	err = out_file__end_stream(p->of, f);
	return p->err ? p->err : err;
}

const struct output page_output = {
	.title = "page",
	.viewer = "open it in a browser",
	.open = open_page,
	.sinks = page_sinks,
	.finish = finish_page,
	.free = free_page,
};
