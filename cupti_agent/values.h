/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * IValues as the payload of bpf/ptb_args.h, word for word what the interpreter of bpf/arg_interp.h
 * makes of them. Knows layouts from the configuration only; reads through pointers as carefully as
 * the caller requests.
 */
#ifndef VALUES_H
#define VALUES_H

#include "agent.h"

#define VALUES_IMPL_MAX 256 /* bytes of a TensorImpl, up to the end of its key set */

struct values {
	/* set by the caller */
	const struct ptb_agent_cfg *cfg;
	unsigned char *at, *end; /* where they go, at most to; `at` moves */
	bool full;               /* identities */
	bool careful;            /* every read is tried first */
	/* left by it */
	bool cut; /* values are missing at the end */
	bool bad; /* careful: this is no tensor or value as it should be */
	/* careful: tensors whose number of elements is, is not, that of their sizes */
	uint32_t matches, differs;
};

/* cnt IValues at addr, each a value. */
void values__put(struct values *v, uint64_t addr, uint64_t cnt);

#endif /* VALUES_H */
