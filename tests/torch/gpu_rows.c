/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * gpu_rows CAPTURE...: for a comparison with torch. stdout: one JSON object per capture and line, {"events": [of a
 * session], "rows": [of key_averages]}.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/jsonw.h"
#include "capture/capture.h"
#include "model/key_averages.h"

static int to_stdout(void *arg, const void *data, size_t len)
{
	(void)arg;
	return fwrite(data, 1, len, stdout) == len ? 0 : -1;
}

static void put_text(struct jsonw *w, const char *key, const char *text)
{
	jsonw__key(w, key);
	jsonw__str(w, text);
}

static void put_number(struct jsonw *w, const char *key, uint64_t v)
{
	jsonw__key(w, key);
	jsonw__u64(w, v);
}

static void on_slice(void *arg, const struct slice *sl)
{
	struct jsonw *w = arg;

	jsonw__begin_obj(w);
	put_text(w, "cat", sl->cat == SLICE_USER_ANNOTATION ? "user_annotation" : "cpu_op");
	put_text(w, "name", sl->name);
	put_number(w, "id", sl->id);
	put_number(w, "tid", sl->tid);
	put_number(w, "begin", sl->begin_ns);
	put_number(w, "end", sl->end_ns);
	jsonw__end_obj(w);
}

static void on_gpu(void *arg, const struct gpu_slice *g)
{
	static const char *const cats[] = {
		[GPU_KERNEL] = "kernel", [GPU_MEMCPY] = "gpu_memcpy", [GPU_MEMSET] = "gpu_memset", [GPU_API] = "cuda_runtime", [GPU_ANNOTATION] = "gpu_user_annotation"
	};
	uint64_t wider = g->what == GPU_ANNOTATION; /* as kineto records it */
	struct jsonw *w = arg;

	jsonw__begin_obj(w);
	put_text(w, "cat", cats[g->what]);
	put_text(w, "name", g->name);
	put_number(w, "id", g->correlation);
	put_number(w, "op", g->what == GPU_ANNOTATION ? 0 : g->at.op_slice);
	put_number(w, "tid", g->at.tid);
	put_number(w, "begin", g->begin_ns - wider);
	put_number(w, "end", g->end_ns + wider);
	jsonw__end_obj(w);
}

static void put_rows(struct jsonw *w, struct key_averages *ka)
{
	uint32_t cnt;
	const struct ka_row *rows = key_averages__rows(ka, &cnt);

	for (uint32_t i = 0; i < cnt; i++) {
		const struct ka_row *r = &rows[i];

		jsonw__begin_obj(w);
		put_text(w, "key", r->key);
		put_number(w, "annotation", r->is_annotation);
		put_number(w, "device", r->is_device);
		put_number(w, "count", r->count);
		put_number(w, "self_cpu", r->self_cpu_ns);
		put_number(w, "cpu", r->cpu_total_ns);
		put_number(w, "self_device", r->self_device_ns);
		put_number(w, "device_total", r->device_total_ns);
		jsonw__end_obj(w);
	}
}

static int show(const char *path)
{
	struct session_opts opts = { .no_steps = true };
	struct capture_reader *cr;
	struct session *s;
	struct key_averages *ka = key_averages__new(NULL);
	struct jsonw w = { 0 };
	struct session_sink sinks[] = { { .arg = &w, .slice = on_slice, .gpu = on_gpu },
					key_averages__sink(ka) };
	struct session_totals totals;
	int err;

	if (capture_reader__open(path, capture__open(path), &cr) || session__open(cr, &opts, &s))
		return 1;
	jsonw__init(&w, to_stdout, NULL, 64 * 1024);
	jsonw__begin_obj(&w);
	jsonw__key(&w, "events");
	jsonw__begin_arr(&w);
	err = session__run(s, sinks, 2, &totals);
	jsonw__end_arr(&w);
	jsonw__key(&w, "rows");
	jsonw__begin_arr(&w);
	put_rows(&w, ka);
	jsonw__end_arr(&w);
	jsonw__end_obj(&w);
	jsonw__newline(&w);
	if (!err)
		err = jsonw__flush(&w);
	jsonw__free(&w);
	key_averages__free(ka);
	session__free(s);
	capture_reader__close(cr);
	return err;
}

int main(int argc, char **argv)
{
	int err = 0;

	for (int i = 1; i < argc && !err; i++)
		err = show(argv[i]);
	return err ? 1 : 0;
}
