/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Memory in known amounts: functions called as torch's allocators and libcudart's are, and work for the
 * kernel, all inside probed calls. Takes commands as target_calls does.
 */
#include "site_func.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096ul

/* ---- allocators ---- */

struct device {
	signed char type, index;
};

long report_body(void);
long report_body(void)
{
	return 1;
}
void site_new(void *self, const void *block, size_t bytes);
void site_delete(void *self, const void *block);
void site_report(const void *block, int64_t bytes, size_t allocated, size_t reserved,
		 struct device device);
void site_oom(int64_t bytes, size_t allocated, size_t reserved, struct device device);
void site_cpu_oom(void *self, size_t bytes);
SITE_FUNC(site_new, report_body);
SITE_FUNC(site_delete, report_body);
SITE_FUNC(site_report, report_body);
SITE_FUNC(site_oom, report_body);
SITE_FUNC(site_cpu_oom, report_body);

static uint64_t allocators(long n)
{
	const struct device cuda = { 1, 3 }, none = { 20, -1 };

	for (long i = 0; i < n; i++) {
		const void *block = (const void *)(uintptr_t)(0x10000 + (size_t)i * 64);

		site_new(NULL, block, 64 + (size_t)i);
		site_report(block, -(64 + i), 1000 + (size_t)i, 2000, cuda);
		site_delete(NULL, block);
	}
	site_oom(1l << 40, 5, 6, none);
	site_cpu_oom(NULL, 1ul << 50);
	return (uint64_t)n;
}

/* ---- a CUDA-like library: outer calls call inner ones ---- */

long site_api_inner(void **out, size_t bytes);
long site_api_outer(void **out, size_t bytes, long depth);
long site_api_free(void *ptr);
long site_api_lost(void **out, size_t bytes); /* its exit is never reached */
long inner_body(void **out, size_t bytes);
long outer_body(void **out, size_t bytes, long depth);
long inner_body(void **out, size_t bytes)
{
	*out = bytes ? (void *)(uintptr_t)(0x7000000000 + bytes) : NULL;
	return 0;
}
long outer_body(void **out, size_t bytes, long depth)
{
	void *mine = NULL;

	if (depth > 0)
		site_api_outer(&mine, bytes + 1, depth - 1);
	else
		site_api_inner(&mine, bytes + 1);
	*out = mine;
	return 0;
}
SITE_FUNC(site_api_inner, inner_body);
SITE_FUNC(site_api_outer, outer_body);
SITE_FUNC(site_api_free, report_body);

static void *jump[5];
long lost_body(void **out, size_t bytes);
long lost_body(void **out, size_t bytes)
{
	*out = (void *)(uintptr_t)bytes;
	__builtin_longjmp(jump, 1);
}
SITE_FUNC(site_api_lost, lost_body);

static __attribute__((noinline)) void call_lost(void **out, size_t bytes)
{
	if (!__builtin_setjmp(jump))
		site_api_lost(out, bytes);
}

static uint64_t api(long depth)
{
	void *p = (void *)0x1234;

	site_api_outer(&p, 100, depth);
	site_api_free(p);
	site_api_inner(&p, 0);   /* fails */
	site_api_inner(&p, 500); /* twice the same */
	site_api_inner(&p, 500);
	call_lost(&p, 77);
	site_api_inner(&p, 600);
	site_api_inner((void **)(uintptr_t)&p, 700);
	return (uint64_t)(uintptr_t)p;
}

/* ---- the kernel's work, inside a probed call; answers the thread's own counters ---- */

long site_work(long what, long n);
long work_body(long what, long n);
SITE_FUNC(site_work, work_body);
long site_mark(void);
SITE_FUNC(site_mark, report_body);

static uint64_t minor_faults(void)
{
	struct rusage ru;

	getrusage(RUSAGE_THREAD, &ru);
	return (uint64_t)ru.ru_minflt;
}

static char *map(size_t bytes)
{
	char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		abort();
	madvise(p, bytes, MADV_NOHUGEPAGE);
	return p;
}

static void touch(char *p, size_t pages, bool write)
{
	for (size_t i = 0; i < pages; i++)
		if (write)
			((volatile char *)p)[i * PAGE] = 1;
		else
			(void)((volatile char *)p)[i * PAGE];
}

static char *region; /* of the command before */
static size_t region_pages;

enum {
	WORK_WRITE,
	WORK_READ,
	WORK_DISCARD,
	WORK_MAP,
	WORK_UNMAP,
	WORK_BRK,
	WORK_REMAP,
	WORK_SMALL,
	WORK_FILE,
	WORK_COLLAPSE,
	WORK_COMPACT,
	WORK_HOLE,
	WORK_REPLACE,
};

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif
#define HUGE_PAGE (2ul << 20)

/* So many pages of a file that no other process uses, through the page cache. */
static void write_file(size_t pages)
{
	char name[] = "/var/tmp/ptbpf-target-XXXXXX", page[PAGE] = "x";
	int fd = mkstemp(name);

	unlink(name);
	for (size_t i = 0; i < pages; i++)
		if (write(fd, page, sizeof(page)) != (ssize_t)sizeof(page))
			break;
	close(fd);
}

/* 0, or an errno */
static long collapse(void)
{
	char *at = (char *)(((uintptr_t)region + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1));

	madvise(at, HUGE_PAGE, MADV_NOHUGEPAGE); /* or it is one already */
	touch(at, HUGE_PAGE / PAGE, true);
	madvise(at, HUGE_PAGE, MADV_HUGEPAGE);
	return madvise(at, HUGE_PAGE, MADV_COLLAPSE) ? errno : 0;
}

static long compact(void)
{
	FILE *f = fopen("/proc/sys/vm/compact_memory", "we");
	int err;

	if (!f)
		return errno;
	fputs("1", f);
	err = fclose(f) ? errno : 0;
	return err;
}

static void calls_that_change_maps(long what, size_t n)
{
	switch (what) {
	case WORK_MAP:
		region = mmap(NULL, n * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		region_pages = n;
		break;
	case WORK_UNMAP:
		munmap(region, n * PAGE);
		break;
	case WORK_BRK:
		if (sbrk((intptr_t)(n * PAGE)) == (void *)-1 ||
		    sbrk(-(intptr_t)(n * PAGE / 2)) == (void *)-1)
			abort();
		break;
	case WORK_REMAP:
		region = mremap(region, region_pages * PAGE, n * PAGE, MREMAP_MAYMOVE);
		region_pages = n;
		break;
	case WORK_HOLE:
		if (munmap((void *)0x200000000000, n * PAGE))
			abort();
		break;
	case WORK_REPLACE:
		if (mmap(region, n * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
			 0) != region)
			abort();
		break;
	case WORK_FILE:
		write_file(n);
		break;
	case WORK_SMALL:
		for (size_t i = 0; i < n; i++)
			munmap(mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), PAGE);
		break;
	}
}

long work_body(long what, long n)
{
	uint64_t before = minor_faults();

	if (what == WORK_COLLAPSE)
		return collapse();
	if (what == WORK_COMPACT)
		return compact();
	if (what == WORK_WRITE || what == WORK_READ)
		touch(region, (size_t)n, what == WORK_WRITE);
	else if (what == WORK_DISCARD)
		madvise(region, (size_t)n * PAGE, MADV_DONTNEED);
	else
		calls_that_change_maps(what, (size_t)n);
	return (long)(minor_faults() - before);
}

/* Faults of a region made and touched in every round: n pages each. */
static uint64_t loop(long rounds, long pages)
{
	uint64_t before = minor_faults();
	char *p = map((size_t)pages * PAGE);

	for (long i = 0; i < rounds; i++) {
		site_mark();
		touch(p, (size_t)pages, true);
		site_mark();
		madvise(p, (size_t)pages * PAGE, MADV_DONTNEED);
	}
	munmap(p, (size_t)pages * PAGE);
	site_mark();
	return minor_faults() - before;
}

/* Processor time of the same without probes, ns. */
static uint64_t fault_cost(long rounds, long pages)
{
	struct timespec from, to;
	char *p = map((size_t)pages * PAGE);

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
	for (long i = 0; i < rounds; i++) {
		touch(p, (size_t)pages, true);
		madvise(p, (size_t)pages * PAGE, MADV_DONTNEED);
	}
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
	munmap(p, (size_t)pages * PAGE);
	return (uint64_t)(to.tv_sec - from.tv_sec) * 1000000000u + (uint64_t)to.tv_nsec -
	       (uint64_t)from.tv_nsec;
}

/* ns of so many probed calls that do nothing. */
static uint64_t mark_cost(long n)
{
	struct timespec from, to;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
	for (long i = 0; i < n; i++)
		site_mark();
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
	return (uint64_t)(to.tv_sec - from.tv_sec) * 1000000000u + (uint64_t)to.tv_nsec -
	       (uint64_t)from.tv_nsec;
}

static long thread_rounds, thread_pages;
static pthread_barrier_t barrier;

static void *thread_main(void *arg)
{
	uint64_t n;

	(void)arg;
	n = loop(thread_rounds, thread_pages);
	pthread_barrier_wait(&barrier);
	return (void *)(uintptr_t)n;
}

static uint64_t threads(long cnt, long rounds, long pages)
{
	pthread_t t[64];
	uint64_t all = 0;

	thread_rounds = rounds;
	thread_pages = pages;
	pthread_barrier_init(&barrier, NULL, (unsigned int)cnt);
	for (long i = 0; i < cnt && i < 64; i++)
		if (pthread_create(&t[i], NULL, thread_main, NULL))
			abort();
	for (long i = 0; i < cnt && i < 64; i++) {
		void *ret;

		pthread_join(t[i], &ret);
		all += (uint64_t)(uintptr_t)ret;
	}
	return all;
}

/* Threads of which one at a time faults, less than what the kernel keeps with a thread. */
static long turn_threads;

static void *turn_main(void *arg)
{
	uint64_t before = minor_faults();
	char *p = map((size_t)(thread_rounds * thread_pages) * PAGE);

	for (long turn = 0; turn < thread_rounds * turn_threads; turn++) {
		pthread_barrier_wait(&barrier);
		if (turn % turn_threads != (long)(uintptr_t)arg)
			continue;
		touch(p + (size_t)(turn / turn_threads * thread_pages) * PAGE, (size_t)thread_pages, true);
		site_mark();
	}
	pthread_barrier_wait(&barrier); /* no thread ends in another one's turn: see together() */
	return (void *)(uintptr_t)(minor_faults() - before);
}

/* One thread gives much back while others fault: what they get they keep. */
static void *giver_main(void *arg)
{
	size_t pages = 16 * (size_t)thread_pages;
	char *p = map(pages * PAGE);

	(void)arg;
	for (long i = 0; i < thread_rounds; i++) {
		touch(p, pages, true);
		site_mark();
		pthread_barrier_wait(&barrier);
		madvise(p, pages * PAGE, MADV_DONTNEED);
		pthread_barrier_wait(&barrier);
	}
	return NULL;
}

static void *keeper_main(void *arg)
{
	uint64_t before = minor_faults();
	char *p = map((size_t)(thread_rounds * thread_pages) * PAGE);

	(void)arg;
	for (long i = 0; i < thread_rounds; i++) {
		pthread_barrier_wait(&barrier);
		touch(p + (size_t)(i * thread_pages) * PAGE, (size_t)thread_pages, true);
		site_mark();
		pthread_barrier_wait(&barrier);
	}
	return (void *)(uintptr_t)(minor_faults() - before);
}

/* How many threads there are, including those that need not be waited for any more. */
static int thread_cnt(void)
{
	DIR *dir = opendir("/proc/self/task");
	struct dirent *e;
	int cnt = 0;

	if (!dir)
		abort();
	while ((e = readdir(dir)))
		cnt += e->d_name[0] != '.';
	closedir(dir);
	return cnt;
}

/*
 * Before Linux 6.2 a thread's own counts of pages are added to the process's sum when it ends, which may be after
 * pthread_join(): until then they look like growth. So this waits for its end.
 */
static uint64_t together(void *(*first)(void *), void *(*rest)(void *), long cnt, long rounds, long pages)
{
	pthread_t t[64];
	uint64_t all = 0;
	void *ret;

	thread_rounds = rounds;
	thread_pages = pages;
	turn_threads = cnt;
	pthread_barrier_init(&barrier, NULL, (unsigned int)cnt);
	for (long i = 0; i < cnt && i < 64; i++)
		if (pthread_create(&t[i], NULL, i ? rest : first, (void *)(uintptr_t)i))
			abort();
	for (long i = 0; i < cnt && i < 64; i++) {
		pthread_join(t[i], &ret);
		all += (uint64_t)(uintptr_t)ret;
	}
	while (thread_cnt() > 1)
		usleep(1000);
	return all;
}

/* As threads(), but what it answers is what was in memory: the same every time. */
static void *churn_main(void *arg)
{
	uint64_t sum = (uint64_t)(uintptr_t)arg;

	for (long i = 0; i < thread_rounds; i++) {
		unsigned char *p = (unsigned char *)map((size_t)thread_pages * PAGE);

		for (long k = 0; k < thread_pages; k++) {
			site_mark();
			p[(size_t)k * PAGE] = (unsigned char)(sum + (uint64_t)k);
		}
		for (long k = 0; k < thread_pages; k++)
			sum = sum * 6364136223846793005u + p[(size_t)k * PAGE];
		munmap(p, (size_t)thread_pages * PAGE);
	}
	return (void *)(uintptr_t)sum;
}

static uint64_t churn(long cnt, long rounds, long pages)
{
	pthread_t t[64];
	uint64_t all = 0;

	thread_rounds = rounds;
	thread_pages = pages;
	for (long i = 0; i < cnt && i < 64; i++)
		if (pthread_create(&t[i], NULL, churn_main, (void *)(uintptr_t)(i + 1)))
			abort();
	for (long i = 0; i < cnt && i < 64; i++) {
		void *ret;

		pthread_join(t[i], &ret);
		all += (uint64_t)(uintptr_t)ret;
	}
	return all;
}

static uint64_t usage(void)
{
	struct rusage ru;

	getrusage(RUSAGE_SELF, &ru);
	return (uint64_t)ru.ru_minflt;
}

/* The child's faults are its own. */
static uint64_t fork_child(long pages)
{
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		char *p = map((size_t)pages * PAGE);

		touch(p, (size_t)pages, true);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	return (uint64_t)status;
}

static void print_sites(void)
{
	SITE_PRINT(site_new);
	SITE_PRINT(site_delete);
	SITE_PRINT(site_report);
	SITE_PRINT(site_oom);
	SITE_PRINT(site_cpu_oom);
	SITE_PRINT(site_api_inner);
	SITE_PRINT(site_api_outer);
	SITE_PRINT(site_api_free);
	SITE_PRINT(site_api_lost);
	SITE_PRINT(site_work);
	SITE_PRINT(site_mark);
	printf("ready\n");
	fflush(stdout);
}

static bool obey(const char *line, uint64_t *answer)
{
	char word[16];
	long a, b, c;

	if (sscanf(line, "alloc %ld", &a) == 1)
		*answer = allocators(a);
	else if (sscanf(line, "api %ld", &a) == 1)
		*answer = api(a);
	else if (sscanf(line, "region %ld", &a) == 1)
		region = map((region_pages = (size_t)a) * PAGE);
	else if (sscanf(line, "work %ld %ld", &a, &b) == 2)
		*answer = (uint64_t)site_work(a, b);
	else if (sscanf(line, "loop %ld %ld", &a, &b) == 2)
		*answer = loop(a, b);
	else if (sscanf(line, "threads %ld %ld %ld", &a, &b, &c) == 3)
		*answer = threads(a, b, c);
	else if (sscanf(line, "turns %ld %ld %ld", &a, &b, &c) == 3)
		*answer = together(turn_main, turn_main, a, b, c);
	else if (sscanf(line, "keepers %ld %ld %ld", &a, &b, &c) == 3)
		*answer = together(giver_main, keeper_main, a, b, c);
	else if (sscanf(line, "churn %ld %ld %ld", &a, &b, &c) == 3)
		*answer = churn(a, b, c);
	else if (sscanf(line, "fault %ld", &a) == 1)
		touch(region, (size_t)a, true);
	else if (sscanf(line, "fork %ld", &a) == 1)
		*answer = fork_child(a);
	else if (sscanf(line, "faultcost %ld %ld", &a, &b) == 2)
		*answer = fault_cost(a, b);
	else if (sscanf(line, "markcost %ld", &a) == 1)
		*answer = mark_cost(a);
	else if (sscanf(line, "%15s", word) == 1 && !strcmp(word, "usage"))
		*answer = usage();
	else if (sscanf(line, "%15s", word) == 1 && !strcmp(word, "mark"))
		*answer = (uint64_t)site_mark();
	else
		return false;
	return true;
}

int main(void)
{
	char line[256];

	print_sites();
	while (fgets(line, sizeof(line), stdin)) {
		uint64_t answer = 0;

		if (!obey(line, &answer))
			return 2;
		printf("done %lu\n", (unsigned long)answer);
		fflush(stdout);
	}
	return 0;
}
