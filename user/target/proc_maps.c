/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Reads /proc/PID/maps. Paths are the target's choice: any byte may occur in them, a newline comes
 * as \012 (fs/proc/task_mmu.c, seq_path with "\n"). Keeps file-backed mappings only.
 */
#include "base/text.h"
#include "target/proc.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/containers.h"
#include "base/mem.h"
#include "base/proc_read.h"
#include "target/proc_info.h"

/* Undoes \012 in place. */
static void unescape(char *path)
{
	char *to = path, *p = path;

	while (*p) {
		if (!strncmp(p, "\\012", 4)) {
			*to++ = '\n';
			p += 4;
		} else {
			*to++ = *p++;
		}
	}
	*to = 0;
}

/* One line without its newline. False: not a file-backed mapping, or not a line of maps at all. */
static bool parse_line(const char *line, struct proc_map *map, const char **path)
{
	char perms[5];
	int used = 0;

	memset(map, 0, sizeof(*map));
	if (sscanf(line,
		   "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %" SCNx32 ":%" SCNx32 " %" SCNu64 "%n",
		   &map->start, &map->end, perms, &map->off, &map->dev_major, &map->dev_minor,
		   &map->ino, &used) != 7 ||
	    !used)
		return false;
	if (map->end <= map->start || strlen(perms) != 4)
		return false;
	map->exec = perms[2] == 'x';
	map->write = perms[1] == 'w';
	*path = line + used;
	*path += strspn(*path, " \t");
	return **path == '/' && map->ino;
}

static void add_map(struct proc_maps *maps, struct proc_map *map, const char *path)
{
	vec_reserve((void **)&maps->items, &maps->cap, maps->cnt + 1ULL, sizeof(*maps->items));
	map->path = xstrdup(path);
	map->deleted = proc_path__cut_deleted(map->path);
	unescape(map->path);
	maps->items[maps->cnt++] = *map;
}

/* ---- mappings of one file ---- */

static int cmp_file(const struct proc_map *a, const struct proc_map *b)
{
	int diff = sort__cmp(a->ino, b->ino);

	if (!diff)
		diff = sort__cmp(a->dev_major, b->dev_major);
	if (!diff)
		diff = sort__cmp(a->dev_minor, b->dev_minor);
	return diff ? diff : strcmp(a->path, b->path);
}

bool proc_map__same_file(const struct proc_map *a, const struct proc_map *b)
{
	return !cmp_file(a, b);
}

static int cmp_by_file(const void *a, const void *b)
{
	const struct proc_map *x = *(const struct proc_map *const *)a;
	const struct proc_map *y = *(const struct proc_map *const *)b;
	int diff = cmp_file(x, y);

	return diff ? diff : sort__cmp((uintptr_t)x, (uintptr_t)y);
}

/* By sorting: a process may map a file under as many names as it has mappings. */
static void find_first(struct proc_maps *maps)
{
	struct proc_map **sorted = xcalloc(maps->cnt + 1ULL, sizeof(*sorted));
	uint32_t cnt = 0;

	for (uint32_t i = 0; i < maps->cnt; i++)
		if (maps->items[i].exec)
			sorted[cnt++] = &maps->items[i];
	qsort(sorted, cnt, sizeof(*sorted), cmp_by_file);
	for (uint32_t i = 0; i < cnt; i++)
		sorted[i]->first = i && proc_map__same_file(sorted[i - 1], sorted[i]) ?
					   sorted[i - 1]->first :
					   (uint32_t)(sorted[i] - maps->items);
	free(sorted);
}

/* ---- the table ---- */

void proc_maps__parse(const char *text, size_t len, struct proc_maps *out)
{
	const char *end = text + len, *nl, *path;
	struct proc_map map;
	char *line;

	memset(out, 0, sizeof(*out));
	while (text < end) {
		nl = memchr(text, '\n', (size_t)(end - text));
		if (!nl)
			nl = end;
		line = xstrndup(text, (size_t)(nl - text));
		if (parse_line(line, &map, &path))
			add_map(out, &map, path);
		free(line);
		text = nl + 1;
	}
	find_first(out);
}

int proc_maps__read(pid_t pid, struct proc_maps *out)
{
	char *text;
	size_t len;
	int err = proc_file__read(pid, 0, "maps", &text, &len);

	if (err)
		return err;
	proc_maps__parse(text, len, out);
	free(text);
	return 0;
}

void proc_maps__free(struct proc_maps *maps)
{
	for (uint32_t i = 0; i < maps->cnt; i++)
		free(maps->items[i].path);
	free(maps->items);
	memset(maps, 0, sizeof(*maps));
}

const char *proc_map__base(const struct proc_map *map)
{
	return path__base(map->path);
}

bool proc_maps__is_first(const struct proc_maps *maps, uint32_t idx)
{
	return maps->items[idx].exec && maps->items[idx].first == idx;
}
