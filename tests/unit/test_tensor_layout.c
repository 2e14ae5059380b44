/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Layouts of tensors, values and thread-local state: what the code of the installed wheels gives against
 * what is known of them, then live processes, read from outside with those layouts and compared with
 * torch's own values there.
 */
#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "damaged_lib.h"
#include "learn_layout.h"
#include "plan/args_priv.h"
#include "plan/plan.h"
#include "plan/plan_priv.h"
#include "suite.h"
#include "target/proc.h"
#include "torch_env.h"

static struct torch_env envs[TORCH_ENV_MAX];
static size_t env_cnt;

/* ---- layouts from the libraries' bytes ---- */

/* Tags of None, Tensor, Double, Int, Bool, Tuple, String, GenericList, Device, Generator. */
#define TAGS 10
static const struct known {
	const char *name;
	uint16_t key_set, storage;
	bool has_first;
	uint8_t scalar[4]; /* d, i, z, b */
	uint8_t tags[TAGS];
	uint8_t grad_tls_off; /* added to the GOT's value */
} known[] = {
	{ "torch-1.13.1", 184, 24, true, { 0, 1, 2, 3 }, { 0, 1, 3, 5, 8, 9, 10, 12, 15, 23 }, 0 },
	{ "torch-2.1.2", 184, 24, true, { 0, 1, 2, 3 }, { 0, 1, 3, 5, 9, 10, 11, 13, 17, 25 }, 0 },
	{ "torch-2.5.1", 176, 16, false, { 0, 1, 3, 4 }, { 0, 1, 3, 5, 9, 10, 11, 13, 17, 25 }, 0 },
	{ "torch-2.7.1", 176, 16, false, { 0, 1, 3, 4 }, { 0, 1, 3, 5, 9, 10, 11, 13, 17, 25 }, 0 },
	{ "torch-2.15.0", 168, 16, false, { 0, 1, 3, 4 }, { 0, 1, 3, 5, 10, 11, 12, 14, 18, 26 }, 40 },
};

static const uint16_t tag_kinds[TAGS] = {
	PTB_VAL_NONE,   PTB_VAL_TENSOR,
	PTB_VAL_DOUBLE, PTB_VAL_INT,
	PTB_VAL_BOOL,   PTB_VAL_TUPLE,
	PTB_VAL_STRING, PTB_VAL_LIST,
	PTB_VAL_DEVICE, PTB_VAL_OPAQUE | PTB_OPAQUE_Generator << 8,
};

static uint32_t bits(uint64_t v)
{
	return (uint32_t)__builtin_popcountll(v);
}

static void check_known(const struct plan_layout *l, const struct known *k)
{
	const struct ptb_tensor_cfg *t = &l->tensor;

	CU_ASSERT_EQUAL(t->key_set_off, k->key_set);
	CU_ASSERT_EQUAL(t->storage_off, k->storage);
	CU_ASSERT_EQUAL(t->storage_data_off, k->storage);
	CU_ASSERT_EQUAL(t->object_header, k->storage);
	CU_ASSERT_EQUAL(t->extra_meta_off, k->storage + 16);
	CU_ASSERT_EQUAL(t->sizes_off, k->key_set - 112);
	CU_ASSERT_EQUAL(t->device_has_first, k->has_first);
	CU_ASSERT_EQUAL(t->scalar_double, k->scalar[0]);
	CU_ASSERT_EQUAL(t->scalar_int, k->scalar[1]);
	CU_ASSERT_EQUAL(t->scalar_complex, k->scalar[2]);
	CU_ASSERT_EQUAL(t->scalar_bool, k->scalar[3]);
	CU_ASSERT_EQUAL(t->grad_tls_off, k->grad_tls_off);
	for (uint32_t i = 0; i < TAGS; i++)
		CU_ASSERT_EQUAL(t->ivalue_kind[k->tags[i]], tag_kinds[i]);
}

/* Holds in every build. */
static void check_any(const struct plan_layout *l)
{
	const struct ptb_tensor_cfg *t = &l->tensor;
	uint32_t n = 0;

	CU_ASSERT(t->shapes_on);
	CU_ASSERT_STRING_EQUAL(l->no_shapes_why, "");
	CU_ASSERT(l->undefined_impl && l->grad_tls_got && l->keys_tls_got);
	CU_ASSERT_EQUAL(t->grad_mask, 1);
	CU_ASSERT_EQUAL(bits(l->keys.autograd), 3);
	CU_ASSERT_EQUAL(bits(l->keys.nested), 1);
	CU_ASSERT(bits(l->keys.sparse_csr) == 1 || bits(l->keys.sparse_csr) == 2);
	CU_ASSERT_EQUAL(l->keys.no_strides & l->keys.sparse_csr, l->keys.sparse_csr);
	CU_ASSERT_EQUAL(bits(l->keys.no_strides), 2 + bits(l->keys.sparse_csr));
	CU_ASSERT_EQUAL(bits(t->keys_default_included), 2);
	CU_ASSERT(bits(t->keys_default_excluded) >= 3);
	for (uint32_t i = 0; i < PTB_IVALUE_TAGS; i++)
		n += t->ivalue_kind[i] != 0;
	CU_ASSERT(n >= 24);
}

TEST("wheels")
{
	struct torch_plan plan;

	for (size_t i = 0; i < env_cnt; i++) {
		learn_layout__env(&plan, &envs[i]);
		printf("\n    %s: ", envs[i].name);
		tensor_layout__print(&plan.layout, stdout);
		check_any(&plan.layout);
		for (size_t k = 0; k < sizeof(known) / sizeof(known[0]); k++)
			if (!strcmp(known[k].name, envs[i].name))
				check_known(&plan.layout, &known[k]);
	}
}

/* Without libc10, or without libtorch_cpu's opinion, nothing may be guessed. */
TEST("missing libraries")
{
	char path[600];
	const char *list[TORCH_LIB_ROLES] = { 0 };
	struct torch_plan plan;

	snprintf(path, sizeof(path), "%s/libtorch_cpu.so", envs[0].libs);
	list[TORCH_LIB_CPU] = path;
	learn_layout__files(&plan, list);
	CU_ASSERT(!plan.layout.tensor.shapes_on);
	CU_ASSERT(plan.layout.no_shapes_why[0]);
	CU_ASSERT(!plan.layout.grad_tls_got && !plan.layout.keys.autograd);
	list[TORCH_LIB_CPU] = NULL;
	learn_layout__files(&plan, list);
	CU_ASSERT(!plan.layout.tensor.shapes_on);
}

/* Two derivations that disagree disable shapes. */
TEST("disagreement")
{
	struct torch_plan plan;
	struct plan_layout *l = &plan.layout;

	learn_layout__env(&plan, &envs[0]);
	CU_ASSERT_FATAL(l->tensor.shapes_on);
	l->tensor.numel_off += 8;
	tensor_layout__finish(l);
	CU_ASSERT(!l->tensor.shapes_on);
	CU_ASSERT(strstr(l->no_shapes_why, "numel_") != NULL);
	learn_layout__env(&plan, &envs[0]);
	l->string_ivalue_off = l->string_ivalue_off == 16 ? 24 : 16;
	tensor_layout__finish(l);
	CU_ASSERT(!l->tensor.shapes_on);
}

/* ---- a damaged libc10 ---- */

#define DAMAGES 300

static const char *const witnesses[] = { "TensorImpl",
					 "ScalarngEv",
					 "Scalar3logEv",
					 "8toStringENS_11DispatchKeyE",
					 "8toStringENS_16BackendComponentE",
					 "is_dispatch_keyset_",
					 "GradMode10is_enabledEv",
					 "get_tls_stateEv" };

/* Where the functions are that the layout is read off. */
static bool add_func(const struct elf_sym *sym, void *arg)
{
	for (size_t i = 0; i < sizeof(witnesses) / sizeof(witnesses[0]); i++)
		if (sym->defined && sym->type == STT_FUNC && sym->size &&
		    strstr(sym->name, witnesses[i]) &&
		    (i || strstr(sym->name, "_customEv") || strstr(sym->name, "has_storage") ||
		     strstr(sym->name, "set_autograd_meta")))
			damaged_lib__add(arg, sym, 96);
	return true;
}

/* Adds the facts of a libc10 to a layout of the other libraries. */
static void learn_c10(const char *path, struct torch_plan *plan)
{
	struct plan_build b;
	struct elf_file *ef;
	struct lib_code lc;

	if (elf_file__open(path, &ef))
		return;
	plan_build__init(&b, plan);
	lib_code__init(&lc, ef, &torch_names);
	b.lc = &lc;
	b.role = TORCH_LIB_C10;
	layout__learn(&b);
	lib_code__free(&lc);
	layout__finish(&b);
	plan_build__free(&b);
	elf_file__close(ef);
}

static bool same_offsets(const struct ptb_tensor_cfg *a, const struct ptb_tensor_cfg *b)
{
	return a->key_set_off == b->key_set_off && a->sizes_off == b->sizes_off &&
	       a->numel_off == b->numel_off && a->storage_offset_off == b->storage_offset_off &&
	       a->dtype_off == b->dtype_off && a->storage_off == b->storage_off &&
	       a->extra_meta_off == b->extra_meta_off && a->device_off == b->device_off &&
	       a->device_has_first == b->device_has_first;
}

/* Random bytes in the code: no crash, no endless run, and no other layout than the true one. */
TEST("damaged libc10")
{
	char cpu[600], c10[600];
	const char *list[TORCH_LIB_ROLES] = { 0 };
	struct torch_plan whole, base, plan;
	struct damaged_lib d;
	struct elf_file *ef;
	uint32_t on = 0;

	snprintf(cpu, sizeof(cpu), "%s/libtorch_cpu.so", envs[0].libs);
	snprintf(c10, sizeof(c10), "%s/libc10.so", envs[0].libs);
	learn_layout__env(&whole, &envs[0]);
	list[TORCH_LIB_CPU] = cpu;
	learn_layout__files(&base, list);
	base.layout.no_shapes_why[0] = 0;
	damaged_lib__open(&d, c10);
	CU_ASSERT_EQUAL_FATAL(elf_file__open(c10, &ef), 0);
	d.ef = ef;
	elf_file__for_each_sym(ef, add_func, &d);
	elf_file__close(ef);
	CU_ASSERT_FATAL(d.func_cnt >= 12);
	for (uint32_t i = 0; i < DAMAGES; i++) {
		damaged_lib__flip(&d, i % 8);
		plan = base;
		learn_c10(d.path, &plan);
		damaged_lib__repair(&d);
		if (!plan.layout.tensor.shapes_on)
			continue;
		on++;
		CU_ASSERT(same_offsets(&plan.layout.tensor, &whole.layout.tensor));
	}
	printf("%u of %u damaged libraries still give a layout, the true one; ", on, DAMAGES);
	CU_ASSERT(on >= DAMAGES / 8); /* every eighth is whole */
	damaged_lib__close(&d);
}

TEST("plausible tensors")
{
	static const int64_t sizes[] = { 2, 3, 4 }, negative[] = { -1, -24 }, huge[] = { INT64_MAX, 4 };

	CU_ASSERT(tensor_layout__plausible(6, 3, sizes, 24, 0, 0x7f0000001000));
	CU_ASSERT(tensor_layout__plausible(6, 0, NULL, 1, 0, 0));
	CU_ASSERT(!tensor_layout__plausible(48, 3, sizes, 24, 0, 0));
	CU_ASSERT(!tensor_layout__plausible(6, 65, sizes, 24, 0, 0));
	CU_ASSERT(!tensor_layout__plausible(6, 3, sizes, 25, 0, 0));
	CU_ASSERT(!tensor_layout__plausible(6, 3, sizes, 24, -1, 0));
	CU_ASSERT(!tensor_layout__plausible(6, 3, sizes, 24, 0, UINT64_MAX));
	CU_ASSERT(!tensor_layout__plausible(6, 2, negative, 24, 0, 0));
	CU_ASSERT(!tensor_layout__plausible(6, 2, huge, 24, 0, 0));
}

/* ---- live processes ---- */

/* Tensors and threads in every state; one line each, with torch's own values. */
static const char program[] =
	"import threading, torch, warnings\n"
	"warnings.simplefilter('ignore')\n"
	"C = torch._C\n"
	"def raw(s): return s.raw_repr() if hasattr(s, 'raw_repr') else 2 ** 64 - 1\n"
	"b = torch.arange(720, dtype=torch.float32)\n"
	"keep = [torch.tensor(3.5), b, b.view(2, 3, 4, 5, 6), b[7:].view(23, 31), torch.empty(0, 4),\n"
	"  torch.zeros(2, 1, 3, 1, 2, 1, dtype=torch.bool), b.view(2, 3, 4, 5, 6, 1, 1).permute(6, 2, 0, 1, 4, 3, 5),\n"
	"  torch.nn.Parameter(torch.ones(3, 3)), torch.ones(2, 2, requires_grad=True) * 2,\n"
	"  torch.zeros(5, dtype=torch.complex64), torch.zeros(4, 4, dtype=torch.bfloat16).t(),\n"
	"  torch.empty(3, 4, device='meta')]\n"
	"numbers = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.float32,\n"
	"  torch.float64, None, torch.complex64, torch.complex128, torch.bool, None, None, None, torch.bfloat16]\n"
	"for t in keep:\n"
	"  s = t.storage()\n"
	"  s = getattr(s, '_untyped_storage', None) or getattr(s, '_storage', s)\n"
	"  dims = list(t.shape) + list(t.stride())\n"
	"  print('T', hex(t._cdata), numbers.index(t.dtype), t.dim(), t.numel(), t.storage_offset(),\n"
	"    hex(0 if t.device.type == 'meta' else s.data_ptr()), 14 if t.device.type == 'meta' else 0,\n"
	"    255 if t.device.index is None else t.device.index, raw(C._dispatch_keys(t)), *dims)\n"
	"objects = [keep[0], keep[7], 'a text of ASCII', -(1 << 40)]\n"
	"print('P', *map(hex, map(id, [int, float, bool, str, tuple, list, None, torch.Tensor] + objects)))\n"
	"ready, done = threading.Barrier(5), threading.Event()\n"
	"out = []\n"
	"def state():\n"
	"  out.append(('S', hex(threading.get_ident()), int(torch.is_grad_enabled()),\n"
	"    raw(C._dispatch_tls_local_include_set()), raw(C._dispatch_tls_local_exclude_set())))\n"
	"  ready.wait()\n"
	"  done.wait()\n"
	"def plain(): state()\n"
	"def no_grad():\n"
	"  with torch.no_grad(): state()\n"
	"def inference():\n"
	"  with torch.inference_mode(): state()\n"
	"def excluded():\n"
	"  guard = getattr(C, '_ExcludeDispatchKeyGuard', None) or C.ExcludeDispatchKeyGuard\n"
	"  guard = guard(C._dispatch_keys(b))\n"
	"  getattr(guard, '__enter__', int)()\n"
	"  state()\n"
	"for f in plain, no_grad, inference, excluded:\n"
	"  threading.Thread(target=f, daemon=True).start()\n"
	"ready.wait()\n"
	"for o in out: print(*o)\n";

static uint64_t get(pid_t pid, uint64_t addr, uint32_t size)
{
	uint64_t v = 0;

	CU_ASSERT_EQUAL(remote__read(pid, addr, &v, size), 0);
	return v;
}

static uint64_t number(char **at)
{
	while (**at == ' ')
		++*at;
	return strtoull(*at, at, 0);
}

/* 1.13 cannot return the bits of a key set. */
static bool same_keys(uint64_t ours, uint64_t torchs)
{
	return torchs == UINT64_MAX || ours == torchs;
}

static void check_tensor(pid_t pid, const struct ptb_tensor_cfg *t, char *line)
{
	uint64_t impl = number(&line), dtype = number(&line), ndim = number(&line),
		 numel = number(&line), offset = number(&line), data = number(&line),
		 type = number(&line), index = number(&line), keys = number(&line), storage, sizes,
		 strides;
	uint64_t dev = impl + t->device_off + (t->device_has_first ? 1 : 0);
	int64_t dims[64] = { 0 };

	CU_ASSERT_EQUAL(get(pid, impl + t->dtype_off, 2), dtype);
	CU_ASSERT_EQUAL(get(pid, impl + t->sizes_off, 8), ndim);
	CU_ASSERT_EQUAL(get(pid, impl + t->numel_off, 8), numel);
	CU_ASSERT_EQUAL(get(pid, impl + t->storage_offset_off, 8), offset);
	CU_ASSERT(same_keys(get(pid, impl + t->key_set_off, 8), keys));
	CU_ASSERT_EQUAL(get(pid, dev, 1), type);
	CU_ASSERT_EQUAL(get(pid, dev + 1, 1), index);
	CU_ASSERT_EQUAL(get(pid, impl + t->device_off + (t->device_has_first ? 0 : 2), 1), 1);
	CU_ASSERT_EQUAL(get(pid, impl + t->extra_meta_off, 8), 0);
	storage = get(pid, impl + t->storage_off, 8);
	CU_ASSERT_EQUAL(get(pid, storage + t->storage_data_off, 8), data);
	sizes = impl + t->sizes_off + 8;
	strides = sizes + 40;
	if (ndim > 5) {
		sizes = get(pid, sizes, 8);
		strides = sizes + 8 * ndim;
	}
	CU_ASSERT_FATAL(ndim < 64);
	for (uint64_t i = 0; i < ndim; i++) {
		dims[i] = (int64_t)get(pid, sizes + 8 * i, 8);
		CU_ASSERT_EQUAL((uint64_t)dims[i], number(&line));
	}
	for (uint64_t i = 0; i < ndim; i++)
		CU_ASSERT_EQUAL(get(pid, strides + 8 * i, 8), number(&line));
	CU_ASSERT(tensor_layout__plausible((uint32_t)dtype, (uint32_t)ndim, dims, (int64_t)numel,
					   (int64_t)offset, storage));
}

/* pthread_self() is the thread's control block: the word behind it points to the vector of modules. */
static uint64_t tls_block(pid_t pid, uint64_t self, uint64_t module)
{
	return get(pid, get(pid, self + 8, 8) + 16 * module, 8);
}

static void check_state(pid_t pid, const struct ptb_tensor_cfg *t, char *line, uint32_t *off)
{
	uint64_t self = number(&line), grad = number(&line), inc = number(&line),
		 exc = number(&line), at;

	CU_ASSERT_FATAL(t->grad_tls_module && t->keys_tls_module);
	at = tls_block(pid, self, t->grad_tls_module) + t->grad_tls_off;
	CU_ASSERT_EQUAL((get(pid, at, 1) & t->grad_mask) != 0, grad);
	at = tls_block(pid, self, t->keys_tls_module) + t->keys_tls_off;
	CU_ASSERT(same_keys(get(pid, at, 8) ^ t->keys_default_included, inc));
	CU_ASSERT(same_keys(get(pid, at + 8, 8) ^ t->keys_default_excluded, exc));
	*off += !grad;
}

/* The types' addresses; then a tensor, a parameter (a class derived from Tensor), a text and a number. */
static void check_python(pid_t pid, const struct ptb_python_cfg *py, const struct ptb_tensor_cfg *t,
			 char *line)
{
	uint64_t types[] = { py->type_int,   py->type_float, py->type_bool, py->type_str,
			     py->type_tuple, py->type_list,  py->none,      py->type_tensor };
	uint64_t tensor, param, text, num, size;
	char chars[16];

	for (uint32_t i = 0; i < 8; i++)
		CU_ASSERT_EQUAL(types[i], number(&line));
	tensor = number(&line);
	param = number(&line);
	text = number(&line);
	num = number(&line);
	CU_ASSERT_EQUAL(get(pid, tensor + 8, 8), py->type_tensor);
	CU_ASSERT_EQUAL(get(pid, get(pid, tensor + py->variable_off, 8) + t->numel_off, 8), 1);
	CU_ASSERT_NOT_EQUAL(get(pid, param + 8, 8), py->type_tensor);
	CU_ASSERT_EQUAL(get(pid, get(pid, param + 8, 8) + py->type_base_off, 8), py->type_tensor);
	CU_ASSERT_EQUAL(get(pid, get(pid, param + py->variable_off, 8) + t->numel_off, 8), 9);
	CU_ASSERT_EQUAL(get(pid, param + 8, 8), t->parameter_type);
	/* where BPF finds a tensor's Python object */
	CU_ASSERT_EQUAL(get(pid, get(pid, param + py->variable_off, 8) + t->sizes_off - 8, 8) & ~7ULL,
			param);
	CU_ASSERT_EQUAL(get(pid, text + py->str_state_off, 4) & 0x60, 0x60);
	CU_ASSERT_EQUAL(remote__read(pid, text + py->ascii_off, chars, sizeof(chars)), 0);
	CU_ASSERT(!memcmp(chars, "a text of ASCII", sizeof(chars)));
	size = get(pid, num + py->long_size_off, 8);
	CU_ASSERT_EQUAL(size, py->long_size_shift ? (2 << 3) + 2 : (uint64_t)-2);
	CU_ASSERT_EQUAL(get(pid, num + py->long_digits_off, 8), 1ULL << (32 + 10));
}

static void check_live(const struct torch_env *env, const struct plan_layout *l)
{
	struct torch_plan plan = { .layout = *l };
	struct torch_child child;
	struct ptb_proc_cfg cfg;
	struct torch_proc *tp;
	struct proc_ops po;
	enum torch_proc_why why;
	uint32_t tensors = 0, states = 0, off = 0, python = 0;
	char *line, *save = NULL;

	CU_ASSERT_FATAL(torch_child__start(env, program, &child));
	CU_ASSERT_EQUAL_FATAL(torch_proc__open(child.pid, &tp, &why), 0);
	plan.layout.scope_from_boxed = false;
	proc_ops__init(&po, tp, &plan);
	proc_cfg__fill(&po, true, &cfg);
	proc_ops__free(&po);
	CU_ASSERT_FATAL(cfg.tensor.shapes_on);
	for (line = strtok_r(child.out, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		if (*line == 'T') {
			check_tensor(child.pid, &cfg.tensor, line + 1);
			tensors++;
		} else if (*line == 'P') {
			check_python(child.pid, &cfg.python, &cfg.tensor, line + 1);
			python++;
		} else if (*line == 'S') {
			check_state(child.pid, &cfg.tensor, line + 1, &off);
			states++;
		}
	}
	printf("\n    %s: %u live tensors and %u threads as in torch; ", env->name, tensors, states);
	CU_ASSERT_EQUAL(tensors, 12);
	CU_ASSERT_EQUAL(python, 1);
	CU_ASSERT_EQUAL(states, 4);
	CU_ASSERT_EQUAL(off, 2);
	torch_proc__free(tp);
	torch_child__stop(&child);
}

TEST("live processes")
{
	struct torch_plan plan;

	for (size_t i = 0; i < env_cnt; i++) {
		learn_layout__env(&plan, &envs[i]);
		check_live(&envs[i], &plan.layout);
	}
}

int main(void)
{
	env_cnt = torch_env__find(envs);
	if (!env_cnt)
		return torch_env__skip();
	return run_suite("tensor_layout");
}
