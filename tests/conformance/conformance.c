/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "conformance.h"

#include "device/opencl/opencl.h"
#include "device/vulkan/vulkan.h"
#include "support/count.h"
#include "support/picture.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

void check_took(const char *file, int line, int64_t since, int64_t min_ms, int64_t max_ms)
{
    int64_t took = gpud_now() - since;
    if (took < min_ms * GPUD_MSEC || took > max_ms * GPUD_MSEC)
        FAIL("(%s:%d) it took %.3f ms, not %lld to %lld", file, line, (double)took / 1e6,
             (long long)min_ms, (long long)max_ms);
}

/* --- the device under test -------------------------------------------------------------------- */

struct side side_open(const char *device)
{
    struct side side = {.context = NEW_CONTEXT()};
    struct gpud_error error;
    enum gpud_status status = gpud_device_open(side.context, device, &side.device, &error);
    if (status == GPUD_NO_DEVICE)
        SKIP("%s", error.reason);
    CHECK(status == GPUD_OK, "%s does not open: %s", device, error.reason);
    side.queue = NEW_QUEUE(side.device);
    return side;
}

void say_device(const char *device)
{
    AUTO(side_close) struct side side = side_open(device);
    struct gpud_device_info info = INFO(device, side.device);
    SAY("%s is %s", info.name, info.description);
}

void side_close(struct side *side)
{
    gpud_queue_unref(&side->queue);
    gpud_device_close(&side->device);
    gpud_context_destroy(&side->context);
}

/* --- queues that are slow on purpose ---------------------------------------------------------- */

struct hold {
    cl_event event;
    cl_event barrier; /* kept: PoCL 3.1 aborts when an event without references fails */
    struct gpud_memory *words;
    struct gpud_signal *signal;
    struct vulkan_timeline *timeline;
    struct vulkan_device *vulkan;
};

static void put_event(struct hold *hold, struct gpud_queue *queue)
{
    struct opencl_queue *opencl = queue->backend;
    cl_int code;
    hold->event = clCreateUserEvent(gpud_opencl_device(queue->device)->context, &code);
    CHECK(code == CL_SUCCESS, "clCreateUserEvent gives %d", code);
    CHECK(gpud_opencl_queue_begin(opencl, NULL) == GPUD_OK, "the queue has failed before");
    code = clEnqueueBarrierWithWaitList(opencl->queue, 1, &hold->event, &hold->barrier);
    CHECK(code == CL_SUCCESS, "clEnqueueBarrierWithWaitList gives %d", code);
    clRetainEvent(hold->barrier);
    gpud_opencl_queue_end(opencl, hold->barrier);
}

struct hold *hold_queue(struct gpud_queue *queue)
{
    struct gpud_device *device = queue->device;
    if (device->caps & GPUD_CAP_SYNCHRONOUS)
        return NULL;
    struct hold *hold = calloc(1, sizeof(*hold));
    CHECK(hold, "out of memory");
    if (device->caps & GPUD_CAP_PAGE_SIGNALS) {
        void *page = aligned_alloc(4096, 4096);
        CHECK(page, "out of memory");
        /* A driver that frees waits for all queues, and blocks all other calls meanwhile;
         * frames are never waited for before they were sent, so that only a test can stop it for
         * good. */
        wait_for_worker(device->context);
        hold->words = WRAP_HOST(device, page, 4096, free, page);
        WORKS(gpud_signal_create(hold->words, 64, &hold->signal, &e));
        WORKS(gpud_signal_wait_queue(hold->signal, 1, queue, &e));
    } else if (strcmp(gpud_device_kind(device), "vulkan") == 0) {
        hold->vulkan = gpud_vulkan_device(device);
        WORKS(gpud_vulkan_timeline_create(device, &hold->timeline, &e));
        const struct vulkan_event raised = {hold->timeline, 1}; /* by the CPU */
        WORKS(gpud_vulkan_queue_await(device, queue->backend, &raised, &e));
    } else {
        put_event(hold, queue);
    }
    return hold;
}

bool holds_alone(const struct gpud_device *device)
{
    return strcmp(gpud_device_kind(device), "vulkan") != 0 ||
           gpud_vulkan_device(device)->facts.lanes > 1;
}

void release_queue(struct hold *hold, bool broken)
{
    if (!hold)
        return;
    if (hold->signal) {
        CHECK(!broken, "a word cannot break a queue");
        WORKS(gpud_signal_poison(hold->signal, 1, &e));
        gpud_signal_destroy(&hold->signal);
        gpud_memory_unref(&hold->words);
    } else if (hold->timeline) {
        CHECK(!broken, "a timeline cannot break a queue");
        PFN_vkSignalSemaphoreKHR raise = (PFN_vkSignalSemaphoreKHR)gpud_vk.GetDeviceProcAddr(
            hold->vulkan->device, "vkSignalSemaphoreKHR");
        const VkSemaphoreSignalInfo info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_SIGNAL_INFO,
                                            .semaphore = hold->timeline->semaphore,
                                            .value = 1};
        VkResult result = raise(hold->vulkan->device, &info);
        CHECK(result == VK_SUCCESS, "vkSignalSemaphore gives %d", result);
        gpud_vulkan_timeline_unref(hold->vulkan, hold->timeline);
    } else {
        cl_int code = clSetUserEventStatus(hold->event, broken ? CL_OUT_OF_RESOURCES : CL_COMPLETE);
        CHECK(code == CL_SUCCESS, "clSetUserEventStatus gives %d", code);
        clReleaseEvent(hold->event);
        clReleaseEvent(hold->barrier);
    }
    free(hold);
}

bool hold_copies(bool hold)
{
    int (*ask)(void *stream, unsigned hold) = NULL;
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    if (!library)
        return false;
    *(void **)&ask = dlsym(library, "fakeCudaHold");
    CHECK(!ask || ask(NULL, hold) == 0, "the fake driver holds no copies");
    dlclose(library);
    return ask != NULL;
}

struct gpud_frame *look_for(struct gpud_receiver *receiver)
{
    struct gpud_frame *frame = NULL;
    struct gpud_error error;
    enum gpud_status status = gpud_receiver_acquire(receiver, LOOK, &frame, &error);
    CHECK(status == GPUD_OK || status == GPUD_TIMEOUT, "%s", error.reason);
    return frame;
}

struct gpud_frame *expect_nothing(struct gpud_receiver *receiver)
{
    struct gpud_frame *frame = look_for(receiver);
    void *data;
    if (frame)
        GIVES(GPUD_TIMEOUT, gpud_frame_map(frame, GPUD_READ, LOOK, &data, &e));
    return frame;
}

int try_to_send(struct gpud_sender *sender, const struct gpud_layout *layout, uint64_t number)
{
    struct gpud_frame *frame;
    void *data;
    int sent = 0;
    if (gpud_sender_acquire(sender, LOOK, &frame, NULL) != GPUD_OK)
        return -1;
    if (gpud_frame_map(frame, GPUD_WRITE, LOOK, &data, NULL) == GPUD_OK) {
        picture_write(layout, data, number);
        gpud_frame_unmap(frame);
        sent = gpud_sender_submit(sender, &frame, LOOK, NULL) == GPUD_OK;
    }
    gpud_frame_release(&frame);
    return sent;
}

/* --- memory ----------------------------------------------------------------------------------- */

bool is_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0;
}

void close_handle(const struct gpud_handle *handle)
{
    if (handle->fd >= 0)
        close(handle->fd);
}

static void drop_pages(void *user)
{
    struct gpud_memory *pages = user;
    gpud_memory_unref(&pages);
}

struct gpud_memory *words_make(struct side *side, uint64_t size, struct gpud_handle *handle)
{
    AUTO(gpud_device_close) struct gpud_device *host = OPEN_DEVICE(side->context, "host");
    struct gpud_memory *pages = NEW_MEMORY_FOR(host, size, GPUD_USAGE_TARGET);
    *handle = EXPORT_MEMORY(pages);
    return WRAP_HOST(side->device, pages->host, size, drop_pages, pages);
}

struct gpud_memory *words_open(struct side *side, const struct gpud_handle *handle, uint64_t size)
{
    AUTO(gpud_device_close) struct gpud_device *host = OPEN_DEVICE(side->context, "host");
    struct gpud_memory *pages = IMPORT_MEMORY(host, handle, size, GPUD_USAGE_TARGET);
    return WRAP_HOST(side->device, pages->host, size, drop_pages, pages);
}

void copy_whole(struct gpud_queue *queue, struct gpud_memory *to, struct gpud_memory *from)
{
    uint64_t size = to->size < from->size ? to->size : from->size;
    struct gpud_copy copy = {.to = to, .from = from, .row_bytes = size, .rows = 1};
    WORKS(gpud_queue_copy(queue, &copy, &e));
}

void wait_for_worker(struct gpud_context *context)
{
    PEER_UNTIL("what was given up is given back", 30000, gpud_worker_is_idle(&context->later));
}

/* --- content ---------------------------------------------------------------------------------- */

void fill(unsigned char *data, uint64_t size, uint32_t seed)
{
    for (uint64_t i = 0; i < size; i++)
        data[i] = pattern(i, seed);
}

void check_pattern_at(const char *file, int line, const unsigned char *data, uint64_t from,
                      uint64_t size, uint32_t seed)
{
    for (uint64_t i = 0; i < size; i++)
        if (data[i] != pattern(from + i, seed))
            FAIL("(%s:%d) byte %llu of %llu is %u, not the pattern's %u", file, line,
                 (unsigned long long)i, (unsigned long long)size, data[i], pattern(from + i, seed));
}

void check_zeros_at(const char *file, int line, const unsigned char *data, uint64_t size)
{
    for (uint64_t i = 0; i < size; i++)
        if (data[i])
            FAIL("(%s:%d) byte %llu of %llu new ones is %u", file, line, (unsigned long long)i,
                 (unsigned long long)size, data[i]);
}

unsigned char *map_whole(struct side *side, struct gpud_memory *memory, unsigned access)
{
    void *data = memory->host;
    if (!data)
        WORKS(gpud_queue_map(side->queue, memory, 0, memory->size, access, SOON, &data, &e));
    return data;
}

void unmap_whole(struct side *side, struct gpud_memory *memory, unsigned char *data)
{
    if (memory->host)
        return;
    WORKS(gpud_queue_unmap(side->queue, memory, data, &e));
    WORKS(gpud_queue_finish(side->queue, SOON, &e));
}

void write_pattern(struct side *side, struct gpud_memory *memory, uint32_t seed)
{
    unsigned char *data = map_whole(side, memory, GPUD_WRITE);
    fill(data, memory->size, seed);
    unmap_whole(side, memory, data);
}

void read_pattern_at(const char *file, int line, struct side *side, struct gpud_memory *memory,
                     uint32_t seed)
{
    unsigned char *data = map_whole(side, memory, GPUD_READ);
    check_pattern_at(file, line, data, 0, memory->size, seed);
    unmap_whole(side, memory, data);
}

void send_pattern(struct side *side, struct gpud_memory *memory, uint32_t seed)
{
    unsigned char *data = malloc(memory->size);
    struct gpud_memory *source;
    CHECK(data, "out of memory");
    fill(data, memory->size, seed);
    WORKS(gpud_memory_wrap_host(side->device, data, memory->size, true, free, data, &source, &e));
    copy_whole(side->queue, memory, source);
    WORKS(gpud_queue_finish(side->queue, SOON, &e));
    gpud_memory_unref(&source);
}

/* --- another process -------------------------------------------------------------------------- */

pid_t order_start(const char *device, struct order *order)
{
    int fd, memory = -1;
    struct order *board = peer_board_make(sizeof(*board), &fd);
    gpud_print(order->device, "%s", device);
    *board = *order;
    if (order->memory.fd >= 0) /* clear of the numbers that its own descriptors get */
        board->memory.fd = memory = fcntl(order->memory.fd, F_DUPFD, 210);
    munmap(board, sizeof(*board));
    pid_t pid = peer_spawn("--order", fd);
    if (memory >= 0)
        close(memory);
    return pid;
}

void order_finish_at(const char *file, int line, pid_t pid)
{
    int state;
    pid_t got;
    for (int64_t deadline = gpud_deadline(20 * GPUD_SEC);
         (got = waitpid(pid, &state, WNOHANG)) == 0 && gpud_now() < deadline;)
        gpud_test_nap(1);
    if (got != pid) {
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        FAIL("(%s:%d) the other process hangs", file, line);
    }
    if (!WIFEXITED(state) || WEXITSTATUS(state) != 0)
        FAIL("(%s:%d) the other process failed (%s %d)", file, line,
             WIFEXITED(state) ? "status" : "signal",
             WIFEXITED(state) ? WEXITSTATUS(state) : WTERMSIG(state));
}

static void obey(const struct order *order)
{
    struct gpud_memory *memory;
    struct gpud_signal *signal = NULL;
    bool posts = order->task == POSTS;
    struct side side = side_open(order->device);
    if (posts && has_page_signals(&side))
        memory = words_open(&side, &order->memory, order->size);
    else
        memory = IMPORT_MEMORY(side.device, &order->memory, order->size,
                               order->task == READS ? GPUD_USAGE_SHARE : GPUD_USAGE_TARGET);
    if (posts)
        WORKS(gpud_signal_import(memory, order->word, &signal, &e));
    gpud_test_nap(order->delay_ms);
    if (order->task == READS)
        READ_PATTERN(&side, memory, order->seed);
    else if (posts && (is_cpu_addressable(&side) || has_page_signals(&side)))
        fill(memory->host, order->size / 2, order->seed); /* behind it lies the word */
    else
        send_pattern(&side, memory, order->seed);
    if (posts) {
        WORKS(gpud_signal_post(signal, order->value, side.queue, &e));
        WORKS(gpud_queue_finish(side.queue, SOON, &e));
    }
    gpud_signal_destroy(&signal);
    gpud_memory_unref(&memory);
    side_close(&side);
}

/* --- all of a test ---------------------------------------------------------------------------- */

void conformance_begin(int argc, char **argv)
{
    const struct order *order = peer_board_open("--order", argc, argv, sizeof(*order));
    if (order) {
        obey(order);
        exit(0);
    }
    alarm(400); /* a hang ends here, whatever the harness does */
    CHECK(argc > 1, "usage: %s DEVICE…", argv[0]);
    say_device(argv[1]);
}

struct leaks leaks_take(void)
{
    struct leaks now = {0};
    char line[512];
    if (getenv("GPUD_TEST_NO_LEAKS"))
        return now;
    /* By what this process maps, not by what lies in /dev/shm: other tests run at the same time. */
    FILE *file = fopen("/proc/self/maps", "re");
    CHECK(file, "/proc/self/maps: %s", strerror(errno));
    while (fgets(line, sizeof(line), file))
        now.shared += strstr(line, " /dev/shm/") || strstr(line, " /memfd:");
    fclose(file);
    now.fds = count_fds();
    return now;
}

void leaks_check_at(const char *file, int line, struct leaks before)
{
    struct leaks now = leaks_take();
    int64_t deadline = gpud_deadline(5 * GPUD_SEC);
    do {
        if (now.fds <= before.fds && now.shared <= before.shared)
            return;
        gpud_test_nap(20);
        struct leaks last = now;
        now = leaks_take();
        if (now.fds < last.fds || now.shared < last.shared)
            deadline = gpud_deadline(5 * GPUD_SEC);
    } while (gpud_now() < deadline);
    FAIL("(%s:%d) a leak: %u descriptors where there were %u, %u shared mappings where there were "
         "%u",
         file, line, now.fds, before.fds, now.shared, before.shared);
}

void twice(void (*everything)(const char *device), const char *device)
{
    everything(device);
    struct leaks before = leaks_take();
    everything(device);
    SAY("nothing is left behind");
    LEAKS_CHECK(before);
}
