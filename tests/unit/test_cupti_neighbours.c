/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The agent's CUPTI part beside others that use CUPTI, without one, with one that fails, and for ever. */
#include "cupti_world.h"

#include <pthread.h>
#include <sys/wait.h>

#include "suite.h"

#define REQUEST AGENT_REQUEST(GPU)
#define KERNEL_KIND 10
#define KERNEL_BIT (1ULL << KERNEL_KIND)

/* ---- another profiler, as torch's is: registers at each start, ignores buffers that it does not know ---- */

#define OTHER_BUFFERS 64
#define OTHER_BYTES 65536

static uint8_t *other_buffers[OTHER_BUFFERS];
static _Atomic size_t other_lent, other_back, other_kernels, other_unknown;

static void other_request(uint8_t **buffer, size_t *size, size_t *records)
{
	size_t nr = other_lent++;

	CHECK(nr < OTHER_BUFFERS);
	other_buffers[nr] = malloc(OTHER_BYTES);
	*buffer = other_buffers[nr];
	*size = OTHER_BYTES;
	*records = 0;
}

static size_t count_kernels(const uint8_t *p, size_t valid)
{
	size_t cnt = 0,
	       step = world.mock_cupti_size((uint32_t)atoi(getenv("MOCK_CUPTI_VERSION")), KERNEL_KIND);
	uint32_t kind;

	for (size_t at = 0; at < valid; at += step) { /* it has only kernels enabled */
		memcpy(&kind, p + at, sizeof(kind));
		CHECK(kind == KERNEL_KIND);
		cnt++;
	}
	return cnt;
}

static void other_complete(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid)
{
	size_t i = 0;

	(void)context;
	(void)stream;
	(void)size;
	while (i < OTHER_BUFFERS && other_buffers[i] != buffer)
		i++;
	if (i == OTHER_BUFFERS) {
		other_unknown++;
		return;
	}
	other_back++;
	if (valid && world.mock_cupti_kinds() == KERNEL_BIT)
		other_kernels += count_kernels(buffer, valid);
}

static void other_starts(void)
{
	CHECK(!world.cuptiActivityRegisterCallbacks(other_request, other_complete));
	CHECK(!world.cuptiActivityEnable(KERNEL_KIND));
}

static void other_stops(void)
{
	CHECK(!world.cuptiActivityFlushAll(1));
	CHECK(!world.cuptiActivityDisable(KERNEL_KIND));
}

static void some_callback(void *user, uint32_t domain, uint32_t cbid, const void *info)
{
	(void)user;
	(void)domain;
	(void)cbid;
	(void)info;
}

static void load(const char *v, const char *lib)
{
	setenv("MOCK_CUPTI_BATCH_MS", "1", 1);
	setenv("MOCK_CUPTI_VERSION", v, 1);
	world__load(lib);
}

static void load_12(void)
{
	load("22", CUPTI_12);
}

/* Without a request for a buffer in the microseconds in which our pair is there: the records in that one would be lost to
 * the other (cupti_agent/cupti.c), and a busy machine makes them milliseconds. */
static void check_refused(uint32_t why)
{
	world.mock_cupti_pause(true);
	CHECK(world__start(REQUEST) == (int)why);
	world.mock_cupti_pause(false);
	CHECK(ptbpf_agent_ctl.gpu_why == why && !(ptbpf_agent_ctl.state & PTB_AGENT_GPU_ON));
	cupti__tick();
	cupti__stop();
	CHECK(emitted__count(PTB_REC_GPU_KERNEL) == 0);
}

/* ---- there first ---- */

/* It holds the subscriber, as Nsight and older versions of torch's profiler do. */
static void run_subscribed(void)
{
	void *subscriber;

	load_12();
	CHECK(!world.cuptiSubscribe(&subscriber, some_callback, NULL));
	other_starts();
	check_refused(PTB_AGENT_WHY_CUPTI_IN_USE);
	world__launch(NULL);
	world.cudaDeviceSynchronize();
	CHECK(world.mock_cupti_kinds() == KERNEL_BIT);
	other_stops();
	CHECK(other_kernels == 1 && !other_unknown);
	CHECK(!world.cuptiUnsubscribe(subscriber));
}

/* It only records, as newer versions of torch's profiler do, and has buffers in use. */
static void run_recording(void)
{
	other_starts();
	for (size_t i = 0; i < 1000; i++) {
		world__launch(NULL);
		if (i == 500)
			usleep(10000); /* some are in a buffer by now */
		if (i % 100 == 0)
			check_refused(PTB_AGENT_WHY_CUPTI_IN_USE);
	}
	world.cudaDeviceSynchronize();
	CHECK(world.mock_cupti_kinds() == KERNEL_BIT);
	other_stops();
	CHECK(other_kernels == 1000 && other_unknown == 0 && other_lent == other_back);
}

static void run_recording_12(void)
{
	load_12();
	run_recording();
}

static void run_recording_13(void)
{
	load("130001", CUPTI_13);
	run_recording();
}

/* We hold nothing that others need once the question is answered: the subscriber is free while we record. */
static void run_subscriber_is_free(void)
{
	void *subscriber;

	load_12();
	CHECK(world__start(REQUEST) == 0);
	CHECK(!world.cuptiSubscribe(&subscriber, some_callback, NULL));
	CHECK(!world.cuptiUnsubscribe(subscriber));
	cupti__stop();
}

TEST("another is there first")
{
	CU_ASSERT_EQUAL(world__case(run_subscribed), 0);
	CU_ASSERT_EQUAL(world__case(run_recording_12), 0);
	CU_ASSERT_EQUAL(world__case(run_recording_13), 0);
	CU_ASSERT_EQUAL(world__case(run_subscriber_is_free), 0);
}

/* ---- comes while we record ---- */

static void run_comes(bool tick)
{
	uint64_t kinds;
	int type = -1;

	CHECK(world__start(REQUEST) == 0);
	for (size_t i = 0; i < 100; i++)
		world__launch(NULL);
	world.cudaDeviceSynchronize();
	cupti__tick();
	CHECK(emitted__count(PTB_REC_GPU_KERNEL) == 100);
	usleep(10000); /* a buffer of ours is with CUPTI, with nothing in it yet or little */
	other_starts();
	kinds = world.mock_cupti_kinds();
	if (tick) {
		cupti__tick();
		CHECK(ptbpf_agent_ctl.gpu_why == PTB_AGENT_WHY_CUPTI_IN_USE);
		CHECK(!(ptbpf_agent_ctl.state & PTB_AGENT_GPU_ON));
	}
	cupti__stop();
	CHECK(!(ptbpf_agent_ctl.state & PTB_AGENT_GPU_ON));
	CHECK((world.mock_cupti_kinds() | 1 << 22) == kinds); /* but for copies between devices, what it may need */
	CHECK(!world.cuptiGetThreadIdType(&type) && type == 0);
	for (size_t i = 0; i < 300; i++)
		world__launch(NULL);
	world.cudaDeviceSynchronize();
	other_stops();
	CHECK(other_back == other_lent && other_back > 0 && other_unknown <= 1);
	emitted__forget();
	check_refused(PTB_AGENT_WHY_CUPTI_IN_USE);
}

static void run_comes_tick(void)
{
	load_12();
	run_comes(true);
}

static void run_comes_stop(void)
{
	load_12();
	run_comes(false);
}

/* CUPTI keeps the pair where it is not found: it is noticed at the end, and nothing is taken from the other. */
static void run_comes_unseen(void)
{
	setenv("MOCK_CUPTI_HEAP", "1", 1);
	load_12();
	CHECK(world__start(REQUEST) == 0);
	world__launch(NULL);
	world.cudaDeviceSynchronize();
	while (!world.mock_cupti_made()) /* until a buffer of ours has something */
		usleep(1000);
	other_starts();
	cupti__stop();
	CHECK(world.mock_cupti_kinds() & KERNEL_BIT);
	CHECK(ptbpf_agent_ctl.gpu_why == PTB_AGENT_WHY_CUPTI_IN_USE);
	other_stops();
}

static void run_unseen_alone(void)
{
	setenv("MOCK_CUPTI_HEAP", "1", 1);
	load_12();
	for (size_t i = 0; i < 3; i++) {
		CHECK(world__start(REQUEST) == 0);
		world__launch(NULL);
		world.cudaDeviceSynchronize();
		cupti__tick();
		world__launch(NULL);
		world.cudaDeviceSynchronize();
		usleep(10000);
		cupti__stop();
		CHECK(!world.mock_cupti_kinds() && !ptbpf_agent_ctl.gpu_why);
		CHECK(emitted__count(PTB_REC_GPU_KERNEL) == 2 * (i + 1));
	}
}

TEST("another comes")
{
	CU_ASSERT_EQUAL(world__case(run_comes_tick), 0);
	CU_ASSERT_EQUAL(world__case(run_comes_stop), 0);
	CU_ASSERT_EQUAL(world__case(run_comes_unseen), 0);
	CU_ASSERT_EQUAL(world__case(run_unseen_alone), 0);
}

/* It started, and ended, after the agent, which neither disturbs it nor is started again. */
static void run_comes_after(void)
{
	load_12();
	CHECK(world__start(REQUEST) == 0);
	world__launch(NULL);
	world.cudaDeviceSynchronize();
	cupti__stop();
	other_starts();
	world__launch(NULL);
	world.cudaDeviceSynchronize();
	other_stops();
	CHECK(other_kernels == 1 && other_unknown == 0 && emitted__count(PTB_REC_GPU_KERNEL) == 1);
}

TEST("another comes after")
{
	CU_ASSERT_EQUAL(world__case(run_comes_after), 0);
}

/* ---- absent, too old, too new, failing ---- */

static void run_no_cuda(void)
{
	CHECK(world__start(REQUEST) == PTB_AGENT_WHY_NO_CUDA);
}

static void run_old(void)
{
	load("17", CUPTI_12);
	check_refused(PTB_AGENT_WHY_OLD_CUPTI);
	CHECK(ptbpf_agent_ctl.cupti_version == 17);
}

static void run_new(void)
{
	load("140000", CUPTI_13);
	check_refused(PTB_AGENT_WHY_NEW_CUPTI);
	CHECK(!(ptbpf_agent_ctl.state & PTB_AGENT_CUPTI));
}

/* Not in the process yet: the one beside its CUDA runtime. */
static void run_beside(void)
{
	setenv("MOCK_CUPTI_VERSION", "22", 1);
	world__load(NULL);
	CHECK(world__start(REQUEST) == 0);
	world__launch(NULL);
	world.cudaDeviceSynchronize();
	cupti__stop();
	CHECK(emitted__count(PTB_REC_GPU_KERNEL) == 1);
}

static void run_fails_at(const char *name)
{
	load_12();
	world.mock_cuda_fail(name, 999, 1);
	check_refused(PTB_AGENT_WHY_CUPTI_ERROR);
	CHECK(ptbpf_agent_ctl.cupti_error == 999 && !world.mock_cupti_kinds());
	CHECK(world__start(REQUEST) == 0); /* the next time it works */
	CHECK(ptbpf_agent_ctl.gpu_why == 0);
	cupti__stop();
	CHECK(!world.mock_cupti_kinds());
}

static void run_subscribe_fails(void)
{
	run_fails_at("cuptiSubscribe");
}

static void run_register_fails(void)
{
	run_fails_at("cuptiActivityRegisterCallbacks");
}

static void run_enable_fails(void)
{
	run_fails_at("cuptiActivityEnable");
}

/* A later failure is recorded once, and everything else continues. */
static void run_fails_later(void)
{
	load_12();
	CHECK(world__start(REQUEST) == 0);
	world.mock_cuda_fail("cuptiActivityEnable", 77, 1);
	CHECK(world__start(REQUEST | AGENT_REQUEST(SYNC)) == 0);
	CHECK(!(ptbpf_agent_ctl.state & PTB_AGENT_SYNC_ON) && emitted__notes(PTB_GPU_ERROR) == 77);
	world.mock_cuda_fail("cuptiActivityFlushAll", 78, 2);
	world__launch(NULL);
	world.cudaDeviceSynchronize();
	cupti__tick();
	cupti__tick();
	CHECK(emitted__notes(PTB_GPU_ERROR) == 77);
	cupti__stop();
	CHECK(emitted__count(PTB_REC_GPU_KERNEL) == 1 && !world.mock_cupti_kinds());
}

TEST("absent, old, new, failing")
{
	CU_ASSERT_EQUAL(world__case(run_fails_later), 0);
	CU_ASSERT_EQUAL(world__case(run_no_cuda), 0);
	CU_ASSERT_EQUAL(world__case(run_old), 0);
	CU_ASSERT_EQUAL(world__case(run_new), 0);
	CU_ASSERT_EQUAL(world__case(run_beside), 0);
	CU_ASSERT_EQUAL(world__case(run_subscribe_fails), 0);
	CU_ASSERT_EQUAL(world__case(run_register_fails), 0);
	CU_ASSERT_EQUAL(world__case(run_enable_fails), 0);
}

/* ---- for ever ---- */

static void run_cycles(void)
{
	size_t kernels = 0;

	load("130001", CUPTI_13);
	for (size_t i = 0; i < 1000; i++) {
		emitted__forget();
		CHECK(world__start(REQUEST | (i % 2 ? AGENT_REQUEST(SYNC) : 0)) == 0);
		world__launch(NULL);
		world.cudaDeviceSynchronize();
		if (i % 3 == 0)
			cupti__tick();
		cupti__stop();
		CHECK(!world.mock_cupti_kinds());
		world__launch(NULL); /* not recorded */
		CHECK(emitted__notes(PTB_GPU_DROPPED) == 0 && emitted__notes(PTB_GPU_BUFFERS) == 0);
		kernels += emitted__count(PTB_REC_GPU_KERNEL);
	}
	CHECK(kernels == 1000);
}

static _Atomic bool enough;

static void *launch_always(void *launched)
{
	while (!enough) {
		world__launch(NULL);
		if (++*(_Atomic size_t *)launched % 16 == 0)
			usleep(100);
	}
	return NULL;
}

/* On and off while threads launch. */
static void run_busy_cycles(void)
{
	_Atomic size_t launched[4] = { 0 };
	pthread_t threads[4];

	load_12();
	for (size_t i = 0; i < 4; i++)
		CHECK(!pthread_create(&threads[i], NULL, launch_always, &launched[i]));
	for (size_t i = 0; i < 50; i++) {
		emitted__forget();
		CHECK(world__start(REQUEST) == 0);
		usleep(1000);
		cupti__tick();
		cupti__stop();
		CHECK(!world.mock_cupti_kinds());
	}
	enough = true;
	for (size_t i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
}

TEST("on and off")
{
	CU_ASSERT_EQUAL(world__case(run_cycles), 0);
	CU_ASSERT_EQUAL(world__case(run_busy_cycles), 0);
}

/* Until CUPTI's thread has put this many records into buffers or lost them, however busy the machine is. */
static void wait_put(uint64_t records)
{
	for (uint32_t i = 0;
	     i < 300000 && world.mock_cupti_made() + world.mock_cupti_lost() < records; i++)
		usleep(200);
	CHECK(world.mock_cupti_made() + world.mock_cupti_lost() >= records);
}

/* More records than the buffers hold while the agent's thread does not run: the lost ones are counted. */
static void run_overflow(bool refuses)
{
	size_t emitted_all;

	CHECK(world__start(REQUEST) == 0);
	for (size_t i = 0; i < 400000; i++) {
		world__launch(NULL);
		if (i % 2000 == 0)
			wait_put(2 * i); /* a call and its kernel */
	}
	world.cudaDeviceSynchronize();
	cupti__tick();
	cupti__stop();
	CHECK(emitted__count(PTB_REC_GPU_KERNEL) > 100000);
	emitted_all = emitted_cnt - emitted__count(PTB_REC_GPU_NOTE) - emitted__count(PTB_REC_GPU_DEVICE);
	CHECK(emitted_all == world.mock_cupti_made());
	CHECK(emitted__notes(PTB_GPU_DROPPED) == world.mock_cupti_lost());
	CHECK(emitted_all + emitted__notes(PTB_GPU_DROPPED) >= 800001);
	CHECK(!(emitted__notes(PTB_GPU_BUFFERS) > 0) == !refuses);
}

static void run_overflow_13(void)
{
	load("130001", CUPTI_13);
	run_overflow(true);
}

/* Before 12.9 a CUPTI without a buffer may crash: it gets four times as many before that happens. */
static void run_overflow_12(void)
{
	load_12();
	run_overflow(false);
}

TEST("overflow")
{
	CU_ASSERT_EQUAL(world__case(run_overflow_13), 0);
	CU_ASSERT_EQUAL(world__case(run_overflow_12), 0);
}

/* A child: nothing is recorded, nothing hangs, and the parent continues. */
static void run_fork(void)
{
	int status = -1;
	pid_t pid;

	load_12();
	CHECK(world__start(REQUEST) == 0);
	world__launch(NULL);
	pid = fork();
	if (pid == 0) {
		cupti__forked();
		emitted__forget();
		world__launch(NULL);
		cupti__tick();
		cupti__stop();
		CHECK(world__start(REQUEST) == PTB_AGENT_WHY_FORKED);
		CHECK(emitted_cnt == 0);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	world__launch(NULL);
	world.cudaDeviceSynchronize();
	cupti__stop();
	CHECK(emitted__count(PTB_REC_GPU_KERNEL) == 2);
}

TEST("fork")
{
	CU_ASSERT_EQUAL(world__case(run_fork), 0);
}

SUITE("cupti_neighbours")
