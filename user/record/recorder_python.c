/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Resolves frames of Python stacks. The code objects of unknown frames are read from the process at
 * once, since Python may free them. A frame has a check value of its code object's contents.
 * Another object at the same address has another check value, so no frame gets a wrong name.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/mem.h"
#include "python/python.h"
#include "record/recorder_priv.h"

/* The parts of a code object that its lines need. */
struct known_code {
	uint32_t func, file; /* name ids */
	int32_t first;
	bool shim;                      /* not a function of the program */
	bool module_call, wrapped_call; /* nn.Module's _call_impl(), _wrapped_call_impl() */
	uint32_t table_len;
	uint8_t table[];
};

/* The code objects of one program. Processes that are forks of each other share them, because they
 * have the same objects at the same addresses. */
struct py_codes {
	uint32_t users;
	struct ptb_py_layout layout;
	struct hashmap codes; /* (address, check) -> struct known_code * */
};

/* including its entry in the map */
static uint64_t size_of(const struct known_code *k)
{
	return 2 * sizeof(struct hashmap_slot) + sizeof(*k) + k->table_len;
}

static void forget_codes(struct recorder *r, struct py_codes *py)
{
	struct hashmap_slot *s;
	uint64_t pos = 0;

	while ((s = hashmap__next(&py->codes, &pos))) {
		struct known_code *k = (struct known_code *)s->val;

		r->py_bytes -= size_of(k);
		free(k);
	}
	hashmap__clear(&py->codes);
}

static void forget_frames(struct recorder *r, struct recorder_proc *p)
{
	r->py_frames -= p->py_frames.live;
	hashmap__clear(&p->py_frames);
}

void recorder__py_forget(struct recorder *r, struct recorder_proc *p)
{
	forget_frames(r, p);
	recorder__modules_forget(p);
	if (p->py && !--p->py->users) {
		forget_codes(r, p->py);
		free(p->py);
	}
	p->py = NULL;
}

uint64_t recorder__interp(const struct recorder_proc *p)
{
	return p->py ? p->py->layout.interp : 0;
}

/* Afterwards all lines are read and written again. */
static void forget_all(struct recorder *r)
{
	for (uint32_t i = 0; i < r->proc_cnt; i++) {
		forget_frames(r, &r->procs[i]);
		if (r->procs[i].py)
			forget_codes(r, r->procs[i].py);
	}
}

int recorder__python(struct recorder *r, uint32_t tgid, uint32_t parent,
		     const struct ptb_py_layout *layout)
{
	struct recorder_proc *p = recorder__find_proc(r, tgid);
	struct recorder_proc *from = parent ? recorder__find_proc(r, parent) : NULL;

	if (!p)
		return -ESRCH;
	recorder__py_forget(r, p);
	if (from && from->py) {
		p->py = from->py;
	} else {
		p->py = xcalloc(1, sizeof(*p->py));
		p->py->layout = *layout;
	}
	p->py->users++;
	return 0;
}

static bool is_of_nn_module(const struct py_code *code, const char *name)
{
	static const char file[] = "/torch/nn/modules/module.py";
	const char *dot = strrchr(code->name, '.');
	size_t len = strlen(code->file);

	return !strcmp(dot ? dot + 1 : code->name, name) && len >= strlen(file) &&
	       !strcmp(code->file + len - strlen(file), file);
}

/* From malloc; NULL: --max-memory refuses it. */
static struct known_code *known_code__new(struct recorder *r, const struct recorder_proc *p,
					  const struct py_code *code)
{
	uint64_t bytes = sizeof(struct known_code) + code->table_len;
	struct known_code *k;

	if (!mem_limit__allows(bytes + hashmap__growth(&p->py->codes)))
		return NULL;
	k = xmalloc(bytes);
	/* From 3.13 on a call of a class may put a frame of a shim below that of __init__()
	 * (_Py_InitCleanup, cpython Python/specialize.c). Python's own tracebacks leave it out,
	 * too. */
	*k = (struct known_code){ .func = recorder__name(r, p->tgid, code->name),
				  .file = recorder__name(r, p->tgid, code->file),
				  .first = code->first,
				  .shim = !code->first && !strcmp(code->file, "__init__") &&
					  !strcmp(code->name, "__init__"),
				  .module_call = is_of_nn_module(code, "_call_impl"),
				  .wrapped_call = is_of_nn_module(code, "_wrapped_call_impl"),
				  .table_len = code->table_len };
	if (code->table_len)
		memcpy(k->table, code->table, code->table_len);
	r->over_names += code->cut;
	return k;
}

static struct known_code *read_code(struct recorder *r, const struct recorder_proc *p,
				    const struct ptb_py_frame *f)
{
	uint64_t addr = f->code & ~(uint64_t)PTB_PY_CLASS;
	struct known_code *k = NULL;
	struct py_code code;

	if (p->gone || !addr ||
	    (addr == f->code ? py_code__read : py_class__read)((pid_t)p->tgid, &p->py->layout, addr,
							       &code))
		return NULL;
	if (code.check == f->check)
		k = known_code__new(r, p, &code);
	py_code__clear(&code);
	return k;
}

/* Also tries processes that share the code objects, because the frame's process may have ended. */
static struct known_code *read_code_somewhere(struct recorder *r, const struct recorder_proc *p,
					      const struct ptb_py_frame *f)
{
	struct known_code *k = read_code(r, p, f);

	for (uint32_t i = 0; i < r->proc_cnt && !k; i++) {
		const struct recorder_proc *other = &r->procs[i];

		if (other != p && other->py == p->py && !other->gone && recorder__is_there(other))
			return read_code(r, other, f);
	}
	return k;
}

/* Returns false if the frame is known already. */
static bool remember_frame(struct recorder *r, struct recorder_proc *p,
			   const struct ptb_py_frame *f, bool shown)
{
	uint64_t position = (uint64_t)(uint32_t)f->at << 32 | f->check;
	bool known = hashmap__get(&p->py_frames, f->code, position);

	r->py_frames += hashmap__try_put(&p->py_frames, f->code, position, shown) && !known;
	return !known;
}

/* NULL: the code object is gone. Valid until the next call. */
static const struct known_code *find_code(struct recorder *r, struct recorder_proc *p,
					  const struct ptb_py_frame *f)
{
	const uint64_t *known = hashmap__get(&p->py->codes, f->code, f->check);
	struct known_code *k;

	if (known)
		return (const struct known_code *)*known;
	k = read_code_somewhere(r, p, f);
	if (!k) { /* counted once per code object */
		struct ptb_py_frame any = *f;

		any.at = INT32_MIN; /* no frame has this position */
		*(f->code & PTB_PY_CLASS ? &r->py_classes_gone : &r->py_codes_gone) +=
			remember_frame(r, p, &any, false);
		return NULL;
	}
	if (r->py_bytes + size_of(k) > LIMIT_PY_CODE_BYTES)
		forget_all(r);
	hashmap__put(&p->py->codes, f->code, f->check, (uint64_t)k);
	r->py_bytes += size_of(k);
	return k;
}

/* Writes the frame's PY_LINE. Returns false if the frame does not belong to the program. */
static bool resolve_frame(struct recorder *r, struct recorder_proc *p, const struct ptb_py_frame *f)
{
	const struct known_code *k = find_code(r, p, f);
	struct ptb_py_line rec = { .h.tgid = p->tgid, .frame = *f };
	int32_t line;

	if (k && k->shim)
		return false;
	if (k) {
		line = py_line__find(p->py->layout.off.lines, k->table, k->table_len, k->first,
				     f->at);
		rec.func = k->func;
		rec.file = k->file;
		rec.first = k->first;
		rec.line = line == PY_NO_LINE ? 0 : line;
	}
	if (k && f->code & PTB_PY_CLASS)
		recorder__module_line(r, p, &rec);
	recorder__put(r, PTB_REC_PY_LINE, &rec.h, sizeof(rec));
	return true;
}

static bool is_of_program(struct recorder *r, struct recorder_proc *p, struct ptb_py_frame f)
{
	uint64_t position = (uint64_t)(uint32_t)f.at << 32 | f.check;
	const uint64_t *known;
	bool shown;

	f.code &= ~(uint64_t)PTB_PY_NATIVE;
	known = hashmap__get(&p->py_frames, f.code, position);
	if (known)
		return *known;
	if (r->py_frames >= LIMIT_PY_FRAMES)
		forget_all(r);
	shown = resolve_frame(r, p, &f);
	remember_frame(r, p, &f, shown);
	return shown;
}

/* The code object of the function that a class frame precedes, or NULL. Valid until the next
 * call. */
static const struct known_code *function_of(struct recorder *r, struct recorder_proc *p,
					    const struct ptb_py_frame *f,
					    const struct ptb_py_frame *end)
{
	const uint64_t *k;

	if (f < end && f->code & PTB_PY_CLASS)
		f++;
	if (f >= end || f->code & PTB_PY_CLASS || !is_of_program(r, p, *f))
		return NULL;
	k = hashmap__get(&p->py->codes, f->code & ~(uint64_t)PTB_PY_NATIVE, f->check);
	return k ? (const struct known_code *)*k : NULL;
}

/* The walk in the kernel recognises nn.Module's functions only by their names, so their file is
 * checked here. */
static bool is_call(struct recorder *r, struct recorder_proc *p, const struct ptb_py_frame *class,
		    const struct ptb_py_frame *end)
{
	const struct known_code *k = function_of(r, p, class, end);
	bool wrapped = k && k->wrapped_call;

	if (!k || (!k->wrapped_call && !k->module_call))
		return false;
	k = wrapped ? NULL : function_of(r, p, class + 2, end);
	return !(k && k->wrapped_call);
}

/* What a stack that is cut has outermost may be in another module. */
static void find_root(struct recorder *r, struct recorder_proc *p,
		      const struct ptb_py_stack_def *def)
{
	const struct ptb_py_frame *frames = (const void *)(def + 1), *end = frames + def->frame_cnt;

	if (def->flags & (PTB_PY_CUT | PTB_PY_FAULT))
		return;
	for (uint32_t i = def->frame_cnt; i--;)
		if (frames[i].code & PTB_PY_CLASS && is_call(r, p, &frames[i], end)) {
			recorder__module_root(r, p, &frames[i]);
			return;
		}
}

int recorder__py_stack(struct recorder *r, struct ptb_py_stack_def *def)
{
	struct ptb_py_frame *frames = (void *)(def + 1);
	struct recorder_proc *p;
	uint32_t cnt = 0;

	if (def->h.len < sizeof(*def) || def->frame_cnt > PTB_PY_FRAMES_MAX ||
	    def->h.len < sizeof(*def) + def->frame_cnt * sizeof(*frames))
		return -EINVAL;
	p = recorder__find_proc(r, def->h.tgid);
	if (!p || !p->py) { /* a child that ended while its probes were placed */
		r->py_codes_gone += def->frame_cnt;
		return 0;
	}
	find_root(r, p, def);
	for (uint32_t i = 0; i < def->frame_cnt; i++)
		if ((!(frames[i].code & PTB_PY_CLASS) ||
		     is_call(r, p, &frames[i], frames + def->frame_cnt)) &&
		    is_of_program(r, p, frames[i]))
			frames[cnt++] = frames[i];
	def->frame_cnt = cnt;
	def->h.len = (uint16_t)(sizeof(*def) + cnt * sizeof(*frames));
	return 0;
}
