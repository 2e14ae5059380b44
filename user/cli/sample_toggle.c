/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* ptbpf trigger --toggle: activities that windows of a running `ptbpf sample` leave out, until they are switched on again. */
#define LOG_DOMAIN "sample"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "cli/sample_opts.h"

/* Is there something that the switch cannot apply to? NULL: no. */
static const char *why_not(const struct sample_settings *base, const struct control_request *rq,
			   bool no_cpu, bool no_cuda)
{
	const struct record_opts *rec = &base->cfg.run.rec;

	if (rec->sample_hz)
		return "it samples Python stacks (--sample-stacks), which are no activity";
	if (rq->cpu && !rec->ops)
		return "cpu is not among the activities that it records";
	if (rq->cuda && !rec->gpu)
		return "cuda is not among the activities that it records";
	if ((no_cpu || !rec->ops) && (no_cuda || !rec->gpu))
		return "nothing would be left to record";
	if (no_cpu && base->schedule.in_steps)
		return "cpu cannot be switched off: the windows of its schedule are counted in steps";
	return NULL;
}

/* The list of the base without cpu, or without cuda and what belongs to it. */
static void set_activities(struct sample_settings *set)
{
	static const char *const of_cuda[] = { "sync", "graphs" };
	const char *list = set->base->cfg.run.activities;

	snprintf(set->activities, sizeof(set->activities), "%s",
		 !strcmp(set->off, "cpu") ? "cuda" : "cpu");
	for (size_t i = 0; i < 2 && list && !strcmp(set->off, "cpu"); i++)
		if (strstr(list, of_cuda[i]))
			snprintf(set->activities + strlen(set->activities),
				 sizeof(set->activities) - strlen(set->activities), ",%s", of_cuda[i]);
	set->cfg.run.activities = set->activities;
}

static struct sample_settings *without(struct sample_settings *base, const char *off)
{
	struct sample_settings *set = xmalloc(sizeof(*set));

	*set = *base;
	set->holders = 1;
	set->base = sample_settings__hold(base);
	set->off = set->options.off = off;
	set_activities(set);
	set->options.args = set->options.samples_args = set->follow_args = (struct words){ .cnt = 0 };
	sample_settings__set_words(set);
	if (!live__check(&set->cfg.run)) /* what excludes it is reported there */
		return set;
	sample_settings__release(set);
	return NULL;
}

int sample_settings__toggle(struct sample_settings *set, const struct control_request *rq,
			    struct sample_settings **out, char *why, size_t cap)
{
	struct sample_settings *base = set->base ? set->base : set;
	bool no_cpu = rq->cpu ? rq->cpu == SWITCH_OFF : set->off && !strcmp(set->off, "cpu");
	bool no_cuda = rq->cuda ? rq->cuda == SWITCH_OFF : set->off && !strcmp(set->off, "cuda");
	const char *reason = why_not(base, rq, no_cpu, no_cuda);

	*out = NULL;
	if (!reason && !no_cpu && !no_cuda)
		*out = sample_settings__hold(base);
	else if (!reason)
		*out = without(base, no_cpu ? "cpu" : "cuda");
	if (*out)
		return 0;
	snprintf(why, cap, "%s",
		 reason ? reason : "its other options exclude that; its own messages say why");
	return -EINVAL;
}
