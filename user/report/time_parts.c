/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The parts of a time, as a sentence; see report.h. */
#include <string.h>

#include "base/text.h"
#include "report/report_priv.h"

uint32_t time_parts__of(struct time_part *parts, const uint64_t ns[TIME_CLASSES],
			uint64_t python_ns)
{
	const struct time_part list[] = {
		{ "operators", "operators", ns[TIME_OPERATORS] },
		{ "data_loader", "data loader", ns[TIME_LOADER] },
		{ "optimizer", "optimizer", ns[TIME_OPTIMIZER] },
		{ "collectives", "collectives", ns[TIME_COLLECTIVES] },
		{ "outside", "outside of operators", python_ns },
	};

	memcpy(parts, list, sizeof(list));
	return sizeof(list) / sizeof(*list);
}

uint32_t time_parts__of_samples(struct time_part *parts, const uint64_t ns[SAMPLE_STATES])
{
	static const char *const keys[] = { [SAMPLE_RUNNING] = "running",
					    [SAMPLE_QUEUED] = "cpu_queue",
					    [SAMPLE_BLOCKED] = "blocked" };

	for (uint32_t i = 0; i < SAMPLE_STATES; i++)
		parts[i] = (struct time_part){ keys[i], py_sample__state_name(i), ns[i] };
	return SAMPLE_STATES;
}

static int by_time(const void *a, const void *b)
{
	const struct time_part *x = a, *y = b;

	return sort__cmp(y->ns, x->ns);
}

void time_parts__sort(struct time_part *parts, uint32_t cnt)
{
	sort__array(parts, cnt, sizeof(*parts), by_time);
}

/* Most first. */
void time_parts__say(struct doc *d, struct time_part *parts, uint32_t cnt, uint64_t whole_ns)
{
	time_parts__sort(parts, cnt);
	for (uint32_t i = 0; i < cnt && time__share(parts[i].ns, whole_ns) >= 0.001; i++)
		doc__say(d, "%s%s %.1f%%", i ? ", " : "", parts[i].name,
			 100 * time__share(parts[i].ns, whole_ns));
}

void time_thread__say(struct doc *d, const struct thread_time *t, const struct session_process *p)
{
	const struct session *s = d->args->s;
	const struct session_info *info = session__info(s);
	uint64_t until = session__probed_until(s, t->tgid);
	char name[128];

	command__short(name, sizeof(name), *p->cmdline ? p->cmdline : p->comm);
	if (t->tid == t->tgid)
		doc__say(d, "Main thread of %s (%u)", name, p->pid);
	else
		doc__say(d, "Thread %u (%s) of %s (%u)", t->tid,
			 session__thread_label(s, t->tgid, t->tid), name, p->pid);
	if (info->process_cnt > 1)
		doc__say(d, ", the busiest of %u processes", info->process_cnt);
	if (until < info->end_ns)
		doc__say(d, ", operators recorded for %s of %s",
			 unit__ns((double)(until - info->begin_ns)).text,
			 unit__ns((double)(info->end_ns - info->begin_ns)).text);
}
