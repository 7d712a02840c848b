/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Two processes, the second a fresh exec of this binary: data and signals both ways, latency, a
 * foreign writer that only stores, an idle wait that burns nothing, an owner that dies under its
 * importer.
 *
 * many: thousands of small buffers in a process that may have few descriptors, all open in a second
 * one.
 *
 * lifetime: what stays and what goes: references, destructor callbacks, the aperture, and /dev/shm
 * after exit(), _exit() and kill -9. */

#include "common.h"

#include <dirent.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

enum { SIZE = 1 << 20, FRAMES = 100, WARM = 20 };

static unsigned char byte_of(cl_uint frame)
{
    return (unsigned char)(frame * 37 + 1);
}

/* What the processes tell each other: the address of a buffer that the other one writes. */
static struct bus_address exchange(int to, int from, const struct bus_address *near)
{
    struct bus_address far;
    give(to, near, sizeof *near);
    take(from, &far, sizeof far);
    return far;
}

/* The child sends FRAMES frames; each is answered through a signal of its own before the next. */
static void child_sends(struct cl *cl)
{
    struct bus_address near, far;
    AUTO(drop_mem) cl_mem credit = new_resident(cl, PAGE, &near), frame = new_plain(cl, SIZE);
    far = exchange(STDOUT_FILENO, STDIN_FILENO, &near);
    AUTO(drop_mem) cl_mem external = new_external(cl, SIZE, &far);
    for (cl_uint n = 1; n <= FRAMES; n++) {
        fill(cl->queue, frame, 0, SIZE, byte_of(n));
        OK(cl->wait_signal(cl->queue, credit, n - 1, 0, NULL, NULL));
        OK(clEnqueueCopyBuffer(cl->queue, frame, external, 0, 0, SIZE, 0, NULL, NULL));
        OK(cl->write_signal(cl->queue, external, n, 0, 0, NULL, NULL));
    }
    OK(clFinish(cl->queue));
}

static void frames(struct cl *cl)
{
    struct bus_address near, far;
    AUTO(drop_mem) cl_mem bus = new_resident(cl, SIZE, &near);
    struct child child = start("sends");
    far = exchange(child.to, child.from, &near);
    AUTO(drop_mem) cl_mem credit = new_external(cl, PAGE, &far);
    static unsigned char back[SIZE];
    for (cl_uint n = 1; n <= FRAMES; n++) {
        OK(cl->wait_signal(cl->queue, bus, n, 0, NULL, NULL));
        read_back(cl->queue, bus, SIZE, back);
        for (size_t i = 0; i < SIZE; i++)
            if (back[i] != byte_of(n))
                FAIL("frame %u: byte %zu is %d, not %d", n, i, back[i], byte_of(n));
        OK(cl->write_signal(cl->queue, credit, n, 0, 0, NULL, NULL));
    }
    OK(clFinish(cl->queue));
    join(&child);
}

/* Ping-pong of signals alone. */
static void child_echoes(struct cl *cl)
{
    struct bus_address near, far;
    AUTO(drop_mem) cl_mem bus = new_resident(cl, PAGE, &near);
    far = exchange(STDOUT_FILENO, STDIN_FILENO, &near);
    AUTO(drop_mem) cl_mem external = new_external(cl, PAGE, &far);
    for (cl_uint n = 1; n <= WARM + FRAMES; n++) {
        OK(cl->wait_signal(cl->queue, bus, n, 0, NULL, NULL));
        OK(cl->write_signal(cl->queue, external, n, 0, 0, NULL, NULL));
        OK(clFinish(cl->queue));
    }
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void latency(struct cl *cl)
{
    struct bus_address near, far;
    AUTO(drop_mem) cl_mem bus = new_resident(cl, PAGE, &near);
    struct child child = start("echoes");
    far = exchange(child.to, child.from, &near);
    AUTO(drop_mem) cl_mem external = new_external(cl, PAGE, &far);
    double times[FRAMES];
    for (cl_uint n = 1; n <= WARM + FRAMES; n++) {
        double before = now_us();
        OK(cl->write_signal(cl->queue, external, n, 0, 0, NULL, NULL));
        OK(cl->wait_signal(cl->queue, bus, n, 0, NULL, NULL));
        OK(clFinish(cl->queue));
        if (n > WARM)
            times[n - WARM - 1] = (now_us() - before) / 2;
    }
    qsort(times, FRAMES, sizeof times[0], by_size);
    printf("signal, one way between processes: %.0f us (median), %.0f us (90 %%)\n",
           times[FRAMES / 2], times[FRAMES * 9 / 10]);
    CHECK(times[FRAMES / 10] <
          400); /* without wakes the best are above 500; this one stands a busy machine */
    join(&child);
}

/* CPU time of the layer's thread; what a driver's threads do meanwhile is the driver's. */
static double poller_cpu_us(void)
{
    double sum = -1;
    DIR *tasks = opendir("/proc/self/task");
    CHECK(tasks);
    for (struct dirent *entry; (entry = readdir(tasks)) != NULL;) {
        char path[320], name[32] = "";
        unsigned long long ns = 0;
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", entry->d_name);
        FILE *file = fopen(path, "re");
        if (!file)
            continue;
        bool ours = fgets(name, sizeof name, file) && strcmp(name, "dgma-poller\n") == 0;
        fclose(file);
        snprintf(path, sizeof path, "/proc/self/task/%s/schedstat", entry->d_name);
        if (ours && (file = fopen(path, "re")) != NULL) {
            if (fscanf(file, "%llu", &ns) == 1)
                sum = (double)ns / 1e3;
            fclose(file);
        }
    }
    closedir(tasks);
    CHECK(sum >= 0);
    return sum;
}

/* A capture card knows of no futex: it stores. And a wait for it may last, at little cost. */
static void foreign_store(struct cl *cl)
{
    struct bus_address address;
    AUTO(drop_mem) cl_mem bus = new_resident(cl, PAGE, &address);
    char *map = map_object(&address, 2 * PAGE);
    volatile unsigned *marker = (void *)(map + PAGE);
    AUTO(drop_event) cl_event waited = NULL;
    OK(cl->wait_signal(cl->queue, bus, 1, 0, NULL, &waited));
    double before = now_us(), cpu_before = poller_cpu_us();
    CHECK(event_stays_open(waited, 400));
    double share = (poller_cpu_us() - cpu_before) / (now_us() - before);
    printf("an open wait costs %.1f %% of a CPU\n", share * 100);
    CHECK(share < 0.10);
    before = now_us();
    *marker = 1;
    OK(clWaitForEvents(1, &waited));
    double took = now_us() - before;
    printf("a store without a wake was seen after %.0f us\n", took);
    CHECK(took < 10e6); /* about 1000 on a quiet machine */
    cpu_before = poller_cpu_us();
    sleep_ms(200);
    CHECK(poller_cpu_us() - cpu_before < 1000); /* nothing outstanding: the thread sleeps */
    munmap(map, 2 * PAGE);
}

static void child_owns(struct cl *cl)
{
    struct bus_address address;
    new_resident(cl, SIZE, &address);
    give(STDOUT_FILENO, &address, sizeof address);
    take(STDIN_FILENO, &address, sizeof address); /* killed here */
}

/* The mapping of an importer outlives the owner; new importers are refused; the name goes away. */
static void owner_dies(struct cl *cl)
{
    struct child child = start("owns");
    struct bus_address address;
    take(child.from, &address, sizeof address);
    AUTO(drop_mem) cl_mem external = new_external(cl, SIZE, &address);
    CHECK(object_exists(&address));
    kill_child(&child);
    fill(cl->queue, external, 0, SIZE, 1);
    OK(cl->write_signal(cl->queue, external, 1, 0, 0, NULL, NULL));
    OK(clFinish(cl->queue));
    CHECK_CL(CL_MEM_OBJECT_ALLOCATION_FAILURE,
             create(cl->context, EXTERNAL_PHYSICAL, PAGE, &address));
    CHECK(!object_exists(&address));
}

/* --- many ------------------------------------------------------------------------------------- */

enum { BUFFERS = 3000, DESCRIPTORS = 64 };

static struct bus_address addresses[BUFFERS];
static cl_mem mems[BUFFERS];

static void limit_descriptors(void)
{
    struct rlimit limit;
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    limit.rlim_cur = DESCRIPTORS;
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
}

/* Opens all, then writes its number into each and signals. */
static void child_writes(struct cl *cl)
{
    limit_descriptors();
    take(STDIN_FILENO, addresses, sizeof addresses);
    for (cl_uint i = 0; i < BUFFERS; i++)
        mems[i] = new_external(cl, PAGE, &addresses[i]);
    for (cl_uint i = 0; i < BUFFERS; i++) {
        OK(clEnqueueFillBuffer(cl->queue, mems[i], &i, sizeof i, 0, PAGE, 0, NULL, NULL));
        OK(cl->write_signal(cl->queue, mems[i], i + 1, 0, 0, NULL, NULL));
    }
    OK(clFinish(cl->queue));
    for (cl_uint i = 0; i < BUFFERS; i++)
        OK(clReleaseMemObject(mems[i]));
}

static void many(struct cl *cl)
{
    limit_descriptors();
    for (cl_uint i = 0; i < BUFFERS; i++) {
        cl_int status;
        mems[i] = clCreateBuffer(cl->context, BUS_ADDRESSABLE, PAGE, NULL, &status);
        if (!mems[i])
            FAIL("buffer %u of %d: %d", i, BUFFERS, status);
    }
    OK(cl->make_resident(cl->queue, BUFFERS, mems, CL_TRUE, addresses, 0, NULL, NULL));
    struct child writer = start("writes");
    give(writer.to, addresses, sizeof addresses);
    for (cl_uint i = 0; i < BUFFERS; i++) {
        cl_uint words[PAGE / sizeof(cl_uint)];
        OK(cl->wait_signal(cl->queue, mems[i], i + 1, 0, NULL, NULL));
        read_back(cl->queue, mems[i], sizeof words, words);
        CHECK(words[0] == i && words[PAGE / sizeof(cl_uint) - 1] == i);
    }
    join(&writer);
    for (cl_uint i = 0; i < BUFFERS; i++)
        OK(clReleaseMemObject(mems[i]));
    for (cl_uint i = 0; i < BUFFERS; i += 97)
        wait_until_gone(&addresses[i]);
}

/* --- lifetime --------------------------------------------------------------------------------- */

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
    cl_mem plain[64];
    for (int i = 0; i < 64; i++)
        plain[i] = new_bus(cl, PAGE);
    for (int i = 0; i < 64; i++)
        OK(clReleaseMemObject(plain[i]));
    for (int i = 0; i < 64; i++) {
        plain[i] = new_plain(cl, PAGE);
        CHECK_CL(CL_INVALID_MEM_OBJECT, cl->wait_signal(cl->queue, plain[i], 0, 0, NULL, NULL));
        cl_mem_flags flags = 0;
        OK(clGetMemObjectInfo(plain[i], CL_MEM_FLAGS, sizeof flags, &flags, NULL));
        CHECK(flags == CL_MEM_READ_WRITE);
    }
    for (int i = 0; i < 64; i++)
        OK(clReleaseMemObject(plain[i]));
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
    CHECK(cl->num_devices >= 2);
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

static void hold(struct cl *cl)
{
    struct bus_address address;
    cl_mem bus = new_resident(cl, PAGE, &address);
    CHECK(object_exists(&address));
    OK(cl->wait_signal(cl->queue, bus, 1, 0, NULL, NULL)); /* for ever */
    give(STDOUT_FILENO, &address, sizeof address);
}

static void child_exits(struct cl *cl)
{
    hold(cl);
    exit(0);
}

static void child_exits_at_once(struct cl *cl)
{
    hold(cl);
    _exit(0);
}

static void child_is_killed(struct cl *cl)
{
    hold(cl);
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

static void lifetime(struct cl *cl)
{
    struct bus_address exited = run_child("exit");
    CHECK(!object_exists(&exited));
    struct bus_address quick = run_child("_exit"), killed = run_child("kill");
    struct bus_address next = run_child("exit"); /* which removes the files of dead ones */
    CHECK(!object_exists(&quick) && !object_exists(&killed) && !object_exists(&next));
    references(cl);
    released_while_waiting(cl);
    aperture(cl);
}

static void processes(struct cl *cl)
{
    frames(cl);
    latency(cl);
    if (!getenv("GPUDIRECT_DGMA_COPY")) /* the figures are those of the direct way */
        foreign_store(cl);
    owner_dies(cl);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *role;
        void (*play)(struct cl *cl);
    } roles[] = {
        {"processes", processes},
        {"many", many},
        {"lifetime", lifetime},
        {"two-apertures", two_apertures},
        /* Of the children. */
        {"sends", child_sends},
        {"echoes", child_echoes},
        {"owns", child_owns},
        {"writes", child_writes},
        {"exit", child_exits},
        {"_exit", child_exits_at_once},
        {"kill", child_is_killed},
    };
    AUTO(close_cl) struct cl cl = open_cl(120);
    for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++)
        if (strcmp(argc > 1 ? argv[1] : "processes", roles[i].role) == 0) {
            roles[i].play(&cl);
            return 0;
        }
    FAIL("there is no \"%s\"", argv[1]);
}
