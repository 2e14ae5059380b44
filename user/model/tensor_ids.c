/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Numbers of tensors and storages; see model_priv.h. Reads neither records nor schemas beyond their
 * returns. */
#include "model/model_priv.h"

#include <stdlib.h>

#include "args/values.h"
#include "base/containers.h"
#include "base/limits.h"

struct seen_object {
	uint64_t last_ns; /* of an unused one: index + 1 of the next */
	uint32_t id;
	union {
		struct { /* a tensor */
			/* the number of its storage when it was last seen, 0: none */
			uint32_t storage;
			uint32_t storage_at; /* index of that one, as long as it has that number */
			uint64_t data;       /* of that one */
		};
		struct {                  /* a storage */
			uint32_t holders; /* tensors seen with it */
			/* as the last tensor that ended counted them, and how many in a row counted
			 * the same */
			uint32_t refs;
			uint32_t ends;
		};
	};
};

void tensor_ids__clear(struct tensor_ids *ids)
{
	hashmap__clear(&ids->tensors.by_addr);
	hashmap__clear(&ids->storages.by_addr);
	hashmap__clear(&ids->programs);
	op_schemas__clear(&ids->schemas);
	free(ids->tensors.v);
	free(ids->storages.v);
	*ids = (struct tensor_ids){ 0 };
}

static uint32_t next_id(struct tensor_ids *ids)
{
	if (ids->next < UINT32_MAX)
		ids->next++;
	return ids->next;
}

/* The process as a key: another one for each program that runs in it. */
static uint64_t program(const struct tensor_ids *ids, uint32_t tgid)
{
	const uint64_t *nr = hashmap__get(&ids->programs, tgid, 0);

	return tgid | (nr ? *nr << 32 : 0);
}

void tensor_ids__new_program(struct tensor_ids *ids, uint32_t tgid)
{
	uint64_t *nr = hashmap__get(&ids->programs, tgid, 0);

	if (!ids->next) /* no tensor was seen: there is nothing to distinguish */
		return;
	if (nr)
		++*nr;
	else
		hashmap__put(&ids->programs, tgid, 0, 1);
}

/* ---- tables ---- */

static struct seen_object *find_object(const struct seen_table *t, uint64_t addr, uint64_t prog)
{
	const uint64_t *i = hashmap__get(&t->by_addr, addr, prog);

	return i ? &t->v[*i] : NULL;
}

/* NULL: the table is full, which is counted. */
static struct seen_object *add_object(struct tensor_ids *ids, struct seen_table *t, uint64_t addr,
				      uint64_t prog)
{
	uint32_t i = t->unused ? t->unused - 1 : t->cnt;

	if (i == LIMIT_TENSORS) {
		ids->over++;
		return NULL;
	}
	vec_reserve((void **)&t->v, &t->cap, (uint64_t)i + 1, sizeof(*t->v));
	hashmap__put(&t->by_addr, addr, prog, i);
	if (t->unused)
		t->unused = (uint32_t)t->v[i].last_ns;
	else
		t->cnt++;
	t->v[i] = (struct seen_object){ .id = next_id(ids) };
	return &t->v[i];
}

static void drop_object(struct seen_table *t, struct seen_object *s, uint64_t addr, uint64_t prog)
{
	hashmap__del(&t->by_addr, addr, prog);
	s->id = 0;
	s->last_ns = t->unused;
	t->unused = (uint32_t)(s - t->v) + 1;
}

/* The tensor's storage, if it is still the one that it was last seen with; NULL: nothing is
 * known. */
static struct seen_object *storage_of(const struct tensor_ids *ids, const struct seen_object *t)
{
	struct seen_object *s = t->storage ? &ids->storages.v[t->storage_at] : NULL;

	return s && s->id == t->storage ? s : NULL;
}

/* The tensor has left the storage that it was seen with. That one, if it still is and no other
 * tensor is known to have it; else NULL. */
static struct seen_object *let_go(const struct tensor_ids *ids, const struct seen_object *t)
{
	struct seen_object *s = storage_of(ids, t);

	if (!s)
		return NULL;
	if (s->holders)
		s->holders--;
	return s->holders ? NULL : s;
}

void tensor_ids__freed(struct tensor_ids *ids, uint32_t tgid, uint64_t data)
{
	uint64_t prog = program(ids, tgid);
	struct seen_object *s = data ? find_object(&ids->storages, data, prog) : NULL;

	if (s)
		drop_object(&ids->storages, s, data, prog);
}

void tensor_ids__end(struct tensor_ids *ids, const struct ptb_tensor_end *r)
{
	uint64_t prog = program(ids, r->h.tgid);
	struct seen_object *t = r->impl ? find_object(&ids->tensors, r->impl, prog) : NULL;
	struct seen_object *s;

	if (t) {
		let_go(ids, t);
		drop_object(&ids->tensors, t, r->impl, prog);
	}
	s = r->data && r->refs ? find_object(&ids->storages, r->data, prog) : NULL;
	if (!s)
		return;
	/* one end within another: each still counts the other's reference, so the number stays the
	 * same */
	s->ends = s->refs == r->refs ? s->ends + 1 : 1;
	s->refs = r->refs;
	if (s->ends >= s->refs)
		drop_object(&ids->storages, s, r->data, prog);
}

/* ---- what is seen ---- */

/* Could it have ended since it was last seen, without a record of that? */
static bool is_doubtful(const struct tensor_ids *ids, const struct tensor_place *at,
			uint64_t last_ns)
{
	return !ids->ends || last_ns <= at->lost_until;
}

static bool is_other_tensor(const struct tensor_ids *ids, const struct tensor_place *at,
			    const struct seen_object *t, uint64_t data)
{
	if (!is_doubtful(ids, at, t->last_ns) || t->last_ns >= at->begin_ns)
		return false;
	return at->role != TENSOR_GIVEN || t->data != data;
}

/* A result of its own with data that no tensor has and that the operator had not before: also
 * without a record of its end the former storage has ended. */
static bool is_other_storage(const struct tensor_ids *ids, const struct tensor_place *at,
			     const struct seen_object *s, uint64_t data)
{
	return data && at->role == TENSOR_NEW && s->last_ns < at->begin_ns &&
	       (!s->holders || is_doubtful(ids, at, s->last_ns));
}

static uint32_t storage_id(struct tensor_ids *ids, const struct tensor_place *at,
			   struct seen_object *t, uint64_t data, uint64_t prog)
{
	struct seen_object *s = t && t->data == data ? storage_of(ids, t) : NULL, *left;

	if (!s) /* the shorter way is the usual one */
		s = find_object(&ids->storages, data, prog);

	/* set_(), resize_(), x.data = y: a storage that no other tensor is known to have has
	 * ended */
	if (t && t->storage && t->data != data) {
		left = let_go(ids, t);
		if (left && t->data) /* storages without data are one */
			drop_object(&ids->storages, left, t->data, prog);
		t->storage = 0;
	}
	if (!s) {
		s = add_object(ids, &ids->storages, data, prog);
		if (!s)
			return next_id(ids);
	} else if (is_other_storage(ids, at, s, data)) {
		*s = (struct seen_object){ .id = next_id(ids) };
	}
	s->last_ns = at->ts_ns;
	s->refs = 0;
	if (t && t->storage != s->id) {
		let_go(ids, t);
		t->storage = s->id;
		t->storage_at = (uint32_t)(s - ids->storages.v);
		t->data = data;
		s->holders++;
	}
	return s->id;
}

struct naming {
	struct tensor_ids *ids;
	const struct tensor_place *at;
	uint64_t prog;
};

static uint64_t name_tensor(void *arg, uint64_t impl, const uint64_t *data)
{
	struct naming *n = arg;
	struct tensor_ids *ids = n->ids;
	struct seen_object *t = find_object(&ids->tensors, impl, n->prog);
	uint64_t storage = 0;
	uint32_t id;

	if (!t) {
		t = add_object(ids, &ids->tensors, impl, n->prog);
	} else if (data && is_other_tensor(ids, n->at, t, *data)) {
		let_go(ids, t);
		*t = (struct seen_object){ .id = next_id(ids) };
	}
	id = t ? t->id : next_id(ids);
	if (t)
		t->last_ns = n->at->ts_ns;
	if (data)
		storage = storage_id(ids, n->at, t, *data, n->prog);
	return id | storage << 32;
}

void tensor_ids__name(struct tensor_ids *ids, const struct tensor_place *at, uint64_t *words,
		      uint32_t cnt)
{
	struct naming n = { ids, at, program(ids, at->tgid) };

	values__name_tensors(words, cnt, name_tensor, &n);
}

/* ---- schemas ---- */

enum tensor_role tensor_ids__role(struct tensor_ids *ids, const char *schema)
{
	struct op_schema s;

	op_schemas__get(&ids->schemas, schema, &s);
	return s.results;
}
