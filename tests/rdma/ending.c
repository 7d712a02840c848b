/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Links that end, or change, or have a peer that breaks the rules; and sides that poll. */
#include "base/base.h"
#include "link.h"
#include "support/count.h"

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

#define SMALL 4096

/* --- polling -----------------------------------------------------------------------------------
 */

#define KICKS 50

/* The next thing to receive is a KICK, and behind it there is nothing. */
static void expect_kick(struct gpud_channel *channel)
{
    struct gpud_message message;
    receive_one(channel, &message, GPUD_MESSAGE_KICK);
    CHECK(gpud_channel_receive(channel, &message, NULL) == GPUD_AGAIN, "more than one KICK");
}

static void expect_nothing(struct gpud_channel *channel)
{
    struct gpud_message message;
    CHECK(gpud_channel_receive(channel, &message, NULL) == GPUD_AGAIN, "an unwanted KICK");
    /* But for a look at the peer now and then. */
    bool quiet = false;
    for (int i = 0; i < 50 && !quiet; i++) {
        quiet = gpud_channel_wait(channel, gpud_now() + 20 * GPUD_MSEC, NULL) == GPUD_TIMEOUT;
        CHECK(quiet || gpud_channel_receive(channel, &message, NULL) == GPUD_AGAIN,
              "an unwanted KICK");
    }
    CHECK(quiet, "readable all the time, and there is nothing");
}

static void send_kicks(int other)
{
    AUTO(end_tx) struct tx_link link = {.channel = NULL};
    begin_tx(&link, accept_from(other, 7031), SMALL, NULL);
    for (int i = 0; i < KICKS; i++) {
        hear(other); /* it polls */
        CHECK(send_frame(&link), "the link failed");
        hear(other); /* it has the frame */
        expect_nothing(link.channel);
        gpud_page_poll_begin(&link.page.end);
        CHECK(!gpud_page_has_returns(&link.page), "given back before it was told to");
        say(other, 1);
        expect_kick(link.channel); /* a credit, which is not urgent */
        CHECK(gpud_page_has_returns(&link.page), "a KICK before the words");
        gpud_page_poll_end(&link.page.end);
        reap(&link);
    }
    say(other, 2);
}

static void receive_kicks(int other)
{
    AUTO(end_rx) struct rx_link link = {.channel = NULL};
    uint32_t entry;
    begin_rx(&link, connect_from(other, 7031), SMALL);
    for (int i = 0; i < KICKS; i++) {
        expect_nothing(link.channel);
        gpud_page_poll_begin(&link.page.end);
        CHECK(!gpud_page_has_frames(&link.page), "sent before it was told to");
        say(other, 1);
        expect_kick(link.channel);
        CHECK(gpud_page_has_frames(&link.page), "a KICK before the words");
        gpud_page_poll_end(&link.page.end);
        CHECK(take_frame(&link, &entry), "the link failed");
        say(other, 2);
        hear(other); /* it polls */
        give_back(&link, entry);
    }
    hear(other);
}

void test_kicks(void)
{
    run_both(send_kicks, receive_kicks);
}

/* --- stopped, killed ---------------------------------------------------------------------------
 */

static void receive_for_ever(int other)
{
    struct rx_link link = {.channel = NULL};
    uint32_t entry;
    begin_rx(&link, connect_from(other, 7032), SMALL);
    for (;;) {
        CHECK(take_frame(&link, &entry), "the link failed");
        say(other, link.sequence);
        give_back(&link, entry);
    }
}

static void send_to(struct tx_link *link, int other, unsigned frames)
{
    for (unsigned i = 0; i < frames; i++)
        CHECK(send_frame(link), "the link failed");
    while (hear(other) != link->sequence)
        ;
}

static bool has_return(void *arg)
{
    return gpud_page_has_returns(arg);
}

/* A receiver that is stopped costs nothing but credits; it is not dead, and goes on later. */
void test_stopped(void)
{
    int other;
    AUTO(end_tx) struct tx_link link = {.channel = NULL};
    pid_t child = run_apart(receive_for_ever, &other);
    begin_tx(&link, accept_from(other, 7032), SMALL, NULL);
    send_to(&link, other, 100);
    reap(&link);
    kill(child, SIGSTOP);
    int64_t until = gpud_deadline(3 * GPUD_SEC);
    while (link.page.free_count > 0 && gpud_now() < until)
        CHECK(send_frame(&link), "the link failed");
    for (int i = 0; i < 1000; i++) /* more than the peer has receives */
        gpud_page_notify(&link.page.end);
    while (gpud_now() < until) {
        gpud_page_sleep(&link.page.end, has_return, &link.page, gpud_now() + 20 * GPUD_MSEC);
        CHECK(!gpud_channel_is_dead(link.channel), "stopped is not dead");
    }
    kill(child, SIGCONT);
    while (hear(other) != link.sequence)
        ;
    send_to(&link, other, 100);

    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    until = gpud_deadline(PATIENCE);
    while (send_frame(&link))
        CHECK(gpud_now() < until, "frames go to a dead one for ever");
    while (!gpud_channel_is_dead(link.channel)) {
        gpud_page_sleep(&link.page.end, has_return, &link.page, gpud_now() + 20 * GPUD_MSEC);
        CHECK(gpud_now() < until, "the death is not noticed");
    }
    expect_end(link.channel, GPUD_CLOSED, "");
}

static void send_for_ever(int other)
{
    struct tx_link link = {.channel = NULL};
    begin_tx(&link, accept_from(other, 7033), SMALL, NULL);
    while (send_frame(&link))
        ;
    FAIL("the link failed first");
}

/* A sender that dies leaves whole frames, and then the end. */
void test_killed(void)
{
    int other;
    AUTO(end_rx) struct rx_link link = {.channel = NULL};
    uint32_t entry;
    pid_t child = run_apart(send_for_ever, &other);
    begin_rx(&link, connect_from(other, 7033), SMALL);
    for (int i = 0; i < 100; i++) {
        CHECK(take_frame(&link, &entry), "the link failed");
        give_back(&link, entry);
    }
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    while (take_frame(&link, &entry))
        give_back(&link, entry);
    expect_end(link.channel, GPUD_CLOSED, "");
    gpud_page_notify(&link.page.end); /* without a peer */
    gpud_page_rouse(&link.page.end);
}

/* --- epochs ------------------------------------------------------------------------------------
 */

#define EPOCHS 20
#define HELD 3

/* A new epoch while the other side still holds frames of the one before. */
static void send_epochs(int other)
{
    struct tx_link links[2] = {{.channel = NULL}, {.channel = NULL}};
    struct gpud_channel *channel = accept_from(other, 7034);
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        struct tx_link *link = &links[epoch % 2], *before = &links[(epoch + 1) % 2];
        begin_tx(link, channel, SMALL * (unsigned)(1 + epoch % 3), epoch ? before : NULL);
        for (int i = 0; i < HELD; i++)
            CHECK(send_frame(link), "the link failed");
        if (epoch > 0) { /* which goes nowhere any more */
            gpud_page_count_message(&before->page);
            end_tx_epoch(before->remote, &before->frames);
        }
    }
    hear(other);
    struct tx_link *last = &links[(EPOCHS + 1) % 2];
    end_tx(last);
}

static void receive_epochs(int other)
{
    struct rx_link links[2] = {{.channel = NULL}, {.channel = NULL}};
    uint32_t entries[2][HELD];
    struct gpud_channel *channel = connect_from(other, 7034);
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        struct rx_link *link = &links[epoch % 2], *before = &links[(epoch + 1) % 2];
        if (epoch > 0)
            before->remote->ops->detach(before->remote);
        begin_rx(link, channel, SMALL * (unsigned)(1 + epoch % 3));
        for (int i = 0; i < HELD; i++)
            CHECK(take_frame(link, &entries[epoch % 2][i]), "the link failed");
        if (epoch > 0) {
            for (int i = 0; i < HELD; i++) /* without a notice */
                give_back(before, entries[(epoch + 1) % 2][i]);
            before->remote->ops->destroy(before->remote);
            close_frames(&before->frames);
        }
    }
    CHECK(!gpud_channel_is_dead(channel), "an old epoch's words ended the connection");
    say(other, 1);
    end_rx(&links[(EPOCHS + 1) % 2]);
}

void test_epochs(void)
{
    run_both(send_epochs, receive_epochs);
}

/* --- what is left ---------------------------------------------------------------------------- */

#define LIVES 20

struct left {
    unsigned fds, threads, pages;
    char card[256]; /* what the kernel has for all processes: queue pairs, registrations, ids */
};

/* card: no other process uses it. */
static struct left look(bool card)
{
    struct left left = {.fds = count_fds(), .threads = count_entries("/proc/self/task")};
    char line[512];
    FILE *file = fopen("/proc/self/maps", "re");
    while (file && fgets(line, sizeof(line), file))
        left.pages += strstr(line, "/dev/zero") != NULL;
    if (file)
        fclose(file);
    file = card ? popen("rdma resource show", "re") : NULL;
    CHECK(!card || (file && fgets(left.card, sizeof(left.card), file) && strstr(left.card, "mr ")),
          "rdma resource show says \"%s\"", left.card);
    if (file)
        pclose(file);
    return left;
}

static bool is_same(const struct left *a, const struct left *b)
{
    return a->fds == b->fds && a->threads == b->threads && a->pages == b->pages &&
           strcmp(a->card, b->card) == 0;
}

static void check_left(const struct left *before)
{
    int64_t deadline = gpud_deadline(PATIENCE / 4);
    bool card = before->card[0];
    struct left now = look(card);
    while (!is_same(before, &now) && gpud_now() < deadline) {
        usleep(20000);
        now = look(card);
    }
    CHECK(is_same(before, &now), "descriptors %u → %u, threads %u → %u, pages %u → %u; %s → %s",
          before->fds, now.fds, before->threads, now.threads, before->pages, now.pages,
          before->card, now.card);
}

/* Each turn ends in another way: by a goodbye, a disconnect, a release in between, a refusal, or
 * without being accepted. */
static void send_lives(int other)
{
    struct left before;
    for (int life = 0; life < LIVES; life++) {
        struct tx_link link = {.channel = NULL};
        struct gpud_channel *channel;
        struct gpud_peer peer;
        begin_tx(&link, accept_from(other, 7036), SMALL, NULL);
        for (int i = 0; i < ENTRIES; i++)
            CHECK(send_frame(&link), "the link failed");
        if (life % 3 == 0)
            gpud_channel_hang_up(link.channel);
        end_tx(&link);
        struct gpud_listener *listener = listen_on(address_of(7036, "/other"), NULL);
        say(other, 1);
        while (gpud_fd_wait(other, gpud_now() + 5 * GPUD_MSEC, NULL) != GPUD_OK)
            CHECK(gpud_listener_accept(listener, &channel, &peer, NULL) == GPUD_AGAIN, "let in");
        hear(other);
        say(other, 2); /* no peer is admitted from now on */
        hear(other);
        gpud_listener_close(&listener);
        if (life == 0)
            before = look(true);
        else
            check_left(&before);
        say(other, 2);
    }
}

static void receive_lives(int other)
{
    struct left before;
    for (int life = 0; life < LIVES; life++) {
        struct rx_link link = {.channel = NULL};
        uint32_t entry;
        begin_rx(&link, connect_from(other, 7036), SMALL);
        while (life % 3 == 1 && link.sequence < ENTRIES && take_frame(&link, &entry))
            ;
        end_rx(&link);
        hear(other);
        struct gpud_channel *refused = begin_to_connect(address_of(7036, "/none"), NULL);
        expect_end(refused, GPUD_CLOSED, "no channel");
        gpud_channel_unref(&refused);
        say(other, 1);
        hear(other);
        struct gpud_channel *waiting = begin_to_connect(address_of(7036, "/other"), NULL);
        for (int i = 0; i < 5; i++) {
            struct gpud_message message;
            CHECK(gpud_channel_receive(waiting, &message, NULL) == GPUD_AGAIN, "let in");
            usleep(2000);
        }
        gpud_channel_unref(&waiting);
        say(other, 2);
        hear(other);
        if (life == 0)
            before = look(false);
        else
            check_left(&before);
    }
}

void test_leaks(void)
{
    run_both(send_lives, receive_lives);
}

/* --- lies --------------------------------------------------------------------------------------
 */

static void lie_to_sender(struct gpud_remote *remote, const struct gpud_accept *honest)
{
    const struct gpud_remote_ops *ops = remote->ops;
    struct gpud_accept lie = *honest;
    lie.page.type = GPUD_HANDLE_MEMFD;
    EXPECT(GPUD_PEER, "ring page", ops->attach(remote, &lie.page, &e));
    lie.page = honest->page;
    lie.page.size += 4096;
    EXPECT(GPUD_PEER, "ring page", ops->attach(remote, &lie.page, &e));
    lie.page = honest->page;
    lie.page.word[0] = UINT64_MAX - 100;
    EXPECT(GPUD_PEER, "ring page", ops->attach(remote, &lie.page, &e));
    lie.page = honest->page;
    lie.page.word[1] = UINT64_C(1) << 32;
    EXPECT(GPUD_PEER, "ring page", ops->attach(remote, &lie.page, &e));

    const struct gpud_handle metas[] = {
        {.type = GPUD_HANDLE_MEMFD, .fd = -1, .size = 4096},
        {.type = GPUD_HANDLE_NETWORK, .fd = -1, .size = 4095},
        {.type = GPUD_HANDLE_NETWORK, .fd = -1, .size = 4096, .word = {UINT64_MAX - 100, 1}},
        {.type = GPUD_HANDLE_NETWORK, .fd = -1, .size = 4096, .word = {0, UINT64_C(1) << 32}},
    };
    for (size_t i = 0; i < sizeof(metas) / sizeof(metas[0]); i++) {
        struct gpud_handle handle = metas[i];
        void *area;
        EXPECT(GPUD_PEER, "memory for large metas",
               ops->share_metas(remote, 4096, &handle, &area, &e));
    }

    static const struct {
        uint64_t slot_size;
        uint32_t slots, memories;
    } rings[] = {
        {4096, 0, 2},  {4096, 2, 0},          {4096, 2, GPUD_RING_MEMORIES_MAX + 1},
        {4096, 1, 2},  {4095, 2, 2},          {UINT64_MAX / 2 + 1, 2, 2},
        {16384, 2, 2}, {4096, UINT32_MAX, 2}, {4096, GPUD_RING_SLOTS_MAX + 1, 1},
        {0, 2, 2},
    };
    for (size_t i = 0; i < sizeof(rings) / sizeof(rings[0]); i++) {
        lie.ring = honest->ring;
        lie.ring.slot_size = rings[i].slot_size;
        lie.ring.slots_per_memory = rings[i].slots;
        lie.ring.memories = rings[i].memories;
        EXPECT(GPUD_PEER, "ring", ops->attach_ring(remote, &lie.ring, ENTRIES, 4096, &e));
    }
    lie.ring = honest->ring;
    lie.ring.handle[1].type = GPUD_HANDLE_NONE;
    EXPECT(GPUD_PEER, "cannot write", ops->attach_ring(remote, &lie.ring, ENTRIES, 4096, &e));
    lie.ring = honest->ring;
    lie.ring.handle[1].size = 4096;
    EXPECT(GPUD_PEER, "cannot write", ops->attach_ring(remote, &lie.ring, ENTRIES, 4096, &e));
    lie.ring = honest->ring;
    lie.ring.handle[1].word[0] = UINT64_MAX - 4096;
    EXPECT(GPUD_PEER, "cannot write", ops->attach_ring(remote, &lie.ring, ENTRIES, 4096, &e));
}

static void send_to_liar(int other)
{
    struct gpud_channel *channel = accept_from(other, 7035);
    const struct gpud_remote_ops *ops = channel->ops->remote;
    struct gpud_message message = {.type = GPUD_MESSAGE_OFFER};
    struct gpud_remote *remote;
    struct frames_of frames;
    struct gpud_network network;
    struct gpud_page_tx page;
    open_frames(&frames, SMALL);
    ops->describe(channel, frames.device, &network);
    CHECK(strncmp(network.card, "rxe", 3) == 0 && network.ways == GPUD_NETWORK_HOST &&
              !network.no_dmabuf[0],
          "card \"%s\", ways %x", network.card, network.ways);
    WORKS(ops->create(channel, &remote, &message.offer.page, &e));
    send_one(channel, &message);
    receive_one(channel, &message, GPUD_MESSAGE_ACCEPT);
    lie_to_sender(remote, &message.accept);
    EXPECT(GPUD_INVALID, "entry", ops->write(remote, 0, 0, frames.ring.memory[0], 0, SMALL, &e));

    /* A key that was never given: the connection ends, and nothing else does. */
    message.accept.page.word[1] ^= 0x5a5a;
    WORKS(ops->attach(remote, &message.accept.page, &e));
    WORKS(ops->attach_ring(remote, &message.accept.ring, ENTRIES, SMALL, &e));
    WORKS(ops->add_source(remote, frames.ring.memory[0], &e));
    EXPECT(GPUD_INVALID, "entry",
           ops->write(remote, ENTRIES, 0, frames.ring.memory[0], 0, SMALL, &e));
    EXPECT(GPUD_INVALID, "entry", ops->write(remote, 0, 0, frames.ring.memory[1], 0, SMALL, &e));
    EXPECT(GPUD_INVALID, "entry",
           ops->write(remote, 0, 0, frames.ring.memory[0], 0, SMALL + 1, &e));
    EXPECT(GPUD_INVALID, "", ops->write(remote, 0, 0, frames.ring.memory[0], SMALL + 1, SMALL, &e));
    WORKS(gpud_page_tx_init(&page, remote->page, remote, ENTRIES, ENTRIES, &e));
    int64_t deadline = gpud_deadline(PATIENCE);
    while (!gpud_channel_is_dead(channel)) {
        CHECK(gpud_now() < deadline, "a wrong key does not end the connection");
        usleep(10000);
    }
    expect_end(channel, GPUD_CLOSED, "key or range is wrong");
    ops->destroy(remote);
    gpud_channel_unref(&channel);
    close_frames(&frames);
}

static void receive_as_liar(int other)
{
    struct gpud_message message;
    struct gpud_handle page;
    struct gpud_remote *remote;
    AUTO(close_frames) struct frames_of frames;
    struct gpud_page_rx view;
    AUTO(gpud_channel_unref) struct gpud_channel *channel = connect_from(other, 7035);
    const struct gpud_remote_ops *ops = channel->ops->remote;
    open_frames(&frames, SMALL);
    receive_one(channel, &message, GPUD_MESSAGE_OFFER);
    WORKS(ops->create(channel, &remote, &page, &e));
    EXPECT(GPUD_PEER, "ring page", ops->attach(remote, &page, &e)); /* of the other half */
    WORKS(ops->attach(remote, &message.offer.page, &e));
    gpud_page_rx_init(&view, remote->page, remote, ENTRIES);
    message = (struct gpud_message){.type = GPUD_MESSAGE_ACCEPT};
    message.accept.page = page;
    WORKS(ops->expose(remote, &frames.ring, &message.accept.ring, &e));
    send_one(channel, &message);
    expect_end(channel, GPUD_CLOSED, "");
    ops->destroy(remote);
}

void test_lies(void)
{
    run_both(send_to_liar, receive_as_liar);
}
