/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The bounded interpreter of argument programs: the same C for the kernel and for tests on the
 * host. It makes one value a step, from an instruction of the program or from an element of a list
 * under way, so lists in lists need no recursion. It writes only to its scratch area, reads only
 * with ARG_READ, and never writes a value that it could not read whole: that is UNKNOWN, or a list
 * cut and marked.
 *
 * The agent has an implementation of its own for stacks of IValues (cupti_agent/values.c), for
 * speed: in a process this one takes two to three times as long per operator. It pays for what the
 * verifier asks: one value a step through a cell in memory, copies of objects instead of pointers
 * into them. unit_agent_values holds both to the same bytes over random objects, and what they
 * share without cost is in arg_rules.h.
 */
#ifndef PTB_ARG_INTERP_H
#define PTB_ARG_INTERP_H

#include "arg_ops.h"
#include "arg_put.h"
#include "arg_python.h"

/* ---- lists ---- */

/* Pointers of a list of tensors, all at once. */
ARG_FN bool read_ptrs(struct arg_scratch *s, __u32 cnt)
{
	if (cnt > PTB_LIST_FULL_MAX)
		return false;
	ARG_PIN(cnt);
	if (cnt > PTB_LIST_FULL_MAX)
		return false;
	return !cnt || !ARG_READ(s->ptrs, 8 * cnt, s->cell.a);
}

ARG_FN bool put_list(struct arg_scratch *s)
{
	__u8 elem = s->cell.elem, kind = s->cell.kind;
	__u32 cnt = list_present(s, s->cell.b), level = s->level + 1, hdr = s->pos;
	struct arg_frame *f;

	if (!arg_room(s, 8))
		return false;
	if ((elem == ARG_E_TENSOR || elem == ARG_E_REF) && !read_ptrs(s, cnt))
		return put_unknown(s);
	if (level > PTB_NEST_MAX) {
		if (cnt) {
			s->cell.flags |= PTB_VAL_F_CUT;
			ARG_COUNT(PTB_CNT_ARGS_CUT);
		}
		put_head(s, hdr, kind ? kind : PTB_VAL_LIST, s->cell.flags, 0, s->cell.n);
		s->pos += 8;
		return true;
	}
	put_head(s, hdr, kind ? kind : PTB_VAL_LIST, s->cell.flags, 0, s->cell.n);
	s->pos += 8;
	f = &s->frames[level];
	f->base = s->cell.a;
	f->idx = 0;
	f->cnt = cnt;
	f->hdr = hdr;
	f->elem = elem;
	f->kind = kind;
	f->bare = 0;
	s->level = level;
	return true;
}

/* The end of the innermost list; cut: before its last element. */
ARG_FN void list_end(struct arg_scratch *s, const struct arg_frame *f, bool cut)
{
	struct ptb_val *v = arg_at(s, f->hdr);

	v->aux = (__u16)f->idx;
	if ((cut || v->n > f->idx) && !(v->flags & PTB_VAL_F_CUT)) {
		v->flags |= PTB_VAL_F_CUT;
		ARG_COUNT(PTB_CNT_ARGS_CUT);
	}
	s->level--;
}

/* The cell is an element of a list whose kind follows from its elements. */
ARG_FN void list_element(struct arg_scratch *s, struct arg_frame *f)
{
	struct ptb_val *v = arg_at(s, f->hdr);
	__u8 want = arg_list_kind(s->cell.kind), was = f->kind;

	f->kind = v->kind = arg_list_mixed(was, want);
	if (arg_is_packed(f->kind)) {
		if (s->cell.kind == PTB_VAL_BOOL)
			s->cell.a = s->cell.n;
		s->cell.what = ARG_C_PACKED;
	} else if (arg_is_packed(was)) { /* begins again */
		f->idx = ~0u;            /* and one step on: 0 */
		s->pos = f->hdr + 8;
		s->cell.what = ARG_C_SKIP;
	}
}

ARG_FN bool put_packed(struct arg_scratch *s, const struct arg_frame *f)
{
	__u64 *w;

	if (f->kind != PTB_VAL_BOOLS || !(f->idx & 7)) {
		if (!arg_room(s, 8))
			return false;
		w = arg_at(s, s->pos);
		*w = s->cell.a;
		s->pos += 8;
	} else {
		w = arg_at(s, s->pos - 8);
		*w |= s->cell.a << (8 * (f->idx & 7));
	}
	return true;
}

/* ---- steps ---- */

/* False: the element cannot be read, and nothing after it. */
ARG_FN bool fetch_object(struct arg_run *r, struct arg_frame *f)
{
	struct arg_scratch *s = r->s;
	__u32 size = f->elem == ARG_E_IVALUE ? 16 :
		     f->elem == ARG_E_PYTHON ? 8 :
		     f->elem == ARG_E_VECTOR ? ARG_VECTOR_BYTES :
					       ARG_SCALAR_BYTES;

	if (ARG_READ(s->tmp, size, f->base + (__u64)size * f->idx)) {
		cell_fault(s);
		return false;
	}
	if (f->elem == ARG_E_IVALUE)
		ivalue_cell(s, r->cfg, s->tmp[0], (__u32)s->tmp[1]);
	else if (f->elem == ARG_E_PYTHON)
		py_cell(s, &r->cfg->python, s->tmp[0]);
	else if (f->elem == ARG_E_VECTOR)
		cell_vector(s, PTB_VAL_TENSORS, ARG_E_TENSOR, s->tmp, 3);
	else
		scalar_cell(s, &r->cfg->tensor, s->tmp);
	return true;
}

/* Of the values that are no operator's, torch records some only. */
ARG_FN void bare_element(struct arg_scratch *s)
{
	if (s->frames[0].elem == ARG_E_PYTHON)
		py_only_recorded(s);
	else if (s->cell.kind == PTB_VAL_NONE) /* optional arguments of an annotation */
		s->cell.what = ARG_C_SKIP;
}

/* The next cell, from frame f. */
ARG_FN void fetch(struct arg_run *r, struct arg_frame *f)
{
	struct arg_scratch *s = r->s;
	__u64 ptr;

	switch (f->elem) {
	case ARG_E_OPS: {
		__u32 i = (__u32)f->base + f->idx;

		if (i < PTB_ARG_OPS_MAX)
			op_cell(s, &r->prog->ops[i], r->cfg);
		break;
	}
	case ARG_E_TENSOR:
		cell_tensor(s, s->ptrs[f->idx & (PTB_LIST_FULL_MAX - 1)]);
		break;
	case ARG_E_REF:
		if (ARG_READ(&ptr, 8, s->ptrs[f->idx & (PTB_LIST_FULL_MAX - 1)]))
			cell_fault(s);
		else
			cell_tensor(s, ptr);
		break;
	default:
		if (!fetch_object(r, f)) {
			s->cut |= !s->level && f->cnt > f->idx + 1;
			f->cnt = f->idx + 1;
		}
		if (s->frames[0].bare)
			bare_element(s);
		if (s->level && s->cell.what != ARG_C_SKIP)
			list_element(s, f);
	}
}

/* Writes the cell; false: no room. Of the position, only put_*() that succeed move it. */
ARG_FN bool store(struct arg_run *r, const struct arg_frame *f)
{
	struct arg_scratch *s = r->s;

	switch (s->cell.what) {
	case ARG_C_HEAD:
		return put_small(s, 0);
	case ARG_C_WORD:
		return put_small(s, 1);
	case ARG_C_PAIR:
		return put_small(s, 2);
	case ARG_C_TENSOR:
		return put_tensor(s, &r->cfg->tensor);
	case ARG_C_MEM:
		return put_mem(s);
	case ARG_C_TEXT:
		return put_text(s);
	case ARG_C_LIST:
		return put_list(s);
	case ARG_C_PACKED:
		return put_packed(s, f);
	default:
		return true;
	}
}

/* One value, or the end of a list. 1: done. */
static long arg_step(__u32 nr, void *ctx)
{
	struct arg_run *r = ctx;
	struct arg_scratch *s = r->s;
	__u32 level = s->level;
	struct arg_frame *f;

	(void)nr;
	if (level > PTB_NEST_MAX)
		return 1;
	ARG_PIN(level);
	f = &s->frames[level & 3];
	if (f->idx >= f->cnt) {
		if (!level)
			return 1;
		list_end(s, f, false);
		return 0;
	}
	fetch(r, f);
	if (store(r, f)) {
		f->idx++;
	} else if (level) {
		list_end(s, f, true);
	} else {
		s->cut = 1;
		return 1;
	}
	return 0;
}
_Static_assert(PTB_NEST_MAX == 3, "levels are masked with 3");

/* Lists that the limit on steps left open end where they are. */
ARG_FN void close_lists(struct arg_scratch *s)
{
	for (__u32 i = 0; i < PTB_NEST_MAX && s->level; i++) {
		struct arg_frame *f = &s->frames[s->level & 3];

		list_end(s, f, true);
		s->cut = 1;
	}
}

/* ---- entry points ---- */

/* An empty payload from position pos (a multiple of 8) on. */
ARG_FN void args_begin(struct arg_scratch *s, __u32 pos, bool full)
{
	s->pos = pos;
	s->limit = pos + PTB_ARGS_BYTES_MAX;
	s->level = 0;
	s->list_max = full ? PTB_LIST_FULL_MAX : PTB_LIST_SHAPES_MAX;
	s->full = full;
	s->cut = 0;
	s->near = 0;
	s->near_state = ARG_NEAR_UNREAD;
}

ARG_FN void args_frame(struct arg_scratch *s, __u8 elem, __u64 base, __u32 cnt)
{
	struct arg_frame *f = &s->frames[0];

	s->level = 0;
	f->base = base;
	f->idx = 0;
	f->cnt = cnt;
	f->elem = elem;
	f->kind = 0;
	f->bare = 0;
}

ARG_FN void args_steps(struct arg_run *r)
{
#ifdef __bpf__
	bpf_loop(ARG_STEPS_MAX, arg_step, r, 0);
#else
	__u32 i;

	for (i = 0; i < ARG_STEPS_MAX && !arg_step(i, r); i++)
		;
#endif
	if (r->s->level)
		close_lists(r->s);
}

/* Instructions [first, first + cnt) of the program. */
ARG_FN void args_ops(struct arg_run *r, __u32 first, __u32 cnt)
{
	args_frame(r->s, ARG_E_OPS, first, cnt);
	args_steps(r);
}

/* The last cnt IValues of a stack, a std::vector at addr, each a value. bare: None is no value. */
ARG_FN void args_stack(struct arg_run *r, __u64 addr, __u64 cnt, bool bare)
{
	struct arg_scratch *s = r->s;
	const __u64 *vec = s->tmp;

	if (ARG_READ(s->tmp, 16, addr) || vec[1] < vec[0] || cnt > PTB_LIST_FULL_MAX ||
	    (vec[1] - vec[0]) / 16 < cnt) {
		s->cut = 1;
		ARG_COUNT(PTB_CNT_ARGS_FAULT);
		return;
	}
	args_frame(s, ARG_E_IVALUE, vec[1] - 16 * cnt, (__u32)cnt);
	s->frames[0].bare = bare;
	args_steps(r);
}

/* The tensors of a std::vector<Tensor> at addr, each a value. */
ARG_FN void args_tensors(struct arg_run *r, __u64 addr)
{
	struct arg_scratch *s = r->s;
	const __u64 *vec = s->tmp;
	__u64 cnt;

	if (ARG_READ(s->tmp, 16, addr) || vec[1] < vec[0]) {
		s->cut = 1;
		ARG_COUNT(PTB_CNT_ARGS_FAULT);
		return;
	}
	cnt = (vec[1] - vec[0]) / 8;
	if (cnt > PTB_LIST_FULL_MAX) {
		cnt = PTB_LIST_FULL_MAX;
		s->cut = 1;
	}
	s->cell.a = vec[0];
	if (!read_ptrs(s, (__u32)cnt)) {
		s->cut = 1;
		ARG_COUNT(PTB_CNT_ARGS_FAULT);
		return;
	}
	args_frame(s, ARG_E_TENSOR, 0, (__u32)cnt);
	args_steps(r);
}

/* The items of a Python tuple, each a value. bare: of a custom function. */
ARG_FN void args_tuple(struct arg_run *r, __u64 tuple, bool bare)
{
	struct arg_scratch *s = r->s;

	if (!r->cfg->python.type_tuple || ARG_READ(s->tmp, PY_HEAD_SZ, tuple) ||
	    s->tmp[PY_TYPE_WORD] != r->cfg->python.type_tuple) {
		s->cut = 1;
		ARG_COUNT(PTB_CNT_ARGS_FAULT);
		return;
	}
	s->cut = s->tmp[PY_VALUE_WORD] > PTB_LIST_FULL_MAX;
	args_frame(s, ARG_E_PYTHON, tuple + r->cfg->python.tuple_items_off,
		   s->cut ? PTB_LIST_FULL_MAX : (__u32)s->tmp[PY_VALUE_WORD]);
	s->frames[0].bare = bare;
	args_steps(r);
}

/* A std::optional<std::string> at addr: a value, or none. */
ARG_FN void args_opt_string(struct arg_run *r, __u64 addr)
{
	struct arg_scratch *s = r->s;
	__u32 size = r->cfg->old_string_abi ? 8 : 32;
	bool first = r->cfg->tensor.device_has_first; /* c10::optional; std's has its flag last */
	__u8 has = 0;

	if (ARG_READ(&has, 1, addr + (first ? 0 : size))) {
		s->cut = 1;
		ARG_COUNT(PTB_CNT_ARGS_FAULT);
		return;
	}
	if (!has)
		return;
	string_cell(s, r->cfg, addr + (first ? 8 : 0));
	if (s->cell.what == ARG_C_TEXT)
		put_text(s);
	else
		put_small(s, 0);
}

/* The thread's state, PTB_VAL_STATE; first of all values. */
ARG_FN void args_state(struct arg_scratch *s, __u32 mode, bool fault, __u64 seq, const __u64 *keys)
{
	__u64 *body = arg_at(s, s->pos);

	put_head(s, s->pos, PTB_VAL_STATE, fault ? PTB_VAL_F_FAULT : 0, 0, mode);
	body[1] = seq;
	body[2] = keys[0];
	body[3] = keys[1];
	s->pos += 32;
}

#endif /* PTB_ARG_INTERP_H */
