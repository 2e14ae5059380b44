/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The memory of a target: process_vm_readv, else /proc/PID/mem. What is read is hostile. */
#ifndef TARGET_REMOTE_MEM_H
#define TARGET_REMOTE_MEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Reads exactly len bytes; -EFAULT if the range is not wholly readable, -ESRCH if the process is gone. */
int remote__read(pid_t pid, uint64_t addr, void *buf, size_t len);
/* Reads a NUL-terminated text of at most cap-1 bytes; always terminates buf. -EFAULT, -ENAMETOOLONG. */
int remote__read_cstr(pid_t pid, uint64_t addr, char *buf, size_t cap);
/* Reads a libstdc++ std::string at addr. old_abi: copy-on-write layout (one pointer, length at -24). */
int remote__read_string(pid_t pid, uint64_t addr, bool old_abi, char *buf, size_t cap);

/* One read of many small objects. */
struct remote_piece {
	uint64_t addr;
	void *buf;
	uint32_t len;
	bool ok; /* set by the read: all of it was read */
};

/* Reads every piece that can be read. 0, or negative errno when the process cannot be read at all. */
int remote__read_pieces(pid_t pid, struct remote_piece *pieces, uint32_t cnt);
/* Reads up to len bytes; the count, possibly cut at an unreadable page, or negative errno. */
ssize_t remote__read_some(pid_t pid, uint64_t addr, void *buf, size_t len);

/*
 * The class of a polymorphic object by its vptr: typeinfo name, demangled
 * ("torch::autograd::generated::AddmmBackward0"). spent_ns: as of demangle(). 0 or negative errno.
 */
int remote__class_name(pid_t pid, uint64_t vptr, uint64_t *spent_ns, char *buf, size_t cap);

#endif /* TARGET_REMOTE_MEM_H */
