/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The software DirectGMA layer. It is installed in the folder gpudirect beside libgpudirect, lies
 * beside it in a bundle, and in a folder of its own in a build. */
#include "info.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

#define LAYER "libgpudirect-dgma-layer.so"

static char *absolute(const char *directory, const char *below)
{
    char *joined = g_build_filename(directory, below, LAYER, NULL);
    char *resolved = realpath(joined, NULL);
    char *path = g_strdup(resolved);
    free(resolved);
    g_free(joined);
    return path;
}

static char *find_beside_library(void)
{
    Dl_info library;
    if (!dladdr((void *)gpud_version_string, &library) || !library.dli_fname)
        return NULL;
    char *directory = g_path_get_dirname(library.dli_fname);
    static const char *const places[] = {"gpudirect", "", "../plugins/dgma-layer"};
    char *path = NULL;
    for (size_t i = 0; i < G_N_ELEMENTS(places) && !path; i++)
        path = absolute(directory, places[i]);
    g_free(directory);
    return path;
}

static int is_layer(struct dl_phdr_info *object, size_t size, void *user)
{
    char **loaded = user;
    if (!object->dlpi_name || !g_str_has_suffix(object->dlpi_name, "/" LAYER))
        return 0;
    *loaded = g_strdup(object->dlpi_name);
    return 1;
}

void info_find_layer(struct info_report *report)
{
    struct info_layer *layer = &report->layer;
    layer->path = find_beside_library();
    dl_iterate_phdr(is_layer, &layer->loaded);
    layer->helps = g_ptr_array_new();
    for (size_t i = 0; i < report->devices; i++) {
        struct gpud_device_info *device = &report->device[i];
        if (device->available && !device->direct_writes &&
            g_str_has_prefix(device->name, "opencl:"))
            g_ptr_array_add(layer->helps, device->name);
    }
    if (!layer->path || layer->loaded || layer->helps->len == 0)
        return;
    const char *others = g_getenv("OPENCL_LAYERS");
    bool first = !others || !others[0];
    char *layers = g_strdup_printf("%s%s%s", first ? "" : others, first ? "" : ":", layer->path);
    char *quoted = g_shell_quote(layers);
    bool plain = !strpbrk(layers, " \t'\"\\$`&;()<>|*?[]#~");
    layer->hint =
        g_strdup_printf("OPENCL_LAYERS=%s %s", plain ? layers : quoted, program_invocation_name);
    g_free(quoted);
    g_free(layers);
}
