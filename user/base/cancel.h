/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * SIGINT, SIGTERM and SIGHUP end whatever the program is doing; a service may take SIGHUP for a
 * request to read its configuration again. A signal is pending from its arrival until somebody
 * takes it; loops that may run long check cancel__pending() and return -ECANCELED, waits poll
 * cancel__fd() as well. System calls that block are interrupted (EINTR). Signals within 0.2 s of
 * one another are one request. A second request while the first has been pending for half a second
 * ends the process at once, with the exit code 128 + signal. One state for the whole process; every
 * function but cancel__install() may be called by any thread.
 */
#ifndef BASE_CANCEL_H
#define BASE_CANCEL_H

#include <stdbool.h>

/* Installs the handlers; a SIGHUP that is ignored (nohup) stays ignored. 0 or negative errno.
 * Without it no signal is ever pending. */
int cancel__install(void);
/* number of the pending signal, 0: none; one load, so cheap enough for any loop */
int cancel__pending(void);
int cancel__fd(void); /* polls readable while a signal is pending; -1: not installed */
/* Takes the pending signal, so that the next phase can run (the end of a window). Returns its
 * number, 0: none was pending. */
int cancel__take(void);
/* From now on SIGHUP ends nothing: it makes a descriptor readable, which is returned (negative
 * errno: it cannot), until cancel__take_reload(). */
int cancel__reload_fd(void);
bool cancel__take_reload(void); /* has it come? */
/* In a child after fork(): the default actions again. */
void cancel__child(void);

#endif /* BASE_CANCEL_H */
