/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A C program that calls functions with known probe sites as PyTorch calls its operators: tensors laid
 * out as libtorch's are (2.14), in the registers and stack words of the C++ ABI. Takes commands on stdin,
 * a line a command, and answers "done <checksum>". A function left by longjmp simulates one left by an
 * exception.
 */
#include "site_func.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* ---- objects ---- */

struct storage_impl {
	uint64_t header[2];
	uint64_t data; /* +16 */
};

struct tensor_impl {
	uint64_t vptr, refs;
	struct storage_impl *storage; /* +16 */
	uint64_t autograd_meta, extra_meta, version, pyobj;
	uint64_t ndim; /* +56 */
	union {
		int64_t dims[10];
		int64_t *far;
	};
	int64_t offset, numel; /* +144 */
	uint16_t dtype;        /* +160 */
	uint8_t device[6];
	uint64_t keys; /* +168 */
};

static struct storage_impl storage = { { 0, 0 }, 0x700000 };
static struct tensor_impl undefined;

struct tensor {
	struct tensor_impl *impl;
};

static struct tensor_impl make(int64_t rows, int64_t cols, int64_t offset)
{
	struct tensor_impl t = { .storage = &storage,
				 .ndim = 2,
				 .offset = offset,
				 .numel = rows * cols,
				 .dtype = 6,
				 .device = { 0, 0xff, 1 },
				 .keys = 0x8001 };

	t.dims[0] = rows;
	t.dims[1] = cols;
	t.dims[5] = cols;
	t.dims[6] = 1;
	return t;
}

static struct tensor_impl impl_a, impl_b, impl_far;
static int64_t far_dims[14] = { 1, 2, 3, 4, 5, 6, 7, 7, 6, 5, 4, 3, 2, 1 };

struct scalar {
	uint32_t tag;
	uint32_t pad[3];
	int64_t value;
	int64_t imag;
} __attribute__((aligned(16)));

struct ivalue {
	uint64_t payload;
	uint64_t tag;
};
struct stack {
	struct ivalue *begin, *end, *cap;
};
struct list_ref {
	const void *begin, *end;
};

/* ---- functions with sites ---- */

static __thread uint64_t sum;

/* Tensor add(Tensor const&, Tensor const&, Scalar const&): the result's address is the first argument */
long site_add(struct tensor *result, const struct tensor *a, const struct tensor *b,
	      const struct scalar *alpha);
long add_body(struct tensor *result, const struct tensor *a, const struct tensor *b,
	      const struct scalar *alpha);
long add_body(struct tensor *result, const struct tensor *a, const struct tensor *b,
	      const struct scalar *alpha)
{
	(void)b;
	sum += (uint64_t)alpha->value;
	result->impl = a->impl;
	return (long)(uintptr_t)result;
}
SITE_FUNC(site_add, add_body);

/* Calls itself; each depth has a result of its own, whose offset is the depth. */
static struct tensor_impl results[64];
static __thread jmp_buf out;
static __thread long leave_at;

long site_nest(struct tensor *result, const struct tensor *a, long depth);
long nest_body(struct tensor *result, const struct tensor *a, long depth);
long nest_body(struct tensor *result, const struct tensor *a, long depth)
{
	struct tensor mine = { NULL };

	if (depth == leave_at)
		longjmp(out, 1);
	if (depth > 0)
		site_nest(&mine, a, depth - 1);
	sum = sum * 31 + (uint64_t)depth;
	result->impl = &results[depth & 63];
	return (long)(uintptr_t)result;
}
SITE_FUNC(site_nest, nest_body);

/* Ten words: the last four on the stack. */
long site_wide(long a, long b, long c, long d, long e, long f, long g, long h, long i, long j);
long wide_body(long a);
long wide_body(long a)
{
	sum += (uint64_t)a;
	return a;
}
SITE_FUNC(site_wide, wide_body);

/* double in xmm0, kept at -16(%rbp) and in r12 over the late site */
long site_late(double eps);
extern const char site_late_at[];
__asm__(".pushsection .text.sites,\"ax\",@progbits\n"
	".balign 16\n"
	".globl site_late, site_late_enter, site_late_at, site_late_exit\n"
	".type site_late, @function\n"
	"site_late:\n"
	"site_late_enter:\n"
	"	push %rbp\n"
	"	mov %rsp, %rbp\n"
	"	push %r12\n"
	"	sub $24, %rsp\n"
	"	movsd %xmm0, -16(%rbp)\n"
	"	movq %xmm0, %r12\n"
	"	xor %eax, %eax\n"
	"	test %eax, %eax\n"
	"site_late_at:\n"
	"	jne 1f\n"
	"1:	test %eax, %eax\n"
	"site_late_exit:\n"
	"	jne 1f\n"
	"1:	add $24, %rsp\n"
	"	pop %r12\n"
	"	pop %rbp\n"
	"	ret\n"
	".size site_late, . - site_late\n"
	".popsection\n");
extern const char site_late_enter[], site_late_exit[];

/* callBoxed(OperatorHandle const&, Stack*): leaves one tensor where two arguments were */
long site_boxed(const void *handle, struct stack *stack);
long boxed_body(const void *handle, struct stack *stack);
long boxed_body(const void *handle, struct stack *stack)
{
	(void)handle;
	stack->end -= 2;
	stack->end[0] = (struct ivalue){ (uint64_t)(uintptr_t)&results[9], 1 };
	stack->end++;
	return 1;
}
SITE_FUNC(site_boxed, boxed_body);

long other_body(void);
long other_body(void)
{
	return 1;
}
long site_node(void *result, const void *node, const struct list_ref *inputs,
	       const struct list_ref *buffer);
SITE_FUNC(site_node, other_body);
long site_script(const void *executor, const struct stack *stack);
SITE_FUNC(site_script, other_body);
long site_scope(const void *result, const void *name, const void *args);
SITE_FUNC(site_scope, other_body);

/* ---- commands ---- */

static struct tensor a = { &impl_a }, b = { &impl_b };

/* As a method called from Python: self is in its object, the others are the caller's temporaries. */
static void add(long n)
{
	struct scalar alpha = { .tag = 1, .value = 7 };
	struct tensor other = b;

	for (long i = 0; i < n; i++) {
		struct tensor result = { NULL };

		site_add(&result, &a, &other, &alpha);
	}
}

/* What cannot be read, is undefined, has many dimensions. */
static void odd(void)
{
	struct scalar alpha = { .tag = 0, .value = 0x3ff8000000000000 };
	struct tensor none = { &undefined }, many = { &impl_far }, wild = { (void *)0x10 };
	struct tensor result = { NULL };

	site_add(&result, &none, &many, &alpha);
	site_add(&result, &many, &wild, &alpha);
	site_add(&result, &many, (void *)8, &alpha);
}

static void nest(long depth, long at)
{
	struct tensor result = { NULL };

	leave_at = at;
	if (!setjmp(out))
		site_nest(&result, &a, depth);
	leave_at = -1;
	site_nest(&result, &a, 0);
}

static uint64_t cost(long n)
{
	struct timespec from, to;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
	add(n);
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
	return (uint64_t)(to.tv_sec - from.tv_sec) * 1000000000u + (uint64_t)to.tv_nsec -
	       (uint64_t)from.tv_nsec;
}

static uint64_t argument_words[2][2 * 14]; /* vectors of arguments: two, and one result of 112 bytes */
static uint64_t opdef[8];
static const void *handle[1] = { opdef };

static void boxed(void)
{
	struct ivalue items[4] = { { 1, 5 }, { (uint64_t)(uintptr_t)&impl_a, 1 }, { 33, 5 }, { 0, 0 } };
	struct stack stack = { items, items + 3, items + 4 };
	struct stack bad = { items + 3, items, items };

	site_boxed(handle, &stack);
	bad.end = items + 4;
	site_boxed((const void *)8, &bad);
}

struct string {
	const char *ptr;
	uint64_t len;
	uint64_t in_place[2];
};

static void calls(void)
{
	const struct tensor grads[3] = { a, { &undefined }, b };
	struct list_ref inputs = { grads, grads + 3 }, buffer = { grads, grads + 1 };
	uint64_t node[8] = { 1, 2, 3 };
	struct {
		uint64_t vptr, graph;
		struct string name;
		uint64_t num_inputs;
	} executor = { 0, 0, { "forward", 7, { 0, 0 } }, 2 };
	struct ivalue items[3] = { { 0, 0 }, { (uint64_t)(uintptr_t)&impl_b, 1 }, { 1, 10 } };
	struct stack stack = { items, items + 3, items + 3 };
	struct string name = { "region", 6, { 0, 0 } };
	struct {
		struct string value;
		uint8_t has;
	} args = { { "0/0", 3, { 0, 0 } }, 1 }, none = { { NULL, 0, { 0, 0 } }, 0 };

	site_node(NULL, node, &inputs, &buffer);
	site_script(&executor, &stack);
	site_scope(NULL, &name, &args);
	site_scope(NULL, &name, &none);
}

static long thread_depth;

static void *thread_main(void *arg)
{
	sum = (uint64_t)(uintptr_t)arg;
	for (int i = 0; i < 200; i++)
		nest(thread_depth, i % 3 ? -1 : 1);
	return (void *)(uintptr_t)sum;
}

static uint64_t threads(long cnt, long depth)
{
	pthread_t t[16];
	uint64_t all = 0;

	thread_depth = depth;
	for (long i = 0; i < cnt && i < 16; i++)
		if (pthread_create(&t[i], NULL, thread_main, (void *)(uintptr_t)(i + 1)))
			abort();
	for (long i = 0; i < cnt && i < 16; i++) {
		void *ret;

		pthread_join(t[i], &ret);
		all += (uint64_t)(uintptr_t)ret;
	}
	return all;
}

static __thread struct {
	uint64_t seq, included, excluded;
	uint8_t grad;
} state = { 41, 0x10, 0x20, 1 };

static void print_addr(const char *name, const void *p)
{
	printf("site %s %lu\n", name, (unsigned long)(uintptr_t)p);
}

static void prepare(void)
{
	impl_a = make(3, 5, 0);
	impl_b = make(1, 5, 2);
	undefined = make(0, 0, 0);
	impl_far = make(0, 0, 0);
	impl_far.ndim = 7;
	impl_far.far = far_dims;
	for (int i = 0; i < 64; i++)
		results[i] = make(1, 1, i);
	opdef[0] = (uint64_t)(uintptr_t)argument_words[0];
	opdef[1] = (uint64_t)(uintptr_t)(argument_words[0] + 28);
	opdef[3] = (uint64_t)(uintptr_t)argument_words[1];
	opdef[4] = (uint64_t)(uintptr_t)(argument_words[1] + 14);
	print_addr("impl_a", &impl_a);
	print_addr("impl_b", &impl_b);
	print_addr("results", results);
	printf("site result_bytes %zu\n", sizeof(results[0]));
	print_addr("undefined", &undefined);
	print_addr("opdef", opdef);
	dl_iterate_phdr(site_print_tls, &state);
}

static void print_sites(void)
{
	SITE_PRINT(site_add);
	SITE_PRINT(site_nest);
	SITE_PRINT(site_wide);
	SITE_PRINT(site_late);
	site_print("site_late_at", site_late_at);
	SITE_PRINT(site_boxed);
	SITE_PRINT(site_node);
	SITE_PRINT(site_script);
	SITE_PRINT(site_scope);
	prepare();
	printf("ready\n");
	fflush(stdout);
}

/* False: not a command. */
static int command(const char *line, uint64_t *answer)
{
	long x, y;
	double d;

	sum = 0;
	if (sscanf(line, "add %ld", &x) == 1)
		add(x);
	else if (!strncmp(line, "odd", 3))
		odd();
	else if (sscanf(line, "nest %ld %ld", &x, &y) == 2)
		nest(x, y);
	else if (!strncmp(line, "wide", 4))
		site_wide(1, 2, 3, 4, 5, 6, 107, 108, 109, 110);
	else if (sscanf(line, "late %lf", &d) == 1)
		site_late(d);
	else if (!strncmp(line, "boxed", 5))
		boxed();
	else if (!strncmp(line, "other", 5))
		calls();
	else if (sscanf(line, "threads %ld %ld", &x, &y) == 2)
		sum = threads(x, y);
	else if (sscanf(line, "cost %ld", &x) == 1)
		sum = cost(x);
	else if (sscanf(line, "grad %ld", &x) == 1)
		state.grad = (uint8_t)x;
	else
		return 0;
	*answer = sum;
	return 1;
}

int main(void)
{
	uint64_t answer;
	char line[256];

	leave_at = -1;
	print_sites();
	while (fgets(line, sizeof(line), stdin)) {
		if (!command(line, &answer))
			return 2;
		printf("done %lu\n", (unsigned long)answer);
		fflush(stdout);
	}
	return 0;
}
