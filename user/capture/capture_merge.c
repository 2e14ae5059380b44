/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Ring records in time order over all rings. Owns the sorting window; must not interpret records.
 *
 * Each ring is almost in time order. It is not exactly so: a BPF program reads the clock, may then
 * be preempted, and reserves its record after another thread of the same CPU did. So records are
 * collected until a round block arrives, sorted, and emitted up to SLACK_NS before its watermark;
 * the rest is carried into the next round. The records of an agent come later than that, the more
 * so on a busy machine: the headers of later blocks say how old their oldest records are, and newer
 * records are held back until these have been read. If more than WINDOW_MAX bytes would have to be
 * held back, a record may come late; it is emitted and counted.
 *
 * The sort is a stable merge sort which skips merges of runs that are in order already, so the
 * usual input costs little more than a walk; base/containers.h compares through a pointer, which
 * would cost more than all the rest. The window is never larger than WINDOW_MAX bytes. A round that
 * adds few records to a large window is sorted with the next one: a hostile file may have many
 * rounds without records, and each sort costs a walk.
 */
#include "capture/capture_priv.h"

#include <stdlib.h>
#include <string.h>

#include "base/containers.h"
#include "base/mem.h"

#define SLACK_NS 2000000ULL
#define WINDOW_MAX (128u * 1024 * 1024) /* what the default rings of two processors hold together */
#define INSERTION_MAX 16
/* Of one of several captures: rings are there so that records of one time stay in order, which
 * needs no more than these. */
#define RINGS 16

struct merge_entry {
	uint64_t ts_ns;
	uint32_t ring;
	uint32_t off; /* of the record in the window, in units of 8 bytes */
};

/* A capture: the only one, or one of several, whose blocks are read round by round, always of
 * the one that is furthest behind. */
struct merge_part {
	struct capture_reader *cr;
	uint32_t nr;
	uint32_t block; /* blocks passed */
	uint64_t pos;   /* behind them */
	/* all its records before that time have been read, except for late ones */
	uint64_t passed_ns;
	bool done; /* it is at its end */
};

struct merge {
	struct capture_reader *cr;
	struct merge_part *parts, *part; /* part: that of the block being added */
	uint32_t part_cnt;
	uint64_t *bytes;   /* the window's records */
	uint32_t len, cap; /* in units of 8 bytes */
	struct merge_entry *ents, *tmp;
	uint32_t cnt, ent_cap, tmp_cap;
	uint32_t emitted; /* entries before this one were emitted */
	uint32_t sorted;  /* entries from `emitted` up to this one are in order */
	uint64_t last_ns; /* of the last that was emitted */
	uint32_t ring;    /* of the block being added */
	rec_fn fn;
	void *arg;
};

static bool entry_before(const struct merge_entry *a, const struct merge_entry *b)
{
	return a->ts_ns != b->ts_ns ? a->ts_ns < b->ts_ns : a->ring < b->ring;
}

static void insertion_sort(struct merge_entry *e, uint32_t cnt)
{
	uint32_t k;

	for (uint32_t i = 1; i < cnt; i++) {
		struct merge_entry x = e[i];

		for (k = i; k && entry_before(&x, &e[k - 1]); k--)
			e[k] = e[k - 1];
		e[k] = x;
	}
}

/* Stable; tmp has room for half of cnt. Depth is log2(cnt). */
static void merge_sort(struct merge_entry *e, uint32_t cnt, struct merge_entry *tmp)
{
	uint32_t mid = cnt / 2, i = 0, k = mid, out = 0;

	if (cnt <= INSERTION_MAX) {
		insertion_sort(e, cnt);
		return;
	}
	merge_sort(e, mid, tmp);
	merge_sort(e + mid, cnt - mid, tmp);
	if (!entry_before(&e[mid], &e[mid - 1]))
		return;
	memcpy(tmp, e, mid * sizeof(*e));
	while (i < mid && k < cnt)
		e[out++] = entry_before(&e[k], &tmp[i]) ? e[k++] : tmp[i++];
	memcpy(e + out, tmp + i, (mid - i) * sizeof(*e));
}

static int add_record(void *arg, const struct ptb_rec_hdr *rec)
{
	struct merge *m = arg;
	uint32_t words;

	if (m->cr->join)
		rec = capture_reader__part_record(m->cr, m->part->nr, rec);
	if (!rec)
		return 0;
	words = rec->len / 8;
	vec_reserve((void **)&m->bytes, &m->cap, (uint64_t)m->len + words, 8);
	vec_reserve((void **)&m->ents, &m->ent_cap, (uint64_t)m->cnt + 1, sizeof(*m->ents));
	memcpy(m->bytes + m->len, rec, rec->len);
	m->ents[m->cnt++] =
		(struct merge_entry){ .ts_ns = rec->ts_ns, .ring = m->ring, .off = m->len };
	m->len += words;
	return 0;
}

/* Drops what was emitted, once that is a quarter of the window, so that each record is moved a few
 * times at most. */
static void drop_emitted(struct merge *m)
{
	uint32_t n = m->cnt - m->emitted, len = 0;
	uint64_t *bytes;

	if (!m->emitted || m->emitted < n / 3)
		return;
	for (uint32_t i = m->emitted; i < m->cnt; i++)
		len += ((const struct ptb_rec_hdr *)(m->bytes + m->ents[i].off))->len / 8;
	bytes = xmalloc((size_t)len * 8 + 8);
	len = 0;
	for (uint32_t i = 0; i < n; i++) {
		struct merge_entry *e = &m->ents[i];
		const struct ptb_rec_hdr *rec;

		*e = m->ents[m->emitted + i];
		rec = (const void *)(m->bytes + e->off);
		memcpy(bytes + len, rec, rec->len);
		e->off = len;
		len += rec->len / 8;
	}
	memcpy(m->bytes, bytes, (size_t)len * 8);
	free(bytes);
	m->sorted -= m->emitted;
	m->emitted = 0;
	m->cnt = n;
	m->len = len;
}

#define EMIT_ALL UINT64_MAX /* whatever their times are */
#define CARRY_SHARE 8       /* of what is carried, so much must be new for another sort */

static void sort_window(struct merge *m)
{
	uint32_t cnt = m->cnt - m->emitted;

	if (m->sorted == m->cnt)
		return;
	vec_reserve((void **)&m->tmp, &m->tmp_cap, cnt / 2 + 1, sizeof(*m->tmp));
	merge_sort(m->ents + m->emitted, cnt, m->tmp);
	m->sorted = m->cnt;
}

/* Emits the window's records that are older than `until`. */
static int emit_until(struct merge *m, uint64_t until)
{
	int ret;

	sort_window(m);
	for (; m->emitted < m->cnt && (until == EMIT_ALL || m->ents[m->emitted].ts_ns < until);
	     m->emitted++) {
		const struct merge_entry *e = &m->ents[m->emitted];

		if (e->ts_ns >= m->last_ns)
			m->last_ns = e->ts_ns;
		else if (m->cr->oldest_known)
			m->cr->late++;
		ret = m->fn(m->arg, (const void *)(m->bytes + e->off));
		if (ret)
			return ret;
	}
	drop_emitted(m);
	return 0;
}

static uint64_t part_time(const struct merge *m, const struct merge_part *p, uint64_t ns)
{
	return m->cr->join ? m->cr->join->time(m->cr->join->arg, p->nr, ns) : ns;
}

/* Time of the oldest record in the blocks to come; UINT64_MAX: there is none, or it is not
 * known. */
static uint64_t oldest_ahead(const struct merge *m)
{
	uint64_t oldest = UINT64_MAX, ns;

	for (const struct merge_part *p = m->parts; p < m->parts + m->part_cnt; p++) {
		ns = p->block < p->cr->oldest_cnt ? part_time(m, p, p->cr->oldest[p->block]) :
						    UINT64_MAX;
		oldest = ns < oldest ? ns : oldest;
	}
	return oldest;
}

/* NULL: all are at their ends. */
static struct merge_part *furthest_behind(const struct merge *m)
{
	struct merge_part *first = NULL;

	for (struct merge_part *p = m->parts; p < m->parts + m->part_cnt; p++)
		if (!p->done && (!first || p->passed_ns < first->passed_ns))
			first = p;
	return first;
}

/*
 * The window is full: the older part of it is emitted, as far as no block to come has older
 * records. If that is less than a quarter, they come late.
 */
static int empty_window(struct merge *m)
{
	const struct merge_entry *e;
	uint64_t until, ahead = oldest_ahead(m);
	uint32_t cnt = m->cnt - m->emitted;

	sort_window(m);
	if (!cnt)
		return 0;
	e = m->ents + m->emitted;
	until = e[cnt / 4 * 3].ts_ns;
	if (ahead < until && e[cnt / 4].ts_ns < ahead)
		until = ahead;
	/* many of one time: all go, or the next block would find the window as full */
	return emit_until(m, e[cnt / 4].ts_ns < until ? until : EMIT_ALL);
}

static int end_round(struct merge *m)
{
	const struct merge_part *first = furthest_behind(m);
	uint64_t until = first && first->passed_ns > SLACK_NS ? first->passed_ns - SLACK_NS : 0;
	uint64_t ahead = oldest_ahead(m);

	if (ahead < until)
		until = ahead;
	if (m->cnt - m->sorted && m->cnt - m->sorted < (m->sorted - m->emitted) / CARRY_SHARE)
		return 0;
	return emit_until(m, until);
}

static int handle_block(struct merge *m, const struct capture_block_hdr *h)
{
	struct merge_part *p = m->part;
	const uint8_t *raw;
	int ret;

	p->block++;
	if (h->type == CAPTURE_ROUND) {
		p->passed_ns = part_time(m, p, h->watermark_ns);
		return end_round(m);
	}
	if (h->type != CAPTURE_RING)
		return 0;
	if (capture_reader__payload(p->cr, h, &raw)) {
		p->cr->bad_records += h->rec_cnt ? h->rec_cnt : 1;
		return 0;
	}
	m->ring = m->cr->join ? p->nr * RINGS + h->ring % RINGS : h->ring;
	ret = capture_reader__each(p->cr, CAPTURE_RING, raw, h->raw_len, add_record, m);
	if (!ret && m->len > WINDOW_MAX / 8)
		ret = empty_window(m);
	return ret;
}

static void begin_parts(struct merge *m)
{
	const struct capture_join *join = m->cr->join;

	m->part_cnt = join ? join->cnt : 1;
	m->parts = xcalloc(m->part_cnt, sizeof(*m->parts));
	m->cr->bad_records = m->cr->late = 0;
	for (uint32_t i = 0; i < m->part_cnt; i++) {
		struct capture_reader *cr = join ? join->parts[i] : m->cr;

		cr->bad_records = 0;
		m->parts[i] = (struct merge_part){ .cr = cr, .nr = i, .pos = cr->first_block };
	}
}

int capture_reader__stream(struct capture_reader *cr, rec_fn fn, void *arg)
{
	struct merge m = { .cr = cr, .fn = fn, .arg = arg };
	struct capture_block_hdr h;
	int ret = 0;

	begin_parts(&m);
	while (!ret && (m.part = furthest_behind(&m))) {
		struct merge_part *p = m.part;

		ret = capture_reader__next_block(p->cr, &p->pos, p->cr->valid_end, &h);
		if (ret > 0) {
			ret = handle_block(&m, &h);
		} else if (!ret) {
			p->done = true;
			if (cr->join)
				cr->bad_records += p->cr->bad_records;
		}
	}
	if (!ret)
		ret = emit_until(&m, EMIT_ALL);
	free(m.parts);
	free(m.bytes);
	free(m.ents);
	free(m.tmp);
	return ret;
}
