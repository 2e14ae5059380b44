/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See ranks_priv.h. */
#include "ranks/ranks_priv.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/containers.h"
#include "capture/capture.h"

#define ID_MAX (1u << 22)     /* as in model/facts.c */
#define TIME_MAX (1ULL << 62) /* as TS_MAX of the model */

enum field_kind { NAME = REMAP_NAME, FUNC = REMAP_FUNC, SITE = REMAP_SITE, TIME, PID };

static const struct field {
	uint8_t kind, what;
	uint16_t off;
} fields[] = {
#define X(kind, type, field, what) { PTB_REC_##kind, what, offsetof(struct type, field) },
	PTB_REC_FIELDS(X)
#undef X
};
#define FIELD_CNT (sizeof(fields) / sizeof(fields[0]))

/* Of a kind its first row + 1, 0: it has none. Rows of one kind stand together. */
static uint8_t first_field(uint8_t kind)
{
	static uint8_t first[256];
	static bool known;

	for (size_t i = FIELD_CNT; !known && i--;)
		first[fields[i].kind] = (uint8_t)(i + 1);
	known = true;
	return first[kind];
}
_Static_assert(FIELD_CNT < 255, "rows are counted in a byte");

void remap__clear(struct remap *m)
{
	for (int i = 0; i < REMAP_ID_KINDS; i++) {
		free(m->ids[i]);
		m->ids[i] = NULL;
		m->caps[i] = 0;
	}
}

/* The id in the new capture, the same for the same old one; 0: for 0, and for what no capture of
 * ours has. */
static uint32_t remap_id(struct remap *m, enum remap_ids kind, uint32_t id)
{
	uint32_t **ids = &m->ids[kind];

	if (!id || id >= ID_MAX)
		return 0;
	vec_reserve((void **)ids, &m->caps[kind], (uint64_t)id + 1, sizeof(**ids));
	if (!(*ids)[id])
		(*ids)[id] = ++m->space->last[kind];
	return (*ids)[id];
}

uint64_t remap__time(const struct remap *m, uint64_t ns)
{
	int64_t t;

	if (!ns || ns >= TIME_MAX || __builtin_add_overflow((int64_t)ns, m->shift_ns, &t) ||
	    t <= 0 || (uint64_t)t >= TIME_MAX)
		return 0;
	return (uint64_t)t;
}

uint32_t remap__pid(const struct remap *m, uint32_t pid)
{
	return pid && pid < REMAP_PIDS ? pid + m->pid_shift : 0;
}

/* False: a number that cannot be one. */
static bool map_field(struct remap *m, char *rec, const struct field *f)
{
	uint32_t *id = (void *)(rec + f->off);
	uint64_t *ns = (void *)(rec + f->off);
	uint64_t old = f->what == TIME ? *ns : *id;

	if (!old)
		return true;
	if (f->what == TIME)
		return (*ns = remap__time(m, *ns)) != 0;
	*id = f->what == PID ? remap__pid(m, *id) : remap_id(m, (enum remap_ids)f->what, *id);
	return *id != 0;
}

static bool map_header(struct remap *m, struct ptb_rec_hdr *h)
{
	const struct ptb_rec_hdr old = *h;

	h->ts_ns = remap__time(m, old.ts_ns);
	h->tgid = remap__pid(m, old.tgid);
	h->tid = remap__pid(m, old.tid);
	h->site = remap_id(m, REMAP_SITE, old.site);
	return !h->ts_ns == !old.ts_ns && !h->tgid == !old.tgid && !h->tid == !old.tid &&
	       !h->site == !old.site;
}

bool remap__record(struct remap *m, const struct ptb_rec_hdr *rec, uint64_t *buf)
{
	enum ptb_reader reader = record__reader(rec->kind);
	uint8_t row;

	if (reader == PTB_READ_NOBODY || reader == PTB_READ_RECORDER) {
		m->left_out++;
		return false;
	}
	if (record__is_by_thread(rec->kind) && (rec->ts_ns < m->begin_ns || rec->ts_ns > m->end_ns))
		return false;
	memcpy(buf, rec, rec->len);
	if (!map_header(m, (void *)buf)) {
		m->left_out++;
		return false;
	}
	row = first_field(rec->kind);
	for (size_t i = row ? row - 1U : FIELD_CNT; i < FIELD_CNT && fields[i].kind == rec->kind;
	     i++)
		if (!map_field(m, (char *)buf, &fields[i])) {
			m->left_out++;
			return false;
		}
	return true;
}
