// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Ends of tensors: only with them does an address of a TensorImpl or of its data say which tensor
 * and which storage is meant, because allocators reuse addresses. Keeps no tensors: identities are
 * the model's.
 */

#define STORAGE_WORDS 3 /* of a StorageImpl, behind its vptr: the counters, then the data */

/*
 * The tensor's storage. c10::intrusive_ptr_target: vptr, then refcount_, whose low 32 bits are the
 * number of strong references in all versions (c10/util/intrusive_ptr.h). Reads that fail are
 * counted.
 */
static __always_inline __u8 read_storage(const struct ptb_tensor_cfg *t, __u64 impl, __u64 *data,
					 __u32 *refs)
{
	__u8 flags = 0;
	__u64 storage = read_word(impl + t->storage_off, &flags), words[STORAGE_WORDS] = {};
	__u32 at = ((__u32)t->storage_data_off - sizeof(__u64)) / sizeof(__u64);

	if (!storage || at >= STORAGE_WORDS)
		return flags;
	if (bpf_probe_read_user(words, sizeof(words), (void *)(storage + sizeof(__u64)))) {
		count(PTB_CNT_READ_FAULT);
		return flags | PTB_F_READ_FAULT;
	}
	*refs = (__u32)words[0];
	*data = at == 1 ? words[1] : words[2];
	return flags;
}

static __always_inline int emit_tensor_end(struct pt_regs *ctx, const struct hit *hit, bool release)
{
	struct ptb_proc_cfg *cfg = hit_cfg(hit);
	struct ptb_tensor_end *r;
	struct slot s;
	__u64 data = 0;
	__u32 refs = 0;
	__u8 flags;

	if (!cfg || !cfg->tensor.shapes_on)
		return 0;
	flags = read_storage(&cfg->tensor, PT_REGS_PARM1(ctx), &data, &refs);
	if (release && !data)
		return 0;
	s = slot_reserve(hit, sizeof(*r), PTB_REC_TENSOR_END, flags);
	r = s.rec;
	if (!r)
		return 0;
	r->impl = release ? 0 : PT_REGS_PARM1(ctx);
	r->data = data;
	r->refs = refs;
	r->pad = 0;
	slot_submit(&s, hit);
	return 0;
}

/* c10::TensorImpl::~TensorImpl() */
PROBE(tensor_end)
{
	return emit_tensor_end(ctx, hit, false);
}

/* c10::TensorImpl::release_resources(): only weak references are left, and the storage goes */
PROBE(tensor_release)
{
	return emit_tensor_end(ctx, hit, true);
}
