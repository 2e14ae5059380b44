/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The agent, as it is built, in this process beside a mock libtorch: threads that come and go, forks, the
 * process's end, a second copy.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent_host.h"
#include "suite.h"

/* ---- threads ---- */

#define THREADS 8
#define OPS_EACH 30000

static void *work(void *arg)
{
	struct mock_rf outer, inner;

	(void)arg;
	for (uint32_t i = 0; i < OPS_EACH / 2; i++)
		host__nest(&outer, &inner);
	return NULL;
}

static void *work_little(void *arg)
{
	host__run_op(arg);
	return NULL;
}

struct flow {
	uint32_t begins, ends, disorder;
	uint32_t stream, seq; /* of the current chunk */
	const struct ptb_chunk *chunk;
	struct {
		uint32_t seq;
		uint64_t ticks;
	} streams[1024];
};

static void follow(const struct ptb_chunk *c, const struct ptb_arec *r, void *ctx)
{
	struct flow *f = ctx;

	if (c->stream >= 1024 || c->dropped)
		f->disorder++;
	if (c != f->chunk && c->seq != ++f->streams[c->stream % 1024].seq)
		f->disorder++;
	f->chunk = c;
	f->begins += r->kind == PTB_AREC_BEGIN;
	f->ends += r->kind == PTB_AREC_END;
	if (r->kind != PTB_AREC_NAME && r->ticks < f->streams[c->stream % 1024].ticks)
		f->disorder++;
	if (r->kind != PTB_AREC_NAME)
		f->streams[c->stream % 1024].ticks = r->ticks;
}

TEST("threads")
{
	static struct flow f;
	pthread_t threads[THREADS];

	host__configure_right();
	for (uint32_t round = 0; round < 3; round++) {
		CU_ASSERT_FATAL(host__attach(REQUEST(OPS)));
		for (uint32_t i = 0; i < THREADS; i++)
			CU_ASSERT_FATAL(!pthread_create(&threads[i], NULL, work, NULL));
		for (uint32_t i = 0; i < THREADS; i++)
			pthread_join(threads[i], NULL);
		for (uint32_t i = 0; i < 100; i++) { /* each leaves a part-filled chunk */
			CU_ASSERT_FATAL(!pthread_create(&threads[0], NULL, work_little,
							(void *)(uintptr_t)&mock_neg));
			pthread_join(threads[0], NULL);
		}
		CU_ASSERT(host__detach());
		memset(&f, 0, sizeof(f));
		host__each(PTB_CHUNK_OPS, follow, &f);
		CU_ASSERT_EQUAL(f.begins, THREADS * OPS_EACH + 100);
		CU_ASSERT_EQUAL(f.ends, THREADS * OPS_EACH + 100);
		CU_ASSERT_EQUAL(f.disorder, 0);
	}
}

/* ---- requests ---- */

static bool acts_on(uint32_t requests)
{
	for (uint32_t i = 0; i < 1000 && host__ctl()->requests != requests; i++)
		usleep(10000);
	return host__ctl()->requests == requests;
}

/* The control block has what it has acted on, until it finds that it is not requested any more. */
TEST("requests")
{
	host__configure_right();
	CU_ASSERT_EQUAL(host__ctl()->requests, 0);
	for (uint32_t round = 0; round < 3; round++) {
		CU_ASSERT_FATAL(host__attach(REQUEST(OPS)));
		CU_ASSERT(acts_on(REQUEST(CHUNK) | REQUEST(OPS)));
		CU_ASSERT(host__ctl()->state & PTB_AGENT_OPS_ON);
		CU_ASSERT(host__detach());
		CU_ASSERT(acts_on(0));
		CU_ASSERT(!(host__ctl()->state & PTB_AGENT_OPS_ON));
	}
}

/* ---- forks ---- */

static int in_child(void)
{
	struct ptb_agent_ctl *c = host__ctl();
	uint64_t chunks = c->chunks;

	if (c->state & (PTB_AGENT_ALIVE | PTB_AGENT_OPS_ON) || c->requests ||
	    c->ops_why != PTB_AGENT_WHY_FORKED || c->tid)
		return 1;
	for (uint32_t i = 0; i < 5000; i++)
		host__run_op(&mock_add);
	return c->chunks != chunks ? 2 : fork() ? (wait(NULL), 0) : 0;
}

static bool stop;

#define OPS_UNPAUSED 2000000 /* of two threads a quarter of what agent_host.c reads */

/* Operators, and with them torch's lock, without a pause; where forks take long, with pauses in the end. */
static void *work_on(void *arg)
{
	uintptr_t cnt = 0;

	for (; !__atomic_load_n(&stop, __ATOMIC_RELAXED); cnt++) {
		host__run_op(arg);
		if (cnt > OPS_UNPAUSED)
			usleep(100);
	}
	return (void *)cnt;
}

static bool child_ends_well(pid_t pid)
{
	int status;

	for (int i = 0; i < 3000; i++) {
		if (waitpid(pid, &status, WNOHANG) == pid)
			return WIFEXITED(status) && WEXITSTATUS(status) == 0;
		usleep(10000);
	}
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	return false;
}

TEST("forks")
{
	const uint64_t dropped = host__ctl()->dropped; /* the agent's thread may be delayed while it sends */
	pthread_t threads[2];
	uintptr_t cnt = 0;
	uint32_t bad = 0;
	void *did;

	host__configure_right();
	CU_ASSERT_FATAL(host__attach(REQUEST(OPS)));
	stop = false;
	for (uint32_t i = 0; i < 2; i++)
		CU_ASSERT_FATAL(!pthread_create(&threads[i], NULL, work_on, (void *)(uintptr_t)&mock_neg));
	for (uint32_t i = 0; i < 100; i++) {
		pid_t pid = fork();

		if (!pid)
			_exit(in_child());
		bad += pid < 0 || !child_ends_well(pid);
	}
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	for (uint32_t i = 0; i < 2; i++) {
		pthread_join(threads[i], &did);
		cnt += (uintptr_t)did;
	}
	CU_ASSERT_EQUAL(bad, 0);
	CU_ASSERT(host__detach());
	CU_ASSERT_EQUAL(host__count(PTB_AREC_BEGIN) + host__count(PTB_AREC_END) +
				host__ctl()->dropped - dropped,
			2 * cnt);
}

/* ---- the end, and copies ---- */

/* At the end of a process or thread the agent sends the rest of its records, and the end. */
TEST("the process ends")
{
	struct first_records *h = calloc(1, sizeof(*h));
	pid_t pid = fork();
	int status;

	if (!pid) {
		execl("/proc/self/exe", "test_agent_life", "exits", (char *)NULL);
		_exit(127);
	}
	CU_ASSERT_FATAL(pid > 0 && waitpid(pid, &status, 0) == pid);
	CU_ASSERT(WIFEXITED(status) && WEXITSTATUS(status) == 5);
	host__read_of(pid);
	host__each(PTB_CHUNK_OPS, collect_records, h);
	CU_ASSERT_EQUAL(h->cnt, 1 + 2 * 7);
	h->cnt = 0;
	host__each(PTB_CHUNK_STATE, collect_records, h);
	CU_ASSERT_FATAL(h->cnt > 1);
	CU_ASSERT_EQUAL(h->r[h->cnt - 1].kind, PTB_AREC_STATE);
	CU_ASSERT_EQUAL((uint32_t)h->r[h->cnt - 1].rf & (PTB_AGENT_ALIVE | PTB_AGENT_OPS_ON), 0);
	free(h);
}

static int exits(void)
{
	if (!host__load())
		return 1;
	host__configure_right();
	if (!host__attach(REQUEST(OPS)))
		return 2;
	for (uint32_t i = 0; i < 7; i++)
		host__run_op(&mock_add);
	exit(5);
}

static uint32_t threads_now(void)
{
	struct dirent *e;
	uint32_t n = 0;
	DIR *d = opendir("/proc/self/task");

	while (d && (e = readdir(d)))
		n += e->d_name[0] != '.';
	closedir(d);
	return n;
}

/* The same library from another file does nothing; loading and unloading them changes nothing either. */
TEST("a second copy")
{
	char dir[] = "/tmp/ptbpf-agent-copy-XXXXXX", cmd[512], path[64];
	struct ptb_agent_ctl *other;
	int (*initialize)(void);
	uint32_t threads;
	void *lib;

	CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/libptbpf_agent_copy.so", dir);
	snprintf(cmd, sizeof(cmd), "cp %s %s", AGENT, path);
	CU_ASSERT_EQUAL_FATAL(system(cmd), 0);
	threads = threads_now();
	for (uint32_t i = 0; i < 3; i++) {
		lib = dlopen(path, RTLD_NOW | (i ? RTLD_GLOBAL : RTLD_LOCAL));
		CU_ASSERT_PTR_NOT_NULL_FATAL(lib);
		other = dlsym(lib, PTB_AGENT_CTL_SYMBOL);
		*(void **)&initialize = dlsym(lib, "InitializeInjection");
		CU_ASSERT_FATAL(other && other != host__ctl() && initialize);
		CU_ASSERT_EQUAL(initialize(), 1);
		CU_ASSERT_EQUAL(memcmp(other->magic, "PTBAGENT", 8) != 0, 1);
		CU_ASSERT_EQUAL(other->state & PTB_AGENT_ALIVE, 0);
		CU_ASSERT_EQUAL(dlclose(lib), 0);
		lib = dlopen(AGENT, RTLD_NOW);
		CU_ASSERT_EQUAL(dlclose(lib), 0);
		CU_ASSERT_EQUAL(dlclose(lib), 0); /* one dlclose() more than dlopen() here */
	}
	CU_ASSERT_EQUAL(threads_now(), threads);
	host__configure_right();
	CU_ASSERT(host__attach(REQUEST(OPS)));
	host__run_op(&mock_add);
	CU_ASSERT(host__detach());
	CU_ASSERT_EQUAL(host__count(PTB_AREC_BEGIN), 1);
	unlink(path);
	rmdir(dir);
}

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "exits"))
		return exits();
	if (!host__load())
		return 1;
	return run_suite("agent life");
}
