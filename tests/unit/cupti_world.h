/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A process for the agent's CUPTI part: the mock CUDA libraries, and instead of the agent's chunks a list of the
 * records that it emitted. Each case runs in a process of its own, since libraries and their users stay loaded.
 */
#ifndef TESTS_CUPTI_WORLD_H
#define TESTS_CUPTI_WORLD_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent.h"
#include "cupti.h"
#include "cupti/cupti_decode.h"
#include "mock_cuda/cupti_mock.h"
#include "mock_cuda/runtime.h"

/* Ends the case's process if the condition is false. */
/* clang-format off */
#define CHECK(what)                                                                         \
	do {                                                                                \
		if (!(what)) {                                                              \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #what); \
			_exit(1);                                                           \
		}                                                                           \
	} while (0)
/* clang-format on */

/* The case in a new process. 0: all was so. */
int world__case(void (*run)(void));
/* TEST() with each version of CUPTI's records, which is `version` of `library`. */
#define TEST_VERSIONS(what)                                                                        \
	static void SUITE_ID(run_, __LINE__)(void);                                                \
	TEST(what)                                                                                 \
	{                                                                                          \
		world__versions(SUITE_ID(run_, __LINE__));                                         \
	}                                                                                          \
	static void SUITE_ID(run_, __LINE__)(void)
void world__versions(void (*run)(void));
extern const char *version, *library;

#define CUPTI_12 MOCK_CUDA_DIR "/libcupti.so.12"
#define CUPTI_13 MOCK_CUDA_DIR "/cupti13/libcupti.so.13"

/* The functions of the mocks, by their names. */
/* clang-format off */
#define WORLD_RUNTIME(X)                                                                    \
	X(cudaMalloc) X(cudaFree) X(cudaLaunchKernel) X(cudaLaunchKernelExC) X(cudaMemcpy)  \
	X(cudaMemcpyAsync) X(cudaMemcpyPeerAsync) X(cudaMemset) X(cudaMemsetAsync)          \
	X(cudaStreamCreate) X(cudaStreamSynchronize) X(cudaStreamWaitEvent)                 \
	X(cudaDeviceSynchronize) X(cudaEventCreate) X(cudaEventRecord) X(cudaEventSynchronize) \
	X(cudaStreamBeginCapture) X(cudaStreamEndCapture) X(cudaGraphInstantiate)           \
	X(cudaGraphLaunch) X(cudaGraphExecDestroy) X(cudaGraphDestroy) X(cudaGetDevice) X(__cudaRegisterFunction)
/* clang-format on */
#define WORLD_DRIVER(X)                                                                            \
	X(cuInit)                                                                                  \
	X(cuLaunchKernel)                                                                          \
	X(cuModuleLoadData) X(cuModuleGetFunction) X(mock_cuda_fail) X(mock_cuda_calls)
/* clang-format off */
#define WORLD_CUPTI(X)                                                                      \
	X(cuptiSubscribe) X(cuptiUnsubscribe) X(cuptiActivityRegisterCallbacks) X(cuptiActivityEnable) \
	X(cuptiActivityDisable) X(cuptiActivityFlushAll) X(cuptiGetThreadIdType) X(mock_cupti_kinds) \
	X(mock_cupti_made) X(mock_cupti_lost) X(mock_cupti_pause) X(mock_cupti_size) \
	X(mock_cupti_subscribed)
/* clang-format on */

struct world {
#define X(name) __typeof__(&name) name;
	WORLD_RUNTIME(X)
	WORLD_DRIVER(X)
	WORLD_CUPTI(X)
#undef X
	int stub; /* registered as "_Z6kernelPfi" */
};
extern struct world world;

/* Loads the mocks; CUDA is used from here on. cupti NULL: none is loaded. */
void world__load(const char *cupti);
/* As the agent's thread does: checks whether CUDA is in use, then calls cupti__start(). */
int world__start(uint32_t requests);
/* A launch of the registered kernel. */
void world__launch(CUstream stream);

/* What the agent emitted, in order and decoded. */
struct world_record {
	uint32_t kind;
	union {
		union ptb_gpu_record u;
		struct ptb_gpu_note note;
		struct ptb_arec_graph_node node; /* of kind PTB_REC_GPU_GRAPH_NODE */
	};
};
extern struct world_record *emitted;
extern size_t emitted_cnt;
extern struct ptb_arec_gpu_clock *emitted_clocks;
extern size_t emitted_clock_cnt;

void emitted__forget(void);
size_t emitted__count(uint32_t kind);
/* The nth of that kind; NULL: there are fewer. */
const struct world_record *emitted__nth(uint32_t kind, size_t nth);
/* "" for 0; dies of an id that was not emitted before. */
const char *emitted__name(uint32_t id);
/* The call with that correlation, NULL: none. */
const struct ptb_gpu_api *emitted__call(uint32_t correlation, uint32_t *tid);
/* The record of a node's creation (original 0), or of that as a copy; NULL: none. */
const struct ptb_arec_graph_node *emitted__node(uint64_t node, bool copy);
extern uint64_t emitted_drops; /* records that the agent said it dropped */
/* Sum of the notes. */
uint64_t emitted__notes(uint32_t what);

#endif /* TESTS_CUPTI_WORLD_H */
