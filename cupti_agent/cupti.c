/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * CUPTI's activities on and off, their buffers, and who else uses CUPTI; see cupti.h.
 *
 * Good neighbour. Activities are the process's: one pair of buffer functions, one set of enabled
 * kinds, and the last to register gets the buffers of all. Other users are torch.profiler (Kineto),
 * which registers its pair at each start, and, up to August 2026, also holds the one callback
 * subscriber for ever; Proton, Nsight and others, which hold the subscriber. So:
 *  - Before it starts, the agent asks: can a subscriber be had (at once given back; a held one
 *    would make the others' cuptiSubscribe() fail, and Kineto then has no GPU for the rest of the
 *    process's life), are kinds enabled (known from 13.2 on), is another's pair in CUPTI's data? If
 *    so it does not start: CUPTI_IN_USE. The pair's address is learnt by registering ours once;
 *    what was there is then put back, a few microseconds later, and buffers that came in between
 *    are handed on. One that CUPTI requests in between is ours, and what it puts there is lost to
 *    the other.
 *  - While it runs it polls the pair, without calling anything. Once the pair is another's, that
 *    one has started: the agent lets go and calls nothing that would change what the other has
 *    enabled. Of the other's first records those in buffers that CUPTI had from the agent are lost
 *    to it (Kineto says "unknown buffer" and goes on): buffers are small, so that these are few.
 *  - The subscriber is held only while nodes of CUDA graphs are requested, which nothing but its
 *    callbacks report (cupti_graphs.c), and given back at the end or when another's pair is found.
 *  - CUPTI's several subscribers (13.2 and later, "beta") are not used: with them Kineto's own
 *    calls may fail.
 */
#include "cupti.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#include "chunk.h"
#include "cupti_graphs.h"
#include "cupti_lib.h"
#include "cupti_records.h"

#define BUFFER_BYTES (256u << 10)
#define MAX_BUFFERS 1024u /* for a CUPTI that takes no refusal */
#define FEW_BUFFERS 256u  /* for others: 64 MiB, of which only what is used is resident */
#define CLOCK_TRIES 5
#define COUNT(array) (sizeof(array) / sizeof(*(array)))

enum buffer_state { BUFFER_FREE, BUFFER_LENT, BUFFER_DONE };

struct buffer {
	_Atomic(uint8_t *) at; /* mapped when first lent */
	_Atomic uint32_t state;
	uint64_t order; /* of its completion */
	size_t valid;
};

struct stray { /* another's buffer, which came while the pair's address was found out */
	void *context;
	uint32_t stream;
	uint8_t *buffer;
	size_t size, valid;
};

static struct buffer buffers[MAX_BUFFERS];
static _Atomic uint64_t next_order = 1, refused, stray_cnt;
static _Atomic bool forked;
static struct stray strays[16];
static struct cupti_api api;
static struct cupti_slot slot;
static uint64_t refused_reported;
static int thread_ids_before;
static bool active, opened, sync_on, graphs_on, error_reported, devices_reported;
static bool refuses; /* CUPTI may get the answer that there is no buffer */

/* ---- what CUPTI calls, on any thread ---- */

static uint8_t *mapped(struct buffer *b)
{
	void *at = b->at ? b->at :
			   mmap(NULL, BUFFER_BYTES, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return b->at = at == MAP_FAILED ? NULL : at;
}

static void on_request(uint8_t **buffer, size_t *size, size_t *records)
{
	uint32_t i, was = BUFFER_FREE, max = refuses ? FEW_BUFFERS : MAX_BUFFERS;

	for (i = 0; i < max && !forked &&
		    !atomic_compare_exchange_strong(&buffers[i].state, &was, BUFFER_LENT);
	     i++)
		was = BUFFER_FREE;
	*buffer = i < max && !forked ? mapped(&buffers[i]) : NULL;
	*size = *buffer ? BUFFER_BYTES : 0;
	*records = 0;
	if (*buffer)
		return;
	refused++;
	if (i < max && !forked)
		buffers[i].state = BUFFER_FREE;
}

static void on_complete(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid)
{
	uint64_t nr;

	for (uint32_t i = 0; i < MAX_BUFFERS && buffer; i++) {
		if (buffers[i].at != buffer)
			continue;
		buffers[i].valid = valid;
		buffers[i].order = next_order++;
		buffers[i].state = BUFFER_DONE;
		return;
	}
	nr = stray_cnt++;
	if (nr < COUNT(strays))
		strays[nr] = (struct stray){ context, stream, buffer, size, valid };
}

static void on_callback(void *user, uint32_t domain, uint32_t cbid, const void *info)
{
	(void)user; /* never enabled */
	(void)domain;
	(void)cbid;
	(void)info;
}

/* ---- buffers, on the agent's thread ---- */

static struct buffer *oldest_done(void)
{
	struct buffer *found = NULL;

	for (uint32_t i = 0; i < MAX_BUFFERS; i++)
		if (buffers[i].state == BUFFER_DONE && (!found || buffers[i].order < found->order))
			found = &buffers[i];
	return found;
}

static uint32_t lent(void)
{
	uint32_t cnt = 0;

	for (uint32_t i = 0; i < MAX_BUFFERS; i++)
		cnt += buffers[i].state == BUFFER_LENT;
	return cnt;
}

static void take_buffers(void)
{
	struct buffer *b;

	while (!forked && (b = oldest_done())) {
		cupti_records__take(b->at, b->valid);
		b->state = BUFFER_FREE;
	}
}

static void report_losses(void)
{
	size_t dropped = 0;
	uint64_t now = refused;

	if (!api.num_dropped(NULL, 0, &dropped))
		cupti_record__note(PTB_GPU_DROPPED, dropped);
	cupti_record__note(PTB_GPU_BUFFERS, now - refused_reported);
	refused_reported = now;
}

/* A call that should have worked; once per session, since it may be one of every tick. */
static void check(int err)
{
	if (err && !error_reported)
		cupti_record__note(PTB_GPU_ERROR, (uint64_t)err);
	error_reported |= err != 0;
}

/* Pages of buffers that are not in use go back to the system. */
static void give_pages_back(void)
{
	for (uint32_t i = 0; i < MAX_BUFFERS; i++)
		if (buffers[i].at && buffers[i].state == BUFFER_FREE)
			madvise(buffers[i].at, BUFFER_BYTES, MADV_DONTNEED);
}

/* ---- who else ---- */

/* Where the pair's address is not known: a forced flush that does not return our buffers has given
 * them to another's pair. */
static bool buffers_went_elsewhere(void)
{
	uint64_t before = next_order;
	uint32_t cnt = lent();

	api.flush_all(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
	return next_order - before < cnt;
}

/* Is the pair in CUPTI's data another's? False where its address was not found. */
static bool is_anothers(void)
{
	cupti_request_fn now = slot.at ? __atomic_load_n(&slot.at->request, __ATOMIC_RELAXED) :
					 NULL;

	return now && now != on_request;
}

static void put_pair_back(void)
{
	api.register_callbacks(slot.before.request, slot.before.complete);
	for (uint64_t i = 0; i < stray_cnt && i < COUNT(strays); i++)
		slot.before.complete(strays[i].context, strays[i].stream, strays[i].buffer,
				     strays[i].size, strays[i].valid);
}

/* Registers the pair unless another's is there. */
static int take_pair(void)
{
	static const struct cupti_pair mine = { on_request, on_complete };
	int err;

	if (is_anothers())
		return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
	if (slot.at)
		return api.register_callbacks(mine.request, mine.complete);
	stray_cnt = 0;
	err = cupti_slot__register(&slot, &api, &mine);
	if (err || !slot.at || !slot.before.request || !slot.before.complete)
		return err;
	put_pair_back();
	return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
}

static int check_free(void)
{
	uint32_t kinds = 0;
	void *subscriber = NULL;
	int err = api.subscribe(&subscriber, on_callback, NULL);

	if (err)
		return err;
	api.unsubscribe(subscriber);
	if (api.enabled_kinds && !api.enabled_kinds(NULL, NULL, NULL, &kinds) && kinds)
		return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
	return 0;
}

/* ---- on and off ---- */

static const int always[] = { PTB_CUPTI_CONCURRENT_KERNEL, PTB_CUPTI_MEMCPY,
			      PTB_CUPTI_MEMCPY2,           PTB_CUPTI_MEMSET,
			      PTB_CUPTI_RUNTIME,           PTB_CUPTI_OVERHEAD };
static const int with_sync[] = { PTB_CUPTI_SYNCHRONIZATION, PTB_CUPTI_CUDA_EVENT };

/* The first error; what is switched off goes on behind it. */
static int set_kinds(const int *kinds, size_t cnt, bool on)
{
	int err = 0, first = 0;

	for (size_t i = 0; i < cnt && !(on && err); i++) {
		err = (on ? api.enable : api.disable)(kinds[i]);
		first = first ? first : err;
	}
	return first;
}

/*
 * The driver's calls, and of all calls not those that traces never have where CUPTI can distinguish
 * them (12.5 and later). A call that is enabled by itself has no record unless its kind is enabled,
 * too, so the kind goes first.
 */
static int set_calls(bool on)
{
	static const int driver = PTB_CUPTI_DRIVER;
	int err = set_kinds(&driver, 1, on);

	for (uint32_t cbid = 1; cbid < CUPTI_CBIDS && on && !err; cbid++) {
		if (api.enable_driver_api &&
		    cupti_call__is_unwanted(CUPTI_CB_DOMAIN_DRIVER_API, cbid))
			api.enable_driver_api(cbid, 0);
		if (api.enable_runtime_api &&
		    cupti_call__is_unwanted(CUPTI_CB_DOMAIN_RUNTIME_API, cbid))
			api.enable_runtime_api(cbid, 0);
	}
	return err;
}

static void disable_all(void)
{
	set_kinds(always, COUNT(always), false);
	set_calls(false);
}

static int enable_all(void)
{
	int err = set_kinds(always, COUNT(always), true);

	if (!err)
		err = set_calls(true);
	if (err)
		disable_all();
	return err;
}

static void set_sync(bool on)
{
	int err;

	if (on == sync_on)
		return;
	if (api.event_times)
		api.event_times(on);
	err = set_kinds(with_sync, COUNT(with_sync), on);
	check(err);
	if (err && on) /* kernels go on */
		return;
	sync_on = on;
	agent__set_state(PTB_AGENT_SYNC_ON, on);
}

static void set_graphs(bool on)
{
	int err = 0;

	if (on == graphs_on)
		return;
	if (on)
		err = cupti_graphs__start(&api);
	else
		cupti_graphs__stop();
	check(err > 0 ? err : 0);
	graphs_on = on && !err;
	agent__set_state(PTB_AGENT_GRAPHS_ON, graphs_on);
}

static bool use_system_thread_ids(void)
{
	return api.get_thread_id_type && api.set_thread_id_type &&
	       !api.get_thread_id_type(&thread_ids_before) &&
	       !api.set_thread_id_type(CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM);
}

static void restore_thread_ids(void)
{
	if (api.get_thread_id_type && api.set_thread_id_type)
		api.set_thread_id_type(thread_ids_before);
}

static int why_of(int err)
{
	if (!err)
		return PTB_AGENT_WHY_NONE;
	if (err == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED)
		return PTB_AGENT_WHY_CUPTI_IN_USE;
	ptbpf_agent_ctl.cupti_error = (uint32_t)err;
	return PTB_AGENT_WHY_CUPTI_ERROR;
}

static int open_once(void)
{
	int why = opened ? 0 : cupti_lib__open(&api, &ptbpf_agent_ctl.cupti_version);

	if (!why && !opened)
		agent__set_state(PTB_AGENT_CUPTI, true);
	opened = !why;
	refuses = ptbpf_agent_ctl.cupti_version >= CUPTI_REJECTS;
	return why;
}

static void report_devices(void)
{
	if (!devices_reported)
		cuda__report_devices();
	devices_reported = true;
}

static int start_activities(bool in_init)
{
	int why = !in_init && !cuda__in_use() ? PTB_AGENT_WHY_NO_CUDA : open_once(), err;

	ptbpf_agent_ctl.cupti_error = 0;
	if (why)
		return why;
	err = check_free();
	if (!err)
		err = take_pair();
	if (err)
		return why_of(err);
	why = cupti_records__begin(&api, use_system_thread_ids());
	if (!why)
		why = why_of(enable_all());
	active = !why;
	if (!active) {
		restore_thread_ids();
		return why;
	}
	refused_reported = refused;
	error_reported = devices_reported = false;
	if (!in_init)
		report_devices();
	return 0;
}

int cupti__start(uint32_t requests, bool in_init)
{
	int why = 0;

	if (forked)
		return PTB_AGENT_WHY_FORKED;
	if (!(requests & AGENT_REQUEST(GPU)))
		return 0;
	if (!active)
		why = start_activities(in_init);
	if (why && in_init)
		why = PTB_AGENT_WHY_NO_CUDA;
	ptbpf_agent_ctl.gpu_why = (uint32_t)why;
	if (!why)
		set_sync(requests & AGENT_REQUEST(SYNC));
	if (!why)
		set_graphs(requests & AGENT_REQUEST(GRAPHS));
	agent__set_state(PTB_AGENT_GPU_ON, !why); /* last: then the tracer reads what else is on */
	return why;
}

static void report_clock(void)
{
	struct ptb_arec_gpu_clock best = { .r = { .len = sizeof(best), .kind = PTB_AREC_GPU_CLOCK },
					   .err_ns = UINT64_MAX };
	uint64_t before, after, gpu;

	for (int i = 0; i < CLOCK_TRIES; i++) {
		before = agent__mono_ns();
		if (api.get_timestamp(&gpu))
			return;
		after = agent__mono_ns();
		if ((after - before + 1) / 2 >= best.err_ns)
			continue;
		best.gpu_ns = gpu;
		best.mono_ns = before + (after - before) / 2;
		best.err_ns = (after - before + 1) / 2;
	}
	if (agent__state_stream())
		stream__put(agent__state_stream(), &best.r);
}

static void let_go(void)
{
	set_graphs(false);
	cupti_graphs__take();
	cupti_records__send();
	active = sync_on = false;
	agent__set_state(PTB_AGENT_GPU_ON | PTB_AGENT_SYNC_ON, false);
}

/* Another has started: what is enabled is that one's now, but for what no profiler of torch
 * enables. */
static void yield_to_another(void)
{
	api.disable(PTB_CUPTI_MEMCPY2);
	restore_thread_ids();
	take_buffers();
	ptbpf_agent_ctl.gpu_why = PTB_AGENT_WHY_CUPTI_IN_USE;
	let_go();
}

void cupti__stop(void)
{
	if (!active || forked)
		return;
	if (is_anothers() || (!slot.at && buffers_went_elsewhere())) {
		yield_to_another();
		return;
	}
	set_sync(false);
	disable_all();
	check(api.flush_all(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED));
	restore_thread_ids();
	report_clock(); /* a short program may have had no tick */
	report_devices();
	take_buffers();
	report_losses();
	cupti_record__note(PTB_GPU_BUFFERS, lent());
	give_pages_back();
	let_go();
}

void cupti__tick(void)
{
	if (!active || forked)
		return;
	if (is_anothers()) {
		yield_to_another();
		return;
	}
	report_devices();
	report_clock();
	check(api.flush_all(0));
	cupti_graphs__take();
	take_buffers();
	report_losses();
	cupti_records__send();
}

void cupti__forked(void)
{
	forked = true;
	active = false;
	cupti_graphs__forked();
}
