/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What `ptbpf export --format` knows: one row each. */
#include "export/exporter.h"

const struct export_format export_formats[] = {
	{ .name = "chrome",
	  .summary = "Chrome trace as torch.profiler writes it (Perfetto, HTA, TensorBoard)",
	  .suffix = ".pt.trace.json.gz" },
};
const size_t export_format_cnt = sizeof(export_formats) / sizeof(export_formats[0]);
