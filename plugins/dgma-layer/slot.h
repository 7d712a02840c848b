/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Tracks which slots of the bus address space have a live owner. registry.c calls these, one at a
 * time, under its lock. */

#ifndef DGMA_LAYER_SLOT_H
#define DGMA_LAYER_SLOT_H

#include <stdbool.h>
#include <stdint.h>

/* false, errno: locks are not available, which is logged. */
bool dgma_slot_ready(void);
/* Takes the slot for this process, until it gives it back or ends. false, errno: it cannot; EAGAIN
 * or EACCES: another process has it. */
bool dgma_slot_own(uint32_t slot);
/* Claims a slot without an owner exclusively, until it is given back. Not for a slot that this
 * process owns: the call would succeed, and lose it. */
bool dgma_slot_claim_dead(uint32_t slot);
void dgma_slot_give(uint32_t slot);
/* Whether another process owns it. */
bool dgma_slot_is_owned(uint32_t slot);

#endif
