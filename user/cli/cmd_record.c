/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * ptbpf record: start a program and trace it from its first operator. The program is ours, so it
 * may be stopped for a moment: once when libtorch appears in its memory map (to analyse the library
 * before its code runs), and once when the dynamic loader has relocated it (to place the probes
 * before its constructors have registered an operator).
 */
#define LOG_DOMAIN "record"
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/guards.h"
#include "base/log.h"
#include "cli/cmd.h"
#include "cli/live.h"
#include "cli/outputs.h"
#include "record/recorder.h"
#include "record/run.h"
#include "record/targets.h"
#include "target/proc_info.h"

#define POLL_EVERY_NS 1000000L        /* while the child has no torch */
#define RELOCATE_MAX_NS 5000000000ULL /* a loader that takes longer is not waited for */

static const struct opt_def record_opts[] = {
	{ OPT_GROUP, 0, "", 0, NULL, "target" },
	{ OPT_FLAG, 0, "children", offsetof(struct run_cfg, rec.children), NULL,
	  "also trace its child processes (data loader workers, ranks)", OPT_BASIC },
	RUN_OPTS,
	EXPERT_OPTS,
	{ OPT_GROUP, 0, NULL, 0, NULL, NULL },
};

const struct cmd_usage record_usage = {
	.name = "record",
	.synopsis = "[options] -- COMMAND [ARGS...]",
	.summary =
		"Starts a program and traces it from its first operator until it exits (or for -d TIME after PyTorch\n"
		"is loaded). The program is started with ptbpf's agent, which records operators and GPU activities\n"
		"at a fraction of the cost of uprobes (--agent off: without the agent).",
	.examples =
		"  sudo ptbpf record -- python train.py\n"
		"  sudo ptbpf record -d 30s --trace start.pt.trace.json.gz -- python serve.py\n",
	.opts = record_opts,
	.command = true,
};

/* Puts a file in front of what a colon-separated variable has. */
static void prepend_env(const char *name, const char *path)
{
	const char *old = getenv(name);
	char value[PATH_MAX + 4096];

	if (!old || !*old)
		setenv(name, path, 1);
	else if ((size_t)snprintf(value, sizeof(value), "%s:%s", path, old) < sizeof(value))
		setenv(name, value, 1);
}

/* The agent comes with the program: the loader maps it, and where there is a GPU CUDA's driver
 * calls it. */
static void prepare_agent(const struct run_cfg *cfg)
{
	char path[PATH_MAX];

	if (cfg->rec.agent == AGENT_OFF)
		return;
	if (target_agent__file(path, sizeof(path))) {
		pr_warn("the agent's file " PTB_AGENT_FILE " was not found; %s",
			cfg->rec.sample_hz ? "samples do not say which operator was open" :
					     "uprobes are used");
		return;
	}
	prepend_env("LD_PRELOAD", path);
	if (cfg->rec.gpu && !getenv("CUDA_INJECTION64_PATH"))
		setenv("CUDA_INJECTION64_PATH", path, 1);
}

/* The child waits at a pipe until we know its pid, so nothing of it is missed. */
static pid_t spawn(const struct run_cfg *cfg, char **cmd, int *go)
{
	int fds[2];
	pid_t pid;

	if (pipe(fds))
		return -errno;
	pid = fork();
	if (pid < 0)
		return -errno;
	if (!pid) {
		char c;

		cancel__child();
		close(fds[1]);
		if (read(fds[0], &c, 1) != 1)
			_exit(127);
		close(fds[0]);
		prepare_agent(cfg);
		signal(SIGPIPE, SIG_DFL);
		signal(SIGXFSZ, SIG_DFL);
		execvp(cmd[0], cmd);
		pr_error("cannot start '%s': %s", cmd[0], errstr(errno));
		_exit(127);
	}
	close(fds[0]);
	*go = fds[1];
	return pid;
}

static void nap(void)
{
	struct timespec ts = { .tv_nsec = POLL_EVERY_NS };

	nanosleep(&ts, NULL);
}

static bool alive(pid_t pid)
{
	siginfo_t si = { .si_pid = 0 };

	return !waitid(P_PID, (id_t)pid, &si, WEXITED | WNOWAIT | WNOHANG) && !si.si_pid;
}

/* Stops the child and waits until it is stopped. False: it ended, or a signal is pending. */
static bool stop_child(pid_t pid)
{
	kill(pid, SIGSTOP);
	while (alive(pid) && !cancel__pending()) {
		char state = proc__state(pid);

		if (state == 'T' || state == 't')
			return true;
		nap();
	}
	return false;
}

static bool torch_ready(pid_t pid)
{
	struct torch_proc *tp = NULL;
	enum torch_proc_why why;
	bool ready;

	if (torch_proc__peek(pid) <= 0 || torch_proc__open(pid, &tp, &why))
		return false;
	ready = torch_proc__ready(tp);
	torch_proc__free(tp);
	return ready;
}

/* Has the loader relocated libtorch? Then the words that the probes need can be read. */
static bool relocated(pid_t pid, struct torch_plan *plan)
{
	struct proc_ops po;
	struct torch_proc *tp = NULL;
	struct ptb_proc_cfg pc = { 0 };
	enum torch_proc_why why;

	if (!plan->layout.seq_tls_got)
		return true;
	if (torch_proc__open(pid, &tp, &why))
		return true; /* it ended: attaching reports that */
	proc_ops__init(&po, tp, plan);
	proc_cfg__fill(&po, false, &pc);
	proc_ops__free(&po);
	torch_proc__free(tp);
	return pc.seq_tls_module != 0;
}

/* Plans while the child is stopped, lets it run until the loader is done, and leaves it stopped. */
static bool bring_to_start(const struct run_cfg *cfg, pid_t pid)
{
	struct targets ts = { 0 };
	struct torch_proc *tp = NULL;
	struct shared_plan *sp = NULL;
	enum torch_proc_why why;

	if (!stop_child(pid))
		return false;
	if (!torch_proc__open(pid, &tp, &why)) {
		if (cfg->rec.gpu && cfg->rec.agent == AGENT_OFF)
			target_cuda__plan(&ts, tp, cfg->rec.no_cache);
		sp = targets__plan(&ts, tp->libs, cfg->rec.no_cache);
	}
	kill(pid, SIGCONT);
	for (uint64_t t0 = clock__mono_ns();
	     sp && !relocated(pid, sp->plan) && alive(pid) && !cancel__pending(); nap())
		if (clock__mono_ns() - t0 > RELOCATE_MAX_NS)
			break;
	torch_proc__free(tp);
	targets__free(&ts);
	return stop_child(pid);
}

static void forward_signal(void *arg, struct run *run)
{
	if (run__signal(run) == SIGTERM || run__signal(run) == SIGHUP)
		kill(*(pid_t *)arg, run__signal(run));
}

static int wait_for_torch(const struct run_cfg *cfg, pid_t pid)
{
	while (alive(pid) && !torch_ready(pid)) {
		if (cancel__pending())
			return -ECANCELED;
		nap();
	}
	if (!alive(pid) || !bring_to_start(cfg, pid)) {
		if (cancel__pending())
			return -ECANCELED;
		pr_error("the program exited before it loaded PyTorch");
		return -ESRCH;
	}
	return 0;
}

/* Has it a library of CUDA's, or an agent that listens? */
static bool cuda_there(const struct run_cfg *cfg, pid_t pid)
{
	uint64_t digest = 0;

	return (!torch_proc__peek_cuda(pid, &digest) && digest) ||
	       (cfg->rec.agent != AGENT_OFF && target_agent__is_awake(pid));
}

/* Without operators: stops the child as soon as it has something to do with CUDA. */
static int add_cuda_child(const struct run_cfg *cfg, struct live *live, pid_t pid)
{
	int err;

	while (alive(pid)) {
		if (cancel__pending())
			return -ECANCELED;
		if (!cuda_there(cfg, pid)) {
			nap();
			continue;
		}
		if (!stop_child(pid))
			continue;
		run__targets_stopped(live->run, true);
		err = run__add(live->run, pid);
		run__targets_stopped(live->run, false);
		if (err != -EAGAIN)
			return err;
		kill(pid, SIGCONT); /* the library is being mapped */
		nap();
	}
	pr_error("the program exited before it used CUDA");
	return -ESRCH;
}

/* Samples need nothing but Python; the child runs on meanwhile. */
static int add_python_child(struct live *live, pid_t pid)
{
	int err = -EAGAIN;

	while (err == -EAGAIN && alive(pid) && !cancel__pending()) {
		err = run__add(live->run, pid);
		if (err == -EAGAIN)
			nap();
	}
	if (cancel__pending())
		return -ECANCELED;
	if (err == -EAGAIN)
		pr_error("the program exited before Python ran in it");
	return err == -EAGAIN ? -ESRCH : err;
}

/* Adds the child as soon as there is something to listen to. Leaves it stopped. */
static int add_child(const struct run_cfg *cfg, struct live *live, pid_t pid)
{
	int err;

	if (cfg->rec.sample_hz)
		return add_python_child(live, pid);
	if (cfg->rec.ops) {
		err = wait_for_torch(cfg, pid);
		if (err)
			return err;
		run__targets_stopped(live->run, true);
		err = run__add(live->run, pid);
		run__targets_stopped(live->run, false);
		return err;
	}
	return add_cuda_child(cfg, live, pid);
}

static int trace_child(const struct run_cfg *cfg, struct live *live, pid_t pid)
{
	int err = add_child(cfg, live, pid), code;

	if (!err && cfg->rec.children)
		run__add_descendants(live->run, pid);
	if (!err)
		live__announce(live);
	kill(pid, SIGCONT);
	if (err) {
		if (err == -ECANCELED)
			kill(pid, SIGTERM); /* nothing was recorded: the program is asked to end */
		if (err == -EAGAIN)
			targets__say_why(pid, TORCH_PROC_NO_TORCH, err);
		return EXIT_FAILED;
	}
	code = live__record(live, forward_signal, &pid);
	return code;
}

#define END_WAIT_NS 500000000ULL

/* Waits for the program's end: after a signal only as long as a program needs that ends by it. */
static bool wait_end(pid_t pid)
{
	struct pollfd fds[2] = { { .fd = (int)syscall(SYS_pidfd_open, pid, 0), .events = POLLIN },
				 { .fd = cancel__fd(), .events = POLLIN } };
	const struct timespec nap_ts = { .tv_nsec = 5000000 };

	while (alive(pid) && !cancel__pending())
		if (poll(fds, 2, fds[0].fd < 0 ? 100 : -1) < 0 && errno != EINTR)
			break;
	for (uint64_t t0 = clock__mono_ns(); alive(pid) && clock__mono_ns() - t0 < END_WAIT_NS;)
		nanosleep(&nap_ts, NULL);
	if (fds[0].fd >= 0)
		close(fds[0].fd);
	return !alive(pid);
}

static void report_end(pid_t pid)
{
	int status;

	if (!wait_end(pid)) {
		pr_warn("the program keeps running without ptbpf: pid %d", pid);
		return;
	}
	if (waitpid(pid, &status, 0) != pid)
		return;
	if (WIFSIGNALED(status))
		pr_info("the program was killed by signal %d (%s)", WTERMSIG(status),
			strsignal(WTERMSIG(status)));
	else if (WEXITSTATUS(status))
		pr_info("the program ended with exit code %d", WEXITSTATUS(status));
}

/* A script in place of a program: "train.py", or a file that cannot be executed. */
static bool is_script(const char *word)
{
	size_t len = strlen(word);
	struct stat st;

	if (stat(word, &st) || !S_ISREG(st.st_mode))
		return false;
	return access(word, X_OK) ||
	       (len > 3 && !strcmp(word + len - 3, ".py") && !strchr(word, '/'));
}

int cmd_record(int argc, char **argv)
{
	struct run_cfg cfg = { .row_limit = OUTPUT_ROWS_DEFAULT };
	struct live live = { 0 };
	bool started = false;
	int first = opts__parse(&record_usage, &cfg, argc, argv, NULL), go = -1, code;
	pid_t pid;

	if (first < 0)
		return first == OPTS_HELP ? EXIT_DONE : EXIT_USAGE;
	if (first >= argc) {
		pr_error("record: a command is required; see 'ptbpf record --help'");
		return EXIT_USAGE;
	}
	if (is_script(argv[first])) {
		pr_error("record: '%s' is no program", argv[first]);
		pr_hint("ptbpf record -- python %s", argv[first]);
		return EXIT_USAGE;
	}
	if (live__check(&cfg))
		return EXIT_USAGE;
	pid = spawn(&cfg, argv + first, &go);
	if (pid < 0) {
		pr_error("cannot start a process: %s", errstr(pid));
		return EXIT_FAILED;
	}
	stall__watch(EXIT_FAILED);
	code = live__open(&live, &cfg, pid);
	if (!code) {
		/* nothing was open before */
		recorder__meta(run__recorder(live.run), "started", "true");
		started = write(go, "", 1) == 1;
		code = started ? code : EXIT_FAILED;
	}
	close(go); /* after an error the child reads the end of the pipe and leaves */
	if (!code)
		code = trace_child(&cfg, &live, pid);
	if (started)
		report_end(pid);
	else
		waitpid(pid, NULL, 0); /* it has not become the program */
	live__free(&live);
	return code;
}
