/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What bindgen reads: the API, and those of its constants that it cannot compute as macros. */
#include <gpudirect/gpudirect.h>

static const uint64_t gpud_modifier_implicit = GPUD_MODIFIER_IMPLICIT;
static const uint32_t gpud_event_sticky = GPUD_EVENT_STICKY;
