/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Reports of torch's allocators (pytorch c10/core/CPUAllocator.h, c10/core/Allocator.h). They are
 * called whether a profiler runs or not, and the argument registers have all that is reported. One
 * site at which they are unchanged is enough. The mangled name has the types of the arguments.
 */
#include "plan/plan_priv.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"

#define ARG(nr) (1u << (nr))

/*
 * Arguments by letter: p void*, i a 64-bit integer, d c10::Device. `read`: the arguments that the
 * program reads.
 */
static const struct report_row {
	uint8_t topic, prog;
	const char *name, *args;
	uint32_t read;
} rows[] = {
	{ TOPIC_MEM_NEW, PTB_PROG_MEM_NEW, "ProfiledCPUMemoryReporter::New", "pi",
	  ARG(1) | ARG(2) },
	{ TOPIC_MEM_DELETE, PTB_PROG_MEM_DELETE, "ProfiledCPUMemoryReporter::Delete", "p", ARG(1) },
	{ TOPIC_MEM_CPU_OOM, PTB_PROG_MEM_CPU_OOM, "ProfiledCPUMemoryReporter::OutOfMemory", "i",
	  ARG(1) },
	{ TOPIC_MEM_REPORT, PTB_PROG_MEM_REPORT, "reportMemoryUsageToProfiler", "piiid",
	  ARG(0) | ARG(1) | ARG(2) | ARG(3) | ARG(4) },
	{ TOPIC_MEM_OOM, PTB_PROG_MEM_OOM, "reportOutOfMemoryToProfiler", "iiid",
	  ARG(0) | ARG(1) | ARG(2) | ARG(3) },
};

/* The letter of a demangled type; 0: none. */
static char type_letter(const char *type, size_t len)
{
	static const struct {
		const char *text;
		char letter;
	} types[] = {
		{ "void*", 'p' },
		{ "long", 'i' },
		{ "unsigned long", 'i' },
		{ "long long", 'i' },
		{ "unsigned long long", 'i' },
		{ "c10::Device", 'd' },
	};

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (strlen(types[i].text) == len && !memcmp(types[i].text, type, len))
			return types[i].letter;
	return 0;
}

/* Are the function's arguments those of the row? */
static bool args_fit(const char *mangled, const char *want)
{
	char *text = demangle(mangled, NULL), *at = text ? strchr(text, '(') : NULL;
	size_t len;
	bool fit = at != NULL;

	for (at = at ? at + 1 : NULL; fit && *want; want++) {
		len = strcspn(at, ",)");
		fit = type_letter(at, len) == *want && (at[len] == ')') == !want[1];
		at += len;
		at += strspn(at, ", ");
	}
	free(text);
	return fit;
}

static int add_report(struct plan_build *b, const struct report_row *row,
		      const struct addr_name *sym)
{
	enum ptb_refusal why = PTB_REFUSE_SIGNATURE;
	uint32_t entry = FLOW_NONE;
	int err;

	if (args_fit(sym->name, row->args)) {
		plan_build__entry(b, sym->addr, row->read, &entry, &why);
		err = 0;
	}
	plan_build__func(b, row->name, sym->addr, PTB_FUNC_ALLOCATOR, why);
	err = 0;
	if (why == PTB_REFUSE_NONE)
		err = plan_build__site(b, plan_build__last(b), &b->flow.nodes[entry].in,
				       (enum ptb_prog)row->prog, PTB_ROLE_POINT, 0);
	return err;
}

int memory_sites__add(struct plan_build *b)
{
	const struct sym_list *l;
	int err = 0;

	if (b->role == TORCH_LIB_CUDART || b->role == TORCH_LIB_CUDA)
		return cuda_sites__add(b);
	for (uint32_t i = 0; i < sizeof(rows) / sizeof(rows[0]) && !err; i++) {
		l = &b->lc->topics[rows[i].topic];
		if (!l->cnt && b->role == TORCH_LIB_C10) {
			plan_build__func(b, rows[i].name, 0, PTB_FUNC_ALLOCATOR,
					 PTB_REFUSE_NO_SYMBOL);
		}
		for (uint32_t k = 0; k < l->cnt && !err; k++)
			err = add_report(b, &rows[i], &l->syms[k]);
	}
	return err;
}
