/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* route@pairs: every ordered pair of kinds of devices, and two devices of each kind that has two:
 * by which route frames go, what speaks against each better one, and that they arrive. The table is
 * the claim; how each route behaves in every other respect is shown by its own way in route_test.c.
 */
#include "route.h"
#include "support/make.h"

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

/* Without DirectGMA. */
static const struct pair plain[] = {
    {"host", "host", ANYWHERE, "map", NULL, NULL, NULL, NULL},
    {"host", "opencl:0", ANYWHERE, "staged", DIFFER("host", "opencl:0"), VENDORS,
     NOT_OPENCL("host"), NOT_OPENCL("host")},
    {"host", "cuda:0", ANYWHERE, "staged", DIFFER("host", "cuda:0"), VENDORS, NOT_OPENCL("host"),
     NOT_OPENCL("host")},
    {"host", "hip:0", ANYWHERE, "staged", DIFFER("host", "hip:0"), VENDORS, NOT_OPENCL("host"),
     NOT_OPENCL("host")},

    {"opencl:0", "host", ANYWHERE, "staged", DIFFER("opencl:0", "host"), VENDORS,
     NOT_OPENCL("host"), NOT_OPENCL("host")},
    {"opencl:0", "opencl:0", APART, "staged", NO_EXPORT, VENDORS, NO_DIRECTGMA, OTHER_PROCESS},
    {"opencl:0", "opencl:0", INSIDE, "map", NULL, NULL, NULL, NULL},
    {"opencl:0", "opencl:1", APART, "staged", DIFFER("opencl:0", "opencl:1"), VENDORS, NO_DIRECTGMA,
     OTHER_PROCESS},
    {"opencl:0", "opencl:1", INSIDE, "migrate", DIFFER("opencl:0", "opencl:1"), VENDORS,
     NO_DIRECTGMA, NULL},
    {"opencl:0", "cuda:0", ANYWHERE, "staged", DIFFER("opencl:0", "cuda:0"), VENDORS,
     NOT_OPENCL("cuda:0"), NOT_OPENCL("cuda:0")},
    {"opencl:0", "hip:0", APART, "staged-push", DIFFER("opencl:0", "hip:0"), VENDORS,
     NOT_OPENCL("hip:0"), NOT_OPENCL("hip:0")},
    {"opencl:0", "hip:0", INSIDE, "staged", DIFFER("opencl:0", "hip:0"), VENDORS,
     NOT_OPENCL("hip:0"), NOT_OPENCL("hip:0")},

    {"cuda:0", "host", ANYWHERE, "staged", DIFFER("cuda:0", "host"), VENDORS, NOT_OPENCL("cuda:0"),
     NOT_OPENCL("cuda:0")},
    {"cuda:0", "opencl:0", ANYWHERE, "staged", DIFFER("cuda:0", "opencl:0"), VENDORS,
     NOT_OPENCL("cuda:0"), NOT_OPENCL("cuda:0")},
    {"cuda:0", "cuda:0", ANYWHERE, "map", NULL, NULL, NULL, NULL},
    {"cuda:0", "cuda:1", ANYWHERE, "peer", DIFFER("cuda:0", "cuda:1"), NULL, NULL, NULL},
    {"cuda:0", "hip:0", APART, "staged-push", DIFFER("cuda:0", "hip:0"), VENDORS,
     NOT_OPENCL("cuda:0"), NOT_OPENCL("cuda:0")},
    {"cuda:0", "hip:0", INSIDE, "staged", DIFFER("cuda:0", "hip:0"), VENDORS, NOT_OPENCL("cuda:0"),
     NOT_OPENCL("cuda:0")},

    {"hip:0", "host", ANYWHERE, "staged", DIFFER("hip:0", "host"), VENDORS, NOT_OPENCL("hip:0"),
     NOT_OPENCL("hip:0")},
    {"hip:0", "opencl:0", ANYWHERE, "staged", DIFFER("hip:0", "opencl:0"), VENDORS,
     NOT_OPENCL("hip:0"), NOT_OPENCL("hip:0")},
    {"hip:0", "cuda:0", ANYWHERE, "staged", DIFFER("hip:0", "cuda:0"), VENDORS, NOT_OPENCL("hip:0"),
     NOT_OPENCL("hip:0")},
    {"hip:0", "hip:0", ANYWHERE, "map", NULL, NULL, NULL, NULL},
    {"hip:0", "hip:1", ANYWHERE, "peer", DIFFER("hip:0", "hip:1"), NULL, NULL, NULL},

    {"vulkan:0", "vulkan:0", ANYWHERE, "map", NULL, NULL, NULL, NULL},
    {"host", "vulkan:0", ANYWHERE, "staged", DIFFER("host", "vulkan:0"), VENDORS,
     NOT_OPENCL("host"), NOT_OPENCL("host")},
    {"vulkan:0", "host", ANYWHERE, "staged", DIFFER("vulkan:0", "host"), VENDORS,
     NOT_OPENCL("vulkan:0"), NOT_OPENCL("vulkan:0")},
    {"vulkan:0", "opencl:0", ANYWHERE, "staged", DIFFER("vulkan:0", "opencl:0"), VENDORS,
     NOT_OPENCL("vulkan:0"), NOT_OPENCL("vulkan:0")},
    {"opencl:0", "vulkan:0", ANYWHERE, "staged", DIFFER("opencl:0", "vulkan:0"), VENDORS,
     NOT_OPENCL("vulkan:0"), NOT_OPENCL("vulkan:0")},
    {"vulkan:0", "cuda:0", ANYWHERE, "staged", DIFFER("vulkan:0", "cuda:0"), VENDORS,
     NOT_OPENCL("vulkan:0"), NOT_OPENCL("vulkan:0")},
    {"cuda:0", "vulkan:0", ANYWHERE, "staged", DIFFER("cuda:0", "vulkan:0"), VENDORS,
     NOT_OPENCL("cuda:0"), NOT_OPENCL("cuda:0")},
    {"vulkan:0", "hip:0", APART, "staged-push", DIFFER("vulkan:0", "hip:0"), VENDORS,
     NOT_OPENCL("vulkan:0"), NOT_OPENCL("vulkan:0")},
    {"vulkan:0", "hip:0", INSIDE, "staged", DIFFER("vulkan:0", "hip:0"), VENDORS,
     NOT_OPENCL("vulkan:0"), NOT_OPENCL("vulkan:0")},
    {"hip:0", "vulkan:0", ANYWHERE, "staged", DIFFER("hip:0", "vulkan:0"), VENDORS,
     NOT_OPENCL("hip:0"), NOT_OPENCL("hip:0")},
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

#define FRAMES 8

static void send(struct scene *scene, const struct pair *pair)
{
    WORKS(gpud_sender_wait(scene->sender, 1, 30 * GPUD_SEC, &e));
    struct gpud_sender_info info = INFO(sender, scene->sender);
    CHECK(strcmp(info.path, pair->route) == 0, "%s to %s goes by %s because \"%s\"", pair->from,
          pair->to, info.path, info.fallback_reason);
    check_reasons(pair, info.fallback_reason);
    scene_send(scene, FRAMES - 2);
    SEND_FOREIGN(scene->sender, scene->host, &scene->layout, ++scene->number);
    scene_send(scene, 1);
    WORKS(gpud_sender_send_eos(scene->sender, &e));
}

static void run_apart(struct scene *scene, const struct pair *pair)
{
    AUTO(peer_forget) struct peer peer;
    struct peer_orders orders = scene_orders(scene);
    orders.leave_after = 1;
    peer_start(&peer, &orders);
    send(scene, pair);
    PEER_UNTIL("the end of the stream", 20000, atomic_load(&peer.board->ends) == 1);
    PEER_FINISH(&peer); /* which checks every picture */
    CHECK_EQUAL(peer.board->frames, FRAMES);
    CHECK_EQUAL(peer.board->gaps, 0);
    CHECK(strcmp(peer.board->info.path, pair->route) == 0, "the receiver says that it is %s",
          peer.board->info.path);
    check_reasons(pair, peer.board->info.fallback_reason);
}

static void run_inside(struct scene *scene, const struct pair *pair)
{
    struct inside inside;
    inside_start(scene, &inside);
    send(scene, pair);
    inside_finish(&inside);
    CHECK_EQUAL(inside.frames, FRAMES);
    CHECK_EQUAL(inside.wrong, 0);
    CHECK(strcmp(inside.info.path, pair->route) == 0, "the receiver says that it is %s",
          inside.info.path);
    check_reasons(pair, inside.info.fallback_reason);
}

/* As in route_refuse.c: the thread sanitizer sees no order where a stream of the fake driver and a
 * thread of the same process touch the same pages. */
static bool is_blind_inside(const struct pair *pair)
{
#ifdef __SANITIZE_THREAD__
    return strncmp(pair->route, "staged", 6) == 0 &&
           (strstr(pair->from, "cuda") || strstr(pair->to, "cuda") || strstr(pair->from, "hip") ||
            strstr(pair->to, "hip"));
#else
    return false;
#endif
}

static void run(const struct pair *pair, bool inside)
{
    const struct way way = {.name = "pairs", .from = pair->from, .to = pair->to};
    struct scene scene;
    if (pair->where == (inside ? APART : INSIDE))
        return;
    if (inside && is_blind_inside(pair)) {
        SAY("  %s to %s inside one process is left out: the thread sanitizer cannot see its order",
            pair->from, pair->to);
        return;
    }
    SAY("  %s to %s, %s: %s", pair->from, pair->to, inside ? "one process" : "two processes",
        pair->route);
    scene_open(&scene, &way, GPUD_SLOW_BLOCK);
    check_explanation(scene.context, pair, inside);
    scene_format(&scene, "UYVY", 366, 181);
    if (inside)
        run_inside(&scene, pair);
    else
        run_apart(&scene, pair);
    scene_close(&scene);
}

void test_pairs(bool with_directgma)
{
    const struct pair *pairs = with_directgma ? directgma : plain;
    size_t count = with_directgma ? sizeof(directgma) / sizeof(directgma[0])
                                  : sizeof(plain) / sizeof(plain[0]);
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
