/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The symbols of PyTorch's functions; see plan_priv.h. */
#include "plan/plan_priv.h"

#include <elf.h>

static const struct topic_row topic_rows[] = {
	{ "_ZN2at4_ops", TOPIC_OPS, STT_FUNC },
	{ "_ZN2at27getStepCallbacksUnlessEmptyENS_11RecordScopeE", TOPIC_GET_CALLBACKS, STT_FUNC },
	{ "_ZN2at14RecordFunctionC1ENS_11RecordScopeE", TOPIC_RF_SCOPE, STT_FUNC },
	{ "_ZN2at14RecordFunctionC2ENS_11RecordScopeE", TOPIC_RF_SCOPE, STT_FUNC },
	{ "_ZN2at14RecordFunction3endEv", TOPIC_RF_END, STT_FUNC },
	{ "_ZN2at14RecordFunction6beforeE", TOPIC_RF_BEFORE, STT_FUNC },
	{ "_ZN2at15sequence_number17get_and_incrementEv", TOPIC_SEQ, STT_FUNC },
	{ "_ZNK3c1010Dispatcher9callBoxedERKNS_14OperatorHandleE", TOPIC_BOXED, STT_FUNC },
	{ "_ZN5torch8autograd6Engine17evaluate_functionE", TOPIC_EVALUATE, STT_FUNC },
	{ "_ZN5torch8autograd4NodeclE", TOPIC_NODE_CALL, STT_FUNC },
	{ "_ZN5torch8autograd8profiler25record_function_enter_newE", TOPIC_SCOPE_NEW, STT_FUNC },
	{ "_ZN5torch3jit13GraphExecutor3runERSt6vector", TOPIC_SCRIPT, STT_FUNC },
	{ "_ZNK5torch8autograd6PyNode4name", TOPIC_PYNODE_NAME, STT_FUNC },
	{ "_ZNK5torch8autograd13SavedVariable6unpackE", TOPIC_NODE_OWNER, STT_FUNC },
	{ "__cxa_begin_catch", TOPIC_CATCH, STT_FUNC },
	{ "_ZN3c1010Dispatcher14deregisterDef_ERKNS_14OperatorHandleERKNS_12OperatorNameE",
	  TOPIC_OP_GONE, STT_FUNC },
	{ "_pytorch_record_function_enter_with_context", TOPIC_REGION, STT_FUNC },
	{ "_Z17THPFunction_applyP7_object", TOPIC_PYFUNC, STT_FUNC },
	{ "_ZL17THPFunction_applyP7_object", TOPIC_PYFUNC, STT_FUNC },
	{ "_ZN12_GLOBAL__N_117THPFunction_applyEP7_object", TOPIC_PYFUNC, STT_FUNC },
	{ "_Z21THPVariable_get_cdataP11THPVariablePv", TOPIC_CDATA, STT_FUNC },
	{ "_ZL21THPVariable_get_cdataP11THPVariablePv", TOPIC_CDATA, STT_FUNC },
	{ "_ZN3c1025ProfiledCPUMemoryReporter3NewE", TOPIC_MEM_NEW, STT_FUNC },
	{ "_ZN3c1025ProfiledCPUMemoryReporter6DeleteE", TOPIC_MEM_DELETE, STT_FUNC },
	{ "_ZN3c1025ProfiledCPUMemoryReporter11OutOfMemoryE", TOPIC_MEM_CPU_OOM, STT_FUNC },
	{ "_ZN3c1027reportMemoryUsageToProfilerE", TOPIC_MEM_REPORT, STT_FUNC },
	{ "_ZN3c1027reportOutOfMemoryToProfilerE", TOPIC_MEM_OOM, STT_FUNC },
	{ "_ZN3c1010TensorImplD1E", TOPIC_TENSOR_END, STT_FUNC },
	{ "_ZN3c1010TensorImplD2E", TOPIC_TENSOR_END, STT_FUNC },
	{ "_ZN3c1010TensorImpl17release_resourcesE", TOPIC_TENSOR_RELEASE, STT_FUNC },
	{ "_ZTVN5torch8autograd", TOPIC_VTABLE, STT_OBJECT },
	{ "_ZTVN5torch11distributed8autograd", TOPIC_VTABLE, STT_OBJECT },
	{ "_ZN3c1010Dispatcher27callWithDispatchKeySlowPathI", TOPIC_SLOW_PATH, STT_FUNC },
	{ "_ZNK3c1010Dispatcher27callWithDispatchKeySlowPathI", TOPIC_SLOW_PATH, STT_FUNC },
	{ "_ZZN3c1010Dispatcher9singletonEvE1s", TOPIC_SINGLETON, STT_OBJECT },
};

static const struct callee_row callee_rows[] = {
	{ "_ZN2at27getStepCallbacksUnlessEmptyENS_11RecordScopeE$", CALLEE_GET_CALLBACKS },
	{ "_ZN2at14RecordFunctionC1EONS_13StepCallbacksE$", CALLEE_RF_CALLBACKS },
	{ "_ZN2at14RecordFunctionC2EONS_13StepCallbacksE$", CALLEE_RF_CALLBACKS },
	{ "_ZN2at14RecordFunctionC1ENS_11RecordScopeE$", CALLEE_RF_SCOPE },
	{ "_ZN2at14RecordFunctionC2ENS_11RecordScopeE$", CALLEE_RF_SCOPE },
	{ "_ZN2at14RecordFunction6beforeE", CALLEE_RF_BEFORE },
	{ "_ZNK3c1010Dispatcher17findSchemaOrThrowE", CALLEE_FIND_SCHEMA },
	{ "_ZN3c1010Dispatcher17findSchemaOrThrowE", CALLEE_FIND_SCHEMA },
	{ "_ZN2at4_ops", CALLEE_OPERATOR },
	{ "_ZN5torch3jit16InterpreterState3runERSt6vector", CALLEE_INTERPRETER },
	{ "_ZN2at15sequence_number17get_and_incrementEv$", CALLEE_SEQ },
	{ "__tls_get_addr$", CALLEE_TLS },
	{ "PyObject_Call", CALLEE_PYTHON },
	{ "_PyObject_Call", CALLEE_PYTHON },
	{ "PyObject_Vectorcall", CALLEE_PYTHON },
	{ "_PyObject_Vectorcall", CALLEE_PYTHON },
	{ "free$", CALLEE_CHEAP },
	{ "_ZdlPv", CALLEE_CHEAP },
	{ "_ZdaPv", CALLEE_CHEAP },
	{ "_ZN3c106detail14torchCheckFailE", CALLEE_NORETURN },
	{ "_ZN3c106detail23torchInternalAssertFailE", CALLEE_NORETURN },
	{ "_ZN3c1021throwNullDataPtrErrorEv$", CALLEE_NORETURN },
};

_Static_assert(TOPIC_CNT <= LIB_TOPICS_MAX, "a library has too few lists of symbols");

const struct lib_names torch_names = {
	.topics = topic_rows,
	.topic_cnt = sizeof(topic_rows) / sizeof(*topic_rows),
	.callees = callee_rows,
	.callee_cnt = sizeof(callee_rows) / sizeof(*callee_rows),
	.all_calls = CALLEE_GET_CALLBACKS | CALLEE_RF_SCOPE | CALLEE_SEQ,
	.inner_calls = CALLEE_GET_CALLBACKS | CALLEE_RF_CALLBACKS | CALLEE_FIND_SCHEMA,
};
