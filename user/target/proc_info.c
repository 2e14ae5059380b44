/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See proc_info.h. Texts of /proc are the kernel's, but names in them may hold anything. */
#include "target/proc_info.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/containers.h"
#include "base/mem.h"
#include "base/proc_read.h"

#define CMDLINE_MAX 4096
#define FDS_MAX 4096 /* that are inspected */

/* ---- texts ---- */

const char *proc_file__field(const char *text, const char *name)
{
	const char *at = strstr(text, name);

	return at ? at + strlen(name) : "";
}

bool proc_path__cut_deleted(char *path)
{
	static const char suffix[] = " (deleted)";
	size_t len = strlen(path);

	if (len < sizeof(suffix) || strcmp(path + len - (sizeof(suffix) - 1), suffix) != 0)
		return false;
	path[len - (sizeof(suffix) - 1)] = 0;
	return true;
}

/* ---- cgroup ---- */

bool proc_cgroup__next(const char **at, struct proc_cgroup *cg)
{
	while (**at) {
		const char *line = *at, *names, *path;
		size_t len = strcspn(line, "\n");

		*at += len + (line[len] == '\n');
		names = memchr(line, ':', len);
		path = names ? memchr(names + 1, ':', len - (size_t)(names + 1 - line)) : NULL;
		if (!path)
			continue;
		*cg = (struct proc_cgroup){ .controllers = names + 1,
					    .controllers_len = (size_t)(path - names) - 1,
					    .path = path + 1,
					    .len = len - (size_t)(path + 1 - line),
					    .v2 = !strncmp(line, "0::", 3) };
		return true;
	}
	return false;
}

/* ---- stat ---- */

int proc_stat__read(pid_t pid, struct proc_stat *out)
{
	char *text, *p;
	uint64_t user, kernel;
	size_t len;
	int err = proc_file__read(pid, 0, "stat", &text, &len);

	if (err)
		return err;
	p = strrchr(text, ')'); /* the name before it may hold blanks and parentheses */
	if (!p || sscanf(p + 1,
			 " %c %d %*d %*d %*d %*d %" SCNu32 " %" SCNu64 " %*u %" SCNu64
			 " %*u %" SCNu64 " %" SCNu64 " %*d %*d %*d %*d %" SCNu32 " %*d %" SCNu64,
			 &out->state, &out->parent, &out->flags, &out->minor, &out->major, &user,
			 &kernel, &out->threads, &out->start) != 9)
		err = -EPROTO;
	out->cpu = err ? 0 : user + kernel;
	free(text);
	return err;
}

char proc__state(pid_t pid)
{
	struct proc_stat st;

	return proc_stat__read(pid, &st) ? 0 : st.state;
}

/* ---- status ---- */

int thread_status__read(pid_t pid, pid_t tid, struct thread_status *out)
{
	const char *num;
	char *text, *end;
	size_t len;
	int err = proc_file__read(pid, tid, "status", &text, &len);

	if (err)
		return err;
	memset(out, 0, sizeof(*out));
	sscanf(proc_file__field(text, "\nState:"), " %c", &out->state);
	sscanf(proc_file__field(text, "\nTgid:"), "%d", &out->tgid);
	sscanf(proc_file__field(text, "\nTracerPid:"), "%d", &out->tracer);
	for (num = proc_file__field(text, "\nNSpid:"); *num == '\t' || *num == ' '; num = end)
		/* one for each namespace, the innermost last */
		out->ns_pid = (pid_t)strtol(num, &end, 10);
	sscanf(proc_file__field(text, "\nSeccomp:"), "%" SCNu32, &out->seccomp);
	sscanf(proc_file__field(text, "\nSeccomp_filters:"), "%" SCNu32, &out->filters);
	sscanf(proc_file__field(text, "\nUid:"), "%*u %*u %*u %" SCNu32, &out->uid);
	sscanf(proc_file__field(text, "\nGid:"), "%*u %*u %*u %" SCNu32, &out->gid);
	out->pending = strtoull(proc_file__field(text, "\nSigPnd:"), NULL, 16) |
		       strtoull(proc_file__field(text, "\nShdPnd:"), NULL, 16);
	out->blocked = strtoull(proc_file__field(text, "\nSigBlk:"), NULL, 16);
	num = proc_file__field(text, "\nx86_Thread_features:");
	out->shadow_stack = !strncmp(num, "\tshstk", 6) || strstr(num, "shstk ");
	num = proc_file__field(text, "\nCpus_allowed_list:");
	num += *num == '\t';
	len = strcspn(num, "\n");
	if (len < sizeof(out->cpus))
		memcpy(out->cpus, num, len);
	free(text);
	return 0;
}

/* Fields of status that are "   123 kB", in bytes. -ESRCH: one is missing, the process has no memory any more. */
static int read_sizes(pid_t pid, const char *const *names, uint64_t *bytes, uint32_t cnt)
{
	uint64_t kb;
	char *text;
	size_t len;
	int err = proc_file__read(pid, 0, "status", &text, &len);

	if (err)
		return err;
	for (uint32_t i = 0; i < cnt && !err; i++) {
		kb = 0;
		if (sscanf(proc_file__field(text, names[i]), "%" SCNu64 " kB", &kb) != 1 &&
		    strcmp(names[i], "\nVmSwap:") != 0) /* not there without swap */
			err = -ESRCH;
		bytes[i] = kb * 1024;
	}
	free(text);
	return err;
}

int proc_memory__read(pid_t pid, struct proc_memory *out)
{
	static const char *const names[PTB_RSS_KINDS + 1] = {
		[PTB_RSS_FILE] = "\nRssFile:", [PTB_RSS_ANON] = "\nRssAnon:",
		[PTB_RSS_SWAP] = "\nVmSwap:",  [PTB_RSS_SHMEM] = "\nRssShmem:",
		[PTB_RSS_KINDS] = "\nVmSize:",
	};
	uint64_t bytes[PTB_RSS_KINDS + 1];
	struct proc_stat st;
	int err = read_sizes(pid, names, bytes, PTB_RSS_KINDS + 1);

	if (!err)
		err = proc_stat__read(pid, &st);
	*out = (struct proc_memory){ 0 };
	if (err)
		return err;
	memcpy(out->rss, bytes, sizeof(out->rss));
	out->vm_bytes = bytes[PTB_RSS_KINDS];
	out->minor = st.minor;
	out->major = st.major;
	return 0;
}

int proc_memory__code(pid_t pid, uint64_t *bytes)
{
	static const char *const names[] = { "\nVmExe:", "\nVmLib:" };
	uint64_t sizes[2] = { 0 };
	int err = read_sizes(pid, names, sizes, 2);

	*bytes = sizes[0] + sizes[1];
	return err;
}

/* ---- lists of threads and children ---- */

struct pid_list {
	pid_t *pids;
	uint32_t cnt, cap;
};

static void pid_list__add(struct pid_list *list, long pid)
{
	if (pid <= 0 || pid > INT32_MAX)
		return;
	vec_push(list->pids, list->cnt, list->cap, (pid_t)pid);
}

/* Names of a directory that are numbers. */
static int list_numbers(const char *path, struct pid_list *list)
{
	struct dirent *de;
	DIR *dir = opendir(path);
	char *end;
	long v;

	if (!dir)
		return errno == ENOENT ? -ESRCH : -errno;
	while ((de = readdir(dir))) {
		v = strtol(de->d_name, &end, 10);
		if (!*end)
			pid_list__add(list, v);
	}
	closedir(dir);
	return 0;
}

uint64_t proc__gpus(pid_t pid)
{
	uint32_t left = FDS_MAX, n;
	char path[64], file[64];
	struct dirent *de;
	uint64_t gpus = 0;
	DIR *fds;
	int dir;

	snprintf(path, sizeof(path), "/proc/%d/fd/", pid);
	fds = opendir(path);
	dir = fds ? dirfd(fds) : -1;
	while (fds && left-- && (de = readdir(fds))) {
		ssize_t len = readlinkat(dir, de->d_name, file, sizeof(file) - 1);

		file[len > 0 ? len : 0] = '\0';
		if (sscanf(file, "/dev/nvidia%" SCNu32, &n) == 1 && n < 64)
			gpus |= 1ULL << n;
	}
	if (fds)
		closedir(fds);
	return gpus;
}

static int finish_list(struct pid_list *list, int err, pid_t **out)
{
	if (err) {
		free(list->pids);
		*out = NULL;
		return err;
	}
	*out = list->pids;
	return (int)list->cnt;
}

int proc__threads(pid_t pid, pid_t **tids)
{
	struct pid_list list = { 0 };
	char path[64];
	int err;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	err = list_numbers(path, &list);
	if (!err && !list.cnt)
		err = -ESRCH;
	return finish_list(&list, err, tids);
}

/* Kernels without CONFIG_PROC_CHILDREN: all processes are searched for this parent. */
static int list_by_parent(pid_t pid, struct pid_list *list)
{
	struct pid_list all = { 0 };
	struct proc_stat st;
	int err = list_numbers("/proc", &all);

	for (uint32_t i = 0; i < all.cnt && !err; i++)
		if (!proc_stat__read(all.pids[i], &st) && st.parent == pid)
			pid_list__add(list, all.pids[i]);
	free(all.pids);
	return err;
}

int proc__children(pid_t pid, pid_t **pids)
{
	struct pid_list list = { 0 };
	bool supported = false;
	char *text, *at, *end;
	pid_t *tids;
	size_t len;
	long child;
	int n, err = 0;

	*pids = NULL;
	n = proc__threads(pid, &tids);
	if (n < 0)
		return n;
	for (int i = 0; i < n; i++) {
		if (proc_file__read(pid, tids[i], "children", &text, &len))
			continue; /* that thread ended, or the kernel has no such file */
		supported = true;
		for (at = text; child = strtol(at, &end, 10), end != at; at = end)
			pid_list__add(&list, child);
		free(text);
	}
	free(tids);
	if (!supported)
		err = list_by_parent(pid, &list);
	return finish_list(&list, err, pids);
}

/* ---- names ---- */

#define LOADER "ld-linux" /* -x86-64.so.2: as the program, it is nobody's name */

/* What a dynamic loader runs, by its command line: the first word that is no option, nor an
 * option's value. */
static char *loaded_program(pid_t pid)
{
	static const char *const with_value[] = {
		"--library-path", "--inhibit-rpath",        "--preload",          "--audit",
		"--argv0",        "--glibc-hwcaps-prepend", "--glibc-hwcaps-mask"
	};
	char text[CMDLINE_MAX + 1] = "", *base;
	ssize_t len = proc_file__read_some(pid, "cmdline", text, CMDLINE_MAX);
	const char *word = text + strlen(text) + 1;

	while (len > 0 && word < text + len && !strncmp(word, "--", 2)) {
		bool skip = false;

		for (size_t i = 0; i < sizeof(with_value) / sizeof(with_value[0]); i++)
			skip |= !strcmp(word, with_value[i]);
		word += strlen(word) + 1;
		if (skip && word < text + len)
			word += strlen(word) + 1;
	}
	if (len <= 0 || word >= text + len || !*word)
		return NULL;
	base = strrchr(word, '/');
	return xstrdup(base ? base + 1 : word);
}

bool proc__is_loader(const char *comm)
{
	return !strncmp(comm, LOADER, sizeof(LOADER) - 1);
}

int proc__comm(pid_t pid, pid_t tid, char buf[16])
{
	char *text, *program;
	size_t len;
	int err;

	buf[0] = 0;
	err = proc_file__read(pid, tid ? tid : pid, "comm", &text, &len);
	if (err)
		return err;
	if (len && text[len - 1] == '\n')
		text[--len] = 0;
	program = proc__is_loader(text) ? loaded_program(pid) : NULL;
	snprintf(buf, 16, "%s", program ? program : text);
	free(program);
	free(text);
	return 0;
}

static bool same_namespace(pid_t pid, const char *kind)
{
	char own_path[64], path[64];
	struct stat own, other;

	snprintf(own_path, sizeof(own_path), "/proc/self/ns/%s", kind);
	snprintf(path, sizeof(path), "/proc/%d/ns/%s", pid, kind);
	return !stat(own_path, &own) && !stat(path, &other) && own.st_dev == other.st_dev &&
	       own.st_ino == other.st_ino;
}

bool proc__same_pidns(pid_t pid)
{
	return same_namespace(pid, "pid");
}

bool proc__same_timens(pid_t pid)
{
	return access("/proc/self/ns/time", F_OK) || same_namespace(pid, "time");
}

/* ---- what control groups say ---- */

/* NULL: this group has no such file. folder: of the hierarchy, "" or "/cpu". */
static FILE *open_group(const char *folder, const char *path, size_t len, const char *file)
{
	char *name = xasprintf("/sys/fs/cgroup%s%.*s/%s", folder, (int)len, path, file);
	FILE *f = fopen(name, "re");

	free(name);
	return f;
}

/* Of a hierarchy of version 1: "cpu,cpuacct". */
static bool has_controller(const struct proc_cgroup *cg, const char *name)
{
	const char *p = cg->controllers, *end = p + cg->controllers_len;
	size_t len = strlen(name), n;

	for (; p < end; p += n + 1) {
		n = strcspn(p, ",:");
		if (n == len && !strncmp(p, name, n))
			return true;
	}
	return false;
}

static bool group_says(const char *folder, const struct proc_cgroup *cg, const char *file,
		       const char *what)
{
	FILE *f = open_group(folder, cg->path, cg->len, file);
	char line[64];
	bool yes = false;

	while (f && !yes && fgets(line, sizeof(line), f))
		yes = strstr(line, what) != NULL;
	if (f)
		fclose(f);
	return yes;
}

/* By its group, or by one above, in either version of control groups. */
static bool is_frozen(pid_t pid)
{
	struct proc_cgroup cg;
	bool frozen = false;
	const char *at;
	char *text;
	size_t len;

	if (proc_file__read(pid, 0, "cgroup", &text, &len))
		return false;
	for (at = text; !frozen && proc_cgroup__next(&at, &cg);)
		if (cg.v2)
			frozen = group_says("", &cg, "cgroup.events", "frozen 1") ||
				 group_says("/unified", &cg, "cgroup.events", "frozen 1");
		else if (has_controller(&cg, "freezer"))
			frozen = group_says("/freezer", &cg, "freezer.state", "FROZEN");
	free(text);
	return frozen;
}

static void throttled_in(const char *folder, const char *path, size_t len, uint64_t *sum)
{
	FILE *f = open_group(folder, path, len, "cpu.stat");
	uint64_t ns = 0, v;
	char line[128];

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "throttled_usec %" SCNu64, &v) == 1)
			ns = v * 1000;
		else if (sscanf(line, "throttled_time %" SCNu64, &v) == 1) /* version 1 */
			ns = v;
	if (f)
		fclose(f);
	*sum += ns;
}

/* "200000 100000": so many us in so many; "max 100000": no quota. Version 1: two files, and -1. */
static void quota_in(const char *folder, const char *path, size_t len, uint64_t *least)
{
	static const char *const files[] = { "cpu.max", "cpu.cfs_quota_us", "cpu.cfs_period_us" };
	uint64_t us[2] = { 0 };
	uint32_t cnt = 0;

	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
		FILE *f = open_group(folder, path, len, files[i]);

		while (f && cnt < 2 && fscanf(f, "%" SCNu64, &us[cnt]) == 1)
			cnt++;
		if (f)
			fclose(f);
	}
	if (us[0] && us[1] && us[0] < UINT64_MAX / 100 && (!*least || us[0] * 100 / us[1] < *least))
		*least = us[0] * 100 / us[1];
}

typedef void (*group_fn)(const char *folder, const char *path, size_t len, uint64_t *value);

/* Of the group and those above it. */
static void ask_above(const char *folder, const struct proc_cgroup *cg, group_fn ask,
		      uint64_t *value)
{
	ask(folder, "", 0, value);
	for (size_t len = cg->len; len > 1; len--)
		if (len == cg->len || cg->path[len] == '/')
			ask(folder, cg->path, len, value);
}

static uint64_t ask_groups(pid_t pid, group_fn ask)
{
	struct proc_cgroup cg;
	uint64_t value = 0;
	const char *at;
	char *text;
	size_t len;

	if (proc_file__read(pid, 0, "cgroup", &text, &len))
		return 0;
	for (at = text; proc_cgroup__next(&at, &cg);)
		if (cg.v2) {
			ask_above("", &cg, ask, &value);
			ask_above("/unified", &cg, ask, &value);
		} else if (has_controller(&cg, "cpu")) {
			ask_above("/cpu", &cg, ask, &value);
		}
	free(text);
	return value;
}

uint64_t proc__throttled_ns(pid_t pid)
{
	return ask_groups(pid, throttled_in);
}

uint64_t proc__cpu_quota(pid_t pid)
{
	return ask_groups(pid, quota_in);
}

const char *proc__stopped(pid_t pid)
{
	switch (proc__state(pid)) {
	case 'T':
		return "a signal";
	case 't':
		return "a debugger";
	default:
		return is_frozen(pid) ? "the freezer of its control group" : NULL;
	}
}

char *proc_info__exe_name(pid_t pid)
{
	char path[64], target[4096], *base, *program;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	n = readlink(path, target, sizeof(target) - 1);
	target[n > 0 ? n : 0] = 0;
	base = strrchr(target, '/');
	base = base ? base + 1 : target;
	proc_path__cut_deleted(base);
	program = proc__is_loader(base) ? loaded_program(pid) : NULL;
	return program ? program : xstrdup(base);
}

char *proc_info__cmdline(pid_t pid)
{
	char *text = xcalloc(1, CMDLINE_MAX + 1);
	ssize_t len = proc_file__read_some(pid, "cmdline", text, CMDLINE_MAX);

	while (len > 0 && !text[len - 1])
		len--;
	for (ssize_t i = 0; i < len; i++) {
		if (!text[i])
			text[i] = ' ';
		else if (iscntrl((unsigned char)text[i])) /* it is shown on terminals */
			text[i] = '?';
	}
	return text;
}
