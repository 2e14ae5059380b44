/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A CUDA program for tests with the mock libraries: threads with streams of their own launch named kernels, copy,
 * fill, wait for events, synchronise and replay a graph. Commands on stdin, an answer each on stdout:
 *   init                loads the CUDA runtime and uses it ("ok PID")
 *   cupti PATH          loads a CUPTI, as torch does
 *   work THREADS STEPS  what was done (below), then "ok"
 *   driver STEPS        the same by the driver's interface alone
 *   fork                a child works as well and ends ("ok STATUS")
 *   quit
 * With arguments "THREADS STEPS [REST [DRIVER_STEPS]]" it does init, rests so many ms, does
 * work and driver, prints, rests again, and ends. With TARGET_CUDA_AWAITS_PROBES in the environment a tracer's probes
 * must be in the runtime first, for which it waits at most 20 s.
 *
 * What was done is printed thread by thread in order: "call TID NAME STREAM BYTES", and behind it for each piece of work
 * that it put on the device "work KIND NAME BYTES". STREAM: a number for each stream, 0: the default one, "-": none.
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

/* clang-format off */
#define RUNTIME(X)                                                                                \
	X(cudaMalloc) X(cudaFree) X(cudaLaunchKernel) X(cudaLaunchKernelExC) X(cudaMemcpy) X(cudaMemcpyAsync) \
	X(cudaMemset) X(cudaMemsetAsync) X(cudaStreamCreate) X(cudaStreamDestroy) X(cudaStreamSynchronize) \
	X(cudaStreamWaitEvent) X(cudaDeviceSynchronize) X(cudaEventCreate) X(cudaEventRecord)     \
	X(cudaEventSynchronize) X(cudaEventDestroy) X(cudaStreamBeginCapture) X(cudaStreamEndCapture) \
	X(cudaGraphInstantiate) X(cudaGraphLaunch) X(cudaGraphExecDestroy) X(cudaGraphDestroy)    \
	X(__cudaRegisterFunction)
/* clang-format on */
/* clang-format off */
#define DRIVER(X) X(cuInit) X(cuModuleLoadData) X(cuModuleGetFunction) X(cuLaunchKernel) X(cuLaunchKernelEx) \
	X(cuMemAlloc_v2) X(cuMemFree_v2) X(cuMemcpyHtoD_v2) X(cuMemcpyDtoH_v2) X(cuMemsetD8_v2) X(cuCtxSynchronize)
/* clang-format on */

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

/* The log of each thread, and those of threads that have ended. */
static __thread FILE *log_file;
static __thread char *log_text;
static __thread size_t log_size;
static FILE *log_of_all;
static char *all_text;
static size_t all_size;
static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;

static void must(int ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "target_cuda: %s\n", what);
	exit(1);
}

static FILE *my_log(void)
{
	if (!log_file)
		log_file = open_memstream(&log_text, &log_size);
	must(log_file != NULL, "memory");
	return log_file;
}

#define NO_STREAM (-1)

static void told_call(const char *name, int stream, size_t bytes)
{
	FILE *f = my_log();

	fprintf(f, "call %d %s ", (int)gettid(), name);
	fprintf(f, stream == NO_STREAM ? "- " : "%d ", stream);
	fprintf(f, "%zu\n", bytes);
}

static void told_work(const char *kind, const char *name, size_t bytes)
{
	fprintf(my_log(), "work %s %s %zu\n", kind, name, bytes);
}

static void log_ends(void)
{
	if (!log_file)
		return;
	fclose(log_file);
	log_file = NULL;
	pthread_mutex_lock(&log_lock);
	if (!log_of_all)
		log_of_all = open_memstream(&all_text, &all_size);
	must(log_of_all && fwrite(log_text, 1, log_size, log_of_all) == log_size, "log");
	pthread_mutex_unlock(&log_lock);
	free(log_text);
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
		cuda.__cudaRegisterFunction(NULL, kernels[i].host, NULL, kernels[i].name, -1, NULL,
					    NULL, NULL, NULL, NULL);
}

/* ---- work by the runtime ---- */

#define ADD "_Z3addPfS_i"
#define GEMM "_Z4gemmILi4EEvPKfS1_Pf"

struct stream {
	CUstream at;
	int nr;
};

struct thread {
	unsigned int steps;
	struct stream one, other;
	CUevent event;
	CUgraphExec exec;
	void *device;
	char host[8192];
};

static void create(struct stream *s)
{
	static _Atomic int last;

	must(!cuda.cudaStreamCreate(&s->at), "stream");
	s->nr = ++last;
}

/* Its call is printed, but no work: while a stream is captured there is none. */
static void launch(void (*kernel)(void), unsigned int n, const struct stream *s)
{
	dim3 grid = { n + 1, 2, 1 }, block = { 64, 2, 1 };

	must(!cuda.cudaLaunchKernel((const void *)(uintptr_t)kernel, grid, block, NULL, 256, s->at),
	     "launch");
	told_call("cudaLaunchKernel", s->nr, 0);
}

static void launch_ex(void (*kernel)(void), const struct stream *s)
{
	cudaLaunchConfig_t config = { .gridDim = { 4, 1, 1 },
				      .blockDim = { 256, 1, 1 },
				      .dynamicSmemBytes = 512,
				      .stream = s->at };

	must(!cuda.cudaLaunchKernelExC(&config, (const void *)(uintptr_t)kernel, NULL), "launch ex");
	told_call("cudaLaunchKernelExC", s->nr, 0);
}

static void begin(struct thread *t)
{
	CUgraph graph;

	must(!cuda.cudaMalloc(&t->device, sizeof(t->host)), "malloc");
	create(&t->one);
	create(&t->other);
	must(!cuda.cudaEventCreate(&t->event), "event");
	must(!cuda.cudaStreamBeginCapture(t->one.at, 0), "capture");
	launch(_Z3addPfS_i, 7, &t->one);
	launch(_Z4gemmILi4EEvPKfS1_Pf, 8, &t->one);
	must(!cuda.cudaStreamEndCapture(t->one.at, &graph), "end capture");
	must(!cuda.cudaGraphInstantiate(&t->exec, graph, 0), "instantiate");
	must(!cuda.cudaGraphDestroy(graph), "destroy");
}

static void replay(struct thread *t)
{
	must(!cuda.cudaGraphLaunch(t->exec, t->other.at), "graph");
	told_call("cudaGraphLaunch", t->other.nr, 0);
	told_work("kernel", ADD, 0);
	told_work("kernel", GEMM, 0);
}

static void step(struct thread *t, unsigned int nr)
{
	size_t bytes = 1024 * (nr % 8 + 1);

	must(!cuda.cudaMemcpyAsync(t->device, t->host, bytes, 1, t->one.at), "copy in");
	told_call("cudaMemcpyAsync", t->one.nr, bytes);
	told_work("memcpy", "HtoD", bytes);
	launch(_Z3addPfS_i, nr % 5, &t->one);
	told_work("kernel", ADD, 0);
	launch(_Z4gemmILi4EEvPKfS1_Pf, nr % 3, &t->one);
	told_work("kernel", GEMM, 0);
	launch_ex(_Z3addPfS_i, &t->other);
	told_work("kernel", ADD, 0);
	must(!cuda.cudaMemsetAsync(t->device, 1, 512 + nr, t->one.at), "fill");
	told_call("cudaMemsetAsync", t->one.nr, 512 + nr);
	told_work("memset", "-", 512 + nr);
	must(!cuda.cudaEventRecord(t->event, t->one.at), "record");
	told_call("cudaEventRecord", t->one.nr, 0);
	must(!cuda.cudaStreamWaitEvent(t->other.at, t->event, 0), "wait");
	told_call("cudaStreamWaitEvent", t->other.nr, 0);
	replay(t);
	must(!cuda.cudaMemcpy(t->host, t->device, bytes, 2), "copy out");
	told_call("cudaMemcpy", 0, bytes);
	told_work("memcpy", "DtoH", bytes);
	must(!cuda.cudaStreamSynchronize(t->other.at), "synchronize");
	told_call("cudaStreamSynchronize", t->other.nr, 0);
}

static void end(struct thread *t)
{
	must(!cuda.cudaGraphExecDestroy(t->exec) && !cuda.cudaEventDestroy(t->event), "destroy");
	must(!cuda.cudaStreamDestroy(t->one.at) && !cuda.cudaStreamDestroy(t->other.at), "destroy");
	must(!cuda.cudaFree(t->device), "free");
}

static void *run(void *arg)
{
	struct thread *t = arg;

	begin(t);
	for (unsigned int i = 0; i < t->steps; i++)
		step(t, i);
	end(t);
	log_ends();
	return NULL;
}

static void work(unsigned int threads, unsigned int steps)
{
	pthread_t *ids = calloc(threads, sizeof(*ids));
	struct thread *all = calloc(threads, sizeof(*all));

	must(ids && all, "memory");
	for (unsigned int i = 0; i < threads; i++) {
		all[i].steps = steps;
		must(!pthread_create(&ids[i], NULL, run, &all[i]), "thread");
	}
	for (unsigned int i = 0; i < threads; i++)
		pthread_join(ids[i], NULL);
	must(!cuda.cudaDeviceSynchronize(), "synchronize");
	told_call("cudaDeviceSynchronize", NO_STREAM, 0);
	free(ids);
	free(all);
}

static void rest(unsigned int ms)
{
	struct timespec ts = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L };

	nanosleep(&ts, NULL);
}

/* A probe is an INT3 instruction in the function. */
static void await_probes(void)
{
	const void *code;

	memcpy(&code, &cuda.cudaLaunchKernel, sizeof(code));
	for (int i = 0; i < 2000 && !memchr(code, 0xcc, 64); i++)
		rest(10);
}

/* ---- work by the driver ---- */

#define FUSED "triton_poi_fused_0"

static void driver_work(unsigned int steps)
{
	CUlaunchConfig config = { 2, 1, 1, 128, 1, 1, 0, NULL, NULL, 0 };
	static char host[4096];
	CUdeviceptr ptr;
	CUmodule module;
	CUfunction f;

	must(!cuda.cuModuleLoadData(&module, "image") && !cuda.cuModuleGetFunction(&f, module, FUSED),
	     "module");
	must(!cuda.cuMemAlloc_v2(&ptr, sizeof(host)), "memory");
	for (unsigned int i = 0; i < steps; i++) {
		must(!cuda.cuMemcpyHtoD_v2(ptr, host, 4096), "copy in");
		told_call("cuMemcpyHtoD_v2", 0, 4096);
		told_work("memcpy", "HtoD", 4096);
		must(!cuda.cuLaunchKernel(f, 1, 2, 3, 32, 1, 1, 0, NULL, NULL, NULL), "launch");
		told_call("cuLaunchKernel", 0, 0);
		told_work("kernel", FUSED, 0);
		must(!cuda.cuLaunchKernelEx(&config, f, NULL, NULL), "launch ex");
		told_call("cuLaunchKernelEx", 0, 0);
		told_work("kernel", FUSED, 0);
		must(!cuda.cuMemsetD8_v2(ptr, 3, 100), "fill");
		told_call("cuMemsetD8_v2", 0, 100);
		told_work("memset", "-", 100);
		must(!cuda.cuMemcpyDtoH_v2(host, ptr, 2048), "copy out");
		told_call("cuMemcpyDtoH_v2", 0, 2048);
		told_work("memcpy", "DtoH", 2048);
	}
	must(!cuda.cuCtxSynchronize() && !cuda.cuMemFree_v2(ptr), "end");
	told_call("cuCtxSynchronize", NO_STREAM, 0);
}

/* ---- commands ---- */

static void report_done(void)
{
	log_ends();
	if (log_of_all) {
		fclose(log_of_all);
		fwrite(all_text, 1, all_size, stdout);
		free(all_text);
	}
	log_of_all = NULL;
	printf("ok\n");
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
		report_done();
	} else if (sscanf(line, "driver %u", &a) == 1) {
		driver_work(a);
		report_done();
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

	if (argc > 2) {
		init();
		if (getenv("TARGET_CUDA_AWAITS_PROBES"))
			await_probes();
		rest(argc > 3 ? (unsigned int)atoi(argv[3]) : 0);
		work((unsigned int)atoi(argv[1]), (unsigned int)atoi(argv[2]));
		if (argc > 4)
			driver_work((unsigned int)atoi(argv[4]));
		report_done();
		rest(argc > 3 ? (unsigned int)atoi(argv[3]) : 0);
		return 0;
	}
	while (fgets(line, sizeof(line), stdin) && take(line))
		;
	return 0;
}
