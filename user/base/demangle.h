/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Demangling of C++ names that others have made: the demangler of libstdc++, which __cxa_demangle() is, but with
 * bounds on what comes out and on the time. Substitutions let a name of 200 bytes expand to gigabytes of text, or take
 * hours before there is any.
 */
#ifndef BASE_DEMANGLE_H
#define BASE_DEMANGLE_H

#include <stdint.h>

/*
 * malloc'ed text; NULL: the name is not a mangled one, longer than LIMIT_MANGLED, expands to a text longer than
 * LIMIT_DEMANGLED or takes more than LIMIT_DEMANGLE_MS, or memory is out. Without "_Z" in front it is taken for a type
 * ("i": int), as __cxa_demangle() does.
 * spent_ns: sum of the processor time for the names of one process or file; beyond LIMIT_DEMANGLE_ALL_MS the result is NULL.
 * NULL: time is not limited, for children in which it is anyway (base/sandbox.h).
 */
char *demangle(const char *mangled, uint64_t *spent_ns);

#endif /* BASE_DEMANGLE_H */
