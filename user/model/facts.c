/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Reads the control records into tables; see facts.h. Ids of names are resolved at the end, so the
 * order of control records does not matter.
 */
#include "model/facts.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/effort.h"
#include "base/vec.h"
#include "capture/capture.h"

#define RSS_MAX (1u << 20) /* samples: an hour of a hundred processes, three a second */
#define ID_MAX (1u << 22)  /* names, sites: far more than any build of torch has */
#define FUNC_MAX (1u << 20)
#define STOP_READING 1 /* the rest costs more than a file of this size may: the pass will say so */

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

void facts__split_name(struct facts *f, struct op_name *op, const char *full)
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
		/* without memory it is split again next time */
		hashmap__put(&f->split_names, (uintptr_t)op->full, 0, (uintptr_t)op->name);
		hashmap__put(&f->split_names, (uintptr_t)op->full, 1, (uintptr_t)op->overload);
	}
	op->schema = "";
	op->hides_children = !strncmp(full, own, sizeof(own) - 1);
	op->hidden = op->hides_children;
}

/*
 * Node::name() as torch prints it: generated classes name themselves without their namespace (pytorch
 * tools/autograd/gen_autograd_functions.py), the others are their demangled class.
 */
void facts__node_names(struct facts *f, const char *cls, size_t len, const char **outer, const char **inner)
{
	static const char gen[] = "torch::autograd::generated::";
	static const char prefix[] = "autograd::engine::evaluate_function: ";
	char buf[sizeof(prefix) + 1024];

	if (len >= sizeof(gen) && !memcmp(cls, gen, sizeof(gen) - 1)) {
		cls += sizeof(gen) - 1;
		len -= sizeof(gen) - 1;
	}
	if (len > 1024)
		len = 1024;
	memcpy(buf, prefix, sizeof(prefix) - 1);
	memcpy(buf + sizeof(prefix) - 1, cls, len);
	*outer = facts__intern(f, buf, sizeof(prefix) - 1 + len);
	*inner = facts__intern(f, cls, len);
}

/* ---- one function per kind of control record; 0 or -ENOMEM ---- */

static const char *tail(const struct ptb_text *t)
{
	return (const char *)(t + 1);
}

static int on_name(struct facts *f, const struct ptb_text *t)
{
	uint32_t id;

	if (!t->id || t->id >= ID_MAX) {
		f->bad_records++;
		return 0;
	}
	id = strtab__add(f->texts, tail(t), strnlen(tail(t), t->text_len));
	if (!id || vec_reserve((void **)&f->names, &f->name_cap, (uint64_t)t->id + 1, sizeof(*f->names)))
		return -ENOMEM;
	f->names[t->id] = id;
	if (t->id >= f->name_cnt)
		f->name_cnt = t->id + 1;
	return 0;
}

static int on_meta(struct facts *f, const struct ptb_text *t)
{
	const char *text = tail(t), *nul = memchr(text, '\0', t->text_len);
	struct meta_fact m;
	size_t len;

	if (!nul) {
		f->bad_records++;
		return 0;
	}
	len = t->text_len - (size_t)(nul + 1 - text);
	m.key = strtab__add(f->texts, text, (size_t)(nul - text));
	m.value = strtab__add(f->texts, nul + 1, strnlen(nul + 1, len));
	if (!m.key || !m.value ||
	    vec_reserve((void **)&f->metas, &f->meta_cap, (uint64_t)f->meta_cnt + 1, sizeof(m)))
		return -ENOMEM;
	f->metas[f->meta_cnt++] = m;
	return 0;
}

static int on_func(struct facts *f, const struct ptb_func *r)
{
	struct func_fact *ff;

	if (!r->func || r->func >= FUNC_MAX || !r->kind) {
		f->bad_records++;
		return 0;
	}
	if (vec_reserve((void **)&f->funcs, &f->func_cap, (uint64_t)r->func + 1, sizeof(*f->funcs)))
		return -ENOMEM;
	ff = &f->funcs[r->func];
	*ff = (struct func_fact){ .kind = r->kind, .name = r->name, .reason = r->reason, .schema = ff->schema };
	if (r->func >= f->func_cnt)
		f->func_cnt = r->func + 1;
	return 0;
}

static int on_site(struct facts *f, const struct ptb_site *r)
{
	if (!r->id || r->id >= ID_MAX || !r->func || r->func >= FUNC_MAX) {
		f->bad_records++;
		return 0;
	}
	if (vec_reserve((void **)&f->sites, &f->site_cap, (uint64_t)r->id + 1, sizeof(*f->sites)))
		return -ENOMEM;
	f->sites[r->id] = (struct site_fact){ .func = r->func, .role = r->role, .lib = r->lib };
	if (r->id >= f->site_cnt)
		f->site_cnt = r->id + 1;
	return 0;
}

static int on_addr(struct addr_fact **v, uint32_t *cnt, uint32_t *cap, struct hashmap *map,
		   const struct ptb_addr_name *r)
{
	const uint64_t *older = hashmap__get(map, r->h.tgid, r->addr);
	uint32_t older_idx = older ? (uint32_t)*older + 1 : 0;

	if (vec_reserve((void **)v, cap, (uint64_t)*cnt + 1, sizeof(**v)) ||
	    hashmap__put(map, r->h.tgid, r->addr, *cnt))
		return -ENOMEM;
	(*v)[(*cnt)++] = (struct addr_fact){ .addr = r->addr,
					     .ts_ns = r->h.ts_ns,
					     .tgid = r->h.tgid,
					     .name = r->name,
					     .flags = r->flags,
					     .older = older_idx };
	return 0;
}

/* A process that executed another program is recorded again: the newer names, the older start. */
static int on_process(struct facts *f, const struct ptb_process *r)
{
	uint64_t *known = hashmap__get(&f->process_by_tgid, r->h.tgid, 0);
	uint32_t i = known ? (uint32_t)*known : f->process_cnt;
	struct session_process *p;

	if (vec_reserve((void **)&f->processes, &f->process_cap, (uint64_t)i + 1, sizeof(*p)) ||
	    vec_reserve((void **)&f->process_names, &f->process_name_cap, (uint64_t)i * 3 + 3, 4))
		return -ENOMEM;
	p = &f->processes[i];
	if (!known) {
		if (hashmap__put(&f->process_by_tgid, r->h.tgid, 0, i))
			return -ENOMEM;
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
	return 0;
}

static int on_lost(struct facts *f, const struct ptb_lost *r)
{
	if (vec_reserve((void **)&f->lost, &f->lost_cap, (uint64_t)f->lost_cnt + 1, sizeof(*f->lost)))
		return -ENOMEM;
	f->lost[f->lost_cnt++] = (struct session_lost){
		.begin_ns = r->h.ts_ns, .end_ns = r->end_ns, .cnt = r->cnt, .ring = r->ring
	};
	return 0;
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

static int on_thread(struct facts *f, const struct ptb_thread *r)
{
	return hashmap__put(&f->thread_comm, r->h.tgid, r->h.tid, r->comm);
}

static int on_schema(struct facts *f, const struct ptb_schema *r)
{
	if (r->opdef)
		return hashmap__put(&f->opdef_schema, r->h.tgid, r->opdef, r->name);
	if (!r->func || r->func >= FUNC_MAX) {
		f->bad_records++;
		return 0;
	}
	if (vec_reserve((void **)&f->funcs, &f->func_cap, (uint64_t)r->func + 1, sizeof(*f->funcs)))
		return -ENOMEM;
	f->funcs[r->func].schema = r->name;
	return 0;
}

static int on_keys(struct facts *f, const struct ptb_keys *r)
{
	if (vec_reserve((void **)&f->keys, &f->keys_cap, (uint64_t)f->keys_cnt + 1, sizeof(*f->keys)) ||
	    hashmap__put(&f->keys_by_tgid, r->h.tgid, 0, f->keys_cnt))
		return -ENOMEM;
	f->keys[f->keys_cnt++] = (struct session_keys){ .autograd = r->autograd,
							.nested = r->nested,
							.no_strides = r->no_strides,
							.sparse_csr = r->sparse_csr };
	return 0;
}

static int on_rss(struct facts *f, const struct ptb_rss_sample *r)
{
	struct session_rss *v;

	if (r->h.ts_ns >= TS_MAX || f->rss_cnt >= RSS_MAX) {
		f->bad_records++;
		return 0;
	}
	if (vec_reserve((void **)&f->rss, &f->rss_cap, (uint64_t)f->rss_cnt + 1, sizeof(*v)))
		return -ENOMEM;
	v = &f->rss[f->rss_cnt++];
	*v = (struct session_rss){ .ts_ns = r->h.ts_ns,
				   .tgid = r->h.tgid,
				   .vm_bytes = r->vm_bytes,
				   .minor = r->minor,
				   .major = r->major };
	memcpy(v->rss, r->rss, sizeof(v->rss));
	return 0;
}

static int on_addr_name(struct hashmap *map, const struct ptb_addr_name *r)
{
	return hashmap__put(map, r->h.tgid, r->addr, r->name);
}

static int on_control(void *arg, const struct ptb_rec_hdr *rec)
{
	struct facts *f = arg;

	if (effort__check() != EFFORT_GOES_ON)
		return STOP_READING;
	switch (rec->kind) {
	case PTB_REC_NAME:
		return on_name(f, (const void *)rec);
	case PTB_REC_META:
		return on_meta(f, (const void *)rec);
	case PTB_REC_FUNC:
		return on_func(f, (const void *)rec);
	case PTB_REC_SITE:
		return on_site(f, (const void *)rec);
	case PTB_REC_OPDEF:
		f->opdefs_left |= ((const struct ptb_addr_name *)(const void *)rec)->flags &
				  PTB_OPDEF_GONE;
		return on_addr(&f->opdefs, &f->opdef_cnt, &f->opdef_cap, &f->opdef_by_addr,
			       (const void *)rec);
	case PTB_REC_NODE_TYPE:
		return on_addr(&f->node_types, &f->node_type_cnt, &f->node_type_cap,
			       &f->node_by_addr, (const void *)rec);
	case PTB_REC_CALLER:
		return on_addr_name(&f->caller_name, (const void *)rec);
	case PTB_REC_KERNEL_NAME:
		return on_addr_name(&f->kernel_name, (const void *)rec);
	case PTB_REC_SCHEMA:
		return on_schema(f, (const void *)rec);
	case PTB_REC_KEYS:
		return on_keys(f, (const void *)rec);
	case PTB_REC_PROCESS:
		return on_process(f, (const void *)rec);
	case PTB_REC_THREAD:
		return on_thread(f, (const void *)rec);
	case PTB_REC_CLOCK:
		on_clock(f, (const void *)rec);
		return 0;
	case PTB_REC_WINDOW:
		on_window(f, (const void *)rec);
		return 0;
	case PTB_REC_RSS_SAMPLE:
		return on_rss(f, (const void *)rec);
	case PTB_REC_LOST:
		return on_lost(f, (const void *)rec);
	case PTB_REC_COUNTER: {
		const struct ptb_counter *c = (const void *)rec;

		if (c->id == PTB_CNT_NO_SHAPES && c->h.tgid) /* of one process; the sum has none */
			return hashmap__put(&f->bad_layout, c->h.tgid, 0, 1);
		if (c->id < sizeof(f->counters) / sizeof(f->counters[0]))
			f->counters[c->id] = c->value;
		else
			f->bad_records++;
		return 0;
	}
	default:
		return 0;
	}
}

/* ---- resolving ---- */

static int resolve_opdefs(struct facts *f, struct hashmap *unobserved)
{
	uint32_t i;

	for (i = 0; i < f->opdef_cnt; i++) {
		struct addr_fact *a = &f->opdefs[i];
		const char *full = facts__name(f, a->name);

		if (!*full) {
			a->op.is_address = true;
			full = facts__address_name(f, "operator", a->addr);
			a->op = (struct op_name){
				.name = full, .overload = "", .full = full, .schema = "", .is_address = true
			};
			continue;
		}
		facts__split_name(f, &a->op, full);
		if (a->flags & PTB_OPDEF_UNOBSERVED) {
			a->op.hidden = true;
			if (hashmap__put(unobserved, (uintptr_t)a->op.full, 0, 1))
				return -ENOMEM;
		}
	}
	return 0;
}

static int resolve_func(struct facts *f, struct func_fact *ff, const struct hashmap *unobserved)
{
	facts__split_name(f, &ff->op, facts__name(f, ff->name));
	if (ff->kind != PTB_FUNC_OP)
		ff->op.name = ff->op.full; /* "Engine::evaluate_function" has no overload */
	else if (hashmap__get(unobserved, (uintptr_t)ff->op.full, 0))
		ff->op.hidden = true;
	if (!ff->reason) {
		f->probed_funcs++;
		return 0;
	}
	if (vec_reserve((void **)&f->refusals, &f->refusal_cap, (uint64_t)f->refusal_cnt + 1,
			sizeof(*f->refusals)))
		return -ENOMEM;
	f->refusals[f->refusal_cnt++] =
		(struct session_refusal){ .name = ff->op.full, .kind = ff->kind, .reason = ff->reason };
	return 0;
}

/* Sites show which functions have an exit, and which libraries a NODE_CALL function. */
static int resolve_sites(struct facts *f)
{
	struct hashmap node_call_libs = { 0 };
	int err = 0;
	uint32_t i;

	for (i = 1; i < f->site_cnt && !err; i++) {
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
			err = hashmap__put(&node_call_libs, ff->lib, 0, 1);
	}
	for (i = 1; i < f->func_cnt && !err; i++)
		f->funcs[i].has_node_call = hashmap__get(&node_call_libs, f->funcs[i].lib, 0) != NULL;
	hashmap__clear(&node_call_libs);
	return err;
}

/* The schema of an operator is known for its function or for its address in a process: what one of them
 * lacks the other has, by the full name. */
static int share_schema(struct hashmap *by_name, struct op_name *op, const char *text)
{
	op->schema = text;
	if (!*text || hashmap__get(by_name, (uintptr_t)op->full, 0))
		return 0;
	return hashmap__put(by_name, (uintptr_t)op->full, 0, (uintptr_t)text);
}

static void take_schema(const struct hashmap *by_name, struct op_name *op)
{
	const uint64_t *text = *op->schema ? NULL : hashmap__get(by_name, (uintptr_t)op->full, 0);

	if (text)
		op->schema = (const char *)(uintptr_t)*text;
}

/* An address that is another operator's now may have that one's schema. */
static const char *schema_of(const struct facts *f, const struct addr_fact *a)
{
	const uint64_t *id = hashmap__get(&f->opdef_schema, a->tgid, a->addr);
	const char *text = id ? facts__name(f, (uint32_t)*id) : "", *t = text, *full = a->op.full;

	if (!f->opdefs_left || !*text)
		return text;
	while (*full && *t == *full) {
		t++;
		full++;
	}
	effort__spend((uint64_t)(t - text));
	return *full || *t != '(' ? "" : text;
}

static int resolve_schemas(struct facts *f)
{
	struct hashmap by_name = { 0 };
	int err = 0;
	uint32_t i;

	for (i = 1; i < f->func_cnt && !err; i++)
		if (f->funcs[i].kind == PTB_FUNC_OP)
			err = share_schema(&by_name, &f->funcs[i].op, facts__name(f, f->funcs[i].schema));
	for (i = 0; i < f->opdef_cnt && !err; i++) {
		struct addr_fact *a = &f->opdefs[i];

		if (!a->op.is_address)
			err = share_schema(&by_name, &a->op, schema_of(f, a));
	}
	for (i = 1; i < f->func_cnt && !err; i++)
		if (f->funcs[i].kind == PTB_FUNC_OP)
			take_schema(&by_name, &f->funcs[i].op);
	for (i = 0; i < f->opdef_cnt && !err; i++)
		take_schema(&by_name, &f->opdefs[i].op);
	hashmap__clear(&by_name);
	return err;
}

static int cmp_lost(const void *a, const void *b)
{
	const struct session_lost *x = a, *y = b;

	return x->begin_ns < y->begin_ns ? -1 : x->begin_ns > y->begin_ns;
}

static int cmp_rss(const void *a, const void *b)
{
	const struct session_rss *x = a, *y = b;

	if (x->ts_ns != y->ts_ns)
		return x->ts_ns < y->ts_ns ? -1 : 1;
	return (x->tgid > y->tgid) - (x->tgid < y->tgid);
}

static void resolve_threads(struct facts *f)
{
	struct hashmap_slot *slot;
	uint64_t pos = 0;

	while ((slot = hashmap__next(&f->thread_comm, &pos)))
		slot->val = slot->val && slot->val < f->name_cnt ? f->names[slot->val] : 0;
}

static int resolve(struct facts *f)
{
	struct hashmap unobserved = { 0 };
	int err = resolve_opdefs(f, &unobserved);
	uint32_t i;

	for (i = 1; i < f->func_cnt && !err; i++)
		if (f->funcs[i].kind)
			err = resolve_func(f, &f->funcs[i], &unobserved);
	hashmap__clear(&unobserved);
	if (!err)
		err = facts__place_opdefs(f);
	if (!err)
		err = resolve_sites(f);
	if (!err)
		err = resolve_schemas(f);
	for (i = 0; i < f->node_type_cnt; i++) {
		struct addr_fact *a = &f->node_types[i];
		const char *cls = facts__name(f, a->name);

		if (*cls)
			facts__node_names(f, cls, strlen(cls), &a->outer, &a->inner);
	}
	for (i = 0; i < f->process_cnt; i++) {
		f->processes[i].comm = facts__name(f, f->process_names[i * 3]);
		f->processes[i].cmdline = facts__name(f, f->process_names[i * 3 + 1]);
		f->processes[i].exe = facts__name(f, f->process_names[i * 3 + 2]);
	}
	resolve_threads(f);
	if (f->lost_cnt)
		qsort(f->lost, f->lost_cnt, sizeof(*f->lost), cmp_lost);
	if (f->rss_cnt)
		qsort(f->rss, f->rss_cnt, sizeof(*f->rss), cmp_rss);
	return err;
}

int facts__read(struct facts *f, struct capture_reader *cr)
{
	int err;

	f->texts = strtab__new();
	if (!f->texts)
		return -ENOMEM;
	err = capture_reader__control(cr, on_control, f);
	f->bad_records += capture_reader__bad_records(cr);
	return err && err != STOP_READING ? err : resolve(f);
}

void facts__clear(struct facts *f)
{
	strtab__free(f->texts);
	free(f->names);
	free(f->funcs);
	free(f->sites);
	free(f->opdefs);
	free(f->opdef_places);
	free(f->opdefs_gone);
	free(f->node_types);
	hashmap__clear(&f->split_names);
	hashmap__clear(&f->opdef_by_addr);
	hashmap__clear(&f->node_by_addr);
	hashmap__clear(&f->thread_comm);
	hashmap__clear(&f->caller_name);
	hashmap__clear(&f->kernel_name);
	hashmap__clear(&f->bad_layout);
	hashmap__clear(&f->opdef_schema);
	hashmap__clear(&f->keys_by_tgid);
	free(f->keys);
	hashmap__clear(&f->process_by_tgid);
	free(f->metas);
	free(f->processes);
	free(f->process_names);
	free(f->lost);
	free(f->rss);
	free(f->refusals);
}
