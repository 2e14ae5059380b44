/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The tracepoints of context switches and wake-ups: what a system call means for a thread that
 * waits in it, the links, and the passes over all tasks that begin and end the threads' sums.
 */
#define LOG_DOMAIN "sched"
#include "base/log.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/utsname.h>

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>

#include "base/clock.h"
#include "probe/probe_state.h"

#ifndef SYS_futex_wait
#define SYS_futex_wait 455 /* Linux 6.7 */
#endif

#define GPU_MAJORS 2

static const struct {
	uint16_t nr;
	uint8_t what;
} calls[] = {
	{ SYS_futex, PTB_WAIT_LOCK },        { SYS_futex_wait, PTB_WAIT_LOCK },
	{ SYS_futex_waitv, PTB_WAIT_LOCK },  { SYS_flock, PTB_WAIT_LOCK },
	{ SYS_semop, PTB_WAIT_LOCK },        { SYS_semtimedop, PTB_WAIT_LOCK },
	{ SYS_poll, PTB_WAIT_POLL },         { SYS_ppoll, PTB_WAIT_POLL },
	{ SYS_select, PTB_WAIT_POLL },       { SYS_pselect6, PTB_WAIT_POLL },
	{ SYS_epoll_wait, PTB_WAIT_POLL },   { SYS_epoll_pwait, PTB_WAIT_POLL },
	{ SYS_epoll_pwait2, PTB_WAIT_POLL }, { SYS_read, PTB_WAIT_BY_FILE },
	{ SYS_write, PTB_WAIT_BY_FILE },     { SYS_readv, PTB_WAIT_BY_FILE },
	{ SYS_writev, PTB_WAIT_BY_FILE },    { SYS_ioctl, PTB_WAIT_BY_FILE },
	{ SYS_recvfrom, PTB_WAIT_PIPE },     { SYS_recvmsg, PTB_WAIT_PIPE },
	{ SYS_sendto, PTB_WAIT_PIPE },       { SYS_sendmsg, PTB_WAIT_PIPE },
	{ SYS_accept, PTB_WAIT_PIPE },       { SYS_accept4, PTB_WAIT_PIPE },
	{ SYS_connect, PTB_WAIT_PIPE },      { SYS_pread64, PTB_WAIT_FILE },
	{ SYS_pwrite64, PTB_WAIT_FILE },     { SYS_preadv, PTB_WAIT_FILE },
	{ SYS_pwritev, PTB_WAIT_FILE },      { SYS_preadv2, PTB_WAIT_FILE },
	{ SYS_pwritev2, PTB_WAIT_FILE },     { SYS_fsync, PTB_WAIT_FILE },
	{ SYS_fdatasync, PTB_WAIT_FILE },    { SYS_sync, PTB_WAIT_FILE },
	{ SYS_syncfs, PTB_WAIT_FILE },       { SYS_sync_file_range, PTB_WAIT_FILE },
	{ SYS_msync, PTB_WAIT_FILE },        { SYS_open, PTB_WAIT_FILE },
	{ SYS_openat, PTB_WAIT_FILE },       { SYS_close, PTB_WAIT_FILE },
	{ SYS_stat, PTB_WAIT_FILE },         { SYS_newfstatat, PTB_WAIT_FILE },
	{ SYS_statx, PTB_WAIT_FILE },        { SYS_getdents64, PTB_WAIT_FILE },
	{ SYS_unlink, PTB_WAIT_FILE },       { SYS_rename, PTB_WAIT_FILE },
	{ SYS_ftruncate, PTB_WAIT_FILE },    { SYS_fallocate, PTB_WAIT_FILE },
	{ SYS_sendfile, PTB_WAIT_FILE },     { SYS_copy_file_range, PTB_WAIT_FILE },
	{ SYS_io_getevents, PTB_WAIT_FILE }, { SYS_io_uring_enter, PTB_WAIT_FILE },
	{ SYS_nanosleep, PTB_WAIT_SLEEP },   { SYS_clock_nanosleep, PTB_WAIT_SLEEP },
	{ SYS_mmap, PTB_WAIT_MEMORY },       { SYS_munmap, PTB_WAIT_MEMORY },
	{ SYS_mremap, PTB_WAIT_MEMORY },     { SYS_mprotect, PTB_WAIT_MEMORY },
	{ SYS_madvise, PTB_WAIT_MEMORY },    { SYS_brk, PTB_WAIT_MEMORY },
	{ SYS_wait4, PTB_WAIT_CHILD },       { SYS_waitid, PTB_WAIT_CHILD },
};

/* /proc/devices: "195 nvidia", "237 nvidia-uvm", ... */
static void read_gpu_majors(uint32_t majors[GPU_MAJORS])
{
	FILE *f = fopen("/proc/devices", "re");
	char line[128], name[64];
	unsigned int major;
	uint32_t n = 0;

	while (f && n < GPU_MAJORS && fgets(line, sizeof(line), f))
		if (sscanf(line, "%u %63s", &major, name) == 2 &&
		    (!strcmp(name, "nvidia") || !strcmp(name, "nvidia-frontend") ||
		     !strcmp(name, "nvidia-uvm")))
			majors[n++] = major;
	if (f)
		fclose(f);
}

bool probe_set__can_sched(void)
{
	unsigned int major, minor;
	struct utsname u;

	return uname(&u) || !strstr(u.version, "PREEMPT_RT") ||
	       sscanf(u.release, "%u.%u", &major, &minor) != 2 || major > 6 ||
	       (major == 6 && minor >= 12);
}

static bool is_attached(const struct bpf_program *prog)
{
	return !strncmp(bpf_program__name(prog), "sched_", 6) &&
	       !strncmp(bpf_program__section_name(prog), "tp_btf/", 7);
}

int sched__configure(struct sched *sc, struct ptbpf_bpf *s, bool on)
{
	const struct btf_type *proto;
	struct bpf_program *prog;
	struct btf *btf;

	sc->on = on;
	bpf_object__for_each_program(prog, s->obj) if (is_attached(prog))
		bpf_program__set_autoload(prog, on);
	bpf_program__set_autoload(s->progs.sched_tasks, on);
	bpf_map__set_autocreate(s->maps.sched_accs, on);
	bpf_map__set_autocreate(s->maps.sched_periods, on);
	bpf_map__set_autocreate(s->maps.thread_of_fsbase, on);
	for (size_t i = 0; i < sizeof(s->rodata->wait_of_call); i++)
		s->rodata->wait_of_call[i] = PTB_WAIT_OTHER;
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		s->rodata->wait_of_call[calls[i].nr] = calls[i].what; /* samples need it, too */
	if (!on)
		return 0;
	if (!probe_set__can_sched()) {
		pr_error("what threads wait for cannot be recorded on this real-time Linux kernel");
		pr_hint("boot Linux 6.12 or later, or leave --sched out");
		return -EOPNOTSUPP;
	}
	btf = btf__load_vmlinux_btf();
	proto = btf ? tracepoint__proto(btf, "sched_switch") : NULL;
	/* the tracer's own, preempt, prev, next; from Linux 5.18 on the state of prev */
	s->rodata->sched_state_arg = proto && btf_vlen(proto) == 5;
	btf__free(btf);
	read_gpu_majors(s->rodata->gpu_majors);
	return 0;
}

static int attach(struct sched *sc, const struct bpf_program *prog)
{
	struct bpf_link *link = bpf_program__attach(prog);
	int err = link ? 0 : -errno;

	if (link)
		link_list__add(&sc->links, (struct probe_link){ .lib = link });
	else
		pr_error("cannot attach to the Linux kernel's tracepoint %s: %s",
			 strrchr(bpf_program__section_name(prog), '/') + 1, errstr(err));
	return err;
}

int sched__open(struct sched *sc, struct ptbpf_bpf *s)
{
	int err;

	if (!sc->on)
		return 0;
	sc->iter = bpf_program__attach_iter(s->progs.sched_tasks, NULL);
	if (sc->iter)
		return 0;
	err = -errno;
	pr_error("cannot iterate over the tasks of this machine: %s", errstr(err));
	return err;
}

int sched__attach(struct sched *sc, struct ptbpf_bpf *s)
{
	struct bpf_program *prog;
	int err = 0;

	if (!sc->on || sc->attached)
		return 0;
	bpf_object__for_each_program(prog, s->obj) if (!err && is_attached(prog))
		err = attach(sc, prog);
	sc->attached = true;
	return err;
}

void sched__detach(struct sched *sc)
{
	link_list__clear(&sc->links);
	sc->attached = false;
}

void sched__free(struct sched *sc)
{
	sched__detach(sc);
	bpf_link__destroy(sc->iter);
	sc->iter = NULL;
}

int probe_set__gil(const struct probe_set *ps, uint32_t tgid, const struct ptb_py_gil *gil)
{
	return bpf_map_update_elem(bpf_map__fd(ps->skel->maps.py_gils), &tgid, gil, BPF_ANY) ?
		       -errno :
		       0;
}

void sched__begin(const struct sched *sc, struct ptbpf_bpf *s, uint32_t window)
{
	if (!sc->on)
		return;
	s->bss->sched_closing = 0;
	__atomic_store_n(&s->bss->sched_window, window, __ATOMIC_SEQ_CST);
	__atomic_store_n(&s->bss->sched_active, window, __ATOMIC_SEQ_CST);
	iter__run_tasks(sc->iter);
}

void probe_set__renew_sums(struct probe_set *ps)
{
	if (!++ps->window)
		ps->window = 1;
	kmem__begin(&ps->kmem, ps->skel, ps->window);
	sched__begin(&ps->sched, ps->skel, ps->window);
}

void sched__join(const struct sched *sc, const struct ptbpf_bpf *s)
{
	if (sc->on && __atomic_load_n(&s->bss->sched_active, __ATOMIC_RELAXED))
		iter__run_tasks(sc->iter);
}

int sched__end(const struct sched *sc, struct ptbpf_bpf *s, const struct rings *r)
{
	if (!sc->on || !s->bss->sched_active)
		return 0;
	s->bss->sched_end_ns = clock__mono_ns();
	__atomic_store_n(&s->bss->sched_active, 0, __ATOMIC_SEQ_CST);
	rings__wait_programs(r);
	s->bss->sched_closing = 1;
	return iter__run_tasks(sc->iter);
}
