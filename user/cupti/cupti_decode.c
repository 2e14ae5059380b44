/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* CUPTI's records; see cupti_decode.h. */
#include "cupti/cupti_decode.h"

#include <string.h>

#include "cupti/cupti_layout.h"
#include "ptb_agent.h"

#define MANY 65536 /* contexts or events; who forges more loses what was known */

static void learn(struct hashmap *m, uint32_t context, uint32_t event, uint64_t value)
{
	if (m->live >= MANY)
		hashmap__clear(m);
	hashmap__try_put(m, context, event, value);
}

static void take_kernel(struct ptb_gpu_kernel *k, const uint8_t *p, size_t len)
{
	k->begin = FIELD(p, KERNEL, start);
	k->end = FIELD(p, KERNEL, end);
	k->queued = FIELD(p, KERNEL, queued);
	k->submitted = FIELD(p, KERNEL, submitted);
	k->graph_node = FIELD(p, KERNEL, graphNodeId);
	k->graph = FIELD(p, KERNEL, graphId);
	k->correlation = FIELD(p, KERNEL, correlationId);
	k->device = FIELD(p, KERNEL, deviceId);
	k->context = FIELD(p, KERNEL, contextId);
	k->stream = FIELD(p, KERNEL, streamId);
	k->grid[0] = (uint32_t)FIELD(p, KERNEL, gridX);
	k->grid[1] = (uint32_t)FIELD(p, KERNEL, gridY);
	k->grid[2] = (uint32_t)FIELD(p, KERNEL, gridZ);
	k->block[0] = (uint32_t)FIELD(p, KERNEL, blockX);
	k->block[1] = (uint32_t)FIELD(p, KERNEL, blockY);
	k->block[2] = (uint32_t)FIELD(p, KERNEL, blockZ);
	k->registers = FIELD(p, KERNEL, registersPerThread);
	k->static_shared = (uint32_t)FIELD(p, KERNEL, staticSharedMemory);
	k->dynamic_shared = (uint32_t)FIELD(p, KERNEL, dynamicSharedMemory);
	k->local_per_thread = FIELD(p, KERNEL, localMemoryPerThread);
	k->channel = FIELD(p, KERNEL, channelID);
	k->channel_type = FIELD(p, KERNEL, channelType);
	k->flags = PTB_GPU_HAS_GRAPH;
	if (k->channel != CUPTI_NONE)
		k->flags |= PTB_GPU_HAS_CHANNEL;
	if (HAS_FIELD(len, KERNEL, priority)) {
		k->priority = FIELD(p, KERNEL, priority);
		k->flags |= PTB_GPU_HAS_PRIORITY;
	}
}

static void take_copy(struct ptb_gpu_memory *m, const uint8_t *p)
{
	m->begin = FIELD(p, COPY, start);
	m->end = FIELD(p, COPY, end);
	m->bytes = FIELD(p, COPY, bytes);
	m->device = FIELD(p, COPY, deviceId);
	m->context = FIELD(p, COPY, contextId);
	m->stream = FIELD(p, COPY, streamId);
	m->copy_kind = FIELD(p, COPY, copyKind);
	m->src_kind = FIELD(p, COPY, srcKind);
	m->dst_kind = FIELD(p, COPY, dstKind);
}

/* What they all have beside their own: the same fields at other places. */
/* clang-format off */
#define TAKE_MEMORY(m, p, record)                                     \
	do {                                                          \
		(m)->correlation = FIELD(p, record, correlationId);   \
		(m)->graph_node = FIELD(p, record, graphNodeId);      \
		(m)->graph = FIELD(p, record, graphId);               \
		(m)->channel = FIELD(p, record, channelID);           \
		(m)->channel_type = FIELD(p, record, channelType);    \
		(m)->flags = PTB_GPU_HAS_GRAPH;                       \
		if ((m)->channel != CUPTI_NONE)                       \
			(m)->flags |= PTB_GPU_HAS_CHANNEL;            \
	} while (0)
/* clang-format on */

static void take_memcpy(struct ptb_gpu_memory *m, const uint8_t *p)
{
	take_copy(m, p);
	TAKE_MEMORY(m, p, MEMCPY);
}

static void take_peer(struct ptb_gpu_memory *m, const uint8_t *p)
{
	take_copy(m, p);
	TAKE_MEMORY(m, p, PEER);
	m->src_device = FIELD(p, PEER, srcDeviceId);
	m->src_context = FIELD(p, PEER, srcContextId);
	m->dst_device = FIELD(p, PEER, dstDeviceId);
	m->dst_context = FIELD(p, PEER, dstContextId);
	m->flags |= PTB_GPU_PEER;
}

static void take_memset(struct ptb_gpu_memory *m, const uint8_t *p)
{
	m->begin = FIELD(p, MEMSET, start);
	m->end = FIELD(p, MEMSET, end);
	m->bytes = FIELD(p, MEMSET, bytes);
	m->device = FIELD(p, MEMSET, deviceId);
	m->context = FIELD(p, MEMSET, contextId);
	m->stream = FIELD(p, MEMSET, streamId);
	m->copy_kind = FIELD(p, MEMSET, value);
	m->dst_kind = FIELD(p, MEMSET, memoryKind);
	TAKE_MEMORY(m, p, MEMSET);
}

static void take_api(struct ptb_gpu_api *a, const uint8_t *p, bool driver, bool tids)
{
	a->begin = FIELD(p, API, start);
	a->end = FIELD(p, API, end);
	a->correlation = FIELD(p, API, correlationId);
	a->cbid = FIELD(p, API, cbid);
	a->result = FIELD(p, API, returnValue);
	a->driver = driver;
	a->h.tid = tids ? FIELD(p, API, threadId) : 0;
}

static void take_overhead(struct ptb_gpu_overhead *o, const uint8_t *p, bool tids)
{
	o->begin = FIELD(p, OVERHEAD, start);
	o->end = FIELD(p, OVERHEAD, end);
	o->what = FIELD(p, OVERHEAD, overheadKind);
	if (tids && FIELD(p, OVERHEAD, objectKind) == CUPTI_ACTIVITY_OBJECT_THREAD)
		memcpy(&o->h.tid, p + OVERHEAD_THREAD, sizeof(o->h.tid));
}

static void take_event(struct cupti_decoder *d, struct ptb_gpu_event *e, const uint8_t *p,
		       size_t len)
{
	e->correlation = FIELD(p, EVENT, correlationId);
	e->context = FIELD(p, EVENT, contextId);
	e->stream = FIELD(p, EVENT, streamId);
	e->event = FIELD(p, EVENT, eventId);
	if (HAS_FIELD(len, EVENT, deviceTimestamp)) {
		e->device = FIELD(p, EVENT, deviceId);
		e->at = FIELD(p, EVENT, deviceTimestamp);
	}
	learn(&d->events, e->context, e->event, (uint64_t)e->correlation << 32 | e->stream);
}

static void take_sync(const struct cupti_decoder *d, struct ptb_gpu_sync *s, const uint8_t *p)
{
	const uint64_t *device, *event;

	s->begin = FIELD(p, SYNC, start);
	s->end = FIELD(p, SYNC, end);
	s->what = FIELD(p, SYNC, type);
	s->correlation = FIELD(p, SYNC, correlationId);
	s->context = FIELD(p, SYNC, contextId);
	s->stream = FIELD(p, SYNC, streamId);
	s->event = FIELD(p, SYNC, cudaEventId);
	if (!s->stream) /* CUPTI_INVALID_STREAM_ID since 13.2 */
		s->stream = CUPTI_NONE;
	device = hashmap__get(&d->devices, s->context, 0);
	s->device = device ? (uint32_t)*device : ~0u;
	event = s->event == CUPTI_NONE ? NULL : hashmap__get(&d->events, s->context, s->event);
	if (event && *event >> 32) {
		s->event_correlation = (uint32_t)(*event >> 32);
		s->event_stream = (uint32_t)*event;
	}
}

/* The kind of the capture's record, 0: none of ours. */
static uint8_t kind_of(const uint8_t *p, size_t len)
{
	static const struct {
		uint32_t least;
		uint8_t kind;
	} known[] = {
#define X(name, nr, bytes, record) [nr] = { bytes, PTB_REC_##record },
		PTB_CUPTI_KINDS(X)
#undef X
	};
	uint32_t kind;

	if (len < sizeof(kind))
		return 0;
	memcpy(&kind, p, sizeof(kind));
	return kind < sizeof(known) / sizeof(*known) && len >= known[kind].least ?
		       known[kind].kind :
		       0;
}

static enum cupti_answer over(uint64_t begin, uint64_t end)
{
	return begin && end ? CUPTI_TAKEN : CUPTI_INCOMPLETE;
}

/* Work of a device, which shows where its context is. */
static enum cupti_answer work(struct cupti_decoder *d, uint32_t context, uint32_t device,
			      uint64_t begin, uint64_t end)
{
	learn(&d->devices, context, 0, device);
	return over(begin, end);
}

enum cupti_answer cupti_decoder__take(struct cupti_decoder *d, const void *record, size_t len,
				      uint32_t name, bool tids, union ptb_gpu_record *to)
{
	const uint8_t *p = record;

	memset(to, 0, sizeof(*to));
	to->h.kind = kind_of(p, len);
	switch (to->h.kind) {
	case PTB_REC_GPU_KERNEL:
		take_kernel(&to->kernel, p, len);
		to->kernel.name = name;
		return work(d, to->kernel.context, to->kernel.device, to->kernel.begin,
			    to->kernel.end);
	case PTB_REC_GPU_MEMCPY:
		(p[0] == PTB_CUPTI_MEMCPY ? take_memcpy : take_peer)(&to->memory, p);
		return work(d, to->memory.context, to->memory.device, to->memory.begin,
			    to->memory.end);
	case PTB_REC_GPU_MEMSET:
		take_memset(&to->memory, p);
		return work(d, to->memory.context, to->memory.device, to->memory.begin,
			    to->memory.end);
	case PTB_REC_GPU_API:
		take_api(&to->api, p, p[0] == PTB_CUPTI_DRIVER, tids);
		to->api.name = name;
		return over(to->api.begin, to->api.end);
	case PTB_REC_GPU_OVERHEAD:
		take_overhead(&to->overhead, p, tids);
		return over(to->overhead.begin, to->overhead.end);
	case PTB_REC_GPU_EVENT:
		take_event(d, &to->event, p, len);
		return CUPTI_TAKEN;
	case PTB_REC_GPU_SYNC:
		take_sync(d, &to->sync, p);
		return over(to->sync.begin, to->sync.end);
	default:
		return CUPTI_UNKNOWN;
	}
}

void cupti_decoder__clear(struct cupti_decoder *d)
{
	hashmap__clear(&d->devices);
	hashmap__clear(&d->events);
}
