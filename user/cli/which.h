/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Which process is meant: the list of those with PyTorch, and the one that has a name. */
#ifndef CLI_WHICH_H
#define CLI_WHICH_H

#include <stdio.h>

#include "export/output.h"
#include "sample/proc_select.h"

/* 0 or negative errno (reported). */
int which__print(const struct output_args *args, const struct proc_view *views, uint32_t cnt,
		 uint32_t unseen);
/* Prints the list on stderr, with the command to use. Exit code. */
int which__offer(const char *command);
/* The only one, but for its children. Exit code; not 0: there are others (printed), or none. */
int which__only(const char *command, pid_t *pid);
/* The one that --name means. Exit code; not 0: the processes to choose from are printed. */
int which__named(const char *command, const char *name, pid_t *pid);

#endif /* CLI_WHICH_H */
