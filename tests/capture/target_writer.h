/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A third-party writer of a target's ring. It knows the results of gpud_target_get_info(), or the
 * content of the file, and nothing else of the library: host memory is mapped, addresses on the bus
 * are opened by plain OpenCL. */
#ifndef GPUD_TESTS_TARGET_WRITER_H
#define GPUD_TESTS_TARGET_WRITER_H

#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#ifndef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 120
#endif
#include <CL/cl.h>
#include <gpudirect/gpudirect.h>
#include <stdatomic.h>

struct writer {
    bool on_bus, on_host, paced;
    uint32_t slots;
    uint64_t size, slot_size;
    unsigned char *surface[GPUD_TARGET_SLOTS_MAX];
    _Atomic uint32_t *marker[GPUD_TARGET_SLOTS_MAX];
    _Atomic uint64_t *lines[GPUD_TARGET_SLOTS_MAX];
    _Atomic uint32_t *given_back, *next, *stopped;
    uint32_t number; /* of the next frame */

    cl_context context;
    cl_command_queue queue;
    cl_mem external[GPUD_TARGET_SLOTS_MAX];
    uint64_t marker_at[GPUD_TARGET_SLOTS_MAX]; /* in its page */
    unsigned char *picture;
    void *maps[2];
    size_t map_sizes[2];
};

void writer_open(struct writer *writer, struct gpud_target *target);
void writer_open_file(struct writer *writer, const char *path);
void writer_close(struct writer *writer);

/* The picture of a number. */
void writer_draw(unsigned char *picture, uint64_t size, uint32_t number);

/* The first `bytes` of a picture go to a slot. */
void writer_fill(struct writer *writer, uint32_t slot, uint32_t number, uint64_t bytes);
void writer_mark(struct writer *writer, uint32_t slot, uint32_t value);
/* Says how many rows of the next number are there. */
void writer_announce(struct writer *writer, uint32_t lines);
/* Fills and marks, with the next number. */
void writer_write(struct writer *writer);
/* Waits, as a polite writer does, until that may be done. */
void writer_await(struct writer *writer);

#endif
