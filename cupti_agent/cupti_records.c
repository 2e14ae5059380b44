/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* CUPTI's records to the agent's; see cupti_records.h. */
#include <string.h>
#include <sys/mman.h>

#include "chunk.h"
#include "cupti_records.h"

#define MAX_NAMES (1u << 16)
#define MAX_TEXT 4000u /* of a kernel's mangled name */
#define MAX_EVENTS 4096u
#define MAX_CONTEXTS 256u

struct name_entry {
	uint64_t hash; /* 0: free */
	uint32_t id;
};

struct event_entry { /* the last cudaEventRecord of an event */
	uint32_t context, event, correlation, stream;
};

struct tables {
	struct name_entry names[MAX_NAMES];
	struct event_entry events[MAX_EVENTS];
	uint32_t device[MAX_CONTEXTS]; /* of a context, + 1; 0: not seen yet */
	uint32_t api_name[2][CUPTI_CBIDS]; /* driver, runtime; ~0: not wanted; 0: not looked at yet */
};

static const struct cupti_api *api;
static struct stream *out;
static struct tables *tables; /* mapped once, kept */
static uint32_t next_id = 1, names;
static bool tids;
static uint64_t unknown, incomplete;

int cupti_records__begin(const struct cupti_api *use, bool system_thread_ids)
{
	void *at = tables ? tables : mmap(NULL, sizeof(*tables), PROT_READ | PROT_WRITE,
					  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		return PTB_AGENT_WHY_NO_MEMORY;
	tables = at;
	memset(tables, 0, sizeof(*tables));
	if (!out)
		out = stream__new(PTB_CHUNK_GPU, 0);
	else
		stream__renew(out); /* for another tracer */
	if (!out)
		return PTB_AGENT_WHY_NO_MEMORY;
	api = use;
	tids = system_thread_ids;
	names = 0;
	unknown = incomplete = 0;
	return 0;
}

void cupti_records__end(void)
{
	cupti_record__note(PTB_GPU_UNKNOWN, unknown);
	cupti_record__note(PTB_GPU_DROPPED, incomplete);
	unknown = incomplete = 0;
	cupti_records__send();
}

void cupti_records__send(void)
{
	if (out)
		stream__send(out);
}

void cupti_record__put(uint32_t kind, uint32_t tid, const void *rec, size_t size)
{
	uint32_t body = (uint32_t)(size - sizeof(struct ptb_rec_hdr));
	uint32_t len = ((uint32_t)sizeof(struct ptb_arec) + body + 7) & ~7u;
	struct ptb_arec *r = out ? stream__reserve(out, len, NULL) : NULL;

	if (!r)
		return;
	memset(r, 0, len);
	*r = (struct ptb_arec){ .len = (uint16_t)len, .kind = PTB_AREC_GPU, .aux = kind, .ticks = tid };
	memcpy(r + 1, (const uint8_t *)rec + sizeof(struct ptb_rec_hdr), body);
	stream__commit(out, len);
}

void cupti_record__note(enum ptb_gpu_notes what, uint64_t value)
{
	struct ptb_gpu_note n = { .value = value, .what = what };

	if (value)
		cupti_record__put(PTB_REC_GPU_NOTE, 0, &n, sizeof(n));
}

/* ---- names ---- */

/* Over the whole text: a module that is unloaded leaves its names' addresses to others. */
static uint64_t hash_of(const char *text, uint32_t len)
{
	uint64_t h = 0x9e3779b97f4a7c15ULL ^ len, word;
	uint32_t i;

	for (i = 0; i < len; i += 8) {
		word = 0;
		memcpy(&word, text + i, len - i < 8 ? len - i : 8);
		h = (h ^ word) * 0xff51afd7ed558ccdULL;
		h ^= h >> 32;
	}
	return h ? h : 1;
}

static void tell_name(uint32_t id, const char *text, uint32_t len, bool cut)
{
	uint32_t fixed = (uint32_t)(sizeof(struct ptb_arec) + sizeof(struct ptb_text) -
				    sizeof(struct ptb_rec_hdr));
	uint32_t whole = (fixed + len + 7) & ~7u;
	uint8_t *at = stream__reserve(out, whole, NULL);
	struct ptb_arec r = { .len = (uint16_t)whole, .kind = PTB_AREC_GPU, .aux = PTB_REC_GPU_NAME,
			      .flags = cut ? PTB_AREC_TEXT_CUT : 0 };

	if (!at)
		return;
	memset(at, 0, whole);
	memcpy(at, &r, sizeof(r));
	memcpy(at + sizeof(r), &id, sizeof(id));
	memcpy(at + sizeof(r) + sizeof(id), &len, sizeof(len));
	memcpy(at + fixed, text, len);
	stream__commit(out, whole);
}

static uint32_t name_id(const char *text, uint32_t len, bool cut)
{
	uint64_t h = hash_of(text, len);
	size_t at = h % MAX_NAMES;

	if (names > MAX_NAMES / 4 * 3) { /* begin again: ids are never used twice */
		memset(tables->names, 0, sizeof(tables->names));
		memset(tables->api_name, 0, sizeof(tables->api_name));
		names = 0;
	}
	while (tables->names[at].hash && tables->names[at].hash != h)
		at = (at + 1) % MAX_NAMES;
	if (!tables->names[at].hash) {
		tables->names[at] = (struct name_entry){ .hash = h, .id = next_id++ };
		names++;
		tell_name(tables->names[at].id, text, len, cut);
	}
	return tables->names[at].id;
}

uint32_t cupti_name__id(const char *text)
{
	size_t len = text && out && tables ? strnlen(text, MAX_TEXT + 1) : 0;

	return len ? name_id(text, (uint32_t)(len > MAX_TEXT ? MAX_TEXT : len), len > MAX_TEXT) : 0;
}

/* "cudaLaunchKernel_v7000": what torch's profiler shows ends before "_v" and four or more digits. */
static uint32_t base_len(const char *name)
{
	size_t len = strlen(name), i = len;

	while (i > 0 && name[i - 1] >= '0' && name[i - 1] <= '9')
		i--;
	return (uint32_t)(len - i >= 4 && i > 2 && name[i - 1] == 'v' && name[i - 2] == '_' ? i - 2 : len);
}

static bool is_one_of(const char *name, uint32_t len, const char *const *list, size_t cnt)
{
	size_t i;

	for (i = 0; i < cnt; i++)
		if (strlen(list[i]) == len && !memcmp(name, list[i], len))
			return true;
	return false;
}

#define STARTS(text, with) (!strncmp(text, with, sizeof(with) - 1))

static bool is_wanted(uint32_t domain, const char *name, uint32_t len)
{
	static const char *const never[] = { "cudaGetDevice", "cudaSetDevice", "cudaGetLastError",
					     "cudaEventCreate", "cudaEventCreateWithFlags", "cudaEventDestroy" };

	if (domain == CUPTI_CB_DOMAIN_RUNTIME_API)
		return !is_one_of(name, len, never, sizeof(never) / sizeof(*never));
	return STARTS(name, "cuLaunch") ||
	       (STARTS(name, "cuMem") && !STARTS(name, "cuMemGet") && !STARTS(name, "cuMemPool"));
}

bool cupti_api__is_wanted(uint32_t domain, uint32_t cbid)
{
	static int8_t known[2][CUPTI_CBIDS]; /* 1, -1; 0: not asked yet */
	int8_t *slot = &known[domain - 1][cbid];
	const char *name = NULL;

	if (!*slot)
		*slot = !api->callback_name(domain, cbid, &name) && name && is_wanted(domain, name, base_len(name)) ?
				1 : -1;
	return *slot > 0;
}

/* 0: not known; ~0: not wanted */
static uint32_t api_name(uint32_t domain, uint32_t cbid)
{
	uint32_t *slot = cbid < CUPTI_CBIDS ? &tables->api_name[domain - 1][cbid] : NULL;
	const char *name = NULL;
	uint32_t id;

	if (slot && *slot)
		return *slot;
	if (api->callback_name(domain, cbid, &name) || !name || !name[0])
		return 0;
	id = is_wanted(domain, name, base_len(name)) ? name_id(name, base_len(name), false) : ~0u;
	if (slot)
		*slot = id;
	return id;
}

/* ---- records ---- */

/* A forced flush has records that are not complete: without times they mean nothing. */
static bool has_times(uint64_t start, uint64_t end)
{
	if (start && end)
		return true;
	incomplete++;
	return false;
}

static void learn_device(uint32_t context, uint32_t device)
{
	tables->device[context % MAX_CONTEXTS] = device + 1;
}

static void take_kernel(const uint8_t *p, size_t len)
{
	struct ptb_gpu_kernel k = {
		.begin = FIELD(p, KERNEL, start), .end = FIELD(p, KERNEL, end),
		.queued = FIELD(p, KERNEL, queued), .submitted = FIELD(p, KERNEL, submitted),
		.graph_node = FIELD(p, KERNEL, graphNodeId), .graph = FIELD(p, KERNEL, graphId),
		.correlation = FIELD(p, KERNEL, correlationId), .device = FIELD(p, KERNEL, deviceId),
		.context = FIELD(p, KERNEL, contextId), .stream = FIELD(p, KERNEL, streamId),
		.grid = { (uint32_t)FIELD(p, KERNEL, gridX), (uint32_t)FIELD(p, KERNEL, gridY),
			  (uint32_t)FIELD(p, KERNEL, gridZ) },
		.block = { (uint32_t)FIELD(p, KERNEL, blockX), (uint32_t)FIELD(p, KERNEL, blockY),
			   (uint32_t)FIELD(p, KERNEL, blockZ) },
		.registers = FIELD(p, KERNEL, registersPerThread),
		.static_shared = (uint32_t)FIELD(p, KERNEL, staticSharedMemory),
		.dynamic_shared = (uint32_t)FIELD(p, KERNEL, dynamicSharedMemory),
		.local_per_thread = FIELD(p, KERNEL, localMemoryPerThread),
		.channel = FIELD(p, KERNEL, channelID), .channel_type = FIELD(p, KERNEL, channelType),
		.flags = PTB_GPU_HAS_GRAPH,
	};

	if (!has_times(k.begin, k.end))
		return;
	learn_device(k.context, k.device);
	k.name = cupti_name__id((const char *)(uintptr_t)FIELD(p, KERNEL, name));
	if (k.channel != CUPTI_NONE)
		k.flags |= PTB_GPU_HAS_CHANNEL;
	if (HAS_FIELD(len, KERNEL, priority)) {
		k.priority = FIELD(p, KERNEL, priority);
		k.flags |= PTB_GPU_HAS_PRIORITY;
	}
	cupti_record__put(PTB_REC_GPU_KERNEL, 0, &k, sizeof(k));
}

static void put_memory(uint32_t kind, struct ptb_gpu_memory *m)
{
	learn_device(m->context, m->device);
	m->flags |= PTB_GPU_HAS_GRAPH | (m->channel != CUPTI_NONE ? PTB_GPU_HAS_CHANNEL : 0);
	if (has_times(m->begin, m->end))
		cupti_record__put(kind, 0, m, sizeof(*m));
}

static void take_copy(const uint8_t *p, bool peer)
{
	struct ptb_gpu_memory m = {
		.begin = FIELD(p, COPY, start), .end = FIELD(p, COPY, end), .bytes = FIELD(p, COPY, bytes),
		.device = FIELD(p, COPY, deviceId), .context = FIELD(p, COPY, contextId),
		.stream = FIELD(p, COPY, streamId), .copy_kind = FIELD(p, COPY, copyKind),
		.src_kind = FIELD(p, COPY, srcKind), .dst_kind = FIELD(p, COPY, dstKind),
	};

	if (peer) {
		m.correlation = FIELD(p, PEER, correlationId);
		m.graph_node = FIELD(p, PEER, graphNodeId);
		m.graph = FIELD(p, PEER, graphId);
		m.channel = FIELD(p, PEER, channelID);
		m.channel_type = FIELD(p, PEER, channelType);
		m.src_device = FIELD(p, PEER, srcDeviceId);
		m.src_context = FIELD(p, PEER, srcContextId);
		m.dst_device = FIELD(p, PEER, dstDeviceId);
		m.dst_context = FIELD(p, PEER, dstContextId);
		m.flags = PTB_GPU_PEER;
	} else {
		m.correlation = FIELD(p, MEMCPY, correlationId);
		m.graph_node = FIELD(p, MEMCPY, graphNodeId);
		m.graph = FIELD(p, MEMCPY, graphId);
		m.channel = FIELD(p, MEMCPY, channelID);
		m.channel_type = FIELD(p, MEMCPY, channelType);
	}
	put_memory(PTB_REC_GPU_MEMCPY, &m);
}

static void take_memset(const uint8_t *p)
{
	struct ptb_gpu_memory m = {
		.begin = FIELD(p, MEMSET, start), .end = FIELD(p, MEMSET, end),
		.bytes = FIELD(p, MEMSET, bytes), .graph_node = FIELD(p, MEMSET, graphNodeId),
		.correlation = FIELD(p, MEMSET, correlationId), .device = FIELD(p, MEMSET, deviceId),
		.context = FIELD(p, MEMSET, contextId), .stream = FIELD(p, MEMSET, streamId),
		.graph = FIELD(p, MEMSET, graphId), .copy_kind = FIELD(p, MEMSET, value),
		.dst_kind = FIELD(p, MEMSET, memoryKind), .channel = FIELD(p, MEMSET, channelID),
		.channel_type = FIELD(p, MEMSET, channelType),
	};

	put_memory(PTB_REC_GPU_MEMSET, &m);
}

static void take_api(const uint8_t *p, uint32_t domain)
{
	struct ptb_gpu_api a = {
		.begin = FIELD(p, API, start), .end = FIELD(p, API, end),
		.correlation = FIELD(p, API, correlationId), .cbid = FIELD(p, API, cbid),
		.result = FIELD(p, API, returnValue), .driver = domain == CUPTI_CB_DOMAIN_DRIVER_API,
	};

	a.name = api_name(domain, a.cbid);
	if (a.name != ~0u && has_times(a.begin, a.end))
		cupti_record__put(PTB_REC_GPU_API, tids ? FIELD(p, API, threadId) : 0, &a, sizeof(a));
}

static void take_overhead(const uint8_t *p)
{
	struct ptb_gpu_overhead o = { .begin = FIELD(p, OVERHEAD, start), .end = FIELD(p, OVERHEAD, end),
				      .what = FIELD(p, OVERHEAD, overheadKind) };
	uint32_t tid = 0;

	if (tids && FIELD(p, OVERHEAD, objectKind) == CUPTI_ACTIVITY_OBJECT_THREAD)
		memcpy(&tid, p + OVERHEAD_THREAD, sizeof(tid));
	if (has_times(o.begin, o.end))
		cupti_record__put(PTB_REC_GPU_OVERHEAD, tid, &o, sizeof(o));
}

static struct event_entry *event_slot(uint32_t context, uint32_t event)
{
	return &tables->events[(context * 31 + event) % MAX_EVENTS];
}

static void take_event(const uint8_t *p, size_t len)
{
	struct ptb_gpu_event e = {
		.correlation = FIELD(p, EVENT, correlationId), .context = FIELD(p, EVENT, contextId),
		.stream = FIELD(p, EVENT, streamId), .event = FIELD(p, EVENT, eventId),
	};

	if (HAS_FIELD(len, EVENT, deviceTimestamp)) {
		e.device = FIELD(p, EVENT, deviceId);
		e.at = FIELD(p, EVENT, deviceTimestamp);
	}
	*event_slot(e.context, e.event) = (struct event_entry){ .context = e.context, .event = e.event,
								 .correlation = e.correlation,
								 .stream = e.stream };
	cupti_record__put(PTB_REC_GPU_EVENT, 0, &e, sizeof(e));
}

static void take_sync(const uint8_t *p)
{
	struct ptb_gpu_sync s = {
		.begin = FIELD(p, SYNC, start), .end = FIELD(p, SYNC, end), .what = FIELD(p, SYNC, type),
		.correlation = FIELD(p, SYNC, correlationId), .context = FIELD(p, SYNC, contextId),
		.stream = FIELD(p, SYNC, streamId), .event = FIELD(p, SYNC, cudaEventId),
	};
	const struct event_entry *e = event_slot(s.context, s.event);

	s.device = tables->device[s.context % MAX_CONTEXTS] - 1; /* ~0: not known */
	if (!s.stream) /* CUPTI_INVALID_STREAM_ID since 13.2 */
		s.stream = CUPTI_NONE;
	if (s.event != CUPTI_NONE && e->correlation && e->context == s.context && e->event == s.event) {
		s.event_correlation = e->correlation;
		s.event_stream = e->stream;
	}
	if (has_times(s.begin, s.end))
		cupti_record__put(PTB_REC_GPU_SYNC, 0, &s, sizeof(s));
}

static void take_record(const uint8_t *p, size_t len)
{
	static const struct {
		uint32_t kind;
		size_t bytes;
	} least[] = {
#define X(name, nr, bytes) { nr, bytes },
		CUPTI_KINDS(X)
#undef X
	};
	uint32_t kind;
	size_t i = 0;

	memcpy(&kind, p, sizeof(kind));
	while (i < sizeof(least) / sizeof(*least) && least[i].kind != kind)
		i++;
	if (i == sizeof(least) / sizeof(*least) || len < least[i].bytes) {
		unknown++;
		return;
	}
	switch (kind) {
	case CUPTI_KIND_CONCURRENT_KERNEL: take_kernel(p, len); break;
	case CUPTI_KIND_MEMCPY: take_copy(p, false); break;
	case CUPTI_KIND_MEMCPY2: take_copy(p, true); break;
	case CUPTI_KIND_MEMSET: take_memset(p); break;
	case CUPTI_KIND_RUNTIME: take_api(p, CUPTI_CB_DOMAIN_RUNTIME_API); break;
	case CUPTI_KIND_DRIVER: take_api(p, CUPTI_CB_DOMAIN_DRIVER_API); break;
	case CUPTI_KIND_OVERHEAD: take_overhead(p); break;
	case CUPTI_KIND_CUDA_EVENT: take_event(p, len); break;
	case CUPTI_KIND_SYNCHRONIZATION: take_sync(p); break;
	}
}

void cupti_records__take(uint8_t *buffer, size_t valid)
{
	uint8_t *rec = NULL, *prev = NULL, *end = buffer + valid;

	while (!api->next_record(buffer, valid, &rec) && rec >= buffer && rec + 8 <= end && rec > prev) {
		if (prev)
			take_record(prev, (size_t)(rec - prev));
		prev = rec;
	}
	if (prev)
		take_record(prev, (size_t)(end - prev));
}
