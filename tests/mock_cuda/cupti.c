/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * libcupti: kinds on and off, one subscriber, buffers that its own thread fills with the reports of the mock of
 * libcuda. As in the real one, the last pair of functions that is registered gets all buffers, and the pair is in
 * writable data.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cupti_mock.h"

#define QUEUE (1u << 15)
#define CBIDS 1024

static struct {
	request_fn request;
	complete_fn complete;
} pair, *functions = &pair;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the queue and the settings below */
static pthread_mutex_t filling = PTHREAD_MUTEX_INITIALIZER; /* of the buffer; functions are called with it */
static struct mock_activity queue[QUEUE];
static uint32_t queued;
static uint64_t kinds, reported, made, lost, dropped_since;
static bool off[2][CBIDS], running;              /* off: calls of the runtime, of the driver */
static bool event_times __attribute__((unused)); /* taken, as every event has its time here */
static int thread_id_type;
static void *subscriber;
static callback_fn _Atomic subscriber_fn;
static void *subscriber_data;
static _Atomic uint32_t resource_on; /* bits: callbacks of the resource domain */
static uint8_t *buffer;
static size_t buffer_size, filled;
static struct mock_cupti_settings settings;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static bool (*must_fail)(const char *, int *);
static void (*cuda_listen)(mock_report_fn);
static void (*cuda_watch_nodes)(mock_node_fn);
static bool (*cuda_initialized)(bool starting);

static int64_t number(const char *name, int64_t otherwise)
{
	const char *text = getenv(name);

	return text ? strtoll(text, NULL, 10) : otherwise;
}

void mock_cupti_reload(void)
{
	settings.version = (uint32_t)number("MOCK_CUPTI_VERSION", 22);
	settings.drop = (uint32_t)number("MOCK_CUPTI_DROP", 0);
	settings.batch_ms = (uint32_t)number("MOCK_CUPTI_BATCH_MS", 10);
	settings.offset = number("MOCK_CUPTI_OFFSET_NS", 1700000000000000000);
	settings.drift_ppm = number("MOCK_CUPTI_DRIFT_PPM", 0);
	settings.reorder = number("MOCK_CUPTI_REORDER", 0) > 0;
	settings.nested = number("MOCK_CUPTI_NESTED", 0) > 0;
	settings.wrong = (uint32_t)number("MOCK_CUPTI_WRONG", 0);
	settings.heap = number("MOCK_CUPTI_HEAP", 0) > 0;
	settings.early = number("MOCK_CUPTI_EARLY", 1) > 0;
	settings.fail = getenv("MOCK_CUPTI_FAIL");
}

static void resolve(void *lib, const char *name, void *slot)
{
	void *at = dlsym(lib, name);

	memcpy(slot, &at, sizeof(at));
}

static void load(void)
{
	void *cuda = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);

	mock_cupti_reload();
	if (settings.heap)
		functions = calloc(1, sizeof(*functions));
	if (!cuda)
		return;
	resolve(cuda, "mock_cuda_must_fail", &must_fail);
	resolve(cuda, "mock_cuda_listen", &cuda_listen);
	resolve(cuda, "mock_cuda_watch_nodes", &cuda_watch_nodes);
	resolve(cuda, "mock_cuda_initialized", &cuda_initialized);
}

const struct mock_cupti_settings *mock_cupti__settings(void)
{
	pthread_once(&once, load);
	return &settings;
}

uint64_t mock_cupti__time(uint64_t mono_ns)
{
	const struct mock_cupti_settings *s = mock_cupti__settings();

	return (uint64_t)((int64_t)mono_ns + s->offset + (int64_t)mono_ns / 1000000 * s->drift_ppm);
}

/* name:error in a list */
static int told_to_fail(const char *name)
{
	const char *at = settings.fail ? strstr(settings.fail, name) : NULL;

	return at && at[strlen(name)] == ':' ? atoi(at + strlen(name) + 1) : 0;
}

CUptiResult mock_cupti__enter(const char *name)
{
	int err, wanted;

	mock_cupti__settings();
	err = told_to_fail(name);
	return !err && must_fail && must_fail(name, &wanted) ? wanted : err;
}

/* ---- what the driver reports ---- */

static bool is_on(const struct mock_activity *a)
{
	bool driver = a->domain != MOCK_RUNTIME;

	if (!(kinds >> mock_cupti__kind(a) & 1))
		return false;
	return a->what != MOCK_CALL || (!off[driver][mock_cupti__cbid(a->domain, a->name)] &&
					(!driver || !a->nested || settings.nested));
}

static void report_activity(const struct mock_activity *a)
{
	pthread_mutex_lock(&lock);
	if (is_on(a)) {
		if (queued == QUEUE || (settings.drop && ++reported % settings.drop == 0)) {
			lost++;
			dropped_since++;
		} else {
			queue[queued] = *a;
			if (thread_id_type != 1)
				queue[queued].tid = (uint32_t)a->pthread;
			queued++;
		}
	}
	pthread_mutex_unlock(&lock);
}

/* ---- buffers, with `filling` ---- */

static void complete(void)
{
	if (buffer && functions->complete)
		functions->complete(NULL, 0, buffer, buffer_size, filled);
	buffer = NULL;
	filled = 0;
}

static void lose(void)
{
	pthread_mutex_lock(&lock);
	lost++;
	dropped_since++;
	pthread_mutex_unlock(&lock);
}

static void put(const void *record, size_t size)
{
	size_t records = 0;

	if (buffer && filled + size > buffer_size)
		complete();
	if (!buffer && functions->request) {
		buffer_size = 0;
		functions->request(&buffer, &buffer_size, &records);
	}
	if (!buffer || size > buffer_size) {
		lose();
		return;
	}
	memcpy(buffer + filled, record, size);
	filled += size;
	made++;
}

/* Takes from the queue what is complete, or all with `forced`. */
static uint32_t take(struct mock_activity *to, uint32_t max, bool forced)
{
	struct timespec ts;
	uint64_t now;
	uint32_t cnt = 0, kept = 0;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	now = (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
	pthread_mutex_lock(&lock);
	for (uint32_t i = 0; i < queued; i++) {
		if (cnt < max && (queue[i].end <= now || forced)) {
			to[cnt] = queue[i];
			if (queue[i].end > now) /* not finished: no times */
				to[cnt].begin = to[cnt].end = 0;
			cnt++;
		} else {
			queue[kept++] = queue[i];
		}
	}
	queued = kept;
	pthread_mutex_unlock(&lock);
	return cnt;
}

static int backwards(const void *a, const void *b)
{
	const struct mock_activity *x = a, *y = b;
	bool late_x = x->what == MOCK_KERNEL, late_y = y->what == MOCK_KERNEL;

	if (late_x != late_y)
		return late_x ? 1 : -1;
	return x->correlation < y->correlation ? 1 : x->correlation > y->correlation ? -1 : 0;
}

static void fill(bool forced)
{
	static struct mock_activity batch[4096];
	uint8_t record[RECORD_MAX];
	uint32_t cnt, i, rounds = QUEUE / 4096; /* and no more, while others put more into the queue */

	while (rounds-- && (cnt = take(batch, 4096, forced))) {
		if (settings.reorder)
			qsort(batch, cnt, sizeof(*batch), backwards);
		for (i = 0; i < cnt; i++)
			put(record, mock_cupti__record(record, &batch[i]));
	}
}

static void put_overhead(void)
{
	uint64_t now;
	uint8_t record[RECORD_MAX] = { 17 };
	uint32_t what = 1 << 16, object = 1;

	if (!(kinds >> 17 & 1) || cuptiGetTimestamp(&now))
		return;
	memcpy(record + 4, &what, 4);
	memcpy(record + 8, &object, 4);
	memcpy(record + 24, &now, 8);
	now += 1000;
	memcpy(record + 32, &now, 8);
	put(record, mock_cupti__record_size(record));
}

static void *run(void *unused)
{
	struct timespec ts;

	for (;;) {
		ts = (struct timespec){ settings.batch_ms / 1000, settings.batch_ms % 1000 * 1000000L };
		nanosleep(&ts, NULL);
		pthread_mutex_lock(&filling);
		fill(false);
		pthread_mutex_unlock(&filling);
	}
	return unused;
}

/* ---- the interface ---- */

/* clang-format off */
#define ENTER()                                              \
	do {                                                 \
		CUptiResult entered_ = mock_cupti__enter(__func__); \
		if (entered_)                                \
			return entered_;                     \
	} while (0)
/* clang-format on */

CUptiResult cuptiGetVersion(uint32_t *version)
{
	ENTER();
	*version = settings.version;
	return CUPTI_SUCCESS;
}

CUptiResult cuptiGetTimestamp(uint64_t *at)
{
	struct timespec ts;

	ENTER();
	clock_gettime(CLOCK_MONOTONIC, &ts);
	*at = mock_cupti__time((uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec);
	return CUPTI_SUCCESS;
}

CUptiResult cuptiSubscribe(void **handle, callback_fn callback, void *user)
{
	void *none = NULL;

	ENTER();
	if (!__atomic_compare_exchange_n(&subscriber, &none, &subscriber, false, __ATOMIC_ACQ_REL,
					 __ATOMIC_ACQUIRE))
		return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
	subscriber_data = user;
	subscriber_fn = callback;
	*handle = &subscriber;
	return CUPTI_SUCCESS;
}

/* ---- callbacks ---- */

#define NODE_CREATED 13
#define NODE_CLONED 20
#define RESOURCE 3

/* CUpti_GraphData and CUpti_ResourceData, cupti_callbacks.h */
struct graph_data {
	const void *graph, *original_graph, *node, *original_node;
	int node_type;
	const void *dependency, *exec;
};

static int node_type(const struct mock_activity *a)
{
	return a->what == MOCK_KERNEL ? 0 : a->what == MOCK_MEMSET ? 2 : 1;
}

static void node_made(const struct mock_activity *node, const struct mock_activity *original)
{
	struct graph_data data = { .node = node, .original_node = original, .node_type = node_type(node) };
	struct {
		void *context, *stream;
		const struct graph_data *data;
	} info = { NULL, NULL, &data };
	uint32_t cbid = original ? NODE_CLONED : NODE_CREATED;

	if (resource_on >> cbid & 1)
		subscriber_fn(subscriber_data, RESOURCE, cbid, &info);
}

CUptiResult cuptiEnableCallback(uint32_t on, void *handle, uint32_t domain, uint32_t cbid)
{
	ENTER();
	if (handle != &subscriber || !subscriber || domain != RESOURCE || cbid > 31)
		return CUPTI_ERROR_INVALID_PARAMETER;
	resource_on = on ? resource_on | 1u << cbid : resource_on & ~(1u << cbid);
	if (cuda_watch_nodes)
		cuda_watch_nodes(node_made);
	return CUPTI_SUCCESS;
}

CUptiResult cuptiGetGraphNodeId(void *node, uint64_t *id)
{
	ENTER();
	if (!node)
		return CUPTI_ERROR_INVALID_PARAMETER;
	*id = ((const struct mock_activity *)node)->node;
	return CUPTI_SUCCESS;
}

CUptiResult cuptiUnsubscribe(void *handle)
{
	ENTER();
	if (handle != &subscriber)
		return CUPTI_ERROR_INVALID_PARAMETER;
	resource_on = 0;
	__atomic_store_n(&subscriber, NULL, __ATOMIC_RELEASE);
	return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityRegisterCallbacks(request_fn request, complete_fn completed)
{
	ENTER();
	if (!request || !completed)
		return CUPTI_ERROR_INVALID_PARAMETER;
	functions->request = request;
	functions->complete = completed;
	return CUPTI_SUCCESS;
}

static void listen_if_needed(void)
{
	bool any = kinds != 0;
	pthread_t thread;

	if (cuda_listen)
		cuda_listen(any ? report_activity : NULL);
	if (any && !__atomic_exchange_n(&running, true, __ATOMIC_ACQ_REL) &&
	    !pthread_create(&thread, NULL, run, NULL))
		pthread_detach(thread);
}

CUptiResult cuptiActivityEnable(int kind)
{
	ENTER();
	if (kind < 1 || kind > 63)
		return CUPTI_ERROR_INVALID_KIND;
	if (!cuda_initialized || !cuda_initialized(settings.early))
		return CUPTI_ERROR_NOT_INITIALIZED;
	pthread_mutex_lock(&lock);
	kinds |= 1ULL << kind;
	if (kind == 4 || kind == 5)
		memset(off[kind == 4], 0, sizeof(off[0]));
	pthread_mutex_unlock(&lock);
	listen_if_needed();
	return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityDisable(int kind)
{
	ENTER();
	if (kind < 1 || kind > 63)
		return CUPTI_ERROR_INVALID_KIND;
	pthread_mutex_lock(&lock);
	kinds &= ~(1ULL << kind);
	pthread_mutex_unlock(&lock);
	listen_if_needed();
	return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityFlushAll(uint32_t flag)
{
	ENTER();
	if (!functions->request)
		return CUPTI_ERROR_INVALID_OPERATION;
	pthread_mutex_lock(&filling);
	fill(flag & 1);
	put_overhead();
	complete();
	pthread_mutex_unlock(&filling);
	return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityGetNextRecord(uint8_t *from, size_t valid, uint8_t **record)
{
	uint8_t *next = *record ? *record + mock_cupti__record_size(*record) : from;

	ENTER();
	if (next >= from + valid)
		return CUPTI_ERROR_MAX_LIMIT_REACHED;
	*record = next;
	return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityGetNumDroppedRecords(void *context, uint32_t stream, size_t *dropped)
{
	ENTER();
	(void)context;
	(void)stream;
	pthread_mutex_lock(&lock);
	*dropped = dropped_since;
	dropped_since = 0;
	pthread_mutex_unlock(&lock);
	return CUPTI_SUCCESS;
}

CUptiResult cuptiSetThreadIdType(int type)
{
	ENTER();
	thread_id_type = type;
	return CUPTI_SUCCESS;
}

CUptiResult cuptiGetThreadIdType(int *type)
{
	ENTER();
	*type = thread_id_type;
	return CUPTI_SUCCESS;
}

#ifdef MOCK_CUPTI_NEW /* what versions before have not */
/* A call has records while its kind is enabled; enabling the kind enables all of its calls (seen in CUPTI 13.0). */
CUptiResult cuptiActivityEnableRuntimeApi(uint32_t cbid, uint8_t on)
{
	ENTER();
	if (cbid >= CBIDS)
		return CUPTI_ERROR_INVALID_PARAMETER;
	off[0][cbid] = !on;
	return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityEnableDriverApi(uint32_t cbid, uint8_t on)
{
	ENTER();
	if (cbid >= CBIDS)
		return CUPTI_ERROR_INVALID_PARAMETER;
	off[1][cbid] = !on;
	return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityEnableCudaEventDeviceTimestamps(uint8_t on)
{
	ENTER();
	event_times = on;
	return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityGetEnabledKinds(void *of, int *list, uint32_t *size, uint32_t *cnt)
{
	uint32_t i;

	ENTER();
	(void)of;
	(void)list;
	(void)size;
	for (i = 0, *cnt = 0; i < 64; i++)
		*cnt += kinds >> i & 1;
	return CUPTI_SUCCESS;
}
#endif

uint64_t mock_cupti_kinds(void)
{
	return kinds;
}

bool mock_cupti_subscribed(void)
{
	return __atomic_load_n(&subscriber, __ATOMIC_ACQUIRE) != NULL;
}

void mock_cupti_pause(bool on)
{
	if (on)
		pthread_mutex_lock(&filling);
	else
		pthread_mutex_unlock(&filling);
}

uint64_t mock_cupti_made(void)
{
	return made;
}

uint64_t mock_cupti_lost(void)
{
	return lost;
}
