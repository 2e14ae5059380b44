/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See cupti_world.h. */
#include "cupti_world.h"

#include <dlfcn.h>
#include <sys/wait.h>
#include <time.h>

#include "chunk.h"
#include "suite.h"

#define MAX_NAMES 200000

struct world world;
struct world_record *emitted;
size_t emitted_cnt;
struct ptb_arec_gpu_clock *emitted_clocks;
size_t emitted_clock_cnt;
uint64_t emitted_drops;
static size_t emitted_room, clock_room;
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

const char *version, *library;

void world__versions(void (*run)(void))
{
	static const struct {
		const char *version, *library;
	} all[] = { { "18", CUPTI_12 },    { "19", CUPTI_12 },     { "22", CUPTI_12 },
		    { "26", CUPTI_13 },    { "130001", CUPTI_13 }, { "130100", CUPTI_13 },
		    { "130202", CUPTI_13 } };

	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
		version = all[i].version;
		library = all[i].library;
		CU_ASSERT_EQUAL(world__case(run), 0);
	}
}

static void *resolve(void *lib, const char *name, bool needed)
{
	void *at = lib ? dlsym(lib, name) : NULL;

	CHECK(at || !needed);
	return at;
}

/* clang-format off */
#define TAKE(lib, name, needed)                                  \
	do {                                                     \
		void *at_ = resolve(lib, #name, needed);         \
		memcpy(&world.name, &at_, sizeof(at_));          \
	} while (0)
/* clang-format on */

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
	world.__cudaRegisterFunction(NULL, (const char *)&world.stub, NULL, "_Z6kernelPfi", -1,
				     NULL, NULL, NULL, NULL, NULL);
}

int world__start(uint32_t requests)
{
	cuda__check_in_use();
	return cupti__start(requests, false);
}

void world__launch(CUstream stream)
{
	dim3 grid = { 3, 2, 1 }, block = { 128, 1, 1 };

	CHECK(!world.cudaLaunchKernel(&world.stub, grid, block, NULL, 64, stream));
}

/* ---- replacement of the agent ---- */

struct ptb_agent_ctl ptbpf_agent_ctl;
struct stream {
	int kind;
	_Alignas(8) uint8_t buf[PTB_CHUNK_MAX];
};
static struct stream gpu_stream = { PTB_CHUNK_GPU, { 0 } }, state_stream = { PTB_CHUNK_STATE, { 0 } };

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

static struct world_record *next_record(uint32_t kind)
{
	struct world_record *to;

	if (emitted_cnt == emitted_room) {
		emitted_room = emitted_room ? emitted_room * 2 : 1024;
		emitted = realloc(emitted, emitted_room * sizeof(*emitted));
	}
	to = &emitted[emitted_cnt++];
	memset(to, 0, sizeof(*to));
	to->kind = kind;
	return to;
}

static void take_name(const struct ptb_arec *r)
{
	const struct ptb_arec_gpu_name *n = (const void *)r;

	CHECK(r->aux > 0 && r->aux < MAX_NAMES && !names[r->aux]);
	CHECK(n->bytes > 0 && sizeof(*n) + n->bytes <= r->len);
	names[r->aux] = strndup((const char *)(n + 1), n->bytes);
}

/* As ptbpf decodes it. */
static void take_activity(const struct ptb_arec *r)
{
	static struct cupti_decoder decoder;
	union ptb_gpu_record u;

	switch (cupti_decoder__take(&decoder, r + 1, r->len - sizeof(*r), r->aux,
				    r->flags & PTB_AREC_TIDS, &u)) {
	case CUPTI_TAKEN:
		next_record(u.h.kind)->u = u;
		break;
	case CUPTI_UNKNOWN:
		next_record(PTB_REC_GPU_NOTE)->note =
			(struct ptb_gpu_note){ .what = PTB_GPU_UNKNOWN, .value = 1 };
		break;
	case CUPTI_INCOMPLETE:
		next_record(PTB_REC_GPU_NOTE)->note =
			(struct ptb_gpu_note){ .what = PTB_GPU_DROPPED, .value = 1 };
		break;
	}
}

static void take(const struct ptb_arec *r)
{
	const struct ptb_arec_gpu_device *d = (const void *)r;
	const struct ptb_arec_gpu_note *n = (const void *)r;

	switch (r->kind) {
	case PTB_AREC_GPU_NAME:
		take_name(r);
		break;
	case PTB_AREC_CUPTI:
		take_activity(r);
		break;
	case PTB_AREC_GPU_DEVICE:
		CHECK(d->cnt == PTB_GPU_ATTR_CNT && r->len == sizeof(*d) + ((d->cnt * 4 + 7) & ~7u));
		CHECK(emitted__name(r->aux)[0]);
		next_record(PTB_REC_GPU_DEVICE);
		break;
	case PTB_AREC_GRAPH_NODE:
		CHECK(r->len == sizeof(struct ptb_arec_graph_node));
		memcpy(&next_record(PTB_REC_GPU_GRAPH_NODE)->node, r, r->len);
		break;
	case PTB_AREC_GPU_NOTE:
		CHECK(r->len == sizeof(*n));
		next_record(PTB_REC_GPU_NOTE)->note =
			(struct ptb_gpu_note){ .what = r->aux, .value = n->value };
		break;
	default:
		CHECK(!"a kind of GPU chunks");
	}
}

void stream__commit(struct stream *s, uint32_t len)
{
	struct ptb_arec r;

	memcpy(&r, s->buf, sizeof(r));
	CHECK(s == &gpu_stream && r.len == len);
	take((const struct ptb_arec *)(const void *)s->buf);
}

void stream__put(struct stream *s, const struct ptb_arec *r)
{
	CHECK(s == &state_stream && r->kind == PTB_AREC_GPU_CLOCK && r->len == sizeof(*emitted_clocks));
	if (emitted_clock_cnt == clock_room) {
		clock_room = clock_room ? clock_room * 2 : 64;
		emitted_clocks = realloc(emitted_clocks, clock_room * sizeof(*emitted_clocks));
	}
	memcpy(&emitted_clocks[emitted_clock_cnt++], r, sizeof(*emitted_clocks));
}

void stream__drop(struct stream *s)
{
	CHECK(s == &gpu_stream);
	emitted_drops++;
}

void stream__send(struct stream *s)
{
	CHECK(s == &gpu_stream);
}

/* ---- what was emitted ---- */

void emitted__forget(void)
{
	emitted_cnt = emitted_clock_cnt = 0;
}

size_t emitted__count(uint32_t kind)
{
	size_t cnt = 0;

	for (size_t i = 0; i < emitted_cnt; i++)
		cnt += emitted[i].kind == kind;
	return cnt;
}

const struct world_record *emitted__nth(uint32_t kind, size_t nth)
{
	for (size_t i = 0; i < emitted_cnt; i++)
		if (emitted[i].kind == kind && !nth--)
			return &emitted[i];
	return NULL;
}

const char *emitted__name(uint32_t id)
{
	if (!id)
		return "";
	CHECK(id < MAX_NAMES && names[id]);
	return names[id];
}

const struct ptb_gpu_api *emitted__call(uint32_t correlation, uint32_t *tid)
{
	for (size_t i = 0; i < emitted_cnt; i++) {
		if (emitted[i].kind != PTB_REC_GPU_API || emitted[i].u.api.correlation != correlation)
			continue;
		if (tid)
			*tid = emitted[i].u.api.h.tid;
		return &emitted[i].u.api;
	}
	return NULL;
}

const struct ptb_arec_graph_node *emitted__node(uint64_t node, bool copy)
{
	for (size_t i = 0; i < emitted_cnt; i++)
		if (emitted[i].kind == PTB_REC_GPU_GRAPH_NODE && emitted[i].node.node == node &&
		    (emitted[i].node.original != 0) == copy)
			return &emitted[i].node;
	return NULL;
}

uint64_t emitted__notes(uint32_t what)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < emitted_cnt; i++)
		if (emitted[i].kind == PTB_REC_GPU_NOTE && emitted[i].note.what == what)
			sum += emitted[i].note.value;
	return sum;
}
