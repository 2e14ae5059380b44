/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A probe set and the target with tensors of known bytes (tests/workloads/target_tensors.c), and how their
 * payloads are compared. For test_probe_args.c and test_probe_callargs.c. */
#ifndef TESTS_PROBE_ARGS_FIX_H
#define TESTS_PROBE_ARGS_FIX_H

#include <string.h>

#include "arg_arena.h"
#include "args/values.h"
#include "probe_target.h"
#include "suite.h"

struct fix {
	struct probe_set *ps;
	struct target t;
	struct ptb_proc_cfg facts;
	struct records r;
	uint32_t proc;
};

static inline void fill_facts(struct ptb_proc_cfg *cfg, struct target *t)
{
	struct ptb_tensor_cfg *c = &cfg->tensor;

	arena__facts(cfg, false);
	c->schema_returns_off = 24;
	c->argument_size = 112;
	c->undefined_impl = target__value(t, "undefined");
	cfg->seq_tls_module = c->grad_tls_module = c->keys_tls_module = target__value(t, "tls_module");
	cfg->seq_tls_offset = target__value(t, "tls_offset");
	c->keys_tls_off = cfg->seq_tls_offset + 8;
	c->grad_tls_off = cfg->seq_tls_offset + 24;
	c->grad_mask = 1;
	c->grad_made_late = 1;
	c->keys_default_included = 0x1;
	c->keys_default_excluded = 0x2;
	cfg->script_name_off = 16;
}

static inline void fix__start(struct fix *f, enum links links, enum probe_args args)
{
	memset(f, 0, sizeof(*f));
	f->ps = open_args_set(links, args);
	target__start(&f->t, TARGET_TENSORS);
	fill_facts(&f->facts, &f->t);
}

static inline void fix__attach(struct fix *f, const struct named_site *sites, uint32_t cnt)
{
	CU_ASSERT_EQUAL(attach_sites_to(f->ps, &f->t, &f->facts, sites, cnt, &f->proc), (int)cnt);
	probe_set__activate(f->ps);
}

static inline uint64_t fix__run(struct fix *f, const char *command)
{
	uint64_t answer = target__run(&f->t, command);

	records__clear(&f->r);
	records__collect(&f->r, f->ps);
	return answer;
}

static inline void fix__stop(struct fix *f)
{
	records__clear(&f->r);
	probe_set__free(f->ps);
	CU_ASSERT_EQUAL(target__stop(&f->t), 0);
}

/* The values of a record with `fixed` bytes before them; false: it has none. */
static inline bool values_of(const void *rec, size_t fixed, struct slice_values *sv)
{
	const struct ptb_rec_hdr *h = rec;

	if (!h || !(h->flags & PTB_F_ARGS) || h->len < fixed)
		return false;
	sv->words = (const uint64_t *)rec + fixed / 8;
	sv->word_cnt = (h->len - (uint32_t)fixed) / 8;
	sv->flags = 0;
	return values__survey(sv->words, sv->word_cnt).words == sv->word_cnt;
}

static inline struct value_iter iter_of(const void *rec)
{
	static const struct slice_values none;
	struct slice_values sv = {};

	if (values_of(rec, sizeof(struct ptb_op_enter), &sv))
		return values__begin(&sv);
	CU_FAIL("no values");
	return values__begin(&none);
}

static inline struct value next(struct value_iter *it)
{
	struct value v = { .kind = 255 };

	CU_ASSERT(values__next(it, &v));
	return v;
}

static inline void check_end(struct value_iter *it)
{
	struct value v;

	CU_ASSERT(!values__next(it, &v));
}

static inline void check_matrix(struct value v, int64_t rows, int64_t cols, uint64_t impl, int64_t offset)
{
	CU_ASSERT_EQUAL_FATAL(v.kind, PTB_VAL_TENSOR);
	CU_ASSERT_EQUAL_FATAL(v.ndim, 2);
	CU_ASSERT_EQUAL(v.sizes[0], rows);
	CU_ASSERT_EQUAL(v.sizes[1], cols);
	CU_ASSERT_EQUAL(v.strides[0], cols);
	CU_ASSERT_EQUAL(v.strides[1], 1);
	CU_ASSERT_EQUAL(v.numel, rows * cols);
	CU_ASSERT_EQUAL(v.dtype, 6);
	CU_ASSERT_EQUAL(v.device_type, 0);
	CU_ASSERT_EQUAL(v.device_index, -1);
	CU_ASSERT_EQUAL(v.keys, 0x8001);
	if (impl) {
		CU_ASSERT(v.flags & PTB_VAL_F_IDS);
		CU_ASSERT_EQUAL(v.tensor | (uint64_t)v.storage_id << 32, impl);
		CU_ASSERT_EQUAL(v.storage, 0x700000);
		CU_ASSERT_EQUAL(v.offset, offset);
	} else {
		CU_ASSERT(!(v.flags & PTB_VAL_F_IDS));
	}
}

#endif /* TESTS_PROBE_ARGS_FIX_H */
