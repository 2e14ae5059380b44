/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Operators: a callback of at::RecordFunction that writes what torch's own profiler would record.
 * All but ops__forked() is for the agent's thread.
 */
#ifndef OPS_H
#define OPS_H

#include "agent.h"

/* Registers the callback with what is requested (AGENT_REQUEST() bits); cfg is copied. 0, or enum
 * ptb_agent_why. Off before; -1: a thread is still inside since the last time, try again. */
int ops__start(uint32_t requests, const struct ptb_agent_cfg *cfg);
/* Removes it: when it returns, all that was recorded is in streams and nothing more comes. leave:
 * torch must not be called any more, as the process is ending. */
void ops__stop(bool leave);
bool ops__on(void);
/* What the callbacks found wrong since ops__start(); NONE: nothing. */
enum ptb_agent_why ops__trouble(void);
/* In a forked child: whatever is registered does nothing. */
void ops__forked(void);
/* Around fork(): no lock of torch's may be held by the agent's thread then. */
void ops__before_fork(void);
void ops__after_fork(void);

#endif /* OPS_H */
