/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* JOB records: the container and the job of a process. META: which machine this is. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

static void put_facts(struct jsonw *w, const struct job_facts *f)
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
	jsonw__end_obj(w);
}

void recorder__job(struct recorder *r, uint32_t tgid)
{
	struct jsonw_text json = { .len = 0 };
	const struct ptb_text head = { .h.tgid = tgid };
	struct job_facts f;
	struct jsonw w;
	int err;

	if (jsonw__init(&w, jsonw__to_text, &json, 1024))
		return;
	job_facts__read((pid_t)tgid, &f);
	put_facts(&w, &f);
	recorder__steps_process(r, tgid, f.texts[JOB_PTBPF_STEP_ON]);
	job_facts__clear(&f);
	err = jsonw__flush(&w);
	jsonw__free(&w);
	if (!err) /* the limits of struct job_facts leave room */
		recorder__put_text(r, PTB_REC_JOB, &head, json.text, json.len);
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
