/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The ring grows for each receiver that joins, and those that stream must be told, with descriptors
 * for which the system may have no room at the moment. The one that joins waits for that, or is
 * refused; streaming receivers lose nothing. Linked with --wrap=sendmsg. */
#include "actor.h"
#include "base/base.h"
#include "support/count.h"

#include <sys/socket.h>

static struct background background;

/* How many more GROW and OFFER messages fail. */
static atomic_int growths_in_vain, offers_in_vain;

/* The connections of this process's receivers have no room for a GROW or SHRINK. */
static atomic_bool own_are_full;

static bool is_own(int fd)
{
    struct ucred peer;
    socklen_t size = sizeof(peer);
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.pid == getpid();
}

typeof(sendmsg) __real_sendmsg, __wrap_sendmsg;

ssize_t __wrap_sendmsg(int fd, const struct msghdr *header, int flags)
{
    const uint8_t *bytes = header->msg_iov[0].iov_base;
    atomic_int *in_vain = bytes[6] == GPUD_MESSAGE_GROW    ? &growths_in_vain
                          : bytes[6] == GPUD_MESSAGE_OFFER ? &offers_in_vain
                                                           : NULL;
    if (in_vain && atomic_load(in_vain) > 0) {
        atomic_fetch_sub(in_vain, 1);
        errno = ETOOMANYREFS;
        return -1;
    }
    bool resizes = bytes[6] == GPUD_MESSAGE_GROW || bytes[6] == GPUD_MESSAGE_SHRINK;
    if (resizes && atomic_load(&own_are_full) && is_own(fd)) {
        errno = EAGAIN;
        return -1;
    }
    return __real_sendmsg(fd, header, flags);
}

static uint64_t disconnects(void)
{
    return INFO(sender, background.sender).disconnects;
}

static void told_later(void)
{
    struct raw raw[3];
    uint64_t before = disconnects();
    atomic_store(&growths_in_vain, 5);
    raw_open(&raw[0], BACKGROUND_ADDRESS, RAW_STREAMING);
    CHECK_EQUAL(atomic_load(&growths_in_vain), 0);
    CHECK(raw_log_says("has to wait", 0), "it is not logged that the new receiver waits");
    /* Of two that must be told one is. */
    atomic_store(&growths_in_vain, 1);
    raw_open(&raw[1], BACKGROUND_ADDRESS, RAW_STREAMING);
    atomic_store(&offers_in_vain, 3);
    raw_open(&raw[2], BACKGROUND_ADDRESS, RAW_STREAMING);
    CHECK_EQUAL(atomic_load(&offers_in_vain), 0);
    CHECK_EQUAL(disconnects(), before);
    for (int i = 0; i < 3; i++)
        raw_close(&raw[i]);
}

static void refused_in_the_end(void)
{
    struct raw raw;
    struct gpud_message message;
    uint64_t before = disconnects();
    atomic_store(&offers_in_vain, 1000000);
    raw_open(&raw, BACKGROUND_ADDRESS, RAW_HELLO_GOT);
    CHECK(raw_receive(raw.fd, &message, 20 * GPUD_SEC), "the new receiver hears nothing");
    CHECK(message.type == GPUD_MESSAGE_REFUSE && message.refuse.status == GPUD_AGAIN,
          "it hears a %s", gpud_message_name(message.type));
    CHECK(strstr(message.refuse.reason, strerror(ETOOMANYREFS)), "the reason is: %s",
          message.refuse.reason);
    raw_close(&raw);
    atomic_store(&offers_in_vain, 0);
    CHECK_EQUAL(disconnects(), before);
}

/* All receivers are offered a new ring, and continue to stream. */
static void a_new_epoch(void)
{
    uint64_t before = disconnects();
    atomic_store(&offers_in_vain, 5);
    background_configure(&background);
    background_flows(&background, 20);
    CHECK_EQUAL(atomic_load(&offers_in_vain), 0);
    CHECK_EQUAL(disconnects(), before);
}

/* A receiver answers the previous offer, while the new epoch's has to wait. */
static void an_answer_that_is_overtaken(void)
{
    struct raw raw;
    raw_open(&raw, BACKGROUND_ADDRESS, RAW_CANARY_GOT);
    atomic_store(&offers_in_vain, 8);
    background_configure(&background);
    raw_to(&raw, RAW_CANARY_GOT, RAW_READY_SENT);
    raw_to(&raw, RAW_HELLO_GOT, RAW_OFFERED);
    CHECK_EQUAL(atomic_load(&offers_in_vain), 0);
    gpud_fd_close(&raw.page_fd);
    gpud_memory_unmap_pages(raw.page, sizeof(*raw.page));
    raw_to(&raw, RAW_OFFERED, RAW_STREAMING);
    raw_close(&raw);
}

/* The next of this kind. */
static struct gpud_message hear_of(struct raw *raw, enum gpud_message_type type)
{
    struct gpud_message message;
    do {
        CHECK(raw_receive(raw->fd, &message, 20 * GPUD_SEC), "no %s comes",
              gpud_message_name(type));
        gpud_message_close(&message);
    } while (message.type != type);
    return message;
}

/* The ring shrinks when receivers leave, while others continue; and it grows again. */
static void shrinks(void)
{
    enum { GUESTS = 10 };
    struct raw stays, raw[GUESTS];
    background_configure(&background); /* a new ring, of which `stays` keeps its share */
    background_goes_on(&background);
    raw_open(&stays, BACKGROUND_ADDRESS, RAW_READY_SENT);
    unsigned before = count_fds();
    background_flows(&background, 20);
    for (int turn = 0; turn < 2; turn++) {
        for (int i = 0; i < GUESTS; i++)
            raw_open(&raw[i], BACKGROUND_ADDRESS, RAW_STREAMING);
        for (int i = 0; i < GUESTS; i++)
            raw_close(&raw[i]);
        CHECK(count_fds() > before, "nothing grew");
        /* Every link that maps the ring is told the number of remaining memories. */
        while (hear_of(&stays, GPUD_MESSAGE_SHRINK).shrink >
               3) /* a share each for the sender and two receivers */
            ;
        PEER_UNTIL("the descriptors", 30000, count_fds() <= before);
        background_flows(&background, 20);
    }
    raw_close(&stays);
}

/* --- a neighbour that reads nothing ----------------------------------------------------------- */

struct deaf {
    struct raw raw;
    pthread_t thread;
    atomic_bool stop;
};

/* Falls asleep anew for each frame, to be woken over the connection. */
static void *fall_asleep(void *arg)
{
    struct deaf *deaf = arg;
    uint32_t sleeps = 0;
    while (!atomic_load(&deaf->stop)) {
        sleeps += GPUD_SLEEP_MODES + 1;
        atomic_store(&deaf->raw.page->receiver.asleep, sleeps | GPUD_SLEEP_POLL);
        usleep(200);
    }
    return NULL;
}

/* Returns how many KICKs it has not read. */
static unsigned deaf_stop(struct deaf *deaf)
{
    struct gpud_message message;
    unsigned kicks = 0;
    atomic_store(&deaf->stop, true);
    pthread_join(deaf->thread, NULL);
    while (raw_receive(deaf->raw.fd, &message, 0)) {
        kicks += message.type == GPUD_MESSAGE_KICK;
        gpud_message_close(&message);
    }
    raw_close(&deaf->raw);
    return kicks;
}

/* It asks to be woken for more frames than its connection has room for KICKs, while the ring grows
 * and shrinks for others. */
static void a_deaf_neighbour(void)
{
    enum { FRAMES = 1500, KICKS_MAX = 16, GUESTS = 10 };
    struct deaf deaf;
    struct raw guests[GUESTS];
    uint64_t before = disconnects();
    background_configure(&background); /* a new ring */
    background_goes_on(&background);
    unsigned fds = count_fds();
    struct gpud_message hello;
    atomic_init(&deaf.stop, false);
    raw_connect(&deaf.raw, BACKGROUND_ADDRESS);
    raw_hello(&hello);
    hello.hello.slow_receiver = GPUD_SLOW_DROP_OLDEST; /* each frame is published */
    CHECK(raw_send_message(deaf.raw.fd, &hello), "HELLO is not sent");
    raw_to(&deaf.raw, RAW_HELLO_SENT, RAW_STREAMING);
    CHECK(pthread_create(&deaf.thread, NULL, fall_asleep, &deaf) == 0, "no thread");
    unsigned long long at = atomic_load(&background.number);
    PEER_UNTIL("frames", 60000, atomic_load(&background.number) > at + FRAMES);
    for (int i = 0; i < GUESTS; i++)
        raw_open(&guests[i], BACKGROUND_ADDRESS, RAW_STREAMING);
    CHECK_EQUAL(disconnects(), before);
    for (int i = 0; i < GUESTS; i++)
        raw_close(&guests[i]);
    struct gpud_sender_info info = GPUD_INFO_INIT(info);
    PEER_UNTIL("the ring shrinks", 60000,
               (gpud_sender_get_info(background.sender, &info), count_fds() <= fds + 8));
    CHECK_EQUAL(info.receivers, 2);
    unsigned kicks = deaf_stop(&deaf);
    CHECK(kicks > 0 && kicks <= KICKS_MAX, "%u KICKs were sent to a receiver that reads none",
          kicks);
}

/* One that cannot be told of a larger ring ends, so that a new one can stream. */
static void a_full_connection(void)
{
    struct raw deaf, newcomer;
    uint64_t before = disconnects();
    background_configure(&background); /* a new ring */
    background_goes_on(&background);
    raw_open(&deaf, BACKGROUND_ADDRESS, RAW_STREAMING);
    atomic_store(&own_are_full, true);
    raw_open(&newcomer, BACKGROUND_ADDRESS, RAW_STREAMING);
    CHECK(raw_log_says("scripted, process", 0) && raw_log_says("reads none of its messages", 0),
          "the log does not name the culprit");
    CHECK_EQUAL(disconnects(), before + 1);
    CHECK(raw_wait_hangup(deaf.fd, 10 * GPUD_SEC), "it stays connected");
    atomic_store(&own_are_full, false);
    raw_close(&deaf);
    raw_close(&newcomer);
}

/* --- slots that a receiver asks for ---------------------------------------------------------- */

static void ask(struct raw *raw, uint32_t slots)
{
    struct gpud_message message = {.type = GPUD_MESSAGE_SLOTS, .slots = slots};
    CHECK(raw_send_message(raw->fd, &message), "SLOTS cannot be sent");
}

/* Nothing is dropped for a receiver that holds the frames it may hold, also in the next format. */
static void asked_for(void)
{
    enum { WISH = 40 };
    struct gpud_frame *held[WISH];
    struct gpud_context *context = NEW_CONTEXT();
    struct gpud_receiver *receiver = NEW_RECEIVER(context, .address = BACKGROUND_ADDRESS);
    struct gpud_frame *frame = ACQUIRE_FRAME(receiver, 20 * GPUD_SEC);
    uint32_t before = INFO(receiver, receiver).slots;
    CHECK(before < WISH, "%u slots at first", before);
    CHECK_EQUAL(INFO(receiver, receiver).slots_max, GPUD_SLOTS_MAX);
    gpud_receiver_set_slots(receiver, WISH);
    for (int turn = 0; turn < 2; turn++) {
        while (INFO(receiver, receiver).slots < WISH) { /* the streaming thread hears of them */
            gpud_frame_release(&frame);
            frame = ACQUIRE_FRAME(receiver, 20 * GPUD_SEC);
        }
        gpud_frame_release(&frame);
        CHECK_EQUAL(INFO(receiver, receiver).slots, WISH);
        for (int i = 0; i < WISH; i++)
            held[i] = ACQUIRE_FRAME(receiver, 20 * GPUD_SEC);
        for (int i = 0; i < WISH; i++)
            gpud_frame_release(&held[i]);
        frame = ACQUIRE_FRAME(receiver, 20 * GPUD_SEC);
        if (turn == 0)
            background_configure(&background);
        for (uint32_t epoch = INFO(frame, frame).epoch; turn == 0;) {
            gpud_frame_release(&frame);
            frame = ACQUIRE_FRAME(receiver, 20 * GPUD_SEC);
            if (INFO(frame, frame).epoch != epoch)
                break;
        }
    }
    gpud_frame_release(&frame);
    gpud_receiver_destroy(&receiver);
    gpud_context_destroy(&context);
}

/* However much receivers ask for, there is room for all the others, and a wish is heard once. */
static void asked_for_too_much(void)
{
    enum { GREEDY = 8 };
    struct raw greedy[GREEDY], late;
    uint64_t before = disconnects();
    uint32_t all = 0;
    for (int i = 0; i < GREEDY; i++) {
        raw_open(&greedy[i], BACKGROUND_ADDRESS, RAW_READY_SENT);
        for (int k = 0; k < 100; k++)
            ask(&greedy[i], GPUD_SLOTS_MAX - k % 2);
        if (all + GPUD_SLOTS_MAX < 31 * 4) /* the memories that are to spare, of four slots each */
            all += hear_of(&greedy[i], GPUD_MESSAGE_SLOTS).slots - 4;
    }
    CHECK(all >= GPUD_SLOTS_MAX - 4, "%u slots", all);
    raw_open(&late, BACKGROUND_ADDRESS, RAW_STREAMING);
    CHECK_EQUAL(disconnects(), before);
    raw_close(&late);
    for (int i = 0; i < GREEDY; i++)
        raw_close(&greedy[i]);
}

int main(int argc, char **argv)
{
    static const struct background_test tests[] = {
        {"a receiver joins, and those that stream are told later", told_later},
        {"a receiver that cannot be offered anything is refused", refused_in_the_end},
        {"a new epoch is offered later", a_new_epoch},
        {"an answer to the offer before that", an_answer_that_is_overtaken},
        {"what is spare goes back", shrinks},
        {"a neighbour that reads nothing, and is woken for each frame", a_deaf_neighbour},
        {"a neighbour whose connection is full", a_full_connection},
        {"a receiver asks for slots", asked_for},
        {"receivers ask for more slots than there are", asked_for_too_much},
    };
    return background_main(&background, tests, sizeof(tests) / sizeof(tests[0]), argc, argv);
}
