/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * embed_python LIBRARY ARGUMENTS...: a program with another name and no Python of its own, which loads a libpython and runs it. It
 * has a _PyRuntime that nobody uses, like a program into which the loader copied one.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>

extern uint64_t _PyRuntime[];
uint64_t _PyRuntime[1024] = { 1 }; /* not exported: libpython uses its own */

int main(int argc, char **argv)
{
	void *lib = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL) : NULL;
	int (*run)(int, char **) = NULL;

	if (lib)
		*(void **)&run = dlsym(lib, "Py_BytesMain");
	if (!run) {
		fprintf(stderr, "%s\n", dlerror());
		return 2;
	}
	_PyRuntime[1] = 2;
	return run(argc - 1, argv + 1);
}
