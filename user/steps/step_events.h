/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What records say of steps, as events for step_count.h. Owns the rule by which a name marks steps.
 * Records come from a ring, an agent or a capture; how sites and operators are called only the
 * caller knows.
 */
#ifndef STEPS_STEP_EVENTS_H
#define STEPS_STEP_EVENTS_H

#include <string.h>

#include "ptb_event.h"
#include "steps/step_count.h"

#define STEP_OWN_NAME "ProfilerStep#" /* torch/profiler/profiler.py, with a number behind it */

/* The name of a step of the program's own profiler, which derived ones have, too? */
static inline bool step_name__is(const char *name)
{
	return !strncmp(name, STEP_OWN_NAME, sizeof(STEP_OWN_NAME) - 1);
}

struct step_rule {
	const char *name; /* of the annotation that marks steps, up to its '#' */
	bool ops; /* the user gave it: operators and functions of that name mark steps, too */
	void *arg;
	/* That name, or what the process names instead. */
	const char *(*name_of)(void *arg, uint32_t tgid);
	/* Number of the function that has the site, 0: its frames do not matter. *marks: it is an
	 * operator that does. */
	uint32_t (*func_of)(void *arg, uint32_t site, bool *marks);
	/* "aten::add.Tensor"; NULL: not known. */
	const char *(*opdef_name)(void *arg, uint32_t tgid, uint64_t opdef, uint64_t ts_ns);
};

/* Is the operator called so, with or without its overload? */
bool step_rule__is_op(const char *name, const char *full);
/* False: the record concerns no step. */
bool step_rule__event(const struct step_rule *rule, const struct ptb_rec_hdr *h,
		      struct step_event *ev);

#endif /* STEPS_STEP_EVENTS_H */
