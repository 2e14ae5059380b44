/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* JOB records: the container and the job of a process. META: which machine this is. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/jsonw.h"
#include "record/recorder_priv.h"
#include "target/job_facts.h"

static void put_environment(struct jsonw *w, const struct job_facts *f)
{
	JSONW_OBJ(w, "environment");
	for (int v = 0; v < JOB_VAR_CNT; v++) {
		if (f->numbers[v] < 0 && !f->texts[v])
			continue;
		jsonw__key(w, job_vars[v].name);
		if (f->texts[v])
			jsonw__str(w, f->texts[v]);
		else
			jsonw__i64(w, f->numbers[v]);
	}
	jsonw__end_obj(w);
}

static void put_facts(struct jsonw *w, const struct job_facts *f, const char *groups)
{
	jsonw__begin_obj(w);
	if (f->ns_pid)
		JSONW_I64(w, "ns_pid", f->ns_pid);
	if (*f->cgroup)
		JSONW_STR(w, "cgroup", f->cgroup);
	if (*f->container_id) {
		JSONW_STR(w, "container_id", f->container_id);
		JSONW_STR(w, "container_runtime", f->container_runtime);
	}
	if (*f->pod_uid)
		JSONW_STR(w, "pod_uid", f->pod_uid);
	put_environment(w, f);
	if (groups) {
		JSONW_KEY(w, "distributed");
		jsonw__raw(w, groups);
	}
	jsonw__end_obj(w);
}

static void put_job(struct recorder *r, uint32_t tgid, const struct job_facts *f,
		    const char *groups)
{
	const struct ptb_text head = { .h.tgid = tgid };
	struct jsonw_memory m = { .len = 0 };
	struct jsonw w;
	char *text;

	jsonw__init(&w, jsonw__to_memory, &m, 4096);
	put_facts(&w, f, groups);
	text = jsonw__take(&w, &m);
	if (text) /* the limits of struct job_facts and of the groups leave room */
		recorder__put_text(r, PTB_REC_JOB, &head, text, m.len);
	free(text);
}

void recorder__job(struct recorder *r, uint32_t tgid)
{
	struct job_facts f;

	job_facts__read((pid_t)tgid, &f);
	recorder__steps_process(r, tgid, f.texts[JOB_PTBPF_STEP_ON]);
	put_job(r, tgid, &f, NULL);
	job_facts__clear(&f);
}

void recorder__watch_groups(struct recorder *r, struct recorder_proc *p, bool at_end)
{
	uint64_t now = clock__mono_ns();
	struct job_facts f;
	char *groups;

	if (!at_end && now < p->next_groups_ns)
		return;
	p->groups_wait_ns *= 2;
	p->next_groups_ns = now + p->groups_wait_ns;
	groups = process_groups__read((pid_t)p->tgid, p->tensor_class, p->old_string_abi);
	if (!groups || (p->groups && !strcmp(groups, p->groups))) {
		free(groups);
		return;
	}
	job_facts__read((pid_t)p->tgid, &f);
	if (recorder__is_there(p)) {
		put_job(r, p->tgid, &f, groups);
		free(p->groups);
		p->groups = groups;
	} else {
		free(groups);
	}
	job_facts__clear(&f);
}

void recorder__machine(struct recorder *r)
{
	char boot[64] = "", ns[32];
	struct stat st;
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, boot, sizeof(boot) - 1);

	if (fd >= 0)
		close(fd);
	boot[n > 0 ? n : 0] = '\0';
	boot[strcspn(boot, "\n")] = '\0';
	recorder__meta_text(r, "boot_id", boot);
	if (stat("/proc/self/ns/pid", &st))
		return;
	snprintf(ns, sizeof(ns), "%llu", (unsigned long long)st.st_ino);
	recorder__meta_text(r, "pid_namespace", ns);
}
