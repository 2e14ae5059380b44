/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * CUPTI's records on the host: every field of every kind at its offset, what versions added, what earlier records
 * define for later ones, and random bytes. The offsets themselves: test_cupti_layout.py; real orders of records:
 * test_cupti_records.c.
 */
#include "cupti/cupti_decode.h"

#include <stdlib.h>
#include <string.h>

#include "cupti/cupti_layout.h"
#include "ptb_agent.h"
#include "suite.h"

#define ROOM 512

static struct cupti_decoder decoder;
static union ptb_gpu_record out;
static uint8_t raw[ROOM];

static void fresh(uint32_t kind)
{
	memset(raw, 0, sizeof(raw));
	memcpy(raw, &kind, sizeof(kind));
}

/* clang-format off */
#define SET(record, field, value)                                                       \
	do {                                                                            \
		record##_##field##_t set_ = (record##_##field##_t)(value);              \
		memcpy(raw + record##_##field, &set_, sizeof(set_));                    \
	} while (0)
/* clang-format on */

static enum cupti_answer take(size_t len)
{
	void *exact = malloc(len ? len : 1); /* so that the sanitizer sees what is read beyond it */
	enum cupti_answer answer;

	memcpy(exact, raw, len);
	answer = cupti_decoder__take(&decoder, exact, len, 77, true, &out);
	free(exact);
	return answer;
}

static void forget(void)
{
	cupti_decoder__clear(&decoder);
}

/* ---- each field ---- */

/* Every field of a record gets a number of its own that fits its type. */
#define FIRST(record, field, off, type) SET(record, field, 20 + off);

static void set_kernel(void)
{
	fresh(PTB_CUPTI_CONCURRENT_KERNEL);
	CUPTI_KERNEL_FIELDS(FIRST)
	CUPTI_KERNEL11_FIELDS(FIRST)
}

#define OF(record, field) (20u + record##_##field)

TEST("kernels")
{
	const struct ptb_gpu_kernel *k = &out.kernel;

	set_kernel();
	CU_ASSERT_EQUAL(take(224), CUPTI_TAKEN);
	CU_ASSERT(k->h.kind == PTB_REC_GPU_KERNEL && k->name == 77 && k->h.tid == 0);
	CU_ASSERT(k->begin == OF(KERNEL, start) && k->end == OF(KERNEL, end));
	CU_ASSERT(k->queued == OF(KERNEL, queued) && k->submitted == OF(KERNEL, submitted));
	CU_ASSERT(k->graph_node == OF(KERNEL, graphNodeId) && k->graph == OF(KERNEL, graphId));
	CU_ASSERT(k->correlation == OF(KERNEL, correlationId) && k->device == OF(KERNEL, deviceId));
	CU_ASSERT(k->context == OF(KERNEL, contextId) && k->stream == OF(KERNEL, streamId));
	CU_ASSERT(k->grid[0] == OF(KERNEL, gridX) && k->grid[1] == OF(KERNEL, gridY) &&
		  k->grid[2] == OF(KERNEL, gridZ));
	CU_ASSERT(k->block[0] == OF(KERNEL, blockX) && k->block[1] == OF(KERNEL, blockY) &&
		  k->block[2] == OF(KERNEL, blockZ));
	CU_ASSERT(k->registers == OF(KERNEL, registersPerThread) &&
		  k->static_shared == OF(KERNEL, staticSharedMemory));
	CU_ASSERT(k->dynamic_shared == OF(KERNEL, dynamicSharedMemory));
	CU_ASSERT(k->local_per_thread == OF(KERNEL, localMemoryPerThread));
	CU_ASSERT(k->channel == OF(KERNEL, channelID) && k->channel_type == OF(KERNEL, channelType));
	CU_ASSERT(k->priority == (int32_t)OF(KERNEL, priority));
	CU_ASSERT_EQUAL(k->flags, PTB_GPU_HAS_GRAPH | PTB_GPU_HAS_CHANNEL | PTB_GPU_HAS_PRIORITY);
	SET(KERNEL, channelID, CUPTI_NONE);
	CU_ASSERT_EQUAL(take(216), CUPTI_TAKEN); /* of 13.0: no priority yet */
	CU_ASSERT(k->flags == PTB_GPU_HAS_GRAPH && k->priority == 0);
	forget();
}

static void check_memory(uint32_t correlation, uint64_t node, uint32_t graph, uint32_t channel,
			 uint32_t type)
{
	const struct ptb_gpu_memory *m = &out.memory;

	CU_ASSERT(m->begin == OF(COPY, start) && m->end == OF(COPY, end) && m->bytes == OF(COPY, bytes));
	CU_ASSERT(m->device == OF(COPY, deviceId) && m->context == OF(COPY, contextId) &&
		  m->stream == OF(COPY, streamId));
	CU_ASSERT(m->correlation == correlation && m->graph_node == node && m->graph == graph);
	CU_ASSERT(m->channel == channel && m->channel_type == type && m->h.tid == 0);
}

/* clang-format off */
#define CHECK_MEMORY(record)                                                                           \
	check_memory(OF(record, correlationId), OF(record, graphNodeId), OF(record, graphId),          \
		     OF(record, channelID), OF(record, channelType))
/* clang-format on */

TEST("copies and fills")
{
	const struct ptb_gpu_memory *m = &out.memory;

	fresh(PTB_CUPTI_MEMCPY);
	CUPTI_COPY_FIELDS(FIRST)
	CUPTI_MEMCPY_FIELDS(FIRST)
	CU_ASSERT_EQUAL(take(88), CUPTI_TAKEN);
	CHECK_MEMORY(MEMCPY);
	CU_ASSERT(m->h.kind == PTB_REC_GPU_MEMCPY && m->copy_kind == OF(COPY, copyKind) &&
		  m->src_kind == OF(COPY, srcKind) && m->dst_kind == OF(COPY, dstKind));
	CU_ASSERT_EQUAL(m->flags, PTB_GPU_HAS_GRAPH | PTB_GPU_HAS_CHANNEL);
	fresh(PTB_CUPTI_MEMCPY2);
	CUPTI_COPY_FIELDS(FIRST)
	CUPTI_PEER_FIELDS(FIRST)
	CU_ASSERT_EQUAL(take(96), CUPTI_TAKEN);
	CHECK_MEMORY(PEER);
	CU_ASSERT(m->h.kind == PTB_REC_GPU_MEMCPY && m->flags & PTB_GPU_PEER);
	CU_ASSERT(m->src_device == OF(PEER, srcDeviceId) && m->dst_device == OF(PEER, dstDeviceId) &&
		  m->src_context == OF(PEER, srcContextId) && m->dst_context == OF(PEER, dstContextId));
	fresh(PTB_CUPTI_MEMSET);
	CUPTI_MEMSET_FIELDS(FIRST)
	CU_ASSERT_EQUAL(take(88), CUPTI_TAKEN);
	CHECK_MEMORY(MEMSET);
	CU_ASSERT(m->h.kind == PTB_REC_GPU_MEMSET && m->copy_kind == OF(MEMSET, value) &&
		  m->dst_kind == OF(MEMSET, memoryKind) && m->src_kind == 0);
	forget();
}

TEST("calls and overhead")
{
	const struct ptb_gpu_api *a = &out.api;
	const struct ptb_gpu_overhead *o = &out.overhead;
	uint32_t tid = 4711;

	for (uint32_t kind = PTB_CUPTI_DRIVER; kind <= PTB_CUPTI_RUNTIME; kind++) {
		fresh(kind);
		CUPTI_API_FIELDS(FIRST)
		CU_ASSERT_EQUAL(take(40), CUPTI_TAKEN);
		CU_ASSERT(a->h.kind == PTB_REC_GPU_API && a->name == 77 &&
			  a->driver == (kind == PTB_CUPTI_DRIVER));
		CU_ASSERT(a->begin == OF(API, start) && a->end == OF(API, end) &&
			  a->cbid == OF(API, cbid));
		CU_ASSERT(a->correlation == OF(API, correlationId) && a->result == OF(API, returnValue));
		CU_ASSERT_EQUAL(a->h.tid, OF(API, threadId));
	}
	CU_ASSERT_EQUAL(cupti_decoder__take(&decoder, raw, 40, 0, false, &out), CUPTI_TAKEN);
	CU_ASSERT(a->h.tid == 0 && a->name == 0); /* a pthread_t, which is no thread id */
	fresh(PTB_CUPTI_OVERHEAD);
	CUPTI_OVERHEAD_FIELDS(FIRST)
	memcpy(raw + OVERHEAD_THREAD, &tid, sizeof(tid));
	CU_ASSERT_EQUAL(take(40), CUPTI_TAKEN);
	CU_ASSERT(o->begin == OF(OVERHEAD, start) && o->end == OF(OVERHEAD, end) &&
		  o->what == OF(OVERHEAD, overheadKind));
	CU_ASSERT_EQUAL(o->h.tid, 0); /* of another object than a thread */
	SET(OVERHEAD, objectKind, CUPTI_ACTIVITY_OBJECT_THREAD);
	take(40);
	CU_ASSERT_EQUAL(o->h.tid, tid);
}

/* ---- what earlier records define ---- */

static enum cupti_answer take_sync(uint32_t context, uint32_t stream, uint32_t event)
{
	fresh(PTB_CUPTI_SYNCHRONIZATION);
	SET(SYNC, type, 2);
	SET(SYNC, start, 100);
	SET(SYNC, end, 200);
	SET(SYNC, correlationId, 9);
	SET(SYNC, contextId, context);
	SET(SYNC, streamId, stream);
	SET(SYNC, cudaEventId, event);
	return take(40);
}

static void take_event(uint32_t context, uint32_t event, uint32_t correlation, size_t len)
{
	fresh(PTB_CUPTI_CUDA_EVENT);
	CUPTI_EVENT2_FIELDS(FIRST)
	SET(EVENT, correlationId, correlation);
	SET(EVENT, contextId, context);
	SET(EVENT, streamId, 13);
	SET(EVENT, eventId, event);
	CU_ASSERT_EQUAL(take(len), CUPTI_TAKEN);
}

TEST("events and synchronisation")
{
	const struct ptb_gpu_sync *s = &out.sync;
	const struct ptb_gpu_event *e = &out.event;

	CU_ASSERT_EQUAL(take_sync(OF(KERNEL, contextId), 7, 1), CUPTI_TAKEN);
	CU_ASSERT(s->begin == 100 && s->end == 200 && s->what == 2 && s->correlation == 9 &&
		  s->stream == 7);
	CU_ASSERT(s->device == ~0u && s->event == 1 && !s->event_correlation);
	set_kernel();
	take(224);
	take_event(OF(KERNEL, contextId), 1, 55, 24);
	CU_ASSERT(e->h.kind == PTB_REC_GPU_EVENT && e->correlation == 55 && e->stream == 13 &&
		  e->event == 1);
	CU_ASSERT(e->at == 0 && e->device == 0); /* of 12.7 and before */
	take_sync(OF(KERNEL, contextId), 0, 1);
	CU_ASSERT(s->device == OF(KERNEL, deviceId) && s->event_correlation == 55 &&
		  s->event_stream == 13);
	CU_ASSERT_EQUAL(s->stream, CUPTI_NONE);
	take_sync(OF(KERNEL, contextId), 0, CUPTI_NONE);
	CU_ASSERT(!s->event_correlation && !s->event_stream);
	take_event(OF(KERNEL, contextId), 1, 56, 56); /* recorded again */
	CU_ASSERT(e->at == OF(EVENT, deviceTimestamp) && e->device == OF(EVENT, deviceId));
	take_sync(OF(KERNEL, contextId), 0, 1);
	CU_ASSERT_EQUAL(s->event_correlation, 56);
	take_sync(OF(KERNEL, contextId) + 1, 0, 1); /* of another context */
	CU_ASSERT(s->device == ~0u && !s->event_correlation);
	forget();
}

/* ---- damaged records ---- */

TEST("without times")
{
	set_kernel();
	SET(KERNEL, end, 0);
	CU_ASSERT_EQUAL(take(224), CUPTI_INCOMPLETE);
	fresh(PTB_CUPTI_MEMSET);
	CU_ASSERT_EQUAL(take(88), CUPTI_INCOMPLETE);
	fresh(PTB_CUPTI_RUNTIME);
	SET(API, start, 1);
	CU_ASSERT_EQUAL(take(40), CUPTI_INCOMPLETE);
	fresh(PTB_CUPTI_OVERHEAD);
	CU_ASSERT_EQUAL(take(40), CUPTI_INCOMPLETE);
	fresh(PTB_CUPTI_SYNCHRONIZATION);
	CU_ASSERT_EQUAL(take(40), CUPTI_INCOMPLETE);
	forget();
}

static const struct {
	uint32_t kind, least;
} kinds[] = {
#define X(name, nr, bytes, record) { nr, bytes },
	PTB_CUPTI_KINDS(X)
#undef X
};
#define KIND_CNT (sizeof(kinds) / sizeof(*kinds))

TEST("too short, unknown")
{
	size_t len;

	for (size_t i = 0; i < KIND_CNT; i++) {
		fresh(kinds[i].kind);
		memset(raw + 8, 1, sizeof(raw) - 8);
		for (len = 0; len < kinds[i].least; len++)
			CU_ASSERT_EQUAL(take(len), CUPTI_UNKNOWN);
		for (; len < 300; len++)
			CU_ASSERT_EQUAL(take(len), CUPTI_TAKEN);
	}
	for (size_t i = 0; i < 1000; i++) {
		fresh((uint32_t)(i < 500 ? i : i << 8 | PTB_CUPTI_MEMCPY));
		for (len = 0; len < KIND_CNT && kinds[len].kind != i; len++)
			;
		if (len == KIND_CNT)
			CU_ASSERT_EQUAL(take(ROOM), CUPTI_UNKNOWN);
	}
	forget();
}

static uint64_t seed = 88172645463325252ull;

static uint64_t any(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	return seed ^= seed << 17;
}

/* Any bytes of any length: an answer, a record of the kind that it should be, and tables that do not grow for ever. */
TEST("any bytes")
{
	size_t len, taken = 0;
	uint64_t word;

	for (size_t i = 0; i < 400000; i++) {
		len = any() % (ROOM + 1);
		for (size_t at = 0; at < ROOM; at += 8) {
			word = any() & any();
			memcpy(raw + at, &word, 8);
		}
		if (i % 4)
			memcpy(raw, &kinds[any() % KIND_CNT].kind, 4);
		switch (take(len)) {
		case CUPTI_TAKEN:
			taken++;
			CU_ASSERT(out.h.kind >= PTB_REC_GPU_KERNEL && out.h.kind <= PTB_REC_GPU_OVERHEAD);
			break;
		case CUPTI_UNKNOWN:
		case CUPTI_INCOMPLETE:
			break;
		default:
			CU_FAIL("no answer");
		}
	}
	CU_ASSERT(taken > 100000);
	CU_ASSERT(decoder.devices.live <= 65536 && decoder.events.live <= 65536);
	CU_ASSERT(decoder.devices.live > 0 && decoder.events.live > 0);
	forget();
}

SUITE("cupti_decode")
