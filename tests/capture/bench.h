/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A test bench for captures: the fake driver at the input, a context around it. */
#ifndef GPUD_TESTS_CAPTURE_BENCH_H
#define GPUD_TESTS_CAPTURE_BENCH_H

#include "base/base.h"
#include "capture/capture.h"
#include "support/fake_driver.h"
#include "fake_gpu.h"
#include "support/check.h"
#include "support/configure.h"

struct bench {
    struct fake_driver driver; /* set what it shall be before bench_open() */
    struct fake_gpu gpu;
    bool use_gpu; /* frames shall arrive on the fake GPU, else on the host */
    const char *method;
    bool direct; /* require_direct */
    uint32_t slots;
    struct gpud_capture_params params;     /* the others */
    const struct gpud_v4l2_system *system; /* NULL: fake_system */
    struct gpud_context *context;
    struct gpud_device *host;
    struct gpud_capture *capture;
};

static inline enum gpud_status bench_create(struct bench *bench, struct gpud_error *error)
{
    struct gpud_capture_params params = bench->params;
    params.size = sizeof(params);
    char address[128];
    snprintf(address, sizeof(address), "v4l2://%s",
             bench->driver.node ? bench->driver.node : "/dev/fake");
    params.address = address;
    params.method = bench->method;
    params.require_direct = bench->direct;
    params.slots = bench->slots;
    return gpud_capture_open(bench->use_gpu ? bench->gpu.device : bench->host, bench->host, &params,
                             bench->system ? bench->system : &fake_system, &bench->capture, error);
}

/* Up to where a capture can be made. */
static inline void bench_prepare(struct bench *bench)
{
    struct gpud_context_params params = GPUD_PARAMS_INIT(params);
    params.log_level = GPUD_LOG_ERROR;
    if (!bench->driver.stamp)
        bench->driver.stamp = V4L2_BUF_FLAG_TIMESTAMP_MONOTONIC;
    fake_install(&bench->driver);
    WORKS(gpud_context_create(&params, &bench->context, &e));
    WORKS(gpud_device_open(bench->context, "host", &bench->host, &e));
    fake_gpu_open(&bench->gpu, bench->context);
}

static inline void bench_open(struct bench *bench)
{
    bench_prepare(bench);
    WORKS(bench_create(bench, &e));
}

/* Ready to stream: UYVY 320x180. */
static inline void bench_stream(struct bench *bench)
{
    bench_open(bench);
    WORKS(configure_format(bench->capture, "UYVY", 320, 180, 0, 1, &e));
}

/* Checks that nothing is left behind. */
static inline void bench_close(struct bench *bench)
{
    gpud_capture_destroy(&bench->capture);
    fake_gpu_close(&bench->gpu);
    CHECK_EQUAL(bench->context->device_count, 1);
    CHECK_EQUAL(bench->host->references, 1);
    gpud_device_close(&bench->host);
    gpud_context_destroy(&bench->context);
    fake_remove(&bench->driver);
}

static inline struct gpud_frame *bench_acquire(struct bench *bench)
{
    struct gpud_frame *frame = NULL;
    WORKS(gpud_capture_acquire(bench->capture, GPUD_SEC, &frame, &e));
    CHECK(frame, "no frame");
    return frame;
}

static inline struct gpud_frame_info bench_info_of(const struct gpud_frame *frame)
{
    struct gpud_frame_info info = GPUD_INFO_INIT(info);
    gpud_frame_get_info(frame, &info);
    return info;
}

static inline struct gpud_capture_info bench_info(struct bench *bench)
{
    struct gpud_capture_info info = GPUD_INFO_INIT(info);
    gpud_capture_get_info(bench->capture, &info);
    return info;
}

/* Every byte of every row of plane i is the byte. */
static inline void bench_check_plane(struct gpud_frame *frame, uint32_t i, unsigned char byte)
{
    void *data;
    struct gpud_frame_info info = bench_info_of(frame);
    const struct gpud_plane *plane = &info.layout.plane[i];
    WORKS(gpud_frame_map(frame, GPUD_READ, GPUD_SEC, &data, &e));
    for (uint32_t row = 0; row < plane->rows; row++) {
        const unsigned char *bytes =
            (unsigned char *)data + plane->offset + (size_t)row * plane->stride;
        for (uint32_t x = 0; x < plane->row_bytes; x++)
            CHECK(bytes[x] == byte, "plane %u row %u byte %u is %u, not %u", i, row, x, bytes[x],
                  byte);
    }
    gpud_frame_unmap(frame);
}

/* A frame arrives and is taken; its content is right. */
static inline struct gpud_frame *bench_pass(struct bench *bench, uint32_t sequence,
                                            unsigned char byte)
{
    CHECK(fake_frame(&bench->driver, sequence, byte), "the driver has no buffer");
    struct gpud_frame *frame = bench_acquire(bench);
    bench_check_plane(frame, 0, byte);
    return frame;
}

#endif
