/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Python functions in a Chrome trace, drawn from stacks. A stack is text: "A1B2!C3" are three frames, outermost first, each a
 * letter and where it is; '!' before one says that native frames call it. What is drawn is text, too: "A(B(mm C(add)))".
 *
 * Longer than 600 lines because the pictures and the random programs share the session.
 */
#include <cjson/cJSON.h>
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "export/output.h"
#include "fake_session.h"
#include "json_keys.h"
#include "random.h"
#include "suite.h"

#define T0 5000100000ULL
#define STACKS_MAX 20000
#define DEPTH_MAX 40

static char dir[] = "/tmp/test_chrome_python.XXXXXX";
static char path[256];
static char raw[64 << 20];

/* ---- a session with stacks ---- */

static struct session session;
static struct session_totals totals;
static void *ct;
static struct session_sink sink;
static uint64_t next_id;

/* Frame numbers are 1 + 10 * letter + place. */
static struct py_frame frames[26 * 10];
static uint32_t stack_frames[STACKS_MAX][DEPTH_MAX];
static struct py_stack stacks[STACKS_MAX];

static void make_frames(void)
{
	static char names[26][8];
	static const char enter[] = "Ctx.__enter__";

	for (uint32_t i = 0; i < 260; i++) {
		uint32_t letter = i / 10;

		snprintf(names[letter], sizeof(names[letter]), "m.%c", 'A' + (int)letter);
		frames[i] = (struct py_frame){ .func = letter == 'E' - 'A' ? enter : names[letter],
					       .file = "/usr/lib/python3/dist-packages/pkg/m.py",
					       .code = 0x1000 * (letter + 1),
					       .at = (int32_t)(i % 10),
					       .line = (int32_t)(100 * letter + i % 10),
					       .first = (int32_t)(100 * letter) };
	}
}

static void start_with(const char *name, bool has_stacks)
{
	const struct output_args args = { .s = &session, .path = path };

	session = fake_session();
	session.info.has_py_stacks = has_stacks;
	make_frames();
	session.py_frames = frames;
	session.py_frame_cnt = 260;
	session.py_stacks = stacks;
	session.py_stack_cnt = 0;
	totals = (struct session_totals){ 0 };
	next_id = 0;
	snprintf(path, sizeof(path), "%s/%s.json", dir, name);
	CU_ASSERT_EQUAL_FATAL(chrome_output.open(&args, &ct), 0);
	sink = chrome_output.sink(ct);
}

static void start(const char *name)
{
	start_with(name, true);
}

/* The number of a stack; innermost last in the text. */
static uint32_t stack_of(const char *text)
{
	uint32_t nr = session.py_stack_cnt, cnt = 0, order[DEPTH_MAX];

	if (!*text)
		return 0;
	for (; *text; text += 2) {
		uint32_t native = *text == '!' ? PY_FRAME_NATIVE : 0;

		text += *text == '!';
		CU_ASSERT_FATAL(cnt < DEPTH_MAX && isupper(text[0]) && isdigit(text[1]));
		order[cnt++] = native |
			       (1 + 10 * (uint32_t)(text[0] - 'A') + (uint32_t)(text[1] - '0'));
	}
	for (uint32_t i = 0; i < nr; i++) {
		uint32_t k;

		for (k = 0; k < cnt && stacks[i].frame_cnt == cnt &&
			    stacks[i].frames[cnt - 1 - k] == order[k];
		     k++)
			;
		if (k == cnt)
			return i + 1;
	}
	CU_ASSERT_FATAL(nr < STACKS_MAX);
	for (uint32_t k = 0; k < cnt; k++)
		stack_frames[nr][cnt - 1 - k] = order[k];
	stacks[nr] = (struct py_stack){ .frames = stack_frames[nr], .frame_cnt = cnt };
	return ++session.py_stack_cnt;
}

static struct slice slice(const char *name, uint64_t begin, uint64_t end, const char *stack)
{
	struct slice sl = fake_slice(++next_id, name, T0 + begin, T0 + end);

	sl.stack = stack_of(stack);
	return sl;
}

static void put(struct slice sl)
{
	CU_ASSERT_EQUAL_FATAL(sink.slice(sink.arg, &sl), 0);
	totals.slices++;
}

static void op(const char *name, uint64_t begin, uint64_t end, const char *stack)
{
	put(slice(name, begin, end, stack));
}

static void annotation(const char *name, uint64_t begin, uint64_t end, const char *stack)
{
	struct slice sl = slice(name, begin, end, stack);

	sl.cat = SLICE_USER_ANNOTATION;
	put(sl);
}

/* ---- what was drawn ---- */

struct drawn {
	uint64_t begin, end;
	const cJSON *event;
	bool python;
};

static uint64_t ns_of(const cJSON *e, const char *key)
{
	/* of this year's times a double has a thousandth of ns */
	return (uint64_t)(num(e, key) * 1000 + 0.5);
}

static int cmp_drawn(const void *a, const void *b)
{
	const struct drawn *x = a, *y = b;

	if (x->begin != y->begin)
		return x->begin < y->begin ? -1 : 1;
	return x->end > y->end ? -1 : x->end < y->end;
}

/* All slices of the thread in order, and checks that they nest strictly at their begins. */
static struct drawn *read_drawn(const cJSON *doc, uint32_t tid, uint32_t *cnt)
{
	const cJSON *e;
	struct drawn *v = calloc((size_t)cJSON_GetArraySize(get(doc, "traceEvents")) + 1, sizeof(*v));
	uint64_t *ends, depth = 0;

	CU_ASSERT_PTR_NOT_NULL_FATAL(v);
	*cnt = 0;
	cJSON_ArrayForEach(e, get(doc, "traceEvents"))
	{
		if (strcmp(str(e, "ph"), "X") || !strcmp(str(e, "cat"), "Trace") ||
		    (uint32_t)num(e, "tid") != tid)
			continue;
		v[*cnt].begin = ns_of(e, "ts");
		v[*cnt].end = v[*cnt].begin + ns_of(e, "dur");
		v[*cnt].event = e;
		v[(*cnt)++].python = !strcmp(str(e, "cat"), "python_function");
	}
	qsort(v, *cnt, sizeof(*v), cmp_drawn);
	ends = calloc(*cnt + 1, sizeof(*ends));
	for (uint32_t i = 0; i < *cnt; i++) {
		while (depth && ends[depth - 1] <= v[i].begin)
			depth--;
		CU_ASSERT_TRUE(v[i].end > v[i].begin);
		CU_ASSERT_TRUE(!i || v[i].begin > v[i - 1].begin);
		CU_ASSERT_TRUE(!depth || v[i].end <= ends[depth - 1]);
		ends[depth++] = v[i].end;
	}
	free(ends);
	return v;
}

static char letter_of(const cJSON *e)
{
	const char *name = str(e, "name");

	return !strcmp(name, "pkg/m.py(400): __enter__") ? 'E' : name[strlen(name) - 1];
}

/* "A(mm B(add))" */
static const char *picture(const cJSON *doc, uint32_t tid)
{
	static char text[4096];
	uint64_t ends[100];
	uint32_t cnt, depth = 0;
	size_t n = 0;
	struct drawn *v = read_drawn(doc, tid, &cnt);

	text[0] = '\0';
	for (uint32_t i = 0; i < cnt; i++) {
		uint32_t closed = 0;

		for (; depth && ends[depth - 1] <= v[i].begin; depth--)
			closed++;
		for (; closed > 0; closed--)
			n += (size_t)snprintf(text + n, sizeof(text) - n, ")");
		if (v[i].python)
			n += (size_t)snprintf(text + n, sizeof(text) - n, " %c(", letter_of(v[i].event));
		else
			n += (size_t)snprintf(text + n, sizeof(text) - n, " %s(",
					      str(v[i].event, "name"));
		ends[depth++] = v[i].end;
	}
	for (; depth; depth--)
		n += (size_t)snprintf(text + n, sizeof(text) - n, ")");
	free(v);
	return text;
}

static cJSON *finish(void)
{
	cJSON *doc;

	CU_ASSERT_EQUAL_FATAL(chrome_output.finish(ct, &(struct output_args){ .path = path }, &totals), 0);
	chrome_output.free(ct);
	doc = load_json(path, raw, sizeof(raw));
	unlink(path);
	return doc;
}

static void finish_as(const char *want)
{
	cJSON *doc = finish();
	const char *is = picture(doc, 100);

	if (strcmp(is, want))
		fprintf(stderr, "\n is    %s\n wants %s\n", is, want);
	CU_ASSERT_STRING_EQUAL(is, want);
	cJSON_Delete(doc);
}

static const cJSON *event(const cJSON *doc, const char *name, int nr)
{
	const cJSON *e;

	cJSON_ArrayForEach(e, get(doc, "traceEvents")) if (!strcmp(str(e, "ph"), "X") &&
							   !strcmp(str(e, "name"), name) &&
							   !nr--) return e;
	CU_ASSERT_PTR_NOT_NULL_FATAL(NULL);
	return NULL;
}

/* ---- tests ---- */

static void args(void)
{
	const cJSON *e, *a;
	cJSON *doc;

	start("args");
	op("mm", 1000, 2000, "A1!B2");
	stacks[0].flags = PTB_PY_CUT;
	op("add", 3000, 4000, "A1!B2");
	doc = finish();
	CU_ASSERT_EQUAL(num(doc, "with_stack"), 1);
	e = event(doc, "pkg/m.py(100): B", 0);
	CU_ASSERT_STRING_EQUAL(keys(e), "ph,cat,name,pid,tid,ts,dur,args");
	CU_ASSERT_STRING_EQUAL(str(e, "cat"), "python_function");
	CU_ASSERT_EQUAL(num(e, "pid"), 100);
	a = get(e, "args");
	CU_ASSERT_STRING_EQUAL(keys(a),
			       "CallFrom,Python parent id,Python id,Ev Idx,ptbpf.derived,ptbpf.native_caller");
	CU_ASSERT_STRING_EQUAL(str(a, "CallFrom"), "pkg/m.py:1");
	CU_ASSERT_EQUAL(num(a, "Python parent id"), 1);
	CU_ASSERT_EQUAL(num(a, "Python id"), 2);
	a = get(event(doc, "pkg/m.py(0): A", 0), "args");
	CU_ASSERT_STRING_EQUAL(keys(a), "Python id,Ev Idx,ptbpf.derived");
	CU_ASSERT_EQUAL(num(a, "Python id"), 1);
	a = get(event(doc, "add", 0), "args");
	CU_ASSERT_STRING_EQUAL(str(a, "Call stack"), "pkg/m.py(100): B;pkg/m.py(0): A;");
	CU_ASSERT_TRUE(has(a, "ptbpf.stack_cut"));
	a = get(get(doc, "ptbpf_totals"), "python");
	CU_ASSERT_EQUAL(num(a, "functions"), 2);
	CU_ASSERT_EQUAL(num(a, "functions_not_drawn"), 0);
	cJSON_Delete(doc);
}

static void calls(void)
{
	start("calls");
	op("a", 1000, 2000, "A1B1C1");
	op("b", 3000, 4000, "A1B1C2"); /* the same call of C */
	op("c", 5000, 6000, "A1B2C1"); /* another call of C by the same B */
	op("d", 7000, 8000, "A1B2");
	op("e", 9000, 9500, "A1B3C1D1");
	op("f", 10000, 11000, "A2B3C1"); /* another B */
	op("g", 12000, 13000, "A2F1");
	op("h", 14000, 15000, "A2");
	op("i", 16000, 17000, "G1");
	finish_as(" A( B( C( a() b()) C( c()) d() C( D( e()))) B( C( f())) F( g()) h()) G( i())");
}

static void operators_call_python(void)
{
	start("inside");
	op("in1", 1200, 1300, "A1B1!C1D1");
	op("in2", 1400, 1500, "A1B1!C1");
	op("outer", 1000, 2000, "A1B1");
	op("after", 2500, 2600, "A1B1");
	op("inner", 3100, 3200, "A1B2C1"); /* a thread's own operator in one without a stack */
	op("unknown", 3000, 4000, "");
	op("last", 5000, 6000, "A1B2C2");
	finish_as(" A( B( outer( C( D( in1()) in2())) after() C( unknown( inner()) last())))");
}

static void annotations(void)
{
	start("annotations");
	annotation("empty", 1000, 1100, "A1B1E1F1");
	op("a", 1500, 1600, "A1B2C1");
	annotation("mine", 1400, 2000, "A1B1E1F1"); /* born in E, which is gone */
	op("b", 2500, 2600, "A1B3");
	annotation("only", 3000, 3100, "A1B3");
	op("c", 3500, 3600, "A1D1");
	finish_as(" A( B( empty() mine( C( a())) b() only()) D( c()))");
}

/* Begun in one function, ended in another: functions are cut, annotations never. */
static void annotation_crosses_functions(void)
{
	start("crosses");
	op("a", 1000, 1100, "A1B1"); /* B begins it */
	op("b", 1300, 1400, "A1B2");
	op("c", 1500, 1600, "A2C1"); /* and C ends it */
	annotation("span", 1200, 1700, "A1B2E1");
	op("d", 1800, 1900, "A2C2");
	op("e", 2000, 2100, "A3");
	finish_as(" A( B( a()) span( B( b()) C( c())) C( d()) e())");
}

static void enter_with_operators(void)
{
	start("enter");
	op("a", 1000, 1100, "A1E1");
	op("b", 1300, 1400, "A1E2");
	annotation("straddle", 1200, 1900, "A1E2F1");
	op("c", 2000, 2100, "A2");
	finish_as(" A( E( a()) straddle( E( b())) c())");
}

static void steps(void)
{
	start("steps");
	for (uint64_t i = 0; i < 3; i++) {
		struct slice sl = slice("step", 1000 + i * 10000, 10999 + i * 10000, "");

		op("a", 2000 + i * 10000, 3000 + i * 10000, "A1B1C1");
		op("b", 4000 + i * 10000, 5000 + i * 10000, "A1B2D1");
		sl.cat = SLICE_USER_ANNOTATION;
		sl.flags = SLICE_DERIVED;
		put(sl);
	}
	finish_as(" A( B( step( C( a()) D( b())) step( C( a()) D( b())) step( C( a()) D( b()))))");
}

/* A backward node on a thread without frames has its forward operator's stack, but is not called by it. */
static void threads(void)
{
	struct slice sl;
	cJSON *doc;

	start("threads");
	op("fwd", 1000, 2000, "A1B1");
	sl = slice("bwd", 3000, 4000, "A1B1");
	sl.fwd_stack = sl.stack;
	sl.tid = 101;
	put(sl);
	sl = slice("own", 3000, 4000, "A1");
	sl.tid = 102;
	put(sl);
	doc = finish();
	CU_ASSERT_STRING_EQUAL(picture(doc, 100), " A( B( fwd()))");
	CU_ASSERT_STRING_EQUAL(picture(doc, 101), " bwd()");
	CU_ASSERT_STRING_EQUAL(picture(doc, 102), " A( own())");
	CU_ASSERT_STRING_EQUAL(str(get(event(doc, "bwd", 0), "args"), "Call stack"),
			       "pkg/m.py(100): B;pkg/m.py(0): A;");
	cJSON_Delete(doc);
}

/* Where slices leave no time between them, functions are left out, and nothing is drawn wrong. */
static void no_room(void)
{
	cJSON *doc;

	start("room");
	op("a", 1000, 2000, "A1B1");
	op("b", 2003, 3000, "A1C1D1");
	op("in", 3509, 3600, "X1Y1"); /* another stack while B's operator is open */
	op("in2", 3700, 3750, "X1Y1Z1");
	op("c", 3500, 4000, "A2B1");
	op("d", 5000, 5500, "A2B2");
	doc = finish();
	CU_ASSERT_STRING_EQUAL(picture(doc, 100), " A( B( a()) b() B( c( in() in2()))) A( B( d()))");
	CU_ASSERT_EQUAL(num(get(get(doc, "ptbpf_totals"), "python"), "functions_not_drawn"), 7);
	cJSON_Delete(doc);
}

static void none(void)
{
	cJSON *doc;

	start_with("none", false);
	op("a", 1000, 2000, "");
	doc = finish();
	CU_ASSERT_FALSE(has(doc, "with_stack"));
	CU_ASSERT_FALSE(has(get(doc, "ptbpf_totals"), "python"));
	CU_ASSERT_STRING_EQUAL(picture(doc, 100), " a()");
	cJSON_Delete(doc);
}

static void full(void)
{
	cJSON *doc;
	uint32_t cnt;

	start("full");
	for (uint64_t i = 0; i < 200; i++)
		op("a", 1000 + i * 1000, 1500 + i * 1000,
		   i % 2 ? "A1B1C1D1F1G1H1I1J1K1" : "L1M1N1O1P1Q1R1S1T1U1");
	session.info.output_max = 250000;
	doc = finish();
	free(read_drawn(doc, 100, &cnt));
	CU_ASSERT_TRUE(cnt > 300 && cnt < 2200);
	CU_ASSERT_EQUAL(totals.not_written, 2200 - cnt);
	cJSON_Delete(doc);
}

/* ---- a random program ---- */

struct program {
	char stack[2 * DEPTH_MAX + 1];
	uint64_t now;
	struct {
		struct slice sl;
		size_t depth; /* of the stack */
	} open[DEPTH_MAX];
	uint32_t open_cnt;
};

static void go_on(struct program *p)
{
	size_t n = strlen(p->stack);

	p->now += 200 + next_random() % 1000;
	if (n) /* another instruction each time: what is drawn is then exact */
		p->stack[n - 1] = (char)('0' + (p->stack[n - 1] - '0' + 1) % 10);
}

static void begin(struct program *p, bool is_op)
{
	struct slice sl = slice(is_op ? "op" : "note", p->now, 0, p->stack);

	sl.cat = is_op ? SLICE_CPU_OP : SLICE_USER_ANNOTATION;
	p->open[p->open_cnt].depth = strlen(p->stack);
	p->open[p->open_cnt++].sl = sl;
}

static void end(struct program *p)
{
	struct slice sl = p->open[--p->open_cnt].sl;

	sl.end_ns = T0 + p->now;
	put(sl);
}

/* May the innermost function return? Not while an operator is open that it called. */
static bool may_return(const struct program *p)
{
	size_t n = strlen(p->stack);

	for (uint32_t i = 0; i < p->open_cnt; i++)
		if (p->open[i].sl.cat == SLICE_CPU_OP && p->open[i].depth >= n)
			return false;
	return n > 2;
}

/* May the innermost slice end? An operator only in the function that called it. */
static bool may_end(const struct program *p)
{
	return p->open_cnt && (p->open[p->open_cnt - 1].sl.cat != SLICE_CPU_OP ||
			       p->open[p->open_cnt - 1].depth == strlen(p->stack));
}

static void run(struct program *p, uint32_t actions)
{
	static const char letters[] = "ABCDFGHIJK";

	strcpy(p->stack, "Z0");
	for (uint32_t i = 0; i < actions; i++) {
		size_t n = strlen(p->stack);
		uint64_t r = next_random() % 10;

		p->now += 200 + next_random() % 1000;
		/* while an operator runs, its caller stays where it is */
		if (!(p->open_cnt && p->open[p->open_cnt - 1].sl.cat == SLICE_CPU_OP &&
		      p->open[p->open_cnt - 1].depth == n))
			go_on(p);
		if (r < 3 && n < 2 * (DEPTH_MAX - 2)) {
			p->stack[n] = letters[next_random() % (sizeof(letters) - 1)];
			strcpy(p->stack + n + 1, "0");
		} else if (r < 5 && may_return(p)) {
			p->stack[n - 2] = '\0';
		} else if (r < 7 && p->open_cnt < DEPTH_MAX - 1) {
			begin(p, r == 5);
		} else if (may_end(p)) {
			end(p);
		}
	}
	while (p->open_cnt) {
		p->now += 1000;
		end(p);
	}
}

/* "a(1): A;b(2): B;": the functions around, innermost first. */
static const char *chain(const struct drawn *const *open, uint32_t depth)
{
	static char text[4096];
	size_t n = 0;

	text[0] = '\0';
	for (uint32_t i = depth; i--;)
		if (open[i]->python)
			n += (size_t)snprintf(text + n, sizeof(text) - n, "%s;",
					      str(open[i]->event, "name"));
	return text;
}

static const struct drawn *innermost_python(const struct drawn *const *open, uint32_t depth)
{
	while (depth && !open[depth - 1]->python)
		depth--;
	return depth ? open[depth - 1] : NULL;
}

static bool ends_with(const char *text, const char *tail)
{
	size_t n = strlen(text), m = strlen(tail);

	return m <= n && !strcmp(text + n - m, tail);
}

static void check_random(const cJSON *doc)
{
	const struct drawn *open[200];
	uint32_t cnt, depth = 0, bad = 0;
	struct drawn *v = read_drawn(doc, 100, &cnt);
	double last_id = 0;

	for (uint32_t i = 0; i < cnt; i++) {
		const cJSON *a = get(v[i].event, "args");
		const struct drawn *up;

		while (depth && open[depth - 1]->end <= v[i].begin)
			depth--;
		up = innermost_python(open, depth);
		if (v[i].python) {
			bad += num(a, "Python id") != ++last_id;
			bad += up ? num(a, "Python parent id") !=
					       num(get(up->event, "args"), "Python id") :
				    has(a, "Python parent id");
		} else if (!strcmp(str(v[i].event, "name"), "op")) {
			bad += strcmp(chain(open, depth), str(a, "Call stack")) != 0;
		} else { /* an annotation lies in some of the functions that it began in */
			bad += !ends_with(str(a, "Call stack"), chain(open, depth));
		}
		open[depth++] = &v[i];
	}
	CU_ASSERT_EQUAL(bad, 0);
	free(v);
}

static void random_programs(void)
{
	int n = repetitions(30, 500);

	for (int i = 0; i < n; i++) {
		struct program p = { .now = 1000 };
		cJSON *doc;

		start("random");
		run(&p, 400);
		doc = finish();
		check_random(doc);
		CU_ASSERT_EQUAL(num(get(get(doc, "ptbpf_totals"), "python"), "functions_not_drawn"), 0);
		cJSON_Delete(doc);
	}
}

static const CU_TestInfo tests[] = {
	{ "args", args },
	{ "calls", calls },
	{ "operators call Python", operators_call_python },
	{ "annotations", annotations },
	{ "an annotation crosses functions", annotation_crosses_functions },
	{ "operators in __enter__", enter_with_operators },
	{ "steps", steps },
	{ "threads", threads },
	{ "no room", no_room },
	{ "without stacks", none },
	{ "a full file", full },
	{ "random programs", random_programs },
	CU_TEST_INFO_NULL,
};

int main(void)
{
	int ret;

	if (!mkdtemp(dir))
		return 1;
	ret = run_suite("chrome_python", tests);
	rmdir(dir);
	return ret;
}
