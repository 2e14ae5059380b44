/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The walk over Python frames, on memory that is laid out as each version of CPython does it: right, changed under the reader,
 * damaged, hostile.
 *
 * Longer than 600 lines because every test needs the same laid-out memory.
 */
#include <string.h>

#include "arg_arena.h"
#include "python/python.h"
#include "random.h"
#include "suite.h"

#define PY_READ(reader, dst, len, addr) ((void)(reader), arena__read(dst, (uint32_t)(len), addr))
#include "py_walk.h"

#define CODE_TYPE 0x1230
#define FRAME_BYTES 120 /* of a frame on the stack of frames, with its variables */
#define PROC 3
#define SEED 0x5eed

static struct ptb_py_layout layout;
static struct py_walk walk;
static struct py_checked checked[PY_CHECKED];
static uint64_t thread, tstate, frames_at;

/* ---- layouts ---- */

/* Up to 3.12 from schemas/python; later ones have tables of their own, these are the values in them (x86-64, Linux). */
static void set_layout(uint32_t minor)
{
	struct ptb_py_offsets *off = &layout.off;
	uint8_t runtime[PY_DEBUG_OFFSETS_READ] = { 0 };
	const char *why;

	CU_ASSERT_EQUAL_FATAL(py_layout__fill(runtime, sizeof(runtime),
					      PY_VERSION_OF(minor < 12 ? minor : 12), &layout, &why),
			      0);
	if (minor >= 13) {
		off->tstate_cframe = PTB_PY_NONE;
		off->tstate_frame = 72;
		off->tstate_thread_id = minor >= 15 ? 176 : 152;
		off->code_start = minor >= 14 ? 208 : 200;
		off->frame_owner = minor >= 14 ? 74 : 70;
		off->frame_tags = minor >= 14 ? 3 : 0;
		off->frame_locals = minor >= 14 ? 80 : 72;
		off->interp_code_ends = minor >= 14 ? 0x1c40 : PTB_PY_NONE;
	}
	layout.code_type = CODE_TYPE;
	layout.slot = minor >= 15 ? -24 : 0x318;
	CU_ASSERT_FATAL(ptb_py_fits(off));
}

#define EVERY_VERSION(minor) for (uint32_t minor = 9; minor <= 15; minor++)

/* ---- objects ---- */

static void set_word(uint64_t addr, uint64_t v)
{
	memcpy(arena__at(addr), &v, sizeof(v));
}

static uint64_t put_object(size_t size, uint64_t type)
{
	static const uint8_t zeroes[8192];
	uint64_t addr = arena__put(zeroes, size);

	set_word(addr, 1);
	set_word(addr + layout.off.type, type);
	return addr;
}

static uint64_t put_text(const char *text, bool is_str, bool hashed)
{
	uint64_t addr = put_object(80 + strlen(text), 0x77);
	uint64_t hash = ~0ull;

	if (hashed)
		for (const char *p = text; *p; p++)
			hash = hash * 31 + (uint8_t)*p;
	set_word(addr + layout.off.str_length, strlen(text));
	set_word(addr + 24, hash);
	if (is_str)
		set_word(addr + layout.off.str_state, 0x64); /* compact ASCII of one byte each */
	strcpy(arena__at(addr + (is_str ? layout.off.str_ascii : layout.off.bytes_data)), text);
	return addr;
}

static uint64_t put_code(const char *name, bool hashed)
{
	uint64_t code = put_object(256, CODE_TYPE);
	uint16_t qualname = layout.off.code_qualname;

	set_word(code + layout.off.code_filename, put_text("file.py", true, hashed));
	set_word(code + layout.off.code_name, put_text(name, true, hashed));
	if (qualname != PTB_PY_NONE)
		set_word(code + qualname, put_text(name, true, hashed));
	set_word(code + layout.off.code_linetable, put_text("\x81\x01\x82\x02", false, hashed));
	return code;
}

/* A thread without frames. */
static void put_thread(void)
{
	uint64_t interp;

	arena__reset();
	arena.used = 4096;
	interp = put_object(8000, 0);
	thread = put_object(0x400, 0) + 32;
	tstate = put_object(256, 0);
	set_word(thread + (uint64_t)(int64_t)layout.slot, tstate);
	set_word(tstate + layout.off.tstate_interp, interp);
	set_word(tstate + layout.off.tstate_thread_id, thread);
	if (layout.off.tstate_cframe != PTB_PY_NONE)
		set_word(tstate + layout.off.tstate_cframe, put_object(64, 0));
}

static void set_frame(uint64_t frame)
{
	uint64_t at = tstate;

	if (layout.off.tstate_cframe != PTB_PY_NONE)
		memcpy(&at, arena__at(tstate + layout.off.tstate_cframe), sizeof(at));
	set_word(at + layout.off.tstate_frame, frame);
}

/* Called by the frame `previous`. */
static uint64_t put_frame(uint64_t previous, uint64_t code, int32_t at)
{
	uint64_t frame = ARENA_BASE + arena.used,
		 instr = code + layout.off.code_start + (uint64_t)(int64_t)at;

	arena.used += FRAME_BYTES;
	memset(arena__at(frame), 0, FRAME_BYTES);
	if (layout.off.lines != PTB_PY_LOCATIONS)
		instr = (uint32_t)(layout.off.lines == PTB_PY_RANGES ? at / 2 : at);
	set_word(frame + layout.off.frame_previous, previous);
	set_word(frame + layout.off.frame_code, code | (layout.off.frame_tags & 1u));
	set_word(frame + layout.off.frame_instr, instr);
	set_frame(frame);
	return frame;
}

static uint64_t put_native(uint64_t previous)
{
	uint64_t frame = put_frame(previous, 1, 0);

	if (layout.off.frame_owner != PTB_PY_NONE)
		*(uint8_t *)arena__at(frame + layout.off.frame_owner) = (uint8_t)layout.off.frame_native;
	return frame;
}

static enum py_walked run(void)
{
	arena.reads = 0;
	arena.bytes = 0;
	return py_walk(NULL, &walk, checked, &layout, PROC, thread, SEED);
}

/* A walk that nothing is known of before. */
static enum py_walked run_first(void)
{
	memset(&walk, 0xa5, sizeof(walk));
	memset(checked, 0, sizeof(checked));
	walk.gen = 0;
	walk.wrapped = 0;
	walk.sp = ARENA_BASE - (64 << 20);
	return run();
}

#define DEPTH 6
static uint64_t codes[DEPTH];

/* The outermost one first. */
static void put_stack(void)
{
	uint64_t frame = 0;
	char name[32];

	put_thread();
	for (uint32_t i = 0; i < DEPTH; i++) {
		snprintf(name, sizeof(name), i == 2 && layout.modules ? "_wrapped_call_impl" : "f%u", i);
		codes[i] = put_code(name, i & 1);
	}
	arena.used = (arena.used + 4095) & ~4095u;
	frames_at = ARENA_BASE + arena.used;
	for (uint32_t i = 0; i < DEPTH; i++)
		frame = put_frame(frame, codes[i], (int32_t)(10 * i));
}

/* The innermost `cnt` frames of put_stack(). */
static void expect_frames(uint32_t cnt)
{
	CU_ASSERT_EQUAL_FATAL(walk.def.frame_cnt, cnt);
	for (uint32_t i = 0; i < cnt; i++) {
		CU_ASSERT_EQUAL(walk.frames[i].code, codes[DEPTH - 1 - i]);
		CU_ASSERT_EQUAL(walk.frames[i].at, (int32_t)(10 * (DEPTH - 1 - i)));
	}
}

/* ---- right memory ---- */

TEST("frames of every version")
{
	EVERY_VERSION(minor)
	{
		uint64_t id;

		set_layout(minor);
		put_stack();
		CU_ASSERT_EQUAL_FATAL(run_first(), PY_WALKED);
		expect_frames(DEPTH);
		CU_ASSERT_EQUAL(walk.def.flags, 0);
		id = walk.def.id;
		CU_ASSERT_NOT_EQUAL(id, 0);
		CU_ASSERT_EQUAL_FATAL(run(), PY_WALKED);
		CU_ASSERT_EQUAL(walk.def.id, id);
		CU_ASSERT_EQUAL_FATAL(py_walk(NULL, &walk, checked, &layout, PROC, thread, SEED + 1),
				      PY_WALKED);
		CU_ASSERT_NOT_EQUAL(walk.def.id, id);
		put_frame(frames_at, codes[0], 2);
		CU_ASSERT_EQUAL_FATAL(run(), PY_WALKED);
		CU_ASSERT_EQUAL(walk.def.frame_cnt, 2);
		CU_ASSERT_NOT_EQUAL(walk.def.id, id);
	}
}

/* Frames below one another cost one read for each part of memory; not those on the thread's own stack. */
TEST("one read for many frames")
{
	EVERY_VERSION(minor)
	{
		uint32_t together;

		set_layout(minor);
		put_stack();
		run_first();
		walk.gen = 1;
		CU_ASSERT_EQUAL_FATAL(run(), PY_WALKED);
		CU_ASSERT_EQUAL_FATAL(run(), PY_WALKED);
		together = arena.reads;
		CU_ASSERT(layout.off.lines == PTB_PY_LOCATIONS ? together <= 6 : together >= DEPTH);
		walk.sp = frames_at - 4096;
		CU_ASSERT_EQUAL_FATAL(run(), PY_WALKED);
		expect_frames(DEPTH);
		CU_ASSERT(layout.off.lines == PTB_PY_LOCATIONS ? arena.reads > together :
								 arena.reads == together);
	}
}

TEST("native frames between them")
{
	EVERY_VERSION(minor)
	{
		uint64_t a, b, outer, id;

		set_layout(minor);
		if (layout.off.frame_owner == PTB_PY_NONE)
			continue;
		put_thread();
		a = put_code("a", true);
		b = put_code("b", true);
		outer = put_frame(0, a, 4);
		put_frame(outer, b, 6);
		CU_ASSERT_EQUAL_FATAL(run_first(), PY_WALKED);
		id = walk.def.id;
		put_native(put_frame(put_native(put_native(outer)), b, 6));
		CU_ASSERT_EQUAL_FATAL(run(), PY_WALKED);
		CU_ASSERT_EQUAL_FATAL(walk.def.frame_cnt, 2);
		CU_ASSERT_EQUAL(walk.frames[0].code, b | PTB_PY_NATIVE);
		CU_ASSERT_EQUAL(walk.frames[1].code, a);
		CU_ASSERT_NOT_EQUAL(walk.def.id, id);
		put_native(0);
		CU_ASSERT_EQUAL(run(), PY_NO_FRAMES);
	}
}

/* The frame calls a module of a class of this name. */
static uint64_t put_module(uint64_t frame, const char *name, uint64_t *class)
{
	uint64_t self = put_object(64, 0), at = ARENA_BASE + ARENA_BYTES - strlen(name) - 1;

	*class = put_object(64, 0);
	strcpy(arena__at(at), name); /* nothing behind it can be read */
	set_word(*class + layout.off.type_name, at);
	set_word(self + layout.off.type, *class);
	set_word(frame + layout.off.frame_locals, self | (layout.off.frame_tags & 1u));
	return self;
}

static uint64_t put_call(uint64_t previous, const char *function)
{
	uint64_t frame = put_frame(previous, put_code(function, true), 4);

	arena.used += 512; /* of frames up to 3.10 the variables lie further behind */
	memset(arena__at(frame + layout.off.frame_locals), 0, 8);
	return frame;
}

static void expect_module(const struct ptb_py_frame *f, uint64_t class, uint64_t self)
{
	CU_ASSERT_EQUAL(f->code, class | PTB_PY_CLASS);
	CU_ASSERT_EQUAL(f->at, (int32_t)(self >> 4));
	CU_ASSERT_EQUAL(f->check, py_check_class(NULL, &walk.check, &layout.off, class));
	CU_ASSERT_NOT_EQUAL(f->check, 0);
}

TEST("modules that are called")
{
	EVERY_VERSION(minor)
	{
		uint64_t outer, inner, self, class, other;
		struct ptb_py_frame before;
		uint64_t id;

		set_layout(minor);
		put_thread();
		outer = put_call(0, "f");
		outer = put_call(outer, "_wrapped_call_impl");
		inner = put_call(outer, "_call_impl");
		put_call(inner, "_wrapped_call_imp1");
		put_module(inner, "cell", &class);
		self = put_module(outer, "Linear", &class);
		CU_ASSERT_EQUAL_FATAL(run_first(), PY_WALKED);
		CU_ASSERT_EQUAL(walk.def.frame_cnt, 4);
		layout.modules = 1;
		CU_ASSERT_EQUAL_FATAL(run_first(), PY_WALKED);
		CU_ASSERT_EQUAL_FATAL(walk.def.frame_cnt, 6); /* _call_impl might be all that there is */
		walk.gen = 1;
		for (uint32_t i = 0; i < 2; i++) {
			CU_ASSERT_EQUAL_FATAL(run(), PY_WALKED);
			CU_ASSERT_EQUAL_FATAL(walk.def.frame_cnt, 5);
			expect_module(&walk.frames[2], class, self);
			CU_ASSERT_EQUAL(walk.frames[4].code & PTB_PY_CLASS, 0);
		}
		before = walk.frames[2];
		id = walk.def.id;
		/* another module, a class of another name at the same address, none */
		other = put_object(64, class);
		set_word(outer + layout.off.frame_locals, other);
		CU_ASSERT_EQUAL_FATAL(run(), PY_WALKED);
		expect_module(&walk.frames[2], class, other);
		CU_ASSERT_NOT_EQUAL(walk.def.id, id);
		set_word(outer + layout.off.frame_locals, self);
		set_word(class + layout.off.type_name, arena__put("Linea2\0", 8));
		CU_ASSERT_EQUAL_FATAL(run(), PY_WALKED);
		CU_ASSERT_NOT_EQUAL(walk.frames[2].check, before.check);
		set_word(outer + layout.off.frame_locals, 0);
		CU_ASSERT_EQUAL_FATAL(run(), PY_WALKED);
		CU_ASSERT_EQUAL_FATAL(walk.def.frame_cnt, 5);
		CU_ASSERT_EQUAL(walk.frames[2].code, PTB_PY_CLASS);
		CU_ASSERT_EQUAL(walk.def.flags, 0);
		/* torch up to 2.0 */
		put_thread();
		outer = put_call(put_call(0, "f"), "_call_impl");
		self = put_module(outer,
				  "Sequential_of_a_long_name_with_more_than_sixteen_words_of_eight_bytes_each_that_goes_on_and_on_and_on_and_on_and_on_until_its_end",
				  &class);
		CU_ASSERT_EQUAL_FATAL(run_first(), PY_WALKED);
		CU_ASSERT_EQUAL_FATAL(walk.def.frame_cnt, 3);
		expect_module(&walk.frames[0], class, self);
		layout.modules = 0;
	}
}

/* The check value of the class, the first `before` bytes of whose name are at the end of a page. */
static uint32_t check_name_across(const char *name, uint32_t before)
{
	uint64_t class = put_object(64, 0), page = ARENA_BASE + ARENA_BYTES - PY_PAGE;

	strcpy(arena__at(page - before), name);
	set_word(class + layout.off.type_name, page - before);
	return py_check_class(NULL, &walk.check, &layout.off, class);
}

TEST("names of classes")
{
	char name[PY_CLASS_NAME + 8];
	uint32_t check;

	set_layout(11);
	for (uint32_t len = 1; len < sizeof(name); len++) {
		memset(name, 'n', len);
		name[len] = '\0';
		put_thread();
		check = check_name_across(name, 1024);
		CU_ASSERT_NOT_EQUAL(check, 0);
		for (uint32_t before = 1; before <= len + 1; before++)
			CU_ASSERT_EQUAL(check_name_across(name, before), check);
		name[len - 1] = 'm'; /* beyond PY_CLASS_NAME it makes no difference */
		CU_ASSERT_EQUAL(check_name_across(name, len / 2) == check, len > PY_CLASS_NAME);
	}
	/* a name whose end is not there */
	put_thread();
	put_module(put_call(0, "_call_impl"), "Linear", &tstate);
	memset(arena__at(ARENA_BASE + ARENA_BYTES - 7), 'n', 7);
	CU_ASSERT_EQUAL(py_check_class(NULL, &walk.check, &layout.off, tstate), 0);
}

TEST("threads without a state or frames, or with a wrong state")
{
	EVERY_VERSION(minor)
	{
		set_layout(minor);
		put_stack();
		set_frame(0);
		CU_ASSERT_EQUAL(run_first(), PY_NO_FRAMES);
		put_stack();
		set_word(tstate + layout.off.tstate_thread_id, thread + 8);
		CU_ASSERT_EQUAL(run_first(), PY_NO_STATE);
		put_stack();
		set_word(thread + (uint64_t)(int64_t)layout.slot, 0);
		CU_ASSERT_EQUAL(run_first(), PY_NO_FRAMES);
		set_word(thread + (uint64_t)(int64_t)layout.slot, tstate + 1);
		CU_ASSERT_EQUAL(run_first(), PY_NO_STATE);
		set_word(thread + (uint64_t)(int64_t)layout.slot, 0x10);
		CU_ASSERT_EQUAL(run_first(), PY_NO_STATE);
		thread = 0x7000;
		CU_ASSERT_EQUAL(run_first(), PY_NO_STATE);
	}
}

TEST("a state behind pointers")
{
	uint64_t first, second;

	set_layout(15);
	put_stack();
	first = put_object(64, 0);
	second = put_object(64, 0);
	layout.slot = 8;
	layout.slot_hops = 2;
	layout.slot_hop[0] = 16;
	layout.slot_hop[1] = 40;
	set_word(thread + 8, first);
	set_word(first + 16, second);
	CU_ASSERT_EQUAL(run_first(), PY_NO_FRAMES); /* the block has no state yet */
	set_word(second + 40, tstate);
	CU_ASSERT_EQUAL_FATAL(run_first(), PY_WALKED);
	expect_frames(DEPTH);
}

/* ---- the check value ---- */

static uint32_t check_of(uint64_t code)
{
	struct py_check_mem m = { 0 };
	uint32_t check = 0;

	CU_ASSERT(py_check(NULL, &m, &layout, code, &check));
	return check;
}

/* What differs where a new code object has the address of an old one, and so have its parts. */
TEST("an object at the address of another one")
{
	EVERY_VERSION(minor)
	{
		uint16_t fields[] = { 0, 0, 0 };
		uint64_t code, text;
		char long_name[700];
		uint32_t was;

		memset(long_name, 'n', sizeof(long_name));
		long_name[sizeof(long_name) - 1] = 0;

		set_layout(minor);
		fields[0] = layout.off.code_filename;
		fields[1] = layout.off.code_qualname != PTB_PY_NONE ? layout.off.code_qualname :
								      layout.off.code_name;
		fields[2] = layout.off.code_linetable;
		for (uint32_t i = 0; i < 6; i++) {
			uint16_t field = fields[i % 3];

			put_thread();
			code = put_code("name_of_64_bytes_and_more_0123456789_0123456789_0123456789_0123456789_0",
					i < 3);
			was = check_of(code);
			CU_ASSERT_EQUAL(check_of(code), was);
			memcpy(&text, arena__at(code + field), 8);
			if (minor >= 12) {
				++*(uint32_t *)arena__at(code + 92); /* co_version */
			} else {
				uint64_t len = *(uint64_t *)arena__at(text + 16);
				uint16_t data = i % 3 < 2 ? layout.off.str_ascii : layout.off.bytes_data;

				++*(uint64_t *)arena__at(text + 24); /* its hash is computed: the same text */
				CU_ASSERT_EQUAL(check_of(code), was);
				++*(uint8_t *)arena__at(text + data + (i < 3 ? 0 : len - 1));
			}
			CU_ASSERT_NOT_EQUAL(check_of(code), was);
		}
	}
}

/* Freed and not used again: nobody must read it. */
TEST("freed objects")
{
	EVERY_VERSION(minor)
	{
		static const uint64_t dead[] = { 0, 0x7f1234567890, 0x7f1200000000 };
		static const uint64_t alive[] = { 1, 0x7fffffff, 0xffffffff, 0xc0000000,
						  0x00040000c0000000 };
		struct py_check_mem m = { 0 };
		uint32_t check;
		uint64_t code;

		set_layout(minor);
		put_thread();
		code = put_code("f", true);
		for (uint32_t i = 0; i < sizeof(dead) / sizeof(dead[0]); i++) {
			set_word(code, dead[i]);
			CU_ASSERT_FALSE(py_check(NULL, &m, &layout, code, &check));
		}
		for (uint32_t i = 0; i < sizeof(alive) / sizeof(alive[0]); i++) {
			set_word(code, alive[i]);
			CU_ASSERT(py_check(NULL, &m, &layout, code, &check));
		}
		set_word(code + layout.off.type, CODE_TYPE + 8);
		CU_ASSERT_FALSE(py_check(NULL, &m, &layout, code, &check));
		CU_ASSERT_FALSE(py_check(NULL, &m, &layout, code + 8, &check));
		CU_ASSERT_FALSE(py_check(NULL, &m, &layout, ARENA_BASE + ARENA_BYTES - 8, &check));
	}
}

/* What is known of a code object is used until another one ends, and no longer. */
TEST("code objects are read again when one has ended")
{
	EVERY_VERSION(minor)
	{
		uint64_t interp, id;

		set_layout(minor);
		put_stack();
		memcpy(&interp, arena__at(tstate + layout.off.tstate_interp), 8);
		run_first();
		walk.gen = py_generation(PROC, 7);
		CU_ASSERT_EQUAL_FATAL(run(), PY_WALKED);
		id = walk.def.id;
		memset(arena__at(codes[2] + layout.off.type), 0, 8); /* not read again */
		CU_ASSERT_EQUAL_FATAL(run(), PY_WALKED);
		CU_ASSERT_EQUAL(walk.def.flags, 0);
		CU_ASSERT_EQUAL(walk.def.id, id);
		walk.gen = py_generation(PROC, 8);
		if (layout.off.interp_code_ends != PTB_PY_NONE)
			set_word(interp + layout.off.interp_code_ends, 1);
		CU_ASSERT_EQUAL_FATAL(run(), PY_WALKED);
		CU_ASSERT_EQUAL(walk.def.flags, PTB_PY_FAULT);
		expect_frames(DEPTH - 3);
		walk.gen = 0; /* not known: it is always read */
		set_word(codes[2] + layout.off.type, CODE_TYPE);
		layout.off.interp_code_ends = PTB_PY_NONE;
		CU_ASSERT_EQUAL_FATAL(run(), PY_WALKED);
		CU_ASSERT_EQUAL(walk.def.flags, 0);
		++*(uint64_t *)arena__at(codes[2] + layout.off.code_linetable - 8);
		CU_ASSERT_EQUAL_FATAL(run(), PY_WALKED);
		CU_ASSERT(walk.def.id != id);
	}
}

/* ---- damaged memory ---- */

TEST("cyclic chains")
{
	EVERY_VERSION(minor)
	{
		uint64_t frame;

		set_layout(minor);
		put_stack();
		frame = put_frame(0, codes[0], 0);
		set_word(frame + layout.off.frame_previous, frame);
		CU_ASSERT_EQUAL_FATAL(run_first(), PY_WALKED);
		CU_ASSERT_EQUAL(walk.def.frame_cnt, PTB_PY_FRAMES_MAX);
		CU_ASSERT_EQUAL(walk.def.flags, PTB_PY_CUT);
		if (layout.off.frame_owner == PTB_PY_NONE)
			continue;
		frame = put_native(0);
		set_word(frame + layout.off.frame_previous, frame);
		CU_ASSERT_EQUAL_FATAL(run_first(), PY_WALKED);
		CU_ASSERT_EQUAL(walk.def.frame_cnt, 0);
		CU_ASSERT_EQUAL(walk.def.flags, PTB_PY_CUT);
	}
}

TEST("deep recursion")
{
	EVERY_VERSION(minor)
	{
		static const uint32_t depths[] = { PTB_PY_FRAMES_MAX, PTB_PY_FRAMES_MAX + 1, 8000 };

		set_layout(minor);
		for (uint32_t d = 0; d < 3; d++) {
			uint64_t frame = 0;

			put_stack();
			for (uint32_t i = 0; i < depths[d]; i++)
				frame = put_frame(frame, codes[i % DEPTH], (int32_t)(i % 100) * 2);
			CU_ASSERT_EQUAL_FATAL(run_first(), PY_WALKED);
			CU_ASSERT_EQUAL(walk.def.frame_cnt, PTB_PY_FRAMES_MAX);
			CU_ASSERT_EQUAL(walk.def.flags, d ? PTB_PY_CUT : 0);
			CU_ASSERT_EQUAL(walk.frames[0].code, codes[(depths[d] - 1) % DEPTH]);
		}
	}
}

TEST("garbage pointers")
{
	EVERY_VERSION(minor)
	{
		static const uint64_t words[] = {
			1, 0x10, 0x7f, ARENA_BASE + 4, ARENA_BASE + ARENA_BYTES - 4, ~0ull - 6
		};
		uint64_t frame, third;

		set_layout(minor);
		for (uint32_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
			put_stack();
			third = ARENA_BASE + arena.used - 3 * FRAME_BYTES;
			set_word(third + layout.off.frame_previous, words[i]);
			CU_ASSERT_EQUAL_FATAL(run_first(), PY_WALKED);
			CU_ASSERT_EQUAL(walk.def.flags, PTB_PY_FAULT);
			expect_frames(3);
			put_stack();
			third = ARENA_BASE + arena.used - 3 * FRAME_BYTES;
			set_word(third + layout.off.frame_code, words[i]);
			CU_ASSERT_EQUAL_FATAL(run_first(), PY_WALKED);
			CU_ASSERT_EQUAL(walk.def.flags, PTB_PY_FAULT);
			expect_frames(2);
		}
		put_stack();
		third = ARENA_BASE + arena.used - 3 * FRAME_BYTES;
		set_word(third + layout.off.frame_instr, 0x7fffffff00000000ull | 0x70000000);
		CU_ASSERT_EQUAL_FATAL(run_first(), PY_WALKED);
		CU_ASSERT_EQUAL(walk.def.flags, PTB_PY_FAULT);
		expect_frames(2);
		frame = ARENA_BASE + ARENA_BYTES - 8; /* its end is not there */
		set_frame(frame);
		CU_ASSERT_EQUAL_FATAL(run_first(), PY_WALKED);
		CU_ASSERT_EQUAL(walk.def.frame_cnt, 0);
		CU_ASSERT_EQUAL(walk.def.flags, PTB_PY_FAULT);
	}
}

/* Whatever cannot be read, what is found is the inner part of the right stack, and marked. */
TEST("every read fails")
{
	EVERY_VERSION(minor)
	{
		uint32_t reads, whole = 0;

		set_layout(minor);
		put_stack();
		run_first();
		reads = arena.reads;
		for (uint32_t i = 0; i < 2 * reads; i++) {
			put_stack();
			arena.fail_at = i % reads;
			arena.fail_after = i >= reads;
			if (run_first() != PY_WALKED)
				continue;
			whole += !walk.def.flags;
			CU_ASSERT(walk.def.flags == PTB_PY_FAULT || walk.def.frame_cnt == DEPTH);
			expect_frames(walk.def.frame_cnt);
		}
		CU_ASSERT(whole <= 4); /* a part of memory, or the number of ends: there is another way */
	}
}

/* Words that are often addresses: bounded, whatever they lead to. */
TEST("random damage")
{
	int rounds = repetitions(2000, 200000);

	set_layout(12);
	put_stack();
	for (int r = 0; r < rounds; r++) {
		uint32_t cnt = (uint32_t)(next_random() % 40);

		set_layout(9 + (uint32_t)(r % 7));
		layout.modules = (uint32_t)r / 50 % 2;
		if (r % 50 < 7)
			put_stack();
		for (uint32_t i = 0; i < cnt; i++) {
			uint32_t at = 4096 + (uint32_t)(next_random() % (arena.used - 4096));
			uint64_t v = next_random();

			if (v & 1)
				v = ARENA_BASE + (v >> 8) % arena.used;
			memcpy(arena.mem + (v & 2 ? at : at & ~7u), &v, sizeof(v));
		}
		walk.gen = (uint32_t)r % 3;
		(void)run();
		CU_ASSERT(walk.def.frame_cnt <= PTB_PY_FRAMES_MAX);
		CU_ASSERT(arena.reads <= 16 * PY_FRAMES_SEEN);
	}
}

SUITE("py_walk")
