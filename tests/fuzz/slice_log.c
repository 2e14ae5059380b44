/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Collects slices; see slice_log.h. */
#include "slice_log.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/containers.h"
#include "base/mem.h"

static bool complain(const char *what, const struct slice *sl)
{
	fprintf(stderr,
		"slice %" PRIu64 " '%s' [%" PRIu64 ", %" PRIu64 "] tid %u parent %" PRIu64 ": %s\n",
		sl->id, sl->name, sl->begin_ns, sl->end_ns, sl->tid, sl->parent, what);
	return false;
}

/* Values live during the call only. */
static bool values_fit(const struct slice_values *sv)
{
	return ((sv->flags & VALUES_PRESENT) || (!sv->word_cnt && !sv->flags)) &&
	       values__survey(sv->words, sv->word_cnt).words == sv->word_cnt;
}

static void on_slice(void *arg, const struct slice *sl)
{
	struct slice_log *log = arg;

	if (!values_fit(&sl->in) || !values_fit(&sl->out) || !sl->schema || !sl->keys || sl->seq < -1) {
		complain("values, schema or number make no sense", sl);
		abort();
	}
	vec_push(log->slices, log->cnt, log->cap, *sl);
}

static void on_flow(void *arg, const struct fwdbwd *fl)
{
	struct slice_log *log = arg;

	vec_push(log->flows, log->flow_cnt, log->flow_cap, *fl);
}

struct slice_log *slice_log__run(struct session *s)
{
	struct slice_log *log = xcalloc(1, sizeof(*log));
	struct session_sink sink = { .arg = log, .slice = on_slice, .flow = on_flow };

	if (session__run(s, &sink, 1, &log->totals))
		abort();
	if (log->totals.slices != log->cnt || log->totals.flows != log->flow_cnt)
		abort();
	return log;
}

void slice_log__free(struct slice_log *log)
{
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

/* Stack of ends over slices sorted by begin: each must lie strictly inside the top or after it. */
static bool nests(const struct slice *sl, uint32_t cnt)
{
	const struct slice **open = xcalloc(cnt + 1, sizeof(*open));
	uint32_t depth = 0;
	bool ok = true;

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
		else
			hashmap__put(&by_id, sl[i].id, 0, i);
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

	qsort(sorted, log->cnt, sizeof(*sorted), cmp_place);
	ok = nests(sorted, log->cnt) && parents_fit(sorted, log->cnt);
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
