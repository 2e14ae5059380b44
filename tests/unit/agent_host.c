/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See agent_host.h. The collector is tests/workloads/agent_dump.c. */
#include "agent_host.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHUNKS_MAX (1u << 16)
#define ANSWERED (PTB_AGENT_OPS_ON | PTB_AGENT_OPEN_ON)

static struct {
	bool (*begin)(struct mock_rf *rf);
	void (*end)(struct mock_rf *rf);
	struct mock_counts (*counts)(void);
	int (*dump_begin)(const char *path, unsigned int requests);
	int (*dump_end)(int limit_ms);
	const char *(*dump_why)(void);
	struct ptb_agent_ctl *ctl;
	struct ptb_agent_open *open;
	char path[64];
	char *bytes;
	const struct ptb_chunk *chunks[CHUNKS_MAX];
	uint32_t chunk_cnt;
} host;

static void set_path(int pid)
{
	snprintf(host.path, sizeof(host.path), "/tmp/ptbpf-agent-host-%d", pid);
}

static void *lib(const char *path)
{
	void *l = dlopen(path, RTLD_NOW | RTLD_LOCAL);

	if (!l)
		printf("%s\n", dlerror());
	return l;
}

bool host__load(void)
{
	void *torch = lib(MOCK_TORCH), *agent = torch ? lib(AGENT) : NULL,
	     *dump = agent ? lib(AGENT_DUMP) : NULL;

	if (!dump)
		return false;
	*(void **)&host.begin = dlsym(torch, "mock__begin");
	*(void **)&host.end = dlsym(torch, "mock__end");
	*(void **)&host.counts = dlsym(torch, "mock__counts");
	*(void **)&host.dump_begin = dlsym(dump, "agent_dump_begin");
	*(void **)&host.dump_end = dlsym(dump, "agent_dump_end");
	*(void **)&host.dump_why = dlsym(dump, "agent_dump_why");
	host.ctl = dlsym(agent, PTB_AGENT_CTL_SYMBOL);
	host.open = dlsym(agent, PTB_AGENT_OPEN_SYMBOL);
	set_path(getpid());
	for (uint32_t i = 0; i < 200 && !(host.ctl->state & PTB_AGENT_ALIVE); i++)
		usleep(10000);
	return host.ctl->state & PTB_AGENT_ALIVE;
}

struct ptb_agent_ctl *host__ctl(void)
{
	return host.ctl;
}

const struct ptb_open_ops *host__open(void)
{
	const char *thread = __builtin_thread_pointer();

	if (!host.open->on)
		return NULL;
	return *(const struct ptb_open_ops *const *)(const void *)(thread + host.open->tls);
}

bool host__begin(struct mock_rf *rf)
{
	return host.begin(rf);
}

void host__end(struct mock_rf *rf)
{
	host.end(rf);
}

struct mock_counts host__counts(void)
{
	return host.counts();
}

struct ptb_agent_cfg host__right_cfg(void)
{
	return (struct ptb_agent_cfg){ .rf = {
					       .size = sizeof(struct mock_rf),
					       .fn_off = offsetof(struct mock_rf, text),
					       .fn_index_off = offsetof(struct mock_rf, is_schema),
					       .seq_off = offsetof(struct mock_rf, seq),
					       .inputs_off = offsetof(struct mock_rf, inputs),
					       .outputs_off = offsetof(struct mock_rf, outputs),
					       .fwd_thread_off = offsetof(struct mock_rf, fwd_thread),
					       .thread_off = offsetof(struct mock_rf, thread),
					       .scope_off = offsetof(struct mock_rf, scope),
					       .handle_off = offsetof(struct mock_rf, handle),
				       } };
}

void host__configure(const struct ptb_agent_cfg *cfg)
{
	host.ctl->cfg_abi = 0;
	host.ctl->cfg = *cfg;
	host.ctl->cfg_size = sizeof(*cfg);
	host.ctl->cfg_abi = PTB_AGENT_ABI;
}

bool host__attach(unsigned int requests)
{
	uint32_t why = host.ctl->ops_why;
	int err = host.dump_begin(host.path, requests);

	if (err) {
		printf("%s\n", host.dump_why());
		return false;
	}
	for (uint32_t i = 0; i < 200; i++) {
		usleep(10000);
		if (host.ctl->state & ANSWERED || (i > 20 && (host.ctl->ops_why || !why)))
			break;
	}
	return host.ctl->state & ANSWERED;
}

static void read_chunks(void)
{
	FILE *f = fopen(host.path, "rb");
	long len, at = 0;

	host.chunk_cnt = 0;
	if (!f || fseek(f, 0, SEEK_END) || (len = ftell(f)) < 0)
		abort();
	rewind(f);
	free(host.bytes);
	host.bytes = malloc((size_t)len + 1);
	if (!host.bytes || fread(host.bytes, 1, (size_t)len, f) != (size_t)len)
		abort();
	fclose(f);
	unlink(host.path);
	while (at + (long)sizeof(struct ptb_chunk) <= len) {
		const struct ptb_chunk *c = (const void *)(host.bytes + at);

		if (host.chunk_cnt == CHUNKS_MAX) {
			printf("more than %u chunks\n", CHUNKS_MAX);
			abort();
		}
		if (c->magic != PTB_CHUNK_MAGIC || c->len > PTB_CHUNK_MAX || c->len < sizeof(*c) ||
		    c->len > len - at)
			abort();
		host.chunks[host.chunk_cnt++] = c;
		at += c->len;
	}
}

bool host__detach(void)
{
	int err = host.dump_end(3000);

	if (err)
		printf("%s\n", host.dump_why());
	read_chunks();
	return !err;
}

void host__read_of(int pid)
{
	set_path(pid);
	read_chunks();
	set_path(getpid());
}

const struct ptb_chunk *host__chunk(uint32_t i)
{
	return i < host.chunk_cnt ? host.chunks[i] : NULL;
}

void host__each(enum ptb_chunk_kind kind,
		void (*fn)(const struct ptb_chunk *c, const struct ptb_arec *r, void *ctx), void *ctx)
{
	for (uint32_t i = 0; i < host.chunk_cnt; i++) {
		const struct ptb_chunk *c = host.chunks[i];
		const char *at = (const char *)(c + 1), *end = (const char *)c + c->len;

		while (at < end && (!kind || c->kind == kind)) {
			const struct ptb_arec *r = (const void *)at;

			if (r->len < sizeof(*r) || r->len % 8 || r->len > end - at)
				abort();
			fn(c, r, ctx);
			at += r->len;
		}
	}
}

struct counting {
	enum ptb_arec_kind kind;
	uint32_t cnt;
};

static void count(const struct ptb_chunk *c, const struct ptb_arec *r, void *ctx)
{
	struct counting *n = ctx;

	(void)c;
	n->cnt += r->kind == n->kind;
}

uint32_t host__count(enum ptb_arec_kind kind)
{
	struct counting n = { kind, 0 };

	host__each(0, count, &n);
	return n.cnt;
}

/* ---- what tests run and receive ---- */

const struct mock_schema mock_add = {
	.name = "aten::add", .name_len = 9, .overload = "Tensor", .overload_len = 6, .inputs = 3, .outputs = 1
};
const struct mock_schema mock_neg = {
	.name = "aten::neg", .name_len = 9, .overload = "", .inputs = 1, .outputs = 1
};

void host__be_schema(struct mock_rf *rf, const struct mock_schema *schema)
{
	*rf = (struct mock_rf){ .schema = schema, .is_schema = 1, .seq = -1 };
}

void host__be_text(struct mock_rf *rf, const char *text)
{
	*rf = (struct mock_rf){ .text = text, .len = strlen(text), .scope = 7, .seq = -1 };
}

void host__run_op(const struct mock_schema *schema)
{
	struct mock_rf rf;

	host__be_schema(&rf, schema);
	host__begin(&rf);
	host__end(&rf);
}

void host__configure_right(void)
{
	struct ptb_agent_cfg cfg = host__right_cfg();

	host__configure(&cfg);
}

void collect_records(const struct ptb_chunk *c, const struct ptb_arec *r, void *ctx)
{
	const struct ptb_arec_begin *b = (const void *)r;
	const struct ptb_arec_name *n = (const void *)r;
	const char *rest = (const char *)(b + 1);
	struct first_records *h = ctx;

	if (h->cnt == 64)
		return;
	h->r[h->cnt].kind = r->kind;
	h->r[h->cnt].flags = r->flags;
	h->r[h->cnt].ticks = r->ticks;
	h->r[h->cnt].tid = c->tid;
	h->r[h->cnt].logical = c->logical;
	h->r[h->cnt].rf = b->rf;
	if (r->kind == PTB_AREC_NAME) {
		h->r[h->cnt].schema = n->schema;
		snprintf(h->r[h->cnt].text, sizeof(h->r[0].text), "%.*s%s%.*s", r->aux & 0xffff,
			 (const char *)(n + 1), r->aux >> 16 ? "." : "", r->aux >> 16,
			 (const char *)(n + 1) + (((r->aux & 0xffff) + 7) & ~7u));
	} else if (r->kind == PTB_AREC_BEGIN) {
		h->r[h->cnt].schema = b->schema;
		h->r[h->cnt].seq = b->seq;
		h->r[h->cnt].scope = r->aux & 0xff;
		h->r[h->cnt].len = r->aux >> 8;
		if (r->flags & PTB_AREC_FWD) {
			memcpy(&h->r[h->cnt].fwd, rest, 8);
			rest += 8;
		}
		if (r->flags & PTB_AREC_STACK) {
			memcpy(&h->r[h->cnt].stack, rest, 8);
			rest += 8;
		}
		memcpy(h->r[h->cnt].text, rest, r->aux >> 8);
	}
	h->cnt++;
}

void host__nest(struct mock_rf *outer, struct mock_rf *inner)
{
	host__be_schema(outer, &mock_add);
	host__be_schema(inner, &mock_neg);
	host__begin(outer);
	host__begin(inner);
	host__end(inner);
	host__end(outer);
}
