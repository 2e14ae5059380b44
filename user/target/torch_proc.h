/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A process with PyTorch: which of its libraries and of CUDA's it has mapped, and where. Takes no decisions, places no
 * probes, never stops or writes to the target. Everything read here is hostile: bounded and checked.
 */
#ifndef TARGET_TORCH_PROC_H
#define TARGET_TORCH_PROC_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "target/file_id.h"

#define BUILD_ID_MAX 20

enum torch_lib_role {
	TORCH_LIB_C10,
	TORCH_LIB_CPU,    /* libtorch_cpu; in a static build, the library that defines at::_ops */
	TORCH_LIB_PYTHON, /* libtorch_python; absent in C++ programs */
	TORCH_LIB_CXX,    /* the C++ runtime (libstdc++): where exceptions are caught */
	/* Optional: a process can be traced without them, and when they cannot be read. It may have several of
	 * each, early or late, so they are not in torch_proc.libs of a process but in its list `cuda`. */
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
	uint32_t build_id_sz; /* 0: the file has none; then a digest of headers and size stands in */
};

struct torch_cuda_lib {
	enum torch_lib_role role; /* TORCH_LIB_CUDART, TORCH_LIB_CUDA */
	struct torch_lib lib;
};

struct torch_proc {
	pid_t pid; /* in ptbpf's pid namespace */
	char comm[16];
	char *exe;     /* base name of the executable */
	char *cmdline; /* arguments joined by spaces, cut at 4096 bytes */
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
	TORCH_PROC_BAD_LIB, /* -ENOEXEC: a torch library is mapped but cannot be read as ELF x86-64; -EXDEV: nor at all */
	TORCH_PROC_IS_KTHREAD, /* -EINVAL */
	TORCH_PROC_MAIN_ENDED, /* -ESRCH: its first thread, which the kernel knows its memory by, others run */
};

/*
 * Reads maps and libraries of `pid`. On success *out is owned by the caller (torch_proc__free). On
 * failure *why says which sentence the user needs. Libraries are recognised by what they define
 * (at::_ops symbols, c10 symbols, PyInit__C or THP symbols) after a cheap filter on the file name
 * ("torch" or "c10" in it, so renamed copies such as libtorch_cpu-<hash>.so are found). The optional ones
 * are asked for their own names ("libcudart", "libcuda.so") and for the memory calls that they export.
 */
int torch_proc__open(pid_t pid, struct torch_proc **out, enum torch_proc_why *why);
/* The same where PyTorch need not be there: what GPUs do can be traced without it. */
int torch_proc__open_any(pid_t pid, struct torch_proc **out, enum torch_proc_why *why);
void torch_proc__free(struct torch_proc *tp); /* NULL is fine */

/* No more of the process than its libraries of CUDA's. 0 or negative errno. */
int torch_proc__open_cuda(pid_t pid, struct torch_proc **out);
/* The library alone, as the array by role of which a plan is made; libs borrows it. */
void torch_cuda_lib__alone(const struct torch_cuda_lib *c, struct torch_lib libs[TORCH_LIB_ROLES]);
/* Cheap test for waiting loops: a digest of those files in /proc/PID/maps that may be libraries of CUDA's. Another
 * one: read them again. 0 or negative errno. */
int torch_proc__peek_cuda(pid_t pid, uint64_t *digest);

bool torch_proc__has_torch(const struct torch_proc *tp);

/* Files of all processes so far that were not read, since a process of another user serves them (FUSE). */
uint64_t torch_proc__refused_files(void);

/* True once libtorch_cpu, libc10 and, for a Python process, libtorch_python are all mapped. */
bool torch_proc__ready(const struct torch_proc *tp);

/* Cheap test for waiting loops: does /proc/PID/maps name a torch library? 1, 0, or negative errno. */
int torch_proc__peek(pid_t pid);

#endif /* TARGET_TORCH_PROC_H */
