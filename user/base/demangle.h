/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Demangling of C++ names that others have made: the demangler of libstdc++, which __cxa_demangle() is, but with
 * a bound on what comes out. Substitutions let a name of 200 bytes expand to gigabytes of text.
 */
#ifndef BASE_DEMANGLE_H
#define BASE_DEMANGLE_H

/* malloc'ed text; NULL: the name is not a mangled one, longer than LIMIT_MANGLED or expands to a text longer than
 * LIMIT_DEMANGLED, or memory is out. Without "_Z" in front it is taken for a type ("i": int), as
 * __cxa_demangle() does. */
char *demangle(const char *mangled);

#endif /* BASE_DEMANGLE_H */
