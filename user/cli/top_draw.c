/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The text of a screen of ptbpf top; see top.h. Names in a frame are foreign texts. */
#include <stdarg.h>
#include <string.h>

#include "base/text.h"
#include "cli/top.h"

/* ---- lines ---- */

void screen__style(struct screen *s, const char *code)
{
	if (s->v->colour && !s->off)
		fputs(code, s->out);
}

void screen__end_line(struct screen *s)
{
	if (!s->open)
		return;
	for (; s->v->height && s->at < s->v->width; s->at++)
		fputc(' ', s->out);
	if (!s->v->height)
		fputc('\n', s->out);
	s->open = false;
	s->line++;
}

void screen__begin_line(struct screen *s, int left)
{
	screen__end_line(s);
	s->off = s->v->height && s->line + left >= s->v->height;
	if (s->off)
		return;
	if (s->v->height && s->line)
		fputc('\n', s->out);
	s->open = true;
	s->at = 0;
}

void screen__put(struct screen *s, const char *text)
{
	if (s->open && s->at < s->v->width)
		s->at += (int)term_text__put(s->out, text, (size_t)(s->v->width - s->at));
}

void screen__put_padded(struct screen *s, const char *text, int width, bool left)
{
	int pad = width - (int)term_text__width(text);

	for (; !left && pad > 0; pad--)
		screen__put(s, " ");
	screen__put(s, text);
	for (; left && pad > 0; pad--)
		screen__put(s, " ");
}

#define CUT_MIN 3 /* what is cut has dots in its midst */

void screen__put_name(struct screen *s, const char *text, int max)
{
	int room = s->v->width - s->at;

	room = max < room ? max : room;
	if (room <= CUT_MIN)
		screen__put(s, room > 0 ? "..." + (CUT_MIN - room) : "");
	else if (s->open)
		s->at += (int)cell__put_text(s->out, text, (size_t)room);
}

/* Lines that the head leaves to what is below it. */
static int head_left(const struct screen *s)
{
	return s->v->height > 6 ? s->v->height / 2 : 3;
}

/* A piece of the head: on the open line if it has room, else on the next one. */
__attribute__((format(printf, 2, 3))) static void piece(struct screen *s, const char *fmt, ...)
{
	char text[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (s->at && s->at + 2 + (int)term_text__width(text) > s->v->width)
		screen__begin_line(s, head_left(s));
	else if (s->at)
		screen__put(s, "  ");
	screen__put(s, text);
}

/* ---- the head ---- */

static const char *const wait_names[WAITS_CNT] = {
	[WAITS_CPU] = "queue", [WAITS_GIL] = "GIL",     [WAITS_LOCK] = "lock",
	[WAITS_IO] = "I/O",    [WAITS_SLEEP] = "sleep", [WAITS_OTHER] = "other",
};

/* The process that the head is about: the first one with steps, else the busiest one. */
static const struct top_process *shown(const struct top_frame *f)
{
	const struct top_process *best = f->process_cnt ? &f->processes[0] : NULL;

	for (uint32_t i = 0; i < f->process_cnt; i++) {
		const struct top_process *p = &f->processes[i];

		if (p->steps)
			return p;
		if (p->cpu_ns > best->cpu_ns)
			best = p;
	}
	return best;
}

static void put_title(struct screen *s)
{
	const struct top_frame *f = s->f;
	const struct top_process *p = f ? shown(f) : NULL;
	char right[64], of[32] = "";
	int room;

	screen__begin_line(s, head_left(s));
	screen__style(s, STYLE_BOLD);
	snprintf(right, sizeof(right), "%s%.3g s  %s", s->v->paused ? "PAUSED  " : "",
		 (double)s->v->interval_ns / 1e9, s->v->clock);
	screen__put(s, "ptbpf top  ");
	room = s->v->width - s->at - (int)strlen(right) - 2;
	if (p && f->process_cnt > 1)
		snprintf(of, sizeof(of), "%u processes: ", f->process_cnt);
	if (p && room > 8) {
		char pid[24];
		int begin = s->at;

		snprintf(pid, sizeof(pid), " (%u)", p->pid);
		screen__put(s, of);
		screen__put_name(s, p->name, room - (s->at - begin) - (int)strlen(pid));
		screen__put(s, pid);
	}
	screen__put_padded(s, right, s->v->width - s->at, false);
	screen__style(s, STYLE_END);
}

static void put_sums(struct screen *s)
{
	const struct top_frame *f = s->f;
	const struct top_process *p = shown(f);
	uint64_t cpu = 0, resident = 0;

	for (uint32_t i = 0; i < f->process_cnt; i++) {
		cpu += f->processes[i].cpu_ns;
		resident += f->processes[i].resident;
	}
	screen__begin_line(s, head_left(s));
	if (p && p->step_ns)
		piece(s, "steps %.3g/s (%s)", top__a_second(p->steps, p->steps_ns),
		      cell__duration(p->step_ns).text);
	else
		piece(s, "steps: none seen");
	piece(s, "CPU %.0f%%", top__share(cpu, f->wall_ns));
	piece(s, "memory %s", cell__bytes((double)resident).text);
	for (uint32_t i = 0; i < f->gpu_cnt; i++)
		piece(s, "GPU%u %.0f%%", f->gpus[i].id, top__share(f->gpus[i].ns, f->window_ns));
	if (f->operators)
		piece(s, "operators %s/s",
		      cell__count((uint64_t)top__a_second(f->operators, top__operators_ns(f)))
			      .text);
}

static void put_main(struct screen *s)
{
	const struct top_process *p = shown(s->f);

	if (!p)
		return;
	screen__begin_line(s, head_left(s));
	piece(s, "main thread: on CPU %.0f%%", top__share(p->main[TOP_ON_CPU], s->f->window_ns));
	for (uint32_t i = 0; i < WAITS_CNT; i++)
		piece(s, "%s %.0f%%", wait_names[i],
		      top__share(p->main[TOP_WAITS + i], s->f->window_ns));
}

static void put_cost(struct screen *s)
{
	const struct top_frame *f = s->f;
	uint64_t all = f->wall_ns > f->window_ns ? f->wall_ns : f->window_ns;
	double most = 0;
	bool agent = false;

	for (uint32_t i = 0; i < f->process_cnt; i++) {
		double v = top__share(f->processes[i].cost_ns, f->wall_ns);

		most = v > most ? v : most;
		agent |= f->processes[i].agent;
	}
	screen__begin_line(s, head_left(s));
	piece(s, "ptbpf: %.1f%% of a CPU", top__share(f->own_ns, f->wall_ns));
	piece(s, "costs the process %.2f%%%s", most, agent ? " and the agent" : "");
	piece(s, "seen %.0f%%", top__share(f->window_ns, all + s->v->missed_ns));
	if (f->lost) {
		screen__style(s, STYLE_ALERT);
		piece(s, "lost %s records", cell__count(f->lost).text);
		screen__style(s, STYLE_END);
	}
}

static void put_tabs(struct screen *s)
{
	screen__begin_line(s, head_left(s));
	for (uint32_t i = 0; i < TOP_VIEWS; i++) {
		char text[32];

		snprintf(text, sizeof(text), "%u %s", i + 1, top_table__name(i));
		if (i && s->at + 2 + (int)strlen(text) > s->v->width)
			snprintf(text, sizeof(text), "%u", i + 1);
		screen__put(s, i ? "  " : "");
		screen__style(s, i == s->v->kind ? STYLE_HEAD : "");
		screen__put(s, i == s->v->kind && !s->v->colour ? ">" : "");
		screen__put(s, text);
		screen__style(s, STYLE_END);
	}
	if (s->v->kind == TOP_OPERATORS && s->v->operators && s->v->operators_age_ns)
		piece(s, "of %s, %.0f s ago (o: again)",
		      cell__duration(top__operators_ns(s->v->operators)).text,
		      (double)s->v->operators_age_ns / 1e9);
}

/* ---- the rest ---- */

static void put_help(struct screen *s)
{
	static const char *const lines[] = {
		"1 2 3 4 Tab  operators, lines, ...",
		"< > F6, r    sort by a column, reversed",
		"/ \\ F4       names with a text",
		"arrows PgUp  scroll",
		"space p      pause",
		"o            operators, by probes",
		"+ - d        the interval",
		"h ? F1       this help",
		"q Ctrl-C     quit",
		"",
		"%: of the time. queue: waits for a CPU.",
		"on CPU, ...: of threads, by samples or the",
		"scheduler. Docs: recording.md, ptbpf top.",
	};

	for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++) {
		screen__begin_line(s, 1);
		screen__put(s, lines[i]);
	}
}

static void put_last(struct screen *s)
{
	static const char *const keys[] = { "h help",      "1-4 view",    "< > sort", "/ filter",
					    "space pause", "o operators", "q quit" };
	char text[160];

	screen__begin_line(s, 0);
	if (s->v->prompt) {
		snprintf(text, sizeof(text), "%s%s_", top_keys__prompt(s->v), s->v->input);
		screen__put(s, text);
	} else if (s->v->message[0] || s->v->recording) {
		screen__style(s, STYLE_ALERT);
		screen__put(s, s->v->message[0] ? s->v->message :
						  "probes on operators are placed ...");
		screen__style(s, STYLE_END);
	} else if (s->v->filter[0]) {
		snprintf(text, sizeof(text), "filter: %s", s->v->filter);
		screen__put(s, text);
	} else {
		for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++)
			if (!i || s->at + 2 + (int)strlen(keys[i]) <= s->v->width)
				piece(s, "%s", keys[i]);
	}
	screen__end_line(s);
}

static void put_view(struct screen *s)
{
	put_tabs(s);
	if (s->v->kind == TOP_OPERATORS && s->v->operators)
		s->f = s->v->operators;
	top_table__put(s, UINT32_MAX);
}

#define PLAIN_ROWS 10

/* As plain text all that have rows, or could have, with their first ones. */
static void put_views(struct screen *s)
{
	struct top_view v = *s->v;
	struct screen part = *s;

	part.v = &v;
	for (v.kind = 0; v.kind < TOP_VIEWS; v.kind++) {
		if (v.kind == TOP_PROCESSES ? s->f->process_cnt < 2 : !top_table__has_rows(&part))
			continue;
		screen__end_line(&part);
		fputc('\n', s->out);
		top_table__put(&part, PLAIN_ROWS);
	}
	screen__end_line(&part);
	s->open = false;
}

void top__draw(FILE *out, const struct top_view *v, const struct top_frame *frame)
{
	struct screen s = { .out = out, .v = v, .f = frame };

	put_title(&s);
	if (frame && !v->help) {
		put_sums(&s);
		put_main(&s);
		put_cost(&s);
		if (v->height)
			put_view(&s);
		else
			put_views(&s);
	} else if (v->help) {
		put_help(&s);
	} else {
		screen__begin_line(&s, 1);
		screen__put(&s, "attaching ...");
	}
	screen__end_line(&s);
	while (v->height && s.line < v->height - 1) {
		screen__begin_line(&s, 0);
		screen__end_line(&s);
	}
	if (v->height)
		put_last(&s);
}
