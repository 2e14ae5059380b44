/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Why a process cannot be traced, and what to do about it. */
#define LOG_DOMAIN "targets"
#include <errno.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/proc_read.h"
#include "record/targets.h"
#include "target/proc_info.h"

static bool has_capability(int cap)
{
	uint64_t caps = 0;
	char *text;
	size_t len;

	if (proc_file__read(getpid(), 0, "status", &text, &len))
		return false;
	sscanf(proc_file__field(text, "\nCapEff:"), "%" SCNx64, &caps);
	free(text);
	return caps >> cap & 1;
}

/* "yama,apparmor", those that are active. */
static void security_modules(char *buf, size_t cap)
{
	FILE *f = fopen("/sys/kernel/security/lsm", "re");

	if (!f || !fgets(buf, (int)cap, f) || !*buf)
		snprintf(buf, cap, "none is known");
	if (f)
		fclose(f);
}

static void hint_access(pid_t pid)
{
	char modules[128];

	if (has_capability(CAP_SYS_PTRACE)) {
		security_modules(modules, sizeof(modules));
		pr_hint("ptbpf has CAP_SYS_PTRACE: a security module of the Linux kernel forbids it (%s), or the process is in a user namespace around ptbpf's",
			modules);
	} else if (geteuid()) {
		pr_hint("run as root, or with CAP_SYS_PTRACE; for details see 'ptbpf doctor %d'",
			pid);
	} else {
		pr_hint("this root lacks CAP_SYS_PTRACE: in a container it has to be given (docker run --cap-add SYS_PTRACE)");
	}
}

static void hint_no_torch(pid_t pid)
{
	char *exe = proc_info__exe_name(pid);

	pr_hint("use --wait to attach once it does; to trace its workers, give their pids "
		"or use --children");
	if (!strncmp(exe, "python", 6))
		pr_hint("Python without PyTorch can be sampled: ptbpf attach %d --sample-stacks 99 -d 5s",
			pid);
	free(exe);
}

void targets__say_why(pid_t pid, enum torch_proc_why why, int err)
{
	switch (why) {
	case TORCH_PROC_NO_SUCH_PID:
		pr_error("cannot attach to pid %d: there is no such process", pid);
		break;
	case TORCH_PROC_NO_ACCESS:
		pr_error("cannot attach to pid %d: its memory map cannot be read (%s)", pid,
			 errstr(err));
		hint_access(pid);
		break;
	case TORCH_PROC_NO_TORCH:
		pr_error(
			"cannot attach to pid %d: it has not loaded PyTorch (no libtorch_cpu in its "
			"memory map)",
			pid);
		hint_no_torch(pid);
		break;
	case TORCH_PROC_BAD_LIB:
		if (err == -EXDEV) {
			pr_error(
				"cannot attach to pid %d: its PyTorch library is on a file "
				"system that a process of another user serves (FUSE) or may serve (an "
				"overlay that a user mounted)",
				pid);
			break;
		}
		pr_error(
			"cannot attach to pid %d: its PyTorch library cannot be read as an x86-64 ELF "
			"file (%s)",
			pid, errstr(err));
		break;
	case TORCH_PROC_MAIN_ENDED:
		pr_error(
			"cannot attach to pid %d: its main thread has ended, and the Linux kernel finds no memory of it "
			"although other threads run",
			pid);
		break;
	case TORCH_PROC_IS_KTHREAD:
		pr_error(
			"cannot attach to pid %d: it is a thread of the Linux kernel or has no address space",
			pid);
		break;
	case TORCH_PROC_OK:
		if (err != -ECANCELED) /* main() reports the interruption */
			pr_error("cannot attach to pid %d: %s", pid, errstr(err));
		break;
	}
}
