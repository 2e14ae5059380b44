/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See control_client.h. */
#define LOG_DOMAIN "control"
#include "cli/control_client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"

int control_client__named(const char *dir, const char *control, char path[CONTROL_PATH_MAX])
{
	int err = -ENOENT;

	if (control) {
		err = strlen(control) < CONTROL_PATH_MAX ? 0 : -ENAMETOOLONG;
		if (!err)
			snprintf(path, CONTROL_PATH_MAX, "%s", control);
	} else if (dir) {
		err = control_socket__path(dir, path);
	} else {
		return -ENOENT;
	}
	if (err)
		pr_error("'%s': %s", control ? control : dir, errstr(err));
	return err == -ENOENT ? -ENOTDIR : err;
}

int control_client__ask(const char *path, const struct control_request *rq)
{
	struct jsonw_text text;
	int fd = control_socket__connect(path);

	if (fd < 0)
		return fd;
	control_request__write(rq, &text);
	if (send(fd, text.text, text.len, MSG_NOSIGNAL) != (ssize_t)text.len) {
		int err = errno ? -errno : -EIO;

		/* one who is refused has the answer to that already */
		if (err != -EPIPE && err != -ECONNRESET) {
			close(fd);
			return err;
		}
	}
	return fd;
}

const char *control_client__why(int err)
{
	switch (err) {
	case -ECONNREFUSED:
	case -ENOENT:
		return "no ptbpf sample listens there";
	case -EACCES:
		return "only root and the user who runs ptbpf sample control it";
	case -EOWNERDEAD:
		return "a program of another user listens there";
	case -ECONNRESET:
		return "ptbpf sample has ended";
	case -ETIMEDOUT:
	case -EAGAIN:
		return "it does not answer";
	case -EPROTO:
		return "its answer is not valid";
	default:
		return errstr(err);
	}
}

bool control_client__ok(const cJSON *answer)
{
	return cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(answer, "ok"));
}

const char *control_client__error(const cJSON *answer)
{
	const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(answer, "error"));

	return text ? text : "it gave no reason";
}

int control_client__answer(int fd, int timeout_ms, cJSON **tree, char **text)
{
	char *raw = NULL;
	int err = control_socket__receive(fd, timeout_ms, &raw);

	if (err)
		return err;
	*tree = cJSON_ParseWithOpts(raw, NULL, 1);
	if (!cJSON_IsObject(*tree)) {
		cJSON_Delete(*tree);
		*tree = NULL;
		err = -EPROTO;
	}
	if (text && !err)
		*text = raw;
	else
		free(raw);
	return err;
}
