/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The check value of a code object: the same C for BPF, which computes it for every frame, and for
 * user space, which computes it again when it reads the code object. Equal values: it is the same
 * object, not another one that was made at the same address after that one had ended.
 *
 * It is made of words that do not change as long as the object lives. From 3.12 on co_version,
 * which no other code object of the interpreter has, is one of them. Before, a code object that is
 * made again and again (exec() in a loop) may have the same pointers each time, to texts at the
 * same addresses, so their bytes are part of it. Not the hashes that the interpreter keeps in them:
 * these are computed at any time.
 *
 * User space defines PY_READ(reader, dst, len, addr) before it includes this file: 0, or it could
 * not be read.
 */
#ifndef PTB_PY_CHECK_H
#define PTB_PY_CHECK_H

#include "ptb_python.h"

#ifdef __bpf__
#define PY_FN static __always_inline
/* reader: the task to whom the memory belongs; NULL: the current one, which must not wait for its
 * pages */
#define PY_READ(reader, dst, len, addr)                                                            \
	((reader) ? bpf_copy_from_user_task(dst, len, (void *)(addr), reader, 0) :                 \
		    bpf_probe_read_user(dst, len, (void *)(addr)))
typedef struct task_struct *py_reader;
#define PY_PIN(v)                                                                                  \
	barrier_var(v) /* keeps a bound that was just checked on the register that is used */
#else
#define PY_FN static inline
typedef const void *py_reader;
#define PY_PIN(v) ((void)0)
#endif

#define PY_TEXT_PART 256u /* bytes at the begin of a text, and as many at its end */

struct py_check_mem {
	__u64 code[32];
	__u64 text[3 + PY_TEXT_PART / 8]; /* what is before a text, and of it */
};

/* Odd and random. */
#define PY_KEY_LENGTH 0xd1b54a32d192ed03ULL
#define PY_KEY_TEXT 0x9e3779b97f4a7c15ULL
static const __u64 py_keys[PTB_PY_CHECK_WORDS] = {
	0xbf58476d1ce4e5b9ULL, 0x94d049bb133111ebULL, 0xff51afd7ed558ccdULL, 0xc4ceb9fe1a85ec53ULL,
	0x87c37b91114253d5ULL, 0x4cf5ad432745937fULL, 0x52dce729da3ed7c7ULL, 0x38495ab5d9f2bb65ULL,
	0xa0761d6478bd642fULL, 0xe7037ed1a0b428dbULL, 0x8ebc6af09c88c6e3ULL,
};

PY_FN __u64 py_mix(__u64 hash, __u64 word)
{
	hash = (hash ^ word) * PY_KEY_TEXT;
	return hash ^ hash >> 32;
}

/* Up to PY_TEXT_PART bytes at addr. */
PY_FN bool py_mix_bytes(py_reader rd, struct py_check_mem *m, __u64 addr, __u64 size, __u64 *hash)
{
	__u64 *part = m->text + 3;

	if (size > PY_TEXT_PART)
		size = PY_TEXT_PART;
	PY_PIN(size);
	if (!size || size > PY_TEXT_PART)
		return true;
	part[(size - 1) / 8 & (PY_TEXT_PART / 8 - 1)] = 0;
	if (PY_READ(rd, part, size, addr))
		return false;
	for (__u32 i = 0; i < PY_TEXT_PART / 8 && 8 * i < size; i++)
		*hash = py_mix(*hash, part[i]);
	return true;
}

/* str.state: see user/python/text.c */
#define PY_STATE_KIND(state) ((state) >> 2 & 7)
#define PY_STATE_ASCII 0x40u

/* The contents of a str, or of bytes. */
PY_FN bool py_mix_text(py_reader rd, struct py_check_mem *m, const struct ptb_py_offsets *off,
		       __u64 addr, bool is_str, __u64 *hash)
{
	__u64 size, data = addr + off->bytes_data;
	__u32 state;

	if (addr & 7 || PY_READ(rd, m->text, 24, addr + off->str_length))
		return false;
	size = m->text[0];
	*hash = py_mix(*hash, size * PY_KEY_LENGTH);
	if (is_str) {
		state = (__u32)m->text[2]; /* ptb_py_fits() */
		data = addr + (state & PY_STATE_ASCII ? off->str_ascii : off->str_compact);
		size *= PY_STATE_KIND(state);
	}
	if (!py_mix_bytes(rd, m, data, size, hash))
		return false;
	return size <= PY_TEXT_PART ||
	       py_mix_bytes(rd, m, data + size - PY_TEXT_PART, PY_TEXT_PART, hash);
}

PY_FN __u64 py_code_word(const struct py_check_mem *m, const struct ptb_py_offsets *off,
			 __u16 field)
{
	return m->code[(__u32)(field - off->type) / 8 & 31];
}

#ifndef __bpf__
/*
 * Does somebody hold the object? A frame does; but who reads it later may find one that was freed,
 * with all its words but the first, which is then 0 or a pointer. The upper half of a count is 0,
 * but for flags in its upper half (3.14).
 */
static inline bool py_is_held(py_reader rd, __u64 object)
{
	__u64 refs;

	return !PY_READ(rd, &refs, 8, object) && (__u32)refs && !(refs >> 32 & 0xffff);
}
#endif

/*
 * How torch calls a module: nn.Module.__call__() is _wrapped_call_impl(), which calls _call_impl();
 * up to torch 2.0 it is _call_impl() itself (torch/nn/modules/module.py).
 */
enum py_module_call { PY_NO_CALL, PY_WRAPPED_CALL, PY_CALL };
#define PY_TEXT_WRAPPED 0x646570706172775fULL /* "_wrapped" */
#define PY_TEXT_CALL_IM 0x6d695f6c6c61635fULL /* "_call_im" */
#define PY_TEXT_PL 0x6c70ULL                  /* "pl" */

/* Of the code object that py_check() read, by its name. */
PY_FN enum py_module_call py_module_call(py_reader rd, struct py_check_mem *m,
					 const struct ptb_py_offsets *off)
{
	__u64 *text = m->text + 3, name = py_code_word(m, off, off->code_name), size;

	if (name & 7 || PY_READ(rd, m->text, 24, name + off->str_length))
		return PY_NO_CALL;
	size = m->text[0];
	if ((size != 10 && size != 18) || !(m->text[2] & PY_STATE_ASCII))
		return PY_NO_CALL;
	text[1] = text[2] = 0;
	if (PY_READ(rd, text, size == 10 ? 10 : 18, name + off->str_ascii))
		return PY_NO_CALL;
	if (size == 10)
		return text[0] == PY_TEXT_CALL_IM && text[1] == PY_TEXT_PL ? PY_CALL : PY_NO_CALL;
	return text[0] == PY_TEXT_WRAPPED && text[1] == PY_TEXT_CALL_IM && text[2] == PY_TEXT_PL ?
		       PY_WRAPPED_CALL :
		       PY_NO_CALL;
}

/* Where the lowest byte of a word that is 0 has its upper bit; 0: no byte is 0. */
PY_FN __u64 py_nul(__u64 word)
{
	__u64 nul = (word - 0x0101010101010101ULL) & ~word & 0x8080808080808080ULL;

	return nul & -nul;
}

#define PY_CLASS_NAME 128u /* bytes of it */
#define PY_PAGE 4096u

/* Reads the name's first bytes into m->text + 3. The page after its end may not be there. */
PY_FN bool py_read_class_name(py_reader rd, struct py_check_mem *m, __u64 name)
{
	__u64 *text = m->text + 3, nul = 0;
	__u32 size = PY_PAGE - (name & (PY_PAGE - 1)), i;

	for (i = 0; i < PY_CLASS_NAME / 8; i++)
		text[i] = ~0ULL;
	if (size > PY_CLASS_NAME)
		size = PY_CLASS_NAME;
	PY_PIN(size);
	if (!size || size > PY_CLASS_NAME || PY_READ(rd, text, size, name))
		return false;
	for (i = 0; i < PY_CLASS_NAME / 8; i++)
		nul |= py_nul(text[i]);
	if (nul || size == PY_CLASS_NAME)
		return true;
	i = PY_CLASS_NAME - size;
	PY_PIN(i);
	return i && i < PY_CLASS_NAME && !PY_READ(rd, (__u8 *)text + size, i, name + size);
}

/*
 * The check value of a class: of its name as tp_name has it, so that another class at the same
 * address has another value or the same name. The name is in m->text + 3. 0: it cannot be read.
 */
PY_FN __u32 py_check_class(py_reader rd, struct py_check_mem *m, const struct ptb_py_offsets *off,
			   __u64 type)
{
	__u64 *text = m->text + 3, hash = 0, nul;

	if (PY_READ(rd, m->text + 2, 8, type + off->type_name) ||
	    !py_read_class_name(rd, m, m->text[2]))
		return 0;
	for (__u32 i = 0; i < PY_CLASS_NAME / 8; i++) {
		nul = py_nul(text[i]);
		if (nul) /* only what is before it */
			text[i] &= (nul >> 7) - 1;
		hash = py_mix(hash, text[i]);
		if (nul)
			break;
	}
	return (__u32)(hash >> 32) | 1;
}

/* False: it cannot be read, or is no code object. */
PY_FN bool py_check(py_reader rd, struct py_check_mem *m, const struct ptb_py_layout *l, __u64 code,
		    __u32 *check)
{
	const struct ptb_py_offsets *off = &l->off;
	__u32 first = (__u32)(off->code_linetable - off->type) / 8 - (PTB_PY_CHECK_WORDS - 1);
	const __u64 *w = m->code + (first & 7);
	__u64 hash = 0;

	if (code & 7 || PY_READ(rd, m->code, 8 * PTB_PY_CODE_WORDS, code + off->type) ||
	    m->code[0] != l->code_type)
		return false;
	for (__u32 i = 0; i < PTB_PY_CHECK_WORDS; i++)
		hash += w[i] * py_keys[i];
	if (l->version < PTB_PY_NUMBERED) {
		__u16 name = off->code_qualname != PTB_PY_NONE ? off->code_qualname :
								 off->code_name;

		if (!py_mix_text(rd, m, off, py_code_word(m, off, off->code_filename), true,
				 &hash) ||
		    !py_mix_text(rd, m, off, py_code_word(m, off, name), true, &hash) ||
		    !py_mix_text(rd, m, off, py_code_word(m, off, off->code_linetable), false,
				 &hash))
			return false;
	}
	*check = (__u32)(hash >> 32);
#ifndef __bpf__
	return py_is_held(rd, code);
#else
	return true;
#endif
}

#endif /* PTB_PY_CHECK_H */
