/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What a plan was made from, and so what it is valid for: the content of the files of all roles, by its hash, and this build
 * of ptbpf. A build-id proves nothing, since the file's owner writes it; nor does an identity, which the owner of a file
 * system chooses.
 */
#ifndef PLAN_PLAN_KEY_H
#define PLAN_PLAN_KEY_H

#include <stdbool.h>
#include <stdint.h>

#include "target/file_id.h"
#include "target/torch_proc.h"

struct plan_key {
	bool known; /* false: a library is known by its name only; then the plan is for nothing else */
	uint8_t digest[FILE_HASH_SZ], hashes[TORCH_LIB_ROLES][FILE_HASH_SZ];
	struct file_id files[TORCH_LIB_ROLES];
};

/*
 * Of the files that tp has open. Each file is read wholly, but for those whose hash is remembered: in this process where the
 * identity is lasting (file_id.h), and of files on disks in the cache's directory if cache is true (dir NULL: PLAN_CACHE_DIR). 0 or negative errno (logged).
 */
int plan_key__get(const struct torch_lib *libs, bool cache, const char *dir, struct plan_key *key);
bool plan_key__same(const struct plan_key *a, const struct plan_key *b);
/* Are tp's files still those of the key? A change since says that something else may have been read. */
bool plan_key__holds(const struct torch_lib *libs, const struct plan_key *key);

#endif /* PLAN_PLAN_KEY_H */
