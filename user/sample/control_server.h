/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The control socket of `ptbpf sample`: one thread, one descriptor to poll. Only root and the user who runs ptbpf are served; others have one answer,
 * which says so. Clients may be hostile all the same: a request is at most CONTROL_REQUEST_MAX bytes, there are at most
 * CONTROL_CONNECTIONS, and the oldest makes room for a new one. Knows no request: its owner answers each.
 */
#ifndef SAMPLE_CONTROL_SERVER_H
#define SAMPLE_CONTROL_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define CONTROL_CONNECTIONS 16

struct control_peer {
	pid_t pid; /* 0: not in this pid namespace */
	uid_t uid;
};

/* text: len bytes and a NUL. Answers come from control_server__answer(), in the call or later. */
typedef void (*control_request_fn)(void *arg, uint64_t conn, const struct control_peer *peer,
				   const char *text, size_t len);

struct control_counts {
	uint64_t connections;
	uint64_t foreign; /* of them, of users who are not served */
	uint64_t closed;  /* made room for others, or did not read their answers */
	uint64_t long_requests;
};

struct control_server;
/* Creates the socket, mode 0600, in place of one at which nobody listens. 0 or negative errno (reported, unless it may fail: then as a warning). */
int control_server__open(const char *path, bool may_fail, control_request_fn fn, void *arg,
			 struct control_server **out);
/* Polls readable when there is something to do. */
int control_server__fd(const struct control_server *cs);
/* One request of each client that has sent one. */
void control_server__run(struct control_server *cs);
/* False: the connection is gone. A client that does not read its answers is closed. */
bool control_server__answer(struct control_server *cs, uint64_t conn, const char *text, size_t len);
/* The client has been promised another answer: it is closed later than those that have not. */
void control_server__promise(struct control_server *cs, uint64_t conn, bool promised);
bool control_server__connected(const struct control_server *cs, uint64_t conn);
struct control_counts control_server__counts(const struct control_server *cs);
/* In a child after fork() that goes on for long: closes what only the parent serves. */
void control_server__child(const struct control_server *cs);
void control_server__free(struct control_server *cs); /* removes the socket; NULL is fine */

#endif /* SAMPLE_CONTROL_SERVER_H */
