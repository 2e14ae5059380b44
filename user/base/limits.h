/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* All limits, and the limit on memory. */
#ifndef BASE_LIMITS_H
#define BASE_LIMITS_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Limits on everything that a target, an agent or a file controls: the only table of them. Each is
 * applied at one site. What lies beyond a limit is dropped and counted by the counter of the row
 * (PTB_COUNTERS, bpf/ptb_event.h); NONE: it is refused with a sentence, or cut with a mark in the
 * data. Sizes of our own buffers and constants of formats do not belong here.
 */

/*        name             value        counter          meaning */
/* clang-format off */
#define PTB_LIMITS(X)                                                                                       \
	X(MEMORY,          512u << 20,  OVER_MEMORY,     "bytes of the collector's memory beyond the ring buffers (--max-memory)") \
	X(NAMES,           1u << 20,    OVER_NAMES,      "different names and texts in one capture; of one process at most half of what is left, the long ones counted more") \
	X(NAME_BYTES,      4096,        OVER_NAMES,      "bytes of one of them, except a process's schemas; also where a capture is read") \
	X(ADDRESSES,       1u << 18,    OVER_NAMES,      "addresses of one kind whose names are remembered (operators, classes, kernels); of one process at most half of what is left") \
	X(UNKNOWN,         1u << 16,    NAME_UNRESOLVED, "addresses of one process whose names are asked for")  \
	X(MAPPERS,         1000,        NONE,            "processes that map a library that is probed; each makes it slower to place and remove probes") \
	X(PROCESSES,       1024,        OVER_PROCESSES,  "processes that are followed at the same time")        \
	X(THREADS,         1u << 18,    NONE,            "threads whose names are remembered; beyond, all are recorded again") \
	X(SAMPLED_THREADS, 8192,        OVER_THREADS,    "threads that do not run and are read for one sample of all; of one process at most half of what is left") \
	X(STEP_THREADS,    1u << 17,    NONE,            "threads with annotations that live at the same time; steps of more are not counted") \
	X(TASK_EVENTS,     1u << 16,    OVER_PROCESSES,  "forks and execs in one round of draining")            \
	X(AGENT_FILES,     64,          NONE,            "files of one process that have the agent's name; those beyond are not examined") \
	X(AGENT_STREAMS,   1u << 16,    OVER_AGENT,      "streams of one agent whose chunks are numbered; beyond, all are counted anew")\
	X(AGENT_NAMES,     1u << 16,    OVER_AGENT,      "names of GPU activities of one agent")                \
	X(AGENT_THREADS,   1u << 16,    NONE,            "threads of one agent in another pid namespace; beyond, all are asked for again") \
	X(AGENT_OPEN,      1u << 14,    OVER_AGENT,      "operators of one agent that are open when the window begins") \
	X(AGENT_OPEN_BYTES, 8u << 20,   OVER_AGENT,      "bytes of their records")                               \
	X(AGENT_STACKS,    1u << 18,    OVER_AGENT,      "Python stacks of one agent whose operators have not come; beyond, these operators have none") \
	X(AGENT_HELD,      64u << 20,   NONE,            "bytes of one agent that wait for a pair of clocks; more is written with the clocks at hand") \
	X(AGENT_QUEUED,    128u << 20,  OVER_AGENT,      "bytes of one agent's chunks that have come and are not taken yet") \
	X(AGENT_CLOCKS,    1u << 16,    NONE,            "pairs of clocks of one agent that are kept; the older half goes") \
	X(AGENT_FACTS,     1000,        OVER_AGENT,      "records of one agent's clocks, devices and state in one second") \
	X(LIVE_OPS,        100000,      OVER_OPERATORS,  "operators in the dispatcher's table of a process")    \
	X(SCHEMAS_MS,      3000,        OVER_NAMES,      "processor time to read the schemas in the dispatcher of a process, ms; later ones are not read") \
	X(TENSORS,         1u << 21,    NONE,            "tensors, and storages, that live at one time in one capture; beyond, each has a new number wherever it is seen") \
	X(PY_FRAMES,       1u << 18,    NONE,            "positions in Python code whose lines are remembered; beyond, all are read again") \
	X(PY_CODE_BYTES,   64u << 20,   NONE,            "bytes of Python code objects that are remembered; likewise") \
	X(PY_MODULES,      1u << 16,    NONE,            "modules of one process whose attribute paths are remembered; later ones have none") \
	X(PY_MODULES_MS,   3000,        NONE,            "processor time to read them, ms; likewise")            \
	X(PY_VERIFY_MS,    2000,        NONE,            "processor time to verify the layouts of one process's Pythons, ms") \
	X(NATIVE_STACK,    512u << 10,  NONE,            "bytes of a native stack; its outermost frames lie beyond") \
	X(NATIVE_FRAMES,   512,         NONE,            "frames of a native stack; those beyond are outermost") \
	X(NATIVE_STACKS,   64u << 20,   NONE,            "bytes of all native stacks of one process; later threads have none") \
	X(NATIVE_TEXT,     60u << 10,   NONE,            "bytes of a native stack as text; the outermost frames are cut") \
	X(CUDA_LIBS,       64,          OVER_LIBS,       "CUDA libraries of one process")                        \
	X(KERNEL_SYMBOLS,  1u << 21,    NAME_UNRESOLVED, "functions and handles in libraries of one process that are kept to name its kernels; no further library is read") \
	X(KERNEL_LISTS,    128,         NAME_UNRESOLVED, "lists of them, each of which keeps a library open; likewise") \
	X(KERNEL_NAME_MS,  200,         NAME_UNRESOLVED, "processor time to search for one kernel's name, ms") \
	X(KERNEL_SEARCH_MS, 5000,       NAME_UNRESOLVED, "processor time for all kernels' names of one process, ms")      \
	X(ELF_FILE_MIB,    16384,       NONE,            "a library or program that is read, MiB")               \
	X(ELF_MIB,         512,         NONE,            "memory to answer a question about one file, MiB")      \
	X(ELF_CPU_S,       10,          NONE,            "processor time for it, s")                             \
	X(ELF_WALL_MS,     20000,       NONE,            "wall-clock time for it, ms")                           \
	X(ELF_ANSWER,      64u << 20,   NONE,            "bytes of its answer")                                  \
	X(ELF_SPENT_MS,    30000,       NONE,            "time for all files of one process that take long, ms") \
	X(HASH_MIB,        64,          NONE,            "memory to hash one file, MiB; the time is that of a plan") \
	X(PLAN_MIB,        2048,        NONE,            "memory to plan the probes of one process, MiB")        \
	X(PLAN_FILES_MIB,  4096,        NONE,            "its libraries, which are copied to be analysed, MiB")  \
	X(PLAN_CPU_S,      120,         NONE,            "processor time for it, s")                             \
	X(PLAN_WALL_MS,    180000,      NONE,            "wall-clock time for it, ms")                           \
	X(PLAN_CACHE_MIB,  256,         NONE,            "MiB of the cache of plans; the oldest are deleted")      \
	/* reading a capture: so much, and for each byte of the file so much more */                        \
	X(READ_MEMORY,     1 << 30,     NONE,            "bytes of memory")                                      \
	X(READ_MEMORY_PER_BYTE, 20,     NONE,            "(and per byte)")                                       \
	X(READ_CPU_S,      20,          NONE,            "s of processor time")                                  \
	X(READ_BYTES_PER_CPU_S, 2500000, NONE,           "(and one more for so many bytes)")                     \
	X(READ_OUTPUT,     256 << 20,   NONE,            "bytes of a file that is exported")                     \
	X(READ_OUTPUT_PER_BYTE, 256,    NONE,            "(and per byte)")                                       \
	X(STACK_NODES,     1u << 20,    NONE,            "nodes of the tree of calls of a capture; what lies deeper is summed up above them") \
	X(CAPTURES,        512,         NONE,            "captures that are read as one session")                               \
	X(COLLECTIVES,     1u << 20,    NONE,            "collectives of one process that are compared with those of others; later ones are not") \
	X(MANGLED,         4096,        NONE,            "bytes of a mangled C++ name")                          \
	X(DEMANGLED,       64 << 10,    NONE,            "bytes of its demangled form; else it is shown as it is") \
	X(DEMANGLE_MS,     20,          NONE,            "processor time to demangle it, ms; likewise")         \
	X(DEMANGLE_ALL_MS, 3000,        NONE,            "processor time for all names of one process or file, ms; likewise")
/* clang-format on */

enum ptb_limit {
#define X(name, value, counter, meaning) LIMIT_##name = (value),
	PTB_LIMITS(X)
#undef X
};

/*
 * A hard limit on the memory of this process. What others make grow (the *_try_* functions of
 * containers.h, containers.h and containers.h, and allocations that ask here by themselves) is
 * refused when the anonymous resident memory and the request together pass the limit; callers drop
 * what they have no room for and go on. It is measured, not added up: whatever the C library and
 * other libraries use counts, and what was freed may be used again. One state for the process; safe
 * in threads.
 */

/* From now on; 0: no limit. Also forgets earlier refusals. 0, or negative errno: this process's
 * memory cannot be measured. */
int mem_limit__set(uint64_t bytes);
/* May the process grow by so many bytes? False is counted: the caller drops something. */
bool mem_limit__allows(uint64_t bytes);
bool mem_limit__fits(uint64_t bytes); /* likewise, not counted: the caller can do with less */
uint64_t mem_limit__refused(void);    /* times that it may not */

#endif /* BASE_LIMITS_H */
