/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What the options of a recording mean; see run_opts.h. */
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "cli/run_opts.h"

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

/* Words of a list, each once, and something to record among them. */
static bool activities_ok(const char *list)
{
	static const char *const words[] = { "cpu", "cuda", "sync" };
	size_t i, len = 0;

	for (i = 0; i < sizeof(words) / sizeof(*words); i++)
		len += has_word(list, words[i]) ? strlen(words[i]) + 1 : 0;
	return strlen(list) + 1 == len && (has_word(list, "cuda") || !strcmp(list, "cpu"));
}

static enum probe_args args_of(const struct run_cfg *cfg)
{
	if (cfg->execution_trace || cfg->et)
		return PROBE_ARGS_FULL;
	return cfg->record_shapes || cfg->with_flops || cfg->by_shape ? PROBE_ARGS_SHAPES :
									PROBE_ARGS_NONE;
}

static enum agent_mode agent_of(const struct run_cfg *cfg)
{
	if (!cfg->agent || !strcmp(cfg->agent, "auto"))
		return AGENT_AUTO;
	return strcmp(cfg->agent, "off") ? AGENT_INJECT : AGENT_OFF;
}

int run_cfg__resolve(struct run_cfg *cfg)
{
	const char *list = cfg->activities;

	if (list && !activities_ok(list)) {
		pr_error("--activities %s: valid values are cpu, cuda and, with cuda, sync "
			 "(cpu,cuda,sync)",
			 list);
		return -EINVAL;
	}
	cfg->rec.args = args_of(cfg);
	cfg->rec.agent = agent_of(cfg);
	cfg->rec.ops = !list || has_word(list, "cpu");
	cfg->rec.gpu = (!list || has_word(list, "cuda")) && (!cfg->gpu || strcmp(cfg->gpu, "off") != 0);
	cfg->rec.sync = list && has_word(list, "sync");
	return 0;
}
