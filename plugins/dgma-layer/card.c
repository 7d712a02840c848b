/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "card.h"

#include <stdlib.h>
#include <string.h>

static struct dgma_table card_table = DGMA_TABLE_INIT;
struct dgma_table dgma_context_cards = DGMA_TABLE_INIT;
struct dgma_table dgma_queue_cards = DGMA_TABLE_INIT;
struct dgma_table dgma_program_cards = DGMA_TABLE_INIT;

bool dgma_card_put(cl_device_id handle, struct dgma_card *card)
{
    return dgma_table_put(&card_table, handle, card);
}

const struct dgma_card *dgma_card_get(cl_device_id device)
{
    return dgma_table_get(&card_table, device);
}

cl_device_id dgma_card_device(cl_device_id device)
{
    const struct dgma_card *card = dgma_card_get(device);
    return card ? card->device : device;
}

void dgma_cards_remember(struct dgma_table *table, const void *key, cl_uint count,
                         const cl_device_id *devices)
{
    free(dgma_table_take(table, key)); /* that of a released object with the same handle */
    struct dgma_cards *cards = NULL;
    if (count == 0)
        return;
    cards = malloc(sizeof *cards + count * sizeof devices[0]);
    if (cards) {
        cards->count = count;
        memcpy(cards->devices, devices, count * sizeof devices[0]);
        if (dgma_table_put(table, key, cards))
            return;
        free(cards);
    }
    dgma_log("out of memory: an object shows fewer cards than it was made for");
}
