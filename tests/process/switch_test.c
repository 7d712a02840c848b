/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A receiver that changes to another sender while frames flow. Two cameras send a frame each at
 * every tick, and the receiver takes all of a tick before the next one: so the ticks, and no clock,
 * say what is missing and what comes twice.
 * switch_test [devices of the first camera, the second one, the receiver] */
#include "actor.h"

#include <poll.h>
#include <sys/resource.h>

#define PATIENCE (20 * GPUD_SEC)
#define SLOTS 24       /* a device gives slots back late, and without one a frame is lost */
#define STRIDE 1000000 /* between the numbers of the first camera's frames and the second one's */

static const char *devices[3] = {"host", "host", "host"};

static struct camera {
    char address[120];
    struct gpud_context *context;
    struct gpud_sender *sender;
    struct gpud_layout layout;
} cameras[2];

static struct gpud_context *context;
static struct gpud_receiver *receiver;
static uint64_t tick;

/* What the receiver has been told, and its last frame. */
static struct told {
    char order[64]; /* a letter for each event since it was cleared */
    unsigned switches;
    enum gpud_status status;
    char address[120], reason[GPUD_REASON_MAX];
    uint32_t width, epoch;
    uint64_t user; /* what the last user event holds */
    int camera;    /* of the last frame; -1: none yet */
    uint64_t tick, dropped;
    bool discontinuity;
} told;

static void on_event(void *user, enum gpud_event event, const void *data)
{
    static const char letters[] = {[GPUD_EVENT_CONNECTED] = 'c',
                                   [GPUD_EVENT_FORMAT] = 'f',
                                   [GPUD_EVENT_USER] = 'u',
                                   [GPUD_EVENT_SWITCHED] = 's'};
    (void)user;
    size_t length = strlen(told.order);
    if (length < sizeof(told.order) - 1)
        told.order[length] = letters[event];
    if (event == GPUD_EVENT_FORMAT) {
        const struct gpud_format_event *format = data;
        CHECK(format->epoch != told.epoch, "epoch %u begins twice", format->epoch);
        told.epoch = format->epoch;
        told.width = format->media.picture.layout.width;
    } else if (event == GPUD_EVENT_USER) {
        memcpy(&told.user, ((const struct gpud_user_event *)data)->data, sizeof(told.user));
    } else if (event == GPUD_EVENT_SWITCHED) {
        const struct gpud_switch_event *over = data;
        told.switches++;
        told.status = over->status;
        snprintf(told.address, sizeof(told.address), "%s", over->address);
        snprintf(told.reason, sizeof(told.reason), "%s", over->reason);
    }
}

/* --- the cameras ------------------------------------------------------------------------------ */

static const char *name_of(int camera)
{
    static const char *const names[] = {"cam1", "cam2"};
    return names[camera];
}

static void open_camera(int camera, uint32_t width)
{
    struct camera *own = &cameras[camera];
    snprintf(own->address, sizeof(own->address), "%s", peer_address(name_of(camera)));
    own->context = NEW_CONTEXT();
    own->sender = NEW_SENDER(own->context, .address = own->address, .psk_file = peer_key(),
                             .device = devices[camera], .slots = SLOTS,
                             .slow_receiver = GPUD_SLOW_DROP_OLDEST);
    own->layout = CONFIGURE(own->sender, "UYVY", width, 32);
}

static void close_camera(int camera)
{
    gpud_sender_destroy(&cameras[camera].sender);
    gpud_context_destroy(&cameras[camera].context);
}

static void send_tick(void)
{
    tick++;
    for (int i = 0; i < 2; i++)
        if (cameras[i].sender)
            SEND_LENT(cameras[i].sender, &cameras[i].layout, i * STRIDE + tick);
}

/* --- the receiver ----------------------------------------------------------------------------- */

/* Whether a frame is at the receiver when its submit returns. Over a network, or by copies of a
 * device, one link may be some of these short ticks behind the other. */
static bool is_in_step(void)
{
    bool in_step = !getenv("GPUD_TEST_ADDRESS");
    for (int i = 0; i < 3; i++)
        in_step &= strcmp(devices[i], "host") == 0;
    return in_step;
}

/* No frame of a tick before the last one's, none left out, and the camera is the one before unless
 * a switch was told. A link that is behind may drop some, which it tells. */
static struct gpud_frame *note_frame(struct gpud_frame *frame)
{
    struct gpud_frame_info info = INFO(frame, frame);
    int camera = info.offset >= STRIDE;
    uint64_t at = info.offset % STRIDE;
    CHECK_EQUAL(info.epoch, told.epoch);
    bool changed = told.camera >= 0 && told.camera != camera;
    bool early = changed && !is_in_step();
    uint64_t lost = is_in_step() || changed ? 0 : info.dropped - told.dropped;
    FRAME_CHECK(frame, &cameras[camera].layout, info.offset);
    told.discontinuity = info.flags & GPUD_FRAME_DISCONTINUITY;
    if (told.camera >= 0) {
        CHECK(at == told.tick + 1 + lost || (changed && at == told.tick) ||
                  (early && at < told.tick),
              "tick %llu of %s comes after tick %llu of %s", (unsigned long long)at,
              name_of(camera), (unsigned long long)told.tick, name_of(told.camera));
        CHECK_EQUAL(told.discontinuity, changed || lost > 0);
    }
    CHECK(!changed || (strchr(told.order, 's') && told.status == GPUD_OK &&
                       strcmp(told.address, cameras[camera].address) == 0),
          "a frame of %s, and the events are \"%s\"", name_of(camera), told.order);
    told.camera = camera;
    told.tick = at;
    told.dropped = info.dropped;
    return frame;
}

static void take_frame(void)
{
    struct gpud_frame *frame = NULL;
    int64_t until = gpud_test_now() + PATIENCE;
    enum gpud_status status = GPUD_TIMEOUT;
    while (status == GPUD_TIMEOUT && gpud_test_now() < until) {
        struct gpud_error error = {.reason = ""};
        status = gpud_receiver_acquire(receiver, GPUD_SEC / 2, &frame, &error);
        CHECK(status == GPUD_OK || status == GPUD_TIMEOUT, "%s", error.reason);
        /* The last one of all may be one that a link that is behind has dropped. */
        if (status == GPUD_TIMEOUT && !is_in_step())
            send_tick();
    }
    CHECK_EQUAL(status, GPUD_OK);
    note_frame(frame);
    gpud_frame_release(&frame);
}

static void run_tick(void)
{
    send_tick();
    do
        take_frame();
    while (told.tick < tick);
}

static void run_ticks(unsigned ticks)
{
    while (ticks--)
        run_tick();
}

/* A sender's own thread reads that a receiver has left. */
static void await_no_link(unsigned camera)
{
    int64_t until = gpud_test_now() + PATIENCE;
    while (gpud_sender_wait(cameras[camera].sender, 1, 0, NULL) == GPUD_OK) {
        CHECK(gpud_test_now() < until, "the receiver has not left camera %u", camera);
        gpud_test_nap(1);
    }
}

/* Until the switch that is under way is over, so or so. */
static void run_until_told(unsigned switches)
{
    int64_t until = gpud_test_now() + PATIENCE;
    while (told.switches < switches) {
        CHECK(gpud_test_now() < until, "no switch is told");
        run_tick();
    }
    CHECK_EQUAL(told.switches, switches);
}

#define SWITCH(to, ...)                  \
    WORKS(gpud_receiver_switch(receiver, \
                               WITH_SIZE(gpud_switch_params, .address = (to), __VA_ARGS__), &e))

static void open_receiver(void)
{
    context = NEW_CONTEXT();
    told = (struct told){.camera = -1};
    receiver = NEW_RECEIVER(context, .address = cameras[0].address, .psk_file = peer_key(),
                            .device = devices[2], .slots = SLOTS, .on_event = on_event);
}

static void open_all(void)
{
    tick = 0;
    open_camera(0, 64);
    open_camera(1, 64);
    open_receiver();
    PEER_LINK(cameras[0].sender, receiver, 1);
    run_ticks(3);
    CHECK_EQUAL(told.camera, 0);
}

static void close_all(void)
{
    gpud_receiver_destroy(&receiver);
    gpud_context_destroy(&context);
    for (int i = 0; i < 2; i++)
        close_camera(i);
}

static void switch_to(int camera)
{
    unsigned before = told.switches;
    memset(told.order, 0, sizeof(told.order));
    SWITCH(cameras[camera].address, .timeout_ns = PATIENCE);
    run_until_told(before + 1);
    CHECK(told.status == GPUD_OK, "%s", told.reason);
    CHECK_EQUAL(told.camera, camera);
}

/* --- cases ------------------------------------------------------------------------------------ */

static void there_and_back(void)
{
    struct gpud_frame *held[2];
    int fd = GIVEN(int, gpud_receiver_get_fd(receiver, &given, &e));
    struct gpud_receiver_info before = INFO(receiver, receiver);
    CHECK_TEXT(before.address, cameras[0].address);
    for (int i = 0; i < 2; i++) {
        send_tick();
        held[i] = note_frame(ACQUIRE_FRAME(receiver, PATIENCE));
    }
    uint64_t value = 4711;
    WORKS(gpud_sender_send_event(cameras[1].sender, 1 | GPUD_EVENT_STICKY, &value, sizeof(value),
                                 &e));
    switch_to(1);
    CHECK_TEXT(told.order, "sfcu");
    CHECK_EQUAL(told.user, value);
    struct gpud_receiver_info info = INFO(receiver, receiver);
    CHECK_TEXT(info.address, cameras[1].address);
    CHECK_EQUAL(info.switches, 1);
    CHECK_EQUAL(info.connects, before.connects + 1);
    CHECK_EQUAL(info.disconnects, before.disconnects + 1);
    CHECK(info.frames > before.frames && info.connected, "it counts anew");
    CHECK_EQUAL(info.dropped, 0);
    run_ticks(20); /* what is held is not written again */
    for (int i = 0; i < 2; i++) {
        struct gpud_frame_info old = INFO(frame, held[i]);
        CHECK(old.offset < STRIDE, "a held frame has another number");
        FRAME_CHECK(held[i], &cameras[0].layout, old.offset);
        gpud_frame_release(&held[i]);
    }
    await_no_link(0);
    switch_to(0);
    CHECK_TEXT(told.order, "sfc");
    run_ticks(3);
    info = INFO(receiver, receiver);
    CHECK_EQUAL(info.switches, 2);
    int same = GIVEN(int, gpud_receiver_get_fd(receiver, &given, &e));
    CHECK_EQUAL(same, fd);
}

/* No call waits: what there is to do is shown by the descriptor alone. */
static void by_descriptor(void)
{
    struct pollfd loop = {.events = POLLIN};
    WORKS(gpud_receiver_get_fd(receiver, &loop.fd, &e));
    for (int turn = 1; turn <= 6; turn++) {
        SWITCH(cameras[turn % 2].address, .timeout_ns = PATIENCE);
        int64_t until = gpud_test_now() + PATIENCE;
        while (told.switches < (unsigned)turn) {
            struct gpud_frame *frame;
            CHECK(gpud_test_now() < until, "no switch is told");
            send_tick();
            while (told.tick < tick)
                if (gpud_receiver_acquire(receiver, 0, &frame, NULL) == GPUD_OK) {
                    note_frame(frame);
                    gpud_frame_release(&frame);
                } else {
                    CHECK(poll(&loop, 1, (int)(PATIENCE / GPUD_MSEC)) == 1, "no event");
                }
        }
        CHECK_EQUAL(told.camera, turn % 2);
    }
}

/* The old sender goes on, as if nothing had been. */
static void no_sender(void)
{
    SWITCH(peer_address("nowhere"), .timeout_ns = 200 * GPUD_MSEC);
    run_until_told(1);
    CHECK_EQUAL(told.status, GPUD_TIMEOUT);
    CHECK_TEXT(told.address, peer_address("nowhere"));
    CHECK_SAYS(told.reason, "no frame of");
    CHECK_SAYS(told.reason, "nowhere");
    run_ticks(5);
    CHECK_EQUAL(told.camera, 0);
    struct gpud_receiver_info info = INFO(receiver, receiver);
    CHECK_TEXT(info.address, cameras[0].address);
    CHECK_EQUAL(info.switches, 0);
    CHECK_EQUAL(info.disconnects, 0);
    CHECK_EQUAL(info.dropped, 0);
    EXPECT(GPUD_INVALID, "address",
           gpud_receiver_switch(receiver, WITH_SIZE(gpud_switch_params, .address = ""), &e));
    EXPECT(GPUD_INVALID, "timeout",
           gpud_receiver_switch(
               receiver, WITH_SIZE(gpud_switch_params, .address = "a", .timeout_ns = -1), &e));
}

/* Neither sender has a frame: the thread sleeps, until the new one has its first. */
static void no_frames(void)
{
    struct rusage before, after;
    struct gpud_frame *frame;
    int64_t until = gpud_test_now() + PATIENCE;
    SWITCH(cameras[1].address, .timeout_ns = PATIENCE);
    while (gpud_sender_wait(cameras[1].sender, 1, 0, NULL) != GPUD_OK) {
        CHECK(gpud_test_now() < until, "no link to the new sender");
        EXPECT(GPUD_TIMEOUT, "", gpud_receiver_acquire(receiver, GPUD_MSEC, &frame, &e));
    }
    CHECK(getrusage(RUSAGE_THREAD, &before) == 0, "getrusage: %m");
    EXPECT(GPUD_TIMEOUT, "", gpud_receiver_acquire(receiver, GPUD_SEC / 2, &frame, &e));
    CHECK(getrusage(RUSAGE_THREAD, &after) == 0, "getrusage: %m");
    CHECK(after.ru_nvcsw - before.ru_nvcsw < 50, "it woke up %ld times in half a second",
          after.ru_nvcsw - before.ru_nvcsw);
    run_until_told(1);
    CHECK_EQUAL(told.status, GPUD_OK);
    CHECK_EQUAL(told.camera, 1);
}

/* Of several switches the last one counts, and only that one is told. */
static void replaced(void)
{
    SWITCH(peer_address("nowhere"), .timeout_ns = PATIENCE);
    run_ticks(2);
    SWITCH(peer_address("elsewhere"), .timeout_ns = PATIENCE);
    switch_to(1);
    CHECK_EQUAL(told.switches, 1);
    /* To where it is: nothing, and the end of what is under way. */
    SWITCH(cameras[1].address, .timeout_ns = PATIENCE);
    run_ticks(3);
    SWITCH(cameras[0].address, .timeout_ns = PATIENCE);
    SWITCH(cameras[1].address, .timeout_ns = PATIENCE);
    run_ticks(30);
    CHECK_EQUAL(told.camera, 1);
    CHECK_EQUAL(told.switches, 1);
    await_no_link(0);
}

/* Acquires of a receiver whose old sender is gone, until the switch is told. */
static enum gpud_status acquire_until_told(unsigned switches)
{
    struct gpud_frame *frame;
    enum gpud_status status = GPUD_TIMEOUT;
    int64_t until = gpud_test_now() + PATIENCE;
    while (told.switches < switches && status == GPUD_TIMEOUT) {
        CHECK(gpud_test_now() < until, "no switch is told");
        send_tick();
        status = gpud_receiver_acquire(receiver, 5 * GPUD_MSEC, &frame, NULL);
        if (status == GPUD_OK)
            gpud_frame_release(&frame);
    }
    return status;
}

/* The old one dies while the new one is not there yet. */
static void old_one_dies(void)
{
    struct gpud_frame *frame;
    close_camera(1);
    SWITCH(cameras[1].address, .timeout_ns = PATIENCE);
    run_ticks(2);
    close_camera(0);
    EXPECT(GPUD_TIMEOUT, "", gpud_receiver_acquire(receiver, 100 * GPUD_MSEC, &frame, &e));
    open_camera(1, 64);
    CHECK_EQUAL(acquire_until_told(1), GPUD_OK);
    CHECK(told.status == GPUD_OK, "%s", told.reason);
    told.camera = -1;
    run_ticks(3);
    CHECK_EQUAL(told.camera, 1);

    /* And the new one never comes: then the loss is told. */
    SWITCH(peer_address("nowhere"), .timeout_ns = 300 * GPUD_MSEC);
    run_ticks(2);
    close_camera(1);
    CHECK_EQUAL(acquire_until_told(2), GPUD_PEER);
    CHECK_EQUAL(told.status, GPUD_TIMEOUT);
}

/* The end of the old stream is reported only if the switch away from it fails. */
static void old_one_ends(void)
{
    struct gpud_frame *frame;
    close_camera(1);
    SWITCH(cameras[1].address, .timeout_ns = PATIENCE);
    run_ticks(2);
    WORKS(gpud_sender_send_eos(cameras[0].sender, &e));
    close_camera(0);
    EXPECT(GPUD_TIMEOUT, "", gpud_receiver_acquire(receiver, 100 * GPUD_MSEC, &frame, &e));
    open_camera(1, 64);
    CHECK_EQUAL(acquire_until_told(1), GPUD_OK);
    told.camera = -1;
    run_ticks(3);

    SWITCH(peer_address("nowhere"), .timeout_ns = 300 * GPUD_MSEC);
    run_ticks(2);
    WORKS(gpud_sender_send_eos(cameras[1].sender, &e));
    struct gpud_sender *ended = cameras[1].sender;
    cameras[1].sender = NULL; /* it stays open, and sends nothing */
    CHECK_EQUAL(acquire_until_told(2), GPUD_CLOSED);
    CHECK_EQUAL(told.status, GPUD_TIMEOUT);
    cameras[1].sender = ended;
}

/* The new one dies, at each step of its handshake, and a good one follows. */
static void new_one_dies(void)
{
    char address[120];
    snprintf(address, sizeof(address), "cam2");
    if (!is_in_step()) {
        SAY("  skipped: the scripted sender is one of this host's memory");
        return;
    }
    for (int step = RAW_SERVER_ACCEPTED; step < RAW_SERVER_STREAMING; step++) {
        struct raw_server server;
        unsigned before = told.switches;
        close_camera(1);
        raw_listen(&server, address);
        SWITCH(address, .timeout_ns = PATIENCE);
        for (int at = -1; at < step; at++) {
            run_ticks(2); /* the receiver's answer to the step before */
            gpud_test_nap(2);
            run_tick();
            raw_serve(&server, at, (enum raw_server_step)(at + 1));
        }
        raw_hang_up(&server);
        raw_server_close(&server);
        run_ticks(2);
        CHECK_EQUAL(told.switches, before);
        open_camera(1, 64);
        run_until_told(before + 1);
        CHECK(told.status == GPUD_OK, "%s: %s", raw_server_step_names[step], told.reason);
        switch_to(0);
    }
    /* With its first frame: it was there, and is lost as any other sender. */
    struct gpud_frame *frame;
    switch_to(1);
    close_camera(1);
    EXPECT(GPUD_PEER, "", gpud_receiver_acquire(receiver, PATIENCE, &frame, &e));
}

/* At each step of the new one's handshake: an interrupt, then the end of the receiver. */
static void interrupted_and_closed(void)
{
    struct gpud_frame *frame;
    if (!is_in_step())
        return;
    close_camera(1);
    for (int step = RAW_SERVER_ACCEPTED; step < RAW_SERVER_STEPS; step++) {
        struct raw_server server;
        raw_listen(&server, "cam2");
        SWITCH("cam2", .timeout_ns = PATIENCE);
        for (int at = -1; at < step; at++) {
            run_ticks(2);
            gpud_test_nap(2);
            run_tick();
            raw_serve(&server, at, (enum raw_server_step)(at + 1));
        }
        gpud_receiver_interrupt(receiver, true);
        EXPECT(GPUD_AGAIN, "interrupted", gpud_receiver_acquire(receiver, PATIENCE, &frame, &e));
        gpud_receiver_interrupt(receiver, false);
        if (step < RAW_SERVER_STREAMING)
            run_ticks(2);
        gpud_receiver_destroy(&receiver);
        CHECK(raw_wait_hangup(server.fd, PATIENCE), "the new link outlives the receiver");
        raw_server_close(&server);
        gpud_context_destroy(&context);
        PEER_UNTIL("the end of the old link", 20000,
                   gpud_sender_wait(cameras[0].sender, 1, 0, NULL) == GPUD_TIMEOUT);
        open_receiver();
        PEER_LINK(cameras[0].sender, receiver, 1);
        run_ticks(2);
    }
}

static void other_formats(void)
{
    close_camera(1);
    open_camera(1, 128);
    switch_to(1);
    CHECK_EQUAL(told.width, 128);
    switch_to(0);
    CHECK_EQUAL(told.width, 64);

    struct gpud_media sound = {
        .kind = GPUD_MEDIA_AUDIO,
        .audio = {.format = "S16LE", .rate = 48000, .channels = 2, .block = 480}};
    AUTO(gpud_context_destroy) struct gpud_context *other = NEW_CONTEXT();
    AUTO(gpud_sender_destroy)
    struct gpud_sender *sender =
        NEW_SENDER(other, .address = peer_address("sound"), .psk_file = peer_key());
    WORKS(gpud_sender_configure(sender, &sound, &e));
    SWITCH(peer_address("sound"), .timeout_ns = PATIENCE);
    run_until_told(told.switches + 1);
    CHECK_EQUAL(told.status, GPUD_UNSUPPORTED);
    CHECK_SAYS(told.reason, "sends sound, and this receiver gets a picture");
    run_ticks(3);
    CHECK_EQUAL(told.camera, 0);
}

/* From this host's processes to another host, whose key is given with the switch, and kept. */
static void across_a_network(void)
{
    struct gpud_frame *frame;
    if (!peer_key()) {
        SAY("  skipped: no key is set (over-tcp key)");
        return;
    }
    gpud_receiver_destroy(&receiver);
    close_camera(0);
    cameras[0].context = NEW_CONTEXT();
    snprintf(cameras[0].address, sizeof(cameras[0].address), "cam1");
    cameras[0].sender =
        NEW_SENDER(cameras[0].context, .address = "cam1", .slow_receiver = GPUD_SLOW_DROP_OLDEST);
    cameras[0].layout = CONFIGURE(cameras[0].sender, "UYVY", 64, 32);
    told = (struct told){.camera = -1};
    receiver = NEW_RECEIVER(context, .address = "cam1", .access = "all", .on_event = on_event);
    PEER_LINK(cameras[0].sender, receiver, 1);
    run_ticks(3);
    SWITCH(cameras[1].address, .timeout_ns = GPUD_SEC);
    run_until_told(1);
    CHECK(told.status != GPUD_OK, "a sender with a key takes a receiver without one");
    CHECK_SAYS(told.reason, "key");
    SWITCH(cameras[1].address, .timeout_ns = PATIENCE, .psk_file = peer_key());
    run_until_told(2);
    CHECK(told.status == GPUD_OK, "%s", told.reason);
    CHECK_SAYS(INFO(receiver, receiver).encrypted, "TLS");
    switch_to(0);
    CHECK_TEXT(INFO(receiver, receiver).encrypted, "");
    switch_to(1);
    EXPECT(GPUD_INVALID, "psk-file is for addresses of other hosts",
           gpud_receiver_switch(
               receiver, WITH_SIZE(gpud_switch_params, .address = "cam1", .psk_file = peer_key()),
               &e));
    /* It comes back as it was switched: by its key. */
    close_camera(1);
    EXPECT(GPUD_PEER, "", gpud_receiver_acquire(receiver, PATIENCE, &frame, &e));
    open_camera(1, 64);
    PEER_LINK(cameras[1].sender, receiver, 1);
    told.camera = -1;
    run_ticks(3);
}

static enum gpud_status gate;
static uint32_t offered; /* the width of what was to be admitted last */
static enum gpud_status admit(void *user, const struct gpud_media *media, struct gpud_error *error)
{
    (void)user;
    offered = media->picture.layout.width;
    if (gate != GPUD_OK)
        *error = (struct gpud_error){.status = gate, .reason = "not that one, please"};
    return gate;
}

/* The application lets it wait, and the newest frame is kept meanwhile. */
static void admitted(void)
{
    gate = GPUD_AGAIN;
    SWITCH(cameras[1].address, .timeout_ns = PATIENCE, .admit = admit);
    PEER_UNTIL("the new link", 20000,
               (run_tick(), gpud_sender_wait(cameras[1].sender, 1, 0, NULL) == GPUD_OK));
    run_ticks(50);
    CHECK_EQUAL(told.camera, 0);
    CHECK_EQUAL(told.switches, 0);
    gate = GPUD_OK;
    run_until_told(1);
    CHECK_EQUAL(told.camera, 1);
    run_ticks(3);
    gate = GPUD_AGAIN;
    SWITCH(cameras[0].address, .timeout_ns = 300 * GPUD_MSEC, .admit = admit);
    run_until_told(2);
    CHECK_EQUAL(told.status, GPUD_TIMEOUT);
    CHECK_SAYS(told.reason, "waited for others");
    gate = GPUD_UNSUPPORTED;
    SWITCH(cameras[0].address, .timeout_ns = PATIENCE, .admit = admit);
    run_until_told(3);
    CHECK_EQUAL(told.status, GPUD_UNSUPPORTED);
    CHECK_TEXT(told.reason, "not that one, please");
    run_ticks(3);
    CHECK_EQUAL(told.camera, 1);
    /* Its format changes meanwhile: the frame is one of the format that is told. */
    gate = GPUD_AGAIN;
    SWITCH(cameras[0].address, .timeout_ns = PATIENCE, .admit = admit);
    PEER_UNTIL("the new link", 20000,
               (run_tick(), gpud_sender_wait(cameras[0].sender, 1, 0, NULL) == GPUD_OK));
    for (uint32_t width = 256; width >= 64; width /= 2) {
        cameras[0].layout = CONFIGURE(cameras[0].sender, "UYVY", width, 32);
        PEER_UNTIL("the next format", 20000, (run_tick(), offered == width));
    }
    gate = GPUD_OK;
    run_until_told(4);
    CHECK_EQUAL(told.camera, 0);
    CHECK_EQUAL(told.width, 64);
}

/* A sender that speaks and sends no frame is given up. */
static void a_flood_of_events(void)
{
    struct gpud_sender *sender = cameras[1].sender;
    cameras[1].sender = NULL; /* it sends no frames */
    SWITCH(cameras[1].address, .timeout_ns = PATIENCE);
    PEER_UNTIL("the new link", 20000,
               (run_tick(), gpud_sender_wait(sender, 1, 0, NULL) == GPUD_OK));
    int64_t until = gpud_test_now() + PATIENCE;
    while (told.switches == 0) {
        CHECK(gpud_test_now() < until, "no switch is told");
        WORKS(gpud_sender_send_event(sender, 1, "again", 5, &e));
        run_tick();
    }
    CHECK_EQUAL(told.status, GPUD_PEER);
    CHECK_SAYS(told.reason, "1024 events");
    run_ticks(3);
    CHECK_EQUAL(told.camera, 0);
    cameras[1].sender = sender;
}

/* Other threads switch while frames are taken: the last one's wish holds. */
static void *switch_often(void *arg)
{
    for (unsigned i = 0; i < 50; i++) {
        SWITCH(cameras[i % 2].address, .timeout_ns = PATIENCE);
        sched_yield();
    }
    return arg;
}

static void from_threads(void)
{
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        threads[i] = NEW_THREAD(switch_often, NULL);
    run_ticks(100);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    SWITCH(cameras[1].address, .timeout_ns = PATIENCE);
    PEER_UNTIL("the last switch", 20000, (run_tick(), told.camera == 1));
    run_ticks(3);
}

#define TIMES 200
#define WARM_UP 10
static void often(void)
{
    /* The most of several moments: in each an old link may still be there, or a thread of the new
     * one not yet. */
    struct baseline before = {0};
    for (int i = 1; i <= WARM_UP; i++) {
        switch_to(i % 2);
        struct baseline now = baseline_take();
        before.fds = now.fds > before.fds ? now.fds : before.fds;
        before.maps = now.maps > before.maps ? now.maps : before.maps;
        before.threads = now.threads > before.threads ? now.threads : before.threads;
    }
    for (int i = 1; i <= TIMES; i++)
        switch_to(i % 2);
    CHECK_EQUAL(told.camera, 0);
    BASELINE_CHECK(before);
    struct gpud_receiver_info info = INFO(receiver, receiver);
    CHECK_EQUAL(info.switches, TIMES + WARM_UP);
    CHECK(info.dropped == 0 || !is_in_step(), "%llu frames were lost",
          (unsigned long long)info.dropped);
    CHECK_EQUAL(info.corrupted, 0);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *says;
        void (*run)(void);
    } cases[] = {
        {"there and back", there_and_back},
        {"by the descriptor", by_descriptor},
        {"to where nothing is sent", no_sender},
        {"to where no frame is sent yet", no_frames},
        {"replaced by another one", replaced},
        {"the old sender dies meanwhile", old_one_dies},
        {"the old stream ends meanwhile", old_one_ends},
        {"the new sender dies on the way", new_one_dies},
        {"interrupted and closed on the way", interrupted_and_closed},
        {"to another format, and not to another kind", other_formats},
        {"across a network", across_a_network},
        {"admitted by the application", admitted},
        {"events without a frame", a_flood_of_events},
        {"from other threads", from_threads},
        {"two hundred times", often},
    };
    test_begin(230);
    for (int i = 0; i < 3 && i + 1 < argc; i++)
        devices[i] = argv[i + 1];
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        SAY("%s", cases[i].says);
        struct baseline before = baseline_take();
        open_all();
        cases[i].run();
        close_all();
        BASELINE_CHECK(before);
    }
    return runtime_done();
}
