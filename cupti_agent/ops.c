/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The RecordFunction callback; see ops.h. It runs in torch's threads: never waits, takes no lock, calls nothing
 * that allocates, and believes the configured layout only after CAREFUL_CALLS calls have shown it right.
 */
#include "ops.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "chunk.h"
#include "clock.h"
#include "read.h"
#include "torch.h"
#include "values.h"

#define CAREFUL_CALLS 256
#define NAMES 512     /* schemas that a thread remembers to have named */
#define NAMES_NEAR 16 /* places that one may have */
#define NAME_MAX_LEN 512
#define SCOPES_MAX 16
#define RF_MAX 1024   /* bytes of a RecordFunction */
#define BEGIN_USUAL 1024 /* bytes of a BEGIN with values; more is fine */
#define QUIET_NS 400000000

static struct {
	atomic_bool on, failed, gone; /* recording; a layout was wrong; forked, or the process ends */
	atomic_int careful, careful_values; /* calls that are still to be looked at */
	atomic_int numel_score;
	atomic_uint window; /* from 1: one for each ops__start() */
	atomic_uint why;
	struct ptb_agent_cfg cfg; /* changes only while nobody is inside */
	bool inputs, outputs;
	bool dirty; /* somebody was still inside when it was last stopped */
	uint64_t handle;
	pthread_key_t key;
	const struct torch_funcs *torch;
} ops;

static pthread_mutex_t torch_lock = PTHREAD_MUTEX_INITIALIZER; /* held while torch may hold locks for us */

/* What a stream's owner keeps in it. */
struct thread {
	uint32_t window;
	uint32_t pad;
	uint64_t names[NAMES];
};
_Static_assert(sizeof(struct thread) <= STREAM_OWN, "it has a place");

static __thread struct stream *mine;

/* ---- a thread's stream ---- */

static void thread_ends(void *stream)
{
	mine = NULL;
	if (!atomic_load(&ops.gone))
		stream__release(stream);
}

static struct stream *new_thread(void)
{
	int err = errno;
	struct stream *s = stream__new(PTB_CHUNK_OPS, (uint32_t)syscall(SYS_gettid));

	if (s && pthread_setspecific(ops.key, s)) {
		stream__release(s);
		s = NULL;
	}
	if (!s) {
		atomic_store(&ops.why, PTB_AGENT_WHY_NO_MEMORY);
		__atomic_fetch_add(&ptbpf_agent_ctl.dropped, 1, __ATOMIC_RELAXED);
	}
	mine = s;
	errno = err;
	return s;
}

/* The stream of this thread, entered; NULL: not now. */
static struct stream *enter(void)
{
	struct stream *s = mine;
	struct thread *t;
	uint32_t window;

	if (!atomic_load_explicit(&ops.on, memory_order_relaxed))
		return NULL;
	if (!s && !(s = new_thread()))
		return NULL;
	if (!stream__enter(s)) { /* an operator in a signal handler */
		stream__drop(s);
		return NULL;
	}
	if (!atomic_load_explicit(&ops.on, memory_order_acquire))
		goto leave;
	t = stream__own(s);
	window = atomic_load_explicit(&ops.window, memory_order_relaxed);
	if (t->window == window)
		return s;
	if (!stream__renew(s))
		goto leave;
	memset(t->names, 0, sizeof(t->names));
	t->window = window;
	return s;
leave:
	stream__leave(s);
	return NULL;
}

/* ---- looking twice ---- */

static void fail(enum ptb_agent_why why)
{
	atomic_store(&ops.why, why);
	if (why == PTB_AGENT_WHY_BAD_LAYOUT)
		atomic_store(&ops.failed, true);
	else
		atomic_store(&ops.careful_values, -1); /* no values from now on */
}

static inline uint64_t word(const unsigned char *rf, uint16_t off)
{
	uint64_t w;

	memcpy(&w, rf + off, sizeof(w));
	return w;
}

/* A std::string at addr. */
static bool string_at(uint64_t addr, uint64_t *text, uint64_t *len)
{
	uint64_t str[2];

	if (!read__safe(str, addr, ops.cfg.rf.old_string_abi ? 8 : 16))
		return false;
	*text = str[0];
	if (ops.cfg.rf.old_string_abi && !read__safe(&str[1], str[0] - 24, 8))
		return false;
	*len = str[1];
	return true;
}

/* Is what the layout gives for a name that which torch gives? */
static bool name_ok(const unsigned char *rf, uint64_t addr, bool schema)
{
	uint64_t text, len, i;
	char copy[NAME_MAX_LEN + 1];

	if (!string_at(addr, &text, &len) || text != (uint64_t)(uintptr_t)ops.torch->name(rf))
		return false;
	if (len > NAME_MAX_LEN)
		return !schema && len < 1u << 30;
	if (!read__safe(copy, text, len + 1) || copy[len])
		return false;
	for (i = 0; i < len; i++)
		if (schema && (copy[i] <= ' ' || copy[i] > '~'))
			return false;
	return !schema || len;
}

static bool layout_ok(const unsigned char *rf, bool start)
{
	const struct ptb_rf_cfg *c = &ops.cfg.rf;
	unsigned char copy[RF_MAX];
	uint8_t index;

	if (!read__safe(copy, (uint64_t)(uintptr_t)rf, c->size))
		return false;
	index = copy[c->fn_index_off];
	return copy[c->scope_off] < SCOPES_MAX && index <= 1 && (int64_t)word(copy, c->seq_off) >= -1 &&
	       (int64_t)word(copy, c->seq_off) < 1ll << 48 && word(copy, c->fwd_thread_off) < 1u << 31 &&
	       (!start || word(copy, c->thread_off) == ops.torch->current_thread_id()) &&
	       name_ok(rf, index ? word(copy, c->fn_off) : (uint64_t)(uintptr_t)rf + c->fn_off, index);
}

/* May the object be read? Costs one comparison once it has proven right. */
static inline bool trusted(const unsigned char *rf, bool start)
{
	if (__builtin_expect(atomic_load_explicit(&ops.careful, memory_order_relaxed) <= 0, 1))
		return true;
	if (atomic_load(&ops.failed) || !layout_ok(rf, start)) {
		fail(PTB_AGENT_WHY_BAD_LAYOUT);
		return false;
	}
	if (start)
		atomic_fetch_sub(&ops.careful, 1);
	return true;
}

/* ---- values ---- */

/* Number of the values of rf by its layout; false: not as it should be. */
static bool value_list(const unsigned char *rf, bool out, bool careful, uint64_t *addr, uint64_t *cnt)
{
	const struct ptb_rf_cfg *c = &ops.cfg.rf;
	uint64_t want, end;

	*addr = word(rf, out ? c->outputs_off : c->inputs_off);
	end = word(rf, (uint16_t)((out ? c->outputs_off : c->inputs_off) + 8));
	*cnt = out ? (end - *addr) / 16 : end;
	if (out && (end < *addr || (end - *addr) % 16))
		return false;
	if (*cnt >= 1u << 24)
		return false;
	if (!*cnt || (!rf[c->fn_index_off] && !careful))
		return true;
	want = out ? ops.torch->num_outputs(rf) : ops.torch->num_inputs(rf);
	if (!rf[c->fn_index_off])
		return *cnt == want;
	if (*cnt > want) { /* an operator that is called with a stack: what lies below is its callers' */
		*addr += 16 * (*cnt - want);
		*cnt = want;
	}
	return true;
}

/* The values from `at` on, at most to `end`: their bytes. */
static uint32_t put_values(const unsigned char *rf, bool out, unsigned char *at, unsigned char *end,
			   struct ptb_arec *r)
{
	int left = atomic_load_explicit(&ops.careful_values, memory_order_relaxed);
	struct values v = { .cfg = &ops.cfg, .at = at, .end = end, .full = ops.outputs,
			    .careful = left > 0 };
	uint64_t addr, cnt;

	if (left < 0)
		return 0;
	if (!value_list(rf, out, v.careful, &addr, &cnt)) {
		fail(PTB_AGENT_WHY_BAD_TENSORS);
		return 0;
	}
	r->flags |= PTB_AREC_ARGS;
	values__put(&v, addr, cnt);
	if (v.cut)
		r->flags |= PTB_AREC_ARGS_CUT;
	if (v.careful) {
		/* a few tensors of odd kinds are not what their fields say; most are */
		int score = atomic_fetch_add(&ops.numel_score, (int)v.matches - (int)v.differs) +
			    (int)v.matches - (int)v.differs;

		if (v.bad || score < -8) {
			fail(PTB_AGENT_WHY_BAD_TENSORS);
			r->flags &= (uint8_t)~(PTB_AREC_ARGS | PTB_AREC_ARGS_CUT);
			return 0;
		}
		if (v.matches)
			atomic_fetch_sub(&ops.careful_values, 1);
	}
	return (uint32_t)(v.at - at);
}

/* ---- records ---- */

/* What a schema pointer means: FunctionSchema begins with OperatorName {name, overload name}. */
static void put_name(struct stream *s, uint64_t schema)
{
	uint64_t text, len, overload, overload_len = 0, size = ops.cfg.rf.old_string_abi ? 8 : 32;
	struct ptb_arec_name *n = stream__reserve(s, sizeof(*n) + NAME_MAX_LEN, NULL);
	char *to = (char *)(n + 1);

	if (!n)
		return;
	memset(n, 0, sizeof(*n) + NAME_MAX_LEN);
	n->r.kind = PTB_AREC_NAME;
	n->schema = schema;
	if (!string_at(schema, &text, &len) || len > NAME_MAX_LEN || !read__safe(to, text, len)) {
		len = 0;
		n->r.flags |= PTB_AREC_CAREFUL;
	} else if (string_at(schema + size, &overload, &overload_len) && overload_len &&
		   len + 1 + overload_len <= NAME_MAX_LEN &&
		   read__safe(to + len + 1, overload, overload_len)) {
		to[len] = '.';
		len += 1 + overload_len;
	}
	n->r.aux = (uint32_t)len;
	n->r.len = (uint16_t)(sizeof(*n) + ((len + 7) & ~7ull));
	stream__commit(s, n->r.len);
}

/* Schemas that share a place take the next ones: sent again and again, they would cost more than all the rest. */
static inline void name_schema(struct stream *s, uint64_t schema)
{
	struct thread *t = stream__own(s);
	uint64_t at = schema >> 4 ^ schema >> 13, *known = &t->names[at % NAMES], i;

	if (__builtin_expect(*known == schema, 1))
		return;
	for (i = 1; *known && i < NAMES_NEAR; i++) {
		known = &t->names[(at + i) % NAMES];
		if (*known == schema)
			return;
	}
	put_name(s, schema);
	*known = schema;
}

/* The text that names rf instead of a schema, padded: its bytes. */
static uint32_t put_text(const unsigned char *rf, unsigned char *at, struct ptb_arec_begin *b)
{
	uint64_t text = word(rf, ops.cfg.rf.fn_off), len;

	if (ops.cfg.rf.old_string_abi)
		memcpy(&len, (const void *)(uintptr_t)(text - 24), 8);
	else
		len = word(rf, (uint16_t)(ops.cfg.rf.fn_off + 8));
	if (len > PTB_TEXT_MAX) {
		len = PTB_TEXT_MAX;
		b->r.flags |= PTB_AREC_TEXT_CUT;
	}
	if (!len)
		return 0;
	memset(at + ((len - 1) & ~7ull), 0, 8);
	memcpy(at, (const void *)(uintptr_t)text, len);
	b->r.aux |= (uint32_t)len << 8;
	return (uint32_t)((len + 7) & ~7ull);
}

static void begin(struct stream *s, const unsigned char *rf)
{
	const struct ptb_rf_cfg *c = &ops.cfg.rf;
	uint64_t schema = rf[c->fn_index_off] ? word(rf, c->fn_off) : 0;
	uint64_t fwd = word(rf, c->fwd_thread_off);
	struct ptb_arec_begin *b;
	unsigned char *at;
	uint32_t room;

	if (schema)
		name_schema(s, schema);
	stream__set_logical(s, word(rf, c->thread_off));
	b = stream__reserve(s, BEGIN_USUAL, &room);
	if (!b)
		return;
	at = (unsigned char *)(b + 1);
	*b = (struct ptb_arec_begin){
		.r = { .kind = PTB_AREC_BEGIN, .aux = rf[c->scope_off] },
		.rf = (uint64_t)(uintptr_t)rf,
		.schema = schema,
		.seq = (int64_t)word(rf, c->seq_off),
	};
	if (fwd) {
		memcpy(at, &fwd, 8);
		at += 8;
		b->r.flags |= PTB_AREC_FWD;
	}
	if (!schema)
		at += put_text(rf, at, b);
	if (ops.inputs)
		at += put_values(rf, false, at, (unsigned char *)b + room, &b->r);
	b->r.len = (uint16_t)(at - (unsigned char *)b);
	b->r.ticks = clock__ticks(); /* what it cost is not the operator's time */
	stream__commit(s, b->r.len);
}

static void end(struct stream *s, const unsigned char *rf, uint64_t ticks)
{
	struct ptb_arec_end *e;
	unsigned char *at;
	uint32_t room;

	e = stream__reserve(s, sizeof(*e), &room);
	if (!e)
		return;
	at = (unsigned char *)(e + 1);
	*e = (struct ptb_arec_end){ .r = { .kind = PTB_AREC_END, .ticks = ticks },
				    .rf = (uint64_t)(uintptr_t)rf };
	if (ops.outputs)
		at += put_values(rf, true, at, (unsigned char *)e + room, &e->r);
	e->r.len = (uint16_t)(at - (unsigned char *)e);
	stream__commit(s, e->r.len);
}

/* C++: std::unique_ptr<ObserverContext> (*)(const RecordFunction &) */
static void *on_start(void **context, const void *rf)
{
	struct stream *s = enter();

	*context = NULL;
	if (s) {
		if (trusted(rf, true))
			begin(s, rf);
		stream__leave(s);
	}
	return context;
}

static void on_end(const void *rf, void *context)
{
	uint64_t ticks = clock__ticks();
	struct stream *s = enter();

	(void)context;
	if (s) {
		if (trusted(rf, false))
			end(s, rf, ticks);
		stream__leave(s);
	}
}

/* ---- the agent's thread ---- */

bool ops__on(void)
{
	return ops.handle != 0;
}

enum ptb_agent_why ops__trouble(void)
{
	return (enum ptb_agent_why)atomic_load(&ops.why);
}

static bool cfg_ok(const struct ptb_rf_cfg *c, const struct ptb_tensor_cfg *t)
{
	return c->size <= RF_MAX && c->fn_off + 16 <= c->size && c->fn_index_off < c->size &&
	       c->seq_off + 8 <= c->size && c->inputs_off + 16 <= c->size && c->outputs_off + 16 <= c->size &&
	       c->fwd_thread_off + 8 <= c->size && c->thread_off + 8 <= c->size && c->scope_off < c->size &&
	       (!t->shapes_on || (t->key_set_off > t->storage_off && t->key_set_off - t->storage_off <= 248 &&
				  t->extra_meta_off >= t->storage_off && t->extra_meta_off < t->key_set_off &&
				  t->sizes_off >= t->storage_off + 8 && t->sizes_off + 88 <= t->key_set_off &&
				  t->storage_offset_off >= t->storage_off &&
				  t->storage_offset_off < t->key_set_off && t->numel_off >= t->storage_off &&
				  t->numel_off < t->key_set_off && t->dtype_off >= t->storage_off &&
				  t->dtype_off < t->key_set_off && t->device_off >= t->storage_off &&
				  t->device_off < t->key_set_off));
}

static enum ptb_agent_why set_up(const struct ptb_agent_cfg *cfg)
{
	static bool have_key;

	ops.torch = torch__find();
	if (!ops.torch)
		return PTB_AGENT_WHY_NO_TORCH;
	if (!cfg->rf.size)
		return PTB_AGENT_WHY_NO_LAYOUT;
	if (!cfg_ok(&cfg->rf, &cfg->tensor))
		return PTB_AGENT_WHY_BAD_CFG;
	if (!have_key && pthread_key_create(&ops.key, thread_ends))
		return PTB_AGENT_WHY_NO_MEMORY;
	have_key = true;
	return PTB_AGENT_WHY_NONE;
}

int ops__start(uint32_t wishes, const struct ptb_agent_cfg *cfg)
{
	struct torch_callback cb = { .start = on_start, .end = on_end, .sampling = 1 };
	enum ptb_agent_why why = set_up(cfg);

	if (why)
		return (int)why;
	if (ops.dirty && !streams__quiet(0))
		return -1;
	ops.dirty = false;
	clock__choose();
	ops.cfg = *cfg;
	ops.outputs = wishes & AGENT_WISH(OUTPUTS) && cfg->tensor.shapes_on;
	ops.inputs = (wishes & AGENT_WISH(INPUTS) && cfg->tensor.shapes_on) || ops.outputs;
	atomic_store(&ops.failed, false);
	atomic_store(&ops.why, ops.inputs || !(wishes & (AGENT_WISH(INPUTS) | AGENT_WISH(OUTPUTS))) ?
				       PTB_AGENT_WHY_NONE : PTB_AGENT_WHY_BAD_TENSORS);
	atomic_store(&ops.careful, CAREFUL_CALLS);
	atomic_store(&ops.careful_values, CAREFUL_CALLS);
	atomic_store(&ops.numel_score, 0);
	atomic_fetch_add(&ops.window, 1);
	memset(cb.scopes, 1, sizeof(cb.scopes));
	cb.needs_inputs = ops.inputs;
	cb.needs_outputs = ops.outputs;
	atomic_store(&ops.on, true);
	pthread_mutex_lock(&torch_lock);
	ops.handle = ops.torch->add_global_callback(cb);
	pthread_mutex_unlock(&torch_lock);
	torch__find_lock((void *)(uintptr_t)on_start);
	return 0;
}

void ops__stop(bool leave)
{
	if (!leave) {
		pthread_mutex_lock(&torch_lock);
		ops.torch->remove_callback(ops.handle);
		pthread_mutex_unlock(&torch_lock);
	} else {
		atomic_store(&ops.gone, true);
	}
	ops.handle = 0;
	atomic_store(&ops.on, false);
	ops.dirty = !streams__quiet(QUIET_NS);
}

void ops__forked(void)
{
	torch__forked();
	atomic_store(&ops.gone, true);
	atomic_store(&ops.on, false);
}

void ops__before_fork(void)
{
	pthread_mutex_lock(&torch_lock);
}

void ops__after_fork(void)
{
	pthread_mutex_unlock(&torch_lock);
}
