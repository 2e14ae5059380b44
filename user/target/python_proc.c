/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Each offset is read off an object whose content is known (CPython Include/cpython/longintrepr.h,
 * unicodeobject.h, object.h):
 *
 * ob_type     at 8, as bool's type is `type`; elsewhere (free-threaded builds) nothing is read.
 * tp_base     bool is derived from int: the word of PyBool_Type that points to PyLong_Type.
 * int         True is the number 1: {header, 1, digit 1} up to 3.11, {header, 1 << 3, digit 1} from 3.12.
 * tuple       the bases of bool are (int,): after a head of 24 bytes, and from 3.14 the hash.
 * str         a class has its name twice, as tp_name for C and as a str: torch.Tensor's.
 */
#define LOG_DOMAIN "python"
#include "target/proc_info.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "target/elf.h"
#include "target/proc.h"

#define TYPE_SZ 416       /* PyTypeObject, and more in debug builds */
#define HEAP_TYPE_SZ 1200 /* PyHeapTypeObject: ht_name follows the slots */
#define TP_NAME_OFF 24
#define STR_LEN_OFF 16
#define STR_STATE_OFF 32
#define STR_BITS 0x60u /* compact and ascii */
#define STR_KIND 0x04u /* of kind:3 at bit 2: one byte per character */
#define STR_KIND_MASK 0x1cu

enum {
	SYM_INT,
	SYM_FLOAT,
	SYM_BOOL,
	SYM_STR,
	SYM_TUPLE,
	SYM_LIST,
	SYM_NONE,
	SYM_TYPE,
	SYM_TRUE,
	SYM_COMPLEX,
	SYM_CNT
};

static const char *const names[SYM_CNT] = {
	"PyLong_Type", "PyFloat_Type",   "PyBool_Type", "PyUnicode_Type", "PyTuple_Type",
	"PyList_Type", "_Py_NoneStruct", "PyType_Type", "_Py_TrueStruct", "PyComplex_Type",
};

static uint64_t read_word(pid_t pid, uint64_t addr)
{
	uint64_t v;

	return remote__read(pid, addr, &v, sizeof(v)) ? 0 : v;
}

static bool find_base(pid_t pid, const uint64_t *syms, struct ptb_python_cfg *py)
{
	uint64_t words[TYPE_SZ / 8];
	uint16_t at = 0;

	if (remote__read(pid, syms[SYM_BOOL], words, sizeof(words)) || words[1] != syms[SYM_TYPE])
		return false;
	for (uint16_t i = 2; i < TYPE_SZ / 8; i++)
		if (words[i] == syms[SYM_INT]) {
			if (at)
				return false;
			at = (uint16_t)(8 * i);
		}
	py->type_base_off = at;
	return at;
}

static bool find_int(pid_t pid, const uint64_t *syms, struct ptb_python_cfg *py)
{
	uint64_t words[4];

	if (remote__read(pid, syms[SYM_TRUE], words, sizeof(words)) || words[1] != syms[SYM_BOOL] ||
	    (words[2] != 1 && words[2] != 1 << 3) || (uint32_t)words[3] != 1)
		return false;
	py->long_size_off = 16;
	py->long_digits_off = 24;
	py->long_size_shift = words[2] == 1 ? 0 : 3;
	return true;
}

static bool find_tuple(pid_t pid, const uint64_t *syms, struct ptb_python_cfg *py)
{
	uint64_t words[TYPE_SZ / 8], tuple[5];

	if (remote__read(pid, syms[SYM_BOOL], words, sizeof(words)))
		return false;
	for (uint16_t i = 2; i < TYPE_SZ / 8; i++) {
		if (words[i] & 7 || words[i] < 4096 ||
		    remote__read(pid, words[i], tuple, sizeof(tuple)) ||
		    tuple[1] != syms[SYM_TUPLE] || tuple[2] != 1)
			continue;
		for (uint16_t k = 3; k < 5; k++)
			if (tuple[k] == syms[SYM_INT]) {
				py->tuple_items_off = (uint16_t)(8 * k);
				return true;
			}
	}
	return false;
}

/* Is this object the str `text`? Then its layout is known. */
static bool is_str(pid_t pid, uint64_t obj, const uint64_t *syms, const char *text,
		   struct ptb_python_cfg *py)
{
	static const uint16_t offs[] = { 40, 48 };
	size_t len = strlen(text) + 1;
	uint64_t words[5];
	char copy[64];

	if (obj & 7 || obj < 4096 || len > sizeof(copy) ||
	    remote__read(pid, obj, words, sizeof(words)) || words[1] != syms[SYM_STR] ||
	    words[STR_LEN_OFF / 8] != len - 1 ||
	    (words[STR_STATE_OFF / 8] & (STR_BITS | STR_KIND_MASK)) != (STR_BITS | STR_KIND))
		return false;
	for (uint32_t i = 0; i < 2; i++) {
		if (remote__read(pid, obj + offs[i], copy, len) || memcmp(copy, text, len) != 0)
			continue;
		py->ascii_off = offs[i];
		py->str_state_off = STR_STATE_OFF;
		return true;
	}
	return false;
}

static bool find_str(pid_t pid, uint64_t type, const uint64_t *syms, struct ptb_python_cfg *py)
{
	char name[64];

	if (remote__read_cstr(pid, read_word(pid, type + TP_NAME_OFF), name, sizeof(name)) ||
	    !*name)
		return false;
	for (uint32_t off = py->type_base_off; off < HEAP_TYPE_SZ; off += 8)
		if (is_str(pid, read_word(pid, type + off), syms, name, py))
			return true;
	return false;
}

/* torch.Tensor is a class of Python, whose type is a type in turn. */
static void find_tensor(pid_t pid, uint64_t variable_class, uint16_t variable_off,
			const uint64_t *syms, struct ptb_python_cfg *py)
{
	uint64_t type = variable_class ? read_word(pid, variable_class) : 0;

	if (!type || read_word(pid, read_word(pid, type + 8) + 8) != syms[SYM_TYPE])
		return; /* not imported yet */
	if (find_str(pid, type, syms, py))
		py->type_str = syms[SYM_STR];
	if (variable_off != PTB_OFF_UNKNOWN) {
		py->type_tensor = type;
		py->variable_off = variable_off;
	}
}

/* ---- symbols of the interpreter ---- */

#define SYMBOLS_MAX 32

struct symbol_query {
	const char *const *names; /* constants */
	uint32_t cnt, pad;
};

struct symbol_addrs {
	const struct symbol_query *q;
	uint32_t found;
	uint64_t addrs[SYMBOLS_MAX]; /* ELF vaddr, 0: not found */
};

static bool match_symbol(const struct elf_sym *sym, void *arg)
{
	struct symbol_addrs *s = arg;

	for (uint32_t i = 0; i < s->q->cnt && sym->defined && sym->addr; i++) {
		if (s->addrs[i] || strcmp(s->q->names[i], sym->name) != 0)
			continue;
		s->addrs[i] = sym->addr;
		s->found++;
	}
	return s->found < s->q->cnt;
}

/* Answers with the addresses of all, or with nothing. */
static int learn_symbols(const struct elf_file *ef, const void *arg, uint8_t **out, size_t *len)
{
	struct symbol_addrs s = { .q = arg };

	elf_file__for_each_sym(ef, match_symbol, &s);
	if (!(s.found < s.q->cnt))
		elf_answer__give(s.addrs, s.q->cnt * sizeof(*s.addrs), out, len);
	return 0;
}

/* Do this mapped file's symbols answer the query? */
static int ask_symbols(pid_t pid, const struct proc_map *map, const struct elf_question *q,
		       uint64_t *addrs, uint32_t cnt)
{
	struct mapped_file mf;
	int err = mapped_file__ask(pid, map, q, &mf);

	if (err)
		return err;
	err = elf_answer__get(&mf.answer, addrs, cnt * sizeof(*addrs)) ? 0 : -ENOENT;
	for (uint32_t i = 0; i < cnt && !err; i++)
		addrs[i] += mf.load_bias;
	mapped_file__clear(&mf);
	return err;
}

static bool is_final(int err)
{
	return !err || err == -ECANCELED;
}

/* The executable first: all libraries are bound to what it exports. */
int python_proc__symbols(pid_t pid, const char *const *symbols, uint32_t cnt, uint64_t *addrs)
{
	const struct symbol_query query = { .names = symbols, .cnt = cnt };
	uint64_t spent_ns = 0;
	const struct elf_question q = { learn_symbols, &query, sizeof(query), &spent_ns };
	char *exe = proc_info__exe_name(pid);
	struct proc_maps maps;
	int err = cnt > SYMBOLS_MAX ? -EINVAL : proc_maps__read(pid, &maps);

	if (err) {
		free(exe);
		return err;
	}
	err = -ENOENT;
	for (uint32_t pass = 0; pass < 2 && !is_final(err); pass++)
		for (uint32_t i = 0; i < maps.cnt && !is_final(err); i++) {
			const char *base = proc_map__base(&maps.items[i]);

			if (proc_maps__is_first(&maps, i) &&
			    (pass ? strstr(base, "libpython") != NULL : !strcmp(base, exe)))
				err = ask_symbols(pid, &maps.items[i], &q, addrs, cnt);
		}
	proc_maps__free(&maps);
	free(exe);
	return is_final(err) ? err : -ENOENT;
}

int python_proc__fill(const struct torch_proc *tp, uint64_t variable_class, uint16_t variable_off,
		      struct ptb_python_cfg *py)
{
	uint64_t syms[SYM_CNT];
	int err;

	memset(py, 0, sizeof(*py));
	err = python_proc__symbols(tp->pid, names, SYM_CNT, syms);
	if (!err && !(find_base(tp->pid, syms, py) && find_int(tp->pid, syms, py) &&
		      find_tuple(tp->pid, syms, py)))
		err = -ENOTSUP;
	if (err) {
		pr_debug("process %d: its Python objects are not read: %s", tp->pid, errstr(err));
		memset(py, 0, sizeof(*py));
		return err;
	}
	py->type_int = syms[SYM_INT];
	py->type_float = syms[SYM_FLOAT];
	py->type_complex = syms[SYM_COMPLEX];
	py->type_bool = syms[SYM_BOOL];
	py->type_tuple = syms[SYM_TUPLE];
	py->type_list = syms[SYM_LIST];
	py->none = syms[SYM_NONE];
	find_tensor(tp->pid, variable_class, variable_off, syms, py);
	return 0;
}
