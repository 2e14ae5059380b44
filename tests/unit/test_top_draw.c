/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* cli/top_draw, top_table and top_keys: the screen of a given frame, by size and by keys. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "cli/top.h"
#include "cli/top_term.h"
#include "suite.h"

#define MS 1000000ULL

static struct top_frame frame;
static struct top_view view;

static void add_row(enum top_list list, const char *name, uint64_t a, uint64_t b, uint64_t c)
{
	struct top_row *r = &frame.rows[list][frame.cnt[list]++];

	*r = (struct top_row){ .pid = 7, .tid = 8, .values = { a, b, c } };
	snprintf(r->name, sizeof(r->name), "%s", name);
}

/* A second of one process. */
static void begin(int width, int height)
{
	frame = (struct top_frame){ .window_ns = 1000 * MS,
				    .wall_ns = 1000 * MS,
				    .own_ns = 25 * MS,
				    .operators = 4500,
				    .process_cnt = 1,
				    .processes = { { .pid = 7,
						     .name = "python train.py",
						     .main = { 700 * MS, 50 * MS, 250 * MS },
						     .operators_ns = 500 * MS,
						     .cpu_ns = 710 * MS,
						     .resident = 3 << 20,
						     .steps = 10,
						     .steps_ns = 1000 * MS,
						     .step_ns = 98 * MS,
						     .cost_ns = 2 * MS } } };
	add_row(TOP_OPERATORS, "aten::mm", 250 * MS, 300 * MS, 100);
	add_row(TOP_OPERATORS, "aten::add", 50 * MS, 400 * MS, 1000);
	add_row(TOP_LINES, "train.py:12", 600 * MS, 0, 0);
	add_row(TOP_THREADS, "MainThread", 700 * MS, 50 * MS, 250 * MS);
	view = (struct top_view){ .width = width,
				  .height = height,
				  .interval_ns = 1000 * MS,
				  .operators = &frame,
				  .clock = "12:00:00" };
}

static char *draw(void)
{
	static char *text;
	size_t len;
	FILE *f;

	free(text);
	f = xmemstream(&text, &len);
	top__draw(f, &view, &frame);
	fclose(f);
	return text;
}

static bool has(const char *text)
{
	bool found = strstr(draw(), text);

	if (!found)
		fprintf(stderr, "'%s' is not in\n%s\n", text, draw());
	return found;
}

/* Does the one row stand above the other? */
static bool above(const char *a, const char *b)
{
	const char *text = draw(), *at = strstr(text, a);

	return at && strstr(at, b);
}

static void press(const char *keys)
{
	while (*keys)
		top_keys__press(&view, top__rows(&view, &frame), *keys++);
}

TEST("a screen of 80 columns")
{
	static const char *const lines[] = {
		"ptbpf top  python train.py (7)                                     1 s  12:00:00",
		"steps 10/s (98.0 ms)  CPU 71%  memory 3.0 MiB  operators 9.0 k/s                ",
		"main thread: on CPU 70%  queue 5%  GIL 25%  lock 0%  I/O 0%  sleep 0%  other 0% ",
		"ptbpf: 2.5% of a CPU  costs the process 0.20%  seen 100%                        ",
		">1 Operators  2 Lines  3 Threads  4 Processes                                   ",
		"  *self  total  calls/s      mean operator                                      ",
		"  50.0%  60.0%      200   3.00 ms aten::mm                                      ",
		"  10.0%  80.0%    2.0 k    400 us aten::add                                     ",
	};
	const char *at;

	begin(80, 24);
	at = draw();
	for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++, at += 81)
		CU_ASSERT_FALSE(strncmp(at, lines[i], 80));
	CU_ASSERT_EQUAL(strlen(draw()), 24 * 81 - 1);
	CU_ASSERT_PTR_NOT_NULL(strstr(draw(), "h help"));
}

TEST("every size: as many lines, each as wide as the screen")
{
	for (int width = 1; width < 240; width += 1 + width / 3)
		for (int height = 1; height < 60; height += 1 + height / 4)
			for (uint32_t kind = 0; kind < TOP_VIEWS; kind++) {
				char *line, *save = NULL;
				int cnt = 0;

				begin(width, height);
				view.kind = kind;
				view.help = height % 2;
				for (line = strtok_r(draw(), "\n", &save); line;
				     line = strtok_r(NULL, "\n", &save), cnt++)
					CU_ASSERT_EQUAL((int)term_text__width(line), width);
				CU_ASSERT_EQUAL(cnt, height);
			}
}

TEST("narrow: the columns that matter least go, never the one by which is sorted")
{
	begin(30, 24);
	CU_ASSERT_TRUE(has("*self  calls/s operator"));
	press(">");
	CU_ASSERT_TRUE(has(" *total "));
}

TEST("sorting, its reverse, the filter")
{
	begin(80, 24);
	CU_ASSERT_TRUE(above("aten::mm", "aten::add"));
	press(">");
	CU_ASSERT_TRUE(above("aten::add", "aten::mm"));
	press("r");
	CU_ASSERT_TRUE(above("aten::mm", "aten::add"));
	press("/ADX\b");
	CU_ASSERT_TRUE(has("show names with: AD_"));
	press("\n");
	CU_ASSERT_TRUE(has("filter: AD"));
	CU_ASSERT_PTR_NULL(strstr(draw(), "aten::mm"));
	CU_ASSERT_EQUAL(top__rows(&view, &frame), 1);
	press("/\033");
	CU_ASSERT_STRING_EQUAL(view.filter, "AD");
	press("/\n");
	CU_ASSERT_EQUAL(top__rows(&view, &frame), 2);
}

TEST("views, scrolling, the interval, what asks for more")
{
	begin(80, 24);
	press("3");
	CU_ASSERT_TRUE(has("MainThread") && has(" 70.0%   5.0%  25.0%"));
	press("\t");
	CU_ASSERT_TRUE(has("*CPU    memory  steps/s"));
	press("\t");
	top_keys__press(&view, 2, KEY_DOWN);
	CU_ASSERT_PTR_NULL(strstr(draw(), "aten::mm"));
	top_keys__press(&view, 2, KEY_PAGE_DOWN);
	CU_ASSERT_EQUAL(view.first, 1);
	top_keys__press(&view, 2, KEY_HOME);
	CU_ASSERT_EQUAL(view.first, 0);
	CU_ASSERT_EQUAL(top_keys__press(&view, 2, '+'), TOP_INTERVAL);
	CU_ASSERT_EQUAL(view.interval_ns, 2000 * MS);
	press("d5s");
	CU_ASSERT_EQUAL(top_keys__press(&view, 2, '\n'), TOP_INTERVAL);
	CU_ASSERT_EQUAL(view.interval_ns, 5000 * MS);
	press("dx\n");
	CU_ASSERT_EQUAL(view.interval_ns, 5000 * MS);
	press("p");
	CU_ASSERT_TRUE(has("PAUSED"));
	press("h");
	CU_ASSERT_TRUE(has("q Ctrl-C     quit"));
	CU_ASSERT_EQUAL(top_keys__press(&view, 2, 'q'), TOP_QUIT);
	press("h");
	CU_ASSERT_EQUAL(top_keys__press(&view, 2, 'o'), TOP_RECORD_OPERATORS);
	CU_ASSERT_TRUE(has("probes on operators are placed"));
}

TEST("foreign names cannot steer the terminal, and take the columns that they have")
{
	static const char evil[] = "a\033[2J\n\xff\xe2\x80\xae"
				   "b\xe5\xad\x97";

	begin(80, 24);
	snprintf(frame.rows[TOP_OPERATORS][0].name, TOP_NAME, "%s", evil);
	snprintf(frame.processes[0].name, TOP_NAME, "%s", evil);
	snprintf(view.message, sizeof(view.message), "%s", evil);
	CU_ASSERT_PTR_NULL(strchr(draw(), '\033'));
	CU_ASSERT_TRUE(has("a?[2J???b\xe5\xad\x97"));
	CU_ASSERT_EQUAL(term_text__width(draw()), 24 * 81 - 1);
}

TEST("a frame of another process: counts and ends of texts")
{
	begin(80, 24);
	memset(frame.rows[TOP_LINES][0].name, 'x', TOP_NAME);
	CU_ASSERT_TRUE(top_frame__check(&frame, sizeof(frame)));
	CU_ASSERT_EQUAL(strlen(frame.rows[TOP_LINES][0].name), TOP_NAME - 1);
	CU_ASSERT_FALSE(top_frame__check(&frame, sizeof(frame) - 1));
	frame.cnt[TOP_THREADS] = TOP_ROWS + 1;
	CU_ASSERT_FALSE(top_frame__check(&frame, sizeof(frame)));
	frame.cnt[TOP_THREADS] = 0;
	frame.process_cnt = UINT32_MAX;
	CU_ASSERT_FALSE(top_frame__check(&frame, sizeof(frame)));
}

SUITE("top_draw")
