/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A link between two processes as the stream layer makes one: a page on each side, a ring at the
 * receiver's, and slots at the sender's. */
#ifndef GPUD_RDMA_LINK_H
#define GPUD_RDMA_LINK_H

#include "channels.h"
#include "device/device.h"
#include "frame/frame.h"
#include "wire/wire.h"

#define ENTRIES 4

struct frames_of {
    uint64_t size;
    struct gpud_context *context;
    struct gpud_device *device;
    struct gpud_ring ring; /* the sender's slots, or what the receiver's card is written into */
};

void open_frames(struct frames_of *frames, uint64_t size);
void close_frames(struct frames_of *frames);

/* One epoch of a link, at either end. */
struct tx_link {
    struct frames_of frames;
    struct gpud_channel *channel;
    struct gpud_remote *remote;
    struct gpud_page_tx page;
    uint64_t sequence;
};

struct rx_link {
    struct frames_of frames;
    struct gpud_channel *channel;
    struct gpud_remote *remote;
    struct gpud_page_rx page;
    uint64_t sequence;
};

/* The channel is the link's from then on. before: the epoch that this one follows, or NULL. */
void begin_tx(struct tx_link *link, struct gpud_channel *channel, uint64_t frame_size,
              struct tx_link *before);
void begin_rx(struct rx_link *link, struct gpud_channel *channel, uint64_t frame_size);

/* What is left of an epoch; and of the link. */
void end_tx_epoch(struct gpud_remote *remote, struct frames_of *frames);
void end_tx(struct tx_link *link);
void end_rx(struct rx_link *link);

/* Sends a frame, waiting for a credit; false: the link failed. */
bool send_frame(struct tx_link *link);

/* Waits for the next frame, which must be whole. false: the link failed. */
bool take_frame(struct rx_link *link, uint32_t *entry);
void give_back(struct rx_link *link, uint32_t entry);

/* The returned credits. */
void reap(struct tx_link *link);

#endif
