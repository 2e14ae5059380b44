/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What an output writes to the file that was opened for it, compressed when its path ends in ".gz".
 * Errors are logged once, with the path.
 */
#ifndef EXPORT_OUT_FILE_H
#define EXPORT_OUT_FILE_H

#include <stddef.h>
#include <stdio.h>

#include "base/jsonw.h"

struct out_file;
struct output_args;

void out_file__open(const struct output_args *args, struct out_file **out);
/* A jsonw_out; `of` is the struct out_file. After an error every call returns that error. */
int out_file__write(void *of, const void *data, size_t len);
/* What is written to the stream goes to the file; its errors are known to commit. */
FILE *out_file__stream(struct out_file *of);
/* The same file and a writer of JSON into it. Errors are logged. */
void out_file__open_json(const struct output_args *args, struct out_file **out, struct jsonw *w);
int out_file__end_json(struct out_file *of, struct jsonw *w);
/* Writes what is left of it. 0 or the first error. */
int out_file__end(struct out_file *of);
void out_file__free(struct out_file *of); /* NULL is fine */

#endif /* EXPORT_OUT_FILE_H */
