/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The agent, as it is built, in this process beside a mock libtorch: what it records of operators, and what it
 * refuses.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent_host.h"
#include "arg_arena.h"
#include "suite.h"

/* ---- records ---- */

static void check_records(const struct mock_rf *op, const struct mock_rf *inner)
{
	static struct first_records h;

	h.cnt = 0;
	host__each(PTB_CHUNK_OPS, collect_records, &h);
	CU_ASSERT_EQUAL_FATAL(h.cnt, 14);
	CU_ASSERT_EQUAL(h.r[0].kind, PTB_AREC_NAME);
	CU_ASSERT_STRING_EQUAL(h.r[0].text, "aten::add.Tensor");
	CU_ASSERT_EQUAL(h.r[0].schema, (uint64_t)(uintptr_t)&mock_add);
	CU_ASSERT_EQUAL(h.r[1].kind, PTB_AREC_BEGIN);
	CU_ASSERT_EQUAL(h.r[1].schema, (uint64_t)(uintptr_t)&mock_add);
	CU_ASSERT_EQUAL(h.r[1].rf, (uint64_t)(uintptr_t)op);
	CU_ASSERT_EQUAL(h.r[1].seq, 41);
	CU_ASSERT_EQUAL(h.r[1].len + h.r[1].fwd, 0);
	CU_ASSERT_EQUAL(h.r[1].tid, (uint32_t)getpid());
	CU_ASSERT_EQUAL(h.r[1].logical, op->thread);
	CU_ASSERT_STRING_EQUAL(h.r[2].text, "my annotation");
	CU_ASSERT_EQUAL(h.r[2].scope, 7);
	CU_ASSERT_EQUAL(h.r[2].seq, -1);
	CU_ASSERT_EQUAL(h.r[2].schema, 0);
	CU_ASSERT(h.r[3].kind == PTB_AREC_END && h.r[3].rf == (uint64_t)(uintptr_t)inner);
	CU_ASSERT(h.r[4].kind == PTB_AREC_END && h.r[4].rf == (uint64_t)(uintptr_t)op);
	CU_ASSERT_STRING_EQUAL(h.r[5].text, "AddBackward0");
	CU_ASSERT(h.r[5].scope == 1 && h.r[5].fwd == 3 && h.r[5].seq == 41);
	CU_ASSERT_EQUAL(h.r[7].len, PTB_TEXT_MAX);
	CU_ASSERT(h.r[7].flags & PTB_AREC_TEXT_CUT);
	CU_ASSERT(h.r[8].kind == PTB_AREC_BEGIN && h.r[8].schema == (uint64_t)(uintptr_t)&mock_add); /* named before */
	CU_ASSERT_STRING_EQUAL(h.r[10].text, "aten::neg");
	for (uint32_t i = 2; i < h.cnt; i++)
		if (h.r[i].kind != PTB_AREC_NAME && h.r[i - 1].kind != PTB_AREC_NAME)
			CU_ASSERT(h.r[i].ticks >= h.r[i - 1].ticks);
}

TEST("recording")
{
	struct mock_rf op, inner, backward, long_text;
	char text[400];

	CU_ASSERT_EQUAL(host__counts().added, 0); /* nothing before a request */
	host__configure_right();
	CU_ASSERT_FATAL(host__attach(REQUEST(OPS)));
	CU_ASSERT_EQUAL(host__counts().registered, 1);
	CU_ASSERT(!host__counts().needs_inputs && !host__counts().needs_outputs);
	memset(text, 'x', sizeof(text) - 1);
	text[399] = 0;
	host__be_schema(&op, &mock_add);
	op.seq = 41;
	host__be_text(&inner, "my annotation");
	host__be_text(&backward, "AddBackward0");
	backward.scope = 1;
	backward.fwd_thread = 3;
	backward.seq = 41;
	host__be_text(&long_text, text);
	CU_ASSERT(host__begin(&op) && host__begin(&inner));
	host__end(&inner);
	host__end(&op);
	CU_ASSERT(host__begin(&backward));
	host__end(&backward);
	CU_ASSERT(host__begin(&long_text));
	host__run_op(&mock_add);
	host__run_op(&mock_neg);
	host__end(&long_text);
	CU_ASSERT(host__detach());
	CU_ASSERT_EQUAL(host__counts().registered, 0);
	check_records(&op, &inner);
	CU_ASSERT(host__count(PTB_AREC_CLOCK) >= 2);
	CU_ASSERT(host__count(PTB_AREC_STATE) >= 2);
	host__run_op(&mock_add); /* no tracer */
	CU_ASSERT_EQUAL(host__counts().added, 1);
}

/* What gloo does: it begins on a thread of its own what its caller constructed, here from the first call on. */
TEST("begun elsewhere than constructed")
{
	static struct first_records h;
	struct mock_rf own, foreign;

	host__be_schema(&own, &mock_add);
	host__configure_right();
	CU_ASSERT_FATAL(host__attach(REQUEST(OPS)));
	for (uint32_t i = 0; i < 20; i++) {
		host__be_text(&foreign, "gloo:all_reduce");
		foreign.thread = 77;
		CU_ASSERT(host__begin(&foreign));
		host__end(&foreign);
	}
	CU_ASSERT(host__begin(&own));
	host__end(&own);
	CU_ASSERT(host__detach());
	CU_ASSERT_EQUAL(host__ctl()->ops_why, PTB_AGENT_WHY_NONE);
	CU_ASSERT_EQUAL(host__count(PTB_AREC_BEGIN), 21);
	h.cnt = 0;
	host__each(PTB_CHUNK_OPS, collect_records, &h);
	for (uint32_t i = 0; i < h.cnt; i++)
		CU_ASSERT_EQUAL(h.r[i].logical, own.thread);
}

/* Each operator has a number of its own at the site where stacks are read, if that is requested. */
TEST("numbers for stacks")
{
	static struct first_records h;
	struct mock_rf backward;
	uint64_t last = 0;
	uint32_t begins = 0;

	host__be_text(&backward, "AddBackward0");
	backward.fwd_thread = 3;
	host__configure_right();
	for (uint32_t stacks = 0; stacks < 2; stacks++) {
		CU_ASSERT_FATAL(host__attach(REQUEST(OPS) | (stacks ? REQUEST(STACKS) : 0)));
		CU_ASSERT_EQUAL(!!(host__ctl()->state & PTB_AGENT_STACKS_ON), stacks);
		host__run_op(&mock_add);
		CU_ASSERT(host__begin(&backward));
		host__run_op(&mock_neg);
		host__end(&backward);
		CU_ASSERT(host__detach());
		CU_ASSERT_FALSE(host__ctl()->state & PTB_AGENT_STACKS_ON);
		h.cnt = begins = 0;
		host__each(PTB_CHUNK_OPS, collect_records, &h);
		for (uint32_t i = 0; i < h.cnt; i++) {
			if (h.r[i].kind != PTB_AREC_BEGIN)
				continue;
			begins++;
			CU_ASSERT_EQUAL(!!(h.r[i].flags & PTB_AREC_STACK), stacks);
			CU_ASSERT(!stacks || h.r[i].stack > last);
			last = h.r[i].stack;
			if (h.r[i].fwd) {
				CU_ASSERT_EQUAL(h.r[i].fwd, 3);
				CU_ASSERT_STRING_EQUAL(h.r[i].text, "AddBackward0");
			}
		}
		CU_ASSERT_EQUAL(begins, 3);
		memset(&h, 0, sizeof(h));
	}
}

/* Operators that begin in a window and end after it, or in another one. */
TEST("ends behind the window")
{
	struct mock_rf rf, other;
	static struct first_records h;

	host__be_schema(&rf, &mock_add);
	host__be_schema(&other, &mock_add);
	host__configure_right();
	CU_ASSERT_FATAL(host__attach(REQUEST(OPS)));
	CU_ASSERT(host__begin(&rf) && host__begin(&other));
	CU_ASSERT(host__detach());
	host__end(&other);
	CU_ASSERT_FATAL(host__attach(REQUEST(OPS)));
	host__end(&rf);
	host__run_op(&mock_add);
	CU_ASSERT(host__detach());
	h.cnt = 0;
	host__each(PTB_CHUNK_OPS, collect_records, &h);
	CU_ASSERT_EQUAL_FATAL(h.cnt, 4);
	CU_ASSERT(h.r[0].kind == PTB_AREC_END && h.r[0].rf == (uint64_t)(uintptr_t)&rf);
	CU_ASSERT_EQUAL(h.r[1].kind, PTB_AREC_NAME); /* another listener knows no names */
	CU_ASSERT_EQUAL(host__chunk(0)->kind, PTB_CHUNK_STATE);
}

/* Many operators by turns, at any addresses: each is named once, whatever hash slots they share. */
TEST("named once")
{
	static struct {
		_Alignas(16) unsigned char at[1 << 20];
	} memory;
	const struct mock_schema *schemas[256];
	uint32_t seed = 1;

	for (uint32_t i = 0; i < 256; i++) {
		struct mock_schema *to;

		seed = seed * 1103515245u + 12345u;
		to = (void *)(memory.at + i * 4096 + (seed >> 16) % 200 * 16);
		*to = mock_neg;
		schemas[i] = to;
	}
	host__configure_right();
	CU_ASSERT_FATAL(host__attach(REQUEST(OPS)));
	for (uint32_t i = 0; i < 4 * 256; i++)
		host__run_op(schemas[i % 256]);
	CU_ASSERT(host__detach());
	CU_ASSERT_EQUAL(host__count(PTB_AREC_BEGIN), 4 * 256);
	CU_ASSERT(host__count(PTB_AREC_NAME) >= 256 && host__count(PTB_AREC_NAME) < 300);
}

/* ---- values ---- */

struct one_tensor {
	unsigned char impl[256];
	uint64_t storage[8];
	struct mock_ivalue ivalues[600];
};

static void set_tensors(struct ptb_agent_cfg *cfg)
{
	struct ptb_proc_cfg facts;

	arena__facts(&facts, false);
	cfg->tensor = facts.tensor;
	cfg->tensor.undefined_impl = 8;
}

static void make_tensor(struct one_tensor *t, uint64_t rows, uint64_t cols)
{
	const uint64_t dims[] = { 2, rows, cols }, numel = rows * cols;
	const uint64_t storage = (uint64_t)(uintptr_t)t->storage;
	const unsigned char head[5] = { 6, 0, 0, 0xff, 1 }; /* float32, cpu */

	memset(t, 0, sizeof(*t));
	memcpy(t->impl + 56, dims, sizeof(dims));
	memcpy(t->impl + 152, &numel, 8);
	memcpy(t->impl + 160, head, sizeof(head));
	memcpy(t->impl + 16, &storage, 8);
	t->storage[2] = 0x1000;
	for (uint32_t i = 0; i < 600; i++)
		t->ivalues[i] = (struct mock_ivalue){ (uint64_t)(uintptr_t)t->impl, 1 };
}

static void run_with(const struct one_tensor *t, uint32_t inputs)
{
	struct mock_schema schema = mock_add;
	struct mock_rf rf;

	schema.inputs = inputs;
	host__be_schema(&rf, &schema);
	rf.inputs = t->ivalues;
	rf.input_cnt = inputs;
	rf.outputs = t->ivalues;
	rf.outputs_end = rf.outputs_room = t->ivalues + 1;
	host__begin(&rf);
	host__end(&rf);
}

struct sums {
	uint32_t begins, ends, with_args, cut, tensors, largest;
	uint64_t begin_bytes;
};

static void sum_values(const struct ptb_chunk *c, const struct ptb_arec *r, void *ctx)
{
	struct sums *s = ctx;
	struct ptb_val v;

	s->largest = c->len > s->largest ? c->len : s->largest;
	if (r->kind != PTB_AREC_BEGIN && r->kind != PTB_AREC_END)
		return;
	s->begins += r->kind == PTB_AREC_BEGIN;
	s->ends += r->kind == PTB_AREC_END;
	s->cut += (r->flags & PTB_AREC_ARGS_CUT) != 0;
	if (!(r->flags & PTB_AREC_ARGS))
		return;
	s->with_args++;
	if (r->kind == PTB_AREC_BEGIN)
		s->begin_bytes = r->len - sizeof(struct ptb_arec_begin);
	memcpy(&v,
	       (const char *)r + (r->kind == PTB_AREC_BEGIN ? sizeof(struct ptb_arec_begin) :
							      sizeof(struct ptb_arec_end)),
	       sizeof(v));
	s->tensors += v.kind == PTB_VAL_TENSOR && (v.n & 0xff) == 2 && (v.aux & 0xff) == 6;
}

TEST("inputs and outputs")
{
	struct ptb_agent_cfg cfg = host__right_cfg();
	struct one_tensor *t = malloc(sizeof(*t));
	struct sums s = { 0 };

	make_tensor(t, 3, 4);
	set_tensors(&cfg);
	host__configure(&cfg);
	CU_ASSERT_FATAL(host__attach(REQUEST(OPS) | REQUEST(INPUTS)));
	CU_ASSERT(host__counts().needs_inputs && !host__counts().needs_outputs);
	for (uint32_t i = 0; i < 600; i++) /* careful at first, then not */
		run_with(t, 2);
	CU_ASSERT(host__detach());
	host__each(PTB_CHUNK_OPS, sum_values, &s);
	CU_ASSERT(s.begins == 600 && s.ends == 600 && s.with_args == 600 && s.tensors == 600 && !s.cut);
	CU_ASSERT_EQUAL(s.begin_bytes, 2 * (8 + 16 + 32));

	s = (struct sums){ 0 };
	CU_ASSERT_FATAL(host__attach(REQUEST(OPS) | REQUEST(INPUTS) | REQUEST(OUTPUTS)));
	CU_ASSERT(host__counts().needs_inputs && host__counts().needs_outputs);
	for (uint32_t i = 0; i < 300; i++)
		run_with(t, 1 + i % 2 * 299); /* 80 bytes a tensor: more than an ordinary chunk */
	run_with(t, 500);
	CU_ASSERT(host__detach());
	host__each(PTB_CHUNK_OPS, sum_values, &s);
	CU_ASSERT(s.begins == 301 && s.ends == 301 && s.with_args == 602 && s.tensors == 602);
	CU_ASSERT_EQUAL(s.cut, 1); /* the one of 500 */
	CU_ASSERT(s.largest > PTB_CHUNK_FULL && s.largest <= PTB_CHUNK_MAX);
	CU_ASSERT_EQUAL(host__ctl()->dropped, 0);
	free(t);
}

/* ---- refusals ---- */

static void refused(const struct ptb_agent_cfg *cfg, uint32_t why)
{
	uint32_t added = host__counts().added;

	host__configure(cfg);
	CU_ASSERT(!host__attach(REQUEST(OPS)));
	CU_ASSERT_EQUAL(host__ctl()->ops_why, why);
	host__run_op(&mock_add);
	CU_ASSERT(host__detach());
	CU_ASSERT_EQUAL(host__counts().added, added);
	CU_ASSERT_EQUAL(host__count(PTB_AREC_BEGIN), 0);
	CU_ASSERT(host__count(PTB_AREC_STATE) > 0); /* it reports that */
}

TEST("settings refused")
{
	struct ptb_agent_cfg cfg = host__right_cfg();

	cfg.rf.size = 0;
	refused(&cfg, PTB_AGENT_WHY_NO_LAYOUT);
	cfg = host__right_cfg();
	cfg.rf.outputs_off = cfg.rf.size - 8;
	refused(&cfg, PTB_AGENT_WHY_BAD_CFG);
	cfg = host__right_cfg();
	cfg.rf.size = 20000;
	refused(&cfg, PTB_AGENT_WHY_BAD_CFG);
	cfg = host__right_cfg();
	host__configure(&cfg);
	host__ctl()->cfg_size--;
	CU_ASSERT(!host__attach(REQUEST(OPS)));
	CU_ASSERT_EQUAL(host__ctl()->ops_why, PTB_AGENT_WHY_BAD_CFG);
	CU_ASSERT(host__detach());
}

/* Offsets that the tracer got wrong: nothing is believed, nothing recorded, nothing breaks. */
static void wrong(const struct ptb_agent_cfg *cfg)
{
	host__configure(cfg);
	host__attach(REQUEST(OPS));
	for (uint32_t i = 0; i < 30; i++) {
		host__run_op(&mock_add);
		usleep(10000);
	}
	CU_ASSERT_EQUAL(host__ctl()->ops_why, PTB_AGENT_WHY_BAD_LAYOUT);
	CU_ASSERT_EQUAL(host__ctl()->state & PTB_AGENT_OPS_ON, 0);
	CU_ASSERT_EQUAL(host__counts().registered, 0);
	CU_ASSERT(host__detach());
	CU_ASSERT_EQUAL(host__count(PTB_AREC_BEGIN) + host__count(PTB_AREC_END), 0);
}

TEST("a wrong layout")
{
	struct ptb_agent_cfg cfg = host__right_cfg();

	cfg.rf.fn_off += 8;
	wrong(&cfg);
	cfg = host__right_cfg();
	cfg.rf.thread_off += 8;
	wrong(&cfg);
	cfg = host__right_cfg();
	cfg.rf.fn_index_off = cfg.rf.seq_off; /* 0xff */
	wrong(&cfg);
	cfg = host__right_cfg();
	cfg.rf.old_string_abi = 1;
	cfg.rf.fn_off = 0;
	wrong(&cfg);
}

TEST("wrong tensors")
{
	struct ptb_agent_cfg cfg = host__right_cfg();
	struct one_tensor *t = malloc(sizeof(*t));
	struct sums s = { 0 };

	make_tensor(t, 3, 4);
	set_tensors(&cfg);
	cfg.tensor.sizes_off += 8; /* a size is taken for their number */
	host__configure(&cfg);
	CU_ASSERT_FATAL(host__attach(REQUEST(OPS) | REQUEST(INPUTS)));
	for (uint32_t i = 0; i < 30; i++) {
		run_with(t, 2);
		usleep(10000);
	}
	CU_ASSERT_EQUAL(host__ctl()->ops_why, PTB_AGENT_WHY_BAD_TENSORS);
	CU_ASSERT_EQUAL(host__ctl()->state & (PTB_AGENT_OPS_ON | PTB_AGENT_INPUTS_ON), PTB_AGENT_OPS_ON);
	CU_ASSERT(!host__counts().needs_inputs);
	for (uint32_t i = 0; i < 10; i++)
		host__run_op(&mock_neg);
	CU_ASSERT(host__detach());
	host__each(PTB_CHUNK_OPS, sum_values, &s);
	CU_ASSERT(s.begins >= 20 && s.begins == s.ends);
	CU_ASSERT(s.with_args <= 10);
	free(t);
}

int main(void)
{
	if (!host__load())
		return 1;
	return run_suite("agent ops");
}
