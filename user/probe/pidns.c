/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The depth of ptbpf's pid namespace. /proc shows only what is below its own mount, so outside the
 * initial namespace a program that runs in ptbpf's context asks the kernel.
 */
#define LOG_DOMAIN "pidns"
#include "base/log.h"

#include <errno.h>
#include <sys/stat.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "probe/probe_impl.h"
#include "ptbpf.skel.h"

#define PROC_PID_INIT_INO 0xEFFFFFFCu /* include/linux/proc_ns.h; fixed */

static int ask_kernel(uint32_t *level)
{
	LIBBPF_OPTS(bpf_test_run_opts, run);
	struct ptbpf_bpf *skel = ptbpf_bpf__open();
	int err;

	if (!skel)
		return -errno;
	err = load_alone(skel, skel->progs.pidns_depth);
	if (!err)
		err = bpf_prog_test_run_opts(bpf_program__fd(skel->progs.pidns_depth), &run);
	if (!err && !skel->bss)
		err = -ENOMEM;
	if (!err)
		*level = skel->bss->self_ns_level;
	ptbpf_bpf__destroy(skel);
	return err;
}

int pidns__self(uint32_t *level, uint32_t *inum)
{
	struct stat st;
	int err;

	*level = 0;
	*inum = PROC_PID_INIT_INO;
	if (stat("/proc/self/ns/pid", &st)) {
		err = -errno;
		pr_error("cannot read /proc/self/ns/pid: %s", errstr(err));
		pr_hint("mount /proc");
		return err;
	}
	*inum = (uint32_t)st.st_ino;
	if (*inum == PROC_PID_INIT_INO)
		return 0;
	err = ask_kernel(level);
	if (err)
		pr_error("cannot find out the depth of the pid namespace: %s", errstr(err));
	return err;
}
