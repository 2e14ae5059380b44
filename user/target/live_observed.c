/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Finds OperatorEntry::is_observed_ without knowing its offset, which moves with every dispatch key
 * (3936, 4752, 6040 in three versions). Every operator's OperatorDef is laid over every other's;
 * the flag is the byte that is 0 or 1 in all of them, 0 in those operators that have always been on
 * torch's list of unobserved ones (aten/src/ATen/core/dispatch/ObservedOperators.cpp) and 1 in all
 * others but a few. One byte must remain, or several that say the same; else nothing is claimed.
 */
#define LOG_DOMAIN "live_ops"
#include "target/live_observed.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "target/live_ops.h"
#include "target/remote_mem.h"

#define WINDOW 16384u /* more than any OperatorDef yet: 6 KiB */
#define UNOBSERVED_MAX 30u
#define KNOWN_MIN 3u /* so many of the operators below must exist */

static const char *const always_unobserved[] = {
	"aten::is_leaf",
	"aten::_version",
	"aten::output_nr",
	"profiler::_record_function_exit",
	"profiler::_record_function_enter_new",
};

struct candidate {
	bool dead;
	uint32_t zeros;
	uint64_t who; /* mixes the indexes of the operators that have 0 here */
};

/* The operator's base name, which is what torch looks up: an overload does not matter. */
static bool is_known(const char *name)
{
	size_t i, len = strcspn(name, ".");

	for (i = 0; i < sizeof(always_unobserved) / sizeof(always_unobserved[0]); i++)
		if (strlen(always_unobserved[i]) == len && !memcmp(name, always_unobserved[i], len))
			return true;
	return false;
}

static uint64_t mix(uint64_t v)
{
	v = (v ^ v >> 33) * 0xff51afd7ed558ccdULL;
	v = (v ^ v >> 33) * 0xc4ceb9fe1a85ec53ULL;
	return v ^ v >> 33;
}

/* Lays one operator's bytes [lo, hi) over the candidates. */
static void overlay(struct candidate *cands, uint32_t lo, uint32_t hi, const uint8_t *bytes,
		    uint32_t idx, bool known)
{
	uint32_t off;

	for (off = lo; off < hi; off++) {
		struct candidate *c = &cands[off];
		uint8_t v = bytes[off - lo];

		if (c->dead)
			continue;
		if (v > 1 || (known && v)) {
			c->dead = true;
		} else if (!v) {
			c->who ^= mix(idx + 1);
			c->dead = ++c->zeros > UNOBSERVED_MAX;
		}
	}
}

/* Narrows [*lo, *hi) to the living candidates; false: none is left. */
static bool narrow(const struct candidate *cands, uint32_t *lo, uint32_t *hi)
{
	while (*lo < *hi && cands[*lo].dead)
		++*lo;
	while (*lo < *hi && cands[*hi - 1].dead)
		--*hi;
	return *lo < *hi;
}

/* Reads all operators; the offset of the flag or 0. `known`: how many must have 0. */
static uint32_t locate(pid_t pid, const struct live_ops *lo, struct candidate *cands,
		       uint8_t *bytes, uint32_t known)
{
	uint32_t i, off, from = 0, to = WINDOW, found = 0;
	ssize_t n;

	for (i = 0; i < lo->cnt; i++) {
		n = remote__read_some(pid, lo->ops[i].opdef + from, bytes, to - from);
		if (n <= 0)
			return 0;
		to = from + (uint32_t)n; /* beyond the heap's end there is no OperatorDef either */
		overlay(cands, from, to, bytes, i, is_known(lo->ops[i].name));
		if (!narrow(cands, &from, &to))
			return 0;
	}
	for (off = from; off < to; off++) {
		if (cands[off].dead || cands[off].zeros < known)
			continue;
		if (found && cands[off].who != cands[found].who) {
			pr_debug("is_observed_: offsets %u and %u disagree", found, off);
			return 0;
		}
		if (!found)
			found = off;
	}
	return found;
}

/* Reads the flag of every operator. */
static bool read_flags(pid_t pid, struct live_ops *lo, uint32_t off, uint8_t *flags)
{
	struct remote_piece *pieces = calloc(lo->cnt, sizeof(*pieces));
	uint32_t i;
	bool ok;

	if (!pieces)
		return false;
	for (i = 0; i < lo->cnt; i++) {
		pieces[i].addr = lo->ops[i].opdef + off;
		pieces[i].buf = &flags[i];
		pieces[i].len = 1;
	}
	ok = !remote__read_pieces(pid, pieces, lo->cnt);
	for (i = 0; i < lo->cnt && ok; i++)
		ok = pieces[i].ok && flags[i] <= 1;
	for (i = 0; i < lo->cnt && ok; i++)
		lo->ops[i].unobserved = !flags[i];
	free(pieces);
	return ok;
}

void live_observed__find(pid_t pid, struct live_ops *lo)
{
	struct candidate *cands = calloc(WINDOW, sizeof(*cands));
	uint8_t *bytes = malloc(lo->cnt > WINDOW ? lo->cnt : WINDOW);
	uint32_t i, off = 0, known = 0;

	for (i = 0; i < lo->cnt; i++)
		known += is_known(lo->ops[i].name);
	if (cands && bytes && known >= KNOWN_MIN && lo->cnt > 4 * UNOBSERVED_MAX)
		off = locate(pid, lo, cands, bytes, known);
	lo->observed_known = off && read_flags(pid, lo, off, bytes);
	lo->observed_off = lo->observed_known ? off : 0;
	if (lo->observed_known)
		pr_debug("is_observed_ at %u, %u operators unobserved", off, cands[off].zeros);
	else
		pr_debug("is_observed_ not found among %u operators", lo->cnt);
	free(cands);
	free(bytes);
}

void live_observed__read(pid_t pid, struct live_ops *lo, uint32_t off)
{
	uint8_t *flags = calloc(lo->cnt, 1);

	lo->observed_known = flags && off && read_flags(pid, lo, off, flags);
	lo->observed_off = lo->observed_known ? off : 0;
	free(flags);
}
