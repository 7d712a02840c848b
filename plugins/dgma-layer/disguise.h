/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* GPUDIRECT_DGMA_AS=firepro or firepro:N: what programs that were written for FirePro cards look
 * for before they use DirectGMA. disguise.c says which devices there are, firepro.c what they
 * answer. */

#ifndef DGMA_LAYER_DISGUISE_H
#define DGMA_LAYER_DISGUISE_H

#include "dgma.h"

/* A device that is shown as a card. Its handle is the driver's device, or, for an alias of one, the
 * address of this. */
struct dgma_card {
    void *dispatch;      /* as in every handle: a loader may look */
    cl_device_id device; /* the driver's */
    unsigned index;      /* from 0, over all platforms */
};

/* Reads the variable. Without it, or with nonsense, nothing is installed and all that follows says
 * no. */
void dgma_disguise_install(cl_icd_dispatch *table);
/* NULL: this device is shown as what it is. */
const struct dgma_card *dgma_card_get(cl_device_id device);
/* The driver's device, of a card; any other device is itself. */
cl_device_id dgma_card_device(cl_device_id device);
bool dgma_platform_is_disguised(cl_platform_id platform);
/* Functions that exist only under a name, for loaders of extensions; NULL: none of ours. */
void *dgma_disguise_function(const char *name);

/* The cards that a context, a queue or a program was made for, as the program named them. */
struct dgma_cards {
    cl_uint count;
    cl_device_id devices[];
};
extern struct dgma_table dgma_context_cards, dgma_queue_cards, dgma_program_cards;

/* count 0: forgets. */
void dgma_cards_remember(struct dgma_table *table, const void *key, cl_uint count,
                         const cl_device_id *devices);
void dgma_alias_install(cl_icd_dispatch *table);
void dgma_alias_info_install(cl_icd_dispatch *table);
void *dgma_alias_function(const char *name);

/* One question of clGetDeviceInfo or clGetPlatformInfo. */
struct dgma_answer {
    size_t size;
    union {
        char text[128];
        cl_uint number;
        cl_ulong wide;
        size_t sizes[2];
        cl_device_id none;
        cl_device_partition_property partition;
        uint8_t bytes[24];
    };
};

/* false: the driver is to answer. */
bool dgma_firepro_device(const struct dgma_card *card, cl_device_info name,
                         struct dgma_answer *answer);
bool dgma_firepro_platform(cl_platform_id platform, cl_platform_info name,
                           struct dgma_answer *answer);

#endif
