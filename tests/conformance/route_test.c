/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* route@WAY: what every way between two devices must do: cases in which frames simply flow, those
 * in which something changes meanwhile, those in which nothing may flow, and media that are no
 * pictures. route@pairs: which way is taken from where to where. */
#include "frame/media/media.h"
#include "support/check.h"
#include "support/copies.h"
#include "support/make.h"
#include "support/media.h"
#include "support/peer.h"
#include "support/picture.h"

#include <pthread.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

struct way {
    const char *name;
    const char *from, *to; /* devices */
    const char *force;     /* the route to ask for, where a better one is possible; or NULL */
    const char *path;      /* the route that must come out */
    bool remote_only;      /* within one process and context another route is better */
    /* Copies of whole frames, each: */
    unsigned lent_cpu, lent_gpu; /* at the sender, of a lent frame */
    /* Of one in the application's own memory, which begins in mid-page: a GPU does not pin it, and
     * the CPU has its part in the copy. */
    unsigned foreign_cpu, foreign_gpu;
    unsigned receiver_cpu, receiver_gpu;
};

static const struct way ways[] = {
    {"map", "host", "host", NULL, "map", false, 0, 0, 1, 0, 0, 0},
    {"directgma", "opencl:0", "opencl:0", NULL, "directgma", true, 0, 1, 0, 1, 0, 0},
    {"migrate", "opencl:0", "opencl:1", NULL, "migrate", false, 0, 0, 0, 1, 0, 0},
    {"staged-up", "host", "opencl:0", NULL, "staged", false, 0, 0, 1, 0, 0, 1},
    {"staged-down", "opencl:0", "host", NULL, "staged", false, 0, 1, 1, 0, 0, 0},
    {"staged-across", "opencl:0", "opencl:0", "staged", "staged", false, 0, 1, 1, 0, 0, 1},
    {"map-cuda", "cuda:0", "cuda:0", NULL, "map", false, 0, 0, 1, 1, 0, 0},
    {"peer", "cuda:0", "cuda:1", NULL, "peer", false, 0, 1, 1, 1, 0, 0},
    {"peer-self", "cuda:0", "cuda:0", "peer", "peer", false, 0, 1, 1, 1, 0, 0},
    {"staged-cuda-up", "host", "cuda:0", NULL, "staged", false, 0, 0, 1, 0, 0, 1},
    {"staged-cuda-down", "cuda:0", "host", NULL, "staged", false, 0, 1, 1, 0, 0, 0},
    {"staged-cuda-across", "cuda:0", "cuda:1", "staged", "staged", false, 0, 1, 1, 0, 0, 1},
    {"staged-cuda-opencl", "cuda:0", "opencl:0", NULL, "staged", false, 0, 1, 1, 0, 0, 1},
    {"map-cuda-opencl", "cuda:0", "opencl:0", NULL, "map", false, 0, 0, 1, 1, 0, 0},
    {"peer-opencl-cuda", "opencl:0", "cuda:0", NULL, "peer", false, 0, 1, 0, 1, 0, 0},
    {"staged-across-cuda-opencl", "cuda:0", "opencl:0", "staged", "staged", false, 0, 1, 1, 0, 0,
     1},
    {"staged-across-opencl-cuda", "opencl:0", "cuda:0", "staged", "staged", false, 0, 1, 1, 0, 0,
     1},
    {"staged-across-hip-opencl", "hip:0", "opencl:0", "staged", "staged", false, 0, 1, 1, 0, 0, 1},
    {"map-hip-opencl", "hip:0", "opencl:0", NULL, "map", false, 0, 0, 1, 1, 0, 0},
    {"peer-opencl-hip", "opencl:0", "hip:0", NULL, "peer", false, 0, 1, 0, 1, 0, 0},
    {"map-hip", "hip:0", "hip:0", NULL, "map", false, 0, 0, 1, 1, 0, 0},
    {"peer-hip", "hip:0", "hip:1", NULL, "peer", false, 0, 1, 1, 1, 0, 0},
    {"peer-self-hip", "hip:0", "hip:0", "peer", "peer", false, 0, 1, 1, 1, 0, 0},
    {"staged-hip-up", "host", "hip:0", NULL, "staged", false, 0, 0, 1, 0, 1, 1},
    {"staged-hip-down", "hip:0", "host", NULL, "staged", false, 0, 1, 1, 0, 0, 0},
    {"push-hip-across", "hip:0", "hip:1", "staged-push", "staged-push", false, 0, 1, 1, 0, 0, 1},
    {"staged-hip-opencl", "hip:0", "opencl:0", NULL, "staged", false, 0, 1, 1, 0, 0, 1},
    {"push-opencl-hip", "opencl:0", "hip:0", "staged-push", "staged-push", false, 0, 1, 1, 0, 0, 1},
    {"staged-hip-cuda", "hip:0", "cuda:0", NULL, "staged", false, 0, 1, 1, 0, 0, 1},
    {"push-cuda-hip", "cuda:0", "hip:0", "staged-push", "staged-push", false, 0, 1, 1, 0, 0, 1},
    {"map-vulkan", "vulkan:0", "vulkan:0", NULL, "map", false, 0, 0, 1, 1, 0, 0},
    {"staged-vulkan-up", "host", "vulkan:0", NULL, "staged", false, 0, 0, 1, 0, 0, 1},
    {"staged-vulkan-down", "vulkan:0", "host", NULL, "staged", false, 0, 1, 1, 0, 0, 0},
    {"map-cuda-vulkan", "cuda:0", "vulkan:0", NULL, "map", false, 0, 0, 1, 1, 0, 0},
    {"map-vulkan-cuda", "vulkan:0", "cuda:0", NULL, "map", false, 0, 0, 1, 1, 0, 0},
    {"peer-vulkan-cuda", "vulkan:0", "cuda:0", "peer", "peer", false, 0, 1, 1, 1, 0, 0},
    {"staged-vulkan-opencl", "vulkan:0", "opencl:0", NULL, "staged", false, 0, 1, 1, 0, 0, 1},
    {"staged-cuda-vulkan", "cuda:0", "vulkan:0", NULL, "staged", false, 0, 1, 1, 0, 0, 1},
    {"map-toy", "toy:0", "toy:0", NULL, "map", false, 0, 0, 1, 0, 0, 0},
    {"staged-toy-up", "host", "toy:0", NULL, "staged", false, 0, 0, 1, 0, 1, 0},
    {"staged-toy-down", "toy:0", "host", NULL, "staged", false, 1, 0, 1, 0, 0, 0},
    {"toy", "toy:0", "host", "toy", "toy", false, 1, 0, 1, 0, 0, 0},
    {"rdma-host", "host", "host", NULL, "rdma-host", false, 0, 0, 1, 0, 0, 0},
    {"rdma-host-cuda-up", "host", "cuda:0", NULL, "rdma-host", false, 0, 0, 1, 0, 0, 1},
    {"rdma-host-cuda-down", "cuda:0", "host", NULL, "rdma-host", false, 0, 1, 1, 0, 0, 0},
    {"rdma-host-cuda-across", "cuda:0", "cuda:1", NULL, "rdma-host", false, 0, 1, 1, 0, 0, 1},
    {"tcp-host", "host", "host", NULL, "tcp-host", false, 0, 0, 1, 0, 0, 0},
    {"tcp-host-cuda-up", "host", "cuda:0", NULL, "tcp-host", false, 0, 0, 1, 0, 0, 1},
    {"tcp-host-cuda-down", "cuda:0", "host", NULL, "tcp-host", false, 0, 1, 1, 0, 0, 0},
    {"tcp-host-cuda-across", "cuda:0", "cuda:1", NULL, "tcp-host", false, 0, 1, 1, 0, 0, 1},
    {"staged-opencl-cuda", "opencl:0", "cuda:0", NULL, "staged", false, 0, 1, 1, 0, 0, 1},
    {"push-cuda-across", "cuda:0", "cuda:1", "staged-push", "staged-push", false, 0, 1, 1, 0, 0, 1},
};

/* --- scenes ----------------------------------------------------------------------------------- */

/* One test's sender, with what it needs. */
struct scene {
    const struct way *way;
    struct baseline before;
    struct gpud_context *context;
    struct gpud_device *host;
    struct gpud_sender *sender;
    struct gpud_layout layout;
    uint64_t number; /* of the last picture */
};

static struct scene scene_open(const struct way *way, enum gpud_slow_receiver policy)
{
    struct scene scene = {.way = way, .before = baseline_take()};
    scene.context = NEW_CONTEXT();
    scene.host = OPEN_DEVICE(scene.context, "host");
    scene.sender =
        NEW_SENDER(scene.context, .address = peer_address("route"), .psk_file = peer_key(),
                   .device = way->from, .route = way->force, .slow_receiver = policy);
    return scene;
}

static void scene_format(struct scene *scene, const char *format, uint32_t width, uint32_t height)
{
    scene->layout = LAYOUT(format, width, height, 0);
    WORKS(gpud_sender_configure(scene->sender, PICTURE_AT(&scene->layout, 25), &e));
}

static void scene_close(struct scene *scene)
{
    gpud_sender_destroy(&scene->sender);
    gpud_device_close(&scene->host);
    gpud_context_destroy(&scene->context);
    BASELINE_CHECK(scene->before);
}

static struct scene scene_make(const struct way *way, const char *format, uint32_t width,
                               uint32_t height)
{
    struct scene scene = scene_open(way, GPUD_SLOW_BLOCK);
    scene_format(&scene, format, width, height);
    return scene;
}

/* A receiver as the way has it, with these orders besides. */
#define SCENE_PEER(scene, ...) scene_peer(scene, (struct peer_orders){__VA_ARGS__})
static struct peer scene_peer(const struct scene *scene, struct peer_orders orders)
{
    struct peer peer;
    gpud_print(orders.address, "%s", peer_address("route"));
    gpud_print(orders.device, "%s", scene->way->to);
    peer_start(&peer, &orders);
    return peer;
}

/* Until so many receivers are connected. */
static void scene_wait(const struct scene *scene, unsigned receivers)
{
    WORKS(gpud_sender_wait(scene->sender, receivers, 30 * GPUD_SEC, &e));
}

static void scene_end(const struct scene *scene)
{
    WORKS(gpud_sender_send_eos(scene->sender, &e));
}

static void wait_for_ends(const struct peer *peer, unsigned ends)
{
    PEER_UNTIL("the end of the stream", 20000, atomic_load(&peer->board->ends) == ends);
}

static void wait_for_frames(const struct peer *peer, uint64_t frames)
{
    PEER_UNTIL("every frame", 20000, atomic_load(&peer->board->frames) == frames);
}

static void wait_for_last(const struct scene *scene, const struct peer *peer)
{
    PEER_UNTIL("the last frame", 20000, atomic_load(&peer->board->last) == scene->number);
}

static const struct peer_note *find_note(const struct peer_board *board, unsigned *from,
                                         enum gpud_event event)
{
    for (; *from < board->notes; ++*from)
        if (board->note[*from].event == event)
            return &board->note[(*from)++];
    return NULL;
}

/* Emulated, where a card sends 40 MB/s and checking a frame takes long, too. */
static bool scene_in_guest(void)
{
    const char *address = getenv("GPUD_TEST_ADDRESS");
    return address && strncmp(address, "rdma:", 5) == 0;
}

/* Between hosts, by whichever kind of connection. */
static bool is_remote(const struct way *way)
{
    return strncmp(way->path, "rdma", 4) == 0 || strncmp(way->path, "tcp", 3) == 0;
}

static void scene_send(struct scene *scene, unsigned frames)
{
    while (frames--)
        SEND_LENT(scene->sender, &scene->layout, ++scene->number);
}

static void scene_rest(struct peer *peer)
{
    atomic_store(&peer->board->paused, true);
    PEER_UNTIL("the receiver rests", 20000, atomic_load(&peer->board->resting));
}

/* A receiver in this process and the scene's context, on a thread that takes frames until the end
 * of the stream. */
struct inside {
    struct gpud_receiver *receiver;
    pthread_t thread;
    uint64_t frames, bytes, wrong, ends;
    struct gpud_receiver_info info; /* at the end */
};
static void *receive_inside(void *arg)
{
    struct inside *inside = arg;
    while (inside->ends == 0) {
        struct gpud_frame *frame;
        struct gpud_error error = {.reason = ""};
        enum gpud_status status =
            gpud_receiver_acquire(inside->receiver, 10 * GPUD_SEC, &frame, &error);
        if (status == GPUD_CLOSED) {
            inside->ends++;
            continue;
        }
        CHECK(status == GPUD_OK, "%s: %s", gpud_status_string(status), error.reason);
        uint32_t plane, row, byte;
        peer_order();
        void *data = MAP_FRAME(frame, GPUD_READ, 10 * GPUD_SEC);
        struct gpud_frame_info info = INFO(frame, frame);
        if (info.bytes < info.layout.size) /* a block */
            info.layout.plane[0].row_bytes = (uint32_t)info.bytes;
        inside->wrong += !picture_check(&info.layout, data, info.offset, &plane, &row, &byte);
        gpud_frame_unmap(frame);
        peer_order();
        gpud_frame_release(&frame);
        inside->frames++;
        inside->bytes += info.bytes;
    }
    inside->info.size = sizeof(inside->info);
    gpud_receiver_get_info(inside->receiver, &inside->info);
    return NULL;
}

static void inside_start(struct scene *scene, struct inside *inside)
{
    *inside = (struct inside){0};
    inside->receiver = NEW_RECEIVER(scene->context, .address = peer_address("route"),
                                    .psk_file = peer_key(), .device = scene->way->to);
    inside->thread = NEW_THREAD(receive_inside, inside);
}

static void inside_finish(struct inside *inside)
{
    pthread_join(inside->thread, NULL);
    gpud_receiver_destroy(&inside->receiver);
}

/* --- frames ----------------------------------------------------------------------------------- */

struct copies {
    uint64_t cpu, gpu;
};

static struct copies copies_of(struct gpud_sender *sender)
{
    struct gpud_sender_info info = INFO(sender, sender);
    return (struct copies){info.copies_cpu, info.copies_gpu};
}

#define COPIES(scene, frames, each_cpu, each_gpu, send)                                          \
    do {                                                                                         \
        struct copies before_ = copies_of((scene)->sender);                                      \
        send;                                                                                    \
        struct copies after_ = copies_of((scene)->sender);                                       \
        CHECK(after_.cpu - before_.cpu == (frames) * (each_cpu) &&                               \
                  after_.gpu - before_.gpu == (frames) * (each_gpu),                             \
              "%u frames: %llu copies by the CPU and %llu by the GPU, %u and %u each are right", \
              (unsigned)(frames), (unsigned long long)(after_.cpu - before_.cpu),                \
              (unsigned long long)(after_.gpu - before_.gpu), each_cpu, each_gpu);               \
    } while (0)

/* A lent frame submitted twice: the same picture under two numbers of the sequence. */
static void send_twice(struct scene *scene)
{
    AUTO(gpud_frame_release) struct gpud_frame *frame = ACQUIRE_SLOT(scene->sender, 10 * GPUD_SEC);
    void *data = MAP_FRAME(frame, GPUD_WRITE, 10 * GPUD_SEC);
    EXPECT(GPUD_INVALID, "still mapped",
           gpud_sender_submit_keep(scene->sender, frame, GPUD_SEC, &e));

    picture_write(&scene->layout, data, ++scene->number);
    gpud_frame_unmap(frame);
    struct gpud_frame_info info = INFO(frame, frame);
    info.offset = scene->number;
    info.meta_size = 5;
    memcpy(info.meta, "metas", 5);
    WORKS(gpud_frame_set_info(frame, &info, &e));
    WORKS(gpud_sender_submit_keep(scene->sender, frame, 10 * GPUD_SEC, &e));
    EXPECT(GPUD_NO_ACCESS, "shared with others",
           gpud_frame_map(frame, GPUD_WRITE, GPUD_SEC, &data, &e));
    WORKS(gpud_sender_submit_keep(scene->sender, frame, 10 * GPUD_SEC, &e));
}

/* In the guest one of the formats below keeps its size, and the others have a sixteenth of their
 * bytes. */
#define FULL_SIZE 5
static void format_scaled(struct scene *scene, unsigned i, const char *format, uint32_t width,
                          uint32_t height)
{
    uint32_t scale = scene_in_guest() && i != FULL_SIZE && width >= 4 ? 4 : 1;
    scene_format(scene, format, width / scale, height / scale);
}

/* Several formats in one stream, each a new epoch in band; every byte of every frame is checked by
 * the receiver. */
static void test_frames(const struct way *way)
{
    static const struct {
        const char *format;
        uint32_t width, height;
    } formats[] = {
        {"UYVY", 1366, 767}, {"NV12", 1366, 767},  {"P010_10LE", 1366, 767}, {"v210", 1366, 767},
        {"BGRx", 1366, 767}, {"UYVY", 1920, 1080}, {"NV12", 1365, 767},      {"v210", 1920, 1080},
        {"BGRx", 1, 1},      {"I420", 641, 361},
    };
    const unsigned count = COUNT(formats);
    AUTO(scene_close) struct scene scene = scene_open(way, GPUD_SLOW_BLOCK);
    AUTO(peer_forget) struct peer peer = SCENE_PEER(&scene, .hold = 2, .leave_after = 1);
    format_scaled(&scene, 0, formats[0].format, formats[0].width, formats[0].height);
    scene_wait(&scene, 1);
    unsigned sent = 0;
    for (unsigned i = 0; i < count; i++) {
        if (i > 0)
            format_scaled(&scene, i, formats[i].format, formats[i].width, formats[i].height);
        scene_wait(&scene, 1); /* the canary's copies are over */
        struct gpud_sender_info info = INFO(sender, scene.sender);
        CHECK(strcmp(info.path, way->path) == 0, "the route is %s because %s", info.path,
              info.fallback_reason);
        COPIES(&scene, 6, way->lent_cpu, way->lent_gpu, scene_send(&scene, 6));
        COPIES(&scene, 2, way->lent_cpu, way->lent_gpu, send_twice(&scene));
        COPIES(&scene, 1, way->foreign_cpu, way->foreign_gpu,
               SEND_FOREIGN(scene.sender, scene.host, &scene.layout, ++scene.number));
        scene_send(&scene, 1);
        sent += 10;
    }
    scene_end(&scene);
    wait_for_ends(&peer, 1);
    PEER_FINISH(&peer);
    const struct peer_board *board = peer.board;
    CHECK_EQUAL(board->frames, sent);
    CHECK_EQUAL(board->gaps, 0);
    CHECK_EQUAL(board->info.dropped, 0);
    CHECK_EQUAL(board->info.frames, sent);
    CHECK_EQUAL(board->info.corrupted, 0);
    CHECK_EQUAL(board->info.copies_cpu, (sent + count) * way->receiver_cpu);
    CHECK(board->info.copies_gpu == (sent + count) * way->receiver_gpu,
          "the receiver's GPU copied %llu times", (unsigned long long)board->info.copies_gpu);
    CHECK(strcmp(board->info.path, "none") != 0 && strcmp(board->info.path, way->path) == 0,
          "the receiver says the route is %s", board->info.path);
    unsigned epochs = 0, at = 0;
    uint32_t last_epoch = 0;
    for (const struct peer_note *note; (note = find_note(board, &at, GPUD_EVENT_FORMAT));
         epochs++) {
        CHECK(note->epoch > last_epoch, "epoch %u after %u", note->epoch, last_epoch);
        CHECK_EQUAL(note->after, epochs * 10);
        CHECK_EQUAL(note->value, 25); /* pictures a second */
        last_epoch = note->epoch;
    }
    CHECK_EQUAL(epochs, count);

    struct gpud_sender_info info = INFO(sender, scene.sender);
    CHECK_EQUAL(info.frames, sent);
    CHECK_EQUAL(info.delivered, sent);
    CHECK_EQUAL(info.dropped, 0);
    CHECK_EQUAL(info.refused, 0);
}

/* --- announcing ------------------------------------------------------------------------------- */

/* An announcement wakes a receiver that sleeps, and does nothing else, whether a frame follows or
 * not. */
static void test_announcements(const struct way *way)
{
    AUTO(scene_close) struct scene scene = scene_open(way, GPUD_SLOW_BLOCK);
    gpud_sender_announce(scene.sender); /* without a receiver or a format */
    AUTO(peer_forget) struct peer peer = SCENE_PEER(&scene, .leave_after = 1);
    scene_format(&scene, "UYVY", 640, 360);
    gpud_sender_announce(scene.sender);
    scene_wait(&scene, 1);
    scene_send(&scene, 3);
    wait_for_frames(&peer, 3);
    uint64_t before = INFO(sender, scene.sender).kicks;
    PEER_UNTIL("the receiver to be asleep, and woken", 20000,
               (gpud_sender_announce(scene.sender), INFO(sender, scene.sender).kicks > before));
    for (int i = 0; i < 100; i++)
        gpud_sender_announce(scene.sender);
    CHECK_EQUAL(atomic_load(&peer.board->frames), 3);
    for (int i = 0; i < 10; i++) {
        gpud_sender_announce(scene.sender);
        scene_send(&scene, 1);
    }
    gpud_sender_announce(scene.sender);
    scene_end(&scene);
    wait_for_ends(&peer, 1);
    PEER_FINISH(&peer);
    CHECK_EQUAL(peer.board->frames, 13);
    CHECK_EQUAL(peer.board->gaps, 0);
}

/* --- refusing what is not the stream's -------------------------------------------------------- */

static void test_wrong_frames(const struct way *way)
{
    AUTO(scene_close) struct scene scene = scene_open(way, GPUD_SLOW_BLOCK);
    struct gpud_frame *frame;
    EXPECT(GPUD_INVALID, "configure", gpud_sender_acquire(scene.sender, GPUD_SEC, &frame, &e));
    scene_format(&scene, "UYVY", 640, 360);
    struct gpud_frame *old = ACQUIRE_SLOT(scene.sender, GPUD_SEC);
    struct gpud_layout other = LAYOUT("YUY2", 640, 360, 0);
    struct gpud_memory *memory = NEW_MEMORY(scene.host, other.size);
    WORKS(gpud_frame_wrap(memory, 0, &other, &frame, &e));
    EXPECT(GPUD_INVALID, "YUY2", gpud_sender_submit(scene.sender, &frame, GPUD_SEC, &e));
    CHECK(!frame, "a refused frame was not consumed");
    gpud_memory_unref(&memory);
    EXPECT(GPUD_INVALID, "negative", gpud_sender_acquire(scene.sender, -1, &frame, &e));

    scene_format(&scene, "UYVY", 320, 180);
    EXPECT(GPUD_INVALID, "640x360", gpud_sender_submit(scene.sender, &old, GPUD_SEC, &e));
    CHECK(!old, "a refused frame was not consumed");
    scene_format(&scene, "UYVY", 640, 360);
    old = ACQUIRE_SLOT(scene.sender, GPUD_SEC);
    gpud_sender_destroy(&scene.sender);
    gpud_frame_release(&old); /* a lent frame outlives its sender */
}

static void send_event(struct scene *scene, uint32_t kind, uint64_t value)
{
    WORKS(gpud_sender_send_event(scene->sender, kind, &value, sizeof(value), &e));
}

/* --- events ----------------------------------------------------------------------------------- */

#define STICKY(n) (GPUD_EVENT_STICKY | (n))

static void test_events(const struct way *way)
{
    AUTO(scene_close) struct scene scene = scene_make(way, "UYVY", 320, 180);
    send_event(&scene, 5, 1); /* without a receiver */
    send_event(&scene, STICKY(1), 100);
    send_event(&scene, STICKY(2), 200);
    send_event(&scene, STICKY(1), 101); /* replaces the first, in its place */
    /* So slow that frames wait in the ring when an event is sent. */
    AUTO(peer_forget) struct peer peer = SCENE_PEER(&scene, .nap = GPUD_MSEC);
    scene_wait(&scene, 1);
    for (int i = 0; i < 40; i++) {
        scene_send(&scene, (unsigned)i % 4);
        send_event(&scene, 7, scene.number);
    }
    scene_end(&scene);
    uint64_t end_at = scene.number;
    /* The stream after the end. */
    scene_send(&scene, 3);
    send_event(&scene, 8, scene.number);
    PEER_UNTIL("the event after the last frame", 10000,
               atomic_load(&peer.board->last) == scene.number);
    AUTO(peer_forget) struct peer late = SCENE_PEER(&scene, .nap = GPUD_MSEC);
    scene_wait(&scene, 2);
    scene_send(&scene, 2);
    scene_end(&scene);
    PEER_UNTIL("the second end", 10000,
               atomic_load(&peer.board->ends) == 2 && atomic_load(&late.board->ends) == 1);
    PEER_FINISH(&peer);
    PEER_FINISH(&late);

    unsigned at = 0, heard = 0, ends = 0;
    const struct peer_note *note;
    const struct peer_board *board = peer.board;
    static const uint64_t sticky[][2] = {{STICKY(1), 101}, {STICKY(2), 200}};
    while ((note = find_note(board, &at, GPUD_EVENT_USER))) {
        if (heard < 2)
            CHECK(note->kind == sticky[heard][0] && note->value == sticky[heard][1] &&
                      note->after == 0,
                  "sticky event %u is kind %x, value %llu, after frame %llu", heard, note->kind,
                  (unsigned long long)note->value, (unsigned long long)note->after);
        else
            CHECK(note->after == note->value,
                  "the event sent after frame %llu came after frame %llu",
                  (unsigned long long)note->value, (unsigned long long)note->after);
        heard++;
    }
    CHECK_EQUAL(heard, 2 + 40 + 1);
    for (at = 0; (note = find_note(board, &at, (enum gpud_event)0)); ends++)
        CHECK_EQUAL(note->after, ends == 0 ? end_at : scene.number);
    CHECK_EQUAL(ends, 2);
    CHECK_EQUAL(board->frames, scene.number);
    CHECK_EQUAL(board->gaps, 0);
    CHECK_EQUAL(board->lost, 0);

    at = heard = 0;
    while ((note = find_note(late.board, &at, GPUD_EVENT_USER))) {
        CHECK(heard < 2 && note->kind == sticky[heard][0] && note->value == sticky[heard][1] &&
                  note->after == 0,
              "the late one hears kind %x, value %llu", note->kind,
              (unsigned long long)note->value);
        heard++;
    }
    CHECK_EQUAL(heard, 2);
    CHECK_EQUAL(late.board->frames, 2);

    for (uint32_t i = 3; i <= 24; i++)
        send_event(&scene, STICKY(i), i);
    EXPECT(GPUD_INVALID, "24 kinds", gpud_sender_send_event(scene.sender, STICKY(25), "x", 1, &e));
    static char large[GPUD_EVENT_SIZE_MAX + 1];
    EXPECT(GPUD_INVALID, "at most",
           gpud_sender_send_event(scene.sender, 1, large, sizeof(large), &e));
    WORKS(gpud_sender_send_event(scene.sender, 1, large, GPUD_EVENT_SIZE_MAX, &e));
    WORKS(gpud_sender_send_event(scene.sender, 1, NULL, 0, &e));
}

/* --- coming and going ------------------------------------------------------------------------- */

static void test_reconnect(const struct way *way)
{
    struct scene scene = scene_make(way, "NV12", 320, 181);
    struct peer peer;
    const struct peer_orders orders = {.hold = 3}; /* held over the change */
    struct gpud_sender_info info = GPUD_INFO_INIT(info);

    /* The receiver goes, another comes. */
    for (int turn = 1; turn <= 3; turn++) {
        peer = scene_peer(&scene, orders);
        scene_wait(&scene, 1);
        scene_send(&scene, 10);
        wait_for_frames(&peer, 10);
        PEER_FINISH(&peer);
        CHECK_EQUAL(peer.board->lost, 0);
        peer_forget(&peer);
        PEER_UNTIL("the sender notices", 20000,
                   (gpud_sender_get_info(scene.sender, &info), info.receivers == 0));
        CHECK_EQUAL(info.connects, turn);
        CHECK_EQUAL(info.disconnects, turn);
        scene_send(&scene, 2); /* without a receiver: done at once */
    }

    /* The sender goes, another comes; the same receiver, which comes first. */
    scene_close(&scene);
    peer = scene_peer(&scene, orders);
    for (unsigned turn = 1; turn <= 3; turn++) {
        scene = scene_open(way, GPUD_SLOW_BLOCK);
        if (turn != 2)
            scene_format(&scene, "UYVY", 320, 181);
        else
            gpud_test_nap(100); /* a sender without a format */
        if (turn == 2)
            scene_format(&scene, "UYVY", 322, 181);
        scene_wait(&scene, 1);
        scene_send(&scene, 10);
        if (turn == 3)
            scene_end(&scene);
        /* What was sent before the goodbye arrives, all of it. */
        scene_close(&scene);
        PEER_UNTIL("every frame and the goodbye", 20000,
                   atomic_load(&peer.board->frames) == 10 * turn &&
                       atomic_load(&peer.board->lost) == turn);
        CHECK(strstr(peer.board->reason, "goodbye"), "the reason is \"%s\"", peer.board->reason);
        CHECK_EQUAL(atomic_load(&peer.board->connected), turn);
        CHECK_EQUAL(atomic_load(&peer.board->ends), turn == 3);
    }
    PEER_FINISH(&peer);
    CHECK_EQUAL(peer.board->gaps, 0);
    CHECK_EQUAL(peer.board->info.connects, 3);
    CHECK_EQUAL(peer.board->info.disconnects, 3);
    CHECK_EQUAL(peer.board->refusals, 0);
    peer_forget(&peer);
}

/* --- several receivers ------------------------------------------------------------------------ */

#define FAN 3
#define RING 4    /* slots, unless a receiver asks for more */
#define MISSED 20 /* frames sent to receivers that rest */

static bool all_have_the_last(const struct scene *scene, const struct peer *peers)
{
    for (int i = 0; i < FAN; i++)
        if (atomic_load(&peers[i].board->last) != scene->number)
            return false;
    return true;
}

/* Each frame was taken, was lost, or waits. */
static void check_accounts(const struct scene *scene, const struct peer *peers)
{
    struct gpud_link_info links[FAN] = {GPUD_INFO_INIT(links[0])};
    CHECK_EQUAL(gpud_sender_list_links(scene->sender, links, FAN), FAN);
    for (int i = 0; i < FAN; i++) {
        const struct gpud_link_info *link = &links[i];
        uint64_t all = link->delivered + link->dropped + link->waiting;
        uint64_t by_cause = link->dropped_newest + link->dropped_oldest + link->dropped_failed +
                            link->dropped_format;
        CHECK_EQUAL(all, scene->number);
        CHECK_EQUAL(link->dropped, by_cause);
        bool found = false;
        for (int k = 0; k < FAN; k++)
            found |= link->delivered == atomic_load(&peers[k].board->frames);
        CHECK(found && link->waiting == 0, "receiver %llu took %llu frames, %llu wait",
              (unsigned long long)link->id, (unsigned long long)link->delivered,
              (unsigned long long)link->waiting);
    }
}

static void test_fan_out(const struct way *way)
{
    static const enum gpud_slow_receiver policies[] = {GPUD_SLOW_DEFAULT, GPUD_SLOW_DROP_NEWEST,
                                                       GPUD_SLOW_DROP_OLDEST};
    const int frames = scene_in_guest() ? 100 : 300;
    AUTO(scene_close) struct scene scene = scene_make(way, "UYVY", 320, 180);
    struct peer peers[FAN];
    for (int i = 0; i < FAN; i++) {
        peers[i] = SCENE_PEER(&scene, .slow_receiver = policies[i], .hold = 1,
                              .nap = i == 0 ? 0 : 12 * GPUD_MSEC);
    }
    scene_wait(&scene, FAN);
    /* The last two do not take anything, the first one takes it all: what does not fit into a ring
     * is lost to them, however fast the devices and the machine are. */
    for (int i = 1; i < FAN; i++)
        scene_rest(&peers[i]);
    scene_send(&scene, MISSED);
    wait_for_last(&scene, &peers[0]);
    for (int i = 1; i < FAN; i++)
        atomic_store(&peers[i].board->paused, false);
    for (int i = 0; i < frames; i++) {
        scene_send(&scene, 1);
        if (i % 2)
            gpud_test_nap(1);
        if (i == frames / 2) /* accounts hold over a change of caps */
            scene_format(&scene, "UYVY", 322, 180);
    }
    /* One more, and another if there was no room for it, until all of them have it: what was lost
     * before it shows as a gap then. */
    for (int64_t until = gpud_test_now() + 30 * GPUD_SEC; !all_have_the_last(&scene, peers);) {
        CHECK(gpud_test_now() < until, "there is never room for a frame to all");
        scene_send(&scene, 1);
        for (int wait = 0; wait < 200 && !all_have_the_last(&scene, peers); wait++)
            gpud_test_nap(1);
    }
    check_accounts(&scene, peers);
    uint64_t received = 0;
    struct gpud_sender_info info = INFO(sender, scene.sender);
    for (int i = 0; i < FAN; i++) {
        PEER_FINISH(&peers[i]);
        const struct peer_board *board = peers[i].board;
        SAY("  policy %d: %llu frames, %llu dropped", i, atomic_load(&board->frames),
            atomic_load(&board->gaps));
        CHECK(board->connected == 1, "receiver %d connected %llu times: %s", i,
              (unsigned long long)board->connected, board->reason);
        /* The last one loses its oldest frames, and those may be the very first. */
        unsigned long long missed = board->gaps + board->first - 1;
        CHECK(board->first == 1 || i == 2, "the first frame is %llu", atomic_load(&board->first));
        CHECK(board->frames + missed == scene.number, "I2: %llu frames and %llu gaps of %llu",
              atomic_load(&board->frames), missed, (unsigned long long)scene.number);
        CHECK_EQUAL(board->reported, missed);
        CHECK_EQUAL(board->info.dropped, missed);
        CHECK(i == 0 ? missed == 0 : missed >= MISSED - RING, "receiver %d missed %llu frames", i,
              missed);
        received += board->frames;
    }
    /* Those that lost frames had asked for it. */
    CHECK_EQUAL(info.dropped, 0);
    CHECK_EQUAL(info.delivered, received);
    for (int i = 0; i < FAN; i++)
        peer_forget(&peers[i]);
}

static void test_late(const struct way *way)
{
    AUTO(scene_close) struct scene scene = scene_make(way, "UYVY", 320, 180);
    struct peer peers[5];
    peers[0] = SCENE_PEER(&scene, 0);
    scene_wait(&scene, 1);
    struct gpud_sender_info info = GPUD_INFO_INIT(info);
    for (int i = 1; i < 4; i++) {
        peers[i] = SCENE_PEER(&scene, 0);
        for (int64_t until = gpud_test_now() + 30 * GPUD_SEC; info.receivers < (unsigned)i + 1;) {
            CHECK(gpud_test_now() < until, "no receiver comes");
            scene_send(&scene, 1); /* as fast as the first one takes them */
            gpud_sender_get_info(scene.sender, &info);
        }
    }
    /* One more that comes after so many frames, and a new format before its first one. */
    peers[4] = SCENE_PEER(&scene, 0);
    scene_wait(&scene, 5);
    scene_format(&scene, "UYVY", 322, 180);
    scene_send(&scene, 50);
    for (int i = 0; i < 5; i++) {
        wait_for_last(&scene, &peers[i]);
        PEER_FINISH(&peers[i]);
        const struct peer_board *board = peers[i].board;
        CHECK_EQUAL(board->gaps, 0);
        CHECK(board->info.dropped == 0,
              "nothing was dropped for receiver %d, which came at frame %llu, and it is told of "
              "%llu drops",
              i, atomic_load(&board->first), (unsigned long long)board->info.dropped);
        peer_forget(&peers[i]);
    }
    gpud_sender_get_info(scene.sender, &info);
    CHECK_EQUAL(info.dropped, 0);
}

/* Each receiver has its share of the ring: one that could hold more of it must not leave the others
 * without. */
static void test_many_slots(const struct way *way)
{
    AUTO(scene_close) struct scene scene = scene_make(way, "UYVY", 320, 180);
    AUTO(peer_forget) struct peer other = SCENE_PEER(&scene, 0);
    AUTO(peer_forget)
    struct peer greedy = SCENE_PEER(&scene, .slots = 64, .slow_receiver = GPUD_SLOW_DROP_NEWEST);
    scene_wait(&scene, 2);
    scene_rest(&greedy);
    scene_send(&scene, 200);
    wait_for_frames(&other, 200);
    atomic_store(&greedy.board->paused, false);
    PEER_FINISH(&greedy);
    PEER_FINISH(&other);
    CHECK_EQUAL(other.board->gaps, 0);
}

/* --- changes of format ------------------------------------------------------------------------ */

static void change_format(struct scene *scene)
{
    scene_format(scene, "UYVY", 320 + 2 * (uint32_t)(scene->number % 7), 180);
}

/* A change is no slowness: what follows it waits until the receiver is ready for it, also behind
 * frames that it has not taken yet, and an end behind it is seen. Nothing here depends on the
 * machine: a receiver that rests is as slow as can be. */
static void test_formats(const struct way *way)
{
    const unsigned changes = scene_in_guest() ? 12 : 100;
    static const enum gpud_slow_receiver policies[] = {GPUD_SLOW_DROP_OLDEST,
                                                       GPUD_SLOW_DROP_NEWEST};
    for (int i = 0; i < 2; i++) {
        struct scene scene = scene_open(way, policies[i]);
        change_format(&scene);
        AUTO(peer_forget) struct peer peer = SCENE_PEER(&scene, 0);
        scene_wait(&scene, 1);
        for (unsigned change = 0; change < changes / 2; change++) {
            if (change % 3 < 2)
                scene_rest(&peer);
            peer_wait_for_returns(scene.sender);
            if (change % 3 == 1)
                scene_send(&scene, 2);
            change_format(&scene);
            send_event(&scene, 7, scene.number);
            scene_send(&scene, 2);
            atomic_store(&peer.board->paused, false);
            wait_for_last(&scene, &peer);
        }
        struct gpud_sender_info info = INFO(sender, scene.sender);
        struct gpud_link_info link = {.size = sizeof(link)};
        gpud_sender_list_links(scene.sender, &link, 1);
        CHECK(
            info.dropped == 0,
            "policy %d: dropped %llu: newest %llu, oldest %llu, failed %llu, of a new format %llu",
            i, (unsigned long long)info.dropped, (unsigned long long)link.dropped_newest,
            (unsigned long long)link.dropped_oldest, (unsigned long long)link.dropped_failed,
            (unsigned long long)link.dropped_format);
        CHECK_EQUAL(info.delivered, scene.number);

        scene_rest(&peer);
        scene_send(&scene, 1);
        change_format(&scene);
        scene_end(&scene);
        scene_close(&scene);
        atomic_store(&peer.board->paused, false);
        wait_for_ends(&peer, 1);
        CHECK_EQUAL(atomic_load(&peer.board->last), scene.number);
        CHECK_EQUAL(atomic_load(&peer.board->gaps), 0);
        CHECK_EQUAL(atomic_load(&peer.board->discontinuities), 1); /* the first frame */
        unsigned at = 0, heard = 0;
        for (const struct peer_note *note;
             (note = find_note(peer.board, &at, GPUD_EVENT_USER)) != NULL; heard++)
            CHECK_EQUAL(note->after, note->value);
        CHECK(heard == changes / 2 || peer.board->notes == PEER_NOTES, "%u events", heard);
        PEER_FINISH(&peer);
    }
}

/* --- what cannot be had ---------------------------------------------------------------------- */

/* A sender and a receiver that ask for this: by this route, or refused with this in the reason on
 * both sides. */
static void try_demands(const struct way *way, const char *sender_route, bool sender_direct,
                        const char *receiver_route, bool receiver_direct, const char *path,
                        const char *says)
{
    AUTO(gpud_context_destroy) struct gpud_context *context = NEW_CONTEXT();
    AUTO(gpud_sender_destroy)
    struct gpud_sender *sender =
        NEW_SENDER(context, .address = peer_address("route"), .psk_file = peer_key(),
                   .device = way->from, .route = sender_route, .require_direct = sender_direct);
    struct gpud_layout layout = LAYOUT("GRAY8", 64, 64, 0);
    WORKS(gpud_sender_configure(sender, PICTURE(&layout), &e));
    struct peer_orders orders = {.require_direct = receiver_direct};
    gpud_print(orders.route, "%s", receiver_route ? receiver_route : "");
    AUTO(peer_forget) struct peer peer = scene_peer(&(struct scene){.way = way}, orders);
    struct gpud_sender_info info = GPUD_INFO_INIT(info);
    if (path) {
        WORKS(gpud_sender_wait(sender, 1, 30 * GPUD_SEC, &e));
        gpud_sender_get_info(sender, &info);
        CHECK(strcmp(info.path, path) == 0, "the route is %s (%s), and %s was asked for", info.path,
              info.fallback_reason, path);
        CHECK(strstr(info.fallback_reason, says), "\"%s\" does not say \"%s\"",
              info.fallback_reason, says);
        SEND_LENT(sender, &layout, 1);
        wait_for_frames(&peer, 1);
    } else {
        PEER_UNTIL("a refusal", 20000, atomic_load(&peer.board->refusals) > 0);
        EXPECT(GPUD_TIMEOUT, "0 of 1", gpud_sender_wait(sender, 1, 0, &e));
        CHECK_EQUAL(atomic_load(&peer.board->status), GPUD_UNSUPPORTED);
        CHECK(strstr(peer.board->reason, says), "\"%s\" does not say \"%s\"", peer.board->reason,
              says);
        gpud_sender_get_info(sender, &info);
        CHECK(info.refused >= 1 && info.connects == 0, "a refusal is not counted as one");
    }
    PEER_FINISH(&peer);
}

static void test_refusals(const struct way *way)
{
    /* What goes through host memory is a detour where a GPU is at an end. */
    bool network = is_remote(way);
    bool hosts = strcmp(way->from, "host") == 0 && strcmp(way->to, "host") == 0;
    bool direct = network ? hosts : strncmp(way->path, "staged", 6) != 0;
    /* One that is not possible between these two, whatever their drivers can. */
    bool alike = strncmp(way->from, way->to, strcspn(way->from, ":")) == 0;
    const char *other = !alike || strcmp(way->path, "map") == 0 || strcmp(way->path, "peer") == 0
                            ? "directgma"
                            : "map";
    try_demands(way, way->path, false, NULL, false, way->path, "");
    try_demands(way, NULL, false, way->path, false, way->path, "");
    try_demands(way, way->path, false, other, false, NULL, "only the route");
    try_demands(way, other, false, NULL, false, NULL, other);
    try_demands(way, NULL, false, other, false, NULL, other);
    if (direct)
        try_demands(way, way->path, true, NULL, true, way->path, "");
    if (direct && !network) {
        try_demands(way, "staged", false, NULL, false, "staged",
                    "map: only the route \"staged\" was asked for");
        try_demands(way, NULL, true, "staged", false, NULL, "staged: require-direct");
    } else if (network && !direct) {
        char refusal[80];
        snprintf(refusal, sizeof(refusal), "%s: require-direct", way->path);
        try_demands(way, NULL, true, NULL, false, NULL, refusal);
        try_demands(way, NULL, false, NULL, true, NULL, refusal);
        try_demands(way, NULL, false, NULL, false, way->path,
                    strcmp(way->path, "rdma-host") == 0 ? "no memory of devices"
                                                        : "a network card moves frames");
    } else if (!direct && !way->force) {
        try_demands(way, NULL, true, NULL, false, NULL, "staged: require-direct");
        try_demands(way, NULL, false, NULL, true, NULL, "staged: require-direct");
        try_demands(way, NULL, false, NULL, false, "staged", "map: the frames are on");
    }

    AUTO(gpud_context_destroy) struct gpud_context *context = NEW_CONTEXT();
    const struct {
        struct gpud_sender_params params;
        enum gpud_status status;
        const char *says;
    } wrong[] = {
        {{.route = "pigeon"}, GPUD_INVALID, "pigeon"},
        {{.device = "opencl:200"}, GPUD_NO_DEVICE, "opencl:200"},
        {{.device = "toaster"}, GPUD_INVALID, "toaster"},
        {{.slots = GPUD_SLOTS_MAX + 1}, GPUD_INVALID, "65 slots"},
        {{.picture_slots = GPUD_SLOTS_MAX + 1}, GPUD_INVALID, "65 slots"},
        {{.slow_receiver = (enum gpud_slow_receiver)9}, GPUD_INVALID, "slow_receiver"},
        {{.slots = 0}, GPUD_INVALID, "size"},
    };
    struct gpud_sender *sender = NULL;
    for (size_t i = 0; i < COUNT(wrong); i++) {
        struct gpud_sender_params params = wrong[i].params;
        params.size = i < COUNT(wrong) - 1 ? sizeof(params) : 0;
        params.address = peer_address("route");
        params.psk_file = peer_key();
        EXPECT(wrong[i].status, wrong[i].says, gpud_sender_create(context, &params, &sender, &e));
    }
    CHECK(!sender, "an output was written by a call that failed");
}

/* --- one process ------------------------------------------------------------------------------ */

/* The order between a stream of the fake driver and a thread of the same process that touches the
 * same pages stands in words of a ring page, which two sides in one process map at two addresses:
 * the thread sanitizer cannot see it. */
static bool is_blind_here(const struct way *way)
{
#ifdef __SANITIZE_THREAD__
    if (strcmp(way->name, "pairs") == 0)
        return strncmp(way->path, "staged", 6) == 0 &&
               (strstr(way->from, "cuda") || strstr(way->to, "cuda") || strstr(way->from, "hip") ||
                strstr(way->to, "hip"));
    return strncmp(way->name, "staged-cuda", 11) == 0 ||
           strncmp(way->name, "rdma-host-cuda", 14) == 0 ||
           strncmp(way->name, "tcp-host-cuda", 13) == 0;
#else
    return false;
#endif
}

static void test_same_process(const struct way *way)
{
    if (is_blind_here(way)) {
        SAY("  left out under the thread sanitizer, which cannot see this order");
        return;
    }
    if (strcmp(way->path, "staged-push") == 0) {
        SAY("  there it is staged: see route@pairs");
        return;
    }
    AUTO(scene_close) struct scene scene = scene_make(way, "NV12", 366, 181);
    struct inside inside[2];
    for (int i = 0; i < 2; i++)
        inside_start(&scene, &inside[i]);
    scene_wait(&scene, 2);
    scene_send(&scene, 100);
    scene_format(&scene, "UYVY", 640, 360);
    scene_send(&scene, 100);
    scene_end(&scene);
    const char *path = way->remote_only ? "map" : way->path; /* the same device: the pointer */
    for (int i = 0; i < 2; i++) {
        inside_finish(&inside[i]);
        CHECK_EQUAL(inside[i].frames, 200);
        CHECK_EQUAL(inside[i].wrong, 0);
        CHECK_EQUAL(inside[i].info.dropped, 0);
        CHECK(strcmp(inside[i].info.path, path) == 0, "the route inside a process is %s (%s)",
              inside[i].info.path, inside[i].info.fallback_reason);
    }
}

/* --- a small aperture ------------------------------------------------------------------------- */

static void test_aperture(const struct way *way)
{
    if (strcmp(way->path, "directgma") != 0)
        return;
    /* Room for two slots and a half of the four. */
    setenv("GPUDIRECT_DGMA_APERTURE", "2300000", 1);
    struct scene scene = scene_make(way, "BGRx", 640, 360);
    struct peer peer = SCENE_PEER(&scene, 0);
    scene_wait(&scene, 1);
    struct gpud_sender_info info = INFO(sender, scene.sender);
    CHECK(strcmp(info.path, "directgma") == 0, "the route is %s because %s", info.path,
          info.fallback_reason);
    scene_rest(&peer);
    /* As many as the ring has are taken; the next waits. */
    unsigned taken = 0;
    enum gpud_status status = GPUD_OK;
    struct gpud_frame *frame = NULL;
    while (status == GPUD_OK && taken < 5) {
        frame = ACQUIRE_SLOT(scene.sender, GPUD_SEC);
        frame_write(frame, &scene.layout, taken + 1);
        status = gpud_sender_submit(scene.sender, &frame, 300 * GPUD_MSEC, NULL);
        taken += status == GPUD_OK;
    }
    CHECK(status == GPUD_TIMEOUT && taken == 2, "a ring in a small aperture took %u frames (%s)",
          taken, gpud_status_string(status));
    gpud_frame_release(&frame);
    atomic_store(&peer.board->paused, false);
    scene.number = taken;
    scene_send(&scene, 20);
    wait_for_frames(&peer, taken + 20);
    PEER_FINISH(&peer);
    CHECK_EQUAL(peer.board->gaps, 0);
    peer_forget(&peer);
    scene_close(&scene);
    unsetenv("GPUDIRECT_DGMA_APERTURE");
}

/* --- media that are no pictures --------------------------------------------------------------- */

/* clang-format off */
#define TENSOR(text, of, wide, at, a, b, c) \
    {.name = (text), .code = GPUD_TENSOR_##of, .bits = (wide), .lanes = 1, .offset = (at), \
     .dimensions = 3, .size = {(a), (b), (c)}, .stride = {(b) * (c), (c), 1}}
/* clang-format on */

static const struct gpud_media sorts[] = {
    {.kind = GPUD_MEDIA_AUDIO,
     .audio = {.format = "S24LE", .rate = 48000, .channels = 2, .positions = 3, .block = 961}},
    {.kind = GPUD_MEDIA_ANCILLARY, .data = {.type = "meta/x-st-2038", .max_size = 8191}},
    {.kind = GPUD_MEDIA_DATA, .data = {.type = "application/x-lidar", .max_size = 1}},
    {.kind = GPUD_MEDIA_DATA,
     .data = {.type = "meta/x-klv", .max_size = 65536},
     .extra = "parsed=(boolean)true"},
    {.kind = GPUD_MEDIA_TENSOR, /* planes of a picture, fixed and as a batch that is not full */
     .tensors = {.count = 1, .tensor = {TENSOR("", FLOAT, 16, 0, 3, 240, 320)}}},
    {.kind = GPUD_MEDIA_TENSOR,
     .tensors = {.count = 4,
                 .batch = 0xe,
                 .tensor = {TENSOR("anchors", BFLOAT, 16, 0, 9, 5, 1),
                            TENSOR("boxes", FLOAT, 32, 256, 64, 6, 1),
                            TENSOR("scores", FLOAT8_E4M3FN, 8, 2048, 64, 1, 1),
                            TENSOR("classes", INT, 64, 2304, 64, 1, 1)}}},
#ifdef GPUD_TEST_MEDIA /* in tests/toy */
    {.kind = GPUD_MEDIA_TENSOR + 1, .data = {.type = "toy/x-points", .max_size = 100}},
#endif
};
#define SORTS (COUNT(sorts))
#define FRAMES 5

/* The first bytes of the slot, those of a unit and so many units at most are in use. Returns the
 * bytes of all. */
static uint64_t send_units(struct scene *scene, const struct gpud_media_units *units, uint64_t most)
{
    uint64_t sent = 0;
    for (unsigned frame = 0; frame < FRAMES; frame++) {
        uint64_t part = 1 + (most - 1) * (FRAMES - 1 - frame) / (FRAMES - 1);
        uint64_t bytes = units->unit ? units->first + units->unit * part : scene->layout.size;
        SEND_BLOCK(scene->sender, &scene->layout, bytes, ++scene->number);
        sent += bytes;
    }
    return sent;
}

/* Blocks of every size, the largest first; they are copied as often as pictures are. Returns the
 * bytes of all. */
static uint64_t send_all(struct scene *scene)
{
    uint64_t sent = 0;
    for (size_t i = 0; i < SORTS; i++) {
        WORKS(gpud_sender_configure(scene->sender, &sorts[i], &e));
        WORKS(gpud_media_get_layout(&sorts[i], &scene->layout, &e));
        CHECK(scene->layout.size == media_size(&sorts[i]), "a layout of %llu bytes",
              (unsigned long long)scene->layout.size);
        scene_wait(scene, 1);
        struct gpud_media_units units = gpud_media_get_units(&sorts[i]);
        if (units.unit != 1) {
            struct gpud_frame *part = ACQUIRE_SLOT(scene->sender, 20 * GPUD_SEC);
            WORKS(gpud_frame_set_size(part, units.first + units.unit + 1, &e)); /* and a part */
            EXPECT(GPUD_INVALID, "a multiple of",
                   gpud_sender_submit(scene->sender, &part, 20 * GPUD_SEC, &e));
            gpud_frame_release(&part);
        }
        uint64_t most = units.unit ? (scene->layout.size - units.first) / units.unit : 1;
        COPIES(scene, FRAMES, scene->way->lent_cpu, scene->way->lent_gpu,
               sent += send_units(scene, &units, most));
    }
    scene_end(scene);
    return sent;
}

/* Blocks of sound and of data, one kind after the other in one stream; every byte is checked. */
static void test_media(const struct way *way)
{
    AUTO(scene_close) struct scene scene = scene_open(way, GPUD_SLOW_BLOCK);
    if (strcmp(way->path, "migrate") == 0) { /* inside one process alone */
        struct inside inside;
        WORKS(gpud_sender_configure(scene.sender, &sorts[0], &e));
        inside_start(&scene, &inside);
        uint64_t sent = send_all(&scene);
        inside_finish(&inside);
        CHECK_EQUAL(inside.frames, SORTS * FRAMES);
        CHECK_EQUAL(inside.bytes, sent);
        CHECK_EQUAL(inside.wrong, 0);
    } else {
        AUTO(peer_forget) struct peer peer = SCENE_PEER(&scene, .leave_after = 1);
        const struct peer_board *board = peer.board;
        uint64_t sent = send_all(&scene);
        wait_for_ends(&peer, 1);
        PEER_FINISH(&peer);
        CHECK(board->lost == 0 && board->refusals == 0, "%u links are lost, %u refused: %s",
              (unsigned)board->lost, (unsigned)board->refusals, board->reason);
        CHECK_EQUAL(board->frames, SORTS * FRAMES);
        CHECK_EQUAL(board->bytes, sent);
        CHECK_EQUAL(board->gaps, 0);
        /* And a test frame of each. */
        CHECK_EQUAL(board->info.copies_cpu, SORTS * (FRAMES + 1) * way->receiver_cpu);
        CHECK_EQUAL(board->info.copies_gpu, SORTS * (FRAMES + 1) * way->receiver_gpu);
        CHECK(strcmp(board->info.path, way->path) == 0, "the route is %s", board->info.path);
        unsigned formats = 0, at = 0;
        for (const struct peer_note *note;
             (note = find_note(board, &at, GPUD_EVENT_FORMAT)) != NULL; formats++) {
            CHECK(formats < SORTS, "a format more");
            CHECK_EQUAL(note->kind, sorts[formats].kind);
            CHECK_EQUAL(note->value, media_size(&sorts[formats]));
        }
        CHECK_EQUAL(formats, SORTS);
    }
}

/* Pictures that are handed over while they are written, to a receiver that asked for it and to one
 * that did not: each is whole where it is read as a whole. */
static void test_lines(const struct way *way)
{
    AUTO(scene_close) struct scene scene = scene_make(way, "UYVY", 320, 180);
    AUTO(peer_forget) struct peer whole = SCENE_PEER(&scene, .leave_after = 1);
    AUTO(peer_forget) struct peer early = SCENE_PEER(&scene, .leave_after = 1, .by_lines = true);
    scene_wait(&scene, 2);
    for (unsigned i = 0; i < FRAMES; i++) {
        struct gpud_frame *frame = ACQUIRE_SLOT(scene.sender, 10 * GPUD_SEC);
        frame_write(frame, &scene.layout, ++scene.number);
        for (uint32_t rows = 0; rows <= 180; rows += 45)
            WORKS(gpud_sender_submit_lines(scene.sender, frame, rows, 10 * GPUD_SEC, &e));
        gpud_frame_release(&frame);
    }
    scene_end(&scene);
    struct peer *peers[] = {&early, &whole};
    for (int i = 0; i < 2; i++) {
        struct peer_board *board = peers[i]->board;
        PEER_UNTIL("the end of the stream", 20000, atomic_load(&board->ends) == 1);
        PEER_FINISH(peers[i]);
        CHECK_EQUAL(board->frames, FRAMES);
        CHECK_EQUAL(board->gaps, 0);
        CHECK(strcmp(board->info.path, way->path) == 0, "the route is %s", board->info.path);
        bool by_lines = i == 0 && strcmp(way->path, "directgma") != 0;
        CHECK(!board->info.whole_reason[0] == by_lines, "by %s: \"%s\"", way->path,
              board->info.whole_reason);
    }
}

/* --- pairs ------------------------------------------------------------------------------------ */

#define DIFFER(from, to) "the frames are on " from " and are wanted on " to
#define VENDORS "only between GPUs of one vendor, by CUDA or by HIP"
#define NOT_OPENCL(device) "only between OpenCL devices, not " device
#define NO_DIRECTGMA                                                                         \
    "sender: opencl:0 has no cl_amd_bus_addressable_memory (DirectGMA); on this device the " \
    "software layer adds it: set OPENCL_LAYERS="
#define NO_EXPORT "the driver of opencl:0 cannot export memory to other processes"
#define OTHER_PROCESS "not the same process: only inside one, with one gpud_context, do two"

enum where {
    ANYWHERE,
    APART,  /* the ends are two processes */
    INSIDE, /* one, with one context */
};

struct pair {
    const char *from, *to;
    enum where where;
    const char *route;
    const char *map, *peer, *directgma, *migrate; /* against them, where they are better; or NULL */
};

#define SAME(device, where)                                  \
    {                                                        \
        device, device, where, "map", NULL, NULL, NULL, NULL \
    }
/* other: the end that is no OpenCL device. */
#define THROUGH_HOST(from, to, where, route, other)                                             \
    {                                                                                           \
        from, to, where, route, DIFFER(from, to), VENDORS, NOT_OPENCL(other), NOT_OPENCL(other) \
    }

/* Without DirectGMA. */
static const struct pair plain[] = {
    SAME("host", ANYWHERE),
    THROUGH_HOST("host", "opencl:0", ANYWHERE, "staged", "host"),
    THROUGH_HOST("host", "cuda:0", ANYWHERE, "staged", "host"),
    THROUGH_HOST("host", "hip:0", ANYWHERE, "staged", "host"),
    THROUGH_HOST("opencl:0", "host", ANYWHERE, "staged", "host"),
    {"opencl:0", "opencl:0", APART, "staged", NO_EXPORT, VENDORS, NO_DIRECTGMA, OTHER_PROCESS},
    SAME("opencl:0", INSIDE),
    {"opencl:0", "opencl:1", APART, "staged", DIFFER("opencl:0", "opencl:1"), VENDORS, NO_DIRECTGMA,
     OTHER_PROCESS},
    {"opencl:0", "opencl:1", INSIDE, "migrate", DIFFER("opencl:0", "opencl:1"), VENDORS,
     NO_DIRECTGMA, NULL},
    THROUGH_HOST("opencl:0", "cuda:0", ANYWHERE, "staged", "cuda:0"),
    THROUGH_HOST("opencl:0", "hip:0", APART, "staged-push", "hip:0"),
    THROUGH_HOST("opencl:0", "hip:0", INSIDE, "staged", "hip:0"),
    THROUGH_HOST("cuda:0", "host", ANYWHERE, "staged", "cuda:0"),
    THROUGH_HOST("cuda:0", "opencl:0", ANYWHERE, "staged", "cuda:0"),
    SAME("cuda:0", ANYWHERE),
    {"cuda:0", "cuda:1", ANYWHERE, "peer", DIFFER("cuda:0", "cuda:1"), NULL, NULL, NULL},
    THROUGH_HOST("cuda:0", "hip:0", APART, "staged-push", "cuda:0"),
    THROUGH_HOST("cuda:0", "hip:0", INSIDE, "staged", "cuda:0"),
    THROUGH_HOST("hip:0", "host", ANYWHERE, "staged", "hip:0"),
    THROUGH_HOST("hip:0", "opencl:0", ANYWHERE, "staged", "hip:0"),
    THROUGH_HOST("hip:0", "cuda:0", ANYWHERE, "staged", "hip:0"),
    SAME("hip:0", ANYWHERE),
    {"hip:0", "hip:1", ANYWHERE, "peer", DIFFER("hip:0", "hip:1"), NULL, NULL, NULL},
    SAME("vulkan:0", ANYWHERE),
    THROUGH_HOST("host", "vulkan:0", ANYWHERE, "staged", "host"),
    THROUGH_HOST("vulkan:0", "host", ANYWHERE, "staged", "vulkan:0"),
    THROUGH_HOST("vulkan:0", "opencl:0", ANYWHERE, "staged", "vulkan:0"),
    THROUGH_HOST("opencl:0", "vulkan:0", ANYWHERE, "staged", "vulkan:0"),
    THROUGH_HOST("vulkan:0", "cuda:0", ANYWHERE, "staged", "vulkan:0"),
    THROUGH_HOST("cuda:0", "vulkan:0", ANYWHERE, "staged", "cuda:0"),
    THROUGH_HOST("vulkan:0", "hip:0", APART, "staged-push", "vulkan:0"),
    THROUGH_HOST("vulkan:0", "hip:0", INSIDE, "staged", "vulkan:0"),
    THROUGH_HOST("hip:0", "vulkan:0", ANYWHERE, "staged", "hip:0"),
};

/* With DirectGMA, by the software layer, what goes from one OpenCL device to another is different.
 */
static const struct pair directgma[] = {
    {"opencl:0", "opencl:0", APART, "directgma", NO_EXPORT, VENDORS, NULL, NULL},
    {"opencl:0", "opencl:0", INSIDE, "map", NULL, NULL, NULL, NULL},
    {"opencl:0", "opencl:1", ANYWHERE, "directgma", DIFFER("opencl:0", "opencl:1"), VENDORS, NULL,
     NULL},
    {"opencl:0", "host", ANYWHERE, "staged", DIFFER("opencl:0", "host"), VENDORS,
     NOT_OPENCL("host"), NOT_OPENCL("host")},
};

/* --- what is said ----------------------------------------------------------------------------- */

/* "map: …; peer: …": this reason against this route; with NULL, none. */
static void check_reason(const struct pair *pair, const char *reasons, const char *route,
                         const char *reason)
{
    char wanted[GPUD_REASON_MAX];
    snprintf(wanted, sizeof(wanted), "%s: %s", route, reason ? reason : "");
    CHECK(!strstr(reasons, wanted) == !reason, "%s to %s: \"%s\" %s \"%s\"", pair->from, pair->to,
          reasons, reason ? "does not say" : "has no business to say", wanted);
}

static void check_reasons(const struct pair *pair, const char *reasons)
{
    check_reason(pair, reasons, "map", pair->map);
    check_reason(pair, reasons, "peer", pair->peer);
    check_reason(pair, reasons, "directgma", pair->directgma);
    check_reason(pair, reasons, "migrate", pair->migrate);
    CHECK(!strstr(reasons, "staged"), "%s to %s: a reason against a worse route, or none: \"%s\"",
          pair->from, pair->to, reasons);
}

/* What is said before anything runs is what happens then. */
static void check_explanation(struct gpud_context *context, const struct pair *pair, bool inside)
{
    struct gpud_route_info infos[16] = {{.size = sizeof(infos[0])}};
    const char *chosen = "none";
    struct gpud_device *from = OPEN_DEVICE(context, pair->from);
    struct gpud_device *to = OPEN_DEVICE(context, pair->to);
    size_t count = gpud_route_explain(from, to, inside, infos, 16);
    for (size_t i = count; i > 0; i--) {
        const struct gpud_route_info *info = &infos[i - 1];
        CHECK(info->possible == !info->reason[0], "%s to %s: %s is %spossible because \"%s\"",
              pair->from, pair->to, info->name, info->possible ? "" : "im", info->reason);
        CHECK(info->possible || strlen(info->reason) > 20, "\"%s\" is no sentence", info->reason);
        if (info->possible)
            chosen = info->name;
    }
    CHECK(strcmp(chosen, pair->route) == 0, "%s to %s: %s was foretold", pair->from, pair->to,
          chosen);
    gpud_device_close(&from);
    gpud_device_close(&to);
}

/* --- what happens ----------------------------------------------------------------------------- */

#define PAIR_FRAMES 8

static void send(struct scene *scene, const struct pair *pair)
{
    scene_wait(scene, 1);
    struct gpud_sender_info info = INFO(sender, scene->sender);
    CHECK(strcmp(info.path, pair->route) == 0, "%s to %s goes by %s because \"%s\"", pair->from,
          pair->to, info.path, info.fallback_reason);
    check_reasons(pair, info.fallback_reason);
    scene_send(scene, PAIR_FRAMES - 2);
    SEND_FOREIGN(scene->sender, scene->host, &scene->layout, ++scene->number);
    scene_send(scene, 1);
    scene_end(scene);
}

static void check_receiver(const struct pair *pair, const struct gpud_receiver_info *info)
{
    CHECK(strcmp(info->path, pair->route) == 0, "the receiver says that it is %s", info->path);
    check_reasons(pair, info->fallback_reason);
}

static void run(const struct pair *pair, bool inside)
{
    const struct way way = {
        .name = "pairs", .from = pair->from, .to = pair->to, .path = pair->route};
    if (pair->where == (inside ? APART : INSIDE))
        return;
    if (inside && is_blind_here(&way)) {
        SAY("  %s to %s inside one process is left out: the thread sanitizer cannot see its order",
            pair->from, pair->to);
        return;
    }
    SAY("  %s to %s, %s: %s", pair->from, pair->to, inside ? "one process" : "two processes",
        pair->route);
    AUTO(scene_close) struct scene scene = scene_open(&way, GPUD_SLOW_BLOCK);
    check_explanation(scene.context, pair, inside);
    scene_format(&scene, "UYVY", 366, 181);
    if (inside) {
        struct inside receiver;
        inside_start(&scene, &receiver);
        send(&scene, pair);
        inside_finish(&receiver);
        CHECK_EQUAL(receiver.frames, PAIR_FRAMES);
        CHECK_EQUAL(receiver.wrong, 0);
        check_receiver(pair, &receiver.info);
    } else {
        AUTO(peer_forget) struct peer peer = SCENE_PEER(&scene, .leave_after = 1);
        send(&scene, pair);
        wait_for_ends(&peer, 1);
        PEER_FINISH(&peer); /* which checks every picture */
        CHECK_EQUAL(peer.board->frames, PAIR_FRAMES);
        CHECK_EQUAL(peer.board->gaps, 0);
        check_receiver(pair, &peer.board->info);
    }
}

static void test_pairs(bool with_directgma)
{
    const struct pair *pairs = with_directgma ? directgma : plain;
    size_t count = with_directgma ? COUNT(directgma) : COUNT(plain);
    struct gpud_context *context = NEW_CONTEXT();
    for (size_t i = 0; i < count; i++) { /* a driver keeps what it opens first */
        struct gpud_device *device = OPEN_DEVICE(context, pairs[i].from);
        gpud_device_close(&device);
        device = OPEN_DEVICE(context, pairs[i].to);
        gpud_device_close(&device);
    }
    gpud_context_destroy(&context);
    for (size_t i = 0; i < count; i++) {
        run(&pairs[i], false);
        run(&pairs[i], true);
    }
}

#ifdef GPUD_SIGNAL_LIMIT
/* A signal must never wrap: long before, the sender begins a new epoch. This program is linked with
 * a core whose signals are good for so few frames only, in every process of the test. No frame may
 * be lost over it, and the application must not be told of a format that did not change more often
 * than epochs changed. */
static void test_rearm(const struct way *way)
{
    enum { MANY = 200 };
    _Static_assert(GPUD_SIGNAL_LIMIT == 10, "this needs a core whose signals are soon used up");
    test_alarm(80);
    AUTO(scene_close) struct scene scene = scene_make(way, "UYVY", 320, 181);
    struct peer peers[2];
    for (int i = 0; i < 2; i++)
        peers[i] = SCENE_PEER(&scene, .hold = 1);
    scene_wait(&scene, 2);
    scene_send(&scene, MANY);
    scene_end(&scene);
    for (int i = 0; i < 2; i++) {
        wait_for_ends(&peers[i], 1);
        PEER_FINISH(&peers[i]);
        const struct peer_board *board = peers[i].board;
        CHECK_EQUAL(board->frames, MANY);
        CHECK_EQUAL(board->gaps, 0);
        CHECK_EQUAL(board->info.dropped, 0);
        CHECK_EQUAL(board->lost, 0);
        CHECK(strcmp(board->info.path, way->path) == 0, "the route is %s", board->info.path);
        unsigned epochs = 0;
        for (unsigned k = 0; k < board->notes; k++)
            epochs += board->note[k].event == GPUD_EVENT_FORMAT;
        CHECK(epochs >= MANY / 11 && epochs <= MANY / 5, "%u epochs for %d frames", epochs, MANY);
        SAY("receiver %d: %d frames over %u epochs, none lost", i, MANY, epochs);
        peer_forget(&peers[i]);
    }
}
#endif

/* --- all of it -------------------------------------------------------------------------------- */

int main(int argc, char **argv)
{
    if (argc > 1 && strncmp(argv[1], "rdma", 4) == 0 && !getenv("GPUD_TEST_ADDRESS"))
        setenv("GPUD_TEST_COPIES", "1", 1); /* both processes', where no network card is */
    copies_install_if_asked();
    peer_main(argc, argv);
    alarm(800); /* a sanitizer is slow, and so is the guest that soft-RoCE runs in */
    if (argc > 1 && strncmp(argv[1], "pairs", 5) == 0) {
        runtime_make();
        test_pairs(strcmp(argv[1], "pairs-directgma") == 0);
        runtime_done();
        return 0;
    }
    const struct way *way = NULL;
    for (size_t i = 0; argc > 1 && i < COUNT(ways); i++)
        if (strcmp(ways[i].name, argv[1]) == 0)
            way = &ways[i];
    CHECK(way, "name a way: map, directgma, peer, staged-up…: see the table at the top");
    runtime_make();

    /* Once, before anything is counted: a driver keeps what it opens first. */
    struct gpud_device *device;
    struct gpud_error error = {.reason = ""};
    struct gpud_context *context = NEW_CONTEXT();
    const char *names[] = {way->from, way->to};
    for (int i = 0; i < 2; i++) {
        enum gpud_status status = gpud_device_open(context, names[i], &device, &error);
        if (status == GPUD_NO_DEVICE) {
            runtime_done();
            SKIP("%s", error.reason);
        }
        CHECK(status == GPUD_OK, "%s: %s", names[i], error.reason);
        gpud_device_close(&device);
    }
    gpud_context_destroy(&context);

    static const struct {
        const char *says;
        void (*test)(const struct way *way);
    } tests[] = {
        {"frames of every kind, caps changes in band, copies counted", test_frames},
        {"frames that are not the stream's", test_wrong_frames},
        {"events and ends in their place among the frames", test_events},
        {"both sides come and go", test_reconnect},
        {"three receivers, three policies, every drop reported", test_fan_out},
        {"a receiver that comes while frames flow", test_late},
        {"a slow receiver that asks for more slots than the sender has", test_many_slots},
        {"refusals have reasons", test_refusals},
        {"inside one process", test_same_process},
        {"an aperture too small for all slots", test_aperture},
        {"frames that are announced", test_announcements},
        {"sound, ancillary and other data, tensors", test_media},
        {"pictures that are handed over while they are written", test_lines},
        {"a live sender that changes its format", test_formats},
#ifdef GPUD_SIGNAL_LIMIT
        {"signals that are used up", test_rearm},
#endif
    };
    for (size_t i = 0; i < COUNT(tests); i++) {
        if (argc > 2 && atoi(argv[2]) != (int)i)
            continue;
        /* Both ends have to be in one process: then those cases are left out that have a receiver
         * in another. */
        if (strcmp(way->path, "migrate") == 0 && tests[i].test != test_wrong_frames &&
            tests[i].test != test_same_process && tests[i].test != test_media)
            continue;
        SAY("%s: %s", way->name, tests[i].says);
        tests[i].test(way);
    }
    runtime_done();
    return 0;
}
