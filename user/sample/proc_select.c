/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See proc_select.h. */
#include "sample/proc_select.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "base/containers.h"
#include "base/proc_read.h"
#include "target/proc_info.h"

#define CGROUP_ROOT "/sys/fs/cgroup"

/* Is path the group, or below it? */
static bool is_below(const char *group, const char *path, size_t path_len)
{
	size_t len;

	if (!strncmp(group, CGROUP_ROOT, strlen(CGROUP_ROOT)))
		group += strlen(CGROUP_ROOT);
	for (len = strlen(group); len && group[len - 1] == '/';)
		len--;
	if (*group && *group != '/') { /* without the slash at its beginning */
		path++;
		path_len -= path_len > 0;
	}
	return path_len >= len && !memcmp(group, path, len) &&
	       (path_len == len || path[len] == '/');
}

/* Any of its hierarchies. */
static bool is_in_cgroup(pid_t pid, const char *group)
{
	char *text = NULL;
	const char *at;
	struct proc_cgroup cg;
	size_t len;
	bool found = false;

	if (proc_file__read(pid, 0, "cgroup", &text, &len))
		return false;
	for (at = text; !found && proc_cgroup__next(&at, &cg);)
		found = is_below(group, cg.path, cg.len);
	free(text);
	return found;
}

bool proc_select__matches(const struct proc_select *sel, pid_t pid)
{
	char comm[16];

	if (sel->comm && (proc__comm(pid, 0, comm) || fnmatch(sel->comm, comm, 0) != 0))
		return false;
	return !sel->cgroup || is_in_cgroup(pid, sel->cgroup);
}

/* ---- the list ---- */

static int by_pid(const void *a, const void *b)
{
	const struct proc_item *x = a, *y = b;

	return sort__cmp((uint64_t)x->pid, (uint64_t)y->pid);
}

static void sort_list(struct proc_list *list, int (*cmp)(const void *, const void *))
{
	if (list->cnt)
		qsort(list->items, list->cnt, sizeof(*list->items), cmp);
}

void proc_list__free(struct proc_list *list)
{
	free(list->items);
	*list = (struct proc_list){ .cnt = 0 };
}

void proc_list__add(struct proc_list *list, pid_t pid, uid_t uid)
{
	vec_push(list->items, list->cnt, list->cap, (struct proc_item){ .pid = pid, .uid = uid });
}

void proc_list__replace(struct proc_list *list, struct proc_list *now)
{
	uint32_t k = 0;

	sort_list(now, by_pid);
	for (uint32_t i = 0; i < now->cnt; i++) {
		while (k < list->cnt && list->items[k].pid < now->items[i].pid)
			k++;
		if (k < list->cnt && list->items[k].pid == now->items[i].pid)
			now->items[i].turn = list->items[k].turn;
	}
	now->turn = list->turn;
	proc_list__free(list);
	*list = *now;
	*now = (struct proc_list){ .cnt = 0 };
}

/* ---- turns ---- */

static int by_wait(const void *a, const void *b)
{
	const struct proc_item *x = a, *y = b;

	return x->turn != y->turn ? sort__cmp(x->turn, y->turn) : by_pid(a, b);
}

static int by_user(const void *a, const void *b)
{
	const struct proc_item *x = a, *y = b;

	return x->uid != y->uid ? sort__cmp(x->uid, y->uid) : by_wait(a, b);
}

static int by_rank(const void *a, const void *b)
{
	const struct proc_item *x = a, *y = b;

	return x->rank != y->rank ? sort__cmp(x->rank, y->rank) : by_wait(a, b);
}

uint32_t proc_select__turn(struct proc_list *list, uint32_t limit, pid_t *pids)
{
	struct proc_item *items = list->items;
	uint32_t cnt = 0;

	sort_list(list, by_user);
	for (uint32_t i = 0; i < list->cnt; i++)
		items[i].rank = i && items[i - 1].uid == items[i].uid ? items[i - 1].rank + 1 : 0;
	sort_list(list, by_rank);
	list->turn++;
	for (uint32_t i = 0; i < list->cnt && i < limit; i++)
		items[i].turn = list->turn;
	sort_list(list, by_pid);
	for (uint32_t i = 0; i < list->cnt; i++)
		if (items[i].turn == list->turn)
			pids[cnt++] = items[i].pid;
	return cnt;
}
