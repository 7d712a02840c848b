/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#ifndef GPUD_CAPTURE_CARDS_H
#define GPUD_CAPTURE_CARDS_H

#include "capture/v4l2.h"
#include <gpudirect/cards.h>

/* The PCI address of a node's card, "/dev/video0"; "": it has none. */
void gpud_capture_find_card(const char *node, char *pci, size_t size);

/* gpud_capture_card_list_create() with a given system (the kernel, or a test's). */
enum gpud_status gpud_capture_card_list_look(struct gpud_context *context,
                                             const struct gpud_v4l2_system *system,
                                             struct gpud_capture_card_list **cards, uint32_t *count,
                                             struct gpud_error *error);

#endif
