/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Packets of a Perfetto trace, all of one sequence: what they refer to by number, dictionaries and
 * tracks, is in the file once, before the first packet that needs it. A uuid is the track's number:
 * it takes a byte or two of each event. Knows no events.
 */
#include <stdlib.h>

#include "base/text.h"
#include "export/perfetto_priv.h"

#define OUT_SZ (256 * 1024)
#define SEQUENCE 1
#define SEEN 256

/* The same texts come again and again from the same places. */
struct seen {
	const char *from, *text;
	size_t len;
	uint32_t iid;
};

struct perfetto_dict {
	struct strtab *texts;
	uint32_t written;
	struct seen seen[SEEN];
};

static const uint32_t dict_fields[] = {
#define X(name, field) [name] = field,
	DICTIONARIES(X)
#undef X
};

void perfetto_file__init(struct perfetto_file *f, struct out_file *of)
{
	f->of = of;
	f->dicts = xcalloc(DICT_CNT, sizeof(*f->dicts));
	for (int i = 0; i < DICT_CNT; i++)
		f->dicts[i].texts = strtab__new();
}

void perfetto_file__free(struct perfetto_file *f)
{
	for (int i = 0; i < DICT_CNT; i++)
		strtab__free(f->dicts[i].texts);
	free(f->dicts);
	free(f->tracks);
	hashmap__clear(&f->track_ids);
	free(f->out.p);
	free(f->interned.p);
}

void perfetto_file__flush(struct perfetto_file *f)
{
	out_file__write(f->of, f->out.p, f->out.len); /* logs; out_file__end() has the error */
	f->out.len = 0;
}

size_t perfetto_file__begin(struct perfetto_file *f, uint64_t ts, uint32_t flags)
{
	size_t packet = pb__begin(&f->out, TRACE_PACKET);

	pb__u64(&f->out, PACKET_TIMESTAMP, ts);
	pb__u64(&f->out, PACKET_SEQUENCE, SEQUENCE);
	if (flags)
		pb__u64(&f->out, PACKET_SEQUENCE_FLAGS, flags);
	return packet;
}

void perfetto_file__end(struct perfetto_file *f, size_t packet)
{
	if (f->interned.len)
		pb__bytes(&f->out, PACKET_INTERNED_DATA, f->interned.p, f->interned.len);
	f->interned.len = 0;
	pb__end(&f->out, packet);
	if (f->out.len > OUT_SZ)
		perfetto_file__flush(f);
}

/* A byte XX that is no UTF-8 is written as the character U+00XX, as in JSON (base/jsonw.h). */
void perfetto__put_text(struct pb *b, uint32_t field, const char *text, size_t len)
{
	size_t begin = pb__begin(b, field), n;
	const char *p = text, *end = text + len;
	uint32_t c;

	for (; p < end; p += n ? n : 1) {
		n = utf8__decode(p, end, &c);
		if (n)
			pb__raw(b, p, n);
		else
			pb__raw(b,
				(char[]){ (char)(0xc0 | (uint8_t)*p >> 6),
					  (char)(0x80 | (*p & 0x3f)) },
				2);
	}
	pb__end(b, begin);
}

/* ---- dictionaries ---- */

/* The ids of frames, as the text holds them. */
static void put_frames(struct pb *b, const char *text, size_t len)
{
	uint32_t frame;

	for (size_t i = 0; i + sizeof(frame) <= len; i += sizeof(frame)) {
		memcpy(&frame, text + i, sizeof(frame));
		pb__u64(b, CALLSTACK_FRAME, frame);
	}
}

static void put_interned(struct perfetto_file *f, enum dict which, uint32_t iid, const char *text,
			 size_t len)
{
	struct pb *b = &f->interned;
	size_t entry = pb__begin(b, dict_fields[which]);

	pb__u64(b, INTERNED_IID, iid);
	if (which == DICT_CALLSTACK)
		put_frames(b, text, len);
	else
		perfetto__put_text(b, INTERNED_TEXT, text, len);
	if (which == DICT_GPU_SPECIFICATION)
		pb__u64(b, SPECIFICATION_CATEGORY, SPECIFICATION_COMPUTE);
	pb__end(b, entry);
	if (which != DICT_FUNCTION)
		return;
	entry = pb__begin(b, INTERNED_FRAMES); /* a function's text has its file and line */
	pb__u64(b, INTERNED_IID, iid);
	pb__u64(b, FRAME_FUNCTION, iid);
	pb__end(b, entry);
}

uint32_t perfetto_file__intern(struct perfetto_file *f, enum dict which, const char *text,
			       size_t len)
{
	struct perfetto_dict *d = &f->dicts[which];
	struct seen *s = &d->seen[((uintptr_t)text >> 3 ^ len) % SEEN];

	if (s->from == text && s->len == len && !memcmp(s->text, text, len))
		return s->iid;
	*s = (struct seen){ .from = text, .len = len };
	s->iid = which == DICT_VALUE ? strtab__try_add(d->texts, text, len) :
				       strtab__add(d->texts, text, len);
	s->text = strtab__text(d->texts, s->iid);
	if (!s->iid) {
		s->from = NULL;
		return 0;
	}
	if (s->iid > d->written) {
		d->written = s->iid;
		put_interned(f, which, s->iid, text, len);
	}
	return s->iid;
}

const char *perfetto_file__text(const struct perfetto_file *f, enum dict which, uint32_t iid)
{
	return strtab__text(f->dicts[which].texts, iid);
}

/* ---- tracks ---- */

struct perfetto_track *perfetto_file__track(struct perfetto_file *f, enum track_kind kind,
					    uint32_t owner, uint64_t nr)
{
	return list__keyed(KEYED_LIST(f, tracks, track), (uint64_t)kind << 32 | owner, nr);
}

static void put_track(struct pb *b, const struct perfetto_about *about)
{
	size_t part;

	if (about->kind == TRACK_OF_PROCESS) {
		part = pb__begin(b, TRACK_PROCESS);
		pb__u64(b, PROCESS_PID, about->pid);
		if (about->name)
			perfetto__put_text(b, PROCESS_NAME, about->name, strlen(about->name));
		pb__end(b, part);
		return;
	}
	if (about->kind == TRACK_OF_THREAD) {
		part = pb__begin(b, TRACK_THREAD);
		pb__u64(b, THREAD_PID, about->pid);
		pb__u64(b, THREAD_TID, about->tid);
		if (about->name)
			perfetto__put_text(b, THREAD_NAME, about->name, strlen(about->name));
		pb__end(b, part);
		return;
	}
	perfetto__put_text(b, TRACK_NAME, about->name, strlen(about->name));
	pb__u64(b, TRACK_MERGE, TRACK_MERGE_NONE);
	if (about->kind != TRACK_VALUE)
		return;
	part = pb__begin(b, TRACK_COUNTER);
	pb__u64(b, COUNTER_UNIT, about->unit);
	pb__end(b, part);
}

void perfetto_file__describe(struct perfetto_file *f, struct perfetto_track *t,
			     const struct perfetto_about *about)
{
	size_t packet = perfetto_file__begin(f, PERFETTO_BEGIN_NS, 0),
	       track = pb__begin(&f->out, PACKET_TRACK);

	if (!t->uuid)
		t->uuid = (uint64_t)(t - f->tracks) + 1;
	pb__u64(&f->out, TRACK_UUID, t->uuid);
	if (about->parent)
		pb__u64(&f->out, TRACK_PARENT, about->parent);
	put_track(&f->out, about);
	pb__end(&f->out, track);
	perfetto_file__end(f, packet);
}
