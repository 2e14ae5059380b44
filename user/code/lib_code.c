/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Symbols by topic and facts about callees; see code.h. */
#include "code/code.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "base/containers.h"
#include "base/mem.h"

/* Functions of the C++ runtime and the C library that do not return; names as in struct
 * callee_row. */
static const struct callee_row noreturn_rows[] = {
	{ "_Unwind_Resume$", CALLEE_NORETURN },
	{ "__cxa_throw$", CALLEE_NORETURN },
	{ "__cxa_rethrow$", CALLEE_NORETURN },
	{ "__cxa_bad_cast$", CALLEE_NORETURN },
	{ "__cxa_bad_typeid$", CALLEE_NORETURN },
	{ "__cxa_throw_bad_array_new_length$", CALLEE_NORETURN },
	{ "__cxa_throw_bad_array_length$", CALLEE_NORETURN },
	{ "__cxa_call_unexpected$", CALLEE_NORETURN },
	{ "__cxa_call_terminate$", CALLEE_NORETURN },
	{ "__cxa_pure_virtual$", CALLEE_NORETURN },
	{ "__clang_call_terminate$", CALLEE_NORETURN },
	{ "__stack_chk_fail", CALLEE_NORETURN },
	{ "__chk_fail$", CALLEE_NORETURN },
	{ "__assert_fail$", CALLEE_NORETURN },
	{ "abort$", CALLEE_NORETURN },
	{ "exit$", CALLEE_NORETURN },
	{ "_exit$", CALLEE_NORETURN },
	{ "_ZSt9terminatev$", CALLEE_NORETURN },
	{ "_ZSt17rethrow_exceptionNSt", CALLEE_NORETURN },
	{ "_ZSt21__glibcxx_assert_failPKciS0_S0_$", CALLEE_NORETURN },
};

static uint32_t row_flags(const struct callee_row *rows, size_t cnt, const char *name)
{
	size_t len;

	for (size_t i = 0; i < cnt; i++) {
		len = strlen(rows[i].name);
		if (rows[i].name[len - 1] == '$') {
			if (!strncmp(name, rows[i].name, len - 1) && !name[len - 1])
				return rows[i].flags;
		} else if (!strncmp(name, rows[i].name, len)) {
			return rows[i].flags;
		}
	}
	return 0;
}

static uint32_t name_flags(const struct lib_code *lc, const char *name)
{
	uint32_t flags;

	/* libstdc++: std::__throw_bad_alloc() and some forty more */
	if (!strncmp(name, "_ZSt", 4) && name[4] >= '0' && name[4] <= '9' &&
	    strstr(name, "__throw_"))
		return CALLEE_NORETURN;
	flags = row_flags(lc->names->callees, lc->names->callee_cnt, name);
	return flags ? flags :
		       row_flags(noreturn_rows, sizeof(noreturn_rows) / sizeof(*noreturn_rows),
				 name);
}

static uint64_t hash_name(const char *s, uint64_t *second)
{
	uint64_t h = 0xcbf29ce484222325ULL, g = 0x84222325cbf29ce4ULL;

	for (; *s; s++) {
		h = (h ^ (uint8_t)*s) * 0x100000001b3ULL;
		g = (g + (uint8_t)*s) * 0x9e3779b97f4a7c15ULL;
	}
	*second = g;
	return h;
}

/* ---- symbols ---- */

static void add_topic(struct lib_code *lc, const struct elf_sym *sym)
{
	struct sym_list *l;

	for (size_t i = 0; i < lc->names->topic_cnt; i++) {
		const struct topic_row *row = &lc->names->topics[i];

		if (row->prefix[3] != sym->name[3] || row->prefix[6] != sym->name[6] ||
		    strncmp(sym->name, row->prefix, strlen(row->prefix)))
			continue;
		if (sym->type != row->type && !(row->type == STT_OBJECT && sym->type == STT_NOTYPE))
			continue;
		l = &lc->topics[row->topic];
		vec_push(l->syms, l->cnt, l->cap,
			 (struct addr_name){ .addr = sym->addr, .name = sym->name });
		return;
	}
}

static void add_sym(struct lib_code *lc, const struct elf_sym *sym)
{
	const char *dot = strchr(sym->name, '.');
	uint64_t k0, k1;
	uint32_t flags;

	if (sym->type == STT_FUNC) {
		if (sym->bind == STB_LOCAL) {
			lc->has_symtab = true;
			/* gcc's suffixes: parts of a function, outlined parts, second names of the
			 * same code */
			if (dot && strstr(dot, ".cold")) {
				hashmap__put(&lc->cold, sym->addr, 0, 1);
				return;
			}
			if (dot && (strstr(dot, ".part.") || strstr(dot, ".localalias")))
				return;
		} else {
			k0 = hash_name(sym->name, &k1);
			hashmap__put(&lc->by_name, k0, k1, sym->addr);
			flags = name_flags(lc, sym->name);
			if (flags)
				hashmap__put(&lc->callees, sym->addr, 0, flags | CALLEE_KNOWN);
		}
	}
	add_topic(lc, sym);
}

static bool on_sym(const struct elf_sym *sym, void *arg)
{
	if (sym->defined && sym->addr && (sym->type == STT_FUNC || sym->type == STT_OBJECT) &&
	    sym->name[0] == '_' && strnlen(sym->name, 8) == 8)
		add_sym(arg, sym);
	return true;
}

static int cmp_addr(const void *a, const void *b)
{
	const struct addr_name *x = a, *y = b;

	return x->addr < y->addr ? -1 : x->addr > y->addr;
}

static struct addr_name *find_addr(struct addr_name *list, uint32_t cnt, uint64_t addr)
{
	struct addr_name key = { .addr = addr };

	return cnt ? bsearch(&key, list, cnt, sizeof(key), cmp_addr) : NULL;
}

bool lib_code__has_sym(const struct lib_code *lc, uint32_t topic, uint64_t addr)
{
	return find_addr(lc->topics[topic].syms, lc->topics[topic].cnt, addr);
}

static void sort_topic(struct sym_list *l)
{
	uint32_t n = 0;

	if (!l->cnt)
		return;
	qsort(l->syms, l->cnt, sizeof(*l->syms), cmp_addr);
	for (uint32_t i = 0; i < l->cnt; i++)
		if (!n || l->syms[n - 1].addr != l->syms[i].addr)
			l->syms[n++] = l->syms[i];
	l->cnt = n;
}

/* ---- bytes ---- */

static const uint8_t *src_text(void *arg, uint64_t addr, uint64_t *avail)
{
	struct lib_code *lc = arg;

	if (addr < lc->text_start || addr >= lc->text_end)
		return NULL;
	return elf_file__bytes(lc->ef, addr, 1, avail);
}

static const uint8_t *src_data(void *arg, uint64_t addr, uint64_t len)
{
	return lib_code__data(arg, addr, len);
}

static enum code_range src_range(void *arg, uint64_t addr, uint64_t *start, uint64_t *end)
{
	struct lib_code *lc = arg;

	if (!elf_file__func_range(lc->ef, addr, start, end))
		return CODE_NONE;
	if (*start < lc->text_start || *end > lc->text_end)
		return CODE_NONE;
	if (hashmap__get(&lc->cold, *start, 0))
		return CODE_COLD;
	return lc->has_symtab ? CODE_FUNC : CODE_UNKNOWN;
}

static bool src_returns(void *arg, uint64_t callee)
{
	return !(lib_code__callee(arg, callee) & CALLEE_NORETURN);
}

bool lib_code__decode(const struct lib_code *lc, struct insn_decoder *dec, uint64_t addr,
		      uint64_t end, struct insn *out)
{
	uint64_t avail;
	const uint8_t *p = src_text((void *)lc, addr, &avail);

	return p && addr < end &&
	       insn_decoder__decode(dec, p, avail < end - addr ? avail : end - addr, addr, out);
}

const uint8_t *lib_code__data(const struct lib_code *lc, uint64_t addr, uint64_t len)
{
	return elf_file__bytes(lc->ef, addr, len, NULL);
}

const char *lib_code__text(const struct lib_code *lc, uint64_t addr, uint64_t max)
{
	uint64_t avail;
	const uint8_t *p = elf_file__bytes(lc->ef, addr, 1, &avail);

	if (!p || elf_file__is_text(lc->ef, addr))
		return NULL;
	if (avail > max)
		avail = max;
	return memchr(p, 0, avail) ? (const char *)p : NULL;
}

/* The executable segment; linkers make one, and of several the largest holds the functions. */
static void find_text(struct lib_code *lc)
{
	uint64_t addr, len;
	bool exec;

	for (uint32_t i = 0; elf_file__segment(lc->ef, i, &addr, &len, &exec); i++) {
		if (!exec || len <= lc->text_end - lc->text_start)
			continue;
		lc->text_start = addr;
		lc->text_end = addr + len;
	}
}

void lib_code__init(struct lib_code *lc, const struct elf_file *ef, const struct lib_names *names)
{
	memset(lc, 0, sizeof(*lc));
	lc->ef = ef;
	lc->names = names;
	lc->src = (struct code_src){ .arg = lc,
				     .text = src_text,
				     .data = src_data,
				     .range = src_range,
				     .returns = src_returns };
	elf_file__for_each_sym(ef, on_sym, lc);
	for (uint32_t t = 0; t < LIB_TOPICS_MAX; t++)
		sort_topic(&lc->topics[t]);
	find_text(lc);
}

void lib_code__free(struct lib_code *lc)
{
	for (uint32_t t = 0; t < LIB_TOPICS_MAX; t++)
		free(lc->topics[t].syms);
	hashmap__clear(&lc->cold);
	hashmap__clear(&lc->by_name);
	hashmap__clear(&lc->callees);
	free(lc->sites);
	memset(lc, 0, sizeof(*lc));
}

/* ---- callees ---- */

#define CALLEE_SCAN_MAX (64 * 1024) /* bytes of a callee that are inspected */

uint64_t lib_code__function(const struct lib_code *lc, const char *name)
{
	uint64_t k0, k1, *addr;

	k0 = hash_name(name, &k1);
	addr = hashmap__get(&lc->by_name, k0, k1);
	return addr ? *addr : 0;
}

/* What the name of a target says: imported functions and exported ones of this library. */
static uint32_t named_flags(struct lib_code *lc, uint64_t target, uint64_t *local)
{
	const char *name = elf_file__plt_name(lc->ef, target);

	*local = name ? lib_code__function(lc, name) : target;
	return name ? name_flags(lc, name) : 0;
}

/* Flags of a target without looking into its code: remembered in `callees` under key 1. */
static uint32_t shallow_flags(struct lib_code *lc, uint64_t target, bool remember)
{
	uint64_t *known = hashmap__get(&lc->callees, target, 0), local;
	uint32_t flags;

	if (known)
		return (uint32_t)*known & 0xffff;
	known = hashmap__get(&lc->callees, target, 1);
	if (known)
		return (uint32_t)*known;
	flags = named_flags(lc, target, &local);
	if (local && local != target && !flags) {
		known = hashmap__get(&lc->callees, local, 0);
		flags = known ? (uint32_t)*known & 0xffff : 0;
	}
	if (remember)
		hashmap__put(&lc->callees, target, 1, flags);
	return flags;
}

/* Looks at every target once: most of four million calls go to the same few hundred thousand. */
static void scan_all(struct lib_code *lc, uint64_t *seen, uint32_t flags)
{
	uint64_t avail, bit;
	const uint8_t *base = src_text(lc, lc->text_start, &avail), *p;
	uint32_t wanted_cnt = 0, i;
	uint64_t wanted[16];
	struct code_ref ref;

	for (p = base; p && (p = arch__next_call(p, base + avail,
						 lc->text_start + (uint64_t)(p - base), &ref));
	     p++) {
		if (ref.target < lc->text_start || ref.target >= lc->text_end || (ref.target & 15))
			continue;
		bit = (ref.target - (lc->text_start & ~15ULL)) / 16;
		if (!(seen[bit / 64] & 1ULL << bit % 64)) {
			seen[bit / 64] |= 1ULL << bit % 64;
			if (wanted_cnt < 16 && (shallow_flags(lc, ref.target, false) & flags))
				wanted[wanted_cnt++] = ref.target;
		}
		for (i = 0; i < wanted_cnt && wanted[i] != ref.target; i++)
			;
		if (i == wanted_cnt)
			continue;
		vec_push(lc->sites, lc->site_cnt, lc->site_cap,
			 (struct call_site){ .at = ref.at,
					     .next = ref.next,
					     .flags = shallow_flags(lc, ref.target, true) &
						      flags });
	}
}

void lib_code__all_calls(struct lib_code *lc)
{
	uint64_t *seen;

	if (lc->sites_known)
		return;
	lc->sites_known = true;
	seen = xcalloc((lc->text_end - lc->text_start) / (16 * 64) + 2, sizeof(*seen));
	scan_all(lc, seen, lc->names->all_calls);
	free(seen);
}

/* Does a function contain a return or a jump out of it? Quick test for the usual endings first. */
static bool may_return(struct lib_code *lc, const uint8_t *code, uint64_t start, uint64_t len)
{
	struct insn_decoder *dec;
	struct insn in;
	bool found = false;

	if (arch__has_return(code, len))
		return true;
	dec = insn_decoder__new();
	for (uint64_t n = 0; n < len && !found; n += in.len) {
		if (!insn_decoder__decode(dec, code + n, len - n, start + n, &in)) {
			found = true;
			break;
		}
		if (in.cls == INSN_RET || in.cls == INSN_JMP_IND)
			found = true;
		if ((in.cls == INSN_JMP || in.cls == INSN_JCC) &&
		    (in.target < start || in.target >= start + len))
			found = !hashmap__get(&lc->cold, in.target, 0);
	}
	insn_decoder__free(dec);
	return found;
}

static uint32_t code_flags(struct lib_code *lc, uint64_t addr)
{
	uint64_t start, end, avail;
	const uint8_t *code, *p;
	struct code_ref ref;
	uint32_t flags;

	if (src_range(lc, addr, &start, &end) == CODE_NONE || start != addr)
		return 0;
	code = src_text(lc, addr, &avail);
	if (!code || avail < end - start)
		return 0;
	flags = CALLEE_LOCAL;
	if (end - start > CALLEE_SCAN_MAX)
		end = start + CALLEE_SCAN_MAX;
	else if (!may_return(lc, code, start, end - start))
		flags |= CALLEE_NORETURN;
	for (p = code;
	     (p = arch__next_call(p, code + (end - start), start + (uint64_t)(p - code), &ref));
	     p++)
		if (ref.target >= lc->text_start && ref.target < lc->text_end)
			flags |= CALLEE_IN(shallow_flags(lc, ref.target, true) &
					   lc->names->inner_calls);
	return flags;
}

uint32_t lib_code__callee(struct lib_code *lc, uint64_t target)
{
	uint64_t *known = hashmap__get(&lc->callees, target, 0), local;
	uint32_t flags;

	if (known && !(*known & CALLEE_KNOWN))
		return (uint32_t)*known;
	flags = shallow_flags(lc, target, true) & ~CALLEE_KNOWN;
	/* A function with a name that matters needs no look at its code. */
	if (!flags) {
		named_flags(lc, target, &local);
		if (local)
			flags = code_flags(lc, local);
	}
	hashmap__put(&lc->callees, target, 0, flags);
	return flags;
}

uint32_t lib_code__find_call(struct lib_code *lc, const struct flow *f, uint32_t flags)
{
	for (uint32_t i = 0; i < f->cnt; i++)
		if (lib_code__calls(lc, &f->nodes[i].in, flags))
			return i;
	return FLOW_NONE;
}

/* ---- literals ---- */

#define TEXTS_MAX 8 /* copies of a literal */

static uint32_t find_texts(const struct lib_code *lc, const char *text, size_t text_len,
			   uint64_t *texts)
{
	const uint8_t *base, *p;
	uint64_t addr, len;
	uint32_t cnt = 0;
	bool exec;

	for (uint32_t i = 0; elf_file__segment(lc->ef, i, &addr, &len, &exec); i++) {
		base = exec ? NULL : elf_file__bytes(lc->ef, addr, len, NULL);
		for (p = base; p && cnt < TEXTS_MAX; p++) {
			p = memmem(p, len - (uint64_t)(p - base), text, text_len);
			if (!p)
				break;
			texts[cnt++] = addr + (uint64_t)(p - base);
		}
	}
	return cnt;
}

void lib_code__scan_text_refs(const struct lib_code *lc, const char *text, text_ref_fn fn,
			      void *arg)
{
	uint64_t texts[TEXTS_MAX], avail;
	uint32_t cnt = find_texts(lc, text, strlen(text) + 1, texts), i;
	const uint8_t *base = cnt ? src_text((void *)lc, lc->text_start, &avail) : NULL, *p;
	struct code_ref ref;

	for (p = base; p && (p = arch__next_address(p, base + avail,
						    lc->text_start + (uint64_t)(p - base), &ref));
	     p++) {
		for (i = 0; i < cnt && ref.target != texts[i]; i++)
			;
		if (i < cnt && !fn(arg, &ref))
			return;
	}
}

/* ---- names for addresses ---- */

struct name_pass {
	struct addr_name *list;
	uint32_t cnt;
};

static bool name_sym(const struct elf_sym *sym, void *arg)
{
	struct name_pass *p = arg;
	struct addr_name *hit;

	if (!sym->defined || sym->type != STT_FUNC)
		return true;
	hit = find_addr(p->list, p->cnt, sym->addr);
	if (hit && !hit->name)
		hit->name = sym->name;
	return true;
}

void lib_code__name_addrs(const struct lib_code *lc, struct addr_name *list, uint32_t cnt)
{
	struct name_pass p = { .list = list, .cnt = cnt };

	if (cnt)
		elf_file__for_each_sym(lc->ef, name_sym, &p);
}
