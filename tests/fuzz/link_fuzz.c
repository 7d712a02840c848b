/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A receiver, as the sender sees it: the input plays one over a real socket with real descriptors,
 * honestly or not, while the sender submits frames and changes its format. One thread: the sender's
 * own has been stopped, and this program does its work. */
#include "route/route.h"
#include "stateful.h"
#include "stream/sender/sender.h"
#include "watch.h"
#include "support/media.h"

#include <poll.h>

#define ENTRIES 2
#define LARGE_META_MAX 4096

static struct gpud_context *context;
static struct gpud_sender *sender;
static struct gpud_layout layout[2];
/* A receiver's own ring on the sender's device, where that is one that others write. */
static struct gpud_ring_description ring;
/* One in host pages, which a receiver has whose driver pins no others. */
static struct gpud_ring_description host_ring = {
    .slot_size = 4096, .slots_per_memory = ENTRIES, .memories = 1};
/* Between hosts a ring that the sender's card writes. */
static struct gpud_ring own_ring;
/* By TCP an honest receiver beside the player, and the sender's end of its connection. */
static struct fuzz_beside beside;
static struct gpud_channel *to_beside;

static struct gpud_link *find_link(bool honest)
{
    for (uint32_t i = 0; i < sender->link_count; i++)
        if ((sender->links[i]->channel == to_beside) == honest)
            return sender->links[i];
    return NULL;
}

/* The listener's part: reads a newcomer's first message, which turns it into a link or ends it. No
 * answer causes another at once, so there are few, unless they have queued up by TCP. */
#define MESSAGES (FUZZ_BY_TCP ? 1000 : 8)
static void read_link(bool honest)
{
    struct gpud_link *link = find_link(honest);
    for (unsigned turns = 0; link && link->state != GPUD_LINK_DEAD; turns++) {
        if (turns == MESSAGES)
            watch_fail("the sender reads and reads");
        static struct gpud_message message;
        struct gpud_error error = {.reason = ""};
        enum gpud_status status = gpud_channel_receive(link->channel, &message, &error);
        if (status == GPUD_AGAIN)
            break;
        if (status == GPUD_OK) {
            gpud_link_handle(link, &message);
            gpud_message_close(&message);
        } else {
            gpud_link_end(link, GPUD_LOG_WARNING, error.reason);
        }
        gpud_listener_turn(sender); /* which may free it */
        link = find_link(honest);
    }
}

/* The player's link, if it has one. */
static struct gpud_link *read_messages(void)
{
    static const struct pollfd readable = {.revents = POLLIN};
    watch_begin(WATCH_SENDER, "the sender's answer", 0);
    if (sender->newcomer_count)
        gpud_newcomers_read(sender, &readable, 1);
    read_link(true);
    read_link(false);
    gpud_listener_turn(sender);
    watch_end(WATCH_SENDER);
    return find_link(false);
}

/* Until the honest receiver has all that was sent. */
static void settle_beside(void)
{
    watch_begin(WATCH_HONEST, "a frame of an honest link", 0);
    do {
        read_messages();
        fuzz_beside_take(&beside, GPUD_MSEC / 10);
    } while (beside.frames < beside.sent);
    watch_end(WATCH_HONEST);
}

static void submit(void)
{
    struct gpud_frame *frame;
    bool whole = true;
    watch_begin(WATCH_SENDER, "submitting", 0);
    if (gpud_sender_acquire(sender, 0, &frame, NULL) == GPUD_OK) {
        static const uint8_t large[LARGE_META_MAX];
        struct gpud_frame_info info = GPUD_INFO_INIT(info);
        gpud_frame_get_info(frame, &info);
        info.large_meta = large;
        info.large_meta_size = sender->sequence % 2 ? sizeof(large) : 0;
        gpud_frame_set_info(frame, &info, NULL);
        fuzz_beside_number(&beside, frame);
        if (sender->sequence % 3 == 2) { /* by lines, up to the last one or not */
            gpud_sender_submit_lines(sender, frame, 5, 0, NULL);
            whole = sender->sequence % 2 &&
                    gpud_sender_submit_lines(sender, frame, 32, 0, NULL) == GPUD_OK;
            gpud_frame_release(&frame);
        } else if (gpud_sender_submit(sender, &frame, 0, NULL) != GPUD_OK) {
            gpud_frame_release(&frame);
            whole = false;
        }
        *(whole ? &beside.sent : &beside.lost) += 1;
    }
    watch_end(WATCH_SENDER);
    if (FUZZ_BY_TCP)
        settle_beside();
}

struct player {
    struct fuzz_wire wire;
    int page_fd;
    struct gpud_page *page;
    struct fuzz_network network;
    struct gpud_page_rx view;
    uint32_t epoch;
    bool ring_is_ours, on_host; /* by the last offer */
};

/* A page can be used once: each session has its own. */
static void drop_page(struct player *player)
{
    if (FUZZ_BETWEEN_HOSTS) {
        fuzz_network_close(&player->network);
        return;
    }
    gpud_fd_close(&player->page_fd);
    munmap(player->page, sizeof(*player->page));
}

static void make_page(struct player *player, const struct gpud_handle *theirs)
{
    void *page;
    if (FUZZ_BETWEEN_HOSTS) {
        player->page = NULL;
        if (!fuzz_network_open(&player->network, &player->wire))
            return;
        player->page = player->network.remote->page;
        player->page_fd = player->network.page.fd;
        if (theirs)
            fuzz_network_attach(&player->network, theirs);
        gpud_page_rx_init(&player->view, player->page, player->network.remote, ENTRIES);
        return;
    }
    if (player->page)
        drop_page(player);
    if (gpud_memfd_create("page", sizeof(*player->page), GPUD_SHARE_WRITABLE, &player->page_fd,
                          &page, NULL) != GPUD_OK)
        abort();
    player->page = page;
    gpud_page_rx_init(&player->view, page, NULL, ENTRIES);
    atomic_store(&player->page->receiver.by_lines, 1);
}

/* What a receiver on another host answers. */
static void expose(struct player *player, struct gpud_accept *accept, bool with_metas)
{
    struct gpud_remote *remote = player->network.remote;
    struct gpud_handle *metas = &accept->large_metas;
    void *memory;
    if (!remote)
        return; /* its connection has ended */
    accept->page = player->network.page;
    if (remote->ops->expose(remote, &own_ring, &accept->ring, NULL) != GPUD_OK)
        abort();
    if (FUZZ_BY_TCP && with_metas && !((struct tcp_remote *)remote)->metas &&
        remote->ops->share_metas(remote, ENTRIES * LARGE_META_MAX, metas, &memory, NULL) != GPUD_OK)
        abort();
}

static void say(struct player *player, struct fuzz_input *input)
{
    static struct gpud_message message;
    uint32_t choice;
    memset(&message, 0, sizeof(message));
    choice = fuzz_number(input, 1);
    message.type = (enum gpud_message_type)(choice % 11);
    if (choice >= 252) /* what is not part of a handshake */
        message.type = (enum gpud_message_type)(GPUD_MESSAGE_QUERY + choice - 252);
    switch (message.type) {
    case GPUD_MESSAGE_HELLO: {
        static const char *const routes[] = {"", FUZZ_BETWEEN_HOSTS ? "" : "map",
                                             FUZZ_BETWEEN_HOSTS ? FUZZ_ROUTE_BETWEEN_HOSTS : "peer",
                                             "staged"};
        choice = fuzz_number(input, 1);
        gpud_endpoint_describe(&message.hello, sender->device, "fuzz");
        fuzz_network_describe(sender->device, &message.hello);
        message.hello.token = 1;
        message.hello.slots = ENTRIES;
        /* One that blocks is the sender's to allow. */
        message.hello.slow_receiver =
            (uint8_t)(choice & 8 ? GPUD_SLOW_BLOCK : GPUD_SLOW_DROP_NEWEST + (choice & 1));
        gpud_print(message.hello.route, "%s", routes[choice >> 1 & 3]);
        if (choice & 16) { /* a GPU whose driver pins only what it may write */
            message.hello.caps &= ~(uint32_t)GPUD_CAP_HOST;
            message.hello.caps |= GPUD_CAP_PINS_WRITABLE;
            if (choice & 32)
                gpud_print(message.hello.route, "staged-push");
        }
        break;
    }
    case GPUD_MESSAGE_ACCEPT:
        choice = fuzz_number(input, 1);
        if (choice & 1)
            make_page(player, NULL);
        message.accept.epoch = player->epoch;
        message.accept.entries = ENTRIES;
        message.accept.page = encode_page(player->page_fd);
        if (choice & 4 && !FUZZ_BY_TCP) /* large enough for those of submit() */
            message.accept.large_metas = encode_page(player->page_fd);
        if (FUZZ_BETWEEN_HOSTS)
            expose(player, &message.accept, choice & 4);
        else if (player->ring_is_ours)
            message.accept.ring = player->on_host ? host_ring : ring;
        if (choice & 8)
            message.accept.large_metas = fuzz_forged_handle(ENTRIES * LARGE_META_MAX);
        if (choice & 2)
            message.accept.ring.handle[0] = fuzz_forged_handle(ring.handle[0].size);
        break;
    case GPUD_MESSAGE_READY:
    case GPUD_MESSAGE_EOS:
        message.epoch = player->epoch;
        break;
    case GPUD_MESSAGE_REFUSE:
        message.refuse.epoch = player->epoch;
        break;
    default:
        break;
    }
    fuzz_send(&player->wire, &message, input, player->page_fd);
}

static void listen_to(struct player *player)
{
    static struct gpud_message message;
    fuzz_let_come(player->wire.channel);
    while (fuzz_hear(&player->wire, &message) == GPUD_OK) {
        if (message.type == GPUD_MESSAGE_OFFER) {
            player->epoch = message.offer.epoch;
            player->ring_is_ours = message.offer.ring.memories == 0;
            player->on_host = strcmp(message.offer.route, "staged-push") == 0;
            if (FUZZ_BETWEEN_HOSTS)
                make_page(player, &message.offer.page);
        }
        gpud_message_close(&message);
    }
}

/* Takes a frame and returns it; its device may have finished with it, or not. */
static void use_frame(struct player *player, bool done)
{
    struct gpud_descriptor descriptor;
    uint32_t entry;
    const atomic_bool is_idle = true;
    if (!player->page)
        return;
    if (gpud_page_claim(&player->view, gpud_page_head(&player->view), &entry, &descriptor, NULL) <=
        0)
        return;
    if (done)
        atomic_store(&player->page->receiver.release[entry].word, descriptor.value);
    gpud_page_give_back(&player->view, entry, &is_idle);
}

/* What devices have finished is noticed under the lock, and freed by the listener's turn. */
static void look_after_sender(void)
{
    gpud_listener_turn(sender);
}

static void let_in(struct gpud_channel *channel)
{
    memset(&sender->admission, 0, sizeof(sender->admission)); /* inputs come more often than that */
    gpud_newcomer_add(sender, channel);
}

/* A newcomer of this very process, or as if it were of another user's. */
static void let_in_socket(int fd, bool foreign)
{
    struct gpud_peer peer = {
        .pid = getpid(), .uid = geteuid(), .foreign = foreign, .same_process = true};
    struct gpud_channel *channel;
    if (gpud_unix_channel_create(fd, &peer, &channel, NULL) != GPUD_OK)
        abort();
    let_in(channel);
}

static void prepare(void)
{
    char directory[] = "/tmp/gpud-fuzz-XXXXXX";
    if (!mkdtemp(directory))
        abort();
    context = fuzz_context();
    fuzz_need_device(context);
    watch_start();
    setenv("XDG_RUNTIME_DIR", directory, 1);
    struct gpud_sender_params params = GPUD_PARAMS_INIT(params);
    params.address = "fuzz";
    params.device = FUZZ_DEVICE;
    params.slots = ENTRIES;
    params.large_meta_max = LARGE_META_MAX;
    params.slow_receiver = GPUD_SLOW_DROP_NEWEST;
    if (gpud_sender_create(context, &params, &sender, NULL) != GPUD_OK)
        abort();
    gpud_sender_stop_listening(sender);
    char path[64];
    gpud_print(path, "%s/gpudirect", directory);
    rmdir(path);
    rmdir(directory);
    fuzz_network_prepare();
    gpud_layout_init(&layout[0], "GRAY8", 64, 32, 0, NULL);
    gpud_layout_init(&layout[1], "NV12", 32, 32, 0, NULL);
    if (fuzz_signals(sender->device)) {
        sender->slow_receiver = GPUD_SLOW_BLOCK;
        ring = host_ring;
        fuzz_share(sender->device, ENTRIES * 4096, GPUD_USAGE_TARGET, &ring.handle[0]);
    }
    fuzz_share(sender->host, ENTRIES * 4096, GPUD_USAGE_TARGET, &host_ring.handle[0]);
    if (FUZZ_BETWEEN_HOSTS) {
        gpud_ring_init(&own_ring, sender->host, GPUD_USAGE_LOCAL, 4096, ENTRIES);
        if (gpud_ring_grow(&own_ring, NULL) != GPUD_OK)
            abort();
    }
    gpud_sender_configure(sender, PICTURE(&layout[0]), NULL);
    if (!FUZZ_BY_TCP)
        return;
    struct gpud_receiver_params honest = GPUD_PARAMS_INIT(honest);
    struct fuzz_wire wire;
    sender->slow_receiver = GPUD_SLOW_BLOCK;
    honest.address = fuzz_places[0].text;
    honest.device = FUZZ_DEVICE;
    if (gpud_receiver_create(context, &honest, &beside.receiver, NULL) != GPUD_OK)
        abort();
    fuzz_connect(&wire, &to_beside, true, &fuzz_places[1]);
    fuzz_join(beside.receiver, wire.channel);
    let_in(to_beside);
    watch_begin(WATCH_HONEST, "an honest link", 0);
    while (!find_link(true) || find_link(true)->state != GPUD_LINK_STREAMING) {
        read_messages();
        fuzz_beside_take(&beside, GPUD_MSEC / 10);
    }
    watch_end(WATCH_HONEST);
    submit();
}

static uint64_t answered(int fd, enum gpud_message_type type)
{
    static struct gpud_message message;
    struct gpud_error error = {.reason = ""};
    if (gpud_socket_receive(fd, &message, &error) != GPUD_OK || message.type != type)
        watch_fail("no %s: %s", gpud_message_name(type), error.reason);
    return type == GPUD_MESSAGE_STATUS ? message.report.links : message.links.count;
}

/* A query is answered in every state of the link. */
static void query(void)
{
    static const struct pollfd readable[2] = {{.revents = POLLIN}, {.revents = POLLIN}};
    static struct gpud_message message;
    int ends[2];
    fuzz_pair(ends);
    message.type = GPUD_MESSAGE_QUERY;
    if (gpud_socket_send(ends[0], &message, NULL) != GPUD_OK)
        abort();
    watch_begin(WATCH_SENDER, "an answer", 0);
    gpud_sender_list_links(sender, NULL, 0); /* which may find that the player has lied */
    uint32_t linked = FUZZ_BY_TCP;           /* the honest one */
    linked += find_link(false) && find_link(false)->state != GPUD_LINK_DEAD;
    let_in_socket(ends[1], false);
    gpud_newcomers_read(sender, readable, 2);
    if (answered(ends[0], GPUD_MESSAGE_STATUS) != linked ||
        (linked && answered(ends[0], GPUD_MESSAGE_LINKS) != linked) ||
        gpud_sender_list_links(sender, NULL, 0) != linked)
        watch_fail("a query lists other receivers than there are");
    if (gpud_socket_receive(ends[0], &message, NULL) != GPUD_CLOSED)
        watch_fail("the answer to a query does not end");
    watch_end(WATCH_SENDER);
    close(ends[0]);
}

/* Whether the sender still has that end of a connection. */
static bool is_there(const struct gpud_channel *channel)
{
    for (uint32_t i = 0; i < sender->link_count; i++)
        if (sender->links[i]->channel == channel)
            return true;
    for (uint32_t i = 0; i < sender->newcomer_count; i++)
        if (sender->newcomers[i].channel == channel)
            return true;
    return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    struct player player = {.wire.fd = -1};
    struct gpud_channel *channel = NULL;
    int ends[2];
    if (!context)
        prepare();
    struct watch_baseline before = {.fds = count_fds()};
    if (FUZZ_BY_TCP)
        before = watch_baseline_take();
    if (FUZZ_BY_TCP) {
        bool early;
        const struct fuzz_place *place = fuzz_choose_place(&input, &early);
        if (early) {
            fuzz_lie_early(&channel, true, place, &input);
            input.size = 0;
        } else {
            fuzz_connect(&player.wire, &channel, true, place);
        }
        if (channel)
            let_in(channel);
    } else {
        fuzz_pair(ends);
        player.wire.fd = ends[0];
        let_in_socket(ends[1], size % 2);
    }
    make_page(&player, NULL);
    player.epoch = sender->epoch;

    for (unsigned turns = 0; input.size && turns < 200; turns++) {
        uint32_t turn = fuzz_number(&input, 1);
        switch (turn % 8) {
        case 0:
        case 1:
        case 2:
            say(&player, &input);
            if (is_there(channel))
                fuzz_let_come(channel);
            read_messages();
            listen_to(&player);
            break;
        case 3:
        case 4:
            submit();
            break;
        case 5:
            use_frame(&player, !(turn & 0x80));
            break;
        case 6:
            if (FUZZ_BETWEEN_HOSTS)
                fuzz_network_lie(&player.network, &player.wire, &player.view.end,
                                 FUZZ_RECEIVER_HALF, &input);
            else
                fuzz_scribble(player.page, FUZZ_BOTH_HALVES, &input);
            break;
        case 7:
            if (fuzz_number(&input, 1) % 8 == 0)
                gpud_sender_configure(sender, PICTURE(&layout[turns & 1]), NULL);
            else
                gpud_sender_send_event(sender, 1, "event", 5, NULL);
            gpud_listener_turn(sender);
            listen_to(&player);
            break;
        }
    }
    read_messages();

    if (!FUZZ_BY_TCP || !sender->newcomer_count) /* else it may become a link meanwhile */
        query();

    if (FUZZ_BY_TCP)
        drop_page(&player); /* its connection ends with it */
    fuzz_hang_up(&player.wire);
    struct gpud_link *link = read_messages();
    for (int64_t until = watch_time() + WATCH_PATIENCE;
         FUZZ_BY_TCP && (sender->newcomer_count || link) && watch_time() < until;) {
        usleep(100);
        link = read_messages();
    }
    if (sender->newcomer_count || link)
        watch_fail("the sender does not notice the end of its peer, in state %d",
                   link ? (int)link->state : -1);
    if (!FUZZ_BY_TCP)
        drop_page(&player);

    /* Every slot is free again, since no receiver holds any, and every descriptor that came along
     * is closed. */
    struct gpud_frame *frame[ENTRIES];
    struct gpud_error error = {.reason = ""};
    watch_begin(WATCH_SENDER, "lending slots", 10 * GPUD_SEC);
    for (unsigned i = 0; i < ENTRIES; i++)
        if (gpud_sender_acquire(sender, 10 * GPUD_SEC / ENTRIES, &frame[i], &error) != GPUD_OK)
            watch_fail("a slot does not come back: %s", error.reason);
    for (unsigned i = 0; i < ENTRIES; i++)
        gpud_frame_release(&frame[i]);
    watch_end(WATCH_SENDER);
    gpud_sender_configure(sender, PICTURE(&layout[0]), NULL);
    watch_begin(WATCH_BENT, "a frame for an honest link alone", WATCH_PATIENCE * GPUD_MSEC);
    for (uint32_t sent = beside.sent; FUZZ_BY_TCP && beside.sent == sent;)
        submit();
    watch_end(WATCH_BENT);
    fuzz_expect_fds(before.fds, look_after_sender);
    if (FUZZ_BY_TCP)
        watch_baseline_check(&before);
    return 0;
}
