/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Captures: a card's driver writes the ring. */
#ifndef GPUD_CAPTURE_CAPTURE_H
#define GPUD_CAPTURE_CAPTURE_H

#include "capture/internal.h"
#include <gpudirect/cards.h>

/* === capture ================================================================================= */

/* gpud_capture_create() with opened devices and a given system (the kernel, or a test's). Takes
 * references. */
enum gpud_status gpud_capture_open(struct gpud_device *device, struct gpud_device *host,
                                   const struct gpud_capture_params *params,
                                   const struct gpud_v4l2_system *system,
                                   struct gpud_capture **capture, struct gpud_error *error);

/* === cards =================================================================================== */

/* The PCI address of a node's card, "/dev/video0"; "": it has none. */
void gpud_capture_find_card(const char *node, char *pci, size_t size);

/* gpud_capture_card_list_create() with a given system (the kernel, or a test's). */
enum gpud_status gpud_capture_card_list_look(struct gpud_context *context,
                                             const struct gpud_v4l2_system *system,
                                             struct gpud_capture_card_list **cards, uint32_t *count,
                                             struct gpud_error *error);

#endif
