/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What torch.profiler writes of a collective into its slice `record_param_comms` (pytorch
 * torch/csrc/profiler/util.cpp, saveNcclMeta()), as far as the arguments and results have it: torch
 * takes it from an object beside them (torch/csrc/distributed/c10d/ParamCommsUtils.hpp,
 * RECORD_PARAM_COMMS_DATA), which alone knows the ranks of a group.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "export/chrome_priv.h"
#include "export/texts.h"

#define SPLITS_SHOWN 30u /* kTruncatLength */

/* The arguments in their order, behind the tensors, which some collectives do not have. */
enum { SEQ, GROUP, RANK, NAME, IN_SPLIT, OUT_SPLIT, RANK_START, RANK_STRIDE, GROUP_SIZE, ARG_CNT };

static void put_text(struct jsonw *w, const struct value *v)
{
	jsonw__str_begin(w);
	jsonw__str_put(w, v->data, v->present);
	jsonw__str_end(w);
}

static bool is_ints(const struct value *v)
{
	return v->kind == PTB_VAL_INTS || v->kind == PTB_VAL_LIST;
}

static void put_splits(struct jsonw *w, const struct value *list)
{
	struct elem_walk e = elem_walk__begin(list, SPLITS_SHOWN);
	const struct value *v;
	uint32_t nr = 0;
	char text[32];

	jsonw__str_begin(w);
	jsonw__str_put(w, "[", 1);
	for (; (v = elem_walk__next(&e)); nr++)
		jsonw__str_put(w, text,
			       (size_t)snprintf(text, sizeof(text), "%s%" PRId64, nr ? ", " : "",
						v->kind == PTB_VAL_INT ? v->i : 0));
	if (nr < list->n)
		jsonw__str_put(w, ", ...", 5);
	jsonw__str_put(w, "]", 1);
	jsonw__str_end(w);
}

/* Elements of all tensors of these values; false: there is none, or one is not known. *dtype: of
 * the first. */
static bool sum_elements(const struct slice_values *values, uint64_t *sum, const char **dtype)
{
	struct value_iter it = values__begin(values);
	bool found = false;
	struct value v;

	for (*sum = 0; values__next(&it, &v); found = true) {
		uint64_t more = (uint64_t)v.numel;
		const char *name = v.kind == PTB_VAL_TENSOR ? dtype__name(v.dtype) : NULL;

		if (v.kind == PTB_VAL_TENSORS || v.kind == PTB_VAL_LIST) {
			if (v.present != v.n || !sum_elements(&v.elems, &more, &name))
				return false;
		} else if (v.kind != PTB_VAL_TENSOR) {
			return false;
		}
		*sum += more;
		*dtype = found ? *dtype : name;
	}
	return found;
}

static void put_group(struct jsonw *w, const struct value *group)
{
	struct value_iter it = values__begin(&group->elems);
	struct value v;

	if (group->kind != PTB_VAL_TUPLE || !values__next(&it, &v) || v.kind != PTB_VAL_STRING)
		return;
	JSONW_KEY(w, "Process Group Name");
	put_text(w, &v);
	if (!values__next(&it, &v) || v.kind != PTB_VAL_STRING)
		return;
	JSONW_KEY(w, "Process Group Description");
	put_text(w, &v);
}

static void put_elements(struct jsonw *w, const struct slice *sl)
{
	struct slice_values first = sl->in;
	const char *dtype = NULL, *other = NULL;
	uint64_t sum;

	first.word_cnt = values__first_words(first.words, first.word_cnt);
	if (sum_elements(&first, &sum, &dtype)) {
		if (dtype)
			JSONW_STR(w, "dtype", dtype);
		JSONW_U64(w, "In msg nelems", sum);
	}
	if (sl->out.flags & VALUES_PRESENT && sum_elements(&sl->out, &sum, &other))
		JSONW_U64(w, "Out msg nelems", sum);
}

void chrome_comms__write(struct jsonw *w, const struct slice *sl, const struct arg_list *al)
{
	bool has_tensors = al->cnt == ARG_CNT + 1;
	const struct value *v = al->v + has_tensors;

	if (strcmp(sl->name, "record_param_comms") || (!has_tensors && al->cnt != ARG_CNT))
		return;
	if (v[RANK].kind != PTB_VAL_INT || v[NAME].kind != PTB_VAL_STRING ||
	    !is_ints(&v[IN_SPLIT]) || !is_ints(&v[OUT_SPLIT]) ||
	    v[RANK_START].kind != PTB_VAL_INT || v[RANK_STRIDE].kind != PTB_VAL_INT ||
	    v[GROUP_SIZE].kind != PTB_VAL_INT)
		return;
	JSONW_KEY(w, "Collective name");
	put_text(w, &v[NAME]);
	if (has_tensors)
		put_elements(w, sl);
	JSONW_KEY(w, "In split size");
	put_splits(w, &v[IN_SPLIT]);
	JSONW_KEY(w, "Out split size");
	put_splits(w, &v[OUT_SPLIT]);
	if (v[RANK_START].i >= 0)
		JSONW_I64(w, "Global rank start", v[RANK_START].i);
	if (v[RANK_STRIDE].i > 0)
		JSONW_I64(w, "Global rank stride", v[RANK_STRIDE].i);
	JSONW_I64(w, "Group size", v[GROUP_SIZE].i);
	put_group(w, &v[GROUP]);
	JSONW_I64(w, "Rank", v[RANK].i);
}
