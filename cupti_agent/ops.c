/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The RecordFunction callback; see ops.h. It runs in torch's threads: never waits, takes no lock,
 * calls nothing that allocates, and believes the configured layout only after CAREFUL_CALLS calls
 * have shown it right.
 */
#include "ops.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "clock.h"
#include "open.h"
#include "read.h"
#include "stream.h"
#include "torch.h"
#include "usdt.h"
#include "values.h"

#define CAREFUL_CALLS 256
#define WRONG (1 << 30) /* as many calls left: never trusted */
#define NAMES_NEAR 16   /* slots that a schema may have */
#define NAME_MAX_LEN 512
#define SCOPES_MAX 16
#define USER_SCOPE 7     /* at::RecordScope of annotations */
#define RF_MAX 1024      /* bytes of a RecordFunction */
#define BEGIN_USUAL 1024 /* bytes of a BEGIN with values; more is fine */
#define QUIET_NS 400000000

static struct {
	atomic_bool on;                     /* recording */
	atomic_int careful, careful_values; /* calls that are still to be checked */
	bool records;                       /* else only what is open */
	bool inputs, outputs, stacks, edges, open;
	struct ptb_agent_cfg cfg; /* changes only while no thread is inside */
	atomic_int numel_score;
	atomic_uint why;
	atomic_bool gone; /* forked, or the process ends */
	bool dirty;       /* a thread was still inside when it was last stopped */
	uint64_t handle;
	pthread_key_t key;
	const struct torch_funcs *torch;
} ops __attribute__((aligned(64)));

/* held while torch may hold locks for us */
static pthread_mutex_t torch_lock = PTHREAD_MUTEX_INITIALIZER;

static __thread struct stream *mine;
static __thread struct ptb_open_ops *my_open; /* as ptbpf_agent_open.tls says */

/* Protected: as ptbpf_agent_ctl. */
extern struct ptb_agent_open ptbpf_agent_open __attribute__((visibility("protected")));
struct ptb_agent_open ptbpf_agent_open = { .size = sizeof(struct ptb_agent_open) };

static void set_open_on(bool on)
{
	ptbpf_agent_open.tls = (char *)&my_open - (char *)__builtin_thread_pointer();
	__atomic_store_n(&ptbpf_agent_open.on, on, __ATOMIC_SEQ_CST);
}

/* ---- a thread's stream ---- */

static void thread_ends(void *stream)
{
	mine = NULL;
	my_open = NULL;
	if (!atomic_load(&ops.gone))
		stream__release(stream);
}

__attribute__((noinline)) static struct stream *new_thread(void)
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
	my_open = s ? &s->open : NULL;
	errno = err;
	return s;
}

static inline void leave(struct stream *s)
{
	atomic_store_explicit(&s->inside, 0, memory_order_release);
}

/* The stream of this thread, entered; NULL: not now. */
static inline struct stream *enter(void)
{
	struct stream *s = mine;

	if (__builtin_expect(!s, 0) &&
	    (!atomic_load_explicit(&ops.on, memory_order_relaxed) || !(s = new_thread())))
		return NULL;
	if (__builtin_expect(atomic_load_explicit(&s->inside, memory_order_relaxed), 0)) {
		stream__drop(s); /* an operator in a signal handler */
		return NULL;
	}
	atomic_store_explicit(&s->inside, 1, memory_order_relaxed);
	atomic_signal_fence(memory_order_seq_cst); /* the processor's part is streams__quiet()'s */
	if (__builtin_expect(atomic_load_explicit(&ops.on, memory_order_acquire), 1))
		return s;
	leave(s);
	return NULL;
}

/* ---- checks of the first calls ---- */

static void fail(enum ptb_agent_why why)
{
	if (why == PTB_AGENT_WHY_BAD_LAYOUT)
		set_open_on(false);
	atomic_store(&ops.why, why);
	atomic_store(why == PTB_AGENT_WHY_BAD_LAYOUT ? &ops.careful : &ops.careful_values, WRONG);
}

static inline uint64_t word(const unsigned char *rf, uint32_t off)
{
	return read__word(rf + off);
}

/* Is what the layout gives for a name that which torch gives? */
static bool name_ok(const unsigned char *rf, uint64_t addr, bool schema)
{
	char copy[NAME_MAX_LEN + 1];
	struct text t;

	if (!read__string(true, ops.cfg.rf.old_string_abi, addr, &t) ||
	    t.at != (uint64_t)(uintptr_t)ops.torch->name(rf))
		return false;
	if (t.len > NAME_MAX_LEN)
		return !schema && t.len < 1u << 30;
	if (!read__safe(copy, t.at, t.len + 1) || copy[t.len])
		return false;
	for (uint64_t i = 0; i < t.len; i++)
		if (schema && (copy[i] <= ' ' || copy[i] > '~'))
			return false;
	return !schema || t.len;
}

/* The number of the thread that constructed it may be another's: gloo begins its collectives on a
 * thread of its own. */
static bool layout_ok(const unsigned char *rf)
{
	const struct ptb_rf_cfg *c = &ops.cfg.rf;
	unsigned char copy[RF_MAX];
	uint8_t index;

	if (!read__safe(copy, (uint64_t)(uintptr_t)rf, c->size))
		return false;
	index = copy[c->fn_index_off];
	return copy[c->scope_off] < SCOPES_MAX && index <= 1 &&
	       (int64_t)word(copy, c->seq_off) >= -1 &&
	       (int64_t)word(copy, c->seq_off) < 1ll << 48 &&
	       word(copy, c->fwd_thread_off) < 1u << 31 && word(copy, c->thread_off) &&
	       word(copy, c->thread_off) < 1u << 31 &&
	       name_ok(rf, index ? word(copy, c->fn_off) : (uint64_t)(uintptr_t)rf + c->fn_off,
		       index);
}

/* May the object be read? Costs one comparison once it has proven right. */
static inline bool trusted(const unsigned char *rf, bool start)
{
	int left = atomic_load_explicit(&ops.careful, memory_order_relaxed);

	if (__builtin_expect(left <= 0, 1))
		return true;
	if (left > CAREFUL_CALLS || !layout_ok(rf)) {
		fail(PTB_AGENT_WHY_BAD_LAYOUT);
		return false;
	}
	if (start)
		atomic_fetch_sub(&ops.careful, 1);
	return true;
}

/* ---- names ---- */

/* What a schema pointer means: FunctionSchema begins with OperatorName {name, overload name}. */
static void put_name(struct stream *s, uint64_t schema)
{
	uint64_t size = ops.cfg.rf.old_string_abi ? 8 : 32;
	struct ptb_arec_name *n = stream__room(s, sizeof(*n) + 2 * NAME_MAX_LEN);
	unsigned char *at = (unsigned char *)(n + 1);
	uint32_t aux = 0;
	struct text t;

	if (!n)
		return;
	for (uint32_t i = 0; i < 2; i++) {
		if (!read__string(true, ops.cfg.rf.old_string_abi, schema + i * size, &t) ||
		    t.len > NAME_MAX_LEN || !read__padded(true, at, t.at, (uint32_t)t.len))
			break;
		aux |= (uint32_t)t.len << 16 * i;
		at += (t.len + 7) & ~7u;
	}
	n->r = (struct ptb_arec){ .len = (uint16_t)(at - (unsigned char *)n),
				  .kind = PTB_AREC_NAME,
				  .aux = aux };
	n->schema = schema;
	stream__ends(s, at);
}

/* Has it been named? From now on it has. Schemas that share a slot take the next ones: sent again
 * and again, they would cost more than all the rest. */
static inline bool is_named(struct stream *s, uint64_t schema)
{
	uint64_t at = schema >> 4 ^ schema >> 13, *known = &s->named[at % STREAM_NAMES];

	if (__builtin_expect(*known == schema, 1))
		return true;
	for (uint64_t i = 1; *known && i < NAMES_NEAR; i++) {
		known = &s->named[(at + i) % STREAM_NAMES];
		if (*known == schema)
			return true;
	}
	*known = schema;
	return false;
}

/* The same for names of open operators: slots of `named` have either. */
static void put_open_name(struct stream *s, uint64_t name, uint64_t text, uint32_t len)
{
	struct ptb_arec_name *n = stream__room(s, sizeof(*n) + NAME_MAX_LEN);

	if (!n || !read__padded(false, (unsigned char *)(n + 1), text, len))
		return;
	n->r = (struct ptb_arec){ .len = (uint16_t)(sizeof(*n) + ((len + 7) & ~7u)),
				  .kind = PTB_AREC_NAME,
				  .aux = len };
	n->schema = name;
	stream__ends(s, (unsigned char *)n + n->r.len);
}

/* ---- values ---- */

/* The values of rf by its layout; false: not as it should be. */
static bool value_list(const unsigned char *rf, bool out, bool careful, uint64_t *addr,
		       uint64_t *cnt)
{
	uint32_t off = out ? ops.cfg.rf.outputs_off : ops.cfg.rf.inputs_off;
	bool schema = rf[ops.cfg.rf.fn_index_off];
	uint64_t end = word(rf, off + 8), want;

	*addr = word(rf, off);
	*cnt = out ? (end - *addr) / 16 : end;
	if (*cnt >= 1u << 24 || (out && (end < *addr || (end - *addr) % 16)))
		return false;
	if (!*cnt || (!schema && !careful))
		return true;
	want = out ? ops.torch->num_outputs(rf) : ops.torch->num_inputs(rf);
	if (schema && *cnt > want) { /* called with a stack: what lies below is its callers' */
		*addr += 16 * (*cnt - want);
		*cnt = want;
	}
	return schema || *cnt == want;
}

/* A few tensors of odd kinds are not what their fields say; most are. */
static bool values_ok(const struct values *v)
{
	int more = (int)v->matches - (int)v->differs;

	if (v->bad || atomic_fetch_add(&ops.numel_score, more) + more < -8)
		return false;
	if (v->matches)
		atomic_fetch_sub(&ops.careful_values, 1);
	return true;
}

/* The values, from `at` on, at most to `end`: where they end. */
static unsigned char *put_values(const unsigned char *rf, bool out, unsigned char *at,
				 unsigned char *end, uint8_t *flags)
{
	int left = atomic_load_explicit(&ops.careful_values, memory_order_relaxed);
	struct values v = {
		.cfg = &ops.cfg, .at = at, .end = end, .full = ops.outputs, .careful = left > 0
	};
	uint64_t addr, cnt;

	if (left > CAREFUL_CALLS)
		return at;
	if (value_list(rf, out, v.careful, &addr, &cnt)) {
		values__put(&v, addr, cnt);
		if (!v.careful || values_ok(&v)) {
			*flags |= (uint8_t)(PTB_AREC_ARGS | (v.cut ? PTB_AREC_ARGS_CUT : 0));
			return v.at;
		}
	}
	fail(PTB_AGENT_WHY_BAD_TENSORS);
	return at;
}

/* ---- records ---- */

/* A record may have so many bytes, and no more than the buffer. */
static inline unsigned char *limit(struct stream *s, const void *record)
{
	unsigned char *end = s->buf + sizeof(s->buf),
		      *most = (unsigned char *)(uintptr_t)record + STREAM_RECORD_MAX;

	return end < most ? end : most;
}

/* The text that names rf instead of a schema. */
static unsigned char *put_text(const unsigned char *rf, unsigned char *at, struct ptb_arec *r)
{
	struct text t;
	uint32_t n;

	if (!read__string(false, ops.cfg.rf.old_string_abi,
			  (uint64_t)(uintptr_t)rf + ops.cfg.rf.fn_off, &t))
		return at;
	n = t.len > PTB_TEXT_MAX ? PTB_TEXT_MAX : (uint32_t)t.len;
	if (!read__padded(false, at, t.at, n))
		return at;
	if (n < t.len)
		r->flags |= PTB_AREC_TEXT_CUT;
	r->aux |= n << 8;
	return at + ((n + 7) & ~7u);
}

/* A tracer's program reads the thread's Python stack here. Returns the number of the operator for
 * it. */
__attribute__((noinline)) static uint64_t mark_stack(struct stream *s)
{
	uint64_t number = (uint64_t)s->nr << 32 | ++s->stacks;

	USDT_SITE(STACKS, "stacks", "8@%%rdi", "D"(number));
	return number;
}

/* A tracer's program sums up here what the thread did until now: before the clock is read, so that
 * it comes first. */
__attribute__((noinline)) static void mark_edge(void)
{
	USDT_SITE(EDGES, "edges", "");
}

static inline void begin(struct stream *s, const unsigned char *rf)
{
	const struct ptb_rf_cfg *c = &ops.cfg.rf;
	uint64_t schema = rf[c->fn_index_off] ? word(rf, c->fn_off) : 0,
		 fwd = word(rf, c->fwd_thread_off), stack = ops.stacks ? mark_stack(s) : 0;
	struct ptb_arec r = { .kind = PTB_AREC_BEGIN, .aux = rf[c->scope_off] };
	struct ptb_arec_begin *b;
	unsigned char *at;

	if (schema && !is_named(s, schema))
		put_name(s, schema);
	b = stream__room(s, BEGIN_USUAL);
	if (!b)
		return;
	at = (unsigned char *)(b + 1);
	if (__builtin_expect(!atomic_load_explicit(&s->logical, memory_order_relaxed), 0))
		atomic_store_explicit(&s->logical, ops.torch->current_thread_id(),
				      memory_order_relaxed);
	b->rf = (uint64_t)(uintptr_t)rf;
	b->schema = schema;
	b->seq = (int64_t)word(rf, c->seq_off);
	if (fwd) {
		memcpy(at, &fwd, 8);
		at += 8;
		r.flags |= PTB_AREC_FWD;
	}
	if (stack) {
		memcpy(at, &stack, 8);
		at += 8;
		r.flags |= PTB_AREC_STACK;
	}
	if (!schema)
		at = put_text(rf, at, &r);
	if (ops.inputs)
		at = put_values(rf, false, at, limit(s, b), &r.flags);
	r.len = (uint16_t)(at - (unsigned char *)b);
	if (ops.edges)
		mark_edge();
	r.ticks = clock__ticks(); /* what it cost is not the operator's time */
	b->r = r;
	stream__ends(s, at);
}

static inline void end(struct stream *s, const unsigned char *rf, uint64_t ticks)
{
	struct ptb_arec r = { .kind = PTB_AREC_END, .ticks = ticks };
	struct ptb_arec_end *e = stream__room(s, ops.outputs ? BEGIN_USUAL : sizeof(*e));
	unsigned char *at = (unsigned char *)(e + 1);

	if (!e)
		return;
	e->rf = (uint64_t)(uintptr_t)rf;
	if (ops.outputs)
		at = put_values(rf, true, at, limit(s, e), &r.flags);
	r.len = (uint16_t)(at - (unsigned char *)e);
	e->r = r;
	stream__ends(s, at);
}

static inline void begin_open(struct stream *s, const unsigned char *rf)
{
	const struct ptb_rf_cfg *c = &ops.cfg.rf;
	uint64_t at = rf[c->fn_index_off] ? word(rf, c->fn_off) :
					    (uint64_t)(uintptr_t)rf + c->fn_off,
		 name = 0;
	struct text t;

	if (rf[c->scope_off] == USER_SCOPE)
		return;
	if (read__string(false, c->old_string_abi, at, &t) && t.at >= 4096) {
		uint32_t len = t.len > NAME_MAX_LEN ? NAME_MAX_LEN : (uint32_t)t.len;

		name = open__name((const char *)(uintptr_t)t.at, len);
		if (!is_named(s, name))
			put_open_name(s, name, t.at, len);
	}
	open__begin(&s->open, (uint64_t)(uintptr_t)rf, name);
}

/* C++: std::unique_ptr<ObserverContext> (*)(const RecordFunction &) */
static void *on_start(void **context, const void *rf)
{
	struct stream *s = enter();

	*context = NULL;
	if (s) {
		if (trusted(rf, true)) {
			if (ops.open)
				begin_open(s, rf);
			if (ops.records)
				begin(s, rf);
		}
		leave(s);
	}
	return context;
}

static void on_end(const void *rf, void *context)
{
	uint64_t ticks;
	struct stream *s;

	(void)context;
	if (ops.edges)
		mark_edge();
	ticks = ops.records ? clock__ticks() : 0;
	s = enter();
	if (s) {
		if (ops.open && !open__end(&s->open, (uint64_t)(uintptr_t)rf))
			streams__end_elsewhere((uint64_t)(uintptr_t)rf);
		if (ops.records && trusted(rf, false))
			end(s, rf, ticks);
		leave(s);
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
	const struct {
		uint32_t off, bytes, from, to;
	} fields[] = {
		{ c->fn_off, 16, 0, c->size },
		{ c->fn_index_off, 1, 0, c->size },
		{ c->seq_off, 8, 0, c->size },
		{ c->inputs_off, 16, 0, c->size },
		{ c->outputs_off, 16, 0, c->size },
		{ c->fwd_thread_off, 8, 0, c->size },
		{ c->thread_off, 8, 0, c->size },
		{ c->scope_off, 1, 0, c->size },
		{ 0, c->size, 0, RF_MAX },
		/* of TensorImpl, from its first to its last field: */
		{ t->sizes_off, 88, t->storage_off + 8u, t->key_set_off },
		{ t->extra_meta_off, 1, t->storage_off, t->key_set_off },
		{ t->storage_offset_off, 1, t->storage_off, t->key_set_off },
		{ t->numel_off, 1, t->storage_off, t->key_set_off },
		{ t->dtype_off, 1, t->storage_off, t->key_set_off },
		{ t->device_off, 1, t->storage_off, t->key_set_off },
		{ t->key_set_off, 8, t->storage_off, VALUES_IMPL_MAX },
	};
	uint32_t n = t->shapes_on ? sizeof(fields) / sizeof(*fields) : 9;

	for (uint32_t i = 0; i < n; i++)
		if (fields[i].off < fields[i].from ||
		    fields[i].off + fields[i].bytes > fields[i].to)
			return false;
	return true;
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

int ops__start(uint32_t requests, const struct ptb_agent_cfg *cfg)
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
	ops.records = requests & AGENT_REQUEST(OPS);
	ops.open = requests & AGENT_REQUEST(OPEN);
	ops.outputs = requests & AGENT_REQUEST(OUTPUTS) && cfg->tensor.shapes_on;
	ops.stacks = requests & AGENT_REQUEST(STACKS);
	ops.edges = requests & AGENT_REQUEST(EDGES);
	ops.inputs = (requests & AGENT_REQUEST(INPUTS) && cfg->tensor.shapes_on) || ops.outputs;
	atomic_store(&ops.why,
		     ops.inputs || !(requests & (AGENT_REQUEST(INPUTS) | AGENT_REQUEST(OUTPUTS))) ?
			     PTB_AGENT_WHY_NONE :
			     PTB_AGENT_WHY_BAD_TENSORS);
	atomic_store(&ops.careful, CAREFUL_CALLS);
	atomic_store(&ops.careful_values, CAREFUL_CALLS);
	atomic_store(&ops.numel_score, 0);
	memset(cb.scopes, 1, sizeof(cb.scopes));
	cb.scopes[USER_SCOPE] = ops.records;
	cb.needs_inputs = ops.inputs;
	cb.needs_outputs = ops.outputs;
	streams__renew(PTB_CHUNK_OPS); /* another tracer knows no names */
	set_open_on(ops.open);
	atomic_store(&ops.on, true);
	pthread_mutex_lock(&torch_lock);
	ops.handle = ops.torch->add_global_callback(cb);
	pthread_mutex_unlock(&torch_lock);
	torch__find_lock((void *)(uintptr_t)on_start);
	return 0;
}

void ops__stop(bool leave)
{
	set_open_on(false);
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
	set_open_on(false);
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
