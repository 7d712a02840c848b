/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Signals and data within one process: one context and two, in-order and out-of-order queues, wait
 * lists that fail, events and their types.
 *
 * resident: an address or an error, never success without an address. Also on PoCL's `basic`
 * device, which returns from clWaitForEvents and clFinish before a command behind a user event has
 * ended, and which is not to be used any more after the first failed event. */

#include "common.h"

#include <string.h>
#include <threads.h>

enum { SIZE = 3 * 4096 + 100 };

/* Ten frames, each copied, signalled, waited for and compared. */
static void frames(struct cl *owner, struct cl *writer)
{
    AUTO(close_pair) struct pair pair = open_pair(owner, writer, SIZE);
    AUTO(drop_queue) cl_command_queue wq = new_queue(writer, 0, false);
    AUTO(drop_queue) cl_command_queue rq = new_queue(owner, 0, false);
    AUTO(drop_mem) cl_mem frame = new_plain(writer, SIZE);
    unsigned char back[SIZE];
    for (cl_uint n = 1; n <= 10; n++) {
        unsigned char byte = (unsigned char)(n * 17);
        AUTO(drop_event) cl_event read = NULL;
        /* the reader comes first and has to wait */
        OK(owner->wait_signal(rq, pair.bus, n, 0, NULL, NULL));
        OK(clEnqueueReadBuffer(rq, pair.bus, CL_FALSE, 0, SIZE, back, 0, NULL, &read));
        OK(clFlush(rq));
        if (n < 3)
            CHECK(event_stays_open(read, 20));
        fill(wq, frame, 0, SIZE, byte);
        OK(clEnqueueCopyBuffer(wq, frame, pair.external, 0, 0, SIZE, 0, NULL, NULL));
        OK(writer->write_signal(wq, pair.external, n, 0, 0, NULL, NULL));
        CHECK(event_done_within(read, 5000) && event_status(read) == CL_COMPLETE);
        for (size_t i = 0; i < SIZE; i++)
            if (back[i] != byte)
                FAIL("frame %u: byte %zu is %d, not %d", n, i, back[i], byte);
    }
    OK(clFinish(wq));
}

/* A wait stalls everything behind it, also behind an earlier wait that is still open. */
static void stalls(struct cl *cl, bool out_of_order)
{
    AUTO(close_pair) struct pair a = open_pair(cl, cl, SIZE);
    AUTO(close_pair) struct pair b = open_pair(cl, cl, SIZE);
    AUTO(drop_queue) cl_command_queue q = new_queue(cl, 0, out_of_order);
    AUTO(drop_mem) cl_mem plain = new_plain(cl, PAGE);
    AUTO(drop_event) cl_event first = NULL, second = NULL, behind = NULL;
    unsigned byte = 1;
    OK(cl->wait_signal(q, a.bus, 0x80000001u, 0, NULL, &first)); /* unsigned */
    OK(cl->wait_signal(q, b.bus, 5, 0, NULL, &second));
    OK(clEnqueueFillBuffer(q, plain, &byte, 4, 0, PAGE, 0, NULL, &behind));
    CHECK(event_stays_open(first, 30));
    OK(cl->write_signal(cl->queue, a.external, 4, 0, 0, NULL, NULL));
    OK(cl->write_signal(cl->queue, b.external, 5, 0, 0, NULL, NULL));
    OK(clFinish(cl->queue));
    CHECK(event_stays_open(first, 30));
    CHECK(event_status(behind) > CL_COMPLETE);
    OK(cl->write_signal(cl->queue, a.external, 0x80000002u, 0, 0, NULL, NULL)); /* more will do */
    CHECK(event_done_within(behind, 5000));
    CHECK(event_status(first) == CL_COMPLETE && event_status(second) == CL_COMPLETE);
    OK(clFinish(q));
}

/* A write comes after what its queue did before, and after its wait list. */
static void write_order(struct cl *cl, bool out_of_order)
{
    AUTO(close_pair) struct pair pair = open_pair(cl, cl, SIZE);
    AUTO(drop_queue) cl_command_queue q = new_queue(cl, 0, out_of_order);
    AUTO(drop_queue) cl_command_queue other = new_queue(cl, 0, false);
    AUTO(drop_event) cl_event earlier = new_user_event(cl), list = new_user_event(cl);
    AUTO(drop_event) cl_event held = NULL, written = NULL, waited = NULL;
    OK(clEnqueueMarkerWithWaitList(q, 1, &earlier, &held));
    OK(cl->write_signal(q, pair.external, 1, 0, 1, &list, &written));
    OK(cl->wait_signal(other, pair.bus, 1, 0, NULL, &waited));
    clSetUserEventStatus(list, CL_COMPLETE);
    CHECK(event_stays_open(waited, 30) && event_status(written) > CL_COMPLETE);
    clSetUserEventStatus(earlier, CL_COMPLETE);
    CHECK(event_done_within(written, 5000) && event_done_within(waited, 5000));
    OK(clFinish(other));
}

/* In an in-order queue a reset counts before the wait behind it, though the old value would do. */
static void reset_before_wait(struct cl *cl)
{
    AUTO(close_pair) struct pair pair = open_pair(cl, cl, SIZE);
    AUTO(drop_queue) cl_command_queue q = new_queue(cl, 0, false);
    AUTO(drop_queue) cl_command_queue release = new_queue(cl, 0, false);
    AUTO(drop_event) cl_event go = new_user_event(cl), waited = NULL, stale = NULL;
    OK(cl->write_signal(q, pair.external, 9, 0, 0, NULL, NULL));
    OK(clFinish(q));
    OK(cl->wait_signal(q, pair.bus, 5, 0, NULL, &stale)); /* satisfied already */
    CHECK(event_done_within(stale, 5000));
    OK(cl->write_signal(q, pair.external, 0, 0, 1, &go, NULL));
    OK(cl->wait_signal(q, pair.bus, 5, 0, NULL, &waited));
    clSetUserEventStatus(go, CL_COMPLETE);
    CHECK(event_stays_open(waited, 30));
    OK(cl->write_signal(release, pair.external, 5, 0, 0, NULL, NULL));
    CHECK(event_done_within(waited, 5000));
    OK(clFinish(release));
}

/* A wait list that fails fails the command; no queue hangs, no signal is written. */
static void failed_wait_list(struct cl *cl)
{
    AUTO(close_pair) struct pair pair = open_pair(cl, cl, SIZE);
    for (int round = 0; round < 3; round++) {
        AUTO(drop_queue) cl_command_queue q = new_queue(cl, 0, round == 1);
        AUTO(drop_event) cl_event bad = new_user_event(cl), failed = NULL;
        if (round < 2)
            OK(cl->wait_signal(q, pair.bus, 1, 1, &bad, &failed));
        else
            OK(cl->write_signal(q, pair.external, 1, 0, 1, &bad, &failed));
        clSetUserEventStatus(bad, -5);
        CHECK(event_done_within(failed, 5000) && event_status(failed) < 0);
        OK(clFinish(q));
        sleep_ms(5); /* no other thread touches these events while the queue unwinds */
    }
    AUTO(drop_queue) cl_command_queue q = new_queue(cl, 0, false);
    AUTO(drop_event) cl_event waited = NULL;
    OK(cl->wait_signal(q, pair.bus, 1, 0, NULL, &waited));
    CHECK(event_stays_open(waited, 30));
    OK(cl->write_signal(cl->queue, pair.external, 1, 0, 0, NULL, NULL));
    CHECK(event_done_within(waited, 5000));
}

static void resident_without_blocking(struct cl *cl)
{
    AUTO(drop_mem) cl_mem first = new_bus(cl, PAGE), second = new_bus(cl, 5 * PAGE);
    AUTO(drop_queue) cl_command_queue q = new_queue(cl, 0, false);
    AUTO(drop_event) cl_event go = new_user_event(cl), done = NULL;
    struct bus_address address[2] = {{3, 3}, {3, 3}};
    cl_mem bus[2] = {first, second};
    OK(cl->make_resident(q, 2, bus, CL_FALSE, address, 1, &go, &done));
    CHECK(event_type(done) == COMMAND_MAKE_RESIDENT);
    CHECK(event_stays_open(done, 20) && address[0].surface == 0 && address[1].marker == 0);
    clSetUserEventStatus(go, CL_COMPLETE);
    CHECK(event_done_within(done, 5000));
    CHECK(address[0].surface && address[1].marker == address[1].surface + 5 * PAGE);
    CHECK(address[0].surface != address[1].surface);
    struct bus_address again = resident(cl, bus[0]);
    CHECK(again.surface == address[0].surface && again.marker == address[0].marker);
}

static void event_facts(struct cl *cl)
{
    AUTO(close_pair) struct pair pair = open_pair(cl, cl, SIZE);
    AUTO(drop_queue) cl_command_queue waiting = new_queue(cl, 0, false);
    AUTO(drop_event) cl_event waited = NULL, written = NULL;
    OK(cl->wait_signal(waiting, pair.bus, 1, 0, NULL, &waited));
    OK(cl->write_signal(cl->queue, pair.external, 1, 0, 0, NULL, &written));
    OK(clFinish(waiting));
    OK(clFinish(cl->queue));
    CHECK(event_type(waited) == COMMAND_WAIT_SIGNAL && event_type(written) == COMMAND_WRITE_SIGNAL);
    cl_event both[2] = {waited, written};
    for (int i = 0; i < 2; i++) {
        static const cl_profiling_info names[] = {CL_PROFILING_COMMAND_START,
                                                  CL_PROFILING_COMMAND_END};
        for (int k = 0; k < 2; k++) {
            cl_ulong at;
            OK(clGetEventProfilingInfo(both[i], names[k], sizeof at, &at, NULL));
            CHECK(at > 0); /* in this order on PoCL; NVIDIA's barriers may end before they start */
        }
    }
    cl_command_queue of;
    OK(clGetEventInfo(waited, CL_EVENT_COMMAND_QUEUE, sizeof of, &of, NULL));
    CHECK(of == waiting);
    OK(clRetainEvent(waited));
    OK(clReleaseEvent(waited));
    CHECK(event_type(waited) == COMMAND_WAIT_SIGNAL);
    /* handles come again: what was a signal must not be taken for one any more */
    cl_event events[64];
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 64; i++)
            OK(round == 0 ? cl->wait_signal(waiting, pair.bus, 1, 0, NULL, &events[i])
                          : clEnqueueMarkerWithWaitList(waiting, 0, NULL, &events[i]));
        OK(clFinish(waiting));
        for (int i = 0; i < 64; i++)
            CHECK(event_type(events[i]) == (round == 0 ? COMMAND_WAIT_SIGNAL : CL_COMMAND_MARKER));
        for (int i = 0; i < 64; i++)
            clReleaseEvent(events[i]);
    }
}

/* Two devices of one context: one writes, the other waits. */
static void two_devices(struct cl *cl)
{
    AUTO(close_pair) struct pair pair = open_pair(cl, cl, SIZE);
    AUTO(drop_queue) cl_command_queue second = new_queue(cl, 1, false);
    AUTO(drop_event) cl_event read = NULL;
    unsigned char back[SIZE] = {0};
    OK(cl->wait_signal(second, pair.bus, 1, 0, NULL, NULL));
    OK(clEnqueueReadBuffer(second, pair.bus, CL_FALSE, 0, SIZE, back, 0, NULL, &read));
    OK(clFlush(second));
    fill(cl->queue, pair.external, 0, SIZE, 0x3c);
    OK(cl->write_signal(cl->queue, pair.external, 1, 0, 0, NULL, NULL));
    CHECK(event_done_within(read, 5000));
    CHECK(back[0] == 0x3c && back[SIZE - 1] == 0x3c);
    /* and back, written by the second device */
    OK(clEnqueueMigrateMemObjects(second, 1, &pair.external, 0, 0, NULL, NULL));
    fill(second, pair.external, 0, SIZE, 0xc3);
    OK(cl->write_signal(second, pair.external, 2, 0, 0, NULL, NULL));
    OK(cl->wait_signal(cl->queue, pair.bus, 2, 0, NULL, NULL));
    read_back(cl->queue, pair.bus, SIZE, back);
    CHECK(back[0] == 0xc3 && back[SIZE - 1] == 0xc3);
}

/* --- resident --------------------------------------------------------------------------------- */

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

int main(int argc, char **argv)
{
    struct cl cl = open_cl(120);
    if (argc > 1 && strcmp(argv[1], "resident") == 0) {
        plain(&cl);
        failed_before(&cl);
        fails_meanwhile(&cl);
        return 0; /* its queue has failed */
    }
    if (argc > 1 && strcmp(argv[1], "two-devices") == 0) {
        CHECK(cl.num_devices >= 2);
        two_devices(&cl);
        close_cl(&cl);
        return 0;
    }
    struct cl second = cl;
    open_context(&second);
    frames(&cl, &cl);
    frames(&cl, &second);
    for (int out_of_order = 0; out_of_order < 2; out_of_order++) {
        stalls(&cl, out_of_order);
        write_order(&cl, out_of_order);
    }
    reset_before_wait(&cl);
    failed_wait_list(&cl);
    resident_without_blocking(&cl);
    event_facts(&cl);
    close_cl(&second);
    close_cl(&cl);
    return 0;
}
