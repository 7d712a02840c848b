/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The routes, and the choice of one for a link, with the reasons against every better one. */
#include "route/route.h"

#include "base/base.h"
#include "device/device.h"
#include "topology/topology.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* === endpoint ================================================================================ */

void gpud_endpoint_describe(struct gpud_endpoint *endpoint, const struct gpud_device *device,
                            const char *name)
{
    memset(endpoint, 0, sizeof(*endpoint));
    gpud_print(endpoint->name, "%s", name ? name : program_invocation_short_name);
    gpud_print(endpoint->device, "%s", device->info.name);
    gpud_print(endpoint->kind, "%s", gpud_device_kind(device));
    gpud_print(endpoint->no_direct, "%s", device->no_direct);
    endpoint->caps = device->caps & ~(uint32_t)GPUD_CAP_IMAGES;
    endpoint->aperture = device->aperture;
    endpoint->common = device->common;
    endpoint->token = device->context->token;
    memcpy(endpoint->uuid, device->uuid, sizeof(endpoint->uuid));
    for (size_t i = 0; i + 1 < sizeof(endpoint->pci) && device->info.pci[i]; i++)
        endpoint->pci[i] = (char)tolower((unsigned char)device->info.pci[i]); /* CUDA's capitals */
    endpoint->host_rate = device->host_rate;
    /* Where the driver does not say, the kernel does for AMD's GPUs. */
    if (endpoint->host_rate == 0 && device->info.pci[0])
        endpoint->host_rate = gpud_kfd_host_rate(gpud_kfd_get(), device->info.pci);
    endpoint->reach_count = device->reach_count;
    memcpy(endpoint->reach, device->reach, sizeof(endpoint->reach));
    memcpy(endpoint->host, device->context->host, sizeof(endpoint->host));
    endpoint->time_namespace = gpud_host_namespace("time");
}

static bool has_uuid(const struct gpud_endpoint *end)
{
    static const uint8_t none[16];
    return memcmp(end->uuid, none, sizeof(none)) != 0;
}

/* Whether both ends use the same hardware, whatever each calls it. */
static bool share_device(const struct gpud_endpoint *a, const struct gpud_endpoint *b)
{
    if (strcmp(a->kind, b->kind) != 0)
        return false;
    /* Indices are not compared: CUDA_VISIBLE_DEVICES renumbers in each process. */
    if (has_uuid(a) || has_uuid(b))
        return memcmp(a->uuid, b->uuid, sizeof(a->uuid)) == 0;
    return strcmp(a->device, b->device) == 0;
}

bool gpud_endpoints_share_clock(const struct gpud_endpoint *a, const struct gpud_endpoint *b,
                                bool one_host)
{
    return one_host && memcmp(a->host, b->host, sizeof(a->host)) == 0 &&
           a->time_namespace == b->time_namespace;
}

/* --- two drivers of one GPU ------------------------------------------------------------------- */

/* Whether both ends are driver's devices, of different kinds. */
static bool are_of_two_drivers(const struct gpud_endpoint *a, const struct gpud_endpoint *b)
{
    return !((a->caps | b->caps) & GPUD_CAP_HOST) && strcmp(a->kind, b->kind) != 0;
}

/* Whether one end's driver can import memory that the other's, of another kind, exports. Names and
 * numbers do not prove that both mean the same GPU: their UUIDs have to be equal, and the canary
 * has to arrive. On refusal *why is a clause. */
static bool imports(const struct gpud_endpoint *importer, const struct gpud_endpoint *exporter,
                    char why[GPUD_REASON_MAX])
{
    const struct gpud_endpoint *ends[] = {importer, exporter};
    if (!(exporter->caps & GPUD_CAP_SHARE)) {
        gpud_print_n(why, GPUD_REASON_MAX, "the driver of %s exports no memory", exporter->device);
        return false;
    }
    if (!gpud_caps_import(importer->caps, exporter->caps)) {
        gpud_print_n(why, GPUD_REASON_MAX, "the driver of %s imports no memory of other drivers",
                     importer->device);
        return false;
    }
    for (int i = 0; i < 2; i++) {
        if (has_uuid(ends[i]))
            continue;
        gpud_print_n(why, GPUD_REASON_MAX,
                     "the driver of %s does not tell which GPU it is (cl_khr_device_uuid)",
                     ends[i]->device);
        return false;
    }
    if (memcmp(importer->uuid, exporter->uuid, sizeof(importer->uuid)) != 0) {
        gpud_print_n(why, GPUD_REASON_MAX, "by their UUIDs %s and %s are different GPUs",
                     exporter->device, importer->device);
        return false;
    }
    return true;
}

/* === place =================================================================================== */

enum gpud_distance gpud_endpoints_distance(const struct gpud_endpoint *a,
                                           const struct gpud_endpoint *b)
{
    if (memcmp(a->host, b->host, sizeof(a->host)) != 0)
        return GPUD_DISTANCE_UNKNOWN;
    /* Needs no reading of the machine, which takes 100 ms and more. */
    if (a->pci[0] && strcasecmp(a->pci, b->pci) == 0)
        return GPUD_DISTANCE_SELF;
    return gpud_place_distance(a->pci, b->pci);
}

/* Adds both positions to a sentence if known, as in "; cuda:0 (0000:63:00.0) and the receiver's
 * cuda:0 (0000:e3:00.0) are in different NUMA nodes (SYS)". */
static void add_places(const struct gpud_endpoint *sender, const struct gpud_endpoint *receiver,
                       char why[GPUD_REASON_MAX])
{
    size_t used = strlen(why);
    enum gpud_distance distance = gpud_endpoints_distance(sender, receiver);
    if (distance != GPUD_DISTANCE_UNKNOWN && distance != GPUD_DISTANCE_SELF)
        gpud_print_n(why + used, GPUD_REASON_MAX - used, "; %s (%s) and the receiver's %s (%s) %s",
                     sender->device, sender->pci, receiver->device, receiver->pci,
                     gpud_place_relation(distance));
}

static bool reaches(const struct gpud_endpoint *sender, const struct gpud_endpoint *receiver)
{
    for (uint32_t i = 0; i < sender->reach_count; i++)
        if (memcmp(sender->reach[i], receiver->uuid, sizeof(receiver->uuid)) == 0)
            return true;
    return false;
}

enum gpud_degraded gpud_route_explain_link(const struct gpud_device *from,
                                           const struct gpud_endpoint *to,
                                           char why[GPUD_REASON_MAX])
{
    struct gpud_endpoint self;
    struct gpud_device there;
    struct gpud_device_link link = GPUD_INFO_INIT(link);
    enum gpud_degraded kind = GPUD_DEGRADED_NO;
    why[0] = '\0';
    gpud_endpoint_describe(&self, from, NULL);
    if (!self.reach_count || memcmp(self.host, to->host, sizeof(self.host)) != 0 ||
        strcmp(self.kind, to->kind) != 0 || !self.pci[0] || !to->pci[0] ||
        strcmp(self.pci, to->pci) == 0 || reaches(&self, to))
        return kind;
    /* Asks the driver of both devices, which sees the receiver's card here; else the kernel. */
    if (!gpud_device_probe_at(from->context, to->kind, to->pci, &there)) {
        kind = GPUD_DEGRADED_HIDDEN;
        gpud_print_n(why, GPUD_REASON_MAX,
                     "the sender's driver does not see the receiver's GPU at %s: do not hide it "
                     "from the sender (CUDA_VISIBLE_DEVICES, HIP_VISIBLE_DEVICES, the container)",
                     to->pci);
    } else {
        gpud_device_get_link(from, &there, &link);
        if (!link.direct) {
            kind = GPUD_DEGRADED_PEER_ACCESS;
            gpud_print_n(why, GPUD_REASON_MAX, "%s", link.reason);
        }
    }
    if (why[0])
        add_places(&self, to, why);
    return kind;
}

/* Whether both ends run on one machine. false: *why says so. */
static bool share_machine(const struct gpud_endpoint *sender, const struct gpud_endpoint *receiver,
                          char why[GPUD_REASON_MAX])
{
    if (memcmp(sender->host, receiver->host, sizeof(sender->host)) == 0)
        return true;
    gpud_print_n(why, GPUD_REASON_MAX, "the two ends run on different machines");
    return false;
}

static bool are_opencl(const struct gpud_endpoint *sender, const struct gpud_endpoint *receiver,
                       char why[GPUD_REASON_MAX])
{
    const struct gpud_endpoint *other = strcmp(sender->kind, "opencl") != 0 ? sender : receiver;
    if (strcmp(other->kind, "opencl") == 0)
        return true;
    gpud_print_n(why, GPUD_REASON_MAX, "only between OpenCL devices, not %s", other->device);
    return false;
}

/* === map ===================================================================================== */
/* the receivers map the sender's ring and read the frames where they are, also by another
 * driver of the same GPU. */

static bool map_can_connect(const struct gpud_endpoint *sender,
                            const struct gpud_endpoint *receiver, char why[GPUD_REASON_MAX])
{
    if (!share_machine(sender, receiver, why))
        return false;
    if (are_of_two_drivers(sender, receiver)) {
        char clause[GPUD_REASON_MAX];
        if (imports(receiver, sender, clause))
            return true;
        gpud_print_n(why, GPUD_REASON_MAX, "the frames are on %s and are wanted on %s: %s",
                     sender->device, receiver->device, clause);
        return false;
    }
    if (!share_device(sender, receiver) && !(sender->caps & receiver->caps & GPUD_CAP_HOST)) {
        gpud_print_n(why, GPUD_REASON_MAX, "the frames are on %s and are wanted on %s",
                     sender->device, receiver->device);
        return false;
    }
    if (sender->token == receiver->token)
        return true; /* same process: the pointer is shared */
    if (!(sender->caps & GPUD_CAP_SHARE)) {
        gpud_print_n(why, GPUD_REASON_MAX,
                     "the driver of %s cannot export memory to other processes", sender->device);
        return false;
    }
    return true;
}

/* Only host memory can be shared read-only. */
static const char *refuse_foreign(const struct gpud_endpoint *sender)
{
    return sender->caps & GPUD_CAP_HOST
               ? NULL
               : "mapping a GPU's memory allows writing it, and the receiver is another user's";
}

const struct gpud_route_ops gpud_map_route = {
    .name = "map",
    .ring = GPUD_RING_SENDER_DEVICE,
    .direct = true,
    .signal = GPUD_SIGNAL_PAGE,
    .shrinks = true,
    .can_connect = map_can_connect,
    .refuse_foreign = refuse_foreign,
};

/* === peer ==================================================================================== */
/* the sender's copy engine writes into memory of the receiver's GPU, over NVLink or PCIe, or
 * inside one GPU: there also between two drivers, and rows of frames that are images. */

static bool peer_can_connect(const struct gpud_endpoint *sender,
                             const struct gpud_endpoint *receiver, char why[GPUD_REASON_MAX])
{
    if (!share_machine(sender, receiver, why))
        return false;
    if (are_of_two_drivers(sender, receiver)) {
        char clause[GPUD_REASON_MAX];
        if (imports(sender, receiver, clause))
            return true;
        gpud_print_n(why, GPUD_REASON_MAX,
                     "only between GPUs of one vendor, by CUDA or by HIP, or into the same GPU by "
                     "another driver: %s",
                     clause);
        return false;
    }
    if (share_device(sender, receiver) && sender->caps & receiver->caps & GPUD_CAP_SHARE &&
        sender->caps & GPUD_CAP_IMAGES)
        return true; /* one copy inside it makes rows of an image */
    if (strcmp(sender->kind, receiver->kind) != 0 || sender->reach_count == 0) {
        gpud_print_n(why, GPUD_REASON_MAX, "only between GPUs of one vendor, by CUDA or by HIP");
        return false;
    }
    if (!reaches(sender, receiver)) {
        gpud_print_n(
            why, GPUD_REASON_MAX,
            "the sender's driver cannot write the receiver's GPU (%s): is it visible to "
            "the sender (CUDA_VISIBLE_DEVICES, HIP_VISIBLE_DEVICES, the container), and peer "
            "access possible (nvidia-smi topo -p2p w, rocm-smi --showtopo)?",
            receiver->device);
        add_places(sender, receiver, why);
        return false;
    }
    return true;
}

const struct gpud_route_ops gpud_peer_route = {
    .name = "peer",
    .ring = GPUD_RING_RECEIVER,
    .direct = true,
    .signal = GPUD_SIGNAL_PAGE,
    .by_link = true,
    .can_connect = peer_can_connect,
};

/* === directgma =============================================================================== */
/* the sender's copy engine writes over the bus into memory of the receiver's GPU, then
 * its marker. */

/* The cause that a user cannot change comes first: a layer for one end does not help if the other
 * has no OpenCL. */
static bool directgma_can_connect(const struct gpud_endpoint *sender,
                                  const struct gpud_endpoint *receiver, char why[GPUD_REASON_MAX])
{
    if (!share_machine(sender, receiver, why) || !are_opencl(sender, receiver, why))
        return false;
    if (sender->caps & receiver->caps & GPUD_CAP_BUS_ADDRESSABLE)
        return true;
    if (sender->caps & GPUD_CAP_BUS_ADDRESSABLE)
        gpud_print_n(why, GPUD_REASON_MAX, "receiver: %s", receiver->no_direct);
    else
        gpud_print_n(why, GPUD_REASON_MAX, "sender: %s", sender->no_direct);
    return false;
}

const struct gpud_route_ops gpud_directgma_route = {
    .name = "directgma",
    .ring = GPUD_RING_RECEIVER,
    .direct = true,
    .signal = GPUD_SIGNAL_MEMORY,
    .memory_per_slot = true, /* each has its own marker */
    .can_connect = directgma_can_connect,
};

/* === migrate ================================================================================= */
/* both ends are in one process and their devices in one OpenCL context, so both use the
 * sender's slots. The runtime moves a slot to the receiver's device as soon as its frame is
 * submitted, and back when it is written again. */

static bool migrate_can_connect(const struct gpud_endpoint *sender,
                                const struct gpud_endpoint *receiver, char why[GPUD_REASON_MAX])
{
    const struct gpud_endpoint *ends[] = {sender, receiver};
    if (!are_opencl(sender, receiver, why))
        return false;
    if (sender->token != receiver->token) {
        gpud_print_n(why, GPUD_REASON_MAX,
                     "not the same process: only inside one, with one gpud_context, do two "
                     "devices have an OpenCL context in common");
        return false;
    }
    for (int i = 0; i < 2; i++) {
        if (ends[i]->caps & GPUD_CAP_BUS_ADDRESSABLE) {
            gpud_print_n(why, GPUD_REASON_MAX,
                         "no common context: %s has DirectGMA, for which it needs an OpenCL "
                         "context of its own",
                         ends[i]->device);
            return false;
        }
    }
    if (strcmp(sender->device, receiver->device) == 0) {
        gpud_print_n(why, GPUD_REASON_MAX, "both ends are on %s: nothing has to move",
                     sender->device);
        return false;
    }
    if (!sender->common || sender->common != receiver->common) {
        gpud_print_n(why, GPUD_REASON_MAX,
                     "no common context: %s and %s belong to different OpenCL drivers, or their "
                     "driver has refused one for both, as the log says",
                     sender->device, receiver->device);
        return false;
    }
    return true;
}

/* --- the moves ----------------------------------------------------------------------------- */

static bool is_possible(const struct gpud_device *from)
{
    return from->common != NULL;
}

static enum gpud_status migrate_open_queue(struct gpud_device *to, struct gpud_queue **queue,
                                           struct gpud_error *error)
{
    return gpud_queue_create(to, queue, error);
}

static enum gpud_status migrate(struct gpud_queue *queue, struct gpud_memory *slot,
                                struct gpud_queue *written, struct gpud_error *error)
{
    return gpud_queue_migrate(queue, slot, written, false, error);
}

/* Only saves the driver a move. If it fails, the driver moves the slot when it is written, and a
 * failed queue is reported then. */
static void migrate_back(struct gpud_queue *queue, struct gpud_memory *slot)
{
    gpud_queue_migrate(queue, slot, NULL, true, NULL);
}

static const struct gpud_route_slot_ops migrate_slots = {
    .is_possible = is_possible,
    .open = migrate_open_queue,
    .give = migrate,
    .take_back = migrate_back,
};

const struct gpud_route_ops gpud_migrate_route = {
    .name = "migrate",
    .ring = GPUD_RING_SENDER_DEVICE,
    .direct = true,
    .slots = &migrate_slots,
    .can_connect = migrate_can_connect,
};

/* === staged ================================================================================== */
/* Through host pages that both devices read and write; an end on the host itself copies nothing.
 *
 *     staged         pages of the sender, which all its receivers map; other processes read-only
 *     staged-push    pages of the receiver, which this one sender writes: for a receiver whose
 *                    driver cannot pin read-only pages, so that its CPU would copy every
 *                    frame. hipHostRegister() has no flag for such pages; whether a driver takes
 *                    them is tried when the device is opened.
 */

static bool staged_can_connect(const struct gpud_endpoint *sender,
                               const struct gpud_endpoint *receiver, char why[GPUD_REASON_MAX])
{
    if (memcmp(sender->host, receiver->host, sizeof(sender->host)) == 0)
        return true;
    gpud_print_n(why, GPUD_REASON_MAX,
                 "the two ends run on different machines and share no memory");
    return false;
}

/* For frames on the host, a push would make the sender's CPU copy instead of the receiver's, and no
 * fewer times. In one process the receiver can already write the sender's pages. */
static bool can_push(const struct gpud_endpoint *sender, const struct gpud_endpoint *receiver,
                     char why[GPUD_REASON_MAX])
{
    if (!staged_can_connect(sender, receiver, why))
        return false;
    if (!((sender->caps | receiver->caps) & GPUD_CAP_HOST) && sender->token != receiver->token &&
        receiver->caps & GPUD_CAP_PINS_WRITABLE)
        return true;
    gpud_print_n(why, GPUD_REASON_MAX,
                 "only from a device to one of another process whose driver pins no host memory "
                 "that it may only read: staged does as well");
    return false;
}

/* Adds the seconds for a byte between a device and the host's memory, 0 for the host itself. far:
 * the kernel's figure will do if the driver has none; see below. */
static bool add_time(const struct gpud_endpoint *end, bool far, double *time)
{
    uint32_t rate = end->host_rate;
    if (end->caps & GPUD_CAP_HOST)
        return true;
    if (rate == 0 && far)
        rate = gpud_place_bus_rate(end->pci);
    if (rate == 0)
        return false;
    *time += 1 / (rate * 1e6);
    return true;
}

/* Down to the host, then up. */
static double staged_rate(const struct gpud_endpoint *sender, const struct gpud_endpoint *receiver)
{
    bool far = gpud_endpoints_distance(sender, receiver) == GPUD_DISTANCE_SYS;
    double time = 0;
    return add_time(sender, far, &time) && add_time(receiver, far, &time) && time > 0 ? 1 / time
                                                                                      : 0;
}

const struct gpud_route_ops gpud_staged_route = {
    .name = "staged",
    .ring = GPUD_RING_SENDER_HOST,
    .can_connect = staged_can_connect,
    .rate = staged_rate,
};

const struct gpud_route_ops gpud_staged_push_route = {
    .name = "staged-push",
    .ring = GPUD_RING_RECEIVER_HOST,
    .substitute = true,
    .can_connect = can_push,
    .rate = staged_rate,
};

/* === rdma ==================================================================================== */
/* the sender's network card writes into memory of the receiver's host: into the GPU's own if
 * card and GPU can (dmabuf, peermem), else into pinned host memory.
 *
 *     rdma-dmabuf    the GPU's driver exports the memory as a dma-buf, the card's imports it
 *     rdma-peermem   the card's driver asks the GPU's for the pages (nvidia-peermem)
 *     rdma-host      pinned host memory, which GPUs copy from and to by themselves */

#define BY_TCP "the address is tcp://: a network card moves frames to addresses of rdma://"

static bool is_by_tcp(const struct gpud_endpoint *sender, const struct gpud_endpoint *receiver)
{
    return sender->network.ways & receiver->network.ways & GPUD_NETWORK_TCP;
}

/* An end on the host needs no way. false: *why says what is missing. */
static bool has_way(const struct gpud_endpoint *end, const char *role, enum gpud_network_way way,
                    char why[GPUD_REASON_MAX])
{
    if (end->caps & GPUD_CAP_HOST || end->network.ways & (uint32_t)way)
        return true;
    gpud_print_n(why, GPUD_REASON_MAX, "%s, %s and %s: %s", role, end->device, end->network.card,
                 way == GPUD_NETWORK_DMABUF ? end->network.no_dmabuf : end->network.no_peermem);
    return false;
}

static bool can_connect_by(enum gpud_network_way way, const struct gpud_endpoint *sender,
                           const struct gpud_endpoint *receiver, char why[GPUD_REASON_MAX])
{
    if (is_by_tcp(sender, receiver)) {
        gpud_print_n(why, GPUD_REASON_MAX, "%s", BY_TCP);
        return false;
    }
    if (sender->caps & receiver->caps & GPUD_CAP_HOST) {
        gpud_print_n(why, GPUD_REASON_MAX, "no GPU at either end");
        return false;
    }
    return has_way(sender, "sender", way, why) && has_way(receiver, "receiver", way, why);
}

static bool can_connect_by_dmabuf(const struct gpud_endpoint *sender,
                                  const struct gpud_endpoint *receiver, char why[GPUD_REASON_MAX])
{
    return can_connect_by(GPUD_NETWORK_DMABUF, sender, receiver, why);
}

static bool can_connect_by_peermem(const struct gpud_endpoint *sender,
                                   const struct gpud_endpoint *receiver, char why[GPUD_REASON_MAX])
{
    return can_connect_by(GPUD_NETWORK_PEERMEM, sender, receiver, why);
}

static bool can_connect_by_host(const struct gpud_endpoint *sender,
                                const struct gpud_endpoint *receiver, char why[GPUD_REASON_MAX])
{
    if (is_by_tcp(sender, receiver))
        gpud_print_n(why, GPUD_REASON_MAX, "%s", BY_TCP);
    return !is_by_tcp(sender, receiver);
}

const struct gpud_route_ops gpud_rdma_dmabuf_route = {
    .name = "rdma-dmabuf",
    .ring = GPUD_RING_SENDER_DEVICE,
    .direct = true,
    .network = true,
    .can_connect = can_connect_by_dmabuf,
};

const struct gpud_route_ops gpud_rdma_peermem_route = {
    .name = "rdma-peermem",
    .ring = GPUD_RING_SENDER_DEVICE,
    .direct = true,
    .network = true,
    .can_connect = can_connect_by_peermem,
};

const struct gpud_route_ops gpud_rdma_host_route = {
    .name = "rdma-host",
    .ring = GPUD_RING_SENDER_HOST,
    .network = true,
    .can_connect = can_connect_by_host,
};

/* === tcp ===================================================================================== */
/* The kernel's TCP carries the bytes from the sender's host memory into a ring in the receiver's;
 * GPUs copy from and to these pages by themselves. */

static bool tcp_can_connect(const struct gpud_endpoint *sender,
                            const struct gpud_endpoint *receiver, char why[GPUD_REASON_MAX])
{
    if (!is_by_tcp(sender, receiver))
        gpud_print_n(why, GPUD_REASON_MAX, "only by an address like tcp://host:7175");
    return is_by_tcp(sender, receiver);
}

const struct gpud_route_ops gpud_tcp_host_route = {
    .name = "tcp-host",
    .ring = GPUD_RING_SENDER_HOST,
    .network = true,
    .can_connect = tcp_can_connect,
};

/* === select ================================================================================== */
/* The choice of a route, in the order of the table below: fewer copies first, then the shorter way.
 * A later route overtakes only if it is known to be much faster:
 *
 *   - A route that copies from device to device is measured before the first frame, and gives way
 *     if the detour through the host's memory should be half as fast again.
 *   - What the detour should reach comes from the driver's figures, or amdkfd's. With them
 *     every such copy is measured.
 *   - Without them the distance of the two devices decides whether to ask further. In
 *     different NUMA nodes (SYS) the kernel's figures of the PCIe links are used, and the copy is
 *     measured: many processors pass writes between cards on to another processor at a fraction of
 *     the bus's speed. Behind one switch, below one host bridge or in one node (PIX, PXB, PHB,
 *     NODE), or if nothing is known, the detour would avoid nothing, and the copy is not measured.
 *   - A distance alone never changes the order: NVLink and xGMI join cards of different nodes, and
 *     the bus between those does not matter then.
 *
 * The reasons state a distance, with both positions, where it matters. */

#ifndef GPUD_TEST_ROUTE /* of the tests' own, see tests/toy */
#define GPUD_TEST_ROUTE(X)
#endif

/* clang-format off */
#define TABLE(X)                \
    X(gpud_map_route)           \
    X(gpud_peer_route)          \
    X(gpud_directgma_route)     \
    X(gpud_migrate_route)       \
    X(gpud_staged_push_route)   \
    X(gpud_staged_route)        \
    X(gpud_rdma_dmabuf_route)   \
    X(gpud_rdma_peermem_route)  \
    X(gpud_rdma_host_route)     \
    X(gpud_tcp_host_route)      \
    GPUD_TEST_ROUTE(X)

/* clang-format on */

#define DECLARE(route) extern const struct gpud_route_ops route;
#define POINT_TO(route) &route,

TABLE(DECLARE)
static const struct gpud_route_ops *const routes[] = {TABLE(POINT_TO)};

#define ROUTES (sizeof(routes) / sizeof(routes[0]))

struct gpud_route_trials {
    char link[GPUD_REASON_MAX]; /* why the devices have no link; "": unknown */
    enum gpud_degraded link_kind;
    struct {
        bool failed;
        enum gpud_degraded kind;      /* if it failed */
        char reason[GPUD_REASON_MAX]; /* likewise */
        double rate;                  /* bytes per second, as measured; 0: not measured */
    } route[ROUTES];                  /* by position in the table */
};

/* --- what follows from a route's description ------------------------------------------------ */

enum gpud_signal_place gpud_route_signal(const struct gpud_route_ops *route,
                                         const struct gpud_endpoint *sender,
                                         const struct gpud_endpoint *receiver)
{
    if (route->signal == GPUD_SIGNAL_PAGE &&
        !(sender->caps & receiver->caps & GPUD_CAP_PAGE_SIGNALS))
        return GPUD_SIGNAL_NONE;
    return route->signal;
}

bool gpud_route_has_signal(const struct gpud_route_ops *route, enum gpud_signal_place signal,
                           uint32_t receiver_caps)
{
    if (signal == GPUD_SIGNAL_NONE)
        return route->signal != GPUD_SIGNAL_MEMORY;
    return signal == route->signal &&
           (signal == GPUD_SIGNAL_MEMORY || receiver_caps & GPUD_CAP_PAGE_SIGNALS);
}

bool gpud_route_is_detour(const struct gpud_route_ops *route, uint32_t caps)
{
    return !route->direct && !(route->network && caps & GPUD_CAP_HOST);
}

bool gpud_route_gives_slots(const struct gpud_device *device)
{
    for (size_t i = 0; i < ROUTES; i++)
        if (routes[i]->slots && routes[i]->slots->is_possible(device))
            return true;
    return false;
}

/* --- what can connect ------------------------------------------------------------------------ */

static bool is_by_network(const struct gpud_endpoint *sender, const struct gpud_endpoint *receiver)
{
    return sender->network.card[0] && receiver->network.card[0];
}

static bool connects(const struct gpud_route_ops *route, const struct gpud_endpoint *sender,
                     const struct gpud_endpoint *receiver, char why[GPUD_REASON_MAX])
{
    bool by_network = is_by_network(sender, receiver);
    if (route->network == by_network)
        return route->can_connect(sender, receiver, why);
    gpud_print_n(
        why, GPUD_REASON_MAX, "%s",
        by_network ? "the address leads over a network, which carries no shared memory: "
                     "on one host use a name"
                   : "only between hosts, by an address like tcp://host:7175 or rdma://host:7174");
    return false;
}

/* What the users of both ends allow. */
static bool allowed(const struct gpud_route_ops *route, const struct gpud_endpoint *sender,
                    const struct gpud_endpoint *receiver, char why[GPUD_REASON_MAX])
{
    const struct gpud_endpoint *ends[] = {sender, receiver};
    for (int i = 0; i < 2; i++) {
        if (ends[i]->route[0] && strcmp(ends[i]->route, route->name) != 0) {
            gpud_print_n(why, GPUD_REASON_MAX, "only the route \"%s\" was asked for",
                         ends[i]->route);
            return false;
        }
    }
    if (gpud_route_is_detour(route, sender->caps & receiver->caps) &&
        (sender->require_direct || receiver->require_direct)) {
        gpud_print_n(why, GPUD_REASON_MAX, "require-direct forbids the detour through host memory");
        return false;
    }
    return true;
}

/* Slots that are images are read in place by a receiver that takes those of the very same GPU. For
 * all others a route that copies makes rows of them: on the same GPU `peer`, by one copy there. */
static bool takes_slots(const struct gpud_route_ops *route, const struct gpud_endpoint *sender,
                        const struct gpud_endpoint *receiver, char why[GPUD_REASON_MAX])
{
    bool same = !route->network && share_device(sender, receiver);
    if (!(sender->caps & GPUD_CAP_IMAGES) || route->ring != GPUD_RING_SENDER_DEVICE ||
        (same && receiver->caps & GPUD_CAP_IMAGES))
        return true;
    gpud_print_n(
        why, GPUD_REASON_MAX,
        "the sender's frames are images, as the driver of %s arranges them, and the receiver %s",
        sender->device,
        same ? "asked for rows (gpud_receiver_params.modifiers)" : "is on another device");
    return false;
}

/* *kind: set if it is not. */
static bool possible(const struct gpud_route_ops *route, const struct gpud_endpoint *sender,
                     const struct gpud_endpoint *receiver, const struct gpud_route_trials *trials,
                     char why[GPUD_REASON_MAX], enum gpud_degraded *kind)
{
    *kind = GPUD_DEGRADED_NO;
    if (!allowed(route, sender, receiver, why) || !takes_slots(route, sender, receiver, why))
        return false;
    if (connects(route, sender, receiver, why))
        return true;
    if (route->by_link && trials->link[0]) {
        gpud_print_n(why, GPUD_REASON_MAX, "%s", trials->link);
        *kind = trials->link_kind;
    }
    return false;
}

/* "map: …; directgma: …", as much as fits. */
static void select_add_reason(char fallback_reason[GPUD_REASON_MAX], const char *route,
                              const char *why)
{
    size_t used = strlen(fallback_reason);
    gpud_print_n(fallback_reason + used, GPUD_REASON_MAX - used, "%s%s: %s", used ? "; " : "",
                 route, why);
}

static size_t select_place_of(const struct gpud_route_ops *route)
{
    size_t place = 0;
    while (routes[place] != route)
        place++;
    return place;
}

/* --- trials -------------------------------------------------------------------------------- */

struct gpud_route_trials *gpud_route_trials_create(void)
{
    return calloc(1, sizeof(struct gpud_route_trials));
}

void gpud_route_trials_destroy(struct gpud_route_trials **trials)
{
    free(*trials);
    *trials = NULL;
}

void gpud_route_note_link(struct gpud_route_trials *trials, enum gpud_degraded kind,
                          const char *why)
{
    trials->link_kind = kind;
    gpud_print(trials->link, "%s", why);
}

void gpud_route_failed(struct gpud_route_trials *trials, const struct gpud_route_ops *route,
                       enum gpud_degraded kind, const char *reason)
{
    size_t place = select_place_of(route);
    trials->route[place].failed = true;
    trials->route[place].kind = kind;
    gpud_print(trials->route[place].reason, "%s", reason);
}

void gpud_route_forget_failures(struct gpud_route_trials *trials)
{
    for (size_t i = 0; i < ROUTES; i++)
        trials->route[i].failed = false;
}

void gpud_route_exclude_foreign(struct gpud_route_trials *trials,
                                const struct gpud_endpoint *sender)
{
    for (size_t i = 0; i < ROUTES; i++) {
        const char *why = routes[i]->refuse_foreign ? routes[i]->refuse_foreign(sender) : NULL;
        if (why)
            gpud_route_failed(trials, routes[i], GPUD_DEGRADED_USER, why);
    }
}

void gpud_route_exclude_readers(struct gpud_route_trials *trials, const struct gpud_device *from,
                                const struct gpud_device *to, const struct gpud_device *reader)
{
    char why[GPUD_REASON_MAX];
    gpud_print(why,
               "the slots go to %s for another receiver, and are not moved to and fro between "
               "several devices: a sender of its own would serve this one",
               reader->info.name);
    for (size_t i = 0; i < ROUTES; i++)
        if (routes[i]->ring == GPUD_RING_SENDER_DEVICE && !routes[i]->network &&
            gpud_route_reader(routes[i], from, to) != reader)
            gpud_route_failed(trials, routes[i], GPUD_DEGRADED_NO, why);
}

/* --- speed --------------------------------------------------------------------------------- */

/* How much faster a detour must be: it takes the host's memory from others, and vendors' figures
 * are seldom reached. */
#define WORTH_A_DETOUR 1.5

static double select_rate_of(size_t place, const struct gpud_endpoint *sender,
                             const struct gpud_endpoint *receiver,
                             const struct gpud_route_trials *trials)
{
    if (trials->route[place].rate > 0)
        return trials->route[place].rate;
    return routes[place]->rate ? routes[place]->rate(sender, receiver) : 0;
}

/* The fastest later route with a known rate; ROUTES: none. */
static size_t find_rival(size_t place, const struct gpud_endpoint *sender,
                         const struct gpud_endpoint *receiver,
                         const struct gpud_route_trials *trials, double *rate)
{
    size_t found = ROUTES;
    *rate = 0;
    for (size_t i = place + 1; i < ROUTES; i++) {
        char why[GPUD_REASON_MAX];
        enum gpud_degraded kind;
        double its = select_rate_of(i, sender, receiver, trials);
        if (its <= *rate || trials->route[i].failed ||
            !possible(routes[i], sender, receiver, trials, why, &kind))
            continue;
        *rate = its;
        found = i;
    }
    return found;
}

bool gpud_route_wants_rate(const struct gpud_route_ops *route, const struct gpud_endpoint *sender,
                           const struct gpud_endpoint *receiver,
                           const struct gpud_route_trials *trials)
{
    size_t place = select_place_of(route);
    double rate;
    return route->ring == GPUD_RING_RECEIVER && trials->route[place].rate <= 0 &&
           find_rival(place, sender, receiver, trials, &rate) < ROUTES;
}

void gpud_route_measured(struct gpud_route_trials *trials, const struct gpud_route_ops *route,
                         double rate)
{
    trials->route[select_place_of(route)].rate = rate;
}

/* The route that overtakes this one, or this one. */
static size_t overtake(size_t place, const struct gpud_endpoint *sender,
                       const struct gpud_endpoint *receiver, const struct gpud_route_trials *trials,
                       char fallback_reason[GPUD_REASON_MAX])
{
    char why[GPUD_REASON_MAX];
    double rate, own = select_rate_of(place, sender, receiver, trials);
    size_t rival = find_rival(place, sender, receiver, trials, &rate);
    if (own <= 0 || rival == ROUTES || rate < own * WORTH_A_DETOUR)
        return place;
    gpud_print(why, "only %.1f GB/s were measured, where %s should reach %.1f", own / 1e9,
               routes[rival]->name, rate / 1e9);
    add_places(sender, receiver, why);
    select_add_reason(fallback_reason, routes[place]->name, why);
    return rival;
}

/* --- the choice ---------------------------------------------------------------------------- */

const struct gpud_route_ops *gpud_route_select(const struct gpud_endpoint *sender,
                                               const struct gpud_endpoint *receiver,
                                               const struct gpud_route_trials *trials,
                                               char fallback_reason[GPUD_REASON_MAX],
                                               enum gpud_degraded *degraded)
{
    fallback_reason[0] = '\0';
    *degraded = GPUD_DEGRADED_NO;
    for (size_t i = 0; i < ROUTES; i++) {
        char why[GPUD_REASON_MAX] = "";
        enum gpud_degraded kind;
        if (routes[i]->network != is_by_network(sender, receiver))
            continue; /* users would not expect it there, so it needs no reason */
        bool is_possible = possible(routes[i], sender, receiver, trials, why, &kind);
        if (trials->route[i].failed) {
            select_add_reason(fallback_reason, routes[i]->name, trials->route[i].reason);
            if (is_possible)
                kind = trials->route[i].kind;
        } else if (is_possible) {
            return routes[overtake(i, sender, receiver, trials, fallback_reason)];
        } else if (!routes[i]->substitute || sender->route[0] || receiver->route[0]) {
            select_add_reason(fallback_reason, routes[i]->name, why);
        }
        if (*degraded == GPUD_DEGRADED_NO)
            *degraded = kind;
    }
    return NULL;
}

const struct gpud_route_ops *gpud_route_find(const char *name)
{
    for (size_t i = 0; i < ROUTES; i++)
        if (strcmp(routes[i]->name, name) == 0)
            return routes[i];
    return NULL;
}

enum gpud_status gpud_route_check_params(uint32_t slots, enum gpud_slow_receiver slow_receiver,
                                         const char *route, struct gpud_error *error)
{
    char known[GPUD_REASON_MAX] = "";
    size_t used = 0;
    if (slots > GPUD_SLOTS_MAX)
        return gpud_fail(error, GPUD_INVALID, "%u slots: 1 to %d are possible", slots,
                         GPUD_SLOTS_MAX);
    if (slow_receiver > GPUD_SLOW_DROP_OLDEST)
        return gpud_fail(error, GPUD_INVALID, "slow_receiver %d does not exist",
                         (int)slow_receiver);
    if (!route || gpud_route_find(route))
        return GPUD_OK;
    for (size_t i = 0; i < ROUTES && used < sizeof(known); i++) {
        const char *before = i == 0 ? "" : i + 1 < ROUTES ? ", " : " and ";
        gpud_print_n(known + used, sizeof(known) - used, "%s%s", before, routes[i]->name);
        used = strlen(known);
    }
    return gpud_fail(error, GPUD_INVALID, "there is no route \"%.31s\": %s exist", route, known);
}

size_t gpud_route_explain(struct gpud_device *from, struct gpud_device *to, bool same_process,
                          struct gpud_route_info *infos, size_t max)
{
    struct gpud_endpoint sender, receiver;
    bool two_cards = from->info.pci[0] && to->info.pci[0] && from != to;
    gpud_endpoint_describe(&sender, from, NULL);
    gpud_endpoint_describe(&receiver, to, NULL);
    if (!same_process)
        receiver.token = ~sender.token;
    for (size_t i = 0; i < ROUTES && i < max; i++) {
        struct gpud_route_info info = {0};
        struct gpud_device_link link = GPUD_INFO_INIT(link);
        gpud_print(info.name, "%s", routes[i]->name);
        info.possible = connects(routes[i], &sender, &receiver, info.reason);
        /* Asks buses and drivers where the route only knows that it is impossible. */
        if (!info.possible && routes[i]->by_link && two_cards)
            gpud_device_get_link(from, to, &link);
        if (!link.direct && link.reason[0])
            gpud_print(info.reason, "%s", link.reason);
        gpud_sized_entry(infos, max, i, &info, sizeof(info));
    }
    return ROUTES;
}
