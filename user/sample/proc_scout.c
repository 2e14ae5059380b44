/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See proc_select.h. */
#define LOG_DOMAIN "sample"
#include "sample/proc_select.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/containers.h"
#include "base/log.h"
#include "base/proc_read.h"
#include "base/shared_mem.h"
#include "base/text.h"
#include "target/job_facts.h"
#include "target/proc_info.h"
#include "target/torch.h"

#define USERS_MAX 64
#define LOST_MAX 32 /* children that are waited for */
#define REAP_MS 20
#define CUT_SAY_NS 3600000000000ULL
#define CPU_MS 250 /* in which the use of processors is measured */

enum scout_task { SCOUT_SELECT, SCOUT_OTHERS, SCOUT_FACTS, SCOUT_LIST };

struct question {
	enum scout_task task;
	enum scout_depth depth;
	const struct proc_select *sel;
	const pid_t *pids;
	uint32_t cnt;
	pid_t parent;
};

enum answer_kind { ANSWER_PROCESS, ANSWER_SLOW, ANSWER_CUT, ANSWER_UNSEEN, ANSWER_END };

struct answer {
	enum answer_kind kind;
	/* in the list of SCOUT_FACTS, SCOUT_LIST: the last answer with a number counts */
	uint32_t nr;
	struct proc_view view;
};
_Static_assert(sizeof(struct answer) <= PIPE_BUF, "it is written whole");

static struct left_out left_out;
static struct proc_id *shared_at; /* which one the child inspects */
static pid_t lost[LOST_MAX];
static uint32_t lost_cnt;
static uint64_t cut_said_ns;

/* ---- in the child ---- */

struct scout {
	const struct question *q;
	int fd;
	uint64_t now_ns;
	struct {
		uid_t uid;
		uint64_t cpu_ns;
	} users[USERS_MAX];
	uint32_t user_cnt, cut, unseen;
	/* of SCOUT_LIST: what was found, and the parents of all processes */
	struct found {
		struct proc_view view;
		uint64_t cpu, ns; /* processor time until then */
	} * found;
	uint32_t found_cnt, found_cap;
	pid_t *parents;
	uint32_t parent_cnt, parent_cap;
};

static void say(const struct scout *c, enum answer_kind kind, uint32_t nr,
		const struct proc_view *view)
{
	struct answer a;

	memset(&a, 0, sizeof(a));
	a.kind = kind;
	a.nr = nr;
	if (view)
		a.view = *view;
	if (write(c->fd, &a, sizeof(a)) != sizeof(a))
		_exit(1); /* nobody listens */
}

/* False: there is no such process any more. */
static bool identify(pid_t pid, struct proc_id *id, struct proc_stat *st)
{
	char path[32];
	struct stat dir;
	struct statx exe;

	*id = (struct proc_id){ .pid = pid };
	snprintf(path, sizeof(path), "/proc/%d", pid);
	if (stat(path, &dir) || proc_stat__read(pid, st))
		return false;
	id->uid = dir.st_uid;
	id->start = st->start;
	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	/* whoever serves it is not asked */
	if (!statx(AT_FDCWD, path, AT_STATX_DONT_SYNC, STATX_INO, &exe)) {
		id->dev = makedev(exe.stx_dev_major, exe.stx_dev_minor);
		id->ino = exe.stx_ino;
	}
	return true;
}

static uint64_t *spent_of(struct scout *c, uid_t uid)
{
	for (uint32_t i = 0; i < c->user_cnt; i++)
		if (c->users[i].uid == uid)
			return &c->users[i].cpu_ns;
	if (c->user_cnt < USERS_MAX)
		c->users[c->user_cnt++].uid = uid;
	return &c->users[c->user_cnt - 1].cpu_ns;
}

/* Does it have PyTorch, within its time and its user's? */
static bool has_torch(struct scout *c, struct proc_view *v, const struct proc_stat *st)
{
	uint64_t *spent = spent_of(c, v->facts.id.uid), begin = clock__cpu_ns();
	int err;

	if (*spent >= SCOUT_USER_NS) {
		c->cut++;
		return false;
	}
	*shared_at = v->facts.id;
	proc_read__limit(begin + SCOUT_PROC_NS);
	err = torch_proc__look(v->facts.id.pid, &v->has);
	proc_read__limit(0);
	*spent += clock__cpu_ns() - begin;
	if (err == -ETIME)
		say(c, ANSWER_SLOW, 0, v);
	c->unseen += (err == -EACCES || err == -EPERM) && !(st->flags & PROC_KTHREAD);
	return !err && v->has.torch;
}

static void find_texts(struct proc_view *v)
{
	pid_t pid = v->facts.id.pid;
	ssize_t len;

	proc__comm(pid, 0, v->facts.comm);
	len = proc_file__read_some(pid, "cmdline", v->command, sizeof(v->command) - 1);
	if (len < 0)
		len = 0;
	command__script(v->command, (size_t)len, v->facts.script, sizeof(v->facts.script));
	if (!*v->facts.script)
		memcpy(v->facts.script, v->facts.comm, sizeof(v->facts.comm));
	while (len && !v->command[len - 1])
		len--;
	for (ssize_t i = 0; i < len; i++)
		if (!v->command[i])
			v->command[i] = ' ';
}

/*
 * Its rank, and the launcher's name of its job, else where it runs. torchrun calls a job "none"
 * that was given no id.
 */
static void find_job(struct proc_view *v)
{
	struct proc_facts *pf = &v->facts;
	const char *run_id;
	struct job_facts f;
	struct job_rank r;

	job_facts__read(pf->id.pid, &f);
	run_id = f.texts[JOB_TORCHELASTIC_RUN_ID];
	if (job_vars__rank(f.numbers, &r))
		pf->rank = (int32_t)r.rank;
	if (f.numbers[JOB_SLURM_JOB_ID] >= 0)
		snprintf(pf->job, sizeof(pf->job), "slurm:%" PRId64, f.numbers[JOB_SLURM_JOB_ID]);
	else if (run_id && *run_id && strcmp(run_id, "none") != 0)
		snprintf(pf->job, sizeof(pf->job), "torchrun:%.64s", run_id);
	else if (*f.pod_uid)
		snprintf(pf->job, sizeof(pf->job), "pod:%s", f.pod_uid);
	else if (*f.container_id)
		snprintf(pf->job, sizeof(pf->job), "container:%s", f.container_id);
	snprintf(v->container, sizeof(v->container), "%.12s", f.container_id);
	job_facts__clear(&f);
}

static void keep_found(struct scout *c, struct proc_view *v, const struct proc_stat *st)
{
	struct found f;

	find_texts(v);
	find_job(v);
	v->parent = st->parent;
	v->threads = st->threads;
	v->gpus = proc__gpus(v->facts.id.pid);
	f = (struct found){ *v, st->cpu, clock__mono_ns() };
	say(c, ANSWER_PROCESS, c->found_cnt, v);
	vec_push(c->found, c->found_cnt, c->found_cap, f);
}

/* True: that is all. */
static bool look_at(struct scout *c, pid_t pid)
{
	struct proc_view v = { .facts.rank = -1, .cpu = -1 };
	bool list = c->q->task == SCOUT_LIST, others = c->q->task == SCOUT_OTHERS;
	struct proc_stat st;

	if (pid == c->q->parent || !identify(pid, &v.facts.id, &st))
		return false;
	if (list)
		vec_push(c->parents, c->parent_cnt, c->parent_cap, st.parent);
	if (proc_select__matches(c->q->sel, pid) == others ||
	    left_out__has(&left_out, &v.facts.id, c->now_ns) || !has_torch(c, &v, &st))
		return false;
	if (list)
		keep_found(c, &v, &st);
	else
		say(c, ANSWER_PROCESS, 0, &v);
	return others;
}

static void look_at_all(struct scout *c)
{
	DIR *d = opendir("/proc");
	struct dirent *de;
	bool done = false;

	if (!d)
		_exit(1);
	while (!done && (de = readdir(d))) {
		pid_t pid = (pid_t)strtol(de->d_name, NULL, 10);

		done = pid > 0 && pid != getpid() && look_at(c, pid);
	}
	closedir(d);
}

/* What is known of it when all have been seen, and some time has passed. */
static void look_again(struct scout *c)
{
	const double tick_ns = 1e9 / (double)sysconf(_SC_CLK_TCK);

	poll(NULL, 0, CPU_MS);
	for (uint32_t i = 0; i < c->found_cnt; i++) {
		struct found *f = &c->found[i];
		pid_t pid = f->view.facts.id.pid;
		struct proc_stat st;

		for (uint32_t k = 0; k < c->parent_cnt; k++)
			f->view.children += c->parents[k] == pid;
		if (!proc_stat__read(pid, &st) && st.start == f->view.facts.id.start)
			f->view.cpu = (double)(st.cpu - f->cpu) * tick_ns /
				      (double)(clock__mono_ns() - f->ns);
		say(c, ANSWER_PROCESS, i, &f->view);
	}
}

static void find_facts(struct scout *c)
{
	for (uint32_t i = 0; i < c->q->cnt; i++) {
		struct proc_view v = { .facts.rank = -1 };
		struct proc_facts *f = &v.facts;
		struct proc_stat st;

		if (!identify(c->q->pids[i], &f->id, &st) ||
		    left_out__has(&left_out, &f->id, c->now_ns))
			continue;
		f->torch = has_torch(c, &v, &st);
		*shared_at = f->id;
		find_texts(&v);
		find_job(&v);
		say(c, ANSWER_PROCESS, i, &v);
	}
}

static _Noreturn void child_main(const struct question *q, int fd)
{
	struct scout c = { .q = q, .fd = 0, .now_ns = clock__mono_ns() };

	/* it may be lost, with all that it has open: its pipe and its messages */
	if (dup2(fd, 0) || syscall(SYS_close_range, 1, ~0U, 0) ||
	    memfd_create("messages", 0) != 1 || dup2(1, 2) != 2 || setpgid(0, 0) ||
	    prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != q->parent)
		_exit(1);
	cancel__child();
	signal(SIGPIPE, SIG_IGN);
	if (q->task == SCOUT_FACTS)
		find_facts(&c);
	else
		look_at_all(&c);
	if (q->task == SCOUT_LIST)
		say(&c, ANSWER_UNSEEN, c.unseen, NULL);
	if (q->task == SCOUT_LIST && q->depth == SCOUT_WHOLE)
		look_again(&c);
	if (c.cut)
		say(&c, ANSWER_CUT, c.cut, NULL);
	say(&c, ANSWER_END, 0, NULL);
	_exit(0);
}

/* ---- in the program that asks ---- */

static void reap_lost(void)
{
	for (uint32_t i = 0; i < lost_cnt;) {
		if (waitpid(lost[i], NULL, WNOHANG))
			lost[i] = lost[--lost_cnt];
		else
			i++;
	}
}

void proc_scout__strike(const struct proc_id *id, uint32_t strikes, const char *why)
{
	uint64_t now = clock__mono_ns();
	struct proc_id other = *id;

	other.pid = 0;
	if (left_out__add(&left_out, id, strikes, now))
		pr_warn("pid %d is left out for %llu minutes: %s%s", id->pid,
			LEFT_OUT_NS / 60000000000, why,
			left_out__has(&left_out, &other, now) ?
				"; so are this user's other processes of the same program" :
				"");
}

bool proc_scout__left_out(pid_t pid)
{
	const struct proc_id id = { .pid = pid };

	return left_out__has(&left_out, &id, clock__mono_ns());
}

static void say_cut(uint32_t cnt)
{
	uint64_t now = clock__mono_ns();

	if (cut_said_ns && now < cut_said_ns + CUT_SAY_NS)
		return;
	cut_said_ns = now;
	pr_warn("%u process%s not searched for PyTorch: others of that user have taken %llu ms of processor time for that",
		cnt, cnt == 1 ? " is" : "es are", SCOUT_USER_NS / 1000000);
}

typedef void (*answer_fn)(void *arg, const struct answer *a);

/* Takes what is answered until ANSWER_END. 0; -ETIMEDOUT, -EIO: there is no end. */
static int take_answers(int fd, answer_fn fn, void *arg)
{
	uint64_t end = clock__mono_ns() + SCOUT_NS, now;
	struct answer a;
	ssize_t n;

	while ((now = clock__mono_ns()) < end) {
		struct pollfd p = { .fd = fd, .events = POLLIN };

		if (poll(&p, 1, (int)((end - now) / 1000000) + 1) <= 0)
			continue;
		n = read(fd, &a, sizeof(a)); /* written whole, since it is less than PIPE_BUF */
		if (n != sizeof(a))
			return -EIO;
		if (a.kind == ANSWER_END)
			return 0;
		if (a.kind == ANSWER_SLOW)
			proc_scout__strike(
				&a.view.facts.id, LEFT_OUT_STRIKES,
				"its mappings are so many that to read them takes too long");
		else if (a.kind == ANSWER_CUT)
			say_cut(a.nr);
		else
			fn(arg, &a);
	}
	return -ETIMEDOUT;
}

static void end_child(pid_t pid, int err)
{
	int ms = 0;

	if (err)
		kill(pid, SIGKILL);
	if (err == -ETIMEDOUT && shared_at->pid)
		proc_scout__strike(shared_at, LEFT_OUT_STRIKES,
				   "whoever reads its files in /proc waits");
	while (!waitpid(pid, NULL, WNOHANG)) {
		if (err && ms++ == REAP_MS) {
			lost[lost_cnt++] = pid;
			return;
		}
		poll(NULL, 0, 1);
	}
}

/* 0 or negative errno: fn has had a part of the answers. */
static int ask(struct question *q, answer_fn fn, void *arg)
{
	int fds[2], err;
	pid_t pid;

	reap_lost();
	if (lost_cnt == LOST_MAX)
		return -EAGAIN;
	if (!shared_at)
		shared_at = shared_mem__new(sizeof(*shared_at));
	if (!shared_at)
		return -ENOMEM;
	shared_at->pid = 0;
	q->parent = getpid();
	if (pipe2(fds, O_CLOEXEC))
		return -errno;
	fflush(NULL);
	pid = fork();
	err = -errno;
	if (!pid)
		child_main(q, fds[1]);
	close(fds[1]);
	if (pid > 0) {
		err = take_answers(fds[0], fn, arg);
		end_child(pid, err);
	}
	close(fds[0]);
	return err;
}

static void add_to_list(void *arg, const struct answer *a)
{
	struct proc_list *list = arg;

	proc_list__add(list, a->view.facts.id.pid, a->view.facts.id.uid);
	list->items[list->cnt - 1].id = a->view.facts.id;
}

int proc_scout__select(const struct proc_select *sel, struct proc_list *list)
{
	struct question q = { .task = SCOUT_SELECT, .sel = sel };
	struct proc_list now = { .cnt = 0 };
	int err = ask(&q, add_to_list, &now);

	if (err == -ETIMEDOUT) /* who kept it has been reported: the others are there */
		err = 0;
	if (!err)
		proc_list__replace(list, &now);
	proc_list__free(&now);
	return err;
}

static void note_any(void *arg, const struct answer *a)
{
	(void)a;
	*(bool *)arg = true;
}

bool proc_scout__others(const struct proc_select *sel)
{
	struct question q = { .task = SCOUT_OTHERS, .sel = sel };
	bool any = false;

	if (!sel->comm && !sel->cgroup)
		return false;
	return ask(&q, note_any, &any) || any;
}

static void keep_facts(void *arg, const struct answer *a)
{
	struct proc_facts *facts = arg;

	facts[a->nr] = a->view.facts;
}

void proc_scout__facts(const pid_t *pids, uint32_t cnt, struct proc_facts *facts)
{
	struct question q = { .task = SCOUT_FACTS, .pids = pids, .cnt = cnt };

	for (uint32_t i = 0; i < cnt; i++)
		facts[i] = (struct proc_facts){ .rank = -1 };
	if (cnt)
		ask(&q, keep_facts, facts); /* what is missing is not known */
}

struct listing {
	struct proc_view *views;
	uint32_t cnt, cap, unseen;
};

static void keep_view(void *arg, const struct answer *a)
{
	struct listing *l = arg;

	if (a->kind == ANSWER_UNSEEN)
		l->unseen = a->nr;
	else if (a->nr < l->cnt)
		l->views[a->nr] = a->view;
	else
		vec_push(l->views, l->cnt, l->cap, a->view);
}

int proc_scout__list(enum scout_depth depth, struct proc_view **views, uint32_t *cnt,
		     uint32_t *unseen)
{
	static const struct proc_select all = { .all_torch = true };
	struct question q = { .task = SCOUT_LIST, .depth = depth, .sel = &all };
	struct listing l = { .cnt = 0 };
	int err = ask(&q, keep_view, &l);

	*views = l.views;
	*cnt = l.cnt;
	*unseen = l.unseen;
	return err == -ETIMEDOUT ? 0 : err;
}
