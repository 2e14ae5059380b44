/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See plan.h. */
#define LOG_DOMAIN "plan_key"
#include "plan/plan.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* the newer interface allocates, and without memory OpenSSL 3.0 crashes in it */
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/sha.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "target/elf.h"

struct file_key {
	struct file_id id;
	uint8_t hash[FILE_HASH_SZ];
};

/* ---- hashes by identity ---- */

#define MEMO_CNT 64
static struct file_key memo[MEMO_CNT]; /* of this process; a ring */
static uint32_t memo_next;

static bool recall(struct file_key *fk)
{
	for (uint32_t i = 0; i < MEMO_CNT && i < memo_next; i++)
		if (file_id__same(&memo[i].id, &fk->id)) {
			memcpy(fk->hash, memo[i].hash, sizeof(fk->hash));
			return true;
		}
	return false;
}

static void id_name(const struct file_id *id, char *name, size_t cap)
{
	snprintf(name, cap, "%llx-%llx-%llx-%llx.%lx-%llx.%lx.hash", (unsigned long long)id->dev,
		 (unsigned long long)id->ino, (unsigned long long)id->size,
		 (unsigned long long)id->mtime_s, (long)id->mtime_ns,
		 (unsigned long long)id->ctime_s, (long)id->ctime_ns);
}

static bool recall_from(int dir, struct file_key *fk)
{
	uint8_t *data;
	char name[160];
	size_t len;

	id_name(&fk->id, name, sizeof(name));
	if (dir < 0 || fk->id.mount ||
	    cache_dir__read(dir, name, FILE_HASH_SZ, FILE_HASH_SZ, &data, &len))
		return false;
	memcpy(fk->hash, data, FILE_HASH_SZ);
	free(data);
	return true;
}

static void remember(int dir, const struct file_key *fk)
{
	char name[160];
	int err;

	memo[memo_next % MEMO_CNT] = *fk;
	if (++memo_next == 2 * MEMO_CNT)
		memo_next = MEMO_CNT;
	if (dir < 0 || fk->id.mount) /* the mount's number is for this boot */
		return;
	id_name(&fk->id, name, sizeof(name));
	err = cache_dir__write(dir, name, fk->hash, sizeof(fk->hash));
	if (err)
		pr_debug("cannot store a hash: %s", errstr(err));
}

static int hash_file(int dir, const struct torch_lib *lib, struct file_key *fk)
{
	struct file_id after;
	uint64_t t0 = clock__mono_ns();
	bool lasting;
	int err = file_id__get(lib->fd, &fk->id);

	lasting = !err && file_id__is_lasting(&fk->id); /* before it is read */
	if (lasting && (recall(fk) || recall_from(dir, fk)))
		return 0;
	if (!err)
		err = file_hash__get(lib->fd, fk->id.size, -1, fk->hash);
	if (!err)
		err = file_id__get(lib->fd, &after);
	if (!err && !file_id__same(&fk->id, &after))
		err = -ESTALE;
	if (err == -ESTALE)
		pr_error("cannot analyse %s: it is being written", lib->path);
	else if (err == -EFBIG)
		pr_error("cannot analyse %s: it is larger than %d MiB", lib->path,
			 LIMIT_ELF_FILE_MIB);
	else if (err && err != -ECANCELED)
		pr_error("cannot read %s: %s", lib->path, errstr(err));
	if (err)
		return err;
	pr_debug("hash of %s in %llu us", lib->path,
		 (unsigned long long)(clock__mono_ns() - t0) / 1000);
	if (lasting)
		remember(dir, fk);
	return 0;
}

/* ---- the key ---- */

static void digest(const struct plan_key *key, const struct torch_lib *libs,
		   uint8_t out[FILE_HASH_SZ])
{
	SHA256_CTX ctx;

	SHA256_Init(&ctx);
	SHA256_Update(&ctx, elf_child__tool_id(), BUILD_ID_MAX);
	for (uint32_t role = 0; role < TORCH_LIB_ROLES; role++) {
		uint8_t there = libs[role].present;

		SHA256_Update(&ctx, &there, 1);
		SHA256_Update(&ctx, key->hashes[role], FILE_HASH_SZ);
	}
	SHA256_Final(out, &ctx);
}

int plan_key__get(const struct torch_lib *libs, bool cache, const char *dir, struct plan_key *key)
{
	struct file_key file = { 0 };
	int dir_fd, err = 0;

	memset(key, 0, sizeof(*key));
	for (uint32_t role = 0; role < TORCH_LIB_ROLES; role++)
		if (libs[role].present && libs[role].fd <= 0)
			return 0;
	dir_fd = cache ? cache_dir__open(dir) : -1;
	for (uint32_t role = 0; role < TORCH_LIB_ROLES && !err; role++) {
		if (!libs[role].present)
			continue;
		err = hash_file(dir_fd, &libs[role], &file);
		key->files[role] = file.id;
		memcpy(key->hashes[role], file.hash, FILE_HASH_SZ);
	}
	if (dir_fd >= 0)
		close(dir_fd);
	if (!err)
		digest(key, libs, key->digest);
	key->known = !err;
	return err;
}

bool plan_key__same(const struct plan_key *a, const struct plan_key *b)
{
	return a->known && b->known && !memcmp(a->digest, b->digest, sizeof(a->digest));
}

bool plan_key__holds(const struct torch_lib *libs, const struct plan_key *key)
{
	struct file_id now;

	for (uint32_t role = 0; role < TORCH_LIB_ROLES && key->known; role++)
		if (libs[role].present &&
		    (file_id__get(libs[role].fd, &now) || !file_id__same(&now, &key->files[role])))
			return false;
	return true;
}
