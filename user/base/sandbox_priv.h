/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The child's side of sandbox.c. */
#ifndef BASE_SANDBOX_PRIV_H
#define BASE_SANDBOX_PRIV_H

#include <sys/types.h>

#include "base/sandbox.h"

/* Gives up, for good, all that the job does not need. out_fd and stderr stay writable. 0 or negative errno: then the
 * job must not run. */
int sandbox_enter(const struct sandbox_job *job, int out_fd, pid_t parent);

#endif /* BASE_SANDBOX_PRIV_H */
