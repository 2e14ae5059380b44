/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What `ptbpf sample` and its clients share: where the control sockets are, and the JSON of
 * requests and answers. A request with a key that this version does not know is refused: nothing
 * that was requested is ignored.
 */
#ifndef SAMPLE_CONTROL_H
#define SAMPLE_CONTROL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/un.h>

#include "base/jsonw.h"

/* ---- control_socket.c: sockets ---- */

#define CONTROL_DIR "/run/ptbpf"
#define CONTROL_PATH_MAX sizeof(((struct sockaddr_un *)0)->sun_path)
#define CONTROL_SOCKETS_MAX 64

/*
 * The socket of the ptbpf that writes windows to this directory, which exists: NAME-HASH.sock in
 * CONTROL_DIR, with the name of the directory and a hash of its real path. 0 or negative errno.
 */
int control_socket__path(const char *dir, char path[CONTROL_PATH_MAX]);
/* 0 or -ENAMETOOLONG. */
int control_socket__address(const char *path, struct sockaddr_un *at);
/* Lists the sockets in CONTROL_DIR by name, live or not. Returns how many, or negative errno. */
int control_socket__list(char paths[][CONTROL_PATH_MAX]);
/* Removes the sockets from CONTROL_DIR at which nobody listens any more. */
void control_socket__clean(void);
/*
 * A connection or negative errno. -ECONNREFUSED: nobody listens there any more; -EOWNERDEAD: the
 * listener is neither root nor the user of this process.
 */
int control_socket__connect(const char *path);

/* ---- control_msg.c: the bodies of requests and answers ---- */

#define CONTROL_VERSION 1
#define CONTROL_ANSWER_MAX (256 << 10)
#define CONTROL_PIDS_MAX 256
#define CONTROL_AHEAD_MAX_NS (3600ULL * 1000000000) /* of --start-at */

enum control_what { CONTROL_TRIGGER, CONTROL_TOGGLE };
enum control_switch { SWITCH_AS_IT_IS, SWITCH_ON, SWITCH_OFF };

struct control_request {
	enum control_what what;
	/* CONTROL_TRIGGER */
	pid_t pids[CONTROL_PIDS_MAX];
	uint32_t pid_cnt;       /* 0: the processes that the daemon selects */
	uint64_t duration_ns;   /* 0: the daemon's */
	uint64_t start_real_ns; /* Unix time, 0: now */
	bool wait;              /* the answer comes when the window has ended */
	/* CONTROL_TOGGLE: activities of all windows that are started later; at least one is set */
	enum control_switch cpu, cuda;
};

/* 0, or -EINVAL: `why` has a sentence. */
int control_request__parse(enum control_what what, const char *text, size_t len,
			   struct control_request *rq, char *why, size_t cap);
void control_request__write(const struct control_request *rq, struct jsonw_text *out);

/* Opens the object of an answer that is no error. 0 or negative errno. */
void control_answer__begin(struct jsonw *w, jsonw_out out, void *arg);
/*
 * {"version": 1, "ok": false, "error": "..."}; nr: the window's number, UINT64_MAX: there is none
 */
void control_answer__refuse(struct jsonw_text *out, uint64_t nr, const char *why);

#endif /* SAMPLE_CONTROL_H */
