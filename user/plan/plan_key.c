/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See plan.h. */
#define LOG_DOMAIN "plan_key"
#include "plan/plan.h"

#include <errno.h>
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
static struct file_key memo[MEMO_CNT]; /* a ring */
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

/* The number of a mount is valid for this boot only. */
static bool recall_from(int dir, struct file_key *fk)
{
	uint8_t digest[FILE_HASH_SZ], *data;
	size_t len;
	bool whole;

	if (dir < 0 || fk->id.mount)
		return false;
	bytes_hash__get(&fk->id, sizeof(fk->id), digest);
	if (cache_dir__read(dir, digest, ".hash", FILE_HASH_SZ, &data, &len))
		return false;
	whole = len == FILE_HASH_SZ;
	if (whole)
		memcpy(fk->hash, data, FILE_HASH_SZ);
	free(data);
	return whole;
}

static void remember(int dir, const struct file_key *fk)
{
	uint8_t digest[FILE_HASH_SZ];

	memo[memo_next % MEMO_CNT] = *fk;
	if (++memo_next == 2 * MEMO_CNT)
		memo_next = MEMO_CNT;
	if (dir < 0 || fk->id.mount)
		return;
	bytes_hash__get(&fk->id, sizeof(fk->id), digest);
	cache_dir__write(dir, digest, ".hash", fk->hash, sizeof(fk->hash));
}

static int hash_file(int dir, const struct torch_lib *lib, struct file_key *fk)
{
	struct file_id after;
	uint64_t t0 = clock__mono_ns();
	bool lasting;
	int err = file_id__get(lib->fd, &fk->id);

	lasting = !err && file_id__is_lasting(&fk->id); /* to be checked before the file is read */
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

/* ---- analyses that failed ---- */

#define FAILURES_MAX 64 /* the oldest is replaced */
#define VALID_NS 3600000000000ULL
#define LONG_NS 100000000ULL /* shorter ones are simply repeated */

static struct plan_failure {
	uint8_t digest[FILE_HASH_SZ];
	int err;
	uint64_t until_ns; /* CLOCK_MONOTONIC */
} failures[FAILURES_MAX];
static uint32_t next_failure;

static uint32_t find_failure(const uint8_t *digest)
{
	uint32_t i = 0;

	while (i < FAILURES_MAX &&
	       !(failures[i].err && !memcmp(failures[i].digest, digest, FILE_HASH_SZ)))
		i++;
	return i;
}

int plan_failures__find(const struct plan_key *key, uint64_t now_ns)
{
	uint32_t i = key->known ? find_failure(key->digest) : FAILURES_MAX;

	return i < FAILURES_MAX && now_ns < failures[i].until_ns ? failures[i].err : 0;
}

void plan_failures__note(const struct plan_key *key, int err, uint64_t took_ns, uint64_t now_ns)
{
	uint32_t i;

	if (!key->known || took_ns < LONG_NS || err == -ECANCELED || err == -EINTR ||
	    err == -ESTALE)
		return;
	i = find_failure(key->digest);
	if (i == FAILURES_MAX) {
		i = next_failure;
		next_failure = (next_failure + 1) % FAILURES_MAX;
	}
	failures[i] = (struct plan_failure){ .err = err, .until_ns = now_ns + VALID_NS };
	memcpy(failures[i].digest, key->digest, sizeof(failures[i].digest));
}
