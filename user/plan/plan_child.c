/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The analysis in a process of its own; see plan_child.h. */
#define LOG_DOMAIN "plan_child"
#include "plan/plan_child.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/log.h"
#include "base/sandbox.h"
#include "plan/plan_cache.h"

struct analysis {
	struct torch_lib libs[TORCH_LIB_ROLES]; /* shallow copies, each with its fd open */
	plan_make_fn make;
	int fds[TORCH_LIB_ROLES], opened[TORCH_LIB_ROLES]; /* the latter are ours to close */
	uint32_t fd_cnt, opened_cnt;
	uint64_t file_bytes;
};

/* In the child. */
static int analyse(void *arg, uint8_t **out, size_t *len)
{
	const struct analysis *a = arg;
	struct torch_plan *plan = calloc(1, sizeof(*plan));
	int err = plan ? a->make(a->libs, plan) : -ENOMEM;

	if (!err)
		err = plan_cache__encode(plan, out, len);
	torch_plan__free(plan);
	return err;
}

static int add_library(struct analysis *a, struct torch_lib *lib)
{
	struct stat st;

	if (lib->fd <= 0) { /* found by its name: a file of our own, in tests */
		lib->fd = open(lib->access_path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
		if (lib->fd < 0) {
			pr_error("cannot read %s: %s", lib->path, errstr(errno));
			return -errno;
		}
		a->opened[a->opened_cnt++] = lib->fd;
	}
	a->fds[a->fd_cnt++] = lib->fd;
	if (fstat(lib->fd, &st))
		return -errno;
	a->file_bytes += (uint64_t)st.st_size;
	return 0;
}

int plan_child__make(const struct torch_lib *libs, plan_make_fn make, uint8_t **image, size_t *len)
{
	struct analysis a = { .make = make };
	struct sandbox_job job = {
		.what = "the libraries of PyTorch or CUDA",
		.fn = analyse,
		.arg = &a,
		.fds = a.fds,
		.limits = { (uint64_t)LIMIT_PLAN_MIB << 20, LIMIT_PLAN_CPU_S, LIMIT_PLAN_WALL_MS,
			    PLAN_IMAGE_MAX },
	};
	uint32_t i;
	int err = 0;

	*image = NULL;
	*len = 0;
	memcpy(a.libs, libs, sizeof(a.libs));
	for (i = 0; i < TORCH_LIB_ROLES && !err; i++)
		if (libs[i].present)
			err = add_library(&a, &a.libs[i]);
	job.fd_cnt = a.fd_cnt;
	job.limits.mem_bytes += a.file_bytes;
	if (!err)
		err = sandbox__run(&job, image, len);
	while (a.opened_cnt)
		close(a.opened[--a.opened_cnt]);
	return err;
}
