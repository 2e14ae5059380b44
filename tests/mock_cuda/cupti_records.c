/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Records as CUPTI's of 11.8 to 13.2 lay them out, written from its documentation; tests hold the agent's table
 * and, through it, these against the real headers. What versions added is at the ends.
 */
#include <string.h>
#include <unistd.h>

#include "cupti_mock.h"

#define PACKED __attribute__((packed, aligned(8)))

struct PACKED kernel {
	uint32_t kind;
	uint8_t cache, shared_config;
	uint16_t registers;
	uint32_t requested, executed;
	uint64_t start, end, completed;
	uint32_t device, context, stream;
	int32_t grid[3], block[3], static_shared, dynamic_shared;
	uint32_t local, local_total, correlation;
	int64_t grid_id;
	const char *name;
	void *reserved;
	uint64_t queued, submitted;
	uint8_t launch[4];
	uint32_t shared_executed;
	uint64_t node;
	uint32_t shmem_limit, graph;
	void *window;
	uint32_t channel, channel_type, cluster[4];
	uint64_t local_total2;            /* Kernel8 of 11.8 ends here */
	uint32_t clusters[2];             /* Kernel9 */
	uint8_t device_launched, pad3[7]; /* Kernel10 */
	int32_t priority;                 /* Kernel11 */
	uint32_t pad4;
};

struct PACKED copy {
	uint32_t kind;
	uint8_t copy, src, dst, flags;
	uint64_t bytes, start, end;
	uint32_t device, context, stream, correlation, runtime_correlation, pad;
	void *reserved;
	uint64_t node;
	uint32_t graph, channel, channel_type;
	uint8_t device_launched, pad2[3]; /* Memcpy5 ends here */
	uint64_t copies;                  /* Memcpy6 */
};

struct PACKED peer {
	uint32_t kind;
	uint8_t copy, src, dst, flags;
	uint64_t bytes, start, end;
	uint32_t device, context, stream, src_device, src_context, dst_device, dst_context, correlation;
	void *reserved;
	uint64_t node;
	uint32_t graph, channel, channel_type;
};

struct PACKED fill {
	uint32_t kind, value;
	uint64_t bytes, start, end;
	uint32_t device, context, stream, correlation;
	uint16_t flags, memory;
	uint32_t pad;
	void *reserved;
	uint64_t node;
	uint32_t graph, channel, channel_type;
	uint8_t device_launched, pad2[3];
};

struct PACKED call {
	uint32_t kind, cbid;
	uint64_t start, end;
	uint32_t process, thread, correlation, result;
};

struct PACKED sync {
	uint32_t kind, type;
	uint64_t start, end;
	uint32_t correlation, context, stream, event; /* Synchronization ends here */
	uint64_t event_sync;                          /* Synchronization2 */
	uint32_t result, pad;
};

struct PACKED event {
	uint32_t kind, correlation, context, stream, event, pad; /* CudaEvent ends here */
	uint32_t device, pad2;                                   /* CudaEvent2 */
	void *reserved;
	uint64_t at, event_sync;
};

uint32_t mock_cupti__kind(const struct mock_activity *a)
{
	switch (a->what) {
	case MOCK_CALL:
		return a->domain == MOCK_RUNTIME ? 5 : 4;
	case MOCK_KERNEL:
		return 10;
	case MOCK_MEMCPY:
		return 1;
	case MOCK_PEER:
		return 22;
	case MOCK_MEMSET:
		return 2;
	case MOCK_SYNC:
		return 38;
	case MOCK_EVENT:
		return 36;
	}
	return 0;
}

static size_t kernel_size(uint32_t version)
{
	if (version >= 130100)
		return sizeof(struct kernel);
	if (version >= 130000)
		return 216;
	return version >= 19 ? 208 : 200;
}

size_t mock_cupti_size(uint32_t version, uint32_t kind)
{
	bool new = version >= 26;

	switch (kind) {
	case 10:
		return kernel_size(version);
	case 1:
		return new ? sizeof(struct copy) : sizeof(struct copy) - 8;
	case 22:
		return sizeof(struct peer);
	case 2:
		return sizeof(struct fill);
	case 38:
		return new ? sizeof(struct sync) : 40;
	case 36:
		return new ? sizeof(struct event) : 24;
	case 17:
		return version >= 22 ? 56 : 40;
	}
	return sizeof(struct call);
}

size_t mock_cupti__record_size(const uint8_t *record)
{
	uint32_t kind;

	memcpy(&kind, record, sizeof(kind));
	return mock_cupti_size(mock_cupti__settings()->version, kind);
}

static uint64_t time_of(uint64_t mono)
{
	return mono ? mock_cupti__time(mono) : 0;
}

static void set_wrong_times(struct kernel *k)
{
	const uint64_t hour = 3600000000000, begin = k->start, end = k->end;
	uint32_t every = mock_cupti__settings()->wrong;

	if (!every || k->correlation % every)
		return;
	k->start = (uint64_t[]){ 0, end + 1, begin - hour, begin + hour }[k->correlation / every % 4];
	k->end = (uint64_t[]){ 0, begin, end - hour, end + hour }[k->correlation / every % 4];
}

static void make_kernel(void *to, const struct mock_activity *a)
{
	struct kernel k = { .kind = 10,
			    .registers = 32,
			    .start = time_of(a->begin),
			    .end = time_of(a->end),
			    .device = a->device,
			    .context = a->context,
			    .stream = a->stream,
			    .dynamic_shared = (int32_t)a->shared,
			    .static_shared = 1024,
			    .local = 16,
			    .correlation = a->correlation,
			    .name = a->name,
			    .node = a->node,
			    .graph = a->graph,
			    .channel = 4,
			    .channel_type = 1,
			    .priority = -1 };

	set_wrong_times(&k);
	memcpy(k.grid, a->grid, sizeof(k.grid));
	memcpy(k.block, a->block, sizeof(k.block));
	memcpy(to, &k, sizeof(k));
}

static void make_copy(void *to, const struct mock_activity *a)
{
	struct copy c = { .kind = 1,
			  .copy = (uint8_t)a->copy_kind,
			  .src = (uint8_t)a->src_kind,
			  .dst = (uint8_t)a->dst_kind,
			  .bytes = a->bytes,
			  .start = time_of(a->begin),
			  .end = time_of(a->end),
			  .device = a->device,
			  .context = a->context,
			  .stream = a->stream,
			  .correlation = a->correlation,
			  .node = a->node,
			  .graph = a->graph,
			  .channel = 5,
			  .channel_type = 2,
			  .copies = 1 };

	memcpy(to, &c, sizeof(c));
}

static void make_peer(void *to, const struct mock_activity *a)
{
	struct peer p = { .kind = 22,
			  .copy = (uint8_t)a->copy_kind,
			  .src = (uint8_t)a->src_kind,
			  .dst = (uint8_t)a->dst_kind,
			  .bytes = a->bytes,
			  .start = time_of(a->begin),
			  .end = time_of(a->end),
			  .device = a->device,
			  .context = a->context,
			  .stream = a->stream,
			  .correlation = a->correlation,
			  .node = a->node,
			  .src_device = a->device,
			  .src_context = a->context,
			  .dst_device = a->dst_device,
			  .dst_context = 2,
			  .graph = a->graph,
			  .channel = ~0u };

	memcpy(to, &p, sizeof(p));
}

static void make_fill(void *to, const struct mock_activity *a)
{
	struct fill f = { .kind = 2,
			  .value = a->value,
			  .bytes = a->bytes,
			  .start = time_of(a->begin),
			  .end = time_of(a->end),
			  .device = a->device,
			  .context = a->context,
			  .stream = a->stream,
			  .correlation = a->correlation,
			  .node = a->node,
			  .memory = (uint16_t)a->dst_kind,
			  .graph = a->graph,
			  .channel = ~0u };

	memcpy(to, &f, sizeof(f));
}

static void make_call(void *to, const struct mock_activity *a)
{
	struct call c = { .kind = mock_cupti__kind(a),
			  .cbid = mock_cupti__cbid(a->domain, a->name),
			  .start = time_of(a->begin),
			  .end = time_of(a->end),
			  .process = (uint32_t)getpid(),
			  .thread = a->tid,
			  .correlation = a->correlation,
			  .result = (uint32_t)a->result };

	memcpy(to, &c, sizeof(c));
}

static void make_sync(void *to, const struct mock_activity *a)
{
	bool none_is_0 = mock_cupti__settings()->version >= 130200;
	struct sync s = { .kind = 38,
			  .type = a->sync_kind,
			  .start = time_of(a->begin),
			  .end = time_of(a->end),
			  .correlation = a->correlation,
			  .context = a->context,
			  .event = a->event,
			  .stream = a->stream == ~0u && none_is_0 ? 0 : a->stream };

	memcpy(to, &s, sizeof(s));
}

static void make_event(void *to, const struct mock_activity *a)
{
	struct event e = { .kind = 36,
			   .correlation = a->correlation,
			   .context = a->context,
			   .stream = a->stream,
			   .event = a->event,
			   .device = a->device,
			   .at = time_of(a->begin) };

	memcpy(to, &e, sizeof(e));
}

size_t mock_cupti__record(uint8_t *to, const struct mock_activity *a)
{
	switch (a->what) {
	case MOCK_CALL:
		make_call(to, a);
		break;
	case MOCK_KERNEL:
		make_kernel(to, a);
		break;
	case MOCK_MEMCPY:
		make_copy(to, a);
		break;
	case MOCK_PEER:
		make_peer(to, a);
		break;
	case MOCK_MEMSET:
		make_fill(to, a);
		break;
	case MOCK_SYNC:
		make_sync(to, a);
		break;
	case MOCK_EVENT:
		make_event(to, a);
		break;
	}
	return mock_cupti__record_size(to);
}
