/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The last sampled Python stack of each thread, and where it stood in C++ if that was recorded,
 * as text for people: where a job hangs. */
#include <stdlib.h>
#include <string.h>

#include "base/containers.h"
#include "base/mem.h"
#include "base/text.h"
#include "export/output.h"
#include "export/texts.h"
#include "ptb_event.h"

#define NAME_CHARS 4096

struct dumped_thread {
	uint32_t tgid, tid;
	uint64_t ns[SAMPLE_STATES];
	uint64_t native_ns;    /* when its C++ stack was read; 0: never */
	struct py_sample last; /* whose stack was read, if any was; the first one since then */
};

struct thread_dump {
	const struct session *s;
	struct out_file *of;
	struct py_paths paths;
	struct dumped_thread *threads;
	uint32_t thread_cnt, thread_cap;
	struct hashmap thread_ids;
};

static void take_sample(void *arg, const struct py_sample *ps)
{
	struct thread_dump *td = arg;
	struct dumped_thread *t = list__keyed(KEYED_LIST(td, threads, thread), ps->tgid, ps->tid);

	t->tgid = ps->tgid;
	t->tid = ps->tid;
	t->ns[py_sample__state(ps)] += ps->ns;
	if (!t->last.ts_ns)
		t->native_ns = session__native_ns(td->s, ps->tgid, ps->tid);
	if (t->native_ns && t->last.ts_ns >= t->native_ns)
		return;
	if (!t->last.ts_ns || !(ps->flags & PTB_SAMPLE_NO_STACK))
		t->last = *ps;
}

static int by_thread(const void *a, const void *b)
{
	const struct dumped_thread *x = a, *y = b;

	if (x->tgid != y->tgid)
		return x->tgid < y->tgid ? -1 : 1;
	return x->tid < y->tid ? -1 : x->tid > y->tid;
}

static void put_process(const struct thread_dump *td, FILE *f, uint32_t tgid)
{
	const struct session_process *p = session__process(td->s, tgid);
	const char *why = session__meta(td->s, "native_stacks_missing");

	fprintf(f, "process %u", tgid);
	if (p && p->cmdline[0]) {
		fputs(": ", f);
		term_text__put(f, p->cmdline, NAME_CHARS);
	}
	fputc('\n', f);
	if (why) {
		fputs("C++ stacks could not be read: ", f);
		term_text__put(f, why, NAME_CHARS);
		fputc('\n', f);
	}
}

static void put_states(FILE *f, const struct dumped_thread *t)
{
	uint64_t all = t->ns[SAMPLE_RUNNING] + t->ns[SAMPLE_QUEUED] + t->ns[SAMPLE_BLOCKED];
	const char *sep = ": ";

	for (enum py_sample_state i = 0; i < SAMPLE_STATES; i++)
		if (t->ns[i]) {
			fprintf(f, "%s%s %.0f %%", sep, py_sample__state_name(i),
				100 * (double)t->ns[i] / (double)all);
			sep = ", ";
		}
}

static void put_chars(FILE *f, const char *text, size_t len)
{
	char part[1024];

	snprintf(part, sizeof(part), "%.*s", (int)(len < sizeof(part) ? len : sizeof(part) - 1),
		 text);
	term_text__put(f, part, NAME_CHARS);
}

static const char *next_line(const char *line)
{
	line += strcspn(line, "\n");
	return line + (*line == '\n');
}

/* The operator of a line of a native stack, as PyTorch's C++ names it ("at::_ops::add_Tensor"); its
 * length, 0: it is none. */
static size_t operator_of(const char *line)
{
	static const char ops[] = "at::_ops::";
	size_t len = sizeof(ops) - 1;

	return strncmp(line, ops, len) ? 0 : len + strcspn(line + len, ":\n");
}

/* The open operators, innermost first; one redispatches to itself. */
static void put_native_ops(FILE *f, const char *stack)
{
	const char *before = "";
	size_t before_len = 0, len;

	for (const char *line = stack; line && *line; line = next_line(line)) {
		len = operator_of(line);
		if (!len || (len == before_len && !strncmp(line, before, len)))
			continue;
		fputs(before_len ? ", called by " : "; in operator ", f);
		put_chars(f, line, len);
		before = line;
		before_len = len;
	}
}

static void put_native(FILE *f, const char *stack)
{
	if (!stack)
		return;
	fputs(*stack ? "  C++:\n" : "  C++: (the stack could not be read)\n", f);
	for (const char *line = stack; *line; line = next_line(line)) {
		fputs("    ", f);
		put_chars(f, line, strcspn(line, "\n"));
		fputc('\n', f);
	}
}

static void put_thread(const struct thread_dump *td, FILE *f, const struct dumped_thread *t)
{
	const char *native = session__native_stack(td->s, t->tgid, t->tid);
	struct py_stack stack = session__py_stack(td->s, t->last.stack);

	const char *comm = session__thread_label(td->s, t->tgid, t->tid);

	fprintf(f, "\nthread %u%s", t->tid, *comm ? " " : "");
	term_text__put(f, comm, NAME_CHARS);
	put_states(f, t);
	if (*t->last.op) {
		fputs("; in operator ", f);
		term_text__put(f, t->last.op, NAME_CHARS);
	} else {
		put_native_ops(f, native);
	}
	fputc('\n', f);
	for (uint32_t i = 0; i < stack.frame_cnt; i++) {
		struct py_frame frame =
			session__py_frame(td->s, stack.frames[i] & ~PY_FRAME_NATIVE);

		fputs("    ", f);
		term_text__put(f, frame.func, NAME_CHARS);
		fputs(" (", f);
		term_text__put(f, py_text__file(&td->paths, frame.file), NAME_CHARS);
		fprintf(f, ":%d)\n", frame.line);
	}
	if (!stack.frame_cnt)
		fputs(t->last.flags & PTB_SAMPLE_NO_STACK ?
			      "    (its Python stack could not be read)\n" :
			      "    (no Python function)\n",
		      f);
	else if (stack.flags & (PTB_PY_CUT | PTB_PY_FAULT))
		fputs("    ...\n", f);
	put_native(f, native);
}

static struct session_sink dump_sink(void *o)
{
	return (struct session_sink){ .arg = o, .sample = take_sample };
}

static int finish_dump(void *o, const struct output_args *args)
{
	struct thread_dump *td = o;
	FILE *f = out_file__stream(td->of);

	(void)args;
	sort__array(td->threads, td->thread_cnt, sizeof(*td->threads), by_thread);
	for (uint32_t i = 0; i < td->thread_cnt; i++) {
		if (!i || td->threads[i].tgid != td->threads[i - 1].tgid) {
			fputs(i ? "\n" : "", f);
			put_process(td, f, td->threads[i].tgid);
		}
		put_thread(td, f, &td->threads[i]);
	}
	return out_file__end_stream(td->of, f);
}

static void free_dump(void *o)
{
	struct thread_dump *td = o;

	if (!td)
		return;
	out_file__free(td->of);
	hashmap__clear(&td->thread_ids);
	free(td->threads);
	free(td);
}

static int open_dump(const struct output_args *args, void **out)
{
	struct thread_dump *td = xcalloc(1, sizeof(*td));

	td->s = args->s;
	py_paths__find(&td->paths, args->s);
	out_file__open(args, &td->of);
	*out = td;
	return 0;
}

const struct output threads_output = {
	.title = "threads",
	.needs = NEEDS_SAMPLES,
	.open = open_dump,
	.sink = dump_sink,
	.finish = finish_dump,
	.free = free_dump,
};
