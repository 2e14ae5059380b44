/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See sample_metrics.h. */
#define LOG_DOMAIN "metrics"
#include "cli/sample_metrics.h"

#include <sys/resource.h>

#include "base/clock.h"
#include "base/log.h"
#include "cli/cmd.h"

static uint64_t cpu_ns_of(int who)
{
	struct rusage u;

	if (getrusage(who, &u))
		return 0;
	return (uint64_t)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000000 +
	       (uint64_t)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1000;
}

static char *text(void *arg, bool openmetrics, size_t *len)
{
	struct sample_metrics *sm = arg;

	sm->sums.cpu_ns = cpu_ns_of(RUSAGE_SELF) + cpu_ns_of(RUSAGE_CHILDREN);
	return metrics__text(&sm->sums, openmetrics, len);
}

int sample_metrics__open(struct sample_metrics *sm, const char *address)
{
	int err;

	sm->sums.version = PTBPF_VERSION;
	sm->sums.start_unix_ns = clock__pair().real_ns;
	if (!address)
		return 0;
	err = metrics_server__open(address, text, sm, &sm->server);
	if (!err)
		pr_info("metrics: %s", metrics_server__url(sm->server));
	return err;
}

void sample_metrics__due(struct sample_metrics *sm, struct sample_window_spec *spec)
{
	sm->sums.targets = spec->selected ? spec->selected : spec->pid_cnt;
	spec->server = sm->server;
	spec->metrics = sm->server ? &sm->sums : NULL;
}

void sample_metrics__skipped(struct sample_metrics *sm)
{
	sm->sums.windows[METRICS_SKIPPED]++;
}

void sample_metrics__ended(struct sample_metrics *sm, const struct sample_window *w, int code)
{
	struct metrics *m = &sm->sums;

	m->windows[code == EXIT_DONE           ? METRICS_COMPLETE :
		   code == EXIT_INCOMPLETE     ? METRICS_INCOMPLETE :
		   sample_window__all_ended(w) ? METRICS_SKIPPED :
						 METRICS_FAILED]++;
	if (!sm->server || !w->report.has_result)
		return;
	m->begin_unix_ns = w->spec.real_ns;
	m->late_ns = w->report.late_ns;
	metrics__add(m, &w->report.metrics);
}

int sample_metrics__fd(const struct sample_metrics *sm)
{
	return sm->server ? metrics_server__fd(sm->server) : -1;
}

int sample_metrics__wait_ms(const struct sample_metrics *sm, int max)
{
	return sm->server ? metrics_server__wait_ms(sm->server, max) : max;
}

void sample_metrics__serve(struct sample_metrics *sm)
{
	if (sm->server)
		metrics_server__run(sm->server);
}

void sample_metrics__close(struct sample_metrics *sm)
{
	metrics_server__free(sm->server);
}
