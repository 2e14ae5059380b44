/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Any bytes as the body of a request on the control socket, or as the numbers of pieces that a
 * request is made of. One that is taken is the same when it is written and read again.
 */
#include <stdlib.h>
#include <string.h>

#include "sample/control.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static const char *const pieces[] = {
	"{\"wait\":false",
	"}",
	",",
	"\"pids\":[1",
	",22",
	"]",
	"[",
	"{",
	"\"duration_ms\":",
	"1",
	"0.25",
	"86400000",
	"\"start_unix_ms\":",
	"1767225600000",
	"-",
	"1e18",
	"\"wait\":",
	"true",
	"false",
	"null",
	"\"x\"",
	" ",
	"\"",
	"\\u0000",
	",\"pids\":[4194304,7,9]",
	",\"duration_ms\":1500.5",
	",\"start_unix_ms\":1767225600000",
	",\"wait\":true",
	"{\"cpu\":true",
	",\"cpu\":false",
	",\"cuda\":true",
};

static bool same(const struct control_request *a, const struct control_request *b)
{
	return a->what == b->what && a->pid_cnt == b->pid_cnt &&
	       !memcmp(a->pids, b->pids, a->pid_cnt * sizeof(a->pids[0])) &&
	       a->duration_ns == b->duration_ns && a->start_real_ns == b->start_real_ns &&
	       a->wait == b->wait && a->cpu == b->cpu && a->cuda == b->cuda;
}

static void request(enum control_what what, const char *text, size_t len)
{
	struct control_request rq, again;
	struct jsonw_text out;
	char why[256] = "";

	if (control_request__parse(what, text, len, &rq, why, sizeof(why))) {
		if (!memchr(why, '\0', sizeof(why)) || !why[0])
			abort();
		return;
	}
	control_request__write(&rq, &out);
	if (control_request__parse(what, out.text, out.len, &again, why, sizeof(why)) ||
	    !same(&rq, &again))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	char *text = NULL;
	size_t n = 0, size = 0, from;

	request(CONTROL_TRIGGER, (const char *)data, len);
	request(CONTROL_TOGGLE, (const char *)data, len);
	from = len > 12 ? len - 12 : 0; /* few pieces, which may well make a request */
	for (size_t i = from; i < len; i++)
		size += strlen(pieces[data[i] % (sizeof(pieces) / sizeof(pieces[0]))]);
	text = malloc(strlen(pieces[0]) + size + 2);
	if (!text)
		return 0;
	if (len && data[0] % 2)
		n = (size_t)(stpcpy(text, pieces[0]) - text);
	for (size_t i = from; i < len; i++)
		n = (size_t)(stpcpy(text + n, pieces[data[i] % (sizeof(pieces) / sizeof(pieces[0]))]) -
			     text);
	if (len && data[0] % 4 == 1)
		text[n++] = '}';
	request(CONTROL_TRIGGER, text, n);
	request(CONTROL_TOGGLE, text, n);
	free(text);
	return 0;
}
