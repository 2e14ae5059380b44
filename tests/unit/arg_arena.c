/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See arg_arena.h. */
#include "arg_arena.h"

#include <stdlib.h>
#include <string.h>

static int arg_host_read(void *dst, uint32_t len, uint64_t addr);
static void arg_host_count(uint32_t id);

#include "arg_interp.h"

struct arena arena;

int arena__read(void *dst, uint32_t len, uint64_t addr)
{
	int64_t nr = arena.reads++;
	bool inside = addr >= ARENA_BASE && addr - ARENA_BASE <= ARENA_BYTES &&
		      len <= ARENA_BYTES - (addr - ARENA_BASE);

	memset(dst, 0, len);
	arena.wild |= !inside;
	if (!inside || nr == arena.fail_at || (arena.fail_after && nr > arena.fail_at))
		return -14;
	memcpy(dst, arena.mem + (addr - ARENA_BASE), len);
	arena.bytes += len;
	return 0;
}

static int arg_host_read(void *dst, uint32_t len, uint64_t addr)
{
	if (len > PTB_STRING_MAX)
		abort(); /* more than any read may be */
	return arena__read(dst, len, addr);
}

static void arg_host_count(uint32_t id)
{
	arena.counters[id]++;
}

void arena__reset(void)
{
	memset(&arena, 0, sizeof(arena));
	arena.fail_at = -1;
	arena.used = 64;
}

uint64_t arena__put(const void *data, size_t len)
{
	uint64_t addr = ARENA_BASE + arena.used;

	if (len > ARENA_BYTES - arena.used)
		abort();
	memcpy(arena.mem + arena.used, data, len);
	arena.used += (uint32_t)(len + 16) & ~15u; /* also nothing has an address of its own */
	return addr;
}

void *arena__at(uint64_t addr)
{
	return arena.mem + (addr - ARENA_BASE);
}

#define FIRST_POS 32 /* of the payload in the record */

void arena__run(enum arena_run what, const struct ptb_proc_cfg *cfg, const struct ptb_arg_prog *prog,
		const uint64_t *words, bool full, struct payload *out)
{
	static struct arg_scratch scratch;
	struct arg_run r = { .s = &scratch, .cfg = cfg, .prog = prog };

	memset(&scratch, 0xa5, sizeof(scratch)); /* remains of an earlier record */
	for (uint32_t i = 0; i < PTB_LOC_CNT; i++)
		scratch.words[i] = words[i];
	args_begin(&scratch, FIRST_POS, full);
	scratch.near = arena.near;
	switch (what) {
	case ARENA_INPUTS:
		args_ops(&r, 0, prog->in_cnt);
		break;
	case ARENA_RESULTS:
		args_ops(&r, prog->in_cnt, prog->out_cnt);
		break;
	case ARENA_STACK:
	case ARENA_STACK_BARE:
		args_stack(&r, words[0], words[1], what == ARENA_STACK_BARE);
		break;
	case ARENA_TENSORS:
		args_tensors(&r, words[0]);
		break;
	case ARENA_TUPLE:
	case ARENA_TUPLE_BARE:
		args_tuple(&r, words[0], what == ARENA_TUPLE_BARE);
		break;
	default:
		args_opt_string(&r, words[0]);
	}
	if (scratch.pos < FIRST_POS || scratch.pos - FIRST_POS > PTB_ARGS_BYTES_MAX || scratch.pos % 8)
		abort();
	out->cnt = (scratch.pos - FIRST_POS) / 8;
	out->cut = scratch.cut;
	memcpy(out->words, scratch.rec + FIRST_POS, 8 * (size_t)out->cnt);
}

static void facts_tags(struct ptb_tensor_cfg *t, bool old)
{
	static const uint8_t rows[][4] = {
		/* kind, opaque, tag in 2.14, in 1.13 */
		{ PTB_VAL_NONE, 0, 0, 0 },
		{ PTB_VAL_TENSOR, 0, 1, 1 },
		{ PTB_VAL_OPAQUE, PTB_OPAQUE_Storage, 2, 2 },
		{ PTB_VAL_DOUBLE, 0, 3, 3 },
		{ PTB_VAL_COMPLEX, 0, 4, 4 },
		{ PTB_VAL_INT, 0, 5, 5 },
		{ PTB_VAL_OPAQUE, PTB_OPAQUE_SymInt, 7, 6 },
		{ PTB_VAL_BOOL, 0, 10, 8 },
		{ PTB_VAL_TUPLE, 0, 11, 9 },
		{ PTB_VAL_STRING, 0, 12, 10 },
		{ PTB_VAL_LIST, 0, 14, 12 },
		{ PTB_VAL_DEVICE, 0, 18, 15 },
		{ PTB_VAL_OPAQUE, PTB_OPAQUE_Generator, 26, 23 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		t->ivalue_kind[rows[i][old ? 3 : 2]] = (uint16_t)(rows[i][0] | rows[i][1] << 8);
}

void arena__facts(struct ptb_proc_cfg *cfg, bool old)
{
	struct ptb_tensor_cfg *t = &cfg->tensor;
	uint16_t key_set = old ? 184 : 168;

	memset(cfg, 0, sizeof(*cfg));
	cfg->old_string_abi = old;
	t->shapes_on = 1;
	t->device_has_first = old;
	t->object_header = old ? 24 : 16;
	t->scalar_double = 0;
	t->scalar_int = 1;
	t->scalar_complex = old ? 2 : 3;
	t->scalar_bool = old ? 3 : 4;
	t->storage_off = old ? 24 : 16;
	t->extra_meta_off = old ? 40 : 32;
	t->sizes_off = key_set - 112;
	t->storage_offset_off = key_set - 24;
	t->numel_off = key_set - 16;
	t->dtype_off = key_set - 8;
	t->device_off = key_set - 6;
	t->key_set_off = key_set;
	t->storage_data_off = old ? 24 : 16;
	facts_tags(t, old);
	cfg->python = (struct ptb_python_cfg){ .type_int = 0x1001,
					       .type_float = 0x1002,
					       .type_bool = 0x1003,
					       .type_str = 0x1004,
					       .type_tuple = 0x1005,
					       .type_list = 0x1006,
					       .none = 0x1007,
					       .type_tensor = 0x1008,
					       .type_complex = 0x1009,
					       .variable_off = 16,
					       .type_base_off = 256,
					       .long_size_off = 16,
					       .long_digits_off = 24,
					       .long_size_shift = old ? 0 : 3,
					       .ascii_off = old ? 48 : 40,
					       .str_state_off = 32,
					       .tuple_items_off = 24 };
}
