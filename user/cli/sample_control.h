/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What clients of `ptbpf sample` request by HTTP, and who waits for the end of which window. */
#ifndef CLI_SAMPLE_CONTROL_H
#define CLI_SAMPLE_CONTROL_H

#include <stdint.h>

#include "base/jsonw.h"
#include "sample/http_server.h"
#include "sample/proc_select.h"

#define SAMPLE_CONTROL_LINES 4 /* of the log that a status has */
#define SAMPLE_CONTROL_WAITERS 16

struct sampler;

struct sample_control {
	struct http_server *server; /* NULL: there is none */
	bool listens;               /* at the control socket */
	struct http_path path;
	struct {
		struct http_request *rq;
		uint64_t nr;
	} waiters[SAMPLE_CONTROL_WAITERS];
	uint32_t waiter_cnt;
	char *lines[SAMPLE_CONTROL_LINES]; /* the last ones of the log, oldest first */
	uint32_t line_cnt;
	uint64_t triggers, refused,
		malformed; /* requests of windows; of them refused; requests that are none */
	/* what a status says of processes and the disk, as of listed_ns (CLOCK_MONOTONIC) */
	uint64_t listed_ns;
	pid_t pids[PROC_SELECT_MAX];
	uint32_t pid_cnt, selected;
	uint64_t disk_bytes, disk_free;
};

/*
 * By --control, or beside --dir, and by --metrics. 0; negative errno (reported) where it must be
 * there.
 */
int sample_control__open(struct sampler *s);
/* A window has ended: its line of the log, for a status and for those who wait. */
void sample_control__ended(struct sampler *s, uint64_t nr, const struct jsonw_text *line);
/* A requested window will not be there. */
void sample_control__gave_up(struct sampler *s, uint64_t nr, const char *why);
void sample_control__close(struct sampler *s);

/* sample_status.c: what a status says, as keys of the open object. */
void sample_status__write(struct sampler *s, struct jsonw *w);

#endif /* CLI_SAMPLE_CONTROL_H */
