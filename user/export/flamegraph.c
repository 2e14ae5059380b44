/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The tree of calls as a page that loads nothing: html/flamegraph.html with its style and script,
 * which draws, and the data as JSON. This file fills in the {{fields}}.
 */
#define LOG_DOMAIN "flamegraph"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/jsonw.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "capture/capture.h"
#include "export/facts_json.h"
#include "export/output.h"
#include "export/stack_tree.h"

#define JSON_BUF_SZ (64 * 1024)

struct flame_session {
	const struct session *s;
	const char *name;
	uint32_t sample_hz;
	bool has_stacks, incomplete;
	char lacks[1024];
};

struct flamegraph {
	struct out_file *of;
	struct stack_tree *tree;
	struct flame_session sessions[2];
	uint32_t session_cnt;
};

static void put_data(struct flamegraph *fg, FILE *f)
{
	struct jsonw w;

	jsonw__init(&w, html__put_json, f, JSON_BUF_SZ);
	jsonw__begin_obj(&w);
	flame_data__put(&w, fg->tree, fg->session_cnt, 0, 0);
	jsonw__end_obj(&w);
	jsonw__flush(&w);
	jsonw__free(&w);
}

/* ---- the page ---- */

static void put_title(const struct flamegraph *fg, FILE *f)
{
	html__put_process(f, fg->sessions[0].s, 0);
	for (uint32_t i = 0; i < fg->session_cnt; i++) {
		fputs(i ? " and " : ", ", f);
		html__put_text(f, fg->sessions[i].name);
	}
}

static void put_heading(const struct flamegraph *fg, FILE *f)
{
	for (uint32_t i = 0; i < fg->session_cnt; i++) {
		const struct flame_session *fs = &fg->sessions[i];

		if (i)
			fputs(" &rarr; ", f);
		html__put_process(f, fs->s, 0);
		fputs(" <small>", f);
		html__put_when(f, fs->s, 0);
		fputs(fg->session_cnt < 2 ? "; " : i ? "; second, " : "; first, ", f);
		html__put_text(f, fs->name);
		fputs("</small>", f);
	}
}

static void put_times_note(const struct flame_session *fs, FILE *f)
{
	if (fs->sample_hz)
		fprintf(f, "Times are those of samples of all threads, %u a second. ",
			fs->sample_hz);
	else
		fputs("Times are those of operators and annotations, without the Python code between them. ",
		      f);
}

static void put_flame_notes(const struct flamegraph *fg, FILE *f)
{
	const bool differ = fg->session_cnt > 1 &&
			    fg->sessions[0].sample_hz != fg->sessions[1].sample_hz;

	for (uint32_t i = 0; i < (differ ? fg->session_cnt : 1); i++) {
		if (differ) {
			html__put_text(f, fg->sessions[i].name);
			fputs(": ", f);
		}
		put_times_note(&fg->sessions[i], f);
	}
	if (fg->session_cnt > 1)
		fputs("Red: more in the second; blue: less. ", f);
	else
		fputs("Orange: the program; yellow: libraries; purple: annotations; blue: operators. ",
		      f);
	if (stack_tree__is_cut(fg->tree))
		fputs("The tree is too large: callers have the sums of what is missing below them. ",
		      f);
	for (uint32_t i = 0; i < fg->session_cnt; i++) {
		const struct flame_session *fs = &fg->sessions[i];

		if (!fs->has_stacks) {
			html__put_text(f, fs->name);
			fputs(" was recorded without Python stacks (--with-stack). ", f);
		}
		if (fs->incomplete) {
			html__put_text(f, fs->name);
			fputs(" is incomplete: ", f);
			html__put_text(f, fs->lacks);
			fputs(". ", f);
		}
	}
}

static const char html[] = {
#include "export/html/flamegraph.html.inc"
};
static const char css[] = {
#include "export/html/flamegraph.css.inc"
};
static const char script[] = {
#include "export/html/flamegraph.js.inc"
};

static void put_flame_field(void *arg, FILE *f, const char *name, size_t len)
{
	struct flamegraph *fg = arg;

	if (len == 5 && !memcmp(name, "title", len))
		put_title(fg, f);
	else if (len == 7 && !memcmp(name, "heading", len))
		put_heading(fg, f);
	else if (len == 5 && !memcmp(name, "style", len))
		fprintf(f, "%s%s", html_style, css);
	else if (len == 6 && !memcmp(name, "script", len))
		fputs(script, f);
	else if (len == 5 && !memcmp(name, "notes", len))
		put_flame_notes(fg, f);
	else if (len == 4 && !memcmp(name, "data", len))
		put_data(fg, f);
}

/* ---- interface ---- */

/* The next session (of two), before its run. */
static void begin_session(struct flamegraph *fg, const struct session *s, const char *name)
{
	const struct session_info *info = session__info(s);
	struct flame_session *fs = &fg->sessions[fg->session_cnt++];

	fs->name = path__base(name);
	fs->s = s;
	fs->sample_hz = info->sample_hz;
	fs->has_stacks = info->has_py_stacks;
	stack_tree__begin(fg->tree, s);
}

static struct session_sink flame_sink(void *o)
{
	return stack_tree__sink(((struct flamegraph *)o)->tree);
}

/* After its run, what it lacks. */
static void end_session(struct flamegraph *fg, const struct session *s,
			const struct session_totals *totals)
{
	struct flame_session *fs = &fg->sessions[fg->session_cnt - 1];

	fs->incomplete =
		loss_account__incomplete(session__info(s), totals, fs->lacks, sizeof(fs->lacks));
}

/* Its calls stand beside those of the first session. */
static int add_second(struct flamegraph *fg, const struct output_args *args)
{
	const struct session_opts opts = { .no_steps = true };
	struct session_totals totals = { 0 };
	struct capture_reader *cr;
	struct session_sink sink = flame_sink(fg);
	struct session *s;
	int err = capture_reader__open(args->diff, args->diff_fd, &cr);

	if (!err)
		err = session__open(cr, &opts, &s);
	if (!err) {
		begin_session(fg, s, args->diff);
		err = session__run(s, &sink, 1, &totals);
		end_session(fg, s, &totals);
	}
	if (err && !log__has_error())
		pr_error("'%s' cannot be read: %s", args->diff, errstr(err));
	return err; /* what it has goes with the process */
}

static int finish_flame(void *o, const struct output_args *args)
{
	struct flamegraph *fg = o;
	FILE *f;
	int err;

	end_session(fg, args->s, args->totals);
	err = args->diff ? add_second(fg, args) : 0;
	if (err)
		return err;
	f = out_file__stream(fg->of);
	html__put_template(f, html, put_flame_field, fg);
	return out_file__end_stream(fg->of, f);
}

static void free_flame(void *o)
{
	struct flamegraph *fg = o;

	if (!fg)
		return;
	out_file__free(fg->of);
	stack_tree__free(fg->tree);
	free(fg);
}

static int open_flame(const struct output_args *args, void **out)
{
	struct flamegraph *fg = xcalloc(1, sizeof(*fg));

	out_file__open(args, &fg->of);
	fg->tree = stack_tree__new();
	begin_session(fg, args->s, args->capture);
	*out = fg;
	return 0;
}

const struct output flamegraph_output = {
	.title = "flame graph",
	.viewer = "open it in a browser",
	.open = open_flame,
	.sink = flame_sink,
	.finish = finish_flame,
	.free = free_flame,
};
