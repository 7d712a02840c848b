/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What stays and what goes: references, destructor callbacks, the aperture, and /dev/shm after
 * exit(), _exit() and kill -9. */

#include "common.h"

#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
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
    CHECK_CL(CL_SUCCESS, clSetMemObjectDestructorCallback(bus, on_destroy, &one));
    CHECK_CL(CL_SUCCESS, clRetainMemObject(bus));
    CHECK_CL(CL_SUCCESS, clReleaseMemObject(bus));
    CHECK(object_exists(&address) && destroyed == 0);
    cl_mem external = new_external(cl, PAGE, &address);
    CHECK_CL(CL_SUCCESS, clFinish(cl->queue));
    CHECK_CL(CL_SUCCESS, clReleaseMemObject(bus));
    wait_until_gone(&address);
    CHECK(destroyed == 1);
    /* the writer may be late: it only writes into memory that is no longer read */
    CHECK_CL(CL_SUCCESS, cl->write_signal(cl->queue, external, 1, 0, 0, NULL, NULL));
    CHECK_CL(CL_SUCCESS, clFinish(cl->queue));
    CHECK_CL(CL_SUCCESS, clReleaseMemObject(external));
    /* handles come again: an ordinary buffer must not be taken for one of ours */
    cl_mem mems[64];
    for (int i = 0; i < 64; i++)
        mems[i] = new_bus(cl, PAGE);
    for (int i = 0; i < 64; i++)
        CHECK_CL(CL_SUCCESS, clReleaseMemObject(mems[i]));
    for (int i = 0; i < 64; i++) {
        cl_int status;
        mems[i] = clCreateBuffer(cl->context, CL_MEM_READ_WRITE, PAGE, NULL, &status);
        CHECK_CL(CL_SUCCESS, status);
        CHECK_CL(CL_INVALID_MEM_OBJECT, cl->wait_signal(cl->queue, mems[i], 0, 0, NULL, NULL));
        cl_mem_flags flags = 0;
        CHECK_CL(CL_SUCCESS, clGetMemObjectInfo(mems[i], CL_MEM_FLAGS, sizeof flags, &flags, NULL));
        CHECK(flags == CL_MEM_READ_WRITE);
    }
    for (int i = 0; i < 64; i++)
        CHECK_CL(CL_SUCCESS, clReleaseMemObject(mems[i]));
}

/* A wait keeps its buffer, as any command does, though the program has let go of it. */
static void released_while_waiting(struct cl *cl)
{
    struct bus_address address;
    cl_mem bus = new_resident(cl, PAGE, &address), external = new_external(cl, PAGE, &address);
    cl_command_queue q = new_queue(cl, 0, false);
    cl_event waited;
    CHECK_CL(CL_SUCCESS, cl->wait_signal(q, bus, 1, 0, NULL, &waited));
    CHECK_CL(CL_SUCCESS, clReleaseMemObject(bus));
    CHECK(object_exists(&address) && event_stays_open(waited, 20));
    CHECK_CL(CL_SUCCESS, cl->write_signal(cl->queue, external, 1, 0, 0, NULL, NULL));
    CHECK(event_done_within(waited, 5000));
    CHECK_CL(CL_SUCCESS, clFinish(q));
    wait_until_gone(&address);
    clReleaseEvent(waited);
    clReleaseMemObject(external);
    clReleaseCommandQueue(q);
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
    CHECK(!clCreateBuffer(cl->context, BUS_ADDRESSABLE, 95 * MIB + 1, NULL, &status));
    CHECK_CL(CL_MEM_OBJECT_ALLOCATION_FAILURE, status);
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
            CHECK_CL(CL_SUCCESS, residency(cl, queues[d], slots[d][i]));
            CHECK_CL(CL_SUCCESS, residency(cl, queues[!d], slots[d][i])); /* counts once */
        }
    CHECK(!clCreateBuffer(cl->context, BUS_ADDRESSABLE, MIB, NULL, &status)); /* both are full */
    CHECK_CL(CL_MEM_OBJECT_ALLOCATION_FAILURE, status);
    CHECK_CL(CL_SUCCESS, clReleaseMemObject(slots[1][0]));
    slots[1][0] = new_bus(cl, MIB);
    CHECK_CL(CL_MEM_OBJECT_ALLOCATION_FAILURE, residency(cl, queues[0], slots[1][0]));
    cl_context first = clCreateContext(NULL, 1, &cl->devices[0], NULL, NULL, &status);
    CHECK(!clCreateBuffer(first, BUS_ADDRESSABLE, MIB, NULL, &status));
    CHECK_CL(CL_MEM_OBJECT_ALLOCATION_FAILURE, status);
    clReleaseContext(first);
    CHECK_CL(CL_SUCCESS, residency(cl, queues[1], slots[1][0]));
    for (int d = 0; d < 2; d++)
        for (int i = 0; i < EACH; i++)
            CHECK_CL(CL_SUCCESS, clReleaseMemObject(slots[d][i]));
    clReleaseCommandQueue(queues[1]);
}

static void child_holds(const char *end)
{
    struct cl cl = open_cl(60);
    struct bus_address address;
    cl_mem bus = new_resident(&cl, PAGE, &address);
    CHECK(object_exists(&address));
    CHECK_CL(CL_SUCCESS, cl.wait_signal(cl.queue, bus, 1, 0, NULL, NULL)); /* for ever */
    CHECK(write(STDOUT_FILENO, &address, sizeof address) == (ssize_t)sizeof address);
    if (strcmp(end, "exit") == 0)
        exit(0);
    if (strcmp(end, "_exit") == 0)
        _exit(0);
    for (;;)
        pause();
}

static struct bus_address run_child(const char *end)
{
    int from[2];
    CHECK(pipe(from) == 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        dup2(from[1], STDOUT_FILENO);
        close(from[0]);
        close(from[1]);
        execl("/proc/self/exe", "lifetime", end, (char *)NULL);
        _exit(127);
    }
    close(from[1]);
    struct bus_address address;
    CHECK(read(from[0], &address, sizeof address) == (ssize_t)sizeof address);
    if (strcmp(end, "kill") == 0)
        CHECK(kill(pid, SIGKILL) == 0);
    CHECK(waitpid(pid, NULL, 0) == pid);
    close(from[0]);
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
    if (argc > 1 && strcmp(argv[1], "two-apertures") == 0) {
        struct cl cl = open_cl(60);
        CHECK(cl.num_devices >= 2);
        two_apertures(&cl);
        close_cl(&cl);
        return 0;
    }
    if (argc > 1) {
        child_holds(argv[1]);
        return 0;
    }
    struct cl cl = open_cl(60); /* skips before children are started */
    shared_memory_after_death();
    references(&cl);
    released_while_waiting(&cl);
    aperture(&cl);
    close_cl(&cl);
    return 0;
}
