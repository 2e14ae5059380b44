/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Says whose processes windows will have, before the first one. */
#define LOG_DOMAIN "sample"
#include <stdio.h>

#include "base/log.h"
#include "base/text.h"
#include "sample/daemon.h"

#define USERS_SAID 8 /* others are counted */
#define USER_MAX 32

/* "2 of alice, 1 of bob" */
static void say_users(const struct proc_list *procs, char *text, size_t cap)
{
	struct {
		uid_t uid;
		uint32_t cnt;
	} users[USERS_SAID + 1] = { 0 };
	uint32_t user_cnt = 0, k;
	int len = 0;

	for (uint32_t i = 0; i < procs->cnt; i++) {
		for (k = 0; k < user_cnt && users[k].uid != procs->items[i].uid; k++)
			;
		if (k == user_cnt && k < USERS_SAID)
			users[user_cnt++].uid = procs->items[i].uid;
		users[k].cnt++;
	}
	for (k = 0; k < user_cnt; k++) {
		char name[USER_MAX];

		len += snprintf(text + len, cap - (size_t)len, "%s%u of %s", k ? ", " : "",
				users[k].cnt, user_name(users[k].uid, name, sizeof(name)));
	}
	if (users[USERS_SAID].cnt)
		snprintf(text + len, cap - (size_t)len, ", %u of other users",
			 users[USERS_SAID].cnt);
}

void selected__say(const struct daemon *d)
{
	char text[USERS_SAID * (USER_MAX + 20) + 32] = "";
	struct proc_list procs = { .cnt = 0 };

	if (d->set->pid_cnt || proc_scout__select(&d->set->select, &procs))
		return;
	say_users(&procs, text, sizeof(text));
	if (procs.cnt)
		pr_info("%u process%s with PyTorch will be sampled: %s; later ones, too", procs.cnt,
			plural(procs.cnt, "es"), text);
	else
		pr_info("no process with PyTorch is there to be sampled; later ones will be");
	proc_list__free(&procs);
}
