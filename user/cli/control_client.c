/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See control_client.h. */
#define LOG_DOMAIN "control"
#include "cli/control_client.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/log.h"
#include "base/mem.h"

#define ANSWER_MAX (CONTROL_ANSWER_MAX + 4096) /* with its headers */

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

/* All that comes until the server closes, NUL-terminated, from malloc. 0 or negative errno. */
static int receive(int fd, int timeout_ms, char **out)
{
	struct pollfd p[] = { { .fd = fd, .events = POLLIN },
			      { .fd = cancel__fd(), .events = POLLIN } };
	char *buf = xmalloc(ANSWER_MAX + 1);
	size_t len = 0;
	ssize_t n = 1;

	while (n > 0 && len < ANSWER_MAX) {
		int got = poll(p, 2, timeout_ms);

		if (got < 0 && errno == EINTR && !cancel__pending())
			continue;
		if (!got)
			errno = ETIMEDOUT;
		if (cancel__pending())
			errno = ECANCELED;
		n = got <= 0 || cancel__pending() ? -1 : recv(fd, buf + len, ANSWER_MAX - len, 0);
		len += n > 0 ? (size_t)n : 0;
	}
	if (n || !len) {
		int err = n < 0 ? -errno : n ? -EMSGSIZE : -ECONNRESET;

		free(buf);
		return err;
	}
	buf[len] = '\0';
	*out = buf;
	return 0;
}

/*
 * By HTTP/1.0: an answer is not in chunks and ends with its connection. The server may refuse a
 * request and close the connection before all of it is sent.
 */
static int exchange(int fd, const char *what, const char *body, int timeout_ms, char **out)
{
	struct jsonw_text text;
	int n = snprintf(text.text, sizeof(text.text),
			 "%s HTTP/1.0\r\nContent-Length: %zu\r\n\r\n%s", what, strlen(body), body);

	if (n < 0 || (size_t)n >= sizeof(text.text))
		return -E2BIG;
	if (send(fd, text.text, (size_t)n, MSG_NOSIGNAL) != n && errno != EPIPE &&
	    errno != ECONNRESET)
		return -errno;
	return receive(fd, timeout_ms, out);
}

int control_client__ask(const char *path, const char *what, const char *body, int timeout_ms,
			struct control_answer *a)
{
	int fd = control_socket__connect(path), err;
	char *raw = NULL, *text;

	*a = (struct control_answer){ .tree = NULL };
	if (fd < 0)
		return fd;
	err = exchange(fd, what, body, timeout_ms, &raw);
	close(fd);
	if (err)
		return err;
	text = strstr(raw, "\r\n\r\n");
	if (text && !strncmp(raw, "HTTP/1.", 7)) {
		text += 4;
		text[strcspn(text, "\n")] = '\0';
		a->tree = cJSON_ParseWithOpts(text, NULL, 1);
		a->text = xstrdup(text);
	}
	free(raw);
	if (cJSON_IsObject(a->tree) && a->text)
		return 0;
	control_answer__free(a);
	return -EPROTO;
}

void control_answer__free(struct control_answer *a)
{
	cJSON_Delete(a->tree);
	free(a->text);
	*a = (struct control_answer){ .tree = NULL };
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
