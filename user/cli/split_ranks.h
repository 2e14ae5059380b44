/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A Chrome trace of each rank of a capture: what readers of distributed jobs take, such as HolisticTraceAnalysis. */
#ifndef CLI_SPLIT_RANKS_H
#define CLI_SPLIT_RANKS_H

#include "cli/outputs.h"

/* Writes dir/rankN.pt.trace.json.gz; makes the directory if there is none. Exit code of the command. */
int split_ranks__write(const struct outputs *o, const char *dir);

#endif /* CLI_SPLIT_RANKS_H */
