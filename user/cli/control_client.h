/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What `trigger` and `status` share: which `ptbpf sample` is meant, and its answers. */
#ifndef CLI_CONTROL_CLIENT_H
#define CLI_CONTROL_CLIENT_H

#include <cjson/cJSON.h>
#include <stdio.h>

#include "sample/control.h"

#define CONTROL_OPTS(type)                                                                         \
	{ OPT_GROUP, 0, "", 0, NULL, "which ptbpf sample" },                                       \
		{ OPT_STR, 0,                                                                      \
		  "dir",   offsetof(type, dir),                                                    \
		  "DIR",   "the one that writes windows to this directory" },                      \
	{                                                                                          \
		OPT_STR, 0, "control", offsetof(type, control), "PATH",                            \
			"the one that has this socket (its --control)"                             \
	}

/*
 * The socket that dir or control (NULL: not given) name. 0; -ENOENT: neither is given; another
 * negative errno (reported).
 */
int control_client__named(const char *dir, const char *control, char path[CONTROL_PATH_MAX]);

struct control_answer {
	cJSON *tree; /* an object */
	char *text;  /* as it came, in one line: its numbers have more digits than the tree's */
};
/*
 * Sends a request, as in "GET /status", or "POST /trigger" with a body, and receives its answer.
 * timeout_ms -1: no limit. 0; -EPROTO: the answer is not valid; -ECANCELED: a signal came
 * (base/cancel.h); another negative errno, for which control_client__why() has a sentence.
 */
int control_client__ask(const char *path, const char *what, const char *body, int timeout_ms,
			struct control_answer *a);
void control_answer__free(struct control_answer *a); /* one that is zeroed is fine */
const char *control_client__why(int err);
bool control_client__ok(const cJSON *answer);
const char *control_client__error(const cJSON *answer); /* of one that is not ok */

/* The status of a `ptbpf sample` for people. */

/* status: an answer to CONTROL_STATUS (schemas/formats/status.schema.json); what it lacks is left
 * out. Its texts are escaped. */
void status_text__put(FILE *out, const cJSON *status);

#endif /* CLI_CONTROL_CLIENT_H */
