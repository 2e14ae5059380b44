/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Attribute paths of modules ("blocks.1.linear2"), as nn.Module.named_modules() has them, from the
 * outermost module of a stack. A module is known by its class and by those bits of its address that
 * a frame has. The process runs on while its modules are read: what cannot be read has no path.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/mem.h"
#include "python/python.h"
#include "record/recorder_priv.h"
#include "target/proc.h"

#define READS_MAX 4000000    /* in one round; a module needs some 50 of them */
#define SLICE_NS 50000000ULL /* in one round, while the rings fill up */
#define PATH_MAX_BYTES 512
#define CLASS_WORDS 112 /* of a class, with addresses of objects */
#define UPPER_SHIFT 36  /* a frame has the bits of an object's address below */

struct module {
	uint32_t walk; /* that found it; 0: none */
	uint32_t path; /* text of paths; 0: not known */
	/* of its frame, whose PY_LINE is in the capture; func 0: it is not */
	uint32_t check, func;
};

/* One that was found and not yet read. */
struct pending {
	uint64_t obj;
	uint32_t path, walk;
};

struct py_modules {
	struct strtab *paths;
	struct module *modules;
	uint32_t module_cnt, module_cap;
	struct hashmap module_ids; /* code and at of its frame -> index */
	struct pending *pending;   /* a stack; further roots are put at its bottom */
	uint32_t pending_cnt, pending_cap;
	uint64_t name; /* the key "_modules" of the module before */
	uint32_t walks;
	uint64_t spent_ns;
};

struct module_walk {
	struct recorder *r;
	struct recorder_proc *p;
	struct py_modules *pm;
	struct py_objects po;
};

void recorder__modules_forget(struct recorder_proc *p)
{
	if (!p->py_modules)
		return;
	strtab__free(p->py_modules->paths);
	free(p->py_modules->modules);
	free(p->py_modules->pending);
	hashmap__clear(&p->py_modules->module_ids);
	free(p->py_modules);
	p->py_modules = NULL;
}

/* NULL: there are too many. */
static struct module *module_of(struct py_modules *pm, uint64_t code, int32_t at)
{
	if (!hashmap__get(&pm->module_ids, code, (uint32_t)at) &&
	    (pm->module_cnt >= LIMIT_PY_MODULES ||
	     !mem_limit__allows(sizeof(struct module) + hashmap__growth(&pm->module_ids))))
		return NULL;
	return list__keyed(KEYED_LIST(pm, modules, module), code, (uint32_t)at);
}

static struct py_modules *modules_of(struct recorder_proc *p)
{
	if (!p->py_modules) {
		p->py_modules = xcalloc(1, sizeof(*p->py_modules));
		p->py_modules->paths = strtab__new();
	}
	return p->py_modules;
}

/* ---- what the process has ---- */

/*
 * The frame has no upper bits of the object's address: they are those of some object that its class
 * refers to, or next to them, and the object's class shows which. 0: it is gone.
 */
static uint64_t find_object(struct py_objects *po, uint64_t class, int32_t at)
{
	uint64_t words[CLASS_WORDS + 1], low = (uint64_t)(uint32_t)at << 4;

	words[CLASS_WORDS] = class;
	if (remote__read(po->pid, class, words, CLASS_WORDS * sizeof(*words)))
		return 0;
	for (int next = 0; next < 3; next++) {
		uint64_t before = UINT64_MAX;

		for (uint32_t i = CLASS_WORDS + 1; i--;) {
			uint64_t upper = words[i] >> UPPER_SHIFT;

			if (upper == before || words[i] >> 47 || words[i] < 1 << 16)
				continue;
			before = upper;
			upper += next == 1 ? -1ull : next == 2;
			if (py_objects__word(po, (upper << UPPER_SHIFT | low) + 8) == class)
				return upper << UPPER_SHIFT | low;
		}
	}
	return 0;
}

/* The dict of the modules in a module. Most modules have one object as its name. */
static uint64_t find_children(struct module_walk *mw, uint64_t obj)
{
	for (int by_text = !mw->pm->name; by_text < 2; by_text++) {
		uint64_t key, value;
		struct py_dict d;
		char text[16];

		if (!py_object__attributes(&mw->po, obj, &d))
			return 0;
		while (py_dict__next(&d, &key, &value)) {
			if (by_text ? !py_str__read(&mw->po, key, text, sizeof(text)) ||
					      strcmp(text, "_modules") != 0 :
				      key != mw->pm->name)
				continue;
			mw->pm->name = key;
			return value;
		}
	}
	return 0;
}

/* Behind what is pending, so that the first one is the last. */
static void push_children(struct module_walk *mw, const struct pending *parent)
{
	char text[PATH_MAX_BYTES], name[PATH_MAX_BYTES];
	struct py_modules *pm = mw->pm;
	const char *path = strtab__text(pm->paths, parent->path);
	struct pending child = { .walk = parent->walk };
	uint32_t first = pm->pending_cnt;
	struct py_dict d;
	uint64_t key;

	if (!py_dict__begin(&mw->po, find_children(mw, parent->obj), &d))
		return;
	while (pm->pending_cnt < LIMIT_PY_MODULES && py_dict__next(&d, &key, &child.obj)) {
		if (!py_str__read(&mw->po, key, name, sizeof(name)) ||
		    snprintf(text, sizeof(text), "%s%s%s", path, *path ? "." : "", name) >=
			    (int)sizeof(text))
			continue;
		child.path = strtab__try_add(pm->paths, text, strlen(text));
		if (!child.path || !vec_try_reserve((void **)&pm->pending, &pm->pending_cap,
						    pm->pending_cnt + 1ull, sizeof(child)))
			return;
		pm->pending[pm->pending_cnt++] = child;
	}
	for (uint32_t last = pm->pending_cnt; first + 1 < last--; first++) {
		child = pm->pending[first];
		pm->pending[first] = pm->pending[last];
		pm->pending[last] = child;
	}
}

/* ---- paths ---- */

static void set_path(struct recorder *r, const struct py_modules *pm, const struct module *m,
		     struct ptb_py_line *rec)
{
	const char *path = strtab__text(pm->paths, m->path);

	if (!m->path)
		return;
	rec->file = *path ? recorder__name(r, rec->h.tgid, path) : 0;
	rec->first = !*path || rec->file;
}

/* One that was the outermost module of an earlier stack, or in such a one, gets another path. */
static bool visit(struct module_walk *mw, const struct pending *one)
{
	uint64_t class = py_objects__word(&mw->po, one->obj + 8);
	struct ptb_py_line rec = { .h.tgid = mw->p->tgid,
				   .frame = { .code = class | PTB_PY_CLASS,
					      .at = (int32_t)(one->obj >> 4) } };
	struct module *m = class ? module_of(mw->pm, rec.frame.code, rec.frame.at) : NULL;

	if (!m || m->walk == one->walk)
		return false;
	m->walk = one->walk;
	m->path = one->path;
	if (m->func) {
		rec.frame.check = m->check;
		rec.func = m->func;
		set_path(mw->r, mw->pm, m, &rec);
		recorder__put(mw->r, PTB_REC_PY_LINE, &rec.h, sizeof(rec));
	}
	return true;
}

/* Depth first, as named_modules(): a module that has several paths has the first one. */
void recorder__modules_go_on(struct recorder *r, struct recorder_proc *p)
{
	struct module_walk mw = { .r = r,
				  .p = p,
				  .pm = p->py_modules,
				  .po = { .pid = (pid_t)p->tgid, .reads_left = READS_MAX } };
	uint64_t begin = clock__cpu_ns(), limit = LIMIT_PY_MODULES_MS * 1000000ull;
	uint64_t slice = r->end_ns ? limit : SLICE_NS;

	if (!mw.pm || !mw.pm->pending_cnt || p->gone || mw.pm->spent_ns >= limit)
		return;
	if (slice > limit - mw.pm->spent_ns)
		slice = limit - mw.pm->spent_ns;
	while (mw.pm->pending_cnt && clock__cpu_ns() - begin < slice && !cancel__pending()) {
		struct pending one = mw.pm->pending[--mw.pm->pending_cnt];

		if (visit(&mw, &one))
			push_children(&mw, &one);
	}
	mw.pm->spent_ns += clock__cpu_ns() - begin;
}

void recorder__module_root(struct recorder *r, struct recorder_proc *p,
			   const struct ptb_py_frame *f)
{
	struct py_objects po = { .pid = (pid_t)p->tgid, .reads_left = READS_MAX };
	uint64_t class = f->code & ~(uint64_t)(PTB_PY_CLASS | PTB_PY_NATIVE);
	struct py_modules *pm = modules_of(p);
	struct module *m = class ? module_of(pm, class | PTB_PY_CLASS, f->at) : NULL;
	uint64_t begin = clock__cpu_ns();
	struct pending root = { .obj = 0 };

	if (!m || m->walk || p->gone || pm->spent_ns >= LIMIT_PY_MODULES_MS * 1000000ull)
		return;
	m->walk = ++pm->walks; /* not tried again */
	root.obj = find_object(&po, class, f->at);
	root.path = root.obj ? strtab__try_add(pm->paths, "", 0) : 0;
	root.walk = ++pm->walks;
	if (root.path && vec_try_reserve((void **)&pm->pending, &pm->pending_cap,
					 pm->pending_cnt + 1ull, sizeof(root))) {
		memmove(pm->pending + 1, pm->pending, pm->pending_cnt++ * sizeof(root));
		pm->pending[0] = root;
	}
	pm->spent_ns += clock__cpu_ns() - begin;
	recorder__modules_go_on(r, p);
}

void recorder__module_line(struct recorder *r, struct recorder_proc *p, struct ptb_py_line *rec)
{
	struct module *m = module_of(modules_of(p), rec->frame.code, rec->frame.at);

	if (!m)
		return;
	m->check = rec->frame.check;
	m->func = rec->func;
	set_path(r, p->py_modules, m, rec);
}
