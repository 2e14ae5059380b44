/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The captures that are joined: what they are of, whether they belong together, their clock
 * pairs and collectives. */
#define LOG_DOMAIN "captures"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/containers.h"
#include "base/log.h"
#include "export/facts_json.h"
#include "ranks/ranks_priv.h"

/* A pair, in file order. */
static void add_pair(struct join_clock *c, uint64_t mono_ns, uint64_t unix_ns, uint64_t err_ns)
{
	int64_t off = (int64_t)(unix_ns - mono_ns);

	if (!c->pairs || off < c->min_ns)
		c->min_ns = off;
	if (!c->pairs || off > c->max_ns)
		c->max_ns = off;
	if (!c->pairs || err_ns < c->err_ns) {
		c->unix_ns = off;
		c->err_ns = err_ns;
	}
	c->pairs++;
}

void join_clock__join(struct join_clock *c, const struct join_clock *other)
{
	struct join_clock best = other->pairs && (!c->pairs || other->err_ns < c->err_ns) ? *other :
											    *c;

	if (c->pairs && other->pairs) {
		best.min_ns = c->min_ns < other->min_ns ? c->min_ns : other->min_ns;
		best.max_ns = c->max_ns > other->max_ns ? c->max_ns : other->max_ns;
	}
	best.pairs = c->pairs + other->pairs;
	*c = best;
}

uint64_t join_clock__bound(const struct join_clock *c)
{
	uint64_t below = (uint64_t)(c->unix_ns - c->min_ns),
		 above = (uint64_t)(c->max_ns - c->unix_ns);

	return c->err_ns + (below > above ? below : above);
}

/* ---- one capture ---- */

#define TIME_MAX (1ULL << 62)

static int on_control(void *arg, const struct ptb_rec_hdr *rec)
{
	struct join_input *in = arg;
	const struct ptb_clock *c = (const void *)rec;
	const struct ptb_counter *n = (const void *)rec;

	if (rec->kind == PTB_REC_CLOCK && rec->ts_ns < TIME_MAX && c->real_ns < TIME_MAX &&
	    c->err_ns < TIME_MAX)
		add_pair(&in->clock, rec->ts_ns, c->real_ns, c->err_ns);
	if (rec->kind == PTB_REC_COUNTER && !rec->tgid &&
	    n->id < sizeof(in->counters) / sizeof(in->counters[0])) {
		in->counters[n->id] = n->value;
		in->has_counter[n->id] = true;
	}
	return 0;
}

static void read_processes(struct join_input *in, const struct session_info *info)
{
	for (uint32_t i = 0; i < info->process_cnt; i++) {
		struct join_process *p =
			list__keyed(KEYED_LIST(in, procs, proc), info->processes[i].tgid, 0);

		p->tgid = info->processes[i].tgid;
		p->has_rank = job_json__rank_of(&info->processes[i], &p->rank);
	}
}

/* What the model makes of a capture depends on these: one capture has one value. */
static const char *const same_keys[] = { "args",         "profile_memory", "kernel_memory",
					 "with_stack",   "with_modules",   "sample_hz",
					 "with_samples", "sched" };

static int check_alike(const struct join *j, const struct session *s, const char *path,
		       char (*values)[32])
{
	for (size_t i = 0; i < sizeof(same_keys) / sizeof(same_keys[0]); i++) {
		const char *json = session__meta(s, same_keys[i]);
		char now[32];

		snprintf(now, sizeof(now), "%s", json ? json : "none");
		if (path == j->inputs[0].path)
			snprintf(values[i], sizeof(values[i]), "%s", now);
		if (!strcmp(values[i], now))
			continue;
		pr_error("%s and %s were recorded with different options (%s: %s, %s)",
			 j->inputs[0].path, path, same_keys[i], values[i], now);
		pr_hint("record all ranks with the same options");
		return -EINVAL;
	}
	return 0;
}

static int take_facts(struct join *j, struct join_input *in, const struct session *s,
		      char (*values)[32])
{
	const struct session_info *info = session__info(s);

	session_json__meta_text(s, "host", in->host, sizeof(in->host));
	session_json__meta_text(s, "boot_id", in->boot, sizeof(in->boot));
	session_json__meta_text(s, "pid_namespace", in->pid_ns, sizeof(in->pid_ns));
	in->begin_ns = info->begin_ns;
	in->end_ns = info->end_ns;
	in->sealed = info->sealed;
	in->stop_reason = info->stop_reason;
	if (!in->clock.pairs) {
		pr_error("%s has no clock pair: its times cannot be compared with others",
			 in->path);
		return -ENODATA;
	}
	if (check_alike(j, s, in->path, values))
		return -EINVAL;
	read_processes(in, info);
	return 0;
}

static int read_input(struct join *j, uint32_t i, char (*values)[32])
{
	const struct session_opts opts = { .no_steps = true };
	struct join_input *in = &j->inputs[i];
	struct session_totals totals = { 0 };
	struct session_sink sink;
	struct session *s = NULL;
	int err = capture_reader__control(in->cr, on_control, in);

	if (!err)
		err = session__open(in->cr, &opts, &s);
	if (!err)
		err = take_facts(j, in, s, values);
	if (!err) {
		collectives__begin(&j->calls, s, i);
		sink = collectives__sink(&j->calls);
		err = session__run(s, &sink, 1, &totals);
	}
	collectives__end(&j->calls);
	session__free(s);
	if (err && !log__has_error())
		pr_error("%s cannot be read: %s", in->path, errstr(err));
	return err;
}

int join__read_inputs(struct join *j)
{
	char values[sizeof(same_keys) / sizeof(same_keys[0])][32];
	int err = 0;

	for (uint32_t i = 0; i < j->cnt && !err; i++) {
		j->inputs[i].map.space = &j->space;
		err = read_input(j, i, values);
	}
	return err;
}
