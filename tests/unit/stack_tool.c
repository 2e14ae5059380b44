/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * stack_tool PID LIBRARY OFFSET: probes the instruction at this offset, py_point() of tests/workloads/py_point.c, until stdin ends.
 * Prints "ready", then as JSON the stack of each call, by its second argument, and the counters.
 * A fourth argument: "slow": ends of code objects are not counted; for comparisons of costs "quiet": names are not read, "off": there
 * are no stacks.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/jsonw.h"
#include "probe/probe_set.h"
#include "python/python.h"
#include "target/proc.h"

#define PY_READ(reader, dst, len, addr) remote__read(*(const pid_t *)(reader), addr, dst, len)
#include "py_check.h"

struct tool {
	pid_t pid;
	struct py_interp interp;
	struct jsonw w;
	uint64_t last; /* stack */
	uint32_t defs, stacks, calls;
	bool names, counted;
};

static void write_frame(struct tool *t, const struct ptb_py_frame *f)
{
	static struct py_code code;
	struct py_check_mem mem;
	uint64_t addr = f->code & ~(uint64_t)PTB_PY_NATIVE;
	uint32_t check = 0;
	bool ok;

	if (!t->names)
		return;
	ok = !py_code__read(t->pid, &t->interp.layout, addr, &code);
	ok = ok && py_check(&t->pid, &mem, &t->interp.layout, addr, &check) &&
	     check == f->check; /* it was the same all the time */
	jsonw__begin_arr(&t->w);
	if (ok) {
		jsonw__str(&t->w, code.file);
		jsonw__str(&t->w, code.name);
		jsonw__i64(&t->w, py_code__line(&code, &t->interp.layout, f->at));
		jsonw__bool(&t->w, f->code & PTB_PY_NATIVE);
		py_code__clear(&code);
	}
	jsonw__end_arr(&t->w);
}

/* {"def": ID, "flags": N, "frames": [...]} and {"call": N, "stack": ID} */
static void take(void *arg, uint32_t ring, const void *rec, uint32_t len)
{
	const struct ptb_py_stack_def *def = rec;
	const struct ptb_mem_alloc *call = rec;
	const struct ptb_py_stack *stack = rec;
	struct tool *t = arg;
	char id[32];

	(void)ring;
	(void)len;
	t->defs += def->h.kind == PTB_REC_PY_STACK_DEF;
	t->stacks += def->h.kind == PTB_REC_PY_STACK;
	t->calls += def->h.kind == PTB_REC_MEM_ALLOC;
	if (def->h.kind == PTB_REC_PY_STACK)
		t->last = stack->id;
	if (def->h.kind == PTB_REC_PY_STACK_DEF) {
		jsonw__begin_obj(&t->w);
		snprintf(id, sizeof(id), "%016llx", (unsigned long long)def->id);
		JSONW_STR(&t->w, "def", id);
		JSONW_U64(&t->w, "flags", def->flags);
		JSONW_ARR(&t->w, "frames");
		for (uint32_t i = 0; i < def->frame_cnt; i++)
			write_frame(t, (const struct ptb_py_frame *)(def + 1) + i);
		jsonw__end_arr(&t->w);
		jsonw__end_obj(&t->w);
	} else if (def->h.kind == PTB_REC_MEM_ALLOC && t->names) {
		jsonw__begin_obj(&t->w);
		JSONW_U64(&t->w, "call", call->addr);
		snprintf(id, sizeof(id), "%016llx", (unsigned long long)t->last);
		JSONW_STR(&t->w, "stack", id);
		jsonw__end_obj(&t->w);
		t->last = 0;
	}
}

static int follow(struct tool *t, struct probe_set *ps)
{
	struct pollfd in = { .fd = 0, .events = POLLIN };
	int end = 0;

	while (!end) {
		end = poll(&in, 1, 1);
		for (uint32_t i = 0; i < probe_set__ring_cnt(ps); i++)
			probe_set__drain(ps, i, take, t);
	}
	probe_set__deactivate(ps);
	for (uint32_t i = 0; i < probe_set__ring_cnt(ps); i++)
		probe_set__drain(ps, i, take, t);
	return 0;
}

static bool count_ends(struct tool *t, struct probe_set *ps, uint32_t proc)
{
	const struct py_code_end *ce = &t->interp.code_end;
	struct probe_site site = {
		.id = 2, .prog = PTB_PROG_CODE_END, .offset = ce->offset, .insn_len = ce->insn_len
	};
	struct probe_lib lib = { .name = t->interp.object, .sites = &site, .cnt = 1 };
	char path[96];

	snprintf(path, sizeof(path), "/proc/%d/map_files/%lx-%lx", t->pid, ce->start, ce->end);
	lib.access_path = path;
	memcpy(site.insn, ce->insn, sizeof(ce->insn));
	return ce->insn_len && probe_set__add_libs(ps, proc, &lib, 1) == 1;
}

static void write_counters(struct tool *t, struct probe_set *ps)
{
	jsonw__begin_obj(&t->w);
	JSONW_U64(&t->w, "defs", t->defs);
	JSONW_U64(&t->w, "stacks", t->stacks);
	JSONW_U64(&t->w, "calls", t->calls);
	JSONW_U64(&t->w, "counted", t->counted);
#define X(name, nr, where, loss, text)                                                             \
	if (PTB_COUNTED_BY_##where == PTB_COUNTED_BY_BPF && nr != PTB_CNT_HITS)                    \
		JSONW_U64(&t->w, #name, probe_set__counter(ps, nr));
	PTB_COUNTERS(X)
#undef X
	jsonw__end_obj(&t->w);
}

int main(int argc, char **argv)
{
	const char *mode = argc > 4 ? argv[4] : "";
	struct probe_set_opts opts = { .memory = true,
				       .ring_bytes = 16 << 20,
				       .stacks = strcmp(mode, "off") != 0 };
	struct probe_site site = { .id = 1, .prog = PTB_PROG_MEM_NEW, .insn = { 0x90 }, .insn_len = 1 };
	struct tool t = { .names = strcmp(mode, "off") && strcmp(mode, "quiet") };
	struct ptb_proc_cfg cfg = { 0 };
	struct probe_lib lib = { .sites = &site, .cnt = 1 };
	struct probe_set *ps;
	uint32_t proc;

	if (argc < 4)
		return 2;
	t.pid = atoi(argv[1]);
	cfg.tgid = (uint32_t)t.pid;
	lib.name = lib.access_path = argv[2];
	site.offset = strtoull(argv[3], NULL, 0);
	if (py_interp__find(t.pid, &t.interp) || t.interp.why[0]) {
		fprintf(stderr, "no interpreter: %s\n", t.interp.why);
		return 1;
	}
	jsonw__init(&t.w, jsonw__to_stream, stdout, 65536);
	if (probe_set__open(&opts, &ps) || probe_set__add_process(ps, &cfg, &lib, 1, &proc) != 1)
		return 1;
	if (opts.stacks && strcmp(mode, "slow") != 0)
		t.interp.layout.code_ends = t.counted = count_ends(&t, ps, proc);
	if (strcmp(mode, "slow") == 0)
		t.interp.layout.off.interp_code_ends = PTB_PY_NONE;
	if (opts.stacks && probe_set__python(ps, proc, &t.interp.layout))
		return 1;
	probe_set__activate(ps);
	printf("ready\n");
	fflush(stdout);
	jsonw__begin_arr(&t.w);
	follow(&t, ps);
	write_counters(&t, ps);
	jsonw__end_arr(&t.w);
	jsonw__flush(&t.w);
	jsonw__free(&t.w);
	probe_set__free(ps);
	py_interp__clear(&t.interp);
	return 0;
}
