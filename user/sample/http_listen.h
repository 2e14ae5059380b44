/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Where `ptbpf sample` listens: at the control socket, and for metrics at a port. */
#ifndef SAMPLE_HTTP_LISTEN_H
#define SAMPLE_HTTP_LISTEN_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#include "sample/control_socket.h"

#define HTTP_URL_MAX 300

/* "9464", ":9464" (127.0.0.1), "HOST:9464", "[::1]:9464"; port 0: any that is free. */
bool http_listen__valid(const char *address);
/* A socket or negative errno (reported). url: "http://127.0.0.1:9464/metrics" */
int http_listen__port(const char *address, char url[HTTP_URL_MAX]);

/* A socket in the file system that this process has created. Starts zeroed. */
struct http_path {
	dev_t dev;
	ino_t ino; /* 0: there is none */
	char path[CONTROL_PATH_MAX];
};
/* Creates it, mode 0600, in place of one at which nobody listens. A socket or negative errno (reported, as a warning if it may fail). */
int http_listen__path(const char *path, bool may_fail, struct http_path *hp);
void http_listen__remove(const struct http_path *hp); /* unless another ptbpf has replaced it */

#endif /* SAMPLE_HTTP_LISTEN_H */
