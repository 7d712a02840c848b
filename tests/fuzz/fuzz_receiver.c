/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A sender, as the receiver sees it: the input plays one over a real socket with real descriptors,
 * honestly or not, while the receiver acquires. */
#include "device/device.h"
#include "route/route.h"
#include "session.h"
#include "stream/pattern.h"
#include "stream/receiver.h"

#include <stdio.h>

#define SLOTS 4

static struct gpud_context *context;
static struct gpud_receiver *receiver;

static void prepare(void)
{
    struct gpud_context_params quiet = GPUD_PARAMS_INIT(quiet);
    quiet.log = fuzz_quiet;
    quiet.log_level = GPUD_LOG_DEBUG;
    if (gpud_context_create(&quiet, &context, NULL) != GPUD_OK)
        abort();
    struct gpud_receiver_params params = GPUD_PARAMS_INIT(params);
    params.address = "unix:/nonexistent/nobody";
    if (gpud_receiver_create(context, &params, &receiver, NULL) != GPUD_OK)
        abort();
}

struct player {
    int fd, ring_fd;
    uint8_t *ring;
    struct gpud_page *page;
    struct gpud_page_sender view;
    struct gpud_layout layout;
    uint32_t epoch;
    uint64_t sequence;
};

static void publish(struct player *player, uint32_t flags)
{
    uint32_t entry;
    if (!player->page)
        return;
    while (gpud_page_reap(&player->view, &entry) > 0)
        ;
    if (!gpud_page_take(&player->view, &entry))
        return;
    struct gpud_descriptor *descriptor = &player->page->descriptor[entry];
    memset(descriptor, 0, offsetof(struct gpud_descriptor, meta));
    descriptor->slot = entry % SLOTS;
    descriptor->sequence = ++player->sequence;
    descriptor->flags = flags;
    gpud_page_publish(&player->view, entry);
}

/* What the receiver answers; its ACCEPT brings the page. */
static void listen_to(struct player *player)
{
    static struct gpud_message message;
    void *page;
    while (gpud_socket_receive(player->fd, &message, NULL) == GPUD_OK) {
        if (message.type == GPUD_MESSAGE_ACCEPT) {
            gpud_memory_unmap_pages(player->page, sizeof(*player->page));
            player->page = NULL;
            if (gpud_memfd_map(message.accept.page, sizeof(*player->page), true, &page, NULL) !=
                GPUD_OK)
                abort(); /* an honest receiver's page is good */
            player->page = page;
            if (gpud_page_sender_init(&player->view, page, message.accept.entries,
                                      message.accept.entries, NULL) != GPUD_OK)
                abort();
        }
        gpud_message_close(&message);
    }
}

static void say(struct player *player, struct fuzz_input *input)
{
    static struct gpud_message message;
    memset(&message, 0, sizeof(message));
    message.type = (enum gpud_message_type)(fuzz_number(input, 1) % 11);
    message.position = player->page ? player->view.head : 0;
    struct gpud_ring_description ring = {
        .slot_size = 4096, .slots_per_memory = SLOTS, .memories = 1};
    ring.handle[0] = (struct gpud_handle){
        .type = GPUD_HANDLE_MEMFD, .fd = player->ring_fd, .size = SLOTS * 4096};
    switch (message.type) {
    case GPUD_MESSAGE_HELLO:
        gpud_endpoint_describe(&message.hello, receiver->host, "fuzz");
        break;
    case GPUD_MESSAGE_OFFER: {
        static const char *const routes[] = {"map", "staged", "directgma", "map"};
        message.offer.epoch = ++player->epoch;
        message.offer.layout = player->layout;
        message.offer.ring = ring;
        gpud_print(message.offer.route, "%s", routes[fuzz_number(input, 1) % 4]);
        break;
    }
    case GPUD_MESSAGE_GROW:
        message.grow = ring;
        break;
    case GPUD_MESSAGE_CANARY:
        /* Without a frame the receiver waits for it, for two seconds. */
        if (!player->page || gpud_page_head(&(struct gpud_page_receiver){.page = player->page}) ==
                                 atomic_load(&player->page->claimed.word))
            publish(player, GPUD_FRAME_CANARY);
        gpud_pattern_write(player->ring, player->layout.size, 7);
        for (uint32_t i = 1; i < SLOTS; i++)
            memcpy(player->ring + i * 4096, player->ring, player->layout.size);
        message.canary.epoch = player->epoch;
        message.canary.nonce = 7;
        break;
    case GPUD_MESSAGE_EVENT:
        message.event.size = fuzz_number(input, 1);
        break;
    default:
        message.epoch = player->epoch;
        break;
    }
    fuzz_send(player->fd, &message, input, player->ring_fd);
    if (player->page)
        gpud_page_count_message(&player->view);
}

/* Until nothing comes any more. Whatever it is, it must come back. */
static void acquire(void)
{
    for (int i = 0; i < 8; i++) {
        struct gpud_frame *frame;
        struct gpud_error error = {.reason = ""};
        enum gpud_status status = gpud_receiver_acquire(receiver, 0, &frame, &error);
        if (status == GPUD_OK) {
            void *data;
            volatile uint8_t sum = 0;
            struct gpud_frame_info info;
            gpud_frame_get_info(frame, &info);
            if (gpud_frame_map(frame, GPUD_READ, 0, &data, NULL) == GPUD_OK) {
                for (uint64_t at = 0; at < info.layout.size;
                     at += at < 65536 ? 512 : info.layout.size / 16 + 1)
                    sum = (uint8_t)(sum + ((uint8_t *)data)[at]);
                gpud_frame_unmap(frame);
            }
            gpud_frame_release(&frame);
        } else if (strlen(error.reason) < 10) {
            fprintf(stderr, "%s: \"%s\"\n", gpud_status_string(status), error.reason);
            abort();
        }
        if (status == GPUD_TIMEOUT)
            return;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    struct player player = {.fd = -1};
    int ends[2];
    void *ring;
    if (!context)
        prepare();
    unsigned fds = fuzz_count_fds();
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) < 0 ||
        gpud_memfd_create("ring", SLOTS * 4096, GPUD_SHARE_READ_ONLY, &player.ring_fd, &ring,
                          NULL) != GPUD_OK)
        abort();
    player.fd = ends[0];
    player.ring = ring;
    gpud_layout_init(&player.layout, "GRAY8", 64, 32, 0, NULL);
    /* Where connect_now() would be, had somebody listened. */
    gpud_receiver_disconnect(receiver, INT64_C(3600) * GPUD_SEC);
    receiver->connection = gpud_connection_create(ends[1], getpid());
    receiver->state = GPUD_RECEIVER_HELLO;
    receiver->deadline = gpud_deadline(GPUD_SEC);
    if (!receiver->queue && gpud_queue_create(receiver->device, &receiver->queue, NULL) != GPUD_OK)
        abort();

    for (unsigned turns = 0; input.size && turns < 200; turns++) {
        switch (fuzz_number(&input, 1) % 6) {
        case 0:
        case 1:
        case 2:
            say(&player, &input);
            acquire();
            listen_to(&player);
            break;
        case 3:
            publish(&player, fuzz_number(&input, 1) & 0xff);
            acquire();
            break;
        case 4:
            if (player.page)
                fuzz_scribble(player.page, &input);
            acquire();
            break;
        case 5:
            acquire();
            listen_to(&player);
            break;
        }
    }
    close(player.fd);
    close(player.ring_fd);
    munmap(player.ring, SLOTS * 4096);
    gpud_memory_unmap_pages(player.page, sizeof(*player.page));
    acquire(); /* the end is noticed */
    gpud_receiver_disconnect(receiver, INT64_C(3600) * GPUD_SEC);
    if (fuzz_count_fds() != fds)
        abort();
    return 0;
}
