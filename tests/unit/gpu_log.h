/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Collects the GPU slices that a session reports, and checks their order. */
#ifndef TESTS_GPU_LOG_H
#define TESTS_GPU_LOG_H

#include "model/session.h"

struct gpu_log {
	struct gpu_slice *v; /* as reported; what they point to belongs to the session */
	uint32_t cnt, cap;
	struct session_totals totals;
};

/* Runs the session; aborts on an error or a slice that breaks the contract of session_sink.gpu. */
struct gpu_log *gpu_log__run(struct session *s);
void gpu_log__free(struct gpu_log *log);

#endif /* TESTS_GPU_LOG_H */
