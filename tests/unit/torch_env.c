/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See torch_env.h. */
#include "torch_env.h"

#include <glob.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/containers.h"

static const char *env_dir(void)
{
	const char *dir = getenv("PTBPF_ENV_DIR");

	return dir && *dir ? dir : "/var/tmp/ptbpf-envs";
}

/* As env_check() of tools/env.sh, without the directories above. */
static bool may_run(const char *dir)
{
	struct stat st;

	return !lstat(dir, &st) && S_ISDIR(st.st_mode) && !(st.st_mode & 022) &&
	       (!st.st_uid || st.st_uid == geteuid());
}

size_t torch_env__find(struct torch_env envs[TORCH_ENV_MAX])
{
	static const char tail[] = "/lib/python3*/site-packages/torch/lib/libtorch_cpu.so";
	char pattern[512];
	size_t cnt = 0;
	glob_t g;

	snprintf(pattern, sizeof(pattern), "%s/torch-*%s", env_dir(), tail);
	if (!may_run(env_dir()) || glob(pattern, 0, NULL, &g))
		return 0;
	for (size_t i = 0; i < g.gl_pathc && cnt < TORCH_ENV_MAX; i++) {
		struct torch_env *env = &envs[cnt];
		char *lib = strstr(g.gl_pathv[i], "/lib/python3");

		if (!lib || (size_t)(lib - g.gl_pathv[i]) >= sizeof(env->root) ||
		    strlen(g.gl_pathv[i]) >= sizeof(env->libs))
			continue;
		strcpy(env->libs, g.gl_pathv[i]);
		*strrchr(env->libs, '/') = 0;
		*lib = 0;
		strcpy(env->root, g.gl_pathv[i]);
		env->name = strrchr(env->root, '/') + 1;
		cnt++;
	}
	globfree(&g);
	return cnt;
}

int torch_env__skip(void)
{
	printf("SKIP: no torch-* environment with PyTorch in %s (PTBPF_ENV_DIR)\n", env_dir());
	return 77;
}

static void exec_python(const struct torch_env *env, const char *code, const int in[2], const int out[2])
{
	static const char wait[] = "\nimport sys\nprint('READY', flush=True)\nsys.stdin.read()\n";
	char python[300], *program;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	dup2(in[0], 0);
	dup2(out[1], 1);
	close(in[0]);
	close(in[1]);
	close(out[0]);
	close(out[1]);
	snprintf(python, sizeof(python), "%s/bin/python", env->root);
	if (asprintf(&program, "%s%s", code, wait) > 0)
		execl(python, python, "-c", program, (char *)NULL);
	_exit(127);
}

/* Everything up to the line READY; NULL if the program ended before. */
static char *read_until_ready(int fd)
{
	static const char ready[] = "READY\n";
	uint32_t cap = 0, len = 0;
	char *buf = NULL, *at;
	ssize_t n;

	for (;;) {
		vec_reserve((void **)&buf, &cap, len + 65536ULL, 1);
		n = read(fd, buf + len, cap - len - 1);
		if (n <= 0)
			break;
		len += (uint32_t)n;
		buf[len] = 0;
		at = len >= sizeof(ready) - 1 ? buf + len - (sizeof(ready) - 1) : NULL;
		if (at && !strcmp(at, ready)) {
			*at = 0;
			return buf;
		}
	}
	free(buf);
	return NULL;
}

bool torch_child__start(const struct torch_env *env, const char *code, struct torch_child *child)
{
	int in[2], out[2];

	memset(child, 0, sizeof(*child));
	if (pipe(in) || pipe(out))
		return false;
	child->pid = fork();
	if (!child->pid)
		exec_python(env, code, in, out);
	close(in[0]);
	close(out[1]);
	child->in = in[1];
	child->out = read_until_ready(out[0]);
	close(out[0]);
	if (child->out)
		return true;
	torch_child__stop(child);
	return false;
}

void torch_child__stop(struct torch_child *child)
{
	close(child->in);
	waitpid(child->pid, NULL, 0);
	free(child->out);
	memset(child, 0, sizeof(*child));
}
