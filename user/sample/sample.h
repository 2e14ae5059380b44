/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What ptbpf sample is to do: its options, from the command line and from a configuration file, which can be read again. */
#ifndef CLI_SAMPLE_OPTS_H
#define CLI_SAMPLE_OPTS_H

#include <stdint.h>

#include "cli/live.h"
#include "sample/control.h"
#include "sample/event_rules.h"
#include "sample/proc_select.h"
#include "sample/schedule.h"
#include "sample/window.h"

#define SAMPLE_CONTROL_OFF "off"

/* Of --process-limit: where processes share probes, and where each has its own. */
#define SAMPLE_LIMIT_AUTO INT32_MIN
#define SAMPLE_LIMIT_SHARED 32
#define SAMPLE_LIMIT_OWN 16

struct conf;

struct sample_cfg {
	struct run_cfg run; /* first: rows of options that commands share have offsets in it */
	const char *config;
	const char *schedule, *dir, *traces, *on_window;
	const char *max_overhead, *metrics, *control;
	const char *open_on;
	uint64_t open_interval_ns; /* OPEN_INTERVAL_UNSET: not given */
	uint64_t max_disk;
	int process_limit; /* of a window, when they are selected; SAMPLE_LIMIT_AUTO */
	struct proc_select select;
};

/* Held by the sampler and by each window in hand. */
struct sample_settings {
	uint32_t holders;
	struct sample_cfg cfg;
	struct schedule schedule;
	struct event_rules events;     /* of --open-on */
	double max_overhead;           /* share of the time, 0: no limit */
	struct window_options options; /* of its windows */
	struct words follow_args;      /* of ptbpf follow, with --open-on */
	struct conf *conf;             /* has texts of cfg; NULL: no file */
	/* ptbpf trigger --toggle: `cfg` of another one, which is held, without an activity. NULL: nothing is switched off. */
	struct sample_settings *base;
	const char *off;     /* "cpu" or "cuda", NULL likewise */
	char activities[32]; /* those that are left */
};

/* The command line wins over the file. 0, OPTS_ERROR (reported) or OPTS_HELP (printed). */
int sample_settings__load(int argc, char **argv, struct sample_settings **out);
/* The same again, of a sample that runs with `old`: 0, or OPTS_ERROR (reported) when they are not valid or differ in what
 * cannot change. */
int sample_settings__reload(int argc, char **argv, const struct sample_settings *old,
			    struct sample_settings **out);
/*
 * The same settings with activities switched on or off, one of them at most: 0, *out to be released (it may be `set` or its base); -EINVAL: `why` has a
 * sentence.
 */
int sample_settings__toggle(struct sample_settings *set, const struct control_request *rq,
			    struct sample_settings **out, char *why, size_t cap);
/* Sets the command lines of the programs that record, by set->cfg.run. */
void sample_settings__set_words(struct sample_settings *set);
struct sample_settings *sample_settings__hold(struct sample_settings *set); /* which it returns */
void sample_settings__release(struct sample_settings *set); /* the last holder frees it; NULL is fine */

#endif /* CLI_SAMPLE_OPTS_H */
