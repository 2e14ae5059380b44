/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What `ptbpf export --format` knows: one row each. */
#include "export/exporter.h"

const struct export_format export_formats[] = {
	{ .name = "chrome",
	  .summary = "Chrome trace as torch.profiler writes it (Perfetto, HTA, TensorBoard)",
	  .suffix = ".pt.trace.json.gz" },
	{ .name = "et",
	  .summary = "Execution Trace as torch's ExecutionTraceObserver writes it (Chakra, et_replay, HTA)",
	  .suffix = ".et.json" },
};
const size_t export_format_cnt = sizeof(export_formats) / sizeof(export_formats[0]);
