/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What is said on the control socket of `ptbpf sample`: one JSON object as the body of a request, and one as that of the answer. Texts in,
 * structures out, and back; knows neither sockets nor windows. A request with a key that this version does not know is refused: nothing
 * that was requested is ignored.
 */
#ifndef SAMPLE_CONTROL_MSG_H
#define SAMPLE_CONTROL_MSG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/jsonw.h"

#define CONTROL_VERSION 1
#define CONTROL_ANSWER_MAX (160 << 10)
#define CONTROL_PIDS_MAX 256
#define CONTROL_AHEAD_MAX_NS (3600ULL * 1000000000) /* of --start-at */

enum control_what { CONTROL_TRIGGER, CONTROL_TOGGLE };
enum control_switch { SWITCH_AS_IT_IS, SWITCH_ON, SWITCH_OFF };

struct control_request {
	enum control_what what;
	/* of CONTROL_TRIGGER */
	pid_t pids[CONTROL_PIDS_MAX];
	uint32_t pid_cnt;       /* 0: the processes that the daemon selects */
	uint64_t duration_ns;   /* 0: the daemon's */
	uint64_t start_real_ns; /* Unix time, 0: now */
	bool wait;              /* the answer comes when the window has ended */
	/* of CONTROL_TOGGLE: activities of the windows that are started from now on; one at least is switched */
	enum control_switch cpu, cuda;
};

/* 0, or -EINVAL: `why` has a sentence. */
int control_request__parse(enum control_what what, const char *text, size_t len,
			   struct control_request *rq, char *why, size_t cap);
void control_request__write(const struct control_request *rq, struct jsonw_text *out);

/* Opens the object of an answer that is no error. 0 or negative errno. */
int control_answer__begin(struct jsonw *w, jsonw_out out, void *arg);
/* {"version": 1, "ok": false, "error": "..."}; nr: of the window that it is about, UINT64_MAX: of none */
void control_answer__refuse(struct jsonw_text *out, uint64_t nr, const char *why);

#endif /* SAMPLE_CONTROL_MSG_H */
