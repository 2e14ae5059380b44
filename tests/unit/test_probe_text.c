/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Programs that read the target's memory: names, nodes, scopes, boxed calls, sequence numbers. */
#include <string.h>

#include <bpf/bpf.h>

#include "probe/probe_state.h"
#include "probe_target.h"
#include "suite.h"

#define FIXED(type) sizeof(struct type)

/* Runs "names TEXT" once with one program at one site and returns what it emitted. */
static void run_names(const char *site, uint8_t prog, const struct ptb_proc_cfg *facts,
		      const char *text, struct records *r, struct target *t, struct probe_set **keep)
{
	struct named_site sites[] = { { site, prog, 0 } };
	struct probe_set *ps = open_set(0, LINKS_MULTI, false);
	char cmd[256];

	snprintf(cmd, sizeof(cmd), "names %s", text);
	CU_ASSERT_EQUAL(attach_sites_to(ps, t, facts, sites, 1, NULL), 1);
	probe_set__activate(ps);
	CU_ASSERT_EQUAL(target__run(t, cmd), 0);
	probe_set__deactivate(ps);
	records__collect(r, ps);
	*keep = ps;
}

static bool named_is(const struct records *r, uint8_t kind, uint32_t nth, const char *text)
{
	const struct ptb_named_enter *n = records__find(r, kind, nth);

	return n && record__text_is(n, FIXED(ptb_named_enter), n->text_len, text);
}

static bool named_faults(const struct records *r, uint8_t kind, uint32_t nth)
{
	const struct ptb_named_enter *n = records__find(r, kind, nth);

	return n && n->text_len == 0 && n->h.flags == PTB_F_READ_FAULT &&
	       n->h.len == FIXED(ptb_named_enter);
}

TEST("custom function: class name")
{
	struct probe_set *ps;
	struct records r = {};
	struct target t;

	target__start(&t, TARGET_CALLS);
	run_names("site_named_enter", PTB_PROG_PYFUNC_ENTER, NULL, "x", &r, &t, &ps);
	CU_ASSERT_EQUAL(r.cnt, 3);
	CU_ASSERT(named_is(&r, PTB_REC_NAMED_ENTER, 0, "MyFunction"));
	CU_ASSERT(named_faults(&r, PTB_REC_NAMED_ENTER, 1)); /* NULL class */
	CU_ASSERT_EQUAL(probe_set__counter(ps, PTB_CNT_READ_FAULT), 2);
	records__clear(&r);
	probe_set__free(ps);
	CU_ASSERT_EQUAL(target__stop(&t), 0);
}

/* Every length modulo 8: padding is zero, not the remains of an earlier text in the scratch memory. */
TEST("strings of all lengths, padded and cut")
{
	static const char *const texts[] = {
		"a",        "a string of 23 letters!", "seven 7",
		"eight 88", "Optimizer.step#SGD.step", "sechzehn Zeichen"
	};
	char cut[PTB_TEXT_MAX + 1] = {};
	struct target t;

	memset(cut, 'x', PTB_TEXT_MAX);
	target__start(&t, TARGET_CALLS);
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		const struct ptb_named_enter *n;
		struct records r = {};
		struct probe_set *ps;

		run_names("site_named_enter", PTB_PROG_SCOPE_STRING, NULL, texts[i], &r, &t, &ps);
		CU_ASSERT_EQUAL(r.cnt, 3);
		CU_ASSERT(named_is(&r, PTB_REC_SCOPE_NAME, 0, texts[i]));
		CU_ASSERT(named_is(&r, PTB_REC_SCOPE_NAME, 1, cut));
		n = records__find(&r, PTB_REC_SCOPE_NAME, 1);
		CU_ASSERT_EQUAL_FATAL(n->h.flags, PTB_F_TEXT_CUT);
		CU_ASSERT(probe_set__counter(ps, PTB_CNT_TEXT_CUT) >= 1);
		CU_ASSERT_EQUAL(probe_set__counter(ps, PTB_CNT_RECURSION), 0);
		records__clear(&r);
		probe_set__free(ps);
	}
	CU_ASSERT_EQUAL(target__stop(&t), 0);
}

TEST("strings of the old ABI")
{
	struct ptb_proc_cfg facts = { .old_string_abi = 1 };
	struct records r = {};
	struct probe_set *ps;
	struct target t;

	target__start(&t, TARGET_CALLS);
	run_names("site_named_enter", PTB_PROG_SCOPE_STRING, &facts, "old strings", &r, &t, &ps);
	CU_ASSERT_EQUAL(r.cnt, 3);
	CU_ASSERT(named_is(&r, PTB_REC_SCOPE_NAME, 2, "old strings"));
	records__clear(&r);
	probe_set__free(ps);
	CU_ASSERT_EQUAL(target__stop(&t), 0);
}

TEST("a C string")
{
	struct records r = {};
	struct probe_set *ps;
	struct target t;

	target__start(&t, TARGET_CALLS);
	run_names("site_other_enter", PTB_PROG_SCOPE_CSTR, NULL, "0/0", &r, &t, &ps);
	CU_ASSERT(r.cnt >= 2);
	CU_ASSERT(named_is(&r, PTB_REC_SCOPE_NAME, 0, "Region"));
	CU_ASSERT(named_is(&r, PTB_REC_SCOPE_NAME, 1, "Alone"));
	records__clear(&r);
	probe_set__free(ps);
	CU_ASSERT_EQUAL(target__stop(&t), 0);
}

TEST("TorchScript function")
{
	struct ptb_proc_cfg facts = { .script_name_off = 16 };
	struct ptb_proc_cfg unknown = { .script_name_off = PTB_OFF_UNKNOWN };
	struct records r = {};
	struct probe_set *ps;
	struct target t;

	target__start(&t, TARGET_CALLS);
	run_names("site_script_enter", PTB_PROG_SCRIPT_ENTER, &facts, "forward", &r, &t, &ps);
	CU_ASSERT_EQUAL(r.cnt, 1);
	CU_ASSERT(named_is(&r, PTB_REC_NAMED_ENTER, 0, "forward"));
	records__clear(&r);
	probe_set__free(ps);
	run_names("site_script_enter", PTB_PROG_SCRIPT_ENTER, &unknown, "forward", &r, &t, &ps);
	CU_ASSERT_EQUAL(r.cnt, 1);
	CU_ASSERT(named_faults(&r, PTB_REC_NAMED_ENTER, 0));
	records__clear(&r);
	probe_set__free(ps);
	CU_ASSERT_EQUAL(target__stop(&t), 0);
}

TEST("backward node")
{
	struct ptb_proc_cfg facts = { .node_seq_off = 16, .node_thread_off = 40, .pynode_obj_off = 48 };
	const struct ptb_node_enter *n;
	struct records r = {};
	struct probe_set *ps;
	struct target t;

	target__start(&t, TARGET_CALLS);
	facts.pynode_vptr = target__value(&t, "vptr");
	run_names("site_named_enter", PTB_PROG_NODE_ENTER, &facts, "x", &r, &t, &ps);
	n = records__find(&r, PTB_REC_NODE_ENTER, 0);
	CU_ASSERT_FATAL(n != NULL);
	CU_ASSERT_EQUAL(n->h.flags, 0);
	CU_ASSERT_EQUAL(n->node, target__value(&t, "node"));
	CU_ASSERT_EQUAL(n->vptr, facts.pynode_vptr);
	CU_ASSERT_EQUAL(n->seq, 1234);
	CU_ASSERT_EQUAL(n->fwd_thread, 3);
	CU_ASSERT(record__text_is(n, sizeof(*n), n->text_len, "MyFunction"));
	n = records__find(&r, PTB_REC_NODE_ENTER, 1); /* NULL node */
	CU_ASSERT_FATAL(n != NULL);
	CU_ASSERT_EQUAL(n->h.flags, PTB_F_READ_FAULT);
	CU_ASSERT_EQUAL(n->vptr, 0);
	records__clear(&r);
	probe_set__free(ps);
	/* nothing known: the node's address and class pointer alone */
	facts.node_seq_off = facts.node_thread_off = facts.pynode_obj_off = PTB_OFF_UNKNOWN;
	run_names("site_named_enter", PTB_PROG_NODE_ENTER, &facts, "x", &r, &t, &ps);
	n = records__find(&r, PTB_REC_NODE_ENTER, 0);
	CU_ASSERT_FATAL(n != NULL);
	CU_ASSERT_EQUAL(n->h.flags, 0);
	CU_ASSERT_EQUAL(n->seq, ~0ull);
	CU_ASSERT_EQUAL(n->fwd_thread, 0);
	CU_ASSERT_EQUAL(n->text_len, 0);
	records__clear(&r);
	probe_set__free(ps);
	CU_ASSERT_EQUAL(target__stop(&t), 0);
}

static const struct ptb_boxed_enter *boxed_of(const struct records *r, uint64_t opdef)
{
	const struct ptb_boxed_enter *b;

	for (uint32_t i = 0; (b = records__find(r, PTB_REC_BOXED_ENTER, i)); i++)
		if (b->opdef == opdef)
			return b;
	return NULL;
}

TEST("boxed call and its scope")
{
	struct ptb_proc_cfg facts = { .string_ivalue_off = 16 };
	struct records r = {};
	struct probe_set *ps;
	struct target t;
	uint64_t opdef;

	target__start(&t, TARGET_CALLS);
	opdef = target__value(&t, "opdef");
	run_names("site_other_enter", PTB_PROG_BOXED_ENTER, &facts, "boxed scope", &r, &t, &ps);
	CU_ASSERT_PTR_NOT_NULL(boxed_of(&r, opdef));
	CU_ASSERT_PTR_NULL(records__find(&r, PTB_REC_SCOPE_NAME, 0)); /* not the scope operator */
	records__clear(&r);
	probe_set__free(ps);
	facts.scope_enter_opdef = opdef;
	run_names("site_other_enter", PTB_PROG_BOXED_ENTER, &facts, "boxed scope", &r, &t, &ps);
	CU_ASSERT_PTR_NOT_NULL(boxed_of(&r, opdef));
	CU_ASSERT(named_is(&r, PTB_REC_SCOPE_NAME, 0, "boxed scope"));
	CU_ASSERT_PTR_NULL(records__find(&r, PTB_REC_SCOPE_NAME, 1));
	records__clear(&r);
	probe_set__free(ps);
	/* the handle in the second register: rsi of the boxed call is the stack, its first word no
	 * opdef */
	facts.boxed_handle_reg = 1;
	run_names("site_other_enter", PTB_PROG_BOXED_ENTER, &facts, "boxed scope", &r, &t, &ps);
	CU_ASSERT(records__find(&r, PTB_REC_BOXED_ENTER, 0) != NULL);
	CU_ASSERT_PTR_NULL(boxed_of(&r, opdef));
	records__clear(&r);
	probe_set__free(ps);
	CU_ASSERT_EQUAL(target__stop(&t), 0);
}

TEST("before(): variant, string, C string")
{
	const struct ptb_scope_begin *b;
	struct records r = {};
	struct probe_set *ps;
	struct target t;

	target__start(&t, TARGET_CALLS);
	run_names("site_variant_enter", PTB_PROG_BEFORE_VAR, NULL, "Torch-Compiled Region: 0/0", &r,
		  &t, &ps);
	CU_ASSERT_EQUAL(r.cnt, 1); /* the other one carries a schema */
	b = records__find(&r, PTB_REC_SCOPE_BEGIN, 0);
	CU_ASSERT_FATAL(b != NULL);
	CU_ASSERT_EQUAL(b->handle, target__value(&t, "node"));
	CU_ASSERT_EQUAL(b->scope, PTB_SCOPE_UNKNOWN);
	CU_ASSERT(record__text_is(b, sizeof(*b), b->text_len, "Torch-Compiled Region: 0/0"));
	records__clear(&r);
	probe_set__free(ps);
	run_names("site_named_enter", PTB_PROG_BEFORE_STR, NULL, "by string", &r, &t, &ps);
	b = records__find(&r, PTB_REC_SCOPE_BEGIN, 0);
	CU_ASSERT_FATAL(b != NULL);
	CU_ASSERT(record__text_is(b, sizeof(*b), b->text_len, "by string"));
	records__clear(&r);
	probe_set__free(ps);
	run_names("site_other_enter", PTB_PROG_BEFORE_CSTR, NULL, "by c string", &r, &t, &ps);
	b = records__find(&r, PTB_REC_SCOPE_BEGIN, 0);
	CU_ASSERT_FATAL(b != NULL);
	CU_ASSERT(record__text_is(b, sizeof(*b), b->text_len, "by c string"));
	records__clear(&r);
	probe_set__free(ps);
	CU_ASSERT_EQUAL(target__stop(&t), 0);
}

/* Only an object that began here has an end, and only one. */
TEST("life of a scope")
{
	static const struct named_site sites[] = {
		{ "site_ctor_enter", PTB_PROG_SCOPE_CTOR, 0 },
		{ "site_end_enter", PTB_PROG_SCOPE_END, 0 },
		{ "site_variant_enter", PTB_PROG_BEFORE_VAR, 0 },
	};
	struct probe_set *ps = open_set(0, LINKS_MULTI, false);
	const struct ptb_scope_begin *b;
	const struct ptb_scope_end *e;
	struct records r = {};
	struct target t;

	target__start(&t, TARGET_CALLS);
	CU_ASSERT_EQUAL(attach_sites_to(ps, &t, NULL, sites, 3, NULL), 3);
	probe_set__activate(ps);
	target__run(&t, "names x");
	records__collect(&r, ps);
	CU_ASSERT_EQUAL(r.cnt, 3);
	b = records__find(&r, PTB_REC_SCOPE_BEGIN, 0);
	CU_ASSERT_FATAL(b != NULL);
	CU_ASSERT_EQUAL(b->h.site, 1);
	CU_ASSERT_EQUAL(b->handle, target__value(&t, "node"));
	CU_ASSERT_EQUAL(b->scope, 7); /* the low byte alone */
	CU_ASSERT_EQUAL(b->text_len, 0);
	e = records__find(&r, PTB_REC_SCOPE_END, 0);
	CU_ASSERT_FATAL(e != NULL);
	CU_ASSERT_EQUAL(e->handle, b->handle);
	CU_ASSERT(e->h.ts_ns >= b->h.ts_ns);
	CU_ASSERT_EQUAL(records__count(&r, PTB_REC_SCOPE_END, 2), 1);
	CU_ASSERT_EQUAL(records__count(&r, PTB_REC_SCOPE_BEGIN, 3), 1);
	records__clear(&r);
	target__run(&t, "names x"); /* the one named by before() ends first */
	records__collect(&r, ps);
	CU_ASSERT_EQUAL(records__count(&r, PTB_REC_SCOPE_END, 2), 1);
	records__clear(&r);
	probe_set__free(ps);
	CU_ASSERT_EQUAL(target__stop(&t), 0);
}

static int open_scopes(const struct probe_set *ps, uint32_t tgid)
{
	struct ptb_scope_key key, *last = NULL;
	int fd = bpf_map__fd(ps->skel->maps.scopes), n = 0;

	for (; !bpf_map_get_next_key(fd, last, &key); last = &key)
		n += key.tgid == tgid;
	return n;
}

/* Another process opens as many objects as there may be: an end is lost and counted, none of the other process's. */
TEST("more scopes than there is room for")
{
	static const struct named_site sites[] = {
		{ "site_ctor_enter", PTB_PROG_SCOPE_CTOR, 0 },
		{ "site_end_enter", PTB_PROG_SCOPE_END, 0 },
	};
	static const uint64_t state[2];
	struct probe_set *ps = open_set(0, LINKS_MULTI, false);
	int fd = bpf_map__fd(ps->skel->maps.scopes);
	struct ptb_scope_key key = { .tgid = 1 };
	struct records r = {};
	struct target t;

	target__start(&t, TARGET_CALLS);
	CU_ASSERT_EQUAL(attach_sites_to(ps, &t, NULL, sites, 2, NULL), 2);
	probe_set__activate(ps);
	for (; key.handle < PTB_SCOPES_MAX; key.handle++)
		CU_ASSERT_EQUAL(bpf_map_update_elem(fd, &key, state, BPF_ANY), 0);
	target__run(&t, "names x");
	records__collect(&r, ps);
	CU_ASSERT_EQUAL(records__count(&r, PTB_REC_SCOPE_BEGIN, 1), 1);
	CU_ASSERT_EQUAL(records__count(&r, PTB_REC_SCOPE_END, 2), 0);
	CU_ASSERT_EQUAL(probe_set__counter(ps, PTB_CNT_SCOPES_FULL), 1);
	CU_ASSERT_EQUAL(open_scopes(ps, 1), PTB_SCOPES_MAX);
	records__clear(&r);

	probe_set__deactivate(ps);
	probe_set__activate(ps); /* a window begins without them */
	CU_ASSERT_EQUAL(open_scopes(ps, 1), 0);
	target__run(&t, "names x");
	records__collect(&r, ps);
	CU_ASSERT_EQUAL(records__count(&r, PTB_REC_SCOPE_END, 2), 1);
	CU_ASSERT_EQUAL(probe_set__counter(ps, PTB_CNT_SCOPES_FULL), 1);

	key.tgid = (uint32_t)t.pid;
	CU_ASSERT_EQUAL(bpf_map_update_elem(fd, &key, state, BPF_ANY), 0);
	probe_set__remove_process(ps, 0);
	CU_ASSERT_EQUAL(open_scopes(ps, (uint32_t)t.pid), 0);
	records__clear(&r);
	probe_set__free(ps);
	CU_ASSERT_EQUAL(target__stop(&t), 0);
}

TEST("sequence number from thread-local storage")
{
	struct ptb_proc_cfg facts = {};
	const struct ptb_seq *s;
	struct records r = {};
	struct probe_set *ps;
	struct target t;

	target__start(&t, TARGET_CALLS);
	facts.seq_tls_module = target__value(&t, "tls_module");
	facts.seq_tls_offset = target__value(&t, "tls_offset");
	CU_ASSERT_FATAL(facts.seq_tls_module > 0);
	for (uint64_t expect = 41; expect < 44; expect++) {
		run_names("site_variant_enter", PTB_PROG_SEQ, &facts, "x", &r, &t, &ps);
		s = records__find(&r, PTB_REC_SEQ, 0);
		CU_ASSERT_FATAL(s != NULL);
		CU_ASSERT_EQUAL(s->h.flags, 0);
		CU_ASSERT_EQUAL(s->seq, expect);
		records__clear(&r);
		probe_set__free(ps);
	}
	facts.seq_tls_module = 1u << 20; /* a block that this thread never touched */
	run_names("site_variant_enter", PTB_PROG_SEQ, &facts, "x", &r, &t, &ps);
	s = records__find(&r, PTB_REC_SEQ, 0);
	CU_ASSERT_FATAL(s != NULL);
	CU_ASSERT_EQUAL(s->h.flags, 0);
	CU_ASSERT_EQUAL(s->seq, 0);
	records__clear(&r);
	probe_set__free(ps);
	facts.seq_tls_module = 0; /* not known */
	run_names("site_variant_enter", PTB_PROG_SEQ, &facts, "x", &r, &t, &ps);
	s = records__find(&r, PTB_REC_SEQ, 0);
	CU_ASSERT_FATAL(s != NULL);
	CU_ASSERT_EQUAL(s->h.flags, PTB_F_READ_FAULT);
	records__clear(&r);
	probe_set__free(ps);
	CU_ASSERT_EQUAL(target__stop(&t), 0);
}

PROBE_SUITE("probe_text")
