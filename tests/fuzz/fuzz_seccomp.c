/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Any bytes as a seccomp filter: 64 bytes of a call, then instructions. */
#include <stdlib.h>
#include <string.h>

#include "inject/seccomp.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static bool has(const struct seccomp_answers *a, uint32_t ret)
{
	uint32_t i;

	for (i = 0; i < a->cnt && a->ret[i] != ret; i++)
		;
	return i < a->cnt || a->any;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct seccomp_call call = { .known = SECCOMP_KNOWN_ALL };
	struct seccomp_answers exact, some, both;
	struct seccomp_scratch *scratch;
	struct seccomp_prog prog;
	void *insns;

	if (len < sizeof(call.data) + 4 + sizeof(struct sock_filter))
		return 0;
	memcpy(&call.data, data, sizeof(call.data));
	data += sizeof(call.data);
	len -= sizeof(call.data) + 4;
	insns = malloc(len);
	scratch = seccomp_scratch__new();
	if (insns && scratch) {
		memcpy(insns, data + 4, len);
		prog = (struct seccomp_prog){ insns, (uint32_t)(len / sizeof(struct sock_filter)) };
		if (!seccomp_eval__check(&prog)) {
			seccomp_eval__run(scratch, &prog, &call, &exact);
			memcpy(&call.known, data, 4);
			call.known &= SECCOMP_KNOWN_ALL;
			seccomp_eval__run(scratch, &prog, &call, &some);
			if (exact.cnt != 1 || exact.any || !has(&some, exact.ret[0]))
				abort(); /* what is not known can only add answers */
			seccomp_eval__both(&exact, &some, &both);
		}
	}
	seccomp_scratch__free(scratch);
	free(insns);
	return 0;
}
