/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* One child per question, and what it answered; see elf.h. */
#define LOG_DOMAIN "elf_child"
#include "target/elf.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define OPENSSL_SUPPRESS_DEPRECATED /* as in plan/plan_key.c */
#include <openssl/sha.h>

#include "base/clock.h"
#include "base/containers.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/sandbox.h"
#include "target/elf_priv.h"
#include "target/torch.h"

#define CACHE_CNT 256    /* answers that are remembered */
#define CACHED_MAX 65536 /* bytes of one */

/* ---- in the child ---- */

struct request {
	int fd;
	const char *name;
	const struct elf_question *q;
};

static void fill_outline(const struct elf_file *ef, struct elf_outline *o)
{
	uint32_t sz = sizeof(Elf64_Ehdr);
	const uint8_t *mark = elf_priv__build_id(ef, &sz);
	uint64_t off = mark ? (uint64_t)(mark - ef->map) : 0;

	memset(o, 0, sizeof(*o));
	for (uint32_t i = 0; i < ef->seg_cnt && o->seg_cnt < ELF_EXEC_SEG_MAX; i++)
		if (ef->segs[i].exec)
			o->segs[o->seg_cnt++] = (struct elf_exec_seg){ ef->segs[i].addr,
								       ef->segs[i].off,
								       ef->segs[i].file_sz };
	if (!mark || sz > sizeof(o->mark)) {
		mark = (const uint8_t *)&ef->ehdr;
		sz = sizeof(Elf64_Ehdr);
		off = 0;
	}
	o->mark_sz = sz;
	o->mark_addr = elf_file__off_to_addr(ef, off);
	memcpy(o->mark, mark, sz);
}

static int answer_question(void *arg, uint8_t **out, size_t *len)
{
	const struct request *r = arg;
	struct elf_outline o;
	struct elf_file *ef;
	uint8_t *data = NULL;
	size_t n = 0;
	int err = elf_file__open_fd(r->fd, r->name, &ef);

	if (err)
		return err;
	fill_outline(ef, &o);
	err = r->q->fn(ef, r->q->arg, &data, &n);
	if (!err) {
		*out = xmalloc(sizeof(o) + n);
		memcpy(*out, &o, sizeof(o));
		if (n)
			memcpy(*out + sizeof(o), data, n);
		*len = sizeof(o) + n;
	}
	free(data);
	elf_file__close(ef);
	return err;
}

int elf_answer__nothing(const struct elf_file *ef, const void *arg, uint8_t **out, size_t *len)
{
	(void)ef, (void)arg, (void)out;
	*len = 0;
	return 0;
}

void elf_answer__give(const void *from, size_t sz, uint8_t **out, size_t *len)
{
	*out = vec_dup(from, 1, sz);
	*len = sz;
}

/* ---- answers that are remembered ---- */

struct cached_answer {
	struct file_id id;
	int (*fn)(const struct elf_file *ef, const void *arg, uint8_t **out, size_t *len);
	uint8_t *arg, *data;
	size_t arg_sz, len;
	int err;
};

static struct cached_answer cache[CACHE_CNT]; /* a ring */
static uint32_t cache_next;

static const struct cached_answer *find_cached(const struct file_id *id,
					       const struct elf_question *q)
{
	for (uint32_t i = 0; i < CACHE_CNT; i++) {
		const struct cached_answer *m = &cache[i];

		if (m->fn == q->fn && m->arg_sz == q->arg_sz && file_id__same(&m->id, id) &&
		    (!q->arg_sz || !memcmp(m->arg, q->arg, q->arg_sz)))
			return m;
	}
	return NULL;
}

/* Will the next answer be the same? Not after an error of ptbpf's own, nor for a file whose
 * identity another file may get. */
static bool is_lasting(const struct file_id *id, int err, size_t len)
{
	if (!file_id__is_lasting(id))
		return false;
	switch (err) {
	case 0:
		return len <= CACHED_MAX;
	case -ENOEXEC:
	case -ETIMEDOUT:
	case -E2BIG:
	case -EFBIG:
		return true;
	default:
		return false;
	}
}

static void cache_answer(const struct file_id *id, const struct elf_question *q, int err,
			 const uint8_t *data, size_t len)
{
	struct cached_answer *m = &cache[cache_next];

	free(m->arg);
	free(m->data);
	*m = (struct cached_answer){
		.id = *id, .fn = q->fn, .arg_sz = q->arg_sz, .len = len, .err = err
	};
	m->arg = q->arg_sz ? vec_dup(q->arg, 1, q->arg_sz) : NULL;
	m->data = len ? vec_dup(data, 1, len) : NULL;
	cache_next = (cache_next + 1) % CACHE_CNT;
}

/* ---- answers that are kept for other processes ---- */

static int cache_fd = -1;

void elf_child__use_cache(const char *dir)
{
	cache_fd = cache_dir__open(dir);
}

const uint8_t *elf_child__tool_id(void)
{
	static uint8_t id[BUILD_ID_MAX];
	static bool known;
	struct elf_file *ef;

	if (!known && !elf_file__open("/proc/self/exe", &ef)) {
		elf_file__build_id(ef, id, BUILD_ID_MAX);
		elf_file__close(ef);
	}
	known = true;
	return id;
}

/* The digest that names its file. False: no answer about this file is kept, because the number of a
 * mount is valid for this boot only. */
static bool answer_digest(const struct file_id *id, const struct elf_question *q, uint8_t *digest)
{
	const uint64_t nums[] = { (uint64_t)(uintptr_t)q->fn - (uint64_t)(uintptr_t)elf_child__ask,
				  q->arg_sz };
	SHA256_CTX ctx;

	if (cache_fd < 0 || id->mount || !file_id__is_lasting(id))
		return false;
	SHA256_Init(&ctx);
	SHA256_Update(&ctx, elf_child__tool_id(), BUILD_ID_MAX);
	SHA256_Update(&ctx, id, sizeof(*id));
	SHA256_Update(&ctx, nums, sizeof(nums));
	SHA256_Update(&ctx, q->arg, q->arg_sz);
	SHA256_Final(digest, &ctx);
	return true;
}

/* ---- in the parent ---- */

static bool outline_ok(const struct elf_outline *o)
{
	if (o->seg_cnt > ELF_EXEC_SEG_MAX || o->mark_sz > ELF_MARK_MAX)
		return false;
	for (uint32_t i = 0; i < o->seg_cnt; i++)
		if (o->segs[i].file_sz > UINT64_MAX - o->segs[i].addr ||
		    o->segs[i].file_sz > UINT64_MAX - o->segs[i].off)
			return false;
	return true;
}

static int take_answer(const uint8_t *data, size_t len, struct elf_answer *out)
{
	if (len < sizeof(out->outline))
		return -ENOEXEC;
	memcpy(&out->outline, data, sizeof(out->outline));
	if (!outline_ok(&out->outline))
		return -ENOEXEC;
	out->len = len - sizeof(out->outline);
	out->data = xmalloc(out->len + 1);
	memcpy(out->data, data + sizeof(out->outline), out->len);
	return 0;
}

static int run_child(struct request *r, const struct file_id *id, uint8_t **data, size_t *len)
{
	struct sandbox_job job = {
		.what = r->name,
		.fn = answer_question,
		.arg = r,
		.fds = &r->fd,
		.fd_cnt = 1,
		.limits = { ((uint64_t)LIMIT_ELF_MIB << 20) + id->size, LIMIT_ELF_CPU_S,
			    LIMIT_ELF_WALL_MS, LIMIT_ELF_ANSWER },
	};
	uint64_t begin = clock__mono_ns(), *spent = r->q->spent_ns;
	int err;

	if (spent && *spent > LIMIT_ELF_SPENT_MS * 1000000ull) {
		pr_debug("%s is not analysed: the files before it took too long", r->name);
		return -ETIMEDOUT;
	}
	err = sandbox__run(&job, data, len);
	if (spent)
		*spent += clock__mono_ns() - begin;
	if (err == -EIO) /* it was cut, or makes the parser fail */
		err = -ENOEXEC;
	if (is_lasting(id, err, *len))
		cache_answer(id, r->q, err, *data, *len);
	return err;
}

int elf_child__ask(int fd, const char *name, const struct elf_question *q, struct elf_answer *out)
{
	struct request r = { .fd = fd, .name = name, .q = q };
	const struct cached_answer *m;
	struct file_id id;
	uint8_t *data = NULL;
	size_t len = 0;
	uint8_t digest[FILE_HASH_SZ];
	bool keep;
	int err = file_id__get(fd, &id);

	memset(out, 0, sizeof(*out));
	if (err)
		return err;
	out->id = id;
	m = find_cached(&id, q);
	if (m)
		return m->err ? m->err : take_answer(m->data, m->len, out);
	keep = answer_digest(&id, q, digest);
	if (keep && !cache_dir__read(cache_fd, digest, ".answer", CACHED_MAX, &data, &len)) {
		cache_answer(&id, q, 0, data, len);
	} else {
		err = run_child(&r, &id, &data, &len);
		if (keep && !err && len <= CACHED_MAX)
			cache_dir__write(cache_fd, digest, ".answer", data, len);
	}
	if (!err)
		err = take_answer(data, len, out);
	free(data);
	return err;
}

void elf_answer__clear(struct elf_answer *a)
{
	free(a->data);
	memset(a, 0, sizeof(*a));
}

bool elf_answer__get(const struct elf_answer *a, void *to, size_t sz)
{
	if (a->len != sz)
		return false;
	memcpy(to, a->data, sz);
	return true;
}
