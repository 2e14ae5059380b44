/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The bytes of a capture file (.ptb), little endian. Owns the layout and its sanity limits; must
 * not know what a record means.
 *
 * A file is one header and then blocks, appended only, each written by one write:
 *
 *	0                                                             file size
 *	| file header | block | block | block | ... | end block |
 *
 * File header, 32 bytes (a later minor version may make it longer: skip header_sz bytes)
 *
 *	 0  u8[8] magic        "PTBCAP\r\n": the line end shows a file that was copied as text
 *	 8  u16   major        another major number: the file cannot be read by this program
 *	10  u16   minor        a higher minor number: more block types or fields, which are skipped
 *	12  u32   header_sz    bytes from the start of the file to the first block
 *	16  u64   created_ns   CLOCK_REALTIME
 *	24  u32   reserved     0
 *	28  u32   crc          crc32 of bytes 0..27
 *
 * Block header, 40 bytes, followed by stored_len bytes
 *
 *	 0  u32   magic        "PTBk"
 *	 4  u16   type         enum capture_block_type; unknown types are skipped
 *	 6  u16   flags        CAPTURE_BLOCK_ZSTD: the payload is one zstd frame
 *	 8  u32   ring         RING: number of the ring buffer
 *	12  u32   stored_len   bytes that follow this header
 *	16  u32   raw_len      bytes of records after decompression, at most CAPTURE_RAW_MAX
 *	20  u32   rec_cnt      RING, CONTROL: records; END: 0
 *	24  u64   watermark_ns ROUND: every record older than this stands before this block, except where the
 *	                       next field of a later block says otherwise
 *	          oldest_ns    RING, since 1.1: time of its oldest record. So the headers alone say how long a reader
 *	                       must wait for a record that came late
 *	32  u32   payload_crc  crc32 of the stored bytes
 *	36  u32   header_crc   crc32 of bytes 0..35
 *
 * A payload is records of ptb_event.h, whole ones only, one after the other. The payload of one
 * ring's blocks in file order is that ring buffer's content in its order. ROUND and END have no
 * payload.
 *
 * A writer that dies leaves a file without an END block, perhaps with a torn last block; the
 * checksums find it. Everything before it is valid.
 */
#ifndef CAPTURE_FORMAT_H
#define CAPTURE_FORMAT_H

#include <stddef.h>
#include <stdint.h>

#define CAPTURE_MAGIC "PTBCAP\r\n"
#define CAPTURE_MAJOR 1
#define CAPTURE_MINOR 1

#define CAPTURE_BLOCK_MAGIC 0x6b425450u /* "PTBk" */
#define CAPTURE_BLOCK_ZSTD 0x1

#define CAPTURE_BLOCK_SZ (256u * 1024) /* the writer fills blocks up to this many raw bytes */
#define CAPTURE_RAW_MAX (4u * 1024 * 1024)
#define CAPTURE_STORED_MAX (CAPTURE_RAW_MAX + 64 * 1024)
#define CAPTURE_HEADER_MAX 4096u

enum capture_block_type {
	CAPTURE_CONTROL = 1,
	CAPTURE_RING = 2,
	CAPTURE_ROUND = 3,
	CAPTURE_END = 4,
};

struct capture_file_hdr {
	uint8_t magic[8];
	uint16_t major, minor;
	uint32_t header_sz;
	uint64_t created_ns;
	uint32_t reserved;
	uint32_t crc;
};
_Static_assert(sizeof(struct capture_file_hdr) == 32, "file header is frozen");

struct capture_block_hdr {
	uint32_t magic;
	uint16_t type;
	uint16_t flags;
	uint32_t ring;
	uint32_t stored_len;
	uint32_t raw_len;
	uint32_t rec_cnt;
	union {
		uint64_t watermark_ns;
		uint64_t oldest_ns;
	};
	uint32_t payload_crc;
	uint32_t header_crc;
};
_Static_assert(sizeof(struct capture_block_hdr) == 40, "block header is frozen");
_Static_assert(offsetof(struct capture_block_hdr, header_crc) == 36, "checksum covers the rest");

#endif /* CAPTURE_FORMAT_H */
