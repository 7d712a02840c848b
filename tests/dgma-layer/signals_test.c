/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Signals and data within one process: one context and two, in-order and out-of-order queues, wait
 * lists that fail, events and their types. */

#include "common.h"

#include <string.h>

enum { SIZE = 3 * 4096 + 100 };

struct pair {
    cl_mem bus, external;
    struct bus_address address;
};

static struct pair open_pair(struct cl *owner, struct cl *writer)
{
    struct pair pair;
    pair.bus = new_resident(owner, SIZE, &pair.address);
    pair.external = new_external(writer, SIZE, &pair.address);
    return pair;
}

static void close_pair(struct pair *pair)
{
    CHECK_CL(CL_SUCCESS, clReleaseMemObject(pair->external));
    CHECK_CL(CL_SUCCESS, clReleaseMemObject(pair->bus));
}

/* Ten frames, each copied, signalled, waited for and compared. */
static void frames(struct cl *owner, struct cl *writer)
{
    AUTO(close_pair) struct pair pair = open_pair(owner, writer);
    cl_command_queue wq = new_queue(writer, 0, false), rq = new_queue(owner, 0, false);
    cl_int status;
    cl_mem frame = clCreateBuffer(writer->context, CL_MEM_READ_WRITE, SIZE, NULL, &status);
    CHECK_CL(CL_SUCCESS, status);
    unsigned char back[SIZE];
    for (cl_uint n = 1; n <= 10; n++) {
        unsigned char byte = (unsigned char)(n * 17);
        cl_event read;
        /* the reader comes first and has to wait */
        CHECK_CL(CL_SUCCESS, owner->wait_signal(rq, pair.bus, n, 0, NULL, NULL));
        CHECK_CL(CL_SUCCESS,
                 clEnqueueReadBuffer(rq, pair.bus, CL_FALSE, 0, SIZE, back, 0, NULL, &read));
        CHECK_CL(CL_SUCCESS, clFlush(rq));
        if (n < 3)
            CHECK(event_stays_open(read, 20));
        CHECK_CL(CL_SUCCESS, clEnqueueFillBuffer(wq, frame, &byte, 1, 0, SIZE, 0, NULL, NULL));
        CHECK_CL(CL_SUCCESS,
                 clEnqueueCopyBuffer(wq, frame, pair.external, 0, 0, SIZE, 0, NULL, NULL));
        CHECK_CL(CL_SUCCESS, writer->write_signal(wq, pair.external, n, 0, 0, NULL, NULL));
        CHECK(event_done_within(read, 5000) && event_status(read) == CL_COMPLETE);
        for (size_t i = 0; i < SIZE; i++)
            if (back[i] != byte)
                FAIL("frame %u: byte %zu is %d, not %d", n, i, back[i], byte);
        clReleaseEvent(read);
    }
    CHECK_CL(CL_SUCCESS, clFinish(wq));
    clReleaseMemObject(frame);
    clReleaseCommandQueue(wq);
    clReleaseCommandQueue(rq);
}

/* A wait stalls everything behind it, also behind an earlier wait that is still open. */
static void stalls(struct cl *cl, bool out_of_order)
{
    struct pair a = open_pair(cl, cl), b = open_pair(cl, cl);
    cl_command_queue q = new_queue(cl, 0, out_of_order);
    cl_event waited[2], behind;
    cl_int status;
    unsigned byte = 1;
    cl_mem plain = clCreateBuffer(cl->context, CL_MEM_READ_WRITE, PAGE, NULL, &status);
    CHECK_CL(CL_SUCCESS, status);
    CHECK_CL(CL_SUCCESS,
             cl->wait_signal(q, a.bus, 0x80000001u, 0, NULL, &waited[0])); /* unsigned */
    CHECK_CL(CL_SUCCESS, cl->wait_signal(q, b.bus, 5, 0, NULL, &waited[1]));
    CHECK_CL(CL_SUCCESS, clEnqueueFillBuffer(q, plain, &byte, 4, 0, PAGE, 0, NULL, &behind));
    CHECK(event_stays_open(waited[0], 30));
    CHECK_CL(CL_SUCCESS, cl->write_signal(cl->queue, a.external, 4, 0, 0, NULL, NULL));
    CHECK_CL(CL_SUCCESS, cl->write_signal(cl->queue, b.external, 5, 0, 0, NULL, NULL));
    CHECK_CL(CL_SUCCESS, clFinish(cl->queue));
    CHECK(event_stays_open(waited[0], 30));
    CHECK(event_status(behind) > CL_COMPLETE);
    CHECK_CL(CL_SUCCESS, cl->write_signal(cl->queue, a.external, 0x80000002u, 0, 0, NULL,
                                          NULL)); /* more will do */
    CHECK(event_done_within(behind, 5000));
    CHECK(event_status(waited[0]) == CL_COMPLETE && event_status(waited[1]) == CL_COMPLETE);
    CHECK_CL(CL_SUCCESS, clFinish(q));
    clReleaseMemObject(plain);
    clReleaseEvent(behind);
    clReleaseEvent(waited[0]);
    clReleaseEvent(waited[1]);
    clReleaseCommandQueue(q);
    close_pair(&a);
    close_pair(&b);
}

/* A write comes after what its queue did before, and after its wait list. */
static void write_order(struct cl *cl, bool out_of_order)
{
    AUTO(close_pair) struct pair pair = open_pair(cl, cl);
    cl_command_queue q = new_queue(cl, 0, out_of_order), other = new_queue(cl, 0, false);
    cl_int status;
    cl_event earlier = clCreateUserEvent(cl->context, &status),
             list = clCreateUserEvent(cl->context, &status);
    cl_event held, written, waited;
    CHECK_CL(CL_SUCCESS, clEnqueueMarkerWithWaitList(q, 1, &earlier, &held));
    CHECK_CL(CL_SUCCESS, cl->write_signal(q, pair.external, 1, 0, 1, &list, &written));
    CHECK_CL(CL_SUCCESS, cl->wait_signal(other, pair.bus, 1, 0, NULL, &waited));
    clSetUserEventStatus(list, CL_COMPLETE);
    CHECK(event_stays_open(waited, 30) && event_status(written) > CL_COMPLETE);
    clSetUserEventStatus(earlier, CL_COMPLETE);
    CHECK(event_done_within(written, 5000) && event_done_within(waited, 5000));
    CHECK_CL(CL_SUCCESS, clFinish(other));
    cl_event all[] = {earlier, list, held, written, waited};
    for (size_t i = 0; i < 5; i++)
        clReleaseEvent(all[i]);
    clReleaseCommandQueue(q);
    clReleaseCommandQueue(other);
}

/* In an in-order queue a reset counts before the wait behind it, though the old value would do. */
static void reset_before_wait(struct cl *cl)
{
    AUTO(close_pair) struct pair pair = open_pair(cl, cl);
    cl_command_queue q = new_queue(cl, 0, false);
    cl_int status;
    cl_event go = clCreateUserEvent(cl->context, &status), waited, stale;
    CHECK_CL(CL_SUCCESS, cl->write_signal(q, pair.external, 9, 0, 0, NULL, NULL));
    CHECK_CL(CL_SUCCESS, clFinish(q));
    CHECK_CL(CL_SUCCESS, cl->wait_signal(q, pair.bus, 5, 0, NULL, &stale)); /* satisfied already */
    CHECK(event_done_within(stale, 5000));
    CHECK_CL(CL_SUCCESS, cl->write_signal(q, pair.external, 0, 0, 1, &go, NULL));
    CHECK_CL(CL_SUCCESS, cl->wait_signal(q, pair.bus, 5, 0, NULL, &waited));
    clSetUserEventStatus(go, CL_COMPLETE);
    CHECK(event_stays_open(waited, 30));
    cl_command_queue release = new_queue(cl, 0, false);
    CHECK_CL(CL_SUCCESS, cl->write_signal(release, pair.external, 5, 0, 0, NULL, NULL));
    CHECK(event_done_within(waited, 5000));
    CHECK_CL(CL_SUCCESS, clFinish(release));
    clReleaseEvent(go);
    clReleaseEvent(stale);
    clReleaseEvent(waited);
    clReleaseCommandQueue(release);
    clReleaseCommandQueue(q);
}

/* A wait list that fails fails the command; no queue hangs, no signal is written. */
static void failed_wait_list(struct cl *cl)
{
    AUTO(close_pair) struct pair pair = open_pair(cl, cl);
    for (int round = 0; round < 3; round++) {
        cl_command_queue q = new_queue(cl, 0, round == 1);
        cl_int status;
        cl_event bad = clCreateUserEvent(cl->context, &status), failed;
        if (round < 2)
            CHECK_CL(CL_SUCCESS, cl->wait_signal(q, pair.bus, 1, 1, &bad, &failed));
        else
            CHECK_CL(CL_SUCCESS, cl->write_signal(q, pair.external, 1, 0, 1, &bad, &failed));
        clSetUserEventStatus(bad, -5);
        CHECK(event_done_within(failed, 5000) && event_status(failed) < 0);
        CHECK_CL(CL_SUCCESS, clFinish(q));
        sleep_ms(5); /* no other thread touches these events while the queue unwinds */
        clReleaseEvent(bad);
        clReleaseEvent(failed);
        clReleaseCommandQueue(q);
    }
    cl_event waited;
    cl_command_queue q = new_queue(cl, 0, false);
    CHECK_CL(CL_SUCCESS, cl->wait_signal(q, pair.bus, 1, 0, NULL, &waited));
    CHECK(event_stays_open(waited, 30));
    CHECK_CL(CL_SUCCESS, cl->write_signal(cl->queue, pair.external, 1, 0, 0, NULL, NULL));
    CHECK(event_done_within(waited, 5000));
    clReleaseEvent(waited);
    clReleaseCommandQueue(q);
}

static void resident_without_blocking(struct cl *cl)
{
    cl_mem bus[2] = {new_bus(cl, PAGE), new_bus(cl, 5 * PAGE)};
    struct bus_address address[2] = {{3, 3}, {3, 3}};
    cl_int status;
    cl_event go = clCreateUserEvent(cl->context, &status), done;
    cl_command_queue q = new_queue(cl, 0, false);
    CHECK_CL(CL_SUCCESS, cl->make_resident(q, 2, bus, CL_FALSE, address, 1, &go, &done));
    CHECK(event_type(done) == COMMAND_MAKE_RESIDENT);
    CHECK(event_stays_open(done, 20) && address[0].surface == 0 && address[1].marker == 0);
    clSetUserEventStatus(go, CL_COMPLETE);
    CHECK(event_done_within(done, 5000));
    CHECK(address[0].surface && address[1].marker == address[1].surface + 5 * PAGE);
    CHECK(address[0].surface != address[1].surface);
    struct bus_address again = resident(cl, bus[0]);
    CHECK(again.surface == address[0].surface && again.marker == address[0].marker);
    clReleaseEvent(go);
    clReleaseEvent(done);
    clReleaseCommandQueue(q);
    clReleaseMemObject(bus[0]);
    clReleaseMemObject(bus[1]);
}

static void event_facts(struct cl *cl)
{
    AUTO(close_pair) struct pair pair = open_pair(cl, cl);
    cl_command_queue waiting = new_queue(cl, 0, false);
    cl_event waited, written;
    CHECK_CL(CL_SUCCESS, cl->wait_signal(waiting, pair.bus, 1, 0, NULL, &waited));
    CHECK_CL(CL_SUCCESS, cl->write_signal(cl->queue, pair.external, 1, 0, 0, NULL, &written));
    CHECK_CL(CL_SUCCESS, clFinish(waiting));
    CHECK_CL(CL_SUCCESS, clFinish(cl->queue));
    CHECK(event_type(waited) == COMMAND_WAIT_SIGNAL && event_type(written) == COMMAND_WRITE_SIGNAL);
    cl_event both[2] = {waited, written};
    for (int i = 0; i < 2; i++) {
        cl_ulong start, end;
        CHECK_CL(CL_SUCCESS, clGetEventProfilingInfo(both[i], CL_PROFILING_COMMAND_START,
                                                     sizeof start, &start, NULL));
        CHECK_CL(CL_SUCCESS, clGetEventProfilingInfo(both[i], CL_PROFILING_COMMAND_END, sizeof end,
                                                     &end, NULL));
        CHECK(start > 0 &&
              end > 0); /* in this order on PoCL; NVIDIA's barriers may end before they start */
    }
    cl_command_queue of;
    CHECK_CL(CL_SUCCESS, clGetEventInfo(waited, CL_EVENT_COMMAND_QUEUE, sizeof of, &of, NULL));
    CHECK(of == waiting);
    CHECK_CL(CL_SUCCESS, clRetainEvent(waited));
    CHECK_CL(CL_SUCCESS, clReleaseEvent(waited));
    CHECK(event_type(waited) == COMMAND_WAIT_SIGNAL);
    clReleaseEvent(waited);
    clReleaseEvent(written);
    /* handles come again: what was a signal must not be taken for one any more */
    cl_event events[64];
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 64; i++)
            CHECK_CL(CL_SUCCESS, round == 0
                                     ? cl->wait_signal(waiting, pair.bus, 1, 0, NULL, &events[i])
                                     : clEnqueueMarkerWithWaitList(waiting, 0, NULL, &events[i]));
        CHECK_CL(CL_SUCCESS, clFinish(waiting));
        for (int i = 0; i < 64; i++)
            CHECK(event_type(events[i]) == (round == 0 ? COMMAND_WAIT_SIGNAL : CL_COMMAND_MARKER));
        for (int i = 0; i < 64; i++)
            clReleaseEvent(events[i]);
    }
    clReleaseCommandQueue(waiting);
}

/* Two devices of one context: one writes, the other waits. */
static void two_devices(struct cl *cl)
{
    AUTO(close_pair) struct pair pair = open_pair(cl, cl);
    cl_command_queue second = new_queue(cl, 1, false);
    unsigned char byte = 0x3c, back[SIZE] = {0};
    cl_event read;
    CHECK_CL(CL_SUCCESS, cl->wait_signal(second, pair.bus, 1, 0, NULL, NULL));
    CHECK_CL(CL_SUCCESS,
             clEnqueueReadBuffer(second, pair.bus, CL_FALSE, 0, SIZE, back, 0, NULL, &read));
    CHECK_CL(CL_SUCCESS, clFlush(second));
    CHECK_CL(CL_SUCCESS,
             clEnqueueFillBuffer(cl->queue, pair.external, &byte, 1, 0, SIZE, 0, NULL, NULL));
    CHECK_CL(CL_SUCCESS, cl->write_signal(cl->queue, pair.external, 1, 0, 0, NULL, NULL));
    CHECK(event_done_within(read, 5000));
    CHECK(back[0] == byte && back[SIZE - 1] == byte);
    /* and back, written by the second device */
    byte = 0xc3;
    CHECK_CL(CL_SUCCESS, clEnqueueMigrateMemObjects(second, 1, &pair.external, 0, 0, NULL, NULL));
    CHECK_CL(CL_SUCCESS,
             clEnqueueFillBuffer(second, pair.external, &byte, 1, 0, SIZE, 0, NULL, NULL));
    CHECK_CL(CL_SUCCESS, cl->write_signal(second, pair.external, 2, 0, 0, NULL, NULL));
    CHECK_CL(CL_SUCCESS, cl->wait_signal(cl->queue, pair.bus, 2, 0, NULL, NULL));
    CHECK_CL(CL_SUCCESS,
             clEnqueueReadBuffer(cl->queue, pair.bus, CL_TRUE, 0, SIZE, back, 0, NULL, NULL));
    CHECK(back[0] == byte && back[SIZE - 1] == byte);
    clReleaseEvent(read);
    clReleaseCommandQueue(second);
}

int main(int argc, char **argv)
{
    struct cl cl = open_cl(60);
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
