/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Residency: an address or an error, never success without an address. Also on PoCL's `basic`
 * device, which returns from clWaitForEvents and clFinish before a command behind a user event has
 * ended, and which is not to be used any more after the first failed event. */

#include "common.h"

#include <threads.h>

static void plain(struct cl *cl)
{
    cl_mem bus[64];
    struct bus_address address[64];
    for (int i = 0; i < 64; i++) {
        bus[i] = new_bus(cl, PAGE);
        address[i] = resident(cl, bus[i]);
        CHECK(address[i].surface && address[i].marker == address[i].surface + PAGE);
    }
    for (int i = 0; i < 64; i++)
        clReleaseMemObject(bus[i]);
}

/* Behind an event that has failed before. */
static void failed_before(struct cl *cl)
{
    struct bus_address address = {1, 1};
    cl_int status;
    AUTO(drop_mem) cl_mem bus = new_bus(cl, PAGE);
    struct bus_address good = resident(cl, bus);
    AUTO(drop_mem)
    cl_mem external = clCreateBuffer(cl->context, EXTERNAL_PHYSICAL, PAGE, &good, &status);
    OK(status);
    AUTO(drop_event) cl_event bad = new_user_event(cl);
    cl_event none = NULL;
    OK(clSetUserEventStatus(bad, -5));
    for (cl_bool blocking = CL_FALSE; blocking <= CL_TRUE; blocking++) {
        CHECK_CL(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST,
                 cl->make_resident(cl->queue, 1, &bus, blocking, &address, 1, &bad, &none));
        CHECK(!none && address.surface == 0 && address.marker == 0);
    }
    CHECK_CL(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST,
             cl->wait_signal(cl->queue, bus, 1, 1, &bad, &none));
    CHECK_CL(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST,
             cl->write_signal(cl->queue, external, 1, 0, 1, &bad, &none));
    OK(clFinish(cl->queue));
    plain(cl); /* the queue goes on */
}

static int fail_later(void *user_data)
{
    sleep_ms(50);
    OK(clSetUserEventStatus(user_data, -5));
    return 0;
}

/* Behind one that fails while the program waits. */
static void fails_meanwhile(struct cl *cl)
{
    struct bus_address address = {1, 1};
    cl_mem bus = new_bus(cl, PAGE);
    cl_event bad = new_user_event(cl);
    thrd_t thread;
    CHECK(thrd_create(&thread, fail_later, bad) == thrd_success);
    CHECK_CL(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST,
             cl->make_resident(cl->queue, 1, &bus, CL_TRUE, &address, 1, &bad, NULL));
    CHECK(address.surface == 0 && address.marker == 0);
    CHECK(thrd_join(thread, NULL) == thrd_success);
}

int main(void)
{
    struct cl cl = open_cl(120);
    plain(&cl);
    failed_before(&cl);
    fails_meanwhile(&cl);
    return 0;
}
