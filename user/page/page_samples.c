/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The page's threads where samples alone know their states. */
#include <stdlib.h>

#include "base/containers.h"
#include "base/mem.h"
#include "page/page_priv.h"

#define THREADS_MAX 200

struct sampled_thread {
	uint32_t tgid, tid;
	uint64_t ns[SAMPLE_STATES];
};

struct page_samples {
	const struct session *s;
	struct sampled_thread *threads;
	uint32_t thread_cnt, thread_cap;
	struct hashmap thread_ids;
};

static int open_samples(const struct output_args *args, void **out)
{
	struct page_samples *ps = xcalloc(1, sizeof(*ps));

	ps->s = args->s;
	*out = ps;
	return 0;
}

static void free_samples(void *o)
{
	struct page_samples *ps = o;

	if (!ps)
		return;
	free(ps->threads);
	hashmap__clear(&ps->thread_ids);
	free(ps);
}

static void take_sample(void *arg, const struct py_sample *sample)
{
	struct page_samples *ps = arg;
	struct sampled_thread *t =
		list__keyed(KEYED_LIST(ps, threads, thread), sample->tgid, sample->tid);

	t->tgid = sample->tgid;
	t->tid = sample->tid;
	t->ns[py_sample__state(sample)] += sample->ns;
}

static struct session_sink samples_sink(void *o)
{
	return (struct session_sink){ .arg = o, .sample = take_sample };
}

static int by_running(const void *a, const void *b)
{
	const struct sampled_thread *x = a, *y = b;

	if (x->ns[SAMPLE_RUNNING] != y->ns[SAMPLE_RUNNING])
		return sort__cmp(y->ns[SAMPLE_RUNNING], x->ns[SAMPLE_RUNNING]);
	return sort__cmp(x->tid, y->tid);
}

static int finish_samples(void *o, const struct output_args *args)
{
	struct page_samples *ps = o;
	struct jsonw w;

	if (!ps->thread_cnt || session__info(ps->s)->has_sched)
		return 0;
	sort__array(ps->threads, ps->thread_cnt, sizeof(*ps->threads), by_running);
	page_json__begin(&w, args);
	JSONW_U64(&w, "thread_count", ps->thread_cnt);
	JSONW_ARR(&w, "threads");
	for (uint32_t i = 0; i < ps->thread_cnt && i < THREADS_MAX; i++) {
		const struct sampled_thread *t = &ps->threads[i];

		jsonw__begin_obj(&w);
		JSONW_STR(&w, "name", session__thread_label(ps->s, t->tgid, t->tid));
		JSONW_U64(&w, "pid", t->tgid);
		JSONW_U64(&w, "tid", t->tid);
		JSONW_ARR(&w, "ns");
		for (uint32_t k = 0; k < SAMPLE_STATES; k++)
			jsonw__u64(&w, t->ns[k]);
		jsonw__end_arr(&w);
		jsonw__end_obj(&w);
	}
	jsonw__end_arr(&w);
	return page_json__end(&w);
}

const struct output page_samples = {
	.needs = NEEDS_SAMPLES,
	.open = open_samples,
	.sink = samples_sink,
	.finish = finish_samples,
	.free = free_samples,
};
