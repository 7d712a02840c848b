/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "transfer_ends.h"

#include "keys.h"

#include <sys/mman.h>

struct side open_side(uint16_t port)
{
    struct side side = {.context = NULL};
    struct gpud_transfer_params params = GPUD_PARAMS_INIT(params);
    params.address = port ? address_of(port, "") : NULL;
    params.allow_unauthenticated = true;
    WORKS(gpud_context_create(NULL, &side.context, &e));
    WORKS(gpud_transfer_create(side.context, &params, &side.transfer, &e));
    WORKS(gpud_completion_queue_create(side.context, &side.queue, &e));
    return side;
}

void accept_side(struct side *side)
{
    WORKS(gpud_transfer_accept(side->transfer, side->queue, PATIENCE, &side->connection, &e));
}

void connect_side(struct side *side, uint16_t port)
{
    WORKS(gpud_transfer_connect(side->transfer, address_of(port, ""), side->queue, PATIENCE,
                                &side->connection, &e));
}

void close_side(struct side *side)
{
    gpud_connection_close(&side->connection);
    gpud_transfer_destroy(&side->transfer);
    gpud_completion_queue_destroy(&side->queue);
    gpud_context_destroy(&side->context);
}

struct side meet_as_listener(int other, uint16_t port)
{
    struct side side = open_side(port);
    say(other, port);
    accept_side(&side);
    return side;
}

struct side meet_as_caller(int other, uint16_t port)
{
    struct side side = open_side(0);
    CHECK_EQUAL(hear(other), port);
    connect_side(&side, port);
    return side;
}

struct buffer make_buffer(const struct side *side, uint64_t size, unsigned access)
{
    struct gpud_region_params params = GPUD_PARAMS_INIT(params);
    void *pages = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(pages != MAP_FAILED, "mmap: %m");
    struct buffer buffer = {.bytes = pages, .size = size};
    params.address = pages;
    params.length = size;
    params.access = access;
    WORKS(gpud_region_create(side->connection, &params, &buffer.region, &e));
    return buffer;
}

void drop_buffer(struct buffer *buffer)
{
    WORKS(gpud_region_destroy(&buffer->region, PATIENCE, &e));
    CHECK(!buffer->region && munmap(buffer->bytes, buffer->size) == 0, "munmap: %m");
}

static unsigned char pattern_at(uint64_t at, uint32_t seed)
{
    uint64_t mixed = (at + 1) * UINT64_C(0x9e3779b97f4a7c15) + seed * UINT64_C(0x2545f4914f6cdd1d);
    return (unsigned char)(mixed >> 56);
}

void fill_pattern(unsigned char *bytes, uint64_t size, uint32_t seed)
{
    for (uint64_t i = 0; i < size; i++)
        bytes[i] = pattern_at(i, seed);
}

bool has_pattern(const unsigned char *bytes, uint64_t size, uint32_t seed)
{
    for (uint64_t i = 0; i < size; i++)
        if (bytes[i] != pattern_at(i, seed))
            return false;
    return true;
}

bool is_all(const unsigned char *bytes, uint64_t size, unsigned char value)
{
    for (uint64_t i = 0; i < size; i++)
        if (bytes[i] != value)
            return false;
    return true;
}

void say_key(int other, const struct gpud_region *region)
{
    struct gpud_region_key key = key_of(region);
    CHECK(write(other, &key, sizeof(key)) == sizeof(key), "the other process is gone");
}

struct gpud_region_key hear_key(int other)
{
    struct gpud_region_key key;
    CHECK(read(other, &key, sizeof(key)) == sizeof(key), "the other process is gone");
    return key;
}

struct gpud_completion next_completion(const struct side *side)
{
    struct gpud_completion completion = {.size = sizeof(completion)};
    size_t count;
    WORKS(gpud_completion_queue_wait(side->queue, PATIENCE, &completion, 1, &count, &e));
    CHECK_EQUAL(count, 1);
    CHECK(completion.connection == side->connection, "of another connection");
    return completion;
}

struct gpud_completion await_completion(const struct side *side, enum gpud_completion_kind kind,
                                        enum gpud_status status)
{
    struct gpud_completion completion = next_completion(side);
    struct gpud_connection_info info = GPUD_INFO_INIT(info);
    gpud_connection_get_info(side->connection, &info);
    CHECK(completion.kind == kind && completion.status == status,
          "completed: kind %d with \"%s\", wanted kind %d with \"%s\" (%s)", completion.kind,
          gpud_status_string(completion.status), kind, gpud_status_string(status), info.reason);
    return completion;
}
