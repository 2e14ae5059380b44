/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The plan's layout in one live process: run-time addresses and values from the loader. */
#define LOG_DOMAIN "proc_cfg"
#include "plan/plan.h"

#include <elf.h>
#include <string.h>

#include "base/log.h"
#include "target/proc.h"
#include "target/proc_info.h"

/* Reads the GOT pair {module, offset} of __tls_get_addr, which the loader fills when it maps the
 * library. */
static bool read_tls(const struct torch_proc *tp, enum torch_lib_role role, uint64_t got,
		     __u64 *module, __u64 *offset)
{
	const struct torch_lib *lib = &tp->libs[role];
	uint64_t pair[2];
	int err;

	if (!got || !lib->present)
		return false;
	err = remote__read(tp->pid, got + lib->load_bias, pair, sizeof(pair));
	if (err) {
		pr_debug("process %d: a TLS slot of %s cannot be read: %s", tp->pid, lib->path,
			 errstr(err));
		return false;
	}
	if (!pair[0] || pair[0] > 1 << 20)
		return false; /* not relocated yet */
	*module = pair[0];
	*offset += pair[1]; /* includes what the code adds to it */
	return true;
}

#define PHDRS_MAX 64

/* A byte of the initial image of the library's thread-local block; 0 also where it has none. */
static uint8_t tls_image_byte(const struct torch_proc *tp, enum torch_lib_role role, uint64_t off)
{
	const struct torch_lib *lib = &tp->libs[role];
	Elf64_Phdr ph[PHDRS_MAX];
	Elf64_Ehdr eh;
	uint8_t byte = 0;

	if (remote__read(tp->pid, lib->load_bias, &eh, sizeof(eh)) ||
	    memcmp(eh.e_ident, ELFMAG, SELFMAG) || eh.e_phentsize != sizeof(ph[0]) ||
	    eh.e_phnum > PHDRS_MAX ||
	    remote__read(tp->pid, lib->load_bias + eh.e_phoff, ph, eh.e_phnum * sizeof(ph[0])))
		return 0;
	for (uint32_t i = 0; i < eh.e_phnum; i++)
		if (ph[i].p_type == PT_TLS && off < ph[i].p_filesz &&
		    remote__read(tp->pid, lib->load_bias + ph[i].p_vaddr + off, &byte, 1))
			return 0;
	return byte;
}

static void fill_tensor(const struct torch_proc *tp, const struct plan_layout *l,
			struct ptb_tensor_cfg *cfg)
{
	const struct torch_lib *c10 = &tp->libs[TORCH_LIB_C10];

	*cfg = l->tensor;
	cfg->node_inputs_from_buffer = l->node_inputs_from_buffer;
	if (l->undefined_impl && c10->present)
		cfg->undefined_impl = l->undefined_impl + c10->load_bias;
	else
		cfg->shapes_on = 0;
	if (!read_tls(tp, TORCH_LIB_C10, l->grad_tls_got, &cfg->grad_tls_module,
		      &cfg->grad_tls_off))
		cfg->grad_tls_module = 0;
	else
		cfg->grad_made_late = !tls_image_byte(tp, TORCH_LIB_C10, cfg->grad_tls_off);
	if (!read_tls(tp, TORCH_LIB_C10, l->keys_tls_got, &cfg->keys_tls_module,
		      &cfg->keys_tls_off))
		cfg->keys_tls_module = 0;
}

/* Facts from the dispatcher's table: the operator whose boxed call has the text of a scope, if
 * Python uses the legacy one, and the member that counts an operator's arguments. */
static void fill_from_ops(struct proc_ops *po, struct ptb_proc_cfg *cfg)
{
	const struct live_schema_layout *schemas;
	const struct live_ops *ops;

	if (proc_ops__table(po, &ops))
		return;
	for (uint32_t i = 0; i < ops->cnt && po->plan->layout.scope_from_boxed; i++)
		if (!strcmp(ops->ops[i].name, "profiler::_record_function_enter"))
			cfg->scope_enter_opdef = ops->ops[i].opdef;
	if (!proc_ops__schemas(po, &schemas)) {
		cfg->tensor.schema_args_off = schemas->args_off;
		cfg->tensor.schema_returns_off = schemas->returns_off;
		cfg->tensor.argument_size = schemas->argument_size;
	}
}

void proc_cfg__fill(struct proc_ops *po, bool args, struct ptb_proc_cfg *cfg)
{
	const struct plan_layout *l = &po->plan->layout;
	const struct torch_proc *tp = po->tp;

	memset(cfg, 0, sizeof(*cfg));
	cfg->tgid = (uint32_t)tp->pid;
	cfg->node_seq_off = l->node_seq_off;
	cfg->node_thread_off = l->node_thread_off;
	cfg->pynode_obj_off = l->pynode_obj_off;
	cfg->script_name_off = l->script_name_off;
	cfg->old_string_abi = l->old_string_abi;
	cfg->boxed_handle_reg = l->boxed_handle_reg;
	cfg->string_ivalue_off = l->string_ivalue_off;
	if (l->pynode_vptr && tp->libs[TORCH_LIB_PYTHON].present)
		cfg->pynode_vptr = l->pynode_vptr + tp->libs[TORCH_LIB_PYTHON].load_bias;
	cfg->seq_tls_offset = l->seq_tls_disp;
	if (!read_tls(tp, TORCH_LIB_CPU, l->seq_tls_got, &cfg->seq_tls_module,
		      &cfg->seq_tls_offset))
		cfg->seq_tls_offset = 0;
	fill_tensor(tp, l, &cfg->tensor);
	if (args || l->scope_from_boxed)
		fill_from_ops(po, cfg);
	if (tp->libs[TORCH_LIB_PYTHON].present)
		python_proc__fill(tp,
				  l->variable_class ?
					  l->variable_class + tp->libs[TORCH_LIB_PYTHON].load_bias :
					  0,
				  l->variable_off, &cfg->python);
	if (tp->libs[TORCH_LIB_PYTHON].present && l->parameter_class &&
	    remote__read(tp->pid, l->parameter_class + tp->libs[TORCH_LIB_PYTHON].load_bias,
			 &cfg->tensor.parameter_type, sizeof(cfg->tensor.parameter_type)))
		cfg->tensor.parameter_type = 0;
}

void proc_cfg__agent(struct proc_ops *po, struct ptb_agent_cfg *cfg)
{
	struct ptb_proc_cfg probes;

	proc_cfg__fill(po, true, &probes);
	memset(cfg, 0, sizeof(*cfg));
	cfg->rf = po->plan->layout.rf;
	cfg->tensor = probes.tensor;
}

void proc_cfg__cudart(const struct torch_lib *lib, struct ptb_proc_cfg *cfg)
{
	for (uint32_t i = 0; i < PTB_CUDART_MAX && lib->present; i++)
		if (!cfg->cudart[i].end) {
			cfg->cudart[i].start = lib->text_start;
			cfg->cudart[i].end = lib->text_end;
			return;
		}
}
