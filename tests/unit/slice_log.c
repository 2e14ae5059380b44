/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Collects slices; see slice_log.h. */
#include "slice_log.h"

#include <CUnit/CUnit.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/containers.h"

/* Values live during the call only. */
static void keep(struct slice_values *sv)
{
	if (!sv->word_cnt)
		return;
	sv->words = vec_dup(sv->words, sv->word_cnt, sizeof(*sv->words));
	if (!sv->words)
		abort();
}

static void drop(const struct slice_values *sv)
{
	if (sv->word_cnt)
		free((void *)(uintptr_t)sv->words);
}

static void keep_memory(const struct slice_memory **mem)
{
	if (!*mem)
		return;
	*mem = vec_dup(*mem, 1, sizeof(**mem));
	if (!*mem)
		abort();
}

static int on_slice(void *arg, const struct slice *sl)
{
	struct slice_log *log = arg;

	if (vec_reserve((void **)&log->slices, &log->cap, (uint64_t)log->cnt + 1, sizeof(*sl)))
		return -ENOMEM;
	log->slices[log->cnt] = *sl;
	keep(&log->slices[log->cnt].in);
	keep_memory(&log->slices[log->cnt].mem);
	keep(&log->slices[log->cnt++].out);
	return 0;
}

static int on_flow(void *arg, const struct fwdbwd *fl)
{
	struct slice_log *log = arg;

	return vec_push(log->flows, log->flow_cnt, log->flow_cap, *fl);
}

static int on_thread(void *arg, uint32_t tgid, uint32_t tid)
{
	struct slice_log *log = arg;

	(void)tgid;
	(void)tid;
	log->threads++;
	return 0;
}

struct slice_log *slice_log__run(struct session *s)
{
	struct slice_log *log = calloc(1, sizeof(*log));
	struct session_sink sink = { .arg = log, .slice = on_slice, .flow = on_flow, .thread = on_thread };

	if (!log || session__run(s, &sink, 1, &log->totals))
		abort();
	if (log->totals.slices != log->cnt || log->totals.flows != log->flow_cnt)
		abort();
	return log;
}

void slice_log__free(struct slice_log *log)
{
	for (uint32_t i = 0; i < log->cnt; i++) {
		drop(&log->slices[i].in);
		free((void *)(uintptr_t)log->slices[i].mem);
		drop(&log->slices[i].out);
	}
	free(log->slices);
	free(log->flows);
	free(log);
}

/* ---- checks ---- */

static int cmp_place(const void *a, const void *b)
{
	const struct slice *x = a, *y = b;

	if (x->tgid != y->tgid)
		return x->tgid < y->tgid ? -1 : 1;
	if (x->tid != y->tid)
		return x->tid < y->tid ? -1 : 1;
	if (x->begin_ns != y->begin_ns)
		return x->begin_ns < y->begin_ns ? -1 : 1;
	return x->end_ns > y->end_ns ? -1 : x->end_ns < y->end_ns;
}

static bool complain(const char *what, const struct slice *sl)
{
	fprintf(stderr,
		"slice %" PRIu64 " '%s' [%" PRIu64 ", %" PRIu64 "] tid %u parent %" PRIu64 ": %s\n",
		sl->id, sl->name, sl->begin_ns, sl->end_ns, sl->tid, sl->parent, what);
	return false;
}

/* Stack of ends over slices sorted by begin: each must lie strictly inside the top or after it. */
static bool nests(const struct slice *sl, uint32_t cnt)
{
	const struct slice **open = calloc(cnt + 1, sizeof(*open));
	uint32_t depth = 0;
	bool ok = open != NULL;

	for (uint32_t i = 0; i < cnt && ok; i++) {
		if (i && (sl[i].tgid != sl[i - 1].tgid || sl[i].tid != sl[i - 1].tid))
			depth = 0;
		while (depth && open[depth - 1]->end_ns < sl[i].begin_ns)
			depth--;
		if (sl[i].end_ns <= sl[i].begin_ns)
			ok = complain("ends before it begins", &sl[i]);
		else if (depth && open[depth - 1]->begin_ns == sl[i].begin_ns)
			ok = complain("begins together with the one around it", &sl[i]);
		else if (depth && open[depth - 1]->end_ns <= sl[i].end_ns)
			ok = complain("crosses the one around it", &sl[i]);
		open[depth++] = &sl[i];
	}
	free(open);
	return ok;
}

static bool parents_fit(const struct slice *sl, uint32_t cnt)
{
	struct hashmap by_id = { 0 };
	bool ok = true;

	for (uint32_t i = 0; i < cnt && ok; i++) {
		if (!sl[i].id || hashmap__get(&by_id, sl[i].id, 0))
			ok = complain("id is not unique", &sl[i]);
		else if (hashmap__put(&by_id, sl[i].id, 0, i))
			abort();
	}
	for (uint32_t i = 0; i < cnt && ok; i++) {
		const uint64_t *p = sl[i].parent ? hashmap__get(&by_id, sl[i].parent, 0) : NULL;

		if (!sl[i].parent)
			continue;
		if (!p)
			ok = complain("parent was not reported", &sl[i]);
		else if (sl[*p].tgid != sl[i].tgid || sl[*p].tid != sl[i].tid ||
			 sl[*p].begin_ns >= sl[i].begin_ns || sl[*p].end_ns <= sl[i].end_ns)
			ok = complain("parent does not enclose it", &sl[i]);
	}
	hashmap__clear(&by_id);
	return ok;
}

static bool values_fit(const struct slice *sl, const struct slice_values *sv)
{
	if (!(sv->flags & VALUES_PRESENT) && (sv->word_cnt || sv->flags))
		return complain("values that are not present", sl);
	if (values__sound_words(sv->words, sv->word_cnt) != sv->word_cnt)
		return complain("values make no sense", sl);
	return true;
}

static bool facts_fit(const struct slice *sl, uint32_t cnt)
{
	for (uint32_t i = 0; i < cnt; i++) {
		if (!values_fit(&sl[i], &sl[i].in) || !values_fit(&sl[i], &sl[i].out))
			return false;
		if (!sl[i].schema || !sl[i].keys)
			return complain("no schema text or no keys", &sl[i]);
		if (sl[i].seq < -1)
			return complain("impossible number", &sl[i]);
	}
	return true;
}

static bool has_slice(const struct slice_log *log, uint32_t tgid, uint32_t tid, uint64_t begin_ns)
{
	for (uint32_t i = 0; i < log->cnt; i++)
		if (log->slices[i].tgid == tgid && log->slices[i].tid == tid &&
		    log->slices[i].begin_ns == begin_ns)
			return true;
	return false;
}

bool slice_log__valid(const struct slice_log *log)
{
	struct slice *sorted = vec_dup(log->slices, log->cnt, sizeof(*sorted));
	bool ok;

	if (!sorted)
		abort();
	qsort(sorted, log->cnt, sizeof(*sorted), cmp_place);
	ok = nests(sorted, log->cnt) && parents_fit(sorted, log->cnt) && facts_fit(sorted, log->cnt);
	free(sorted);
	for (uint32_t i = 0; i < log->flow_cnt && ok; i++) {
		const struct fwdbwd *fl = &log->flows[i];

		ok = fl->id == i + 1 && has_slice(log, fl->fwd_tgid, fl->fwd_tid, fl->fwd_begin_ns) &&
		     has_slice(log, fl->fwd_tgid, fl->bwd_tid, fl->bwd_begin_ns);
		if (!ok)
			fprintf(stderr, "flow %" PRIu64 ": an end is missing\n", fl->id);
	}
	return ok;
}
