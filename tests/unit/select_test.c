/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The choice of a route: the best that both ends support, and the reason against each better. */
#include "device/device.h"
#include "route/route.h"
#include "support/check.h"
#include "support/make.h"

static struct gpud_endpoint host_end(void)
{
    struct gpud_endpoint end = {
        .name = "a host", .device = "host", .kind = "host", .caps = GPUD_CAP_HOST | GPUD_CAP_SHARE};
    memset(end.host, 1, sizeof(end.host));
    return end;
}

static struct gpud_endpoint gpu_end(const char *device, bool bus_addressable)
{
    struct gpud_endpoint end = {.name = "a gpu", .kind = "opencl"};
    gpud_print(end.device, "%s", device);
    end.caps = bus_addressable ? GPUD_CAP_BUS_ADDRESSABLE : 0;
    gpud_print(end.no_direct, "%s", bus_addressable ? "" : "no cl_amd_bus_addressable_memory");
    memset(end.host, 1, sizeof(end.host));
    return end;
}

static enum gpud_degraded degraded; /* of the last choice */

static const char *against_of(const struct gpud_endpoint *sender,
                              const struct gpud_endpoint *receiver,
                              const struct gpud_route_trials *trials, const char *wanted)
{
    static char against[GPUD_REASON_MAX];
    struct gpud_route_trials *none = gpud_route_trials_create();
    memset(against, 'x', sizeof(against));
    const struct gpud_route_ops *route =
        gpud_route_select(sender, receiver, trials ? trials : none, against, &degraded);
    gpud_route_trials_destroy(&none);
    CHECK(memchr(against, '\0', sizeof(against)), "the reasons have no end");
    const char *got = route ? route->name : "none";
    if (strcmp(got, wanted) != 0)
        FAIL("%s to %s goes by %s instead of %s (%s)", sender->device, receiver->device, got,
             wanted, against);
    return against;
}

/* Without trials: the route, and what speaks against a better one. */
#define GOES(sender, receiver, wanted, says) \
    CHECK_SAYS(against_of(sender, receiver, NULL, wanted), says)

static struct gpud_endpoint cuda_end(const char *device, uint8_t uuid)
{
    struct gpud_endpoint end = {.name = "a gpu", .kind = "cuda", .reach_count = 1, .token = uuid};
    gpud_print(end.device, "%s", device);
    end.caps = GPUD_CAP_SHARE | GPUD_CAP_SIGNALS | GPUD_CAP_PAGE_SIGNALS;
    memset(end.uuid, uuid, sizeof(end.uuid));
    memset(end.reach[0], uuid, sizeof(end.uuid));
    memset(end.host, 1, sizeof(end.host));
    return end;
}

static void test_choice(void)
{
    struct gpud_endpoint host = host_end(), host2 = host_end();
    struct gpud_endpoint gpu = gpu_end("opencl:0", true), gpu2 = gpu_end("opencl:1", true);
    struct gpud_endpoint plain = gpu_end("opencl:0", false), plain2 = gpu_end("opencl:1", false);
    host.token = 1;
    host2.token = gpu.token = 2;
    gpu2.token = plain.token = 3;
    plain2.token = 4;

    CHECK_TEXT(against_of(&host, &host2, NULL, "map"), "");
    const char *why = against_of(&gpu, &gpu2, NULL, "directgma");
    CHECK_SAYS(why, "map: the frames are on opencl:0 and are wanted on opencl:1");
    why = against_of(&host, &gpu, NULL, "staged");
    CHECK_SAYS(why, "map: ");
    CHECK_SAYS(why, "directgma: only between OpenCL devices, not host");
    GOES(&gpu, &host, "staged", "directgma: only between OpenCL devices, not host");
    GOES(&plain, &plain2, "staged", "directgma: sender: no cl_amd_bus_addressable_memory");
    GOES(&gpu, &plain2, "staged", "directgma: receiver: no cl_amd_bus_addressable_memory");

    /* The same device: by pointer inside a process; between processes only if the driver can
     * export. */
    struct gpud_endpoint here = gpu, there = gpu;
    CHECK_TEXT(against_of(&here, &there, NULL, "map"), "");
    there.token = 77;
    GOES(&here, &there, "directgma", "map: the driver of opencl:0 cannot export memory");
    here.caps |= GPUD_CAP_SHARE;
    against_of(&here, &there, NULL, "map");

    /* What either side asks for. */
    host = host_end();
    gpu = gpu_end("opencl:0", false);
    host.token = 1;
    gpu.token = 2;
    for (int side = 0; side < 2; side++) {
        struct gpud_endpoint s = host, r = gpu, s2 = host, r2 = host;
        r2.token = 5;
        (side ? &r : &s)->require_direct = 1;
        GOES(&s, &r, "none", "staged: require-direct forbids");
        (side ? &r2 : &s2)->require_direct = 1;
        against_of(&s2, &r2, NULL, "map");

        strcpy((side ? &r2 : &s2)->route, "staged");
        (side ? &r2 : &s2)->require_direct = 0;
        GOES(&s2, &r2, "staged", "map: only the route \"staged\" was asked for");
        strcpy((side ? &r2 : &s2)->route, "directgma");
        GOES(&s2, &r2, "none", "directgma: only between OpenCL devices, not host");
    }
    struct gpud_endpoint s = host, r = host;
    r.token = 9;
    strcpy(s.route, "map");
    strcpy(r.route, "staged");
    GOES(&s, &r, "none", "only the route");

    struct gpud_endpoint a = cuda_end("cuda:0", 10), b = cuda_end("cuda:1", 20);
    host = host_end();
    const struct gpud_route_ops *map = gpud_route_find("map"), *peer = gpud_route_find("peer");

    /* The hardware counts, not what a process calls it. */
    struct gpud_endpoint renamed = a;
    renamed.token = 99;
    gpud_print(renamed.device, "cuda:7");
    against_of(&a, &renamed, NULL, "map");
    struct gpud_endpoint other = b;
    gpud_print(other.device, "cuda:0");
    GOES(&a, &other, "staged", "map: the frames are on cuda:0");

    GOES(&a, &b, "staged", "peer: the sender's driver cannot write");
    memcpy(a.reach[a.reach_count++], b.uuid, sizeof(b.uuid));
    GOES(&a, &b, "peer", "map: the frames are on cuda:0 and are wanted on cuda:1");
    GOES(&b, &a, "staged", "peer: "); /* one way says nothing of the other */
    GOES(&a, &host, "staged", "peer: only between GPUs of one vendor");
    memset(b.host, 2, sizeof(b.host));
    GOES(&a, &b, "none", "peer: the two ends run on different machines");

    CHECK_EQUAL(gpud_route_signal(map, &a, &renamed), GPUD_SIGNAL_PAGE);
    CHECK_EQUAL(gpud_route_signal(map, &host, &host), GPUD_SIGNAL_NONE);
    renamed.caps &= ~(uint32_t)GPUD_CAP_PAGE_SIGNALS;
    CHECK_EQUAL(gpud_route_signal(map, &a, &renamed), GPUD_SIGNAL_NONE);
    CHECK_EQUAL(gpud_route_signal(peer, &a, &b), GPUD_SIGNAL_PAGE);
    CHECK_EQUAL(gpud_route_signal(gpud_route_find("directgma"), &a, &b), GPUD_SIGNAL_MEMORY);
    CHECK_EQUAL(gpud_route_signal(gpud_route_find("staged"), &a, &b), GPUD_SIGNAL_NONE);

    /* Two drivers of one GPU, which is proved by nothing but its UUID. */
    struct gpud_endpoint cuda = cuda_end("cuda:0", 10), opencl = gpu_end("opencl:3", false);
    why = against_of(&cuda, &opencl, NULL, "staged");
    CHECK_SAYS(why,
               "map: the frames are on cuda:0 and are wanted on opencl:3: the driver of opencl:3 "
               "imports no memory");
    opencl.caps |= GPUD_CAP_IMPORT;
    GOES(&cuda, &opencl, "staged", "the driver of opencl:3 does not tell which");
    memset(opencl.uuid, 20, sizeof(opencl.uuid));
    GOES(&cuda, &opencl, "staged", "cuda:0 and opencl:3 are different GPUs");
    GOES(&opencl, &cuda, "staged", "cuda:0 and opencl:3 are different GPUs");
    memset(opencl.uuid, 10, sizeof(opencl.uuid));
    CHECK_TEXT(against_of(&cuda, &opencl, NULL, "map"), "");
    opencl.token = cuda.token; /* in one process, too, it goes by descriptor */
    CHECK_TEXT(against_of(&cuda, &opencl, NULL, "map"), "");
    CHECK_EQUAL(gpud_route_signal(gpud_route_find("map"), &cuda, &opencl), GPUD_SIGNAL_NONE);
    GOES(&opencl, &cuda, "peer", "map: the frames are on opencl:3");
    CHECK_EQUAL(gpud_route_signal(gpud_route_find("peer"), &opencl, &cuda), GPUD_SIGNAL_NONE);

    memset(cuda.uuid, 0, sizeof(cuda.uuid));
    GOES(&cuda, &opencl, "staged", "the driver of cuda:0 does not tell which");
    memset(cuda.uuid, 10, sizeof(cuda.uuid));
    cuda.caps &= ~(uint32_t)GPUD_CAP_SHARE;
    GOES(&cuda, &opencl, "staged", "the driver of cuda:0 exports no memory");
    GOES(&opencl, &cuda, "staged", "the driver of cuda:0 exports no memory");
}

static void test_trials(void)
{
    struct gpud_endpoint s = host_end(), r = host_end();
    r.token = 9;
    struct gpud_route_trials *trials = gpud_route_trials_create();
    gpud_route_failed(trials, gpud_route_find("map"), GPUD_DEGRADED_FAILED,
                      "the pattern did not arrive");
    CHECK_SAYS(against_of(&s, &r, trials, "staged"), "map: the pattern did not arrive");
    gpud_route_failed(trials, gpud_route_find("staged"), GPUD_DEGRADED_FAILED, "nor here");
    const char *why = against_of(&s, &r, trials, "none");
    CHECK_SAYS(why, "map: the pattern did not arrive");
    CHECK_SAYS(why, "staged: nor here");
    CHECK(!gpud_route_find("") && !gpud_route_find("MAP") && !gpud_route_find("peerless"),
          "not a route");

    /* However long the reasons are, they end. */
    char longest[400];
    memset(longest, 'y', sizeof(longest));
    longest[399] = '\0';
    gpud_route_trials_destroy(&trials);
    trials = gpud_route_trials_create();
    const char *names[] = {"map", "peer", "directgma", "migrate", "staged"};
    for (int i = 0; i < 5; i++)
        gpud_route_failed(trials, gpud_route_find(names[i]), GPUD_DEGRADED_FAILED, longest);
    against_of(&s, &r, trials, "none");
    gpud_route_trials_destroy(&trials);

    /* A driver that pins only what its process may write: the CPU would carry what it may read. */
    struct gpud_endpoint gpu = cuda_end("cuda:0", 10), other = cuda_end("cuda:1", 20),
                         host = host_end();
    trials = gpud_route_trials_create();
    gpu.token = 7;
    host.token = 9;
    CHECK(!strstr(against_of(&gpu, &other, NULL, "staged"), "staged"), "not a reason");
    other.caps |= GPUD_CAP_PINS_WRITABLE;
    CHECK(!strstr(against_of(&gpu, &other, NULL, "staged-push"), "staged"), "against a worse one");
    /* What a sender pins is its own; a sender on the host has the CPU carry it either way; and in
     * one process the receiver may write the sender's pages. */
    against_of(&other, &gpu, NULL, "staged");
    against_of(&other, &host, NULL, "staged");
    against_of(&host, &other, NULL, "staged");
    struct gpud_endpoint inside = other;
    inside.token = gpu.token;
    against_of(&gpu, &inside, NULL, "staged");
    /* Where the push fails, or is not wanted, the CPU carries the frames. */
    gpud_route_failed(trials, gpud_route_find("staged-push"), GPUD_DEGRADED_FAILED,
                      "no memory for the ring");
    CHECK_SAYS(against_of(&gpu, &other, trials, "staged"), "staged-push: no memory for the ring");
    gpud_print(gpu.route, "staged");
    against_of(&gpu, &other, NULL, "staged");
    gpud_print(host.route, "staged-push");
    GOES(&host, &other, "none", "staged-push: only from a device to one of");

    /* A copy from GPU to GPU that was measured to be much slower than the detour should be. */
    struct gpud_endpoint a = cuda_end("cuda:0", 10), b = cuda_end("cuda:1", 20);
    const struct gpud_route_ops *peer = gpud_route_find("peer"), *map = gpud_route_find("map");
    host = host_end();
    gpud_route_trials_destroy(&trials);
    trials = gpud_route_trials_create();
    memcpy(a.reach[a.reach_count++], b.uuid, sizeof(b.uuid));
    CHECK(!gpud_route_wants_rate(peer, &a, &b, trials), "there is nothing to compare with");
    a.host_rate = 30000;
    CHECK(!gpud_route_wants_rate(peer, &a, &b, trials), "half of the detour is unknown");
    b.host_rate = 15000;
    CHECK(gpud_route_wants_rate(peer, &a, &b, trials), "nothing is to be measured");
    CHECK(!gpud_route_wants_rate(map, &a, &b, trials), "what is not copied is to be measured");
    against_of(&a, &b, trials, "peer");

    /* Down at 30 GB/s and up at 15: a frame gets across at 10. */
    gpud_route_measured(trials, peer, 6.8e9);
    CHECK(!gpud_route_wants_rate(peer, &a, &b, trials), "measured twice");
    CHECK(strstr(against_of(&a, &b, trials, "peer"), "peer") == NULL, "a reason against itself");
    gpud_route_measured(trials, peer, 6.5e9);
    why = against_of(&a, &b, trials, "staged");
    CHECK_SAYS(why, "map: the frames are on cuda:0");
    CHECK_SAYS(why, "peer: only 6.5 GB/s were measured, where staged should reach 10.0");
    CHECK(strstr(why, "directgma") == NULL, "a reason against a worse route");

    /* The user's word goes first; and where the detour fails, the slow way is one. */
    struct gpud_endpoint direct = a, wish = a;
    direct.require_direct = 1;
    gpud_print(wish.route, "peer");
    against_of(&direct, &b, trials, "peer");
    against_of(&wish, &b, trials, "peer");
    gpud_route_failed(trials, gpud_route_find("staged"), GPUD_DEGRADED_FAILED, "out of memory");
    against_of(&a, &b, trials, "peer");

    /* At an end that is the host nothing is copied; and inside one GPU nothing at all. */
    CHECK(gpud_route_find("staged")->rate(&a, &host) == 30e9, "down alone");
    CHECK(gpud_route_find("staged")->rate(&host, &host) == 0, "no copy has no rate");
    struct gpud_endpoint again = a;
    gpud_route_trials_destroy(&trials);
    trials = gpud_route_trials_create();
    against_of(&a, &again, trials, "map");
    gpud_route_trials_destroy(&trials);

    /* Only between two devices of one process that share a context. */
    static const int one, another;
    a = gpu_end("opencl:0", false);
    b = gpu_end("opencl:1", false);
    host = host_end();
    a.common = b.common = &one;
    GOES(&a, &b, "migrate",
         "map: the frames are on opencl:0 and are wanted on opencl:1; peer: only between GPUs of "
         "one vendor, by CUDA or by HIP; directgma: sender: no cl_amd_bus_addressable_memory");
    a.require_direct = true;
    against_of(&a, &b, NULL, "migrate");
    a.require_direct = false;
    b.common = &another;
    GOES(&a, &b, "staged",
         "migrate: no common context: opencl:0 and opencl:1 belong to different OpenCL drivers");
    a.common = b.common = NULL;
    GOES(&a, &b, "staged", "migrate: no common context");
    a.common = b.common = &one;
    b.token = 1;
    GOES(&a, &b, "staged", "migrate: not the same process");
    b.token = 0;
    b.caps |= GPUD_CAP_BUS_ADDRESSABLE;
    GOES(&a, &b, "staged", "migrate: no common context: opencl:1 has DirectGMA");
    GOES(&a, &host, "staged", "migrate: only between OpenCL devices, not host");
    struct gpud_endpoint same = a;
    gpud_print(same.route, "migrate");
    GOES(&a, &same, "none", "migrate: both ends are on opencl:0");

    AUTO(gpud_context_destroy) struct gpud_context *context = NEW_CONTEXT();
    AUTO(gpud_device_close) struct gpud_device *cpu = OPEN_DEVICE(context, "host");
    enum { ROUTES = 10 };
    struct gpud_route_info routes[ROUTES + 1];
    memset(routes, 0xee, sizeof(routes));
    routes[0].size = sizeof(routes[0]);
    size_t count = gpud_route_explain(cpu, cpu, false, routes, 1);
    CHECK(count == ROUTES && routes[0].possible && strcmp(routes[0].name, "map") == 0,
          "the best of %zu is %s", count, routes[0].name);
    CHECK((unsigned char)routes[1].name[0] == 0xee, "more was written than there was room for");
    count = gpud_route_explain(cpu, cpu, true, routes, ROUTES);
    CHECK(routes[0].possible && !routes[1].possible && !routes[2].possible && !routes[3].possible &&
              !routes[4].possible && routes[5].possible,
          "wrong verdicts");
    CHECK_SAYS(routes[1].reason, "only between GPUs of one vendor");
    CHECK_SAYS(routes[2].reason, "only between OpenCL devices");
    CHECK_SAYS(routes[3].reason, "only between OpenCL devices, not host");
    CHECK(routes[0].reason[0] == '\0' && routes[5].reason[0] == '\0',
          "a reason against what is possible");
    CHECK(gpud_route_explain(cpu, cpu, false, NULL, 0) == count, "counting needs no room");
}

/* Between hosts: by the best way that both GPUs have to their cards. */
static void test_network(void)
{
    struct gpud_endpoint a = cuda_end("cuda:0", 10), b = cuda_end("cuda:1", 20);
    struct gpud_endpoint host = host_end(), far = host_end();
    const struct gpud_network bare = {
        .card = "rxe0",
        .ways = GPUD_NETWORK_HOST,
        .no_dmabuf = "rxe imports no dma-bufs",
        .no_peermem = "nvidia_peermem is not loaded",
    };
    memset(b.host, 2, sizeof(b.host));
    memset(far.host, 2, sizeof(far.host));
    host.network = far.network = a.network = b.network = bare;
    const char *why = against_of(&host, &far, NULL, "rdma-host");
    CHECK_SAYS(why, "rdma-dmabuf: no GPU at either end");
    CHECK(!strstr(why, "map"), "what no network can do speaks against it: %s", why);
    why = against_of(&a, &far, NULL, "rdma-host");
    CHECK_SAYS(why, "rdma-dmabuf: sender, cuda:0 and rxe0: rxe imports no dma-bufs");
    CHECK_SAYS(why, "rdma-peermem: sender, cuda:0 and rxe0: nvidia_peermem is not loaded");
    a.network.ways |= GPUD_NETWORK_DMABUF | GPUD_NETWORK_PEERMEM;
    CHECK_TEXT(against_of(&a, &far, NULL, "rdma-dmabuf"), "");
    GOES(&a, &b, "rdma-host", "rdma-peermem: receiver, cuda:1 and rxe0: ");
    b.network.ways |= GPUD_NETWORK_PEERMEM;
    GOES(&a, &b, "rdma-peermem", "rdma-dmabuf: receiver, cuda:1");

    /* A GPU's memory through the host's is a detour; the host's own is not. */
    host.require_direct = 1;
    against_of(&host, &far, NULL, "rdma-host");
    b.network.ways = GPUD_NETWORK_HOST;
    b.require_direct = 1;
    GOES(&a, &b, "none", "rdma-host: require-direct forbids");
    gpud_print(host.route, "map");
    GOES(&host, &far, "none", "rdma-host: only the route \"map\" was asked for");
}

/* Over TCP, which no card has a part in. */
static void test_tcp(void)
{
    struct gpud_endpoint a = cuda_end("cuda:0", 10), b = cuda_end("cuda:1", 20);
    struct gpud_endpoint host = host_end(), far = host_end();
    const struct gpud_network tcp = {.card = "tcp", .ways = GPUD_NETWORK_TCP};
    memset(b.host, 2, sizeof(b.host));
    memset(far.host, 2, sizeof(far.host));
    host.network = far.network = a.network = b.network = tcp;
    const char *why = against_of(&host, &far, NULL, "tcp-host");
    CHECK_SAYS(why, "rdma-host: the address is tcp://");
    CHECK(!strstr(why, "map"), "what no network can do speaks against it: %s", why);
    GOES(&a, &b, "tcp-host", "rdma-dmabuf: the address is tcp://");

    host.require_direct = 1;
    against_of(&host, &far, NULL, "tcp-host");
    b.require_direct = 1;
    GOES(&a, &b, "none", "tcp-host: require-direct forbids");
    gpud_print(host.route, "rdma-host");
    GOES(&host, &far, "none", "tcp-host: only the route \"rdma-host\" was asked for");

    /* Nor is TCP a way for addresses of a card. */
    struct gpud_endpoint near_card = host_end(), far_card = host_end();
    memset(far_card.host, 2, sizeof(far_card.host));
    near_card.network = far_card.network =
        (struct gpud_network){.card = "rxe0", .ways = GPUD_NETWORK_HOST};
    gpud_print(near_card.route, "tcp-host");
    GOES(&near_card, &far_card, "none", "tcp-host: only by an address like tcp://");
}

/* What an operator can change, and what the devices themselves cannot do. */
static void test_degraded(void)
{
    struct gpud_endpoint a = cuda_end("cuda:0", 10), b = cuda_end("cuda:1", 20), host = host_end();
    struct gpud_endpoint same = a, plain = gpu_end("opencl:0", false);
    struct gpud_endpoint plain2 = gpu_end("opencl:1", false);
    struct gpud_route_trials *trials = gpud_route_trials_create();
    static const enum gpud_degraded kinds[] = {GPUD_DEGRADED_HIDDEN, GPUD_DEGRADED_PEER_ACCESS};
    host.token = 1;
    same.token = 77;
    plain.token = 3;
    plain2.token = 4;

#define IS(sender, receiver, wanted, kind)            \
    do {                                              \
        against_of(sender, receiver, trials, wanted); \
        CHECK_EQUAL(degraded, kind);                  \
    } while (0)
    IS(&a, &same, "map", GPUD_DEGRADED_NO);
    IS(&a, &host, "staged", GPUD_DEGRADED_NO);
    IS(&plain, &plain2, "staged", GPUD_DEGRADED_NO);
    IS(&a, &plain, "staged", GPUD_DEGRADED_NO);
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        gpud_route_note_link(trials, kinds[i], "the driver says why");
        IS(&a, &b, "staged", kinds[i]);
        strcpy(b.route, "staged"); /* was asked for */
        IS(&a, &b, "staged", GPUD_DEGRADED_NO);
        b.route[0] = '\0';
    }
    memcpy(a.reach[a.reach_count++], b.uuid, sizeof(b.uuid));
    IS(&a, &b, "peer", GPUD_DEGRADED_NO);
    gpud_route_measured(trials, gpud_route_find("peer"), 1e9); /* staged is faster */
    a.host_rate = b.host_rate = 60000;
    IS(&a, &b, "staged", GPUD_DEGRADED_NO);
    a.host_rate = b.host_rate = 0;

    /* Another user maps no GPU's memory; between two GPUs nothing would be mapped anyway. */
    gpud_route_exclude_foreign(trials, &a);
    IS(&a, &b, "peer", GPUD_DEGRADED_NO);
    IS(&a, &same, "peer", GPUD_DEGRADED_USER);
    gpud_route_forget_failures(trials);

    /* What failed was possible; but not what the sender's own device does not support. */
    gpud_route_failed(trials, gpud_route_find("map"), GPUD_DEGRADED_NO, "no such memory");
    IS(&a, &same, "peer", GPUD_DEGRADED_NO);
    gpud_route_failed(trials, gpud_route_find("map"), GPUD_DEGRADED_FAILED, "another namespace");
    IS(&a, &same, "peer", GPUD_DEGRADED_FAILED);
    IS(&a, &b, "peer", GPUD_DEGRADED_NO);
    gpud_route_failed(trials, gpud_route_find("peer"), GPUD_DEGRADED_FAILED, "another namespace");
    IS(&a, &b, "staged", GPUD_DEGRADED_FAILED);
#undef IS
    gpud_route_trials_destroy(&trials);
}

int main(void)
{
    SAY("which route, and what speaks against the better ones");
    test_choice();
    test_network();
    test_tcp();
    test_trials();
    test_degraded();
    SAY("ends on two machines");
    struct gpud_endpoint here = host_end(), there = host_end();
    memset(there.host, 2, sizeof(there.host));
    const char *why = against_of(&here, &there, NULL, "none");
    CHECK_SAYS(why, "map: the two ends run on different machines");
    CHECK_SAYS(why, "staged: ");
    struct gpud_endpoint gpu = gpu_end("opencl:0", true), far = gpu_end("opencl:0", true);
    memset(far.host, 2, sizeof(far.host));
    against_of(&gpu, &far, NULL, "none");
    SAY("clocks: of one machine, by the system's word, of one boot, in one time namespace");
    struct gpud_endpoint a = host_end(), b = host_end();
    CHECK(gpud_endpoints_share_clock(&a, &b, true), "two processes of one host");
    CHECK(!gpud_endpoints_share_clock(&a, &b, false), "two hosts made of one snapshot");
    a.time_namespace = 4026531834;
    CHECK(!gpud_endpoints_share_clock(&a, &b, true), "a container with a time of its own");
    b.time_namespace = a.time_namespace;
    CHECK(gpud_endpoints_share_clock(&a, &b, true), "two processes of such a container");
    b.host[15]++;
    CHECK(!gpud_endpoints_share_clock(&a, &b, true), "a peer of another boot");
    memset(a.host, 0, sizeof(a.host));
    memset(b.host, 0, sizeof(b.host));
    CHECK(!gpud_endpoints_share_clock(&a, &b, false), "hosts of which nothing is known");
    CHECK(gpud_endpoints_share_clock(&a, &b, true), "one of which nothing else is known");
    SAY("where a device is, in the letters of sysfs, whatever its driver's are");
    struct gpud_endpoint end;
    struct gpud_context *context = NEW_CONTEXT();
    struct gpud_device *host = OPEN_DEVICE(context, "host");
    gpud_endpoint_describe(&end, host, "");
    CHECK_TEXT(end.pci, "");
    struct gpud_device card = *host;
    gpud_print(card.info.pci, "FACE:E3:00.0");
    gpud_endpoint_describe(&end, &card, "");
    CHECK_TEXT(end.pci, "face:e3:00.0");
    gpud_device_close(&host);
    gpud_context_destroy(&context);
    return 0;
}
