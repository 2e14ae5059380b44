/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Plans of libraries and processes: what is probed in them, and where. */
#ifndef PLAN_PLAN_H
#define PLAN_PLAN_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "ptb_agent.h"
#include "ptb_probe.h"
#include "target/elf.h"
#include "target/torch.h"

/*
 * What a plan was made from, and so what it is valid for: the content of the files of all roles, by
 * its hash, and this build of ptbpf. A build-id proves nothing, since the file's owner writes it;
 * nor does an identity, which the owner of a file system chooses.
 */

struct plan_key {
	/* false: a library is known by its name only; then the plan is for nothing else */
	bool known;
	uint8_t digest[FILE_HASH_SZ], hashes[TORCH_LIB_ROLES][FILE_HASH_SZ];
	struct file_id files[TORCH_LIB_ROLES];
};

/*
 * Of the files that tp has open. Each file is read wholly, but for those whose hash is remembered:
 * in this process where the identity is lasting (elf.h), and of files on disks in the cache's
 * directory if cache is true (dir NULL: PLAN_CACHE_DIR). 0 or negative errno (logged).
 */
int plan_key__get(const struct torch_lib *libs, bool cache, const char *dir, struct plan_key *key);
bool plan_key__same(const struct plan_key *a, const struct plan_key *b);
/* Are tp's files still those of the key? A change since says that something else may have been
 * read. */
bool plan_key__holds(const struct torch_lib *libs, const struct plan_key *key);

/*
 * The plan: which functions of a set of torch libraries are probed where, under which name, or why
 * not. A pure function of the libraries' bytes (plus, in proc_plan, of a few values read from the
 * live process); places nothing. Cached, and shared by processes, for the very same bytes only.
 */

struct proc_ops;

#define PLAN_INSN_MAX 15
#define LAYOUT_WHY_SZ 128

struct plan_site {
	uint64_t offset;              /* file offset, what the kernel wants */
	uint32_t func;                /* index into torch_plan.funcs */
	uint8_t lib;                  /* enum torch_lib_role */
	uint8_t prog;                 /* enum ptb_prog */
	uint8_t role;                 /* enum ptb_site_role */
	uint8_t insn;                 /* first opcode byte, for --dry-run */
	uint8_t len;                  /* of the instruction, ... */
	uint8_t bytes[PLAN_INSN_MAX]; /* which must be there when the site is probed */
	/* 1 + index into torch_plan.progs, 0: none; of API_ENTER, API_EXIT: PTB_API_ARGS() */
	uint32_t args;
};

struct plan_func {
	char *name;     /* "aten::add.Tensor"; "callBoxed"; "Engine::evaluate_function"; ... */
	uint64_t addr;  /* ELF vaddr */
	uint8_t lib;    /* enum torch_lib_role */
	uint8_t kind;   /* enum ptb_func_kind */
	uint8_t reason; /* enum ptb_refusal; REFUSE_NO_EXIT with sites present: entry only */
	/* OP: vaddr of the static handle, from the code; its *(u64*) is the OperatorDef* */
	uint64_t handle;
	char *schema;      /* OP: its schema as torch prints it, NULL: not known */
	uint16_t unplaced; /* OP: arguments and results whose place is not known */
};

enum plan_addr_what {
	PLAN_ADDR_CLASS,  /* vptr (ELF vaddr of vtable + 16) of a Node class: its demangled name */
	PLAN_ADDR_CALLER, /* return address of a RECORD_FUNCTION macro's constructor: its literal */
};

struct plan_addr_name {
	uint64_t addr;
	char *name;
	uint8_t lib;
	uint8_t what; /* enum plan_addr_what */
};

/* What was derived from the code about structures; the process part is added by
 * proc_cfg__fill(). */
struct plan_layout {
	uint16_t node_seq_off, node_thread_off, pynode_obj_off, script_name_off, string_ivalue_off;
	bool old_string_abi;
	uint8_t boxed_handle_reg;
	bool scope_from_boxed; /* record_function's text must be read from the boxed stack (1.13) */
	/* vaddr in libtorch_cpu of {module id, offset} for __tls_get_addr, 0: none */
	uint64_t seq_tls_got;
	uint64_t seq_tls_disp; /* added to the offset found there */
	uint64_t pynode_vptr;  /* vaddr in libtorch_python, 0: none */
	/* vaddr of c10::Dispatcher::singleton()::s, 0: none */
	uint64_t singletons[TORCH_LIB_ROLES];
	/* Arguments. Offsets, tags and masks are final; addresses and TLS modules are filled per
	 * process from the places below. tensor.shapes_on is 0 when something essential could not
	 * be derived. */
	struct ptb_tensor_cfg tensor;
	struct ptb_keys keys;    /* masks only */
	uint64_t undefined_impl; /* vaddr in libc10 of UndefinedTensorImpl::_singleton */
	uint64_t grad_tls_got,
		keys_tls_got; /* vaddrs in libc10, as seq_tls_got; offsets are tensor.*_tls_off */
	uint64_t variable_class;   /* vaddr in libtorch_python of THPVariableClass, a pointer */
	uint64_t parameter_class;  /* ... of ParameterClass, a pointer, which is nn.Parameter */
	uint16_t variable_off;     /* THPVariable: TensorImpl* */
	uint64_t interned_strings; /* vaddr in libtorch_cpu of c10::globalStrings()::s, 0: none */
	/* no NODE_CALL function: a node's inputs are read at NODE_ENTER */
	bool node_inputs_from_buffer;
	char no_shapes_why[LAYOUT_WHY_SZ]; /* when tensor.shapes_on is 0: a sentence */
	struct ptb_rf_cfg rf;          /* at::RecordFunction, for the agent; size 0: not derived */
	char no_rf_why[LAYOUT_WHY_SZ]; /* then: a sentence */
};

struct torch_plan {
	struct plan_func *funcs;
	uint32_t func_cnt;
	struct plan_site *sites; /* sorted by (lib, offset); unique */
	uint32_t site_cnt;
	struct plan_addr_name *classes; /* and callers: addresses that have names */
	uint32_t class_cnt;
	struct ptb_arg_prog *progs; /* argument programs, each once */
	uint32_t prog_cnt;
	struct plan_layout layout;
	uint32_t names_a, names_b_only, names_disagree; /* how the operators' names were found */
	bool from_cache;
	struct plan_key key; /* what it is valid for */
	/* OperatorEntry::is_observed_, once a live process was read; 0: not known */
	uint32_t observed_off;
};

struct plan_opts {
	bool use_cache;             /* default true */
	const char *cache_dir;      /* NULL: /var/cache/ptbpf */
	const struct plan_key *key; /* of the libraries; NULL: not known yet */
};

/* Analyses libraries that belong together (or reads the cache): libs is an array by role, of all of
 * PyTorch's in a process or of one of CUDA's. 0 or negative errno, logged. -ENOTSUP: a torch build
 * without any usable site; -ESTALE: a file was written meanwhile. *out owned by the caller. */
int torch_plan__new(const struct torch_lib *libs, const struct plan_opts *opts,
		    struct torch_plan **out);
void torch_plan__free(struct torch_plan *plan);

/* The facts that the BPF programs need for one live process. Reads a few words of its memory. */
void proc_cfg__fill(struct proc_ops *po, bool args, struct ptb_proc_cfg *cfg);

/* One more libcudart of the process; beyond PTB_CUDART_MAX of them its driver calls are recorded
 * beside its own. */
void proc_cfg__cudart(const struct torch_lib *lib, struct ptb_proc_cfg *cfg);

/* What the agent in the process must know: the same tensors, and RecordFunction. */
void proc_cfg__agent(struct proc_ops *po, struct ptb_agent_cfg *cfg);

/* Is the function one that is probed only where memory is recorded? */
static inline bool plan_func__is_memory(const struct plan_func *pf)
{
	return pf->kind == PTB_FUNC_ALLOCATOR || pf->kind == PTB_FUNC_CUDA_MEMORY;
}

/* Is it one that is probed only where identities of tensors are recorded? */
static inline bool plan_func__is_tensor(const struct plan_func *pf)
{
	return pf->kind == PTB_FUNC_TENSOR;
}

/* Is it one that is probed only where CUDA calls are recorded from the host's side? */
static inline bool plan_func__is_cuda_call(const struct plan_func *pf)
{
	return pf->kind == PTB_FUNC_CUDA_CALL;
}

/* --dry-run: every probe and every refusal with its reason, and a summary, as text. */
void torch_plan__print(const struct torch_plan *plan, const struct torch_lib *libs, FILE *out);

/*
 * Libraries whose analysis took long and failed: for an hour they are not analysed again, so that
 * one of them costs its minutes once, not for each process that maps it. Remembered in this
 * process.
 */

/* The error; 0: none is known. */
int plan_failures__find(const struct plan_key *key, uint64_t now_ns);
/* The analysis failed after took_ns. */
void plan_failures__note(const struct plan_key *key, int err, uint64_t took_ns, uint64_t now_ns);

/* The operators of one live process, read once for all who need them while ptbpf attaches to it. */

struct proc_ops { /* the fields are proc_ops.c's, but for tp, plan and cost_ns */
	const struct torch_proc *tp;
	struct torch_plan *plan; /* its observed_off is set by the first process that is read */
	uint64_t cost_ns;        /* what it took to read the table */
	bool table_read, schemas_read;
	int table_err, schemas_err;
	struct live_ops table;
	struct live_schema_layout schemas;
};

/* tp and plan are borrowed until proc_ops__free(). Reads nothing yet. */
void proc_ops__init(struct proc_ops *po, const struct torch_proc *tp, struct torch_plan *plan);
void proc_ops__free(struct proc_ops *po);

/* The run-time addresses of c10::Dispatcher::singleton()::s, for live_ops__read(). Returns their
 * number. */
uint32_t proc_ops__singletons(const struct torch_proc *tp, const struct torch_plan *plan,
			      uint64_t singletons[TORCH_LIB_ROLES]);

/* The dispatcher's table, read from the process at the first call. 0 or negative errno, the same at
 * every call. *out belongs to po. */
int proc_ops__table(struct proc_ops *po, const struct live_ops **out);

/* How to read schemas from the live process's dispatcher (live_schema__read()). 0, or negative
 * errno: its schemas do not have the layout that is understood. *out belongs to po. */
int proc_ops__schemas(struct proc_ops *po, const struct live_schema_layout **out);

/* From an OperatorDef to its FunctionSchema, which a RecordFunction names it by: bytes, the same
 * for all operators of the process; negative errno: not known. */
int64_t proc_ops__schema_offset(struct proc_ops *po);

#endif /* PLAN_PLAN_H */
