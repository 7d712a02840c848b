/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Writes by the program that the layer cannot track. */

#ifndef DGMA_LAYER_UNFOLLOWED_H
#define DGMA_LAYER_UNFOLLOWED_H

#include <stdbool.h>

/* From now on everything counts as written. function: the one that writes, for the log. */
void dgma_unfollowed_note(const char *function);
bool dgma_unfollowed_any(void);

#endif
