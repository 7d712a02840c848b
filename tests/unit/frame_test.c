/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Frames in the application's own memory: what may be wrapped, mapped and described, and the life
 * of the memory. */
#include "base/base.h"
#include "support/check.h"
#include "support/make.h"
#include <gpudirect/gpudirect.h>

#include <pthread.h>

static int destroyed;

static void destroy(void *user)
{
    destroyed++;
    free(user);
}

static struct gpud_device *host;

static struct gpud_memory *wrap(size_t size)
{
    struct gpud_memory *memory;
    void *data = calloc(1, size);
    CHECK(data, "out of memory");
    WORKS(gpud_memory_wrap(host, data, size, destroy, data, &memory, &e));
    return memory;
}

/* Which its frame alone keeps. */
static struct gpud_frame *new_frame(const struct gpud_layout *layout)
{
    struct gpud_memory *memory = wrap(layout->size);
    struct gpud_frame *frame =
        GIVEN(struct gpud_frame *, gpud_frame_wrap(memory, 0, layout, &given, &e));
    gpud_memory_unref(&memory);
    return frame;
}

static void check_large(const struct gpud_frame_info *info, const uint8_t *large, size_t size)
{
    CHECK(info->large_meta_size == size && memcmp(info->large_meta, large, size) == 0,
          "%zu bytes changed", size);
}

static int released;

static void on_release(void *user)
{
    CHECK(user == &released, "another user pointer");
    released++;
}

static void *release_it(void *arg)
{
    struct gpud_frame *frame = arg;
    gpud_frame_release(&frame);
    return NULL;
}

int main(void)
{
    AUTO(gpud_context_destroy) struct gpud_context *context = NEW_CONTEXT();
    host = OPEN_DEVICE(context, NULL);
    SAY("wrapped frames");
    struct gpud_layout bad;
    struct gpud_frame *frame = NULL;
    struct gpud_layout layout = LAYOUT("NV12", 64, 48, 0);
    struct gpud_memory *memory = wrap(layout.size + 100);
    EXPECT(GPUD_INVALID, "does not fit", gpud_frame_wrap(memory, 101, &layout, &frame, &e));
    EXPECT(GPUD_INVALID, "does not fit", gpud_frame_wrap(memory, UINT64_MAX, &layout, &frame, &e));
    EXPECT(GPUD_INVALID, "does not fit",
           gpud_frame_wrap(memory, UINT64_MAX - layout.size + 1, &layout, &frame, &e));
    bad = layout;
    bad.plane[1].offset = layout.size;
    EXPECT(GPUD_INVALID, "leaves the frame", gpud_frame_wrap(memory, 0, &bad, &frame, &e));
    CHECK(!frame, "an output was written by a call that failed");

    WORKS(gpud_frame_wrap(memory, 100, &layout, &frame, &e));
    char *native = gpud_memory_get_native(memory);
    gpud_memory_unref(&memory);
    CHECK(destroyed == 0, "the memory is gone, and a frame lies in it");
    struct gpud_frame_info at = GPUD_INFO_INIT(at);
    gpud_frame_get_info(frame, &at);
    CHECK(gpud_memory_get_native(at.memory) == native && at.native == native &&
              at.memory_offset == 100,
          "another place");
    CHECK_EQUAL(at.slot, UINT32_MAX);

    void *data = NULL, *again = NULL;
    EXPECT(GPUD_INVALID, "negative", gpud_frame_map(frame, GPUD_READ, -1, &data, &e));
    EXPECT(GPUD_INVALID, "GPUD_READ", gpud_frame_map(frame, 0, GPUD_SEC, &data, &e));
    EXPECT(GPUD_INVALID, "GPUD_READ", gpud_frame_map(frame, 4, GPUD_SEC, &data, &e));
    CHECK(!data, "an output was written by a call that failed");
    WORKS(gpud_frame_map(frame, GPUD_READ, 0, &data, &e));
    WORKS(gpud_frame_map(frame, GPUD_WRITE, 0, &again, &e));
    CHECK(data == native + 100 && again == data, "mapped elsewhere");
    gpud_frame_unmap(frame);
    gpud_frame_unmap(frame);
    gpud_frame_unmap(frame); /* once too often: nothing */
    gpud_frame_release(&frame);
    CHECK(!frame && destroyed == 1, "the last user left, and the memory stays");
    gpud_frame_release(&frame);
    gpud_frame_release(NULL);

    SAY("what is told about a frame");
    struct gpud_frame_info info = GPUD_INFO_INIT(info), got;
    layout = LAYOUT("GRAY8", 64, 48, 0);
    frame = new_frame(&layout);

    memset(&got, 0xee, sizeof(got));
    got.size = sizeof(got);
    gpud_frame_get_info(frame, &got);
    CHECK(got.pts_ns == GPUD_TIME_NONE && got.dts_ns == GPUD_TIME_NONE &&
              got.duration_ns == GPUD_TIME_NONE && got.offset == UINT64_MAX && got.flags == 0 &&
              got.meta_size == 0,
          "a new frame has times");
    CHECK(memcmp(&got.layout, &layout, sizeof(layout)) == 0, "another layout");

    info.pts_ns = 1;
    info.dts_ns = 2;
    info.duration_ns = 3;
    info.offset = 4;
    info.meta_size = GPUD_FRAME_META_MAX;
    memset(info.meta, 'm', sizeof(info.meta));
    info.flags = GPUD_FRAME_USER | GPUD_FRAME_DISCONTINUITY | UINT32_C(1) << 31;
    info.sequence = 99; /* the library's own: ignored */
    info.epoch = 99;
    WORKS(gpud_frame_set_info(frame, &info, &e));
    gpud_frame_get_info(frame, &got);
    CHECK(got.pts_ns == 1 && got.dts_ns == 2 && got.duration_ns == 3 && got.offset == 4,
          "the times changed");
    CHECK(got.meta_size == GPUD_FRAME_META_MAX &&
              memcmp(got.meta, info.meta, GPUD_FRAME_META_MAX) == 0,
          "the meta changed");
    CHECK(got.flags == info.flags, "flags %x became %x", info.flags, got.flags);
    CHECK(got.sequence == 0 && got.epoch == 0 && got.layout.width == 64,
          "the library's own fields were overwritten");

    info.meta_size = GPUD_FRAME_META_MAX + 1;
    EXPECT(GPUD_INVALID, "meta", gpud_frame_set_info(frame, &info, &e));
    info.meta_size = UINT32_MAX;
    EXPECT(GPUD_INVALID, "meta", gpud_frame_set_info(frame, &info, &e));

    /* A received frame's info may be passed on with another frame: that the first was shared does
     * not apply to the second. */
    info.meta_size = 0;
    info.flags = GPUD_FRAME_READ_ONLY | UINT32_C(1) << 15 | UINT32_C(1) << 8;
    WORKS(gpud_frame_set_info(frame, &info, &e));
    gpud_frame_get_info(frame, &got);
    CHECK(got.flags == 0, "flags that are the library's own were set by the application: %x",
          got.flags);
    MAP_FRAME(frame, GPUD_WRITE, 0);
    gpud_frame_release(&frame); /* and with it the mapping */

    SAY("a frame has its own copy of a large meta, and shares it with frames over its bytes");
    static uint8_t large[GPUD_LARGE_META_MAX + 1];
    layout = LAYOUT("GRAY8", 64, 48, 0);
    struct gpud_frame *second;
    frame = new_frame(&layout);
    info = INFO(frame, frame);
    CHECK(!info.large_meta && info.large_meta_size == 0, "a new frame has a large meta");
    info.large_meta_size = 1;
    EXPECT(GPUD_INVALID, "at NULL", gpud_frame_set_info(frame, &info, &e));
    info.large_meta = large;
    info.large_meta_size = sizeof(large);
    EXPECT(GPUD_INVALID, "1048577 bytes", gpud_frame_set_info(frame, &info, &e));
    for (size_t size = 1; size < sizeof(large); size = size * 3 + 7) {
        memset(large, (int)size, size);
        info.large_meta = large;
        info.large_meta_size = size;
        WORKS(gpud_frame_set_info(frame, &info, &e));
        gpud_frame_get_info(frame, &info);
        CHECK(info.large_meta != large, "the frame has no copy of its own");
        check_large(&info, large, size);
        info.pts_ns = size; /* what was read from it is set again */
        WORKS(gpud_frame_set_info(frame, &info, &e));
        gpud_frame_get_info(frame, &info);
        CHECK_EQUAL(info.pts_ns, size);
        check_large(&info, large, size);
    }
    size_t last = info.large_meta_size;
    WORKS(gpud_frame_wrap_frame(frame, NULL, NULL, NULL, &second, &e));
    info.large_meta_size = 0;
    WORKS(gpud_frame_set_info(frame, &info, &e));
    gpud_frame_get_info(frame, &info);
    CHECK(!info.large_meta && info.large_meta_size == 0, "it is still there");
    gpud_frame_get_info(second, &info);
    check_large(&info, large, last); /* the second frame's is there still */
    gpud_frame_release(&second);
    gpud_frame_release(&frame);

    SAY("a block uses as many bytes as it says; a picture always all");
    struct gpud_media media = {.kind = GPUD_MEDIA_DATA,
                               .data = {.type = "meta/x-klv", .max_size = 100}};
    WORKS(gpud_media_get_layout(&media, &layout, &e));
    frame = new_frame(&layout);
    info = INFO(frame, frame);
    CHECK_EQUAL(info.bytes, 100);
    static const uint64_t wrong[] = {0, 101, UINT64_MAX};
    for (int i = 0; i < 3; i++)
        EXPECT(GPUD_INVALID, "1 to 100", gpud_frame_set_size(frame, wrong[i], &e));
    MAP_FRAME(frame, GPUD_WRITE, 0);
    EXPECT(GPUD_INVALID, "mapped", gpud_frame_set_size(frame, 7, &e));
    gpud_frame_unmap(frame);
    WORKS(gpud_frame_set_size(frame, 7, &e));
    gpud_frame_get_info(frame, &info);
    CHECK(info.bytes == 7 && info.layout.size == 100, "%llu bytes", (unsigned long long)info.bytes);
    info.bytes = 50; /* the library's own: ignored */
    WORKS(gpud_frame_set_info(frame, &info, &e));
    WORKS(gpud_frame_wrap_frame(frame, NULL, NULL, NULL, &second, &e));
    gpud_frame_get_info(second, &info);
    CHECK_EQUAL(info.bytes, 7);
    EXPECT(GPUD_NO_ACCESS, "shared", gpud_frame_set_size(second, 3, &e));
    gpud_frame_release(&second);
    WORKS(gpud_frame_set_size(frame, 100, &e));
    gpud_frame_get_info(frame, &info);
    CHECK_EQUAL(info.bytes, 100);
    struct gpud_frame *held = gpud_frame_ref(frame);
    EXPECT(GPUD_NO_ACCESS, "shared", gpud_frame_set_size(frame, 3, &e));
    gpud_frame_release(&held);
    gpud_frame_release(&frame);

    layout = LAYOUT("GRAY8", 64, 48, 0);
    frame = new_frame(&layout);
    EXPECT(GPUD_INVALID, "a picture", gpud_frame_set_size(frame, layout.size - 1, &e));
    WORKS(gpud_frame_set_size(frame, layout.size, &e));
    gpud_frame_release(&frame);

    SAY("a frame over another one's bytes has its own info, and its end is reported");
    second = NULL;
    info =
        (struct gpud_frame_info){.size = sizeof(info), .pts_ns = 1, .meta_size = 3, .meta = "one"};
    layout = LAYOUT("GRAY8", 64, 48, 0);
    struct gpud_layout smaller = LAYOUT("GRAY8", 64, 32, 0);
    struct gpud_layout larger = LAYOUT("GRAY8", 64, 64, 0);
    memory = wrap(larger.size + 100);
    WORKS(gpud_frame_wrap(memory, 100, &layout, &frame, &e));
    WORKS(gpud_frame_set_info(frame, &info, &e));

    EXPECT(GPUD_INVALID, "does not fit",
           gpud_frame_wrap_frame(frame, &larger, on_release, &released, &second, &e));
    larger.planes = 99;
    EXPECT(GPUD_INVALID, "",
           gpud_frame_wrap_frame(frame, &larger, on_release, &released, &second, &e));
    CHECK(!second && released == 0, "a call that failed left something");

    WORKS(gpud_frame_wrap_frame(frame, NULL, on_release, &released, &second, &e));
    gpud_frame_get_info(second, &info);
    CHECK(info.memory == memory && info.memory_offset == 100, "another place");
    CHECK(info.device == host, "another device");
    CHECK_EQUAL(info.slot, UINT32_MAX);
    CHECK(info.pts_ns == 1 && info.meta_size == 3 && memcmp(info.meta, "one", 3) == 0,
          "it begins with other times");
    info.pts_ns = 2;
    WORKS(gpud_frame_set_info(second, &info, &e));
    gpud_frame_get_info(frame, &info);
    CHECK(info.pts_ns == 1, "the first frame's time changed");
    data = MAP_FRAME(frame, GPUD_READ, 0);
    void *same = MAP_FRAME(second, GPUD_READ, 0);
    CHECK(data == same, "other bytes");
    EXPECT(GPUD_NO_ACCESS, "shared", gpud_frame_map(second, GPUD_WRITE, 0, &same, &e));
    gpud_frame_release(&second);
    CHECK(!second && released == 1, "its end was told %d times", released);

    WORKS(gpud_frame_wrap_frame(frame, &smaller, NULL, NULL, &second, &e));
    gpud_frame_get_info(second, &info);
    CHECK_EQUAL(info.layout.height, 32);
    gpud_frame_release(&second);
    gpud_frame_release(&frame);
    gpud_memory_unref(&memory);

    SAY("of several holders the last release is the one that counts");
    info = (struct gpud_frame_info)GPUD_INFO_INIT(info);
    pthread_t threads[8];
    layout = LAYOUT("GRAY8", 64, 48, 0);
    for (int round = 0; round < 50; round++) {
        frame = new_frame(&layout);
        destroyed = 0;
        gpud_frame_get_info(frame, &info);
        WORKS(gpud_frame_set_info(frame, &info, &e));
        second = gpud_frame_ref(frame);
        CHECK(second == frame, "another frame");
        EXPECT(GPUD_NO_ACCESS, "several holders", gpud_frame_set_info(frame, &info, &e));
        EXPECT(GPUD_NO_ACCESS, "shared", gpud_frame_map(frame, GPUD_WRITE, 0, &data, &e));

        /* What the other one maps stays mapped. */
        WORKS(gpud_frame_map(frame, GPUD_READ, 0, &data, &e));
        gpud_frame_release(&second);
        CHECK(!second && destroyed == 0, "given back, and it is still held");
        EXPECT(GPUD_NO_ACCESS, "shared", gpud_frame_map(frame, GPUD_WRITE, 0, &data, &e));
        gpud_frame_unmap(frame);
        gpud_frame_get_info(frame, &info);
        CHECK(info.flags & GPUD_FRAME_READ_ONLY, "writable again");
        WORKS(gpud_frame_set_info(frame, &info, &e));

        for (int i = 0; i < 8; i++)
            threads[i] = NEW_THREAD(release_it, gpud_frame_ref(frame));
        gpud_frame_release(&frame);
        for (int i = 0; i < 8; i++)
            pthread_join(threads[i], NULL);
        CHECK_EQUAL(destroyed, 1);
    }
    gpud_device_close(&host);
    return 0;
}
