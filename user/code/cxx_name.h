/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Demangled names of C++ symbols, for people. */
#ifndef CODE_CXX_NAME_H
#define CODE_CXX_NAME_H

#include <stddef.h>

/* Qualified name without arguments and clone suffixes; the symbol itself if it is not C++'s. */
void cxx_name__short(const char *mangled, char *buf, size_t cap);

#endif /* CODE_CXX_NAME_H */
