/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What of a process may keep its reader waiting: its memory, and the files of /proc/PID for which
 * the kernel takes a lock of its address space (maps, map_files, environ, cmdline, mem). A thread
 * of the process can hold that lock, or serve a page, for as long as it likes. So all of it is read
 * here, watched by guards.h, by one thread at a time; tools/check_layers.py finds a read elsewhere.
 * What is read is hostile.
 */
#ifndef BASE_PROC_READ_H
#define BASE_PROC_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>

/* ---- files ---- */

/* All of /proc/PID/NAME, or of /proc/PID/task/TID/NAME, NUL-terminated, from malloc. 0; -ESRCH: no
 * such process or thread; -EFBIG; another negative errno. */
int proc_file__read(pid_t pid, pid_t tid, const char *name, char **text, size_t *len);
/* From now on it fails with -ETIME when the program has taken so much processor time, as of
 * clock__cpu_ns(); 0: it does not. */
void proc_read__limit(uint64_t cpu_ns);
/* The first cap bytes of /proc/PID/NAME: the count, or negative errno. */
ssize_t proc_file__read_some(pid_t pid, const char *name, void *buf, size_t cap);

/* The file that is mapped at [start, end), by /proc/PID/map_files. The process that serves its file
 * system is not asked. */
int proc_map_file__open(pid_t pid, uint64_t start, uint64_t end); /* with O_PATH; negative errno */
/* inode and device */
int proc_map_file__stat(pid_t pid, uint64_t start, uint64_t end, struct statx *st);

/* ---- memory ---- */

/* process_vm_readv() */
ssize_t proc_mem__readv(pid_t pid, const struct iovec *local, const struct iovec *remote,
			uint32_t cnt);

/* One address space, whatever the process executes later. */
struct remote_mem;

int remote_mem__open(pid_t pid, bool write, struct remote_mem **out); /* 0 or negative errno */
void remote_mem__close(struct remote_mem *rm);                        /* or NULL */
/* Up to len bytes: the count; -ESRCH: no process has the address space any more; another negative
 * errno. */
ssize_t remote_mem__read(const struct remote_mem *rm, uint64_t addr, void *buf, size_t len);
/* Writes exactly these bytes. 0, or as above. */
int remote_mem__write(const struct remote_mem *rm, uint64_t addr, const void *buf, size_t len);

#endif /* BASE_PROC_READ_H */
