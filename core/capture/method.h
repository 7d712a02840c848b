/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The methods of giving memory to a driver's DMA engine, best first. The first that works is used:
 * a driver accepts or refuses a kind of memory with the first buffer. A method is a file, and a
 * line in methods.c. */
#ifndef GPUD_CAPTURE_METHOD_H
#define GPUD_CAPTURE_METHOD_H

#include "capture/ring_state.h"

struct gpud_capture_method {
    const char *name;
    uint32_t memory;     /* enum v4l2_memory */
    uint32_t capability; /* V4L2_BUF_CAP_SUPPORTS_…, which a driver with support reports, if it
                            reports any */
    const char *refusal; /* the reason if it reports no support */
    bool on_device;      /* the memory is the device's own, of any kind: frames need no copy */
    bool by_name;        /* on the host only on request: other methods copy no more there */
    bool canary;         /* a driver may accept the memory and write elsewhere: it is trusted once
                            a pattern in each buffer was overwritten */
    bool by_cpu;         /* the device need not access the memory: the CPU copies each frame */
    /* Gives each of ring->buffers its memory, of placement.layout.size bytes, and completes raw. On
     * failure the caller drops the memories. */
    enum gpud_status (*setup)(struct gpud_capture_ring *ring, struct gpud_error *error);
};

extern const struct gpud_capture_method gpud_capture_dmabuf;
extern const struct gpud_capture_method gpud_capture_userptr;
extern const struct gpud_capture_method gpud_capture_mmap;
extern const struct gpud_capture_method gpud_capture_mmap_by_cpu; /* of the same name */

/* Whether a card on this bus ("pci") may import the device's dma-bufs. GPUD_UNSUPPORTED, with the
 * reason. */
enum gpud_status gpud_capture_check_bus(const struct gpud_device *device, const char *bus,
                                        struct gpud_error *error);

/* Best first, NULL at the end. */
extern const struct gpud_capture_method *const gpud_capture_methods[];

#endif
