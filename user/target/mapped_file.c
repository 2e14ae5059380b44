/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See mapped_file.h. Owns the choice among the names that a mapped file has; knows nothing of what is in it. */
#define LOG_DOMAIN "mapped_file"
#include "target/mapped_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base/log.h"
#include "target/elf_priv.h"
#include "target/torch_proc.h"

#define PAGE_MASK_4K 0xfffULL

uint64_t mapped_file__linked_addr(const struct elf_file *ef, const struct proc_map *map)
{
	uint32_t i;

	for (i = 0; i < ef->seg_cnt; i++) {
		const struct elf_seg *seg = &ef->segs[i];

		/* mappings start at whole pages, segments need not */
		if (seg->exec && map->off >= (seg->off & ~PAGE_MASK_4K) &&
		    map->off < seg->off + seg->file_sz)
			return seg->addr + (map->off - seg->off);
	}
	return UINT64_MAX;
}

/* Does the process's memory hold the same build-id (without one: the same headers) as the file? */
static bool same_in_memory(pid_t pid, const struct elf_file *ef, uint64_t load_bias)
{
	uint32_t sz = sizeof(Elf64_Ehdr);
	const uint8_t *bytes = elf_priv__build_id(ef, &sz);
	uint8_t mem[256];
	uint64_t addr;

	if (!bytes || sz > sizeof(mem))
		bytes = ef->map;
	if (sz > sizeof(mem))
		sz = sizeof(mem);
	addr = elf_file__off_to_addr(ef, (uint64_t)(bytes - ef->map));
	return addr != UINT64_MAX && !remote__read(pid, addr + load_bias, mem, sz) &&
	       !memcmp(mem, bytes, sz);
}

enum identity {
	ID_SAME,   /* the mapped file */
	ID_UNSURE, /* compare with the memory */
	ID_OTHER,  /* some other file, or none: probes in it would never fire */
};

/*
 * Overlayfs and btrfs show another device to stat() than in maps, overlayfs also an inode number
 * with marks in the high bits (xino); a file put there anew has another number.
 */
static enum identity compare_inode(const char *path, const struct proc_map *map)
{
	struct stat st;

	if (stat(path, &st) || (uint32_t)st.st_ino != (uint32_t)map->ino)
		return ID_OTHER;
	if (st.st_ino == map->ino && major(st.st_dev) == map->dev_major &&
	    minor(st.st_dev) == map->dev_minor)
		return ID_SAME;
	return ID_UNSURE;
}

/*
 * /proc/PID/map_files names the mapped file itself, but needs CAP_CHECKPOINT_RESTORE. The path in
 * maps is the target's for another mount namespace, ours for a mere chroot, and another file may be
 * there by now. NULL: out of memory.
 */
static char *access_path(pid_t pid, const struct proc_map *map, enum identity *id)
{
	struct stat st;
	char *path;

	*id = ID_SAME;
	if (asprintf(&path, "/proc/%d/map_files/%lx-%lx", pid, map->start, map->end) < 0)
		return NULL;
	if (!stat(path, &st))
		return path;
	free(path);
	if (asprintf(&path, "/proc/%d/root%s", pid, map->path) < 0)
		return NULL;
	*id = compare_inode(path, map);
	if (*id == ID_OTHER && compare_inode(map->path, map) == ID_SAME) {
		free(path);
		path = strdup(map->path);
		*id = ID_SAME;
	}
	return path;
}

static int not_the_file(pid_t pid, const struct proc_map *map)
{
	pr_warn("%s is not the file that process %d has mapped, and /proc/%d/map_files is closed",
		map->path, pid, pid);
	return -ENOEXEC;
}

int mapped_file__open(pid_t pid, const struct proc_map *map, char **access_path_out,
		      struct elf_file **ef_out, uint64_t *load_bias)
{
	struct elf_file *ef = NULL;
	enum identity id;
	char *path = access_path(pid, map, &id);
	uint64_t addr;
	int err;

	if (!path)
		return -ENOMEM;
	err = id == ID_OTHER ? not_the_file(pid, map) : elf_file__open(path, &ef);
	if (err)
		goto fail;
	addr = mapped_file__linked_addr(ef, map);
	err = -ENOEXEC;
	if (addr == UINT64_MAX)
		goto fail;
	*load_bias = map->start - addr;
	if (id == ID_UNSURE && !same_in_memory(pid, ef, *load_bias)) {
		err = not_the_file(pid, map);
		goto fail;
	}
	*access_path_out = path;
	*ef_out = ef;
	return 0;
fail:
	elf_file__close(ef);
	free(path);
	return err;
}
