/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Makes plans: one pass over each library, or the cache. See plan.h. */
#define LOG_DOMAIN "plan"
#include "base/text.h"
#include "plan/plan.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/sandbox.h"
#include "plan/plan_priv.h"

/*
 * In a static build one file has several roles; it is analysed for the first of them. Only the
 * content decides, because the plan is for all processes with libraries of this content.
 */
static bool is_analysed_before(const struct torch_lib *libs, const struct plan_key *key,
			       enum torch_lib_role role)
{
	const struct torch_lib *first = &libs[TORCH_LIB_CPU];

	if (role == TORCH_LIB_CPU || !first->present)
		return false;
	if (key->known)
		return !memcmp(key->hashes[TORCH_LIB_CPU], key->hashes[role], FILE_HASH_SZ);
	return !strcmp(first->access_path, libs[role].access_path);
}

/* Which analyses exist for libraries of a role. */
static bool has_layout(enum torch_lib_role role)
{
	return role == TORCH_LIB_CPU || role == TORCH_LIB_PYTHON || role == TORCH_LIB_C10;
}

static bool has_operators(enum torch_lib_role role)
{
	return role == TORCH_LIB_CPU || role == TORCH_LIB_PYTHON || role == TORCH_LIB_CXX;
}

static bool is_optional(enum torch_lib_role role)
{
	return role == TORCH_LIB_CUDART || role == TORCH_LIB_CUDA;
}

static int add_sites(struct plan_build *b, enum torch_lib_role role)
{
	int err = 0;

	if (has_operators(role))
		err = op_sites__add(b);
	if (!err && has_operators(role))
		err = special_sites__add(b);
	if (!err && has_layout(role))
		err = special_sites__add_tensors(b);
	if (!err)
		err = memory_sites__add(b);
	if (!err && is_optional(role))
		err = cuda_calls__add(b);
	if (!err && has_operators(role) && has_layout(role))
		layout__add_classes(b);
	return err;
}

static int analyse(struct plan_build *b, const struct torch_lib *lib, enum torch_lib_role role)
{
	struct elf_file *ef;
	struct lib_code lc;
	int err;

	err = elf_file__open_fd(lib->fd, lib->path, &ef);
	if (err)
		return err;
	lib_code__init(&lc, ef, &torch_names);
	b->lc = &lc;
	b->role = role;
	if (has_layout(role))
		layout__learn(b);
	err = add_sites(b, role);
	lib_code__free(&lc);
	b->lc = NULL;
	elf_file__close(ef);
	if (err)
		pr_error("cannot analyse %s: %s", lib->path, errstr(err));
	return err;
}

static int make_plan(const struct torch_lib *libs, const struct plan_key *key,
		     struct torch_plan *plan)
{
	static const uint8_t order[] = { TORCH_LIB_CPU, TORCH_LIB_PYTHON, TORCH_LIB_CXX,
					 TORCH_LIB_C10, TORCH_LIB_CUDART, TORCH_LIB_CUDA };
	struct plan_build b;
	int err = 0;

	plan_build__init(&b, plan);
	layout__init(&plan->layout);
	for (uint32_t i = 0; i < sizeof(order) && !err; i++) {
		if (!libs[order[i]].present || is_analysed_before(libs, key, order[i]))
			continue;
		err = analyse(&b, &libs[order[i]], order[i]);
		if (is_optional(order[i]))
			err = 0; /* reported; the process can be traced without it */
	}
	if (!err) {
		layout__finish(&b);
		plan_build__sort_sites(plan);
	}
	plan_build__free(&b);
	return err;
}

/* ---- the child ---- */

struct analysis {
	const struct plan_key *key;
	/* shallow copies, with descriptors of what is analysed */
	struct torch_lib libs[TORCH_LIB_ROLES];
	int fds[TORCH_LIB_ROLES]; /* closed by make_in_child() */
	uint32_t fd_cnt;
	uint64_t file_bytes;
};

/* Runs in the child. */
static int encode_plan(void *arg, uint8_t **out, size_t *len)
{
	const struct analysis *a = arg;
	struct torch_plan *plan = xcalloc(1, sizeof(*plan));
	int err = make_plan(a->libs, a->key, plan);

	if (!err)
		plan_cache__encode(plan, out, len);
	torch_plan__free(plan);
	return err;
}

/*
 * Copies a library into memory, where nobody changes it between the hash and the analysis.
 * Otherwise its owner could show another user's library to the hash and his own to the analysis,
 * and his plan would be used for the other library.
 */
static int copy_library(const struct torch_lib *lib, uint64_t size,
			const uint8_t hash[FILE_HASH_SZ])
{
	uint8_t copied[FILE_HASH_SZ];
	int fd = memfd_create("library", MFD_CLOEXEC), err;

	if (fd < 0)
		return -errno;
	err = ftruncate(fd, (off_t)size) ? -errno : file_hash__get(lib->fd, size, fd, copied);
	if (!err && memcmp(copied, hash, FILE_HASH_SZ))
		err = -ESTALE;
	if (err == -ESTALE)
		pr_error("cannot analyse %s: it is being written", lib->path);
	else if (err && err != -ECANCELED)
		pr_error("cannot read %s: %s", lib->path, errstr(err));
	if (err)
		close(fd);
	return err ? err : fd;
}

static int open_library(struct analysis *a, enum torch_lib_role role)
{
	struct torch_lib *lib = &a->libs[role];
	struct stat st;

	if (a->key->known) {
		a->file_bytes += a->key->files[role].size;
		if (a->file_bytes > (uint64_t)LIMIT_PLAN_FILES_MIB << 20) {
			pr_error(
				"cannot analyse %s: with the libraries that belong to it, it is larger than %d MiB",
				lib->path, LIMIT_PLAN_FILES_MIB);
			return -EFBIG;
		}
		lib->fd = copy_library(lib, a->key->files[role].size, a->key->hashes[role]);
	} else { /* a file of a test, by its name */
		lib->fd = open(lib->access_path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
		if (lib->fd < 0 || fstat(lib->fd, &st)) {
			pr_error("cannot read %s: %s", lib->path, errstr(errno));
			return -errno;
		}
		a->file_bytes += (uint64_t)st.st_size;
	}
	if (lib->fd < 0)
		return lib->fd;
	a->fds[a->fd_cnt++] = lib->fd;
	return 0;
}

/* The analysed library with the operators, or the only library. */
static const char *main_path(const struct torch_lib *libs)
{
	for (uint32_t i = TORCH_LIB_CPU; i < TORCH_LIB_ROLES; i++)
		if (libs[i].present)
			return libs[i].path;
	return "no library";
}

/*
 * Makes the plan in a child without privileges (base/sandbox.h), which opens no file: the files
 * come from their owner, and the hundreds of megabytes that are read must not count as memory of a
 * collector that may run for hours. plan_cache__decode() checks the result, which may be anything.
 */
static int make_in_child(const struct torch_lib *libs, const struct plan_key *key, uint8_t **image,
			 size_t *len)
{
	struct analysis a = { .key = key };
	struct sandbox_job job = {
		.what = "the libraries of PyTorch or CUDA",
		.fn = encode_plan,
		.arg = &a,
		.fds = a.fds,
		.limits = { (uint64_t)LIMIT_PLAN_MIB << 20, LIMIT_PLAN_CPU_S, LIMIT_PLAN_WALL_MS,
			    PLAN_IMAGE_MAX },
	};
	int err = 0;

	*image = NULL;
	*len = 0;
	memcpy(a.libs, libs, sizeof(a.libs));
	for (uint32_t i = 0; i < TORCH_LIB_ROLES && !err; i++)
		if (libs[i].present && !is_analysed_before(libs, key, i))
			err = open_library(&a, i);
	job.fd_cnt = a.fd_cnt;
	job.limits.mem_bytes += a.file_bytes;
	log__line("reading %s (once for this build, some seconds)", path__base(main_path(libs)));
	if (!err)
		err = sandbox__run(&job, image, len);
	log__line(NULL);
	while (a.fd_cnt)
		close(a.fds[--a.fd_cnt]);
	return err;
}

/* ---- plans ---- */

int torch_plan__new(const struct torch_lib *libs, const struct plan_key *known, bool use_cache,
		    struct torch_plan **out)
{
	uint64_t begin = clock__mono_ns();
	struct torch_plan *plan = NULL;
	uint8_t *image = NULL;
	struct plan_key key;
	size_t len = 0;
	int err = 0;

	*out = NULL;
	if (known)
		key = *known;
	else
		err = plan_key__get(libs, use_cache, NULL, &key);
	if (err)
		return err;
	if (use_cache && !plan_cache__read(&key, NULL, out)) {
		(*out)->key = key;
		pr_debug("plan from the cache in %llu us",
			 (unsigned long long)(clock__mono_ns() - begin) / 1000);
		return 0;
	}
	err = make_in_child(libs, &key, &image, &len);
	if (!err)
		err = plan_cache__decode(image, len, &plan);
	if (!err && !plan_key__holds(libs, &key)) {
		pr_error(
			"%s: the file, or one that belongs to it, was written while it was analysed",
			main_path(libs));
		err = -ESTALE;
	}
	if (!err && !plan->site_cnt && libs[TORCH_LIB_CPU].present) {
		pr_error("%s: no function of PyTorch can be probed", main_path(libs));
		err = -ENOTSUP;
	}
	if (!err) {
		pr_debug("%u functions, %u sites in %llu us", plan->func_cnt, plan->site_cnt,
			 (unsigned long long)(clock__mono_ns() - begin) / 1000);
		if (use_cache && plan->site_cnt)
			plan_cache__store(&key, NULL, image, len);
		plan->key = key;
		*out = plan;
	} else {
		torch_plan__free(plan);
	}
	free(image);
	return err;
}

void torch_plan__free(struct torch_plan *plan)
{
	if (!plan)
		return;
	for (uint32_t i = 0; plan->funcs && i < plan->func_cnt; i++) {
		free(plan->funcs[i].name);
		free(plan->funcs[i].schema);
	}
	for (uint32_t i = 0; plan->classes && i < plan->class_cnt; i++)
		free(plan->classes[i].name);
	free(plan->funcs);
	free(plan->sites);
	free(plan->classes);
	free(plan->progs);
	free(plan);
}
