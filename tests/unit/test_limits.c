/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The table of limits: every row names a counter that exists and makes a capture incomplete, or none. */
#include <string.h>

#include "base/limits.h"
#include "ptb_event.h"
#include "suite.h"

#define PTB_CNT_NONE UINT32_MAX

static const struct {
	const char *name;
	uint32_t value, counter;
	const char *meaning;
} limits[] = {
#define X(name, value, counter, meaning) { #name, value, PTB_CNT_##counter, meaning },
	PTB_LIMITS(X)
#undef X
};

static int is_loss(uint32_t id)
{
	switch (id) {
#define X(name, nr, where, loss, text)                                                             \
	case nr:                                                                                   \
		return loss;
		PTB_COUNTERS(X)
#undef X
	default:
		return 0;
	}
}

TEST("counters")
{
	for (size_t i = 0; i < sizeof(limits) / sizeof(*limits); i++) {
		CU_ASSERT(limits[i].value > 0);
		CU_ASSERT(strlen(limits[i].meaning) > 0);
		if (limits[i].counter != PTB_CNT_NONE && !is_loss(limits[i].counter)) {
			fprintf(stderr, "limit %s: its counter is no loss\n", limits[i].name);
			CU_FAIL("a limit whose counter leaves the capture complete");
		}
	}
}

SUITE("limits")
