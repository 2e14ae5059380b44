/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Which mapped file is the interpreter. A program that is linked against libpython may hold a copy
 * of _PyRuntime that nobody uses (a copy relocation), so every file that has one is tried until one
 * is verified.
 */
#define LOG_DOMAIN "python"
#include "python/python.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "python/python_priv.h"
#include "target/elf.h"
#include "target/proc.h"
#include "target/proc_info.h"

static void add_bias(uint64_t *addr, uint64_t bias)
{
	if (*addr)
		*addr += bias;
}

/* What the file of this mapping says. 0; -ENOENT: it has no interpreter; another negative errno. */
static int ask_file(pid_t pid, const struct proc_map *map, uint64_t *spent_ns,
		    struct py_file_facts *facts)
{
	const struct elf_question q = { .fn = py_file_facts__learn, .spent_ns = spent_ns };
	struct mapped_file mf;
	int err = mapped_file__ask(pid, map, &q, &mf);

	if (err)
		return err;
	err = elf_answer__get(&mf.answer, facts, sizeof(*facts)) && facts->runtime ? 0 : -ENOENT;
	if (!err) {
		add_bias(&facts->runtime, mf.load_bias);
		add_bias(&facts->code_type, mf.load_bias);
		add_bias(&facts->key, mf.load_bias);
		add_bias(&facts->tls_slot, mf.load_bias);
		add_bias(&facts->tls_pair, mf.load_bias);
	}
	mapped_file__clear(&mf);
	return err;
}

/* behind type_name: PyTypeObject {..., tp_name, tp_basicsize, tp_itemsize, tp_dealloc} */
#define TYPE_DEALLOC 24
#define ENDBR64 "\xf3\x0f\x1e\xfa"

/* Functions begin with a push, behind an endbr64 where the compiler adds these; anything else is
 * left alone. */
static bool find_push(pid_t pid, uint64_t *addr, struct py_code_end *ce)
{
	uint8_t code[6];
	const uint8_t *p = code;

	if (remote__read(pid, *addr, code, sizeof(code)))
		return false;
	if (!memcmp(code, ENDBR64, 4)) {
		*addr += 4;
		p += 4;
	}
	ce->insn_len = p[0] == 0x41 ? 2 : 1; /* of the upper registers */
	memcpy(ce->insn, p, ce->insn_len);
	return (p[ce->insn_len - 1] & 0xf8) == 0x50;
}

/* In the file of `map` only: it was found to be the interpreter's. */
static void find_code_end(pid_t pid, const struct proc_maps *maps, const struct proc_map *map,
			  struct py_interp *pi)
{
	const struct ptb_py_offsets *off = &pi->layout.off;
	struct py_code_end ce = { 0 };
	uint64_t addr;

	if (off->interp_code_ends != PTB_PY_NONE ||
	    remote__read(pid, pi->layout.code_type + off->type_name + TYPE_DEALLOC, &addr,
			 sizeof(addr)) ||
	    !find_push(pid, &addr, &ce))
		return;
	for (uint32_t i = 0; i < maps->cnt; i++) {
		const struct proc_map *m = &maps->items[i];

		if (addr < m->start || addr >= m->end || !m->exec || !proc_map__same_file(m, map))
			continue;
		ce.start = m->start;
		ce.end = m->end;
		ce.offset = addr - m->start + m->off;
		pi->code_end = ce;
	}
}

/* In this order: usually the first or second file is it, and a process may have hundreds. */
enum pass { PASS_EXE, PASS_NAMED, PASS_OTHERS, PASS_CNT };

static enum pass pass_of(const struct proc_map *map, const char *exe)
{
	const char *base = proc_map__base(map);

	if (!strcmp(base, exe))
		return PASS_EXE;
	return strstr(base, "libpython") ? PASS_NAMED : PASS_OTHERS;
}

struct search {
	pid_t pid;
	const struct proc_maps *maps;
	const char *exe;
	uint64_t spent_ns;  /* with its files */
	uint64_t verify_ns; /* processor time to verify what was found in them */
	struct py_interp *out;
	int err; /* of the best file so far */
};

/* One whose version is known says more about why it cannot be used. */
static bool is_better(const struct search *s, int err, const struct py_interp *pi)
{
	return !err || (err == -ENOTSUP &&
			(s->err == -ENOENT || (pi->layout.version && !s->out->layout.version)));
}

#define VERIFY_NS (LIMIT_PY_VERIFY_MS * 1000000ull)

static int verify(struct search *s, const struct py_file_facts *facts, struct py_interp *pi)
{
	uint64_t begin = clock__cpu_ns();
	int err = py_calibrate__run(s->pid, facts, begin + VERIFY_NS - s->verify_ns, pi);

	s->verify_ns += clock__cpu_ns() - begin;
	return err;
}

/* True: the search is over. */
static bool try_file(struct search *s, const struct proc_map *map)
{
	struct py_interp pi = { 0 };
	struct py_file_facts facts;
	int err = ask_file(s->pid, map, &s->spent_ns, &facts);

	if (!err) {
		err = verify(s, &facts, &pi);
		pi.object = xstrdup(map->path);
		pr_debug("%s: %s", map->path, err ? pi.why : "verified");
		if (!err)
			find_code_end(s->pid, s->maps, map, &pi);
	}
	if (is_better(s, err, &pi)) {
		py_interp__clear(s->out);
		*s->out = pi;
		s->err = err;
		return !err;
	}
	py_interp__clear(&pi);
	if (err != -ECANCELED && err != -ESRCH)
		return false;
	py_interp__clear(s->out);
	s->err = err;
	return true;
}

static void search_maps(struct search *s, const struct proc_maps *maps)
{
	for (uint32_t pass = 0; pass < PASS_CNT; pass++)
		for (uint32_t i = 0; i < maps->cnt; i++)
			if (proc_maps__is_first(maps, i) &&
			    pass_of(&maps->items[i], s->exe) == pass &&
			    try_file(s, &maps->items[i]))
				return;
}

int py_interp__find(pid_t pid, struct py_interp *out)
{
	char *exe = proc_info__exe_name(pid);
	struct search s = { .pid = pid, .exe = exe, .out = out, .err = -ENOENT };
	struct proc_maps maps;
	int err;

	memset(out, 0, sizeof(*out));
	err = proc_maps__read(pid, &maps);
	if (!err) {
		s.maps = &maps;
		search_maps(&s, &maps);
		proc_maps__free(&maps);
		err = s.err;
		out->late = err == -ENOTSUP && s.verify_ns >= VERIFY_NS;
	}
	free(exe);
	return err;
}

void py_interp__clear(struct py_interp *pi)
{
	free(pi->object);
	memset(pi, 0, sizeof(*pi));
}
