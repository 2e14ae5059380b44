/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Plans of libraries and processes: the sites of probes in them. */
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
 * What a plan was made from and is valid for: the content of the files of all roles, by its hash,
 * and this build of ptbpf. The file's owner writes its build-id, and the owner of a file system
 * chooses identities, so neither counts.
 */

struct plan_key {
	/* false: a library is known only by its name, and the plan is valid for this use only */
	bool known;
	uint8_t digest[FILE_HASH_SZ], hashes[TORCH_LIB_ROLES][FILE_HASH_SZ];
	struct file_id files[TORCH_LIB_ROLES];
};

/*
 * The key of open files. Reads each file as a whole unless its hash is remembered: in this process
 * if the identity is lasting (elf.h), and for files on disks in the cache's directory if cache is
 * true (dir NULL: PLAN_CACHE_DIR). 0 or negative errno (logged).
 */
int plan_key__get(const struct torch_lib *libs, bool cache, const char *dir, struct plan_key *key);
bool plan_key__same(const struct plan_key *a, const struct plan_key *b);
/* Are these still the files of the key? After a change something else may have been read. */
bool plan_key__holds(const struct torch_lib *libs, const struct plan_key *key);

/*
 * Which functions of a set of torch libraries are probed, at which sites and under which names, and
 * which are refused. Depends only on the libraries' bytes (proc_cfg__fill() adds a few values of
 * the living process). Cached, and shared by processes, for the same bytes only.
 */

struct proc_ops;

#define PLAN_INSN_MAX 15
#define LAYOUT_WHY_SZ 128

struct plan_site {
	uint64_t offset; /* in the file, as the kernel expects it */
	uint32_t func;   /* index into torch_plan.funcs */
	uint8_t lib;     /* enum torch_lib_role */
	uint8_t prog;    /* enum ptb_prog */
	uint8_t role;    /* enum ptb_site_role */
	uint8_t insn;    /* first opcode byte, for --dry-run */
	uint8_t len;     /* of the instruction */
	/* the instruction itself, which must be there when the site is probed */
	uint8_t bytes[PLAN_INSN_MAX];
	/* 1 + index into torch_plan.progs; 0: none. API_ENTER, API_EXIT: PTB_API_ARGS(). */
	uint32_t args;
};

struct plan_func {
	char *name;    /* "aten::add.Tensor"; "callBoxed"; "Engine::evaluate_function"; ... */
	uint64_t addr; /* ELF vaddr */
	uint8_t lib;   /* enum torch_lib_role */
	uint8_t kind;  /* enum ptb_func_kind */
	/* enum ptb_refusal; with REFUSE_NO_EXIT and sites: only the entry is probed */
	uint8_t reason;
	/* OP: vaddr of the static handle, from the code. *(u64*)handle is the OperatorDef*. */
	uint64_t handle;
	char *schema;      /* OP: its schema as torch prints it; NULL: unknown */
	uint16_t unplaced; /* OP: number of arguments and results with unknown locations */
};

enum plan_addr_what {
	/* vptr (ELF vaddr of vtable + 16) of a Node class; name: the class, demangled */
	PLAN_ADDR_CLASS,
	/* return address of a RECORD_FUNCTION macro's constructor; name: its literal */
	PLAN_ADDR_CALLER,
};

struct plan_addr_name {
	uint64_t addr;
	char *name;
	uint8_t lib;
	uint8_t what; /* enum plan_addr_what */
};

/* Facts about structures, derived from the code. proc_cfg__fill() adds those of a process. */
struct plan_layout {
	uint16_t node_seq_off, node_thread_off, pynode_obj_off, script_name_off, string_ivalue_off;
	bool old_string_abi;
	uint8_t boxed_handle_reg;
	bool scope_from_boxed; /* record_function's text is read from the boxed stack (1.13) */
	/* vaddr in libtorch_cpu of {module id, offset} for __tls_get_addr; 0: none */
	uint64_t seq_tls_got;
	uint64_t seq_tls_disp; /* to be added to that offset */
	uint64_t pynode_vptr;  /* vaddr in libtorch_python; 0: none */
	/* vaddr of c10::Dispatcher::singleton()::s; 0: none */
	uint64_t singletons[TORCH_LIB_ROLES];
	/* Arguments. Offsets, tags and masks are final; addresses and TLS modules of a process
	 * follow from the fields below. tensor.shapes_on is 0 if an essential fact could not be
	 * derived. */
	struct ptb_tensor_cfg tensor;
	struct ptb_keys keys;    /* masks only */
	uint64_t undefined_impl; /* vaddr in libc10 of UndefinedTensorImpl::_singleton */
	uint64_t grad_tls_got,
		keys_tls_got; /* vaddrs in libc10 like seq_tls_got; offsets are tensor.*_tls_off */
	uint64_t variable_class;   /* vaddr in libtorch_python of THPVariableClass, a pointer */
	uint64_t parameter_class;  /* ... of ParameterClass, a pointer, which is nn.Parameter */
	uint16_t variable_off;     /* THPVariable: TensorImpl* */
	uint64_t interned_strings; /* vaddr in libtorch_cpu of c10::globalStrings()::s; 0: none */
	/* there is no NODE_CALL function: a node's inputs are read at NODE_ENTER */
	bool node_inputs_from_buffer;
	char no_shapes_why[LAYOUT_WHY_SZ]; /* if tensor.shapes_on is 0: a sentence */
	struct ptb_rf_cfg rf;              /* at::RecordFunction, for the agent; size 0: unknown */
	char no_rf_why[LAYOUT_WHY_SZ];     /* if rf.size is 0: a sentence */
};

struct torch_plan {
	struct plan_func *funcs;
	uint32_t func_cnt;
	struct plan_site *sites; /* sorted by (lib, offset); unique */
	uint32_t site_cnt;
	struct plan_addr_name *classes; /* of classes and callers */
	uint32_t class_cnt;
	struct ptb_arg_prog *progs; /* argument programs, without duplicates */
	uint32_t prog_cnt;
	struct plan_layout layout;
	uint32_t names_a, names_b_only, names_disagree; /* operators by the source of their names */
	bool from_cache;
	struct plan_key key; /* what it is valid for */
	/* OperatorEntry::is_observed_, from the first live process; 0: not yet known */
	uint32_t observed_off;
};

/*
 * Analyses libraries that belong together, or reads the cache. libs: an array by role, of all of
 * PyTorch's libraries in a process or one of CUDA's; key: theirs, NULL: not yet known. 0 or
 * negative errno (logged). -ENOTSUP: a torch build without any usable site; -ESTALE: a file was
 * written during the analysis. The caller frees *out.
 */
int torch_plan__new(const struct torch_lib *libs, const struct plan_key *key, bool use_cache,
		    struct torch_plan **out);
void torch_plan__free(struct torch_plan *plan);

/* The facts that the BPF programs need for one live process. Reads a few words of its memory. */
void proc_cfg__fill(struct proc_ops *po, bool args, struct ptb_proc_cfg *cfg);

/* Adds a libcudart of the process. Beyond PTB_CUDART_MAX of them, driver calls are recorded in
 * addition to the library's own. */
void proc_cfg__cudart(const struct torch_lib *lib, struct ptb_proc_cfg *cfg);

/* The facts that the agent in the process needs: tensors, and RecordFunction. */
void proc_cfg__agent(struct proc_ops *po, struct ptb_agent_cfg *cfg);

/* Is the function probed only when memory is recorded? */
static inline bool plan_func__is_memory(const struct plan_func *pf)
{
	return pf->kind == PTB_FUNC_ALLOCATOR || pf->kind == PTB_FUNC_CUDA_MEMORY;
}

/* Is the function probed only when identities of tensors are recorded? */
static inline bool plan_func__is_tensor(const struct plan_func *pf)
{
	return pf->kind == PTB_FUNC_TENSOR;
}

/* Is the function probed only when CUDA calls are recorded by probes? */
static inline bool plan_func__is_cuda_call(const struct plan_func *pf)
{
	return pf->kind == PTB_FUNC_CUDA_CALL;
}

/* Prints every probe and every refusal with its reason, and a summary (--dry-run). */
void torch_plan__print(const struct torch_plan *plan, const struct torch_lib *libs, FILE *out);

/*
 * Libraries whose analysis took long and failed are not analysed again for an hour, so that they
 * cost its minutes once and not for each process. Remembered in this process.
 */

/* The error; 0: none is known. */
int plan_failures__find(const struct plan_key *key, uint64_t now_ns);
/* Remembers that the analysis failed after took_ns. */
void plan_failures__note(const struct plan_key *key, int err, uint64_t took_ns, uint64_t now_ns);

/* The operators of one live process, read once during the attach. */

struct proc_ops { /* only tp, plan and cost_ns are for other files */
	const struct torch_proc *tp;
	struct torch_plan *plan; /* the first process that is read sets its observed_off */
	uint64_t cost_ns;        /* time for reading the table */
	bool table_read, schemas_read;
	int table_err, schemas_err;
	struct live_ops table;
	struct live_schema_layout schemas;
};

/* Borrows tp and plan until proc_ops__free(). Reads nothing yet. */
void proc_ops__init(struct proc_ops *po, const struct torch_proc *tp, struct torch_plan *plan);
void proc_ops__free(struct proc_ops *po);

/* The run-time addresses of c10::Dispatcher::singleton()::s, for live_ops__read(). Returns their
 * number. */
uint32_t proc_ops__singletons(const struct torch_proc *tp, const struct torch_plan *plan,
			      uint64_t singletons[TORCH_LIB_ROLES]);

/* The dispatcher's table, read at the first call. 0 or negative errno, the same at every call. *out
 * belongs to po. */
int proc_ops__table(struct proc_ops *po, const struct live_ops **out);

/* The layout for live_schema__read(). 0, or negative errno: the process's schemas have another
 * layout. *out belongs to po. */
int proc_ops__schemas(struct proc_ops *po, const struct live_schema_layout **out);

/* Offset from an OperatorDef to its FunctionSchema, which is in a RecordFunction. The same for all
 * operators of the process; negative errno: unknown. */
int64_t proc_ops__schema_offset(struct proc_ops *po);

#endif /* PLAN_PLAN_H */
