/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See python.h: sys.modules, and the module threading (cpython Lib/threading.py: _active). */
#include "python/python.h"

#define INTERP_BYTES 16384u /* of an interpreter's state that are searched for sys.modules */

static uint64_t dict_of(struct py_objects *po, uint64_t modules, const char *name)
{
	uint64_t module = modules ? py_dict__by_name(po, modules, name) : 0;

	return module ? py_objects__word(po, module + PY_MODULE_DICT) : 0;
}

uint64_t py_modules__of_func(struct py_objects *po, uint64_t func)
{
	for (uint32_t i = 0; i < 16; i += 8) { /* in 3.9 the globals are the second word */
		uint64_t globals = py_objects__word(po, func + PY_FUNC_GLOBALS + i);
		uint64_t sys = dict_of(po, globals, "sys");

		if (!sys) /* torch.Tensor's methods have `torch`, and torch has `sys` */
			sys = dict_of(po, dict_of(po, globals, "torch"), "sys");
		if (sys)
			return py_dict__by_name(po, sys, "modules");
	}
	return 0;
}

uint64_t py_modules__of_interp(struct py_objects *po, uint64_t interp)
{
	struct py_dict d;

	for (uint32_t i = 0; i < INTERP_BYTES && po->reads_left; i += 8) {
		uint64_t obj = py_objects__word(po, interp + i);

		/* a program has many modules, and threading is among them if it has threads */
		if (obj && py_dict__begin(po, obj, &d) && d.used > 20 &&
		    py_dict__by_name(po, obj, "threading"))
			return obj;
	}
	return 0;
}

void py_threads__names(struct py_objects *po, uint64_t modules, py_thread_fn fn, void *arg)
{
	uint64_t active = py_dict__by_name(po, dict_of(po, modules, "threading"), "_active"), ident,
		 thread;
	char name[PY_THREAD_NAME];
	struct py_dict d;
	uint32_t id;

	if (!active || !py_dict__begin(po, active, &d))
		return;
	while (py_dict__next(&d, &ident, &thread))
		if (py_int__read(po, py_object__attribute(po, thread, "_native_id"), &id) &&
		    py_str__read(po, py_object__attribute(po, thread, "_name"), name,
				 sizeof(name)) &&
		    *name)
			fn(arg, id, name);
}
