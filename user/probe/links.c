/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Lists of links, and the search for sites that the kernel refuses. One refused offset fails all
 * that are attached together, so a failing range is halved until the refused offsets are alone.
 */
#define LOG_DOMAIN "attach"
#include "base/cancel.h"
#include "base/log.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/libbpf.h>

#include "base/containers.h"
#include "base/guards.h"
#include "probe/probe_impl.h"

#define RETRIES 5
#define THREADS_MAX 16

struct parallel {
	void (*fn)(void *arg, uint32_t i);
	void *arg;
	uint32_t next, cnt;
};

static void *work_on(void *arg)
{
	struct parallel *p = arg;
	uint32_t i;

	while ((i = __atomic_fetch_add(&p->next, 1, __ATOMIC_RELAXED)) < p->cnt)
		p->fn(p->arg, i);
	return NULL;
}

/* Each change of a probe waits in the kernel for a grace period, and callers that wait at the same
 * time share one. */
static void run_parallel(void (*fn)(void *arg, uint32_t i), void *arg, uint32_t cnt)
{
	struct parallel p = { .fn = fn, .arg = arg, .cnt = cnt };
	pthread_t threads[THREADS_MAX];
	uint32_t n = 0;

	while (n < THREADS_MAX && n + 1 < cnt && !pthread_create(&threads[n], NULL, work_on, &p))
		n++;
	work_on(&p);
	while (n)
		pthread_join(threads[--n], NULL);
}

static void close_link(const struct probe_link *link)
{
	int slot = link_guard__begin();

	bpf_link__destroy(link->lib);
	link_guard__end(slot);
	if (!link->lib)
		shielded__close(link->fd);
}

void link_list__add(struct link_list *l, struct probe_link link)
{
	vec_push(l->items, l->cnt, l->cap, link);
}

void link_list__move(struct link_list *to, struct link_list *from)
{
	vec_reserve((void **)&to->items, &to->cap, (uint64_t)to->cnt + from->cnt,
		    sizeof(*to->items));
	for (uint32_t i = 0; i < from->cnt; i++)
		to->items[to->cnt++] = from->items[i];
	from->cnt = 0;
}

static void destroy_link(void *arg, uint32_t i)
{
	close_link(&((struct link_list *)arg)->items[i]);
}

void link_list__clear(struct link_list *l)
{
	run_parallel(destroy_link, l, l->cnt);
	for (uint32_t i = 0; i < l->cnt; i++)
		if (l->items[i].trace)
			trace_fs__remove_event(l->items[i].trace, l->items[i].event);
	free(l->items);
	memset(l, 0, sizeof(*l));
}

void link_list__keep(struct link_list *l, uint64_t progs)
{
	struct link_list others = { .cnt = 0 };
	uint32_t n = 0;

	_Static_assert(PTB_PROG_CNT <= 64, "bits of a word");

	for (uint32_t i = 0; i < l->cnt; i++)
		if (progs >> l->items[i].prog & 1)
			l->items[n++] = l->items[i];
		else
			link_list__add(&others, l->items[i]);
	l->cnt = n;
	if (!n)
		link_list__clear(l); /* frees its memory */
	link_list__clear(&others);
}

/* True for errors that concern the file, the process or the machine, not one offset. */
static bool is_hard_error(int err)
{
	switch (err < 0 ? -err : err) {
	case EPERM:
	case EACCES:
	case ENOENT:
	case ESRCH:
	case ENOMEM:
	case EMFILE:
	case ENFILE:
	case EBADF:
	case EINTR:
	case EAGAIN:
		return true;
	default:
		return false;
	}
}

/* Sites [from, from + cnt) of the request, to be attached by one link. */
struct range {
	uint32_t from, cnt;
	struct probe_link link;
	int err;
};

struct trial {
	struct attach_req *req;
	link_fn link;
	struct range *ranges;
	uint32_t cnt, cap;
};

static void try_range(void *arg, uint32_t i)
{
	struct trial *t = arg;
	struct range *r = &t->ranges[i];

	for (int n = 0; n < RETRIES; n++) {
		r->err = t->link(t->req, r->from, r->cnt, &r->link);
		if (r->err != -EINTR && r->err != -EAGAIN)
			break;
	}
}

static void trial__add(struct trial *t, uint32_t from, uint32_t cnt)
{
	vec_push(t->ranges, t->cnt, t->cap, (struct range){ .from = from, .cnt = cnt });
}

/* Keeps what worked, refuses single sites, halves other failed ranges; `next` is the following
 * round. */
static int settle(struct trial *t, struct trial *next)
{
	struct attach_req *req = t->req;
	int err = 0;

	for (uint32_t i = 0; i < t->cnt; i++) {
		struct range *r = &t->ranges[i];
		struct probe_site *site = req->sites[r->from];

		if (!r->err) {
			r->link.prog = req->prog_nr;
			link_list__add(req->links, r->link);
			req->attached += r->cnt;
		} else if (is_hard_error(r->err)) {
			err = err ? err : r->err;
		} else if (r->cnt == 1) {
			pr_debug("kernel refused site %u at 0x%" PRIx64 " of '%s': %s", site->id,
				 site->offset, req->path, errstr(r->err));
			site->refused = true;
		} else if (!err) {
			trial__add(next, r->from, r->cnt / 2);
			trial__add(next, r->from + r->cnt / 2, r->cnt - r->cnt / 2);
		}
	}
	return err;
}

/* A failing link waits for the kernel, so a round tries its ranges in parallel. */
static int run_trials(struct trial *t)
{
	int err = 0;

	while (!err && t->cnt) {
		struct trial next = { .req = t->req, .link = t->link };

		if (cancel__pending()) {
			err = -ECANCELED;
			break;
		}

		run_parallel(try_range, t, t->cnt);
		err = settle(t, &next);
		free(t->ranges);
		t->ranges = next.ranges;
		t->cnt = next.cnt;
		t->cap = next.cap;
	}
	free(t->ranges);
	return err;
}

int attach__bisect(struct attach_req *req, link_fn link, uint32_t range_max)
{
	struct trial t = { .req = req, .link = link };
	uint32_t n;

	for (uint32_t i = 0; i < req->cnt; i += n) {
		n = req->cnt - i < range_max ? req->cnt - i : range_max;
		trial__add(&t, i, n);
	}
	return run_trials(&t);
}
