/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The libraries that the process has, as its loader knows them; loads none. Python loads its own
 * privately. */
#ifndef LIBS_H
#define LIBS_H

#include <stdbool.h>

/*
 * The first one whose file's name contains `part` and for which is_it() is true (NULL: any): its
 * handle, which keeps it loaded until dlclose(). NULL: none. Waits for the loader, so for an import
 * that is going on.
 */
void *libs__find(const char *part, bool (*is_it)(void *lib));
/* Another number: something was loaded since. */
unsigned long long libs__count(void);

#endif /* LIBS_H */
