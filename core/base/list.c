/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "base/list.h"

#include "base/sized.h"

#include <stdlib.h>
#include <string.h>

void *gpud_list_add(struct gpud_list *list, struct gpud_error *error)
{
    char *grown = realloc(list->entries, list->entry_size * (list->count + 1));
    if (!grown) {
        gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a list of %ss", list->what);
        return NULL;
    }
    list->entries = grown;
    char *entry = memset(grown + list->entry_size * list->count++, 0, list->entry_size);
    memcpy(entry, &list->record_size, sizeof(list->record_size));
    return entry;
}

void *gpud_list_entry(const struct gpud_list *list, uint32_t index)
{
    return list->entries + list->entry_size * index;
}

enum gpud_status gpud_list_get_info(const struct gpud_list *list, uint32_t index, void *info,
                                    struct gpud_error *error)
{
    size_t size;
    memcpy(&size, info, sizeof(size));
    if (index >= list->count)
        return gpud_fail(error, GPUD_INVALID, "%s %u of %u", list->what, index, list->count);
    if (size < sizeof(size))
        return gpud_fail(error, GPUD_INVALID,
                         "the size of the record of a %s is not set: use GPUD_INFO_INIT",
                         list->what);
    gpud_sized_copy(info, size, gpud_list_entry(list, index), list->record_size);
    return GPUD_OK;
}

void *gpud_list_point(void *entries, size_t count, size_t entry_size)
{
    void **pointers = calloc(count + 1, sizeof(*pointers));
    for (size_t i = 0; pointers && i < count; i++)
        pointers[i] = (char *)entries + entry_size * i;
    return pointers;
}

void gpud_list_clear(struct gpud_list *list)
{
    free(list->entries);
    list->entries = NULL;
    list->count = 0;
}
