/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * ptbpf frames: started by `ptbpf top`, records processes, and makes of each interval a frame
 * (report/top_frame.c), which it writes to the memory that it shares with that (CHILD_KEPT_FD).
 *
 * It records all the time into a capture that is held in memory (--flight). Samples, waits and
 * steps come at once, the agent's records within LATE_NS; then the interval is cut out, and read
 * as any capture, by a child that can only compute. Lines that it reads (--notes-fd): "interval
 * NS".
 */
#define LOG_DOMAIN "run"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/guards.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "cli/cmd.h"
#include "cli/progress.h"
#include "cli/top.h"
#include "ptb_event.h"
#include "record/targets.h"
#include "sample/child.h"
#include "sample/event_watch.h"
#include "steps/step_count.h"
#include "target/proc_info.h"

#define SAMPLES_HZ 99
#define LATE_NS 200000000ULL /* more than PTB_AGENT_FLUSH_NS and PTB_AGENT_POLL_NS */
#define HOLD_BYTES (64ULL << 20)
#define BUDGET_NS 10000000000ULL /* of --max-overhead */
#define UNLIMITED_NS 100000000ULL

static const struct opt_def frames_opts[] = {
	TOP_OPTS,
	{ OPT_INT, 0, "progress-fd", offsetof(struct run_cfg, progress_fd), "N",
	  "lines of JSON go there" },
	{ OPT_INT, 0, "notes-fd", offsetof(struct run_cfg, notes_fd), "N",
	  "lines of what is to be done" },
	EXPERT_OPTS,
	{ OPT_GROUP, 0, NULL, 0, NULL, NULL },
};

const struct cmd_usage frames_usage = {
	.name = "frames",
	.synopsis = "--pid PID --progress-fd N --notes-fd N",
	.summary = "Started by ptbpf top.",
	.opts = frames_opts,
};

struct watched { /* a process, beside the capture */
	uint32_t pid, steps;
	struct step_history history;
	uint64_t cpu_ns, cost_ns; /* until now */
	struct top_process now;   /* of the window that has ended last */
};

struct frames {
	const struct top_cfg *cfg;
	struct progress progress;
	struct run *run;
	struct watched procs[TOP_PROCS];
	uint32_t cnt;
	uint64_t interval_ns, next_ns;
	struct run_window window; /* it has ended, and is not cut; end_ns 0: none */
	uint64_t last_ns, own_ns; /* at the last frame */
	uint32_t nr;
	pid_t reader;
};

static uint64_t cpu_of(uint32_t pid)
{
	struct proc_stat st;

	return proc_stat__read((pid_t)pid, &st) ?
		       0 :
		       st.cpu * (1000000000ULL / (uint64_t)sysconf(_SC_CLK_TCK));
}

static struct watched *watched_of(struct frames *fs, uint32_t pid)
{
	for (uint32_t i = 0; i < fs->cnt; i++)
		if (fs->procs[i].pid == pid)
			return &fs->procs[i];
	if (fs->cnt == TOP_PROCS)
		return NULL;
	fs->procs[fs->cnt] = (struct watched){ .pid = pid, .cpu_ns = cpu_of(pid) };
	return &fs->procs[fs->cnt++];
}

static void on_step(void *arg, const struct step_end *e)
{
	struct watched *w = watched_of(arg, e->tgid);

	if (!w)
		return;
	w->steps++;
	if (e->begin_ns && e->end_ns > e->begin_ns)
		step_history__add(&w->history, e->end_ns - e->begin_ns);
}

/* ---- what is not in the capture ---- */

static uint64_t since(uint64_t now, uint64_t *last)
{
	uint64_t v = now > *last ? now - *last : 0;

	*last = now;
	return v;
}

static void read_facts(struct frames *fs, struct watched *w)
{
	struct proc_memory mem;

	if (!proc_memory__read((pid_t)w->pid, &mem))
		w->now.resident =
			mem.rss[PTB_RSS_FILE] + mem.rss[PTB_RSS_ANON] + mem.rss[PTB_RSS_SHMEM];
	w->now.steps = w->steps;
	w->now.step_ns = step_history__median(&w->history);
	w->steps = 0;
	w->now.cpu_ns = since(cpu_of(w->pid), &w->cpu_ns);
	w->now.cost_ns = since(run__cost_of(fs->run, (pid_t)w->pid).ns, &w->cost_ns);
}

/* What came before the first window is in no frame. */
static void begin_facts(struct frames *fs)
{
	const struct pid_list *pids = &fs->cfg->run.pids;

	for (uint32_t i = 0; i < pids->cnt; i++) {
		struct watched *w = watched_of(fs, (uint32_t)pids->pids[i]);

		if (w)
			read_facts(fs, w);
	}
	fs->own_ns = clock__cpu_ns_with_children();
	fs->last_ns = clock__mono_ns();
	fs->next_ns = fs->last_ns + fs->interval_ns;
}

static void add_facts(struct frames *fs, struct top_process *p)
{
	struct watched *w = watched_of(fs, p->pid);

	if (!w)
		return;
	if (!w->now.resident) /* it is new */
		read_facts(fs, w);
	p->resident = w->now.resident;
	p->steps = w->now.steps;
	/* those probes on operators show steps, too, as long as they are there */
	p->steps_ns = fs->cfg->operators && !p->agent ? p->operators_ns :
							fs->window.end_ns - fs->last_ns;
	p->step_ns = w->now.step_ns;
	p->cpu_ns = w->now.cpu_ns;
	p->cost_ns = w->now.cost_ns;
}

/* ---- a frame ---- */

static int fill(struct reader *r, uint8_t **answer, size_t *len)
{
	struct top_frame *f = xcalloc(1, sizeof(*f));

	*answer = (void *)f;
	*len = sizeof(*f);
	return top_frame__fill(f, r->s);
}

/* NULL: reported. */
static struct top_frame *read_window(int fd)
{
	static const char *const name[] = { "what was recorded" };
	const struct outputs o = { .captures = name, .capture_cnt = 1, .capture_fd = fd };
	uint8_t *answer = NULL;
	size_t len = 0;

	if (!outputs__ask(&o, fill, sizeof(struct top_frame), &answer, &len) &&
	    top_frame__check((void *)answer, len))
		return (void *)answer;
	free(answer);
	return NULL;
}

static void put_frame(struct frames *fs, struct top_frame *f)
{
	uint32_t slot = fs->nr++ % 2;

	for (uint32_t i = 0; i < f->process_cnt; i++)
		add_facts(fs, &f->processes[i]);
	f->wall_ns = fs->window.end_ns - fs->last_ns;
	fs->last_ns = fs->window.end_ns;
	f->own_ns = since(clock__cpu_ns_with_children(), &fs->own_ns);
	if (pwrite(CHILD_KEPT_FD, f, sizeof(*f), (off_t)(slot * sizeof(*f))) == sizeof(*f))
		progress__frame(&fs->progress, slot);
}

static void end_soon(void)
{
	kill(getpid(), SIGTERM);
}

static void cut(struct frames *fs)
{
	struct top_frame *f = NULL;
	int fd = -1;

	if (!run__cut(fs->run, &fs->window, &fd))
		f = read_window(fd);
	if (f)
		put_frame(fs, f);
	else
		end_soon(); /* reported */
	free(f);
	fs->next_ns = fs->window.end_ns + fs->interval_ns;
	fs->window.end_ns = 0;
}

/* One that was stopped does not read, and nothing is to be attached meanwhile. */
static bool reader_stands(const struct frames *fs)
{
	return getppid() != fs->reader || proc__state(fs->reader) == 'T';
}

static void read_notes(struct frames *fs)
{
	char buf[256];
	ssize_t n = read(fs->cfg->run.notes_fd, buf, sizeof(buf) - 1);
	uint64_t ns;

	if (n <= 0)
		return;
	buf[n] = '\0';
	if (sscanf(buf, "interval %" SCNu64, &ns) != 1)
		return;
	fs->interval_ns = ns;
	fs->next_ns = fs->last_ns + ns;
}

static void tick(void *arg, struct run *run)
{
	struct frames *fs = arg;
	uint64_t now = clock__mono_ns();

	read_notes(fs);
	if (!fs->window.end_ns && now >= fs->next_ns) {
		if (reader_stands(fs))
			end_soon();
		fs->window = run__end_window(run);
		for (uint32_t i = 0; i < fs->cnt; i++)
			read_facts(fs, &fs->procs[i]);
	} else if (fs->window.end_ns && now >= fs->window.end_ns + LATE_NS) {
		cut(fs);
	}
	run__wake_at(run, fs->window.end_ns ? fs->window.end_ns + LATE_NS : fs->next_ns);
}

/* ---- the recording ---- */

static bool any_agent(const struct pid_list *pids)
{
	for (uint32_t i = 0; i < pids->cnt; i++)
		if (target_agent__is_there(pids->pids[i]))
			return true;
	return false;
}

static void set_opts(const struct top_cfg *cfg, struct record_opts *rec,
		     const struct step_hooks *hooks)
{
	rec->ops = true;
	rec->names_only = !cfg->operators;
	rec->called_ops = cfg->operators;
	rec->sched = probe_set__can_sched();
	rec->with_samples = SAMPLES_HZ;
	rec->gpu = rec->gpu && rec->agent != AGENT_OFF &&
		   (rec->agent == AGENT_INJECT || any_agent(&cfg->run.pids));
	rec->flight_ns = 2 * TOP_INTERVAL_MAX_NS;
	rec->flight_bytes = HOLD_BYTES;
	rec->max_memory = rec->max_memory ? rec->max_memory : LIMIT_MEMORY + HOLD_BYTES;
	rec->duration_ns = BUDGET_NS; /* of which costs are a share */
	rec->unlimited_ns = UNLIMITED_NS;
	rec->limit_ops = true;
	rec->least_steps_on = cfg->run.step_on ? cfg->run.step_on : SESSION_STEP_ON;
	rec->steps.ops = cfg->run.step_on != NULL;
	rec->steps.hooks = hooks;
}

static int add_all(struct frames *fs, uint64_t max_cost_ns)
{
	const struct pid_list *pids = &fs->cfg->run.pids;
	uint32_t added = 0;

	for (uint32_t i = 0; i < pids->cnt; i++) {
		int err = run__add(fs->run, pids->pids[i]);

		if (err == -ECANCELED)
			return err;
		if (err == -EAGAIN)
			pr_error("cannot attach to pid %d: it has not loaded PyTorch",
				 pids->pids[i]);
		if (err)
			continue;
		added++;
		run__limit_cost(fs->run, pids->pids[i], max_cost_ns);
		if (fs->cfg->run.rec.children)
			run__add_descendants(fs->run, pids->pids[i]);
	}
	return added ? 0 : -ESRCH;
}

static int record(struct frames *fs, double share)
{
	const struct step_hooks hooks = { .arg = fs, .ended = on_step };
	struct record_opts rec = fs->cfg->run.rec;
	int err;

	set_opts(fs->cfg, &rec, &hooks);
	err = run__open(&rec, "", &fs->run);
	if (!err)
		err = add_all(fs, (uint64_t)(share * (double)BUDGET_NS));
	if (!err)
		err = run__activate(fs->run);
	if (!err) {
		begin_facts(fs);
		run__wake_at(fs->run, fs->next_ns);
		err = run__loop(fs->run, tick, fs);
	}
	if (err && err != -ECANCELED && !log__has_error())
		pr_error("the processes cannot be recorded: %s", errstr(err));
	if (!err && run__stop_reason(fs->run) == PTB_STOP_TARGET_EXIT)
		progress__ended(&fs->progress);
	run__free(fs->run);
	return err;
}

int cmd_frames(int argc, char **argv)
{
	struct top_cfg cfg = { .run = { .quiet = true }, .interval_ns = TOP_INTERVAL_NS };
	struct frames fs = { .cfg = &cfg, .reader = getppid() };
	int n = opts__parse(&frames_usage, &cfg, argc, argv, NULL);
	double share;

	if (n < 0)
		return n == OPTS_HELP ? EXIT_DONE : EXIT_USAGE;
	if (!cfg.run.pids.cnt || !cfg.run.notes_fd || live__check(&cfg.run) ||
	    live__parse_overhead("top", cfg.max_overhead ? cfg.max_overhead : MAX_OVERHEAD,
				 &share) ||
	    progress__open(&fs.progress, cfg.run.progress_fd) ||
	    fcntl(cfg.run.notes_fd, F_SETFL, O_NONBLOCK))
		return EXIT_USAGE;
	if (cfg.run.progress_fd)
		stall__tell(cfg.run.progress_fd);
	stall__watch(EXIT_FAILED);
	fs.interval_ns = cfg.interval_ns;
	return record(&fs, share) ? EXIT_FAILED : EXIT_DONE;
}
