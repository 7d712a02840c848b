/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The layer returns the driver's own events, of a barrier or a host function; only their command
 * type must be AMD's. The driver reuses an event handle after the program has released it, so the
 * program's references are counted here, too. */

#include <stdlib.h>
#include <string.h>

#include "event.h"
#include "next.h"
#include "table.h"

static struct dgma_table events = DGMA_TABLE_INIT;

struct tracked {
    cl_command_type type;
    atomic_uint refs; /* the program's; the driver's own do not count */
};

void dgma_event_track(cl_event event, cl_command_type type)
{
    struct tracked *tracked = malloc(sizeof *tracked);
    if (tracked) {
        tracked->type = type;
        atomic_init(&tracked->refs, 1);
        if (dgma_table_put(&events, event, tracked))
            return;
        free(tracked);
    }
    dgma_log("out of memory: an event shows the driver's command type instead of AMD's");
}

static CL_API_ENTRY cl_int CL_API_CALL retain_event(cl_event event)
{
    struct tracked *tracked = dgma_table_get(&events, event);
    cl_int status = dgma_next.clRetainEvent(event);
    if (tracked && status == CL_SUCCESS)
        atomic_fetch_add(&tracked->refs, 1);
    return status;
}

static CL_API_ENTRY cl_int CL_API_CALL release_event(cl_event event)
{
    struct tracked *tracked = dgma_table_get(&events, event);
    /* Removed before the driver can reuse the handle. */
    if (tracked && atomic_fetch_sub(&tracked->refs, 1) == 1)
        free(dgma_table_take(&events, event));
    return dgma_next.clReleaseEvent(event);
}

static CL_API_ENTRY cl_int CL_API_CALL get_event_info(cl_event event, cl_event_info name,
                                                      size_t size, void *value, size_t *size_ret)
{
    cl_int status = dgma_next.clGetEventInfo(event, name, size, value, size_ret);
    if (status || name != CL_EVENT_COMMAND_TYPE || !value)
        return status;
    const struct tracked *tracked = dgma_table_get(&events, event);
    if (tracked)
        memcpy(value, &tracked->type, sizeof tracked->type);
    return CL_SUCCESS;
}

void dgma_event_install(cl_icd_dispatch *table)
{
    table->clRetainEvent = retain_event;
    table->clReleaseEvent = release_event;
    table->clGetEventInfo = get_event_info;
}
