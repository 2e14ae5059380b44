/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * _PyRuntime is a section of its own from 3.13 on (cpython Include/internal/pycore_runtime.h,
 * GENERATE_DEBUG_SECTION; most builds of 3.11 and 3.12 have it, too), and a symbol in all versions.
 *
 * Where a thread keeps its thread state is read from the code of PyGILState_GetThisThreadState()
 * (Python/pystate.c): up to 3.14 it passes autoTSSkey to pthread_getspecific(), by value or by
 * address; from 3.15 on it loads the thread-local variable _Py_tss_gilstate, in a library with the
 * help of __tls_get_addr().
 */
#include "python/python_priv.h"

#include <ctype.h>
#include <string.h>

#include "code/arch.h"
#include "python/python.h"
#include "target/elf.h"

#define CODE_MAX 256 /* bytes of the function that are decoded */
/* Py_tss_t: {int is_initialized, pthread_key_t key} (Include/internal/pycore_pythread.h) */
#define KEY_OFF 4

/* ---- symbols ---- */

struct py_symbols {
	uint64_t runtime, runtime_size, code_type, gilstate, version;
};

static bool match_py_symbol(const struct elf_sym *sym, void *arg)
{
	struct py_symbols *s = arg;

	if (!sym->defined || !sym->addr)
		return true;
	if (!strcmp(sym->name, "_PyRuntime")) {
		s->runtime = sym->addr;
		s->runtime_size = sym->size;
	} else if (!strcmp(sym->name, "PyCode_Type")) {
		s->code_type = sym->addr;
	} else if (!strcmp(sym->name, "PyGILState_GetThisThreadState")) {
		s->gilstate = sym->addr;
	} else if (!strcmp(sym->name, "Py_Version")) {
		s->version = sym->addr;
	}
	return true;
}

/* ---- the version ---- */

/* "cpython-310", the tag in the names of cached files (Python/sysmodule.c); the minor version, 0:
 * not there. */
static uint32_t find_tag(const uint8_t *p, uint64_t len)
{
	static const char tag[] = "cpython-3";
	const uint8_t *end = p + len, *hit;
	uint32_t minor;

	while ((hit = memmem(p, (size_t)(end - p), tag, sizeof(tag) - 1))) {
		minor = 0;
		for (p = hit + sizeof(tag) - 1; p < end && isdigit(*p) && minor < 100; p++)
			minor = minor * 10 + (uint32_t)(*p - '0');
		if (p < end && !*p && minor)
			return minor;
	}
	return 0;
}

static uint64_t find_version(const struct elf_file *ef, uint64_t symbol)
{
	const uint8_t *p = symbol ? elf_file__bytes(ef, symbol, 8, NULL) : NULL;
	uint64_t addr, len, version;
	uint32_t minor;
	bool exec;

	if (p) {
		memcpy(&version, p, sizeof(version));
		return version;
	}
	for (uint32_t i = 0; elf_file__segment(ef, i, &addr, &len, &exec); i++) {
		p = elf_file__bytes(ef, addr, len, NULL);
		minor = p ? find_tag(p, len) : 0;
		if (minor)
			return PY_VERSION_OF(minor);
	}
	return 0;
}

/* ---- the code ---- */

struct state_search {
	const struct py_symbols *syms;
	struct py_file_facts *facts;
	const struct elf_file *ef;
	uint64_t pair; /* the address that the first argument's register was given last */
	/* the fixed address from which a register was loaded last: a slot of the GOT */
	uint64_t loaded[REG_CNT];
};

static void note_key(struct state_search *s, uint64_t addr)
{
	if (addr >= s->syms->runtime && addr - s->syms->runtime < s->syms->runtime_size)
		s->facts->key = (addr & ~(uint64_t)(KEY_OFF - 1)) | KEY_OFF;
}

/* A word of the thread's block; false: the instruction is none of that kind. */
static bool note_tls(struct state_search *s, const struct insn *in)
{
	const struct insn_operand *from = &in->ops[1];

	if (s->facts->tls_pair && insn__is_load(in) && operand__is_member(from) &&
	    from->reg == arch.result) {
		s->facts->tls = from->value;
		return true;
	}
	if (!insn__is_load(in) || !from->tls || from->index != REG_NONE)
		return false;
	if (from->reg == REG_NONE)
		s->facts->tls = from->value;
	else if (from->reg < REG_CNT && !from->value)
		s->facts->tls_slot = s->loaded[from->reg];
	return true;
}

static void note_operands(struct state_search *s, const struct insn *in)
{
	for (uint32_t i = 0; i < INSN_OPS; i++) {
		const struct insn_operand *o = &in->ops[i];

		if (operand__is_fixed(o))
			note_key(s, (uint64_t)o->value);
		/* of _PyRuntime, by its address in the GOT */
		else if (operand__is_member(o) && s->loaded[o->reg])
			note_key(s, s->syms->runtime + (uint64_t)o->value);
	}
	if (in->form == FORM_ADDRESS && in->ops[0].reg == arch.arg[0] &&
	    operand__is_fixed(&in->ops[1]))
		s->pair = (uint64_t)in->ops[1].value;
	if (in->form == FORM_CONST)
		note_key(s, (uint64_t)in->value);
	for (uint8_t r = 0; r < REG_CNT; r++)
		if (insn__may_write(in, r))
			s->loaded[r] = 0;
	if (insn__is_load(in) && in->ops[0].size == 8 && operand__is_fixed(&in->ops[1]))
		s->loaded[in->ops[0].reg] = (uint64_t)in->ops[1].value;
}

/* True: the call of __tls_get_addr(), behind which the result is used. */
static bool note_call(struct state_search *s, const struct insn *in)
{
	const char *name = in->cls == INSN_CALL ? elf_file__plt_name(s->ef, in->target) : NULL;

	if (!name || !s->pair || strcmp(name, "__tls_get_addr") != 0)
		return false;
	s->facts->tls_pair = s->pair;
	return true;
}

/* Straight on to the first call that is not understood or the end of the function. */
static void search_code(const struct elf_file *ef, const struct py_symbols *syms,
			struct py_file_facts *facts)
{
	struct state_search s = { .syms = syms, .facts = facts, .ef = ef };
	struct insn_decoder *dec = insn_decoder__new();
	uint64_t at = syms->gilstate, avail = 0;
	const uint8_t *p = elf_file__is_text(ef, at) ? elf_file__bytes(ef, at, 1, &avail) : NULL;
	struct insn in;

	if (avail > CODE_MAX)
		avail = CODE_MAX;
	while (p && avail && insn_decoder__decode(dec, p, avail, at, &in)) {
		if (note_tls(&s, &in) ||
		    (in.cls != INSN_OTHER && in.cls != INSN_JCC && !note_call(&s, &in)))
			break;
		note_operands(&s, &in);
		p += in.len;
		at += in.len;
		avail -= in.len;
	}
	insn_decoder__free(dec);
}

int py_file_facts__learn(const struct elf_file *ef, const void *arg, uint8_t **out, size_t *len)
{
	struct py_symbols syms = { 0 };
	struct py_file_facts facts = { 0 };

	(void)arg;
	elf_file__for_each_sym(ef, match_py_symbol, &syms);
	if (!syms.runtime &&
	    !elf_file__section(ef, ".PyRuntime", &syms.runtime, &syms.runtime_size) &&
	    !elf_file__section(ef, "PyRuntime", &syms.runtime, &syms.runtime_size))
		return 0;
	facts.runtime = syms.runtime;
	facts.code_type = syms.code_type;
	facts.version = find_version(ef, syms.version);
	if (syms.gilstate)
		search_code(ef, &syms, &facts);
	elf_answer__give(&facts, sizeof(facts), out, len);
	return 0;
}
