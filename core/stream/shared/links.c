/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "stream/shared/links.h"

#include <stdlib.h>

void gpud_link_list_init(struct gpud_link_list *list, struct gpud_link_info *links, uint32_t count)
{
    list->list = (struct gpud_list){.what = "link",
                                    .entry_size = sizeof(*links),
                                    .record_size = sizeof(*links),
                                    .entries = (char *)links,
                                    .count = count};
}

void gpud_link_list_destroy(struct gpud_link_list **list)
{
    if (!list || !*list)
        return;
    gpud_list_clear(&(*list)->list);
    free(*list);
    *list = NULL;
}

uint32_t gpud_link_list_count(const struct gpud_link_list *list)
{
    return list->list.count;
}

enum gpud_status gpud_link_list_get_info(const struct gpud_link_list *list, uint32_t index,
                                         struct gpud_link_info *info, struct gpud_error *error)
{
    return gpud_list_get_info(&list->list, index, info, error);
}
