/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Values that the agent writes against those of the interpreter that runs in the kernel, over the same random
 * objects at the same addresses: tensors, texts, tuples, lists in lists, damaged ones too, with little room.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "../../cupti_agent/values.h"
#include "arg_arena.h"
#include "suite.h"

#define ROUNDS 20000
/* clang-format off */
#define NOWHERE (1ull << 63) /* no address of any process: sanitizers have memory of their own nearly everywhere */
/* clang-format on */

struct ival {
	uint64_t payload, tag;
};

static struct ptb_agent_cfg cfg;
static struct ptb_proc_cfg facts;
static unsigned char *mapped; /* the arena at its own addresses, followed by a page that cannot be read */
static uint64_t seed;

static uint32_t rnd(uint32_t below)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(seed >> 33) % below;
}

static bool map_arena(void)
{
	void *want = (void *)(uintptr_t)ARENA_BASE;
	void *got = mmap(want, ARENA_BYTES + 4096, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	if (got != want || mprotect((char *)got + ARENA_BYTES, 4096, PROT_NONE))
		return false;
	mapped = got;
	return true;
}

/* Copies what the arena contains to the addresses that the agent's code reads. */
static void show_arena(void)
{
	static uint32_t shown;

	if (arena.used < shown)
		memset(mapped + arena.used, 0, shown - arena.used);
	memcpy(mapped, arena.mem, arena.used);
	shown = arena.used;
}

/* ---- random objects ---- */

static uint64_t tag_of(uint32_t kind)
{
	for (uint32_t i = 0; i < PTB_IVALUE_TAGS; i++)
		if ((cfg.tensor.ivalue_kind[i] & 0xff) == kind)
			return i;
	return PTB_IVALUE_TAGS - 1;
}

static uint64_t make_dims(uint32_t ndim)
{
	uint64_t dims[128];

	for (uint32_t i = 0; i < 2 * ndim; i++)
		dims[i] = rnd(7);
	return arena__put(dims, 16 * ndim);
}

static uint64_t make_tensor(void)
{
	const struct ptb_tensor_cfg *t = &cfg.tensor;
	unsigned char impl[256] = { 0 };
	uint64_t ndim = rnd(8) ? rnd(6) : rnd(70), w;
	const uint64_t object[2] = { 1, rnd(2) ? t->parameter_type : 77 };
	uint64_t storage[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };

	memcpy(impl + t->sizes_off, &ndim, 8);
	for (uint64_t i = 0; i < 10; i++) {
		w = rnd(9);
		memcpy(impl + t->sizes_off + 8 + 8 * i, &w, 8);
	}
	if (ndim > 5 && ndim <= 64) {
		w = make_dims((uint32_t)ndim);
		memcpy(impl + t->sizes_off + 8, &w, 8);
	}
	w = rnd(4) ? arena__put(storage, sizeof(storage)) : 0;
	memcpy(impl + t->storage_off, &w, 8);
	w = rnd(2) ? arena__put(object, sizeof(object)) | rnd(8) : 0;
	memcpy(impl + t->sizes_off - 8, &w, 8);
	w = rnd(3) ? 0 : arena__put(rnd(2) ? object : (const uint64_t[]){ 0, 0 }, 16);
	memcpy(impl + t->extra_meta_off, &w, 8);
	w = rnd(1000);
	memcpy(impl + t->numel_off, &w, 8);
	memcpy(impl + t->storage_offset_off, &w, 8);
	impl[t->dtype_off] = (unsigned char)rnd(47);
	for (uint64_t i = 0; i < 3; i++)
		impl[t->device_off + i] = (unsigned char)rnd(3);
	w = seed;
	memcpy(impl + t->key_set_off, &w, 8);
	return arena__put(impl, sizeof(impl));
}

static uint64_t make_string(void)
{
	static char text[20000];
	uint64_t str[6] = { 0 }, len = rnd(20) ? rnd(40) : rnd(sizeof(text) - 32);
	uint32_t at = cfg.tensor.object_header / 8;
	uint64_t old[3] = { len, 0, 0 };
	uint64_t addr;

	memset(text, 'a' + (int)rnd(26), sizeof(text));
	memcpy(text, old, sizeof(old));
	addr = arena__put(text, len + 32) + 24;
	str[at] = addr;
	str[at + 1] = len;
	return arena__put(str, sizeof(str));
}

static struct ival make_value(uint32_t depth, uint32_t alike);

static uint64_t make_items(uint32_t cnt, uint32_t depth)
{
	struct ival items[600];
	uint32_t alike = rnd(3) ? 1 + rnd(6) : 0;

	for (uint32_t i = 0; i < cnt; i++)
		items[i] = make_value(depth, alike && rnd(50) ? alike : 0);
	return arena__put(items, cnt * sizeof(*items));
}

static uint64_t make_list(uint32_t depth)
{
	uint32_t cnt = rnd(12) ? rnd(9) : rnd(depth > 1 ? 40 : 600), at = cfg.tensor.object_header / 8;
	uint64_t obj[8] = { 0 };

	obj[at] = make_items(cnt, depth + 1);
	obj[at + 1] = obj[at] + 16 * cnt + (rnd(200) ? 0 : 8);
	return arena__put(obj, sizeof(obj));
}

static uint64_t make_tuple(uint32_t depth)
{
	uint32_t at = cfg.tensor.object_header / 8, cnt = rnd(5);
	uint64_t obj[12] = { 0 };
	struct ival item;

	if (cnt && cnt <= 3) {
		obj[at] = cnt;
		for (uint32_t i = 0; i < cnt; i++) {
			item = make_value(depth + 1, 0);
			memcpy(&obj[at + 1 + 2 * i], &item, sizeof(item));
		}
	} else {
		obj[at] = rnd(100) ? 0 : 99;
		obj[at + 1] = make_items(cnt, depth + 1);
		obj[at + 2] = obj[at + 1] + 16 * cnt;
	}
	return arena__put(obj, sizeof(obj));
}

/* alike: 1: Tensor, 2: Int, 3: Double, 4: Bool, 5: Tensor or None, 6: undefined or Tensor; 0: anything */
static struct ival make_value(uint32_t depth, uint32_t alike)
{
	static const uint32_t kinds[] = { PTB_VAL_TENSOR,  PTB_VAL_INT,    PTB_VAL_DOUBLE,
					  PTB_VAL_BOOL,    PTB_VAL_NONE,   PTB_VAL_TENSOR,
					  PTB_VAL_STRING,  PTB_VAL_LIST,   PTB_VAL_TUPLE,
					  PTB_VAL_COMPLEX, PTB_VAL_DEVICE, PTB_VAL_OPAQUE,
					  PTB_VAL_UNKNOWN };
	uint32_t kind = kinds[alike ? (alike == 5 ? (rnd(2) ? 0 : 4) :
				       alike == 6 ? 0 :
						    alike - 1) :
				      rnd(sizeof(kinds) / sizeof(kinds[0]))];
	struct ival v = { NOWHERE | seed, tag_of(kind) | NOWHERE | (uint64_t)rnd(1000) << 32 };
	uint64_t pair[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };

	if (kind == PTB_VAL_TENSOR)
		v.payload = alike == 6 && rnd(2) ? cfg.tensor.undefined_impl : make_tensor();
	else if (kind == PTB_VAL_STRING)
		v.payload = make_string();
	else if (kind == PTB_VAL_LIST)
		v.payload = depth > 4 ? 0 : make_list(depth);
	else if (kind == PTB_VAL_TUPLE)
		v.payload = depth > 4 ? 0 : make_tuple(depth);
	else if (kind == PTB_VAL_COMPLEX)
		v.payload = arena__put(pair, sizeof(pair));
	else if (kind == PTB_VAL_UNKNOWN && rnd(2))
		v.tag = 40 + rnd(100);
	return v;
}

/* ---- both ---- */

static void set_facts(bool old)
{
	arena__facts(&facts, old);
	facts.tensor.undefined_impl = ARENA_BASE + 8;
	facts.tensor.parameter_type = 0x4440;
	memset(&cfg, 0, sizeof(cfg));
	cfg.tensor = facts.tensor;
	cfg.rf.old_string_abi = old;
}

static bool same(uint64_t items, uint32_t cnt, bool full, bool careful)
{
	static uint64_t own[PTB_ARGS_BYTES_MAX / 8 + 600];
	static struct payload want;
	uint64_t words[PTB_LOC_CNT] = { 0 }, vec[3] = { items, items + 16 * cnt, items + 16 * cnt };
	struct values v = { .cfg = &cfg, .at = (unsigned char *)own, .full = full, .careful = careful };
	size_t bytes;

	words[0] = arena__put(vec, sizeof(vec));
	words[1] = cnt;
	show_arena();
	arena.reads = 0;
	arena__run(ARENA_STACK, &facts, NULL, words, full, &want);
	if (arena.reads > 2900)
		return true; /* the kernel's limit on steps may have ended it */
	v.end = v.at + sizeof(own);
	values__put(&v, items, cnt);
	bytes = (size_t)(v.at - (unsigned char *)own);
	return bytes == 8 * (size_t)want.cnt && v.cut == want.cut && !memcmp(own, want.words, bytes);
}

TEST("as the interpreter")
{
	uint32_t different = 0;

	for (uint32_t i = 0; i < ROUNDS; i++) {
		uint32_t cnt = rnd(8);
		uint64_t items;

		seed = i;
		arena__reset();
		set_facts(i & 1);
		items = make_items(cnt, 0);
		if (!same(items, cnt, i & 2, i & 4 || i % 64 > 8) && different++ < 3)
			printf("round %u is different\n", i);
	}
	CU_ASSERT_EQUAL(different, 0);
}

/* Words that change while they are read: any result, but no fault. */
TEST("damaged objects")
{
	uint32_t different = 0;

#ifdef __SANITIZE_ADDRESS__ /* its shadow lies where damaged pointers point, and can be read */
	return;
#endif
	for (uint32_t i = 0; i < ROUNDS; i++) {
		uint32_t cnt = 1 + rnd(8);
		uint64_t items, w;

		seed = 1000000 + i;
		arena__reset();
		set_facts(i & 1);
		items = make_items(cnt, 0);
		for (uint32_t k = 0; k < 1 + arena.used / 256; k++) {
			w = rnd(3) ? ARENA_BASE + rnd(arena.used + 64) :
			    rnd(2) ? NOWHERE | seed :
				     rnd(20);
			memcpy(arena.mem + (rnd(arena.used / 8) * 8), &w, 8);
		}
		if (!same(items, cnt, i & 2, true) && different++ < 3)
			printf("round %u is different\n", i);
	}
	CU_ASSERT_EQUAL(different, 0);
}

/* Nothing is written beyond the room, and what is written is how the values begin with more room. */
TEST("little room")
{
	static uint64_t all[PTB_ARGS_BYTES_MAX / 8 + 600], some[PTB_ARGS_BYTES_MAX / 8 + 600];
	uint32_t bytes;

	for (uint32_t i = 0; i < 2000; i++) {
		struct values v = { .cfg = &cfg, .full = i & 2, .careful = true };
		uint32_t cnt = 1 + rnd(8);
		uint64_t items;

		seed = 2000000 + i;
		arena__reset();
		set_facts(i & 1);
		items = make_items(cnt, 0);
		show_arena();
		v.at = (unsigned char *)all;
		v.end = v.at + sizeof(all);
		values__put(&v, items, cnt);
		bytes = (uint32_t)(v.at - (unsigned char *)all);
		bytes = rnd(bytes / 8 + 1) * 8;
		memset(some, 0xee, sizeof(some));
		v.at = (unsigned char *)some;
		v.end = v.at + bytes;
		v.cut = false;
		values__put(&v, items, cnt);
		CU_ASSERT(v.at <= (unsigned char *)some + bytes);
		CU_ASSERT_EQUAL(some[bytes / 8], 0xeeeeeeeeeeeeeeee);
	}
}

int main(void)
{
	if (!map_arena()) {
		printf("SKIP: the arena's addresses are taken\n");
		return 77;
	}
	return run_suite("agent values");
}
