/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Frames that depend on others (GPUD_FRAME_DELTA): a receiver begins with one that does not, what
 * is lost runs to the next one that does not, and both ends ask the sender for it. One thread plays
 * the sender and the receiver, so that nothing depends on time; over any kind of connection. */
#include "actor.h"
#include "support/copies.h"

#define SLOTS 4
#define DEADLINE (20 * GPUD_SEC)

static struct scene {
    struct baseline before;
    struct gpud_context *contexts[2];
    struct gpud_sender *sender;
    struct gpud_receiver *receiver;
    struct gpud_layout layout;
    uint64_t number, last; /* of the last frame that was sent, and taken */
    uint64_t taken;
    bool began; /* a frame was taken */
} scene;

static const struct gpud_media media = {.kind = GPUD_MEDIA_DATA,
                                        .data = {.type = "video/x-h264", .max_size = 1000}};

static void open_scene(enum gpud_slow_receiver policy)
{
    memset(&scene, 0, sizeof(scene));
    scene.before = baseline_take();
    scene.contexts[0] = NEW_CONTEXT();
    scene.contexts[1] = NEW_CONTEXT();
    scene.sender = NEW_SENDER(scene.contexts[0], .address = peer_address("keys"),
                              .psk_file = peer_key(), .slots = SLOTS, .slow_receiver = policy);
    WORKS(gpud_sender_configure(scene.sender, &media, &e));
    WORKS(gpud_media_get_layout(&media, &scene.layout, &e));
}

/* Takes what is there; false: there is no frame. Each is one that can be decoded. */
static bool take(int64_t timeout)
{
    struct gpud_frame *frame;
    struct gpud_error error;
    struct gpud_frame_info info = GPUD_INFO_INIT(info);
    enum gpud_status status = gpud_receiver_acquire(scene.receiver, timeout, &frame, &error);
    CHECK(status == GPUD_OK || status == GPUD_TIMEOUT, "%s", error.reason);
    if (status != GPUD_OK)
        return false;
    gpud_frame_get_info(frame, &info);
    gpud_frame_release(&frame);
    CHECK(info.pts_ns > scene.last, "frame %llu came after frame %llu",
          (unsigned long long)info.pts_ns, (unsigned long long)scene.last);
    CHECK(!(info.flags & GPUD_FRAME_DELTA) || (scene.began && info.pts_ns == scene.last + 1),
          "frame %llu depends on the one before it, and the last one was %llu",
          (unsigned long long)info.pts_ns, (unsigned long long)scene.last);
    scene.last = info.pts_ns;
    scene.taken++;
    scene.began = true;
    return true;
}

static void connect_receiver(void)
{
    int64_t deadline = gpud_deadline(DEADLINE);
    scene.receiver =
        NEW_RECEIVER(scene.contexts[1], .address = peer_address("keys"), .psk_file = peer_key());
    while (INFO(sender, scene.sender).receivers == 0) {
        CHECK(gpud_now() < deadline, "no connection");
        take(10 * GPUD_MSEC);
    }
}

static void close_scene(void)
{
    gpud_receiver_destroy(&scene.receiver);
    gpud_sender_destroy(&scene.sender);
    gpud_context_destroy(&scene.contexts[0]);
    gpud_context_destroy(&scene.contexts[1]);
    BASELINE_CHECK(scene.before);
}

/* Sends frames by their letters: K is a key frame, d depends on the one before it. */
static enum gpud_status try_send(char letter, int64_t timeout)
{
    struct gpud_frame *frame = ACQUIRE_SLOT(scene.sender, DEADLINE);
    struct gpud_frame_info info = GPUD_INFO_INIT(info);
    gpud_frame_get_info(frame, &info);
    info.pts_ns = scene.number + 1;
    info.flags = letter == 'd' ? GPUD_FRAME_DELTA : 0;
    WORKS(gpud_frame_set_info(frame, &info, &e));
    WORKS(gpud_frame_set_size(frame, 100, &e));
    enum gpud_status status = gpud_sender_submit(scene.sender, &frame, timeout, NULL);
    gpud_frame_release(&frame);
    scene.number += status == GPUD_OK;
    return status;
}

static void send_frames(const char *letters)
{
    for (; *letters; letters++)
        CHECK_EQUAL(try_send(*letters, DEADLINE), GPUD_OK);
}

static void take_until(uint64_t number)
{
    int64_t deadline = gpud_deadline(DEADLINE);
    while (scene.last < number) {
        CHECK(gpud_now() < deadline, "frame %llu did not come, the last one was %llu",
              (unsigned long long)number, (unsigned long long)scene.last);
        take(10 * GPUD_MSEC);
    }
}

/* Over a network the sender learns late that there is room again. */
static void send_until_taken(void)
{
    int64_t deadline = gpud_deadline(DEADLINE);
    do {
        CHECK(gpud_now() < deadline, "no frame comes");
        send_frames("K");
        while (take(10 * GPUD_MSEC))
            ;
    } while (scene.last < scene.number);
}

static bool is_asked(struct gpud_key_request *request)
{
    *request = (struct gpud_key_request){.size = sizeof(*request)};
    return gpud_sender_take_key_request(scene.sender, request);
}

/* That the library asked, and once. */
static void check_asked(void)
{
    struct gpud_key_request request;
    CHECK(is_asked(&request) && request.at_once && request.all_headers &&
              request.time_ns == GPUD_TIME_NONE,
          "no key frame was asked for");
    CHECK(!is_asked(&request), "one was asked for twice");
}

static void check_not_asked(void)
{
    struct gpud_key_request request;
    CHECK(!is_asked(&request), "a key frame was asked for");
}

/* Those before its first frame are not the receiver's. */
static void check_lost(uint64_t lost)
{
    struct gpud_link_info link = GPUD_INFO_INIT(link);
    CHECK_EQUAL(gpud_sender_list_links(scene.sender, &link, 1), 1);
    CHECK_EQUAL(link.dropped, lost);
    CHECK_EQUAL(INFO(sender, scene.sender).dropped, lost);
}

static void test_newcomer(void)
{
    open_scene(GPUD_SLOW_BLOCK);
    send_frames("Kdd"); /* without a receiver */
    check_not_asked();
    connect_receiver();
    send_frames("dd");
    check_asked();
    send_frames("d");
    check_not_asked();
    check_lost(0);
    send_frames("Kd");
    take_until(scene.number);
    check_lost(0);
    CHECK_EQUAL(scene.taken, 2);
    CHECK_EQUAL(INFO(receiver, scene.receiver).dropped, 0);
    send_frames("dK");
    take_until(scene.number);
    send_frames("dKK");
    check_not_asked();
    take_until(scene.number);
    CHECK_EQUAL(scene.taken, 7);
    close_scene();
}

/* A receiver that takes nothing. */
static void test_run(enum gpud_slow_receiver policy)
{
    bool here = !getenv("GPUD_TEST_ADDRESS") && !getenv("GPUD_TEST_COPIES"),
         oldest = policy == GPUD_SLOW_DROP_OLDEST;
    open_scene(policy);
    connect_receiver();
    send_frames("Kddd");
    check_not_asked();
    check_lost(0);
    if (oldest && !here) {
        send_frames("d"); /* it waits at the sender, which cannot take back the others */
        check_lost(0);
    }
    send_frames("d");
    check_asked();
    check_lost(oldest && here ? 5 : 1);
    send_frames("d");
    check_not_asked();
    check_lost(oldest && here ? 6 : 2);
    send_frames("Kd");
    if (oldest && here) { /* there is room again */
        check_lost(6);
        take_until(scene.number);
        CHECK_EQUAL(scene.taken, 2);
    } else if (oldest) { /* the key frame waits in place of the one before, which no other needs */
        check_asked();
        check_lost(4);
        take_until(scene.number - 1);
        CHECK_EQUAL(scene.taken, 5);
    } else {
        check_asked(); /* the key frame is lost, too */
        check_lost(4);
        take_until(4);
    }
    send_frames("d");
    send_until_taken();
    struct gpud_link_info link = GPUD_INFO_INIT(link);
    gpud_sender_list_links(scene.sender, &link, 1);
    CHECK_EQUAL(scene.taken + link.dropped, scene.number);
    CHECK_EQUAL(INFO(receiver, scene.receiver).dropped, link.dropped);
    close_scene();
}

static void test_block(void)
{
    open_scene(GPUD_SLOW_BLOCK);
    connect_receiver();
    send_frames("Kddd");
    CHECK_EQUAL(try_send('d', 0), GPUD_TIMEOUT);
    check_not_asked();
    take_until(1);
    send_frames("d");
    take_until(scene.number);
    check_lost(0);
    CHECK_EQUAL(scene.taken, 5);
    close_scene();
}

/* Whatever is sent and taken, in whatever order: each frame can be decoded, and all are accounted
 * for. */
static void test_any_order(enum gpud_slow_receiver policy)
{
    unsigned seed = (unsigned)policy;
    open_scene(policy);
    connect_receiver();
    send_frames("K");
    for (int i = 0; i < 2000; i++) {
        int what = rand_r(&seed) % 16;
        if (what < 10)
            send_frames(what == 0 ? "K" : "d");
        else
            take(0);
    }
    send_until_taken();
    struct gpud_link_info link = GPUD_INFO_INIT(link);
    gpud_sender_list_links(scene.sender, &link, 1);
    SAY("  %llu frames, %llu taken, %llu lost", (unsigned long long)scene.number,
        (unsigned long long)scene.taken, (unsigned long long)link.dropped);
    CHECK_EQUAL(scene.taken + link.dropped, scene.number);
    CHECK(link.dropped > 0, "nothing was lost");
    close_scene();
}

static void request(bool at_once, bool all_headers, uint64_t time)
{
    gpud_receiver_request_key(scene.receiver,
                              &(struct gpud_key_request){.size = sizeof(struct gpud_key_request),
                                                         .at_once = at_once,
                                                         .all_headers = all_headers,
                                                         .time_ns = time});
}

static struct gpud_key_request await_request(void)
{
    int64_t deadline = gpud_deadline(DEADLINE);
    struct gpud_key_request asked;
    while (!is_asked(&asked)) {
        CHECK(gpud_now() < deadline, "the request did not come");
        gpud_test_nap(1);
    }
    return asked;
}

static void test_requests(void)
{
    open_scene(GPUD_SLOW_BLOCK);
    connect_receiver();
    send_frames("K");
    take_until(1);
    check_not_asked();
    request(true, false, GPUD_TIME_NONE);
    struct gpud_key_request asked = await_request();
    CHECK(asked.at_once && !asked.all_headers && asked.time_ns == GPUD_TIME_NONE, "another one");
    check_not_asked();
    request(false, true, UINT64_C(5) << 33);
    asked = await_request();
    CHECK(!asked.at_once && asked.all_headers && asked.time_ns == UINT64_C(5) << 33, "another one");
    check_not_asked();
    close_scene();
}

/* Each sends a frame in turn; the receiver takes all, and switches to the second after some. */
static void test_switch(void)
{
    static const char letters[] = "dKdddddd";
    open_scene(GPUD_SLOW_DROP_OLDEST);
    char address[120];
    snprintf(address, sizeof(address), "%s", peer_address("keys2"));
    struct gpud_sender *first = scene.sender,
                       *second =
                           NEW_SENDER(scene.contexts[0], .address = address, .psk_file = peer_key(),
                                      .slots = SLOTS, .slow_receiver = GPUD_SLOW_DROP_OLDEST);
    WORKS(gpud_sender_configure(second, &media, &e));
    connect_receiver();
    send_frames("K");
    take_until(1);
    WORKS(gpud_receiver_switch(
        scene.receiver, WITH_SIZE(gpud_switch_params, .address = address, .psk_file = peer_key()),
        &e));
    int64_t deadline = gpud_deadline(DEADLINE);
    uint64_t numbers[2] = {scene.number, 1000000}, taken = 0;
    for (unsigned i = 0; taken < 20; i++) {
        CHECK(gpud_now() < deadline, "no frame of the other sender");
        for (int j = 0; j < 2; j++) {
            scene.sender = j ? second : first;
            scene.number = numbers[j];
            try_send(letters[i % strlen(letters)], 0);
            numbers[j] = scene.number;
        }
        while (take(GPUD_MSEC))
            taken += scene.last > 1000000; /* take() says what may follow what */
    }
    CHECK_EQUAL(INFO(receiver, scene.receiver).switches, 1);
    gpud_sender_destroy(&first);
    scene.sender = second;
    close_scene();
}

/* Packets of one time: none of those that the other sender has sent its receiver is passed over. */
static void test_switch_to_packets(void)
{
    struct gpud_media packets = media;
    char address[120];
    open_scene(GPUD_SLOW_DROP_OLDEST);
    snprintf(address, sizeof(address), "%s", peer_address("keys2"));
    struct gpud_sender *first = scene.sender,
                       *second = NEW_SENDER(scene.contexts[0], .address = address,
                                            .psk_file = peer_key(), .slots = SLOTS);
    packets.kind = GPUD_MEDIA_ANCILLARY;
    WORKS(gpud_sender_configure(first, &packets, &e));
    WORKS(gpud_sender_configure(second, &packets, &e));
    connect_receiver();
    send_frames("K");
    take_until(1);
    WORKS(gpud_receiver_switch(
        scene.receiver, WITH_SIZE(gpud_switch_params, .address = address, .psk_file = peer_key()),
        &e));
    int64_t deadline = gpud_deadline(DEADLINE);
    while (INFO(sender, second).receivers == 0) {
        CHECK(gpud_now() < deadline, "no connection");
        CHECK(!take(GPUD_MSEC), "a frame that was not sent");
    }
    scene.sender = second;
    send_frames("KKK");
    for (uint64_t number = 2; number <= 4; number++) {
        take_until(number);
        CHECK_EQUAL(scene.last, number);
    }
    gpud_sender_destroy(&first);
    close_scene();
}

int main(int argc, char **argv)
{
    copies_install_if_asked();
    peer_main(argc, argv);
    test_alarm(100);
    runtime_make();
    SAY("a receiver begins with a key frame");
    test_newcomer();
    SAY("drop-oldest runs to the next key frame");
    test_run(GPUD_SLOW_DROP_OLDEST);
    SAY("so does drop-newest");
    test_run(GPUD_SLOW_DROP_NEWEST);
    SAY("a sender that waits loses nothing");
    test_block();
    SAY("whatever happens, frames can be decoded");
    test_any_order(GPUD_SLOW_DROP_OLDEST);
    test_any_order(GPUD_SLOW_DROP_NEWEST);
    SAY("requests of the receiver");
    test_requests();
    SAY("a switch to another sender begins with a key frame of its");
    test_switch();
    SAY("and with the first packet");
    test_switch_to_packets();
    runtime_done();
    return 0;
}
