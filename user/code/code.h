/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What is read from machine code. */
#ifndef CODE_CODE_H
#define CODE_CODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/containers.h"
#include "code/flow.h"
#include "ptb_probe.h"
#include "target/elf.h"

/*
 * One library as the analysis sees it: its symbols by topic, what is known about each callee (by
 * name if it is imported, by its code if it is local), and the source of bytes for control-flow
 * graphs. Remembers answers; decides nothing about probes.
 */

/*
 * What is known about the target of a call. Low half: which function it is itself; the other bits
 * belong to whoever writes the rows (struct lib_names).
 */
#define CALLEE_NORETURN 0x0100u
#define CALLEE_LOCAL 0x0200u /* a function of this library whose code was inspected */
#define CALLEE_KNOWN 0x0400u
/* High half: what the function calls in turn. */
#define CALLEE_IN(flag) ((flag) << 16)

/* Symbols of interest by mangled prefix up to the argument list: the types of arguments change
 * between versions. */
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
	/* flags that are searched in the code of local callees, for CALLEE_IN() */
	uint32_t inner_calls;
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
 * Finds, once, all direct calls of functions with one of names->all_calls, in lc->sites by address.
 * By bytes, not by decoding: four bytes of displacement must fit, but the caller decodes before
 * relying on one.
 */
void lib_code__all_calls(struct lib_code *lc);

/*
 * Calls fn for every instruction that takes the address of one of the texts of this content in
 * constant data; false from fn ends it. By bytes, like lib_code__all_calls().
 */
typedef bool (*text_ref_fn)(void *arg, const struct code_ref *ref);
void lib_code__scan_text_refs(const struct lib_code *lc, const char *text, text_ref_fn fn,
			      void *arg);

/* Sets the names of a list of addresses, sorted by address, that have a symbol. */
void lib_code__name_addrs(const struct lib_code *lc, struct addr_name *list, uint32_t cnt);

/* Decodes the instruction at addr, which must end before `end`; false: there is none. */
bool lib_code__decode(const struct lib_code *lc, struct insn_decoder *dec, uint64_t addr,
		      uint64_t end, struct insn *out);

/* Constant data of the file; NULL when out of it. */
const uint8_t *lib_code__data(const struct lib_code *lc, uint64_t addr, uint64_t len);
/* A NUL-terminated text of fewer than max bytes in constant data; NULL if there is none. */
const char *lib_code__text(const struct lib_code *lc, uint64_t addr, uint64_t max);

/* Demangled names of C++ symbols, for people. */

/* Qualified name without arguments and clone suffixes; the symbol itself if it is not C++'s. */
void cxx_name__short(const char *mangled, char *buf, size_t cap);

/*
 * Where to probe a function so that every normal return is seen exactly once, without a return
 * probe: a smallest set of emulated instructions that every path from the work to a return crosses
 * once. Pure analysis of a graph; places nothing.
 */

#define EXIT_SITES_MAX 4 /* more sites than this are refused: the function has no common end */

struct exit_sites {
	uint32_t nodes[EXIT_SITES_MAX]; /* of the graph */
	uint32_t cnt;
	enum ptb_refusal why; /* NONE: cnt >= 1 */
};

struct exit_finder {
	uint8_t *work; /* by node, set by the caller: this call or jump is what is to be measured */
	uint8_t *late;
	uint8_t *last;                     /* work behind which there is no more */
	uint32_t *cls, *low, *num, *stack; /* classes of program points; Tarjan's numbers */
	int32_t *net;
	uint32_t cap;
};

void exit_finder__free(struct exit_finder *x);

/* Room for the graph; clears `work`. Call before marking. */
void exit_finder__prepare(struct exit_finder *x, const struct flow *f);

/*
 * Finds the sites of the graph's function. x->work must mark the calls whose end is to be measured;
 * jumps into other functions count as such calls unless `cheap_tail` says that what they run does
 * not matter (it frees memory). The result, or why there is none, in *out.
 */
void exit_sites__find(struct exit_finder *x, struct flow *f,
		      bool (*cheap_tail)(void *arg, uint64_t target), void *arg,
		      struct exit_sites *out);

/*
 * The same for a function in which some paths do no work: they may cross one site or none. Every
 * path from the last work to a return crosses one, and no work follows a site. Only what x->work
 * marks is work: the caller decides about jumps into other functions, and stores, too.
 */
void exit_sites__after_work(struct exit_finder *x, struct flow *f, struct exit_sites *out);

/*
 * The first emulated instruction after the entry with the arguments of the mask (1 << number) in
 * their registers, and the stack pointer if it is all of them, as the caller left them, on every
 * path. Its node, FLOW_NONE if there is none.
 */
#define ENTRY_ALL_ARGS ((1u << ARCH_ARGS) - 1)
uint32_t entry_site__find(const struct flow *f, uint64_t entry, uint32_t args);

/*
 * Where a function's own integer arguments go: which registers may hold one, or an address made of
 * it, before each instruction. Errs on the side of "may"; says nothing of what memory holds, but
 * whether an argument was ever put there.
 */

#define ARG_FLOW_ARGS ARCH_ARGS /* bits by number */

struct arg_flow {
	/* by node, by register: arguments that it may hold before the node */
	uint8_t (*regs)[REG_CNT];
	uint32_t cap;
	/* arguments that some instruction put into memory, or somewhere not understood */
	uint8_t spilled;
};

/* Follows the arguments of the graph's function, which is entered at its first node. */
void arg_flow__follow(struct arg_flow *af, const struct flow *f);
void arg_flow__free(struct arg_flow *af);

/*
 * Can the node change what one of the arguments `args` points to: by calling, or jumping to,
 * another function that may get it, or by a store? If one was spilled, every call may get it, and
 * every store outside the function's own frame may go through it.
 */
bool arg_flow__uses(const struct arg_flow *af, const struct flow *f, uint32_t node, uint8_t args);
/* Stores through a register that may hold one. */
bool arg_flow__stores(const struct arg_flow *af, const struct flow *f, uint32_t node, uint8_t args);
/* Does the call or jump pass each of the arguments in its own place? */
bool arg_flow__forwards(const struct arg_flow *af, uint32_t node, uint8_t args);

/*
 * Runs a small function of an analysed library on paper: registers and stack are known, its
 * arguments are made-up objects whose contents the caller invents, and every read and write of them
 * is noted. What a function returns for each argument, or where in an object it looks, is then
 * known whatever form the compiler gave it. Executes nothing; stops at what it does not understand.
 */

enum leaf_end {
	LEAF_RETURNED,
	LEAF_STOPPED,  /* the call hook wanted it */
	LEAF_NORETURN, /* called what does not come back */
	LEAF_LOST,     /* an instruction, address or condition that is not known */
};

enum leaf_call {
	CALL_FOLLOW, /* or, where it leads out of the file, an unknown result */
	CALL_ZERO,   /* it returns 0, and is not emulated */
	CALL_STOP,
};

/* Objects: addresses that a function may be given; far from everything a file has. */
#define LEAF_OBJ_SIZE 0x100000000ULL
#define LEAF_OBJ(i) (0x7f0000000000ULL + (uint64_t)(i)*LEAF_OBJ_SIZE)
#define LEAF_OBJ_MAX 8
#define LEAF_TLS_MAX 4 /* thread-local blocks, objects of their own from LEAF_OBJ_MAX on */
#define LEAF_READS 64
#define LEAF_STACK 8192
#define LEAF_DEPTH 4

struct leaf_read {
	uint32_t obj;  /* index of LEAF_OBJ; LEAF_OBJ_MAX + n: thread-local block n */
	uint32_t size; /* bytes; 16 for any vector */
	uint64_t off;
};

struct leaf_write {
	uint32_t obj, size; /* as of leaf_read */
	uint64_t off, v;
	bool known; /* v is what was written */
};

struct leaf_run {
	/* Of the caller. */
	struct lib_code *lc;
	struct insn_decoder *dec;
	/* Contents of an object at off; NULL: all zero. */
	uint64_t (*mem)(void *arg, uint32_t obj, uint64_t off, uint32_t size);
	/* Called before each call; name: of an imported or exported function, "" if it has none. */
	enum leaf_call (*on_call)(void *arg, struct leaf_run *r, const char *name);
	void *arg;
	/* bytes that the file does not have read as 1: guards of static objects */
	bool guards_made;
	/* goes on behind what is not known: straight on at conditions, past calls; reads unknown
	 * values */
	bool lenient;
	uint64_t reg[REG_CNT]; /* set the arguments, read the result */
	/* Results. */
	uint8_t unknown[REG_CNT]; /* masks of bytes of registers that have no known value */
	struct leaf_read reads[LEAF_READS];
	uint32_t read_cnt;
	struct leaf_write writes[LEAF_READS];
	uint32_t write_cnt;
	uint64_t tls_got[LEAF_TLS_MAX]; /* pairs that were passed to __tls_get_addr */
	uint32_t tls_cnt;
	bool int_to_double; /* a conversion was seen */
	/* Scratch. */
	uint64_t at;
	uint32_t depth, steps;
	bool cf, zf, sf, of, flags_known;
	uint8_t stack[LEAF_STACK], stack_known[LEAF_STACK / 8];
};

/* Prepares for a run: all registers 0, nothing read. Keeps what is the caller's. Then runs the
 * function. */
void leaf_run__reset(struct leaf_run *r);
enum leaf_end leaf_run__go(struct leaf_run *r, uint64_t entry);
/* Both, with up to three arguments; entry 0: LEAF_LOST. */
enum leaf_end leaf_run__call(struct leaf_run *r, uint64_t entry, uint64_t arg0, uint64_t arg1,
			     uint64_t arg2);

/* Of the architecture: one instruction that is no branch; false: it is not understood. */
bool leaf_insn__step(struct leaf_run *r, const struct insn *in);
bool leaf_insn__addr(const struct leaf_run *r, const struct insn_operand *o, uint64_t *addr);
bool leaf_run__condition(const struct leaf_run *r, uint8_t cond);

/* For the architecture. */
bool leaf_run__push(struct leaf_run *r, uint64_t v, bool known);
bool leaf_run__pop(struct leaf_run *r, uint64_t *v, bool *known);
/* false: not readable at all; *known: with a known value. */
bool leaf_run__load(struct leaf_run *r, uint64_t addr, uint32_t size, uint64_t *v, bool *known);
/* Contents of the stack, which belongs to the run; false: out of it, or not known. */
bool leaf_run__stack(const struct leaf_run *r, uint64_t addr, uint32_t size, uint64_t *v);
bool leaf_run__store(struct leaf_run *r, uint64_t addr, uint32_t size, uint64_t v, bool known);

/*
 * Native stacks of threads that do not run, from their registers and copies of their stacks, by the
 * unwind information of the files that the process has mapped (elfutils' libdwfl). Files and stacks
 * are hostile: they are read in a child without privileges.
 */

struct unwind_thread {
	struct ptb_thread_regs at;
	uint8_t *stack;     /* copy of the memory from its stack pointer on */
	uint32_t stack_len; /* 0: the thread is left out */
	/*
	 * Out, from malloc: a line for each frame, innermost first: "function (file)",
	 * "file+0x1234" where there is no symbol. A last line "..." stands for frames that are
	 * missing. NULL: no frame could be read.
	 */
	char *text;
};

/* 0 or negative errno: then some texts may be missing. */
int unwind__threads(pid_t pid, struct unwind_thread *threads, uint32_t cnt);

/*
 * Where a value is, for certain: a forward must-analysis of one function. BPF sees no vector
 * registers, so a double that came in one is read where the function keeps it across a call; and a
 * result that was returned in a register is read where it is at the exit site. Follows moves
 * between registers and slots of the frame; what is overwritten, or differs between two paths, is
 * lost.
 */

#define VALUE_NO_FRAME INT32_MIN

#define VALUES_MAX 8
#define VALUE_SLOTS 32

struct value_state {
	uint64_t at[VALUES_MAX]; /* locations: 16 vector, 16 general registers, 32 slots */
	int32_t sp, bp;          /* rsp and rbp less rsp at the entry; VALUE_NO_FRAME: not known */
	bool seen;
};

struct value_locations {
	struct value_state *in; /* by node: before its instruction */
	uint32_t cap;
	uint32_t *queue, queue_cap;
	uint8_t *queued;
	int32_t slots[VALUE_SLOTS];
	uint32_t slot_cnt;
	int32_t size;    /* of the values that are followed */
	uint64_t pushed; /* slots that a push wrote: a callee may change its arguments */
};

/* What to follow from where: value i is in location[i] before node `start`. */
struct value_seeds {
	uint32_t start;
	int32_t sp, bp; /* there */
	uint32_t cnt;
	uint8_t location[VALUES_MAX]; /* VALUE_XMM(r), VALUE_GPR(r), VALUE_SLOT */
	uint8_t size;                 /* bytes of each that count */
	int32_t slot;                 /* VALUE_SLOT: less rsp at the entry */
};
#define VALUE_XMM(r) (r)
#define VALUE_GPR(r) (16 + (r))
#define VALUE_SLOT 32

void value_locations__free(struct value_locations *v);
/* Analyses the part of the function that can be reached from there. */
int value_locations__run(struct value_locations *v, const struct flow *f,
			 const struct value_seeds *seeds);

struct value_location {
	bool in_memory;
	uint8_t reg; /* encoding number: the register, or the base of the slot (RSP, RBP) */
	int32_t disp;
};

/* A location that the kernel lets a probe on that node read: a slot, else a register that calls
 * keep. */
bool value_locations__find(const struct value_locations *v, uint32_t node, uint32_t value,
			   struct value_location *out);
/* Is the value in this location there? */
bool value_locations__is_at(const struct value_locations *v, uint32_t node, uint32_t value,
			    uint8_t location);

/* Is the value in the stack word so far above rsp there? */
bool value_locations__is_on_stack(const struct value_locations *v, uint32_t node, uint32_t value,
				  int32_t above);

/* Does the instruction load this location from a slot of the frame? *slot: as in value_seeds. */
bool value_locations__loads(const struct value_locations *v, const struct flow *f, uint32_t node,
			    uint8_t location, int32_t *slot);

#endif /* CODE_CODE_H */
