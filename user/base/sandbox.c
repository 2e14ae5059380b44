/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Starts the child, which gives up its privileges; collects its answer and its messages, ends it.
 * See sandbox.h. */
#define LOG_DOMAIN "sandbox"
#include "base/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <inttypes.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/containers.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/new_file.h"
#include "base/text.h"

#define MESSAGES_MAX 65536 /* bytes of messages from one child */
#define READ_SZ 65536
#define EXIT_REFUSED 255      /* errno values are smaller: the child could not lock itself in */
#define EXIT_MEMORY 254       /* it needs more than it may have */
#define IDLE_MS 5             /* how often other work goes on meanwhile */
#define REAP_NS 2000000000ULL /* for the end of a child that was killed or closed its pipes */

static void (*idle_fn)(void *arg);
static void *idle_arg;

void sandbox__set_idle(void (*fn)(void *arg), void *arg)
{
	idle_fn = fn;
	idle_arg = arg;
}

void sandbox__idle(void)
{
	if (idle_fn)
		idle_fn(idle_arg);
}

struct stream {
	int fd; /* -1: at its end */
	uint8_t *data;
	uint32_t cap;
	size_t len, max;
};

struct running {
	const struct sandbox_job *job;
	pid_t pid;
	struct stream out, messages;
};

/* ---- in the child: giving up privileges ---- */

/* from here on distributions, containers and directories give ids to nobody */
#define UNUSED_IDS 0x80000000u

#ifdef __SANITIZE_ADDRESS__
/* AddressSanitizer reserves 20 TiB of addresses: RLIMIT_AS would leave it none. */
#define LIMIT_MEMORY 0
#else
#define LIMIT_MEMORY 1
#endif

static int cmp_fd(const void *a, const void *b)
{
	int x = *(const int *)a, y = *(const int *)b;

	return x < y ? -1 : x > y;
}

static int close_range_of(unsigned int first, unsigned int last)
{
	return first <= last && syscall(SYS_close_range, first, last, 0) ? -errno : 0;
}

/* Closes all but stderr, out_fd and the job's. */
static int close_others(const struct sandbox_job *job, int out_fd)
{
	uint32_t cnt = job->fd_cnt + job->file_cnt + 2;
	int *keep = xcalloc(cnt, sizeof(*keep)), err = 0;
	unsigned int next = 0;

	for (uint32_t i = 0; i < job->fd_cnt; i++)
		keep[i] = job->fds[i];
	for (uint32_t i = 0; i < job->file_cnt; i++)
		keep[job->fd_cnt + i] = job->files[i];
	keep[cnt - 2] = out_fd;
	keep[cnt - 1] = STDERR_FILENO;
	qsort(keep, cnt, sizeof(*keep), cmp_fd);
	for (uint32_t i = 0; i < cnt && !err; i++) {
		if (keep[i] < (int)next)
			continue;
		if (keep[i] > (int)next)
			err = close_range_of(next, (unsigned int)keep[i] - 1);
		next = (unsigned int)keep[i] + 1;
	}
	free(keep);
	return err ? err : close_range_of(next, ~0u);
}

/* ---- limits ---- */

/* Bytes of address space that the process has; 0: not known. */
static uint64_t mapped_bytes(void)
{
	unsigned long long pages = 0;
	FILE *f = fopen("/proc/self/statm", "re");

	if (f && fscanf(f, "%llu", &pages) != 1)
		pages = 0;
	if (f)
		fclose(f);
	return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static int limit(int what, uint64_t soft, uint64_t hard)
{
	struct rlimit now, rl = { .rlim_cur = soft, .rlim_max = hard };

	if (getrlimit((__rlimit_resource_t)what, &now))
		return -errno;
	if (rl.rlim_max > now.rlim_max) /* it may be lowered only */
		rl.rlim_max = now.rlim_max;
	if (rl.rlim_cur > rl.rlim_max)
		rl.rlim_cur = rl.rlim_max;
	return setrlimit((__rlimit_resource_t)what, &rl) ? -errno : 0;
}

static int set_limits(const struct sandbox_job *job)
{
	const struct sandbox_limits *l = &job->limits;
	uint64_t mapped = mapped_bytes();
	int err = LIMIT_MEMORY && mapped ?
			  limit(RLIMIT_AS, mapped + l->mem_bytes, mapped + l->mem_bytes) :
			  0;

	if (!err)
		err = limit(RLIMIT_CPU, l->cpu_s, l->cpu_s + 1ull);
	if (!err)
		err = limit(RLIMIT_FSIZE, l->file_bytes, l->file_bytes);
	if (!err)
		err = limit(RLIMIT_CORE, 0, 0);
	/* poll() takes no more descriptors than that: standard output alone */
	return err ? err : limit(RLIMIT_NOFILE, job->file_cnt > 0, job->file_cnt > 0);
}

/* ---- identity ---- */

/* A user that has no other process: one of the same user could send signals, or lower limits. */
static int drop_privileges(pid_t parent)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[2] = { 0 };
	uid_t id;

	if (getrandom(&id, sizeof(id), 0) != (ssize_t)sizeof(id))
		return -EIO;
	id = UNUSED_IDS | (id >> 2); /* not -1, which means none */
	/* only who may can become another user: the rest holds for any user */
	if (setgroups(0, NULL) && errno != EPERM)
		return -errno;
	if (setresgid(id, id, id) && errno != EPERM && errno != EINVAL)
		return -errno;
	if (setresuid(id, id, id) && errno != EPERM && errno != EINVAL)
		return -errno;
	/* they go with the permitted ones anyway */
	prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	if (syscall(SYS_capset, &head, none) || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) || prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0))
		return -errno;
	return getppid() == parent ? 0 : -ESRCH;
}

/* ---- system calls ---- */

/* What memory, time and the end need; everything else fails with EPERM, which no library takes
 * amiss. */
static const int allowed[] = {
	SYS_brk, SYS_munmap, SYS_mremap, SYS_madvise, SYS_exit_group, SYS_exit, SYS_clock_gettime,
	SYS_gettimeofday, SYS_rt_sigreturn, SYS_futex, SYS_getrandom, SYS_sched_yield,
	SYS_rt_sigprocmask, SYS_getpid, SYS_gettid,
	/* of descriptors that it was given: as good as mapping them, and without SIGBUS when a file
	 * is cut */
	SYS_poll, SYS_lseek, SYS_fstat, SYS_pread64,
#ifdef __SANITIZE_ADDRESS__
	SYS_sigaltstack, /* AddressSanitizer, before a function that does not return */
#endif
};

#define ALLOWED_CNT (sizeof(allowed) / sizeof(allowed[0]))
#define ARG(n) ((uint32_t)offsetof(struct seccomp_data, args[n])) /* the low half */
#define PROG_MAX (2 * (ALLOWED_CNT + SANDBOX_FILES) + 32)

struct prog {
	struct sock_filter insns[PROG_MAX];
	unsigned short cnt;
};

static void add(struct prog *p, struct sock_filter insn)
{
	p->insns[p->cnt++] = insn;
}

/* Returns `action` when the accumulator equals k. */
static void when_equal(struct prog *p, uint32_t k, uint32_t action)
{
	add(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, k, 0, 1));
	add(p, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action));
}

/* mmap and mprotect: nothing that can be executed. */
static void no_exec(struct prog *p, uint32_t nr)
{
	add(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 4));
	add(p, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ARG(2)));
	add(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 0, 1));
	add(p, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM));
	add(p, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
}

static int filter_calls(const struct sandbox_job *job, int out_fd)
{
	struct prog p = { .cnt = 0 };
	struct sock_fprog prog = { .filter = p.insns };

	add(&p, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
					     offsetof(struct seccomp_data, arch)));
	add(&p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0));
	add(&p, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS));
	add(&p, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
					     offsetof(struct seccomp_data, nr)));
	for (size_t i = 0; i < ALLOWED_CNT; i++)
		when_equal(&p, (uint32_t)allowed[i], SECCOMP_RET_ALLOW);
	no_exec(&p, SYS_mmap);
	no_exec(&p, SYS_mprotect);
	/* write, to the two pipes and the job's files */
	add(&p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 1, 0));
	add(&p, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM));
	add(&p, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ARG(0)));
	for (uint32_t i = 0; i < job->file_cnt; i++)
		when_equal(&p, (uint32_t)job->files[i], SECCOMP_RET_ALLOW);
	when_equal(&p, (uint32_t)out_fd, SECCOMP_RET_ALLOW);
	when_equal(&p, STDERR_FILENO, SECCOMP_RET_ALLOW);
	add(&p, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM));
	prog.len = p.cnt;
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog, 0, 0) ? -errno : 0;
}

/*
 * Gives up, for good, all that the job does not need; out_fd and stderr stay writable. 0 or
 * negative errno: then the job must not run. The order matters: descriptors and limits while the
 * child may still set them, then the identity, then what a change of identity resets (the signal at
 * the parent's death, being dumpable), the filter last.
 */
static int enter_sandbox(const struct sandbox_job *job, int out_fd, pid_t parent)
{
	int err = close_others(job, out_fd);

	if (!err)
		err = set_limits(job);
	if (!err)
		err = drop_privileges(parent);
	return err ? err : filter_calls(job, out_fd);
}

/* ---- in the child: the job ---- */

/* What a process that parses a hostile file gets for what it does itself. Others come from root or
 * the kernel (no memory). */
static const int faults[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGSYS };

/* The parent gets these as well, and ends the child; the last two are errors of write(). */
static const int others[] = { SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGXFSZ };

static void set_signals(void)
{
	sigset_t none;

	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
		signal(faults[i], SIG_DFL);
	signal(SIGXCPU, SIG_DFL);
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		signal(others[i], SIG_IGN);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

static _Noreturn void child(const struct sandbox_job *job, int out_fd, int messages_fd,
			    pid_t parent)
{
	uint8_t *out = NULL;
	size_t len = 0;
	int err;

	set_signals();
	mem__set_exit(EXIT_MEMORY);
	if (dup2(messages_fd, STDERR_FILENO) < 0)
		_exit(EXIT_REFUSED);
	err = enter_sandbox(job, out_fd, parent);
	if (err) {
		pr_error("cannot drop privileges to analyse %s: %s", job->what, errstr(err));
		_exit(EXIT_REFUSED);
	}
	err = job->fn(job->arg, &out, &len);
	if (!err) {
		err = new_file__write(out_fd, out, len);
		if (err)
			pr_error("the analysis of %s cannot be returned: %s", job->what,
				 errstr(err));
	}
	_exit(-err >= 0 && -err < EXIT_MEMORY ? -err : EIO);
}

/* ---- in the parent ---- */

static void stream__close(struct stream *s)
{
	if (s->fd >= 0)
		close(s->fd);
	s->fd = -1;
}

/* Takes what is there. 0; -E2BIG; another negative errno. */
static int stream__read(struct stream *s)
{
	ssize_t n;

	if (s->len > s->max)
		return -E2BIG;
	/* and an end, for print_messages() */
	vec_reserve((void **)&s->data, &s->cap, s->len + READ_SZ + 1, 1);
	n = read(s->fd, s->data + s->len, READ_SZ);
	if (n < 0)
		return errno == EINTR || errno == EAGAIN ? 0 : -errno;
	if (!n)
		stream__close(s);
	s->len += (size_t)n;
	return s->len > s->max ? -E2BIG : 0;
}

static int start(struct running *r)
{
	pid_t parent = getpid();
	int out[2], messages[2], err;

	if (pipe2(out, O_CLOEXEC))
		return -errno;
	if (pipe2(messages, O_CLOEXEC)) {
		err = -errno;
		close(out[0]);
		close(out[1]);
		return err;
	}
	fflush(NULL);
	r->pid = fork();
	if (!r->pid)
		child(r->job, out[1], messages[1], parent);
	err = r->pid < 0 ? -errno : 0;
	close(out[1]);
	close(messages[1]);
	r->out = (struct stream){ .fd = out[0], .max = r->job->limits.out_bytes };
	r->messages = (struct stream){ .fd = messages[0], .max = MESSAGES_MAX };
	return err;
}

/* Until both pipes are at their ends, which is when the child ends. 0 or negative errno: it must be
 * killed. */
static int collect(struct running *r)
{
	uint64_t begin = clock__mono_ns(), wall_ms = r->job->limits.wall_ms, ms;
	struct pollfd p[3] = { [2] = { .fd = cancel__fd(), .events = POLLIN } };
	int err = 0, n;

	while (!err && (r->out.fd >= 0 || r->messages.fd >= 0)) {
		ms = (clock__mono_ns() - begin) / 1000000;
		if (wall_ms && ms >= wall_ms)
			return -ETIMEDOUT;
		p[0] = (struct pollfd){ .fd = r->out.fd, .events = POLLIN };
		p[1] = (struct pollfd){ .fd = r->messages.fd, .events = POLLIN };
		n = poll(p, 3, idle_fn ? IDLE_MS : wall_ms ? (int)(wall_ms - ms) : -1);
		if (n < 0 && errno != EINTR)
			return -errno;
		sandbox__idle();
		if (cancel__pending())
			return -ECANCELED;
		if (n > 0 && p[0].revents)
			err = stream__read(&r->out);
		if (n > 0 && p[1].revents && !err)
			err = stream__read(&r->messages);
	}
	return err;
}

/* The child's own messages, which the input may have written. */
static void print_messages(struct stream *s)
{
	char *p = (char *)s->data, *end, *text = NULL;
	size_t len;
	FILE *f;

	if (!s->len)
		return;
	f = xmemstream(&text, &len);
	p[s->len < MESSAGES_MAX ? s->len : MESSAGES_MAX] = '\0';
	for (; p && *p; p = end) {
		end = strchr(p, '\n');
		if (end)
			*end++ = '\0';
		term_text__put(f, p, SIZE_MAX);
		fputc('\n', f);
	}
	mem__check(fclose(f) ? NULL : text);
	fputs(text, stderr);
	free(text);
}

static int stopped(const struct running *r, int err)
{
	const struct sandbox_limits *l = &r->job->limits;

	if (err == -ETIMEDOUT)
		pr_error("the analysis of %s took longer than %u s and was "
			 "stopped",
			 r->job->what, l->wall_ms / 1000);
	else if (err == -E2BIG)
		pr_error("the analysis of %s returned more than %zu bytes and was "
			 "stopped",
			 r->job->what, l->out_bytes);
	else if (err != -ECANCELED)
		pr_error("the analysis of %s cannot be read: %s", r->job->what, errstr(err));
	return err;
}

static bool is_fault(int sig)
{
	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
		if (faults[i] == sig)
			return true;
	return false;
}

/* How the child ended by itself, or by a signal of somebody else: that says nothing about the
 * input. */
static int verdict(const struct running *r, int status, const struct rusage *used)
{
	const char *what = r->job->what;
	int sig = WIFSIGNALED(status) ? WTERMSIG(status) : 0;

	if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_REFUSED)
		return -EPERM;
	if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_MEMORY) {
		pr_error("the analysis of %s needs more than %" PRIu64
			 " MiB of memory and was stopped",
			 what, r->job->limits.mem_bytes >> 20);
		return -E2BIG;
	}
	if (WIFEXITED(status))
		return -WEXITSTATUS(status);
	/* SIGXCPU can be blocked: SIGKILL follows a second later */
	if (sig == SIGXCPU ||
	    used->ru_utime.tv_sec + used->ru_stime.tv_sec >= r->job->limits.cpu_s) {
		pr_error("the analysis of %s took more than %u s of processor time and was stopped",
			 what, r->job->limits.cpu_s);
		return -ETIMEDOUT;
	}
	if (is_fault(sig)) {
		pr_error(
			"the analysis of %s was ended by signal %d: a file is damaged, or was truncated "
			"while it was read",
			what, sig);
		return -EIO;
	}
	pr_warn("the analysis of %s was ended by signal %d: memory was short, or somebody sent the signal",
		what, sig);
	return -EINTR;
}

/* One that waits for a file system that does not answer does not even end by SIGKILL, before that
 * does. */
static int reap(const struct running *r, int *status, struct rusage *used)
{
	const struct timespec nap = { .tv_nsec = 500000 };
	uint64_t end = clock__mono_ns() + REAP_NS;
	pid_t pid;

	while ((pid = wait4(r->pid, status, WNOHANG, used)) != r->pid) {
		if (pid < 0 && errno != EINTR)
			return -errno;
		if (clock__mono_ns() > end) {
			pr_error("the process that analyses %s does not exit: a file system does "
				 "not respond",
				 r->job->what);
			return -ETIMEDOUT;
		}
		nanosleep(&nap, NULL);
	}
	return 0;
}

static int run_once(const struct sandbox_job *job, uint8_t **out, size_t *len)
{
	struct running r = { .job = job };
	struct rusage used = { 0 };
	int err, reaped, status = 0;

	*out = NULL;
	*len = 0;
	if (cancel__pending())
		return -ECANCELED;
	err = start(&r);
	if (err) {
		pr_error("no process can be started for the analysis of %s: %s", job->what,
			 errstr(err));
	} else {
		err = collect(&r);
		if (err)
			kill(r.pid, SIGKILL);
		reaped = reap(&r, &status, &used);
		print_messages(&r.messages);
		err = err ? stopped(&r, err) : reaped ? reaped : verdict(&r, status, &used);
	}
	stream__close(&r.out);
	stream__close(&r.messages);
	free(r.messages.data);
	if (err) {
		free(r.out.data);
		return err;
	}
	*out = r.out.data;
	*len = r.out.len;
	return 0;
}

int sandbox__run(const struct sandbox_job *job, uint8_t **out, size_t *len)
{
	int err = run_once(job, out, len);

	return err == -EINTR && !job->file_cnt ? run_once(job, out, len) : err;
}
