/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A CUDA program for tests with the mock libraries: threads with streams of their own launch named kernels, copy,
 * fill, wait for events, synchronise and replay a graph. Commands on stdin, an answer each on stdout:
 *   init                loads the CUDA runtime and uses it ("ok PID")
 *   cupti PATH          loads a CUPTI, as torch does
 *   work THREADS STEPS  "ok" and what was done, as name=count
 *   driver STEPS        the same by the driver's interface alone
 *   fork                a child works as well and ends ("ok STATUS")
 *   spin MS             works for so long, as "work 1 ..." does
 *   quit
 * With arguments "THREADS STEPS" it does init and work, prints, and ends.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../mock_cuda/runtime.h"

#define RUNTIME(X)                                                                                \
	X(cudaMalloc) X(cudaFree) X(cudaLaunchKernel) X(cudaLaunchKernelExC) X(cudaMemcpy) X(cudaMemcpyAsync) \
	X(cudaMemset) X(cudaMemsetAsync) X(cudaStreamCreate) X(cudaStreamDestroy) X(cudaStreamSynchronize) \
	X(cudaStreamWaitEvent) X(cudaDeviceSynchronize) X(cudaEventCreate) X(cudaEventRecord)     \
	X(cudaEventSynchronize) X(cudaEventDestroy) X(cudaStreamBeginCapture) X(cudaStreamEndCapture) \
	X(cudaGraphInstantiate) X(cudaGraphLaunch) X(cudaGraphExecDestroy) X(cudaGraphDestroy)    \
	X(__cudaRegisterFunction)
#define DRIVER(X) X(cuInit) X(cuModuleLoadData) X(cuModuleGetFunction) X(cuLaunchKernel) X(cuLaunchKernelEx) \
	X(cuMemAlloc_v2) X(cuMemFree_v2) X(cuMemcpyHtoD_v2) X(cuMemcpyDtoH_v2) X(cuMemsetD8_v2) X(cuCtxSynchronize)

static struct {
#define X(name) __typeof__(&name) name;
	RUNTIME(X) DRIVER(X)
#undef X
} cuda;

/* What kernels are called here and on the device; host functions as nvcc makes them. */
void _Z3addPfS_i(void);
void _Z4gemmILi4EEvPKfS1_Pf(void);
__attribute__((noinline)) void _Z3addPfS_i(void)
{
	__asm__ volatile("");
}

__attribute__((noinline)) void _Z4gemmILi4EEvPKfS1_Pf(void)
{
	__asm__ volatile("" : : : "memory");
}

/* What was done, over all threads. */
#define COUNTS(X) X(launches) X(launches_ex) X(copies) X(fills) X(syncs) X(events) X(waits) X(graph_launches) \
	X(kernels) X(bytes)
static struct {
#define X(name) _Atomic unsigned long name;
	COUNTS(X)
#undef X
} done;

static void must(int ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "target_cuda: %s\n", what);
	exit(1);
}

static void resolve(void *lib, const char *name, void *slot)
{
	void *at = lib ? dlsym(lib, name) : NULL;

	must(at != NULL, name);
	memcpy(slot, &at, sizeof(at));
}

static void init(void)
{
	static const struct {
		const void *host;
		const char *name;
	} kernels[] = { { (const void *)(uintptr_t)_Z3addPfS_i, "_Z3addPfS_i" },
			{ (const void *)(uintptr_t)_Z4gemmILi4EEvPKfS1_Pf, "_Z4gemmILi4EEvPKfS1_Pf" } };
	void *lib = dlopen("libcudart.so.12", RTLD_NOW), *driver = dlopen("libcuda.so.1", RTLD_NOW);
	size_t i;

#define X(name) resolve(lib, #name, &cuda.name);
	RUNTIME(X)
#undef X
#define X(name) resolve(driver, #name, &cuda.name);
	DRIVER(X)
#undef X
	must(!cuda.cuInit(0), "cuInit");
	for (i = 0; i < sizeof(kernels) / sizeof(*kernels); i++)
		cuda.__cudaRegisterFunction(NULL, kernels[i].host, NULL, kernels[i].name, -1, NULL, NULL, NULL, NULL,
					    NULL);
}

/* ---- work by the runtime ---- */

static void launch(void (*kernel)(void), unsigned int n, CUstream stream)
{
	dim3 grid = { n + 1, 2, 1 }, block = { 64, 2, 1 };

	must(!cuda.cudaLaunchKernel((const void *)(uintptr_t)kernel, grid, block, NULL, 256, stream), "launch");
	done.launches++;
}

static void launch_ex(void (*kernel)(void), CUstream stream)
{
	cudaLaunchConfig_t config = { .gridDim = { 4, 1, 1 }, .blockDim = { 256, 1, 1 }, .dynamicSmemBytes = 512,
				      .stream = stream };

	must(!cuda.cudaLaunchKernelExC(&config, (const void *)(uintptr_t)kernel, NULL), "launch ex");
	done.launches_ex++;
}

struct thread {
	unsigned int nr, steps;
	CUstream stream, other;
	CUevent event;
	CUgraphExec exec;
	void *device;
	char host[8192];
};

static void begin(struct thread *t)
{
	CUgraph graph;

	must(!cuda.cudaMalloc(&t->device, sizeof(t->host)), "malloc");
	must(!cuda.cudaStreamCreate(&t->stream) && !cuda.cudaStreamCreate(&t->other), "stream");
	must(!cuda.cudaEventCreate(&t->event), "event");
	must(!cuda.cudaStreamBeginCapture(t->stream, 0), "capture");
	launch(_Z3addPfS_i, 7, t->stream);
	launch(_Z4gemmILi4EEvPKfS1_Pf, 8, t->stream);
	must(!cuda.cudaStreamEndCapture(t->stream, &graph), "end capture");
	must(!cuda.cudaGraphInstantiate(&t->exec, graph, 0), "instantiate");
	must(!cuda.cudaGraphDestroy(graph), "destroy");
}

static void step(struct thread *t, unsigned int nr)
{
	size_t bytes = 1024 * (nr % 8 + 1);

	must(!cuda.cudaMemcpyAsync(t->device, t->host, bytes, 1, t->stream), "copy in");
	launch(_Z3addPfS_i, nr % 5, t->stream);
	launch(_Z4gemmILi4EEvPKfS1_Pf, nr % 3, t->stream);
	launch_ex(_Z3addPfS_i, t->other);
	must(!cuda.cudaMemsetAsync(t->device, 1, 512, t->stream), "fill");
	must(!cuda.cudaEventRecord(t->event, t->stream), "record");
	must(!cuda.cudaStreamWaitEvent(t->other, t->event, 0), "wait");
	must(!cuda.cudaGraphLaunch(t->exec, t->other), "graph");
	must(!cuda.cudaMemcpy(t->host, t->device, bytes, 2), "copy out");
	must(!cuda.cudaStreamSynchronize(t->other), "synchronize");
	done.copies += 2;
	done.bytes += 2 * bytes;
	done.fills++;
	done.events++;
	done.waits++;
	done.graph_launches++;
	done.syncs++;
	done.kernels += 5; /* two of them the graph's */
}

static void end(struct thread *t)
{
	must(!cuda.cudaGraphExecDestroy(t->exec) && !cuda.cudaEventDestroy(t->event), "destroy");
	must(!cuda.cudaStreamDestroy(t->stream) && !cuda.cudaStreamDestroy(t->other), "destroy");
	must(!cuda.cudaFree(t->device), "free");
}

static void *run(void *arg)
{
	struct thread *t = arg;
	unsigned int i;

	begin(t);
	for (i = 0; i < t->steps; i++)
		step(t, i);
	end(t);
	return NULL;
}

static void work(unsigned int threads, unsigned int steps)
{
	pthread_t *ids = calloc(threads, sizeof(*ids));
	struct thread *all = calloc(threads, sizeof(*all));
	unsigned int i;

	must(ids && all, "memory");
	for (i = 0; i < threads; i++) {
		all[i].nr = i;
		all[i].steps = steps;
		must(!pthread_create(&ids[i], NULL, run, &all[i]), "thread");
	}
	for (i = 0; i < threads; i++)
		pthread_join(ids[i], NULL);
	must(!cuda.cudaDeviceSynchronize(), "synchronize");
	done.syncs++;
	free(ids);
	free(all);
}

static void spin(unsigned long ms)
{
	struct timespec now, until;
	struct thread t = { .steps = 0 };
	unsigned int i = 0;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += (time_t)(ms / 1000);
	begin(&t);
	do {
		step(&t, i++);
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (now.tv_sec < until.tv_sec ||
		 (now.tv_sec == until.tv_sec && now.tv_nsec < until.tv_nsec + (long)(ms % 1000) * 1000000));
	end(&t);
}

/* ---- work by the driver ---- */

static void driver_work(unsigned int steps)
{
	CUlaunchConfig config = { 2, 1, 1, 128, 1, 1, 0, NULL, NULL, 0 };
	static char host[4096];
	CUdeviceptr ptr;
	CUmodule module;
	CUfunction f;
	unsigned int i;

	must(!cuda.cuModuleLoadData(&module, "image") && !cuda.cuModuleGetFunction(&f, module, "triton_poi_fused_0"),
	     "module");
	must(!cuda.cuMemAlloc_v2(&ptr, sizeof(host)), "memory");
	for (i = 0; i < steps; i++) {
		must(!cuda.cuMemcpyHtoD_v2(ptr, host, 4096), "copy in");
		must(!cuda.cuLaunchKernel(f, 1, 2, 3, 32, 1, 1, 0, NULL, NULL, NULL), "launch");
		must(!cuda.cuLaunchKernelEx(&config, f, NULL, NULL), "launch ex");
		must(!cuda.cuMemsetD8_v2(ptr, 3, 100), "fill");
		must(!cuda.cuMemcpyDtoH_v2(host, ptr, 2048), "copy out");
		done.launches++;
		done.launches_ex++;
		done.kernels += 2;
		done.copies += 2;
		done.bytes += 4096 + 2048;
		done.fills++;
	}
	must(!cuda.cuCtxSynchronize() && !cuda.cuMemFree_v2(ptr), "end");
	done.syncs++;
}

/* ---- commands ---- */

static void tell_done(void)
{
	printf("ok");
#define X(name) printf(" " #name "=%lu", done.name);
	COUNTS(X)
#undef X
	printf("\n");
	memset(&done, 0, sizeof(done));
}

static int work_in_child(void)
{
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		work(1, 5);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	return status;
}

static int take(char *line)
{
	unsigned int a = 0, b = 0;
	char path[512];

	if (!strncmp(line, "init", 4)) {
		init();
		printf("ok %d\n", (int)getpid());
	} else if (sscanf(line, "cupti %511s", path) == 1) {
		must(dlopen(path, RTLD_NOW) != NULL, path);
		printf("ok\n");
	} else if (sscanf(line, "work %u %u", &a, &b) == 2) {
		work(a, b);
		tell_done();
	} else if (sscanf(line, "driver %u", &a) == 1) {
		driver_work(a);
		tell_done();
	} else if (sscanf(line, "spin %u", &a) == 1) {
		spin(a);
		tell_done();
	} else if (!strncmp(line, "fork", 4)) {
		printf("ok %d\n", work_in_child());
	} else {
		return 0;
	}
	fflush(stdout);
	return 1;
}

int main(int argc, char **argv)
{
	char line[600];

	if (argc == 3) {
		init();
		work((unsigned int)atoi(argv[1]), (unsigned int)atoi(argv[2]));
		tell_done();
		return 0;
	}
	while (fgets(line, sizeof(line), stdin) && take(line))
		;
	return 0;
}
