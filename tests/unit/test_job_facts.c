/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Containers, pods and jobs: control groups as each runtime names them, and environments with what may be in them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "suite.h"
#include "target/job_facts.h"

#define ID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define ID2 "fedcba98fedcba98fedcba98fedcba98fedcba98fedcba98fedcba98fedcba98"
#define UID "6f2a1b3c-0d4e-4f5a-8b6c-7d8e9f0a1b2c"
#define UID_ "6f2a1b3c_0d4e_4f5a_8b6c_7d8e9f0a1b2c"
#define STATIC_UID "0123456789abcdef0123456789abcdef"
#define SLICE "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod"

/* clang-format off */
static const struct {
	const char *text, *cgroup, *id, *runtime, *pod;
} groups[] = {
	/* docker: version 2 with each driver, version 1 */
	{ "0::/system.slice/docker-" ID ".scope\n", "/system.slice/docker-" ID ".scope", ID, "docker", "" },
	{ "0::/docker/" ID "\n", "/docker/" ID, ID, "docker", "" },
	{ "12:pids:/docker/" ID "\n7:cpu,cpuacct:/docker/" ID "\n1:name=systemd:/docker/" ID "\n0::/system.slice/containerd.service\n",
	  "/docker/" ID, ID, "docker", "" },
	{ "0::/docker/" ID "/system.slice/sshd.service\n", "/docker/" ID "/system.slice/sshd.service", ID, "docker", "" },
	/* containerd: Kubernetes with each driver, with another driver than the kubelet's, from within, nerdctl */
	{ "0::" SLICE UID_ ".slice/cri-containerd-" ID ".scope\n", SLICE UID_ ".slice/cri-containerd-" ID ".scope", ID, "containerd", UID },
	{ "0::/kubepods/besteffort/pod" UID "/" ID "\n", "/kubepods/besteffort/pod" UID "/" ID, ID, "", UID },
	{ "0::/kubepods/pod" UID "/" ID "\n", "/kubepods/pod" UID "/" ID, ID, "", UID },
	{ "0::/system.slice/containerd.service/kubepods-burstable-pod" UID_ ".slice:cri-containerd:" ID "\n",
	  "/system.slice/containerd.service/kubepods-burstable-pod" UID_ ".slice:cri-containerd:" ID, ID, "containerd", UID },
	{ "0::/../../kubepods-pod" UID_ ".slice/cri-containerd-" ID ".scope\n", "/../../kubepods-pod" UID_ ".slice/cri-containerd-" ID ".scope",
	  ID, "containerd", UID },
	{ "0::/system.slice/nerdctl-" ID ".scope\n", "/system.slice/nerdctl-" ID ".scope", ID, "containerd", "" },
	{ "0::/default/" ID "\n", "/default/" ID, ID, "", "" },
	{ "0::/kubepods/burstable/pod" STATIC_UID "/" ID "\n", "/kubepods/burstable/pod" STATIC_UID "/" ID, ID, "", STATIC_UID },
	/* kind: a node is a docker container */
	{ "0::/docker/" ID2 "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod" UID_ ".slice/cri-containerd-" ID ".scope\n",
	  "/docker/" ID2 "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod" UID_ ".slice/cri-containerd-" ID ".scope", ID, "containerd", UID },
	/* CRI-O; what watches over a container is not in it */
	{ "0::" SLICE UID_ ".slice/crio-" ID ".scope/container\n", SLICE UID_ ".slice/crio-" ID ".scope/container", ID, "cri-o", UID },
	{ "5:memory:/kubepods/burstable/pod" UID "/crio-" ID "\n0::/\n", "/kubepods/burstable/pod" UID "/crio-" ID, ID, "cri-o", UID },
	{ "0::" SLICE UID_ ".slice/crio-conmon-" ID ".scope\n", SLICE UID_ ".slice/crio-conmon-" ID ".scope", "", "", UID },
	/* podman, as root and without, with each driver */
	{ "0::/machine.slice/libpod-" ID ".scope/container\n", "/machine.slice/libpod-" ID ".scope/container", ID, "podman", "" },
	{ "0::/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" ID ".scope\n",
	  "/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" ID ".scope", ID, "podman", "" },
	{ "0::/libpod_parent/libpod-" ID "\n", "/libpod_parent/libpod-" ID, ID, "podman", "" },
	{ "4:pids:/libpod_parent/" ID "\n", "/libpod_parent/" ID, ID, "podman", "" },
	{ "0::/machine.slice/libpod-conmon-" ID ".scope\n", "/machine.slice/libpod-conmon-" ID ".scope", "", "", "" },
	/* none */
	{ "0::/\n", "/", "", "", "" },
	{ "0::/user.slice/user-0.slice/session-1.scope\n", "/user.slice/user-0.slice/session-1.scope", "", "", "" },
	{ "3:memory:/slurm/uid_1000/job_42/step_0\n0::/\n", "/slurm/uid_1000/job_42/step_0", "", "", "" },
	{ "0::/gone.slice (deleted)\n", "/gone.slice", "", "", "" },
	/* nearly */
	{ "0::/docker-" ID "0.scope\n", "/docker-" ID "0.scope", "", "", "" },
	{ "0::/DOCKER-" ID ".scope\n", "/DOCKER-" ID ".scope", "", "", "" },
	{ "0::/docker/0123456789ABCDEF0123456789ABCDEF0123456789ABCDEF0123456789ABCDEF\n",
	  "/docker/0123456789ABCDEF0123456789ABCDEF0123456789ABCDEF0123456789ABCDEF", "", "", "" },
	{ "0::/pod6f2a1b3c-0d4e_4f5a-8b6c-7d8e9f0a1b2c\n", "/pod6f2a1b3c-0d4e_4f5a-8b6c-7d8e9f0a1b2c", "", "", "" },
	{ "0::/pod" UID "0\n", "/pod" UID "0", "", "", "" },
	{ "0::/tripod" UID "\n", "/tripod" UID, "", "", "" },
	{ "0::/pod\n", "/pod", "", "", "" },
	{ ID "\n", "", "", "", "" },
	{ ":\n::\n0:", "", "", "", "" },
	{ "", "", "", "", "" },
};
/* clang-format on */

TEST("control groups")
{
	for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++) {
		struct job_facts f = { .container_runtime = "" };

		job_facts__of_cgroups(&f, groups[i].text);
		if (strcmp(f.cgroup, groups[i].cgroup) != 0 || strcmp(f.container_id, groups[i].id) != 0 ||
		    strcmp(f.container_runtime, groups[i].runtime) != 0 ||
		    strcmp(f.pod_uid, groups[i].pod) != 0) {
			fprintf(stderr, "%s: '%s' '%s' '%s' '%s'\n", groups[i].text, f.cgroup,
				f.container_id, f.container_runtime, f.pod_uid);
			CU_FAIL("a control group");
		}
	}
}

/* A path of any length, and a name of any. */
TEST("long control groups")
{
	size_t len = 3 * JOB_CGROUP_MAX;
	char *text = malloc(len + 200);

	for (size_t n = JOB_CGROUP_MAX - 3; n < JOB_CGROUP_MAX + 3; n++) {
		struct job_facts f = { .container_runtime = "" };

		snprintf(text, len, "0::/%0*d\n", (int)n - 1, 0);
		job_facts__of_cgroups(&f, text);
		CU_ASSERT_EQUAL(strlen(f.cgroup), n < JOB_CGROUP_MAX ? n : 0);
	}
	for (size_t n = 0; n < 200; n++) { /* each beginning */
		struct job_facts f = { .container_runtime = "" };
		char *part = strndup("0::" SLICE UID_ ".slice:cri-containerd:" ID ".scope\n", n);

		job_facts__of_cgroups(&f, part);
		free(part);
	}
	free(text);
}

#define ENVIRON(text) text, sizeof(text) - 1

TEST("environment")
{
	struct job_facts f = { .ns_pid = 0 };
	struct job_rank r;

	job_facts__of_environ(&f, ENVIRON("HOME=/root\0RANK=3\0WORLD_SIZE=8\0RANK=4\0AWS_SECRET_ACCESS_KEY=x\0"
					  "MASTER_ADDR=10.0.0.1\0MASTER_PORT=29500\0LOCAL_RANKS=1\0XRANK=7\0"
					  "TORCHELASTIC_RUN_ID=a\"b\n\xff\0SLURM_JOB_ID=4294967295\0"));
	CU_ASSERT_EQUAL(f.numbers[JOB_RANK], 3); /* the first, as getenv() */
	CU_ASSERT_EQUAL(f.numbers[JOB_WORLD_SIZE], 8);
	CU_ASSERT_EQUAL(f.numbers[JOB_LOCAL_RANK], -1);
	CU_ASSERT_EQUAL(f.numbers[JOB_MASTER_PORT], 29500);
	CU_ASSERT_EQUAL(f.numbers[JOB_SLURM_JOB_ID], 4294967295);
	CU_ASSERT_STRING_EQUAL(f.texts[JOB_MASTER_ADDR], "10.0.0.1");
	CU_ASSERT_STRING_EQUAL(f.texts[JOB_TORCHELASTIC_RUN_ID], "a\"b\n\xff");
	CU_ASSERT_PTR_NULL(f.texts[JOB_PT_PROFILER_JOB_NAME]);
	CU_ASSERT(job_vars__rank(f.numbers, &r) && r.rank == 3 && r.world_size == 8 && !r.by_slurm);
	job_facts__clear(&f);
}

TEST("hostile environment")
{
	char text[400] = "MASTER_ADDR=";
	struct job_facts f = { .ns_pid = 0 };

	/* no number: signs, blanks, other digits, too large; the last is cut: there may be more of it */
	job_facts__of_environ(&f, ENVIRON("RANK=-1\0WORLD_SIZE=+2\0LOCAL_RANK= 1\0GROUP_RANK=0x1\0MASTER_PORT=\0"
					  "SLURM_PROCID=4294967296\0SLURM_NTASKS=99999999999999999999\0"
					  "RANK\0=\0\0\0SLURM_JOB_ID=12"));
	for (int v = 0; v < JOB_VAR_CNT; v++)
		CU_ASSERT(f.numbers[v] == -1 && !f.texts[v]);
	for (size_t n = JOB_TEXT_MAX - 1; n <= JOB_TEXT_MAX + 1; n++) {
		memset(text + 12, 'x', n);
		text[12 + n] = '\0';
		job_facts__of_environ(&f, text, 12 + n + 1);
		CU_ASSERT_EQUAL(f.texts[JOB_MASTER_ADDR] ? strlen(f.texts[JOB_MASTER_ADDR]) : 0,
				n <= JOB_TEXT_MAX ? n : 0);
		job_facts__clear(&f);
		f = (struct job_facts){ .ns_pid = 0 };
	}
	job_facts__of_environ(&f, NULL, 0);
	CU_ASSERT_EQUAL(f.numbers[JOB_RANK], -1);
}

TEST("rank")
{
	static const struct {
		int64_t rank, world, procid, step_tasks, ntasks;
		bool found;
		uint32_t want, want_world;
	} rows[] = {
		{ 1, 2, 5, 8, 8, true, 1, 2 },
		{ -1, -1, 5, 8, 8, true, 5, 8 },
		{ 1, -1, 5, 8, 8, true, 5, 8 },
		{ 2, 2, -1, -1, -1, false, 0, 0 },
		{ -1, 2, -1, -1, -1, false, 0, 0 },
		{ -1, -1, 0, -1, 8, false, 0, 0 }, /* sbatch's script */
		{ 0, 1, -1, -1, -1, true, 0, 1 },
		{ 0, 1LL << 31, -1, -1, -1, false, 0, 0 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		int64_t numbers[JOB_VAR_CNT];
		struct job_rank r;

		for (int v = 0; v < JOB_VAR_CNT; v++)
			numbers[v] = -1;
		numbers[JOB_RANK] = rows[i].rank;
		numbers[JOB_WORLD_SIZE] = rows[i].world;
		numbers[JOB_SLURM_PROCID] = rows[i].procid;
		numbers[JOB_SLURM_STEP_NUM_TASKS] = rows[i].step_tasks;
		numbers[JOB_SLURM_NTASKS] = rows[i].ntasks;
		CU_ASSERT_EQUAL(job_vars__rank(numbers, &r), rows[i].found);
		CU_ASSERT_EQUAL(r.rank, rows[i].want);
		CU_ASSERT_EQUAL(r.world_size, rows[i].want_world);
	}
}

/* A process, and one that is gone. */
TEST("a process")
{
	struct job_facts f;
	int fds[2];
	pid_t pid;

	CU_ASSERT_FATAL(!pipe(fds));
	pid = fork();
	if (!pid) {
		dup2(fds[0], 0);
		close(fds[1]);
		execle("/bin/cat", "cat", (char *)NULL,
		       (char *[]){ "RANK=1", "WORLD_SIZE=4", "SECRET=1", "PTBPF_STEP_ON=train step",
				   NULL });
		_exit(127);
	}
	close(fds[0]);
	for (int i = 0; i < 10000; i++) { /* until it has executed cat */
		job_facts__read(pid, &f);
		if (f.numbers[JOB_RANK] >= 0)
			break;
		job_facts__clear(&f);
		usleep(1000);
	}
	CU_ASSERT_EQUAL(f.numbers[JOB_RANK], 1);
	CU_ASSERT_EQUAL(f.numbers[JOB_WORLD_SIZE], 4);
	CU_ASSERT_STRING_EQUAL(f.texts[JOB_PTBPF_STEP_ON], "train step");
	CU_ASSERT_EQUAL(f.ns_pid, pid);
	CU_ASSERT_EQUAL(*f.cgroup, '/');
	job_facts__clear(&f);
	close(fds[1]);
	waitpid(pid, NULL, 0);
	job_facts__read(pid, &f);
	CU_ASSERT_EQUAL(f.numbers[JOB_RANK], -1);
	CU_ASSERT(!f.ns_pid && !*f.cgroup && !*f.container_id && !*f.container_runtime);
	job_facts__clear(&f);
}

SUITE("job_facts")
