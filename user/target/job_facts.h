/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * To which container, pod and job a process belongs, by its control groups (cgroups(7)) and the
 * environment that it was started with. Both are claims of whoever made them: names of control
 * groups follow conventions of container runtimes, and a process may write over its environment.
 * What has no known form is left out.
 */
#ifndef TARGET_JOB_FACTS_H
#define TARGET_JOB_FACTS_H

#include <sys/types.h>

#include "base/job_vars.h"
#include "target/proc_info.h"

#define JOB_CGROUP_MAX 1024
/* hexadecimal digits: the same for docker, containerd, CRI-O and podman */
#define JOB_CONTAINER_ID_LEN 64
#define JOB_POD_UID_MAX 36

struct job_facts {
	pid_t ns_pid;                /* in its own pid namespace, 0: not known */
	char cgroup[JOB_CGROUP_MAX]; /* path of its control group, "": not known */
	char container_id[JOB_CONTAINER_ID_LEN + 1];
	/* "docker", "containerd", "cri-o", "podman"; "": the path does not say */
	const char *container_runtime;
	char pod_uid[JOB_POD_UID_MAX + 1]; /* of Kubernetes */
	char cpus[CPU_LIST_MAX + 1];       /* as struct thread_status has them */
	int64_t numbers[JOB_VAR_CNT];      /* of variables that are numbers, -1: none */
	char *texts[JOB_VAR_CNT];          /* of the others, NULL: none */
};

/* What can be read of the process; the rest is empty. job_facts__clear() afterwards. */
void job_facts__read(pid_t pid, struct job_facts *f);
void job_facts__clear(struct job_facts *f);

/* The parts, of texts as in /proc/PID/cgroup and /proc/PID/environ; f: zeroed. */
void job_facts__of_cgroups(struct job_facts *f, const char *text);
void job_facts__of_environ(struct job_facts *f, const char *text, size_t len);

#endif /* TARGET_JOB_FACTS_H */
