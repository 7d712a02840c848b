/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the layer's tests share: checks, a deadline, and a device with the extension. The tests know
 * the layer only as a program knows a FirePro's driver: by CL/cl.h, the extension string and
 * look-ups. */

#ifndef TESTS_DGMA_LAYER_COMMON_H
#define TESTS_DGMA_LAYER_COMMON_H

#include "../support/auto.h"

#include <CL/cl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

/* Written down again from the extension's text, not included from the layer: a second opinion. Bit
 * 31 is sign-extended, as AMD's header has it. */
#define BUS_ADDRESSABLE ((cl_mem_flags)1 << 30)
#define EXTERNAL_PHYSICAL ((cl_mem_flags)0xFFFFFFFF80000000u)
#define COMMAND_WAIT_SIGNAL 0x4080u
#define COMMAND_WRITE_SIGNAL 0x4081u
#define COMMAND_MAKE_RESIDENT 0x4082u
#define PAGE ((size_t)4096)
#define MIB ((size_t)1 << 20)

struct bus_address {
    cl_ulong surface, marker;
};

typedef cl_int(CL_API_CALL *wait_signal_fn)(cl_command_queue, cl_mem, cl_uint, cl_uint,
                                            const cl_event *, cl_event *);
typedef cl_int(CL_API_CALL *write_signal_fn)(cl_command_queue, cl_mem, cl_uint, cl_ulong, cl_uint,
                                             const cl_event *, cl_event *);
typedef cl_int(CL_API_CALL *make_resident_fn)(cl_command_queue, cl_uint, cl_mem *, cl_bool,
                                              struct bus_address *, cl_uint, const cl_event *,
                                              cl_event *);

struct cl {
    cl_platform_id platform;
    cl_device_id devices[8];
    cl_uint num_devices;
    cl_context context;
    cl_command_queue queue; /* in order, on the first device, with profiling */
    wait_signal_fn wait_signal;
    write_signal_fn write_signal;
    make_resident_fn make_resident;
};

#define FAIL(...)                                       \
    do {                                                \
        fprintf(stderr, "%s:%d: ", __FILE__, __LINE__); \
        fprintf(stderr, __VA_ARGS__);                   \
        fputc('\n', stderr);                            \
        exit(1);                                        \
    } while (0)
#define CHECK(condition)            \
    do {                            \
        if (!(condition))           \
            FAIL("%s", #condition); \
    } while (0)
#define CHECK_CL(expected, call)                            \
    do {                                                    \
        cl_int got_ = (call);                               \
        if (got_ != (expected))                             \
            FAIL("%s: %d, not %s", #call, got_, #expected); \
    } while (0)

/* Exits 77 with the reason where there is no OpenCL device. The test dies after `seconds`. */
struct cl open_cl(unsigned seconds);
void close_cl(struct cl *cl);
/* Another context with a queue of its own on the same devices. */
void open_context(struct cl *cl);
cl_command_queue new_queue(struct cl *cl, cl_uint device, bool out_of_order);

cl_mem new_bus(struct cl *cl, size_t size);
cl_mem new_external(struct cl *cl, size_t size, const struct bus_address *address);
struct bus_address resident(struct cl *cl, cl_mem bus);
/* Both at once, with the marker reset to 0, as every user of the extension has to. */
cl_mem new_resident(struct cl *cl, size_t size, struct bus_address *address);

cl_int event_status(cl_event event);
cl_command_type event_type(cl_event event);
/* Polls, sleeping, until the event has completed or failed; false after `ms`. */
bool event_done_within(cl_event event, unsigned ms);
bool event_stays_open(cl_event event, unsigned ms);
double now_us(void);
void sleep_ms(unsigned ms);
/* Is there a file in /dev/shm for that address? Other programs' objects do not matter. */
bool object_exists(const struct bus_address *address);
/* A driver may destroy a buffer some time after its last release. */
void wait_until_gone(const struct bus_address *address);

#endif
