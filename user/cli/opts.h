/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Options as rows: a row holds everything about an option (names, type, destination, prose), and
 * parsing, checking and help all come from it. Destinations are fields of one config struct per
 * command.
 */
#ifndef CLI_OPTS_H
#define CLI_OPTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

struct words;

#define OPT_PIDS_MAX 256

struct pid_list {
	pid_t pids[OPT_PIDS_MAX];
	uint32_t cnt;
};

enum opt_type {
	OPT_GROUP,    /* no option: a heading in the help */
	OPT_FLAG,     /* bool */
	OPT_SWITCH,   /* int: 1 for --name, -1 for --no-name, 0 for neither */
	OPT_STR,      /* const char * */
	OPT_CHOICE,   /* const char *: one of a list */
	OPT_INT,      /* int; "HZ=99": that without a value, at the end or before an option */
	OPT_DURATION, /* uint64_t ns: "5s", "250ms", "1m30s", plain number: seconds */
	OPT_SIZE,     /* uint64_t bytes: "4MiB", "64k" */
	OPT_PIDS,     /* struct pid_list: "12,34"; repeatable */
};

enum opt_rank {
	OPT_RARE,
	OPT_BASIC, /* -h has it, too, in commands with many options */
};

struct opt_def {
	enum opt_type type;
	char letter;      /* 0: none */
	const char *name; /* without dashes */
	size_t offset;    /* of the destination in the config struct */
	const char *arg;  /* placeholder for the help; OPT_CHOICE: "MODE=auto, off" */
	const char *help;
	enum opt_rank rank;
};

struct cmd_usage {
	const char *name;           /* "attach" */
	const char *synopsis;       /* "--pid PID[,PID...] [options]" */
	const char *summary;        /* a sentence or two */
	const char *examples;       /* real invocations, a line each, or NULL */
	const struct opt_def *opts; /* ends with a row without name and help */
	bool command; /* the first word that is no option starts a command line (record) */
	bool pids;    /* words that are no options are values of --pid */
};

#define OPTS_ERROR (-1)
#define OPTS_HELP (-2)

/* Words that are no options: the captures of report and export. */
struct opt_words {
	const char **list; /* room for max */
	uint32_t max, cnt;
};

/*
 * Parses argv[1..] into cfg. Returns the index of the first word after the options (argc if none),
 * OPTS_ERROR (reported on stderr), or OPTS_HELP (printed on stdout). "--" ends the options. words:
 * NULL: the command takes none.
 */
int opts__parse(const struct cmd_usage *usage, void *cfg, int argc, char **argv,
		struct opt_words *words);
/* The options that cfg has, but for `except` (NULL: none), as words "--NAME=VALUE", which an
 * opts__parse() of the same rows takes. */
void opts__words(const struct opt_def *defs, const char *except, const void *cfg,
		 struct words *words);
/* NULL: there is none */
const struct opt_def *opts__find(const struct cmd_usage *usage, const char *name);
/* Sets the option as a configuration file does: one that takes no value has yes or no. cfg may keep
 * value. 0 or -EINVAL (reported). */
int opts__set(const struct opt_def *d, void *cfg, const char *value);
bool opts__is_end(const struct opt_def *d); /* the row that ends the list */
bool opts__takes_value(const struct opt_def *d);
const char *opts__choices(const struct opt_def *d);  /* "auto, off"; NULL: no OPT_CHOICE */
int opts__arg_len(const struct opt_def *d);          /* of the placeholder, 0: none */
const char *opts__expected(const struct opt_def *d); /* its valid values, for a message */

/* ---- help ---- */

#define OPTS_TIME "500ms, 5s, 2m, 1m30s, 1h; without a unit: seconds"
#define OPTS_SIZE "64k, 4MiB, 2GiB; without a unit: bytes"

bool opts__has_type(const struct cmd_usage *usage, bool all, enum opt_type type);
/* all: also what is not basic. */
void opts__help(const struct cmd_usage *usage, bool all, FILE *out);
/*
 * The text's words on lines as wide as the terminal that standard output is; `at` columns of the
 * first one are taken, the others are indented by as many as `hang` says. Ends the last line.
 */
void help__text(FILE *out, const char *text, int at, int hang);

/* The known word that a mistyped one may stand for. */
struct guess {
	const char *word;
	size_t len;       /* of what counts of it */
	const char *best; /* NULL: none is near */
	size_t distance;
};
void guess__try(struct guess *g, const char *known);

#endif /* CLI_OPTS_H */
