/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Turns CUPTI's activity records into the agent's GPU records, in a stream of kind GPU. One thread at a time
 * (the agent's); knows records, not buffers or who else uses CUPTI.
 */
#ifndef CUPTI_RECORDS_H
#define CUPTI_RECORDS_H

#include "agent.h"
#include "cupti_layout.h"

/* Before the first record of a session: names are told anew. 0 or enum ptb_agent_why. */
int cupti_records__begin(const struct cupti_api *api, bool system_thread_ids);
void cupti_records__end(void);
/* The records of a buffer. */
void cupti_records__take(uint8_t *buffer, size_t valid);
/* Sends what is there. */
void cupti_records__send(void);

/* rec: a PTB_REC_GPU_* struct of size bytes whose header is not used; tid: of API and OVERHEAD, else 0. */
void cupti_record__put(uint32_t kind, uint32_t tid, const void *rec, size_t size);
/* GPU_NOTE; nothing for value 0. */
void cupti_record__note(enum ptb_gpu_notes what, uint64_t value);
/* The id of a text, which is told first where it is new; 0: none. */
uint32_t cupti_name__id(const char *text);

/* Driver calls that traces have (formats: launches, and what moves or maps memory). */
bool cupti_api__is_wanted(uint32_t domain, uint32_t cbid);
#define CUPTI_CBIDS 1024

#endif /* CUPTI_RECORDS_H */
