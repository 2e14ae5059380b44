/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Operators of an agent that are open when the window begins; see recorder_agent.h. Each is in two
 * circles, in the order of begin: of all, and of its stream. An agent chooses the objects, streams
 * and order of its records, so nothing here searches.
 */
#include "record/recorder_agent.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/mem.h"

/* Keys in `ids`: (object, BY_OBJECT): the entry; (0, OF_ALL), (stream, OF_STREAM): the first one of
 * a circle. */
enum { OF_ALL, OF_STREAM, BY_OBJECT };

static struct agent_open *find(const struct agent_opens *o, uint64_t key, int kind)
{
	const uint64_t *known = hashmap__get(&o->ids, key, (uint64_t)kind);

	return known ? (struct agent_open *)*known : NULL;
}

static void join(struct agent_opens *o, struct agent_open *e, uint64_t key, int circle)
{
	struct agent_open *first = find(o, key, circle);

	e->next[circle] = e->prev[circle] = e;
	if (!first) {
		hashmap__put(&o->ids, key, (uint64_t)circle, (uint64_t)e);
		return;
	}
	e->next[circle] = first;
	e->prev[circle] = first->prev[circle];
	first->prev[circle]->next[circle] = e;
	first->prev[circle] = e;
}

static void leave(struct agent_opens *o, struct agent_open *e, uint64_t key, int circle)
{
	if (e->next[circle] == e)
		hashmap__del(&o->ids, key, (uint64_t)circle);
	else if (find(o, key, circle) == e)
		hashmap__put(&o->ids, key, (uint64_t)circle, (uint64_t)e->next[circle]);
	e->prev[circle]->next[circle] = e->next[circle];
	e->next[circle]->prev[circle] = e->prev[circle];
}

static size_t size_of(const struct ptb_rf_begin *rec)
{
	return offsetof(struct agent_open, rec) + rec->h.len;
}

void agent_open__remove(struct agent_opens *o, struct agent_open *e)
{
	leave(o, e, 0, OF_ALL);
	leave(o, e, e->stream, OF_STREAM);
	hashmap__del(&o->ids, e->rec.rf, BY_OBJECT);
	o->cnt--;
	o->bytes -= size_of(&e->rec);
	free(e);
}

int agent_open__add(struct agent_opens *o, uint32_t stream, const struct ptb_rf_begin *rec)
{
	struct agent_open *e = agent_open__find(o, rec->rf);
	size_t size = size_of(rec);

	if (e)
		/* another object at this address: that one's end did not come */
		agent_open__remove(o, e);
	if (o->cnt >= LIMIT_AGENT_OPEN || o->bytes + size > LIMIT_AGENT_OPEN_BYTES ||
	    !mem_limit__allows(size + hashmap__growth(&o->ids)))
		return -E2BIG;
	e = xmalloc(size);
	memcpy(&e->rec, rec, rec->h.len);
	e->stream = stream;
	hashmap__put(&o->ids, rec->rf, BY_OBJECT, (uint64_t)e);
	join(o, e, 0, OF_ALL);
	join(o, e, stream, OF_STREAM);
	o->cnt++;
	o->bytes += size;
	return 0;
}

struct agent_open *agent_open__find(const struct agent_opens *o, uint64_t rf)
{
	return find(o, rf, BY_OBJECT);
}

struct agent_open *agent_open__first(const struct agent_opens *o, uint32_t stream)
{
	return o->cnt ? find(o, stream, stream ? OF_STREAM : OF_ALL) : NULL;
}

void agent_open__clear(struct agent_opens *o)
{
	struct agent_open *e;

	while ((e = agent_open__first(o, 0)))
		agent_open__remove(o, e);
	hashmap__clear(&o->ids);
}
