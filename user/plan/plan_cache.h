/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Plans on disk, one file per set of libraries, named after what the plan was made from (plan.h),
 * in a directory that is root's alone (elf.h). Believed only as far as every index and length fits.
 */
#ifndef PLAN_PLAN_CACHE_H
#define PLAN_PLAN_CACHE_H

#include <stddef.h>
#include <stdint.h>

#include "plan/plan.h"

/* 0: *out is the cached plan; -ENOENT or another negative errno: there is none to use. */
int plan_cache__read(const struct plan_key *key, const char *dir, struct torch_plan **out);
/* Keeps an encoded plan. Failure is of no consequence: the plan is made again next time. */
void plan_cache__store(const struct plan_key *key, const char *dir, const uint8_t *data,
		       size_t len);

#define PLAN_IMAGE_MAX (32u << 20) /* bytes of an encoded plan */

/* A plan as bytes; *out from malloc. */
int plan_cache__encode(const struct torch_plan *plan, uint8_t **out, size_t *len);
/* The bytes are not trusted: -EINVAL for anything that does not fit. */
int plan_cache__decode(const uint8_t *data, size_t len, struct torch_plan **out);

#endif /* PLAN_PLAN_CACHE_H */
