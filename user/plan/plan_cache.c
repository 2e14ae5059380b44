/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * File: header | plan_layout | functions | sites | classes | argument programs | texts. Records are
 * this build's own structures with a text offset instead of a pointer; the key in the file's name
 * is this build's, too. A program ends after its last instruction.
 */
#define LOG_DOMAIN "plan_cache"
#include "plan/plan_priv.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/containers.h"
#include "base/log.h"
#include "base/mem.h"
#include "code/arch.h"
#include "target/elf.h"

struct cache_head {
	uint32_t func_cnt, site_cnt, class_cnt, text_sz;
	uint32_t prog_cnt, prog_sz; /* all of them */
	uint32_t names_a, names_b_only, names_disagree;
};

struct cache_func {
	uint64_t addr, handle;
	uint32_t name, schema; /* offsets into the texts; NO_TEXT */
	uint8_t lib, kind, reason, pad;
	uint16_t unplaced, pad2;
};

struct cache_class {
	uint64_t addr;
	uint32_t name;
	uint8_t lib, what, pad[2];
};

#define NO_TEXT UINT32_MAX
#define PROG_HEAD_SZ offsetof(struct ptb_arg_prog, ops)

/* ---- reading ---- */

static bool head_ok(const struct cache_head *h, const uint8_t *body, uint64_t len)
{
	uint64_t need;

	need = sizeof(struct plan_layout) + (uint64_t)h->func_cnt * sizeof(struct cache_func) +
	       (uint64_t)h->site_cnt * sizeof(struct plan_site) +
	       (uint64_t)h->class_cnt * sizeof(struct cache_class) + h->prog_sz + h->text_sz;
	return need == len && h->text_sz && h->prog_cnt <= h->prog_sz / PROG_HEAD_SZ &&
	       !body[len - 1];
}

static int take_funcs(struct torch_plan *p, const uint8_t *rec, const char *texts, uint32_t text_sz)
{
	struct cache_func f;

	for (uint32_t i = 0; i < p->func_cnt; i++) {
		memcpy(&f, rec + (size_t)i * sizeof(f), sizeof(f));
		if (f.name >= text_sz || (f.schema >= text_sz && f.schema != NO_TEXT) ||
		    f.lib >= TORCH_LIB_ROLES)
			return -EINVAL;
		p->funcs[i] = (struct plan_func){ .addr = f.addr,
						  .handle = f.handle,
						  .lib = f.lib,
						  .kind = f.kind,
						  .reason = f.reason,
						  .unplaced = f.unplaced };
		p->funcs[i].name = xstrdup(texts + f.name);
		if (f.schema == NO_TEXT)
			continue;
		p->funcs[i].schema = xstrdup(texts + f.schema);
	}
	return 0;
}

static size_t prog_size(const struct ptb_arg_prog *prog)
{
	return PROG_HEAD_SZ + ((size_t)prog->in_cnt + prog->out_cnt) * sizeof(prog->ops[0]);
}

/* Is it a word of the call, as the BPF programs index them? */
static bool loc_ok(uint8_t loc)
{
	return loc == PTB_LOC_NONE || loc < PTB_LOC_CNT;
}

#define X(name, nr, text) +1
static const uint32_t opcodes = 0 PTB_ARG_OPS(X); /* numbered from 1 without a gap */
#undef X

static bool prog_ok(const struct ptb_arg_prog *prog)
{
	if (prog->stack_words > PTB_LOC_CNT - PTB_LOC_STACK || !loc_ok(prog->result_loc))
		return false;
	for (uint32_t i = 0; i < (uint32_t)prog->in_cnt + prog->out_cnt; i++) {
		const struct ptb_arg_op *op = &prog->ops[i];

		if (!op->op || op->op > opcodes || !loc_ok(op->loc[0]) || !loc_ok(op->loc[1]) ||
		    !loc_ok(op->loc[2]))
			return false;
	}
	return true;
}

static int take_progs(struct torch_plan *p, const uint8_t *rec, size_t len)
{
	struct ptb_arg_prog *prog;
	size_t at = 0, sz;

	for (uint32_t i = 0; i < p->prog_cnt; i++) {
		prog = &p->progs[i];
		if (len - at < PROG_HEAD_SZ)
			return -EINVAL;
		memcpy(prog, rec + at, PROG_HEAD_SZ);
		sz = prog_size(prog);
		if (prog->in_cnt + prog->out_cnt > PTB_ARG_OPS_MAX || len - at < sz)
			return -EINVAL;
		memcpy(prog, rec + at, sz);
		if (!prog_ok(prog))
			return -EINVAL;
		at += sz;
	}
	return at == len ? 0 : -EINVAL;
}

static int take_classes(struct torch_plan *p, const uint8_t *rec, const char *texts,
			uint32_t text_sz)
{
	struct cache_class c;

	for (uint32_t i = 0; i < p->class_cnt; i++) {
		memcpy(&c, rec + (size_t)i * sizeof(c), sizeof(c));
		if (c.name >= text_sz || c.lib >= TORCH_LIB_ROLES)
			return -EINVAL;
		p->classes[i] =
			(struct plan_addr_name){ .addr = c.addr, .lib = c.lib, .what = c.what };
		p->classes[i].name = xstrdup(texts + c.name);
	}
	return 0;
}

/* The number of an argument program, or the arguments of a CUDA call (PTB_API_ARGS,
 * PTB_CUDA_ARGS). */
static bool args_ok(const struct torch_plan *p, const struct plan_site *s)
{
	if (s->prog == PTB_PROG_API_ENTER || s->prog == PTB_PROG_API_EXIT)
		return !(s->args >> 20) && !(s->args & PTB_API_NO_EXIT);
	if (s->prog == PTB_PROG_CUDA_ENTER || s->prog == PTB_PROG_CUDA_EXIT)
		return !(s->args >> 20) && !(s->args & PTB_API_NO_EXIT) &&
		       PTB_CUDA_SHAPE(s->args) < PTB_CUDA_SHAPE_CNT;
	return s->args <= p->prog_cnt;
}

static int take_sites(struct torch_plan *p, const uint8_t *rec)
{
	memcpy(p->sites, rec, p->site_cnt * sizeof(*p->sites));
	for (uint32_t i = 0; i < p->site_cnt; i++)
		if (p->sites[i].func >= p->func_cnt || p->sites[i].lib >= TORCH_LIB_ROLES ||
		    p->sites[i].prog >= PTB_PROG_CNT || !args_ok(p, &p->sites[i]) ||
		    p->sites[i].len > sizeof(p->sites[i].bytes) ||
		    !insn__is_emulated(p->sites[i].bytes, p->sites[i].len))
			return -EINVAL;
	return 0;
}

/* Are the texts terminated, and does RecordFunction's layout fit into an agent's request? */
static bool layout_ok(const struct plan_layout *l)
{
	return memchr(l->no_shapes_why, 0, sizeof(l->no_shapes_why)) &&
	       memchr(l->no_rf_why, 0, sizeof(l->no_rf_why)) &&
	       (!l->rf.size || rf_layout__plausible(&l->rf));
}

/* An empty plan with the header's numbers of rows. */
static struct torch_plan *new_plan(const struct cache_head *h)
{
	struct torch_plan *plan = xcalloc(1, sizeof(*plan));

	plan->funcs = xcalloc(h->func_cnt + 1UL, sizeof(*plan->funcs));
	plan->sites = xcalloc(h->site_cnt + 1UL, sizeof(*plan->sites));
	plan->classes = xcalloc(h->class_cnt + 1UL, sizeof(*plan->classes));
	plan->progs = xcalloc(h->prog_cnt + 1UL, sizeof(*plan->progs));
	plan->func_cnt = h->func_cnt;
	plan->site_cnt = h->site_cnt;
	plan->class_cnt = h->class_cnt;
	plan->prog_cnt = h->prog_cnt;
	plan->names_a = h->names_a;
	plan->names_b_only = h->names_b_only;
	plan->names_disagree = h->names_disagree;
	return plan;
}

int plan_cache__decode(const uint8_t *data, size_t len, struct torch_plan **out)
{
	const uint8_t *body = data + sizeof(struct cache_head), *p = body;
	struct torch_plan *plan;
	const char *texts;
	struct cache_head h;
	int err = 0;

	if (len < sizeof(h))
		return -EINVAL;
	memcpy(&h, data, sizeof(h));
	if (!head_ok(&h, body, len - sizeof(h)))
		return -EINVAL;
	plan = new_plan(&h);
	texts = (const char *)(data + len - h.text_sz);
	memcpy(&plan->layout, p, sizeof(plan->layout));
	p += sizeof(plan->layout);
	err = layout_ok(&plan->layout) ? take_funcs(plan, p, texts, h.text_sz) : -EINVAL;
	p += (size_t)h.func_cnt * sizeof(struct cache_func);
	if (!err)
		err = take_sites(plan, p);
	p += (size_t)h.site_cnt * sizeof(*plan->sites);
	if (!err)
		err = take_classes(plan, p, texts, h.text_sz);
	p += (size_t)h.class_cnt * sizeof(struct cache_class);
	if (!err)
		err = take_progs(plan, p, h.prog_sz);
	if (err) {
		torch_plan__free(plan);
		return err;
	}
	*out = plan;
	return 0;
}

int plan_cache__read(const struct plan_key *key, const char *dir, struct torch_plan **out)
{
	uint8_t *data = NULL;
	size_t len = 0;
	int fd, err;

	*out = NULL;
	fd = key->known ? cache_dir__open(dir) : -ENOENT;
	if (fd < 0)
		return fd;
	err = cache_dir__read(fd, key->digest, ".plan", PLAN_IMAGE_MAX, &data, &len);
	close(fd);
	if (!err)
		err = plan_cache__decode(data, len, out);
	if (!err)
		(*out)->from_cache = true;
	free(data);
	return err;
}

/* ---- writing ---- */

struct image {
	uint8_t *data;
	uint32_t len, cap;
};

static void put(struct image *im, const void *data, size_t len)
{
	if (!len)
		return; /* an empty table has no address */
	vec_reserve((void **)&im->data, &im->cap, (uint64_t)im->len + len, 1);
	memcpy(im->data + im->len, data, len);
	im->len += (uint32_t)len;
}

static uint32_t put_text(struct image *texts, const char *s)
{
	uint32_t at = texts->len;

	put(texts, s, strlen(s) + 1);
	return at;
}

static void put_plan(struct image *im, struct image *texts, const struct torch_plan *plan,
		     uint32_t *prog_sz)
{
	put(im, &plan->layout, sizeof(plan->layout));
	for (uint32_t i = 0; i < plan->func_cnt; i++) {
		const struct plan_func *f = &plan->funcs[i];
		struct cache_func c = { .addr = f->addr,
					.handle = f->handle,
					.lib = f->lib,
					.kind = f->kind,
					.reason = f->reason,
					.unplaced = f->unplaced };

		c.name = put_text(texts, f->name);
		c.schema = f->schema ? put_text(texts, f->schema) : NO_TEXT;
		put(im, &c, sizeof(c));
	}
	put(im, plan->sites, plan->site_cnt * sizeof(*plan->sites));
	for (uint32_t i = 0; i < plan->class_cnt; i++) {
		const struct plan_addr_name *a = &plan->classes[i];
		struct cache_class c = { .addr = a->addr, .lib = a->lib, .what = a->what };

		c.name = put_text(texts, a->name);
		put(im, &c, sizeof(c));
	}
	*prog_sz = im->len;
	for (uint32_t i = 0; i < plan->prog_cnt; i++)
		put(im, &plan->progs[i], prog_size(&plan->progs[i]));
	*prog_sz = im->len - *prog_sz;
	put_text(texts, "");
	put(im, texts->data, texts->len);
}

void plan_cache__encode(const struct torch_plan *plan, uint8_t **out, size_t *len)
{
	struct cache_head h = {
		.func_cnt = plan->func_cnt,
		.site_cnt = plan->site_cnt,
		.class_cnt = plan->class_cnt,
		.prog_cnt = plan->prog_cnt,
		.names_a = plan->names_a,
		.names_b_only = plan->names_b_only,
		.names_disagree = plan->names_disagree,
	};
	struct image im = { 0 }, texts = { 0 };

	put(&im, &h, sizeof(h));
	put_plan(&im, &texts, plan, &h.prog_sz);
	h.text_sz = texts.len;
	memcpy(im.data, &h, sizeof(h));
	*out = im.data;
	*len = im.len;
	free(texts.data);
}

void plan_cache__store(const struct plan_key *key, const char *dir, const uint8_t *data, size_t len)
{
	int fd = key->known ? cache_dir__open(dir) : -ENOENT;

	if (fd < 0)
		return;
	cache_dir__write(fd, key->digest, ".plan", data, len);
	close(fd);
}
