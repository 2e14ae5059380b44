/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The table for machines: the same rows in the same order with exact numbers, and the session's facts
 * and loss account. Key names are a contract: schemas/formats/report.schema.json.
 */
#define LOG_DOMAIN "table"
#include <errno.h>
#include <stdlib.h>

#include "base/jsonw.h"
#include "export/session_json.h"
#include "report/table_rows.h"

static void put_u64(struct jsonw *w, const char *key, uint64_t v)
{
	jsonw__key(w, key);
	jsonw__u64(w, v);
}

static void put_share(struct jsonw *w, const char *key, double us, double sum)
{
	jsonw__key(w, key);
	if (sum > 0.0)
		jsonw__double(w, us * 100.0 / sum);
	else
		jsonw__null(w);
}

static void put_i64(struct jsonw *w, const char *key, int64_t v)
{
	jsonw__key(w, key);
	jsonw__i64(w, v);
}

static const char *category(const struct ka_row *r)
{
	if (r->category)
		return r->category;
	return r->is_annotation ? "user_annotation" :
	       r->is_instant    ? "cpu_instant_event" :
				  "cpu_op";
}

struct columns {
	struct table_sums sums;
	uint64_t begin_ns;
	bool flops, memory, device;
};

static void write_device(struct jsonw *w, const struct ka_row *r, double sum)
{
	put_u64(w, "self_device_ns", r->self_device_ns);
	put_share(w, "self_device_percent", table_rows__us(r->self_device_ns), sum);
	put_u64(w, "device_total_ns", r->device_total_ns);
	jsonw__key(w, "device_avg_ns");
	jsonw__double(w, r->count ? (double)r->device_total_ns / (double)r->count : 0.0);
}

static void write_row(struct jsonw *w, const struct ka_row *r, const struct columns *c)
{
	double sum = c->sums.self_cpu;

	jsonw__break(w);
	jsonw__begin_obj(w);
	jsonw__key(w, "key");
	jsonw__str(w, r->key);
	jsonw__key(w, "category");
	jsonw__str(w, category(r));
	put_u64(w, "count", r->count);
	put_u64(w, "self_cpu_ns", r->self_cpu_ns);
	put_share(w, "self_cpu_percent", table_rows__us(r->self_cpu_ns), sum);
	put_u64(w, "cpu_total_ns", r->cpu_total_ns);
	put_share(w, "cpu_total_percent", table_rows__us(r->cpu_total_ns), sum);
	jsonw__key(w, "cpu_avg_ns");
	jsonw__double(w, r->count ? (double)r->cpu_total_ns / (double)r->count : 0.0);
	if (c->device)
		write_device(w, r, c->sums.device);
	put_u64(w, "first_begin_ns",
		r->first_begin_ns > c->begin_ns ? r->first_begin_ns - c->begin_ns : 0);
	if (r->shapes && r->shapes[0]) {
		jsonw__key(w, "input_shapes");
		jsonw__str(w, r->shapes);
	}
	if (c->flops)
		put_u64(w, "flops", r->flops);
	if (c->memory) {
		put_i64(w, "cpu_mem_bytes", r->cpu_mem);
		put_i64(w, "self_cpu_mem_bytes", r->self_cpu_mem);
		put_i64(w, "device_mem_bytes", r->device_mem);
		put_i64(w, "self_device_mem_bytes", r->self_device_mem);
	}
	jsonw__end_obj(w);
}

int table__print_json(const struct ka_row *rows, uint32_t cnt, const struct table_opts *opts,
		      const struct session *s, const struct session_totals *totals, FILE *out)
{
	const struct ka_row **list = table_rows__sorted(rows, cnt, opts);
	const struct session_info *info = session__info(s);
	uint32_t shown = table_rows__shown(cnt, opts), i;
	struct jsonw w = { 0 };
	struct columns c = { .begin_ns = info->begin_ns,
			     .memory = opts->profile_memory,
			     .device = opts->device_time };
	int err = list ? jsonw__init(&w, jsonw__to_stream, out, 64 * 1024) : -ENOMEM;

	if (err)
		goto done;
	c.sums = table_rows__sums(list, cnt);
	for (i = 0; i < cnt; i++)
		c.flops |= list[i]->flops > 0;
	jsonw__begin_obj(&w);
	put_u64(&w, "schema_version", 1);
	session_json__write(&w, s, PTBPF_VERSION);
	session_json__write_totals(&w, info, totals);
	jsonw__key(&w, "sort_by");
	if (opts->sort_by)
		jsonw__str(&w, opts->sort_by);
	else
		jsonw__null(&w);
	put_u64(&w, "row_count", cnt);
	jsonw__key(&w, "rows");
	jsonw__begin_arr(&w);
	for (i = 0; i < shown; i++)
		write_row(&w, list[i], &c);
	jsonw__end_arr(&w);
	jsonw__end_obj(&w);
	jsonw__newline(&w);
	err = jsonw__flush(&w);
	if (!err && fflush(out))
		err = -errno;
done:
	jsonw__free(&w);
	free(list);
	return err;
}
