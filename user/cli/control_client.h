/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What `trigger` and `status` share: which `ptbpf sample` is meant, and its answers. */
#ifndef CLI_CONTROL_CLIENT_H
#define CLI_CONTROL_CLIENT_H

#include <cjson/cJSON.h>

#include "sample/control_msg.h"
#include "sample/control_socket.h"

#define CONTROL_OPTS(type)                                                                         \
	{ OPT_GROUP, 0, "", 0, NULL, "which ptbpf sample" },                                       \
		{ OPT_STR, 0,                                                                      \
		  "dir",   offsetof(type, dir),                                                    \
		  "DIR",   "the one that writes windows to this directory" },                      \
	{                                                                                          \
		OPT_STR, 0, "control", offsetof(type, control), "PATH",                            \
			"the one that has this socket (its --control)"                             \
	}

/* The socket that dir or control (NULL: not given) name. 0; -ENOENT: neither is given; another negative errno (reported). */
int control_client__named(const char *dir, const char *control, char path[CONTROL_PATH_MAX]);
/* Connects and sends the request. A descriptor or negative errno; control_client__why() has a sentence for it. */
int control_client__ask(const char *path, const struct control_request *rq);
const char *control_client__why(int err);
/*
 * The next answer, an object; the caller deletes it. text: as it came, from malloc, if that is not NULL. 0; -EPROTO: it is no answer;
 * negative errno of control_socket__receive().
 */
int control_client__answer(int fd, int timeout_ms, cJSON **tree, char **text);
bool control_client__ok(const cJSON *answer);
const char *control_client__error(const cJSON *answer); /* of one that is not ok */

#endif /* CLI_CONTROL_CLIENT_H */
