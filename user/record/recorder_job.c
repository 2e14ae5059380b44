/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* JOB records: the container and the job of a process. META: the identity of the machine. */
#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/jsonw.h"
#include "python/python.h"
#include "record/recorder_priv.h"
#include "target/job_facts.h"
#include "target/proc.h"

/*
 * ---- process groups of torch.distributed, as torch.profiler writes them in `distributedInfo` ----
 *
 * They are in dicts of the module torch.distributed.distributed_c10d (pytorch
 * torch/distributed/distributed_c10d.py: _pg_map and others), with their Python objects as keys. A
 * method of torch.Tensor that is written in Python leads to the module: its globals have `torch`.
 * The process's rank and the group's description are in the C++ object
 * (torch/csrc/distributed/c10d/ProcessGroup.hpp).
 */

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

/* Returns a JSON object from malloc, without pg_config if that is too large or not all of it can be
 * read. NULL: torch.distributed is not initialized, or cannot be read. */
static char *read_groups(pid_t pid, uint64_t tensor_class, bool old_string_abi)
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

/* ---- records ---- */

static void put_environment(struct jsonw *w, const struct job_facts *f)
{
	JSONW_OBJ(w, "environment");
	for (int v = 0; v < JOB_VAR_CNT; v++) {
		if (f->numbers[v] < 0 && !f->texts[v])
			continue;
		jsonw__key(w, job_vars[v].name);
		if (f->texts[v])
			jsonw__str(w, f->texts[v]);
		else
			jsonw__i64(w, f->numbers[v]);
	}
	jsonw__end_obj(w);
}

static void put_facts(struct jsonw *w, pid_t pid, const struct job_facts *f, const char *groups)
{
	uint64_t quota = proc__cpu_quota(pid), gpus = proc__gpus(pid);

	jsonw__begin_obj(w);
	if (f->ns_pid)
		JSONW_I64(w, "ns_pid", f->ns_pid);
	if (*f->cgroup)
		JSONW_STR(w, "cgroup", f->cgroup);
	if (*f->container_id) {
		JSONW_STR(w, "container_id", f->container_id);
		JSONW_STR(w, "container_runtime", f->container_runtime);
	}
	if (*f->pod_uid)
		JSONW_STR(w, "pod_uid", f->pod_uid);
	if (*f->cpus)
		JSONW_STR(w, "cpus", f->cpus);
	if (quota)
		JSONW_U64(w, "cpu_quota_percent", quota);
	if (gpus)
		JSONW_I64(w, "gpus", __builtin_popcountll(gpus));
	put_environment(w, f);
	if (groups) {
		JSONW_KEY(w, "distributed");
		jsonw__raw(w, groups);
	}
	jsonw__end_obj(w);
}

static void put_job(struct recorder *r, uint32_t tgid, const struct job_facts *f,
		    const char *groups)
{
	const struct ptb_text head = { .h.tgid = tgid };
	struct jsonw_memory m = { .len = 0 };
	struct jsonw w;
	char *text;

	jsonw__init(&w, jsonw__to_memory, &m, 4096);
	put_facts(&w, (pid_t)tgid, f, groups);
	/* the limits of struct job_facts and of the groups keep the text short enough */
	text = jsonw__take(&w, &m);
	recorder__put_text(r, PTB_REC_JOB, &head, text, m.len);
	free(text);
}

void recorder__job(struct recorder *r, uint32_t tgid)
{
	struct job_facts f;

	job_facts__read((pid_t)tgid, &f);
	recorder__steps_process(r, tgid, f.texts[JOB_PTBPF_STEP_ON]);
	put_job(r, tgid, &f, NULL);
	job_facts__clear(&f);
}

void recorder__torch_version(struct recorder *r, const struct torch_proc *tp)
{
	char version[TORCH_VERSION_MAX + 1];

	if (r->torch_version)
		return;
	torch_proc__version(tp, version);
	r->torch_version = *version;
	if (*version)
		recorder__meta_text(r, "torch", version);
}

void recorder__watch_groups(struct recorder *r, struct recorder_proc *p, bool at_end)
{
	uint64_t now = clock__mono_ns();
	struct job_facts f;
	char *groups;

	if (!at_end && now < p->next_groups_ns)
		return;
	p->groups_wait_ns *= 2;
	p->next_groups_ns = now + p->groups_wait_ns;
	recorder__thread_names(r, p);
	groups = read_groups((pid_t)p->tgid, p->tensor_class, p->old_string_abi);
	if (!groups || (p->groups && !strcmp(groups, p->groups))) {
		free(groups);
		return;
	}
	job_facts__read((pid_t)p->tgid, &f);
	if (recorder__is_there(p)) {
		put_job(r, p->tgid, &f, groups);
		free(p->groups);
		p->groups = groups;
	} else {
		free(groups);
	}
	job_facts__clear(&f);
}

void recorder__machine(struct recorder *r)
{
	char boot[64] = "", ns[32];
	struct stat st;
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, boot, sizeof(boot) - 1);

	if (fd >= 0)
		close(fd);
	boot[n > 0 ? n : 0] = '\0';
	boot[strcspn(boot, "\n")] = '\0';
	recorder__meta_text(r, "boot_id", boot);
	if (stat("/proc/self/ns/pid", &st))
		return;
	snprintf(ns, sizeof(ns), "%llu", (unsigned long long)st.st_ino);
	recorder__meta_text(r, "pid_namespace", ns);
}
