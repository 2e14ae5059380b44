/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See step_multiple.h. */
#include "sample/step_multiple.h"

#include "base/numbered.h"

#define NUMBERED_MIN 3 /* steps: two whole ones, from which their time is known */
#define OTHERS_MAX 10  /* steps without a number, while none has one */
#define SILENT_NS 60000000000ULL
#define FAR_NS 3600000000000ULL
#define KEEP_NS 1000000000ULL /* agents send their records within half of it */

const char *step_multiple__text(enum step_multiple_failure why)
{
	static const char *const texts[] = {
#define X(name, text) text,
		STEP_MULTIPLE_FAILURES(X)
#undef X
	};

	return texts[why];
}

static uint64_t step_ns(const struct step_multiple *sm)
{
	return (sm->last_ns - sm->first_ns) / (sm->last - sm->first);
}

/* Whole steps until the window begins. */
static uint64_t steps_until_begin(const struct step_multiple *sm)
{
	uint64_t first = sm->target - sm->partial;

	return first > sm->last ? first - sm->last - 1 : 0;
}

static void aim_beyond(struct step_multiple *sm, uint64_t step)
{
	if (sm->target <= step)
		sm->target += ((step - sm->target) / sm->multiple + 1) * sm->multiple;
}

void step_multiple__ended(struct step_multiple *sm, bool own, uint64_t number, uint64_t end_ns)
{
	uint64_t whole;

	if (number == NUMBERED_NONE) {
		sm->others++;
		return;
	}
	sm->partial = own ? 0 : 1;
	whole = number + 1 + sm->partial;
	if (sm->keep_ns && !sm->begin_ns && whole >= sm->target) {
		if (end_ns >= sm->keep_ns) {
			sm->begin_ns = end_ns;
			sm->began = whole;
		} else { /* its record came later than it was decided to keep what follows */
			aim_beyond(sm, whole);
		}
	}
	if (sm->numbered && number <= sm->last)
		return; /* another process or thread that makes the same steps later */
	if (!sm->numbered++) {
		sm->first = number;
		sm->first_ns = end_ns;
	}
	sm->last = number;
	sm->last_ns = end_ns;
}

static bool is_known(const struct step_multiple *sm)
{
	return sm->numbered >= NUMBERED_MIN && step_ns(sm) > 0;
}

enum step_multiple_failure step_multiple__failed(const struct step_multiple *sm, uint64_t now_ns)
{
	uint64_t last_ns = sm->numbered ? sm->last_ns : sm->since_ns;

	if (sm->begin_ns)
		return STEP_MULTIPLE_NONE;
	if (!sm->numbered && sm->others >= OTHERS_MAX)
		return STEP_MULTIPLE_NO_NUMBER;
	if (now_ns > last_ns + SILENT_NS && now_ns > sm->since_ns + SILENT_NS)
		return sm->numbered ? STEP_MULTIPLE_STALLED :
		       sm->others   ? STEP_MULTIPLE_NO_NUMBER :
				      STEP_MULTIPLE_NO_STEP;
	if (sm->target && steps_until_begin(sm) > FAR_NS / step_ns(sm))
		return STEP_MULTIPLE_TOO_FAR;
	return STEP_MULTIPLE_NONE;
}

bool step_multiple__is_near(struct step_multiple *sm, uint64_t lead_ns, uint64_t now_ns)
{
	uint64_t least, passed = now_ns > sm->last_ns ? now_ns - sm->last_ns : 0;

	if (!is_known(sm))
		return false;
	if (!sm->target) {
		least = sm->last + sm->partial + 2 + lead_ns / step_ns(sm);
		sm->target = (least + sm->multiple - 1) / sm->multiple * sm->multiple;
	}
	/* no product: a target far ahead would not fit */
	return steps_until_begin(sm) <= (lead_ns + passed) / step_ns(sm);
}

bool step_multiple__keep(struct step_multiple *sm, uint64_t now_ns)
{
	uint64_t before = 2 + KEEP_NS / step_ns(sm);

	if (sm->keep_ns)
		return true;
	aim_beyond(sm, sm->last + sm->partial + 1);
	if (steps_until_begin(sm) > before)
		return false;
	sm->keep_ns = now_ns;
	return true;
}
