/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The ways in which a driver's DMA engine is given memory to write to. The best comes first, and
 * the first that works is taken: a driver decides about a kind of memory at the first buffer that
 * it is given. A method is a file, and a line in methods.c. */
#ifndef GPUD_CAPTURE_METHOD_H
#define GPUD_CAPTURE_METHOD_H

#include "capture/ring_state.h"

struct gpud_capture_method {
    const char *name;
    uint32_t memory;     /* enum v4l2_memory */
    uint32_t capability; /* V4L2_BUF_CAP_SUPPORTS_…: what a driver that can do it says, if it says
                            anything */
    const char *refusal; /* the sentence when it says that it cannot */
    bool on_device;      /* the memory is the device's own, whichever it is: frames need no copy */
    bool by_name;        /* on the host only if asked for: other methods copy as little there */
    bool canary;         /* a driver may take the memory and write elsewhere: it is believed when a
                            pattern in each buffer has been seen gone */
    bool by_cpu;         /* the device need not see the memory: the CPU carries each frame */
    /* Gives each of ring->buffers its memory, of placement.layout.size bytes, and completes raw. On
     * failure the caller drops the memories. */
    enum gpud_status (*setup)(struct gpud_capture_ring *ring, struct gpud_error *error);
};

extern const struct gpud_capture_method gpud_capture_dmabuf;
extern const struct gpud_capture_method gpud_capture_userptr;
extern const struct gpud_capture_method gpud_capture_mmap;
extern const struct gpud_capture_method gpud_capture_mmap_by_cpu; /* of the same name */

/* Whether dma-bufs of the device may be shown to a card on this bus ("pci"). GPUD_UNSUPPORTED, with
 * the reason. */
enum gpud_status gpud_capture_check_bus(const struct gpud_device *device, const char *bus,
                                        struct gpud_error *error);

/* Best first, NULL at the end. */
extern const struct gpud_capture_method *const gpud_capture_methods[];

#endif
