/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The route suite: what every way between two devices must do. route_test.c holds the ways and the
 * cases in which frames simply flow, route_change.c those in which something changes meanwhile,
 * route_refuse.c those in which nothing may flow; route_media.c what is no picture; route_pairs.c
 * which way is taken from where to where. */
#ifndef GPUD_CONFORMANCE_ROUTE_H
#define GPUD_CONFORMANCE_ROUTE_H

#include "support/check.h"
#include "support/peer.h"

#include <pthread.h>

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

void scene_open(struct scene *scene, const struct way *way, enum gpud_slow_receiver policy);
void scene_format(struct scene *scene, const char *format, uint32_t width, uint32_t height);
void scene_close(struct scene *scene);
struct peer_orders scene_orders(const struct scene *scene);
/* Emulated, where a card sends 40 MB/s and checking a frame takes long, too. */
bool scene_in_guest(void);

void scene_send(struct scene *scene, unsigned frames);

/* The receiver takes and gives back nothing any more, until `paused` is false. */
void scene_rest(struct peer *peer);

/* A receiver in this process and the scene's context, on a thread that takes frames until the end
 * of the stream. */
struct inside {
    struct gpud_receiver *receiver;
    pthread_t thread;
    uint64_t frames, bytes, wrong, ends;
    struct gpud_receiver_info info; /* at the end */
};
void inside_start(struct scene *scene, struct inside *inside);
void inside_finish(struct inside *inside);

/* Without a way: of all of them. */
void test_pairs(bool with_directgma);

void test_events(const struct way *way);
void test_reconnect(const struct way *way);
void test_fan_out(const struct way *way);
void test_late(const struct way *way);
void test_many_slots(const struct way *way);
void test_formats(const struct way *way);
void test_refusals(const struct way *way);
void test_same_process(const struct way *way);
void test_aperture(const struct way *way);
void test_media(const struct way *way);
void test_lines(const struct way *way);

#endif
