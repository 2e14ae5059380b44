/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The per-CPU ring buffers. BPF gets them through the outer map. The reader uses the mapped pages
 * directly (kernel Documentation/bpf/ringbuf.rst: consumer page, producer page, data), so that it
 * can stop at the records that were there when it began. Of record kinds it knows only the one of
 * the calibration and the one that does not fill its reservation.
 *
 * The kernel zeroes all pages of a BPF ring buffer at once. If it is not preemptible, everything
 * else on that processor waits: 20 to 40 ms for 64 MiB. So a ring consists of pieces, each a ring
 * buffer of BPF's, which are made one after the other. The programs continue with the next piece
 * when one is full and the next is not (bpf/emit.bpf.h); the reader takes the pieces in that order.
 *
 * The data could be mapped twice in a row, so that no record is split. It is mapped once, because
 * its pages are entered one by one.
 */
#define LOG_DOMAIN "rings"
#include "base/log.h"
#include "base/mem.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <linux/bpf.h>
#include <bpf/bpf.h>

#include "probe/probe_impl.h"

/*
 * Default sizes. Without an agent: a second of four threads that run only operators, while ptbpf
 * gets 5 % of a processor; with an agent: half a second (tests/e2e/test_starved.py). Names make 25
 * MB/s on a processor, arguments twice that. With an agent operators come three times as fast, and
 * CUPTI delivers its records by the megabyte on one processor.
 */
#define RING_BYTES_ALL (128u << 20)
#define RING_BYTES_MIN (256u << 10)
#define RING_BYTES_MAX (32u << 20)
#define AGENT_BYTES_ALL (256u << 20)
#define AGENT_BYTES_MIN (2u << 20)
#define AGENT_BYTES_MAX (128u << 20)
#define SHARE_OF_RAM 32  /* all rings take at most one part in so many of the memory */
#define GIVE_BACK 256    /* records between two advances of the consumer position */
#define RECORD_MAX 65536 /* a record's length has 16 bits */
#define PIECE_BYTES (8u << 20)
#define REST_NS 1000000 /* pause between two pieces that are made, in which others run */

struct piece {
	int fd;
	uint64_t *cons;       /* a page of ptbpf's own */
	const uint64_t *prod; /* a read-only page, followed by the data */
	const uint8_t *data;
};

struct rings {
	uint32_t cnt, piece_cnt;
	uint64_t bytes; /* of one piece */
	size_t page;
	int outer_fd;
	int epoll_fd;
	uint64_t delivered;
	pthread_t maker; /* valid if being_made */
	bool being_made;
	int make_err;
	const uint32_t *at; /* by ring: the piece that the programs fill */
	struct piece pieces[RINGS_MAX][PTB_RING_PIECES];
	uint8_t split[RECORD_MAX]
		__attribute__((aligned(8))); /* for a record that crosses the end of the ring */
};

uint32_t rings__choose_cnt(void)
{
	long cpus = sysconf(_SC_NPROCESSORS_CONF);
	uint32_t cnt = 1;

	while (cnt < RINGS_MAX && (long)cnt < cpus)
		cnt *= 2;
	return cnt;
}

uint64_t rings__choose_bytes(bool agent)
{
	uint64_t ram =
		(uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) / SHARE_OF_RAM;
	uint64_t all = agent ? AGENT_BYTES_ALL : RING_BYTES_ALL,
		 share = (ram < all ? ram : all) / rings__choose_cnt();
	uint64_t bytes = agent ? AGENT_BYTES_MIN : RING_BYTES_MIN;

	while (bytes < (agent ? AGENT_BYTES_MAX : RING_BYTES_MAX) && bytes * 2 <= share)
		bytes *= 2;
	return bytes;
}

static int piece__make(const struct rings *r, struct piece *piece)
{
	void *p;

	piece->fd =
		bpf_map_create(BPF_MAP_TYPE_RINGBUF, "ptb_ring", 0, 0, (uint32_t)r->bytes, NULL);
	if (piece->fd < 0)
		return -errno;
	p = mmap(NULL, r->page, PROT_READ | PROT_WRITE, MAP_SHARED, piece->fd, 0);
	if (p == MAP_FAILED)
		return -errno;
	piece->cons = p;
	p = mmap(NULL, r->page + r->bytes, PROT_READ, MAP_SHARED, piece->fd, (off_t)r->page);
	if (p == MAP_FAILED)
		return -errno;
	piece->prod = p;
	piece->data = (const uint8_t *)p + r->page;
	/* otherwise page tables are copied for each child */
	madvise(p, r->page + r->bytes, MADV_DONTFORK);
	return 0;
}

static void *make_all(void *arg)
{
	const struct timespec rest = { .tv_nsec = REST_NS };
	struct rings *r = arg;

	for (uint32_t i = 0; !r->make_err && i < r->cnt * r->piece_cnt; i++) {
		r->make_err = piece__make(r, &r->pieces[i / r->piece_cnt][i % r->piece_cnt]);
		nanosleep(&rest, NULL);
	}
	return NULL;
}

static void wait_made(struct rings *r)
{
	if (r->being_made)
		pthread_join(r->maker, NULL);
	r->being_made = false;
}

void rings__make(uint32_t cnt, uint64_t bytes, struct rings **out)
{
	struct rings *r = xcalloc(1, sizeof(*r));

	r->cnt = cnt;
	r->piece_cnt = 1;
	while (bytes / r->piece_cnt > PIECE_BYTES && r->piece_cnt < PTB_RING_PIECES)
		r->piece_cnt *= 2;
	r->bytes = bytes / r->piece_cnt;
	r->page = (size_t)sysconf(_SC_PAGESIZE);
	r->epoll_fd = -1;
	for (uint32_t i = 0; i < cnt; i++)
		for (uint32_t p = 0; p < r->piece_cnt; p++)
			r->pieces[i][p].fd = -1;
	r->being_made = !pthread_create(&r->maker, NULL, make_all, r);
	if (!r->being_made)
		make_all(r);
	*out = r;
}

/*
 * In one batch, since each update of a map of maps waits some 15 ms for programs that may still see
 * the old value. Kernels before 5.19 have no such batches. 0 or negative errno.
 */
static int put_pieces(const struct rings *r)
{
	uint32_t keys[RINGS_MAX * PTB_RING_PIECES] = { 0 }, cnt = r->cnt * r->piece_cnt, done = cnt;
	int fds[RINGS_MAX * PTB_RING_PIECES] = { 0 };

	for (uint32_t i = 0; i < cnt; i++) {
		keys[i] = i / r->piece_cnt * PTB_RING_PIECES + i % r->piece_cnt;
		fds[i] = r->pieces[i / r->piece_cnt][i % r->piece_cnt].fd;
	}
	if (!bpf_map_update_batch(r->outer_fd, keys, fds, &done, NULL))
		return 0;
	for (uint32_t i = 0; i < cnt; i++)
		if (bpf_map_update_elem(r->outer_fd, &keys[i], &fds[i], BPF_ANY))
			return -errno;
	return 0;
}

int rings__connect(struct rings *r, int outer_map_fd, const uint32_t *at)
{
	/* edge-triggered: readable when a program requested a wake-up, and not whenever there is
	 * data */
	struct epoll_event ev = { .events = EPOLLIN | EPOLLET };
	int err;

	wait_made(r);
	r->at = at;
	r->outer_fd = outer_map_fd;
	r->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	err = r->epoll_fd < 0 ? -errno : r->make_err;
	for (uint32_t i = 0; !err && i < r->cnt * r->piece_cnt; i++)
		if (epoll_ctl(r->epoll_fd, EPOLL_CTL_ADD,
			      r->pieces[i / r->piece_cnt][i % r->piece_cnt].fd, &ev))
			err = -errno;
	if (!err)
		err = put_pieces(r);
	if (err) {
		pr_error("cannot create %u ring buffers of %lu KiB: %s", r->cnt,
			 (unsigned long)(r->piece_cnt * r->bytes >> 10), errstr(err));
		pr_hint("try a smaller one: --ringbuf 256K");
	}
	return err;
}

void rings__free(struct rings *r)
{
	if (!r)
		return;
	wait_made(r);
	for (uint32_t i = 0; i < r->cnt * r->piece_cnt; i++) {
		struct piece *piece = &r->pieces[i / r->piece_cnt][i % r->piece_cnt];

		if (piece->prod)
			munmap((void *)(uintptr_t)piece->prod, r->page + r->bytes);
		if (piece->cons)
			munmap(piece->cons, r->page);
		if (piece->fd >= 0)
			close(piece->fd);
	}
	if (r->epoll_fd >= 0)
		close(r->epoll_fd);
	free(r);
}

uint32_t rings__cnt(const struct rings *r)
{
	return r->cnt;
}

uint32_t rings__piece_cnt(const struct rings *r)
{
	return r->piece_cnt;
}

uint64_t rings__piece_bytes(const struct rings *r)
{
	return r->bytes;
}

uint64_t rings__delivered(const struct rings *r)
{
	return r->delivered;
}

int rings__wake_fd(const struct rings *r)
{
	return r->epoll_fd;
}

static void clear_wakeups(const struct rings *r)
{
	struct epoll_event ev[RINGS_MAX];

	while (epoll_wait(r->epoll_fd, ev, RINGS_MAX, 0) == RINGS_MAX)
		;
}

/* The len bytes from pos on; valid until the next call. */
static const void *record_at(struct rings *r, const struct piece *piece, uint64_t pos, uint32_t len)
{
	uint64_t at = pos & (r->bytes - 1), left = r->bytes - at;

	if (len <= left)
		return piece->data + at;
	memcpy(r->split, piece->data + at, left);
	memcpy(r->split + left, piece->data, len - left);
	return r->split;
}

/* Delivers everything in the piece before `end`. Returns its bytes. */
static uint64_t drain_piece(struct rings *r, uint32_t idx, const struct piece *piece, uint64_t end,
			    ring_fn fn, void *arg)
{
	uint64_t mask = r->bytes - 1, start = *piece->cons, pos = start;
	uint32_t n = 0;

	while (pos < end) {
		const uint32_t *head = (const void *)(piece->data + (pos & mask));
		const struct ptb_rec_hdr *rec;
		uint32_t word = __atomic_load_n(head, __ATOMIC_ACQUIRE);
		uint32_t len = word & ~(BPF_RINGBUF_BUSY_BIT | BPF_RINGBUF_DISCARD_BIT);

		if (word & BPF_RINGBUF_BUSY_BIT)
			break; /* still being written; the rest waits behind it */
		rec = len <= RECORD_MAX ? record_at(r, piece, pos + BPF_RINGBUF_HDR_SZ, len) : NULL;
		pos += (len + BPF_RINGBUF_HDR_SZ + 7) & ~7ull;
		if (!(word & BPF_RINGBUF_DISCARD_BIT) && rec && len >= sizeof(*rec) &&
		    (rec->site || rec->kind != PTB_REC_OP_ENTER)) {
			if (rec->kind == PTB_REC_AGENT_DATA && rec->len < len)
				len = rec->len;
			fn(arg, idx, rec, len);
			r->delivered += rec->site || rec->kind == PTB_REC_AGENT_STACK;
		}
		if (++n % GIVE_BACK == 0)
			__atomic_store_n(piece->cons, pos, __ATOMIC_RELEASE);
	}
	__atomic_store_n(piece->cons, pos, __ATOMIC_RELEASE);
	return pos - start;
}

/* The ends of a ring's pieces. Returns the piece that is being filled; the one after it is the
 * oldest. */
static uint32_t ends_of(const struct rings *r, uint32_t idx, uint64_t *ends)
{
	uint32_t at;

	do {
		at = __atomic_load_n(&r->at[idx], __ATOMIC_ACQUIRE);
		for (uint32_t p = 0; p < r->piece_cnt; p++)
			ends[p] = __atomic_load_n(r->pieces[idx][p].prod, __ATOMIC_ACQUIRE);
	} while (at != __atomic_load_n(&r->at[idx], __ATOMIC_ACQUIRE));
	return at;
}

int64_t rings__drain(struct rings *r, uint32_t idx, ring_fn fn, void *arg)
{
	uint64_t ends[PTB_RING_PIECES], bytes = 0;
	uint32_t at;

	if (idx >= r->cnt)
		return -EINVAL;
	if (idx == 0)
		clear_wakeups(r);
	at = ends_of(r, idx, ends);
	for (uint32_t i = 1; i <= r->piece_cnt; i++) {
		uint32_t p = (at + i) % r->piece_cnt;

		bytes += drain_piece(r, idx, &r->pieces[idx][p], ends[p], fn, arg);
	}
	return (int64_t)bytes;
}

double rings__fill(const struct rings *r)
{
	uint64_t most = 0;

	for (uint32_t i = 0; i < r->cnt; i++) {
		uint64_t used = 0;

		for (uint32_t p = 0; p < r->piece_cnt; p++)
			used += __atomic_load_n(r->pieces[i][p].prod, __ATOMIC_RELAXED) -
				*r->pieces[i][p].cons;
		if (used > most)
			most = used;
	}
	return (double)most / (double)(r->piece_cnt * r->bytes);
}

/*
 * An update of a map of maps returns only after every program that may still see the old value has
 * ended (kernel/bpf/syscall.c, maybe_wait_bpf_programs).
 */
void rings__wait_programs(const struct rings *r)
{
	uint32_t key = 0;
	int err = bpf_map_update_elem(r->outer_fd, &key, &r->pieces[0][0].fd, BPF_ANY);

	if (err)
		pr_warn("cannot wait for running programs: %s", errstr(err));
}
