/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Samples of threads (bpf/sample.bpf.c). Running threads are sampled by the tick of each processor,
 * or by a timer per processor if more samples a second are requested than there are ticks, or if
 * ticks are not available. Other threads are sampled by one run of an iterator in each period, at a
 * random moment: ptbpf must not always run when a processor is interrupted, nor in step with the
 * program.
 *
 * The iterator's period is longer, because each run wakes ptbpf, which slows down a program on a
 * neighbouring processor. A sample of a thread that has not run since the last one loses nothing by
 * standing for a longer time.
 */
#define LOG_DOMAIN "sampler"
#include "base/log.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/perf_event.h>

#include "base/clock.h"
#include "base/guards.h"
#include "base/limits.h"
#include "probe/probe_state.h"

#define NICE_MOST (-20)
#define SECOND_NS 1000000000ULL
#define WAIT_EVERY 4   /* periods of the timers between two runs of the iterator */
#define WAIT_HZ_MIN 25 /* fewest runs a second, unless the timers are slower */

static uint32_t wait_hz(uint32_t hz)
{
	uint32_t least = hz < WAIT_HZ_MIN ? hz : WAIT_HZ_MIN;

	return hz / WAIT_EVERY > least ? hz / WAIT_EVERY : least;
}

/* Is there a processor of nohz_full=, which has no ticks while it runs one thread? */
static bool any_without_ticks(void)
{
	FILE *f = fopen("/sys/devices/system/cpu/nohz_full", "re");
	int first = f ? fgetc(f) : EOF; /* a list of numbers, or nothing, or "(null)" */

	if (f)
		fclose(f);
	return isdigit(first);
}

/* Ticks a second of a processor that is not idle; 0: they differ, or do not come from
 * high-resolution timers. */
static uint32_t tick_hz(void)
{
	struct timespec tick, resolution;

	if (clock_getres(CLOCK_MONOTONIC_COARSE, &tick) ||
	    clock_getres(CLOCK_MONOTONIC, &resolution) || resolution.tv_sec ||
	    resolution.tv_nsec != 1 || tick.tv_sec || tick.tv_nsec <= 0 || any_without_ticks())
		return 0;
	return (uint32_t)(SECOND_NS / (uint64_t)tick.tv_nsec);
}

struct kernel_code {
	uint64_t tick;              /* the function of the ticks' timers; 0: unknown */
	uint64_t fault, fault_next; /* the handler of page faults, the function behind it */
};

/* The symbols of Linux itself come in the order of their addresses. */
static void find_kernel_code(struct kernel_code *code)
{
	FILE *f = fopen("/proc/kallsyms", "re");
	char line[256], name[64];
	uint64_t addr;

	while (f && !(code->tick && code->fault_next) && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%" SCNx64 " %*c %63s", &addr, name) != 2)
			continue;
		if (code->fault && !code->fault_next && addr > code->fault)
			code->fault_next = addr;
		/* before Linux 6.9 tick_nohz_handler is another one */
		if (!strcmp(name, "tick_sched_timer") ||
		    (!strcmp(name, "tick_nohz_handler") && !code->tick))
			code->tick = addr;
		else if (!strcmp(name, "exc_page_fault"))
			code->fault = addr;
	}
	if (f)
		fclose(f);
}

int sampler__configure(struct sampler *sa, struct ptbpf_bpf *s, uint32_t hz)
{
	int cpus = libbpf_num_possible_cpus();
	uint32_t ticks = hz ? tick_hz() : 0;
	struct kernel_code code = { .tick = 0 };

	sa->hz = hz;
	sa->timer = -1;
	if (hz)
		find_kernel_code(&code);
	s->rodata->tick_function = ticks >= hz ? code.tick : 0;
	s->rodata->page_fault_function = code.fault;
	s->rodata->page_fault_bytes = code.fault_next ? code.fault_next - code.fault : 0;
	sa->ticks = s->rodata->tick_function;
	bpf_program__set_autoload(s->progs.py_tick_begins, sa->ticks);
	bpf_program__set_autoload(s->progs.py_sample_tick, sa->ticks);
	bpf_program__set_autoload(s->progs.py_sample_timer, hz && !sa->ticks);
	bpf_program__set_autoload(s->progs.py_sample_blocked, hz > 0);
	bpf_map__set_autocreate(s->maps.py_samplers, hz > 0);
	bpf_map__set_autocreate(s->maps.py_seen, hz > 0);
	if (!hz)
		return 0;
	if (cpus <= 0 || (uint32_t)cpus >= bpf_map__max_entries(s->maps.py_samplers))
		return cpus < 0 ? cpus : -E2BIG;
	sa->wait_ns = SECOND_NS / wait_hz(hz);
	s->rodata->sample_ns = SECOND_NS / hz;
	s->rodata->wait_sample_ns = sa->wait_ns;
	s->rodata->sample_hz = hz;
	s->rodata->tick_hz = sa->ticks ? ticks : hz;
	s->rodata->tick_ns = SECOND_NS / s->rodata->tick_hz;
	s->rodata->sample_cpus = (uint32_t)cpus;
	return bpf_map__set_max_entries(s->maps.py_samplers, (uint32_t)cpus + 1);
}

/* 1: the timer runs; 0: there is no such processor; negative errno. */
static int open_cpu(struct sampler *sa, struct ptbpf_bpf *s, int cpu)
{
	struct perf_event_attr attr = { .type = PERF_TYPE_SOFTWARE,
					.size = sizeof(attr),
					.config = PERF_COUNT_SW_CPU_CLOCK,
					.sample_period = SECOND_NS / sa->hz };
	struct probe_link link = { .lib = NULL };
	int err, fd = (int)syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);

	if (fd < 0)
		return errno == ENODEV ? 0 : -errno;
	link.lib = bpf_program__attach_perf_event(s->progs.py_sample_timer, fd);
	if (!link.lib) {
		err = -errno;
		close(fd);
		return err;
	}
	link_list__add(&sa->links, link); /* owns fd */
	return 1;
}

/* 0 or negative errno. */
static int open_timers(struct sampler *sa, struct ptbpf_bpf *s)
{
	int err = 0, opened = 0;

	for (uint32_t cpu = 0; cpu < s->rodata->sample_cpus && err >= 0; cpu++) {
		err = open_cpu(sa, s, (int)cpu);
		opened += err > 0;
	}
	if (err >= 0 && !opened)
		err = -ENODEV;
	return err < 0 ? err : 0;
}

static int open_ticks(struct sampler *sa, struct ptbpf_bpf *s)
{
	const struct bpf_program *const progs[] = { s->progs.py_sample_tick,
						    s->progs.py_tick_begins };

	for (size_t i = 0; i < sizeof(progs) / sizeof(*progs); i++) {
		struct probe_link link = { .lib = bpf_program__attach(progs[i]) };

		if (!link.lib)
			return -errno;
		link_list__add(&sa->links, link);
	}
	return 0;
}

/* Before Linux 6.1 there is no iterator over one process. */
static int try_iterator(const struct sampler *sa, struct ptbpf_bpf *s)
{
	struct proc self = { .tgid = getpid() };
	int err = sampler__add(sa, s, 0, &self);

	sampler__remove(s, &self);
	return err;
}

int sampler__open(struct sampler *sa, struct ptbpf_bpf *s)
{
	int err;

	if (!sa->hz)
		return 0;
	err = sa->ticks ? open_ticks(sa, s) : open_timers(sa, s);
	if (err >= 0)
		err = try_iterator(sa, s);
	if (err >= 0 && getrandom(&sa->random, sizeof(sa->random), 0) < 0)
		err = -errno;
	if (err >= 0) {
		sa->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
		err = sa->timer < 0 ? -errno : 0;
	}
	if (err < 0) {
		pr_error("cannot sample this machine's processors: %s", errstr(err));
		pr_hint("run as root, and see 'perf events' of 'ptbpf doctor'");
	}
	return err < 0 ? err : 0;
}

void sampler__free(struct sampler *sa)
{
	link_list__clear(&sa->links);
	if (sa->hz && sa->timer >= 0)
		close(sa->timer);
	sa->timer = -1;
}

/* ---- processes ---- */

int sampler__add(const struct sampler *sa, struct ptbpf_bpf *s, uint32_t idx, struct proc *p)
{
	union bpf_iter_link_info info = { .task.pid = (uint32_t)p->tgid };
	LIBBPF_OPTS(bpf_iter_attach_opts, opts, .link_info = &info, .link_info_len = sizeof(info));
	uint32_t tgid = (uint32_t)p->tgid;
	int err;

	if (!sa->hz || p->threads)
		return -EINVAL;
	p->threads = bpf_program__attach_iter(s->progs.py_sample_blocked, &opts);
	err = p->threads ? 0 : -errno;
	if (!err && bpf_map_update_elem(bpf_map__fd(s->maps.sampled), &tgid, &idx, BPF_ANY))
		err = -errno;
	if (!err)
		return 0;
	sampler__remove(s, p);
	if (err != -ESRCH)
		pr_error("cannot sample the threads of pid %d: %s", (int)p->tgid, errstr(err));
	return err;
}

void sampler__remove(const struct ptbpf_bpf *s, struct proc *p)
{
	uint32_t tgid = (uint32_t)p->tgid;

	if (!p->threads)
		return;
	bpf_map_delete_elem(bpf_map__fd(s->maps.sampled), &tgid); /* missing after an exec */
	bpf_link__destroy(p->threads);
	p->threads = NULL;
}

/* ---- periods ---- */

static uint64_t next_random(uint64_t *x)
{
	*x ^= *x << 13;
	*x ^= *x >> 7;
	*x ^= *x << 17;
	return *x;
}

/* Arms the timer for a random moment of the next period that has had no run, or for now if that is
 * over. */
static void arm(struct sampler *sa)
{
	struct itimerspec t = { .it_interval = { 0 } };

	sa->due_ns = (sa->slot + 1) * sa->wait_ns + next_random(&sa->random) % sa->wait_ns;
	t.it_value.tv_sec = (time_t)(sa->due_ns / SECOND_NS);
	t.it_value.tv_nsec = (long)(sa->due_ns % SECOND_NS);
	if (timerfd_settime(sa->timer, TFD_TIMER_ABSTIME, &t, NULL))
		pr_warn("no more samples of threads that do not run: %s", errstr(errno));
}

void sampler__begin(struct sampler *sa)
{
	if (!sa->hz)
		return;
	sa->random |= 1;
	sa->slot = clock__mono_ns() / sa->wait_ns;
	arm(sa);
	/* so that the runs are not late when all processors are busy */
	sa->nice = getpriority(PRIO_PROCESS, 0);
	if (setpriority(PRIO_PROCESS, 0, NICE_MOST))
		pr_debug("ptbpf keeps its priority: %s", errstr(errno));
}

void sampler__end(struct sampler *sa)
{
	const struct itimerspec never = { .it_value = { 0 } };

	if (!sa->hz || timerfd_settime(sa->timer, 0, &never, NULL))
		return;
	setpriority(PRIO_PROCESS, 0, sa->nice);
}

/* Takes samples that stand for so many periods each. */
static void sample_blocked(struct ptbpf_bpf *s, const struct proc *procs, uint32_t cnt,
			   uint64_t ticks)
{
	uint64_t looked;

	__atomic_store_n(&s->bss->sample_ticks, ticks, __ATOMIC_RELAXED);
	__atomic_store_n(&s->bss->sample_looked, 0, __ATOMIC_RELAXED);
	for (uint32_t i = 0; i < cnt; i++)
		if (procs[i].threads) {
			looked = __atomic_load_n(&s->bss->sample_looked, __ATOMIC_RELAXED);
			__atomic_store_n(&s->bss->sample_room, (LIMIT_SAMPLED_THREADS - looked) / 2,
					 __ATOMIC_RELAXED);
			stall__begin(procs[i].tgid);
			iter__run(procs[i].threads); /* an error means that the process has ended */
			stall__end();
		}
}

void sampler__run_once(const struct sampler *sa, struct ptbpf_bpf *s, const struct proc *procs,
		       uint32_t cnt)
{
	if (sa->hz)
		sample_blocked(s, procs, cnt, 0);
}

void sampler__run(struct sampler *sa, struct ptbpf_bpf *s, const struct proc *procs, uint32_t cnt)
{
	uint64_t expired, now = clock__mono_ns(), slot, ticks;

	if (!sa->hz || read(sa->timer, &expired, sizeof(expired)) != sizeof(expired))
		return;
	slot = now / sa->wait_ns;
	ticks = slot > sa->slot + 2 ? slot - sa->slot - 1 :
				      1; /* the next run makes up for one that is a period late */
	__atomic_store_n(&s->bss->sample_late_ns, now > sa->due_ns ? now - sa->due_ns : 0,
			 __ATOMIC_RELAXED);
	sample_blocked(s, procs, cnt, ticks);
	sa->slot += ticks;
	arm(sa);
}
