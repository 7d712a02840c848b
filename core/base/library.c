/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Opens libraries that are not linked. */
#include "base/library.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

bool gpud_library_open(struct gpud_library *library, char *why, size_t size)
{
    if (!library || atomic_load_explicit(&library->is_open, memory_order_acquire))
        return true;
    void *handle = dlopen(library->file, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        snprintf(why, size, "%s cannot be loaded (%.200s): install it (Debian: apt install %s)",
                 library->file, dlerror(), library->package);
        return false;
    }
    for (const struct gpud_library_function *each = library->functions; each->name; each++) {
        void *function = dlsym(handle, each->name);
        if (!function) {
            snprintf(why, size, "%s has no %s: install a newer one (Debian: apt install %s)",
                     library->file, each->name, library->package);
            return false;
        }
        /* Two threads may do so at a time: they store the same. */
        __atomic_store_n(each->pointer, function, __ATOMIC_RELAXED);
    }
    atomic_store_explicit(&library->is_open, true, memory_order_release);
    return true;
}

static int has_name(struct dl_phdr_info *info, size_t size, void *file)
{
    const char *slash = strrchr(info->dlpi_name, '/');
    return strcmp(slash ? slash + 1 : info->dlpi_name, file) == 0;
}

/* dlopen() with RTLD_NOLOAD would search the file system for a library that is not loaded. */
bool gpud_library_is_loaded(const struct gpud_library *library)
{
    return !library || dl_iterate_phdr(has_name, (void *)library->file) != 0;
}
