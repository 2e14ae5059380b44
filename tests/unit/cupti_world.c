/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See cupti_world.h. */
#include "cupti_world.h"

#include <dlfcn.h>
#include <sys/wait.h>
#include <time.h>

#include "chunk.h"

#define MAX_NAMES 200000

struct world world;
struct world_record *told;
size_t told_cnt;
struct ptb_arec_gpu_clock *told_clocks;
size_t told_clock_cnt;
static size_t told_room, clock_room;
static char *names[MAX_NAMES];

int world__case(void (*run)(void))
{
	int status = -1;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		alarm(120);
		run();
		_exit(0);
	}
	waitpid(pid, &status, 0);
	return status;
}

static void *resolve(void *lib, const char *name, bool needed)
{
	void *at = lib ? dlsym(lib, name) : NULL;

	CHECK(at || !needed);
	return at;
}

#define TAKE(lib, name, needed)                                  \
	do {                                                     \
		void *at_ = resolve(lib, #name, needed);         \
		memcpy(&world.name, &at_, sizeof(at_));          \
	} while (0)

void world__load(const char *cupti)
{
	void *cuda = dlopen(MOCK_CUDA_DIR "/libcuda.so.1", RTLD_NOW);
	void *cudart = dlopen(MOCK_CUDA_DIR "/libcudart.so.12", RTLD_NOW);
	void *lib = cupti ? dlopen(cupti, RTLD_NOW) : NULL;

	CHECK(cuda && cudart && (lib || !cupti));
#define X(name) TAKE(cuda, name, true);
	WORLD_DRIVER(X)
#undef X
#define X(name) TAKE(cudart, name, true);
	WORLD_RUNTIME(X)
#undef X
#define X(name) TAKE(lib, name, lib != NULL);
	WORLD_CUPTI(X)
#undef X
	CHECK(!world.cuInit(0));
	world.__cudaRegisterFunction(NULL, (const char *)&world.stub, NULL, "_Z6kernelPfi", -1, NULL, NULL, NULL,
				     NULL, NULL);
}

void world__launch(CUstream stream)
{
	dim3 grid = { 3, 2, 1 }, block = { 128, 1, 1 };

	CHECK(!world.cudaLaunchKernel(&world.stub, grid, block, NULL, 64, stream));
}

/* ---- in place of the agent ---- */

struct ptb_agent_ctl ptbpf_agent_ctl;
struct stream {
	int kind;
	_Alignas(8) uint8_t buf[PTB_CHUNK_MAX];
};
static struct stream gpu_stream = { PTB_CHUNK_GPU, { 0 } }, state_stream = { PTB_CHUNK_STATE, { 0 } };

bool agent__is_child(void)
{
	return false;
}

uint64_t agent__mono_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

struct stream *agent__state_stream(void)
{
	return &state_stream;
}

struct stream *stream__new(enum ptb_chunk_kind kind, uint32_t tid)
{
	CHECK(kind == PTB_CHUNK_GPU && !tid);
	return &gpu_stream;
}

bool stream__renew(struct stream *s)
{
	(void)s;
	return true;
}

void *stream__reserve(struct stream *s, uint32_t len, uint32_t *room)
{
	CHECK(len % 8 == 0 && len <= STREAM_RECORD_MAX);
	if (room)
		*room = STREAM_RECORD_MAX;
	return s->buf;
}

static void take_name(const struct ptb_arec *r)
{
	const uint8_t *p = (const uint8_t *)(r + 1);
	uint32_t id, len;

	memcpy(&id, p, 4);
	memcpy(&len, p + 4, 4);
	CHECK(id > 0 && id < MAX_NAMES && !names[id]);
	CHECK(len > 0 && sizeof(*r) + 8 + len <= r->len);
	names[id] = strndup((const char *)p + 8, len);
}

static size_t size_of(uint32_t kind)
{
	switch (kind) {
	case PTB_REC_GPU_KERNEL:
		return sizeof(struct ptb_gpu_kernel);
	case PTB_REC_GPU_MEMCPY:
	case PTB_REC_GPU_MEMSET:
		return sizeof(struct ptb_gpu_memory);
	case PTB_REC_GPU_API:
		return sizeof(struct ptb_gpu_api);
	case PTB_REC_GPU_SYNC:
		return sizeof(struct ptb_gpu_sync);
	case PTB_REC_GPU_EVENT:
		return sizeof(struct ptb_gpu_event);
	case PTB_REC_GPU_OVERHEAD:
		return sizeof(struct ptb_gpu_overhead);
	case PTB_REC_GPU_DEVICE:
		return sizeof(struct ptb_gpu_device);
	case PTB_REC_GPU_NOTE:
		return sizeof(struct ptb_gpu_note);
	}
	return 0;
}

static void take(const struct ptb_arec *r)
{
	size_t size = size_of(r->aux), hdr = sizeof(struct ptb_rec_hdr);
	struct world_record *to;

	if (r->aux == PTB_REC_GPU_NAME) {
		take_name(r);
		return;
	}
	CHECK(size && r->len == ((sizeof(*r) + size - hdr + 7) & ~(size_t)7));
	if (told_cnt == told_room) {
		told_room = told_room ? told_room * 2 : 1024;
		told = realloc(told, told_room * sizeof(*told));
	}
	to = &told[told_cnt++];
	memset(to, 0, sizeof(*to));
	to->kind = r->aux;
	to->tid = (uint32_t)r->ticks;
	memcpy((uint8_t *)&to->kernel + hdr, r + 1, size - hdr);
}

void stream__commit(struct stream *s, uint32_t len)
{
	struct ptb_arec r;

	memcpy(&r, s->buf, sizeof(r));
	CHECK(s == &gpu_stream && r.len == len && r.kind == PTB_AREC_GPU);
	take((const struct ptb_arec *)(const void *)s->buf);
}

void stream__put(struct stream *s, const struct ptb_arec *r)
{
	CHECK(s == &state_stream && r->kind == PTB_AREC_GPU_CLOCK && r->len == sizeof(*told_clocks));
	if (told_clock_cnt == clock_room) {
		clock_room = clock_room ? clock_room * 2 : 64;
		told_clocks = realloc(told_clocks, clock_room * sizeof(*told_clocks));
	}
	memcpy(&told_clocks[told_clock_cnt++], r, sizeof(*told_clocks));
}

void stream__send(struct stream *s)
{
	CHECK(s == &gpu_stream);
}

/* ---- what was told ---- */

void told__forget(void)
{
	told_cnt = told_clock_cnt = 0;
}

size_t told__count(uint32_t kind)
{
	size_t i, cnt = 0;

	for (i = 0; i < told_cnt; i++)
		cnt += told[i].kind == kind;
	return cnt;
}

const struct world_record *told__nth(uint32_t kind, size_t nth)
{
	size_t i;

	for (i = 0; i < told_cnt; i++)
		if (told[i].kind == kind && !nth--)
			return &told[i];
	return NULL;
}

const char *told__name(uint32_t id)
{
	if (!id)
		return "";
	CHECK(id < MAX_NAMES && names[id]);
	return names[id];
}

const struct ptb_gpu_api *told__call(uint32_t correlation, uint32_t *tid)
{
	size_t i;

	for (i = 0; i < told_cnt; i++) {
		if (told[i].kind != PTB_REC_GPU_API || told[i].api.correlation != correlation)
			continue;
		if (tid)
			*tid = told[i].tid;
		return &told[i].api;
	}
	return NULL;
}

uint64_t told__notes(uint32_t what)
{
	uint64_t sum = 0;
	size_t i;

	for (i = 0; i < told_cnt; i++)
		if (told[i].kind == PTB_REC_GPU_NOTE && told[i].note.what == what)
			sum += told[i].note.value;
	return sum;
}
