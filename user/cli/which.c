/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See which.h. Scripts, arguments and names of users are foreign texts. */
#include "cli/which.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/text.h"
#include "cli/cmd.h"
#include "report/report.h"
#include "target/proc_info.h"

#define USER_MAX 64
#define GPUS 64

static struct cell busy(double cpus)
{
	return cell__format("%.0f %%", 100 * cpus);
}

static const struct doc_column columns[] = {
	{ "pid", "PID", 7, NULL, 0, 0 },
	{ "user", "USER", -8, NULL, 0, 0 },
	{ "cpu", "CPU", 7, busy, 0, 0 },
	{ "gpus", "GPU", -4, NULL, 0, 0 },
	{ "rank", "RANK", 4, NULL, 0, 0 },
	{ "threads", "THREADS", 7, NULL, 0, 2 },
	{ "children", "CHILDREN", 8, NULL, 0, 3 },
	{ "agent", "AGENT", -6, NULL, 0, 1 },
	{ "container", "CONTAINER", -12, NULL, 0, 4 },
	{ "script", "SCRIPT", -1, NULL, 0, 0 },
	{ 0 },
};

/* Numbers of its devices; "cuda": CUDA's driver is loaded, and no device is open. */
static void add_gpus(struct doc *d, const struct proc_view *v)
{
	char text[4 * GPUS] = "";
	size_t len = 0;

	doc__array(d, "gpus");
	for (uint32_t i = 0; i < GPUS; i++) {
		if (!(v->gpus >> i & 1))
			continue;
		DOC(d, FACT(NULL, i));
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%u", len ? "," : "", i);
	}
	doc__end_array(d);
	doc__cell(d, "gpus", "%s", len ? text : v->has.cuda ? "cuda" : "-");
	DOC(d, FACT("cuda", v->has.cuda));
}

static const struct proc_view *find(const struct proc_view *views, uint32_t cnt, pid_t pid)
{
	for (uint32_t i = 0; i < cnt; i++)
		if (views[i].facts.id.pid == pid)
			return &views[i];
	return NULL;
}

static void add_texts(struct doc *d, const struct proc_view *v, const struct proc_view *parent)
{
	const struct proc_facts *f = &v->facts;

	if (parent && !strcmp(parent->facts.script, f->script)) {
		char tail[32];

		snprintf(tail, sizeof(tail), " (child of %d)", v->parent);
		if (d->args->columns)
			doc__tail(d, tail);
		else
			doc__cell(d, "script", "%s%s", f->script, tail);
	}
	if (!*v->container)
		doc__cell(d, "container", "-");
	DOC(d, FACT("script", (const char *)f->script), FACT("command", (const char *)v->command),
	    *v->container ? FACT("container", (const char *)v->container) : NO_FACT,
	    *f->job ? FACT("job", (const char *)f->job) : NO_FACT);
}

static void add_process(struct doc *d, const struct proc_view *v, const struct proc_view *parent)
{
	char user[USER_MAX];

	user_name(v->facts.id.uid, user, sizeof(user));
	DOC(d, FACT("pid", v->facts.id.pid), FACT("parent", v->parent),
	    FACT("uid", v->facts.id.uid), FACT("user", (const char *)user));
	if (v->cpu < 0)
		doc__cell(d, "cpu", "-");
	else
		DOC(d, FACT("cpu", v->cpu));
	add_gpus(d, v);
	if (v->facts.rank < 0)
		doc__cell(d, "rank", "-");
	else
		DOC(d, FACT("rank", v->facts.rank));
	DOC(d, FACT("threads", v->threads), FACT("children", v->children));
	doc__cell(d, "agent", "%s", v->has.agent ? "loaded" : "-");
	DOC(d, FACT("agent", v->has.agent));
	add_texts(d, v, parent);
}

int which__print(const struct output_args *args, const struct proc_view *views, uint32_t cnt,
		 uint32_t unseen)
{
	struct doc d;

	doc__begin(&d, args);
	doc__all(&d, "processes", cnt, columns);
	for (uint32_t i; doc__next(&d, &i);)
		add_process(&d, &views[i], find(views, cnt, views[i].parent));
	DOC(&d, FACT("unseen", unseen));
	if (!cnt)
		doc__line(&d, "no process with PyTorch was found");
	if (unseen)
		doc__line(&d, "%u process%s could not be inspected: %s", unseen,
			  plural(unseen, "es"),
			  geteuid() ? "that needs root" :
				      "the machine's security policy forbids it");
	return doc__finish(&d);
}

static void print_to_stderr(const struct proc_view *views, uint32_t cnt, uint32_t unseen)
{
	const struct output_args args = { .row_limit = -1,
					  .out = stderr,
					  .columns = terminal__columns(STDERR_FILENO) };

	which__print(&args, views, cnt, unseen);
}

/* 0 or negative errno (reported). */
static int list(struct proc_view **views, uint32_t *cnt, uint32_t *unseen)
{
	int err = proc_scout__list(SCOUT_WHOLE, views, cnt, unseen);

	if (err)
		pr_error("cannot list the processes: %s", errstr(err));
	return err;
}

static int offer(const char *command, const char *options, const struct proc_view *views,
		 uint32_t cnt, uint32_t unseen)
{
	pr_error("%s: which process? See 'ptbpf %s -h'. These have loaded PyTorch:", command,
		 command);
	print_to_stderr(views, cnt, unseen);
	if (cnt == 1)
		pr_hint("sudo ptbpf %s %d%s", command, views[0].facts.id.pid, options);
	else
		pr_hint("sudo ptbpf %s PID%s", command, options);
	return EXIT_USAGE;
}

int which__offer(const char *command)
{
	struct proc_view *views;
	uint32_t cnt, unseen;
	int code;

	if (list(&views, &cnt, &unseen))
		return EXIT_FAILED;
	code = offer(command, " -d 5s", views, cnt, unseen);
	free(views);
	return code;
}

int which__only(const char *command, pid_t *pid)
{
	struct proc_view *views;
	uint32_t cnt, unseen, own = 0;
	int code = EXIT_DONE;

	if (list(&views, &cnt, &unseen))
		return EXIT_FAILED;
	for (uint32_t i = 0; i < cnt; i++) {
		if (find(views, cnt, views[i].parent))
			continue;
		*pid = views[i].facts.id.pid;
		own++;
	}
	if (!cnt && !unseen) {
		pr_error("%s: no process with PyTorch was found", command);
		code = EXIT_FAILED;
	} else if (own != 1) {
		code = offer(command, "", views, cnt, unseen);
	}
	free(views);
	return code;
}

/* ---- by name ---- */

static bool is_called(const struct proc_view *v, const char *name)
{
	const char *script;
	size_t len = command__name(v->facts.script, &script);

	return len == strlen(name) && !memcmp(script, name, len);
}

static bool contains(const struct proc_view *v, const char *name)
{
	return strstr(v->command, name) || strstr(v->facts.script, name);
}

/*
 * Moves those that match to the begin, in their order, without those whose parent matches, too: a
 * job's workers have its command line. Returns how many they are.
 */
static uint32_t take_matching(struct proc_view *views, uint32_t cnt, const char *name,
			      bool (*matches)(const struct proc_view *v, const char *name))
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < cnt; i++) {
		const struct proc_view *parent = find(views, cnt, views[i].parent);

		views[i].facts.torch = matches(&views[i], name) &&
				       !(parent && matches(parent, name));
	}
	for (uint32_t i = 0; i < cnt; i++)
		if (views[i].facts.torch)
			views[n++] = views[i];
	return n;
}

int which__named(const char *command, const char *name, pid_t *pid)
{
	struct proc_view *views;
	uint32_t cnt, unseen, n;

	if (list(&views, &cnt, &unseen))
		return EXIT_FAILED;
	n = take_matching(views, cnt, name, is_called);
	if (!n)
		n = take_matching(views, cnt, name, contains);
	if (n == 1)
		*pid = views[0].facts.id.pid;
	else if (n)
		pr_error("%s: %u processes match --name '%s': give the pid of one of them", command,
			 n, name);
	else
		pr_error("%s: no process with PyTorch matches --name '%s'", command, name);
	if (n != 1)
		print_to_stderr(views, n ? n : cnt, unseen);
	free(views);
	return n == 1 ? EXIT_DONE : n ? EXIT_USAGE : EXIT_FAILED;
}
