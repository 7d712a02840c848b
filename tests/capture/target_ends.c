/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "target_ends.h"

#include "target/target.h"

#include <dirent.h>

static const char *device;
char runtime[] = "/tmp/target-test-XXXXXX";

void make_target(struct ends *ends)
{
    WORKS(gpud_target_create(ends->context, &ends->params, &ends->target, &e));
}

void start_with(struct ends *ends, enum gpud_target_pace pace, const char *name)
{
    memset(ends, 0, sizeof(*ends));
    WORKS(gpud_context_create(NULL, &ends->context, &e));
    WORKS(gpud_layout_init(&ends->layout, "UYVY", 64, 48, 0, &e));
    ends->params = (struct gpud_target_params){.size = sizeof(ends->params),
                                               .layout = &ends->layout,
                                               .device = device,
                                               .slots = SLOTS,
                                               .pace = pace,
                                               .fps_num = 50,
                                               .fps_den = 1,
                                               .name = name};
    make_target(ends);
    writer_open(&ends->writer, ends->target);
}

void start(struct ends *ends)
{
    start_with(ends, GPUD_TARGET_FREE_RUNNING, NULL);
}

void end(struct ends *ends)
{
    if (ends->writer.slots) {
        atomic_store(ends->writer.stopped, 1);
        writer_close(&ends->writer);
    }
    gpud_target_destroy(&ends->target);
    gpud_context_destroy(&ends->context);
}

struct gpud_frame_info info_of(const struct gpud_frame *frame)
{
    struct gpud_frame_info info = GPUD_INFO_INIT(info);
    gpud_frame_get_info(frame, &info);
    return info;
}

struct gpud_frame *take(struct ends *ends)
{
    struct gpud_frame *frame = NULL;
    WORKS(gpud_target_acquire(ends->target, LONG, &frame, &e));
    return frame;
}

void check_picture(struct ends *ends, struct gpud_frame *frame, uint32_t number)
{
    unsigned char *expected = malloc((size_t)ends->layout.size);
    void *data;
    writer_draw(expected, ends->layout.size, number);
    WORKS(gpud_frame_map(frame, GPUD_READ, LONG, &data, &e));
    CHECK(memcmp(data, expected, (size_t)ends->layout.size) == 0, "not the picture of frame %u",
          number);
    gpud_frame_unmap(frame);
    free(expected);
}

void see_all(struct ends *ends)
{
    struct gpud_target_ring *ring = ends->target->ring;
    for (int64_t until = gpud_deadline(LONG); ring->posted != ends->writer.number;) {
        WORKS(gpud_target_look(ring, &e));
        CHECK(gpud_now() < until, "%u of %u frames are seen", ring->posted, ends->writer.number);
    }
}

void expect(struct ends *ends, uint32_t number, uint32_t flags, uint64_t dropped)
{
    struct gpud_frame *frame = take(ends);
    struct gpud_frame_info info = info_of(frame);
    CHECK_EQUAL(info.offset, number);
    CHECK_EQUAL(info.dropped, dropped);
    CHECK_EQUAL(info.flags, flags);
    CHECK_EQUAL(info.duration_ns, 20 * GPUD_MSEC);
    check_picture(ends, frame, number);
    gpud_frame_release(&frame);
}

struct gpud_target_info info_now(struct ends *ends)
{
    struct gpud_target_info info = GPUD_INFO_INIT(info);
    gpud_target_get_info(ends->target, &info);
    return info;
}

bool is_corrupted(const struct gpud_frame *frame)
{
    return info_of(frame).flags & GPUD_FRAME_CORRUPTED;
}

static unsigned count_fds(void)
{
    unsigned count = 0;
    DIR *fds = opendir("/proc/self/fd");
    while (readdir(fds))
        count++;
    closedir(fds);
    return count;
}

int run_twice(int argc, char **argv, void (*everything)(void))
{
    CHECK(argc == 2, "usage: %s DEVICE", argv[0]);
    device = argv[1];
    CHECK(mkdtemp(runtime) && setenv("XDG_RUNTIME_DIR", runtime, 1) == 0, "%m");
    everything();
    unsigned before = count_fds();
    everything();
    CHECK_EQUAL(count_fds(), before);
    return 0;
}
