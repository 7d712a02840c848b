/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Devices that are shown as cards, and the objects that were made for them. */

#ifndef DGMA_LAYER_CARD_H
#define DGMA_LAYER_CARD_H

#include <stdbool.h>

#include "next.h"
#include "table.h"

enum { DGMA_MAX_CONTEXT_DEVICES = 64 };

/* A device that is shown as a card. Its handle is the driver's device or, for an alias, the address
 * of this struct. */
struct dgma_card {
    void *dispatch;      /* first in every handle, for loaders */
    cl_device_id device; /* the driver's */
    unsigned index;      /* from 0, over all platforms */
};

/* Shows this handle as the card from now on. false: no memory */
bool dgma_card_put(cl_device_id handle, struct dgma_card *card);
/* NULL: this device is not disguised. */
const struct dgma_card *dgma_card_get(cl_device_id device);
/* The driver's device, of a card; any other device is itself. */
cl_device_id dgma_card_device(cl_device_id device);

/* The cards that a context, a queue or a program was made for, as the program named them. */
struct dgma_cards {
    cl_uint count;
    cl_device_id devices[];
};
extern struct dgma_table dgma_context_cards, dgma_queue_cards, dgma_program_cards;

/* count 0: forgets. */
void dgma_cards_remember(struct dgma_table *table, const void *key, cl_uint count,
                         const cl_device_id *devices);

#endif
