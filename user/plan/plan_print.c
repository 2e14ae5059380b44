/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* --dry-run: the plan as text: a line per probe, the refusals, a summary. */
#include <inttypes.h>
#include <string.h>

#include "base/text.h"
#include "code/arch.h"
#include "plan/args_priv.h"
#include "plan/plan.h"
#include "plan/plan_priv.h"

#define NAME_OF(table, nr)                                                                         \
	((nr) < sizeof(table) / sizeof((table)[0]) && (table)[nr] ? (table)[nr] : "?")

static const char *const prog_names[] = {
#define X(name, func, loaded, stack, text) [PTB_PROG_##name] = #name,
	PTB_PROGS(X)
#undef X
};

static const char *const kind_texts[] = {
#define X(name, nr, text) [nr] = text,
	PTB_FUNC_KINDS(X)
#undef X
};

static const char *const refusal_texts[] = {
#define X(name, nr, text) [nr] = text,
	PTB_REFUSALS(X)
#undef X
};

static const char *role_name(uint8_t role)
{
	return role == PTB_ROLE_ENTER ? "enter" : role == PTB_ROLE_EXIT ? "exit" : "point";
}

static const char *lib_name(const struct torch_lib *libs, uint8_t lib)
{
	static const char *const fallback[] = { "libc10",    "libtorch_cpu", "libtorch_python",
						"libstdc++", "libcudart",    "libcuda" };
	const char *path, *slash;

	if (lib >= TORCH_LIB_ROLES)
		return "?";
	path = libs ? libs[lib].path : NULL;
	slash = path ? strrchr(path, '/') : NULL;
	return slash ? slash + 1 : fallback[lib];
}

static void put_lib(FILE *out, const struct torch_lib *libs, uint8_t lib)
{
	size_t n = term_text__put(out, lib_name(libs, lib), SIZE_MAX);

	fprintf(out, "%*s", n < 20 ? 20 - (int)n : 0, "");
}

static void put_line(FILE *out, const char *text)
{
	term_text__put(out, text, SIZE_MAX);
	fputc('\n', out);
}

static void print_sites(const struct torch_plan *p, const struct torch_lib *libs, FILE *out)
{
	fprintf(out, "%-20s %10s  %-5s %-12s %-4s  %s\n", "library", "offset", "role", "program",
		"insn", "function");
	for (uint32_t i = 0; i < p->site_cnt; i++) {
		const struct plan_site *s = &p->sites[i];

		put_lib(out, libs, s->lib);
		fprintf(out, " %#10" PRIx64 "  %-5s %-12s %-4s  ", s->offset, role_name(s->role),
			NAME_OF(prog_names, s->prog), insn__op_name(s->insn));
		put_line(out, p->funcs[s->func].name);
	}
}

/* Prints by operator how many arguments and results have unknown locations. */
static void print_unplaced(const struct torch_plan *p, const struct torch_lib *libs, FILE *out)
{
	bool any = false;

	for (uint32_t i = 0; i < p->func_cnt; i++) {
		const struct plan_func *f = &p->funcs[i];

		if (!f->unplaced)
			continue;
		if (!any)
			fprintf(out, "\narguments or results that cannot be read:\n");
		any = true;
		put_lib(out, libs, f->lib);
		fprintf(out, " %u of ", f->unplaced);
		put_line(out, f->schema ? f->schema : f->name);
	}
}

/* Prints the figures of probes for memory. */
static void print_memory(const struct torch_plan *p, FILE *out)
{
	uint32_t cuda = 0, ended = 0, reports = 0, probes = 0;

	for (uint32_t i = 0; i < p->func_cnt; i++) {
		const struct plan_func *f = &p->funcs[i];
		bool probed = f->reason == PTB_REFUSE_NONE || f->reason == PTB_REFUSE_NO_EXIT;

		reports += f->kind == PTB_FUNC_ALLOCATOR && probed;
		cuda += f->kind == PTB_FUNC_CUDA_MEMORY && probed;
		ended += f->kind == PTB_FUNC_CUDA_MEMORY && f->reason == PTB_REFUSE_NONE;
	}
	for (uint32_t i = 0; i < p->site_cnt; i++)
		probes += plan_func__is_memory(&p->funcs[p->sites[i].func]);
	fprintf(out,
		"if memory is recorded, %u more: %u allocator reports; %u CUDA memory calls, "
		"%u of them with their end\n",
		probes, reports, cuda, ended);
}

/* Prints the figures of probes for CUDA calls. */
static void print_cuda_calls(const struct torch_plan *p, FILE *out)
{
	uint32_t calls = 0, ended = 0, probes = 0;

	for (uint32_t i = 0; i < p->func_cnt; i++) {
		const struct plan_func *f = &p->funcs[i];

		if (!plan_func__is_cuda_call(f))
			continue;
		calls += f->reason == PTB_REFUSE_NONE || f->reason == PTB_REFUSE_NO_EXIT;
		ended += f->reason == PTB_REFUSE_NONE;
	}
	for (uint32_t i = 0; i < p->site_cnt; i++)
		probes += plan_func__is_cuda_call(&p->funcs[p->sites[i].func]);
	fprintf(out,
		"if GPUs are recorded without an agent, %u more: %u CUDA calls, %u of them "
		"with their end\n",
		probes, calls, ended);
}

/* Prints the figures of arguments. */
static void print_args(const struct torch_plan *p, FILE *out)
{
	uint32_t schemas = 0, late = 0, unplaced = 0, values = 0, doubles = 0;

	for (uint32_t i = 0; i < p->func_cnt; i++) {
		schemas += p->funcs[i].schema != NULL;
		unplaced += p->funcs[i].unplaced;
	}
	for (uint32_t i = 0; i < p->site_cnt; i++) {
		const struct ptb_arg_prog *prog;
		const struct plan_func *f = &p->funcs[p->sites[i].func];

		if (!p->sites[i].args || plan_func__is_memory(f) || plan_func__is_cuda_call(f))
			continue;
		prog = &p->progs[p->sites[i].args - 1];
		if (p->sites[i].prog == PTB_PROG_OP_LATE) {
			late++;
			doubles += prog->in_cnt;
		} else if (p->sites[i].role == PTB_ROLE_ENTER) {
			values += (uint32_t)prog->in_cnt + prog->out_cnt;
		}
	}
	fprintf(out,
		"if arguments are recorded, %u more: %u schemas, %u programs; %u arguments and results, of them %u doubles at these probes, %u that cannot be read\n",
		late, schemas, p->prog_cnt, values, doubles, unplaced);
}

static void print_refusals(const struct torch_plan *p, const struct torch_lib *libs, FILE *out)
{
	bool any = false;

	for (uint32_t i = 0; i < p->func_cnt; i++) {
		const struct plan_func *f = &p->funcs[i];

		if (f->reason == PTB_REFUSE_NONE)
			continue;
		if (!any)
			fprintf(out, "\nnot probed, or only in part:\n");
		any = true;
		put_lib(out, libs, f->lib);
		fputc(' ', out);
		term_text__put(out, f->name, SIZE_MAX);
		fprintf(out, ": %s\n", NAME_OF(refusal_texts, f->reason));
	}
}

static void print_summary(const struct torch_plan *p, FILE *out)
{
	uint32_t kind, i, more = 0; /* more: probes that an option requests */

	fprintf(out, "\n%9s %9s %9s %9s %9s  %s\n", "functions", "enter", "exit", "point",
		"refused", "kind");
	for (kind = 1; kind <= PTB_FUNC_TENSOR; kind++) {
		uint32_t funcs = 0, refused = 0, role[4] = { 0 };

		for (i = 0; i < p->func_cnt; i++) {
			funcs += p->funcs[i].kind == kind;
			refused += p->funcs[i].kind == kind && p->funcs[i].reason;
		}
		for (i = 0; i < p->site_cnt; i++)
			if (p->funcs[p->sites[i].func].kind == kind && p->sites[i].role < 4)
				role[p->sites[i].role]++;
		fprintf(out, "%9u %9u %9u %9u %9u  %s\n", funcs, role[PTB_ROLE_ENTER],
			role[PTB_ROLE_EXIT], role[PTB_ROLE_POINT], refused,
			NAME_OF(kind_texts, kind));
	}
	for (i = 0; i < p->site_cnt; i++)
		more += p->sites[i].prog == PTB_PROG_OP_LATE ||
			plan_func__is_memory(&p->funcs[p->sites[i].func]) ||
			plan_func__is_tensor(&p->funcs[p->sites[i].func]) ||
			plan_func__is_cuda_call(&p->funcs[p->sites[i].func]);
	fprintf(out,
		"%u probes; operator names: %u from the code, %u from a schema text only, %u disagreements%s\n",
		p->site_cnt - more, p->names_a, p->names_b_only, p->names_disagree,
		p->from_cache ? "; from the cache" : "");
	print_args(p, out);
	print_memory(p, out);
}

void torch_plan__print(const struct torch_plan *plan, const struct torch_lib *libs, FILE *out)
{
	print_sites(plan, libs, out);
	print_refusals(plan, libs, out);
	if (!libs[TORCH_LIB_CPU].present) { /* a library of CUDA's */
		print_memory(plan, out);
		print_cuda_calls(plan, out);
		return;
	}
	print_unplaced(plan, libs, out);
	print_summary(plan, out);
	tensor_layout__print(&plan->layout, out);
	rf_layout__print(&plan->layout, out);
}
