/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The tracepoints of kernel memory: which of them this kernel has, their links, and the passes over
 * all tasks that begin and end the threads' sums. Names the kinds of events that missing
 * tracepoints would report.
 */
#define LOG_DOMAIN "kmem"
#include "base/log.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <linux/perf_event.h>

#include "base/clock.h"
#include "probe/probe_state.h"

#define CPUS_MAX (sizeof(((struct ptbpf_bpf__bss *)0)->cpu_off) / sizeof(uint64_t))

static const char *const kind_names[KMEM_KINDS] = {
	[KMEM_FAULTS] = "page faults by address",
	[KMEM_CALLS] = "mmap, munmap, mremap, brk, madvise",
	[KMEM_RECLAIM] = "direct reclaim",
	[KMEM_CGROUP_RECLAIM] = "reclaim for a memory cgroup",
	[KMEM_COMPACTION] = "compaction stalls",
	[KMEM_HUGE_PAGES] = "huge page collapse",
	[KMEM_MIGRATION] = "page migration",
	[KMEM_OOM] = "OOM kills",
	[KMEM_LIFE] = "threads that end",
	[KMEM_RSS] = "resident memory",
};

static const struct {
	const char *name; /* of a tracepoint of the scheduler or of mm, or of a system call */
	bool syscall;
	uint8_t kind;
} tracepoints[] = {
	{ "page_fault_user", false, KMEM_FAULTS },
	{ "mmap", true, KMEM_CALLS },
	{ "munmap", true, KMEM_CALLS },
	{ "mremap", true, KMEM_CALLS },
	{ "brk", true, KMEM_CALLS },
	{ "madvise", true, KMEM_CALLS },
	{ "mm_vmscan_direct_reclaim_begin", false, KMEM_RECLAIM },
	{ "mm_vmscan_direct_reclaim_end", false, KMEM_RECLAIM },
	{ "mm_vmscan_memcg_reclaim_begin", false, KMEM_CGROUP_RECLAIM },
	{ "mm_vmscan_memcg_reclaim_end", false, KMEM_CGROUP_RECLAIM },
	{ "mm_compaction_begin", false, KMEM_COMPACTION },
	{ "mm_compaction_end", false, KMEM_COMPACTION },
	{ "mm_collapse_huge_page", false, KMEM_HUGE_PAGES },
	{ "mm_collapse_huge_page_isolate", false, KMEM_HUGE_PAGES },
	{ "mm_migrate_pages", false, KMEM_MIGRATION },
	{ "mark_victim", false, KMEM_OOM },
	{ "sched_process_fork", false, KMEM_LIFE },
	{ "sched_process_exec", false, KMEM_LIFE },
	{ "sched_process_exit", false, KMEM_LIFE },
};
#define TRACEPOINT_CNT (sizeof(tracepoints) / sizeof(tracepoints[0]))

/* ---- what this kernel has ---- */

const struct btf_type *tracepoint__proto(const struct btf *btf, const char *name)
{
	const struct btf_type *t;
	char type[64];
	int32_t id;

	snprintf(type, sizeof(type), "btf_trace_%s", name);
	id = btf__find_by_name_kind(btf, type, BTF_KIND_TYPEDEF);
	if (id < 0)
		return NULL;
	/* a pointer to a function */
	t = btf__type_by_id(btf, btf__type_by_id(btf, (uint32_t)id)->type);
	t = t && btf_is_ptr(t) ? btf__type_by_id(btf, t->type) : NULL;
	return t && btf_is_func_proto(t) ? t : NULL;
}

static bool first_is_pointer(const struct btf *btf, const struct btf_type *proto)
{
	const struct btf_type *t;

	if (btf_vlen(proto) < 2)
		return false;
	t = btf__type_by_id(btf, btf_params(proto)[1].type);
	return t && btf_is_ptr(t);
}

static int syscall_event(int tracefs, bool enter, const char *name)
{
	char event[64];

	snprintf(event, sizeof(event), "syscalls/sys_%s_%s", enter ? "enter" : "exit", name);
	return trace_fs__event_id(tracefs, event);
}

/* Bits of enum kmem_kind whose tracepoint is missing. */
static uint32_t find_missing(const struct btf *btf, int tracefs)
{
	uint32_t missing = 0;

	for (size_t i = 0; i < TRACEPOINT_CNT; i++) {
		const char *name = tracepoints[i].name;
		bool there = tracepoints[i].syscall ?
				     syscall_event(tracefs, true, name) > 0 &&
					     syscall_event(tracefs, false, name) > 0 :
				     tracepoint__proto(btf, name) != NULL;

		if (!there)
			missing |= 1u << tracepoints[i].kind;
	}
	return missing;
}

static uint32_t print_missing(uint32_t missing, char *buf, size_t cap)
{
	uint32_t n = 0;
	size_t len = 0;

	if (cap)
		buf[0] = '\0';
	for (uint32_t i = 0; i < KMEM_KINDS; i++) {
		if (!(missing >> i & 1))
			continue;
		if (len < cap)
			len += (size_t)snprintf(buf + len, cap - len, "%s%s", n ? ", " : "",
						kind_names[i]);
		n++;
	}
	return n;
}

uint32_t probe_set__missing_kmem(const struct probe_set *ps, char *buf, size_t cap)
{
	return print_missing(ps->kmem.missing, buf, cap);
}

int kmem__find_missing(char *buf, size_t cap)
{
	struct btf *btf = btf__load_vmlinux_btf();
	int tracefs = trace_fs__mount();
	int n;

	if (!btf) {
		snprintf(buf, cap, "/sys/kernel/btf/vmlinux: %s", errstr(errno));
		n = -ENOENT;
	} else {
		n = (int)print_missing(find_missing(btf, tracefs), buf, cap);
	}
	btf__free(btf);
	if (tracefs >= 0)
		close(tracefs);
	return n;
}

/*
 * Present processors. More may be possible, and every reading of a process's memory pays for each.
 * The text is like "0-3,8". Returns 0 for more than max, or if it is unreadable.
 */
static uint32_t read_cpus(__u64 *ids, uint32_t max)
{
	FILE *f = fopen("/sys/devices/system/cpu/present", "re");
	unsigned int from, to;
	uint32_t n = 0;

	while (f && fscanf(f, "%u", &from) == 1) {
		to = from;
		if (fscanf(f, "-%u", &to) == EOF && ferror(f))
			break;
		for (; from <= to && n <= max; from++, n++)
			if (n < max)
				ids[n] = from;
		if (fgetc(f) != ',')
			break;
	}
	if (f)
		fclose(f);
	return n <= max ? n : 0;
}

/* ---- before load ---- */

static void set_all(struct ptbpf_bpf *s, bool on)
{
	struct bpf_program *prog;

	bpf_object__for_each_program(prog,
				     s->obj) if (!strncmp(bpf_program__name(prog), "kmem_", 5))
		bpf_program__set_autoload(prog, on);
	bpf_map__set_autocreate(s->maps.kmem_accs, on);
	bpf_map__set_autocreate(s->maps.kmem_rss, on);
	bpf_map__set_autocreate(s->maps.kmem_seen, on);
}

/* Selects the programs for tracepoints whose arguments differ between kernels. */
static void choose_variants(struct ptbpf_bpf *s, const struct btf *btf, uint32_t missing)
{
	const struct btf_type *t;
	bool by_task;

	if (!(missing >> KMEM_COMPACTION & 1))
		s->rodata->compact_has_cc =
			first_is_pointer(btf, tracepoint__proto(btf, "mm_compaction_begin"));
	if (!(missing >> KMEM_MIGRATION & 1)) {
		t = tracepoint__proto(btf, "mm_migrate_pages");
		s->rodata->migrate_reason_arg = btf_vlen(t) >= 2 ? btf_vlen(t) - 2u : 0;
	}
	if (!(missing >> KMEM_OOM & 1)) {
		by_task = first_is_pointer(btf, tracepoint__proto(btf, "mark_victim"));
		bpf_program__set_autoload(s->progs.kmem_oom_kill, by_task);
		bpf_program__set_autoload(s->progs.kmem_oom_kill_pid, !by_task);
	}
}

/* Finds the tracepoint in the program's section name; *kind: the kind of event. */
static bool program_kind(const struct bpf_program *prog, uint8_t *kind)
{
	const char *sec = bpf_program__section_name(prog);
	bool syscall = !strncmp(sec, "tracepoint/", 11);
	const char *name = strrchr(sec, '/');

	if (!name || strncmp(bpf_program__name(prog), "kmem_", 5))
		return false;
	name++;
	if (syscall) /* sys_enter_x, sys_exit_x */
		name = strchr(name + 4, '_') + 1;
	for (size_t i = 0; i < TRACEPOINT_CNT; i++)
		if (tracepoints[i].syscall == syscall && !strcmp(tracepoints[i].name, name)) {
			*kind = tracepoints[i].kind;
			return true;
		}
	return false;
}

int kmem__configure(struct kmem *k, struct ptbpf_bpf *s, bool on)
{
	struct bpf_program *prog;
	struct btf *btf;
	uint8_t kind;

	k->tracefs = -1;
	k->on = on;
	set_all(s, on);
	if (!on)
		return 0;
	btf = btf__load_vmlinux_btf();
	if (!btf)
		return -errno;
	k->tracefs = trace_fs__mount();
	k->missing = find_missing(btf, k->tracefs);
	bpf_object__for_each_program(prog, s->obj) if (program_kind(prog, &kind) &&
						       k->missing >> kind & 1)
		bpf_program__set_autoload(prog, false);
	choose_variants(s, btf, k->missing);
	s->rodata->kernel_memory = 1;
	s->rodata->nr_cpus = read_cpus(s->bss->cpu_off, CPUS_MAX);
	btf__free(btf);
	return 0;
}

/* ---- links ---- */

static struct bpf_link *attach_syscall(const struct kmem *k, const struct bpf_program *prog)
{
	const char *name = strrchr(bpf_program__section_name(prog), '/') + 1; /* sys_enter_x */
	bool enter = !strncmp(name, "sys_enter_", 10);
	struct perf_event_attr attr = { .type = PERF_TYPE_TRACEPOINT, .size = sizeof(attr) };
	int id = syscall_event(k->tracefs, enter, strchr(name + 4, '_') + 1), fd;
	struct bpf_link *link;

	if (id < 0) {
		errno = -id;
		return NULL;
	}
	attr.config = (uint32_t)id;
	fd = (int)syscall(SYS_perf_event_open, &attr, -1, 0, -1,
			  (unsigned long)PERF_FLAG_FD_CLOEXEC);
	if (fd < 0)
		return NULL;
	link = bpf_program__attach_perf_event(prog, fd);
	if (!link) {
		int err = errno;

		close(fd);
		errno = err;
	}
	return link;
}

static int attach_kinds(struct kmem *k, struct ptbpf_bpf *s, bool life)
{
	struct bpf_program *prog;
	int err = 0;

	bpf_object__for_each_program(prog, s->obj)
	{
		struct bpf_link *link;
		uint8_t kind;

		if (err || !bpf_program__autoload(prog) || !program_kind(prog, &kind) ||
		    (kind == KMEM_LIFE) != life)
			continue;
		link = kind == KMEM_CALLS ? attach_syscall(k, prog) : bpf_program__attach(prog);
		if (link) {
			link_list__add(&k->links, (struct probe_link){ .lib = link });
		} else {
			err = -errno;
			pr_error("cannot attach to the Linux kernel's tracepoint %s: %s",
				 strrchr(bpf_program__section_name(prog), '/') + 1, errstr(err));
			pr_hint("run without --kernel-memory");
		}
	}
	return err;
}

/* Compares the kernel's counters of this process with /proc. */
static bool rss_is_right(const struct ptbpf_bpf *s)
{
	FILE *f = fopen("/proc/self/statm", "re");
	uint64_t size, resident = 0, got, slack;

	if (f && fscanf(f, "%" SCNu64 " %" SCNu64, &size, &resident) != 2)
		resident = 0;
	if (f)
		fclose(f);
	got = (uint64_t)(s->bss->own_rss[PTB_RSS_FILE] + s->bss->own_rss[PTB_RSS_ANON] +
			 s->bss->own_rss[PTB_RSS_SHMEM]);
	pr_debug("resident pages of ptbpf: %" PRIu64 " read, %" PRIu64 " by /proc", got, resident);
	/* /proc may lack what the processors have not added up: 32 pages each, or twice their
	 * number */
	slack = resident / 8 +
		(uint64_t)s->rodata->nr_cpus * (32 + 2u * s->rodata->nr_cpus) * PTB_RSS_KINDS;
	return resident && got && got <= resident + slack && resident <= got + slack;
}

int kmem__open(struct kmem *k, struct ptbpf_bpf *s)
{
	LIBBPF_OPTS(bpf_test_run_opts, run);
	int err;

	if (!k->on)
		return 0;
	err = bpf_prog_test_run_opts(bpf_program__fd(s->progs.kmem_setup), &run);
	if (err || !rss_is_right(s)) {
		k->missing |= 1u << KMEM_RSS;
		s->bss->rss_wrong = 1;
	}
	k->iter = bpf_program__attach_iter(s->progs.kmem_tasks, NULL);
	if (!k->iter) {
		err = -errno;
		pr_error("cannot iterate over the tasks of this machine: %s", errstr(err));
		pr_hint("boot Linux 5.17 or later, or run without --kernel-memory");
		return err;
	}
	k->life = true;
	return attach_kinds(k, s, true);
}

int kmem__attach(struct kmem *k, struct ptbpf_bpf *s)
{
	int err = 0;

	if (!k->on || k->attached)
		return 0;
	if (!k->life)
		err = attach_kinds(k, s, true);
	if (!err)
		err = attach_kinds(k, s, false);
	k->life = k->attached = true;
	return err;
}

void kmem__detach(struct kmem *k)
{
	link_list__clear(&k->links);
	k->life = k->attached = false;
}

void kmem__free(struct kmem *k)
{
	kmem__detach(k);
	bpf_link__destroy(k->iter);
	k->iter = NULL;
	if (k->tracefs >= 0)
		close(k->tracefs);
	k->tracefs = -1;
}

/* ---- windows ---- */

void kmem__join(const struct kmem *k, const struct ptbpf_bpf *s)
{
	if (k->on && __atomic_load_n(&s->bss->kmem_active, __ATOMIC_RELAXED))
		iter__run_tasks(k->iter);
}

/* Nothing is added to the sums while they are prepared, so they begin up to a millisecond before
 * the window. */
void kmem__begin(const struct kmem *k, struct ptbpf_bpf *s, uint32_t window)
{
	struct ptbpf_bpf__bss *b = s->bss;

	if (!k->on)
		return;
	b->kmem_closing = 0;
	b->kmem_shrinking = 0; /* calls that are running now end unnoticed */
	b->kmem_since = clock__mono_ns();
	__atomic_store_n(&b->kmem_window, window, __ATOMIC_SEQ_CST);
	if (iter__run_tasks(k->iter))
		b->kmem_lazy = 1;
	__atomic_fetch_add(&b->kmem_gen, 1, __ATOMIC_SEQ_CST);
	__atomic_store_n(&b->kmem_active, window, __ATOMIC_SEQ_CST);
}

int kmem__end(const struct kmem *k, struct ptbpf_bpf *s, const struct rings *r)
{
	struct ptbpf_bpf__bss *b = s->bss;
	int err;

	if (!k->on || !b->kmem_active)
		return 0;
	__atomic_store_n(&b->kmem_active, 0, __ATOMIC_SEQ_CST);
	rings__wait_programs(r);
	b->kmem_closing = 1;
	err = iter__run_tasks(k->iter);
	__atomic_store_n(&b->kmem_window, 0, __ATOMIC_SEQ_CST);
	return err;
}
