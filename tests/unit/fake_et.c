/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Writes an Execution Trace ET and the Chrome trace TRACE of one fake session: values of every kind, two
 * threads, an annotation with arguments, truncated, unknown and unfinished slices. For tests of readers.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "export/output.h"
#include "fake_session.h"
#include "value_words.h"

#define T0 5000000000ULL
#define FLOAT 6
#define LONG 4

static struct session_sink sinks[2];
static struct session_totals totals;
static struct value_words in, out;

static int put(struct slice sl)
{
	int err;

	sl.in = vw__values(&in);
	sl.out = vw__values(&out);
	totals.slices++;
	totals.ops += sl.cat == SLICE_CPU_OP;
	totals.annotations += sl.cat == SLICE_USER_ANNOTATION && !(sl.flags & SLICE_DERIVED);
	totals.steps += !!(sl.flags & SLICE_DERIVED);
	totals.unfinished += !!(sl.flags & SLICE_UNFINISHED);
	err = sinks[0].slice(sinks[0].arg, &sl);
	err = err ? err : sinks[1].slice(sinks[1].arg, &sl);
	in.cnt = out.cnt = 0;
	return err;
}

/* As the model names them: the tensor's number, and its storage's above. */
static void tensor(struct value_words *w, uint64_t nr, uint64_t storage)
{
	vw__tensor(w, &(struct vw_tensor){ .dtype = FLOAT,
					   .ndim = 2,
					   .sizes = { 2, 3 },
					   .flags = PTB_VAL_F_IDS,
					   .impl = nr | storage << 32,
					   .storage = storage << 12 });
}

static struct slice slice(uint64_t id, uint64_t parent, const char *name, uint64_t begin, uint64_t end)
{
	struct slice sl = fake_slice(id, name, T0 + begin, T0 + end);

	sl.parent = parent;
	return sl;
}

static struct slice annotation(struct slice sl, uint32_t flags)
{
	sl.cat = SLICE_USER_ANNOTATION;
	sl.kind = PTB_FUNC_SCOPE;
	sl.scope = 7;
	sl.flags = flags;
	return sl;
}

static struct slice with_schema(struct slice sl, const char *schema, int64_t seq)
{
	sl.schema = schema;
	sl.seq = seq;
	return sl;
}

static int put_forward(void)
{
	static const int64_t sizes[] = { 2, 3 };
	int err;

	vw__ints(&in, 2, sizes);
	vw__int(&in, 6);
	vw__none(&in);
	vw__device(&in, 0, -1);
	vw__bool(&in, false);
	vw__none(&in);
	tensor(&out, 1, 9);
	err = put(with_schema(slice(4, 3, "aten::empty", 3000, 4000),
			      "aten::empty(int[] size) -> Tensor", -1));
	tensor(&in, 1, 9);
	vw__double(&in, 1.5);
	tensor(&out, 1, 9);
	err = err ? err :
		    put(with_schema(slice(3, 2, "aten::mul_", 2000, 9000),
				    "aten::mul_(Tensor self) -> Tensor", 0));
	vw__list(&in, PTB_VAL_TENSORS, 2, 2);
	tensor(&in, 1, 9);
	tensor(&in, 2, 9);
	vw__int(&in, 0);
	tensor(&out, 3, 0);
	return err ? err :
		     put(with_schema(slice(5, 2, "aten::cat", 10000, 11000),
				     "aten::cat(Tensor[] t) -> Tensor", 1));
}

static int put_odd(void)
{
	struct slice sl = annotation(slice(6, 2, "## \"TEST\"\n ##", 12000, 13000), 0);
	int err;

	vw__string(&in, "a \"b\" \\ \n");
	vw__double(&in, INFINITY);
	vw__double(&in, -NAN);
	vw__complex(&in, 1, 2);
	vw__list(&in, PTB_VAL_TUPLE, 2, 2);
	tensor(&in, 1, 9);
	vw__undefined(&in, 7);
	vw__opaque(&in, PTB_OPAQUE_Generator);
	vw__list(&in, PTB_VAL_OPT_TENSORS, 2, 2);
	vw__none(&in);
	vw__undefined(&in, 7);
	err = put(sl);
	vw__unknown(&in);
	vw__list(&in, PTB_VAL_LIST, 600, 1);
	vw__int(&in, 1);
	return err ? err : put(slice(7, 2, "aten::odd", 14000, 15000));
}

static int put_all(void)
{
	struct slice bwd = slice(9, 8, "MulBackward0", 31000, 32000);
	struct slice whole =
		slice(8, 0, "autograd::engine::evaluate_function: MulBackward0", 30000, 33000);
	int err;

	err = put_forward();
	err = err ? err : put_odd();
	err = err ? err : put(annotation(slice(2, 1, "train", 1000, 20000), 0));
	tensor(&in, 2, 9);
	bwd.kind = PTB_FUNC_NODE_CALL;
	whole.kind = PTB_FUNC_NODE;
	bwd.tid = whole.tid = 101;
	bwd.seq = whole.seq = 1;
	bwd.fwd_thread = whole.fwd_thread = 1;
	bwd.scope = 1;
	bwd.fw_parent = 2;
	err = err ? err : put(bwd);
	err = err ? err : put(whole);
	err = err ? err : put(annotation(slice(1, 0, "ProfilerStep#0", 500, 50000), SLICE_DERIVED));
	bwd = slice(10, 0, "aten::wait", 60000, 1000000000);
	bwd.flags = SLICE_UNFINISHED;
	return err ? err : put(bwd);
}

int main(int argc, char **argv)
{
	struct session s = fake_session();
	struct output_args args[2] = { { .s = &s }, { .s = &s } };
	void *et, *ct;

	if (argc != 3) {
		fprintf(stderr, "usage: fake_et ET TRACE\n");
		return 2;
	}
	s.info.has_shapes = s.info.has_results = true;
	args[0].path = argv[1];
	args[1].path = argv[2];
	if (et_output.open(&args[0], &et) || chrome_output.open(&args[1], &ct))
		return 1;
	sinks[0] = et_output.sink(et);
	sinks[1] = chrome_output.sink(ct);
	if (sinks[1].thread(sinks[1].arg, 100, 100) || sinks[1].thread(sinks[1].arg, 100, 101) ||
	    put_all())
		return 1;
	if (et_output.finish(et, &args[0], &totals) || chrome_output.finish(ct, &args[1], &totals))
		return 1;
	et_output.free(et);
	chrome_output.free(ct);
	return 0;
}
