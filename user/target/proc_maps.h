/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The file-backed mappings of a process, as /proc/PID/maps lists them. Private to target, inject, code and python. */
#ifndef TARGET_PROC_MAPS_H
#define TARGET_PROC_MAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

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

#endif /* TARGET_PROC_MAPS_H */
