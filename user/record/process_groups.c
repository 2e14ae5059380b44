/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The groups are in dicts of the module torch.distributed.distributed_c10d (pytorch
 * torch/distributed/distributed_c10d.py: _pg_map and those beside it), by their Python objects. A
 * method of torch.Tensor that is written in Python leads to the module: its globals have `torch`.
 * Own rank and description are in the C++ object (torch/csrc/distributed/c10d/ProcessGroup.hpp).
 */
#include "record/recorder_priv.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/jsonw.h"
#include "python/python.h"
#include "target/proc.h"

#define READS_MAX 30000 /* objects; a process with PyTorch needs 3,500 of them, 2 to 5 ms */
#define JSON_MAX 49152  /* in a record, beside what else is known of the job: 8,000 ranks */
#define TEXT_MAX 256

struct group_dicts {
	uint64_t map, names, ranks, configs;
	uint32_t cnt; /* of groups that were made so far */
	bool old_string_abi;
};

static bool find_dicts(struct py_objects *po, uint64_t tensor_class, struct group_dicts *gd)
{
	static const char *const path[] = { "torch", "distributed", "distributed_c10d" };
	uint64_t type = py_objects__word(po, tensor_class), func, dict;
	struct py_dict d;

	func = py_dict__by_name(po, py_objects__word(po, type + PY_TYPE_DICT), "backward");
	dict = py_objects__word(po, func + PY_FUNC_GLOBALS);
	if (!py_dict__begin(po, dict, &d))
		dict = py_objects__word(po, func + PY_FUNC_GLOBALS + 8);
	for (size_t i = 0; i < sizeof(path) / sizeof(path[0]); i++)
		dict = py_objects__word(po, PY_MODULE_DICT + py_dict__by_name(po, dict, path[i]));
	gd->map = py_dict__by_name(po, dict, "_pg_map");
	gd->names = py_dict__by_name(po, dict, "_pg_names");
	gd->ranks = py_dict__by_name(po, dict, "_pg_group_ranks");
	gd->configs = py_dict__by_name(po, dict, "_pg_backend_config");
	return py_int__read(po, py_dict__by_name(po, dict, "_group_count"), &gd->cnt);
}

/* ---- the C++ object ---- */

struct group {
	uint64_t obj;
	uint32_t rank, size;
	char desc[TEXT_MAX]; /* "": none could be read */
};

/* pybind11's struct instance: behind the object's head the pointer to what it wraps. */
#define INSTANCE_VALUE 16

/* A std::string of printable characters; false: there is none. */
static bool read_desc(struct py_objects *po, uint64_t addr, bool old_abi, char *buf)
{
	size_t len;

	if (remote__read_string(po->pid, addr, old_abi, buf, TEXT_MAX))
		*buf = '\0';
	len = strlen(buf);
	for (size_t i = 0; i < len; i++)
		if (!isprint((unsigned char)buf[i]))
			*buf = '\0';
	return *buf;
}

/*
 * {vtable, one or two reference counts, store, rank, size, [options,] type of the backend,
 * description}. The size is known from the ranks, and shows which of these layouts it is.
 */
static bool read_object(struct py_objects *po, bool old_abi, struct group *g)
{
	uint64_t value = py_objects__word(po, g->obj + INSTANCE_VALUE);
	uint32_t pair[2];

	for (uint32_t at = 24; at <= 32; at += 8) {
		if (!value || remote__read(po->pid, value + at, pair, sizeof(pair)) ||
		    pair[1] != g->size || pair[0] >= g->size)
			continue;
		g->rank = pair[0];
		if (!read_desc(po, value + at + 16, old_abi, g->desc))
			read_desc(po, value + at + 24, old_abi, g->desc);
		return true;
	}
	return false;
}

/* ---- output ---- */

/* The keys of the dict. */
static bool put_ranks(struct jsonw *w, struct py_objects *po, uint64_t dict)
{
	uint64_t key, value;
	struct py_dict d;
	uint32_t rank, cnt = 0;

	if (!py_dict__begin(po, dict, &d))
		return false;
	for (; py_dict__next(&d, &key, &value) && py_int__read(po, key, &rank); cnt++)
		jsonw__u64(w, rank);
	return cnt == d.used;
}

static bool put_str(struct jsonw *w, const char *key, struct py_objects *po, uint64_t obj)
{
	char text[TEXT_MAX];

	if (!py_str__read(po, obj, text, sizeof(text)))
		return false;
	jsonw__key(w, key);
	jsonw__str(w, text);
	return true;
}

static bool put_group(struct jsonw *w, struct py_objects *po, const struct group_dicts *gd,
		      const struct group *g)
{
	bool good;

	jsonw__begin_obj(w);
	good = put_str(w, "pg_name", po, py_dict__by_object(po, gd->names, g->obj));
	if (*g->desc)
		JSONW_STR(w, "pg_desc", g->desc);
	good &= put_str(w, "backend_config", po, py_dict__by_object(po, gd->configs, g->obj));
	JSONW_U64(w, "pg_size", g->size);
	JSONW_ARR(w, "ranks");
	good &= put_ranks(w, po, py_dict__by_object(po, gd->ranks, g->obj));
	jsonw__end_arr(w);
	jsonw__end_obj(w);
	return good;
}

static bool read_group(struct py_objects *po, const struct group_dicts *gd, uint64_t obj,
		       struct group *g)
{
	struct py_dict ranks;

	if (!py_dict__begin(po, py_dict__by_object(po, gd->ranks, obj), &ranks))
		return false;
	*g = (struct group){ .obj = obj, .size = ranks.used };
	return read_object(po, gd->old_string_abi, g);
}

static bool write_all(struct jsonw *w, struct py_objects *po, const struct group_dicts *gd,
		      bool all)
{
	uint64_t obj, value;
	uint32_t cnt = 0;
	struct py_dict d;
	struct group g;
	bool good;

	/* the first one is the default group */
	if (!py_dict__begin(po, gd->map, &d) || !py_dict__next(&d, &obj, &value) ||
	    !read_group(po, gd, obj, &g))
		return false;
	good = put_str(w, "backend", po, py_tuple__first(po, value));
	JSONW_U64(w, "rank", g.rank);
	JSONW_U64(w, "world_size", g.size);
	JSONW_U64(w, "pg_count", gd->cnt);
	if (!all)
		return good;
	JSONW_ARR(w, "pg_config");
	do
		good = good && put_group(w, po, gd, &g) && ++cnt;
	while (good && py_dict__next(&d, &obj, &value) && (good = read_group(po, gd, obj, &g)));
	jsonw__end_arr(w);
	return good && cnt == d.used;
}

/* NULL: not all could be read, or it is too much. */
static char *as_text(struct py_objects *po, const struct group_dicts *gd, bool all)
{
	struct jsonw_memory m = { .len = 0 };
	char *text;
	struct jsonw w;
	bool good;

	jsonw__init(&w, jsonw__to_memory, &m, 4096);
	jsonw__begin_obj(&w);
	good = write_all(&w, po, gd, all);
	jsonw__end_obj(&w);
	text = jsonw__take(&w, &m);
	if (good && m.len <= JSON_MAX)
		return text;
	free(text);
	return NULL;
}

char *process_groups__read(pid_t pid, uint64_t tensor_class, bool old_string_abi)
{
	struct py_objects po = { .pid = pid, .reads_left = READS_MAX };
	struct group_dicts gd = { .old_string_abi = old_string_abi };
	char *text;

	if (!tensor_class || !find_dicts(&po, tensor_class, &gd))
		return NULL;
	text = as_text(&po, &gd, true);
	if (text)
		return text;
	po.reads_left = READS_MAX;
	return as_text(&po, &gd, false);
}
