/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Reads the control records into tables and answers from them; see facts.h. Ids of names are
 * resolved at the end, so the order of control records does not matter.
 *
 * Longer than 600 lines because every table is filled, resolved and queried here.
 */
#include "model/facts.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/containers.h"
#include "base/limits.h"
#include "base/mem.h"
#include "capture/capture.h"
#include "model/session.h"

#define RSS_MAX (1u << 20) /* samples: an hour of a hundred processes, three a second */
#define ID_MAX (1u << 22)  /* names, sites: far more than any build of torch has */
#define FUNC_MAX (1u << 20)

static const char node_prefix[] = SESSION_NODE;

const char *facts__intern(struct facts *f, const char *text, size_t len)
{
	return strtab__text(f->texts, strtab__add(f->texts, text, len));
}

const char *facts__address_name(struct facts *f, const char *what, uint64_t addr)
{
	char buf[64];
	int n = snprintf(buf, sizeof(buf), "%s 0x%" PRIx64, what, addr);

	return facts__intern(f, buf, (size_t)n);
}

/* Fills op from "aten::add.Tensor"; full may be any text. */
static void split_name(struct facts *f, struct op_name *op, const char *full)
{
	static const char own[] = "profiler::_record_function_";
	const uint64_t *name = hashmap__get(&f->split_names, (uintptr_t)full, 0);
	const uint64_t *overload = hashmap__get(&f->split_names, (uintptr_t)full, 1);
	const char *ns, *dot;

	if (name && overload) { /* it is interned, and was here before */
		op->full = full;
		op->name = (const char *)(uintptr_t)*name;
		op->overload = (const char *)(uintptr_t)*overload;
	} else {
		ns = strstr(full, "::");
		dot = ns ? strrchr(ns, '.') : NULL;
		op->full = facts__intern(f, full, strlen(full));
		op->name = facts__intern(f, full, dot ? (size_t)(dot - full) : strlen(full));
		op->overload = dot ? facts__intern(f, dot + 1, strlen(dot + 1)) : "";
		hashmap__put(&f->split_names, (uintptr_t)op->full, 0, (uintptr_t)op->name);
		hashmap__put(&f->split_names, (uintptr_t)op->full, 1, (uintptr_t)op->overload);
	}
	op->schema = "";
	op->hides_children = !strncmp(full, own, sizeof(own) - 1);
	op->hidden = op->hides_children;
}

/*
 * Node::name() as torch prints it: generated classes name themselves without their namespace
 * (pytorch tools/autograd/gen_autograd_functions.py), the others are their demangled class.
 */
void facts__node_names(struct facts *f, const char *cls, size_t len, const char **outer,
		       const char **inner)
{
	static const char gen[] = "torch::autograd::generated::";
	char buf[sizeof(node_prefix) + 1024];

	if (len >= sizeof(gen) && !memcmp(cls, gen, sizeof(gen) - 1)) {
		cls += sizeof(gen) - 1;
		len -= sizeof(gen) - 1;
	}
	if (len > 1024)
		len = 1024;
	memcpy(buf, node_prefix, sizeof(node_prefix) - 1);
	memcpy(buf + sizeof(node_prefix) - 1, cls, len);
	*outer = facts__intern(f, buf, sizeof(node_prefix) - 1 + len);
	*inner = facts__intern(f, cls, len);
}

bool facts__names_node(const char *text, size_t len)
{
	return len >= sizeof(node_prefix) - 1 &&
	       !memcmp(text, node_prefix, sizeof(node_prefix) - 1);
}

/* ---- one function per kind of control record ---- */

static const char *text_of(const struct ptb_text *t)
{
	return (const char *)(t + 1);
}

/*
 * Id in texts of what is shown of a name. A few bytes of a file could repeat a long one in very
 * many places of a report, so it is cut, with a mark; schemas, which may be longer, are taken from
 * long_names.
 */
static uint32_t take_name(struct facts *f, uint32_t name, const char *text, size_t len)
{
	static const char mark[] = "...";
	char cut[LIMIT_NAME_BYTES + sizeof(mark)];

	if (len <= LIMIT_NAME_BYTES) {
		hashmap__del(&f->long_names, name, 0);
		return strtab__add(f->texts, text, len);
	}
	hashmap__put(&f->long_names, name, 0, strtab__add(f->texts, text, len));
	memcpy(cut, text, LIMIT_NAME_BYTES);
	memcpy(cut + LIMIT_NAME_BYTES, mark, sizeof(mark));
	return strtab__add(f->texts, cut, sizeof(cut) - 1);
}

static void on_name(struct facts *f, const struct ptb_text *t)
{
	uint32_t id;

	if (!t->id || t->id >= ID_MAX) {
		f->bad_records++;
		return;
	}
	id = take_name(f, t->id, text_of(t), strnlen(text_of(t), t->text_len));
	vec_reserve((void **)&f->names, &f->name_cap, (uint64_t)t->id + 1, sizeof(*f->names));
	f->names[t->id] = id;
	if (t->id >= f->name_cnt)
		f->name_cnt = t->id + 1;
}

static void on_meta(struct facts *f, const struct ptb_text *t)
{
	const char *text = text_of(t), *nul = memchr(text, '\0', t->text_len);
	uint32_t key, value;
	size_t len;

	if (!nul) {
		f->bad_records++;
		return;
	}
	len = t->text_len - (size_t)(nul + 1 - text);
	key = strtab__add(f->texts, text, (size_t)(nul - text));
	value = strtab__add(f->texts, nul + 1, strnlen(nul + 1, len));
	hashmap__put(&f->metas, key, 0, value);
}

static void on_func(struct facts *f, const struct ptb_func *r)
{
	struct func_fact *ff;

	if (!r->func || r->func >= FUNC_MAX || !r->kind) {
		f->bad_records++;
		return;
	}
	vec_reserve((void **)&f->funcs, &f->func_cap, (uint64_t)r->func + 1, sizeof(*f->funcs));
	ff = &f->funcs[r->func];
	*ff = (struct func_fact){
		.kind = r->kind, .name = r->name, .reason = r->reason, .schema = ff->schema
	};
	if (r->func >= f->func_cnt)
		f->func_cnt = r->func + 1;
}

static void on_site(struct facts *f, const struct ptb_site *r)
{
	if (!r->id || r->id >= ID_MAX || !r->func || r->func >= FUNC_MAX) {
		f->bad_records++;
		return;
	}
	vec_reserve((void **)&f->sites, &f->site_cap, (uint64_t)r->id + 1, sizeof(*f->sites));
	f->sites[r->id] = (struct site_fact){ .func = r->func, .role = r->role, .lib = r->lib };
	if (r->id >= f->site_cnt)
		f->site_cnt = r->id + 1;
}

static void on_addr(struct addr_fact **v, uint32_t *cnt, uint32_t *cap, struct hashmap *map,
		    const struct ptb_addr_name *r)
{
	const uint64_t *older = hashmap__get(map, r->h.tgid, r->addr);
	uint32_t older_idx = older ? (uint32_t)*older + 1 : 0;

	hashmap__put(map, r->h.tgid, r->addr, *cnt);
	vec_push(*v, *cnt, *cap,
		 (struct addr_fact){ .addr = r->addr,
				     .ts_ns = r->h.ts_ns,
				     .tgid = r->h.tgid,
				     .name = r->name,
				     .flags = r->flags,
				     .older = older_idx });
}

/* A process that executed another program is recorded again: the newer names, the older start. */
static void on_process(struct facts *f, const struct ptb_process *r)
{
	uint64_t *known = hashmap__get(&f->process_by_tgid, r->h.tgid, 0);
	uint32_t i = known ? (uint32_t)*known : f->process_cnt;
	struct session_process *p;

	vec_reserve((void **)&f->processes, &f->process_cap, (uint64_t)i + 1, sizeof(*p));
	vec_reserve((void **)&f->process_names, &f->process_name_cap, (uint64_t)i * 3 + 3, 4);
	p = &f->processes[i];
	if (!known) {
		hashmap__put(&f->process_by_tgid, r->h.tgid, 0, i);
		f->process_cnt++;
		p->tgid = r->h.tgid;
		p->parent_tgid = r->parent_tgid;
		p->start_ns = r->h.ts_ns < TS_MAX ? r->h.ts_ns : 0;
	}
	p->gap_ns += r->gap_ns;
	p->source = r->source;
	f->process_names[i * 3] = r->comm;
	f->process_names[i * 3 + 1] = r->cmdline;
	f->process_names[i * 3 + 2] = r->exe;
}

static void on_unprobed(struct facts *f, const struct ptb_rec_hdr *h)
{
	const uint64_t *i = hashmap__get(&f->process_by_tgid, h->tgid, 0);

	if (i && h->ts_ns < TS_MAX)
		f->processes[*i].unprobed_ns = h->ts_ns;
}

/* A text about a process, or about one of its threads. */
static void on_text_about(struct facts *f, struct hashmap *map, uint32_t tid,
			  const struct ptb_text *t)
{
	uint32_t id = strtab__add(f->texts, text_of(t), strnlen(text_of(t), t->text_len));

	hashmap__put(map, t->h.tgid, tid, id);
}

static void on_native_stack(struct facts *f, const struct ptb_text *t)
{
	if (t->text_len)
		hashmap__put(&f->native_ns, t->h.tgid, t->h.tid, t->h.ts_ns - t->id * 1000ULL);
	on_text_about(f, &f->native_stacks, t->h.tid, t);
}

static void on_origin(struct facts *f, const struct ptb_origin *r)
{
	if (f->joined && r->begin_ns < TS_MAX && r->end_ns < TS_MAX && r->begin_ns <= r->end_ns)
		vec_push(f->origins, f->origin_cnt, f->origin_cap, *r);
	else
		f->bad_records++;
}

static void on_lost(struct facts *f, const struct ptb_lost *r)
{
	const struct session_lost lost = {
		.begin_ns = r->h.ts_ns, .end_ns = r->end_ns, .cnt = r->cnt, .ring = r->ring
	};

	vec_push(f->lost, f->lost_cnt, f->lost_cap, lost);
}

static void on_window(struct facts *f, const struct ptb_window *r)
{
	if (r->h.ts_ns >= TS_MAX) {
		f->bad_records++;
	} else if (r->begin) {
		if (!f->begin_ns)
			f->begin_ns = r->h.ts_ns;
	} else {
		f->end_ns = r->h.ts_ns;
		f->stop_reason = r->reason;
	}
}

/* The pair with the narrowest reading names the difference of the clocks. */
static void on_clock(struct facts *f, const struct ptb_clock *r)
{
	if (f->clock_cnt++ && r->err_ns >= f->clock_err_ns)
		return;
	f->mono_to_unix_ns = (int64_t)(r->real_ns - r->h.ts_ns);
	f->clock_err_ns = r->err_ns;
}

static void on_thread(struct facts *f, const struct ptb_thread *r)
{
	const uint64_t *process = hashmap__get(&f->process_by_tgid, r->h.tgid, 0);

	if (process && r->h.tid == r->h.tgid) /* its first thread's name is the process's */
		f->process_names[*process * 3] = r->comm;
	hashmap__put(&f->thread_comm, r->h.tgid, r->h.tid, r->comm);
	if (r->name)
		hashmap__put(&f->thread_name, r->h.tgid, r->h.tid, r->name);
}

static void on_schema(struct facts *f, const struct ptb_schema *r)
{
	if (r->opdef) {
		hashmap__put(&f->opdef_schema, r->h.tgid, r->opdef, r->name);
		return;
	}
	if (!r->func || r->func >= FUNC_MAX) {
		f->bad_records++;
		return;
	}
	vec_reserve((void **)&f->funcs, &f->func_cap, (uint64_t)r->func + 1, sizeof(*f->funcs));
	f->funcs[r->func].schema = r->name;
}

static void on_keys(struct facts *f, const struct ptb_keys *r)
{
	const struct session_keys keys = { .autograd = r->autograd,
					   .nested = r->nested,
					   .no_strides = r->no_strides,
					   .sparse_csr = r->sparse_csr };

	hashmap__put(&f->keys_by_tgid, r->h.tgid, 0, f->keys_cnt);
	vec_push(f->keys, f->keys_cnt, f->keys_cap, keys);
}

static void on_rss(struct facts *f, const struct ptb_rss_sample *r)
{
	struct session_rss v = { .ts_ns = r->h.ts_ns,
				 .tgid = r->h.tgid,
				 .vm_bytes = r->vm_bytes,
				 .minor = r->minor,
				 .major = r->major };

	if (r->h.ts_ns >= TS_MAX || f->rss_cnt >= RSS_MAX) {
		f->bad_records++;
		return;
	}
	memcpy(v.rss, r->rss, sizeof(v.rss));
	vec_push(f->rss, f->rss_cnt, f->rss_cap, v);
}

static void on_addr_name(struct hashmap *map, const struct ptb_addr_name *r)
{
	hashmap__put(map, r->h.tgid, r->addr, r->name);
}

static void on_counter(struct facts *f, const struct ptb_counter *c)
{
	if (c->id == PTB_CNT_NO_SHAPES && c->h.tgid) /* of one process; the sum has none */
		hashmap__put(&f->bad_layout, c->h.tgid, 0, 1);
	else if (c->id < sizeof(f->counters) / sizeof(f->counters[0]))
		f->counters[c->id] = c->value;
	else
		f->bad_records++;
}

/* Of a plan, and of addresses. */
static void take_function(struct facts *f, const struct ptb_rec_hdr *rec)
{
	switch (rec->kind) {
	case PTB_REC_FUNC:
		on_func(f, (const void *)rec);
		break;
	case PTB_REC_SITE:
		on_site(f, (const void *)rec);
		break;
	case PTB_REC_OPDEF:
		f->opdefs_left |= ((const struct ptb_addr_name *)(const void *)rec)->flags &
				  PTB_OPDEF_GONE;
		on_addr(&f->opdefs, &f->opdef_cnt, &f->opdef_cap, &f->opdef_by_addr,
			(const void *)rec);
		break;
	case PTB_REC_NODE_TYPE:
		on_addr(&f->node_types, &f->node_type_cnt, &f->node_type_cap, &f->node_by_addr,
			(const void *)rec);
		break;
	case PTB_REC_CALLER:
		on_addr_name(&f->caller_name, (const void *)rec);
		break;
	case PTB_REC_KERNEL_NAME:
		on_addr_name(&f->kernel_name, (const void *)rec);
		break;
	case PTB_REC_SCHEMA:
		on_schema(f, (const void *)rec);
		break;
	case PTB_REC_KEYS:
		on_keys(f, (const void *)rec);
		break;
	default:
		break;
	}
}

static void take_control(struct facts *f, const struct ptb_rec_hdr *rec)
{
	switch (rec->kind) {
	case PTB_REC_NAME:
		on_name(f, (const void *)rec);
		break;
	case PTB_REC_META:
		on_meta(f, (const void *)rec);
		break;
	case PTB_REC_JOB:
		on_text_about(f, &f->job_by_tgid, 0, (const void *)rec);
		break;
	case PTB_REC_NATIVE_STACK:
		on_native_stack(f, (const void *)rec);
		break;
	case PTB_REC_ORIGIN:
		on_origin(f, (const void *)rec);
		break;
	case PTB_REC_PROCESS:
		on_process(f, (const void *)rec);
		break;
	case PTB_REC_THREAD:
		on_thread(f, (const void *)rec);
		break;
	case PTB_REC_CLOCK:
		on_clock(f, (const void *)rec);
		break;
	case PTB_REC_WINDOW:
		on_window(f, (const void *)rec);
		break;
	case PTB_REC_UNPROBED:
		on_unprobed(f, rec);
		break;
	case PTB_REC_RSS_SAMPLE:
		on_rss(f, (const void *)rec);
		break;
	case PTB_REC_PY_LINE:
		py_stacks__line(&f->py, (const void *)rec);
		break;
	case PTB_REC_LOST:
		on_lost(f, (const void *)rec);
		break;
	case PTB_REC_COUNTER:
		on_counter(f, (const void *)rec);
		break;
	default:
		take_function(f, rec);
	}
}

static int on_control(void *arg, const struct ptb_rec_hdr *rec)
{
	take_control(arg, rec);
	return 0;
}

/* ---- resolving ---- */

static void resolve_opdefs(struct facts *f, struct hashmap *unobserved)
{
	for (uint32_t i = 0; i < f->opdef_cnt; i++) {
		struct addr_fact *a = &f->opdefs[i];
		const char *full = facts__name(f, a->name);

		if (!*full) {
			full = facts__address_name(f, "operator", a->addr);
			a->op = (struct op_name){ .name = full,
						  .overload = "",
						  .full = full,
						  .schema = "",
						  .is_address = true };
			continue;
		}
		split_name(f, &a->op, full);
		if (a->flags & PTB_OPDEF_UNOBSERVED) {
			a->op.hidden = true;
			hashmap__put(unobserved, (uintptr_t)a->op.full, 0, 1);
		}
	}
}

static void resolve_func(struct facts *f, struct func_fact *ff, const struct hashmap *unobserved)
{
	split_name(f, &ff->op, facts__name(f, ff->name));
	if (ff->kind != PTB_FUNC_OP)
		ff->op.name = ff->op.full; /* "Engine::evaluate_function" has no overload */
	else if (hashmap__get(unobserved, (uintptr_t)ff->op.full, 0))
		ff->op.hidden = true;
	if (!ff->reason) {
		f->probed_funcs++;
		return;
	}
	vec_push(f->refusals, f->refusal_cnt, f->refusal_cap,
		 (struct session_refusal){
			 .name = ff->op.full, .kind = ff->kind, .reason = ff->reason });
}

/* Of several that left at one time, the one that was read last comes first. */
static int cmp_gone(const void *a, const void *b, void *arg)
{
	uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;
	const struct addr_fact *v = arg;

	return v[i].ts_ns != v[k].ts_ns ? sort__cmp(v[i].ts_ns, v[k].ts_ns) : sort__cmp(k, i);
}

/* newest: index of what was read last at the address. Returns how many of gone are used now. */
static uint32_t list_gone(struct facts *f, struct opdef_history *p, uint32_t newest, uint32_t used)
{
	p->first = used;
	for (uint32_t next = newest + 1; next; next = f->opdefs[next - 1].older) {
		if (f->opdefs[next - 1].flags & PTB_OPDEF_GONE)
			f->opdefs_gone[used++] = next - 1;
		else if (!p->last)
			p->last = next;
	}
	p->cnt = used - p->first;
	sort__array_r(f->opdefs_gone + p->first, p->cnt, sizeof(*f->opdefs_gone), cmp_gone,
		      f->opdefs);
	return used;
}

static void order_opdefs(struct facts *f)
{
	struct hashmap_slot *slot;
	uint32_t n = 0, used = 0;
	uint64_t pos = 0;

	f->opdef_histories = xcalloc(f->opdef_by_addr.live + 1, sizeof(*f->opdef_histories));
	f->opdefs_gone = xcalloc((size_t)f->opdef_cnt + 1, sizeof(*f->opdefs_gone));
	while ((slot = hashmap__next(&f->opdef_by_addr, &pos))) {
		used = list_gone(f, &f->opdef_histories[n], (uint32_t)slot->val, used);
		slot->val = n++;
	}
}

/* Sites show which functions have an exit, and which libraries a NODE_CALL function. */
static void resolve_sites(struct facts *f)
{
	struct hashmap node_call_libs = { 0 };

	for (uint32_t i = 1; i < f->site_cnt; i++) {
		struct site_fact *s = &f->sites[i];
		struct func_fact *ff = s->func < f->func_cnt ? &f->funcs[s->func] : NULL;

		if (!ff || !ff->kind) {
			s->func = 0;
			continue;
		}
		f->probed_sites++;
		ff->lib = s->lib < f->name_cnt ? f->names[s->lib] : 0;
		ff->has_exit |= s->role == PTB_ROLE_EXIT;
		if (ff->kind == PTB_FUNC_NODE_CALL && s->role == PTB_ROLE_ENTER &&
		    ff->reason != PTB_REFUSE_KERNEL_REFUSED)
			hashmap__put(&node_call_libs, ff->lib, 0, 1);
	}
	for (uint32_t i = 1; i < f->func_cnt; i++)
		f->funcs[i].has_node_call = hashmap__get(&node_call_libs, f->funcs[i].lib, 0) !=
					    NULL;
	hashmap__clear(&node_call_libs);
}

/* The schema of an operator is known for its function or for its address in a process: what one of
 * them lacks the other has, by the full name. */
static void share_schema(struct hashmap *by_name, struct op_name *op, const char *text)
{
	op->schema = text;
	if (!*text || hashmap__get(by_name, (uintptr_t)op->full, 0))
		return;
	hashmap__put(by_name, (uintptr_t)op->full, 0, (uintptr_t)text);
}

static void take_schema(const struct hashmap *by_name, struct op_name *op)
{
	const uint64_t *text = *op->schema ? NULL : hashmap__get(by_name, (uintptr_t)op->full, 0);

	if (text)
		op->schema = (const char *)(uintptr_t)*text;
}

static const char *schema_text(const struct facts *f, uint32_t name)
{
	const uint64_t *text = hashmap__get(&f->long_names, name, 0);

	return text ? strtab__text(f->texts, (uint32_t)*text) : facts__name(f, name);
}

/* An address that is another operator's now may have that one's schema. */
static const char *schema_of(const struct facts *f, const struct addr_fact *a)
{
	const uint64_t *id = hashmap__get(&f->opdef_schema, a->tgid, a->addr);
	const char *text = id ? schema_text(f, (uint32_t)*id) : "", *t = text, *full = a->op.full;

	if (!f->opdefs_left || !*text)
		return text;
	while (*full && *t == *full) {
		t++;
		full++;
	}
	return *full || *t != '(' ? "" : text;
}

static void resolve_schemas(struct facts *f)
{
	struct hashmap by_name = { 0 };

	for (uint32_t i = 1; i < f->func_cnt; i++)
		if (f->funcs[i].kind == PTB_FUNC_OP)
			share_schema(&by_name, &f->funcs[i].op, schema_text(f, f->funcs[i].schema));
	for (uint32_t i = 0; i < f->opdef_cnt; i++) {
		struct addr_fact *a = &f->opdefs[i];

		if (!a->op.is_address)
			share_schema(&by_name, &a->op, schema_of(f, a));
	}
	for (uint32_t i = 1; i < f->func_cnt; i++)
		if (f->funcs[i].kind == PTB_FUNC_OP)
			take_schema(&by_name, &f->funcs[i].op);
	for (uint32_t i = 0; i < f->opdef_cnt; i++)
		take_schema(&by_name, &f->opdefs[i].op);
	hashmap__clear(&by_name);
}

static int cmp_lost(const void *a, const void *b)
{
	const struct session_lost *x = a, *y = b;

	return sort__cmp(x->begin_ns, y->begin_ns);
}

static int cmp_rss(const void *a, const void *b)
{
	const struct session_rss *x = a, *y = b;

	return x->ts_ns != y->ts_ns ? sort__cmp(x->ts_ns, y->ts_ns) : sort__cmp(x->tgid, y->tgid);
}

static void resolve_names(const struct facts *f, struct hashmap *ids)
{
	struct hashmap_slot *slot;
	uint64_t pos = 0;

	while ((slot = hashmap__next(ids, &pos)))
		slot->val = slot->val && slot->val < f->name_cnt ? f->names[slot->val] : 0;
}

static void resolve_processes(struct facts *f)
{
	for (uint32_t i = 0; i < f->process_cnt; i++) {
		struct session_process *p = &f->processes[i];
		const uint64_t *job = hashmap__get(&f->job_by_tgid, p->tgid, 0);

		p->job = job ? strtab__text(f->texts, (uint32_t)*job) : "";
		p->comm = facts__name(f, f->process_names[i * 3]);
		p->cmdline = facts__name(f, f->process_names[i * 3 + 1]);
		p->exe = facts__name(f, f->process_names[i * 3 + 2]);
		p->host = "";
		p->pid = p->tgid;
	}
	for (uint32_t i = 0; i < f->origin_cnt; i++) {
		const struct ptb_origin *o = &f->origins[i];
		const uint64_t *at = hashmap__get(&f->process_by_tgid, o->h.tgid, 0);
		struct session_process *p = at ? &f->processes[*at] : NULL;

		if (!p)
			continue;
		p->host = facts__name(f, o->host);
		p->pid = o->pid;
		p->input = o->input;
		p->begin_ns = o->begin_ns;
		p->end_ns = o->end_ns;
	}
}

static void resolve_node_types(struct facts *f)
{
	for (uint32_t i = 0; i < f->node_type_cnt; i++) {
		struct addr_fact *a = &f->node_types[i];
		const char *cls = facts__name(f, a->name);

		if (*cls)
			facts__node_names(f, cls, strlen(cls), &a->outer, &a->inner);
	}
}

static void resolve_ids(struct facts *f)
{
	struct hashmap unobserved = { 0 };

	resolve_opdefs(f, &unobserved);
	for (uint32_t i = 1; i < f->func_cnt; i++)
		if (f->funcs[i].kind)
			resolve_func(f, &f->funcs[i], &unobserved);
	hashmap__clear(&unobserved);
	order_opdefs(f);
	resolve_sites(f);
	resolve_schemas(f);
	resolve_node_types(f);
	resolve_processes(f);
	resolve_names(f, &f->thread_comm);
	resolve_names(f, &f->thread_name);
	sort__array(f->lost, f->lost_cnt, sizeof(*f->lost), cmp_lost);
	sort__array(f->rss, f->rss_cnt, sizeof(*f->rss), cmp_rss);
}

int facts__read(struct facts *f, struct capture_reader *cr)
{
	int err;

	f->texts = strtab__new();
	f->joined = capture_reader__is_joined(cr);
	err = capture_reader__control(cr, on_control, f);
	f->bad_records += capture_reader__bad_records(cr);
	resolve_ids(f);
	return err;
}

void facts__clear(struct facts *f)
{
	strtab__free(f->texts);
	free(f->names);
	free(f->funcs);
	free(f->sites);
	free(f->opdefs);
	free(f->opdef_histories);
	free(f->opdefs_gone);
	free(f->node_types);
	hashmap__clear(&f->split_names);
	hashmap__clear(&f->opdef_by_addr);
	hashmap__clear(&f->node_by_addr);
	hashmap__clear(&f->thread_comm);
	hashmap__clear(&f->thread_name);
	hashmap__clear(&f->caller_name);
	hashmap__clear(&f->kernel_name);
	hashmap__clear(&f->bad_layout);
	hashmap__clear(&f->opdef_schema);
	hashmap__clear(&f->keys_by_tgid);
	free(f->keys);
	hashmap__clear(&f->process_by_tgid);
	hashmap__clear(&f->job_by_tgid);
	hashmap__clear(&f->native_stacks);
	hashmap__clear(&f->native_ns);
	hashmap__clear(&f->metas);
	hashmap__clear(&f->long_names);
	free(f->processes);
	free(f->process_names);
	free(f->origins);
	free(f->lost);
	free(f->rss);
	free(f->refusals);
	py_stacks__clear(&f->py);
}

/* ---- answers ---- */

const char *facts__name(const struct facts *f, uint32_t id)
{
	return id && id < f->name_cnt ? strtab__text(f->texts, f->names[id]) : "";
}

const struct addr_fact *facts__node_type(const struct facts *f, uint32_t tgid, uint64_t vptr)
{
	const uint64_t *i = hashmap__get(&f->node_by_addr, tgid, vptr);

	return i && f->node_types[*i].outer ? &f->node_types[*i] : NULL;
}

const char *facts__caller(const struct facts *f, uint32_t tgid, uint64_t addr)
{
	const uint64_t *name = hashmap__get(&f->caller_name, tgid, addr);
	const char *text = name ? facts__name(f, (uint32_t)*name) : "";

	return *text ? text : NULL;
}

uint32_t facts__kernel(const struct facts *f, uint32_t tgid, uint64_t addr)
{
	const uint64_t *name = hashmap__get(&f->kernel_name, tgid, addr);

	return name ? (uint32_t)*name : 0;
}

uint64_t facts__begin_of(const struct facts *f, uint32_t tgid, uint64_t begin_ns)
{
	const uint64_t *i = hashmap__get(&f->process_by_tgid, tgid, 0);
	uint64_t own = i ? f->processes[*i].begin_ns : 0;

	return own > begin_ns ? own : begin_ns;
}

uint64_t facts__unprobed(const struct facts *f, uint32_t tgid)
{
	const uint64_t *i = hashmap__get(&f->process_by_tgid, tgid, 0);
	uint64_t ns = i ? f->processes[*i].unprobed_ns : 0;

	return ns ? ns : UINT64_MAX;
}

uint64_t facts__end_of(const struct facts *f, uint32_t tgid, uint64_t end_ns)
{
	const uint64_t *i = hashmap__get(&f->process_by_tgid, tgid, 0);
	const struct session_process *p = i ? &f->processes[*i] : NULL;

	if (p && p->end_ns && p->end_ns < end_ns)
		end_ns = p->end_ns;
	return p && p->unprobed_ns && p->unprobed_ns < end_ns ? p->unprobed_ns : end_ns;
}

const struct session_keys *facts__keys(const struct facts *f, uint32_t tgid)
{
	static const struct session_keys unknown;
	const uint64_t *i = hashmap__get(&f->keys_by_tgid, tgid, 0);

	return i ? &f->keys[*i] : &unknown;
}

const char *facts__meta(const struct facts *f, const char *key)
{
	const uint64_t *value =
		hashmap__get(&f->metas, strtab__find(f->texts, key, strlen(key)), 0);

	return value ? strtab__text(f->texts, (uint32_t)*value) : NULL;
}

char *facts__meta_dup(const struct facts *f, const char *key)
{
	const char *json = facts__meta(f, key);
	cJSON *tree = json ? cJSON_Parse(json) : NULL;
	char *text = cJSON_IsString(tree) && *tree->valuestring ? xstrdup(tree->valuestring) : NULL;

	cJSON_Delete(tree);
	return text;
}

const struct site_fact *facts__site(const struct facts *f, uint32_t site)
{
	return site < f->site_cnt && f->sites[site].func ? &f->sites[site] : NULL;
}

bool facts__has_func(const struct facts *f, enum ptb_func_kind kind, const char *name)
{
	for (uint32_t i = 1; i < f->func_cnt; i++) {
		const struct func_fact *ff = &f->funcs[i];

		if (ff->kind == kind && (!ff->reason || ff->reason == PTB_REFUSE_NO_EXIT) &&
		    (!name || !strcmp(facts__name(f, ff->name), name)))
			return true;
	}
	return false;
}

void facts__process_ended(struct facts *f, uint32_t tgid, uint32_t status)
{
	const uint64_t *i = hashmap__get(&f->process_by_tgid, tgid, 0);

	if (!i)
		return;
	f->processes[*i].ended = true;
	f->processes[*i].status = status;
}

void facts__thread_seen(struct facts *f, uint32_t tgid, uint32_t tid, const char comm[16])
{
	const uint64_t *known = hashmap__get(&f->thread_comm, tgid, tid);
	size_t len = strnlen(comm, 16);

	if (len && (!known || !*known))
		hashmap__put(&f->thread_comm, tgid, tid, strtab__add(f->texts, comm, len));
}

/* The one that left next after that time, else what was read at the address since the last one
 * left. */
const struct addr_fact *facts__opdef(const struct facts *f, uint32_t tgid, uint64_t addr,
				     uint64_t ts_ns)
{
	const uint64_t *i = hashmap__get(&f->opdef_by_addr, tgid, addr);
	const struct opdef_history *p = i ? &f->opdef_histories[*i] : NULL;
	const struct addr_fact *last;
	uint32_t lo, hi, end;

	if (!p)
		return NULL;
	lo = p->first;
	hi = end = p->first + p->cnt;
	BISECT(lo, hi, mid, f->opdefs[f->opdefs_gone[mid]].ts_ns < ts_ns);
	if (lo < end)
		return &f->opdefs[f->opdefs_gone[lo]];
	last = p->last ? &f->opdefs[p->last - 1] : NULL;
	if (last && p->cnt && last->ts_ns <= f->opdefs[f->opdefs_gone[end - 1]].ts_ns)
		return NULL;
	return last;
}
