/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "unfollowed.h"

#include <stdatomic.h>

#include "next.h"

static atomic_bool any;

void dgma_unfollowed_note(const char *function)
{
    if (!atomic_exchange(&any, true))
        dgma_log("what %s writes is not followed: each WriteSignal sends its whole buffer",
                 function);
}

bool dgma_unfollowed_any(void)
{
    return atomic_load(&any);
}
