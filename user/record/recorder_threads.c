/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Names that Python gives to threads: up to 3.13 the kernel calls all of them "python". */
#include <stdlib.h>

#include "base/limits.h"
#include "python/python.h"
#include "record/recorder_priv.h"
#include "target/proc.h"
#include "target/proc_info.h"

#define READS_MAX 60000 /* objects; a process with PyTorch needs 1,500 of them, and 30 a thread */

struct names {
	struct recorder *r;
	struct recorder_proc *p;
	struct hashmap
		tids; /* number in the process's pid namespace -> tid; empty: the same ones */
	bool same;
};

static uint64_t find_modules(struct py_objects *po, const struct recorder_proc *p)
{
	uint64_t type = p->tensor_class ? py_objects__word(po, p->tensor_class) : 0, func, modules;

	func = type ? py_dict__by_name(po, py_objects__word(po, type + PY_TYPE_DICT), "backward") :
		      0;
	modules = func ? py_modules__of_func(po, func) : 0;
	if (!modules && recorder__interp(p))
		modules = py_modules__of_interp(po, recorder__interp(p));
	return modules;
}

static void take_name(void *arg, uint32_t native_id, const char *name)
{
	const struct names *n = arg;
	const uint64_t *tid = n->same ? NULL : hashmap__get(&n->tids, native_id, 0), *known;
	struct ptb_thread t = { .h.tgid = n->p->tgid,
				.h.tid = tid     ? (uint32_t)*tid :
					 n->same ? native_id :
						   0 };
	char comm[16];

	/* a hostile process names threads of others, too */
	if (!t.h.tid || proc__comm((pid_t)t.h.tgid, (pid_t)t.h.tid, comm) ||
	    !recorder__is_there(n->p))
		return;
	t.name = recorder__name(n->r, t.h.tgid, name);
	known = hashmap__get(&n->r->thread_names, t.h.tgid, t.h.tid);
	if (!t.name || (known && *known == t.name))
		return;
	t.comm = recorder__name(n->r, t.h.tgid, comm);
	recorder__put(n->r, PTB_REC_THREAD, &t.h, sizeof(t));
	recorder__know_thread(n->r, t.h.tgid, t.h.tid, t.comm);
	hashmap__try_put(&n->r->thread_names, t.h.tgid, t.h.tid, t.name);
}

void recorder__thread_names(struct recorder *r, struct recorder_proc *p)
{
	struct py_objects po = { .pid = (pid_t)p->tgid, .reads_left = READS_MAX };
	struct names n = { .r = r, .p = p };
	uint64_t modules = find_modules(&po, p);
	struct thread_status st;
	pid_t *tids = NULL;
	int cnt = 0;

	if (!modules || thread_status__read((pid_t)p->tgid, (pid_t)p->tgid, &st))
		return;
	n.same = st.ns_pid == (pid_t)p->tgid;
	if (!n.same)
		cnt = proc__threads((pid_t)p->tgid, &tids);
	for (int i = 0; i < cnt && i < (int)LIMIT_AGENT_THREADS; i++)
		if (!thread_status__read((pid_t)p->tgid, tids[i], &st))
			hashmap__try_put(&n.tids, (uint64_t)st.ns_pid, 0, (uint64_t)tids[i]);
	py_threads__names(&po, modules, take_name, &n);
	hashmap__clear(&n.tids);
	free(tids);
}
