/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Assembles what is known about one process; the verdict when it cannot be traced. */
#define LOG_DOMAIN "torch_proc"
#include "target/proc.h"
#include "target/torch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "target/proc_info.h"

static enum torch_proc_why why_of(int err)
{
	if (err == -EACCES || err == -EPERM)
		return TORCH_PROC_NO_ACCESS;
	return TORCH_PROC_NO_SUCH_PID;
}

/* Of PyTorch's package, which its module torch._C is in: distributions put its libraries elsewhere.
 * NULL: it is not mapped. */
static char *version_file(const struct proc_maps *maps)
{
	for (uint32_t i = 0; i < maps->cnt; i++) {
		const char *module = maps->items[i].path, *end = strstr(module, "/torch/_C.");

		if (end)
			return xasprintf("%.*s/torch/version.py", (int)(end - module), module);
	}
	return NULL;
}

/* Reads names and maps. */
static int read_process(struct torch_proc *tp, struct proc_maps *maps, enum torch_proc_why *why)
{
	struct thread_status status;
	struct proc_stat stat;
	int err;

	*why = TORCH_PROC_NO_SUCH_PID;
	if (tp->pid <= 0 || proc_stat__read(tp->pid, &stat))
		return -ESRCH;
	if (stat.state == 'Z' || stat.state == 'X') {
		if (stat.threads > 1)
			*why = TORCH_PROC_MAIN_ENDED;
		return -ESRCH;
	}
	/* /proc shows a thread like a process, but no probe would fire */
	if (!thread_status__read(tp->pid, 0, &status) && status.tgid && status.tgid != tp->pid) {
		pr_hint("%d is a thread of process %d", tp->pid, status.tgid);
		return -ESRCH;
	}
	*why = TORCH_PROC_OK;
	if (stat.flags & PROC_KTHREAD) {
		*why = TORCH_PROC_IS_KTHREAD;
		return -EINVAL;
	}
	proc__comm(tp->pid, 0, tp->comm);
	tp->exe = proc_info__exe_name(tp->pid);
	tp->cmdline = proc_info__cmdline(tp->pid);
	err = proc_maps__read(tp->pid, maps);
	if (err) {
		*why = why_of(err);
		return *why == TORCH_PROC_NO_ACCESS ? -EACCES : err;
	}
	tp->version_file = version_file(maps);
	return 0;
}

/* Is it torch's own, and not what may be mapped without it? */
static bool is_torch(uint32_t role)
{
	return role == TORCH_LIB_C10 || role == TORCH_LIB_CPU || role == TORCH_LIB_PYTHON;
}

static const struct torch_lib *any_torch(const struct torch_proc *tp)
{
	for (uint32_t role = 0; role < TORCH_LIB_ROLES; role++)
		if (tp->libs[role].present && is_torch(role))
			return &tp->libs[role];
	return NULL;
}

bool torch_proc__has_torch(const struct torch_proc *tp)
{
	return any_torch(tp) != NULL;
}

/* "__version__ = '2.15.0+cu132'", as torch's setup.py writes it */
void torch_proc__version(const struct torch_proc *tp, char out[TORCH_VERSION_MAX + 1])
{
	static const char assigned[] = "\n__version__ = '";
	char text[4096] = "\n";
	ssize_t n = tp->version_file ? named_file__head(tp->pid, tp->version_file, text + 1,
							sizeof(text) - 2) :
				       -ENOENT;
	const char *version;
	size_t len;

	*out = '\0';
	text[n > 0 ? n + 1 : 0] = '\0';
	version = strstr(text, assigned);
	if (!version)
		return;
	version += sizeof(assigned) - 1;
	len = strspn(version, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.+-_");
	if (len <= TORCH_VERSION_MAX && version[len] == '\'')
		snprintf(out, TORCH_VERSION_MAX + 1, "%.*s", (int)len, version);
}

static int check_libraries(const struct torch_proc *tp, int bad, enum torch_proc_why *why)
{
	const struct torch_lib *any = any_torch(tp);
	char magic[4];
	int err;

	if (bad && !(tp->libs[TORCH_LIB_CPU].present && tp->libs[TORCH_LIB_C10].present)) {
		*why = TORCH_PROC_BAD_LIB;
		return bad == -EXDEV ? bad : -ENOEXEC;
	}
	if (!any) {
		*why = TORCH_PROC_NO_TORCH;
		return -ENOENT;
	}
	err = remote__read(tp->pid, any->text_start, magic, sizeof(magic));
	if (err) {
		*why = why_of(err);
		return *why == TORCH_PROC_NO_ACCESS ? -EACCES : -ESRCH;
	}
	return 0;
}

enum need { NEED_TORCH, NEED_ANY, NEED_CUDA_ONLY };

static int open_proc(pid_t pid, enum need need, struct torch_proc **out, enum torch_proc_why *why)
{
	struct torch_proc *tp = xcalloc(1, sizeof(*tp));
	struct proc_maps maps = { 0 };
	int err, bad = 0;

	*out = NULL;
	*why = TORCH_PROC_OK;
	tp->pid = pid;
	err = read_process(tp, &maps, why);
	if (!err)
		err = need == NEED_CUDA_ONLY ? torch_libs__find_cuda(tp, &maps) :
					       torch_libs__find(tp, &maps, &bad);
	if (!err && (need == NEED_TORCH || any_torch(tp)))
		err = check_libraries(tp, bad, why);
	/* a process that ended meanwhile makes all of the above fail, in ways that mean nothing */
	if (err && *why != TORCH_PROC_NO_SUCH_PID && !proc__state(pid)) {
		*why = TORCH_PROC_NO_SUCH_PID;
		err = -ESRCH;
	}
	proc_maps__free(&maps);
	if (err) {
		torch_proc__free(tp);
		return err;
	}
	*out = tp;
	return 0;
}

int torch_proc__open(pid_t pid, struct torch_proc **out, enum torch_proc_why *why)
{
	return open_proc(pid, NEED_TORCH, out, why);
}

int torch_proc__open_any(pid_t pid, struct torch_proc **out, enum torch_proc_why *why)
{
	return open_proc(pid, NEED_ANY, out, why);
}

int torch_proc__open_cuda(pid_t pid, struct torch_proc **out)
{
	enum torch_proc_why why;

	return open_proc(pid, NEED_CUDA_ONLY, out, &why);
}

void torch_proc__free(struct torch_proc *tp)
{
	if (!tp)
		return;
	for (uint32_t role = 0; role < TORCH_LIB_ROLES; role++)
		torch_lib__clear(&tp->libs[role]);
	for (uint32_t i = 0; i < tp->cuda_cnt; i++)
		torch_lib__clear(&tp->cuda[i].lib);
	free(tp->cuda);
	free(tp->exe);
	free(tp->cmdline);
	free(tp->version_file);
	free(tp);
}

void torch_cuda_lib__alone(const struct torch_cuda_lib *c, struct torch_lib libs[TORCH_LIB_ROLES])
{
	memset(libs, 0, TORCH_LIB_ROLES * sizeof(*libs));
	libs[c->role] = c->lib;
}

bool torch_proc__ready(const struct torch_proc *tp)
{
	if (!tp->libs[TORCH_LIB_C10].present || !tp->libs[TORCH_LIB_CPU].present)
		return false;
	return tp->libs[TORCH_LIB_PYTHON].present || strncmp(tp->exe, "python", 6) != 0;
}

int torch_proc__look(pid_t pid, struct torch_seen *seen)
{
	struct proc_maps maps;
	int err;

	*seen = (struct torch_seen){ .torch = false };
	err = proc_maps__read(pid, &maps);
	if (err)
		return err;
	for (uint32_t i = 0; i < maps.cnt; i++) {
		const struct proc_map *m = &maps.items[i];

		seen->torch |= torch_libs__may_be(m);
		seen->cuda |= m->exec && strstr(proc_map__base(m), "libcuda.so");
		seen->agent |= m->exec && strstr(proc_map__base(m), AGENT_LIB_STEM);
	}
	proc_maps__free(&maps);
	return 0;
}

int torch_proc__peek(pid_t pid)
{
	struct torch_seen seen;
	int err = torch_proc__look(pid, &seen);

	return err ? err : seen.torch;
}

static void mix_digest(uint64_t *h, uint64_t v)
{
	*h = (*h ^ v) * 0x9e3779b97f4a7c15ULL;
	*h ^= *h >> 29;
}

int torch_proc__peek_cuda(pid_t pid, uint64_t *digest)
{
	struct proc_maps maps;
	const char *c;
	int err = proc_maps__read(pid, &maps);

	*digest = 0;
	if (err)
		return err;
	for (uint32_t i = 0; i < maps.cnt; i++) {
		const struct proc_map *m = &maps.items[i];

		if (!torch_libs__may_be_cuda(m))
			continue;
		mix_digest(digest, m->start);
		mix_digest(digest, m->ino);
		for (c = m->path; *c; c++)
			mix_digest(digest, (uint8_t)*c);
	}
	proc_maps__free(&maps);
	return 0;
}
