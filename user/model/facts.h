/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What the control records say: names, functions, sites, operators by address, processes, threads,
 * losses. Read once, before the first slice. Owns every text that a slice points to.
 */
#ifndef MODEL_FACTS_H
#define MODEL_FACTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/containers.h"
#include "model/session.h"

/*
 * Python stacks of a capture: distinct frames and distinct stacks, numbered from 1. Read once,
 * before the first slice; session.h has what sinks see of them. Must not know which slice has which
 * stack.
 */

struct facts;
struct strtab;

struct py_stacks {
	struct strtab *frames;       /* struct raw_frame -> number */
	struct py_frame_fact *facts; /* by number - 1; NAME ids */
	uint32_t fact_cap;
	struct strtab *stacks;     /* struct raw_stack -> number */
	struct py_module *modules; /* those whose calls are frames */
	uint32_t module_cnt, module_cap;
	struct hashmap module_ids; /* frame of PTB_PY_CLASS -> index */
	struct hashmap by_id;      /* (tgid, id) -> number; 0: of two different ones */
	uint64_t bad_records;
	bool seen; /* some thread's stack was recorded */
};

/* The records that say what there is. */
void py_stacks__line(struct py_stacks *ps, const struct ptb_py_line *r);
void py_stacks__define(struct py_stacks *ps, const struct ptb_py_stack_def *r);
/* After the last definition, which come in no order: numbers the modules of each class. */
void py_stacks__number_modules(struct py_stacks *ps);
void py_stacks__clear(struct py_stacks *ps);

/* Number of the process's stack; 0: it is not defined, or not clear which one it is. */
uint32_t py_stacks__find(const struct py_stacks *ps, uint32_t tgid, uint64_t id);
/* The id of a stack of which not even the innermost frame could be read. */
bool py_stacks__is_unread(const struct py_stacks *ps, uint32_t tgid, uint64_t id);
struct py_frame py_stacks__frame(const struct py_stacks *ps, const struct facts *f, uint32_t frame);
struct py_stack py_stacks__stack(const struct py_stacks *ps, uint32_t stack);

/*
 * What torch's key_averages() says of a slice's inputs: their shapes as a text, and estimated
 * operations. Rules: pytorch torch/csrc/profiler/collection.cpp, torch/csrc/profiler/util.cpp.
 * Private to the model.
 */

struct shapes_text {
	char *text; /* NUL-terminated */
	uint32_t len, cap;
};

/* Makes st->text str(event.input_shapes): "[[2, 3], []]". */
void input_shapes__text(const struct slice *sl, struct shapes_text *st);
/* Floating point operations by torch's formulas; 0 for what has none or cannot be computed. */
uint64_t input_shapes__flops(const struct slice *sl);

struct capture_reader;

#define TS_MAX (1ULL << 62) /* ns; a clock that says more is a damaged record */

/* How an operator's slices look; the same for functions and for operators known by address. */
struct op_name {
	const char *name;     /* interned: equal names are equal pointers */
	const char *overload; /* "" if none */
	const char *full;     /* name.overload */
	const char *schema;   /* as torch prints it, "" if not known */
	bool hidden; /* torch never shows it: no slice, its children belong to the outer one */
	bool hides_children; /* nor anything below it: torch's own record_function operators */
	bool is_address;     /* the name could not be resolved */
};

struct func_fact {
	struct op_name op;
	uint32_t kind; /* enum ptb_func_kind, 0: no such function */
	uint32_t name; /* name id, resolved when all control records were read */
	uint32_t reason;
	uint32_t lib;    /* id in texts of its library's path */
	uint32_t schema; /* name id */
	bool has_exit;
	bool has_node_call; /* NODE: a NODE_CALL function is probed in the same library */
};

struct site_fact {
	uint32_t func; /* index into funcs, 0: none */
	uint32_t role;
	uint32_t lib;
};

struct addr_fact { /* OPDEF, NODE_TYPE */
	uint64_t addr;
	uint64_t ts_ns; /* OPDEF: when it was read; with PTB_OPDEF_GONE: until when it was so */
	uint32_t tgid, name, flags;
	/* OPDEF: index + 1 of the operator that was read at the address before, 0: nothing; until
	 * resolved */
	uint32_t older;
	struct op_name op; /* OPDEF */
	const char *inner; /* NODE_TYPE: "AddmmBackward0" */
	const char *outer; /* NODE_TYPE: "autograd::engine::evaluate_function: AddmmBackward0" */
};

/* The operators of one address: opdefs[opdefs_gone[first .. first + cnt)] left it, in order of
 * time; opdefs[last - 1] came after the last of them. */
struct opdef_history {
	uint32_t last; /* 0: not known */
	uint32_t first, cnt;
};

struct facts {
	struct strtab *texts;
	uint32_t *names; /* by name id: id in texts */
	uint32_t name_cnt, name_cap;
	/* name id -> id in texts of what names has cut at LIMIT_NAME_BYTES */
	struct hashmap long_names;
	struct func_fact *funcs; /* by function id; [0] unused */
	uint32_t func_cnt, func_cap;
	struct site_fact *sites; /* by site id; [0] unused */
	uint32_t site_cnt, site_cap;
	struct addr_fact *opdefs, *node_types;
	uint32_t opdef_cnt, opdef_cap, node_type_cnt, node_type_cap;
	/* (tgid, addr) -> index of the newest; when resolved, of opdefs the index in
	 * opdef_histories */
	struct hashmap opdef_by_addr, node_by_addr;
	struct opdef_history *opdef_histories;
	uint32_t *opdefs_gone;       /* see struct opdef_history */
	struct hashmap split_names;  /* (interned full name, 0: name, 1: overload) -> those texts */
	uint32_t opdefs_left;        /* some operators left the dispatcher */
	struct hashmap thread_comm;  /* (tgid, tid) -> id in texts */
	struct hashmap thread_name;  /* the same of the names that Python gives */
	struct hashmap bad_layout;   /* (tgid, 0): what was read of its arguments means nothing */
	struct hashmap caller_name;  /* (tgid, return address) -> name id */
	struct hashmap kernel_name;  /* (tgid, host address of a kernel) -> name id */
	struct hashmap opdef_schema; /* (tgid, OperatorDef*) -> name id */
	struct session_keys *keys;
	uint32_t keys_cnt, keys_cap;
	struct hashmap keys_by_tgid; /* tgid -> index */
	struct hashmap metas;        /* id of a key in texts -> that of its last value */
	struct session_process *processes;
	uint32_t *process_names; /* comm, cmdline, exe name ids of each process, until resolved */
	uint32_t process_cnt, process_cap, process_name_cap;
	struct hashmap process_by_tgid; /* tgid -> index */
	struct hashmap job_by_tgid;     /* tgid -> id in texts */
	struct hashmap native_stacks;   /* (tgid, tid) -> id in texts */
	struct hashmap native_ns;       /* (tgid, tid) -> when that was read */
	bool joined;                    /* several captures are read as one */
	struct ptb_origin *origins;
	uint32_t origin_cnt, origin_cap;
	struct session_lost *lost; /* sorted by begin */
	uint32_t lost_cnt, lost_cap;
	struct session_rss *rss; /* sorted by time */
	uint32_t rss_cnt, rss_cap;
	struct session_refusal *refusals;
	uint32_t refusal_cnt, refusal_cap;
	uint64_t counters[256];
	uint64_t begin_ns, end_ns; /* of the WINDOW records, 0: none */
	uint32_t stop_reason;
	uint64_t bad_records;
	int64_t mono_to_unix_ns;
	uint64_t clock_err_ns;
	uint32_t clock_cnt;
	uint32_t probed_funcs, probed_sites;
	struct py_stacks py;
};

int facts__read(struct facts *f, struct capture_reader *cr); /* 0 or negative errno */
void facts__clear(struct facts *f);

/* Interned text of a name id of the capture; "" if there is no such. */
const char *facts__name(const struct facts *f, uint32_t id);
/* Interned text. */
const char *facts__intern(struct facts *f, const char *text, size_t len);
/* The operator at the address at that time: another one may have had it before. NULL: not known. */
const struct addr_fact *facts__opdef(const struct facts *f, uint32_t tgid, uint64_t addr,
				     uint64_t ts_ns);
/* The class of the node; NULL: not known. */
const struct addr_fact *facts__node_type(const struct facts *f, uint32_t tgid, uint64_t vptr);
/* The literal that the RECORD_FUNCTION macro returning to addr names its scope with; NULL: none. */
const char *facts__caller(const struct facts *f, uint32_t tgid, uint64_t addr);
/* Name id of what CUDA launches by this host address; 0: not known. */
uint32_t facts__kernel(const struct facts *f, uint32_t tgid, uint64_t addr);
/* When the window of the process began and ended: of several captures each has its own; else
 * that time. */
uint64_t facts__begin_of(const struct facts *f, uint32_t tgid, uint64_t begin_ns);
/* When the process lost its probes; UINT64_MAX: it did not. */
uint64_t facts__unprobed(const struct facts *f, uint32_t tgid);
uint64_t facts__end_of(const struct facts *f, uint32_t tgid, uint64_t end_ns);
/* What the bits of key sets mean in that process; never NULL. */
const struct session_keys *facts__keys(const struct facts *f, uint32_t tgid);
/* META record by key, its last value; NULL if absent. */
const char *facts__meta(const struct facts *f, const char *key);
/* The text that it holds, the caller's to free; NULL if absent, or no text. */
char *facts__meta_dup(const struct facts *f, const char *key);
/* Was a function of this kind and name (NULL: any) probed, in whatever process? */
bool facts__has_func(const struct facts *f, enum ptb_func_kind kind, const char *name);
const struct site_fact *facts__site(const struct facts *f, uint32_t site); /* NULL: not known */

/* "0x7f.." names for what has no other; interned. */
const char *facts__address_name(struct facts *f, const char *what, uint64_t addr);
/* Class name -> the two names of its backward slices. */
void facts__node_names(struct facts *f, const char *cls, size_t len, const char **outer,
		       const char **inner);
/* Is it the name of a backward node's slice, or the begin of it? */
bool facts__names_node(const char *text, size_t len);
/* How a process ended, as wait() reports it. */
void facts__process_ended(struct facts *f, uint32_t tgid, uint32_t status);
/* Remembers a thread's name unless a control record gave one; comm as in struct ptb_task. */
void facts__thread_seen(struct facts *f, uint32_t tgid, uint32_t tid, const char comm[16]);

#endif /* MODEL_FACTS_H */
