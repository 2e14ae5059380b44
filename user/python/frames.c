/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See python.h. Structures: cpython Include/internal/pycore_frame.h, Include/cpython/code.h (paths
 * by version: schemas/python). */
#include "python/python.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "target/proc.h"

#define PY_READ(reader, dst, len, addr) remote__read(*(const pid_t *)(reader), addr, dst, len)
#include "py_check.h"

#define CODE_BYTES_MAX (1 << 28) /* of one code object's instructions */
#define NATIVE_MAX 512           /* native frames of a thread that are passed over */

/* ---- frames ---- */

/* Bytes into the bytecode of `code`. */
static int read_position(pid_t pid, const struct ptb_py_layout *l, uint64_t frame, uint64_t code,
			 int32_t *at)
{
	uint64_t instr = 0;
	int64_t pos;
	int err = remote__read(pid, frame + l->off.frame_instr, &instr,
			       l->off.lines == PTB_PY_LOCATIONS ? 8 : 4);

	if (err)
		return err;
	if (l->off.lines == PTB_PY_LOCATIONS)
		pos = (int64_t)(instr - (code + l->off.code_start));
	else
		pos = (int64_t)(int32_t)instr * (l->off.lines == PTB_PY_RANGES ? 2 : 1);
	if (pos < -2 || pos > CODE_BYTES_MAX)
		return -EINVAL;
	*at = (int32_t)pos;
	return 0;
}

static int read_frame(pid_t pid, const struct ptb_py_layout *l, uint64_t frame,
		      struct py_live_frame *f, uint64_t *previous)
{
	uint8_t owner = 0;
	int err = remote__read(pid, frame + l->off.frame_previous, previous, sizeof(*previous));

	memset(f, 0, sizeof(*f));
	if (!err && l->off.frame_owner != PTB_PY_NONE)
		err = remote__read(pid, frame + l->off.frame_owner, &owner, sizeof(owner));
	if (err || owner >= l->off.frame_native) {
		f->native = !err;
		return err;
	}
	err = remote__read(pid, frame + l->off.frame_code, &f->code, sizeof(f->code));
	f->code &= ~(uint64_t)l->off.frame_tags;
	return err ? err : read_position(pid, l, frame, f->code, &f->at);
}

static int first_frame(pid_t pid, const struct ptb_py_layout *l, uint64_t tstate, uint64_t *frame)
{
	int err = 0;

	if (l->off.tstate_cframe != PTB_PY_NONE)
		err = remote__read(pid, tstate + l->off.tstate_cframe, &tstate, sizeof(tstate));
	return err ? err : remote__read(pid, tstate + l->off.tstate_frame, frame, sizeof(*frame));
}

int py_frames__walk(pid_t pid, const struct ptb_py_layout *l, uint64_t tstate,
		    struct py_live_frame *out, uint32_t max)
{
	uint32_t n = 0, native = 0;
	uint64_t frame, next;
	struct py_live_frame f;
	int err = first_frame(pid, l, tstate, &frame);

	for (; !err && frame && n < max && native < NATIVE_MAX; frame = next) {
		err = frame & 7 ? -EINVAL : read_frame(pid, l, frame, &f, &next);
		if (err)
			break;
		if (!f.native) {
			out[n++] = f;
		} else {
			native++;
			if (n)
				out[n - 1].native = true;
		}
	}
	return err ? err : (int)n;
}

/* ---- code objects ---- */

/* Not longer than PY_TEXT_MAX with its end, see py_str__parse(). */
static int read_str(pid_t pid, const struct ptb_py_offsets *off, uint64_t addr, char *buf,
		    bool *cut)
{
	uint8_t bytes[PY_TEXT_MAX];
	struct py_str s;
	uint64_t length;
	uint32_t state;
	bool is_cut;
	int err = addr & 7 ? -EINVAL :
			     remote__read(pid, addr + off->str_state, &state, sizeof(state));

	if (!err)
		err = remote__read(pid, addr + off->str_length, &length, sizeof(length));
	if (!err && !py_str__parse(off, state, length, &s))
		err = -EINVAL;
	if (!err)
		err = remote__read(pid, addr + s.data, bytes, s.size);
	if (err)
		return err;
	py_str__to_utf8(&s, bytes, buf, PY_TEXT_MAX, &is_cut);
	*cut |= is_cut;
	return 0;
}

static int read_table(pid_t pid, const struct ptb_py_offsets *off, uint64_t addr,
		      struct py_code *code)
{
	uint64_t size;
	int err = addr & 7 ? -EINVAL :
			     remote__read(pid, addr + off->bytes_size, &size, sizeof(size));

	if (err || size > PTRDIFF_MAX)
		return err ? err : -EINVAL;
	if (size > PY_LINE_TABLE_MAX) {
		code->cut = true;
		size = PY_LINE_TABLE_MAX;
	}
	code->table = xmalloc(size + 1);
	code->table_len = (uint32_t)size;
	err = remote__read(pid, addr + off->bytes_data, code->table, size);
	if (err)
		py_code__clear(code);
	return err;
}

static uint64_t field(const uint8_t *object, uint16_t off)
{
	uint64_t v;

	memcpy(&v, object + off, sizeof(v)); /* py_layout__fill() bounds all offsets */
	return v;
}

/* 0; -EINVAL: it is no code object, or cannot be read. */
static int compute_check(pid_t pid, const struct ptb_py_layout *l, uint64_t addr, uint32_t *check)
{
	struct py_check_mem m;

	return ptb_py_fits(&l->off) && py_check(&pid, &m, l, addr, check) ? 0 : -EINVAL;
}

static int read_parts(pid_t pid, const struct ptb_py_layout *l, uint64_t addr, struct py_code *out)
{
	uint16_t name = l->off.code_qualname != PTB_PY_NONE ? l->off.code_qualname :
							      l->off.code_name;
	uint8_t object[PY_OBJECT_OFF_MAX + 8] = { 0 };
	ssize_t n = remote__read_some(pid, addr, object, sizeof(object));
	int err;

	if (n < 0)
		return (int)n;
	out->first = (int32_t)field(object, l->off.code_firstlineno);
	if (out->first < 0)
		return -EINVAL;
	err = read_str(pid, &l->off, field(object, l->off.code_filename), out->file, &out->cut);
	if (!err)
		err = read_str(pid, &l->off, field(object, name), out->name, &out->cut);
	return err ? err : read_table(pid, &l->off, field(object, l->off.code_linetable), out);
}

int py_code__read(pid_t pid, const struct ptb_py_layout *l, uint64_t addr, struct py_code *out)
{
	uint32_t after;
	int err;

	memset(out, 0, sizeof(*out));
	err = compute_check(pid, l, addr, &out->check);
	if (!err)
		err = read_parts(pid, l, addr, out);
	if (err)
		return err;
	err = compute_check(pid, l, addr, &after);
	if (!err && after != out->check)
		err = -EINVAL; /* it was freed meanwhile, and another one is there */
	if (err)
		py_code__clear(out);
	return err;
}

int py_class__read(pid_t pid, const struct ptb_py_layout *l, uint64_t addr, struct py_code *out)
{
	struct py_check_mem m;
	const char *name = (const char *)(m.text + 3), *dot;
	size_t len;

	memset(out, 0, sizeof(*out));
	out->check = py_check_class(&pid, &m, &l->off, addr);
	len = strnlen(name, PY_CLASS_NAME);
	dot = memrchr(name, '.', len); /* a class of a C library has its module before it */
	if (!out->check || !len)
		return -EINVAL;
	out->cut = len == PY_CLASS_NAME;
	snprintf(out->name, sizeof(out->name), "%.*s",
		 (int)(len - (dot ? (size_t)(dot + 1 - name) : 0)), dot ? dot + 1 : name);
	return 0;
}

void py_code__clear(struct py_code *code)
{
	free(code->table);
	code->table = NULL;
	code->table_len = 0;
}

int32_t py_code__line(const struct py_code *code, const struct ptb_py_layout *l, int32_t at)
{
	return py_line__find(l->off.lines, code->table, code->table_len, code->first, at);
}
