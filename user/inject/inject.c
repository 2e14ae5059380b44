/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* By which method a library is loaded into a running process, and when not at all; see inject.h. */
#define LOG_DOMAIN "inject"
#include "inject/inject.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/proc_read.h"
#include "base/sandbox.h"
#include "inject/inject_priv.h"
#include "target/proc.h"
#include "target/proc_info.h"

#define DEFAULT_LIMIT_NS 5000000000ULL

const char *inject__method_text(enum inject_method method)
{
	switch (method) {
	case INJECT_REMOTE_EXEC:
		return "remote execution (PEP 768)";
	case INJECT_PTRACE:
		return "ptrace";
	case INJECT_NONE:
		break;
	}
	return "";
}

bool inject__is_mapped(const struct inject_job *job)
{
	const char *base = strrchr(job->path, '/') + 1;
	struct proc_maps maps;
	bool found = false;

	if (proc_maps__read(job->pid, &maps))
		return false;
	/* another mount namespace's path may read differently, and an overlay's device and inode */
	for (uint32_t i = 0; i < maps.cnt && !found; i++)
		found = maps.items[i].exec && !maps.items[i].deleted &&
			!strcmp(proc_map__base(&maps.items[i]), base) &&
			(maps.items[i].ino == job->file.st_ino ||
			 !strcmp(maps.items[i].path, job->path));
	proc_maps__free(&maps);
	return found;
}

bool inject__is_alive(const struct inject_job *job)
{
	struct thread_status st;

	if (!thread_status__read(job->pid, 0, &st) && st.state != 'Z' && st.state != 'X')
		return true;
	refuse(job, "the process has ended");
	return false;
}

bool inject__is_time(const struct inject_job *job)
{
	return clock__mono_ns() < job->deadline_ns && !cancel__pending();
}

void inject__nap(uint64_t ns)
{
	struct timespec ts = { (time_t)(ns / 1000000000), (long)(ns % 1000000000) };

	nanosleep(&ts, NULL);
	sandbox__idle();
}

bool inject__is_running(int pidfd)
{
	return !syscall(SYS_pidfd_send_signal, pidfd, 0, NULL, 0);
}

/* Before anything is read of the process, so that all of it is about this address space or leads
 * nowhere. */
static int open_process(struct inject_job *job, struct remote_mem *mem)
{
	int err = 0;

	job->pidfd = (int)syscall(SYS_pidfd_open, job->pid, 0);
	if (job->pidfd < 0) {
		refuse(job, "there is no such process");
		return -ESRCH;
	}
	job->mem = mem;
	if (!mem)
		err = remote_mem__open(job->pid, true, &job->mem);
	if (err) {
		refuse(job, "there is no such process, or its memory cannot be opened: %s",
		       errstr(err));
		return err;
	}
	if (!inject__is_running(job->pidfd)) {
		refuse(job, "the process has ended");
		return -ESRCH;
	}
	return 0;
}

/* NULL: the loader of the process finds our file under that name. */
static const char *why_hidden(const struct inject_job *job)
{
	int fd = file_server__open(job->pid, job->path, FILE_SERVER_KERNEL);
	const char *why = NULL;
	struct statvfs fs;
	struct stat theirs;

	if (fd < 0 || fstat(fd, &theirs))
		why = "not found";
	else if (theirs.st_dev != job->file.st_dev || theirs.st_ino != job->file.st_ino)
		why = "another file";
	else if (!fstatvfs(fd, &fs) && fs.f_flag & ST_NOEXEC)
		why = "on a file system that is mounted noexec";
	if (fd >= 0)
		close(fd);
	return why;
}

static int fill_copy(void *arg, int fd)
{
	struct inject_job *job = arg;
	int from = open(job->path, O_RDONLY | O_CLOEXEC);
	off_t left = job->file.st_size;
	ssize_t n = 1;

	while (from >= 0 && left > 0 && n > 0) {
		n = sendfile(fd, from, NULL, (size_t)left);
		left -= n;
	}
	if (from < 0 || n < 0)
		n = -errno;
	if (from >= 0)
		close(from);
	if (!n)
		n = left ? -EIO : 0;
	return n < 0 ? (int)n : fchmod(fd, 0555) ? -errno : 0;
}

/* The process is in another root directory or mount namespace: a container. */
static int make_copy(struct inject_job *job)
{
	const char *base = strrchr(job->path, '/') + 1, *suffix = strstr(base, ".so");
	char stem[200];
	int err;

	snprintf(stem, sizeof(stem), "%.*s", suffix ? (int)(suffix - base) : (int)strlen(base),
		 base);
	err = root_temp__create(job->pid, stem, ".so", ROOT_TEMP_CODE, fill_copy, job, &job->copy);
	if (!err && fstat(job->copy.fd, &job->file))
		err = -errno;
	if (err)
		return err;
	close(job->copy.fd); /* no descriptor that can write to it is left */
	job->copy.fd = -1;
	job->path = job->copy.path;
	return 0;
}

static int check_path(struct inject_job *job)
{
	int err;

	if (job->path[0] != '/' || strlen(job->path) >= PATH_MAX) {
		refuse(job, "%s is not an absolute path", job->path);
		return -EINVAL;
	}
	if (!realpath(job->path, job->real) || stat(job->real, &job->file)) {
		err = -errno;
		refuse(job, "%s: %s", job->path, errstr(err));
		return err;
	}
	job->path = job->real;
	return 0;
}

static int make_file_visible(struct inject_job *job)
{
	const char *why = why_hidden(job);
	int err = why ? make_copy(job) : 0;

	if (err)
		refuse(job,
		       "%.80s is %s in the root directory of the process, where no copy of it can be "
		       "made either: %s",
		       job->path, why,
		       err == -EXDEV ? "FUSE or NFS serves the directories" : errstr(err));
	return err ? -EXDEV : 0;
}

static bool have_same_filters(pid_t pid, const struct thread_status *main)
{
	struct thread_status st;
	pid_t *tids;
	int n = proc__threads(pid, &tids);
	bool same = n > 0;

	for (int i = 0; i < n && same; i++) /* one that has ended meanwhile has none that matter */
		same = thread_status__read(pid, tids[i], &st) ||
		       (st.seccomp == main->seccomp && st.filters == main->filters);
	if (n > 0)
		free(tids);
	return same;
}

static int check_process(struct inject_job *job)
{
	struct thread_status st;
	int err = thread_status__read(job->pid, 0, &st);

	if (err) {
		err = -ESRCH;
		refuse(job, "there is no such process, or it cannot be read");
	} else if (st.state == 'Z' || st.state == 'X') {
		err = -ESRCH;
		refuse(job, "the process has ended");
	} else if (st.tracer) {
		err = -EBUSY;
		refuse(job, "process %d traces it (a debugger?)", st.tracer);
	} else if (st.state == 'T' || st.state == 't') {
		err = -EBUSY;
		refuse(job, "the process is stopped");
	} else if (!have_same_filters(job->pid, &st)) {
		/* those of other threads, in which the agent's code will run too, are not read */
		err = -EPERM;
		refuse(job, "its threads have different seccomp filters");
	} else if (st.shadow_stack) {
		err = -ENOTSUP;
		refuse(job, "it has a shadow stack, which ptrace cannot return through");
	}
	return err;
}

static int load_by_methods(struct inject_job *job, const struct inject_opts *opts)
{
	int err = open_process(job, opts->mem), bad;

	if (!err)
		err = check_process(job);
	if (err == -ESRCH)
		return err;
	bad = check_path(job);
	if (bad)
		return bad;
	if (inject__is_mapped(job))
		return 0; /* nothing is to be done */
	if (!err)
		err = make_file_visible(job);
	if (err)
		return err;
	if (opts->only != INJECT_PTRACE) {
		err = remote_exec__load(job);
		if (!err || err != -EAGAIN || opts->only == INJECT_REMOTE_EXEC)
			return err;
		pr_debug("process %d: remote execution is not possible: %s", job->pid,
			 job->res->why);
	}
	return ptrace_load__library(job);
}

int inject__load(pid_t pid, const struct inject_opts *opts, struct inject_result *res)
{
	struct inject_job job = {
		.pid = pid, .pidfd = -1, .path = opts->lib_path, .res = res, .copy = ROOT_TEMP_NONE
	};
	int err;

	memset(res, 0, sizeof(*res));
	job.deadline_ns = clock__mono_ns() + (opts->limit_ns ? opts->limit_ns : DEFAULT_LIMIT_NS);
	err = load_by_methods(&job, opts);
	root_temp__remove(&job.copy);
	if (!opts->mem)
		remote_mem__close(job.mem);
	if (job.pidfd >= 0)
		close(job.pidfd);
	if (!err)
		res->why[0] = '\0';
	return err;
}
