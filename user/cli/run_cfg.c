/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What the options of a recording mean; see run.h. */
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "cli/run.h"

enum probe_args run_cfg__args(const struct run_cfg *cfg)
{
	if (cfg->execution_trace || cfg->et)
		return PROBE_ARGS_FULL;
	return cfg->record_shapes || cfg->with_flops || cfg->by_shape ? PROBE_ARGS_SHAPES : PROBE_ARGS_NONE;
}

/* Is the word in a list like "cpu,cuda"? */
static bool has_word(const char *list, const char *word)
{
	size_t n = strlen(word);
	const char *at;

	for (at = list; (at = strstr(at, word)); at += n)
		if ((at == list || at[-1] == ',') && (!at[n] || at[n] == ','))
			return true;
	return false;
}

bool run_cfg__ops(const struct run_cfg *cfg)
{
	return !cfg->activities || has_word(cfg->activities, "cpu");
}

bool run_cfg__gpu(const struct run_cfg *cfg)
{
	return (!cfg->activities || has_word(cfg->activities, "cuda")) &&
	       (!cfg->gpu || strcmp(cfg->gpu, "off") != 0);
}

bool run_cfg__sync(const struct run_cfg *cfg)
{
	return cfg->activities && has_word(cfg->activities, "sync");
}

/* Words of a list, each once, and something to record among them. */
static bool activities_ok(const char *list)
{
	static const char *const words[] = { "cpu", "cuda", "sync" };
	size_t i, len = 0;

	for (i = 0; i < sizeof(words) / sizeof(*words); i++)
		len += has_word(list, words[i]) ? strlen(words[i]) + 1 : 0;
	return strlen(list) + 1 == len && (has_word(list, "cuda") || !strcmp(list, "cpu"));
}

enum agent_mode run_cfg__agent(const struct run_cfg *cfg)
{
	if (!cfg->agent || !strcmp(cfg->agent, "auto"))
		return AGENT_AUTO;
	return strcmp(cfg->agent, "off") ? AGENT_INJECT : AGENT_OFF;
}

int run_cfg__check(const struct run_cfg *cfg)
{
	if (cfg->activities && !activities_ok(cfg->activities)) {
		pr_error("--activities %s: valid values are cpu, cuda and, with cuda, sync "
			 "(cpu,cuda,sync)", cfg->activities);
		return -EINVAL;
	}
	return 0;
}
