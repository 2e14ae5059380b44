/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Any bytes as a capture file: reader, session and sums must neither crash nor tell slices that do not
 * nest. Built two ways: for libFuzzer (clang, LLVMFuzzerTestOneInput), and with a main() of its own that
 * mutates a synthetic capture N times, so that it runs everywhere:  fuzz_capture [iterations [seed]]
 *
 * Checksums would keep nearly every mutation out of the decoder, so they are made right again for
 * three inputs out of four.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "base/log.h"
#include "capture/capture_format.h"
#include "capture_builder.h"
#include "gpu_log.h"
#include "model/key_averages.h"
#include "slice_log.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* Walks the blocks and sets their checksums; keeps lengths inside the file. */
static void repair(uint8_t *data, size_t len)
{
	struct capture_file_hdr f;
	struct capture_block_hdr h;
	size_t pos = sizeof(f);

	if (len < sizeof(f))
		return;
	memcpy(&f, data, sizeof(f));
	memcpy(f.magic, CAPTURE_MAGIC, sizeof(f.magic));
	f.major = CAPTURE_MAJOR;
	f.header_sz = sizeof(f);
	f.crc = (uint32_t)crc32(0, (void *)&f, offsetof(struct capture_file_hdr, crc));
	memcpy(data, &f, sizeof(f));
	while (len - pos >= sizeof(h)) {
		memcpy(&h, data + pos, sizeof(h));
		h.magic = CAPTURE_BLOCK_MAGIC;
		if (h.stored_len > len - pos - sizeof(h))
			h.stored_len = (uint32_t)(len - pos - sizeof(h));
		if (!(h.flags & CAPTURE_BLOCK_ZSTD))
			h.raw_len = h.stored_len;
		h.payload_crc = (uint32_t)crc32(0, data + pos + sizeof(h), h.stored_len);
		h.header_crc = (uint32_t)crc32(0, (void *)&h,
					       offsetof(struct capture_block_hdr, header_crc));
		memcpy(data + pos, &h, sizeof(h));
		pos += sizeof(h) + h.stored_len;
	}
}

struct balance {
	uint64_t allocs, frees; /* blocks that came and went */
};

static void check_place(const struct session_place *at)
{
	if (!at->op || !at->outer_op || !at->annotation ||
	    (*at->op && !at->op_slice && strcmp(at->op, SESSION_OP_UNSEEN) != 0) ||
	    (at->op_slice && (!at->slice || !at->enclosed)) || at->step < -1)
		abort();
}

static int on_memory(void *arg, const struct memory_event *ev)
{
	struct balance *bal = arg;

	check_place(&ev->at);
	switch (ev->what) {
	case MEMORY_ALLOC:
		if (!ev->block || ev->bytes <= 0 || ev->block->bytes != (uint64_t)ev->bytes)
			abort();
		bal->allocs++;
		break;
	case MEMORY_FREE:
		if (ev->bytes >= 0 || (ev->block && ev->block->ts_ns > ev->ts_ns))
			abort();
		bal->frees += ev->block != NULL;
		break;
	case MEMORY_FREE_UNKNOWN:
		if (ev->bytes || ev->block)
			abort();
		break;
	case MEMORY_API:
		if (!ev->name)
			abort();
		break;
	case MEMORY_OOM:
		break;
	}
	return 0;
}

static int on_kernel(void *arg, const struct kernel_event *ev)
{
	(void)arg;
	check_place(&ev->at);
	if (ev->rec->kind < PTB_REC_KMEM || ev->rec->kind > PTB_REC_KMEM_EVENT)
		abort();
	return 0;
}

static int on_live(void *arg, const struct memory_block *b)
{
	uint64_t *last_ns = arg;

	if (!b->op || !b->outer_op || !b->annotation || !b->shapes || b->ts_ns < *last_ns)
		abort();
	*last_ns = b->ts_ns;
	return 0;
}

/* Blocks that came stay or went; where a program is executed they vanish, too. */
static void check_memory(struct session *s)
{
	struct balance bal = { 0 };
	struct session_sink sink = { .arg = &bal, .memory = on_memory, .kernel = on_kernel };
	struct session_totals totals;
	uint64_t last_ns = 0;

	if (session__run(s, &sink, 1, &totals) || totals.live_blocks > bal.allocs - bal.frees ||
	    session__live_blocks(s, on_live, &last_ns))
		abort();
}

static void read_it(const char *path)
{
	static const struct ka_opts all = { .by_shape = true, .with_flops = true };
	struct session_opts opts = { .step_on = "aten::add" };
	struct key_averages *ka = key_averages__new(NULL);
	struct capture_reader *cr;
	struct session *s;
	int i;

	if (!ka)
		abort();
	if (capture_reader__open(path, &cr)) {
		key_averages__free(ka);
		return;
	}
	for (i = 0; i < 2; i++) {
		struct session_sink sink = key_averages__sink(ka);
		struct session_totals totals;
		struct slice_log *log;
		uint32_t cnt;

		if (session__open(cr, i ? &opts : NULL, &s))
			abort();
		log = slice_log__run(s);
		if (!slice_log__valid(log))
			abort();
		if (session__run(s, &sink, 1, &totals) || totals.slices != log->totals.slices)
			abort();
		key_averages__rows(ka, &cnt);
		check_memory(s);
		gpu_log__free(gpu_log__run(s)); /* checks the contract */
		slice_log__free(log);
		session__free(s);
		key_averages__free(ka); /* its keys belong to one session */
		ka = key_averages__new(&all);
	}
	key_averages__free(ka);
	capture_reader__close(cr);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	char path[32];
	uint8_t *copy = malloc(len + 1);
	int fd = memfd_create("fuzz", 0);

	if (!copy || fd < 0)
		abort();
	memcpy(copy, data, len);
	if (len && data[len - 1] % 4)
		repair(copy, len);
	if (write(fd, copy, len) != (ssize_t)len)
		abort();
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	read_it(path);
	close(fd);
	free(copy);
	return 0;
}

#ifndef FUZZ_WITH_LIBFUZZER

/* Shapes of an addition or so, with a state and a double that comes later. */
static struct value_words values(uint32_t i)
{
	static const int64_t shape[] = { 2, 3, 4, 5 };
	struct value_words w = { 0 };

	vw__state(&w, i % 2, i, 1, 2);
	vw__shape(&w, i % 5, shape);
	vw__pending(&w, 0);
	vw__list(&w, PTB_VAL_TENSORS, 2, 2);
	vw__shape(&w, 1, shape);
	vw__undefined(&w, 0);
	vw__string(&w, "text");
	vw__ints(&w, i % 4, shape);
	return w;
}

/* The builder's file, which goes with it. */
static uint8_t *take_file(struct builder *b, size_t *len)
{
	FILE *f = fopen(builder__path(b), "rb");
	uint8_t *data = malloc(1 << 20);

	if (!f || !data)
		abort();
	*len = fread(data, 1, 1 << 20, f);
	fclose(f);
	builder__free(b);
	return data;
}

static void control_records(struct builder *b, uint32_t add)
{
	static const struct session_keys keys = { .autograd = 1, .nested = 2 };

	builder__process(b, 1, "python", "python3", 900);
	builder__thread_name(b, 1, 2, "worker");
	builder__opdef(b, 1, 0x10, "profiler::_record_function_enter_new", false);
	builder__opdef(b, 1, 0x20, "aten::size.int", true);
	builder__node_type(b, 1, 0x70, "torch::autograd::generated::AddBackward0");
	builder__lost(b, 50000, 51000, 3);
	builder__counter(b, PTB_CNT_HITS, 9);
	builder__meta(b, "version", "\"1\"");
	builder__meta(b, "args", "\"full\"");
	builder__meta(b, "profile_memory", "true");
	builder__meta(b, "kernel_memory", "true");
	builder__meta(b, "gpu", "true");
	builder__meta(b, "cuda_calls", "true");
	builder__schema(b, add, "aten::add.Tensor(Tensor self) -> Tensor");
	builder__opdef_schema(b, 1, 0x20, "aten::size.int(Tensor self) -> int");
	builder__keys(b, 1, &keys);
	builder__clock(b, 1000, 2000, 1);
}

static void memory_records(struct builder *b, uint64_t ts, uint64_t sp, uint32_t api)
{
	struct ptb_mem_report r = { .sp = sp, .addr = ts & ~0xfffULL, .bytes = ts % 3 ? 64 : -64, .device_type = 1 };
	struct ptb_mem_api a = { .h.site = 2 * api, .sp = sp, .begin_ns = ts - 2, .addr = 0xd000 };
	struct ptb_kmem k = { .minor = 3, .rss_delta = 4096 };
	struct ptb_kmem_call call = { .bytes = 1 << 20 };
	struct ptb_kmem_stall stall = { .begin_ns = ts };
	struct ptb_kmem_event ev = { .what = PTB_KMEM_OOM_KILL };

	builder__mem_alloc(b, ts, sp, 0xa000 + (ts & 0xf000), 100);
	builder__mem_alloc(b, ts + 1, sp, 0xa000, 100);
	builder__mem_free(b, ts + 2, sp, 0xa000);
	builder__ring_rec(b, &r.h, PTB_REC_MEM_REPORT, sizeof(r), ts + 3);
	builder__ring_rec(b, &r.h, PTB_REC_MEM_OOM, sizeof(r), ts + 4);
	builder__ring_rec(b, &a.h, PTB_REC_MEM_API, sizeof(a), ts + 5);
	builder__ring_rec(b, &k.h, PTB_REC_KMEM, sizeof(k), ts + 6);
	builder__ring_rec(b, &call.h, PTB_REC_KMEM_CALL, sizeof(call), ts + 7);
	builder__ring_rec(b, &stall.h, PTB_REC_KMEM_STALL, sizeof(stall), ts + 8);
	builder__ring_rec(b, &ev.h, PTB_REC_KMEM_EVENT, sizeof(ev), ts + 9);
}

static void rss_sample(struct builder *b)
{
	struct ptb_rss_sample r = { .h.kind = PTB_REC_RSS_SAMPLE, .h.len = sizeof(r), .h.tgid = 1, .h.ts_ns = 1500 };

	builder__raw(b, &r.h);
}

static void gpu_records(struct builder *b, uint64_t ts)
{
	struct ptb_gpu_clock c = { .gpu_ns = ts + 5000, .mono_ns = ts, .err_ns = 3 };
	struct ptb_gpu_api api = { .begin = ts + 5000, .end = ts + 5020, .correlation = (uint32_t)ts, .name = 1 };
	struct ptb_gpu_kernel k = { .begin = ts + 5100, .end = ts + 5200, .correlation = (uint32_t)ts, .name = 2 };
	struct ptb_gpu_memory m = { .begin = ts + 5300, .end = ts + 5400, .correlation = (uint32_t)ts, .stream = 7 };
	struct ptb_gpu_sync s = { .begin = ts + 5000, .end = ts + 5010, .what = 3, .stream = UINT32_MAX };
	struct ptb_gpu_event e = { .at = ts + 5400 };
	struct ptb_gpu_overhead o = { .begin = ts + 5000, .end = ts + 5001, .what = 1 << 16 };
	struct ptb_gpu_device d = { .id = (uint32_t)(ts & 1), .name = 1 };
	struct ptb_gpu_note n = { .value = 1 };
	struct ptb_cuda_call call = { .h.site = 2, .begin_ns = ts, .func = 0x10 };

	builder__ring_rec(b, &c.h, PTB_REC_GPU_CLOCK, sizeof(c), ts);
	builder__ring_rec(b, &api.h, PTB_REC_GPU_API, sizeof(api), ts);
	builder__ring_rec(b, &k.h, PTB_REC_GPU_KERNEL, sizeof(k), ts);
	builder__ring_rec(b, &m.h, PTB_REC_GPU_MEMCPY, sizeof(m), ts);
	builder__ring_rec(b, &m.h, PTB_REC_GPU_MEMSET, sizeof(m), ts);
	builder__ring_rec(b, &s.h, PTB_REC_GPU_SYNC, sizeof(s), ts);
	builder__ring_rec(b, &e.h, PTB_REC_GPU_EVENT, sizeof(e), ts);
	builder__ring_rec(b, &o.h, PTB_REC_GPU_OVERHEAD, sizeof(o), ts);
	builder__ring_rec(b, &d.h, PTB_REC_GPU_DEVICE, sizeof(d), ts);
	builder__ring_rec(b, &n.h, PTB_REC_GPU_NOTE, sizeof(n), ts);
	builder__ring_rec(b, &call.h, PTB_REC_CUDA_CALL, sizeof(call), ts + 5);
}

static void agent_records(struct builder *b, uint64_t ts, const struct value_words *w)
{
	gpu_records(b, ts + 5);
	builder__values(b, w);
	builder__rf_begin(b, ts, &(struct ptb_rf_begin){ .rf = 0x7000, .opdef = 0x10, .seq = 3, .logical = 1 },
			  NULL);
	builder__rf_begin(b, ts + 10, &(struct ptb_rf_begin){ .rf = 0x7100, .scope = 7 }, "scope");
	builder__rf_end(b, ts + 20, 0x7100);
	builder__values(b, w);
	builder__rf_end(b, ts + 30, 0x7000);
}

/* Every kind of record at least once, small enough that its blocks are stored as they are or nearly. */
static uint8_t *seed_capture(size_t *len)
{
	struct builder *b = builder__new(1000, 100000);
	uint32_t add = builder__op(b, "aten::add.Tensor");
	uint32_t box = builder__func(b, "callBoxed", PTB_FUNC_BOXED, true);
	uint32_t node = builder__func(b, "Engine::evaluate_function", PTB_FUNC_NODE, true);
	uint32_t call = builder__func(b, "Node::operator()", PTB_FUNC_NODE_CALL, true);
	uint32_t py = builder__func(b, "apply", PTB_FUNC_PYFUNC, true);
	uint32_t api = builder__func(b, "cudaMalloc", PTB_FUNC_CUDA_MEMORY, true);
	struct value_words w, late = { 0 };
	uint64_t ts;

	control_records(b, add);
	rss_sample(b);
	vw__late(&late, 0, 1.5);
	for (ts = 2000; ts < 90000; ts += 9000) {
		w = values((uint32_t)(ts / 9000));
		builder__thread(b, 1, 1);
		builder__ring(b, 0);
		builder__boxed(b, box, ts, 0xb000, 0x10);
		builder__values(b, &w);
		builder__annotate(b, ts + 100, 0xa000, 0x1, "Optimizer.step#SGD.step");
		agent_records(b, ts + 110, &w);
		builder__exit(b, box, ts + 200, 0xaf00);
		builder__values(b, &w);
		builder__enter(b, add, ts + 300, 0x9000);
		builder__values(b, &late);
		builder__args_more(b, add, ts + 305, 0x8f80);
		memory_records(b, ts + 306, 0x8f00, api);
		builder__seq(b, ts + 316, 0x8000, ts);
		builder__boxed(b, box, ts + 320, 0x8000, 0x20);
		builder__exit(b, box, ts + 330, 0x7f00);
		builder__values(b, &w);
		builder__exit(b, add, ts + 400, 0x8f00);
		builder__enter(b, add, ts + 420, 0x9000);
		builder__catch(b, ts + 440, 0x9800);
		builder__scope_end(b, ts + 500, 0xa000, 0x1);
		memory_records(b, ts + 510, 0xa000, api);
		builder__scope_begin(b, ts + 600, 0x9000, 0x5, 0, "Torch-Compiled Region: 0/0");
		builder__values(b, &w);
		builder__named(b, py, ts + 700, 0x8000, "MyFn");
		builder__exit(b, py, ts + 800, 0x7f00);
		builder__scope_end(b, ts + 900, 0x9000, 0x5);
		builder__thread(b, 1, 2);
		builder__ring(b, 1);
		builder__node(b, node, ts + 1000, 0x9000, 0x70, ts, 1, NULL);
		builder__values(b, &w);
		builder__enter(b, call, ts + 1100, 0x8000);
		builder__node(b, call, ts + 1110, 0x7000, 0x70, ts, 1, "MyFnBackward");
		builder__exit(b, call, ts + 1120, 0x6f00);
		builder__exit(b, call, ts + 1200, 0x7f00);
		builder__exit(b, node, ts + 1300, 0x8f00);
		builder__task(b, PTB_REC_THREAD_NEW, ts + 1400, 1, 3, false, "t");
		builder__task(b, PTB_REC_EXIT, ts + 1500, 0, 0, false, "t");
		builder__task(b, ts % 2 ? PTB_REC_FORK : PTB_REC_EXEC, ts + 1600, 4, 4, false, "t");
		builder__round(b, ts + 1700);
	}
	return take_file(b, len);
}

/* The seed with its blocks unpacked, so that mutations reach the records. */
static uint8_t *unpacked_seed(size_t *len)
{
	struct capture_file_hdr f;
	size_t packed_len, pos = sizeof(f), out = sizeof(f);
	uint8_t *packed = seed_capture(&packed_len), *data = malloc(1 << 20);

	if (!data)
		abort();
	memcpy(data, packed, sizeof(f));
	while (pos < packed_len) {
		struct capture_block_hdr h;

		memcpy(&h, packed + pos, sizeof(h));
		pos += sizeof(h);
		if (h.flags & CAPTURE_BLOCK_ZSTD) {
			size_t n = ZSTD_decompress(data + out + sizeof(h), h.raw_len, packed + pos,
						   h.stored_len);
			if (n != h.raw_len)
				abort();
		} else {
			memcpy(data + out + sizeof(h), packed + pos, h.stored_len);
		}
		pos += h.stored_len;
		h.flags = 0;
		h.stored_len = h.raw_len;
		memcpy(data + out, &h, sizeof(h));
		out += sizeof(h) + h.raw_len;
	}
	free(packed);
	*len = out;
	return data;
}

static void mutate(uint8_t *data, size_t *len)
{
	int i, n = 1 + (int)(random() % 12);

	for (i = 0; i < n; i++) {
		size_t at = (size_t)random() % *len, cnt = (size_t)random() % 64;

		switch (random() % 6) {
		case 0:
			data[at] ^= (uint8_t)(1 << random() % 8);
			break;
		case 1:
			data[at] = (uint8_t)random();
			break;
		case 2: /* a small or a huge number */
			at &= ~(size_t)7;
			if (*len - at >= 8)
				memset(data + at, random() % 2 ? 0 : 0xff, 8);
			break;
		case 3: /* one record over another */
			at &= ~(size_t)7;
			if (at + cnt < *len)
				memmove(data + at, data + ((size_t)random() % (*len - cnt) & ~(size_t)7),
					cnt);
			break;
		case 4:
			if (random() % 8 == 0)
				*len = at + 1;
			break;
		case 5:
			at &= ~(size_t)7;
			if (*len - at >= 8)
				data[at] = (uint8_t)(data[at] + random() % 16 - 8);
			break;
		}
	}
}

int main(int argc, char **argv)
{
	long n = argc > 1 ? atol(argv[1]) : 2000, i;
	size_t seed_len, len;
	uint8_t *seed = unpacked_seed(&seed_len), *data = malloc(seed_len);

	srandom(argc > 2 ? (unsigned int)atol(argv[2]) : 1);
	if (!data)
		return 1;
	for (i = 0; i < n; i++) {
		memcpy(data, seed, seed_len);
		len = seed_len;
		if (i) /* the seed itself must be fine */
			mutate(data, &len);
		LLVMFuzzerTestOneInput(data, len);
	}
	printf("%ld captures read\n", n);
	free(seed);
	free(data);
	return 0;
}

#endif /* FUZZ_WITH_LIBFUZZER */
