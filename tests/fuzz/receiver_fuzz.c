/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A sender, as the receiver sees it: the input plays one over a real socket with real descriptors,
 * honestly or not, while the receiver acquires. */
#include "route/route.h"
#include "stateful.h"
#include "stream/shared/shared.h"
#include "stream/receiver/receiver.h"
#include "stream/sender/sender.h"
#include "support/media.h"
#include "watch.h"

#define SLOTS 4
#define LARGE_META_MAX 4096
#define SLOT_SIZE 4096
#define NONCE 7

static struct gpud_context *context;
static struct gpud_receiver *receiver;
/* Where the receiver's device is another than the host: a sender's own ring there, with the pattern
 * in it, and queues of the player and of an application. */
static struct gpud_handle shared;
static struct gpud_queue *painter, *application;
/* Between hosts: a sender's own ring, with the pattern in it. */
static struct gpud_memory *source;
/* By TCP an honest link beside the player's. */
static struct gpud_sender *honest;
static struct fuzz_beside beside;

static void send_beside(void)
{
    struct gpud_frame *frame;
    struct gpud_error error = {.reason = ""};
    watch_begin(WATCH_HONEST, "a frame of an honest link", 0);
    if (gpud_sender_acquire(honest, WATCH_PATIENCE * GPUD_MSEC, &frame, &error) != GPUD_OK)
        watch_fail("an honest sender beside the player's gets no slot: %s", error.reason);
    fuzz_beside_number(&beside, frame);
    beside.sent++;
    if (gpud_sender_submit(honest, &frame, 0, &error) != GPUD_OK)
        watch_fail("an honest sender beside the player's cannot send: %s", error.reason);
    while (beside.frames < beside.sent)
        fuzz_beside_take(&beside, GPUD_SEC);
    watch_end(WATCH_HONEST);
}

static void open_beside(void)
{
    struct gpud_sender_params sends = GPUD_PARAMS_INIT(sends);
    struct gpud_receiver_params receives = GPUD_PARAMS_INIT(receives);
    struct gpud_layout layout;
    static char address[48];
    fuzz_address(address, 7175, "beside");
    sends.address = receives.address = address;
    sends.device = receives.device = FUZZ_DEVICE;
    sends.slow_receiver = GPUD_SLOW_BLOCK;
    gpud_layout_init(&layout, "GRAY8", 64, 32, 0, NULL);
    struct gpud_error error = {.reason = ""};
    if (gpud_sender_create(context, &sends, &honest, &error) != GPUD_OK ||
        gpud_receiver_create(context, &receives, &beside.receiver, &error) != GPUD_OK ||
        gpud_sender_configure(honest, PICTURE(&layout), &error) != GPUD_OK)
        watch_fail("no honest link: %s", error.reason);
    struct gpud_sender_info info = GPUD_INFO_INIT(info);
    watch_begin(WATCH_HONEST, "an honest link", 0);
    do {
        fuzz_beside_take(&beside, GPUD_MSEC);
        gpud_sender_get_info(honest, &info);
    } while (info.receivers == 0);
    watch_end(WATCH_HONEST);
    send_beside();
}

/* The pattern of the test frame, in every slot. */
static void paint(uint8_t *slots, uint64_t size)
{
    gpud_pattern_write(slots, size, NONCE);
    for (uint32_t i = 1; i < SLOTS; i++)
        memcpy(slots + i * SLOT_SIZE, slots, size);
}

static void paint_memory(struct gpud_memory *memory, uint64_t size)
{
    void *data;
    if (gpud_queue_map(painter, memory, 0, SLOTS * SLOT_SIZE, GPUD_WRITE,
                       gpud_deadline(10 * GPUD_SEC), &data, NULL) != GPUD_OK)
        abort();
    paint(data, size);
    if (gpud_queue_unmap(painter, memory, data, NULL) != GPUD_OK)
        abort();
}

static void prepare(void)
{
    context = fuzz_context();
    fuzz_need_device(context);
    watch_start();
    fuzz_network_prepare();
    struct gpud_receiver_params params = GPUD_PARAMS_INIT(params);
    params.address = "unix:/nonexistent/nobody";
    params.device = FUZZ_DEVICE;
    params.slots = SLOTS;
    params.by_lines = true;
    if (gpud_receiver_create(context, &params, &receiver, NULL) != GPUD_OK)
        abort();
    receiver->waiting.noted = true; /* no note of it, which would be one more descriptor */
    receiver->waiting.note[0].lock = receiver->waiting.note[1].lock = -1;
    if (FUZZ_BETWEEN_HOSTS) {
        if (gpud_memory_alloc_for(receiver->host, SLOTS * SLOT_SIZE, GPUD_USAGE_LOCAL, &source,
                                  NULL) != GPUD_OK)
            abort();
        paint(source->host, 2048);
    }
    if (FUZZ_BY_TCP)
        open_beside();
    if (!fuzz_shares(receiver->device))
        return;
    if (gpud_queue_create(receiver->device, &painter, NULL) != GPUD_OK ||
        gpud_queue_create(receiver->device, &application, NULL) != GPUD_OK)
        abort();
    paint_memory(fuzz_share(receiver->device, SLOTS * SLOT_SIZE, GPUD_USAGE_SHARE, &shared), 2048);
}

struct player {
    struct fuzz_wire wire;
    int ring_fd;
    uint8_t *ring;
    struct gpud_page *page;
    struct gpud_page_tx view;
    struct fuzz_network network;
    bool writes; /* between hosts: knows where the receiver's ring is */
    struct gpud_layout layout;
    struct gpud_ring_description offered;
    bool words_in_memory; /* by the last offer */
    uint32_t epoch, value;
    uint64_t sequence;
};

static void publish(struct player *player, uint32_t flags, bool done)
{
    uint32_t entry;
    if (!player->page)
        return;
    while (gpud_page_reap(&player->view, &entry) > 0)
        ;
    if (!gpud_page_take(&player->view, &entry))
        return;
    struct gpud_descriptor *descriptor = &player->page->sender.descriptor[entry];
    memset(descriptor, 0, offsetof(struct gpud_descriptor, meta));
    descriptor->slot = entry % SLOTS;
    descriptor->sequence = ++player->sequence;
    descriptor->value = ++player->value;
    descriptor->flags = flags;
    /* Still written, by so many rows of 32. */
    if (flags & 0x20) {
        descriptor->flags |= GPUD_FRAME_BY_LINES;
        atomic_store(&player->page->sender.lines[entry],
                     flags & 0x10 ? UINT32_MAX - flags % 2 : flags % 64);
    }
    /* Of five one is larger than there is room for. */
    if (player->epoch % 2)
        descriptor->large_meta_size = player->sequence % 5 * LARGE_META_MAX / 3;
    if (done)
        atomic_store(&player->page->sender.ready[entry].word, player->value);
    struct gpud_remote *remote = player->network.remote;
    if (remote && player->writes) /* what the card does, between hosts */
        remote->ops->write(remote, entry, 0, source, entry % SLOTS * SLOT_SIZE, player->layout.size,
                           NULL);
    gpud_page_publish(&player->view, entry);
}

/* Takes the receiver's page and ring, between hosts. */
static void reach(struct player *player, const struct gpud_accept *accept)
{
    struct fuzz_network *network = &player->network;
    fuzz_network_attach(network, &accept->page);
    const struct gpud_remote_ops *ops = network->remote->ops;
    player->page = NULL;
    if (gpud_page_tx_init(&player->view, network->remote->page, network->remote, accept->entries,
                          accept->entries, NULL) != GPUD_OK)
        return; /* the input's offer was answered by another's */
    player->page = network->remote->page;
    player->writes = ops->attach_ring(network->remote, &accept->ring, accept->entries,
                                      player->layout.size, NULL) == GPUD_OK &&
                     ops->add_source(network->remote, source, NULL) == GPUD_OK;
}

/* What the receiver answers; its ACCEPT brings the page. */
static void listen_to(struct player *player)
{
    static struct gpud_message message;
    void *page;
    fuzz_let_come(player->wire.channel);
    while (fuzz_hear(&player->wire, &message) == GPUD_OK) {
        if (message.type == GPUD_MESSAGE_ACCEPT && player->network.remote) {
            reach(player, &message.accept);
        } else if (message.type == GPUD_MESSAGE_ACCEPT) {
            gpud_memory_unmap_pages(player->page, sizeof(*player->page));
            player->page = NULL;
            if (gpud_memfd_map(message.accept.page.fd, sizeof(*player->page), true, &page, NULL) !=
                GPUD_OK)
                abort(); /* an honest receiver's page is good */
            player->page = page;
            if (gpud_page_tx_init(&player->view, page, NULL, message.accept.entries,
                                  message.accept.entries, NULL) != GPUD_OK)
                abort();
            /* By the same handle as a sender's device would. */
            const struct gpud_ring_description *ring = &message.accept.ring;
            struct gpud_memory *memory;
            if (painter && ring->memories) {
                bool on_host = ring->handle[0].type == GPUD_HANDLE_MEMFD;
                if (gpud_memory_import(on_host ? receiver->host : receiver->device,
                                       &ring->handle[0], SLOTS * SLOT_SIZE, GPUD_USAGE_TARGET,
                                       &memory, NULL) != GPUD_OK)
                    abort();
                if (on_host)
                    paint(memory->host, player->layout.size);
                else
                    paint_memory(memory, player->layout.size);
                gpud_memory_unref(&memory);
            }
        }
        gpud_message_close(&message);
    }
}

static void drop_page(struct player *player)
{
    if (player->network.remote)
        fuzz_network_close(&player->network);
    else
        gpud_memory_unmap_pages(player->page, sizeof(*player->page));
    player->page = NULL;
    player->writes = false;
}

/* A legacy handle, or one that is good but for a word and perhaps for its descriptor. */
static void forge(const struct player *player, struct gpud_handle *handle, uint32_t choice)
{
    if (shared.type != GPUD_HANDLE_VULKAN_FD) {
        *handle = fuzz_forged_handle(SLOTS * SLOT_SIZE);
        return;
    }
    *handle = shared;
    if (choice & 4)
        handle->fd = player->ring_fd;
    if (choice & 8)
        handle->word[player->epoch % GPUD_VULKAN_WORDS] ^= UINT64_C(1) << (choice & 7) * 9;
}

/* A route with what belongs to it, but for a signal that the input may choose. */
static void choose_route(struct player *player, struct gpud_offer *offer, uint32_t choice)
{
    static const char *const names[] = {"map", "staged", "directgma", "peer"};
    const struct gpud_route_ops *route =
        gpud_route_find((choice & 11) == 9 ? "staged-push" : names[choice & 3]);
    bool signals = fuzz_signals(receiver->device);
    gpud_print(offer->route, "%s", route->name);
    offer->signal =
        route->signal == GPUD_SIGNAL_PAGE && !signals ? GPUD_SIGNAL_NONE : (uint32_t)route->signal;
    if (choice & 0x30)
        offer->signal = (choice >> 4 & 3) - 1 + (choice & 0x40);
    offer->ring = (struct gpud_ring_description){
        .slot_size = SLOT_SIZE, .slots_per_memory = SLOTS, .memories = 1};
    offer->ring.handle[0] = (struct gpud_handle){
        .type = GPUD_HANDLE_MEMFD, .fd = player->ring_fd, .size = SLOTS * SLOT_SIZE};
    if (fuzz_shares(receiver->device) && !gpud_ring_is_on_host(route->ring))
        offer->ring.handle[0] = shared;
    if (choice & 0x80)
        forge(player, &offer->ring.handle[0], choice);
    if (FUZZ_BETWEEN_HOSTS && choice & 3) { /* else one of this host */
        drop_page(player);
        if (fuzz_network_open(&player->network, &player->wire))
            offer->page = player->network.page;
        gpud_print(offer->route, FUZZ_ROUTE_BETWEEN_HOSTS);
        offer->signal = choice & 0x30 ? offer->signal : GPUD_SIGNAL_NONE;
        memset(&offer->ring, 0, choice & 0x80 ? 0 : sizeof(offer->ring));
    }
    player->words_in_memory = offer->signal == GPUD_SIGNAL_MEMORY;
    player->offered = offer->ring;
}

static void say(struct player *player, struct fuzz_input *input)
{
    static struct gpud_message message;
    memset(&message, 0, sizeof(message));
    uint32_t choice = fuzz_number(input, 1);
    message.type = (enum gpud_message_type)(choice % 11);
    if (choice >= 251) /* what is not part of a handshake */
        message.type = (enum gpud_message_type)(GPUD_MESSAGE_QUERY + choice - 251);
    message.position = player->page ? player->view.head : 0;
    switch (message.type) {
    case GPUD_MESSAGE_HELLO:
        gpud_endpoint_describe(&message.hello, receiver->host, "fuzz");
        fuzz_network_describe(receiver->host, &message.hello);
        break;
    case GPUD_MESSAGE_OFFER:
        message.offer.epoch = ++player->epoch;
        message.offer.media.picture.layout = player->layout;
        message.offer.large_meta_max = player->epoch % 2 ? LARGE_META_MAX : 0;
        choose_route(player, &message.offer, fuzz_number(input, 1));
        break;
    case GPUD_MESSAGE_SHRINK:
        message.shrink = fuzz_number(input, 1) % 4;
        break;
    case GPUD_MESSAGE_SLOTS:
        message.slots = fuzz_number(input, 1) % (GPUD_SLOTS_MAX + 2);
        break;
    case GPUD_MESSAGE_GROW:
        message.grow = player->offered;
        break;
    case GPUD_MESSAGE_CANARY:
        /* Words inside memories are never posted, and would cost two seconds for each frame. */
        if (player->words_in_memory)
            return;
        /* Without a frame the receiver waits for it, for two seconds. */
        if (!player->page || gpud_page_head(&(struct gpud_page_rx){.page = player->page}) ==
                                 atomic_load(&player->page->receiver.claimed))
            publish(player, GPUD_FRAME_CANARY, true);
        paint(player->ring, player->layout.size);
        message.canary.epoch = player->epoch;
        message.canary.nonce = NONCE;
        break;
    case GPUD_MESSAGE_EVENT:
        message.event.size = fuzz_number(input, 1);
        break;
    default:
        message.epoch = player->epoch;
        break;
    }
    fuzz_send(&player->wire, &message, input, player->ring_fd);
    if (player->page)
        gpud_page_count_message(&player->view);
}

static enum gpud_status acquire_one(int64_t timeout, struct gpud_frame **frame,
                                    struct gpud_error *error)
{
    watch_begin(WATCH_BENT, "acquire", timeout);
    enum gpud_status status = gpud_receiver_acquire(receiver, timeout, frame, error);
    watch_end(WATCH_BENT);
    return status;
}

/* Until nothing comes any more. Whatever it is, it must come back. */
static void acquire(bool joins)
{
    /* A copy from a device takes a moment. */
    int64_t patience = application ? 5 * GPUD_MSEC : 0;
    for (int i = 0; i < 8; i++) {
        struct gpud_frame *frame;
        struct gpud_error error = {.reason = ""};
        enum gpud_status status = acquire_one(0, &frame, &error);
        if (status == GPUD_OK) {
            void *data;
            volatile uint8_t sum = 0;
            struct gpud_frame_info info = GPUD_INFO_INIT(info);
            gpud_frame_get_info(frame, &info);
            gpud_frame_wait_lines(frame, info.layout.height / 2, 0, NULL);
            /* A queue's wait for a frame that is never whole would take a second. */
            bool waits = !((struct gpud_rx_frame *)frame)->by_lines;
            /* An application that works on the device. */
            bool joined = joins && waits && application &&
                          gpud_frame_wait(frame, application->native, NULL) == GPUD_OK &&
                          gpud_frame_post(frame, application->native, NULL) == GPUD_OK;
            if (!joined && gpud_frame_map(frame, GPUD_READ, patience, &data, NULL) == GPUD_OK) {
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

#define LOOP_FDS 3 /* an epoll, an eventfd, a timer */

static void nothing(void)
{
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    struct player player = {.wire.fd = -1};
    struct gpud_channel *channel;
    int ends[2];
    void *ring;
    if (!context)
        prepare();
    struct watch_baseline before = {.fds = count_fds()};
    if (FUZZ_BY_TCP)
        before = watch_baseline_take();
    bool had_loop = atomic_load(&receiver->poll.is_open);
    if (gpud_memfd_create("ring", SLOTS * SLOT_SIZE, GPUD_SHARE_READ_ONLY, &player.ring_fd, &ring,
                          NULL) != GPUD_OK)
        abort();
    player.ring = ring;
    gpud_layout_init(&player.layout, "GRAY8", 64, 32, 0, NULL);
    gpud_receiver_disconnect(receiver, INT64_C(3600) * GPUD_SEC, "the input is over");
    bool early = false;
    if (FUZZ_BY_TCP) {
        const struct fuzz_place *place = fuzz_choose_place(&input, &early);
        if (early)
            fuzz_lie_early(&channel, false, place, &input);
        else
            fuzz_connect(&player.wire, &channel, false, place);
    } else {
        struct gpud_peer peer = {.pid = getpid(), .uid = geteuid(), .same_process = true};
        fuzz_pair(ends);
        player.wire.fd = ends[0];
        if (gpud_unix_channel_create(ends[1], &peer, &channel, NULL) != GPUD_OK)
            abort();
    }
    fuzz_join(receiver, channel);

    for (unsigned turns = 0; input.size && !early && turns < 200; turns++) {
        uint32_t turn = fuzz_number(&input, 1);
        bool joins = turn & 0x80;
        switch (turn % 6) {
        case 0:
        case 1:
        case 2:
            say(&player, &input);
            fuzz_let_come(receiver->channel);
            acquire(joins);
            listen_to(&player);
            break;
        case 3:
            publish(&player, fuzz_number(&input, 1), !(turn & 0x40));
            fuzz_let_come(receiver->channel);
            acquire(joins);
            break;
        case 4:
            if (FUZZ_BY_TCP || player.network.theirs)
                fuzz_network_lie(&player.network, &player.wire, &player.view.end, FUZZ_SENDER_HALF,
                                 &input);
            else if (player.page && !player.network.remote)
                fuzz_scribble(player.page, FUZZ_BOTH_HALVES, &input);
            acquire(joins);
            break;
        case 5:
            acquire(joins);
            listen_to(&player);
            break;
        }
        if (FUZZ_BY_TCP)
            send_beside();
    }
    if (FUZZ_BY_TCP)
        drop_page(&player); /* its connection ends with it */
    fuzz_hang_up(&player.wire);
    close(player.ring_fd);
    munmap(player.ring, SLOTS * SLOT_SIZE);
    if (!FUZZ_BY_TCP)
        drop_page(&player);

    /* The peer is gone: after what is left in the page, and in copies under way, the receiver says
     * so. */
    struct gpud_frame *frame;
    struct gpud_error error = {.reason = ""};
    int64_t until = watch_time() + WATCH_PATIENCE;
    for (unsigned turns = 0; receiver->state != GPUD_RECEIVER_OFFLINE; turns++) {
        if (turns > GPUD_PAGE_ENTRIES + 20 && watch_time() > until)
            watch_fail("the receiver does not notice the end of its peer, in state %d: %s",
                       receiver->state, error.reason);
        if (acquire_one(GPUD_MSEC, &frame, &error) == GPUD_OK)
            gpud_frame_release(&frame);
    }
    gpud_receiver_disconnect(receiver, INT64_C(3600) * GPUD_SEC, "the input is over");
    /* A receiver that has waited for a second, as on a busy machine, keeps what it waits with. */
    if (!had_loop && atomic_load(&receiver->poll.is_open))
        before.fds += LOOP_FDS;
    fuzz_expect_fds(before.fds, nothing);
    if (FUZZ_BY_TCP)
        watch_baseline_check(&before);
    return 0;
}
