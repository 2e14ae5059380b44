/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A process: that it is the same one, its maps, its memory. */
#ifndef TARGET_PROC_H
#define TARGET_PROC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * A process that is meant, and no later one with its pid. While the pidfd says that its process
 * lives, everything that was read and attached by pid since the pidfd was opened was that
 * process's: so a hold is opened first and checked last, before what was read is believed.
 */

int pid_hold__open(pid_t pid); /* a pidfd, to be closed, or negative errno */
bool pid_hold__alive(int fd);  /* its process has not ended; false for a negative fd */
/* For a pid that an event named some time ago; to be asked after pid_hold__open(), which may have
 * come too late. Was the process that has it started by then (CLOCK_MONOTONIC)? */
bool pid_hold__began_by(pid_t pid, uint64_t ns);
/* CLOCK_MONOTONIC, of a start in clock ticks since boot */
uint64_t pid_hold__began_ns(uint64_t start);
bool pid_hold__ended(pid_t pid, uint64_t ns); /* has the one that had it then? */
bool pid_hold__has_parent(pid_t pid, pid_t parent);

/* The file-backed mappings of a process, as /proc/PID/maps lists them. Private to target, inject,
 * code and python. */

struct proc_map {
	uint64_t start, end, off, ino;
	uint32_t dev_major, dev_minor;
	bool exec, write;
	uint32_t first; /* with exec: index of the first executable mapping of the same file */
	bool deleted;   /* the path ended in " (deleted)", which is cut off */
	char *path;     /* escapes undone: may hold blanks and newlines */
};

struct proc_maps {
	struct proc_map *items;
	uint32_t cnt, cap;
};

/* Both: 0 or negative errno; *out needs proc_maps__free() only on success. */
int proc_maps__read(pid_t pid, struct proc_maps *out);
void proc_maps__parse(const char *text, size_t len, struct proc_maps *out);
void proc_maps__free(struct proc_maps *maps);

const char *proc_map__base(const struct proc_map *map); /* last part of the path */
/* With the path: inode numbers repeat across subvolumes of a btrfs, which share a device here. */
bool proc_map__same_file(const struct proc_map *a, const struct proc_map *b);
/* Is it the first executable mapping of its file? */
bool proc_maps__is_first(const struct proc_maps *maps, uint32_t idx);

/* The memory of a target: process_vm_readv, else /proc/PID/mem. What is read is hostile. */

/* Reads exactly len bytes; -EFAULT if the range is not wholly readable, -ESRCH if the process is
 * gone. */
int remote__read(pid_t pid, uint64_t addr, void *buf, size_t len);
/* Reads a NUL-terminated text of at most cap-1 bytes; always terminates buf. -EFAULT,
 * -ENAMETOOLONG. */
int remote__read_cstr(pid_t pid, uint64_t addr, char *buf, size_t cap);
/* Reads a libstdc++ std::string at addr. old_abi: copy-on-write layout (one pointer, length at
 * -24). */
int remote__read_string(pid_t pid, uint64_t addr, bool old_abi, char *buf, size_t cap);

/* One read of many small objects. */
struct remote_piece {
	uint64_t addr;
	void *buf;
	uint32_t len;
	bool ok; /* set by the read: all of it was read */
};

/* Reads every piece that can be read. 0, or negative errno when the process cannot be read at
 * all. */
int remote__read_pieces(pid_t pid, struct remote_piece *pieces, uint32_t cnt);
/* Reads up to len bytes; the count, possibly cut at an unreadable page, or negative errno. */
ssize_t remote__read_some(pid_t pid, uint64_t addr, void *buf, size_t len);

/*
 * The class of a polymorphic object by its vptr: typeinfo name, demangled
 * ("torch::autograd::generated::AddmmBackward0"). spent_ns: as of demangle(). 0 or negative errno.
 */
int remote__class_name(pid_t pid, uint64_t vptr, uint64_t *spent_ns, char *buf, size_t cap);

/*
 * Which process serves a file. A file system of FUSE is served by a process, which may never
 * answer: a call that opens, reads or stats a file there waits for it, where not even SIGKILL
 * helps, and the kernel reads a page of a library while it places a probe, with every fork on the
 * machine waiting. Nothing here sends a request to such a server. An overlay hides what is below
 * it, so one that a user can have mounted counts as served by that user.
 */

enum file_server_rule {
	FILE_SERVER_KERNEL, /* nothing that a process or another machine serves */
	FILE_SERVER_ROOTS,  /* or one that only root can have mounted: NFS, FUSE of root's */
};

/* The file of a descriptor, O_PATH or not, that was found through process pid. 0; -EXDEV: the rule
 * forbids it; -ELOOP: it is a symbolic link; another negative errno. */
int file_server__check(int fd, pid_t pid, enum file_server_rule rule);

/*
 * A descriptor (O_PATH, close-on-exec) of what is at an absolute path in the root directory of
 * process pid; no symbolic link is followed, and no directory is entered that the rule forbids.
 * Negative errno: -ELOOP, -ENOTDIR: there is a link on the way; -EXDEV: the file, or a directory on
 * the way, is forbidden.
 */
int file_server__open(pid_t pid, const char *path, enum file_server_rule rule);

#endif /* TARGET_PROC_H */
