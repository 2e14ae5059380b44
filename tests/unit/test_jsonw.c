/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* base/jsonw: layout, escaping of hostile bytes, exact numbers, errors of the sink. */
#include <cjson/cJSON.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/jsonw.h"
#include "suite.h"

static struct {
	char text[65536];
	size_t len;
	int calls, fail_at; /* fail_at: number of the call that fails, 0: none */
} sink;

static int to_sink(void *arg, const void *data, size_t len)
{
	(void)arg;
	if (++sink.calls == sink.fail_at)
		return -ENOSPC;
	CU_ASSERT_FATAL(sink.len + len < sizeof(sink.text));
	memcpy(sink.text + sink.len, data, len);
	sink.len += len;
	sink.text[sink.len] = '\0';
	return 0;
}

static struct jsonw start(void)
{
	struct jsonw w;

	memset(&sink, 0, sizeof(sink));
	jsonw__init(&w, to_sink, NULL, 0);
	return w;
}

static void finish(struct jsonw *w, const char *expect)
{
	CU_ASSERT_EQUAL(jsonw__flush(w), 0);
	CU_ASSERT_STRING_EQUAL(sink.text, expect);
	jsonw__free(w);
}

TEST("layout")
{
	struct jsonw w = start();

	jsonw__begin_obj(&w);
	jsonw__key(&w, "rank");
	jsonw__u64(&w, 0);
	JSONW_KEY(&w, "list");
	jsonw__begin_arr(&w);
	jsonw__begin_obj(&w);
	jsonw__end_obj(&w);
	jsonw__begin_arr(&w);
	jsonw__end_arr(&w);
	jsonw__null(&w);
	jsonw__bool(&w, true);
	jsonw__bool(&w, false);
	jsonw__end_arr(&w);
	jsonw__key(&w, "raw");
	jsonw__raw(&w, "{\"a\": 1}");
	jsonw__key(&w, "last");
	jsonw__str(&w, "x");
	jsonw__end_obj(&w);
	finish(&w, "{\"rank\": 0, \"list\": [{}, [], null, true, false], \"raw\": {\"a\": 1}, \"last\": \"x\"}");
}

TEST("lines")
{
	struct jsonw w = start();

	jsonw__begin_arr(&w);
	jsonw__break(&w);
	jsonw__begin_obj(&w);
	jsonw__key(&w, "a");
	jsonw__u64(&w, 1);
	jsonw__break(&w);
	jsonw__key(&w, "b");
	jsonw__u64(&w, 2);
	jsonw__end_obj(&w);
	jsonw__break(&w);
	jsonw__u64(&w, 3);
	jsonw__u64(&w, 4);
	jsonw__newline(&w);
	jsonw__end_arr(&w);
	finish(&w, "[\n{\"a\": 1,\n\"b\": 2},\n3, 4\n]");
}

static void check_str(const char *text, const char *expect)
{
	struct jsonw w = start();

	jsonw__str(&w, text);
	finish(&w, expect);
}

TEST("escapes")
{
	check_str("", "\"\"");
	check_str("a\"b\\c", "\"a\\\"b\\\\c\"");
	check_str("l1\nl2\r\t\x01\x1f\x7f", "\"l1\\nl2\\u000d\\u0009\\u0001\\u001f\\u007f\"");
	check_str("gr\xc3\xb6\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80", /* valid UTF-8 stays */
		  "\"gr\xc3\xb6\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80\"");
	check_str("\xff", "\"\\u00ff\"");
	check_str("\xc3", "\"\\u00c3\""); /* cut sequence at the end of the text */
	check_str("\xe2\x82", "\"\\u00e2\\u0082\"");
	check_str("\xf0\x9f\x98", "\"\\u00f0\\u009f\\u0098\"");
	check_str("\xc0\xaf", "\"\\u00c0\\u00af\"");                       /* overlong */
	check_str("\xe0\x80\xaf", "\"\\u00e0\\u0080\\u00af\"");            /* overlong */
	check_str("\xed\xa0\x80", "\"\\u00ed\\u00a0\\u0080\"");            /* surrogate */
	check_str("\xf4\x90\x80\x80", "\"\\u00f4\\u0090\\u0080\\u0080\""); /* above U+10FFFF */
	check_str("\x80tail", "\"\\u0080tail\"");
}

/* Any bytes give a document that a parser takes, and ASCII comes back unchanged. */
TEST("all bytes")
{
	char text[512];

	for (unsigned int a = 1; a < 256; a++) {
		for (unsigned int b = 1; b < 256; b += 3) {
			struct jsonw w = start();
			cJSON *v;

			snprintf(text, sizeof(text), "<%c%c>", (int)a, (int)b);
			jsonw__str(&w, text);
			CU_ASSERT_EQUAL(jsonw__flush(&w), 0);
			jsonw__free(&w);
			v = cJSON_Parse(sink.text);
			CU_ASSERT_PTR_NOT_NULL_FATAL(v);
			if (a < 0x80 && b < 0x80)
				CU_ASSERT_STRING_EQUAL(v->valuestring, text);
			cJSON_Delete(v);
		}
	}
}

TEST("keys are escaped")
{
	struct jsonw w = start();

	jsonw__begin_obj(&w);
	jsonw__key(&w, "a\"\n");
	jsonw__null(&w);
	jsonw__end_obj(&w);
	finish(&w, "{\"a\\\"\\n\": null}");
}

TEST("numbers")
{
	struct jsonw w = start();

	jsonw__begin_arr(&w);
	jsonw__u64(&w, 0);
	jsonw__u64(&w, UINT64_MAX);
	jsonw__i64(&w, 0);
	jsonw__i64(&w, -1);
	jsonw__i64(&w, INT64_MIN);
	jsonw__i64(&w, INT64_MAX);
	jsonw__end_arr(&w);
	finish(&w, "[0, 18446744073709551615, 0, -1, -9223372036854775808, 9223372036854775807]");
}

TEST("microseconds")
{
	struct jsonw w = start();

	jsonw__begin_arr(&w);
	jsonw__us(&w, 0);
	jsonw__us(&w, 1);
	jsonw__us(&w, 999);
	jsonw__us(&w, 1000);
	jsonw__us(&w, 1234567);
	jsonw__us(&w, 4380207094869560ULL);
	jsonw__us(&w, UINT64_MAX);
	jsonw__end_arr(&w);
	finish(&w, "[0.000, 0.001, 0.999, 1.000, 1234.567, 4380207094869.560, 18446744073709551.615]");
}

TEST("doubles")
{
	static const double values[] = { 0.0,    1.5,           -2.25, 0.1,  1.0 / 3.0, 1e300,
					 5e-324, 123456789.123, 1e15,  1e21, -0.0 };

	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		struct jsonw w = start();
		double back;

		jsonw__double(&w, values[i]);
		CU_ASSERT_EQUAL(jsonw__flush(&w), 0);
		jsonw__free(&w);
		back = strtod(sink.text, NULL);
		CU_ASSERT_EQUAL(memcmp(&back, &values[i], sizeof(back)), 0);
	}
	check_str("x", "\"x\"");
	for (size_t i = 0; i < 3; i++) {
		struct jsonw w = start();

		jsonw__double(&w, i == 0 ? NAN : i == 1 ? INFINITY : -INFINITY);
		finish(&w, "null");
	}
}

/* Values longer than the buffer and many small ones cross it unharmed. */
TEST("buffer edges")
{
	struct jsonw w = start();
	char *text = malloc(5001);
	cJSON *v;

	memset(text, 'x', 5000);
	text[5000] = '\0';
	jsonw__begin_arr(&w);
	jsonw__str(&w, text);
	for (int i = 0; i < 3000; i++)
		jsonw__u64(&w, (uint64_t)i);
	jsonw__end_arr(&w);
	CU_ASSERT_EQUAL(jsonw__flush(&w), 0);
	jsonw__free(&w);
	v = cJSON_Parse(sink.text);
	CU_ASSERT_PTR_NOT_NULL_FATAL(v);
	CU_ASSERT_EQUAL(cJSON_GetArraySize(v), 3001);
	CU_ASSERT_STRING_EQUAL(cJSON_GetArrayItem(v, 0)->valuestring, text);
	CU_ASSERT_EQUAL(cJSON_GetArrayItem(v, 3000)->valueint, 2999);
	cJSON_Delete(v);
	free(text);
}

/* Strings in pieces, of any bytes; a sequence that a piece cuts is no UTF-8. */
TEST("pieces")
{
	struct jsonw w = start();

	jsonw__begin_arr(&w);
	jsonw__str_begin(&w);
	jsonw__str_put(&w, "a\0\"", 3);
	jsonw__str_put(&w, "\xc3\xa9!", 2);
	jsonw__str_put(&w, "\xc3\xa9", 1);
	jsonw__str_end(&w);
	jsonw__str_begin(&w);
	jsonw__str_end(&w);
	jsonw__raw_n(&w, "12345", 2);
	jsonw__raw(&w, "[]");
	jsonw__end_arr(&w);
	finish(&w, "[\"a\\u0000\\\"\xc3\xa9\\u00c3\", \"\", 12, []]");
}

/* The first error stays and nothing is written after it. */
TEST("sink error")
{
	struct jsonw w = start();

	sink.fail_at = 2;
	jsonw__begin_arr(&w);
	for (int i = 0; i < 10000; i++)
		jsonw__str(&w, "0123456789");
	jsonw__end_arr(&w);
	CU_ASSERT_EQUAL(w.err, -ENOSPC);
	CU_ASSERT_EQUAL(jsonw__flush(&w), -ENOSPC);
	CU_ASSERT_EQUAL(sink.calls, 2);
	jsonw__free(&w);
}

/* A text has room for its size less one; what does not fit is refused whole. */
TEST("text sink")
{
	static struct jsonw_text text;
	static char big[sizeof(text.text)];
	struct jsonw w;

	jsonw__init(&w, jsonw__to_text, &text, 0);
	jsonw__begin_row(&w);
	JSONW_STR(&w, "a", NULL);
	JSONW_ARR(&w, "b");
	jsonw__end_arr(&w);
	jsonw__end_obj(&w);
	CU_ASSERT_EQUAL(jsonw__flush(&w), 0);
	CU_ASSERT_STRING_EQUAL(text.text, "\n{\"a\": \"\", \"b\": []}");
	CU_ASSERT_EQUAL(jsonw__to_text(&text, big, sizeof(big) - text.len), -E2BIG);
	CU_ASSERT_EQUAL(text.text[text.len], '\0');
	CU_ASSERT_EQUAL(jsonw__to_text(&text, big, sizeof(big) - text.len - 1), 0);
	CU_ASSERT_EQUAL(text.len, sizeof(text.text) - 1);
	jsonw__free(&w);
}

TEST("too deep")
{
	struct jsonw w = start();

	for (int i = 0; i < JSONW_DEPTH_MAX; i++)
		jsonw__begin_arr(&w);
	CU_ASSERT_EQUAL(w.err, 0);
	jsonw__begin_arr(&w);
	CU_ASSERT_EQUAL(jsonw__flush(&w), -E2BIG);
	jsonw__free(&w);
}

/* Each token as a letter, with its text or number. */
static void take(void *arg, const struct jsonw_token *t)
{
	static const char letters[] = "{[}kstpuibUdn";
	char *out = arg;

	sprintf(out + strlen(out), "%c", letters[t->kind]);
	if (t->text)
		sprintf(out + strlen(out), "%.*s ", (int)t->len, t->text);
	else if (t->kind >= JSONW_TOKEN_U64 && t->kind <= JSONW_TOKEN_US)
		sprintf(out + strlen(out), "%llu ", (unsigned long long)t->u);
}

TEST("tokens instead of text")
{
	struct jsonw w = start();
	char got[512] = "";

	w.take = take;
	w.take_arg = got;
	jsonw__begin_row(&w);
	JSONW_STR(&w, "a b", "x\"");
	jsonw__key(&w, "k");
	jsonw__str_begin(&w);
	jsonw__str_put(&w, "p", 1);
	jsonw__str_put(&w, "q", 1);
	jsonw__str_end(&w);
	JSONW_ARR(&w, "n");
	jsonw__u64(&w, 7);
	jsonw__i64(&w, 8);
	jsonw__us(&w, 1234567);
	jsonw__bool(&w, true);
	jsonw__null(&w);
	jsonw__raw(&w, "[1");
	jsonw__more(&w, ", 2]", 4);
	jsonw__newline(&w);
	jsonw__end_arr(&w);
	jsonw__end_obj(&w);
	CU_ASSERT_EQUAL(jsonw__flush(&w), 0);
	CU_ASSERT_STRING_EQUAL(got, "{ka b sx\" kk t pp pq kn [u7 i8 U1234567 b1 nt[1 p, 2] }}");
	CU_ASSERT_EQUAL(sink.len, 0);
	jsonw__free(&w);
}

SUITE("jsonw")
