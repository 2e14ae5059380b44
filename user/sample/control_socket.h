/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Where the control sockets of `ptbpf sample` are, and how a client reaches one. */
#ifndef SAMPLE_CONTROL_SOCKET_H
#define SAMPLE_CONTROL_SOCKET_H

#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

#define CONTROL_DIR "/run/ptbpf"
#define CONTROL_PATH_MAX sizeof(((struct sockaddr_un *)0)->sun_path)
#define CONTROL_SOCKETS_MAX 64

/* The socket of the ptbpf that writes windows to this directory, which exists: NAME-HASH.sock in CONTROL_DIR, with the name of the directory and
 * a hash of its path without links. 0 or negative errno. */
int control_socket__path(const char *dir, char path[CONTROL_PATH_MAX]);
/* 0 or -ENAMETOOLONG. */
int control_socket__address(const char *path, struct sockaddr_un *at);
/* All sockets of CONTROL_DIR, by name, live or not. Returns how many, at most CONTROL_SOCKETS_MAX, or negative errno. */
int control_socket__list(char paths[][CONTROL_PATH_MAX]);

/* Removes from CONTROL_DIR those at which nobody listens any more. A socket gets its name there when its owner listens already. */
void control_socket__clean(void);

/* A connection or negative errno: -ECONNREFUSED: nobody listens there any more; -EOWNERDEAD: who listens is neither root nor the user who
 * asks. */
int control_socket__connect(const char *path);

#endif /* SAMPLE_CONTROL_SOCKET_H */
