/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The libraries of PyTorch in a process, and what they have. */
#ifndef TARGET_TORCH_H
#define TARGET_TORCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "ptb_agent.h"
#include "ptb_probe.h"
#include "target/elf.h"
#include "target/proc.h"

/*
 * A process with PyTorch: which of its libraries and of CUDA's it has mapped, and where. Takes no
 * decisions, places no probes, never stops or writes to the target. Everything read here is
 * hostile: bounded and checked.
 */

#define BUILD_ID_MAX 20

enum torch_lib_role {
	TORCH_LIB_C10,
	TORCH_LIB_CPU,    /* libtorch_cpu; in a static build, the library that defines at::_ops */
	TORCH_LIB_PYTHON, /* libtorch_python; absent in C++ programs */
	TORCH_LIB_CXX,    /* the C++ runtime (libstdc++): where exceptions are caught */
	/* Optional: a process can be traced without them, and when they cannot be read. It may have
	 * several of each, early or late, so they are not in torch_proc.libs of a process but in
	 * its list `cuda`. */
	TORCH_LIB_CUDART, /* libcudart, or the library of torch's into which it is linked */
	TORCH_LIB_CUDA,   /* libcuda, the driver's; mapped at the first CUDA call */
	TORCH_LIB_ROLES,
};

struct torch_lib {
	bool present;
	char *path; /* as the target's mount namespace names it, for messages and the capture */
	int fd;     /* the open file: the only one that is analysed, compared and probed; 0: none */
	struct file_id id;             /* of fd when it was opened */
	char *access_path;             /* its name for what takes a path: /proc/self/fd/... */
	uint64_t load_bias;            /* runtime address = ELF vaddr + load_bias */
	uint64_t text_start, text_end; /* runtime range of the executable mapping */
	uint8_t build_id[BUILD_ID_MAX];
	/* 0: the file has none; then a digest of headers and size stands in */
	uint32_t build_id_sz;
};

struct torch_cuda_lib {
	enum torch_lib_role role; /* TORCH_LIB_CUDART, TORCH_LIB_CUDA */
	struct torch_lib lib;
};

struct torch_proc {
	pid_t pid; /* in ptbpf's pid namespace */
	char comm[16];
	char *exe;          /* base name of the executable */
	char *cmdline;      /* arguments joined by spaces, cut at 4096 bytes */
	char *version_file; /* its PyTorch's version.py, as maps would name it; NULL: not known */
	struct torch_lib libs[TORCH_LIB_ROLES];
	struct torch_cuda_lib *cuda; /* all that are mapped, each file once */
	uint32_t cuda_cnt, cuda_cap;
};

/* Why torch_proc__open() failed, when it returns a negative errno. */
enum torch_proc_why {
	TORCH_PROC_OK,
	TORCH_PROC_NO_SUCH_PID, /* -ESRCH */
	TORCH_PROC_NO_ACCESS,   /* -EACCES: /proc/PID/maps or memory is not readable for us */
	TORCH_PROC_NO_TORCH,    /* -ENOENT: no torch library is mapped (yet) */
	/* -ENOEXEC: a torch library is mapped but cannot be read as ELF x86-64; -EXDEV: nor at
	 * all */
	TORCH_PROC_BAD_LIB,
	TORCH_PROC_IS_KTHREAD, /* -EINVAL */
	/* -ESRCH: its first thread, which the kernel knows its memory by, others run */
	TORCH_PROC_MAIN_ENDED,
};

/*
 * Reads maps and libraries of `pid`. On success *out is owned by the caller (torch_proc__free). On
 * failure *why says which sentence the user needs. Libraries are recognised by what they define
 * (at::_ops symbols, c10 symbols, PyInit__C or THP symbols) after a cheap filter on the file name
 * ("torch" or "c10" in it, so renamed copies such as libtorch_cpu-<hash>.so are found). The
 * optional ones are asked for their own names ("libcudart", "libcuda.so") and for the memory calls
 * that they export.
 */
int torch_proc__open(pid_t pid, struct torch_proc **out, enum torch_proc_why *why);
/* The same where PyTorch need not be there: what GPUs do can be traced without it. */
int torch_proc__open_any(pid_t pid, struct torch_proc **out, enum torch_proc_why *why);
void torch_proc__free(struct torch_proc *tp); /* NULL is fine */

/* No more of the process than its libraries of CUDA's. 0 or negative errno. */
int torch_proc__open_cuda(pid_t pid, struct torch_proc **out);
/* The library alone, as the array by role of which a plan is made; libs borrows it. */
void torch_cuda_lib__alone(const struct torch_cuda_lib *c, struct torch_lib libs[TORCH_LIB_ROLES]);
/* Cheap test for waiting loops: a digest of those files in /proc/PID/maps that may be libraries of
 * CUDA's. Another one: read them again. 0 or negative errno. */
int torch_proc__peek_cuda(pid_t pid, uint64_t *digest);

bool torch_proc__has_torch(const struct torch_proc *tp);
/* torch.__version__, from the version.py of the package that the module torch._C is in; "": not
 * known. The file is the target's claim, and may be another version's since the process began. */
#define TORCH_VERSION_MAX 63
void torch_proc__version(const struct torch_proc *tp, char out[TORCH_VERSION_MAX + 1]);

/* Files of all processes so far that were not read, since a process of another user serves them
 * (FUSE). */
uint64_t torch_proc__refused_files(void);

/* True once libtorch_cpu, libc10 and, for a Python process, libtorch_python are all mapped. */
bool torch_proc__ready(const struct torch_proc *tp);

/* Cheap test for waiting loops: does /proc/PID/maps name a torch library? 1, 0, or negative
 * errno. */
int torch_proc__peek(pid_t pid);
/* What of interest a process has mapped, by the names of files alone. 0 or negative errno. */
#define AGENT_LIB_STEM "libptbpf_agent" /* copies may have a version or a hash after it */
struct torch_seen {
	bool torch, cuda, agent; /* cuda: the driver's library */
};
int torch_proc__look(pid_t pid, struct torch_seen *seen);

/* Finds the torch libraries among the mappings of a process. Private to target. */

/* The cheap filter: may this mapping be of a torch library? */
bool torch_libs__may_be(const struct proc_map *map);

/*
 * Fills tp->libs and tp->cuda from the mappings. *bad: why one of the mapped files that may be
 * torch libraries could not be read (-EXDEV above all, see elf.h), 0: all could.
 */
int torch_libs__find(struct torch_proc *tp, const struct proc_maps *maps, int *bad);
/* Fills tp->cuda alone, which costs less. */
int torch_libs__find_cuda(struct torch_proc *tp, const struct proc_maps *maps);
void torch_lib__clear(struct torch_lib *lib);
/* 0 or negative errno: out of memory or of file descriptors. */
int torch_lib__copy(struct torch_lib *to, const struct torch_lib *from);

/* The cheap filter for CUDA's libraries, and torch's into which one may be linked. */
bool torch_libs__may_be_cuda(const struct proc_map *map);

/* The kernels of a live process, which the host knows by their stubs. */

struct host_funcs; /* symbol tables of the libraries that were asked about; one per session */

struct host_funcs *host_funcs__new(void);     /* NULL: out of memory */
void host_funcs__free(struct host_funcs *hf); /* NULL is fine */

/*
 * The kernel that is launched as addr (the first argument of cudaLaunchKernel: a host stub, or from
 * CUDA 13 a handle), demangled as CUPTI names it ("void at::native::f<4>(int)", without
 * "__device_stub__"). hold: of the process (target/proc.h); once it has ended, stubs in mappings
 * that are known are still named. 0, -ENOENT: no library of the process knows it, -ESRCH: it has
 * ended, -ETIMEDOUT, -E2BIG: beyond a limit of LIMIT_KERNEL_*, -ECANCELED: a signal is pending, or
 * another negative errno.
 */
int host_funcs__kernel(struct host_funcs *hf, pid_t pid, int hold, uint64_t addr, char *buf,
		       size_t cap);

/* The table of operators in a live process: c10::Dispatcher, read from outside (pytorch
 * aten/src/ATen/core/dispatch/Dispatcher.h). */

struct live_op {
	uint64_t opdef; /* address of OperatorDef */
	char *name;     /* "aten::add.Tensor", "mylib::foo" */
	/* torch's profiler never records it (OperatorEntry::is_observed_ is false) */
	bool unobserved;
};

struct live_ops {
	struct live_op *ops;
	uint32_t cnt;
	bool observed_known;   /* is_observed_ could be located (by agreement over all operators) */
	uint32_t observed_off; /* then: where it is */
};

/*
 * Walks c10::Dispatcher's operator list from outside. `singleton` addresses come from the plan
 * (runtime addresses of c10::Dispatcher::singleton()::s in each library; the non-zero one counts).
 * observed_off: where is_observed_ was in another process with these libraries, which is tried
 * first, since to locate it is the larger part of the work; 0: not known. At most 100,000 nodes;
 * stops on next == head. 0 or negative errno.
 */
int live_ops__read(pid_t pid, const uint64_t *singletons, uint32_t cnt, bool old_string_abi,
		   uint32_t observed_off, struct live_ops *out);
void live_ops__free(struct live_ops *lo);
/* The address of the last one, which is another when one was added since: three small reads. 0 or
 * negative errno. */
int live_ops__tail(pid_t pid, const uint64_t *singletons, uint32_t cnt, uint64_t *tail);

/* What a reader has of the table already. */
struct live_ops_seen {
	bool (*known)(void *arg, uint64_t opdef);
	void *arg;
	uint32_t observed_off; /* of an earlier reading */
	bool old_string_abi;
};
/* The operators after the last known one, newest first. 0; -E2BIG: so many that all should be read;
 * -EAGAIN: they are being registered; another negative errno. */
int live_ops__newest(pid_t pid, const uint64_t *singletons, uint32_t cnt,
		     const struct live_ops_seen *seen, struct live_ops *out);
/* Reads one operator's name by its OperatorDef address (registered after the walk). */
int live_ops__name_at(pid_t pid, uint64_t opdef, bool old_string_abi, char *buf, size_t cap);

/*
 * The schema of an operator of a live process, as torch prints it ("mylib::foo(Tensor x, int n=3)
 * -> Tensor"). The only source for operators that no library has a text for: custom ones.
 * Everything read is hostile: counts, depth and the number of reads are bounded, and what is not
 * understood gives an error instead of half a schema.
 */

#define LIVE_TYPES_MAX 64 /* classes of types that are remembered */

struct live_schema_layout {
	/* Set before live_schema__derive(). */
	bool old_string_abi;
	uint8_t object_header; /* of strings and lists: 24 or 16 */
	uint16_t ivalue_kind[PTB_IVALUE_TAGS];
	uint64_t interned; /* runtime address of c10::InternedStrings, for alias letters; 0: none */
	/* Found by it. */
	bool has_first; /* std::optional would be {value, flag}, c10::optional is {flag, value} */
	uint16_t schema_off;            /* OperatorDef: FunctionSchema */
	uint16_t args_off, returns_off; /* OperatorDef: std::vector<Argument> */
	uint16_t argument_size;
	/* Remembered: what class a vptr is. */
	struct {
		uint64_t vptr;
		uint8_t row;
	} types[LIVE_TYPES_MAX];
	uint32_t type_cnt;
	uint64_t names_ns; /* processor time to demangle their names */
};

/* Finds the offsets from operators whose names are known. 0, -ENOTSUP: they do not have the
 * layout that is understood, or another negative errno. */
int live_schema__derive(pid_t pid, const struct live_ops *ops, struct live_schema_layout *l);

/* The schema of one operator. 0; -ENOENT: it has none; -ENOTSUP: something in it is not understood;
 * -ENAMETOOLONG; another negative errno. */
int live_schema__read(pid_t pid, uint64_t opdef, struct live_schema_layout *l, char *buf,
		      size_t cap);

/*
 * The agent's library in a live process: where it is mapped, where its USDT sites and its control
 * block are. Reads the process's memory map, the library's file and the control block; writes
 * nothing but the block's settings, which the agent has reserved for that.
 */

struct agent_lib {
	char *path;        /* as the target names it */
	int fd;            /* the open file, 0: none */
	char *access_path; /* its name for what takes a path: /proc/self/fd/... */
	uint64_t load_bias;
	uint64_t ctl;                           /* address of ptbpf_agent_ctl in the process */
	uint64_t open;                          /* of ptbpf_agent_open; 0: this agent has none */
	uint64_t site[PTB_AGENT_SITE_CNT];      /* file offsets; 0: this agent has no such site */
	uint64_t semaphore[PTB_AGENT_SITE_CNT]; /* file offsets, as uprobes want them */
};

/* 0; -EAGAIN: it sleeps until CUDA's driver calls it (*out is there, but its control block);
 * -ENOENT: not loaded; -EPROTO: loaded, but of another ABI or not an agent (why: a sentence); other
 * negative errno. *out is owned by the caller in any case: agent_lib__clear(). */
int agent_lib__find(pid_t pid, struct agent_lib *out, char *why, size_t cap);
void agent_lib__clear(struct agent_lib *al);

/* The control block as it is now; 0, -EPROTO (not one of this ABI), or negative errno. */
int agent_lib__read(pid_t pid, const struct agent_lib *al, struct ptb_agent_ctl *out);
/* What the agent says of open operators, checked. 0, -EPROTO, or negative errno. */
int agent_lib__read_open(pid_t pid, const struct agent_lib *al, struct ptb_agent_open *out);
/* Writes the settings, then the word that makes them valid. 0 or negative errno. */
int agent_lib__configure(pid_t pid, const struct agent_lib *al, const struct ptb_agent_cfg *cfg);

/* Sentence of enum ptb_agent_why; "" for NONE and unknown numbers. */
const char *agent__why_text(uint32_t why);

#endif /* TARGET_TORCH_H */
