/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * CUPTI's activity records, as they are, into a stream of kind GPU; names once each. One thread at
 * a time, who has the agent's round; knows records' bounds and kinds, not what is in them, nor
 * buffers or who else uses CUPTI.
 */
#ifndef CUPTI_RECORDS_H
#define CUPTI_RECORDS_H

#include "agent.h"
#include "cupti_api.h"

/* Before the first record of a session: names are sent anew. 0 or enum ptb_agent_why. */
int cupti_records__begin(const struct cupti_api *api, bool system_thread_ids);
/* The records of a buffer. */
void cupti_records__take(uint8_t *buffer, size_t valid);
/* Sends what is there. */
void cupti_records__send(void);

/* A record of the agent's own: fixed bytes of r, whose len is filled in, then the tail. False: no
 * room. */
bool cupti_record__put(struct ptb_arec *r, size_t fixed, const void *tail, size_t len);
/* GPU_NOTE; nothing for value 0. */
void cupti_record__note(enum ptb_gpu_notes what, uint64_t value);
/* So many that the agent itself could not keep. */
void cupti_records__drop(uint32_t cnt);
/* The id of a text, which is sent first where it is new; 0: none. */
uint32_t cupti_name__id(const char *text);

/* Do traces never have this call? Of the driver's they have launches, and what moves or maps
 * memory. */
bool cupti_call__is_unwanted(uint32_t domain, uint32_t cbid);

#endif /* CUPTI_RECORDS_H */
