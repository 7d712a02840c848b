/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Which slots of the bus address space have an owner that lives. registry.c calls these, one at a
 * time, under its lock. */

#ifndef DGMA_LAYER_SLOT_H
#define DGMA_LAYER_SLOT_H

#include <stdbool.h>
#include <stdint.h>

/* false, errno: there are no locks to be had, which is logged. */
bool dgma_slot_ready(void);
/* This process owns the slot from now on, until it gives it back or ends. false, errno: not so;
 * EAGAIN or EACCES: because another process has it just now. */
bool dgma_slot_own(uint32_t slot);
/* Nobody owns the slot, and nobody else will find so until it is given back. Never for a slot that
 * this process owns: it would not be told so, and would lose it. */
bool dgma_slot_claim_dead(uint32_t slot);
void dgma_slot_give(uint32_t slot);
/* Does another process own it? */
bool dgma_slot_is_owned(uint32_t slot);

#endif
