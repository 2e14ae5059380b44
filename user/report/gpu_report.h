/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* `ptbpf report --gpu`: how busy the GPUs were, and where they were not, why. */
#ifndef REPORT_GPU_REPORT_H
#define REPORT_GPU_REPORT_H

#include "report/report_out.h"

struct gpu_report;
struct gpu_report *gpu_report__new(const struct session *s); /* NULL: out of memory */
struct session_sink gpu_report__sink(struct gpu_report *gr);
/* After the run. 0 or negative errno, logged. */
int gpu_report__print(struct gpu_report *gr, struct session_totals *totals,
		      const struct report_opts *opts, FILE *out);
/* After the run: time in the window in which a kernel, copy or fill ran, of the GPUs that are known or had work, at most max
 * of them, by id. 0 or negative errno. */
struct gpu_busy {
	uint32_t id;
	uint64_t ns;
};
int gpu_report__busy(struct gpu_report *gr, struct gpu_busy *list, uint32_t max, uint32_t *cnt);
void gpu_report__free(struct gpu_report *gr);

#endif /* REPORT_GPU_REPORT_H */
