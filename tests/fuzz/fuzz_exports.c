/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Every JSON document of a session, parsed again; see fuzz_exports.h. */
#include "fuzz_exports.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/text.h"
#include "export/output.h"
#include "model/key_averages.h"
#include "report/report.h"

#define REPORTS 3 /* kinds on a stream; those in files follow */
#define KINDS (REPORTS + 8)

static void check_document(const char *text, size_t len, const char *what)
{
	const char *p = text, *end = text + len, *parsed = NULL;
	cJSON *tree = cJSON_ParseWithLengthOpts(text, len, &parsed, 0);

	while (parsed && parsed < end && strchr(" \n", *parsed))
		parsed++;
	if (!tree || parsed != end) {
		fprintf(stderr, "%s is not JSON:\n%.*s\n", what, (int)len, text);
		abort();
	}
	cJSON_Delete(tree);
	while (p < end) {
		uint32_t c;
		size_t n = utf8__decode(p, end, &c);

		if (!n || (c != '\n' && !term_char__plain(c))) {
			fprintf(stderr, "%s has bytes that are no plain text at %zu\n", what,
				(size_t)(p - text));
			abort();
		}
		p += n;
	}
}

static void check_report(struct session *s, unsigned int kind)
{
	static const struct output *const reports[] = { &operators_report, &memory_report, &gpus_report };
	static const char *const names[] = { "table", "memory report", "gpu report" };
	struct session_totals totals;
	struct session_sink sink;
	char *text = NULL;
	size_t len;
	struct output_args args = {
		.output = reports[kind], .s = s, .totals = &totals, .json = true, .row_limit = -1
	};
	void *o;

	args.out = open_memstream(&text, &len);
	if (args.output->open(&args, &o))
		abort();
	sink = args.output->sink(o);
	if (session__run(s, &sink, 1, &totals) || args.output->finish(o, &args))
		abort();
	fclose(args.out);
	check_document(text, len, names[kind]);
	free(text);
	args.output->free(o);
}

static int write_file(struct session *s, unsigned int kind, int fd)
{
	static const struct output *const formats[] = {
		&chrome_output,     &et_output,    &timeline_output,        &timeline_raw_output,
		&speedscope_output, &pprof_output, &memory_snapshot_output, &perfetto_output
	};
	struct session_totals totals;
	const struct output_args args = { .output = formats[kind],
					  .s = s,
					  .capture = "a capture",
					  .path = "a file",
					  .fd = fd,
					  .totals = &totals };
	struct session_sink sink;
	void *o = NULL;
	int err = args.output->open(&args, &o);

	if (!err) {
		sink = args.output->sink(o);
		err = session__run(s, &sink, 1, &totals);
	}
	if (!err)
		err = args.output->finish(o, &args);
	args.output->free(o);
	return err;
}

/* An exporter may refuse, with a sentence; what it writes is JSON, where it has a name here. */
static void check_file(struct session *s, unsigned int kind)
{
	static const char *const names[] = { "Chrome trace", "Execution Trace",
					     "timeline",     "raw timeline",
					     "profiles",     NULL,
					     NULL,           NULL };
	int fd = memfd_create("export", 0);
	char *text;
	off_t len;

	if (fd < 0)
		abort();
	if (!write_file(s, kind, fd) && names[kind]) {
		len = lseek(fd, 0, SEEK_END);
		text = xmalloc((size_t)len + 1);
		if (pread(fd, text, (size_t)len, 0) != len)
			abort();
		check_document(text, (size_t)len, names[kind]);
		free(text);
	}
	close(fd);
}

void check_exports(struct session *s)
{
	static unsigned int next;
	unsigned int kind = next++ % KINDS;

	if (kind < REPORTS)
		check_report(s, kind);
	else
		check_file(s, kind - REPORTS);
}
