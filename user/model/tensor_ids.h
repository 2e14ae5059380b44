/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Which tensor and which storage an address means at a time. Allocators reuse addresses, so an address alone
 * says nothing: a number is given when an address is first seen and again after its object has ended. The
 * numbers are a property of the records alone, whatever is exported of them. Private to the model.
 *
 * Ends are recorded (PTB_REC_TENSOR_END; frees of memory, where these are). Where they are not, in older
 * captures, in builds of torch without such a function and after records were lost, the schema decides: a result
 * that is no argument and was not seen inside the operator is new, unless the schema says that it is an alias.
 */
#ifndef MODEL_TENSOR_IDS_H
#define MODEL_TENSOR_IDS_H

#include <stdbool.h>
#include <stdint.h>

#include "args/op_schema.h"
#include "base/hashmap.h"
#include "ptb_event.h"

struct seen_table {
	struct hashmap by_addr; /* (address, process) -> index */
	struct seen_object *v;
	uint32_t cnt, cap;
	uint32_t unused; /* index + 1 of the first unused one, 0: none */
};

struct tensor_ids {
	struct seen_table tensors, storages;
	struct hashmap programs; /* tgid -> number of programs that ran in it before */
	struct op_schemas schemas;
	uint32_t next; /* the last number given */
	bool ends;     /* ends of tensors are recorded */
	uint64_t over; /* tensors and storages beyond LIMIT_TENSORS, which have a new number each time */
	int err;
};

struct tensor_place {
	uint32_t tgid;
	uint64_t ts_ns, begin_ns; /* now; when the operator around it began */
	uint64_t lost_until;      /* records may be missing before this */
	enum tensor_role role;
};

void tensor_ids__clear(struct tensor_ids *ids);
/* Replaces the addresses of TensorImpls in a checked payload by numbers: the tensor's in the low, its storage's
 * in the high 32 bits. ids->err is set when memory is out. */
void tensor_ids__name(struct tensor_ids *ids, const struct tensor_place *at, uint64_t *words,
		      uint32_t cnt);
void tensor_ids__end(struct tensor_ids *ids, const struct ptb_tensor_end *r);
/* An allocator took the data back. */
void tensor_ids__freed(struct tensor_ids *ids, uint32_t tgid, uint64_t data);
/* Another program runs in the process, or it ended. */
void tensor_ids__new_program(struct tensor_ids *ids, uint32_t tgid);
/* What the operator's results are, by its schema's text, which lives as long as ids. */
enum tensor_role tensor_ids__role(struct tensor_ids *ids, const char *schema);

#endif /* MODEL_TENSOR_IDS_H */
