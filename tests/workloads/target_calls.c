/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A C program with known probe sites that executes commands from stdin, one a line, and
 * answers "done <checksum>". Stands for a PyTorch process where only the shape of its calls
 * matters: it passes strings, nodes and boxed stacks laid out as PyTorch's are.
 */
#include "site_func.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ---- nested calls ---- */

static __thread uint64_t sum;

long site_op(long depth);
long op_body(long depth);

long op_body(long depth)
{
	sum = sum * 6364136223846793005u + (uint64_t)depth + 1;
	if (depth > 0)
		site_op(depth - 1);
	return (long)(sum & 1);
}
SITE_FUNC(site_op, op_body);

/* ---- calls that carry a name; the body does nothing ---- */

struct string { /* libstdc++'s std::string, the part that is read */
	const char *ptr;
	uint64_t len;
};
struct variant { /* by value: passed on the stack */
	uint64_t len;
	const char *ptr;
	uint64_t index;
};
struct ivalue {
	const void *payload;
	uint64_t tag;
};
struct boxed_stack {
	struct ivalue *begin, *end, *cap;
};

long named_body(const void *a, const void *b, const void *c);
long named_body(const void *a, const void *b, const void *c)
{
	(void)a;
	(void)b;
	(void)c;
	return 1;
}
#define NAMED_FUNC(NAME)                                                                           \
	long NAME(const void *a, const void *b, const void *c);                                    \
	SITE_FUNC(NAME, named_body)
NAMED_FUNC(site_named);
NAMED_FUNC(site_other);
NAMED_FUNC(site_script);
NAMED_FUNC(site_ctor);
NAMED_FUNC(site_end);
long site_variant(const void *self, struct variant v);
SITE_FUNC(site_variant, named_body);

/* What every kernel refuses to probe: instructions that only it may execute. Never executed. */
__asm__(".pushsection .text.sites,\"ax\",@progbits\n"
	".globl refused_site\n"
	"	ud2\n"
	"refused_site:\n"
	"	hlt\n"
	"	hlt\n"
	"	ud2\n"
	".popsection\n");
extern const char refused_site[];

/* Forty sites in a row, MANY_STRIDE bytes each: push, and the stack pointer back. */
#define MANY_STRIDE 6
void many_sites(void);
__asm__(".pushsection .text.sites,\"ax\",@progbits\n"
	".globl many_sites\n"
	".type many_sites, @function\n"
	"many_sites:\n"
	".rept 40\n"
	"	push %rbx\n"
	"	lea 8(%rsp), %rsp\n"
	".endr\n"
	"	ret\n"
	".popsection\n");

static __thread uint64_t tls_seq = 41;

/* Addresses and expectations of the objects that `names` passes, printed before they are needed. */
static char long_text[400];
static const char *const type_object[4] = { NULL, NULL, NULL, "MyFunction" };
static const void *const py_object[2] = { NULL, type_object };
static uint64_t node[8];
static uint64_t opdef[1] = { 7 };
static const void *const handle[1] = { opdef };
static struct {
	uint64_t header[2];
	struct string str;
} constant_string;

static void prepare(void)
{
	memset(long_text, 'x', sizeof(long_text) - 1);
	node[0] = (uint64_t)(uintptr_t)refused_site; /* vptr: any unique address */
	node[2] = 1234;                              /* sequence number at +16 */
	node[5] = 3;                                 /* thread at +40 */
	node[6] = (uint64_t)(uintptr_t)py_object;    /* at +48 */
	printf("site node %lu\n", (unsigned long)(uintptr_t)node);
	printf("site vptr %lu\n", (unsigned long)node[0]);
	printf("site opdef %lu\n", (unsigned long)(uintptr_t)opdef);
}

static void names(const char *text)
{
	struct string s = { text, strlen(text) };
	struct string longer = { long_text, sizeof(long_text) - 1 };
	struct {
		uint64_t len, cap, refs;
		char text[200];
	} old_string = { .len = strlen(text) };
	const char *old_ptr = old_string.text;
	struct variant v = { s.len, s.ptr, 0xabcdef00u };
	struct variant schema = { 0, NULL, 1 };
	struct ivalue stack[3] = { { NULL, 9 }, { &constant_string, 2 }, { NULL, 0 } };
	struct boxed_stack boxed = { stack, stack + 3, stack + 3 };

	snprintf(old_string.text, sizeof(old_string.text), "%s", text);
	constant_string.str = s;
	site_named(type_object, &s, node); /* PYFUNC_ENTER, SCOPE_STRING, NODE_ENTER */
	site_named(NULL, &longer, NULL);   /* cut text; faults */
	site_named(NULL, &old_ptr, NULL);  /* old strings */
	site_other("Region", text, NULL);  /* SCOPE_CSTR, BEFORE_CSTR */
	site_other("Alone", NULL, NULL);
	site_other(handle, &boxed, NULL);          /* BOXED_ENTER */
	site_script(&constant_string, NULL, NULL); /* SCRIPT_ENTER: its name at +16 */
	site_end(opdef, NULL, NULL);               /* never began */
	site_ctor(node, (const void *)0xabcd07, NULL);
	site_end(node, NULL, NULL);
	site_end(node, NULL, NULL); /* the destructor's */
	site_variant(node, v);
	site_variant(node, schema);
	tls_seq++;
}

/* ---- commands ---- */

static void calls(long n, long depth)
{
	for (long i = 0; i < n; i++)
		site_op(depth);
}

/* Processor time of so many calls, ns. */
static uint64_t cost(long n)
{
	struct timespec from, to;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
	calls(n, 0);
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
	return (uint64_t)(to.tv_sec - from.tv_sec) * 1000000000u + (uint64_t)to.tv_nsec -
	       (uint64_t)from.tv_nsec;
}

static long thread_calls;

static void *thread_main(void *arg)
{
	sum = (uint64_t)(uintptr_t)arg;
	calls(thread_calls, 1);
	return (void *)(uintptr_t)sum;
}

static uint64_t threads(long cnt, long n)
{
	pthread_t t[64];
	uint64_t all = 0;

	thread_calls = n;
	for (long i = 0; i < cnt && i < 64; i++)
		if (pthread_create(&t[i], NULL, thread_main, (void *)(uintptr_t)(i + 1)))
			abort();
	for (long i = 0; i < cnt && i < 64; i++) {
		void *ret;

		pthread_join(t[i], &ret);
		all += (uint64_t)(uintptr_t)ret;
	}
	return all;
}

static uint64_t fork_child(long n)
{
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		calls(n, 1);
		_exit((int)(sum & 0x7f));
	}
	waitpid(pid, &status, 0);
	return (uint64_t)status;
}

static void print_sites(void)
{
	SITE_PRINT(site_op);
	SITE_PRINT(site_named);
	SITE_PRINT(site_other);
	SITE_PRINT(site_script);
	SITE_PRINT(site_ctor);
	SITE_PRINT(site_end);
	SITE_PRINT(site_variant);
	site_print("refused_site", refused_site);
	site_print("many_sites", (const char *)(uintptr_t)many_sites);
	printf("site many_stride %d\n", MANY_STRIDE);
	dl_iterate_phdr(site_print_tls, &tls_seq);
	prepare();
	printf("ready\n");
	fflush(stdout);
}

int main(int argc, char **argv)
{
	char line[256], word[16], text[200];
	long a, b;

	(void)argc;
	print_sites();
	while (fgets(line, sizeof(line), stdin)) {
		uint64_t answer = 0;

		a = b = 0;
		if (sscanf(line, "calls %ld %ld", &a, &b) == 2) {
			sum = 0;
			calls(a, b);
			answer = sum;
		} else if (sscanf(line, "many %ld", &a) == 1) {
			for (long i = 0; i < a; i++)
				many_sites();
		} else if (sscanf(line, "cost %ld", &a) == 1) {
			answer = cost(a);
		} else if (sscanf(line, "threads %ld %ld", &a, &b) == 2) {
			answer = threads(a, b);
		} else if (sscanf(line, "fork %ld", &a) == 1) {
			answer = fork_child(a);
		} else if (sscanf(line, "names %199[^\n]", text) == 1) {
			names(text);
		} else if (sscanf(line, "%15s", word) == 1 && !strcmp(word, "exec")) {
			execv("/proc/self/exe", argv);
			return 1;
		} else {
			return 2;
		}
		printf("done %lu\n", (unsigned long)answer);
		fflush(stdout);
	}
	return 0;
}
