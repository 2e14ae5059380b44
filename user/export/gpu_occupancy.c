/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Blocks per multiprocessor; see gpu_text.h. What CUPTI reports of a device is taken from there,
 * only the units of allocation, which no interface reports, are by compute capability. */
#include "export/gpu_text.h"

#include <string.h>

#define NO_LIMIT ((uint32_t)INT32_MAX)
/* clang-format off */
/* older devices allocate registers otherwise, and no CUPTI that is read here knows them */
#define MAJOR_MIN 3
/* clang-format on */

#define REG_UNIT 256 /* registers are given to a warp in these */

static uint64_t round_up(uint64_t v, uint64_t unit)
{
	return (v + unit - 1) / unit * unit;
}

static uint32_t min32(uint64_t a, uint64_t b)
{
	uint64_t v = a < b ? a : b;

	return v < NO_LIMIT ? (uint32_t)v : NO_LIMIT;
}

/* Shared memory that the system itself takes of each block. */
static uint32_t reserved_shared(const struct ptb_gpu_device *d)
{
	return d->major >= 8 ? 1024 : 0;
}

uint32_t gpu_device__shared_optin(const struct ptb_gpu_device *d)
{
	if (d->major < 7)
		return d->shared_per_block;
	return d->shared_per_sm > reserved_shared(d) ? d->shared_per_sm - reserved_shared(d) : 0;
}

/* Parts of a multiprocessor, each of which has its own registers. */
static uint32_t partitions(const struct ptb_gpu_device *d)
{
	return d->major == 6 && d->minor == 0 ? 2 : 4;
}

static uint32_t fit_regs(const struct ptb_gpu_device *d, uint64_t per_warp, uint64_t warps,
			 uint32_t parts)
{
	/* the hardware's check takes the block's warps as spread over all parts */
	if (per_warp * round_up(warps, parts) > d->regs_per_block)
		return 0;
	if (!per_warp)
		return NO_LIMIT;
	return min32(d->regs_per_sm / parts / per_warp * parts / warps, NO_LIMIT);
}

static uint32_t by_regs(const struct ptb_gpu_device *d, const struct gpu_launch *l, uint64_t warps,
			struct gpu_occupancy *o)
{
	uint64_t per_warp = round_up((uint64_t)l->regs * d->warp_size, REG_UNIT);
	uint32_t blocks;

	o->regs_per_block = min32(per_warp * warps, NO_LIMIT);
	if (l->regs > (d->major >= 7 ? 256u : 255u))
		return 0;
	blocks = fit_regs(d, per_warp, warps, partitions(d));
	/* what cannot run on the other devices of the family is not run on 6.0 either */
	if (partitions(d) != 4 && !fit_regs(d, per_warp, warps, 4))
		blocks = 0;
	return blocks;
}

/* A kernel that ran with more than a block has by default has asked for more before (opt in). */
static uint32_t by_shared(const struct ptb_gpu_device *d, const struct gpu_launch *l,
			  struct gpu_occupancy *o)
{
	uint64_t unit = d->major >= 8 ? 128 : 256;
	uint64_t bytes =
		round_up((uint64_t)l->static_shared + l->dynamic_shared + reserved_shared(d), unit);

	o->shared_per_block = min32(bytes, NO_LIMIT);
	if (bytes > (uint64_t)gpu_device__shared_optin(d) + reserved_shared(d))
		return 0;
	return bytes ? min32(d->shared_per_sm / bytes, NO_LIMIT) : NO_LIMIT;
}

static bool has_properties(const struct ptb_gpu_device *d)
{
	return d && d->major >= MAJOR_MIN && d->warp_size && d->max_threads_per_block &&
	       d->max_warps_per_sm && d->max_blocks_per_sm && d->regs_per_block && d->regs_per_sm &&
	       d->shared_per_block && d->shared_per_sm && d->sm_cnt;
}

bool gpu_occupancy__of(const struct ptb_gpu_device *d, const struct gpu_launch *l,
		       struct gpu_occupancy *out)
{
	uint64_t warps;

	memset(out, 0, sizeof(*out));
	if (!has_properties(d) || !l->threads)
		return false;
	warps = ((uint64_t)l->threads + d->warp_size - 1) / d->warp_size;
	out->by_regs = by_regs(d, l, warps, out);
	out->by_shared = by_shared(d, l, out);
	out->by_warps = l->threads > d->max_threads_per_block ?
				0 :
				min32(d->max_warps_per_sm / warps, NO_LIMIT);
	out->by_blocks = d->max_blocks_per_sm;
	out->by_barriers = NO_LIMIT; /* no interface reports how many a kernel uses */
	out->active_blocks =
		min32(min32(out->by_regs, out->by_shared), min32(out->by_warps, out->by_blocks));
	out->limits = (out->by_warps == out->active_blocks ? GPU_LIMIT_WARPS : 0) |
		      (out->by_regs == out->active_blocks ? GPU_LIMIT_REGS : 0) |
		      (out->by_shared == out->active_blocks ? GPU_LIMIT_SMEM : 0) |
		      (out->by_blocks == out->active_blocks ? GPU_LIMIT_BLOCKS : 0);
	return true;
}

const char *gpu_occupancy__limits(char *buf, uint32_t limits)
{
	static const char *const names[] = { "WARPS", "REGS", "SMEM", "BLOCKS", "BARRIERS" };

	buf[0] = '\0';
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (!(limits & 1u << i))
			continue;
		if (*buf)
			strcat(buf, "|");
		strcat(buf, names[i]); /* all of them are shorter than the buffer */
	}
	return *buf ? buf : strcpy(buf, "none");
}
