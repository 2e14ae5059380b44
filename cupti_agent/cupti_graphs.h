/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The nodes of CUDA graphs, as CUPTI's callbacks report their creation: what was running on the
 * thread at that time is what a replay of the node belongs to. Holds CUPTI's only subscriber while
 * it is on.
 */
#ifndef CUPTI_GRAPHS_H
#define CUPTI_GRAPHS_H

#include "agent.h"
#include "cupti_api.h"

/* 0, or CUPTI's result; -1: this CUPTI lacks a function. */
int cupti_graphs__start(const struct cupti_api *api);
void cupti_graphs__stop(void);
/* Nodes since the last time, into the stream of CUPTI's records. */
void cupti_graphs__take(void);
/* In a forked child: callbacks do nothing from now on. */
void cupti_graphs__forked(void);

#endif /* CUPTI_GRAPHS_H */
