/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See control_client.h. */
#include "cli/control_client.h"

#include <string.h>
#include <time.h>

#include "base/text.h"
#include "report/report.h"

#define TARGETS_SHOWN 32
#define TEXT_CHARS 300

static const cJSON *get(const cJSON *o, const char *key)
{
	return cJSON_GetObjectItemCaseSensitive(o, key);
}

/* 0 where there is none. */
static double number(const cJSON *o, const char *key)
{
	const cJSON *v = get(o, key);

	return cJSON_IsNumber(v) ? v->valuedouble : 0;
}

static const char *text(const cJSON *o, const char *key)
{
	const char *t = cJSON_GetStringValue(get(o, key));

	return t ? t : "";
}

/* ---- units ---- */

/* "4 min 12 s" */
static struct cell span(double s)
{
	unsigned long long v = s > 0 && s < 1e12 ? (unsigned long long)s : 0;

	if (v >= 86400)
		return cell__format("%llu d %llu h", v / 86400, v / 3600 % 24);
	if (v >= 3600)
		return cell__format("%llu h %llu min", v / 3600, v / 60 % 60);
	if (v >= 60)
		return cell__format("%llu min %llu s", v / 60, v % 60);
	return cell__format("%.1f s", s > 0 ? s : 0);
}

static struct cell clock_time(double unix_ns)
{
	time_t t = (time_t)(unix_ns / 1e9);
	struct tm tm;
	char buf[32] = "-";

	if (unix_ns > 0 && unix_ns < 1e19 && localtime_r(&t, &tm))
		strftime(buf, sizeof(buf), "%m-%d %H:%M:%S", &tm);
	return cell__format("%s", buf);
}

static struct cell percent(double share)
{
	return cell__format("%.2f %%", 100 * share);
}

/* ---- the document ---- */

static void say_head(struct doc *d, const cJSON *status)
{
	const cJSON *daemon = get(status, "daemon"), *w = get(status, "windows"),
		    *c = get(status, "cost"), *disk = get(status, "disk");
	double of = number(c, "of_seconds");

	doc__say(d, "ptbpf sample, pid %.0f, for %s%s: ", number(daemon, "pid"),
		 span((number(daemon, "now_unix_ns") - number(daemon, "begin_unix_ns")) / 1e9).text,
		 cJSON_IsTrue(get(daemon, "ending")) ? ", ending" : "");
	doc__cut(d, text(daemon, "dir"), "", TEXT_CHARS);
	doc__end_line(d);
	doc__say(d, "schedule ");
	doc__cut(d, text(daemon, "schedule"), "", TEXT_CHARS);
	if (get(daemon, "off"))
		doc__say(d, "; switched off: %.8s", text(daemon, "off"));
	doc__end_line(d);
	doc__line(
		d,
		"windows: %.0f complete, %.0f incomplete, %.0f failed, %.0f skipped; lost %.0f records",
		number(w, "complete"), number(w, "incomplete"), number(w, "failed"),
		number(w, "skipped"), number(w, "lost"));
	doc__say(d, "cost: %.3f %%", of > 0 ? 100 * number(c, "charged_seconds") / of : 0);
	if (get(c, "max_overhead"))
		doc__say(d, " of at most %.3g %%", 100 * number(c, "max_overhead"));
	doc__say(d, "; disk: %s", cell__bytes(number(disk, "bytes")).text);
	if (get(disk, "max_bytes"))
		doc__say(d, " of at most %s", cell__bytes(number(disk, "max_bytes")).text);
	doc__line(d, ", %s free", cell__bytes(number(disk, "free_bytes")).text);
}

/* The facts of a row are the members of an object. */
static void add_members(struct doc *d, const cJSON *row)
{
	const cJSON *v;

	cJSON_ArrayForEach(v, row)
	{
		if (cJSON_IsNumber(v))
			DOC(d, FACT(v->string, v->valuedouble));
		else if (cJSON_IsString(v))
			DOC(d, FACT(v->string, v->valuestring));
	}
}

static void add_targets(struct doc *d, const cJSON *status)
{
	static const struct doc_column columns[] = {
		{ "pid", "PID", 7, NULL, 0, 0 },
		{ "rank", "RANK", 5, NULL, 0, 0 },
		{ "job", "JOB", -20, NULL, 0, 1 },
		{ "script", "SCRIPT", -1, NULL, 0, 0 },
		{ 0 },
	};
	const cJSON *targets = get(status, "targets");
	uint32_t cnt = (uint32_t)cJSON_GetArraySize(targets);

	doc__gap(d);
	doc__all(d, "targets", cnt < TARGETS_SHOWN ? cnt : TARGETS_SHOWN, columns);
	for (uint32_t i; doc__next(d, &i);) {
		const cJSON *target = cJSON_GetArrayItem(targets, (int)i);

		add_members(d, target);
		DOC(d, FACT("rank", "-"), FACT("job", "-"), FACT("script", text(target, "name")));
	}
	if (number(status, "selected") > TARGETS_SHOWN)
		doc__line(d, "%7s  %.0f more", "", number(status, "selected") - TARGETS_SHOWN);
	else if (!cnt)
		doc__line(d, "no process is selected now");
}

static void add_windows(struct doc *d, const cJSON *windows, double now_ns)
{
	static const struct doc_column columns[] = {
		{ "window", "WINDOW", 7, NULL, 0, 0 },
		{ "begin_unix_ns", "BEGIN", -14, clock_time, 0, 0 },
		{ "trigger", "TRIGGER", -10, NULL, 0, 1 },
		{ "state", "STATE", -11, NULL, 0, 0 },
		{ "seconds", "TIME", 8, span, 0, 0 },
		{ "slices", "SLICES", 8, unit__count, 0, 0 },
		{ "lost", "LOST", 5, NULL, 0, 0 },
		{ "cost_share", "COST", 8, percent, 0, 0 },
		{ ".note", "", -1, NULL, 0, 0 },
		{ 0 },
	};
	static const char *const ended[] = { "complete", "failed", "failed", "incomplete" };
	const char *lists[] = { "last", "in_hand", "next" };
	cJSON *all = cJSON_CreateArray(), *w;

	for (uint32_t n = 0; n < 3; n++)
		cJSON_ArrayForEach(w, get(windows, lists[n])) cJSON_AddItemReferenceToArray(all, w);
	doc__gap(d);
	doc__all(d, "windows", (uint32_t)cJSON_GetArraySize(all), columns);
	for (uint32_t i; doc__next(d, &i);) {
		double code;

		w = cJSON_GetArrayItem(all, (int)i);
		code = number(w, "exit");
		if (get(w, "exit"))
			doc__cell(d, "state", "%s", ended[code >= 0 && code <= 3 ? (int)code : 1]);
		else if (!get(w, "state"))
			doc__cell(d, "state", "due");
		if (get(w, "state"))
			doc__cell(d, ".note", "%.0f process%s", number(w, "processes"),
				  plural((uint64_t)number(w, "processes"), "es"));
		else if (!get(w, "exit") && get(w, "begin_unix_ns"))
			doc__cell(d, ".note", "in %s",
				  span((number(w, "begin_unix_ns") - now_ns) / 1e9).text);
		add_members(d, w);
		DOC(d, FACT("begin_unix_ns", "-"),
		    get(w, "slices") ? FACT("cost_share", "-") : NO_FACT);
	}
	cJSON_Delete(all);
}

void status_text__put(FILE *out, const cJSON *status)
{
	const struct output_args args = { .row_limit = -1,
					  .out = out,
					  .columns = terminal__columns(fileno(out)),
					  .colour = terminal__colour(fileno(out)) };
	struct doc d;

	doc__begin(&d, &args);
	say_head(&d, status);
	add_targets(&d, status);
	add_windows(&d, get(status, "windows"), number(get(status, "daemon"), "now_unix_ns"));
	doc__finish(&d);
}
