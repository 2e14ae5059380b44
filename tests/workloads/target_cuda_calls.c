/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Functions with the signatures of CUDA's launches, copies, fills and synchronisation (cuda_runtime_api.h,
 * cuda.h), compiled by a compiler, for probes that read their arguments. They do nothing but return.
 */
#include <setjmp.h>
#include <stdlib.h>
#include <time.h>

#include "site_func.h"

struct dim3 {
	unsigned int x, y, z;
};

struct launch_config { /* cudaLaunchConfig_t, CUlaunchConfig */
	struct dim3 grid, block;
	size_t shared;
	void *stream, *attrs;
	unsigned int attr_cnt;
};

struct pitched {
	void *ptr;
	size_t pitch, x, y;
};

struct extent {
	size_t width, height, depth;
};

struct copy_3d { /* cudaMemcpy3DParms */
	void *src_array;
	size_t src_pos[3];
	struct pitched src;
	void *dst_array;
	size_t dst_pos[3];
	struct pitched dst;
	struct extent extent;
	int kind;
};

struct cu_copy_2d { /* CUDA_MEMCPY2D */
	size_t src_x, src_y;
	int src_type;
	const void *src_host;
	unsigned long long src_device;
	void *src_array;
	size_t src_pitch;
	size_t dst_x, dst_y;
	int dst_type;
	void *dst_host;
	unsigned long long dst_device;
	void *dst_array;
	size_t dst_pitch, width, height;
};

struct cu_copy_3d { /* CUDA_MEMCPY3D */
	size_t src_x, src_y, src_z, src_lod;
	int src_type;
	const void *src_host;
	unsigned long long src_device;
	void *src_array, *reserved0;
	size_t src_pitch, src_height;
	size_t dst_x, dst_y, dst_z, dst_lod;
	int dst_type;
	void *dst_host;
	unsigned long long dst_device;
	void *dst_array, *reserved1;
	size_t dst_pitch, dst_height, width, height, depth;
};

#define P(n) ((void *)(uintptr_t)(0x7000000000 + (n)))

static long result;

__attribute__((used)) static long cuda_body(void)
{
	return result;
}

long site_launch(const void *func, struct dim3 grid, struct dim3 block, void **args, size_t shared,
		 void *stream);
long site_config(const struct launch_config *config, const void *func, void **args);
long site_cu_launch(void *func, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx,
		    unsigned int by, unsigned int bz, unsigned int shared, void *stream,
		    void **args, void **extra);
long site_copy(void *dst, const void *src, size_t bytes, int kind, void *stream);
long site_symbol(const void *symbol, const void *src, size_t bytes, size_t offset, int kind, void *stream);
long site_copy_2d(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width,
		  size_t height, int kind, void *stream);
long site_peer(void *dst, int dst_device, const void *src, int src_device, size_t bytes, void *stream);
long site_copy_3d(const struct copy_3d *p, void *stream);
long site_cu_copy(unsigned long long dst, const void *src, size_t bytes, void *stream);
long site_cu_copy_2d(const struct cu_copy_2d *p, void *stream);
long site_cu_copy_3d(const struct cu_copy_3d *p, void *stream);
long site_set(void *dst, int value, size_t count, void *stream);
long site_set_2d(void *dst, size_t pitch, int value, size_t width, size_t height, void *stream);
long site_set_3d(struct pitched dst, int value, struct extent extent, void *stream);
long site_stream(void *stream, void *event, unsigned int flags);
long site_record(void *event, void *stream);
long site_graph(void *graph, void *stream);
long site_other(void);
long site_outer(long what);

/* clang-format off */
#define ALL(X)                                                                            \
	X(launch) X(config) X(cu_launch) X(copy) X(symbol) X(copy_2d) X(peer) X(copy_3d)    \
	X(cu_copy) X(cu_copy_2d) X(cu_copy_3d) X(set) X(set_2d) X(set_3d) X(stream) X(record) \
	X(graph) X(other)
/* clang-format on */

#define X(name) SITE_FUNC(site_##name, cuda_body);
ALL(X)
#undef X

static long one(int n)
{
	const struct launch_config config = {
		.grid = { 10, 11, 12 }, .block = { 13, 14, 15 }, .shared = 16, .stream = P(17)
	};
	struct copy_3d copy = { .extent = { 20, 3, 2 }, .kind = 3 };
	const struct cu_copy_2d cu2 = { .width = 40, .height = 3 };
	const struct cu_copy_3d cu3 = { .width = 50, .height = 3, .depth = 2 };

	switch (n) {
	case 0:
		return site_launch(P(1), (struct dim3){ 1, 2, 3 }, (struct dim3){ 4, 5, 6 }, NULL,
				   7, P(8));
	case 1:
		return site_config(&config, P(2), NULL);
	case 2:
		return site_cu_launch(P(3), 21, 22, 23, 24, 25, 26, 27, P(28), NULL, NULL);
	case 3:
		return site_copy(P(0), P(1), 300, 2, P(9));
	case 4:
		return site_symbol(P(0), P(1), 400, 77, 1, P(10));
	case 5:
		return site_copy_2d(P(0), 1, P(2), 3, 50, 6, 3, P(11));
	case 6:
		return site_peer(P(0), 1, P(2), 3, 600, P(12));
	case 7:
		return site_copy_3d(&copy, P(13));
	case 8:
		copy.dst_array = P(5);
		return site_copy_3d(&copy, NULL);
	case 9:
		return site_cu_copy(1, P(2), 900, P(14));
	case 10:
		return site_cu_copy_2d(&cu2, P(15));
	case 11:
		return site_cu_copy_3d(&cu3, P(16));
	case 12:
		return site_set(P(0), 1, 1200, P(18));
	case 13:
		return site_set_2d(P(0), 1, 2, 30, 4, P(19));
	case 14:
		return site_set_3d((struct pitched){ P(0), 64, 1, 1 }, 7,
				   (struct extent){ 60, 2, 5 }, P(20));
	case 15:
		return site_stream(P(21), P(1), 0);
	case 16:
		return site_record(P(1), P(22));
	case 17:
		return site_graph(P(4), P(23));
	case 18:
		return site_config(NULL, P(2), NULL);
	default:
		return site_other();
	}
}

/* ---- calls inside calls ---- */

static jmp_buf back;

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

__attribute__((used)) static long outer_body(long what)
{
	uint64_t until = now_ns() + 3000000;

	if (what == 1)
		site_cu_copy(1, NULL, 1, NULL);
	if (what == 2)
		longjmp(back, 1);
	while (what == 3 && now_ns() < until)
		;
	return result;
}
SITE_FUNC(site_outer, outer_body);

/* Deeper in the stack than a call was that is over. */
static __attribute__((noinline)) long deeper(long n)
{
	volatile char room[256];

	room[0] = (char)n;
	return n ? deeper(n - 1) + room[0] : site_cu_copy(2, NULL, 2, NULL);
}

static uint64_t outer(long what)
{
	uint64_t begin = now_ns();

	if (!setjmp(back))
		site_outer(what);
	return now_ns() - begin;
}

static void print_sites(void)
{
#define X(name) SITE_PRINT(site_##name);
	ALL(X)
#undef X
	SITE_PRINT(site_outer);
	printf("site body %lu\n", (unsigned long)(uintptr_t)outer_body);
	printf("ready\n");
	fflush(stdout);
}

int main(void)
{
	char line[256];
	long n;

	print_sites();
	while (fgets(line, sizeof(line), stdin)) {
		uint64_t answer = 0;

		if (sscanf(line, "one %ld", &n) == 1)
			answer = (uint64_t)one((int)n);
		else if (sscanf(line, "result %ld", &n) == 1)
			result = n;
		else if (sscanf(line, "outer %ld", &n) == 1)
			answer = outer(n);
		else if (sscanf(line, "deeper %ld", &n) == 1)
			answer = (uint64_t)deeper(n);
		else
			return 2;
		printf("done %lu\n", (unsigned long)answer);
		fflush(stdout);
	}
	return 0;
}
