/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See control.h. */
#include "sample/control.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#define DURATION_MAX_MS (24.0 * 3600 * 1000)
#define UNIX_MS_MAX 1e13 /* exact as a double, and in nanoseconds a uint64_t */
#define BUF 4096

struct parser {
	struct control_request *rq;
	char *why;
	size_t cap;
};

static int refuse(const struct parser *p, const char *key, const char *expected)
{
	snprintf(p->why, p->cap, "the value of \"%s\" is not valid: expected is %s", key, expected);
	return -EINVAL;
}

/* A whole number from least to most. */
static bool is_whole(const cJSON *v, double least, double most)
{
	return cJSON_IsNumber(v) && v->valuedouble >= least && v->valuedouble <= most &&
	       v->valuedouble == (double)(int64_t)v->valuedouble;
}

static int take_pids(const struct parser *p, const cJSON *v)
{
	const cJSON *item;

	if (!cJSON_IsArray(v) || !v->child)
		return refuse(p, v->string, "a list of processes");
	cJSON_ArrayForEach(item, v)
	{
		if (!is_whole(item, 1, INT_MAX) || p->rq->pid_cnt == CONTROL_PIDS_MAX)
			return refuse(p, v->string, "a list of at most 256 processes");
		p->rq->pids[p->rq->pid_cnt++] = (pid_t)item->valuedouble;
	}
	return 0;
}

static int take_duration(const struct parser *p, const cJSON *v)
{
	if (!cJSON_IsNumber(v) || !(v->valuedouble > 0) || v->valuedouble > DURATION_MAX_MS)
		return refuse(p, v->string, "a time in milliseconds, at most a day");
	p->rq->duration_ns = (uint64_t)(v->valuedouble * 1e6 + 0.5);
	return p->rq->duration_ns ? 0 : refuse(p, v->string, "at least a nanosecond");
}

static int take_start(const struct parser *p, const cJSON *v)
{
	if (!is_whole(v, 1, UNIX_MS_MAX))
		return refuse(p, v->string, "a Unix time in milliseconds");
	p->rq->start_real_ns = (uint64_t)v->valuedouble * 1000000;
	return 0;
}

static int take_wait(const struct parser *p, const cJSON *v)
{
	if (!cJSON_IsBool(v))
		return refuse(p, v->string, "true or false");
	p->rq->wait = cJSON_IsTrue(v);
	return 0;
}

static int take_switch(const struct parser *p, const cJSON *v, enum control_switch *out)
{
	if (!cJSON_IsBool(v))
		return refuse(p, v->string, "true or false");
	*out = cJSON_IsTrue(v) ? SWITCH_ON : SWITCH_OFF;
	return 0;
}

static int take_cpu(const struct parser *p, const cJSON *v)
{
	return take_switch(p, v, &p->rq->cpu);
}

static int take_cuda(const struct parser *p, const cJSON *v)
{
	return take_switch(p, v, &p->rq->cuda);
}

static const struct {
	const char *key;
	int (*take)(const struct parser *p, const cJSON *v);
	enum control_what what; /* that it belongs to */
} keys[] = {
	{ "pids", take_pids, CONTROL_TRIGGER },
	{ "duration_ms", take_duration, CONTROL_TRIGGER },
	{ "start_unix_ms", take_start, CONTROL_TRIGGER },
	{ "wait", take_wait, CONTROL_TRIGGER },
	{ "cpu", take_cpu, CONTROL_TOGGLE },
	{ "cuda", take_cuda, CONTROL_TOGGLE },
};
#define KEYS (sizeof(keys) / sizeof(keys[0]))

static int take_key(const struct parser *p, const cJSON *v, uint32_t *seen)
{
	size_t i = 0;

	while (i < KEYS && strcmp(keys[i].key, v->string) != 0)
		i++;
	if (i == KEYS) {
		snprintf(p->why, p->cap, "\"%.40s\" is not known to this ptbpf (" PTBPF_VERSION ")",
			 v->string);
		return -EINVAL;
	}
	if (keys[i].what != p->rq->what) {
		snprintf(p->why, p->cap, "\"%s\" belongs to a %s", keys[i].key,
			 keys[i].what == CONTROL_TRIGGER ? "trigger" : "toggle");
		return -EINVAL;
	}
	if (*seen & 1u << i) {
		snprintf(p->why, p->cap, "\"%s\" is there twice", keys[i].key);
		return -EINVAL;
	}
	*seen |= 1u << i;
	return keys[i].take(p, v);
}

static int take_keys(const struct parser *p, const cJSON *tree)
{
	const cJSON *v;
	uint32_t seen = 0;
	int err = 0;

	cJSON_ArrayForEach(v, tree)
	{
		if (!err)
			err = take_key(p, v, &seen);
	}
	if (!err && p->rq->what == CONTROL_TOGGLE && !p->rq->cpu && !p->rq->cuda) {
		snprintf(p->why, p->cap, "\"cpu\" or \"cuda\" is missing");
		err = -EINVAL;
	}
	return err;
}

int control_request__parse(enum control_what what, const char *text, size_t len,
			   struct control_request *rq, char *why, size_t cap)
{
	const struct parser p = { .rq = rq, .why = why, .cap = cap };
	cJSON *tree = NULL;
	int err;

	*rq = (struct control_request){ .what = what };
	if (!len) {
		tree = cJSON_CreateObject();
	} else if (!memchr(text, '\0', len)) {
		const char *end = NULL;

		tree = cJSON_ParseWithLengthOpts(text, len, &end, 0);
		for (; tree && end < text + len; end++)
			if (!strchr(" \t\r\n", *end)) {
				cJSON_Delete(tree);
				tree = NULL;
			}
	}
	if (!cJSON_IsObject(tree)) {
		snprintf(why, cap, "the request is not a JSON object");
		err = -EINVAL;
	} else {
		err = take_keys(&p, tree);
	}
	cJSON_Delete(tree);
	return err;
}

static void begin(struct jsonw *w, bool ok)
{
	jsonw__begin_obj(w);
	JSONW_U64(w, "version", CONTROL_VERSION);
	JSONW_BOOL(w, "ok", ok);
}

void control_request__write(const struct control_request *rq, struct jsonw_text *out)
{
	struct jsonw w;

	out->len = 0;
	out->text[0] = '\0';
	jsonw__init(&w, jsonw__to_text, out, BUF);
	jsonw__begin_obj(&w);
	if (rq->pid_cnt)
		JSONW_ARR(&w, "pids");
	for (uint32_t i = 0; i < rq->pid_cnt; i++)
		jsonw__i64(&w, rq->pids[i]);
	if (rq->pid_cnt)
		jsonw__end_arr(&w);
	if (rq->duration_ns)
		JSONW_DOUBLE(&w, "duration_ms", (double)rq->duration_ns / 1e6);
	if (rq->start_real_ns)
		JSONW_U64(&w, "start_unix_ms", rq->start_real_ns / 1000000);
	if (rq->wait)
		JSONW_BOOL(&w, "wait", true);
	if (rq->cpu)
		JSONW_BOOL(&w, "cpu", rq->cpu == SWITCH_ON);
	if (rq->cuda)
		JSONW_BOOL(&w, "cuda", rq->cuda == SWITCH_ON);
	jsonw__end_obj(&w);
	jsonw__flush(&w);
	jsonw__free(&w);
}

void control_answer__begin(struct jsonw *w, jsonw_out out, void *arg)
{
	jsonw__init(w, out, arg, BUF);

	begin(w, true);
}

void control_answer__refuse(struct jsonw_text *out, uint64_t nr, const char *why)
{
	struct jsonw w;

	out->len = 0;
	out->text[0] = '\0';
	jsonw__init(&w, jsonw__to_text, out, BUF);
	begin(&w, false);
	if (nr != UINT64_MAX)
		JSONW_U64(&w, "window", nr);
	JSONW_STR(&w, "error", why);
	jsonw__end_obj(&w);
	jsonw__newline(&w);
	jsonw__flush(&w);
	jsonw__free(&w);
}
