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
#include <sys/types.h>

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

#define OK(call) CHECK_CL(CL_SUCCESS, call)

/* Exits 77 with the reason where there is no OpenCL device. The test dies after `seconds`. */
struct cl open_cl(unsigned seconds);
void close_cl(struct cl *cl);
/* Another context with a queue of its own on the same devices. */
void open_context(struct cl *cl);
cl_command_queue new_queue(struct cl *cl, cl_uint device, bool out_of_order);

/* The status of an attempt; what it makes is released again. */
cl_int create(cl_context context, cl_mem_flags flags, size_t size, void *pointer);
cl_mem new_plain(struct cl *cl, size_t size);
cl_mem new_bus(struct cl *cl, size_t size);
cl_mem new_external(struct cl *cl, size_t size, const struct bus_address *address);
struct bus_address resident(struct cl *cl, cl_mem bus);
/* Both at once, with the marker reset to 0, as every user of the extension has to. */
cl_mem new_resident(struct cl *cl, size_t size, struct bus_address *address);

/* A resident buffer, and the writer's view of it. */
struct pair {
    cl_mem bus, external;
    struct bus_address address;
};
struct pair open_pair(struct cl *owner, struct cl *writer, size_t size);
void close_pair(struct pair *pair);

/* For AUTO(). */
void drop_mem(cl_mem *mem);
void drop_queue(cl_command_queue *queue);
void drop_event(cl_event *event);

void fill(cl_command_queue queue, cl_mem mem, size_t offset, size_t size, unsigned char byte);
void read_back(cl_command_queue queue, cl_mem mem, size_t size, void *data);

cl_event new_user_event(struct cl *cl);
cl_int event_status(cl_event event);
cl_command_type event_type(cl_event event);
/* Polls, sleeping, until the event has completed or failed; false after `ms`. */
bool event_done_within(cl_event event, unsigned ms);
bool event_stays_open(cl_event event, unsigned ms);
double now_us(void);
void sleep_ms(unsigned ms);
/* The file in /dev/shm for that address, and whether it is there. Other programs' objects do not
 * matter. */
void name_object(const struct bus_address *address, char path[80]);
bool object_exists(const struct bus_address *address);
/* Mapped, as by a capture card or by a program without the layer. */
void *map_object(const struct bus_address *address, size_t size);
/* A driver may destroy a buffer some time after its last release. */
void wait_until_gone(const struct bus_address *address);

/* This program again, with that argument; its standard input and output are pipes. */
struct child {
    pid_t pid;
    int to, from;
};
struct child start(const char *role);
void give(int fd, const void *note, size_t size);
void take(int fd, void *note, size_t size);
/* Whose end must be clean, unless it is killed. */
void join(struct child *child);
void kill_child(struct child *child);

#endif
