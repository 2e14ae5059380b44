/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * How often the garbage collector has run: struct gc_generation_stats (cpython
 * Include/internal/pycore_gc.h), before gc.collecting. From 3.15 on a pointer to them is there:
 * each generation has its last ones in a ring (struct gc_stats, pycore_interp_structs.h).
 */
#include "python/python.h"

#include <errno.h>
#include <string.h>

#include "python/python_priv.h"
#include "target/proc.h"

#define STATS_WORDS 3 /* collections, collected, uncollectable */
#define RING_WORDS 8  /* of an entry; its third is how many collections there were */
#define RING_COLLECTIONS 2

/* The entries of each generation's ring; behind them is a word with the last one's number. */
static const uint32_t ring_entries[PY_GENERATIONS] = { 11, 3, 3 };
#define RINGS_WORDS ((11 + 3 + 3) * RING_WORDS + PY_GENERATIONS)

static int read_rings(pid_t pid, uint64_t addr, uint64_t cnt[PY_GENERATIONS])
{
	uint64_t words[RINGS_WORDS];
	int err = remote__read(pid, addr, words, sizeof(words));

	for (uint32_t g = 0, at = 0; g < PY_GENERATIONS && !err; g++) {
		uint32_t end = at + ring_entries[g] * RING_WORDS;
		uint8_t last = (uint8_t)words[end];

		if (last >= ring_entries[g])
			return -EINVAL;
		cnt[g] = words[at + last * RING_WORDS + RING_COLLECTIONS];
		at = end + 1;
	}
	return err;
}

int py_gc__collections(pid_t pid, const struct ptb_py_layout *l, uint64_t cnt[PY_GENERATIONS])
{
	uint64_t collecting = l->interp + l->off.interp_gc + l->off.gc_collecting;
	uint64_t words[PY_GENERATIONS * STATS_WORDS], rings;
	int err;

	if (l->version >= PY_VERSION_OF(15)) {
		err = remote__read(pid, collecting - sizeof(rings), &rings, sizeof(rings));
		return err ? err : read_rings(pid, rings, cnt);
	}
	err = remote__read(pid, collecting - sizeof(words), words, sizeof(words));
	for (uint32_t g = 0; g < PY_GENERATIONS && !err; g++)
		cnt[g] = words[g * STATS_WORDS];
	return err;
}
