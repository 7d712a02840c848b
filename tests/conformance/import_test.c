/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* import@EXPORTER-IMPORTER: memory that one driver exports by descriptor and another driver of the
 * same GPU imports. The rules of acquire and release are watched by the fake driver; a real one
 * does without them now and then. */
#include "conformance.h"
#include "support/make.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SOON gpud_deadline(10 * GPUD_SEC)
#define SIZE (3 << 20) /* the exporter rounds it up */

struct pair {
    struct side from, to;
};

static struct gpud_memory *make(struct side *side, enum gpud_usage usage,
                                struct gpud_handle *handle)
{
    struct gpud_memory *memory = NEW_MEMORY_FOR(side->device, SIZE, usage);
    WORKS(gpud_memory_export(memory, handle, &e));
    CHECK(handle->fd >= 0, "no descriptor");
    return memory;
}

static struct gpud_memory *import(struct side *side, enum gpud_usage usage,
                                  const struct gpud_handle *handle)
{
    struct gpud_memory *memory;
    WORKS(gpud_memory_import(side->device, handle, SIZE, usage, &memory, &e));
    CHECK(fcntl(handle->fd, F_GETFD) >= 0, "the caller's descriptor is closed");
    return memory;
}

static void test_link(struct pair *pair)
{
    say("the importer's driver writes the other's memory, and both say so");
    struct gpud_device_link out = GPUD_INFO_INIT(out), in = GPUD_INFO_INIT(in);
    gpud_device_get_link(pair->to.device, pair->from.device, &out);
    gpud_device_get_link(pair->from.device, pair->to.device, &in);
    CHECK(out.direct, "the importer cannot: %s", out.reason);
    if (!gpud_caps_import(pair->from.device->caps, pair->to.device->caps))
        CHECK(!in.direct && strstr(in.reason, "one GPU under two drivers' names"), "\"%s\"",
              in.reason);
}

static void test_reads(struct pair *pair)
{
    say("what the exporter wrote is read, again and again");
    struct gpud_handle handle;
    struct gpud_memory *memory = make(&pair->from, GPUD_USAGE_SHARE, &handle);
    write_pattern(&pair->from, memory, 1);
    struct gpud_memory *seen = import(&pair->to, GPUD_USAGE_SHARE, &handle);
    close(handle.fd);
    READ_PATTERN(&pair->to, seen, 1);
    for (uint32_t seed = 2; seed < 20; seed++) {
        write_pattern(&pair->from, memory, seed);
        READ_PATTERN(&pair->to, seen, seed);
    }
    gpud_memory_unref(&memory); /* the importer's own reference keeps the pages */
    READ_PATTERN(&pair->to, seen, 19);
    gpud_memory_unref(&seen);
}

static void test_writes(struct pair *pair)
{
    say("what the importer writes, by copies and by mappings, is the exporter's");
    struct gpud_handle handle;
    struct gpud_memory *memory = make(&pair->from, GPUD_USAGE_TARGET, &handle);
    struct gpud_memory *seen = import(&pair->to, GPUD_USAGE_TARGET, &handle);
    close(handle.fd);
    for (uint32_t seed = 1; seed < 20; seed += 2) {
        send_pattern(&pair->to, seen, seed);
        READ_PATTERN(&pair->from, memory, seed);
        write_pattern(&pair->to, seen, seed + 1);
        READ_PATTERN(&pair->from, memory, seed + 1);
    }
    gpud_memory_unref(&seen);
    READ_PATTERN(&pair->from, memory, 20);
    gpud_memory_unref(&memory);
}

/* Host memory for copies, as the side's device sees it. */
static struct gpud_memory *wrap(struct side *side, unsigned char *data)
{
    struct gpud_memory *memory;
    WORKS(gpud_memory_wrap_host(side->device, data, SIZE, false, NULL, NULL, &memory, &e));
    return memory;
}

static void enqueue(struct gpud_queue *queue, struct gpud_memory *to, struct gpud_memory *from)
{
    struct gpud_copy copy = {.to = to, .from = from, .row_bytes = SIZE, .rows = 1};
    WORKS(gpud_queue_copy(queue, &copy, &e));
    WORKS(gpud_queue_flush(queue, &e));
}

static void test_overlap(struct pair *pair)
{
    say("mappings that overlap, and copies on another queue meanwhile");
    static _Alignas(4096) unsigned char out[SIZE]; /* as CUDA pins it */
    struct gpud_handle handle;
    struct gpud_memory *memory = make(&pair->from, GPUD_USAGE_TARGET, &handle);
    struct gpud_memory *seen = import(&pair->to, GPUD_USAGE_TARGET, &handle);
    struct gpud_memory *target = wrap(&pair->to, out);
    void *first, *second;
    close(handle.fd);
    struct gpud_queue *other = NEW_QUEUE(pair->to.device);
    write_pattern(&pair->from, memory, 7);
    WORKS(gpud_queue_map(pair->to.queue, seen, 0, 4096, GPUD_READ, SOON, &first, &e));
    WORKS(gpud_queue_map(pair->to.queue, seen, 8192, 4096, GPUD_READ, SOON, &second, &e));
    CHECK_PATTERN((unsigned char *)first, 4096, 7);
    WORKS(gpud_queue_unmap(pair->to.queue, seen, first, &e));
    enqueue(other, target, seen);
    WORKS(gpud_queue_finish(other, SOON, &e));
    CHECK_PATTERN(out, SIZE, 7);
    for (uint64_t i = 0; i < 4096; i++)
        CHECK(((unsigned char *)second)[i] == pattern(8192 + i, 7), "byte %llu",
              (unsigned long long)i);
    WORKS(gpud_queue_unmap(pair->to.queue, seen, second, &e));
    WORKS(gpud_queue_finish(pair->to.queue, SOON, &e));

    gpud_queue_unref(&other);
    gpud_memory_unref(&target);
    gpud_memory_unref(&seen);
    gpud_memory_unref(&memory);
}

/* By a queue that a user event holds, which hangs on NVIDIA's driver (580): last, to be skipped
 * there. */
static void test_order(struct pair *pair)
{
    say("uses of one memory keep their order on two queues");
    static unsigned char in[SIZE], out[SIZE];
    struct gpud_handle handle;
    struct gpud_memory *memory = make(&pair->from, GPUD_USAGE_TARGET, &handle);
    struct gpud_memory *seen = import(&pair->to, GPUD_USAGE_TARGET, &handle);
    struct gpud_memory *source = wrap(&pair->to, in), *target = wrap(&pair->to, out);
    close(handle.fd);
    struct gpud_queue *other = NEW_QUEUE(pair->to.device);
    fill(in, SIZE, 8);
    struct conformance_hold *hold = conformance_hold_queue(pair->to.queue);
    enqueue(pair->to.queue, seen, source);
    enqueue(other, target, seen);
    EXPECT(GPUD_TIMEOUT, gpud_queue_finish(other, gpud_deadline(20 * GPUD_MSEC), &e));
    conformance_release_queue(hold, false);
    WORKS(gpud_queue_finish(other, SOON, &e));
    CHECK_PATTERN(out, SIZE, 8);
    WORKS(gpud_queue_finish(pair->to.queue, SOON, &e));
    READ_PATTERN(&pair->from, memory, 8);

    gpud_queue_unref(&other);
    gpud_memory_unref(&target);
    gpud_memory_unref(&source);
    gpud_memory_unref(&seen);
    gpud_memory_unref(&memory);
}

static void refuse(struct pair *pair, const struct gpud_handle *handle)
{
    struct gpud_memory *none = NULL;
    EXPECT(GPUD_PEER,
           gpud_memory_import(pair->to.device, handle, SIZE, GPUD_USAGE_SHARE, &none, &e));
    CHECK(!none, "a refusal leaves something behind");
    CHECK(handle->fd < 0 || fcntl(handle->fd, F_GETFD) >= 0, "a refusal takes the descriptor");
}

static void test_lies(struct pair *pair)
{
    say("what is no memory of the GPU is refused");
    struct gpud_handle handle, lie;
    struct gpud_memory *memory = make(&pair->from, GPUD_USAGE_SHARE, &handle);
    lie = handle;
    lie.word[0] = SIZE - 4096;
    refuse(pair, &lie);
    lie.word[0] = handle.word[0] * 2;
    refuse(pair, &lie);
    lie.word[0] = UINT64_MAX;
    refuse(pair, &lie);
    lie = handle;
    lie.fd = -1;
    refuse(pair, &lie);
    lie.fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    refuse(pair, &lie);
    close(lie.fd);
    lie.fd = memfd_create("none-of-a-gpu", MFD_CLOEXEC);
    CHECK(lie.fd >= 0 && ftruncate(lie.fd, (off_t)lie.word[0]) == 0, "memfd: %s", strerror(errno));
    refuse(pair, &lie);
    close(lie.fd);
    lie = handle;
    lie.type = GPUD_HANDLE_MEMFD;
    refuse(pair, &lie);
    close(handle.fd);
    gpud_memory_unref(&memory);
}

/* Mapping takes drivers longer than importing: only some are. */
static void test_cycles(struct pair *pair)
{
    say("a thousand imports leave nothing behind");
    struct gpud_handle handle;
    struct gpud_memory *memory = make(&pair->from, GPUD_USAGE_SHARE, &handle);
    write_pattern(&pair->from, memory, 5);
    struct baseline before = baseline_take();
    int64_t start = gpud_now();
    for (int i = 0; i < 1000; i++) {
        struct gpud_memory *seen = import(&pair->to, GPUD_USAGE_SHARE, &handle);
        void *data;
        if (i % 50 == 0) {
            WORKS(gpud_queue_map(pair->to.queue, seen, 0, 4096, GPUD_READ, SOON, &data, &e));
            CHECK_PATTERN((unsigned char *)data, 4096, 5);
            WORKS(gpud_queue_unmap(pair->to.queue, seen, data, &e));
        }
        gpud_memory_unref(&seen);
        CHECK(gpud_now() - start < 60 * GPUD_SEC, "%d imports took a minute", i + 1);
    }
    WORKS(gpud_queue_finish(pair->to.queue, SOON, &e));
    say("  %.3f ms each", (double)(gpud_now() - start) / 1e9);
    BASELINE_CHECK(before);
    close(handle.fd);
    gpud_memory_unref(&memory);
}

static void test_refusal(struct pair *pair)
{
    say("it imports nothing, and says so");
    struct gpud_handle handle;
    struct gpud_memory *memory = make(&pair->from, GPUD_USAGE_SHARE, &handle), *none;
    EXPECT(GPUD_UNSUPPORTED,
           gpud_memory_import(pair->to.device, &handle, SIZE, GPUD_USAGE_SHARE, &none, &e));
    close(handle.fd);
    gpud_memory_unref(&memory);
}

int main(int argc, char **argv)
{
    static void (*const tests[])(struct pair *) = {
        test_link, test_reads, test_writes, test_overlap, test_lies, test_cycles, test_order};
    struct pair pair;
    CHECK(argc > 2, "usage: %s EXPORTER IMPORTER [WHICH]", argv[0]);
    say_device(argv[1]);
    say_device(argv[2]);
    struct baseline before = baseline_take();
    pair.from = side_open(argv[1]);
    pair.to = side_open(argv[2]);
    if (!gpud_caps_import(pair.to.device->caps, pair.from.device->caps))
        test_refusal(&pair);
    else
        for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
            if (argc < 4 || atoi(argv[3]) == (int)i)
                tests[i](&pair);
    side_close(&pair.to);
    side_close(&pair.from);
    BASELINE_CHECK(before);
    return 0;
}
