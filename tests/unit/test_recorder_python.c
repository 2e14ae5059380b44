/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* record/recorder_python: frames of stacks get the names and lines of code objects, which are in this process, laid out as those of
 * CPython 3.11; objects that change, processes that end, limits. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/limits.h"
#include "capture/capture.h"
#include "python/python.h"
#include "record/recorder_priv.h"
#include "suite.h"

static struct recorder *rec;
static struct ptb_py_layout layout;
static char path[64];
static uint32_t me;
static uint64_t code_type[64];

/* ---- objects ---- */

struct object {
	uint64_t words[32];
	uint8_t bytes[256];
};

static void set_text(struct object *o, const char *text)
{
	memset(o, 0, sizeof(*o));
	o->words[2] = strlen(text);
	o->words[3] = 77 + strlen(text); /* hash */
	for (const char *c = text; *c; c++)
		o->words[3] = o->words[3] * 31 + (uint64_t)*c;
	o->words[4] = 1 << 2 | 0x20 | 0x40; /* one byte a character, compact, ASCII */
	memcpy((char *)o + layout.off.str_ascii, text, strlen(text));
}

static struct code {
	struct object code, file, name, table;
} codes[2];

/* Lines FIRST for the first instruction, FIRST + 2 for the second one. */
static void set_code(struct code *c, const char *file, const char *name, int32_t first)
{
	static const uint8_t table[] = { 0x80 | 11 << 3, 0, 0, 0x80 | 12 << 3, 0, 0 };

	memset(c, 0, sizeof(*c));
	set_text(&c->file, file);
	set_text(&c->name, name);
	c->table.words[2] = sizeof(table);
	c->table.words[3] = (uint64_t)first;
	memcpy((char *)&c->table + layout.off.bytes_data, table, sizeof(table));
	c->code.words[0] = 1; /* references */
	c->code.words[layout.off.type / 8] = (uint64_t)code_type;
	c->code.words[layout.off.code_filename / 8] = (uint64_t)&c->file;
	c->code.words[layout.off.code_qualname / 8] = (uint64_t)&c->name;
	c->code.words[layout.off.code_linetable / 8] = (uint64_t)&c->table;
	memcpy((char *)&c->code + layout.off.code_firstlineno, &first, sizeof(first));
}

static uint32_t check_of(const struct code *c)
{
	struct py_code code;

	CU_ASSERT_EQUAL_FATAL(py_code__read(getpid(), &layout, (uint64_t)c, &code), 0);
	py_code__clear(&code);
	return code.check;
}

/* ---- recordings ---- */

static void add_process(pid_t pid, uint32_t parent)
{
	static struct torch_plan plan;
	struct proc_ops po;
	struct torch_proc proc = { .pid = pid, .comm = "t", .exe = "t", .cmdline = "t" };

	proc_ops__init(&po, &proc, &plan);
	recorder__learn(rec, &po);
	proc_ops__free(&po);
	recorder__process(rec, &proc, &plan, &(struct recorder_process){ .start_ns = 1000 });
	CU_ASSERT_EQUAL(recorder__python(rec, (uint32_t)pid, parent, &layout), 0);
}

static void open_recording(void)
{
	const struct record_opts opts = { .stacks = true };
	const char *why;

	CU_ASSERT_EQUAL_FATAL(py_layout__fill(NULL, 0, PY_VERSION_OF(11), &layout, &why), 0);
	layout.code_type = (uint64_t)code_type;
	me = (uint32_t)getpid();
	snprintf(path, sizeof(path), "/tmp/ptbpf-python-%u.ptb", me);
	unlink(path);
	CU_ASSERT_EQUAL_FATAL(recorder__open(path, NULL, NULL, &opts, &rec), 0);
	set_code(&codes[0], "a.py", "Class.f", 10);
	set_code(&codes[1], "b.py", "g", 20);
	add_process(getpid(), 0);
}

/* What the capture has. */
static struct {
	struct ptb_py_line lines[64];
	char names[64][64];         /* by id */
	uint32_t cnt, defs, frames; /* frames: of all defs */
} got;

static int note_control(void *arg, const struct ptb_rec_hdr *h)
{
	const struct ptb_text *t = (const void *)h;

	(void)arg;
	if (h->kind == PTB_REC_NAME && t->id < 64)
		snprintf(got.names[t->id], 64, "%.*s", (int)t->text_len, (const char *)(t + 1));
	if (h->kind == PTB_REC_PY_LINE && got.cnt++ < 64)
		memcpy(&got.lines[got.cnt - 1], h, sizeof(got.lines[0]));
	return 0;
}

static int note_ring(void *arg, const struct ptb_rec_hdr *h)
{
	(void)arg;
	if (h->kind == PTB_REC_PY_STACK_DEF) {
		got.defs++;
		got.frames += ((const struct ptb_py_stack_def *)h)->frame_cnt;
	}
	return 0;
}

static void close_recording(void)
{
	struct capture_reader *cr;

	memset(&got, 0, sizeof(got));
	CU_ASSERT_EQUAL(recorder__close(rec), 0);
	CU_ASSERT_EQUAL_FATAL(capture_reader__open(path, capture__open(path), &cr), 0);
	CU_ASSERT_EQUAL(capture_reader__control(cr, note_control, NULL), 0);
	CU_ASSERT_EQUAL(capture_reader__scan(cr, note_ring, NULL), 0);
	capture_reader__close(cr);
	unlink(path);
}

static struct {
	struct ptb_py_stack_def d;
	struct ptb_py_frame frames[PTB_PY_FRAMES_MAX];
} stack;

static void send_stack(uint32_t tgid, uint32_t cnt)
{
	stack.d = (struct ptb_py_stack_def){ .h = { .kind = PTB_REC_PY_STACK_DEF,
						    .len = (uint16_t)(sizeof(stack.d) +
								      cnt * sizeof(stack.frames[0])),
						    .ts_ns = 2000,
						    .tgid = tgid,
						    .tid = tgid },
					     .id = 1,
					     .frame_cnt = cnt };
	recorder__ring_record(rec, 0, &stack, stack.d.h.len);
}

static struct ptb_py_frame frame_at(const struct code *c, int32_t at)
{
	return (struct ptb_py_frame){ .code = (uint64_t)c, .at = at, .check = check_of(c) };
}

static void assert_line(uint32_t i, const char *func, const char *file, int32_t line, int32_t first)
{
	CU_ASSERT_FATAL(i < got.cnt && got.lines[i].func < 64 && got.lines[i].file < 64);
	CU_ASSERT_STRING_EQUAL(got.names[got.lines[i].func], func);
	CU_ASSERT_STRING_EQUAL(got.names[got.lines[i].file], file);
	CU_ASSERT_EQUAL(got.lines[i].line, line);
	CU_ASSERT_EQUAL(got.lines[i].first, first);
}

/* ---- tests ---- */

TEST("lines")
{
	open_recording();
	stack.frames[0] = frame_at(&codes[0], 0);
	stack.frames[0].code |= PTB_PY_NATIVE;
	stack.frames[1] = frame_at(&codes[1], 2);
	stack.frames[2] = frame_at(&codes[1], -1);
	stack.frames[3] = frame_at(&codes[1], 400); /* the table does not cover it */
	send_stack(me, 4);
	send_stack(me, 4);
	stack.frames[0].code &= ~(uint64_t)PTB_PY_NATIVE;
	send_stack(me, 1);
	CU_ASSERT_EQUAL(recorder__stats(rec).py_codes_gone, 0);
	close_recording();
	CU_ASSERT_EQUAL(got.defs, 3);
	CU_ASSERT_EQUAL(got.cnt, 4);
	assert_line(0, "Class.f", "a.py", 11, 10);
	assert_line(1, "g", "b.py", 23, 20);
	assert_line(2, "g", "b.py", 20, 20);
	assert_line(3, "g", "b.py", 0, 20);
	CU_ASSERT_EQUAL(got.lines[0].frame.code, (uint64_t)&codes[0]);
}

/* Another object at the same address, with texts at the same addresses. */
TEST("freed")
{
	struct ptb_py_frame before;

	open_recording();
	before = frame_at(&codes[0], 0);
	set_code(&codes[0], "a.py", "Class.h", 10);
	stack.frames[0] = before;
	stack.frames[1] = frame_at(&codes[0], 0);
	stack.frames[2] = before;
	stack.frames[2].at = 2; /* of the same object: counted once */
	send_stack(me, 3);
	stack.frames[0].code = (uint64_t)code_type; /* no code object */
	stack.frames[1].code = 8;
	send_stack(me, 2);
	CU_ASSERT_EQUAL(recorder__stats(rec).py_codes_gone, 3);
	close_recording();
	CU_ASSERT_EQUAL(got.cnt, 5);
	CU_ASSERT_EQUAL(got.lines[0].func, 0);
	CU_ASSERT_EQUAL(got.lines[0].frame.check, before.check);
	assert_line(1, "Class.h", "a.py", 11, 10);
	for (uint32_t i = 2; i < 5; i++)
		CU_ASSERT_EQUAL(got.lines[i].func, 0);
}

TEST("damaged")
{
	open_recording();
	stack.frames[0] = frame_at(&codes[0], 0);
	send_stack(me, 1);
	stack.d.frame_cnt = 2; /* more than there are */
	recorder__ring_record(rec, 0, &stack, stack.d.h.len);
	stack.d.frame_cnt = UINT32_MAX;
	recorder__ring_record(rec, 0, &stack, stack.d.h.len);
	stack.d.h.len = sizeof(struct ptb_rec_hdr);
	recorder__ring_record(rec, 0, &stack, stack.d.h.len);
	send_stack(me + 1, 1); /* of a process that is not known: kept as it is */
	close_recording();
	CU_ASSERT_EQUAL(got.defs, 2);
	CU_ASSERT_EQUAL(got.cnt, 1);
}

/* The frame that a call of a class leaves below __init__() is none of the program's. */
TEST("shim")
{
	open_recording();
	set_code(&codes[0], "__init__", "__init__", 0);
	for (int i = 0; i < 2; i++) {
		stack.frames[0] = frame_at(&codes[1], 0);
		stack.frames[1] = frame_at(&codes[0], 2);
		stack.frames[2] = frame_at(&codes[1], 2);
		send_stack(me, 3);
	}
	close_recording();
	CU_ASSERT_EQUAL(got.defs, 2);
	CU_ASSERT_EQUAL(got.frames, 4);
	CU_ASSERT_EQUAL(got.cnt, 2);
	assert_line(1, "g", "b.py", 23, 20);
}

/* What its parent has is known of a child that has ended; other objects of it are not. */
TEST("forked")
{
	struct ptb_task end = { .h = { .kind = PTB_REC_EXIT, .len = sizeof(end), .ts_ns = 3000 },
				.group_dead = 1 };
	pid_t child = fork();

	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pause();
		_exit(0);
	}
	open_recording();
	stack.frames[0] = frame_at(&codes[0], 0);
	send_stack(me, 1);
	add_process(child, me);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	end.h.tgid = end.h.tid = (uint32_t)child;
	recorder__ring_record(rec, 0, &end, sizeof(end));
	stack.frames[1] = stack.frames[2] = frame_at(&codes[1], 0);
	stack.frames[1].check++;
	send_stack((uint32_t)child, 3);
	CU_ASSERT_EQUAL(recorder__stats(rec).py_codes_gone, 1);
	send_stack(me, 3);
	CU_ASSERT_EQUAL(recorder__stats(rec).py_codes_gone, 2);
	close_recording();
	CU_ASSERT_EQUAL(got.cnt, 6);
	assert_line(1, "Class.f", "a.py", 11, 10);
	CU_ASSERT_EQUAL(got.lines[2].func, 0);
	CU_ASSERT_EQUAL(got.lines[3].h.tgid, (uint32_t)child);
	assert_line(3, "g", "b.py", 21, 20);
}

/* Beyond a limit all is forgotten, and read again: no frame is without its line. */
TEST("limits")
{
	uint32_t sent = 0;

	open_recording();
	while (sent < LIMIT_PY_FRAMES + 1000) {
		for (uint32_t i = 0; i < PTB_PY_FRAMES_MAX; i++)
			stack.frames[i] = frame_at(&codes[0], (int32_t)(2 * sent++));
		send_stack(me, PTB_PY_FRAMES_MAX);
	}
	CU_ASSERT_EQUAL(rec->py_frames, sent - LIMIT_PY_FRAMES);
	CU_ASSERT_EQUAL(rec->py_bytes > 0 && rec->py_bytes < 1000, 1);
	close_recording();
	CU_ASSERT_EQUAL(got.cnt, sent);
}

TEST("limit_of_bytes")
{
	const uint32_t len = 1u << 20;
	uint8_t *table = calloc(1, len + 256);
	uint64_t size = len;

	CU_ASSERT_FATAL(table != NULL);
	open_recording();
	memcpy(table + layout.off.bytes_size, &size, 8);
	for (uint32_t i = 0; i < LIMIT_PY_CODE_BYTES / len + 10; i++) {
		set_code(&codes[0], "a.py", "f", (int32_t)i + 1);
		codes[0].code.words[layout.off.code_linetable / 8] = (uint64_t)table;
		stack.frames[0] = frame_at(&codes[0], -1);
		send_stack(me, 1);
		CU_ASSERT(rec->py_bytes <= LIMIT_PY_CODE_BYTES);
	}
	CU_ASSERT(rec->py_bytes < 16 * len);
	CU_ASSERT_EQUAL(recorder__stats(rec).py_codes_gone, 0);
	close_recording();
	CU_ASSERT_EQUAL(got.cnt, LIMIT_PY_CODE_BYTES / len + 10);
	free(table);
}

/* A class, as far as its name is read. */
static void set_class(uint64_t words[8], const char *name)
{
	words[layout.off.type_name / 8] = (uint64_t)name;
}

static struct ptb_py_frame class_at(uint64_t words[8], int32_t module)
{
	struct py_code class;

	CU_ASSERT_EQUAL_FATAL(py_class__read(getpid(), &layout, (uint64_t)words, &class), 0);
	return (struct ptb_py_frame){ .code = (uint64_t)words | PTB_PY_CLASS,
				      .at = module,
				      .check = class.check };
}

/* A class is kept of nn.Module's calls only, and its name is that of the class which the walk saw. */
TEST("modules")
{
	static _Alignas(64) uint64_t words[8];
	static const char linear[] = "Linear", relu[] = "lib.ReLU";
	static struct code call, inner, foreign;
	struct ptb_py_frame class;

	open_recording();
	set_code(&call, "/x/torch/nn/modules/module.py", "Module._wrapped_call_impl", 5);
	set_code(&inner, "/x/torch/nn/modules/module.py", "_call_impl", 7);
	set_code(&foreign, "/x/module.py", "_wrapped_call_impl", 9);
	set_class(words, linear);
	class = class_at(words, 3);
	stack.frames[0] = stack.frames[2] = stack.frames[4] = stack.frames[6] = class;
	stack.frames[1] = frame_at(&foreign, 0);
	stack.frames[3] = frame_at(&inner, 0); /* called by the next one */
	stack.frames[5] = frame_at(&call, 0);
	stack.frames[7] = frame_at(&inner, 2);
	stack.frames[8] = frame_at(&codes[0], 0);
	stack.frames[9] = class; /* of no frame */
	send_stack(me, 10);
	set_class(words, relu);
	stack.frames[0] = class_at(words, 3);
	stack.frames[1] = frame_at(&call, 0);
	send_stack(me, 2);
	stack.frames[0] = class; /* there is another one now */
	stack.frames[0].at = 4;
	send_stack(me, 2);
	CU_ASSERT_EQUAL(recorder__stats(rec).py_classes_gone, 0);
	recorder__py_forget(rec, recorder__find_proc(rec, me));
	CU_ASSERT_EQUAL(recorder__python(rec, me, 0, &layout), 0);
	send_stack(me, 2);
	stack.frames[0].code = PTB_PY_CLASS; /* not read */
	send_stack(me, 2);
	CU_ASSERT_EQUAL(recorder__stats(rec).py_classes_gone, 2);
	CU_ASSERT_EQUAL(recorder__stats(rec).py_codes_gone, 0);
	close_recording();
	CU_ASSERT_EQUAL(got.defs, 5);
	CU_ASSERT_EQUAL(got.frames, 5 + 2 + 4 * 2);
	CU_ASSERT_EQUAL_FATAL(got.cnt, 11);
	assert_line(5, "Linear", "", 0, 0);
	assert_line(6, "ReLU", "", 0, 0);
	assert_line(7, "Linear", "", 0, 0);
	CU_ASSERT_EQUAL(got.lines[5].frame.code, class.code);
	CU_ASSERT_EQUAL(got.lines[7].frame.at, 4);
	CU_ASSERT_EQUAL(got.lines[9].func, 0);
	CU_ASSERT_EQUAL(got.lines[10].func, 0);
}

SUITE("recorder_python")
