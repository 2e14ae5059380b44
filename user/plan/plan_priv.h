/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* How the plan of a library is built. */
#ifndef PLAN_PLAN_PRIV_H
#define PLAN_PLAN_PRIV_H

#include "base/containers.h"
#include "code/code.h"
#include "code/flow.h"
#include "plan/plan.h"

/* Which symbols of PyTorch's libraries the plan asks for, and which of their functions matter when
 * they are called. */

/* Flags of callees, beside those of code.h. */
#define CALLEE_GET_CALLBACKS 0x0001u /* at::getStepCallbacksUnlessEmpty(RecordScope) */
#define CALLEE_RF_CALLBACKS 0x0002u  /* RecordFunction::RecordFunction(StepCallbacks&&) */
#define CALLEE_RF_SCOPE 0x0004u      /* RecordFunction::RecordFunction(RecordScope) */
#define CALLEE_FIND_SCHEMA 0x0008u   /* Dispatcher::findSchemaOrThrow(char const*, char const*) */
#define CALLEE_TLS 0x0010u           /* __tls_get_addr */
#define CALLEE_PYTHON 0x0020u        /* PyObject_Call*, PyObject_Vectorcall*: runs Python code */
#define CALLEE_CHEAP 0x0040u         /* frees memory: need not be measured */
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
	TOPIC_NODE_OWNER,     /* a function with a pointer to Node among its parameters */
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
 * The names of operators, from two independent sources. The code: at::_ops::X::call reaches
 * findSchemaOrThrow(name, overload) with two literals. The schema texts in the read-only data
 * ("add.Tensor(Tensor self, ...) -> Tensor"), matched to X by the rule that the class is called
 * base name + "_" + overload. Only reads.
 */

#define OP_NAME_MAX 256

/* From the code. The graph must be that of X::call; aux is used for the function that it calls. */
struct op_name_a {
	char name[OP_NAME_MAX]; /* "aten::add.Tensor", "" if not found */
	uint64_t handle;        /* address of the static handle, 0 if not found */
};
void op_names__from_code(struct lib_code *lc, const struct flow *f, struct flow *aux,
			 struct op_name_a *out);

/* From schema texts. */
struct op_texts;

void op_texts__new(const struct lib_code *lc, struct op_texts **out);
void op_texts__free(struct op_texts *t);
uint32_t op_texts__cnt(const struct op_texts *t); /* distinct names */

enum op_text_match {
	OP_TEXT_NONE,
	OP_TEXT_ONE,  /* one reading of the class name: *name is it */
	OP_TEXT_MORE, /* several: *name is one of them */
};
/*
 * Looks for the class ("add_Tensor"). With a name from the code in `want`: does one of the readings
 * equal it (*agrees)? name: without namespace, OP_NAME_MAX bytes.
 */
enum op_text_match op_texts__find(const struct op_texts *t, const char *cls, size_t cls_len,
				  const char *want, bool *agrees, char *name);

/* A text's argument list and results, from '(' on; not terminated. */
struct op_text_args {
	const char *text;
	size_t len;
	bool whole;      /* not the tail of a longer text */
	bool name_space; /* it stood behind "aten::": without defaults, often */
};

#define OP_TEXT_ARGS_MAX 8

/* All texts of the operator ("add.Tensor", without namespace). Returns how many. */
uint32_t op_texts__args(const struct op_texts *t, const char *name,
			struct op_text_args args[OP_TEXT_ARGS_MAX]);

/*
 * A plan while it is made: grows its tables, and analyses one function at a time with scratch
 * memory that is kept between functions. Knows what a site is, not which functions deserve one.
 */

struct plan_build {
	struct torch_plan *plan;
	uint32_t func_cap, site_cap, class_cap, prog_cap;
	struct hashmap progs; /* hashes of an argument program -> index + 1 */
	struct flow flow, aux;
	struct exit_finder finder;
	struct lib_code *lc;      /* library that is being analysed */
	enum torch_lib_role role; /* of it */
	/* index + 1 of the function whose calls are probed instead (seq_sites.c) */
	uint32_t seq_func;
};

void plan_build__init(struct plan_build *b, struct torch_plan *plan);
void plan_build__free(struct plan_build *b);

/* Appends a function; the name is copied. addr 0: this build lacks it, and the user learns of
 * that. */
void plan_build__func(struct plan_build *b, const char *name, uint64_t addr,
		      enum ptb_func_kind kind, enum ptb_refusal reason);
/* Index of the function that was appended last. */
static inline uint32_t plan_build__last(const struct plan_build *b)
{
	return b->plan->func_cnt - 1;
}
/* Appends a site at an instruction; args: as of struct plan_site. */
int plan_build__site(struct plan_build *b, uint32_t func, const struct insn *in, enum ptb_prog prog,
		     enum ptb_site_role role, uint32_t args);
/* Appends the exits, if there are any, of the last function. */
int plan_build__exits(struct plan_build *b, const struct exit_sites *ex, enum ptb_prog prog,
		      uint32_t args);
void plan_build__class(struct plan_build *b, uint64_t addr, const char *name);
void plan_build__caller(struct plan_build *b, uint64_t addr, const char *name);
/* Keeps an argument program once; *args: what its sites say. */
void plan_build__prog(struct plan_build *b, const struct ptb_arg_prog *prog, uint32_t *args);
/* Sorts the sites; of two at the same place the first function keeps it. */
void plan_build__sort_sites(struct torch_plan *plan);

/* Builds the graph in b->flow and finds the entry's site (entry_site__find). *why: NONE, or why
 * there is none. */
void plan_build__entry(struct plan_build *b, uint64_t addr, uint32_t args, uint32_t *node,
		       enum ptb_refusal *why);

/* Marks in b->finder.work the calls of b->flow whose end is the function's end. */
typedef void (*mark_work_fn)(struct plan_build *b);

/* How one function is to be probed. */
struct func_probe {
	const char *name;
	uint64_t entry;
	enum ptb_func_kind kind;
	enum ptb_prog enter;
	mark_work_fn mark; /* NULL: entry only (role POINT) */
};

/* Analyses the function and adds it with its sites, or with the reason why it has none. Leaves its
 * graph in b->flow when the reason is NONE or NO_EXIT. */
int plan_build__probe(struct plan_build *b, const struct func_probe *fp);
/* The same with b->flow built already; why: what building it said. */
int plan_build__probe_built(struct plan_build *b, const struct func_probe *fp,
			    enum ptb_refusal why);

/* The rule for dispatched functions: after getStepCallbacksUnlessEmpty, indirect calls and calls of
 * functions that construct a RecordFunction from its result (the slow path). */
void plan_build__mark_kernel_calls(struct plan_build *b);
/* Marks what is reachable from calls with one of the flags and is itself a call with `work`. */
void plan_build__mark_after(struct plan_build *b, uint32_t anchors, uint32_t work, bool indirect);

/* Structure offsets that the programs need, each read from this build's own code or names. */

void layout__init(struct plan_layout *l);       /* everything unknown */
void layout__learn(struct plan_build *b);       /* from one library */
void layout__add_classes(struct plan_build *b); /* vtables of torch::autograd */
void layout__finish(struct plan_build *b);      /* after the last library */

/* Keeps the first reason why something is not known. */
void layout__refuse(char why[LAYOUT_WHY_SZ], const char *reason);
/* A member of an object of up to `max` bytes, found in one way; another one must give the same. */
void layout__agree(char why[LAYOUT_WHY_SZ], uint16_t *field, uint64_t off, uint64_t max,
		   const char *member, const char *object);

/*
 * Where things are in at::RecordFunction (struct ptb_rf_cfg), which the agent's callback is given:
 * derived from the code of one build, never from its version. Only what at least two witnesses
 * agree on, or one and the order of the members, is checked twice; if one field is in doubt, none
 * is used.
 */

void rf_layout__init(struct plan_layout *l);
/* Takes what b->lc has to say: libtorch_cpu. After layout.c has learnt the node's fields. */
void rf_layout__learn(struct plan_build *b, struct leaf_run *r);
/* When all libraries were heard: checks, and decides rf.size. */
void rf_layout__finish(struct plan_layout *l);

/* Can an agent work with it? Offsets within the object, in the order of the members. */
bool rf_layout__plausible(const struct ptb_rf_cfg *rf);

void rf_layout__print(const struct plan_layout *l, FILE *out);

/* Functions of libcudart and libcuda that a table names, each address once: two names of the same
 * code are one function, with the first name. */

struct cuda_sym {
	uint64_t addr;
	uint32_t row;
};

/* Is the symbol of a library in this role a name of the row? */
typedef bool (*cuda_row_fn)(enum torch_lib_role role, const char *symbol, uint32_t row);

struct cuda_syms {
	struct cuda_sym *items;
	uint32_t cnt, cap;
	enum torch_lib_role role;
	cuda_row_fn names;
	uint32_t row_cnt;
};

/* Items are the caller's to free. */
void cuda_syms__find(struct cuda_syms *cs, const struct plan_build *b, cuda_row_fn names,
		     uint32_t row_cnt);
bool cuda_syms__has(const struct cuda_syms *cs, uint64_t addr);

/*
 * Where a call of libcudart ends that is only asked of the driver: behind the last call through a
 * pointer, which is how libcudart calls the driver (it never links to it). Judges code, places
 * nothing.
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
 * The exits of the function in b->flow, or of the one that works for it, which is in b->flow then.
 * *result: at all of them eax is what the driver returned.
 */
void cuda_ends__find(struct cuda_ends *ce, struct exit_sites *ex, bool *result);

/* Marks in b->finder.work what may call the driver, of b->flow. */
void cuda_ends__mark(struct cuda_ends *ce);

/*
 * The functions that are probed, by kind. Each of these adds what the library b->lc has of one
 * kind, with its sites or the reason why it has none. All return 0 or negative errno.
 */

/* Operators: every at::_ops::X::call. */
int op_sites__add(struct plan_build *b);

/* What is no at::_ops::X::call: boxed calls, backward nodes, scopes, regions, custom autograd
 * functions, TorchScript, sequence numbers. After op_sites__add() of the same library. */
int special_sites__add(struct plan_build *b);

/* The functions where tensors end; of the library that has them. */
int special_sites__add_tensors(struct plan_build *b);

/* The functions that report memory: the reports of torch's allocators, and, by cuda_sites.c, the
 * memory calls of libcudart and libcuda. Only programs that record memory attach them (user/probe);
 * the plan has them always. */
int memory_sites__add(struct plan_build *b);
int cuda_sites__add(struct plan_build *b);

/* Launches, copies, fills and synchronisation of libcudart and libcuda. */
int cuda_calls__add(struct plan_build *b);

/* ---- private to special_sites.c and the files below ---- */

/* callback_sites.c: every caller of getStepCallbacksUnlessEmpty that is no at::_ops function: boxed
 * calls, backward nodes, typed calls of one operator, and the rest, listed by name. */
int callback_sites__add(struct plan_build *b);

/* scope_callers.c: literal names of the RECORD_FUNCTION macros in torch's own code. */
void scope_callers__add(struct plan_build *b);

/* pyargs_sites.c: scopes whose name and arguments are Python objects. */
int pyargs_sites__add(struct plan_build *b);

/* script_sites.c: TorchScript functions. Needs the layout's string ABI. */
int script_sites__add(struct plan_build *b);

/* seq_sites.c: the sequence number's increment and where the number is stored. */
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
