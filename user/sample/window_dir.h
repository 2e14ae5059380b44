/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The directory of windows: names of their files, the log of windows, and the quota. Only files
 * whose names are those of windows are counted and deleted. A name is that of torch's
 * tensorboard_trace_handler() (pytorch torch/profiler/profiler.py): HOST_PID.NS.pt.trace.json.gz,
 * with NS the Unix time of the window's begin; the capture is HOST_PID.NS.ptb.
 */
#ifndef SAMPLE_WINDOW_DIR_H
#define SAMPLE_WINDOW_DIR_H

#include <limits.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/jsonw.h"

#define WINDOW_THREADS ".threads.txt" /* the stacks of a job that hangs */
#define WINDOW_LOG "windows.jsonl"

struct window_dir {
	int fd;
	char path[PATH_MAX]; /* without a slash at its end */
	char host[256];      /* without characters that a file name cannot have */
	uint64_t next_nr;    /* the number after those in the log */
};

/*
 * Creates the directory, mode 0700, if it does not exist, and follows links as new_file.h says. It
 * is refused where users other than root, the effective one and the one who called sudo can write
 * to it or replace a directory above it, and while another ptbpf writes windows there: processes of
 * windows share the lock, so when ptbpf has been killed its last window ends first. Then removes
 * what killed windows have left: files without their final names, and half a line at the end of the
 * log. 0 or negative errno (reported).
 */
int window_dir__open(const char *path, struct window_dir *dir);
void window_dir__close(struct window_dir *dir);

/*
 * The time, or the next one at which the process has no window: a clock that was set back may show
 * a time again.
 */
uint64_t window_dir__free_ns(const struct window_dir *dir, pid_t pid, uint64_t ns);
/* DIR/HOST_PID.NS and the suffix. 0 or -ENAMETOOLONG. */
int window_dir__name(const struct window_dir *dir, pid_t pid, uint64_t ns, const char *suffix,
		     char *buf, size_t cap);
/*
 * Appends a line to the log, whole or not at all: text without its line end. A log beyond 16 MiB
 * becomes windows.jsonl.1. 0 or negative errno.
 */
int window_dir__log(const struct window_dir *dir, const struct jsonw_text *line);
/*
 * Cycles of the schedule that are done, by the last window in the log; 0: that belongs to another
 * schedule, or to a process that is not among pids (cnt 0: any process will do).
 */
uint64_t window_dir__cycles(const struct window_dir *dir, const char *schedule, const pid_t *pids,
			    uint32_t cnt);
/*
 * Deletes the files of the oldest windows until all take at most max_bytes; never those of the
 * newest, nor those of the keep_cnt times keep_ns[], which may be in progress. Names that are more
 * than an hour later than now_ns are from before the clock was set back, thus older than others.
 * Returns the number of windows deleted or negative errno (reported).
 */
int window_dir__trim(const struct window_dir *dir, uint64_t max_bytes, uint64_t now_ns,
		     const uint64_t *keep_ns, uint32_t keep_cnt);
/* The size of the files of windows, and the free space on their disk; 0 where it is not known. */
void window_dir__usage(const struct window_dir *dir, uint64_t *bytes, uint64_t *free_bytes);
/* Removes the incomplete files of a window whose process was killed; ns 0: of any window. */
void window_dir__remove_partial(const struct window_dir *dir, uint64_t ns);

#endif /* SAMPLE_WINDOW_DIR_H */
