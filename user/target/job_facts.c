/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See job_facts.h. */
#include "target/job_facts.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/proc_read.h"
#include "target/proc_info.h"

#define ENVIRON_MAX (1u << 20) /* bytes of an environment that are searched */

/* ---- containers and pods ---- */

static bool is_hex(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (!isdigit((unsigned char)text[i]) && !(text[i] >= 'a' && text[i] <= 'f'))
			return false;
	return true;
}

static const struct {
	const char *word, *runtime;
} words[] = {
	{ "docker", "docker" },      { "cri-containerd", "containerd" },
	{ "nerdctl", "containerd" }, { "crio", "cri-o" },
	{ "libpod", "podman" },      { "libpod_parent", "podman" },
};

/* NULL: of no runtime. */
static const char *runtime_of(const char *word, size_t len)
{
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (len == strlen(words[i].word) && !memcmp(word, words[i].word, len))
			return words[i].runtime;
	return NULL;
}

/*
 * One name of a path; above: that of the group above, or empty. With the driver "systemd" it is
 * "docker-ID.scope", or "kubepods-podUID.slice:cri-containerd:ID" where a runtime is not configured
 * for the driver; with "cgroupfs" the id alone, and the group above may say whose.
 */
static void take_container(struct job_facts *f, const char *name, size_t len, const char *above,
			   size_t above_len)
{
	const char *id, *runtime, *word = name;
	char end;

	if (len > 6 && !memcmp(name + len - 6, ".scope", 6))
		len -= 6;
	if (len < JOB_CONTAINER_ID_LEN ||
	    !is_hex(name + len - JOB_CONTAINER_ID_LEN, JOB_CONTAINER_ID_LEN))
		return;
	len -= JOB_CONTAINER_ID_LEN;
	id = name + len;
	if (len) {
		end = name[--len];
		for (size_t i = 0; end == ':' && i < len; i++)
			if (name[i] == ':')
				word = name + i + 1;
		runtime = end == ':' || end == '-' ? runtime_of(word, (size_t)(name + len - word)) :
						     NULL;
		if (!runtime)
			return; /* such as "crio-conmon-", what watches over a container */
	} else {
		runtime = runtime_of(above, above_len);
	}
	memcpy(f->container_id, id, JOB_CONTAINER_ID_LEN);
	f->container_id[JOB_CONTAINER_ID_LEN] = '\0';
	f->container_runtime = runtime ? runtime : "";
}

/* Length of the UID at the begin of text: 8-4-4-4-12 digits, with underscores in names of slices,
 * or the 32 of a static pod. 0: there is none. */
static size_t uid_len(const char *text, size_t len)
{
	size_t i = 0;

	for (; i < JOB_POD_UID_MAX && i < len; i++) {
		bool gap = i == 8 || i == 13 || i == 18 || i == 23;

		if (gap ? text[i] != text[8] || (text[i] != '-' && text[i] != '_') :
			  !is_hex(text + i, 1))
			break;
	}
	if (i == JOB_POD_UID_MAX)
		return i;
	return len >= 32 && is_hex(text, 32) ? 32 : 0;
}

/* "podUID", "kubepods-burstable-podUID.slice", the latter perhaps with a container behind a
 * colon. */
static void take_pod(struct job_facts *f, const char *name, size_t len)
{
	for (size_t at = 0; at + 3 < len; at++) {
		const char *uid = name + at + 3;
		size_t n, rest;

		if ((at && name[at - 1] != '-') || memcmp(name + at, "pod", 3) != 0)
			continue;
		n = uid_len(uid, len - at - 3);
		rest = len - at - 3 - n;
		if (!n || (rest && (rest < 6 || memcmp(uid + n, ".slice", 6) != 0 ||
				    (rest > 6 && uid[n + 6] != ':'))))
			continue;
		for (size_t i = 0; i < n; i++)
			f->pod_uid[i] = uid[i] == '_' ? '-' : uid[i];
		f->pod_uid[n] = '\0';
	}
}

/* The innermost container of a path, and the innermost pod. */
static void take_path(struct job_facts *f, const char *path, size_t len)
{
	const char *above = path;
	size_t above_len = 0, n;

	for (size_t at = 0; at < len; at += n) {
		const char *name = path + at;

		if (*name == '/') {
			n = 1;
			continue;
		}
		for (n = 0; at + n < len && name[n] != '/';)
			n++;
		take_container(f, name, n, above, above_len);
		take_pod(f, name, n);
		above = name;
		above_len = n;
	}
	if (len < sizeof(f->cgroup)) {
		memcpy(f->cgroup, path, len);
		f->cgroup[len] = '\0';
		proc_path__cut_deleted(f->cgroup);
	}
}

/* Of a process's hierarchies the one that names a container; else that of version 2, if it says
 * anything. */
void job_facts__of_cgroups(struct job_facts *f, const char *text)
{
	struct proc_cgroup cg, best_cg;
	int best = -1;

	while (proc_cgroup__next(&text, &cg)) {
		struct job_facts one = { .ns_pid = 0 };
		int rank;

		take_path(&one, cg.path, cg.len);
		rank = *one.container_id ? 3 : cg.len <= 1 ? 0 : cg.v2 ? 2 : 1;
		if (rank > best) {
			best = rank;
			best_cg = cg;
		}
	}
	if (best >= 0)
		take_path(f, best_cg.path, best_cg.len);
}

/* ---- the environment ---- */

static void take_variable(struct job_facts *f, enum job_var v, const char *value)
{
	if (job_vars[v].number)
		f->numbers[v] = job_vars__number(value);
	else if (strlen(value) <= JOB_TEXT_MAX)
		f->texts[v] = xstrdup(value);
}

void job_facts__of_environ(struct job_facts *f, const char *text, size_t len)
{
	/* of variables that are there twice getenv() finds the first */
	bool seen[JOB_VAR_CNT] = { false };
	size_t n;

	for (int v = 0; v < JOB_VAR_CNT; v++)
		f->numbers[v] = -1;
	for (size_t at = 0; at < len; at += n + 1) {
		n = strnlen(text + at, len - at);
		if (at + n == len)
			break; /* cut */
		for (int v = 0; v < JOB_VAR_CNT; v++) {
			size_t name = strlen(job_vars[v].name);

			if (seen[v] || n <= name || text[at + name] != '=' ||
			    memcmp(text + at, job_vars[v].name, name) != 0)
				continue;
			seen[v] = true;
			take_variable(f, (enum job_var)v, text + at + name + 1);
		}
	}
}

static void read_environ(pid_t pid, struct job_facts *f)
{
	char *text = xmalloc(ENVIRON_MAX);
	ssize_t len = proc_file__read_some(pid, "environ", text, ENVIRON_MAX);

	job_facts__of_environ(f, text, len > 0 ? (size_t)len : 0);
	explicit_bzero(text, ENVIRON_MAX);
	free(text);
}

/* ---- all ---- */

void job_facts__read(pid_t pid, struct job_facts *f)
{
	struct thread_status st;
	char *text;
	size_t len;

	*f = (struct job_facts){ .container_runtime = "" };
	read_environ(pid, f);
	if (!proc_file__read(pid, 0, "cgroup", &text, &len)) {
		job_facts__of_cgroups(f, text);
		free(text);
	}
	if (!thread_status__read(pid, 0, &st)) {
		f->ns_pid = st.ns_pid;
		memcpy(f->cpus, st.cpus, sizeof(f->cpus));
	}
}

void job_facts__clear(struct job_facts *f)
{
	for (int v = 0; v < JOB_VAR_CNT; v++)
		free(f->texts[v]);
}
