/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Cases of route@WAY in which nothing may flow. See route.h. */
#include "route.h"
#include "support/make.h"
#include "support/media.h"
#include "support/picture.h"

/* --- what cannot be had ---------------------------------------------------------------------- */

/* A sender and a receiver that ask for this: by this route, or refused with this in the reason on
 * both sides. */
static void try_demands(const struct way *way, const char *sender_route, bool sender_direct,
                        const char *receiver_route, bool receiver_direct, const char *path,
                        const char *says)
{
    struct peer peer;
    struct peer_orders orders = {0};
    snprintf(orders.address, sizeof(orders.address), "%s", peer_address("route"));
    struct gpud_context *context = NEW_CONTEXT();
    struct gpud_sender *sender =
        NEW_SENDER(context, .address = peer_address("route"), .psk_file = peer_key(),
                   .device = way->from, .route = sender_route, .require_direct = sender_direct);
    struct gpud_layout layout = LAYOUT("GRAY8", 64, 64, 0);
    WORKS(gpud_sender_configure(sender, PICTURE(&layout), &e));
    snprintf(orders.device, sizeof(orders.device), "%s", way->to);
    snprintf(orders.route, sizeof(orders.route), "%s", receiver_route ? receiver_route : "");
    orders.require_direct = receiver_direct;
    peer_start(&peer, &orders);
    struct gpud_sender_info info = GPUD_INFO_INIT(info);
    if (path) {
        WORKS(gpud_sender_wait(sender, 1, 30 * GPUD_SEC, &e));
        gpud_sender_get_info(sender, &info);
        CHECK(strcmp(info.path, path) == 0, "the route is %s (%s), and %s was asked for", info.path,
              info.fallback_reason, path);
        CHECK(strstr(info.fallback_reason, says), "\"%s\" does not say \"%s\"",
              info.fallback_reason, says);
        SEND_LENT(sender, &layout, 1);
        PEER_UNTIL("a frame", 20000, atomic_load(&peer.board->frames) == 1);
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
    peer_forget(&peer);
    gpud_sender_destroy(&sender);
    gpud_context_destroy(&context);
}

void test_refusals(const struct way *way)
{
    /* What goes through host memory is a detour where a GPU is at an end. */
    bool network = strncmp(way->path, "rdma", 4) == 0;
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
    if (direct) {
        try_demands(way, way->path, true, NULL, true, way->path, "");
    }
    if (direct && !network) {
        try_demands(way, "staged", false, NULL, false, "staged",
                    "map: only the route \"staged\" was asked for");
        try_demands(way, NULL, true, "staged", false, NULL, "staged: require-direct");
    } else if (network && !direct) {
        try_demands(way, NULL, true, NULL, false, NULL, "rdma-host: require-direct");
        try_demands(way, NULL, false, NULL, true, NULL, "rdma-host: require-direct");
        try_demands(way, NULL, false, NULL, false, "rdma-host", "no memory of devices");
    } else if (!direct && !way->force) {
        try_demands(way, NULL, true, NULL, false, NULL, "staged: require-direct");
        try_demands(way, NULL, false, NULL, true, NULL, "staged: require-direct");
        try_demands(way, NULL, false, NULL, false, "staged", "map: the frames are on");
    }

    AUTO(gpud_context_destroy) struct gpud_context *context = NEW_CONTEXT();
    struct gpud_sender_params params = GPUD_PARAMS_INIT(params);
    struct gpud_sender *sender = NULL;
    params.address = peer_address("route");
    params.psk_file = peer_key();
    params.route = "pigeon";
    EXPECT(GPUD_INVALID, "pigeon", gpud_sender_create(context, &params, &sender, &e));
    params.route = NULL;
    params.device = "opencl:200";
    EXPECT(GPUD_NO_DEVICE, "opencl:200", gpud_sender_create(context, &params, &sender, &e));
    params.device = "toaster";
    EXPECT(GPUD_INVALID, "toaster", gpud_sender_create(context, &params, &sender, &e));
    params.device = NULL;
    params.slots = GPUD_SLOTS_MAX + 1;
    EXPECT(GPUD_INVALID, "65 slots", gpud_sender_create(context, &params, &sender, &e));
    params.slots = 0;
    params.picture_slots = GPUD_SLOTS_MAX + 1;
    EXPECT(GPUD_INVALID, "65 slots", gpud_sender_create(context, &params, &sender, &e));
    params.picture_slots = 0;
    params.slow_receiver = (enum gpud_slow_receiver)9;
    EXPECT(GPUD_INVALID, "slow_receiver", gpud_sender_create(context, &params, &sender, &e));
    params.slow_receiver = GPUD_SLOW_DEFAULT;
    params.size = 0;
    EXPECT(GPUD_INVALID, "size", gpud_sender_create(context, &params, &sender, &e));
    CHECK(!sender, "an output was written by a call that failed");
}

/* --- one process ------------------------------------------------------------------------------ */

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

void inside_start(struct scene *scene, struct inside *inside)
{
    *inside = (struct inside){0};
    inside->receiver = NEW_RECEIVER(scene->context, .address = peer_address("route"),
                                    .psk_file = peer_key(), .device = scene->way->to);
    CHECK(pthread_create(&inside->thread, NULL, receive_inside, inside) == 0, "no thread");
}

void inside_finish(struct inside *inside)
{
    pthread_join(inside->thread, NULL);
    gpud_receiver_destroy(&inside->receiver);
}

/* The order between a stream of the fake CUDA driver and a thread that touches the same pages
 * stands in words of a ring page, which two sides in one process map at two addresses: the thread
 * sanitizer cannot see it. */
static bool is_blind_here(const struct way *way)
{
#ifdef __SANITIZE_THREAD__
    return strncmp(way->name, "staged-cuda", 11) == 0 ||
           strncmp(way->name, "rdma-host-cuda", 14) == 0;
#else
    return false;
#endif
}

void test_same_process(const struct way *way)
{
    struct scene scene;
    if (is_blind_here(way)) {
        SAY("  left out under the thread sanitizer, which cannot see this order");
        return;
    }
    if (strcmp(way->path, "staged-push") == 0) {
        SAY("  there it is staged: see route_pairs.c");
        return;
    }
    scene_open(&scene, way, GPUD_SLOW_BLOCK);
    scene_format(&scene, "NV12", 366, 181);
    struct inside inside[2];
    for (int i = 0; i < 2; i++)
        inside_start(&scene, &inside[i]);
    WORKS(gpud_sender_wait(scene.sender, 2, 30 * GPUD_SEC, &e));
    scene_send(&scene, 100);
    scene_format(&scene, "UYVY", 640, 360);
    scene_send(&scene, 100);
    WORKS(gpud_sender_send_eos(scene.sender, &e));
    const char *path = way->remote_only ? "map" : way->path; /* the same device: the pointer */
    for (int i = 0; i < 2; i++) {
        inside_finish(&inside[i]);
        CHECK_EQUAL(inside[i].frames, 200);
        CHECK_EQUAL(inside[i].wrong, 0);
        CHECK_EQUAL(inside[i].info.dropped, 0);
        CHECK(strcmp(inside[i].info.path, path) == 0, "the route inside a process is %s (%s)",
              inside[i].info.path, inside[i].info.fallback_reason);
    }
    scene_close(&scene);
}

/* --- a small aperture ------------------------------------------------------------------------- */

void test_aperture(const struct way *way)
{
    if (strcmp(way->path, "directgma") != 0)
        return;
    struct scene scene;
    struct peer peer;
    /* Room for two slots and a half of the four. */
    setenv("GPUDIRECT_DGMA_APERTURE", "2300000", 1);
    scene_open(&scene, way, GPUD_SLOW_BLOCK);
    scene_format(&scene, "BGRx", 640, 360);
    struct peer_orders orders = scene_orders(&scene);
    peer_start(&peer, &orders);
    WORKS(gpud_sender_wait(scene.sender, 1, 30 * GPUD_SEC, &e));
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
    PEER_UNTIL("every frame", 10000, atomic_load(&peer.board->frames) == taken + 20);
    PEER_FINISH(&peer);
    CHECK_EQUAL(peer.board->gaps, 0);
    peer_forget(&peer);
    scene_close(&scene);
    unsetenv("GPUDIRECT_DGMA_APERTURE");
}
