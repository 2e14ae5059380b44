/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The functions of user/model that exporters call, over plain values; see fake_session.h. */
#include "fake_session.h"

#include <string.h>

static const struct session_process fake_process = { .tgid = 100,
						     .parent_tgid = 1,
						     .comm = "python",
						     .cmdline = "python train.py",
						     .exe = "python3.11",
						     .start_ns = 5000000000ULL };

const struct session_info *session__info(const struct session *s)
{
	/* a copy of a session has its own counters */
	((struct session *)(uintptr_t)s)->info.counters = s->counters;
	return &s->info;
}

const char *session__meta(const struct session *s, const char *key)
{
	int i;

	for (i = 0; i < FAKE_META_MAX && s->meta[i].key; i++)
		if (!strcmp(s->meta[i].key, key))
			return s->meta[i].json;
	return NULL;
}

const char *session__thread_comm(const struct session *s, uint32_t tgid, uint32_t tid)
{
	(void)tgid;
	(void)tid;
	return s->comm ? s->comm : "";
}

const char *session__name(const struct session *s, uint32_t name_id)
{
	return name_id && name_id < FAKE_NAME_MAX && s->names[name_id] ? s->names[name_id] : "";
}

int session__live_blocks(const struct session *s, int (*fn)(void *arg, const struct memory_block *b), void *arg)
{
	uint32_t i;
	int ret = 0;

	for (i = 0; i < s->live_cnt && !ret; i++)
		ret = fn(arg, &s->live[i]);
	return ret;
}

struct session fake_session(void)
{
	return (struct session){
		.info = { .begin_ns = 5000000000ULL,
			  .end_ns = 6000000000ULL,
			  .mono_to_unix_ns = 1790900000000000000LL,
			  .stop_reason = PTB_STOP_DURATION,
			  .sealed = true,
			  .processes = &fake_process,
			  .process_cnt = 1,
			  .counter_cnt = 64 },
		.comm = "python",
	};
}

static const struct session_keys fake_keys = { .nested = FAKE_KEY_NESTED,
					       .no_strides = FAKE_KEY_SPARSE,
					       .sparse_csr = FAKE_KEY_CSR };

struct slice fake_slice(uint64_t id, const char *name, uint64_t begin_ns, uint64_t end_ns)
{
	return (struct slice){ .id = id,
			       .tgid = 100,
			       .tid = 100,
			       .begin_ns = begin_ns,
			       .end_ns = end_ns,
			       .name = name,
			       .overload = "",
			       .cat = SLICE_CPU_OP,
			       .kind = PTB_FUNC_OP,
			       .schema = "",
			       .keys = &fake_keys,
			       .seq = -1 };
}
