/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* control_msg: requests as they are written and read, and everything that is none. */
#include <stdio.h>
#include <string.h>

#include "sample/control.h"
#include "sample/http_server.h"
#include "suite.h"

static struct control_request rq;
static char why[256];

static int parse_as(enum control_what what, const char *text)
{
	why[0] = '\0';
	return control_request__parse(what, text, strlen(text), &rq, why, sizeof(why));
}

static int parse(const char *text)
{
	return parse_as(CONTROL_TRIGGER, text);
}

TEST("good")
{
	CU_ASSERT(!parse("{} \n") && !parse(""));
	CU_ASSERT(rq.what == CONTROL_TRIGGER && !rq.pid_cnt && !rq.duration_ns &&
		  !rq.start_real_ns && !rq.wait);
	CU_ASSERT(!parse("{\"pids\":[1,4194304],\"duration_ms\":0.5,"
			 "\"start_unix_ms\":1767225600000,\"wait\":true}"));
	CU_ASSERT(rq.pid_cnt == 2 && rq.pids[0] == 1 && rq.pids[1] == 4194304);
	CU_ASSERT(rq.duration_ns == 500000 && rq.start_real_ns == 1767225600000000000ULL && rq.wait);
	CU_ASSERT(!parse_as(CONTROL_TOGGLE, "{\"cpu\":false}"));
	CU_ASSERT(rq.what == CONTROL_TOGGLE && rq.cpu == SWITCH_OFF && rq.cuda == SWITCH_AS_IT_IS);
	CU_ASSERT(!parse_as(CONTROL_TOGGLE, "{\"cpu\":true,\"cuda\":false}"));
	CU_ASSERT(rq.cpu == SWITCH_ON && rq.cuda == SWITCH_OFF);
}

TEST("round trip")
{
	struct control_request out = { .what = CONTROL_TRIGGER,
				       .pid_cnt = CONTROL_PIDS_MAX,
				       .duration_ns = 86399999999999ULL,
				       .start_real_ns = 1767225600123000000ULL,
				       .wait = true };
	struct jsonw_text text;

	for (int i = 0; i < CONTROL_PIDS_MAX; i++)
		out.pids[i] = 4194304 - i;
	control_request__write(&out, &text);
	CU_ASSERT(text.len <= HTTP_BODY_MAX);
	CU_ASSERT(!parse(text.text));
	CU_ASSERT(rq.what == out.what && rq.pid_cnt == out.pid_cnt &&
		  !memcmp(rq.pids, out.pids, sizeof(rq.pids)));
	CU_ASSERT(rq.duration_ns == out.duration_ns && rq.start_real_ns == out.start_real_ns && rq.wait);
	out = (struct control_request){ .what = CONTROL_TOGGLE, .cpu = SWITCH_OFF, .cuda = SWITCH_ON };
	control_request__write(&out, &text);
	CU_ASSERT(!parse_as(CONTROL_TOGGLE, text.text) && rq.cpu == SWITCH_OFF && rq.cuda == SWITCH_ON);
}

TEST("bad")
{
	static const struct {
		const char *text, *why;
		enum control_what what;
	} rows[] = {
		{ "{", "not a JSON object", CONTROL_TRIGGER },
		{ "[]", "not a JSON object", CONTROL_TRIGGER },
		{ "1", "not a JSON object", CONTROL_TRIGGER },
		{ "{\"wait\":true}x", "not a JSON object", CONTROL_TRIGGER },
		{ "{}{}", "not a JSON object", CONTROL_TRIGGER },
		{ "{}", "\"cpu\" or \"cuda\" is missing", CONTROL_TOGGLE },
		{ "{\"cpu\":\"off\"}", "true or false", CONTROL_TOGGLE },
		{ "{\"cpu\":true,\"wait\":true}", "belongs to a trigger", CONTROL_TOGGLE },
		{ "{\"cuda\":true}", "belongs to a toggle", CONTROL_TRIGGER },
		{ "{\"wait\":true,\"wait\":true}", "there twice", CONTROL_TRIGGER },
		{ "{\"x\\u001b[2J\":1}", "not known", CONTROL_TRIGGER },
		{ "{\"wait\":1}", "true or false", CONTROL_TRIGGER },
		{ "{\"pids\":[]}", "list of processes", CONTROL_TRIGGER },
		{ "{\"pids\":{\"a\":1}}", "list of processes", CONTROL_TRIGGER },
		{ "{\"pids\":[0]}", "at most 256 processes", CONTROL_TRIGGER },
		{ "{\"pids\":[-1]}", "at most 256 processes", CONTROL_TRIGGER },
		{ "{\"pids\":[1.5]}", "at most 256 processes", CONTROL_TRIGGER },
		{ "{\"pids\":[1e300]}", "at most 256 processes", CONTROL_TRIGGER },
		{ "{\"pids\":[\"1\"]}", "at most 256 processes", CONTROL_TRIGGER },
		{ "{\"duration_ms\":0}", "a time in milliseconds", CONTROL_TRIGGER },
		{ "{\"duration_ms\":1e-9}", "a nanosecond", CONTROL_TRIGGER },
		{ "{\"duration_ms\":1e999}", "a time in milliseconds", CONTROL_TRIGGER },
		{ "{\"start_unix_ms\":-1}", "a Unix time", CONTROL_TRIGGER },
		{ "{\"start_unix_ms\":1e16}", "a Unix time", CONTROL_TRIGGER },
		{ "{\"start_unix_ms\":176722560000011}", "a Unix time", CONTROL_TRIGGER },
		{ "{\"start_unix_ms\":\"now\"}", "a Unix time", CONTROL_TRIGGER },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		CU_ASSERT(parse_as(rows[i].what, rows[i].text));
		if (!strstr(why, rows[i].why)) {
			printf("%s: '%s'\n", rows[i].text, why);
			CU_FAIL("another reason");
		}
	}
}

TEST("large")
{
	static char text[HTTP_BODY_MAX * 4];
	size_t n;

	n = (size_t)snprintf(text, sizeof(text), "{\"pids\":[1");
	for (int i = 0; i < CONTROL_PIDS_MAX; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, ",1");
	snprintf(text + n, sizeof(text) - n, "]}");
	CU_ASSERT(parse(text) && strstr(why, "at most 256"));
	memset(text, '[', sizeof(text) - 1);
	CU_ASSERT(control_request__parse(CONTROL_TRIGGER, text, HTTP_BODY_MAX, &rq, why, sizeof(why)));
	CU_ASSERT(control_request__parse(CONTROL_TRIGGER, text, sizeof(text) - 1, &rq, why, sizeof(why)));
	CU_ASSERT(control_request__parse(CONTROL_TRIGGER, "{}\0{}", 5, &rq, why, sizeof(why)));
}

TEST("a refusal")
{
	struct jsonw_text text;

	control_answer__refuse(&text, 7, "a \"reason\"");
	CU_ASSERT_STRING_EQUAL(text.text,
			       "{\"version\": 1, \"ok\": false, \"window\": 7, \"error\": \"a \\\"reason\\\"\"}\n");
	control_answer__refuse(&text, UINT64_MAX, "x");
	CU_ASSERT_STRING_EQUAL(text.text, "{\"version\": 1, \"ok\": false, \"error\": \"x\"}\n");
}

SUITE("control_msg")
