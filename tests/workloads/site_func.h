/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Functions with a known entry site (`push`) and exit site (a conditional jump after the work), for
 * C and C++ programs that are probed by tests, and the protocol that gives the test their addresses.
 * Unwind tables are complete: exceptions pass through them.
 */
#ifndef TESTS_SITE_FUNC_H
#define TESTS_SITE_FUNC_H

#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#ifdef __cplusplus
#define SITE_EXTERN extern "C"
#else
#define SITE_EXTERN extern
#endif

/* NAME(args...) calls BODY(args...) and returns what it returns; sites NAME_enter and NAME_exit. */
#define SITE_FUNC(NAME, BODY)                                                                      \
	__asm__(".pushsection .text.sites,\"ax\",@progbits\n"                                      \
		".balign 16\n"                                                                     \
		".globl " #NAME ", " #NAME "_enter, " #NAME "_exit\n"                              \
		".type " #NAME ", @function\n" #NAME ":\n"                                         \
		".cfi_startproc\n" #NAME "_enter:\n"                                               \
		"	push %rbx\n"                                                                     \
		"	.cfi_adjust_cfa_offset 8\n"                                                      \
		"	.cfi_rel_offset %rbx, 0\n"                                                       \
		"	call " #BODY "@PLT\n"                                                      \
		"	test %rax, %rax\n" #NAME "_exit:\n"                                        \
		"	jne 1f\n"                                                                        \
		"1:	pop %rbx\n"                                                                    \
		"	.cfi_adjust_cfa_offset -8\n"                                                     \
		"	.cfi_restore %rbx\n"                                                             \
		"	ret\n"                                                                           \
		"	.cfi_endproc\n"                                                                  \
		".size " #NAME ", . - " #NAME "\n"                                                 \
		".popsection\n");                                                                  \
	SITE_EXTERN const char NAME##_enter[], NAME##_exit[]

struct site_find {
	uintptr_t addr;
	uint64_t off;
};

static int site_find_segment(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct site_find *f = (struct site_find *)arg;

	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
		uintptr_t begin = info->dlpi_addr + ph->p_vaddr;

		if (ph->p_type == PT_LOAD && f->addr >= begin && f->addr < begin + ph->p_filesz) {
			f->off = f->addr - begin + ph->p_offset;
			return 1;
		}
	}
	return 0;
}

static inline void site_print(const char *name, const char *addr)
{
	struct site_find f;

	f.addr = (uintptr_t)addr;
	f.off = 0;
	dl_iterate_phdr(site_find_segment, &f);
	printf("site %s %lu\n", name, (unsigned long)f.off);
}

#define SITE_PRINT(NAME)                                                                           \
	do {                                                                                       \
		site_print(#NAME "_enter", NAME##_enter);                                          \
		site_print(#NAME "_exit", NAME##_exit);                                            \
	} while (0)

/* For dl_iterate_phdr(): prints the module and the offset of a thread-local variable of the executable. */
static inline int site_print_tls(struct dl_phdr_info *info, size_t size, void *var)
{
	(void)size;
	if (info->dlpi_tls_data) {
		printf("site tls_module %lu\n", (unsigned long)info->dlpi_tls_modid);
		printf("site tls_offset %lu\n",
		       (unsigned long)((const char *)var - (const char *)info->dlpi_tls_data));
	}
	return 1; /* the executable comes first */
}

#endif /* TESTS_SITE_FUNC_H */
