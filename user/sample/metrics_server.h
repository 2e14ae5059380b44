/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Serves metrics by HTTP, by libmicrohttpd and without threads: its owner polls one descriptor. Only /metrics and / exist; a
 * connection has one request. Clients may be hostile: there are at most METRICS_CONNECTIONS of them, each with a bound
 * on its memory and its idle time, and the oldest ones make room for new ones.
 */
#ifndef SAMPLE_METRICS_SERVER_H
#define SAMPLE_METRICS_SERVER_H

#include <stdbool.h>
#include <stddef.h>

#define METRICS_CONNECTIONS 32

/* The text of the metrics, from malloc; NULL: out of memory. */
typedef char *(*metrics_text_fn)(void *arg, bool openmetrics, size_t *len);

struct metrics_server;
/* "9464", ":9464" (127.0.0.1), "HOST:9464", "[::1]:9464"; port 0: any that is free. */
bool metrics_server__valid(const char *address);
/* 0 or negative errno (reported). address is valid. */
int metrics_server__open(const char *address, metrics_text_fn text, void *arg,
			 struct metrics_server **out);
/* "http://127.0.0.1:9464/metrics" */
const char *metrics_server__url(const struct metrics_server *ms);
/* Polls readable when there is something to do. */
int metrics_server__fd(const struct metrics_server *ms);
/* At most so many ms until metrics_server__run() even though nothing happens: the least of max and what is needed. */
int metrics_server__wait_ms(const struct metrics_server *ms, int max);
void metrics_server__run(struct metrics_server *ms);
/* In a child after fork() that goes on for long: closes what only the parent serves. */
void metrics_server__child(const struct metrics_server *ms);
void metrics_server__free(struct metrics_server *ms); /* NULL is fine */

#endif /* SAMPLE_METRICS_SERVER_H */
