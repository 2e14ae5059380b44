/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What `ptbpf export --format` knows: one row each; what formats share. */
#define LOG_DOMAIN "export"
#include "export/formats.h"

#include <errno.h>

#include "base/log.h"

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
	{ .name = "stacks",
	  .summary = "folded stacks of Python with a metric, as torch's export_stacks() (flamegraph.pl, speedscope)",
	  .suffix = ".stacks.txt",
	  .kind = EXPORT_STACKS },
	{ .name = "threads",
	  .summary = "the last sampled Python stack of each thread, as text (--sample-stacks)",
	  .suffix = ".threads.txt",
	  .kind = EXPORT_THREADS },
	{ .name = "flamegraph",
	  .summary = "a page with the calls of Python and operators, or with the difference of two captures",
	  .suffix = ".flamegraph.html",
	  .kind = EXPORT_FLAMEGRAPH },
};
const size_t export_format_cnt = sizeof(export_formats) / sizeof(export_formats[0]);

int export__choose_process(const struct session_info *info, const char *path, uint32_t tgid, uint32_t *out)
{
	uint32_t i = 0;

	while (tgid && i < info->process_cnt && info->processes[i].tgid != tgid)
		i++;
	if (tgid && i == info->process_cnt) {
		pr_error("cannot write '%s': the capture has no process %u", path, tgid);
		return -ESRCH;
	}
	*out = i < info->process_cnt ? info->processes[i].tgid : 0;
	if (info->process_cnt > 1 && !tgid)
		pr_warn("'%s' is of process %u; the capture has %u more, which --pid selects", path,
			*out, info->process_cnt - 1);
	return 0;
}
