/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The agent's life in its host process: the control block, the thread that polls the semaphores,
 * forks. Never prints, exits or throws; does nothing until a tracer requests something.
 */
#include "agent.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "chunk.h"
#include "clock.h"
#include "cupti.h"
#include "libs.h"
#include "ops.h"
#include "torch.h"
#include "usdt.h"

#define STACK_BYTES (1024 * 1024) /* address space, also for CUPTI's code and thread-local blocks */
#define SCAN_NS 1000000000        /* is torch there by now? */
#define OPS_STATE                                                                                  \
	(PTB_AGENT_OPS_ON | PTB_AGENT_INPUTS_ON | PTB_AGENT_OUTPUTS_ON | PTB_AGENT_STACKS_ON |     \
	 PTB_AGENT_OPEN_ON)

#define EXPORTED __attribute__((visibility("default")))

struct ptb_agent_ctl ptbpf_agent_ctl = {
	/* and the last letter by the constructor: only a live agent has it whole */
	.magic = "PTBAGEN",
	.abi = PTB_AGENT_ABI,
	.size = sizeof(struct ptb_agent_ctl),
};

EXPORTED int InitializeInjection(void);

/* ---- sites ---- */

volatile __u16 ptbpf_semaphores[PTB_AGENT_SITE_CNT] __attribute__((section(".probes")));

/* Never called: its probes are for the semaphores only. */
__attribute__((used, noinline)) static void request_sites(void)
{
	USDT_SITE(OPS, "ops", "");
	USDT_SITE(INPUTS, "inputs", "");
	USDT_SITE(OUTPUTS, "outputs", "");
	USDT_SITE(GPU, "gpu", "");
	USDT_SITE(SYNC, "sync", "");
	USDT_SITE(GRAPHS, "graphs", "");
	USDT_SITE(OPEN, "open", "");
}

static struct {
	atomic_bool started, child, leaving;
	uint32_t ops_request, gpu_request; /* acted upon */
	bool ops_retry, gpu_retry, began_in_init;
	uint64_t scanned_ns, flushed_ns;
	struct ptb_arec_state sent_state;
	struct stream *state;
} agent;

/* one of the thread's, or the process's end */
static pthread_mutex_t rounds = PTHREAD_MUTEX_INITIALIZER;

/* This is a forked child: nothing may be touched. */
static bool is_child(void)
{
	return atomic_load_explicit(&agent.child, memory_order_relaxed);
}

/* AGENT_REQUEST() bits of the semaphores that are raised now; 0 in a forked child. */
static uint32_t raised_requests(void)
{
	uint32_t requests = 0;

	for (uint32_t i = 0; i < PTB_AGENT_SITE_CNT; i++)
		requests |= (ptbpf_semaphores[i] ? 1u : 0u) << i;
	return requests & AGENT_REQUEST(CHUNK) && !is_child() ? requests : 0;
}

/*
 * The requests of a round. What is no longer requested leaves the control block before it is
 * switched off. So a tracer that requests it at that very moment is either noticed here, or does
 * not find it in the control block and waits.
 */
static uint32_t take_requests(void)
{
	uint32_t requests;

	do {
		requests = raised_requests();
		__atomic_and_fetch(&ptbpf_agent_ctl.requests, requests, __ATOMIC_SEQ_CST);
	} while (raised_requests() != requests);
	return requests;
}

bool agent__listening(void)
{
	return ptbpf_semaphores[PTB_AGENT_SITE_CHUNK] != 0;
}

struct stream *agent__state_stream(void)
{
	return agent.state;
}

/* ---- what it sends ---- */

static void send_clock(void)
{
	struct ptb_arec_clock r;

	clock__pair(&r);
	stream__put(agent.state, &r.r);
}

static void send_state(void)
{
	const struct ptb_agent_ctl *c = &ptbpf_agent_ctl;
	struct ptb_arec_state r = {
		.r = { .len = sizeof(r), .kind = PTB_AREC_STATE },
		.state = c->state,
		.ops_why = c->ops_why,
		.gpu_why = c->gpu_why,
		.cupti_error = c->cupti_error,
	};

	if (!memcmp(&r, &agent.sent_state, sizeof(r)))
		return;
	agent.sent_state = r;
	r.r.ticks = clock__ticks();
	stream__put(agent.state, &r.r);
}

/* What all streams hold, then the clock behind it, then the state. */
static void send_everything(void)
{
	streams__flush(true);
	send_clock();
	send_state();
	stream__send(agent.state);
}

/* ---- the process's end ---- */

/*
 * Runs before torch and CUDA take down what they made before the first request: the last records
 * are sent, and the thread, which does not get `rounds` any more, calls neither of them.
 */
static void process_exits(void)
{
	struct timespec until;

	if (is_child() || atomic_exchange(&agent.leaving, true))
		return;
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec++;
	if (pthread_mutex_timedlock(&rounds, &until))
		return;
	if (ops__on())
		ops__stop(true);
	if (agent.gpu_request)
		cupti__stop();
	agent__set_state(PTB_AGENT_ALIVE | OPS_STATE, false);
	send_everything();
}

/* again: what was done since then would else be taken down before us. */
static void leave_at_exit(bool again)
{
	static bool done;

	if (!done || again)
		done = !atexit(process_exits) || done;
}

/* ---- requests ---- */

static bool take_cfg(struct ptb_agent_cfg *cfg)
{
	const volatile struct ptb_agent_ctl *c = &ptbpf_agent_ctl;

	if (c->cfg_abi != PTB_AGENT_ABI || c->cfg_size != sizeof(*cfg))
		return false;
	memcpy(cfg, &ptbpf_agent_ctl.cfg, sizeof(*cfg));
	return true;
}

static void ops_stop(void)
{
	ops__stop(false);
	agent__set_state(OPS_STATE, false);
	send_everything();
}

static void ops_start(uint32_t request)
{
	struct ptb_agent_cfg cfg;
	int why = take_cfg(&cfg) ? ops__start(request, &cfg) : PTB_AGENT_WHY_BAD_CFG;
	bool values = why == 0 && cfg.tensor.shapes_on;

	agent.ops_retry = why < 0 || why == PTB_AGENT_WHY_NO_TORCH;
	ptbpf_agent_ctl.ops_why = why < 0 ? PTB_AGENT_WHY_NONE : (uint32_t)why;
	agent__set_state(PTB_AGENT_OPS_ON, why == 0 && request & AGENT_REQUEST(OPS));
	agent__set_state(PTB_AGENT_OPEN_ON, why == 0 && request & AGENT_REQUEST(OPEN));
	agent__set_state(PTB_AGENT_TORCH, why == 0 || torch__find());
	agent__set_state(PTB_AGENT_INPUTS_ON,
			 values && request & (AGENT_REQUEST(INPUTS) | AGENT_REQUEST(OUTPUTS)));
	agent__set_state(PTB_AGENT_OUTPUTS_ON, values && request & AGENT_REQUEST(OUTPUTS));
	agent__set_state(PTB_AGENT_STACKS_ON, why == 0 && request & AGENT_REQUEST(STACKS));
	if (why)
		return;
	leave_at_exit(false);
	send_everything();
}

static void check_ops(uint32_t requests)
{
	uint32_t want = (requests & AGENT_REQUEST(OPS) ?
				 requests & (AGENT_REQUEST(OPS) | AGENT_REQUEST(INPUTS) |
					     AGENT_REQUEST(OUTPUTS) | AGENT_REQUEST(STACKS) |
					     AGENT_REQUEST(EDGES)) :
				 0) |
			(requests & AGENT_REQUEST(OPEN));
	enum ptb_agent_why trouble = ops__on() ? ops__trouble() : PTB_AGENT_WHY_NONE;

	if (trouble) {
		ops_stop();
		if (trouble == PTB_AGENT_WHY_BAD_TENSORS)
			ops_start(agent.ops_request & (AGENT_REQUEST(OPS) | AGENT_REQUEST(STACKS) |
						       AGENT_REQUEST(EDGES) | AGENT_REQUEST(OPEN)));
		ptbpf_agent_ctl.ops_why = trouble;
	}
	if (want == agent.ops_request && !agent.ops_retry)
		return;
	if (ops__on())
		ops_stop();
	agent.ops_request = want;
	agent.ops_retry = false;
	if (want)
		ops_start(want);
}

static void check_gpu(uint32_t requests, bool in_init)
{
	uint32_t want = requests & AGENT_REQUEST(GPU) ?
				requests & (AGENT_REQUEST(GPU) | AGENT_REQUEST(SYNC) |
					    AGENT_REQUEST(GRAPHS)) :
				0;
	int why;

	if (want == agent.gpu_request && !agent.gpu_retry)
		return;
	if (agent.gpu_request && !want)
		cupti__stop();
	why = want ? cupti__start(want, in_init) : 0;
	if (want && !why)
		leave_at_exit(false);
	agent.gpu_request = want;
	agent.gpu_retry = why == PTB_AGENT_WHY_NO_CUDA || why == PTB_AGENT_WHY_NO_CUPTI;
	ptbpf_agent_ctl.gpu_why = (uint32_t)why;
}

static void find_torch(uint64_t now)
{
	if (ptbpf_agent_ctl.state & PTB_AGENT_TORCH || now - agent.scanned_ns < SCAN_NS)
		return;
	agent.scanned_ns = now;
	agent__set_state(PTB_AGENT_TORCH, torch__find());
}

/* With the lock. */
static void poll_round(void)
{
	uint64_t now = agent__mono_ns();
	uint32_t requests = take_requests();

	if (atomic_load(&agent.leaving))
		return;
	find_torch(now);
	check_ops(requests);
	check_gpu(requests, false);
	__atomic_store_n(&ptbpf_agent_ctl.requests, requests, __ATOMIC_SEQ_CST);
	/* since cuInit() may have left something for the process's end */
	if (agent.began_in_init) {
		agent.began_in_init = false;
		leave_at_exit(true);
	}
	if (!requests) {
		/* the next tracer gets all of it */
		agent.sent_state = (struct ptb_arec_state){ 0 };
		return;
	}
	if (now - agent.flushed_ns >= PTB_AGENT_FLUSH_NS) {
		agent.flushed_ns = now;
		if (agent.gpu_request)
			cupti__tick();
		streams__flush(false);
		send_clock();
	}
	send_state();
	stream__send(agent.state);
}

/*
 * What poll_round() would find in up to 50 ms, for the driver's call within cuInit(): the first
 * kernel may come before that. Who waits for the driver in a round is not waited for; then the
 * thread does it, as it does everything else.
 */
static void poll_in_init(void)
{
	uint32_t requests = raised_requests();
	sigset_t all, before;

	if (!(requests & AGENT_REQUEST(GPU)) || !(ptbpf_agent_ctl.state & PTB_AGENT_ALIVE) ||
	    pthread_mutex_trylock(&rounds))
		return;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before); /* for CUPTI's threads too */
	if (!atomic_load(&agent.leaving)) {
		check_gpu(requests, true);
		agent.began_in_init = !agent.gpu_retry;
		send_state();
		stream__send(agent.state);
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_mutex_unlock(&rounds);
}

/* ---- the thread ---- */

static void *run(void *arg)
{
	const struct timespec poll = { .tv_nsec = PTB_AGENT_POLL_NS };

	(void)arg;
	pthread_setname_np(pthread_self(), "ptbpf-agent");
	ptbpf_agent_ctl.tid = (uint32_t)syscall(SYS_gettid);
	for (;;) {
		nanosleep(&poll, NULL);
		if (raised_requests() & AGENT_REQUEST(GPU))
			cuda__check_in_use();
		pthread_mutex_lock(&rounds);
		poll_round();
		pthread_mutex_unlock(&rounds);
	}
	return NULL;
}

static void before_fork(void)
{
	if (!is_child())
		ops__before_fork();
}

static void after_fork(void)
{
	if (!is_child())
		ops__after_fork();
}

/* The child has no such thread, and neither CUPTI nor torch can be used in it: the agent stays
 * inert there for good. */
static void in_child(void)
{
	if (is_child())
		return;
	ops__after_fork();
	atomic_store(&agent.child, true);
	ops__forked();
	cupti__forked();
	ptbpf_agent_ctl.state &= PTB_AGENT_TORCH | PTB_AGENT_CUPTI | PTB_AGENT_TSC |
				 PTB_AGENT_INJECTED;
	ptbpf_agent_ctl.requests = 0;
	ptbpf_agent_ctl.ops_why = PTB_AGENT_WHY_FORKED;
	ptbpf_agent_ctl.gpu_why = PTB_AGENT_WHY_FORKED;
	ptbpf_agent_ctl.tid = 0;
}

static bool start_thread(void)
{
	pthread_attr_t attr;
	pthread_t thread;
	sigset_t all, before;
	bool ok;

	if (pthread_attr_init(&attr))
		return false;
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	ok = !pthread_create(&thread, &attr, run, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
	return ok;
}

/* What pthread_atfork() calls in glibc. Programs of another C library (musl) load the agent, too;
 * it does nothing there. */
typedef void fork_handler(void);
int __register_atfork(fork_handler *before, fork_handler *parent, fork_handler *child, void *lib)
	__attribute__((weak));
extern void *__dso_handle;

static bool watch_forks(void)
{
	return __register_atfork &&
	       !__register_atfork(before_fork, after_fork, in_child, &__dso_handle);
}

static void start_agent(void)
{
	if (atomic_exchange(&agent.started, true))
		return;
	clock__choose();
	agent.state = stream__new(PTB_CHUNK_STATE, 0);
	/* the thread's, but poll_in_init() does not wait for it */
	agent__set_state(PTB_AGENT_ALIVE, true);
	if (agent.state && watch_forks() && start_thread())
		ptbpf_agent_ctl.magic[7] = 'T';
	else
		agent__set_state(PTB_AGENT_ALIVE, false);
}

/* ---- loaded ---- */

static bool alive(void *lib)
{
	const struct ptb_agent_ctl *other = dlsym(lib, PTB_AGENT_CTL_SYMBOL);

	return other && other != &ptbpf_agent_ctl && other->magic[7];
}

/* Is another copy of this library at work in the process, from another file? */
static bool another_is_here(void)
{
	/* which is never unloaded */
	return alive(RTLD_DEFAULT) || libs__find("ptbpf_agent", alive);
}

/* Processes that neither are nor can become one that uses torch are left alone. */
__attribute__((constructor)) static void loaded(void)
{
	const char *preload = getenv("LD_PRELOAD");

	if ((!dlsym(RTLD_DEFAULT, "Py_IsInitialized") && !libs__find("libtorch_cpu", NULL)) ||
	    another_is_here())
		return; /* else torch may stay loaded for as long as we are */
	if (!preload || !strstr(preload, "ptbpf_agent"))
		agent__set_state(PTB_AGENT_INJECTED, true);
	start_agent();
}

/* CUDA's driver calls it for the library that CUDA_INJECTION64_PATH names. */
int InitializeInjection(void)
{
	agent__set_state(PTB_AGENT_INJECTED, false);
	if (another_is_here())
		return 1;
	start_agent();
	poll_in_init();
	return 1;
}
