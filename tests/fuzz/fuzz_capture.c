/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Any bytes as a capture file: reader, session and sums must neither crash nor report slices that do not
 * nest, and every JSON document made of it must be JSON in UTF-8. Built in two forms: for libFuzzer (clang,
 * LLVMFuzzerTestOneInput), and with a main() of its own that
 * mutates a synthetic capture N times, so that it runs everywhere:  fuzz_capture [iterations [seed]]
 *
 * Checksums would keep nearly every mutation out of the decoder, so they are corrected for
 * three inputs out of four.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "capture/capture_format.h"
#include "fuzz_exports.h"
#include "capture/capture.h"
#include "model/key_averages.h"
#include "ranks/join.h"
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

static void check_place(const struct op_context *at)
{
	if (!at->op || !at->outer_op || !at->annotation ||
	    (*at->op && !at->op_slice && strcmp(at->op, SESSION_OP_UNSEEN) != 0) ||
	    (at->op_slice && (!at->slice || !at->enclosed)) || at->step < -1)
		abort();
}

static void on_memory(void *arg, const struct memory_event *ev)
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
}

static void on_kernel(void *arg, const struct kernel_event *ev)
{
	(void)arg;
	check_place(&ev->at);
	if (ev->rec->kind < PTB_REC_KMEM || ev->rec->kind > PTB_REC_KMEM_EVENT)
		abort();
}

/* Blocks that came stay or went; where a program is executed they vanish, too. */
static void check_memory(struct session *s)
{
	struct balance bal = { 0 };
	struct session_sink sink = { .arg = &bal, .memory = on_memory, .kernel = on_kernel };
	struct session_totals totals;
	const struct memory_block *b;
	uint32_t cnt;

	if (session__run(s, &sink, 1, &totals) || totals.live_blocks > bal.allocs - bal.frees)
		abort();
	b = session__live_blocks(s, &cnt);
	for (uint32_t i = 0; i < cnt; i++)
		if (!b[i].op || !b[i].outer_op || !b[i].annotation || !b[i].shapes ||
		    (i && b[i].ts_ns < b[i - 1].ts_ns))
			abort();
}

/* Calls by time, then the rest by device, stream and time. */
static bool in_order(const struct gpu_slice *a, const struct gpu_slice *b)
{
	if ((a->what == GPU_API) != (b->what == GPU_API))
		return a->what == GPU_API;
	if (a->what != GPU_API) {
		if (a->device != b->device)
			return a->device < b->device;
		if (a->stream != b->stream)
			return a->stream < b->stream;
	}
	return a->begin_ns <= b->begin_ns;
}

static void on_gpu(void *arg, const struct gpu_slice *g)
{
	struct gpu_slice *last = arg;

	if (g->end_ns <= g->begin_ns || !g->name || !g->launch_name || !g->kernel_name ||
	    !g->at.op || !g->at.outer_op || !g->at.annotation ||
	    (!g->rec) != (g->what == GPU_ANNOTATION) || (last->end_ns && !in_order(last, g))) {
		fprintf(stderr, "the GPU slice %s at %" PRIu64 " breaks the contract\n", g->name,
			g->begin_ns);
		abort();
	}
	*last = *g;
}

static void check_gpu(struct session *s)
{
	struct gpu_slice last = { 0 };
	struct session_sink sink = { .arg = &last, .gpu = on_gpu };
	struct session_totals totals;

	if (session__run(s, &sink, 1, &totals))
		abort();
}

static void read_it(const char *path)
{
	static const struct ka_opts all = { .by_shape = true, .with_flops = true };
	struct session_opts opts = { .step_on = "aten::add" };
	struct key_averages *ka = key_averages__new(NULL);
	struct capture_reader *cr;
	struct session *s;

	if (!ka)
		abort();
	if (capture_reader__open(path, capture__open(path), &cr)) {
		key_averages__free(ka);
		return;
	}
	for (int i = 0; i < 2; i++) {
		struct session_sink sink = key_averages__sink(ka);
		struct session_totals totals;
		struct slice_log *log;
		uint32_t cnt;

		if (session__open(cr, i ? &opts : NULL, &s))
			abort();
		check_exports(s);
		log = slice_log__run(s);
		if (!slice_log__valid(log))
			abort();
		if (session__run(s, &sink, 1, &totals) || totals.slices != log->totals.slices)
			abort();
		key_averages__rows(ka, &cnt);
		check_memory(s);
		check_gpu(s);
		slice_log__free(log);
		session__free(s);
		key_averages__free(ka); /* its keys belong to one session */
		ka = key_averages__new(&all);
	}
	key_averages__free(ka);
	capture_reader__close(cr);
}

/* As one of two captures that are read as one. */
static void join_it(const char *path)
{
	const char *paths[2] = { path, SEED_CAPTURE };
	int fds[2];
	const struct join_opts opts = { .paths = paths, .cnt = 2, .fds = fds, .by_collectives = true };
	struct join *j;
	struct slice_log *log;
	struct session *s;

	fds[0] = capture__open(paths[0]);
	fds[1] = capture__open(paths[1]);
	if (join__open(&opts, &j))
		return;
	if (session__open(join__reader(j), NULL, &s)) { /* their windows may have no common time */
		join__close(j);
		return;
	}
	log = slice_log__run(s);
	if (!session__info(s)->merged || !slice_log__valid(log))
		abort();
	slice_log__free(log);
	session__free(s);
	join__close(j);
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
	if (len && data[len / 2] % 4 == 0)
		join_it(path);
	close(fd);
	free(copy);
	return 0;
}

#ifndef FUZZ_WITH_LIBFUZZER

/* The capture with every kind of record (tests/cases/seed.def). */
static uint8_t *seed(size_t *len)
{
	FILE *f = fopen(SEED_CAPTURE, "rb");
	uint8_t *data = malloc(1 << 20);

	if (!f || !data)
		abort();
	*len = fread(data, 1, 1 << 20, f);
	fclose(f);
	return data;
}

/* The seed with its blocks unpacked, so that mutations reach the records. */
static uint8_t *unpacked_seed(size_t *len)
{
	struct capture_file_hdr f;
	size_t packed_len, pos = sizeof(f), out = sizeof(f);
	uint8_t *packed = seed(&packed_len), *data = malloc(1 << 20);

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
	int n = 1 + (int)(random() % 12);

	for (int i = 0; i < n; i++) {
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
				memmove(data + at,
					data + ((size_t)random() % (*len - cnt) & ~(size_t)7), cnt);
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
	long n = argc > 1 ? atol(argv[1]) : 2000;
	size_t seed_len, len;
	uint8_t *seed = unpacked_seed(&seed_len), *data = malloc(seed_len);

	srandom(argc > 2 ? (unsigned int)atol(argv[2]) : 1);
	if (!data)
		return 1;
	for (long i = 0; i < n; i++) {
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
