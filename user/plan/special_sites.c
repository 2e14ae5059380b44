/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Functions found by their symbol; see plan_priv.h. */
#include "plan/plan_priv.h"

#include <string.h>

/* ---- what is measured ---- */

/* Engine::evaluate_function: the node's own call, inlined or in a function that the engine
 * calls. */
static void mark_node_calls(struct plan_build *b)
{
	struct flow *f = &b->flow;
	bool any = false;

	for (uint32_t i = 0; i < f->cnt; i++) {
		b->finder.work[i] =
			lib_code__calls(b->lc, &f->nodes[i].in, CALLEE_IN(CALLEE_GET_CALLBACKS));
		any |= b->finder.work[i];
	}
	if (!any)
		plan_build__mark_after(b, CALLEE_GET_CALLBACKS, 0, true);
}

/* THPFunction_apply: Python code that runs under the function's RecordFunction. */
static void mark_python_calls(struct plan_build *b)
{
	plan_build__mark_after(b, CALLEE_RF_SCOPE | CALLEE_GET_CALLBACKS, CALLEE_PYTHON, false);
}

/* ---- rows ---- */

struct special_row {
	uint8_t topic;
	uint8_t lib; /* the library that must have it */
	uint8_t kind, prog;
	const char *name;
	mark_work_fn mark;
	bool optional; /* some versions lack it by design */
};

static const struct special_row rows[] = {
	{ TOPIC_EVALUATE, TORCH_LIB_CPU, PTB_FUNC_NODE, PTB_PROG_NODE_ENTER,
	  "Engine::evaluate_function", mark_node_calls, false },
	{ TOPIC_SCOPE_NEW, TORCH_LIB_CPU, PTB_FUNC_SCOPE, PTB_PROG_SCOPE_STRING,
	  "record_function_enter_new", NULL, false },
	{ TOPIC_RF_SCOPE, TORCH_LIB_CPU, PTB_FUNC_SCOPE, PTB_PROG_SCOPE_CTOR,
	  "RecordFunction::RecordFunction", NULL, false },
	{ TOPIC_RF_END, TORCH_LIB_CPU, PTB_FUNC_SCOPE, PTB_PROG_SCOPE_END, "RecordFunction::end",
	  NULL, false },
	{ TOPIC_REGION, TORCH_LIB_PYTHON, PTB_FUNC_REGION, PTB_PROG_SCOPE_CSTR,
	  "_pytorch_record_function_enter_with_context", NULL, true },
	{ TOPIC_CATCH, TORCH_LIB_CXX, PTB_FUNC_CATCH, PTB_PROG_CATCH, "__cxa_begin_catch", NULL,
	  false },
	{ TOPIC_OP_GONE, TORCH_LIB_CPU, PTB_FUNC_REGISTRY, PTB_PROG_OPDEF_GONE,
	  "Dispatcher::deregisterDef_", NULL, false },
	{ TOPIC_PYFUNC, TORCH_LIB_PYTHON, PTB_FUNC_PYFUNC, PTB_PROG_PYFUNC_ENTER,
	  "THPFunction_apply", mark_python_calls, false },
};

static const struct special_row tensor_rows[] = {
	{ TOPIC_TENSOR_END, TORCH_LIB_C10, PTB_FUNC_TENSOR, PTB_PROG_TENSOR_END,
	  "TensorImpl::~TensorImpl", NULL, false },
	{ TOPIC_TENSOR_RELEASE, TORCH_LIB_C10, PTB_FUNC_TENSOR, PTB_PROG_TENSOR_RELEASE,
	  "TensorImpl::release_resources", NULL, false },
};

static int add_row(struct plan_build *b, const struct special_row *row)
{
	const struct sym_list *l = &b->lc->topics[row->topic];
	struct func_probe fp = {
		.name = row->name, .kind = row->kind, .enter = row->prog, .mark = row->mark
	};
	int err = 0;

	if (!l->cnt && row->lib == b->role && !row->optional) {
		plan_build__func(b, row->name, 0, row->kind, PTB_REFUSE_NO_SYMBOL);
		return 0;
	}
	for (uint32_t i = 0; i < l->cnt && !err; i++) {
		fp.entry = l->syms[i].addr;
		err = plan_build__probe(b, &fp);
	}
	return err;
}

/* RecordFunction::before(): the overload's argument decides the program. */
static int add_before(struct plan_build *b)
{
	static const struct {
		const char *args;
		uint8_t prog;
	} overloads[] = {
		{ "PKcl", PTB_PROG_BEFORE_CSTR },
		{ "Ssl", PTB_PROG_BEFORE_STR },
		{ "NSt7__cxx1112basic_string", PTB_PROG_BEFORE_STR },
		{ "St7variantIJSt17basic_string_view", PTB_PROG_BEFORE_VAR },
	};
	const struct sym_list *l = &b->lc->topics[TOPIC_RF_BEFORE];
	struct func_probe fp = { .name = "RecordFunction::before", .kind = PTB_FUNC_REGION };
	int err = 0;

	if (!l->cnt && b->role == TORCH_LIB_CPU) {
		plan_build__func(b, fp.name, 0, PTB_FUNC_REGION, PTB_REFUSE_NO_SYMBOL);
		return 0;
	}
	for (uint32_t i = 0; i < l->cnt && !err; i++) {
		const char *args = l->syms[i].name + strlen("_ZN2at14RecordFunction6beforeE");

		for (uint32_t k = 0; k < sizeof(overloads) / sizeof(overloads[0]) && !err; k++) {
			if (strncmp(args, overloads[k].args, strlen(overloads[k].args)))
				continue;
			fp.entry = l->syms[i].addr;
			fp.enter = overloads[k].prog;
			err = plan_build__probe(b, &fp);
		}
	}
	return err;
}

int special_sites__add_tensors(struct plan_build *b)
{
	int err = 0;

	for (uint32_t i = 0; i < sizeof(tensor_rows) / sizeof(tensor_rows[0]) && !err; i++)
		err = add_row(b, &tensor_rows[i]);
	return err;
}

int special_sites__add(struct plan_build *b)
{
	int err = 0;

	for (uint32_t i = 0; i < sizeof(rows) / sizeof(rows[0]) && !err; i++)
		err = add_row(b, &rows[i]);
	if (!err)
		err = add_before(b);
	if (!err)
		err = script_sites__add(b);
	if (!err)
		err = callback_sites__add(b);
	if (!err)
		err = seq_sites__add(b);
	if (!err)
		err = pyargs_sites__add(b);
	if (err)
		return err;
	scope_callers__add(b);
	return 0;
}
