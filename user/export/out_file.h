/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A result file that is either complete or absent (base/new_file.h says how). Compressed when the path ends in
 * ".gz". A pipe or a device (/dev/stdout) is written directly. Errors are logged once, with the path.
 */
#ifndef EXPORT_OUT_FILE_H
#define EXPORT_OUT_FILE_H

#include <stddef.h>
#include <stdio.h>

#include "base/jsonw.h"

struct out_file;

/* 0 or negative errno; -EEXIST: a capture stands there, which an export never replaces. */
int out_file__open(const char *path, struct out_file **out);
/* A jsonw_out; `of` is the struct out_file. After an error every call returns that error. */
int out_file__write(void *of, const void *data, size_t len);
/* What is written to the stream goes to the file; its errors are known to commit. */
FILE *out_file__stream(struct out_file *of);
/* The same file and a writer of JSON into it. Errors are logged. */
int out_file__open_json(const char *path, struct out_file **out, struct jsonw *w);
int out_file__commit_json(struct out_file *of, struct jsonw *w);
/* Ends the stream, closes, renames. On error the temporary file is gone and `path` is as it was. */
int out_file__commit(struct out_file *of);
/* Drops what was not committed; NULL is fine. */
void out_file__free(struct out_file *of);

#endif /* EXPORT_OUT_FILE_H */
