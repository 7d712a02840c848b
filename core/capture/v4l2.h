/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A V4L2 node: its system calls, restarted after Unix signals, with one interface for the single-
 * and the multi-planar API. Results are the driver's unchecked values: callers check them. */
#ifndef GPUD_CAPTURE_V4L2_H
#define GPUD_CAPTURE_V4L2_H

#include "base/error.h"
#include <gpudirect/capture.h>
#include <gpudirect/layout.h>

#include <poll.h>
#include <sys/types.h>
#include <time.h>

/* The system calls that reach a driver; tests replace them by a fake driver. As in libc, errors are
 * in errno. */
struct gpud_v4l2_system {
    const char *folder; /* where nodes appear: "/dev" */
    int (*open)(const char *path, int flags);
    int (*close)(int fd);
    int (*ioctl)(int fd, unsigned long request, void *argument);
    void *(*mmap)(void *address, size_t length, int protection, int flags, int fd, off_t offset);
    int (*ppoll)(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
                 const sigset_t *mask);
    /* The bus that the node's device is on, as in sysfs: "pci", "usb", "platform"; "" if
     * unknown. */
    void (*bus)(int fd, char *bus, size_t size);
    /* The index of the node among its card's nodes. */
    uint32_t (*index)(int fd);
};
extern const struct gpud_v4l2_system gpud_v4l2_kernel;

struct gpud_v4l2 {
    const struct gpud_v4l2_system *system;
    int fd;        /* -1: closed */
    uint32_t type; /* enum v4l2_buf_type: one memory plane for each buffer, or several */
    char path[108];
    char driver[32], card[64];
    char bus[16];   /* the card's: "pci" */
    char place[32]; /* on that bus, as the driver says: "PCI:0000:03:00.0"; "": unknown */
    uint32_t index; /* among the card's nodes */
};

/* One memory plane may hold several planes of the picture. */
struct gpud_v4l2_format {
    uint32_t fourcc, width, height;
    uint32_t field; /* enum v4l2_field */
    /* enum v4l2_colorspace, _xfer_func, _ycbcr_encoding, _quantization; from the driver only */
    uint32_t colorspace, transfer, encoding, quantization;
    uint32_t planes;
    struct {
        uint32_t stride; /* bytesperline */
        uint32_t size;   /* sizeimage */
    } plane[GPUD_PLANES_MAX];
};

struct gpud_v4l2_buffer {
    uint32_t index;
    uint32_t memory; /* enum v4l2_memory */
    uint32_t flags;
    uint32_t sequence;
    uint32_t field;     /* enum v4l2_field */
    uint64_t timestamp; /* ns, of the clock in flags */
    uint32_t planes;
    struct {
        uint32_t length, bytesused;
        uint32_t data_offset; /* where the picture begins in the plane */
        union {
            uint32_t offset;       /* MMAP */
            unsigned long address; /* USERPTR */
            int fd;                /* DMABUF */
        };
    } plane[GPUD_PLANES_MAX];
};

/* Opens the node in node->path; node->system is set. GPUD_NO_DEVICE, GPUD_NO_ACCESS, or
 * GPUD_UNSUPPORTED for a node that cannot stream captured video. */
enum gpud_status gpud_v4l2_open(struct gpud_v4l2 *node, struct gpud_error *error);
void gpud_v4l2_close(struct gpud_v4l2 *node);

/* Whether two nodes, both opened before, are the same node of the same card. */
bool gpud_v4l2_is_same(const struct gpud_v4l2 *a, const struct gpud_v4l2 *b);

/* Whether the card is still there. While it is idle, only a query reveals its removal. False:
 * errno.
 */
bool gpud_v4l2_is_alive(const struct gpud_v4l2 *node);

/* These return 0, or -1 with errno. */
int gpud_v4l2_call(const struct gpud_v4l2 *node, unsigned long request, void *argument);
int gpud_v4l2_get_format(const struct gpud_v4l2 *node, struct gpud_v4l2_format *format);
/* What set_format would return. */
int gpud_v4l2_try_format(const struct gpud_v4l2 *node, struct gpud_v4l2_format *format);
/* The driver may change any field. */
int gpud_v4l2_set_format(const struct gpud_v4l2 *node, struct gpud_v4l2_format *format);
/* Makes the picture fill its whole format. A driver may place it elsewhere, and such a rectangle
 * outlives its format. */
void gpud_v4l2_reset_compose(const struct gpud_v4l2 *node);
int gpud_v4l2_query(const struct gpud_v4l2 *node, struct gpud_v4l2_buffer *buffer);
int gpud_v4l2_queue(const struct gpud_v4l2 *node, const struct gpud_v4l2_buffer *buffer);
/* buffer->memory is set. Never waits: EAGAIN. */
int gpud_v4l2_dequeue(const struct gpud_v4l2 *node, struct gpud_v4l2_buffer *buffer);
/* Asks for *count buffers and gives how many there are; 0 frees them. */
int gpud_v4l2_request(const struct gpud_v4l2 *node, uint32_t memory, uint32_t *count);
int gpud_v4l2_stream(const struct gpud_v4l2 *node, bool on);

/* V4L2_BUF_CAP_SUPPORTS_…; 0 if the driver does not say. */
uint32_t gpud_v4l2_memories(const struct gpud_v4l2 *node);
/* The same for a node that another program may be streaming from, without disturbing it: no buffer
 * is requested or freed. */
uint32_t gpud_v4l2_look_memories(const struct gpud_v4l2 *node);

/* The fourcc at this index of the driver's list; 0: no more. Compressed formats are 1. */
uint32_t gpud_v4l2_enum_format(const struct gpud_v4l2 *node, uint32_t place);
/* The sizes at this index of the format's list, into mode; false: no more. */
bool gpud_v4l2_enum_size(const struct gpud_v4l2 *node, uint32_t fourcc, uint32_t place,
                         struct gpud_capture_mode *mode);
/* The rates at this size, into mode; none if the driver does not say. */
void gpud_v4l2_enum_rates(const struct gpud_v4l2 *node, uint32_t fourcc, uint32_t width,
                          uint32_t height, struct gpud_capture_mode *mode);

/* Sets the rate if *num is not 0 and the driver can, and returns the current one; 0/1 if the driver
 * does not say. */
void gpud_v4l2_rate(const struct gpud_v4l2 *node, uint32_t *num, uint32_t *den);

#endif
