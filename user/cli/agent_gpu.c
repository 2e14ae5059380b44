/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* GPU records; see agent_gpu.h. */
#include "cli/agent_gpu.h"

#include <string.h>

#include "capture/record_check.h"
#include "cli/recorder_agent_priv.h"

union gpu_record {
	struct ptb_rec_hdr h;
	struct ptb_gpu_kernel kernel;
	struct ptb_gpu_memory memory;
	struct ptb_gpu_api api;
	struct ptb_gpu_sync sync;
	struct ptb_gpu_event event;
	struct ptb_gpu_overhead overhead;
	struct ptb_gpu_device device;
	struct ptb_gpu_clock clock;
	struct ptb_gpu_note note;
};

static void put(struct recorder *r, const struct ptb_rec_hdr *h)
{
	int err = capture_writer__ring(r->cw, AGENT_RING_GPU, h, h->len);

	r->records++;
	if (err && !r->error)
		r->error = err;
}

static void head(struct ptb_rec_hdr *h, const struct agent_proc *p, uint32_t kind, uint32_t len)
{
	*h = (struct ptb_rec_hdr){ .len = (uint16_t)len,
				   .kind = (uint8_t)kind,
				   .flags = PTB_F_AGENT,
				   .ts_ns = p->now_ns,
				   .tgid = p->tgid };
}

static void learn_name(struct recorder *r, struct agent_proc *p, const struct ptb_arec *a)
{
	const uint32_t *id = (const void *)(a + 1), *len = id + 1;
	const char *text = (const char *)(len + 1);
	char buf[PTB_CHUNK_MAX];

	if (a->len < sizeof(*a) + 8 || *len > a->len - sizeof(*a) - 8) {
		agent__count(r, PTB_CNT_AGENT_BAD, 1);
		return;
	}
	memcpy(buf, text, *len);
	buf[*len] = '\0';
	hashmap__put(&p->names, *id, 0, recorder__name(r, buf));
}

/* Name ids become the capture's; a thread's number becomes ours. */
static void translate(struct agent_proc *p, union gpu_record *u, const struct ptb_arec *a)
{
	uint32_t *name = NULL;

	switch (u->h.kind) {
	case PTB_REC_GPU_KERNEL:
		name = &u->kernel.name;
		break;
	case PTB_REC_GPU_DEVICE:
		name = &u->device.name;
		break;
	case PTB_REC_GPU_API:
		name = &u->api.name;
		u->h.tid = agent__tid(p, (uint32_t)a->ticks);
		break;
	case PTB_REC_GPU_OVERHEAD:
		u->h.tid = agent__tid(p, (uint32_t)a->ticks);
		break;
	default:
		break;
	}
	if (name) {
		const uint64_t *known = hashmap__get(&p->names, *name, 0);

		*name = known ? (uint32_t)*known : 0;
	}
}

void agent_gpu__record(struct recorder *r, struct agent_proc *p, const struct ptb_chunk *c,
		       const struct ptb_arec *a)
{
	uint32_t kind = a->aux, size;
	union gpu_record u;

	(void)c;
	if (a->kind != PTB_AREC_GPU || kind < PTB_REC_GPU_KERNEL || kind > PTB_REC_GPU_NAME) {
		agent__count(r, PTB_CNT_AGENT_BAD, 1);
		return;
	}
	if (kind == PTB_REC_GPU_NAME) {
		learn_name(r, p, a);
		return;
	}
	size = record__fixed_size((uint8_t)kind);
	if (a->len - sizeof(*a) < size - sizeof(struct ptb_rec_hdr)) {
		agent__count(r, PTB_CNT_AGENT_BAD, 1);
		return;
	}
	memset(&u, 0, sizeof(u));
	head(&u.h, p, kind, size);
	memcpy(&u.h + 1, a + 1, size - sizeof(u.h));
	translate(p, &u, a);
	if (kind == PTB_REC_GPU_NOTE && u.note.what == PTB_GPU_DROPPED)
		agent__count(r, PTB_CNT_GPU_DROPPED, u.note.value);
	r->agent_gpu |= kind <= PTB_REC_GPU_OVERHEAD;
	put(r, &u.h);
}

void agent_gpu__clock(struct recorder *r, struct agent_proc *p, const struct ptb_arec_gpu_clock *k)
{
	struct ptb_gpu_clock g = { .gpu_ns = k->gpu_ns, .mono_ns = k->mono_ns, .err_ns = k->err_ns };

	head(&g.h, p, PTB_REC_GPU_CLOCK, sizeof(g));
	put(r, &g.h);
}
