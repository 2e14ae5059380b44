/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The table in probe_set.h. A row tries its feature where that does no harm, or reads what the
 * kernel reports. Attaches only to ptbpf itself.
 */
#define LOG_DOMAIN "features"
#include "base/log.h"
#include "base/proc_read.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <linux/btf.h>
#include <linux/capability.h>

#include "probe/probe_impl.h"
#include "probe/probe_set.h"

/* Reads the first line of a small file without its newline. -1 and errno: it cannot be read. */
static int read_line(const char *path, char *buf, size_t cap)
{
	FILE *f = fopen(path, "re");
	char *got;
	int err;

	if (!f)
		return -1;
	got = fgets(buf, (int)cap, f);
	err = errno;
	fclose(f);
	if (!got) {
		errno = err ? err : ENODATA;
		return -1;
	}
	buf[strcspn(buf, "\n")] = '\0';
	return 0;
}

__attribute__((format(printf, 4, 5))) static enum feature_state
answer(enum feature_state state, char *detail, size_t cap, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(detail, cap, fmt, ap);
	va_end(ap);
	return state;
}

static enum feature_state check_kernel(char *detail, size_t cap)
{
	struct utsname u;

	if (uname(&u))
		return answer(FEATURE_UNKNOWN, detail, cap, "uname: %s", errstr(errno));
	return answer(strcmp(u.machine, "x86_64") ? FEATURE_NO : FEATURE_YES, detail, cap,
		      "%s %s %s", u.sysname, u.release, u.machine);
}

/* A cookie identifies the site that was hit. */
static enum feature_state check_cookies(char *detail, size_t cap)
{
	int has = libbpf_probe_bpf_helper(BPF_PROG_TYPE_KPROBE, BPF_FUNC_get_attach_cookie, NULL);
	struct utsname u;

	if (has < 0)
		return answer(FEATURE_UNKNOWN, detail, cap, "%s", errstr(has));
	if (has)
		return answer(FEATURE_YES, detail, cap, "a program reads them");
	return answer(FEATURE_NO, detail, cap, "Linux 5.15 is needed, this is %s",
		      uname(&u) ? "older" : u.release);
}

static enum feature_state check_libbpf(char *detail, size_t cap)
{
	bool enough = libbpf_major_version() > 1 || libbpf_minor_version() >= 3;

	return answer(enough ? FEATURE_YES : FEATURE_NO, detail, cap, "libbpf %u.%u",
		      libbpf_major_version(), libbpf_minor_version());
}

static bool has_cap(uint64_t set, int cap)
{
	return set >> cap & 1;
}

static int read_caps(uint64_t *set)
{
	char line[256];
	FILE *f = fopen("/proc/self/status", "re");
	int found = 0;

	if (!f)
		return -1;
	while (!found && fgets(line, sizeof(line), f))
		found = sscanf(line, "CapEff: %" SCNx64, set) == 1;
	fclose(f);
	return found ? 0 : -1;
}

#define CAP_NR_PERFMON 38 /* both since Linux 5.8 */
#define CAP_NR_BPF 39

static enum feature_state check_caps(char *detail, size_t cap)
{
	uint64_t set = 0;

	if (read_caps(&set))
		return answer(FEATURE_UNKNOWN, detail, cap, "cannot read /proc/self/status");
	if (has_cap(set, CAP_SYS_ADMIN))
		return answer(FEATURE_YES, detail, cap, "CAP_SYS_ADMIN");
	if (has_cap(set, CAP_NR_BPF) && has_cap(set, CAP_NR_PERFMON))
		return answer(FEATURE_YES, detail, cap, "CAP_BPF and CAP_PERFMON");
	return answer(FEATURE_NO, detail, cap, "missing:%s%s (or CAP_SYS_ADMIN)",
		      has_cap(set, CAP_NR_BPF) ? "" : " CAP_BPF",
		      has_cap(set, CAP_NR_PERFMON) ? "" : " CAP_PERFMON");
}

static enum feature_state check_ptrace_cap(char *detail, size_t cap)
{
	uint64_t set = 0;
	char yama[16] = "absent";

	(void)!read_line("/proc/sys/kernel/yama/ptrace_scope", yama, sizeof(yama));
	if (read_caps(&set))
		return answer(FEATURE_UNKNOWN, detail, cap, "cannot read /proc/self/status");
	if (!strcmp(yama, "3"))
		return answer(
			FEATURE_NO, detail, cap,
			"kernel.yama.ptrace_scope is 3: no process may read another's memory");
	if (has_cap(set, CAP_SYS_PTRACE)) {
		snprintf(detail, cap, "CAP_SYS_PTRACE; kernel.yama.ptrace_scope %s", yama);
		return FEATURE_YES;
	}
	snprintf(detail, cap, "missing: CAP_SYS_PTRACE; kernel.yama.ptrace_scope %s", yama);
	return FEATURE_NO;
}

/* The mode in brackets: "none [integrity] confidentiality". Without the file the kernel has no
 * lockdown. */
static enum feature_state check_lockdown(char *detail, size_t cap)
{
	char line[128], *mode, *end;

	if (read_line("/sys/kernel/security/lockdown", line, sizeof(line))) {
		if (errno == ENOENT)
			return answer(FEATURE_YES, detail, cap, "not enforced");
		return answer(FEATURE_UNKNOWN, detail, cap, "/sys/kernel/security/lockdown: %s",
			      errstr(errno));
	}
	mode = strchr(line, '[');
	end = mode ? strchr(mode, ']') : NULL;
	if (!end)
		return answer(FEATURE_UNKNOWN, detail, cap, "%s", line);
	*end = '\0';
	snprintf(detail, cap, "%s", mode + 1);
	/* only "confidentiality" forbids bpf_probe_read_kernel() */
	return strcmp(mode + 1, "confidentiality") ? FEATURE_YES : FEATURE_NO;
}

/* Reads only the header: libbpf parses the rest when programs are loaded, which takes as long as
 * loading them. */
static enum feature_state check_btf(char *detail, size_t cap)
{
	static const char path[] = "/sys/kernel/btf/vmlinux";
	int fd = open(path, O_RDONLY | O_CLOEXEC), err = fd < 0 ? -errno : 0;
	struct btf_header hdr = { 0 };

	if (!err && read(fd, &hdr, sizeof(hdr)) < 0)
		err = -errno;
	if (fd >= 0)
		close(fd);
	if (!err && hdr.magic != BTF_MAGIC)
		err = -EPROTO;
	if (err)
		return answer(FEATURE_NO, detail, cap, "%s: %s", path, errstr(err));
	return answer(FEATURE_YES, detail, cap, "%s, %u KiB of types", path, hdr.type_len >> 10);
}

int load_smallest(const char *name, uint32_t attach_type)
{
	struct bpf_insn insns[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = 0 },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	LIBBPF_OPTS(bpf_prog_load_opts, opts,
		    .expected_attach_type = (enum bpf_attach_type)attach_type);

	return bpf_prog_load(BPF_PROG_TYPE_KPROBE, name, "GPL", insns, 2, &opts);
}

static enum feature_state check_prog_load(char *detail, size_t cap)
{
	int fd = load_smallest("ptb_try", 0);

	if (fd < 0)
		return answer(FEATURE_NO, detail, cap, "bpf(BPF_PROG_LOAD): %s", errstr(errno));
	close(fd);
	return answer(FEATURE_YES, detail, cap, "a program loads");
}

static enum feature_state check_ringbuf(char *detail, size_t cap)
{
	int fd = bpf_map_create(BPF_MAP_TYPE_RINGBUF, "ptb_try_ring", 0, 0,
				(uint32_t)sysconf(_SC_PAGESIZE), NULL);

	if (fd < 0) {
		return answer(errno == EINVAL ? FEATURE_NO : FEATURE_UNKNOWN, detail, cap, "%s",
			      errstr(errno));
	}
	close(fd);
	return answer(FEATURE_YES, detail, cap, "a map is made");
}

static enum feature_state check_uprobe_pmu(char *detail, size_t cap)
{
	char type[32];

	if (read_line("/sys/bus/event_source/devices/uprobe/type", type, sizeof(type)))
		return answer(FEATURE_NO, detail, cap, "/sys/bus/event_source/devices/uprobe: %s",
			      errstr(errno));
	return answer(FEATURE_YES, detail, cap, "perf event type %s", type);
}

static enum feature_state check_uprobe_multi(char *detail, size_t cap)
{
	int err = attach_multi__try();

	if (!err)
		return answer(FEATURE_YES, detail, cap, "a link to ptbpf itself works");
	if (err == -ESRCH)
		return answer(
			FEATURE_NO, detail, cap,
			"a link to a process serves its main thread only: perf-event probes are used instead");
	return answer(FEATURE_NO, detail, cap, "refused (%s): perf-event probes are used instead",
		      errstr(err));
}

static enum feature_state check_trace_fs(char *detail, size_t cap)
{
	int err = trace_fs__try();

	if (err)
		return answer(FEATURE_NO, detail, cap, "uprobe_events of tracefs: %s", errstr(err));
	snprintf(detail, cap,
		 "an event of two probes is defined; used where there are no uprobe_multi links");
	return FEATURE_YES;
}

/* Disabled events cost nothing per hit, and some kernel memory each. */
static enum feature_state check_left_over(char *detail, size_t cap)
{
	uint32_t level, inum;
	int64_t n = pidns__self(&level, &inum);

	n = n ? n : trace_fs__stale(inum);
	if (n < 0)
		return answer(FEATURE_UNKNOWN, detail, cap, "uprobe_events of tracefs: %s",
			      errstr((int)n));
	if (n)
		return answer(FEATURE_NO, detail, cap,
			      "%" PRId64 " of a ptbpf that was killed, disabled", n);
	return answer(FEATURE_YES, detail, cap, "none");
}

static enum feature_state check_paranoid(char *detail, size_t cap)
{
	char level[16];
	uint64_t set = 0;

	if (read_line("/proc/sys/kernel/perf_event_paranoid", level, sizeof(level)) ||
	    read_caps(&set))
		return answer(FEATURE_UNKNOWN, detail, cap, "%s", errstr(errno));
	snprintf(detail, cap, "kernel.perf_event_paranoid %s", level);
	if (has_cap(set, CAP_SYS_ADMIN) || has_cap(set, CAP_NR_PERFMON))
		return FEATURE_YES; /* the setting restricts others */
	return atoi(level) > 0 ? FEATURE_NO : FEATURE_YES;
}

/* Needs loops over programs, lists and frames, and storage from an entry to its exit. */
static enum feature_state check_args(char *detail, size_t cap)
{
	int loop = libbpf_probe_bpf_helper(BPF_PROG_TYPE_KPROBE, BPF_FUNC_loop, NULL);
	int store = libbpf_probe_bpf_helper(BPF_PROG_TYPE_KPROBE, BPF_FUNC_task_storage_get, NULL);

	if (loop < 0 || store < 0)
		return answer(FEATURE_UNKNOWN, detail, cap, "%s", errstr(loop < 0 ? loop : store));
	if (loop && store)
		return answer(FEATURE_YES, detail, cap, "loops and task storage in BPF programs");
	snprintf(detail, cap,
		 "missing:%s%s; shapes and values come from agents only, stacks not at all",
		 loop ? "" : " bpf_loop", store ? "" : " task storage");
	return FEATURE_NO;
}

/* good: the answer on success. After a failure the kernel's messages are on stderr. */
static enum feature_state try_set(const struct probe_set_opts *opts, const char *good, char *detail,
				  size_t cap)
{
	char why[256];
	int err;

	if (kern_features__blocker(why, sizeof(why)))
		return answer(FEATURE_UNKNOWN, detail, cap,
			      "not available without the missing features above");
	err = probe_set__try(opts);
	if (!err)
		return answer(FEATURE_YES, detail, cap, "%s", good);
	return answer(FEATURE_NO, detail, cap, "cannot be loaded and attached: %s", errstr(err));
}

#define TRY_RING 4096

static enum feature_state check_args_load(char *detail, size_t cap)
{
	const struct probe_set_opts opts = { .args = PROBE_ARGS_FULL,
					     .stacks = true,
					     .ring_bytes = TRY_RING };
	enum feature_state st = check_args(detail, cap);

	return st == FEATURE_YES ?
		       try_set(&opts, "loops and task storage in BPF programs", detail, cap) :
		       st;
}

static enum feature_state check_samples(char *detail, size_t cap)
{
	const struct probe_set_opts opts = { .stacks = true,
					     .sample_hz = 99,
					     .ring_bytes = TRY_RING };

	return try_set(&opts, "ticks or timers of the processors, and an iterator over threads",
		       detail, cap);
}

static enum feature_state check_memory_programs(char *detail, size_t cap)
{
	const struct probe_set_opts opts = { .memory = true,
					     .cuda_calls = true,
					     .ring_bytes = TRY_RING };

	return try_set(&opts, "the programs load", detail, cap);
}

static enum feature_state check_agents(char *detail, size_t cap)
{
	const struct probe_set_opts opts = { .agent = true, .ring_bytes = TRY_RING };

	return try_set(&opts, "the programs load", detail, cap);
}

static enum feature_state check_kmem(char *detail, size_t cap)
{
	const struct probe_set_opts opts = { .kernel_memory = true, .ring_bytes = TRY_RING };
	enum feature_state st;
	char names[256];
	int n = kmem__find_missing(names, sizeof(names));

	if (n < 0)
		return answer(FEATURE_UNKNOWN, detail, cap, "%s", names);
	st = try_set(&opts, "faults, calls, stalls, huge pages, migration, OOM kills", detail, cap);
	if (st != FEATURE_YES || !n)
		return st;
	return answer(FEATURE_NO, detail, cap, "not reported: %s", names);
}

static enum feature_state check_sched(char *detail, size_t cap)
{
	const struct probe_set_opts opts = { .sched = true, .ring_bytes = TRY_RING };

	if (!probe_set__can_sched())
		return answer(FEATURE_NO, detail, cap, "not on real-time Linux before 6.12");
	return try_set(&opts, "context switches and wake-ups", detail, cap);
}

/* Kernels before 5.11 charge BPF maps to the limit of locked memory, which libbpf raises if it
 * may. */
static enum feature_state check_memlock(char *detail, size_t cap)
{
	struct rlimit lim;

	if (getrlimit(RLIMIT_MEMLOCK, &lim))
		return answer(FEATURE_UNKNOWN, detail, cap, "%s", errstr(errno));
	if (lim.rlim_cur == RLIM_INFINITY)
		return answer(FEATURE_YES, detail, cap, "unlimited");
	return answer(FEATURE_YES, detail, cap, "%" PRIu64 " KiB (matters before Linux 5.11 only)",
		      (uint64_t)lim.rlim_cur >> 10);
}

static enum feature_state check_seccomp(char *detail, size_t cap)
{
	int mode = prctl(PR_GET_SECCOMP, 0, 0, 0, 0);

	if (mode < 0)
		return answer(FEATURE_YES, detail, cap, "not in this Linux kernel");
	return answer(mode ? FEATURE_UNKNOWN : FEATURE_YES, detail, cap,
		      mode ? "a filter is active: it may forbid bpf() and perf_event_open()" :
			     "no filter");
}

static enum feature_state check_pidns(char *detail, size_t cap)
{
	uint32_t level, inum;
	int err = pidns__self(&level, &inum);

	if (err)
		return answer(FEATURE_UNKNOWN, detail, cap, "%s", errstr(err));
	if (level)
		return answer(FEATURE_YES, detail, cap,
			      "level %u: only processes of this container can be traced", level);
	return answer(FEATURE_YES, detail, cap, "initial");
}

/* Records have the kernel's clock, windows the one that is read here. */
static enum feature_state check_clock(char *detail, size_t cap)
{
	int64_t seconds = 0, ns = 0;
	char *text = NULL;
	size_t len;

	if (!proc_file__read(getpid(), 0, "timens_offsets", &text, &len))
		(void)!sscanf(text, "monotonic %" SCNd64 " %" SCNd64, &seconds, &ns);
	free(text);
	if (seconds || ns)
		return answer(FEATURE_NO, detail, cap,
			      "this time namespace differs from the Linux kernel's time by %" PRId64
			      " s",
			      seconds);
	return answer(FEATURE_YES, detail, cap, "CLOCK_MONOTONIC is the Linux kernel's");
}

const struct feature kern_features[] = {
	{ "machine", true, check_kernel, "run ptbpf on Linux on x86-64" },
	{ "libbpf", true, check_libbpf,
	  "install libbpf 1.3 or later (Debian 12: from its backports)" },
	{ KERN_CAPABILITIES, true, check_caps,
	  "run ptbpf as root, or with CAP_SYS_ADMIN and CAP_SYS_PTRACE (in a container: --privileged)" },
	{ "clock", true, check_clock, "run ptbpf outside of this time namespace" },
	{ "lockdown of Linux", true, check_lockdown,
	  "boot without lockdown=confidentiality (or turn secure boot's lockdown off)" },
	{ "types of Linux (BTF)", true, check_btf,
	  "boot a Linux kernel built with CONFIG_DEBUG_INFO_BTF=y" },
	{ "BPF programs", true, check_prog_load,
	  "allow bpf(): as root, outside a container that filters it; CONFIG_BPF_EVENTS=y", true },
	{ "BPF ring buffers", true, check_ringbuf, "boot Linux 5.8 or later", true },
	{ "cookies of probes", true, check_cookies, "boot Linux 5.15 or later" },
	{ "uprobes", true, check_uprobe_pmu,
	  "boot a Linux kernel built with CONFIG_UPROBE_EVENTS=y" },
	{ "uprobe_multi links", false, check_uprobe_multi, "boot Linux 6.10 or later", true },
	{ "probes in groups (tracefs)", false, check_trace_fs,
	  "boot a Linux kernel built with CONFIG_UPROBE_EVENTS=y; run ptbpf with CAP_SYS_ADMIN",
	  true },
	{ "left-over probes in groups", false, check_left_over,
	  "the next attach that uses groups removes them (attach --perf-uprobes)", true },
	{ "agents", false, check_agents, "use --agent off", true },
	{ "memory, CUDA calls", false, check_memory_programs,
	  "leave --profile-memory out, and use --gpu off", true, "memory" },
	{ "arguments, Python stacks", false, check_args_load, "boot Linux 5.17 or later", true,
	  "shapes, stacks" },
	{ "samples of Python stacks", false, check_samples,
	  "boot Linux 6.1 or later, and run ptbpf as root", true, "samples" },
	{ "memory events of Linux", false, check_kmem,
	  "--kernel-memory reports the others; for all of them: CONFIG_FTRACE_SYSCALLS, CONFIG_COMPACTION, "
	  "CONFIG_TRANSPARENT_HUGEPAGE, CONFIG_MIGRATION, CONFIG_MEMCG",
	  true, "page faults" },
	{ "waits of threads", false, check_sched, "leave --sched out", true, "waits" },
	{ "reading the target's memory", false, check_ptrace_cap,
	  "run ptbpf as root with CAP_SYS_PTRACE; reboot if kernel.yama.ptrace_scope is 3", true },
	{ "perf events", false, check_paranoid,
	  "run ptbpf as root, or sysctl kernel.perf_event_paranoid=0", true },
	{ "locked memory", false, check_memlock, "ulimit -l unlimited" },
	{ "seccomp", false, check_seccomp,
	  "run ptbpf outside the sandbox that filters its system calls" },
	{ "pid namespace", false, check_pidns,
	  "run ptbpf outside the container to see every process" },
};
const size_t kern_feature_cnt = sizeof(kern_features) / sizeof(kern_features[0]);

const struct feature *kern_features__blocker(char *detail, size_t cap)
{
	bpf_log__init();
	for (size_t i = 0; i < kern_feature_cnt; i++)
		if (kern_features[i].needed && kern_features[i].check(detail, cap) == FEATURE_NO)
			return &kern_features[i];
	return NULL;
}

const struct feature *kern_features__args_blocker(char *detail, size_t cap)
{
	bpf_log__init();
	for (size_t i = 0; i < kern_feature_cnt; i++)
		if (kern_features[i].check == check_args_load &&
		    check_args(detail, cap) == FEATURE_NO)
			return &kern_features[i];
	return NULL;
}
