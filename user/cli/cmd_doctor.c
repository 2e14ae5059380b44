/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* ptbpf doctor: what works on this machine and for a process, what not, why, and the one action. */
#define LOG_DOMAIN "doctor"
#include <capstone/capstone.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/guards.h"
#include "base/jsonw.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "cli/cmd.h"
#include "cli/opts.h"
#include "probe/probe_set.h"
#include "python/python.h"
#include "record/targets.h"
#include "target/proc_info.h"

struct doctor_cfg {
	struct pid_list pids;
	bool json;
};

static const struct opt_def doctor_opts[] = {
	{ OPT_PIDS, 'p', "pid", offsetof(struct doctor_cfg, pids), "PID[,PID...]",
	  "also check these processes" },
	{ OPT_FLAG, 0, "json", offsetof(struct doctor_cfg, json), NULL,
	  "print JSON instead of text" },
	{ OPT_GROUP, 0, NULL, 0, NULL, NULL },
};

const struct cmd_usage doctor_usage = {
	.name = "doctor",
	.synopsis = "[PID[,PID...]] [options]",
	.summary =
		"Checks what works on this machine and, with --pid, for a process. Prints the reason for what does\n"
		"not work, and how to fix it. Attaches only to a child process that it starts, to measure the cost\n"
		"of a probe on this host.",
	.examples = "  sudo ptbpf doctor 4242\n",
	.opts = doctor_opts,
	.pids = true,
};

#define ABILITIES_MAX 16

/* What is printed. */
static struct {
	struct jsonw *json; /* NULL: text */
	pid_t pid;          /* whose rows follow, 0: the machine's */
	struct ability {
		const char *what, *why; /* why it cannot be recorded; NULL: it can */
	} abilities[ABILITIES_MAX];
	uint32_t cnt;
} out = { .abilities = { { .what = "operators" } }, .cnt = 1 };

#define DETAIL_AT 34 /* columns before what a row says */

/* The end of a line, which fits a terminal. */
static void put_text(const char *text, int at)
{
	if (terminal__columns(STDOUT_FILENO))
		help__text(stdout, text, at, at);
	else
		puts(text);
}

/* advice: NULL: none */
__attribute__((format(printf, 4, 5))) static void row(const char *mark, const char *title,
						      const char *advice, const char *fmt, ...)
{
	char detail[512], plain[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(detail, sizeof(detail), fmt, ap);
	va_end(ap);
	if (out.json) {
		jsonw__begin_row(out.json);
		JSONW_STR(out.json, "state", *mark ? mark : "info");
		if (out.pid)
			JSONW_I64(out.json, "pid", out.pid);
		JSONW_STR(out.json, "title", title);
		JSONW_STR(out.json, "detail", detail);
		if (advice)
			JSONW_STR(out.json, "advice", advice);
		jsonw__end_obj(out.json);
		return;
	}
	term_text__copy(plain, sizeof(plain), detail); /* command lines and paths of others */
	printf("%-4s %-28s ", mark, title);
	put_text(plain, DETAIL_AT);
	if (advice) {
		printf("%*s -> ", DETAIL_AT - 1, "");
		put_text(advice, DETAIL_AT + 3);
	}
}

static void conclude(const char *what, const char *why)
{
	if (out.cnt < ABILITIES_MAX)
		out.abilities[out.cnt++] = (struct ability){ what, why };
}

/* NULL: there is none. */
static const struct ability *next_missing(const struct ability *a)
{
	while (a < out.abilities + out.cnt && !a->why)
		a++;
	return a < out.abilities + out.cnt ? a : NULL;
}

/* "ready: operators, shapes; not: GPU activities (no agent)" */
static void print_conclusion(void)
{
	const char *sep = "ready: ";
	size_t len = 0;
	char *text = NULL;
	FILE *f = xmemstream(&text, &len);

	for (uint32_t i = 0; i < out.cnt; i++) {
		if (out.abilities[i].why)
			continue;
		fprintf(f, "%s%s", sep, out.abilities[i].what);
		sep = ", ";
	}
	sep = *sep == ',' ? "; not: " : "ready: nothing; not: ";
	for (const struct ability *a = next_missing(out.abilities), *next; a; a = next) {
		next = next_missing(a + 1);
		fprintf(f, "%s%s", sep, a->what);
		/* the reason of several stands behind the last of them */
		if (!next || strcmp(a->why, next->why) != 0)
			fprintf(f, " (%s)", a->why);
		sep = ", ";
	}
	fclose(f);
	putchar('\n');
	put_text(text, 0);
	free(text);
}

static void write_conclusion(struct jsonw *w)
{
	JSONW_ARR(w, "abilities");
	for (uint32_t i = 0; i < out.cnt; i++) {
		jsonw__begin_row(w);
		JSONW_STR(w, "what", out.abilities[i].what);
		JSONW_BOOL(w, "ready", !out.abilities[i].why);
		if (out.abilities[i].why)
			JSONW_STR(w, "why", out.abilities[i].why);
		jsonw__end_obj(w);
	}
	jsonw__end_arr(w);
}

/* Number of needed features that are missing. */
static int check_machine(bool *may)
{
	char detail[256];
	int missing = 0;

	for (size_t i = 0; i < kern_feature_cnt; i++) {
		const struct feature *f = &kern_features[i];
		enum feature_state st;

		if (f->privileged && !*may) {
			if (f->gives)
				conclude(f->gives, "needs root");
			continue;
		}
		detail[0] = '\0';
		st = f->check(detail, sizeof(detail));
		row(st == FEATURE_YES ? "ok" :
		    st == FEATURE_NO  ? (f->needed ? "NO" : "no") :
					"?",
		    f->title, st == FEATURE_NO && f->hint && *f->hint ? f->hint : NULL, "%s",
		    detail);
		if (!strcmp(f->title, KERN_CAPABILITIES))
			*may = st != FEATURE_NO;
		if (f->gives)
			conclude(f->gives, st == FEATURE_YES ? NULL : "see above");
		missing += st == FEATURE_NO && f->needed;
	}
	return missing;
}

/* False: probing does not work here at all. */
static bool check_cost(void)
{
	struct probe_set_opts opts = { .ring_bytes = 262144, .follow_tasks = true };
	struct probe_set *ps = NULL;
	int64_t ps_cost;
	int err = probe_set__open(&opts, &ps);

	if (err) {
		row("NO", "test probe", NULL, "%s", errstr(err));
		return false;
	}
	ps_cost = probe_set__measure_cost(ps);
	probe_set__free(ps);
	if (ps_cost < 0) {
		row("NO", "test probe", NULL, "%s", errstr((int)ps_cost));
		return false;
	}
	row("ok", "cost of a probe hit", NULL,
	    "%.2f us on this host, so %.2f us per operator (entry and exit)", (double)ps_cost / 1e6,
	    2 * (double)ps_cost / 1e6);
	return true;
}

static void check_plan(const struct torch_plan *plan)
{
	uint32_t refused = 0, unplaced = 0;

	for (uint32_t i = 0; i < plan->func_cnt; i++) {
		refused += plan->funcs[i].reason != PTB_REFUSE_NONE;
		unplaced += plan->funcs[i].unplaced;
	}
	row("ok", "plan", NULL,
	    "%u functions, %u probes, %u refused or entry only (attach --dry-run lists them)",
	    plan->func_cnt, plan->site_cnt, refused);
	row(plan->names_disagree ? "no" : "ok", "operator names", NULL,
	    "%u from the code, %u from schema texts only, %u disagree", plan->names_a,
	    plan->names_b_only, plan->names_disagree);
	if (!plan->layout.tensor.shapes_on)
		row("no", "shapes and values", NULL, "not available: %s",
		    plan->layout.no_shapes_why);
	else
		row("ok", "shapes and values", NULL,
		    "%u argument programs, %u arguments or results that cannot be located",
		    plan->prog_cnt, unplaced);
}

/* The agent inside the process: whether it is there and what it could do. */
static void check_agent(pid_t pid, const struct torch_plan *plan)
{
	struct agent_lib lib = { 0 };
	struct ptb_agent_ctl ctl;
	char why[200] = "", path[PATH_MAX], how[600];
	int err = agent_lib__find(pid, &lib, why, sizeof(why));

	if (err == -ENOENT) {
		if (target_agent__file(path, sizeof(path)))
			snprintf(path, sizeof(path), ".../" PTB_AGENT_FILE);
		snprintf(how, sizeof(how),
			 "start the program with LD_PRELOAD=%.480s, or attach --agent=inject",
			 path);
		row("no", "agent", how,
		    "not loaded: uprobes record operators and CUDA calls, but no GPU activities");
		conclude("GPU activities", "no agent");
		return;
	}
	if (!err)
		err = agent_lib__read(pid, &lib, &ctl);
	if (!proc__same_timens(pid)) {
		row("no", "agent", NULL, "loaded, but in another time namespace: uprobes are used");
	} else if (err) {
		row("no", "agent", NULL, "loaded, but not usable: %s", why[0] ? why : errstr(err));
	} else if (!(ctl.state & PTB_AGENT_ALIVE)) {
		row("no", "agent", NULL, "loaded, but does not run: %s",
		    agent__why_text(ctl.ops_why));
	} else {
		row("ok", "agent", NULL, "%s; times by %s%s", lib.path,
		    ctl.state & PTB_AGENT_TSC ? "the time stamp counter" : "clock_gettime",
		    ctl.state & PTB_AGENT_SENDS ? "; another ptbpf uses it now" : "");
		if (plan && !plan->layout.rf.size)
			row("no", "agent: operators", NULL, "%s", plan->layout.no_rf_why);
		else
			row("ok", "agent: operators", NULL, "yes");
		if (ctl.cupti_version)
			row("ok", "agent: GPUs", NULL, "CUPTI %u", ctl.cupti_version);
		else
			row("", "agent: GPUs", NULL, "%s",
			    ctl.gpu_why ? agent__why_text(ctl.gpu_why) :
					  "CUPTI is searched for at the first request");
	}
	conclude("GPU activities",
		 err || !(ctl.state & PTB_AGENT_ALIVE) ? "its agent is of no use" : NULL);
	agent_lib__clear(&lib);
}

/* The interpreter, and whether its stacks can be read: with or without PyTorch. */
static void check_python(pid_t pid)
{
	char version[PY_VERSION_TEXT] = "", subs[64] = "";
	struct py_interp pi;
	int err = py_interp__find(pid, &pi);

	if (pi.layout.version)
		py_version__print(pi.layout.version, version);
	if (err == -ENOENT) {
		row("", "Python", NULL, "no interpreter in the process: it has no Python stacks");
	} else if (err == -ENOTSUP) {
		row("no", "Python", NULL, "CPython%s%s in %s: stacks cannot be read: %s",
		    *version ? " " : "", version, pi.object, pi.why);
	} else if (err) {
		row("no", "Python", NULL, "%s", errstr(err));
	} else {
		if (pi.sub_cnt)
			snprintf(subs, sizeof(subs),
				 "; %u other interpreter%s, whose threads have no stacks",
				 pi.sub_cnt, pi.sub_cnt > 1 ? "s" : "");
		row("ok", "Python", NULL,
		    "CPython %s (free-threaded: no), stacks can be read: verified on %u of %u threads%s",
		    version, pi.verified_cnt, pi.thread_cnt, subs);
	}
	py_interp__clear(&pi);
}

static int check_process(pid_t pid)
{
	static const char *const roles[] = { "libc10",      "libtorch_cpu", "libtorch_python",
					     "C++ runtime", "libcudart",    "libcuda" };
	struct targets ts = { 0 };
	struct torch_proc *tp = NULL;
	enum torch_proc_why why;
	struct shared_plan *sp;
	int err;

	out.pid = pid;
	if (!out.json)
		printf("\nprocess %d\n", pid);
	err = torch_proc__open(pid, &tp, &why);
	if (!err || why == TORCH_PROC_NO_TORCH || why == TORCH_PROC_BAD_LIB)
		check_python(pid);
	if (err) {
		targets__say_why(pid, why, err);
		return err;
	}
	row("", "command", NULL, "%.15s: %.400s", tp->comm, tp->cmdline);
	row("", "pid namespace", NULL, "%s",
	    proc__same_pidns(pid) ? "ours" : "another (a container): fine");
	for (uint32_t i = 0; i < TORCH_LIB_ROLES; i++)
		row(tp->libs[i].present ? "ok" : "no", roles[i], NULL, "%s",
		    tp->libs[i].present ? tp->libs[i].path : "not loaded");
	sp = targets__plan(&ts, tp->libs, false);
	if (sp)
		check_plan(sp->plan);
	check_agent(pid, sp ? sp->plan : NULL);
	torch_proc__free(tp);
	targets__free(&ts);
	return sp ? 0 : -1;
}

int cmd_doctor(int argc, char **argv)
{
	struct doctor_cfg cfg = { .pids.cnt = 0 };
	int n = opts__parse(&doctor_usage, &cfg, argc, argv, NULL), missing, bad = 0, major, minor;
	struct jsonw w;
	bool may = true;

	if (n < 0)
		return n == OPTS_HELP ? EXIT_DONE : EXIT_USAGE;
	stall__watch(EXIT_FAILED);
	if (cfg.json) {
		out.json = &w;
		jsonw__init(&w, jsonw__to_stream, stdout, 4096);
		jsonw__begin_obj(&w);
		JSONW_STR(&w, "version", PTBPF_VERSION);
		JSONW_ARR(&w, "rows");
	}
	missing = check_machine(&may);
	cs_version(&major, &minor);
	row("", "capstone", NULL, "%d.%d", major, minor);
	if (!missing)
		bad = !check_cost();
	out.abilities[0].why = !may ? "needs root" : missing || bad ? "see above" : NULL;
	for (uint32_t i = 0; i < cfg.pids.cnt; i++)
		bad |= check_process(cfg.pids.pids[i]) != 0;
	if (cfg.json) {
		jsonw__end_arr(&w);
		write_conclusion(&w);
		jsonw__end_obj(&w);
		jsonw__newline(&w);
		jsonw__flush(&w);
		jsonw__free(&w);
	} else {
		print_conclusion();
	}
	return missing || bad ? EXIT_FAILED : EXIT_DONE;
}
