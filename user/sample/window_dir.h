/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The directory of windows: names of their files, the log of windows, and the quota. Only files whose names are those
 * of windows are counted and deleted. A name is that of torch's tensorboard_trace_handler() (pytorch
 * torch/profiler/profiler.py): HOST_PID.NS.pt.trace.json.gz, with NS the Unix time of the window's begin; the capture is
 * HOST_PID.NS.ptb.
 */
#ifndef SAMPLE_WINDOW_DIR_H
#define SAMPLE_WINDOW_DIR_H

#include <limits.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/jsonw.h"

#define WINDOW_LOG "windows.jsonl"

struct window_dir {
	int fd;
	char path[PATH_MAX]; /* without a slash at its end */
	char host[256];      /* without characters that a file name cannot have */
};

/* Creates the directory, mode 0700, if it does not exist. Refused where users other than root and the effective one can
 * write. 0 or negative errno (reported). */
int window_dir__open(const char *path, struct window_dir *dir);
void window_dir__close(struct window_dir *dir);

/* DIR/HOST_PID.NS and the suffix. 0 or -ENAMETOOLONG. */
int window_dir__name(const struct window_dir *dir, pid_t pid, uint64_t ns, const char *suffix,
		     char *buf, size_t cap);
/* Appends a line to the log, whole or not at all: text without its line end. A log beyond 16 MiB becomes
 * windows.jsonl.1. 0 or negative errno. */
int window_dir__log(const struct window_dir *dir, const struct jsonw_text *line);
/* Deletes the files of the oldest windows until all take at most max_bytes; never those of the newest, nor of those from
 * keep_ns on, which may be in progress. Returns the number of windows deleted or negative errno (reported). */
int window_dir__trim(const struct window_dir *dir, uint64_t max_bytes, uint64_t keep_ns);

#endif /* SAMPLE_WINDOW_DIR_H */
