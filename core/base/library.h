/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Shared libraries that are opened when something of theirs is first needed. A process that sends
 * from memory to memory of its host maps none of them, and one that lacks a library goes on without
 * what needs it.
 *
 * The code calls their functions as if they were linked. Where a file of stubs is linked instead,
 * each function is a jump through a pointer, which gpud_library_open() fills in; before that the
 * function must not be called. Programs that are made of the same objects and link the libraries
 * themselves, such as tests, have no stubs: there the struct, which is declared weak, has no
 * address, and the library counts as open.
 *
 *     #define OPENCL(FUNCTION) FUNCTION(clCreateBuffer) FUNCTION(clCreateContext)
 *     GPUD_STUBS(opencl, OPENCL, "libOpenCL.so.1", "ocl-icd-libopencl1")
 *
 * Uses nothing else of the core, because the plugin builds it too. */
#ifndef GPUD_BASE_LIBRARY_H
#define GPUD_BASE_LIBRARY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct gpud_library_function {
    const char *name; /* NULL: the end */
    void **pointer;
};

struct gpud_library {
    const char *file;    /* "libOpenCL.so.1" */
    const char *package; /* of Debian, that has it */
    const struct gpud_library_function *functions;
    atomic_bool is_open;
};

/* Opens it for good, unless it is open. false: it is missing or lacks a function, and a sentence
 * says so. NULL is open. Any thread may call it. */
bool gpud_library_open(struct gpud_library *library, char *why, size_t size);

/* Whether the process has loaded it, by whatever part of it. Loads nothing. */
bool gpud_library_is_loaded(const struct gpud_library *library);

/* --- stubs ----------------------------------------------------------------------------------- */

/* Processors that are not here have no stubs. */
/* clang-format off */
#if defined(__x86_64__)
#define GPUD_STUB_JUMP(pointer) "endbr64\n jmp *" pointer "(%rip)\n"
#elif defined(__aarch64__)
#define GPUD_STUB_JUMP(pointer) \
    "hint #34\n adrp x16, " pointer "\n ldr x16, [x16, :lo12:" pointer "]\n br x16\n"
#endif

#define GPUD_STUB(name)                                                           \
    __attribute__((visibility("hidden"), used)) void *gpud_stub_##name;           \
    __asm__(".pushsection .text\n .balign 16\n .globl " #name "\n"                \
            " .hidden " #name "\n .type " #name ", %function\n" #name ":\n "      \
            GPUD_STUB_JUMP("gpud_stub_" #name)                                    \
            ".size " #name ", . - " #name "\n .popsection");
/* clang-format on */

#define GPUD_STUB_ENTRY(name) {#name, &gpud_stub_##name},

#define GPUD_STUBS(name, FUNCTIONS, library_file, library_package)                    \
    FUNCTIONS(GPUD_STUB)                                                              \
    static const struct gpud_library_function name##_functions[] = {                  \
        FUNCTIONS(GPUD_STUB_ENTRY){NULL, NULL}};                                      \
    __attribute__((visibility("hidden"))) struct gpud_library gpud_library_##name = { \
        .file = library_file, .package = library_package, .functions = name##_functions};

#endif
