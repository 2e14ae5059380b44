/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The session's set of BPF programs and links; see probe_set.h. Owns the loaded object, the rings,
 * and the links of each process.
 *
 * Longer than 600 lines because everything that needs the whole set is here: loading, processes,
 * windows, reading.
 */
#define LOG_DOMAIN "probe_set"
#include "base/cancel.h"
#include "base/log.h"
#include "base/mem.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "probe/probe_set.h"
#include "probe/probe_state.h"

static const char *const prog_names[PTB_PROG_CNT] = {
#define X(name, func, loaded, stack, text) #name,
	PTB_PROGS(X)
#undef X
};

#define SCRATCH_CNT 4 /* PTB_SCRATCH_CNT of bpf/maps.bpf.h */

#define SAMPLES_ONLY (opts->sample_hz && !opts->samples_beside)

/* values of the column "loaded" of PTB_PROGS */
#define LOADED_ALL (!SAMPLES_ONLY)
#define LOADED_VALUES (opts->args != PROBE_ARGS_NONE)
#define LOADED_RESULTS (opts->args == PROBE_ARGS_FULL)
#define LOADED_MEMORY (opts->memory)
#define LOADED_OOM (opts->memory || opts->oom)
#define LOADED_CUDA (opts->cuda_calls)
#define LOADED_AGENT (opts->agent)
#define LOADED_IDENTITIES (opts->identities)
#define LOADED_STACKS (opts->stacks && !SAMPLES_ONLY)
#define LOADED_AGENT_EDGES (opts->agent && opts->kernel_memory)
#define LOADED_AGENT_STACKS (opts->agent && LOADED_STACKS)

static void choose_programs(const struct ptbpf_bpf *s, const struct probe_set_opts *opts,
			    struct bpf_program **out)
{
#define X(name, func, loaded, stack, text)                                                         \
	out[PTB_PROG_##name] = LOADED_##loaded ? s->progs.func : NULL;                             \
	bpf_program__set_autoload(s->progs.func, LOADED_##loaded);
	PTB_PROGS(X)
#undef X
}

static bool reads_stacks(const struct probe_set_opts *opts)
{
	return opts->stacks || opts->sample_hz;
}

/* Stack ids are hashes. A target that does not know the seed cannot make two stacks collide. */
static int configure_stacks(struct ptbpf_bpf *s, const struct probe_set_opts *opts)
{
	bool any = reads_stacks(opts);

	s->rodata->py_stacks = LOADED_STACKS;
	bpf_map__set_autocreate(s->maps.py_walks, LOADED_STACKS);
	bpf_map__set_autocreate(s->maps.py_known, LOADED_STACKS);
	if (!any) {
		bpf_map__set_max_entries(s->maps.py_layouts, 1);
		bpf_map__set_max_entries(s->maps.py_code_ends, 1);
	}
	return any && getrandom(&s->rodata->py_seed, sizeof(s->rodata->py_seed), 0) < 0 ? -errno :
											  0;
}

/*
 * Selects, before loading, the programs and the sizes of maps. A session that records only names
 * loads and allocates nothing for arguments. out[PTB_PROG_CNT]: the program of each row of
 * PTB_PROGS; NULL: it is not loaded with these options, and its sites are not probed.
 */
static int configure_programs(struct ptbpf_bpf *s, const struct probe_set_opts *opts,
			      struct bpf_program **out)
{
	bool values = opts->args != PROBE_ARGS_NONE, full = opts->args == PROBE_ARGS_FULL;
	int cpus = libbpf_num_possible_cpus();

	if (cpus <= 0)
		return cpus ? cpus : -EINVAL;
	choose_programs(s, opts, out);
	s->rodata->args_on = values;
	s->rodata->args_full = full;
	if (values)
		bpf_map__set_max_entries(s->maps.arg_scratch_mem, (uint32_t)cpus * SCRATCH_CNT);
	else
		bpf_map__set_max_entries(s->maps.arg_progs, 1);
	bpf_map__set_autocreate(s->maps.no_programs, false); /* only unreachable code uses it */
	bpf_map__set_autocreate(s->maps.arg_scratch_mem, values);
	bpf_map__set_autocreate(s->maps.call_frames, full);
	bpf_map__set_autocreate(s->maps.api_calls, opts->memory);
	bpf_map__set_autocreate(s->maps.cuda_frames, opts->cuda_calls);
	return configure_stacks(s, opts);
}

/* Chooses the kind of links. Looks up sites by address if the kernel keeps no cookie per site. 0 or
 * negative errno (reported). */
static int choose_links(struct probe_set *ps, const struct probe_set_opts *opts, uint32_t ns_inum)
{
	struct ptbpf_bpf *s = ps->skel;

	ps->multi = !opts->force_perf && attach_multi__supported();
	if (!ps->multi) {
		for (uint32_t i = 0; i < PTB_PROG_CNT; i++)
			if (ps->progs[i])
				bpf_program__set_expected_attach_type(ps->progs[i],
								      (enum bpf_attach_type)0);
		ps->trace = trace_fs__open(ns_inum);
		if (!ps->trace) {
			int err = -errno;

			pr_error("probes cannot be defined in tracefs, as before Linux 6.10: %s",
				 errstr(err));
			pr_hint("run ptbpf with CAP_SYS_ADMIN, or boot Linux 6.10 or later");
			return err;
		}
	}
	s->rodata->site_by_ip = ps->trace != NULL;
	/* outside the initial namespace there may be processes that ptbpf does not see */
	s->rodata->by_tgid = ps->multi && !s->rodata->ns_level;
	/* before 7ff94f276f8e (Linux 6.2) the kernel may crash when it visits the mappings of an
	 * ending process */
	bpf_program__set_autoload(s->progs.mappings, attach_multi__known() && !s->rodata->ns_level);
	bpf_map__set_autocreate(s->maps.shared_procs, s->rodata->by_tgid);
	if (!ps->trace)
		bpf_map__set_max_entries(s->maps.site_of_ip, 1);
	return 0;
}

static int configure(struct probe_set *ps, const struct probe_set_opts *opts)
{
	struct ptbpf_bpf *s = ps->skel;
	uint32_t level, inum;
	int err = pidns__self(&level, &inum);

	if (err)
		return err;
	s->rodata->ring_mask = rings__cnt(ps->rings) - 1;
	s->rodata->ring_pieces = rings__piece_cnt(ps->rings);
	s->rodata->ring_half = rings__piece_bytes(ps->rings) / 2;
	s->rodata->ns_level = level;
	s->rodata->ns_inum = inum;
	s->rodata->watch_children = opts->watch_children;
	err = configure_programs(s, opts, ps->progs);
	if (err)
		return err;
	err = sampler__configure(&ps->sampler, s, opts->sample_hz);
	if (err)
		return err;
	err = choose_links(ps, opts, inum);
	if (err)
		return err;
	bpf_program__set_autoload(s->progs.pidns_depth, false);
	bpf_program__set_autoload(s->progs.task_fork, opts->follow_tasks);
	bpf_program__set_autoload(s->progs.task_exec, opts->follow_tasks);
	bpf_program__set_autoload(s->progs.task_exit, opts->follow_tasks);
	err = sched__configure(&ps->sched, s, opts->sched);
	return err ? err : kmem__configure(&ps->kmem, s, opts->kernel_memory);
}

/* Reports which missing feature makes loading fail. */
static void report_load_failure(int err, const struct probe_set_opts *opts)
{
	char detail[256];
	const struct feature *f = kern_features__blocker(detail, sizeof(detail));

	if (!f && opts->sample_hz) {
		pr_error("this Linux kernel cannot sample Python stacks: %s", errstr(err));
		pr_hint("boot Linux 6.1 or later");
		return;
	}
	if (!f && (opts->args != PROBE_ARGS_NONE || opts->stacks))
		f = kern_features__args_blocker(detail, sizeof(detail));
	if (f) {
		pr_error("cannot load the BPF programs: %s: %s", f->title, detail);
		pr_hint("%s", f->hint);
	} else {
		pr_error("cannot load the BPF programs: %s", errstr(err));
		pr_hint("for the Linux kernel's messages use --log=libbpf");
	}
}

static int load(struct probe_set *ps, const struct probe_set_opts *opts)
{
	uint64_t bytes = opts->ring_bytes ? opts->ring_bytes :
					    rings__choose_bytes(opts->agent && !SAMPLES_ONLY);
	int err;

	if ((bytes & (bytes - 1)) || bytes < 4096 || bytes > (1u << 30)) {
		pr_error("a ring buffer cannot have %llu bytes", (unsigned long long)bytes);
		pr_hint("use a power of two from 4K to 1G");
		return -EINVAL;
	}
	rings__make(rings__choose_cnt(), bytes, &ps->rings);
	ps->skel = ptbpf_bpf__open();
	if (!ps->skel) {
		err = -errno;
		pr_error("cannot open the BPF object: %s", errstr(err));
		return err;
	}
	ps->opts = *opts;
	ps->arg_prog_cnt = 1;
	err = configure(ps, opts);
	if (err)
		return err;
	err = ptbpf_bpf__load(ps->skel);
	if (!err && !ps->skel->bss)
		err = -ENOMEM; /* libbpf continues without the mapped variables */
	if (err) {
		report_load_failure(err, opts);
		return err;
	}
	if (ps->trace)
		trace_fs__set_map(ps->trace, bpf_map__fd(ps->skel->maps.site_of_ip));
	return rings__connect(ps->rings, bpf_map__fd(ps->skel->maps.rings), ps->skel->bss->ring_at);
}

static int attach_tasks(struct probe_set *ps)
{
	struct ptbpf_bpf *s = ps->skel;

	s->links.task_fork = bpf_program__attach(s->progs.task_fork);
	s->links.task_exec = bpf_program__attach(s->progs.task_exec);
	s->links.task_exit = bpf_program__attach(s->progs.task_exit);
	if (!s->links.task_fork || !s->links.task_exec || !s->links.task_exit) {
		int err = -errno;

		pr_error("cannot attach to the scheduler's tracepoints: %s", errstr(err));
		return err;
	}
	return 0;
}

int probe_set__load(const struct probe_set_opts *opts, struct probe_set **out)
{
	struct probe_set *ps = xcalloc(1, sizeof(*ps));
	int err;

	bpf_log__init();
	ps->kmem.tracefs = -1;
	ps->sampler.timer = -1;
	err = load(ps, opts);
	if (err) {
		probe_set__free(ps);
		return err;
	}
	*out = ps;
	return 0;
}

int probe_set__start(struct probe_set *ps)
{
	int err = kmem__open(&ps->kmem, ps->skel);

	if (!err)
		err = sched__open(&ps->sched, ps->skel);
	if (!err)
		err = sampler__open(&ps->sampler, ps->skel);
	if (!err && ps->opts.follow_tasks)
		err = attach_tasks(ps);
	return err;
}

int probe_set__open(const struct probe_set_opts *opts, struct probe_set **out)
{
	int err;

	*out = NULL;
	err = probe_set__load(opts, out);
	if (!err)
		err = probe_set__start(*out);
	if (err) {
		probe_set__free(*out);
		*out = NULL;
	}
	return err;
}

void probe_set__free(struct probe_set *ps)
{
	if (!ps)
		return;
	if (ps->skel && ps->skel->bss)
		__atomic_store_n(&ps->skel->bss->active, 0, __ATOMIC_RELAXED);
	probe_set__detach(ps);
	shared__forget(&ps->shared);
	free(ps->mappings.items);
	kmem__free(&ps->kmem);
	sched__free(&ps->sched);
	sampler__free(&ps->sampler);
	trace_fs__free(ps->trace);
	rings__free(ps->rings);
	ptbpf_bpf__destroy(ps->skel);
	free(ps);
}

bool probe_set__uses_multi(const struct probe_set *ps)
{
	return ps->multi;
}

/* ---- processes ---- */

int probe_set__attach_sites(struct probe_set *ps, struct attach_req *req)
{
	if (ps->multi)
		return attach_multi__sites(req);
	req->trace = ps->trace;
	return attach_trace__sites(req);
}

/* Copies the sites of `lib` with program `prog` to `some`. */
static uint32_t select_sites(const struct probe_lib *lib, uint32_t prog, struct probe_site **some)
{
	uint32_t cnt = 0;

	for (uint32_t i = 0; i < lib->cnt; i++)
		if (lib->sites[i].prog == prog && !lib->sites[i].refused)
			some[cnt++] = &lib->sites[i];
	return cnt;
}

int probe_set__attach_progs(struct probe_set *ps, uint32_t proc, pid_t tgid, struct probe_lib *lib,
			    struct link_list *links)
{
	struct probe_site **some = xcalloc((size_t)lib->cnt + 1, sizeof(*some));
	int err = 0, cnt = 0;

	for (uint32_t prog = PTB_PROG_CNT; !err && prog--;) { /* operators, which cost most, last */
		struct attach_req req = {
			.prog = ps->progs[prog],
			.prog_nr = prog,
			.tgid = tgid,
			.proc = proc,
			.path = lib->access_path,
			.sites = some,
			.cnt = select_sites(lib, prog, some),
			.links = links,
		};

		if (!req.cnt || !req.prog)
			continue;
		err = cancel__pending() ? -ECANCELED : probe_set__attach_sites(ps, &req);
		if (err && err != -ESRCH && err != -ECANCELED && tgid)
			pr_error("cannot attach %u %s probes to '%s' of process %d: %s", req.cnt,
				 prog_names[prog], lib->name, (int)tgid, errstr(err));
		cnt += (int)req.attached;
	}
	free(some);
	return err ? err : cnt;
}

static int verify(pid_t tgid, const struct probe_lib *libs, uint32_t lib_cnt,
		  struct bpf_program *const *armed)
{
	struct code_maps all;
	int err = code_maps__read_all(&all, tgid);

	if (err && err != -ESRCH)
		pr_error("the code of process %d cannot be found: %s", (int)tgid, errstr(err));
	for (uint32_t l = 0; l < lib_cnt && !err; l++)
		err = site_check__lib(tgid, &all, &libs[l], armed);
	code_maps__free(&all);
	return err;
}

int probe_set__verify(pid_t tgid, const struct probe_lib *libs, uint32_t lib_cnt)
{
	return verify(tgid, libs, lib_cnt, NULL);
}

int probe_set__verify_armed(const struct probe_set *ps, pid_t tgid, const struct probe_lib *libs,
			    uint32_t lib_cnt)
{
	return verify(tgid, libs, lib_cnt, ps->progs);
}

/* Attaches all sites or none. Compares the instructions immediately before and after. */
static int attach_own(struct probe_set *ps, uint32_t proc, pid_t tgid, struct probe_lib *libs,
		      uint32_t lib_cnt)
{
	struct link_list links = {};
	int err = lib_cnt ? mappings__check(ps, tgid, libs, lib_cnt) : 0, cnt = 0;

	if (!err && lib_cnt)
		err = probe_set__verify(tgid, libs, lib_cnt);
	for (uint32_t l = lib_cnt; l-- && !err;) {
		int n = shared__create(ps, proc, &libs[l]);

		if (!n)
			n = probe_set__attach_progs(ps, proc, tgid, &libs[l], &links);
		err = n < 0 ? n : 0;
		cnt += n;
	}
	if (!err && lib_cnt)
		err = probe_set__verify_armed(ps, tgid, libs, lib_cnt);
	if (!err)
		link_list__move(&ps->procs[proc].links, &links);
	link_list__clear(&links);
	return err ? err : cnt;
}

/* Places nothing where shared links serve this process, too. */
static int attach_libs(struct probe_set *ps, uint32_t proc, const struct code_maps *all,
		       struct probe_lib *libs, uint32_t lib_cnt)
{
	struct probe_lib *own = xcalloc(lib_cnt + 1ULL, sizeof(*own));
	uint32_t shared = ps->procs[proc].shares, own_cnt = 0;
	int n, cnt = 0;

	for (uint32_t l = 0; l < lib_cnt; l++) {
		n = shared__join(ps, proc, all, &libs[l]);
		cnt += n;
		if (!n && libs[l].cnt)
			own[own_cnt++] = libs[l];
	}
	n = attach_own(ps, proc, ps->procs[proc].tgid, own, own_cnt);
	if (n < 0)
		shared__leave(ps, proc, ~shared);
	free(own);
	return n < 0 ? n : cnt + n;
}

static int put_layout(struct probe_set *ps, uint32_t idx, const struct ptb_py_layout *layout)
{
	return bpf_map_update_elem(bpf_map__fd(ps->skel->maps.py_layouts), &idx, layout, BPF_ANY) ?
		       -errno :
		       0;
}

static int proc__alloc(struct probe_set *ps, const struct ptb_proc_cfg *cfg, uint32_t *idx)
{
	const struct ptb_py_layout none = { 0 };
	int err;

	for (uint32_t i = 0; i < PTB_PROC_MAX; i++) {
		if (ps->procs[i].used)
			continue;
		if (bpf_map_update_elem(bpf_map__fd(ps->skel->maps.proc_cfg), &i, cfg, BPF_ANY))
			return -errno;
		if (reads_stacks(&ps->opts) && (err = put_layout(ps, i, &none)))
			return err;
		err = hit_counts__add(ps, cfg->tgid);
		if (err)
			return err;
		ps->procs[i].used = true;
		ps->procs[i].tgid = (pid_t)cfg->tgid;
		*idx = i;
		return 0;
	}
	pr_error("more than %d processes in one session", PTB_PROC_MAX);
	return -ENOSPC;
}

/* The kernel also attaches to a file that the process has not mapped, and such a probe is never
 * hit. A process without any code is ending. */
static void warn_if_unmapped(pid_t tgid, const struct code_maps *all, const struct probe_lib *lib)
{
	struct code_maps maps = { 0 };

	if (all->cnt && !code_maps__pick(all, tgid, lib->access_path, &maps) && !maps.cnt)
		pr_warn("'%s' does not seem to be mapped by process %d: its probes will not hit",
			lib->name, (int)tgid);
	code_maps__free(&maps);
}

static int check_libs(const struct probe_lib *libs, uint32_t lib_cnt, uint64_t *sites)
{
	*sites = 0;
	for (uint32_t l = 0; l < lib_cnt; l++) {
		for (uint32_t i = 0; i < libs[l].cnt; i++)
			if (libs[l].sites[i].prog >= PTB_PROG_CNT || !libs[l].sites[i].id)
				return -EINVAL;
		*sites += libs[l].cnt;
	}
	return 0;
}

int probe_set__add_libs(struct probe_set *ps, uint32_t proc_idx, struct probe_lib *libs,
			uint32_t lib_cnt)
{
	struct code_maps all = { 0 };
	uint64_t sites;
	bool known;
	pid_t tgid;
	int n, err;

	if (proc_idx >= PTB_PROC_MAX || !ps->procs[proc_idx].used)
		return -EINVAL;
	tgid = ps->procs[proc_idx].tgid;
	err = check_libs(libs, lib_cnt, &sites);
	known = !err && sites && !code_maps__read_all(&all, tgid);
	if (!known)
		/* incomplete mappings are not used: the process then has links of its own */
		code_maps__free(&all);
	for (uint32_t l = 0; l < lib_cnt && known; l++)
		if (libs[l].cnt)
			warn_if_unmapped(tgid, &all, &libs[l]);
	n = err ? err : attach_libs(ps, proc_idx, &all, libs, lib_cnt);
	code_maps__free(&all);
	return n;
}

int probe_set__add_process(struct probe_set *ps, const struct ptb_proc_cfg *cfg,
			   struct probe_lib *libs, uint32_t lib_cnt, uint32_t *proc_idx)
{
	uint64_t sites;
	uint32_t idx = 0;
	int n, err = check_libs(libs, lib_cnt, &sites);

	if (!err)
		err = kmem__attach(&ps->kmem, ps->skel);
	if (!err)
		err = sched__attach(&ps->sched, ps->skel);
	if (!err)
		err = proc__alloc(ps, cfg, &idx);
	if (err)
		return err;
	probe_set__watch_task(ps, cfg->tgid);
	n = probe_set__add_libs(ps, idx, libs, lib_cnt);
	if (n < 0)
		probe_set__remove_process(ps, idx);
	else
		*proc_idx = idx;
	return n;
}

int probe_set__try(const struct probe_set_opts *opts)
{
	struct probe_set *ps = NULL;
	int err = probe_set__open(opts, &ps);

	if (!err)
		err = kmem__attach(&ps->kmem, ps->skel);
	if (!err)
		err = sched__attach(&ps->sched, ps->skel);
	probe_set__free(ps);
	return err;
}

/* A process may have several entries: its agent and its CUDA libraries have their own. */
static bool has_tgid(const struct probe_set *ps, pid_t tgid)
{
	for (uint32_t i = 0; i < PTB_PROC_MAX; i++)
		if (ps->procs[i].used && ps->procs[i].tgid == tgid)
			return true;
	return false;
}

/* Forgets RecordFunction objects that will not end: of one process, or of all (tgid 0). */
static void forget_scopes(const struct probe_set *ps, uint32_t tgid)
{
	int fd = bpf_map__fd(ps->skel->maps.scopes);
	struct ptb_scope_key key, next;
	bool more = !bpf_map_get_next_key(fd, NULL, &next);

	/* others may be added in the meantime */
	for (uint32_t i = 0; more && i < 2 * PTB_SCOPES_MAX; i++) {
		key = next;
		more = !bpf_map_get_next_key(fd, &key, &next);
		if (!tgid || key.tgid == tgid)
			bpf_map_delete_elem(fd, &key);
	}
}

void probe_set__remove_process(struct probe_set *ps, uint32_t proc_idx)
{
	struct proc *proc;

	if (proc_idx >= PTB_PROC_MAX || !ps->procs[proc_idx].used)
		return;
	probe_set__agent_withdraw(ps, proc_idx);
	proc = &ps->procs[proc_idx];
	sampler__remove(ps->skel, proc);
	probe_set__remove_probes(ps, proc_idx, 0);
	proc->used = false;
	if (!has_tgid(ps, proc->tgid))
		forget_scopes(ps, (uint32_t)proc->tgid);
}

int probe_set__watch_task(struct probe_set *ps, uint32_t tgid)
{
	uint32_t one = 1;

	if (bpf_map_update_elem(bpf_map__fd(ps->skel->maps.watched), &tgid, &one, BPF_ANY))
		return -errno;
	kmem__join(&ps->kmem, ps->skel);
	sched__join(&ps->sched, ps->skel);
	return 0;
}

/* ---- arguments ---- */

/* With two or more arguments passed by reference, one read of the caller's stack pays. */
static uint8_t inputs_by_ref(const struct ptb_arg_prog *prog)
{
	uint8_t n = 0;

	for (uint32_t i = 0; i < prog->in_cnt && i < PTB_ARG_OPS_MAX; i++)
		switch (prog->ops[i].op) {
		case PTB_ARG_PTR_SYMINT:
		case PTB_ARG_PTR_SCALAR:
		case PTB_ARG_PTR_TENSOR:
		case PTB_ARG_PTR_STRING:
		case PTB_ARG_PTR_OPT_TENSORS:
		case PTB_ARG_ILIST:
		case PTB_ARG_VECTOR:
			n++;
		}
	return n;
}

int probe_set__add_arg_progs(struct probe_set *ps, const struct ptb_arg_prog *progs, uint32_t cnt,
			     uint32_t *base)
{
	int fd = bpf_map__fd(ps->skel->maps.arg_progs);
	uint32_t max = bpf_map__max_entries(ps->skel->maps.arg_progs);

	if (cnt > max - ps->arg_prog_cnt) {
		pr_error("more than %u argument programs in one session", max - 1);
		return -ENOSPC;
	}
	for (uint32_t i = 0; i < cnt; i++) {
		uint32_t key = ps->arg_prog_cnt + i;
		struct ptb_arg_prog prog = progs[i];

		prog.by_ref = inputs_by_ref(&prog);
		if (bpf_map_update_elem(fd, &key, &prog, BPF_ANY))
			return -errno;
	}
	*base = ps->arg_prog_cnt;
	ps->arg_prog_cnt += cnt;
	return 0;
}

void probe_set__update_process(struct probe_set *ps, uint32_t proc_idx,
			       const struct ptb_proc_cfg *cfg)
{
	if (bpf_map_update_elem(bpf_map__fd(ps->skel->maps.proc_cfg), &proc_idx, cfg, BPF_ANY))
		pr_warn("process %u: its facts cannot be updated: %s", cfg->tgid, errstr(errno));
}

int probe_set__python(struct probe_set *ps, uint32_t proc_idx, const struct ptb_py_layout *layout)
{
	if (!reads_stacks(&ps->opts) || proc_idx >= PTB_PROC_MAX || !ps->procs[proc_idx].used ||
	    !ptb_py_fits(&layout->off))
		return -EINVAL;
	return put_layout(ps, proc_idx, layout);
}

int probe_set__sample(struct probe_set *ps, uint32_t proc_idx)
{
	if (proc_idx >= PTB_PROC_MAX || !ps->procs[proc_idx].used)
		return -EINVAL;
	return sampler__add(&ps->sampler, ps->skel, proc_idx, &ps->procs[proc_idx]);
}

int probe_set__sample_fd(const struct probe_set *ps)
{
	return ps->sampler.timer;
}

void probe_set__sample_now(struct probe_set *ps)
{
	sampler__run(&ps->sampler, ps->skel, ps->procs, PTB_PROC_MAX);
}

void probe_set__sample_once(struct probe_set *ps)
{
	sampler__run_once(&ps->sampler, ps->skel, ps->procs, PTB_PROC_MAX);
}

void probe_set__stop_args(struct probe_set *ps, uint32_t proc_idx)
{
	int fd = bpf_map__fd(ps->skel->maps.proc_cfg);
	struct ptb_proc_cfg cfg;

	if (bpf_map_lookup_elem(fd, &proc_idx, &cfg))
		return;
	cfg.tensor.shapes_on = 0;
	if (bpf_map_update_elem(fd, &proc_idx, &cfg, BPF_ANY))
		pr_warn("cannot stop the reading of arguments: %s", errstr(errno));
}

/* ---- the window ---- */

void probe_set__activate(struct probe_set *ps)
{
	shared__forget(&ps->shared);
	if (!ps->skel->bss->active)
		forget_scopes(ps, 0);
	probe_set__renew_sums(ps);
	__atomic_store_n(&ps->skel->bss->active, ps->window, __ATOMIC_SEQ_CST);
	sampler__begin(&ps->sampler);
}

void probe_set__deactivate(struct probe_set *ps)
{
	probe_set__flush_sums(ps);
	sampler__end(&ps->sampler);
	__atomic_store_n(&ps->skel->bss->active, 0, __ATOMIC_SEQ_CST);
	rings__wait_programs(ps->rings);
}

int probe_set__flush_sums(struct probe_set *ps)
{
	int err = kmem__end(&ps->kmem, ps->skel, ps->rings);
	int sched_err = sched__end(&ps->sched, ps->skel, ps->rings);

	return err ? err : sched_err;
}

uint64_t probe_set__changes_ns(void)
{
	return shielded__cpu_ns();
}

void probe_set__detach(struct probe_set *ps)
{
	struct link_list all = {};

	/* all processes at once, because the removal of each link waits for the kernel */
	for (uint32_t i = 0; i < PTB_PROC_MAX; i++) {
		link_list__move(&all, &ps->procs[i].ops_links);
		link_list__move(&all, &ps->procs[i].request_links);
		link_list__move(&all, &ps->procs[i].links);
	}
	shared__take_links(&ps->shared, &all);
	link_list__move(&all, &ps->cost_links);
	link_list__move(&all, &ps->kmem.links);
	link_list__move(&all, &ps->sched.links);
	link_list__move(&all, &ps->sampler.links);
	link_list__clear(&all);
	link_list__clear(&ps->cost_links);
	kmem__detach(&ps->kmem);
	sched__detach(&ps->sched);
	for (uint32_t i = 0; i < PTB_PROC_MAX; i++)
		probe_set__remove_process(ps, i);
	if (!ps->skel)
		return;
	bpf_link__destroy(ps->skel->links.task_fork);
	bpf_link__destroy(ps->skel->links.task_exec);
	bpf_link__destroy(ps->skel->links.task_exit);
	ps->skel->links.task_fork = ps->skel->links.task_exec = ps->skel->links.task_exit = NULL;
}

/* ---- cost ---- */

static int cost_attach(void *arg, pid_t pid)
{
	struct probe_set *ps = arg;
	struct probe_site sites[2] = { { .prog = PTB_PROG_CALIB }, { .prog = PTB_PROG_CALIB } };
	struct probe_site *list[2] = { &sites[0], &sites[1] };
	struct attach_req req = {
		.prog = ps->progs[PTB_PROG_CALIB],
		.prog_nr = PTB_PROG_CALIB,
		.tgid = pid,
		.sites = list,
		.cnt = 2,
		.links = &ps->cost_links,
	};
	int err = probe_cost__sites(&req.path, &sites[0].offset, &sites[1].offset);

	if (!err)
		err = probe_set__attach_sites(ps, &req);
	if (!err && req.attached != req.cnt)
		err = -EOPNOTSUPP;
	return err;
}

static void ignore_record(void *arg, uint32_t ring, const void *rec, uint32_t len)
{
	(void)arg;
	(void)ring;
	(void)rec;
	(void)len;
}

static void cost_drain(void *arg)
{
	struct probe_set *ps = arg;

	for (uint32_t i = 0; i < rings__cnt(ps->rings); i++)
		rings__drain(ps->rings, i, ignore_record, NULL);
}

int64_t probe_set__measure_cost(struct probe_set *ps)
{
	const struct probe_cost_ops ops = {
		.attach = cost_attach,
		.drain = cost_drain,
		.arg = ps,
	};
	int64_t ps_per_hit;

	for (uint32_t i = 0; i < PTB_PROC_MAX; i++)
		if (ps->procs[i].used)
			return -EBUSY; /* draining here would lose records */
	ps_per_hit = probe_cost__measure(&ops);
	if (ps_per_hit < 0)
		pr_warn("cannot measure the cost of a probe on this host: %s",
			errstr((int)ps_per_hit));
	return ps_per_hit;
}

/* ---- what user space reads: counters, rings, losses ---- */

static uint64_t sum_missed(struct probe_set *ps)
{
	struct bpf_program *prog;
	uint64_t sum = 0;

	bpf_object__for_each_program(prog, ps->skel->obj)
	{
		struct bpf_prog_info info = {};
		uint32_t len = sizeof(info);
		int fd = bpf_program__fd(prog);

		if (fd >= 0 && !bpf_obj_get_info_by_fd(fd, &info, &len))
			sum += info.recursion_misses;
	}
	return sum;
}

uint64_t probe_set__counter(struct probe_set *ps, uint32_t id)
{
	static const uint8_t counted_by[PTB_CNT_MAP] = {
#define X(name, nr, where, loss, text) [nr] = PTB_COUNTED_BY_##where,
		PTB_COUNTERS(X)
#undef X
	};

	if (id == PTB_CNT_HITS)
		return rings__delivered(ps->rings);
	if (id == PTB_CNT_MISSED)
		return sum_missed(ps);
	return counted_by[id] == PTB_COUNTED_BY_BPF ? hit_counts__sum(ps->skel->maps.counters, id) :
						      0;
}

uint32_t probe_set__ring_cnt(const struct probe_set *ps)
{
	return rings__cnt(ps->rings);
}

int64_t probe_set__drain(struct probe_set *ps, uint32_t ring, ring_fn fn, void *arg)
{
	return rings__drain(ps->rings, ring, fn, arg);
}

double probe_set__fill(const struct probe_set *ps)
{
	return rings__fill(ps->rings);
}

int probe_set__poll_fd(const struct probe_set *ps)
{
	return rings__wake_fd(ps->rings);
}

/*
 * The programs set the first time if it is 0, then the last time, then the count. A loss between
 * the two exchanges here is counted by the next call. It has no first time then and begins where
 * this one ended.
 */
void probe_set__take_loss(struct probe_set *ps, uint32_t ring, struct ring_loss *out)
{
	struct ptbpf_bpf__bss *b = ps->skel->bss;
	uint64_t first;

	memset(out, 0, sizeof(*out));
	if (ring >= rings__cnt(ps->rings))
		return;
	out->cnt = __atomic_exchange_n(&b->loss_cnt[ring], 0, __ATOMIC_SEQ_CST);
	if (!out->cnt)
		return;
	first = __atomic_exchange_n(&b->loss_first_ns[ring], 0, __ATOMIC_SEQ_CST);
	out->begin_ns = first ? first : ps->loss_seen_ns[ring];
	out->end_ns = __atomic_load_n(&b->loss_last_ns[ring], __ATOMIC_SEQ_CST);
	if (out->end_ns < out->begin_ns)
		out->end_ns = out->begin_ns;
	ps->loss_seen_ns[ring] = out->end_ns;
}
