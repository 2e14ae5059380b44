/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Any bytes as what an agent sends: each chunk has 16 bits of length, then its bytes, the first of which are put right
 * so that more than the check of the header is reached. The capture that comes out must be whole.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "capture/capture.h"
#include "record/recorder_agent.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static int see(void *arg, const struct ptb_rec_hdr *h)
{
	(void)arg;
	(void)h;
	return 0;
}

static void send_chunk(struct recorder *rec, uint32_t n, const uint8_t *bytes, uint32_t len)
{
	struct ptb_agent_data *d = calloc(1, sizeof(*d) + len);
	struct ptb_chunk *c;

	if (!d)
		return;
	d->h = (struct ptb_rec_hdr){ .len = (uint16_t)(sizeof(*d) + len),
				     .kind = PTB_REC_AGENT_DATA,
				     .ts_ns = (1ULL << 62) + n, /* any time of a record has come */
				     .tgid = (uint32_t)getpid(),
				     .tid = 77 };
	d->bytes = len;
	memcpy(d + 1, bytes, len);
	if (len >= sizeof(*c) && bytes[0] % 8) { /* one in eight stays as it is */
		c = (void *)(d + 1);
		c->magic = PTB_CHUNK_MAGIC;
		c->abi = PTB_AGENT_ABI;
		c->len = len;
	}
	recorder__agent_data(rec, d);
	free(d);
}

static void read_again(const char *path)
{
	struct capture_reader *cr = NULL;

	if (capture_reader__open(path, capture__open(path), &cr) ||
	    capture_reader__stream(cr, see, NULL) || capture_reader__bad_records(cr))
		abort();
	capture_reader__close(cr);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	const struct record_opts opts = { .args = PROBE_ARGS_SHAPES };
	const struct agent_facts facts = { .pid = getpid(), .tsc = true, .schema_off = 24 };
	struct recorder *rec = NULL;
	char path[64];
	uint32_t n = 0;

	snprintf(path, sizeof(path), "/tmp/ptbpf-fuzz-agent-%d.ptb", (int)getpid());
	unlink(path);
	if (recorder__open(path, NULL, NULL, &opts, &rec))
		abort();
	recorder__agent(rec, &facts);
	recorder__window(rec, true, 1000, 0);
	while (len > 2) {
		uint32_t want = (data[0] | (uint32_t)data[1] << 8) % PTB_CHUNK_MAX;
		uint32_t size = want < len - 2 ? want : (uint32_t)len - 2;

		send_chunk(rec, n++, data + 2, size);
		if (n % 4 == 0) {
			recorder__agent_round(rec, ~0ull);
			recorder__round(rec, 2000);
		}
		data += 2 + size;
		len -= 2 + size;
	}
	recorder__agent_end(rec, getpid());
	recorder__round(rec, 1000000000);
	if (recorder__close(rec))
		abort();
	read_again(path);
	unlink(path);
	return 0;
}
