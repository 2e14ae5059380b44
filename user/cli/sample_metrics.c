/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See sample_metrics.h. */
#include "cli/sample_metrics.h"

#include <sys/resource.h>

#include "base/clock.h"
#include "cli/cmd.h"
#include "sample/metrics_json.h"

static uint64_t cpu_ns_of(int who)
{
	struct rusage u;

	if (getrusage(who, &u))
		return 0;
	return (uint64_t)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000000 +
	       (uint64_t)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1000;
}

char *sample_metrics__text(struct metrics *m, bool openmetrics, size_t *len)
{
	m->cpu_ns = cpu_ns_of(RUSAGE_SELF) + cpu_ns_of(RUSAGE_CHILDREN);
	return metrics__text(m, openmetrics, len);
}

void sample_metrics__init(struct metrics *m)
{
	m->version = PTBPF_VERSION;
	m->start_unix_ns = clock__pair().real_ns;
}

void sample_metrics__due(struct metrics *m, const struct sample_window_spec *spec)
{
	m->targets = spec->selected ? spec->selected : spec->pid_cnt;
}

void sample_metrics__skipped(struct metrics *m)
{
	m->windows[METRICS_SKIPPED]++;
}

void sample_metrics__ended(struct metrics *m, const struct sample_window *w, int code)
{
	struct metrics_window own;

	m->windows[code == EXIT_DONE           ? METRICS_COMPLETE :
		   code == EXIT_INCOMPLETE     ? METRICS_INCOMPLETE :
		   sample_window__all_ended(w) ? METRICS_SKIPPED :
						 METRICS_FAILED]++;
	if (!w->report.has_result)
		return;
	m->begin_unix_ns = w->spec.real_ns;
	m->late_ns = w->report.late_ns;
	metrics_json__get(w->done, m, &own);
	metrics__add(m, &own);
}
