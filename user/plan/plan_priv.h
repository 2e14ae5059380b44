/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* How the plan of a library is made. */
#ifndef PLAN_PLAN_PRIV_H
#define PLAN_PLAN_PRIV_H

#include "base/containers.h"
#include "code/code.h"
#include "code/flow.h"
#include "plan/plan.h"

/* The symbols of PyTorch's libraries that the plan uses, and the functions whose calls matter. */

/* Flags of callees, in addition to those of code.h. */
#define CALLEE_GET_CALLBACKS 0x0001u /* at::getStepCallbacksUnlessEmpty(RecordScope) */
#define CALLEE_RF_CALLBACKS 0x0002u  /* RecordFunction::RecordFunction(StepCallbacks&&) */
#define CALLEE_RF_SCOPE 0x0004u      /* RecordFunction::RecordFunction(RecordScope) */
#define CALLEE_FIND_SCHEMA 0x0008u   /* Dispatcher::findSchemaOrThrow(char const*, char const*) */
#define CALLEE_TLS 0x0010u           /* __tls_get_addr */
#define CALLEE_PYTHON 0x0020u        /* PyObject_Call*, PyObject_Vectorcall*: runs Python code */
#define CALLEE_CHEAP 0x0040u         /* frees memory: not worth measuring */
#define CALLEE_SEQ 0x0080u           /* at::sequence_number::get_and_increment() */
#define CALLEE_OPERATOR 0x1000u      /* at::_ops::X::call, redispatch */
#define CALLEE_INTERPRETER 0x2000u   /* torch::jit::InterpreterState::run */
#define CALLEE_RF_BEFORE 0x0800u     /* RecordFunction::before(...) */

enum sym_topic {
	TOPIC_OPS,            /* functions of at::_ops */
	TOPIC_GET_CALLBACKS,  /* at::getStepCallbacksUnlessEmpty */
	TOPIC_BOXED,          /* c10::Dispatcher::callBoxed and its local clones */
	TOPIC_EVALUATE,       /* torch::autograd::Engine::evaluate_function */
	TOPIC_NODE_CALL,      /* torch::autograd::Node::operator() */
	TOPIC_SCOPE_NEW,      /* torch::autograd::profiler::record_function_enter_new */
	TOPIC_RF_SCOPE,       /* at::RecordFunction::RecordFunction(RecordScope) */
	TOPIC_RF_END,         /* at::RecordFunction::end */
	TOPIC_RF_BEFORE,      /* at::RecordFunction::before, all overloads */
	TOPIC_REGION,         /* _pytorch_record_function_enter_with_context */
	TOPIC_PYFUNC,         /* THPFunction_apply */
	TOPIC_SCRIPT,         /* torch::jit::GraphExecutor::run */
	TOPIC_CATCH,          /* __cxa_begin_catch */
	TOPIC_SEQ,            /* at::sequence_number::get_and_increment */
	TOPIC_PYNODE_NAME,    /* torch::autograd::PyNode::name */
	TOPIC_NODE_OWNER,     /* functions with a pointer to Node among their parameters */
	TOPIC_VTABLE,         /* vtables of torch::autograd */
	TOPIC_OP_GONE,        /* c10::Dispatcher::deregisterDef_ */
	TOPIC_SINGLETON,      /* c10::Dispatcher::singleton()::s */
	TOPIC_CDATA,          /* THPVariable_get_cdata: the attribute _cdata of torch.Tensor */
	TOPIC_MEM_NEW,        /* c10::ProfiledCPUMemoryReporter::New */
	TOPIC_MEM_DELETE,     /* c10::ProfiledCPUMemoryReporter::Delete */
	TOPIC_MEM_CPU_OOM,    /* c10::ProfiledCPUMemoryReporter::OutOfMemory */
	TOPIC_MEM_REPORT,     /* c10::reportMemoryUsageToProfiler */
	TOPIC_MEM_OOM,        /* c10::reportOutOfMemoryToProfiler */
	TOPIC_TENSOR_END,     /* c10::TensorImpl::~TensorImpl */
	TOPIC_TENSOR_RELEASE, /* c10::TensorImpl::release_resources */
	TOPIC_SLOW_PATH,      /* c10::Dispatcher::callWithDispatchKeySlowPath */
	TOPIC_CNT
};

extern const struct lib_names torch_names;

/*
 * Names of operators from two independent sources. In the code at::_ops::X::call reaches
 * findSchemaOrThrow(name, overload) with two literals. In read-only data there are schema texts
 * ("add.Tensor(Tensor self, ...) -> Tensor"), which belong to X if X is base name + "_" + overload.
 */

#define OP_NAME_MAX 256

/* Name from the code. The graph must be that of X::call; aux is used for the function that it
 * calls. */
struct op_name_a {
	char name[OP_NAME_MAX]; /* "aten::add.Tensor", "" if not found */
	uint64_t handle;        /* address of the static handle; 0: not found */
};
void op_names__from_code(struct lib_code *lc, const struct flow *f, struct flow *aux,
			 struct op_name_a *out);

/* Names from schema texts. */
struct op_texts;

void op_texts__new(const struct lib_code *lc, struct op_texts **out);
void op_texts__free(struct op_texts *t);
uint32_t op_texts__cnt(const struct op_texts *t); /* distinct names */

enum op_text_match {
	OP_TEXT_NONE,
	OP_TEXT_ONE,  /* one reading of the class name, *name */
	OP_TEXT_MORE, /* several readings, *name is one of them */
};
/*
 * Finds the class ("add_Tensor"). want: the name from the code; *agrees: one of the readings equals
 * it. name: without namespace, OP_NAME_MAX bytes.
 */
enum op_text_match op_texts__find(const struct op_texts *t, const char *cls, size_t cls_len,
				  const char *want, bool *agrees, char *name);

/* A text's argument list and results, from '(' on, not terminated. */
struct op_text_args {
	const char *text;
	size_t len;
	bool whole;      /* not the tail of a longer text */
	bool name_space; /* it is behind "aten::" and often has no defaults */
};

#define OP_TEXT_ARGS_MAX 8

/* All texts of the operator ("add.Tensor", without namespace). Returns their number. */
uint32_t op_texts__args(const struct op_texts *t, const char *name,
			struct op_text_args args[OP_TEXT_ARGS_MAX]);

/*
 * A plan under construction: its tables, and the analysis of one function at a time, with scratch
 * memory that is kept between functions.
 */

struct plan_build {
	struct torch_plan *plan;
	uint32_t func_cap, site_cap, class_cap, prog_cap;
	struct hashmap progs; /* hashes of an argument program -> 1 + index */
	struct flow flow, aux;
	struct exit_finder finder;
	struct lib_code *lc;      /* the library that is being analysed */
	enum torch_lib_role role; /* its role */
	/* 1 + index of the function whose calls are probed in its place (seq_sites.c) */
	uint32_t seq_func;
};

void plan_build__init(struct plan_build *b, struct torch_plan *plan);
void plan_build__free(struct plan_build *b);

/* Appends a function and copies the name. addr 0: this build lacks the function, which the user is
 * informed of. */
void plan_build__func(struct plan_build *b, const char *name, uint64_t addr,
		      enum ptb_func_kind kind, enum ptb_refusal reason);
/* Index of the function appended last. */
static inline uint32_t plan_build__last(const struct plan_build *b)
{
	return b->plan->func_cnt - 1;
}
/* Appends a site at an instruction; args: as in struct plan_site. */
int plan_build__site(struct plan_build *b, uint32_t func, const struct insn *in, enum ptb_prog prog,
		     enum ptb_site_role role, uint32_t args);
/* Appends the exits, if any, of the last function. */
int plan_build__exits(struct plan_build *b, const struct exit_sites *ex, enum ptb_prog prog,
		      uint32_t args);
void plan_build__class(struct plan_build *b, uint64_t addr, const char *name);
void plan_build__caller(struct plan_build *b, uint64_t addr, const char *name);
/* Adds an argument program unless the plan has it; *args: as in struct plan_site. */
void plan_build__prog(struct plan_build *b, const struct ptb_arg_prog *prog, uint32_t *args);
/* Sorts the sites; the first function keeps a site that is listed twice. */
void plan_build__sort_sites(struct torch_plan *plan);

/* Builds the graph in b->flow and finds the entry's site (entry_site__find). *why: NONE, or the
 * reason why there is none. */
void plan_build__entry(struct plan_build *b, uint64_t addr, uint32_t args, uint32_t *node,
		       enum ptb_refusal *why);

/* Marks in b->finder.work the calls of b->flow whose end is the function's end. */
typedef void (*mark_work_fn)(struct plan_build *b);

/* How to probe one function. */
struct func_probe {
	const char *name;
	uint64_t entry;
	enum ptb_func_kind kind;
	enum ptb_prog enter;
	mark_work_fn mark; /* NULL: entry only (role POINT) */
};

/* Analyses the function and adds it with its sites, or with the reason why it has none. Leaves its
 * graph in b->flow if the reason is NONE or NO_EXIT. */
int plan_build__probe(struct plan_build *b, const struct func_probe *fp);
/* Likewise with the graph that is in b->flow; why: the result of building it. */
int plan_build__probe_built(struct plan_build *b, const struct func_probe *fp,
			    enum ptb_refusal why);

/* Marks the work of dispatched functions: after getStepCallbacksUnlessEmpty, indirect calls and
 * calls of functions that construct a RecordFunction from its result (the slow path). */
void plan_build__mark_kernel_calls(struct plan_build *b);
/* Marks calls with `work` that are reachable from calls with one of the flags. */
void plan_build__mark_after(struct plan_build *b, uint32_t anchors, uint32_t work, bool indirect);

/* Structure offsets that the programs need. Each is read from this build's own code or names. */

void layout__init(struct plan_layout *l);       /* everything is unknown */
void layout__learn(struct plan_build *b);       /* from b->lc */
void layout__add_classes(struct plan_build *b); /* vtables of torch::autograd */
void layout__finish(struct plan_build *b);      /* after the last library */

/* Keeps the first reason why something is unknown. */
void layout__refuse(char why[LAYOUT_WHY_SZ], const char *reason);
/* Sets the offset of a member of an object of up to `max` bytes. A second derivation must give the
 * same. */
void layout__agree(char why[LAYOUT_WHY_SZ], uint16_t *field, uint64_t off, uint64_t max,
		   const char *member, const char *object);

/*
 * The layout of at::RecordFunction (struct ptb_rf_cfg) for the agent's callback. Derived from the
 * code of one build, never from its version. Each field needs two proofs, one of which may be the
 * order of the members. If one field is in doubt, none is used.
 */

void rf_layout__init(struct plan_layout *l);
/* Derives fields from libtorch_cpu (b->lc). Needs the node's fields of layout.c. */
void rf_layout__learn(struct plan_build *b, struct leaf_run *r);
/* After all libraries: checks the fields and decides rf.size. */
void rf_layout__finish(struct plan_layout *l);

/* Can an agent use it? Offsets must be within the object and in the order of the members. */
bool rf_layout__plausible(const struct ptb_rf_cfg *rf);

void rf_layout__print(const struct plan_layout *l, FILE *out);

/* Functions of libcudart and libcuda that a table names, each address once: of two names for the
 * same code the first counts. */

struct cuda_sym {
	uint64_t addr;
	uint32_t row;
};

/* Is the symbol, of a library in this role, a name of the row? */
typedef bool (*cuda_row_fn)(enum torch_lib_role role, const char *symbol, uint32_t row);

struct cuda_syms {
	struct cuda_sym *items;
	uint32_t cnt, cap;
	enum torch_lib_role role;
	cuda_row_fn names;
	uint32_t row_cnt;
};

/* The caller frees the items. */
void cuda_syms__find(struct cuda_syms *cs, const struct plan_build *b, cuda_row_fn names,
		     uint32_t row_cnt);
bool cuda_syms__has(const struct cuda_syms *cs, uint64_t addr);

/*
 * The ends of libcudart's calls that only ask the driver: behind the last call through a pointer,
 * since libcudart never links to the driver. Places no sites.
 */

struct cuda_ends {
	struct plan_build *b;
	/* address of a function -> 1: it may call through a pointer; 2: it does not */
	struct hashmap calls_out;
	uint64_t *todo;
	uint32_t todo_cap;
};

void cuda_ends__init(struct cuda_ends *ce, struct plan_build *b);
void cuda_ends__free(struct cuda_ends *ce);

/*
 * The exits of the function in b->flow, or of the function that works for it, which then is in
 * b->flow. *result: at each of them eax is the driver's result.
 */
void cuda_ends__find(struct cuda_ends *ce, struct exit_sites *ex, bool *result);

/* Marks in b->finder.work the nodes of b->flow that may call the driver. */
void cuda_ends__mark(struct cuda_ends *ce);

/*
 * Each of these adds the functions of one kind in b->lc, with their sites or the reason why they
 * have none. 0 or negative errno.
 */

/* Operators: every at::_ops::X::call. */
int op_sites__add(struct plan_build *b);

/* Other functions: boxed calls, backward nodes, scopes, regions, custom autograd functions,
 * TorchScript, sequence numbers. After op_sites__add() of the same library. */
int special_sites__add(struct plan_build *b);

/* Functions that end tensors, if b->lc has them. */
int special_sites__add_tensors(struct plan_build *b);

/* Reports of torch's allocators and, by cuda_sites.c, memory calls of libcudart and libcuda. The
 * plan always has them; user/probe attaches them only when memory is recorded. */
int memory_sites__add(struct plan_build *b);
int cuda_sites__add(struct plan_build *b);

/* Launches, copies, fills and synchronisation of libcudart and libcuda. */
int cuda_calls__add(struct plan_build *b);

/* ---- private to special_sites.c and the files below ---- */

/* Every caller of getStepCallbacksUnlessEmpty outside at::_ops: boxed calls, backward nodes, typed
 * calls of one operator, and the rest, which is only listed. */
int callback_sites__add(struct plan_build *b);

/* Literal names of the RECORD_FUNCTION macros in torch's own code. */
void scope_callers__add(struct plan_build *b);

/* Scopes whose name and arguments are Python objects. */
int pyargs_sites__add(struct plan_build *b);

/* TorchScript functions. Needs the layout's string ABI. */
int script_sites__add(struct plan_build *b);

/* The increment of the sequence number, and the location of the number. */
int seq_sites__add(struct plan_build *b);

/*
 * Plans on disk, one file per set of libraries, named after the plan's key, in a directory that is
 * root's alone (elf.h).
 */
#define PLAN_IMAGE_MAX (32u << 20) /* bytes of an encoded plan */

/* 0: *out is the cached plan; negative errno: there is none. */
int plan_cache__read(const struct plan_key *key, const char *dir, struct torch_plan **out);
/* Writes an encoded plan. After a failure the plan is made again the next time. */
void plan_cache__store(const struct plan_key *key, const char *dir, const uint8_t *data,
		       size_t len);
/* A plan as bytes; *out from malloc. */
void plan_cache__encode(const struct torch_plan *plan, uint8_t **out, size_t *len);
/* Trusts no byte: -EINVAL for any index or length that does not fit. */
int plan_cache__decode(const uint8_t *data, size_t len, struct torch_plan **out);

#endif /* PLAN_PLAN_PRIV_H */
