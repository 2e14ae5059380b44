/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A layout is right if a thread agrees with it: its state has the thread's own pointer where
 * thread_id is expected (glibc's struct tcbhead_t has a pointer to itself,
 * sysdeps/x86_64/nptl/tls.h), the thread's slot has the address of that state, and its frames lead
 * to code objects whose texts and lines can be decoded. The process runs meanwhile, so a thread
 * that fails is examined again; a layout that is wrong fails every time.
 */
#include "python/python_priv.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/mem.h"
#include "python/python.h"
#include "target/proc.h"

#define INTERPS_MAX 256
#define THREADS_MAX 16384 /* whose number is known; */
#define CHECKED_MAX 64    /* so many are examined */
#define FRAMES_CHECKED 64 /* of one of them */
#define TRIES 20
#define PAUSE_NS 1000000

/* glibc: struct pthread, first block of thread-specific data {sequence, value}, and pointers to
 * further blocks. */
#define SELF_OFF 0x10
#define TSD_OFF 0x310
#define TSD_BLOCK 32u
#define TSD_BLOCKS_OFF (TSD_OFF + 16 * TSD_BLOCK)
#define TSD_KEYS 1024u
#define TLS_MAX 65536
/* tcbhead_t.dtv: an array by module of {block, to be freed} */
#define DTV_OFF 8
#define MODULES_MAX 65536u

static bool read_word(pid_t pid, uint64_t addr, uint64_t *v)
{
	return !remote__read(pid, addr, v, sizeof(*v));
}

static int refuse(struct py_interp *pi, const char *why)
{
	snprintf(pi->why, sizeof(pi->why), "%s", why);
	return -ENOTSUP;
}

/* A hostile process has as many threads, frames and code objects as are inspected, and all are
 * large. */
static bool is_over(uint64_t until_ns)
{
	return cancel__pending() || clock__cpu_ns() >= until_ns;
}

static int stop_early(struct py_interp *pi)
{
	return cancel__pending() ? -ECANCELED : refuse(pi, "to read its threads takes too long");
}

/* ---- interpreters and threads ---- */

/* The list of interpreters must lead to the main one. */
static bool find_main(pid_t pid, struct py_interp *pi)
{
	const struct ptb_py_offsets *off = &pi->layout.off;
	uint64_t interp, cnt = 0;
	bool found = false;

	if (!read_word(pid, pi->runtime + off->runtime_head, &interp) ||
	    !read_word(pid, pi->runtime + off->runtime_head + 8, &pi->main) || !pi->main)
		return false;
	for (; interp && cnt < INTERPS_MAX; cnt++) {
		found |= interp == pi->main;
		if (!read_word(pid, interp + off->interp_next, &interp))
			return false;
	}
	pi->sub_cnt = (uint32_t)cnt - found;
	pi->layout.interp = pi->main;
	return found;
}

int py_interp__threads(pid_t pid, const struct py_interp *pi, uint64_t *tstates, uint32_t max)
{
	const struct ptb_py_offsets *off = &pi->layout.off;
	uint64_t tstate, interp;
	uint32_t n = 0;

	if (!read_word(pid, pi->main + off->interp_threads, &tstate))
		return -EFAULT;
	while (tstate && n < max) {
		if (tstate & 7 || !read_word(pid, tstate + off->tstate_interp, &interp) ||
		    interp != pi->main)
			return -EINVAL;
		tstates[n++] = tstate;
		if (!read_word(pid, tstate + off->tstate_next, &tstate))
			return -EFAULT;
	}
	return (int)n;
}

/* ---- the slot of a thread ---- */

struct slot {
	int32_t off; /* as of struct ptb_py_layout */
	uint32_t hops, hop[2];
};

static bool slot_of_key(pid_t pid, uint64_t key_addr, struct slot *out)
{
	uint32_t key;

	if (remote__read(pid, key_addr, &key, sizeof(key)) || key >= TSD_KEYS)
		return false;
	if (key < TSD_BLOCK)
		*out = (struct slot){ .off = (int32_t)(TSD_OFF + 16 * key + 8) };
	else
		*out = (struct slot){ .off = (int32_t)(TSD_BLOCKS_OFF + 8 * (key / TSD_BLOCK)),
				      .hops = 1,
				      .hop = { 16 * (key % TSD_BLOCK) + 8 } };
	return true;
}

static bool slot_of_tls(int64_t tls, struct slot *out)
{
	*out = (struct slot){ .off = (int32_t)tls };
	return tls < 0 && tls > -TLS_MAX && tls % 8 == 0;
}

/* pair: what __tls_get_addr() is given, {module, offset in its block} (glibc elf/dl-tls.c). */
static bool slot_of_module(pid_t pid, uint64_t pair, int64_t tls, struct slot *out)
{
	uint64_t words[2];

	if (remote__read(pid, pair, words, sizeof(words)) || !words[0] || words[0] >= MODULES_MAX ||
	    words[1] >= TLS_MAX || tls < 0 || tls >= TLS_MAX)
		return false;
	*out = (struct slot){ .off = DTV_OFF,
			      .hops = 2,
			      .hop = { (uint32_t)(16 * words[0]),
				       (uint32_t)(words[1] + (uint64_t)tls) } };
	return true;
}

/* Where the slot may be; the first thread that agrees with one decides. */
struct slot_list {
	struct slot slots[2];
	uint32_t cnt;
};

static void list_slots(pid_t pid, const struct py_interp *pi, const struct py_file_facts *facts,
		       struct slot_list *list)
{
	uint16_t key = pi->layout.off.runtime_key;
	uint64_t tls;

	list->cnt = 0;
	if (key != PTB_PY_NONE) {
		list->cnt += facts->key && slot_of_key(pid, facts->key, &list->slots[list->cnt]);
		list->cnt += slot_of_key(pid, pi->runtime + key, &list->slots[list->cnt]);
		return;
	}
	if (facts->tls_pair)
		list->cnt +=
			slot_of_module(pid, facts->tls_pair, facts->tls, &list->slots[list->cnt]);
	else
		list->cnt += slot_of_tls(facts->tls, &list->slots[list->cnt]);
	if (facts->tls_slot && read_word(pid, facts->tls_slot, &tls))
		list->cnt += slot_of_tls((int64_t)tls, &list->slots[list->cnt]);
}

static bool is_slot_of(const struct ptb_py_layout *l, const struct slot *s)
{
	return l->slot == s->off && l->slot_hops == s->hops &&
	       !memcmp(l->slot_hop, s->hop, sizeof(s->hop));
}

static bool slot_holds(pid_t pid, uint64_t thread, const struct slot *s, uint64_t tstate)
{
	uint64_t v;

	if (!read_word(pid, thread + (uint64_t)(int64_t)s->off, &v))
		return false;
	for (uint32_t i = 0; i < s->hops; i++)
		if (!read_word(pid, v + s->hop[i], &v))
			return false;
	return v == tstate;
}

/* ---- one thread ---- */

uint64_t py_tstate__thread(pid_t pid, const struct ptb_py_layout *l, uint64_t tstate)
{
	uint64_t thread, self;

	if (!read_word(pid, tstate + l->off.tstate_thread_id, &thread) ||
	    !read_word(pid, thread + SELF_OFF, &self))
		return 0;
	return self == thread ? thread : 0;
}

enum check {
	CHECK_ID,
	CHECK_SLOT,
	CHECK_FRAMES,
	CHECK_IDLE,
	CHECK_OK
}; /* how far it got; IDLE: it has no frames */

static bool check_frame(pid_t pid, const struct ptb_py_layout *l, const struct py_live_frame *f)
{
	struct py_code code;
	int32_t line;

	if (py_code__read(pid, l, f->code, &code))
		return false;
	line = py_code__line(&code, l, f->at);
	py_code__clear(&code);
	return code.file[0] && code.name[0] && (line > 0 || line == PY_NO_LINE);
}

/* Without a symbol, PyCode_Type is the type of the first code object, which is called "code". */
static void find_code_type(pid_t pid, struct ptb_py_layout *l, uint64_t code)
{
	uint64_t type, name;
	char text[8];

	if (read_word(pid, code + l->off.type, &type) &&
	    read_word(pid, type + l->off.type_name, &name) &&
	    !remote__read_cstr(pid, name, text, sizeof(text)) && !strcmp(text, "code"))
		l->code_type = type;
}

static enum check check_thread(pid_t pid, struct ptb_py_layout *l, uint64_t tstate,
			       const struct slot_list *list, uint64_t until_ns)
{
	struct py_live_frame frames[FRAMES_CHECKED];
	uint64_t thread = py_tstate__thread(pid, l, tstate);
	uint32_t s = 0;
	int n;

	if (!thread)
		return CHECK_ID;
	while (s < list->cnt && !slot_holds(pid, thread, &list->slots[s], tstate))
		s++;
	if (s == list->cnt || (l->slot && !is_slot_of(l, &list->slots[s])))
		return CHECK_SLOT;
	n = py_frames__walk(pid, l, tstate, frames, FRAMES_CHECKED);
	if (n > 0 && !l->code_type)
		find_code_type(pid, l, frames[0].code);
	for (int i = 0; i < n; i++)
		if (is_over(until_ns) || !check_frame(pid, l, &frames[i]))
			return CHECK_FRAMES;
	if (n <= 0)
		return n ? CHECK_FRAMES : CHECK_IDLE;
	l->slot = list->slots[s].off;
	l->slot_hops = list->slots[s].hops;
	memcpy(l->slot_hop, list->slots[s].hop, sizeof(l->slot_hop));
	return CHECK_OK;
}

/* ---- all ---- */

static void pause_briefly(void)
{
	struct timespec t = { .tv_nsec = PAUSE_NS };

	nanosleep(&t, NULL);
}

static int read_threads(pid_t pid, struct py_interp *pi, uint64_t until_ns, uint64_t **tstates)
{
	int n = -EINVAL;

	*tstates = xcalloc(THREADS_MAX, sizeof(**tstates));
	/* threads begin and end */
	for (uint32_t i = 0; i < TRIES && n <= 0 && !is_over(until_ns); i++) {
		if (i)
			pause_briefly();
		n = py_interp__threads(pid, pi, *tstates, THREADS_MAX);
	}
	if (n > 0) {
		pi->thread_cnt = (uint32_t)n;
		pi->checked_cnt = pi->thread_cnt < CHECKED_MAX ? pi->thread_cnt : CHECKED_MAX;
	}
	return n;
}

static int check_threads(pid_t pid, struct py_interp *pi, const uint64_t *tstates,
			 const struct slot_list *list, uint64_t until_ns)
{
	static const char *const whys[] = {
		[CHECK_ID] = "no thread is where its layout says, or the C library is not glibc",
		[CHECK_SLOT] = "where threads keep their thread state was not found",
		[CHECK_FRAMES] = "frames or code objects are not what its layout says",
		[CHECK_IDLE] =
			"no thread runs Python code now on which its layout could be verified",
	};
	enum check got[CHECKED_MAX] = { CHECK_ID }, best = CHECK_ID;
	uint32_t open = pi->checked_cnt;

	for (uint32_t t = 0; t < TRIES && open && !is_over(until_ns); t++) {
		if (t)
			pause_briefly();
		open = pi->verified_cnt = 0;
		for (uint32_t i = 0; i < pi->checked_cnt; i++) {
			if (got[i] != CHECK_OK)
				got[i] = check_thread(pid, &pi->layout, tstates[i], list, until_ns);
			if (got[i] > best)
				best = got[i];
			pi->verified_cnt += got[i] >= CHECK_IDLE;
			open += got[i] < CHECK_IDLE;
		}
	}
	return best == CHECK_OK ? 0 : refuse(pi, whys[best]);
}

int py_calibrate__run(pid_t pid, const struct py_file_facts *facts, uint64_t until_ns,
		      struct py_interp *pi)
{
	uint8_t head[PY_DEBUG_OFFSETS_READ];
	struct slot_list list;
	uint64_t *tstates = NULL;
	const char *why;
	int err;

	pi->runtime = facts->runtime;
	err = remote__read(pid, pi->runtime, head, sizeof(head));
	if (err == -EFAULT)
		return refuse(pi, "its memory cannot be read where its state should be");
	if (err)
		return err;
	err = py_layout__fill(head, sizeof(head), (uint32_t)facts->version, &pi->layout, &why);
	if (err)
		return refuse(pi, why);
	pi->layout.code_type = facts->code_type;
	if (!find_main(pid, pi))
		return refuse(pi, "it is not initialized, or not laid out as its version is");
	err = read_threads(pid, pi, until_ns, &tstates);
	list_slots(pid, pi, facts, &list);
	if (err > 0)
		err = check_threads(pid, pi, tstates, &list, until_ns);
	else
		err = refuse(pi, "its list of threads is not laid out as its version is");
	if (is_over(until_ns))
		err = stop_early(pi);
	free(tstates);
	return err;
}
