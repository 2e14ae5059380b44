/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What `ptbpf export --format` knows: one row each. */
#include "export/formats.h"

const struct export_format export_formats[] = {
	{ .name = "chrome",
	  .summary = "Chrome trace as torch.profiler writes it (Perfetto, HTA, TensorBoard)",
	  .suffix = ".pt.trace.json.gz",
	  .kind = EXPORT_CHROME },
	{ .name = "et",
	  .summary = "Execution Trace as torch's ExecutionTraceObserver writes it (Chakra, et_replay, HTA)",
	  .suffix = ".et.json",
	  .kind = EXPORT_ET },
	{ .name = "memory",
	  .summary = "live bytes by category over time, as torch's export_memory_timeline() to .json.gz",
	  .suffix = ".memory.json.gz",
	  .kind = EXPORT_TIMELINE,
	  .timeline = TIMELINE_JSON },
	{ .name = "memory-raw",
	  .summary = "every allocation, change and free with its category, as torch's to .raw.json.gz",
	  .suffix = ".memory.raw.json.gz",
	  .kind = EXPORT_TIMELINE,
	  .timeline = TIMELINE_RAW },
	{ .name = "memory-html",
	  .summary = "a page with the same as a chart, as torch's to .html",
	  .suffix = ".memory.html",
	  .kind = EXPORT_TIMELINE,
	  .timeline = TIMELINE_HTML },
};
const size_t export_format_cnt = sizeof(export_formats) / sizeof(export_formats[0]);
