/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What stays and what goes: references, destructor callbacks, the aperture, and /dev/shm after
 * exit(), _exit() and kill -9. */

#include "common.h"

#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

static atomic_int destroyed;

static void CL_CALLBACK on_destroy(cl_mem mem, void *user_data)
{
    (void)mem;
    atomic_fetch_add(&destroyed, *(int *)user_data);
}

static void references(struct cl *cl)
{
    struct bus_address address;
    int one = 1;
    cl_mem bus = new_resident(cl, PAGE, &address);
    OK(clSetMemObjectDestructorCallback(bus, on_destroy, &one));
    OK(clRetainMemObject(bus));
    OK(clReleaseMemObject(bus));
    CHECK(object_exists(&address) && destroyed == 0);
    cl_mem external = new_external(cl, PAGE, &address);
    OK(clFinish(cl->queue));
    OK(clReleaseMemObject(bus));
    wait_until_gone(&address);
    CHECK(destroyed == 1);
    /* the writer may be late: it only writes into memory that is no longer read */
    OK(cl->write_signal(cl->queue, external, 1, 0, 0, NULL, NULL));
    OK(clFinish(cl->queue));
    OK(clReleaseMemObject(external));
    /* handles come again: an ordinary buffer must not be taken for one of ours */
    cl_mem mems[64];
    for (int i = 0; i < 64; i++)
        mems[i] = new_bus(cl, PAGE);
    for (int i = 0; i < 64; i++)
        OK(clReleaseMemObject(mems[i]));
    for (int i = 0; i < 64; i++) {
        mems[i] = new_plain(cl, PAGE);
        CHECK_CL(CL_INVALID_MEM_OBJECT, cl->wait_signal(cl->queue, mems[i], 0, 0, NULL, NULL));
        cl_mem_flags flags = 0;
        OK(clGetMemObjectInfo(mems[i], CL_MEM_FLAGS, sizeof flags, &flags, NULL));
        CHECK(flags == CL_MEM_READ_WRITE);
    }
    for (int i = 0; i < 64; i++)
        OK(clReleaseMemObject(mems[i]));
}

/* A wait keeps its buffer, as any command does, though the program has let go of it. */
static void released_while_waiting(struct cl *cl)
{
    struct pair pair = open_pair(cl, cl, PAGE);
    AUTO(drop_queue) cl_command_queue q = new_queue(cl, 0, false);
    AUTO(drop_event) cl_event waited = NULL;
    OK(cl->wait_signal(q, pair.bus, 1, 0, NULL, &waited));
    OK(clReleaseMemObject(pair.bus));
    CHECK(object_exists(&pair.address) && event_stays_open(waited, 20));
    OK(cl->write_signal(cl->queue, pair.external, 1, 0, 0, NULL, NULL));
    CHECK(event_done_within(waited, 5000));
    OK(clFinish(q));
    wait_until_gone(&pair.address);
    OK(clReleaseMemObject(pair.external));
}

/* As on a card: 96 MB, the largest buffer 95 MB; what is released can be had again. */
static void aperture(struct cl *cl)
{
    cl_int status;
    for (int round = 0; round < 3; round++) {
        cl_mem slots[7];
        int n = 0;
        while (n < 7 && (slots[n] = clCreateBuffer(cl->context, BUS_ADDRESSABLE, 3840 * 2160 * 2,
                                                   NULL, &status)) != NULL)
            n++;
        if (n != 6) /* of 15.8 MiB each */
            FAIL("%d slots of 4K UYVY fit into the aperture", n);
        CHECK_CL(CL_MEM_OBJECT_ALLOCATION_FAILURE, status);
        while (n > 0)
            clReleaseMemObject(slots[--n]);
    }
    cl_mem largest = new_bus(cl, 95 * MIB);
    clReleaseMemObject(largest);
    CHECK_CL(CL_MEM_OBJECT_ALLOCATION_FAILURE,
             create(cl->context, BUS_ADDRESSABLE, 95 * MIB + 1, NULL));
}

static cl_int residency(struct cl *cl, cl_command_queue queue, cl_mem bus)
{
    struct bus_address address;
    return cl->make_resident(queue, 1, &bus, CL_TRUE, &address, 0, NULL, NULL);
}

/* Two devices in one context have an aperture each, of 8 MB here. A buffer counts where it is made
 * resident. */
static void two_apertures(struct cl *cl)
{
    enum { EACH = 7 };
    cl_int status;
    cl_mem slots[2][EACH];
    cl_command_queue queues[2] = {cl->queue, new_queue(cl, 1, false)};
    for (int d = 0; d < 2; d++)
        for (int i = 0; i < EACH; i++) {
            slots[d][i] = new_bus(cl, MIB);
            OK(residency(cl, queues[d], slots[d][i]));
            OK(residency(cl, queues[!d], slots[d][i])); /* counts once */
        }
    CHECK_CL(CL_MEM_OBJECT_ALLOCATION_FAILURE,
             create(cl->context, BUS_ADDRESSABLE, MIB, NULL)); /* both are full */
    OK(clReleaseMemObject(slots[1][0]));
    slots[1][0] = new_bus(cl, MIB);
    CHECK_CL(CL_MEM_OBJECT_ALLOCATION_FAILURE, residency(cl, queues[0], slots[1][0]));
    cl_context first = clCreateContext(NULL, 1, &cl->devices[0], NULL, NULL, &status);
    CHECK_CL(CL_MEM_OBJECT_ALLOCATION_FAILURE, create(first, BUS_ADDRESSABLE, MIB, NULL));
    clReleaseContext(first);
    OK(residency(cl, queues[1], slots[1][0]));
    for (int d = 0; d < 2; d++)
        for (int i = 0; i < EACH; i++)
            OK(clReleaseMemObject(slots[d][i]));
    clReleaseCommandQueue(queues[1]);
}

static _Noreturn void child_holds(const char *end)
{
    struct cl cl = open_cl(60);
    struct bus_address address;
    cl_mem bus = new_resident(&cl, PAGE, &address);
    CHECK(object_exists(&address));
    OK(cl.wait_signal(cl.queue, bus, 1, 0, NULL, NULL)); /* for ever */
    give(STDOUT_FILENO, &address, sizeof address);
    if (strcmp(end, "exit") == 0)
        exit(0);
    if (strcmp(end, "_exit") == 0)
        _exit(0);
    for (;;)
        pause();
}

static struct bus_address run_child(const char *end)
{
    struct child child = start(end);
    struct bus_address address;
    take(child.from, &address, sizeof address);
    if (strcmp(end, "kill") == 0)
        kill_child(&child);
    else
        join(&child);
    return address;
}

/* Before OpenCL starts in this process: the next process removes files of dead ones. */
static void shared_memory_after_death(void)
{
    struct bus_address exited = run_child("exit");
    CHECK(!object_exists(&exited));
    struct bus_address quick = run_child("_exit"), killed = run_child("kill");
    struct bus_address next = run_child("exit");
    CHECK(!object_exists(&quick) && !object_exists(&killed) && !object_exists(&next));
}

int main(int argc, char **argv)
{
    bool two = argc > 1 && strcmp(argv[1], "two-apertures") == 0;
    if (argc > 1 && !two)
        child_holds(argv[1]);
    AUTO(close_cl) struct cl cl = open_cl(60); /* skips before children are started */
    if (two) {
        CHECK(cl.num_devices >= 2);
        two_apertures(&cl);
        return 0;
    }
    shared_memory_after_death();
    references(&cl);
    released_while_waiting(&cl);
    aperture(&cl);
    return 0;
}
