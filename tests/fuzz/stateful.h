/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the stateful targets share: real descriptors, good messages, and the input that mutates
 * them. */
#ifndef GPUD_TESTS_FUZZ_STATEFUL_H
#define GPUD_TESTS_FUZZ_STATEFUL_H

#include "base/base.h"
#include "device/device.h"
#include "fuzz.h"
#include "support/copies.h"
#include "support/count.h"
#include "support/encode.h"
#include "wire/unix/unix.h"
#include "wire/wire.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* The device of the side under test. On one that signals by itself frames take other ways: such
 * targets are compiled with its name, from the same files. */
#ifndef FUZZ_DEVICE
#define FUZZ_DEVICE "host"
#endif

static inline void fuzz_quiet(void *user, enum gpud_log_level level, const char *area,
                              const char *text)
{
    if (strlen(text) < 5)
        abort();
}

static inline struct gpud_context *fuzz_context(void)
{
    struct gpud_context *context;
    struct gpud_context_params quiet = GPUD_PARAMS_INIT(quiet);
    quiet.log = fuzz_quiet;
    quiet.log_level = GPUD_LOG_DEBUG;
    if (gpud_context_create(&quiet, &context, NULL) != GPUD_OK)
        abort();
    return context;
}

/* Without the device there is nothing to try. The machine that it is looked for in is a made-up
 * one: reading the real one may take longer than an input may. */
static inline void fuzz_need_device(struct gpud_context *context)
{
    struct gpud_device *device;
    struct gpud_error error;
    setenv("HWLOC_SYNTHETIC", "numa:1 pu:1", 1);
    if (gpud_device_open(context, FUZZ_DEVICE, &device, &error) == GPUD_OK) {
        gpud_device_close(&device);
        return;
    }
    printf("skipped: %s\n", error.reason);
    fflush(stdout);
    _exit(77);
}

/* Whether frames of this device are handed over by words in the ring page. */
static inline bool fuzz_signals(const struct gpud_device *device)
{
    return device->caps & GPUD_CAP_PAGE_SIGNALS;
}

/* Whether rings lie in memory of the device that crosses processes by a handle of its own. */
static inline bool fuzz_shares(const struct gpud_device *device)
{
    return device->caps & GPUD_CAP_SHARE && !(device->caps & GPUD_CAP_CPU_ADDRESSABLE);
}

/* Memory of the device that an honest peer would offer as a ring. Called twice at most. */
static inline struct gpud_memory *fuzz_share(struct gpud_device *device, uint64_t size,
                                             enum gpud_usage usage, struct gpud_handle *handle)
{
    static struct gpud_memory *memory[2]; /* as long as the program runs */
    struct gpud_memory **made = &memory[memory[0] != NULL];
    if (gpud_memory_alloc_for(device, size, usage, made, NULL) != GPUD_OK ||
        gpud_memory_export(*made, handle, NULL) != GPUD_OK)
        abort();
    return *made;
}

static inline void fuzz_pair(int ends[2])
{
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) < 0)
        abort();
}

/* A forged legacy handle. */
static inline struct gpud_handle fuzz_forged_handle(uint64_t size)
{
    return (struct gpud_handle){
        .type = GPUD_HANDLE_CUDA_IPC, .fd = -1, .size = size, .word = {0, 1, 2, 3}};
}

/* Every descriptor that came along is closed again: at once, but for what a device still uses,
 * which goes when it is done. turn: what must be called meanwhile. */
static inline void fuzz_expect_fds(unsigned fds, void (*turn)(void))
{
    for (int64_t end = gpud_deadline(20 * GPUD_SEC); count_fds() != fds;) {
        if (gpud_now() >= end)
            abort();
        usleep(100);
        turn();
    }
}

/* Kinds of descriptors that a peer may think of; the good one is the caller's. */
static inline int fuzz_descriptor(uint32_t kind, int good)
{
    switch (kind % 8) {
    case 0:
        return open("/dev/null", O_RDWR | O_CLOEXEC);
    case 1:
        return memfd_create("unsealed", MFD_CLOEXEC);
    case 2: {
        int fd = memfd_create("short", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        if (fd >= 0 &&
            (ftruncate(fd, 4096) < 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) < 0))
            abort();
        return fd;
    }
    default:
        return fcntl(good, F_DUPFD_CLOEXEC, 3);
    }
}

/* Sends a good message, bent where the input says, with descriptors of the kinds that it says; good
 * stands in for those that the message has not. */
static inline void fuzz_send(int socket, struct gpud_message *message, struct fuzz_input *input,
                             int good)
{
    uint8_t bytes[GPUD_MESSAGE_MAX + 16];
    int fds[GPUD_MESSAGE_HANDLES];
    size_t count, size = encode_message(message, bytes, fds, &count);
    uint32_t bends = fuzz_number(input, 1);
    for (uint32_t i = 0; i < (bends & 7); i++) {
        uint32_t at = fuzz_number(input, 2) % (uint32_t)size;
        bytes[at] ^= (uint8_t)fuzz_number(input, 1);
    }
    if (bends & 8) /* another length; the header keeps what it says, or follows */
        size = fuzz_number(input, 2) % sizeof(bytes);
    if (bends & 16)
        memcpy(bytes + 8, &(uint32_t){(uint32_t)size}, 4);
    for (size_t i = count; i < 8; i++)
        fds[i] = good;
    if (bends & 32)
        count = fuzz_number(input, 1) % 8;
    for (size_t i = 0; i < count; i++) {
        fds[i] = fuzz_descriptor(bends & 64 ? fuzz_number(input, 1) : 7, fds[i]);
        if (fds[i] < 0)
            abort();
    }
    encode_send(socket, bytes, size, fds, count);
    for (size_t i = 0; i < count; i++)
        close(fds[i]);
}

enum fuzz_halves { FUZZ_BOTH_HALVES, FUZZ_RECEIVER_HALF, FUZZ_SENDER_HALF };

/* Bends a word of a page, in the halves that the player can write. */
static inline void fuzz_scribble(struct gpud_page *page, enum fuzz_halves halves,
                                 struct fuzz_input *input)
{
    uint32_t at = fuzz_number(input, 2), by = fuzz_number(input, 1);
    if (halves != FUZZ_BOTH_HALVES)
        at = (at & 0x5fff & ~0x2000u) | (halves == FUZZ_SENDER_HALF ? 0x2000 : 0);
    bool sender = at & 0x2000;
    size_t words = at & 0x8000 ? sizeof(*page) / 4
                   : sender    ? offsetof(struct gpud_sender_half, ready) / 4
                               : offsetof(struct gpud_receiver_half, release) / 4;
    uint32_t *half = sender ? (void *)&page->sender : (void *)&page->receiver;
    if (at & 0x8000)
        half = (void *)page;
    half[at % words] += at & 0x4000 ? by : by << 24 | by;
}

/* --- between two hosts ------------------------------------------------------------------------ */

/* Targets that are compiled with FUZZ_NETWORK run between two hosts: neither side sees the other's
 * page or ring, and what is written there goes by a card's stand-in. This is the player's end. */
#ifdef FUZZ_NETWORK
#define FUZZ_BETWEEN_HOSTS true
#else
#define FUZZ_BETWEEN_HOSTS false
#endif

struct fuzz_network {
    struct gpud_channel *channel; /* unconnected: the player's messages use a separate socket */
    struct gpud_remote *remote;   /* NULL: closed */
    struct gpud_handle page;      /* the player's, for the other side to write */
    struct gpud_page *theirs;     /* the other side's, of which the player may write its half */
};

/* Before the first sender or receiver is made. */
static inline void fuzz_network_prepare(void)
{
    if (FUZZ_BETWEEN_HOSTS)
        copies_install();
}

static inline void fuzz_network_close(struct fuzz_network *network)
{
    if (!network->remote)
        return;
    network->remote->ops->destroy(network->remote);
    gpud_memory_unmap_pages(network->theirs, sizeof(*network->theirs));
    gpud_channel_unref(&network->channel);
    *network = (struct fuzz_network){.remote = NULL};
}

/* With nothing that was there before. */
static inline void fuzz_network_open(struct fuzz_network *network)
{
    struct gpud_peer peer = {.pid = getpid()};
    int ends[2];
    fuzz_network_close(network);
    fuzz_pair(ends);
    if (gpud_unix_channel_create(ends[0], &peer, &network->channel, NULL) != GPUD_OK ||
        network->channel->ops->remote->create(network->channel, &network->remote, &network->page,
                                              NULL) != GPUD_OK)
        abort();
    close(ends[1]);
}

/* The other side's page, out of its message. */
static inline void fuzz_network_attach(struct fuzz_network *network, const struct gpud_handle *page)
{
    void *mapped;
    if (network->theirs)
        return;
    if (network->remote->ops->attach(network->remote, page, NULL) != GPUD_OK ||
        gpud_memfd_map(page->fd, sizeof(*network->theirs), true, &mapped, NULL) != GPUD_OK)
        abort(); /* an honest side's page is good */
    network->theirs = mapped;
}

/* An endpoint on another host than this. */
static inline void fuzz_network_describe(struct gpud_device *device, struct gpud_endpoint *self)
{
    if (!FUZZ_BETWEEN_HOSTS)
        return;
    gpud_unix_channel->remote->describe(NULL, device, &self->network);
    self->host[0] ^= 1;
}

#endif
