/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See proc_select.h. */
#include "sample/proc_select.h"

static bool same_process(const struct proc_id *a, const struct proc_id *b)
{
	return a->pid == b->pid && (a->start == b->start || !a->start || !b->start);
}

static bool same_file(const struct proc_id *a, const struct proc_id *b)
{
	return a->ino && a->ino == b->ino && a->dev == b->dev && a->uid == b->uid;
}

static bool is_old(const struct left_out_row *r, uint64_t now_ns)
{
	return now_ns >= r->ns + LEFT_OUT_NS;
}

bool left_out__add(struct left_out *lo, const struct proc_id *id, uint32_t strikes, uint64_t now_ns)
{
	bool had = left_out__has(lo, id, now_ns);
	struct left_out_row *at = lo->rows;

	for (uint32_t i = 0; i < lo->cnt; i++) {
		struct left_out_row *r = &lo->rows[i];

		if (same_process(&r->id, id)) {
			at = r;
			strikes += is_old(r, now_ns) ? 0 : r->strikes;
			break;
		}
		if (i + 1 == lo->cnt && lo->cnt < LEFT_OUT_MAX)
			at = &lo->rows[lo->cnt];
		else if (r->ns < at->ns)
			at = r;
	}
	lo->cnt += at == &lo->rows[lo->cnt];
	*at = (struct left_out_row){ *id, strikes, now_ns };
	return !had && left_out__has(lo, id, now_ns);
}

bool left_out__has(const struct left_out *lo, const struct proc_id *id, uint64_t now_ns)
{
	uint32_t of_file = 0, of_user = 0;

	for (uint32_t i = 0; i < lo->cnt; i++) {
		const struct left_out_row *r = &lo->rows[i];

		if (r->strikes < LEFT_OUT_STRIKES || is_old(r, now_ns))
			continue;
		if (same_process(&r->id, id))
			return true;
		of_file += same_file(&r->id, id);
		of_user += id->uid && r->id.uid == id->uid;
	}
	return of_file >= LEFT_OUT_OF_FILE || of_user >= LEFT_OUT_OF_USER;
}
