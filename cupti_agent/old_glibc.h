/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Included before each file of the agent by the compiler (CMakeLists.txt): binds these functions
 * as of glibc 2.17, so that a library which was built with a newer one loads in older containers.
 * Newer versions of them differ in the file that defines them; glob() also in dangling links.
 */
#ifndef PTBPF_OLD_GLIBC_H
#define PTBPF_OLD_GLIBC_H

#define AS_OF(version, name) __asm__(".symver " #name "," #name "@GLIBC_" #version)

AS_OF(2.3.3, dlinfo);
AS_OF(2.2.5, dladdr);
AS_OF(2.2.5, dlclose);
AS_OF(2.2.5, dlopen);
AS_OF(2.2.5, dlsym);
AS_OF(2.2.5, glob);
AS_OF(2.2.5, pthread_attr_setstacksize);
AS_OF(2.2.5, pthread_create);
AS_OF(2.2.5, pthread_key_create);
AS_OF(2.2.5, pthread_mutex_timedlock);
AS_OF(2.2.5, pthread_mutex_trylock);
AS_OF(2.12, pthread_setname_np);
AS_OF(2.2.5, pthread_setspecific);
AS_OF(2.2.5, pthread_sigmask);

#undef AS_OF

#endif /* PTBPF_OLD_GLIBC_H */
