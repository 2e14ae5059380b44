/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See plan_failures.h. */
#include "plan/plan_failures.h"

#include <errno.h>
#include <string.h>

#define FAILURES_MAX 64 /* the oldest goes */
#define VALID_NS 3600000000000ULL
#define LONG_NS 100000000ULL

static struct {
	struct plan_failure f;
	bool own;
} table[FAILURES_MAX];
static uint32_t next;

static uint32_t find(const uint8_t *digest)
{
	uint32_t i = 0;

	while (i < FAILURES_MAX && !(table[i].f.err && !memcmp(table[i].f.digest, digest, FILE_HASH_SZ)))
		i++;
	return i;
}

int plan_failures__find(const struct plan_key *key, uint64_t now_ns)
{
	uint32_t i = key->known ? find(key->digest) : FAILURES_MAX;

	return i < FAILURES_MAX && now_ns < table[i].f.until_ns ? table[i].f.err : 0;
}

static void put(const struct plan_failure *f, bool own)
{
	uint32_t i = find(f->digest);

	if (i == FAILURES_MAX) {
		i = next;
		next = (next + 1) % FAILURES_MAX;
	}
	table[i].f = *f;
	table[i].own = own;
}

void plan_failures__add(const struct plan_failure *f)
{
	if (f->err)
		put(f, false);
}

void plan_failures__note(const struct plan_key *key, int err, uint64_t took_ns, uint64_t now_ns)
{
	struct plan_failure f = { .err = err, .until_ns = now_ns + VALID_NS };

	if (!key->known || took_ns < LONG_NS || err == -ECANCELED || err == -EINTR || err == -ESTALE)
		return;
	memcpy(f.digest, key->digest, sizeof(f.digest));
	put(&f, true);
}

uint32_t plan_failures__own(struct plan_failure *out, uint32_t cap)
{
	uint32_t cnt = 0;

	for (uint32_t k = 1; k <= FAILURES_MAX && cnt < cap; k++) {
		uint32_t i = (next + FAILURES_MAX - k) % FAILURES_MAX;

		if (table[i].own && table[i].f.err)
			out[cnt++] = table[i].f;
	}
	return cnt;
}
