/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The choice of a route, by the order of the table below: fewer copies first, then the shorter way,
 * from which a later route departs only where it is known to be much faster:
 *
 *   - A route that copies from device to device is measured before the first frame, and gives way
 *     where the detour through the host's memory should be half as fast again.
 *   - What the detour should reach is for figures to say: the driver's, or amdkfd's. With them
 *     every such copy is measured.
 *   - Where there are none, the distance of the two devices decides whether to ask further. In
 *     different NUMA nodes (SYS) the kernel's figures of the PCIe links stand in, and the copy is
 *     measured: many a processor passes writes from card to card on to another one at a fraction of
 *     the bus's speed. Behind one switch, below one host bridge or in one node (PIX, PXB, PHB,
 *     NODE) the detour has nothing to avoid, and the copy is taken as it is; so it is where nothing
 *     is known.
 *   - A distance alone never changes the order: NVLink and xGMI join cards of different nodes, and
 *     the bus between those does not matter then.
 *
 * Distances stand in the reasons, where they matter, with both places. */
#include "route/route.h"

#include "base/host.h"
#include "base/sized.h"
#include "device/device.h"
#include "topology/kfd.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

/* Best first: fewer copies, then the shorter way. A later one overtakes where it is much faster. */
static const struct gpud_route_ops *const routes[] = {
    &gpud_map_route,         &gpud_peer_route,         &gpud_directgma_route,
    &gpud_migrate_route,     &gpud_staged_push_route,  &gpud_staged_route,
    &gpud_rdma_dmabuf_route, &gpud_rdma_peermem_route, &gpud_rdma_host_route,
};
#define ROUTES (sizeof(routes) / sizeof(routes[0]))
_Static_assert(ROUTES <= GPUD_ROUTES_MAX, "trials have room for every route");

void gpud_endpoint_describe(struct gpud_endpoint *endpoint, const struct gpud_device *device,
                            const char *name)
{
    memset(endpoint, 0, sizeof(*endpoint));
    gpud_print(endpoint->name, "%s", name ? name : program_invocation_short_name);
    gpud_print(endpoint->device, "%s", device->info.name);
    gpud_print(endpoint->kind, "%s", gpud_device_kind(device));
    gpud_print(endpoint->no_direct, "%s", device->no_direct);
    endpoint->caps = device->caps;
    endpoint->aperture = device->aperture;
    endpoint->common = device->common;
    endpoint->token = device->context->token;
    memcpy(endpoint->uuid, device->uuid, sizeof(endpoint->uuid));
    for (size_t i = 0; i + 1 < sizeof(endpoint->pci) && device->info.pci[i]; i++)
        endpoint->pci[i] = (char)tolower((unsigned char)device->info.pci[i]); /* CUDA's capitals */
    endpoint->host_rate = device->host_rate;
    if (endpoint->host_rate == 0) /* the driver does not say; of AMD's GPUs the kernel does */
        endpoint->host_rate = gpud_kfd_host_rate(gpud_kfd_get(), device->info.pci);
    endpoint->reach_count = device->reach_count;
    memcpy(endpoint->reach, device->reach, sizeof(endpoint->reach));
    gpud_host_read_id(endpoint->host);
    endpoint->time_namespace = gpud_host_time_namespace();
}

bool gpud_endpoints_share_device(const struct gpud_endpoint *a, const struct gpud_endpoint *b)
{
    static const uint8_t none[16];
    if (strcmp(a->kind, b->kind) != 0)
        return false;
    /* An index is each process's own affair: CUDA_VISIBLE_DEVICES renumbers. */
    if (memcmp(a->uuid, none, sizeof(none)) != 0 || memcmp(b->uuid, none, sizeof(none)) != 0)
        return memcmp(a->uuid, b->uuid, sizeof(a->uuid)) == 0;
    return strcmp(a->device, b->device) == 0;
}

bool gpud_endpoints_share_clock(const struct gpud_endpoint *a, const struct gpud_endpoint *b,
                                bool one_host)
{
    return one_host && memcmp(a->host, b->host, sizeof(a->host)) == 0 &&
           a->time_namespace == b->time_namespace;
}

enum gpud_signal_place gpud_route_signal(const struct gpud_route_ops *route,
                                         const struct gpud_endpoint *sender,
                                         const struct gpud_endpoint *receiver)
{
    if (route->signal == GPUD_SIGNAL_PAGE &&
        !(sender->caps & receiver->caps & GPUD_CAP_PAGE_SIGNALS))
        return GPUD_SIGNAL_NONE;
    return route->signal;
}

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
    gpud_print_n(why, GPUD_REASON_MAX, "%s",
                 by_network ? "the address leads over a network, which carries no shared memory: "
                              "on one host use a name"
                            : "only between hosts, by an address like rdma://host:7174");
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
    /* Between hosts nothing goes round by way of the host where that is both ends. */
    bool detour =
        !route->direct && !(route->network && sender->caps & receiver->caps & GPUD_CAP_HOST);
    if (detour && (sender->require_direct || receiver->require_direct)) {
        gpud_print_n(why, GPUD_REASON_MAX, "require-direct forbids the detour through host memory");
        return false;
    }
    return true;
}

static bool possible(const struct gpud_route_ops *route, const struct gpud_endpoint *sender,
                     const struct gpud_endpoint *receiver, const struct gpud_route_trials *trials,
                     char why[GPUD_REASON_MAX])
{
    if (!allowed(route, sender, receiver, why))
        return false;
    if (connects(route, sender, receiver, why))
        return true;
    if (route->by_link && trials->link[0])
        gpud_print_n(why, GPUD_REASON_MAX, "%s", trials->link);
    return false;
}

/* "map: …; directgma: …", as much as fits. */
static void add_reason(char fallback_reason[GPUD_REASON_MAX], const char *route, const char *why)
{
    size_t used = strlen(fallback_reason);
    gpud_print_n(fallback_reason + used, GPUD_REASON_MAX - used, "%s%s: %s", used ? "; " : "",
                 route, why);
}

static size_t place_of(const struct gpud_route_ops *route)
{
    size_t place = 0;
    while (routes[place] != route)
        place++;
    return place;
}

/* --- speed --------------------------------------------------------------------------------- */

/* What a detour must be faster by: it takes the host's memory from others, and vendors' figures are
 * seldom reached. */
#define WORTH_A_DETOUR 1.5

static double rate_of(size_t place, const struct gpud_endpoint *sender,
                      const struct gpud_endpoint *receiver, const struct gpud_route_trials *trials)
{
    if (trials->rate[place] > 0)
        return trials->rate[place];
    return routes[place]->rate ? routes[place]->rate(sender, receiver) : 0;
}

/* The fastest route behind this place that has a known rate; ROUTES: there is none. */
static size_t find_rival(size_t place, const struct gpud_endpoint *sender,
                         const struct gpud_endpoint *receiver,
                         const struct gpud_route_trials *trials, double *rate)
{
    size_t found = ROUTES;
    *rate = 0;
    for (size_t i = place + 1; i < ROUTES; i++) {
        char why[GPUD_REASON_MAX];
        double its = rate_of(i, sender, receiver, trials);
        if (its <= *rate || trials->failed & 1u << i ||
            !possible(routes[i], sender, receiver, trials, why))
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
    size_t place = place_of(route);
    double rate;
    return route->ring == GPUD_RING_RECEIVER && trials->rate[place] <= 0 &&
           find_rival(place, sender, receiver, trials, &rate) < ROUTES;
}

void gpud_route_measured(struct gpud_route_trials *trials, const struct gpud_route_ops *route,
                         double rate)
{
    trials->rate[place_of(route)] = rate;
}

/* The route that overtakes this one, or the one itself. */
static size_t overtake(size_t place, const struct gpud_endpoint *sender,
                       const struct gpud_endpoint *receiver, const struct gpud_route_trials *trials,
                       char fallback_reason[GPUD_REASON_MAX])
{
    char why[GPUD_REASON_MAX];
    double rate, own = rate_of(place, sender, receiver, trials);
    size_t rival = find_rival(place, sender, receiver, trials, &rate);
    if (own <= 0 || rival == ROUTES || rate < own * WORTH_A_DETOUR)
        return place;
    gpud_print(why, "only %.1f GB/s were measured, where %s should reach %.1f", own / 1e9,
               routes[rival]->name, rate / 1e9);
    gpud_endpoints_add_places(sender, receiver, why);
    add_reason(fallback_reason, routes[place]->name, why);
    return rival;
}

/* --- the choice ---------------------------------------------------------------------------- */

const struct gpud_route_ops *gpud_route_select(const struct gpud_endpoint *sender,
                                               const struct gpud_endpoint *receiver,
                                               const struct gpud_route_trials *trials,
                                               char fallback_reason[GPUD_REASON_MAX])
{
    fallback_reason[0] = '\0';
    for (size_t i = 0; i < ROUTES; i++) {
        char why[GPUD_REASON_MAX] = "";
        if (routes[i]->network != is_by_network(sender, receiver))
            continue; /* nothing that a user would expect there */
        if (trials->failed & 1u << i)
            add_reason(fallback_reason, routes[i]->name, trials->reason[i]);
        else if (possible(routes[i], sender, receiver, trials, why))
            return routes[overtake(i, sender, receiver, trials, fallback_reason)];
        else if (!routes[i]->substitute || sender->route[0] || receiver->route[0])
            add_reason(fallback_reason, routes[i]->name, why);
    }
    return NULL;
}

void gpud_route_failed(struct gpud_route_trials *trials, const struct gpud_route_ops *route,
                       const char *reason)
{
    size_t place = place_of(route);
    trials->failed |= 1u << place;
    gpud_print(trials->reason[place], "%s", reason);
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
    if (slots > GPUD_SLOTS_MAX)
        return gpud_fail(error, GPUD_INVALID, "%u slots: 1 to %d are possible", slots,
                         GPUD_SLOTS_MAX);
    if (slow_receiver > GPUD_SLOW_DROP_OLDEST)
        return gpud_fail(error, GPUD_INVALID, "slow_receiver %d does not exist",
                         (int)slow_receiver);
    if (route && !gpud_route_find(route))
        return gpud_fail(
            error, GPUD_INVALID,
            "there is no route \"%.31s\": map, peer, directgma, migrate, staged-push, staged, "
            "rdma-dmabuf, rdma-peermem and rdma-host exist",
            route);
    return GPUD_OK;
}

/* What the buses and drivers say of two cards, where a route only knows that it is not possible. */
static void explain_link(const struct gpud_device *from, const struct gpud_device *to,
                         char reason[GPUD_REASON_MAX])
{
    struct gpud_device_link link = GPUD_INFO_INIT(link);
    if (!from->info.pci[0] || !to->info.pci[0] || from == to)
        return;
    gpud_device_get_link(from, to, &link);
    if (!link.direct && link.reason[0])
        gpud_print_n(reason, GPUD_REASON_MAX, "%s", link.reason);
}

size_t gpud_route_explain(struct gpud_device *from, struct gpud_device *to, bool same_process,
                          struct gpud_route_info *infos, size_t max)
{
    struct gpud_endpoint sender, receiver;
    gpud_endpoint_describe(&sender, from, NULL);
    gpud_endpoint_describe(&receiver, to, NULL);
    if (!same_process)
        receiver.token = ~sender.token;
    for (size_t i = 0; i < ROUTES && i < max; i++) {
        struct gpud_route_info info = {0};
        gpud_print(info.name, "%s", routes[i]->name);
        info.possible = connects(routes[i], &sender, &receiver, info.reason);
        if (!info.possible && routes[i]->by_link)
            explain_link(from, to, info.reason);
        gpud_sized_entry(infos, max, i, &info, sizeof(info));
    }
    return ROUTES;
}
