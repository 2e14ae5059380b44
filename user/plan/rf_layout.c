/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * at::RecordFunction (pytorch ATen/record_function.h) by running its members on made-up objects:
 *
 * name(), num_inputs(), num_outputs(), operator_name()
 *                     ask fn_'s index first, then the value, the length of inputs_, the ends of
 *                     outputs_.
 * RecordFunction(StepCallbacks&&)
 *                     copies the thread's id and the scope, stores -1 to sequence_nr_, and, asked
 *                     for unique ids, handle_.
 * before()            stores the schema's address to fn_ and the sequence number to sequence_nr_.
 * end()               asks first whether the start callbacks were called: that flag follows
 *                     step_callbacks_, whose last members are the thread's id (8 bytes), the scope
 *                     and three flags (8 with padding).
 * ~RecordFunction()   the deleting one knows the object's size.
 * Node::operator()    stores the node's thread id to fwd_thread_id_ of the one that it constructs.
 *
 * The order of the members, the same in all versions: step_callbacks_, called_start_callbacks_,
 * ctx_, fn_, sequence_nr_, inputs_, (kwinputs_,) outputs_, fwd_thread_id_, handle_.
 */
#include "plan/plan_priv.h"

#include <string.h>

#include "base/text.h"

#define RF_MAX 1024 /* it has 264 to 344 bytes */
#define RF LEAF_OBJ(0)
#define ARG LEAF_OBJ(1)           /* the argument, or what it is constructed from */
#define SLOT LEAF_OBJ(2)          /* where a result is stored */
#define TAG 0x5a5a00005a000000ULL /* words hold this plus their offset */
#define SEQ 0x5b5b5b5b0000ULL

#define RF_NAME(len, name) "_ZNK2at14RecordFunction" #len name "Ev"

/* The contents of the made-up objects, and what was observed at calls. */
struct rf_run {
	struct plan_layout *l;
	struct leaf_run *r;
	uint8_t bytes; /* bytes of the first object: fn_'s index; of the second: its flags */
	uint8_t arg_bytes;
	uint64_t size;  /* passed to operator delete */
	uint64_t built; /* where Node::operator() constructs a RecordFunction */
};

void rf_layout__init(struct plan_layout *l)
{
	struct ptb_rf_cfg *rf = &l->rf;

	memset(rf, 0, sizeof(*rf));
	rf->fn_off = rf->fn_index_off = rf->seq_off = rf->inputs_off = rf->outputs_off =
		rf->fwd_thread_off = rf->thread_off = rf->scope_off = rf->handle_off =
			PTB_OFF_UNKNOWN;
	l->no_rf_why[0] = '\0';
}

static void refuse_rf(struct plan_layout *l, const char *reason)
{
	layout__refuse(l->no_rf_why, reason);
}

static void agree_rf(struct plan_layout *l, uint16_t *field, uint64_t off, const char *member)
{
	layout__agree(l->no_rf_why, field, off, RF_MAX, member, "RecordFunction");
}

static uint64_t rf_mem(void *arg, uint32_t obj, uint64_t off, uint32_t size)
{
	const struct rf_run *run = arg;

	if (obj == 0 && (size == 1 || size == 4)) /* the index is a byte or an int */
		return run->bytes;
	if (obj == 1 && size == 1)
		return run->arg_bytes;
	if (obj == 1 && off == 8) /* SmallVector: pointer, count, capacity */
		return 0;
	return TAG | off;
}

static enum leaf_call rf_calls(void *arg, struct leaf_run *r, const char *name)
{
	struct rf_run *run = arg;

	if (!strncmp(name, "_ZN2at14RecordFunctionD", 23))
		return CALL_ZERO;
	if (!strcmp(name, "_ZdlPvm") ||
	    !strcmp(name, "_ZN2at14RecordFunction17runStartCallbacksEv")) {
		if (!r->unknown[arch.arg[1]])
			run->size = r->reg[arch.arg[1]];
		return CALL_STOP;
	}
	return CALL_FOLLOW;
}

static uint64_t member(const struct rf_run *run, const char *name)
{
	return lib_code__function(run->r->lc, name);
}

/* Sets the contents for the next runs: handlers of calls, and bytes of the first object. */
static void set_world(struct rf_run *run,
		      enum leaf_call (*on_call)(void *, struct leaf_run *, const char *),
		      uint8_t bytes)
{
	struct leaf_run *r = run->r;

	r->mem = rf_mem;
	r->on_call = on_call;
	r->arg = run;
	r->lenient = true;
	run->bytes = bytes;
}

/* Runs a member on the made-up object. LEAF_LOST: it fails, or there is no such member. */
static enum leaf_end run_on_record(struct rf_run *run, const char *name, uint8_t bytes)
{
	set_world(run, rf_calls, bytes);
	return leaf_run__call(run->r, member(run, name), RF, 0, 0);
}

/* The first read of the object with one of two sizes; UINT64_MAX: none. */
static uint64_t first_read(const struct leaf_run *r, uint32_t size, uint32_t or_size)
{
	for (uint32_t i = 0; i < r->read_cnt; i++)
		if (!r->reads[i].obj && (r->reads[i].size == size || r->reads[i].size == or_size))
			return r->reads[i].off;
	return UINT64_MAX;
}

/* ---- members that only read ---- */

static void learn_name(struct rf_run *run)
{
	struct ptb_rf_cfg *rf = &run->l->rf;
	const struct leaf_run *r = run->r;

	if (run_on_record(run, RF_NAME(4, "name"), 1) == LEAF_STOPPED)
		return;
	agree_rf(run->l, &rf->fn_index_off, first_read(r, 1, 4), "fn_'s index");
	agree_rf(run->l, &rf->fn_off, first_read(r, 8, 8), "fn_");
}

/* Without a schema num_inputs() returns the length of inputs_. */
static void learn_inputs(struct rf_run *run)
{
	struct ptb_rf_cfg *rf = &run->l->rf;
	const struct leaf_run *r = run->r;

	if (run_on_record(run, RF_NAME(10, "num_inputs"), 0) != LEAF_RETURNED ||
	    r->unknown[arch.result])
		return;
	agree_rf(run->l, &rf->fn_index_off, first_read(r, 1, 4), "fn_'s index");
	if (r->reg[arch.result] - TAG < RF_MAX)
		agree_rf(run->l, &rf->inputs_off, r->reg[arch.result] - TAG - 8, "inputs_");
}

/* Without a schema num_outputs() returns the distance between outputs_'s first two words. */
static void learn_outputs(struct rf_run *run)
{
	struct ptb_rf_cfg *rf = &run->l->rf;
	uint64_t low = UINT64_MAX, high = 0;
	const struct leaf_run *r = run->r;

	if (run_on_record(run, RF_NAME(11, "num_outputs"), 0) != LEAF_RETURNED)
		return;
	agree_rf(run->l, &rf->fn_index_off, first_read(r, 1, 4), "fn_'s index");
	for (uint32_t i = 0; i < r->read_cnt; i++) {
		if (r->reads[i].obj || r->reads[i].size != 8)
			continue;
		low = r->reads[i].off < low ? r->reads[i].off : low;
		high = r->reads[i].off > high ? r->reads[i].off : high;
	}
	if (low != UINT64_MAX && high == low + 8)
		agree_rf(run->l, &rf->outputs_off, low, "outputs_");
}

static void learn_operator_name(struct rf_run *run)
{
	set_world(run, rf_calls, 0);
	leaf_run__call(run->r, member(run, RF_NAME(13, "operator_name")), SLOT, RF, 0);
	agree_rf(run->l, &run->l->rf.fn_index_off, first_read(run->r, 1, 4), "fn_'s index");
}

/* ---- end(), and the size ---- */

static void learn_end(struct rf_run *run)
{
	struct ptb_rf_cfg *rf = &run->l->rf;
	uint64_t called;

	if (run_on_record(run, "_ZN2at14RecordFunction3endEv", 0) != LEAF_RETURNED)
		return;
	called = first_read(run->r, 1, 1);
	if (called >= RF_MAX || called < 16)
		return;
	agree_rf(run->l, &rf->thread_off, called - 16, "thread_id_");
	agree_rf(run->l, &rf->scope_off, called - 8, "scope_");
}

static void learn_size(struct rf_run *run)
{
	run->size = 0;
	if (run_on_record(run, "_ZN2at14RecordFunctionD0Ev", 0) == LEAF_STOPPED &&
	    run->size < RF_MAX)
		run->l->rf.size = (uint16_t)run->size;
}

/* ---- the constructor ---- */

static bool construct(struct rf_run *run, uint64_t func, uint8_t flags)
{
	set_world(run, rf_calls, 0);
	run->arg_bytes = flags;
	return leaf_run__call(run->r, func, RF, ARG, 0) == LEAF_RETURNED;
}

/* Of the copied members the one of 8 bytes is the thread's id, and the scope follows it. */
static void learn_copies(struct rf_run *run)
{
	struct ptb_rf_cfg *rf = &run->l->rf;
	const struct leaf_run *r = run->r;
	uint64_t thread = UINT64_MAX;

	for (uint32_t i = 0; i < r->write_cnt; i++) {
		const struct leaf_write *w = &r->writes[i];

		if (w->obj || !w->known)
			continue;
		if (w->size == 8 && w->v >= (TAG | 16) && w->v < (TAG | RF_MAX) &&
		    thread == UINT64_MAX) {
			thread = w->v & (RF_MAX - 1);
			agree_rf(run->l, &rf->thread_off, w->off, "thread_id_");
		}
		if (w->size == 4 && thread != UINT64_MAX && w->v == (uint32_t)(TAG | (thread + 8)))
			agree_rf(run->l, &rf->scope_off, w->off, "scope_");
	}
}

/* With a unique id the constructor stores one more word, and stores it last. */
static void learn_handle(struct rf_run *run, uint64_t func)
{
	uint32_t plain = run->r->write_cnt;
	const struct leaf_write *w;

	if (!construct(run, func, 1) || run->r->write_cnt != plain + 1)
		return;
	w = &run->r->writes[plain];
	if (!w->obj && w->size == 8)
		agree_rf(run->l, &run->l->rf.handle_off, w->off, "handle_");
}

static void learn_constructor(struct rf_run *run)
{
	uint64_t func = member(run, "_ZN2at14RecordFunctionC1EONS_13StepCallbacksE"),
		 seq = UINT64_MAX, end = 0;
	struct ptb_rf_cfg *rf = &run->l->rf;
	struct leaf_run *r = run->r;

	if (!construct(run, func, 0))
		return;
	learn_copies(run);
	for (uint32_t i = 0; i < r->write_cnt; i++) {
		const struct leaf_write *w = &r->writes[i];

		if (w->obj)
			continue;
		if (w->size == 8 && w->known && w->v == UINT64_MAX && w->off < seq)
			seq = w->off; /* debug_handle_ is -1, too, and follows it */
		if (w->off + w->size > end)
			end = w->off + w->size;
	}
	agree_rf(run->l, &rf->seq_off, seq, "sequence_nr_");
	if (rf->size && (end > rf->size || end + 8 <= rf->size))
		refuse_rf(run->l, "RecordFunction's size differs from what its constructor fills");
	learn_handle(run, func);
}

/* ---- before() ---- */

static void learn_stores(struct rf_run *run)
{
	struct ptb_rf_cfg *rf = &run->l->rf;
	const struct leaf_run *r = run->r;

	for (uint32_t i = 0; i < r->write_cnt; i++) {
		const struct leaf_write *w = &r->writes[i];

		if (w->obj || !w->known || w->size != 8)
			continue;
		if (w->v == ARG)
			agree_rf(run->l, &rf->fn_off, w->off, "fn_");
		if (w->v == SEQ)
			agree_rf(run->l, &rf->seq_off, w->off, "sequence_nr_");
	}
}

/* The object has a schema already, so that no text has to be freed. */
static void learn_before(struct rf_run *run)
{
	uint64_t func = member(
		run,
		"_ZN2at14RecordFunction6beforeESt17reference_wrapperIKN3c1014FunctionSchemaEEl");
	struct leaf_run *r = run->r;

	leaf_run__reset(r);
	r->reg[arch.arg[0]] = RF;
	r->reg[arch.arg[1]] = ARG;
	r->reg[arch.arg[2]] = SEQ;
	/* one overload for texts and schemas: a variant on the stack, which is a schema's
	 * address */
	if (!func) {
		func = member(
			run,
			"_ZN2at14RecordFunction6beforeESt7variantIJSt17basic_string_viewIcSt11char_"
			"traitsIcEESt17reference_wrapperIKN3c1014FunctionSchemaEEEEl");
		r->reg[arch.arg[1]] = SEQ;
		r->reg[arch.arg[2]] = 0;
		/* room for the return address */
		leaf_run__store(r, r->reg[arch.sp], 8, ARG, true);
		leaf_run__store(r, r->reg[arch.sp] + 8, 8, 0, true);
		leaf_run__store(r, r->reg[arch.sp] + 16, 8, 1, true);
	}
	set_world(run, rf_calls, 1);
	if (func && leaf_run__go(r, func) == LEAF_STOPPED)
		learn_stores(run);
}

/* ---- Node::operator() ---- */

static void fill_stack(struct leaf_run *r, uint64_t addr, uint64_t size, uint8_t byte)
{
	for (uint64_t i = 0; i < size; i++)
		leaf_run__store(r, addr + i, 1, byte, true);
}

/* There are callbacks, they need no inputs, and the node's thread is in the object before before()
 * is called. */
static enum leaf_call node_calls(void *arg, struct leaf_run *r, const char *name)
{
	struct rf_run *run = arg;
	uint64_t v;

	if (!strcmp(name, "_ZN2at27getStepCallbacksUnlessEmptyENS_11RecordScopeE")) {
		fill_stack(r, r->reg[arch.arg[0]], 256, 1);
		return CALL_ZERO;
	}
	if (!strncmp(name, "_ZN2at14RecordFunctionC", 23)) {
		run->built = r->reg[arch.arg[0]];
		fill_stack(r, run->built, run->l->rf.size, 0);
		return CALL_ZERO;
	}
	if (strncmp(name, "_ZN2at14RecordFunction6before", 29) != 0 || !run->built)
		return CALL_FOLLOW;
	for (uint64_t off = 0; off < run->l->rf.size; off += 8)
		if (leaf_run__stack(r, run->built + off, 8, &v) &&
		    v == (TAG | run->l->node_thread_off))
			agree_rf(run->l, &run->l->rf.fwd_thread_off, off, "fwd_thread_id_");
	return CALL_STOP;
}

static void learn_from_node_call(struct rf_run *run)
{
	const struct sym_list *nodes = &run->r->lc->topics[TOPIC_NODE_CALL];

	if (!nodes->cnt || run->l->node_thread_off == PTB_OFF_UNKNOWN || !run->l->rf.size)
		return;
	set_world(run, node_calls, run->bytes);
	run->built = 0;
	leaf_run__call(run->r, nodes->syms[0].addr, SLOT, RF /* the node */, ARG);
}

/* ---- all of it ---- */

void rf_layout__learn(struct plan_build *b, struct leaf_run *r)
{
	struct rf_run run = { .l = &b->plan->layout, .r = r };

	if (!lib_code__function(b->lc, "_ZN2at17addGlobalCallbackENS_22RecordFunctionCallbackE"))
		return; /* another library has it */
	learn_name(&run);
	learn_inputs(&run);
	learn_outputs(&run);
	learn_operator_name(&run);
	learn_end(&run);
	learn_size(&run);
	learn_constructor(&run);
	learn_before(&run);
	learn_from_node_call(&run);
	r->mem = NULL;
	r->on_call = NULL;
	r->lenient = false;
}

bool rf_layout__plausible(const struct ptb_rf_cfg *rf)
{
	uint32_t text = rf->old_string_abi ? 8 : 32; /* std::string */

	return rf->size <= RF_MAX && !(rf->size & 7) && rf->thread_off >= 8 &&
	       !(rf->thread_off & 7) && rf->scope_off == rf->thread_off + 8 &&
	       rf->fn_off > rf->scope_off && !(rf->fn_off & 7) &&
	       rf->fn_index_off == rf->fn_off + text && rf->seq_off == rf->fn_index_off + 8 &&
	       rf->inputs_off == rf->seq_off + 8 && rf->outputs_off >= rf->inputs_off + 16 &&
	       !(rf->outputs_off & 7) && rf->fwd_thread_off == rf->outputs_off + 24 &&
	       rf->handle_off == rf->fwd_thread_off + 8 && rf->handle_off + 8 <= rf->size;
}

void rf_layout__finish(struct plan_layout *l)
{
	struct ptb_rf_cfg *rf = &l->rf;

	rf->old_string_abi = l->old_string_abi;
	if (rf->seq_off != PTB_OFF_UNKNOWN)
		agree_rf(l, &rf->inputs_off, rf->seq_off + 8u, "inputs_");
	if (rf->outputs_off != PTB_OFF_UNKNOWN)
		agree_rf(l, &rf->fwd_thread_off, rf->outputs_off + 24u, "fwd_thread_id_");
	if (rf->handle_off != PTB_OFF_UNKNOWN)
		agree_rf(l, &rf->fwd_thread_off, rf->handle_off - 8u, "fwd_thread_id_");
	if (!rf->size)
		refuse_rf(l, "RecordFunction's size was not found");
	if (!l->no_rf_why[0] && !rf_layout__plausible(rf))
		refuse_rf(l, "not all of RecordFunction's members were found");
	if (l->no_rf_why[0])
		rf->size = 0;
}

void rf_layout__print(const struct plan_layout *l, FILE *out)
{
	const struct ptb_rf_cfg *rf = &l->rf;

	if (!rf->size) {
		fputs("no operators by an agent: ", out);
		term_text__put(out, l->no_rf_why, SIZE_MAX);
		fputc('\n', out);
		return;
	}
	fprintf(out,
		"RecordFunction: size %u, thread %u, scope %u, fn %u (index %u, %s strings), sequence number %u, "
		"inputs %u, outputs %u, forward thread %u, handle %u\n",
		rf->size, rf->thread_off, rf->scope_off, rf->fn_off, rf->fn_index_off,
		rf->old_string_abi ? "old" : "new", rf->seq_off, rf->inputs_off, rf->outputs_off,
		rf->fwd_thread_off, rf->handle_off);
}
