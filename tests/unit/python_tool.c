/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * python_tool PID: finds and verifies the interpreter of a process, then prints its lock and the frames of its threads as JSON. For
 * tests, which judge by what the process says of itself.
 * python_tool lines: for each line "FORM FIRST SIZE TABLE-IN-HEX" on stdin prints the lines of the instructions at 0, 2, ... below SIZE.
 * python_tool file PATH: prints what an ELF file says, addresses less that of _PyRuntime.
 * python_tool dict PID ADDRESS: prints the keys and values of a dict; null: one that
 * python/python.h does not read.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/jsonw.h"
#include "base/log.h"
#include "python/python.h"
#include "python/python_priv.h"
#include "target/proc.h"

#define THREADS_MAX 256
#define FRAMES_MAX 2048

static void write_frame(struct jsonw *w, pid_t pid, const struct ptb_py_layout *l,
			const struct py_live_frame *f)
{
	static struct py_code code;
	int err = py_code__read(pid, l, f->code, &code);

	jsonw__begin_arr(w);
	if (!err) {
		jsonw__str(w, code.file);
		jsonw__str(w, code.name);
		jsonw__i64(w, py_code__line(&code, l, f->at));
		jsonw__bool(w, f->native);
		py_code__clear(&code);
	} else {
		jsonw__i64(w, err);
	}
	jsonw__end_arr(w);
}

static void write_thread(struct jsonw *w, pid_t pid, const struct ptb_py_layout *l, uint64_t tstate)
{
	static struct py_live_frame frames[FRAMES_MAX];
	int n = py_frames__walk(pid, l, tstate, frames, FRAMES_MAX);

	jsonw__begin_arr(w);
	for (int i = 0; i < n; i++)
		write_frame(w, pid, l, &frames[i]);
	jsonw__end_arr(w);
}

static uint64_t read_word(pid_t pid, uint64_t addr)
{
	uint64_t v = 0;

	remote__read(pid, addr, &v, sizeof(v));
	return v;
}

static void write_gil(struct jsonw *w, pid_t pid, const struct py_interp *pi)
{
	struct ptb_py_gil gil;
	int err = py_gil__find(pid, pi, &gil);
	uint64_t holder = err ? 0 : read_word(pid, gil.last_holder);

	JSONW_OBJ(w, "gil");
	JSONW_I64(w, "error", err);
	if (!err) {
		JSONW_U64(w, "start", gil.start);
		JSONW_U64(w, "end", gil.end);
		JSONW_U64(w, "holder", holder);
		JSONW_U64(w, "thread", read_word(pid, holder + gil.tstate_thread_id));
	}
	jsonw__end_obj(w);
}

static void write_gc(struct jsonw *w, pid_t pid, const struct ptb_py_layout *l)
{
	uint64_t cnt[PY_GENERATIONS];
	int err = py_gc__collections(pid, l, cnt);

	JSONW_U64(w, "collecting",
		  (uint32_t)read_word(pid, l->interp + l->off.interp_gc + l->off.gc_collecting));
	JSONW_ARR(w, "collections");
	for (uint32_t g = 0; g < PY_GENERATIONS && !err; g++)
		jsonw__u64(w, cnt[g]);
	jsonw__end_arr(w);
}

static void write_interp(struct jsonw *w, pid_t pid, const struct py_interp *pi)
{
	char version[PY_VERSION_TEXT];
	uint64_t tstates[THREADS_MAX];
	int n;

	py_version__print(pi->layout.version, version);
	JSONW_STR(w, "version", version);
	JSONW_STR(w, "object", pi->object);
	JSONW_STR(w, "why", pi->why);
	JSONW_U64(w, "threads", pi->thread_cnt);
	JSONW_U64(w, "checked", pi->checked_cnt);
	JSONW_U64(w, "verified", pi->verified_cnt);
	JSONW_U64(w, "subinterpreters", pi->sub_cnt);
	JSONW_I64(w, "slot", pi->layout.slot);
	JSONW_ARR(w, "stacks");
	n = pi->why[0] ? 0 : py_interp__threads(pid, pi, tstates, THREADS_MAX);
	for (int i = 0; i < n; i++)
		write_thread(w, pid, &pi->layout, tstates[i]);
	jsonw__end_arr(w);
	if (!pi->why[0])
		write_gil(w, pid, pi);
	if (!pi->why[0])
		write_gc(w, pid, &pi->layout);
}

static void print_lines(unsigned int form, int first, int size, const char *hex)
{
	size_t len = strlen(hex) / 2;
	uint8_t *table = malloc(len + 1);
	unsigned int byte;

	for (size_t i = 0; table && i < len && sscanf(hex + 2 * i, "%2x", &byte) == 1; i++)
		table[i] = (uint8_t)byte;
	for (int at = 0; table && at < size; at += 2)
		printf("%d ", py_line__find((enum ptb_py_lines)form, table, len, first, at));
	putchar('\n');
	free(table);
}

static int print_all_lines(void)
{
	unsigned int form;
	int first, size;
	char *hex;

	while (scanf("%u %d %d %ms", &form, &first, &size, &hex) == 4) {
		print_lines(form, first, size, hex);
		free(hex);
	}
	return 0;
}

static int print_file(const char *path)
{
	struct py_file_facts f;
	struct elf_file *ef;
	uint8_t *out = NULL;
	size_t len = 0;

	if (elf_file__open(path, &ef))
		return 1;
	if (!py_file_facts__learn(ef, NULL, &out, &len) && len == sizeof(f)) {
		memcpy(&f, out, sizeof(f));
		printf("{\"version\": %" PRIu64 ", \"key\": %" PRId64 ", \"tls\": %" PRId64 ", \"tls_slot\": %d, "
		       "\"code_type\": %d}\n",
		       f.version, f.key ? (int64_t)(f.key - f.runtime) : -1, f.tls, f.tls_slot != 0,
		       f.code_type != 0);
	} else {
		printf("{}\n");
	}
	free(out);
	elf_file__close(ef);
	return 0;
}

static void write_object(struct jsonw *w, struct py_objects *po, uint64_t obj)
{
	uint64_t first = py_tuple__first(po, obj);
	char text[256];
	uint32_t n;

	if (py_int__read(po, obj, &n))
		jsonw__u64(w, n);
	else if (py_str__read(po, first ? first : obj, text, sizeof(text)))
		jsonw__str(w, text);
	else
		jsonw__null(w);
}

static int print_dict(pid_t pid, uint64_t addr)
{
	struct py_objects po = { .pid = pid, .reads_left = 1u << 20 };
	uint64_t key, value;
	struct py_dict d;
	struct jsonw w;

	if (!py_dict__begin(&po, addr, &d))
		return 3;
	jsonw__init(&w, jsonw__to_stream, stdout, 4096);
	jsonw__begin_arr(&w);
	while (py_dict__next(&d, &key, &value)) {
		jsonw__begin_arr(&w);
		write_object(&w, &po, key);
		write_object(&w, &po, value);
		jsonw__end_arr(&w);
	}
	jsonw__end_arr(&w);
	jsonw__flush(&w);
	jsonw__free(&w);
	return 0;
}

static void print_thread(void *arg, uint32_t native_id, const char *name)
{
	(void)arg;
	printf("%u %s\n", native_id, name);
}

static int print_threads(pid_t pid)
{
	struct py_objects po = { .pid = pid, .reads_left = 1u << 20 };
	struct py_interp pi;
	int err = py_interp__find(pid, &pi);

	if (!err)
		py_threads__names(&po, py_modules__of_interp(&po, pi.main), print_thread, NULL);
	fprintf(stderr, "%u reads left\n", po.reads_left);
	py_interp__clear(&pi);
	return err ? 1 : 0;
}

int main(int argc, char **argv)
{
	struct py_interp pi;
	struct jsonw w;
	pid_t pid;
	int err;

	if (argc == 3 && !strcmp(argv[1], "file"))
		return print_file(argv[2]);
	if (argc == 2 && !strcmp(argv[1], "lines"))
		return print_all_lines();
	if (argc == 4 && !strcmp(argv[1], "dict"))
		return print_dict(atoi(argv[2]), strtoull(argv[3], NULL, 0));
	if (argc == 3 && !strcmp(argv[1], "threads"))
		return print_threads(atoi(argv[2]));
	if (argc != 2)
		return 2;
	log__enable_domains(getenv("PTBPF_DEBUG"));
	pid = atoi(argv[1]);
	err = py_interp__find(pid, &pi);
	jsonw__init(&w, jsonw__to_stream, stdout, 4096);
	jsonw__begin_obj(&w);
	JSONW_I64(&w, "error", err);
	if (!err || pi.object)
		write_interp(&w, pid, &pi);
	jsonw__end_obj(&w);
	jsonw__newline(&w);
	err = jsonw__flush(&w);
	jsonw__free(&w);
	py_interp__clear(&pi);
	return err ? 1 : 0;
}
