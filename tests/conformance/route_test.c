/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* route@WAY: the ways between two devices, and frames that simply flow. See route.h. */
#include "route.h"
#include "support/copies.h"
#include "support/make.h"
#include "support/media.h"
#include "support/picture.h"

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
    {"staged-opencl-cuda", "opencl:0", "cuda:0", NULL, "staged", false, 0, 1, 1, 0, 0, 1},
    {"push-cuda-across", "cuda:0", "cuda:1", "staged-push", "staged-push", false, 0, 1, 1, 0, 0, 1},
};

/* --- scenes ----------------------------------------------------------------------------------- */

void scene_open(struct scene *scene, const struct way *way, enum gpud_slow_receiver policy)
{
    memset(scene, 0, sizeof(*scene));
    scene->way = way;
    scene->before = baseline_take();
    scene->context = NEW_CONTEXT();
    scene->host = OPEN_DEVICE(scene->context, "host");
    scene->sender =
        NEW_SENDER(scene->context, .address = peer_address("route"), .psk_file = peer_key(),
                   .device = way->from, .route = way->force, .slow_receiver = policy);
}

void scene_format(struct scene *scene, const char *format, uint32_t width, uint32_t height)
{
    scene->layout = LAYOUT(format, width, height, 0);
    WORKS(gpud_sender_configure(scene->sender, PICTURE_AT(&scene->layout, 25), &e));
}

void scene_close(struct scene *scene)
{
    gpud_sender_destroy(&scene->sender);
    gpud_device_close(&scene->host);
    gpud_context_destroy(&scene->context);
    BASELINE_CHECK(scene->before);
}

struct peer_orders scene_orders(const struct scene *scene)
{
    struct peer_orders orders = {0};
    snprintf(orders.address, sizeof(orders.address), "%s", peer_address("route"));
    snprintf(orders.device, sizeof(orders.device), "%s", scene->way->to);
    return orders;
}

bool scene_in_guest(void)
{
    return getenv("GPUD_TEST_ADDRESS") != NULL;
}

void scene_send(struct scene *scene, unsigned frames)
{
    while (frames--)
        SEND_LENT(scene->sender, &scene->layout, ++scene->number);
}

void scene_rest(struct peer *peer)
{
    atomic_store(&peer->board->paused, true);
    PEER_UNTIL("the receiver rests", 20000, atomic_load(&peer->board->resting));
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
static uint32_t scaled(uint32_t size, unsigned format)
{
    return scene_in_guest() && format != FULL_SIZE && size >= 4 ? size / 4 : size;
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
    const unsigned count = sizeof(formats) / sizeof(formats[0]);
    struct scene scene;
    struct peer peer;
    scene_open(&scene, way, GPUD_SLOW_BLOCK);
    struct peer_orders orders = scene_orders(&scene);
    orders.hold = 2;
    orders.leave_after = 1;
    peer_start(&peer, &orders);
    scene_format(&scene, formats[0].format, scaled(formats[0].width, 0),
                 scaled(formats[0].height, 0));
    WORKS(gpud_sender_wait(scene.sender, 1, 30 * GPUD_SEC, &e));
    unsigned sent = 0;
    for (unsigned i = 0; i < count; i++) {
        struct gpud_sender_info info = GPUD_INFO_INIT(info);
        if (i > 0)
            scene_format(&scene, formats[i].format, scaled(formats[i].width, i),
                         scaled(formats[i].height, i));
        WORKS(gpud_sender_wait(scene.sender, 1, 30 * GPUD_SEC,
                               &e)); /* the canary's copies are over */
        gpud_sender_get_info(scene.sender, &info);
        CHECK(strcmp(info.path, way->path) == 0, "the route is %s because %s", info.path,
              info.fallback_reason);
        COPIES(&scene, 6, way->lent_cpu, way->lent_gpu, scene_send(&scene, 6));
        COPIES(&scene, 2, way->lent_cpu, way->lent_gpu, send_twice(&scene));
        COPIES(&scene, 1, way->foreign_cpu, way->foreign_gpu,
               SEND_FOREIGN(scene.sender, scene.host, &scene.layout, ++scene.number));
        scene_send(&scene, 1);
        sent += 10;
    }
    WORKS(gpud_sender_send_eos(scene.sender, &e));
    PEER_UNTIL("the end of the stream", 20000, atomic_load(&peer.board->ends) == 1);
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
    unsigned epochs = 0;
    uint32_t last_epoch = 0;
    for (unsigned i = 0; i < board->notes; i++) {
        if (board->note[i].event != GPUD_EVENT_FORMAT)
            continue;
        CHECK(board->note[i].epoch > last_epoch, "epoch %u after %u", board->note[i].epoch,
              last_epoch);
        CHECK_EQUAL(board->note[i].after, epochs * 10);
        CHECK_EQUAL(board->note[i].value, 25); /* pictures a second */
        last_epoch = board->note[i].epoch;
        epochs++;
    }
    CHECK_EQUAL(epochs, count);
    peer_forget(&peer);

    struct gpud_sender_info info = INFO(sender, scene.sender);
    CHECK_EQUAL(info.frames, sent);
    CHECK_EQUAL(info.delivered, sent);
    CHECK_EQUAL(info.dropped, 0);
    CHECK_EQUAL(info.refused, 0);
    scene_close(&scene);
}

/* --- announcing ------------------------------------------------------------------------------- */

static uint64_t kicks_of(struct gpud_sender *sender)
{
    return INFO(sender, sender).kicks;
}

/* An announcement wakes a receiver that sleeps, and does nothing else, whether a frame follows or
 * not. */
static void test_announcements(const struct way *way)
{
    AUTO(scene_close) struct scene scene;
    AUTO(peer_forget) struct peer peer;
    scene_open(&scene, way, GPUD_SLOW_BLOCK);
    gpud_sender_announce(scene.sender); /* without a receiver or a format */
    struct peer_orders orders = scene_orders(&scene);
    orders.leave_after = 1;
    peer_start(&peer, &orders);
    scene_format(&scene, "UYVY", 640, 360);
    gpud_sender_announce(scene.sender);
    WORKS(gpud_sender_wait(scene.sender, 1, 30 * GPUD_SEC, &e));
    scene_send(&scene, 3);
    PEER_UNTIL("three frames", 20000, atomic_load(&peer.board->frames) == 3);
    uint64_t before = kicks_of(scene.sender);
    PEER_UNTIL("the receiver to be asleep, and woken", 20000,
               (gpud_sender_announce(scene.sender), kicks_of(scene.sender) > before));
    for (int i = 0; i < 100; i++)
        gpud_sender_announce(scene.sender);
    CHECK_EQUAL(atomic_load(&peer.board->frames), 3);
    for (int i = 0; i < 10; i++) {
        gpud_sender_announce(scene.sender);
        scene_send(&scene, 1);
    }
    gpud_sender_announce(scene.sender);
    WORKS(gpud_sender_send_eos(scene.sender, &e));
    PEER_UNTIL("the end of the stream", 20000, atomic_load(&peer.board->ends) == 1);
    PEER_FINISH(&peer);
    CHECK_EQUAL(peer.board->frames, 13);
    CHECK_EQUAL(peer.board->gaps, 0);
}

/* --- refusing what is not the stream's -------------------------------------------------------- */

static void test_wrong_frames(const struct way *way)
{
    struct scene scene;
    struct gpud_frame *frame;
    scene_open(&scene, way, GPUD_SLOW_BLOCK);
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
    scene_close(&scene);
}

/* Whether both ends have to be in one process: then those cases are left out that have a receiver
 * in another. */
static bool is_inside(const struct way *way)
{
    return strcmp(way->path, "migrate") == 0;
}

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
    for (size_t i = 0; argc > 1 && i < sizeof(ways) / sizeof(ways[0]); i++)
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
        {"sound, ancillary and other data", test_media},
        {"pictures that are handed over while they are written", test_lines},
        {"a live sender that changes its format", test_formats},
    };
    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
        if (argc > 2 && atoi(argv[2]) != (int)i)
            continue;
        if (is_inside(way) && tests[i].test != test_wrong_frames &&
            tests[i].test != test_same_process && tests[i].test != test_media)
            continue;
        SAY("%s: %s", way->name, tests[i].says);
        tests[i].test(way);
    }
    runtime_done();
    return 0;
}
