/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See plan.h. */
#include "plan/plan.h"

#include <errno.h>
#include <string.h>

#define FAILURES_MAX 64 /* the oldest goes */
#define VALID_NS 3600000000000ULL
#define LONG_NS 100000000ULL

static struct plan_failure {
	uint8_t digest[FILE_HASH_SZ];
	int err;
	uint64_t until_ns; /* CLOCK_MONOTONIC */
} table[FAILURES_MAX];
static uint32_t next;

static uint32_t find(const uint8_t *digest)
{
	uint32_t i = 0;

	while (i < FAILURES_MAX &&
	       !(table[i].err && !memcmp(table[i].digest, digest, FILE_HASH_SZ)))
		i++;
	return i;
}

int plan_failures__find(const struct plan_key *key, uint64_t now_ns)
{
	uint32_t i = key->known ? find(key->digest) : FAILURES_MAX;

	return i < FAILURES_MAX && now_ns < table[i].until_ns ? table[i].err : 0;
}

void plan_failures__note(const struct plan_key *key, int err, uint64_t took_ns, uint64_t now_ns)
{
	uint32_t i;

	if (!key->known || took_ns < LONG_NS || err == -ECANCELED || err == -EINTR ||
	    err == -ESTALE)
		return;
	i = find(key->digest);
	if (i == FAILURES_MAX) {
		i = next;
		next = (next + 1) % FAILURES_MAX;
	}
	table[i] = (struct plan_failure){ .err = err, .until_ns = now_ns + VALID_NS };
	memcpy(table[i].digest, key->digest, sizeof(table[i].digest));
}
