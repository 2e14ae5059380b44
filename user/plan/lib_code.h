/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * One library as the analysis sees it: its symbols by topic, what is known about each callee (by name
 * if it is imported, by its code if it is local), and the source of bytes for control-flow graphs.
 * Remembers answers; decides nothing about probes.
 */
#ifndef PLAN_LIB_CODE_H
#define PLAN_LIB_CODE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/hashmap.h"
#include "plan/flow.h"
#include "target/elf_file.h"
#include "target/torch_proc.h"

/* What is known about the target of a call. Low half: which function it is itself. */
#define CALLEE_GET_CALLBACKS 0x0001u /* at::getStepCallbacksUnlessEmpty(RecordScope) */
#define CALLEE_RF_CALLBACKS  0x0002u /* RecordFunction::RecordFunction(StepCallbacks&&) */
#define CALLEE_RF_SCOPE	     0x0004u /* RecordFunction::RecordFunction(RecordScope) */
#define CALLEE_FIND_SCHEMA   0x0008u /* Dispatcher::findSchemaOrThrow(char const*, char const*) */
#define CALLEE_TLS	     0x0010u /* __tls_get_addr */
#define CALLEE_PYTHON	     0x0020u /* PyObject_Call*, PyObject_Vectorcall*: runs Python code */
#define CALLEE_CHEAP	     0x0040u /* frees memory: need not be measured */
#define CALLEE_SEQ	     0x0080u /* at::sequence_number::get_and_increment() */
#define CALLEE_NORETURN	     0x0100u
#define CALLEE_LOCAL	     0x0200u /* a function of this library whose code was looked at */
#define CALLEE_OPERATOR	     0x1000u /* at::_ops::X::call, redispatch */
#define CALLEE_INTERPRETER   0x2000u /* torch::jit::InterpreterState::run */
#define CALLEE_KNOWN	     0x0400u
#define CALLEE_RF_BEFORE     0x0800u /* RecordFunction::before(...) */
/* High half: what the function calls in turn. */
#define CALLEE_IN(flag) ((flag) << 16)

enum sym_topic {
	TOPIC_OPS,	     /* functions of at::_ops */
	TOPIC_GET_CALLBACKS, /* at::getStepCallbacksUnlessEmpty */
	TOPIC_BOXED,	     /* c10::Dispatcher::callBoxed and its local clones */
	TOPIC_EVALUATE,	     /* torch::autograd::Engine::evaluate_function */
	TOPIC_NODE_CALL,     /* torch::autograd::Node::operator() */
	TOPIC_SCOPE_NEW,     /* torch::autograd::profiler::record_function_enter_new */
	TOPIC_RF_SCOPE,	     /* at::RecordFunction::RecordFunction(RecordScope) */
	TOPIC_RF_END,	     /* at::RecordFunction::end */
	TOPIC_RF_BEFORE,     /* at::RecordFunction::before, all overloads */
	TOPIC_REGION,	     /* _pytorch_record_function_enter_with_context */
	TOPIC_PYFUNC,	     /* THPFunction_apply */
	TOPIC_SCRIPT,	     /* torch::jit::GraphExecutor::run */
	TOPIC_CATCH,	     /* __cxa_begin_catch */
	TOPIC_SEQ,	     /* at::sequence_number::get_and_increment */
	TOPIC_PYNODE_NAME,   /* torch::autograd::PyNode::name */
	TOPIC_NODE_OWNER,    /* a function with a pointer to Node among its parameters */
	TOPIC_VTABLE,	     /* vtables of torch::autograd */
	TOPIC_OP_GONE,	     /* c10::Dispatcher::deregisterDef_ */
	TOPIC_SINGLETON,     /* c10::Dispatcher::singleton()::s */
	TOPIC_CDATA,	     /* THPVariable_get_cdata: the attribute _cdata of torch.Tensor */
	TOPIC_MEM_NEW,	     /* c10::ProfiledCPUMemoryReporter::New */
	TOPIC_MEM_DELETE,    /* c10::ProfiledCPUMemoryReporter::Delete */
	TOPIC_MEM_CPU_OOM,   /* c10::ProfiledCPUMemoryReporter::OutOfMemory */
	TOPIC_MEM_REPORT,    /* c10::reportMemoryUsageToProfiler */
	TOPIC_MEM_OOM,	     /* c10::reportOutOfMemoryToProfiler */
	TOPIC_TENSOR_END,    /* c10::TensorImpl::~TensorImpl */
	TOPIC_TENSOR_RELEASE, /* c10::TensorImpl::release_resources */
	TOPIC_CNT
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
	uint64_t at;	/* the call instruction, by its bytes: decode before relying on it */
	uint32_t flags; /* CALLEE_* of its target, low half */
};

struct lib_code {
	const struct elf_file *ef;
	enum torch_lib_role role;
	struct code_src src;
	struct sym_list topics[TOPIC_CNT];
	bool has_symtab;	/* local functions have names */
	struct hashmap cold;	/* start of a .cold part -> 1 */
	struct hashmap by_name; /* hash of a mangled name -> address of the exported function */
	struct hashmap callees; /* address of a callee -> CALLEE_* */
	uint64_t text_start, text_end; /* executable bytes of the file */
	struct call_site *sites; /* all calls of what lib_code__all_calls() looks for */
	uint32_t site_cnt, site_cap;
	bool sites_known;
};

int lib_code__init(struct lib_code *lc, const struct elf_file *ef, enum torch_lib_role role);
void lib_code__free(struct lib_code *lc);

/* CALLEE_* of a call's target, looking through the PLT. */
uint32_t lib_code__callee(struct lib_code *lc, uint64_t target);

/* Address of an exported function by its mangled name, 0: not defined here. */
uint64_t lib_code__function(const struct lib_code *lc, const char *name);

/*
 * Calls fn for every direct call (e8) in [start, end) that reaches a function with one of the
 * flags (low half). By bytes, not by decoding: four bytes of displacement must fit, but the caller
 * decodes before relying on one.
 */
typedef void (*call_fn)(void *arg, uint64_t at, uint32_t flags);
void lib_code__scan_calls(struct lib_code *lc, uint64_t start, uint64_t end, uint32_t flags,
			  call_fn fn, void *arg);

/* Finds, once, all calls of CALLEE_GET_CALLBACKS, CALLEE_RF_SCOPE and CALLEE_SEQ in the library, in
 * lc->sites by address. 0 or -ENOMEM. */
int lib_code__all_calls(struct lib_code *lc);

/* Sets the names of a list of addresses, sorted by address, that have a symbol. */
void lib_code__name_addrs(const struct lib_code *lc, struct addr_name *list, uint32_t cnt);

/* Constant data of the file; NULL when out of it. */
const uint8_t *lib_code__data(const struct lib_code *lc, uint64_t addr, uint64_t len);
/* A NUL-terminated text of fewer than max bytes in constant data; NULL if there is none. */
const char *lib_code__text(const struct lib_code *lc, uint64_t addr, uint64_t max);

#endif /* PLAN_LIB_CODE_H */
