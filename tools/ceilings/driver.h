/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The GPU drivers themselves, opened at run time and independent of the library under test: for the
 * ceilings that it is compared with, and for the work that an application puts on its own streams.
 *
 *     vendor.h      the calls of a driver, with the core's declarations
 *     cuda.c hip.c  what differs between the vendors
 *     driver.c      everything else */
#ifndef GPUD_TOOLS_CEILINGS_DRIVER_H
#define GPUD_TOOLS_CEILINGS_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef uint64_t raw_address; /* in GPU memory, or of pinned memory as GPUs see it */
typedef void *raw_stream;

#define RAW_GPUS_MAX 256
#define RAW_NOT_READY 600 /* raw_stream_query() of a busy stream */

struct raw_driver;
extern struct raw_driver raw_cuda, raw_hip;

/* The driver of a device: "cuda:3" → raw_cuda and 3. NULL: not a device of these drivers. The
 * number may be NULL. */
struct raw_driver *raw_driver_of(const char *device, unsigned *gpu);

/* Loads and initialises the driver; does nothing if it is open. The first call must not race with
 * another. false: the reason. */
bool raw_open(struct raw_driver *driver, char *reason, size_t size);

/* A failed call as text: "memory on the GPU: CUDA_ERROR_OUT_OF_MEMORY (2)". */
void raw_say(const struct raw_driver *driver, char *reason, size_t size, const char *what,
             int result);

/* Makes a GPU of an open driver this thread's current one, until raw_leave(), which restores the
 * previous one. All users in the process share the GPU's context, which stays until the end. false:
 * the reason. */
bool raw_enter(const struct raw_driver *driver, unsigned gpu, char *reason, size_t size);

void raw_leave(const struct raw_driver *driver);

/* Whether streams of this GPU write words in pinned memory, and wait for them. */
bool raw_has_words(const struct raw_driver *driver, unsigned gpu);

/* The others return 0, or the driver's own error. */

int raw_can_access_peer(const struct raw_driver *driver, int *can, unsigned gpu, unsigned peer);
/* For the current GPU; it may be enabled already. */
int raw_enable_peer(const struct raw_driver *driver, unsigned peer);

int raw_alloc(const struct raw_driver *driver, raw_address *address, size_t size);
int raw_free(const struct raw_driver *driver, raw_address address);
/* Pinned memory, which all GPUs of the vendor can use. */
int raw_host_alloc(const struct raw_driver *driver, void **host, size_t size);
int raw_host_free(const struct raw_driver *driver, void *host);
int raw_host_address(const struct raw_driver *driver, raw_address *address, void *host);

int raw_fill(const struct raw_driver *driver, raw_address address, unsigned char value, size_t size,
             raw_stream stream);
int raw_copy(const struct raw_driver *driver, raw_address to, raw_address from, size_t size,
             raw_stream stream);
int raw_copy_rows(const struct raw_driver *driver, raw_address to, size_t to_pitch,
                  raw_address from, size_t from_pitch, size_t width, size_t rows,
                  raw_stream stream);

/* The stream does not wait for the default stream. */
int raw_stream_create(const struct raw_driver *driver, raw_stream *stream);
int raw_stream_destroy(const struct raw_driver *driver, raw_stream stream);
int raw_stream_query(const struct raw_driver *driver, raw_stream stream);
/* Waits until the word is >= value. */
int raw_wait_value(const struct raw_driver *driver, raw_stream stream, raw_address word,
                   uint32_t value);
int raw_write_value(const struct raw_driver *driver, raw_stream stream, raw_address word,
                    uint32_t value);

/* Waits until the stream is idle, polling without sleep for the first millisecond. false: the
 * deadline (monotonic ns) passed, or the stream failed: then *result is not RAW_NOT_READY. */
bool raw_finish(const struct raw_driver *driver, raw_stream stream, int64_t deadline, int *result);

#endif
