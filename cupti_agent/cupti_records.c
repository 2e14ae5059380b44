/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* CUPTI's records into the agent's stream; see cupti_records.h. */
#include "cupti_records.h"

#include <string.h>

#include "chunk.h"

#define MAX_NAMES (1u << 16)
#define MAX_TEXT 4000u /* of a kernel's mangled name */
#define WANTED 1u      /* its name has no id yet; ids are greater */
#define UNWANTED UINT32_MAX

static struct { /* not resident before the first session */
	struct name_entry {
		uint64_t hash; /* 0: free */
		uint32_t id;
	} names[MAX_NAMES];
	/* driver, runtime: id, WANTED, UNWANTED; 0: not inspected yet */
	uint32_t calls[2][CUPTI_CBIDS];
} tables;

static const struct cupti_api *api;
static struct stream *out;
static uint32_t next_id = WANTED + 1, names;
static bool tids;

int cupti_records__begin(const struct cupti_api *use, bool system_thread_ids)
{
	if (out)
		stream__renew(out); /* for another tracer */
	else
		out = stream__new(PTB_CHUNK_GPU, 0);
	memset(&tables, 0, sizeof(tables));
	names = 0;
	api = use;
	tids = system_thread_ids;
	return out ? 0 : PTB_AGENT_WHY_NO_MEMORY;
}

void cupti_records__send(void)
{
	if (out)
		stream__send(out);
}

bool cupti_record__put(struct ptb_arec *r, size_t fixed, const void *tail, size_t len)
{
	uint32_t whole = (uint32_t)(fixed + len + 7) & ~7u;
	uint8_t *at = out ? stream__reserve(out, whole, NULL) : NULL;

	if (!at)
		return false;
	r->len = (uint16_t)whole;
	memset(at + whole - 8, 0, 8);
	memcpy(at, r, fixed);
	if (len)
		memcpy(at + fixed, tail, len);
	stream__commit(out, whole);
	return true;
}

void cupti_records__drop(uint32_t cnt)
{
	while (out && cnt--)
		stream__drop(out);
}

void cupti_record__note(enum ptb_gpu_notes what, uint64_t value)
{
	struct ptb_arec_gpu_note n = { .r = { .kind = PTB_AREC_GPU_NOTE, .aux = what },
				       .value = value };

	if (value)
		cupti_record__put(&n.r, sizeof(n), NULL, 0);
}

/* ---- names ---- */

/* Over the whole text: a module that is unloaded leaves its names' addresses to others. */
static uint64_t hash_of(const char *text, size_t len)
{
	uint64_t h = 0x9e3779b97f4a7c15ULL ^ len, word;

	for (size_t i = 0; i < len; i += 8) {
		word = 0;
		memcpy(&word, text + i, len - i < 8 ? len - i : 8);
		h = (h ^ word) * 0xff51afd7ed558ccdULL;
		h ^= h >> 32;
	}
	return h ? h : 1;
}

static uint32_t name_id(const char *text, size_t len)
{
	struct ptb_arec_gpu_name n = { .r = { .kind = PTB_AREC_GPU_NAME, .aux = next_id } };
	uint64_t h = hash_of(text, len);
	size_t at = h % MAX_NAMES;

	if (names > MAX_NAMES / 4 * 3) { /* begin again: ids are never used twice */
		memset(&tables, 0, sizeof(tables));
		names = 0;
	}
	while (tables.names[at].hash && tables.names[at].hash != h)
		at = (at + 1) % MAX_NAMES;
	if (tables.names[at].hash)
		return tables.names[at].id;
	n.bytes = len < MAX_TEXT ? len : MAX_TEXT;
	n.r.flags = len > MAX_TEXT ? PTB_AREC_TEXT_CUT : 0;
	if (!cupti_record__put(&n.r, sizeof(n), text, n.bytes))
		return 0; /* sent with its next record */
	tables.names[at] = (struct name_entry){ .hash = h, .id = next_id };
	names++;
	return next_id++;
}

uint32_t cupti_name__id(const char *text)
{
	size_t len = text ? strnlen(text, MAX_TEXT + 1) : 0;

	return len ? name_id(text, len) : 0;
}

/* "cudaLaunchKernel_v7000": what torch's profiler shows ends before "_v" and four or more
 * digits. */
static size_t base_len(const char *name)
{
	size_t len = strlen(name), i = len;

	while (i > 0 && name[i - 1] >= '0' && name[i - 1] <= '9')
		i--;
	return len - i >= 4 && i > 2 && name[i - 1] == 'v' && name[i - 2] == '_' ? i - 2 : len;
}

#define STARTS(text, with) (!strncmp(text, with, sizeof(with) - 1))

static bool is_wanted(uint32_t domain, const char *name, size_t len)
{
	static const char *const never[] = { "cudaGetDevice",
					     "cudaSetDevice",
					     "cudaGetLastError",
					     "cudaEventCreate",
					     "cudaEventCreateWithFlags",
					     "cudaEventDestroy" };

	if (domain == CUPTI_CB_DOMAIN_DRIVER_API)
		return STARTS(name, "cuLaunch") ||
		       (STARTS(name, "cuMem") && !STARTS(name, "cuMemGet") &&
			!STARTS(name, "cuMemPool"));
	for (size_t i = 0; i < sizeof(never) / sizeof(*never); i++)
		if (strlen(never[i]) == len && !memcmp(name, never[i], len))
			return false;
	return true;
}

/* UNWANTED, WANTED or, where the name is to be sent, its id; 0: it has none. */
static uint32_t call_id(uint32_t domain, uint32_t cbid, bool send)
{
	uint32_t *slot = cbid < CUPTI_CBIDS ? &tables.calls[domain - 1][cbid] : NULL, id;
	const char *name = NULL;

	if (slot && *slot && (*slot != WANTED || !send))
		return *slot;
	if (!slot || api->callback_name(domain, cbid, &name) || !name || !name[0])
		return 0;
	id = !is_wanted(domain, name, base_len(name)) ? UNWANTED :
	     send                                     ? name_id(name, base_len(name)) :
							WANTED;
	return *slot = id;
}

bool cupti_call__is_unwanted(uint32_t domain, uint32_t cbid)
{
	return call_id(domain, cbid, false) == UNWANTED;
}

/* ---- records ---- */

/* A forced flush has kernels that have not ended, of which nothing is to be believed. */
static uint32_t kernel_name(const uint8_t *p)
{
	const char *name;
	uint64_t end;

	memcpy(&end, p + CUPTI_KERNEL_END, sizeof(end));
	memcpy(&name, p + CUPTI_KERNEL_NAME, sizeof(name));
	return end ? cupti_name__id(name) : 0;
}

static void take_record(const uint8_t *p, size_t len)
{
	struct ptb_arec r = { .kind = PTB_AREC_CUPTI, .flags = tids ? PTB_AREC_TIDS : 0 };
	uint32_t kind, cbid;

	memcpy(&kind, p, sizeof(kind));
	memcpy(&cbid, p + CUPTI_API_CBID, sizeof(cbid));
	if (kind == PTB_CUPTI_CONCURRENT_KERNEL && len >= CUPTI_KERNEL_USED) {
		r.aux = kernel_name(p);
		len = len > CUPTI_KERNEL_PRIORITY ? len : CUPTI_KERNEL_USED;
	} else if (kind == PTB_CUPTI_RUNTIME) {
		r.aux = call_id(CUPTI_CB_DOMAIN_RUNTIME_API, cbid, true);
	} else if (kind == PTB_CUPTI_DRIVER) {
		r.aux = call_id(CUPTI_CB_DOMAIN_DRIVER_API, cbid, true);
	}
	if (r.aux != UNWANTED)
		cupti_record__put(&r, sizeof(r), p,
				  len < PTB_CUPTI_RECORD_MAX ? len : PTB_CUPTI_RECORD_MAX);
}

void cupti_records__take(uint8_t *buffer, size_t valid)
{
	uint8_t *rec = NULL, *prev = NULL, *end = buffer + valid;

	while (!api->next_record(buffer, valid, &rec) && rec >= buffer && rec + 8 <= end &&
	       rec > prev) {
		if (prev)
			take_record(prev, (size_t)(rec - prev));
		prev = rec;
	}
	if (prev)
		take_record(prev, (size_t)(end - prev));
}
