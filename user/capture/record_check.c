/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Record lengths against their rows; see capture.h. */
#include "capture/capture.h"

struct rec_row {
	uint16_t fixed_sz; /* 0: not known */
	uint16_t text_off; /* offset of text_len, 0: no text */
	enum ptb_reader reader;
};

#define TEXT_OFF_0(type) 0
#define TEXT_OFF_1(type) offsetof(struct type, text_len)

static const struct rec_row rows[256] = {
#define X(name, nr, type, tail, reader)                                                            \
	[nr] = { sizeof(struct type), TEXT_OFF_##tail(type), PTB_READ_##reader },
	PTB_REC_KINDS(X)
#undef X
};

uint32_t record__len(const void *p, size_t left)
{
	const struct ptb_rec_hdr *rec = p;

	if (left < sizeof(*rec) || rec->len < sizeof(*rec) || rec->len % 8 || rec->len > left)
		return 0;
	return rec->len;
}

uint32_t record__fixed_size(uint8_t kind)
{
	return rows[kind].fixed_sz;
}

enum ptb_reader record__reader(uint8_t kind)
{
	return rows[kind].reader;
}

bool record__is_by_thread(uint8_t kind)
{
	return rows[kind].reader >= PTB_READ_THREADS && rows[kind].reader <= PTB_READ_SCHED;
}

bool record__well_formed(const struct ptb_rec_hdr *rec)
{
	const struct rec_row *row = &rows[rec->kind];
	uint32_t text_len;

	if (!row->fixed_sz)
		return true;
	if (rec->len < row->fixed_sz)
		return false;
	record__text(rec, &text_len);
	return text_len <= (uint32_t)rec->len - row->fixed_sz;
}

const char *record__text(const struct ptb_rec_hdr *rec, uint32_t *len)
{
	const struct rec_row *row = &rows[rec->kind];

	*len = row->text_off ? *(const uint32_t *)((const char *)rec + row->text_off) : 0;
	return row->text_off ? (const char *)rec + row->fixed_sz : NULL;
}

uint32_t record__text_end(const struct ptb_rec_hdr *rec)
{
	uint32_t len;

	record__text(rec, &len);
	return rows[rec->kind].fixed_sz + ((len + 7) & ~7U);
}
