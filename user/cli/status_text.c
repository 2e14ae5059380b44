/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See status_text.h. */
#include "cli/status_text.h"

#include <string.h>
#include <time.h>

#include "report/report_out.h"

#define TARGETS_SHOWN 32
#define NAME_CHARS 15
#define TEXT_CHARS 300

static const cJSON *get(const cJSON *o, const char *key)
{
	return cJSON_GetObjectItemCaseSensitive(o, key);
}

static bool has(const cJSON *o, const char *key)
{
	return get(o, key) != NULL;
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

/* At least `width` columns. */
static void put_cell(FILE *out, const char *t, size_t max, int width)
{
	size_t n = cell__put_text(out, t, max);

	fprintf(out, "%*s", n < (size_t)width ? width - (int)n : 0, "");
}

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

static void put_head(FILE *out, const cJSON *status)
{
	const cJSON *d = get(status, "daemon"), *w = get(status, "windows"),
		    *c = get(status, "cost"), *disk = get(status, "disk");
	double of = number(c, "of_seconds");

	fprintf(out, "ptbpf sample, pid %.0f, for %s%s: ", number(d, "pid"),
		span((number(d, "now_unix_ns") - number(d, "begin_unix_ns")) / 1e9).text,
		cJSON_IsTrue(get(d, "ending")) ? ", ending" : "");
	cell__put_text(out, text(d, "dir"), TEXT_CHARS);
	fputs("\nschedule ", out);
	cell__put_text(out, text(d, "schedule"), TEXT_CHARS);
	if (has(d, "off")) {
		fputs("; switched off: ", out);
		cell__put_text(out, text(d, "off"), 8);
	}
	fprintf(out, "\nwindows: %.0f complete, %.0f incomplete, %.0f failed, %.0f skipped; lost %.0f records\n",
		number(w, "complete"), number(w, "incomplete"), number(w, "failed"),
		number(w, "skipped"), number(w, "lost"));
	fprintf(out, "cost: %.3f %%", of > 0 ? 100 * number(c, "charged_seconds") / of : 0);
	if (has(c, "max_overhead"))
		fprintf(out, " of at most %.3g %%", 100 * number(c, "max_overhead"));
	fprintf(out, "; disk: %s", cell__bytes(number(disk, "bytes")).text);
	if (has(disk, "max_bytes"))
		fprintf(out, " of at most %s", cell__bytes(number(disk, "max_bytes")).text);
	fprintf(out, ", %s free\n", cell__bytes(number(disk, "free_bytes")).text);
}

static void put_targets(FILE *out, const cJSON *status)
{
	const cJSON *t;
	int shown = 0;

	fprintf(out, "\n%10s  %-*s  %5s  %s\n", "PID", NAME_CHARS, "NAME", "RANK", "JOB");
	cJSON_ArrayForEach(t, get(status, "targets"))
	{
		if (shown++ == TARGETS_SHOWN)
			break;
		fprintf(out, "%10.0f  ", number(t, "pid"));
		put_cell(out, text(t, "name"), NAME_CHARS, NAME_CHARS);
		fprintf(out, "  %5s  ",
			has(t, "rank") ? cell__format("%.0f", number(t, "rank")).text : "-");
		put_cell(out, has(t, "job") ? text(t, "job") : "-", 80, 0);
		fputc('\n', out);
	}
	if (number(status, "selected") > TARGETS_SHOWN)
		fprintf(out, "%10s  %.0f more\n", "", number(status, "selected") - TARGETS_SHOWN);
	else if (!shown)
		fprintf(out, "%10s  no process is selected now\n", "");
}

static void put_row(FILE *out, const cJSON *w, const char *state)
{
	fprintf(out, "%10.0f  %-14s  ", number(w, "window"), clock_time(number(w, "begin_unix_ns")).text);
	put_cell(out, text(w, "trigger"), 10, 10);
	fprintf(out, "  %-11s", state);
}

/* A line of the log. */
static void put_ended(FILE *out, const cJSON *w)
{
	static const char *const states[] = { "complete", "failed", "failed", "incomplete" };
	double code = number(w, "exit");

	put_row(out, w, code >= 0 && code <= 3 ? states[(int)code] : "failed");
	if (has(w, "slices"))
		fprintf(out, "  %8.2f  %9s  %6.0f  %s", number(w, "seconds"),
			cell__count((uint64_t)number(w, "slices")).text, number(w, "lost"),
			has(w, "cost_share") ?
				cell__format("%.2f %%", 100 * number(w, "cost_share")).text :
				"-");
	fputc('\n', out);
}

static void put_windows(FILE *out, const cJSON *windows, double now_ns)
{
	const cJSON *w;

	fprintf(out, "\n%10s  %-14s  %-10s  %-11s  %8s  %9s  %6s  %s\n", "WINDOW", "BEGIN",
		"TRIGGER", "STATE", "SECONDS", "SLICES", "LOST", "COST");
	cJSON_ArrayForEach(w, get(windows, "last")) put_ended(out, w);
	cJSON_ArrayForEach(w, get(windows, "in_hand"))
	{
		put_row(out, w, text(w, "state"));
		fprintf(out, "  %.0f processes\n", number(w, "processes"));
	}
	cJSON_ArrayForEach(w, get(windows, "next"))
	{
		put_row(out, w, "due");
		if (has(w, "begin_unix_ns"))
			fprintf(out, "  in %s", span((number(w, "begin_unix_ns") - now_ns) / 1e9).text);
		fputc('\n', out);
	}
}

void status_text__put(FILE *out, const cJSON *status)
{
	put_head(out, status);
	put_targets(out, status);
	put_windows(out, get(status, "windows"), number(get(status, "daemon"), "now_unix_ns"));
}
