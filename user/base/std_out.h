/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The end of what a command prints on standard output. */
#ifndef BASE_STD_OUT_H
#define BASE_STD_OUT_H

/*
 * Flushes standard output. err: 0, or the negative errno of the printing function. Returns 0 or a negative errno, with a
 * message that names `what` ("the table"; NULL: none), but for -ECANCELED. A reader that closed its end of the pipe (head) is no error.
 */
int std_out__end(const char *what, int err);

#endif /* BASE_STD_OUT_H */
