/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Times that rules add up: of whole steps, of the outermost slices, by line and by thread. */
#include <stdlib.h>

#include "why/why_priv.h"

/* ---- of whole steps ---- */

static void settle(const struct why_thread *t, struct why_amount *a)
{
	if (a->step < t->step_cnt && t->whole[a->step]) {
		a->ns += a->now_ns;
		a->cnt += a->now_cnt;
	}
	if (a->step != t->step_cnt) {
		a->now_ns = a->now_cnt = 0;
		a->step = t->step_cnt;
	}
}

void why_amount__add(const struct why_seen *seen, struct why_amount *a, uint64_t ns, uint64_t cnt)
{
	settle(seen->t, a);
	why_later__take(seen);
	a->throughout |= seen->throughout;
	a->now_ns += ns;
	a->now_cnt += cnt;
	a->all_ns += ns;
	a->all_cnt += cnt;
}

uint64_t why_amount__ns(const struct why_thread *t, struct why_amount *a)
{
	settle(t, a);
	if (a->throughout)
		return (uint64_t)((double)a->all_ns * t->steps_share);
	return t->whole_cnt ? a->ns : a->all_ns;
}

uint64_t why_amount__cnt(const struct why_thread *t, struct why_amount *a)
{
	settle(t, a);
	if (a->throughout)
		return (uint64_t)((double)a->all_cnt * t->steps_share);
	return t->whole_cnt ? a->cnt : a->all_cnt;
}

/* ---- of the outermost slices ---- */

void why_outer__drop(const struct why_seen *seen, struct why_outer *o, struct why_amount *a)
{
	settle(seen->t, a);
	if (o->step != seen->t->step_cnt)
		o->cnt = 0;
	o->step = seen->t->step_cnt;
	for (; o->cnt && o->list[o->cnt - 1].begin_ns >= seen->sl->begin_ns; o->cnt--) {
		a->now_ns -= o->list[o->cnt - 1].ns;
		a->all_ns -= o->list[o->cnt - 1].ns;
		a->now_cnt--;
		a->all_cnt--;
	}
}

void why_outer__add(const struct why_seen *seen, struct why_outer *o, struct why_amount *a)
{
	const struct slice *sl = seen->sl;
	uint64_t ns = sl->end_ns - sl->begin_ns;

	why_outer__drop(seen, o, a);
	vec_push(o->list, o->cnt, o->cap, (struct why_span){ sl->begin_ns, ns });
	why_amount__add(seen, a, ns, 1);
}

/* ---- by line ---- */

void why_lines__add(const struct why_seen *seen, struct why_lines *l, uint32_t stack, uint64_t ns,
		    uint64_t cnt)
{
	uint32_t line = why__line(seen->w, stack);
	struct why_line *at = list__keyed(KEYED_LIST(l, lines, line), line, 0);

	at->line = line;
	why_amount__add(seen, &at->amount, ns, cnt);
}

struct why_line *why_lines__most(const struct why_thread *t, struct why_lines *l, uint64_t *ns,
				 uint64_t *cnt)
{
	struct why_line *most = NULL;

	*ns = *cnt = 0;
	for (uint32_t i = 0; i < l->line_cnt; i++) {
		struct why_line *at = &l->lines[i];
		uint64_t own = why_amount__ns(t, &at->amount);

		*ns += own;
		*cnt += why_amount__cnt(t, &at->amount);
		if (own && (!most || own > why_amount__ns(t, &most->amount)))
			most = at;
	}
	return most;
}

void why_lines__free(struct why_lines *l)
{
	free(l->lines);
	hashmap__clear(&l->line_ids);
}

/* ---- by thread ---- */

void why_peers__add(struct why_peers *p, uint32_t tgid, uint32_t tid, uint64_t ns)
{
	struct why_peer *peer = list__keyed(KEYED_LIST(p, peers, peer), tgid, tid);

	peer->tgid = tgid;
	peer->tid = tid;
	peer->ns += ns;
}

const struct why_peer *why_peers__most(const struct why_peers *p)
{
	const struct why_peer *most = NULL;

	for (uint32_t i = 0; i < p->peer_cnt; i++)
		if (!most || p->peers[i].ns > most->ns)
			most = &p->peers[i];
	return most;
}

void why_peers__free(struct why_peers *p)
{
	free(p->peers);
	hashmap__clear(&p->peer_ids);
}
