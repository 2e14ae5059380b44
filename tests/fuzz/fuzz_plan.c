/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Any bytes as an encoded plan, from the cache or from the child that analyses libraries. */
#include <stdlib.h>

#include "plan/plan_priv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct torch_plan *plan = NULL;
	uint8_t *again = NULL;
	size_t again_len = 0;

	if (plan_cache__decode(data, len, &plan))
		return 0;
	/* what is accepted can be written again */
	plan_cache__encode(plan, &again, &again_len);
	free(again);
	torch_plan__free(plan);
	return 0;
}
