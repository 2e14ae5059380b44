/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * One library as the analysis sees it: its symbols by topic, what is known about each callee (by name
 * if it is imported, by its code if it is local), and the source of bytes for control-flow graphs.
 * Remembers answers; decides nothing about probes.
 */
#ifndef CODE_LIB_CODE_H
#define CODE_LIB_CODE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/hashmap.h"
#include "code/flow.h"
#include "target/elf_file.h"

/*
 * What is known about the target of a call. Low half: which function it is itself; the other bits belong to whoever
 * writes the rows (struct lib_names).
 */
#define CALLEE_NORETURN 0x0100u
#define CALLEE_LOCAL 0x0200u /* a function of this library whose code was inspected */
#define CALLEE_KNOWN 0x0400u
/* High half: what the function calls in turn. */
#define CALLEE_IN(flag) ((flag) << 16)

/* Symbols of interest by mangled prefix up to the argument list: the types of arguments change between versions. */
struct topic_row {
	const char *prefix;
	uint8_t topic; /* < LIB_TOPICS_MAX */
	uint8_t type;  /* STT_* */
};
#define LIB_TOPICS_MAX 32

/* Functions of interest when they are called. */
struct callee_row {
	const char *name; /* prefix, or the whole name when it ends in '$' */
	uint32_t flags;   /* low half */
};

/* What an analysis asks about the names of a library; the rows outlive the struct lib_code. */
struct lib_names {
	const struct topic_row *topics;
	const struct callee_row *callees;
	uint32_t topic_cnt, callee_cnt;
	uint32_t all_calls; /* flags whose calls lib_code__all_calls() finds */
	uint32_t inner_calls; /* flags that are searched in the code of local callees, for CALLEE_IN() */
};

struct addr_name {
	uint64_t addr;
	const char *name; /* mangled, in the file's map */
};

struct sym_list {
	struct addr_name *syms; /* sorted by address, one per address */
	uint32_t cnt, cap;
};

struct call_site {
	uint64_t at;    /* the call instruction, by its bytes: decode before relying on it */
	uint64_t next;  /* what follows it */
	uint32_t flags; /* CALLEE_* of its target, low half */
};

struct lib_code {
	const struct elf_file *ef;
	const struct lib_names *names;
	struct code_src src;
	struct sym_list topics[LIB_TOPICS_MAX];
	bool has_symtab;        /* local functions have names */
	struct hashmap cold;    /* start of a .cold part -> 1 */
	struct hashmap by_name; /* hash of a mangled name -> address of the exported function */
	struct hashmap callees; /* address of a callee -> CALLEE_* */
	uint64_t text_start, text_end; /* executable bytes of the file */
	struct call_site *sites;       /* all calls of what lib_code__all_calls() looks for */
	uint32_t site_cnt, site_cap;
	bool sites_known;
};

void lib_code__init(struct lib_code *lc, const struct elf_file *ef, const struct lib_names *names);
void lib_code__free(struct lib_code *lc);

/* Is there a symbol of the topic at the address? */
bool lib_code__has_sym(const struct lib_code *lc, uint32_t topic, uint64_t addr);

/* CALLEE_* of a call's target, looking through the PLT. */
uint32_t lib_code__callee(struct lib_code *lc, uint64_t target);

/* Is it a direct call of a function with one of the flags? */
static inline bool lib_code__calls(struct lib_code *lc, const struct insn *in, uint32_t flags)
{
	return in->cls == INSN_CALL && lib_code__callee(lc, in->target) & flags;
}

/* The first such call in the graph, FLOW_NONE: there is none. */
uint32_t lib_code__find_call(struct lib_code *lc, const struct flow *f, uint32_t flags);

/* Address of an exported function by its mangled name, 0: not defined here. */
uint64_t lib_code__function(const struct lib_code *lc, const char *name);

/*
 * Finds, once, all direct calls of functions with one of names->all_calls, in lc->sites by address. By bytes, not by
 * decoding: four bytes of displacement must fit, but the caller decodes before relying on one.
 */
void lib_code__all_calls(struct lib_code *lc);

/*
 * Calls fn for every instruction that takes the address of one of the texts of this content in constant
 * data; false from fn ends it. By bytes, like lib_code__all_calls().
 */
typedef bool (*text_ref_fn)(void *arg, const struct code_ref *ref);
void lib_code__scan_text_refs(const struct lib_code *lc, const char *text, text_ref_fn fn, void *arg);

/* Sets the names of a list of addresses, sorted by address, that have a symbol. */
void lib_code__name_addrs(const struct lib_code *lc, struct addr_name *list, uint32_t cnt);

/* Decodes the instruction at addr, which must end before `end`; false: there is none. */
bool lib_code__decode(const struct lib_code *lc, struct insn_decoder *dec, uint64_t addr,
		      uint64_t end, struct insn *out);

/* Constant data of the file; NULL when out of it. */
const uint8_t *lib_code__data(const struct lib_code *lc, uint64_t addr, uint64_t len);
/* A NUL-terminated text of fewer than max bytes in constant data; NULL if there is none. */
const char *lib_code__text(const struct lib_code *lc, uint64_t addr, uint64_t max);

#endif /* CODE_LIB_CODE_H */
