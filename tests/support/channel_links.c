/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Links between two processes as the stream layer makes them: a page on each side, a ring at the
 * receiver's, into which the card writes, and slots at the sender's. */
#include "base/base.h"
#include "device/device.h"
#include "frame/frame.h"
#include "support/channels.h"
#include "support/count.h"
#include "support/make.h"
#include "support/peer.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

#define ENTRIES 4

struct frames_of {
    uint64_t size;
    struct gpud_context *context;
    struct gpud_device *device;
    struct gpud_ring ring; /* the sender's slots, or what the receiver's card is written into */
};

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

#define SLICE (20 * GPUD_MSEC)

static const atomic_bool is_idle = true;

/* --- frames ----------------------------------------------------------------------------------- */

static void open_frames(struct frames_of *frames, uint64_t size)
{
    frames->size = size;
    WORKS(gpud_context_create(NULL, &frames->context, &e));
    WORKS(gpud_device_open(frames->context, "host", &frames->device, &e));
    gpud_ring_init(&frames->ring, frames->device, GPUD_USAGE_TARGET, size, ENTRIES / 2);
    while (gpud_ring_slots(&frames->ring) < ENTRIES)
        WORKS(gpud_ring_grow(&frames->ring, &e));
}

static void close_frames(struct frames_of *frames)
{
    gpud_ring_finish(&frames->ring);
    gpud_device_close(&frames->device);
    gpud_context_destroy(&frames->context);
}

/* Words that tell the frame and the place. */
static uint32_t word_of(uint64_t sequence, uint64_t at)
{
    return (uint32_t)(sequence * 2654435761u + at * 40503u);
}

static uint32_t *slot_of(const struct frames_of *frames, uint32_t entry)
{
    uint64_t offset;
    struct gpud_memory *memory = gpud_ring_slot(&frames->ring, entry, &offset);
    return (uint32_t *)(void *)((char *)memory->host + offset);
}

/* The channel is the link's from then on. before: the epoch that this one follows, or NULL. */
static void begin_tx(struct tx_link *link, struct gpud_channel *channel, uint64_t frame_size,
                     struct tx_link *before)
{
    struct gpud_message message = {.type = GPUD_MESSAGE_OFFER};
    const struct gpud_remote_ops *ops = channel->ops->remote;
    link->channel = channel;
    link->sequence = 0;
    open_frames(&link->frames, frame_size);
    WORKS(ops->create(channel, &link->remote, &message.offer.page, &e));
    for (uint32_t i = 0; i < link->frames.ring.memories; i++) {
        WORKS(ops->add_source(link->remote, link->frames.ring.memory[i], &e));
        WORKS(ops->add_source(link->remote, link->frames.ring.memory[i], &e)); /* does nothing */
    }
    send_one(channel, &message);
    if (before) /* counted where the receiver looks at that moment */
        gpud_page_count_message(&before->page);

    receive_one(channel, &message, GPUD_MESSAGE_ACCEPT);
    WORKS(ops->attach(link->remote, &message.accept.page, &e));
    WORKS(ops->attach_ring(link->remote, &message.accept.ring, message.accept.entries, frame_size,
                           &e));
    WORKS(gpud_page_tx_init(&link->page, link->remote->page, link->remote, message.accept.entries,
                            ENTRIES, &e));
    send_one(channel, &(struct gpud_message){.type = GPUD_MESSAGE_CANARY});
}

static void begin_rx(struct rx_link *link, struct gpud_channel *channel, uint64_t frame_size)
{
    struct gpud_message message;
    struct gpud_handle page;
    const struct gpud_remote_ops *ops = channel->ops->remote;
    link->channel = channel;
    link->sequence = 0;
    open_frames(&link->frames, frame_size);
    receive_one(channel, &message, GPUD_MESSAGE_OFFER);
    WORKS(ops->create(channel, &link->remote, &page, &e));
    WORKS(ops->attach(link->remote, &message.offer.page, &e));
    gpud_page_rx_init(&link->page, link->remote->page, link->remote, ENTRIES);

    message = (struct gpud_message){.type = GPUD_MESSAGE_ACCEPT};
    message.accept.entries = ENTRIES;
    message.accept.page = page;
    WORKS(ops->expose(link->remote, &link->frames.ring, &message.accept.ring, &e));
    send_one(channel, &message);
    receive_one(channel, &message, GPUD_MESSAGE_CANARY);
    WORKS(gpud_page_check_sender(&link->page, &e));
}

/* What is left of an epoch; and of the link. */
static void end_tx_epoch(struct tx_link *link)
{
    link->remote->ops->destroy(link->remote);
    close_frames(&link->frames);
}

static void end_tx_link(struct tx_link *link)
{
    end_tx_epoch(link);
    gpud_channel_unref(&link->channel);
}

/* The connection may outlive the record, which keeps the ring's memory registered for so long. */
static void end_rx_link(struct rx_link *link)
{
    link->remote->ops->destroy(link->remote);
    gpud_channel_unref(&link->channel);
    close_frames(&link->frames);
}

/* A process has one link, or one after the other. */
static struct tx_link *open_tx(struct gpud_channel *channel, uint64_t frame_size)
{
    static struct tx_link link;
    begin_tx(&link, channel, frame_size, NULL);
    return &link;
}

static void end_tx(struct tx_link **link)
{
    end_tx_link(*link);
}

static struct rx_link *open_rx(struct gpud_channel *channel, uint64_t frame_size)
{
    static struct rx_link link;
    begin_rx(&link, channel, frame_size);
    return &link;
}

static void end_rx(struct rx_link **link)
{
    end_rx_link(*link);
}

/* The returned credits. */
static void reap(struct tx_link *link)
{
    uint32_t entry;
    int got;
    while ((got = gpud_page_reap(&link->page, &entry)) > 0)
        ;
    CHECK(got == 0, "an honest receiver is called a liar");
}

static bool has_returns(void *arg)
{
    return gpud_page_has_returns(arg);
}

static bool take_credit(struct tx_link *link, uint32_t *entry)
{
    int64_t deadline = gpud_deadline(PATIENCE);
    for (;;) {
        reap(link);
        if (link->page.free_count > 0 && link->remote->ops->has_room(link->remote))
            return gpud_page_take(&link->page, entry);
        CHECK(gpud_now() < deadline, "no credit comes back");
        if (gpud_channel_is_dead(link->channel))
            return false;
        gpud_page_sleep(&link->page.end, has_returns, &link->page, gpud_now() + SLICE);
    }
}

/* Sends a frame, waiting for a credit; false: the link failed. */
static bool send_frame(struct tx_link *link)
{
    uint32_t entry;
    uint64_t offset;
    if (!take_credit(link, &entry))
        return false;
    uint64_t sequence = ++link->sequence;
    uint32_t *words = slot_of(&link->frames, entry);
    for (uint64_t i = 0; i < link->frames.size / 4; i++)
        words[i] = word_of(sequence, i);
    struct gpud_memory *memory = gpud_ring_slot(&link->frames.ring, entry, &offset);
    enum gpud_status status =
        link->remote->ops->write(link->remote, entry, 0, memory, offset, link->frames.size, NULL);
    if (status == GPUD_PEER)
        return false;
    CHECK(status == GPUD_OK, "a frame cannot be written: %s", gpud_status_string(status));
    struct gpud_descriptor *descriptor = gpud_page_descriptor(&link->page, entry);
    *descriptor = (struct gpud_descriptor){.sequence = sequence, .slot = entry};
    descriptor->meta_size = (uint32_t)(sequence % (GPUD_FRAME_META_MAX + 1));
    memset(descriptor->meta, (int)(sequence & 0xff), descriptor->meta_size);
    gpud_page_publish(&link->page, entry);
    gpud_page_notify(&link->page.end);
    return true;
}

static bool has_frames(void *arg)
{
    return gpud_page_has_frames(arg);
}

/* Waits for the next frame, which must be whole. false: the link failed. */
static bool take_frame(struct rx_link *link, uint32_t *entry)
{
    int64_t deadline = gpud_deadline(PATIENCE);
    struct gpud_descriptor descriptor;
    struct gpud_error error = {.reason = ""};
    for (;;) {
        int got =
            gpud_page_claim(&link->page, gpud_page_head(&link->page), entry, &descriptor, &error);
        CHECK(got >= 0, "an honest sender is called a liar: %s", error.reason);
        if (got > 0)
            break;
        CHECK(gpud_now() < deadline, "no frame comes");
        if (gpud_channel_is_dead(link->channel) && !gpud_page_has_frames(&link->page))
            return false;
        gpud_page_sleep(&link->page.end, has_frames, &link->page, gpud_now() + SLICE);
    }
    uint64_t sequence = ++link->sequence;
    const uint32_t *words = slot_of(&link->frames, *entry);
    CHECK_EQUAL(descriptor.sequence, sequence);
    CHECK_EQUAL(descriptor.meta_size, sequence % (GPUD_FRAME_META_MAX + 1));
    for (uint32_t i = 0; i < descriptor.meta_size; i++)
        CHECK(descriptor.meta[i] == (uint8_t)sequence, "a torn descriptor");
    for (uint64_t i = 0; i < link->frames.size / 4; i++)
        CHECK(words[i] == word_of(sequence, i), "frame %llu is torn at word %llu",
              (unsigned long long)sequence, (unsigned long long)i);
    return true;
}

static void give_back(struct rx_link *link, uint32_t entry)
{
    memset(slot_of(&link->frames, entry), 0xee, link->frames.size);
    gpud_page_give_back(&link->page, entry, &is_idle);
}

static void take_and_give_back(struct rx_link *link)
{
    uint32_t entry;
    CHECK(take_frame(link, &entry), "the link failed");
    give_back(link, entry);
}

/* --- cases ------------------------------------------------------------------------------------ */

#define SMALL 4096

static uint64_t frame_size = SMALL;
static unsigned frame_count = 10000;

static void send_frames(int other)
{
    AUTO(end_tx) struct tx_link *link = open_tx(accept_from(other), frame_size);
    for (unsigned i = 0; i < frame_count; i++)
        CHECK(send_frame(link), "the link failed");
    for (; link->page.free_count < ENTRIES; usleep(1000))
        reap(link);
    hear(other);
}

static void receive_frames(int other)
{
    AUTO(end_rx) struct rx_link *link = open_rx(connect_from(other), frame_size);
    for (unsigned i = 0; i < frame_count; i++)
        take_and_give_back(link);
    say(other, 1);
    expect_end(link->channel, GPUD_CLOSED, "closed");
}

static void test_large_frames(void)
{
    frame_size = 1280 * 720 * 2 + 44;
    frame_count = 60;
    run_both(send_frames, receive_frames);
}

struct sleeper {
    struct gpud_page_end *end;
    atomic_bool ready, asleep;
    int64_t woken;
};

static bool is_ready(void *arg)
{
    struct sleeper *sleeper = arg;
    atomic_store(&sleeper->asleep, true);
    return atomic_load(&sleeper->ready);
}

static void *sleep_long(void *arg)
{
    struct sleeper *sleeper = arg;
    while (!atomic_load(&sleeper->ready))
        gpud_page_sleep(sleeper->end, is_ready, sleeper, gpud_deadline(PATIENCE));
    sleeper->woken = gpud_now();
    return NULL;
}

/* A thread of this side that sleeps is woken by another one of it. */
static void rouse_own(struct gpud_page_end *end)
{
    struct sleeper sleeper = {.end = end};
    pthread_t thread = NEW_THREAD(sleep_long, &sleeper);
    while (!atomic_load(&sleeper.asleep))
        usleep(1000);
    int64_t start = gpud_now();
    atomic_store(&sleeper.ready, true);
    gpud_page_rouse(end);
    pthread_join(thread, NULL);
    CHECK(sleeper.woken - start < PATIENCE / 2, "only the deadline woke it");
}

static bool never(void *arg)
{
    return false;
}

/* Sleeps until the other side sends something, before the deadline. */
static void sleep_for_notice(struct gpud_page_end *end, bool (*ready)(void *arg), void *arg)
{
    int64_t start = gpud_now();
    while (!ready(arg)) {
        gpud_page_sleep(end, ready, arg, start + PATIENCE);
        CHECK(gpud_now() - start < PATIENCE / 2, "only the deadline ended the sleep");
    }
}

#define TURNS 200

/* Both sleep for each other in turn. In between the sender's other thread, which receives, is the
 * one that deals with what comes. */
static void send_in_turn(int other)
{
    struct gpud_message message;
    AUTO(end_tx) struct tx_link *link = open_tx(accept_from(other), SMALL);
    rouse_own(&link->page.end);
    int64_t start = gpud_now();
    gpud_page_sleep(&link->page.end, never, NULL, start + 100 * GPUD_MSEC);
    for (int i = 0; i < TURNS; i++) {
        CHECK(send_frame(link), "the link failed");
        if (i % 3 == 0)
            CHECK(gpud_channel_receive(link->channel, &message, NULL) == GPUD_AGAIN, "a message");
        sleep_for_notice(&link->page.end, has_returns, &link->page);
        reap(link);
    }
    hear(other);
}

static void receive_in_turn(int other)
{
    struct gpud_message message;
    AUTO(end_rx) struct rx_link *link = open_rx(connect_from(other), SMALL);
    rouse_own(&link->page.end);
    for (int i = 0; i < TURNS; i++) {
        if (i % 3 == 1)
            CHECK(gpud_channel_receive(link->channel, &message, NULL) == GPUD_AGAIN, "a message");
        sleep_for_notice(&link->page.end, has_frames, &link->page);
        take_and_give_back(link);
    }
    say(other, 1);
}

/* Another thread of the side polls the channel all the time, and takes what makes it readable. */
static void *poll_channel(void *arg)
{
    struct gpud_channel *channel = arg;
    struct gpud_message message;
    for (;;) {
        gpud_channel_wait(channel, gpud_now() + 20 * GPUD_MSEC, NULL);
        enum gpud_status status = gpud_channel_receive(channel, &message, NULL);
        CHECK(status == GPUD_AGAIN || (status == GPUD_OK && message.type == GPUD_MESSAGE_EOS),
              "the poller gets %s", gpud_status_string(status));
        if (status == GPUD_OK)
            return NULL;
    }
}

#define POLLED_TURNS 1000

static void send_beside_poller(int other)
{
    AUTO(end_tx) struct tx_link *link = open_tx(accept_from(other), SMALL);
    pthread_t thread = NEW_THREAD(poll_channel, link->channel);
    for (int i = 0; i < POLLED_TURNS; i++) {
        CHECK(send_frame(link), "the link failed");
        sleep_for_notice(&link->page.end, has_returns, &link->page);
        reap(link);
    }
    /* The poller is the one that is to hear of messages, though this thread sleeps beside it. */
    say(other, 1);
    int64_t start = gpud_now();
    while (gpud_now() - start < 200 * GPUD_MSEC)
        gpud_page_sleep(&link->page.end, never, NULL, gpud_now() + 50 * GPUD_MSEC);
    pthread_join(thread, NULL);
    hear(other);
}

static void receive_beside_poller(int other)
{
    AUTO(end_rx) struct rx_link *link = open_rx(connect_from(other), SMALL);
    for (int i = 0; i < POLLED_TURNS; i++)
        take_and_give_back(link);
    hear(other);
    usleep(50000); /* it sleeps by then, and need not */
    send_one(link->channel, &(struct gpud_message){.type = GPUD_MESSAGE_EOS});
    say(other, 1);
}

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
    AUTO(end_tx) struct tx_link *link = open_tx(accept_from(other), SMALL);
    for (int i = 0; i < KICKS; i++) {
        hear(other); /* it polls */
        CHECK(send_frame(link), "the link failed");
        hear(other); /* it has the frame */
        expect_nothing(link->channel);
        gpud_page_poll_begin(&link->page.end);
        CHECK(!gpud_page_has_returns(&link->page), "given back before it was told to");
        say(other, 1);
        expect_kick(link->channel); /* a credit, which is not urgent */
        CHECK(gpud_page_has_returns(&link->page), "a KICK before the words");
        gpud_page_poll_end(&link->page.end);
        reap(link);
    }
    say(other, 2);
}

static void receive_kicks(int other)
{
    uint32_t entry;
    AUTO(end_rx) struct rx_link *link = open_rx(connect_from(other), SMALL);
    for (int i = 0; i < KICKS; i++) {
        expect_nothing(link->channel);
        gpud_page_poll_begin(&link->page.end);
        CHECK(!gpud_page_has_frames(&link->page), "sent before it was told to");
        say(other, 1);
        expect_kick(link->channel);
        CHECK(gpud_page_has_frames(&link->page), "a KICK before the words");
        gpud_page_poll_end(&link->page.end);
        CHECK(take_frame(link, &entry), "the link failed");
        say(other, 2);
        hear(other); /* it polls */
        give_back(link, entry);
    }
    hear(other);
}

static void receive_for_ever(int other)
{
    uint32_t entry;
    struct rx_link *link = open_rx(connect_from(other), SMALL);
    for (;;) {
        CHECK(take_frame(link, &entry), "the link failed");
        say(other, link->sequence);
        give_back(link, entry);
    }
}

static void send_to(struct tx_link *link, int other, unsigned frames)
{
    for (unsigned i = 0; i < frames; i++)
        CHECK(send_frame(link), "the link failed");
    while (hear(other) != link->sequence)
        ;
}

/* A receiver that is stopped costs nothing but credits; it is not dead, and goes on later. */
static void test_stopped(void)
{
    int other;
    pid_t child = run_apart(receive_for_ever, &other);
    AUTO(end_tx) struct tx_link *link = open_tx(accept_from(other), SMALL);
    send_to(link, other, 100);
    for (; link->page.free_count < ENTRIES; usleep(1000)) /* what is given back is under way */
        reap(link);
    kill(child, SIGSTOP);
    int64_t until = gpud_deadline((network.is_tcp ? 5 : 3) * GPUD_SEC);
    while (link->page.free_count > 0 && gpud_now() < until)
        CHECK(send_frame(link), "the link failed");
    for (int i = 0; i < 1000; i++) /* more than the peer has receives */
        gpud_page_notify(&link->page.end);
    while (gpud_now() < until) {
        gpud_page_sleep(&link->page.end, has_returns, &link->page, gpud_now() + 20 * GPUD_MSEC);
        CHECK(!gpud_channel_is_dead(link->channel), "stopped is not dead");
    }
    kill(child, SIGCONT);
    while (hear(other) != link->sequence)
        ;
    send_to(link, other, 100);

    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    until = gpud_deadline(PATIENCE);
    while (send_frame(link))
        CHECK(gpud_now() < until, "frames go to a dead one for ever");
    while (!gpud_channel_is_dead(link->channel)) {
        gpud_page_sleep(&link->page.end, has_returns, &link->page, gpud_now() + 20 * GPUD_MSEC);
        CHECK(gpud_now() < until, "the death is not noticed");
    }
    expect_end(link->channel, GPUD_CLOSED, "");
}

static void send_for_ever(int other)
{
    struct tx_link *link = open_tx(accept_from(other), SMALL);
    while (send_frame(link))
        ;
    FAIL("the link failed first");
}

/* A sender that dies leaves whole frames, and then the end. */
static void test_killed(void)
{
    int other;
    uint32_t entry;
    pid_t child = run_apart(send_for_ever, &other);
    AUTO(end_rx) struct rx_link *link = open_rx(connect_from(other), SMALL);
    for (int i = 0; i < 100; i++)
        take_and_give_back(link);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    while (take_frame(link, &entry))
        give_back(link, entry);
    expect_end(link->channel, GPUD_CLOSED, "");
    gpud_page_notify(&link->page.end); /* without a peer */
    gpud_page_rouse(&link->page.end);
}

#define EPOCHS 20
#define HELD 3

/* A new epoch while the other side still holds frames of the one before. */
static void send_epochs(int other)
{
    struct tx_link links[2] = {{.channel = NULL}, {.channel = NULL}};
    struct gpud_channel *channel = accept_from(other);
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        struct tx_link *link = &links[epoch % 2], *before = &links[(epoch + 1) % 2];
        begin_tx(link, channel, SMALL * (unsigned)(1 + epoch % 3), epoch ? before : NULL);
        for (int i = 0; i < HELD; i++)
            CHECK(send_frame(link), "the link failed");
        if (epoch > 0) { /* which goes nowhere any more */
            gpud_page_count_message(&before->page);
            end_tx_epoch(before);
        }
    }
    hear(other);
    end_tx_link(&links[(EPOCHS + 1) % 2]);
}

static void receive_epochs(int other)
{
    struct rx_link links[2] = {{.channel = NULL}, {.channel = NULL}};
    uint32_t entries[2][HELD];
    struct gpud_channel *channel = connect_from(other);
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
    end_rx_link(&links[(EPOCHS + 1) % 2]);
}

#define LIVES 20

/* What this process has open; and, if no other one uses it, what the kernel has of the card for
 * all: queue pairs, registrations, ids. TCP has a thread while there are connections. */
static void look(bool of_card, char left[512])
{
    unsigned pages = 0;
    char line[512], card[256] = "";
    FILE *file = fopen("/proc/self/maps", "re");
    while (file && fgets(line, sizeof(line), file))
        pages += strstr(line, "/dev/zero") != NULL;
    if (file)
        fclose(file);
    of_card &= !network.is_tcp;
    if (network.is_tcp)
        await_single_thread();
    file = of_card ? popen("rdma resource show", "re") : NULL;
    CHECK(!of_card || (file && fgets(card, sizeof(card), file) && strstr(card, "mr ")),
          "rdma resource show says \"%s\"", card);
    if (file)
        pclose(file);
    snprintf(left, 512, "%u descriptors, %u threads, %u pages; %s", count_fds(),
             count_entries("/proc/self/task"), pages, card);
}

/* After the first life: what is left of it; after the others: no more than that. */
static void check_left(int life, bool of_card, char first[512])
{
    char now[512];
    int64_t deadline = gpud_deadline(PATIENCE / 4);
    if (!COUNTS_LEFT)
        return;
    look(of_card, life == 0 ? first : now);
    while (life > 0 && strcmp(first, now) != 0) {
        CHECK(gpud_now() < deadline && usleep(20000) == 0, "%s → %s", first, now);
        look(of_card, now);
    }
}

/* Each turn ends in another way: by a goodbye, a disconnect, a release in between, a refusal, or
 * without being accepted. */
static void send_lives(int other)
{
    char left[512];
    for (int life = 0; life < LIVES; life++) {
        struct tx_link link = {.channel = NULL};
        struct gpud_channel *channel;
        struct gpud_peer peer;
        begin_tx(&link, accept_from(other), SMALL, NULL);
        for (int i = 0; i < ENTRIES; i++)
            CHECK(send_frame(&link), "the link failed");
        if (life % 3 == 0)
            gpud_channel_hang_up(link.channel);
        end_tx_link(&link);
        struct gpud_listener *listener = listen_on(address_of("/other"), NULL);
        say(other, 1);
        while (gpud_fd_wait(other, gpud_now() + 5 * GPUD_MSEC, NULL) != GPUD_OK)
            CHECK(gpud_listener_accept(listener, &channel, &peer, NULL) == GPUD_AGAIN, "let in");
        hear(other);
        say(other, 2); /* no peer is admitted from now on */
        hear(other);
        gpud_listener_close(&listener);
        check_left(life, true, left);
        say(other, 2);
    }
}

static void receive_lives(int other)
{
    char left[512];
    for (int life = 0; life < LIVES; life++) {
        struct rx_link link = {.channel = NULL};
        uint32_t entry;
        begin_rx(&link, connect_from(other), SMALL);
        while (life % 3 == 1 && link.sequence < ENTRIES && take_frame(&link, &entry))
            ;
        end_rx_link(&link);
        hear(other);
        expect_lost(address_of("/none"), "no channel");
        say(other, 1);
        hear(other);
        struct gpud_channel *waiting = begin_to_connect(address_of("/other"), NULL);
        for (int i = 0; i < 5; i++) {
            struct gpud_message message;
            CHECK(gpud_channel_receive(waiting, &message, NULL) == GPUD_AGAIN, "let in");
            usleep(2000);
        }
        gpud_channel_unref(&waiting);
        say(other, 2);
        hear(other);
        check_left(life, false, left);
    }
}

static void lie_to_sender(struct gpud_remote *remote, const struct gpud_accept *honest)
{
    const struct gpud_remote_ops *ops = remote->ops;
    struct gpud_handle pages[] = {honest->page, honest->page, honest->page, honest->page};
    pages[0].type = GPUD_HANDLE_MEMFD;
    pages[1].size += 4096;
    pages[2].word[0] = UINT64_MAX - 100;
    pages[3].word[1] = UINT64_C(1) << 32;
    for (int i = 0; i < (network.is_tcp ? 3 : 4); i++) /* the fourth lies about a card's key */
        EXPECT(GPUD_PEER, "ring page", ops->attach(remote, &pages[i], &e));

    const struct gpud_handle metas[] = {
        {.type = GPUD_HANDLE_MEMFD, .fd = -1, .size = 4096},
        {.type = GPUD_HANDLE_NETWORK, .fd = -1, .size = 4095},
        {.type = GPUD_HANDLE_NETWORK, .fd = -1, .size = 4096, .word = {UINT64_MAX - 100, 1}},
        {.type = GPUD_HANDLE_NETWORK, .fd = -1, .size = 4096, .word = {0, UINT64_C(1) << 32}},
    };
    for (size_t i = 0; i < (network.is_tcp ? 2 : sizeof(metas) / sizeof(metas[0])); i++) {
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
        struct gpud_ring_description ring = honest->ring;
        ring.slot_size = rings[i].slot_size;
        ring.slots_per_memory = rings[i].slots;
        ring.memories = rings[i].memories;
        EXPECT(GPUD_PEER, "ring", ops->attach_ring(remote, &ring, ENTRIES, 4096, &e));
    }
    for (int i = 0; i < (network.is_tcp ? 2 : 3); i++) {
        struct gpud_ring_description ring = honest->ring;
        if (i == 0)
            ring.handle[1].type = GPUD_HANDLE_NONE;
        else if (i == 1)
            ring.handle[1].size = 4096;
        else
            ring.handle[1].word[0] = UINT64_MAX - 4096;
        EXPECT(GPUD_PEER, "cannot write", ops->attach_ring(remote, &ring, ENTRIES, 4096, &e));
    }
}

static void send_to_liar(int other)
{
    AUTO(close_frames) struct frames_of frames;
    AUTO(gpud_channel_unref) struct gpud_channel *channel = accept_from(other);
    const struct gpud_remote_ops *ops = channel->ops->remote;
    struct gpud_message message = {.type = GPUD_MESSAGE_OFFER};
    struct gpud_remote *remote;
    struct gpud_network card;
    struct gpud_page_tx page;
    open_frames(&frames, SMALL);
    struct gpud_memory **memories = frames.ring.memory;
    ops->describe(channel, frames.device, &card);
    CHECK(strncmp(card.card, network.is_tcp ? "tcp" : "rxe", 3) == 0 &&
              card.ways == (network.is_tcp ? GPUD_NETWORK_TCP : GPUD_NETWORK_HOST) &&
              !card.no_dmabuf[0],
          "card \"%s\", ways %x", card.card, card.ways);
    WORKS(ops->create(channel, &remote, &message.offer.page, &e));
    send_one(channel, &message);
    receive_one(channel, &message, GPUD_MESSAGE_ACCEPT);
    lie_to_sender(remote, &message.accept);
    EXPECT(GPUD_INVALID, "entry", ops->write(remote, 0, 0, memories[0], 0, SMALL, &e));

    /* A key, or a link, that was never given: the connection ends, and nothing else does. */
    message.accept.page.word[network.is_tcp ? 0 : 1] ^= 0x5a5a;
    WORKS(ops->attach(remote, &message.accept.page, &e));
    WORKS(ops->attach_ring(remote, &message.accept.ring, ENTRIES, SMALL, &e));
    WORKS(ops->add_source(remote, memories[0], &e));
    EXPECT(GPUD_INVALID, "entry", ops->write(remote, ENTRIES, 0, memories[0], 0, SMALL, &e));
    if (!network.is_tcp) /* which sends from any memory of the host */
        EXPECT(GPUD_INVALID, "entry", ops->write(remote, 0, 0, memories[1], 0, SMALL, &e));
    EXPECT(GPUD_INVALID, "entry", ops->write(remote, 0, 0, memories[0], 0, SMALL + 1, &e));
    EXPECT(GPUD_INVALID, "", ops->write(remote, 0, 0, memories[0], SMALL + 1, SMALL, &e));
    WORKS(gpud_page_tx_init(&page, remote->page, remote, ENTRIES, ENTRIES, &e));
    gpud_page_notify(&page.end);
    PEER_UNTIL("a wrong key ends the connection", 60000, gpud_channel_is_dead(channel));
    expect_end(channel, GPUD_CLOSED, network.is_tcp ? "the connection" : "key or range is wrong");
    ops->destroy(remote);
}

static void receive_as_liar(int other)
{
    struct gpud_message message;
    struct gpud_handle page;
    struct gpud_remote *remote;
    AUTO(close_frames) struct frames_of frames;
    struct gpud_page_rx view;
    AUTO(gpud_channel_unref) struct gpud_channel *channel = connect_from(other);
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
    expect_end(channel, network.is_tcp ? GPUD_PEER : GPUD_CLOSED,
               network.is_tcp ? "a link that there never was" : "");
    ops->destroy(remote);
}

/* exit() without closing the link: every frame that was published arrives, and so does what was
 * said after them. */
static void send_and_exit(int other)
{
    struct tx_link *link = open_tx(accept_from(other), frame_size);
    for (int i = 0; i < ENTRIES; i++)
        CHECK(send_frame(link), "the link failed");
    send_one(link->channel, &(struct gpud_message){.type = GPUD_MESSAGE_EOS});
    exit(0);
}

static void receive_from_exit(int other)
{
    struct gpud_message message;
    AUTO(end_rx) struct rx_link *link = open_rx(connect_from(other), frame_size);
    for (int i = 0; i < ENTRIES; i++)
        take_and_give_back(link);
    receive_one(link->channel, &message, GPUD_MESSAGE_EOS);
    expect_end(link->channel, GPUD_CLOSED, "closed the connection");
}

static void test_exit(void)
{
    frame_size = 4 << 20; /* takes longer than the rest of the process's life */
    run_both(send_and_exit, receive_from_exit);
}

const struct network_case tcp_link_cases[] = {
    {"exit", test_exit},
    {NULL},
};

const struct network_case link_cases[] = {
    {"frames", .sender = send_frames, .receiver = receive_frames},
    {"large-frames", test_large_frames},
    {"sleep", .sender = send_in_turn, .receiver = receive_in_turn},
    {"pollers", .sender = send_beside_poller, .receiver = receive_beside_poller},
    {"kicks", .sender = send_kicks, .receiver = receive_kicks},
    {"stopped", test_stopped},
    {"killed", test_killed},
    {"epochs", .sender = send_epochs, .receiver = receive_epochs},
    {"lies", .sender = send_to_liar, .receiver = receive_as_liar},
    {"leaks", .sender = send_lives, .receiver = receive_lives},
    {NULL},
};
