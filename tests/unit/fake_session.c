/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The functions of user/model that exporters call, over plain values; see fake_session.h. */
#include "fake_session.h"

#include <string.h>

const struct session_info *session__info(const struct session *s)
{
	/* a copy of a session has its own counters */
	((struct session *)(uintptr_t)s)->info.counters = s->counters;
	return &s->info;
}

const struct session_process *session__process(const struct session *s, uint32_t tgid)
{
	for (uint32_t i = 0; i < s->info.process_cnt; i++)
		if (s->info.processes[i].tgid == tgid)
			return &s->info.processes[i];
	return NULL;
}

const char *session__meta(const struct session *s, const char *key)
{
	for (int i = 0; i < FAKE_META_MAX && s->meta[i].key; i++)
		if (!strcmp(s->meta[i].key, key))
			return s->meta[i].json;
	return strcmp(key, "host") ? NULL : "\"box\"";
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

int session__live_blocks(const struct session *s,
			 int (*fn)(void *arg, const struct memory_block *b), void *arg)
{
	int ret = 0;

	for (uint32_t i = 0; i < s->live_cnt && !ret; i++)
		ret = fn(arg, &s->live[i]);
	return ret;
}

struct py_frame session__py_frame(const struct session *s, uint32_t frame)
{
	if (!frame || frame > s->py_frame_cnt)
		return (struct py_frame){ .func = PY_UNKNOWN, .file = PY_UNKNOWN };
	return s->py_frames[frame - 1];
}

struct py_stack session__py_stack(const struct session *s, uint32_t stack)
{
	return stack && stack <= s->py_stack_cnt ? s->py_stacks[stack - 1] : (struct py_stack){ 0 };
}

uint32_t session__open_slices(const struct session *s, uint32_t tgid, uint32_t tid,
			      struct open_slice *list, uint32_t max)
{
	(void)s;
	(void)tgid;
	(void)tid;
	(void)list;
	(void)max;
	return 0;
}

uint64_t session__order(const struct session *s, uint64_t id)
{
	return id == SESSION_STEP_ID ? s->step_order : id;
}
