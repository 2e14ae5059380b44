/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See containers.h. Words are read in the machine's order: hashes never leave the process. */
#include "base/containers.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"

struct state {
	uint64_t v0, v1, v2, v3;
};

static uint64_t process_key[2];
static atomic_bool has_key;

static inline uint64_t rotl(uint64_t x, int n)
{
	return x << n | x >> (64 - n);
}

static inline void sip_round(struct state *s)
{
	s->v0 += s->v1;
	s->v2 += s->v3;
	s->v1 = rotl(s->v1, 13) ^ s->v0;
	s->v3 = rotl(s->v3, 16) ^ s->v2;
	s->v0 = rotl(s->v0, 32) + s->v3;
	s->v2 += s->v1;
	s->v1 = rotl(s->v1, 17) ^ s->v2;
	s->v3 = rotl(s->v3, 21) ^ s->v0;
	s->v2 = rotl(s->v2, 32);
}

static inline struct state sip_begin(const uint64_t key[2])
{
	return (struct state){ key[0] ^ 0x736f6d6570736575ULL, key[1] ^ 0x646f72616e646f6dULL,
			       key[0] ^ 0x6c7967656e657261ULL, key[1] ^ 0x7465646279746573ULL };
}

static inline void sip_word(struct state *s, uint64_t word)
{
	s->v3 ^= word;
	sip_round(s);
	s->v0 ^= word;
}

static inline uint64_t sip_finish(struct state *s)
{
	s->v2 ^= 0xff;
	sip_round(s);
	sip_round(s);
	sip_round(s);
	return s->v0 ^ s->v1 ^ s->v2 ^ s->v3;
}

/* Two threads that come first at once would each draw a key: the tables of a process belong to one
 * thread until the first is in use, so this does not happen. */
static void draw_key(void)
{
	if (getrandom(process_key, sizeof(process_key), GRND_NONBLOCK) !=
	    (ssize_t)sizeof(process_key)) {
		/* early in the boot: better than a constant */
		process_key[0] = clock__mono_ns() * 0x9e3779b97f4a7c15ULL;
		process_key[1] = (uint64_t)(uintptr_t)&process_key ^ clock__cpu_ns() << 32;
	}
	atomic_store_explicit(&has_key, true, memory_order_release);
}

static inline const uint64_t *key_of_process(void)
{
	if (!atomic_load_explicit(&has_key, memory_order_acquire))
		draw_key();
	return process_key;
}

uint64_t siphash__keyed(const uint64_t key[2], const void *data, size_t len)
{
	struct state s = sip_begin(key);
	const unsigned char *p = data, *end = p + len / 8 * 8;
	uint64_t word, last = (uint64_t)len << 56;

	for (; p < end; p += 8) {
		memcpy(&word, p, 8);
		sip_word(&s, word);
	}
	for (size_t i = 0; i < len % 8; i++)
		last |= (uint64_t)p[i] << (8 * i);
	sip_word(&s, last);
	return sip_finish(&s);
}

uint64_t siphash__bytes(const void *data, size_t len)
{
	return siphash__keyed(key_of_process(), data, len);
}
