/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The formats of `ptbpf export`: one row each. */
#ifndef EXPORT_FORMATS_H
#define EXPORT_FORMATS_H

#include <stddef.h>

#include "export/mem_timeline.h"

enum export_kind {
	EXPORT_CHROME,
	EXPORT_ET,
	EXPORT_TIMELINE,
	EXPORT_STACKS,
	EXPORT_THREADS,
	EXPORT_FLAMEGRAPH
};
struct export_format {
	const char *name;    /* value of --format */
	const char *summary; /* one line of help */
	const char *suffix;  /* default file name suffix */
	enum export_kind kind;
	enum timeline_format timeline;
};
extern const struct export_format export_formats[];
extern const size_t export_format_cnt;

/* Whose file it is, in a format of one process: `tgid`, or the first one for 0. 0 or negative errno, logged. */
int export__choose_process(const struct session_info *info, const char *path, uint32_t tgid,
			   uint32_t *out);

#endif /* EXPORT_FORMATS_H */
