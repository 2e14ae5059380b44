/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Batched reads of a process's memory, for walks over thousands of small objects. Private to
 * target. */
#ifndef TARGET_REMOTE_MEM_H
#define TARGET_REMOTE_MEM_H

#include "target/torch_proc.h"

struct remote_piece {
	uint64_t addr;
	void *buf;
	uint32_t len;
	bool ok; /* set by the read: all of it was read */
};

/* Reads every piece that can be read. 0, or negative errno when the process cannot be read at all.
 */
int remote__read_pieces(pid_t pid, struct remote_piece *pieces, uint32_t cnt);
/* Reads up to len bytes; the count, possibly cut at an unreadable page, or negative errno. */
ssize_t remote__read_some(pid_t pid, uint64_t addr, void *buf, size_t len);

#endif /* TARGET_REMOTE_MEM_H */
