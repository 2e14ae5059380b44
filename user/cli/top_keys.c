/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What the keys of ptbpf top do to what is shown; see top.h. */
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "cli/top.h"
#include "cli/top_term.h"

enum prompt { NO_PROMPT, FILTER, INTERVAL, PROMPTS };

const char *top_keys__prompt(const struct top_view *v)
{
	static const char *const texts[PROMPTS] = { NULL, "show names with: ", "interval: " };

	return texts[v->prompt];
}

/* ---- what is written ---- */

static enum top_action set_interval(struct top_view *v, uint64_t ns)
{
	ns = ns < TOP_INTERVAL_MIN_NS ? TOP_INTERVAL_MIN_NS : ns;
	v->interval_ns = ns > TOP_INTERVAL_MAX_NS ? TOP_INTERVAL_MAX_NS : ns;
	return TOP_INTERVAL;
}

static enum top_action end_input(struct top_view *v)
{
	uint32_t prompt = v->prompt;
	uint64_t ns;

	v->prompt = NO_PROMPT;
	v->first = 0;
	if (prompt == FILTER)
		memcpy(v->filter, v->input, sizeof(v->filter));
	else if (!quantity__duration(v->input, &ns) && ns)
		return set_interval(v, ns);
	return TOP_NOTHING;
}

static enum top_action write_key(struct top_view *v, int key)
{
	size_t len = strlen(v->input);

	if (key == '\r' || key == '\n')
		return end_input(v);
	if (key == KEY_ESC)
		v->prompt = NO_PROMPT;
	if ((key == 127 || key == '\b') && len) {
		do
			v->input[--len] = '\0';
		while (len && ((unsigned char)v->input[len] & 0xc0) == 0x80);
	} else if (key >= ' ' && key < 256 && key != 127 && len < sizeof(v->input) - 1) {
		v->input[len] = (char)key;
		v->input[len + 1] = '\0';
	}
	return TOP_NOTHING;
}

/* ---- what is chosen ---- */

typedef enum top_action (*key_fn)(struct top_view *v, uint32_t rows, int arg);

static enum top_action act(struct top_view *v, uint32_t rows, int arg)
{
	(void)v;
	(void)rows;
	return (enum top_action)arg;
}

static enum top_action choose(struct top_view *v, uint32_t rows, int kind)
{
	(void)rows;
	v->kind = (uint32_t)kind;
	v->first = 0;
	return TOP_NOTHING;
}

static enum top_action turn(struct top_view *v, uint32_t rows, int step)
{
	return choose(v, rows, ((int)v->kind + step + TOP_VIEWS) % TOP_VIEWS);
}

static enum top_action sort(struct top_view *v, uint32_t rows, int step)
{
	uint32_t cnt = top__columns(v->kind);

	(void)rows;
	v->sort[v->kind] = (v->sort[v->kind] + cnt + (uint32_t)step) % cnt;
	v->first = 0;
	return TOP_NOTHING;
}

/* step 0: to the begin; +-1: a line, +-2: half a screen. */
static enum top_action scroll(struct top_view *v, uint32_t rows, int step)
{
	int64_t to = (int64_t)v->first + (step % 2 ? step : step / 2 * v->height / 2);

	if (to >= (int64_t)rows)
		to = (int64_t)rows - 1;
	v->first = to < 0 || !step ? 0 : (uint32_t)to;
	return TOP_NOTHING;
}

static enum top_action ask(struct top_view *v, uint32_t rows, int prompt)
{
	(void)rows;
	v->prompt = (uint32_t)prompt;
	v->input[0] = '\0';
	return TOP_NOTHING;
}

static enum top_action slow_down(struct top_view *v, uint32_t rows, int longer)
{
	(void)rows;
	return set_interval(v, longer ? v->interval_ns * 2 : v->interval_ns / 2);
}

enum { REVERSED, PAUSED, HELP };

static enum top_action toggle(struct top_view *v, uint32_t rows, int what)
{
	bool *of[] = { [REVERSED] = &v->reversed, [PAUSED] = &v->paused, [HELP] = &v->help };

	(void)rows;
	*of[what] = !*of[what];
	return TOP_NOTHING;
}

static enum top_action operators(struct top_view *v, uint32_t rows, int arg)
{
	v->recording = true;
	choose(v, rows, TOP_OPERATORS);
	return (enum top_action)arg;
}

static const struct {
	int key;
	key_fn fn;
	int arg;
} bindings[] = {
	{ 'q', act, TOP_QUIT },
	{ '1', choose, TOP_OPERATORS },
	{ '2', choose, TOP_LINES },
	{ '3', choose, TOP_THREADS },
	{ '4', choose, TOP_PROCESSES },
	{ '\t', turn, 1 },
	{ KEY_BACK_TAB, turn, -1 },
	{ '<', sort, -1 },
	{ '>', sort, 1 },
	{ 'r', toggle, REVERSED },
	{ 'R', toggle, REVERSED },
	{ '/', ask, FILTER },
	{ '\\', ask, FILTER },
	{ 'd', ask, INTERVAL },
	{ '+', slow_down, true },
	{ '-', slow_down, false },
	{ ' ', toggle, PAUSED },
	{ 'p', toggle, PAUSED },
	{ 'h', toggle, HELP },
	{ '?', toggle, HELP },
	{ 'o', operators, TOP_RECORD_OPERATORS },
	{ KEY_UP, scroll, -1 },
	{ KEY_DOWN, scroll, 1 },
	{ KEY_PAGE_UP, scroll, -2 },
	{ KEY_PAGE_DOWN, scroll, 2 },
	{ KEY_HOME, scroll, 0 },
};

enum top_action top_keys__press(struct top_view *v, uint32_t rows, int key)
{
	if (v->prompt)
		return write_key(v, key);
	if (v->help && key != 'q') {
		v->help = false;
		return TOP_NOTHING;
	}
	for (size_t i = 0; i < sizeof(bindings) / sizeof(*bindings); i++)
		if (bindings[i].key == key)
			return bindings[i].fn(v, rows, bindings[i].arg);
	return TOP_NOTHING;
}
