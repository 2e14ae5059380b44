/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Which symbols of PyTorch's libraries the plan asks for, and which of their functions matter when they are called. */
#ifndef PLAN_TORCH_NAMES_H
#define PLAN_TORCH_NAMES_H

#include "code/lib_code.h"

/* Flags of callees, beside those of lib_code.h. */
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

#endif /* PLAN_TORCH_NAMES_H */
