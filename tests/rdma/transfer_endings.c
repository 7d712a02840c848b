/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What is left of a connection that ends, and what can be registered. */
#include "transfer_ends.h"
#include "support/make.h"

#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

#define SIZE UINT64_C(65536)
#define LARGE (UINT64_C(1) << 20) /* takes soft-RoCE tens of milliseconds */

/* --- the end --------------------------------------------------------------------------------- */

static void be_killed(int other)
{
    struct side side = meet_as_listener(other, 7118);
    struct buffer target =
        make_buffer(&side, LARGE, GPUD_REGION_REMOTE_WRITE | GPUD_REGION_REMOTE_READ);
    struct gpud_operation_params recv = range_of(&target, 0, 64);
    WORKS(POST(&side, RECEIVE, &recv));
    say_key(other, target.region);
    hear(other); /* nothing is said any more */
    FAIL("not killed");
}

/* What the kernel takes from a killed process first, the memory or the connection, is not known. */
static bool is_of_death(enum gpud_status status)
{
    return status == GPUD_PEER || status == GPUD_NO_ACCESS;
}

/* Counts it, unless it is the end. */
static unsigned check_completion(const struct gpud_completion *done, uintptr_t posted, bool *seen,
                                 uintptr_t *failed)
{
    uintptr_t which = (uintptr_t)done->user;
    if (done->kind == GPUD_COMPLETION_END)
        return 0;
    CHECK(which < posted && !seen[which], "operation %d is completed again", (int)which);
    CHECK(done->status == GPUD_OK || is_of_death(done->status), "%s",
          gpud_status_string(done->status));
    seen[which] = true;
    *failed += is_of_death(done->status);
    return 1;
}

/* Each operation is completed, once, and the end comes behind them. */
void test_killed_peer(void)
{
    int other, status;
    pid_t child = run_apart(be_killed, &other);
    struct side side = meet_as_caller(other, 7118);
    struct buffer source = make_buffer(&side, LARGE, GPUD_REGION_REMOTE_WRITE);
    struct gpud_region_key key = hear_key(other);
    struct gpud_operation_params move = range_of(&source, 0, LARGE, .key = &key);
    static bool seen[1 << 20];
    uintptr_t posted = 1, completed = 1, failed = 0;
    struct gpud_operation_params recv = range_of(&source, 0, 64, .user = (void *)posted++);
    WORKS(POST(&side, RECEIVE, &recv));
    struct gpud_completion done = {.size = sizeof(done)};
    struct gpud_error error = {.reason = ""};
    enum gpud_status got = GPUD_OK;
    size_t count;
    /* Operations go on until one is refused. */
    for (int i = 0; !is_of_death(got); i++) {
        if (i == 40)
            CHECK(kill(child, SIGKILL) == 0, "kill: %m");
        move.user = (void *)posted;
        move.timeout_ns = PATIENCE;
        got = i % 2 ? gpud_connection_post(side.connection, GPUD_COMPLETION_PUT, &move, &error)
                    : gpud_connection_post(side.connection, GPUD_COMPLETION_GET, &move, &error);
        CHECK(got == GPUD_OK || (is_of_death(got) && i >= 40), "operation %d: %s: %s", i,
              gpud_status_string(got), error.reason);
        posted += got == GPUD_OK;
        CHECK(posted < sizeof(seen), "the death is not noticed");
        while (i % 32 == 31 && completed + 20 < posted) {
            done = next_completion(&side);
            completed += check_completion(&done, posted, seen, &failed);
            if (done.kind == GPUD_COMPLETION_END)
                break;
        }
        if (done.kind == GPUD_COMPLETION_END)
            break;
    }
    CHECK(waitpid(child, &status, 0) == child, "waitpid: %m");
    while (done.kind != GPUD_COMPLETION_END) {
        done = next_completion(&side);
        completed += check_completion(&done, posted, seen, &failed);
    }
    CHECK(is_of_death(done.status) && completed == posted && seen[1] && failed >= 1,
          "%d completed, %d of them failed, of %d", (int)completed, (int)failed, (int)posted);
    EXPECT(GPUD_TIMEOUT, "", gpud_completion_queue_wait(side.queue, 0, &done, 1, &count, &e));
    SAY("%d operations, %d failed", (int)posted - 1, (int)failed);
    drop_buffer(&source);
    close_side(&side);
}

static void write_on(int other)
{
    AUTO(close_side) struct side side = meet_as_caller(other, 7119);
    AUTO(drop_buffer) struct buffer source = make_buffer(&side, SIZE, GPUD_REGION_LOCAL);
    struct gpud_region_key key = hear_key(other);
    struct gpud_operation_params put = range_of(&source, 0, SIZE);
    struct gpud_completion done = {.size = sizeof(done)};
    struct gpud_error error;
    enum gpud_status status;
    size_t count;
    uint64_t posted = 0, completed = 0;
    memset(source.bytes, 1, SIZE);
    put.key = &key;
    put.timeout_ns = PATIENCE;
    put.notify = true;
    while ((status = gpud_connection_post(side.connection, GPUD_COMPLETION_PUT, &put, &error)) ==
           GPUD_OK) {
        posted++;
        put.notify = false;
        while (gpud_completion_queue_wait(side.queue, 0, &done, 1, &count, NULL) == GPUD_OK)
            completed += done.kind == GPUD_COMPLETION_PUT;
    }
    CHECK(status == GPUD_CLOSED, "%s: %s", gpud_status_string(status), error.reason);
    while (done.kind != GPUD_COMPLETION_END) {
        WORKS(gpud_completion_queue_wait(side.queue, PATIENCE, &done, 1, &count, &e));
        completed += done.kind == GPUD_COMPLETION_PUT;
    }
    CHECK(done.status == GPUD_CLOSED && completed == posted, "%llu of %llu completed",
          (unsigned long long)completed, (unsigned long long)posted);
}

static void close_early(int other)
{
    struct side side = meet_as_listener(other, 7119);
    struct buffer target = make_buffer(&side, SIZE, GPUD_REGION_REMOTE_WRITE);
    struct gpud_operation_params recv = range_of(&target, 0, 64);
    WORKS(POST(&side, RECEIVE, &recv));
    say_key(other, target.region);
    await_completion(&side, GPUD_COMPLETION_NOTIFICATION, GPUD_OK);
    struct gpud_connection *gone = side.connection;
    gpud_connection_close(&side.connection);
    /* The pages are reused from here on, while the other side keeps writing. */
    memset(target.bytes, 2, SIZE);
    struct gpud_completion done[2] = {{.size = sizeof(done[0])}};
    size_t count;
    WORKS(gpud_completion_queue_wait(side.queue, 0, done, 2, &count, &e));
    CHECK(count == 2 && done[0].kind == GPUD_COMPLETION_RECEIVE && done[0].status == GPUD_CLOSED &&
              done[1].kind == GPUD_COMPLETION_END && done[1].status == GPUD_CLOSED &&
              done[1].connection == gone,
          "what was under way, and the end");
    for (int i = 0; i < 100; i++) {
        CHECK(is_all(target.bytes, SIZE, 2), "written after the end");
        usleep(1000);
    }
    drop_buffer(&target);
    close_side(&side);
}

void test_closing(void)
{
    run_both(close_early, write_on);
}

/* --- registering ----------------------------------------------------------------------------- */

static void wait_for_word(int other)
{
    struct side side = meet_as_listener(other, 7120);
    hear(other);
    close_side(&side);
}

static void register_all(int other)
{
    struct gpud_region *region = NULL;
    struct gpud_region_info info = GPUD_INFO_INIT(info);
    struct gpud_region_params params = GPUD_PARAMS_INIT(params);
    struct side side = meet_as_caller(other, 7120);
    struct gpud_device *host = OPEN_DEVICE(side.context, "host");
    struct gpud_memory *memory = NEW_MEMORY(host, SIZE);
    EXPECT(GPUD_INVALID, "no memory", gpud_region_create(side.connection, &params, &region, &e));
    params.memory = memory;
    params.access = 1u << 7;
    EXPECT(GPUD_INVALID, "no access 0x80",
           gpud_region_create(side.connection, &params, &region, &e));
    params.access = GPUD_REGION_REMOTE_READ;
    params.length = 5;
    EXPECT(GPUD_INVALID, "either a memory",
           gpud_region_create(side.connection, &params, &region, &e));
    params.length = 0;
    WORKS(gpud_region_create(side.connection, &params, &region, &e));
    gpud_region_get_info(region, &info);
    CHECK(info.length == SIZE && info.access == GPUD_REGION_REMOTE_READ &&
              strcmp(info.device, "host") == 0 && strcmp(info.way, "host") == 0,
          "%s by %s", info.device, info.way);
    gpud_memory_unref(&memory); /* kept by the region */
    WORKS(gpud_region_destroy(&region, 0, &e));
    gpud_device_close(&host);

    /* Soft-RoCE takes no GPU's memory: each way says why not. */
    struct gpud_device *cuda = OPEN_DEVICE(side.context, "cuda:0");
    memory = NEW_MEMORY(cuda, SIZE);
    params = (struct gpud_region_params)GPUD_PARAMS_INIT(params);
    params.memory = memory;
    EXPECT(GPUD_UNSUPPORTED,
           "dma-buf: ", gpud_region_create(side.connection, &params, &region, &e));
    params.memory = NULL;
    params.address = gpud_memory_get_native(memory);
    params.length = SIZE;
    EXPECT(GPUD_UNSUPPORTED, "peermem: ", /* detected */
           gpud_region_create(side.connection, &params, &region, &e));
    params.device = "cuda:0";
    EXPECT(GPUD_UNSUPPORTED, "memory of cuda:0 cannot be registered",
           gpud_region_create(side.connection, &params, &region, &e));
    params.device = "abacus:0";
    EXPECT(GPUD_INVALID, "not a device", gpud_region_create(side.connection, &params, &region, &e));
    gpud_memory_unref(&memory);
    gpud_device_close(&cuda);
    say(other, 1);
    close_side(&side);
}

void test_registration(void)
{
    run_both(wait_for_word, register_all);
}

/* --- idle ------------------------------------------------------------------------------------ */

static void *accept_in_vain(void *arg)
{
    struct side *side = arg;
    EXPECT(GPUD_AGAIN, "interrupted",
           gpud_transfer_accept(side->transfer, side->queue, PATIENCE, &side->connection, &e));
    return NULL;
}

static void *complete_in_vain(void *arg)
{
    const struct side *side = arg;
    struct gpud_completion completion = {.size = sizeof(completion)};
    size_t count;
    EXPECT(GPUD_AGAIN, "interrupted",
           gpud_completion_queue_wait(side->queue, PATIENCE, &completion, 1, &count, &e));
    return NULL;
}

/* How often threads of this process, but for this one, have gone to sleep. */
static unsigned long count_sleeps(void)
{
    unsigned long count = 0, one;
    char path[300], line[256];
    DIR *threads = opendir("/proc/self/task");
    CHECK(threads, "/proc/self/task: %m");
    for (struct dirent *thread; (thread = readdir(threads));) {
        if (thread->d_name[0] == '.' || atoi(thread->d_name) == getpid())
            continue;
        snprintf(path, sizeof(path), "/proc/self/task/%s/status", thread->d_name);
        FILE *file = fopen(path, "re");
        while (file && fgets(line, sizeof(line), file))
            if (sscanf(line, "voluntary_ctxt_switches: %lu", &one) == 1)
                count += one;
        if (file)
            fclose(file);
    }
    closedir(threads);
    return count;
}

/* A server without connections sleeps, and so do the calls that wait; an interrupt wakes them. */
void test_idle(void)
{
    struct side side = {.connection = NULL};
    pthread_t threads[2];
    side = open_side(7121);
    CHECK(pthread_create(&threads[0], NULL, accept_in_vain, &side) == 0 &&
              pthread_create(&threads[1], NULL, complete_in_vain, &side) == 0,
          "no threads");
    /* Until they sleep. */
    unsigned long before, after = count_sleeps();
    int64_t deadline = gpud_deadline(PATIENCE);
    do {
        before = after;
        usleep(1000000);
        after = count_sleeps();
        SAY("in a second %lu wakings", after - before);
    } while (after - before > 0 && gpud_now() < deadline);
    CHECK_EQUAL(after, before);
    gpud_completion_queue_interrupt(side.queue, true);
    gpud_transfer_interrupt(side.transfer, true);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    close_side(&side);
}
