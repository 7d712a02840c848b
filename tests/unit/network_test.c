/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Network cards on a simulated host: their list, and the reasons that prevent a process from using
 * them. */
#include <gpudirect/network.h>

#include "device/device.h"
#include "device/rdma/internal.h"
#include "base/base.h"
#include "support/network.h"
#include "support/run.h"
#include "wire/wire.h"

#include <sys/stat.h>

static char folder[64];
static const char *description;

static void start_host(const char *prefix)
{
    set_file(folder, "sys", NULL);
    set_file(folder, "dev", NULL);
    make_host(description, folder, prefix);
}

/* A whole host but for this file or folder. */
static void start_without(const char *path)
{
    start_host(NULL);
    set_file(folder, path, NULL);
}

static void check_lack(const char *part)
{
    char why[GPUD_REASON_MAX] = "";
    CHECK(gpud_rdma_find_lack(why), "nothing lacks, not even \"%s\"", part);
    CHECK_SAYS(why, part);
}

/* In a process of its own, without root's rights. */
static void drop_rights(void)
{
    CHECK(geteuid() != 0 || setresuid(65534, 65534, 65534) == 0, "%s", strerror(errno));
}

static void check_forbidden(void *argument)
{
    drop_rights();
    check_lack("may not open /dev/infiniband/rdma_cm: chmod 666");
}

static struct gpud_network_card_list *list(uint32_t *count, struct gpud_network_host_info *host)
{
    struct gpud_network_card_list *cards = NULL;
    if (host)
        host->size = sizeof(*host);
    WORKS(gpud_network_card_list_create(&cards, count, host, &e));
    CHECK_EQUAL(fake_verbs_objects, 0);
    return cards;
}

static struct gpud_network_card_info get(const struct gpud_network_card_list *cards, uint32_t index)
{
    struct gpud_network_card_info info = GPUD_INFO_INIT(info);
    WORKS(gpud_network_card_list_get_info(cards, index, &info, &e));
    return info;
}

static void check_first(const struct gpud_network_card_list *cards)
{
    struct gpud_network_card_info card = get(cards, 0);
    CHECK_TEXT(card.name, "mlx5_0");
    CHECK_TEXT(card.model, "MT4129");
    CHECK_TEXT(card.driver, "mlx5_core");
    CHECK_TEXT(card.firmware, "28.39.1002");
    CHECK_TEXT(card.pci, "0000:03:00.1");
    CHECK_EQUAL(card.numa_node, 0);
    CHECK(!card.software && card.available && card.ports == 2, "%s", card.reason);
    CHECK(card.dmabuf && !card.no_dmabuf[0], "no dma-bufs: %s", card.no_dmabuf);
    CHECK(!card.peermem, "peermem without a module");
    CHECK_SAYS(card.no_peermem, "modprobe nvidia-peermem");

    const struct gpud_network_port_info *const *port = card.port;
    CHECK_EQUAL(port[0]->size, sizeof(*port[0]));
    CHECK(port[0]->number == 1 && port[0]->active && !port[0]->reason[0], "%s", port[0]->reason);
    CHECK_EQUAL(port[0]->link_layer, GPUD_LINK_LAYER_ETHERNET);
    CHECK_EQUAL(port[0]->rate, 100000);
    CHECK_EQUAL(port[0]->mtu, 4096);
    CHECK_EQUAL(port[0]->message_max, 1 << 30);
    CHECK_TEXT(port[0]->state, "active");
    CHECK_TEXT(port[0]->netdev, "eth0");
    CHECK(port[1]->number == 2 && !port[1]->active, "port 2 is active");
    CHECK_EQUAL(port[1]->link_layer, GPUD_LINK_LAYER_INFINIBAND);
    CHECK_EQUAL(port[1]->rate, 2500);
    CHECK_TEXT(port[1]->state, "init");
    CHECK_TEXT(port[1]->netdev, "ib1");
    CHECK_SAYS(port[1]->reason, "opensm");

    static const struct gpud_network_gid_info wanted[] = {
        {0, 0, GPUD_GID_ROCE_V1, "fe80::e42:a1ff:fe01:203", "fe80::e42:a1ff:fe01:203", "eth0"},
        {0, 1, GPUD_GID_ROCE_V2, "fe80::e42:a1ff:fe01:203", "fe80::e42:a1ff:fe01:203", "eth0"},
        {0, 3, GPUD_GID_ROCE_V2, "::ffff:10.0.0.2", "10.0.0.2", "eth0"},
        {0, 10, GPUD_GID_ROCE_V2, "fd77::1", "fd77::1", "eth0.7"},
    };
    const struct gpud_network_gid_info *const *gid = port[0]->gid;
    CHECK_EQUAL(port[0]->gids, 4);
    for (int i = 0; i < 4; i++) {
        CHECK_EQUAL(gid[i]->index, wanted[i].index);
        CHECK_EQUAL(gid[i]->kind, wanted[i].kind);
        CHECK_TEXT(gid[i]->text, wanted[i].text);
        CHECK_TEXT(gid[i]->address, wanted[i].address);
        CHECK_TEXT(gid[i]->netdev, wanted[i].netdev);
    }
    gid = port[1]->gid;
    CHECK_EQUAL(port[1]->gids, 1);
    CHECK_EQUAL(gid[0]->kind, GPUD_GID_INFINIBAND);
    CHECK_TEXT(gid[0]->address, "");
}

static void check_card(const char *reason, const char *no_dmabuf)
{
    AUTO(gpud_network_card_list_destroy) struct gpud_network_card_list *cards = list(NULL, NULL);
    struct gpud_network_card_info card = get(cards, 0);
    CHECK(!card.dmabuf && card.available == !reason[0], "%s: %s", card.name, card.reason);
    CHECK_SAYS(card.reason, reason);
    CHECK_SAYS(card.no_dmabuf, no_dmabuf);
}

static void test_cards(void)
{
    SAY("without any card");
    start_host("nothing");
    check_lack("no RDMA device; soft-RoCE makes one of any Ethernet interface");
    check_lack("rdma link add rxe0 type rxe netdev eth0");

    SAY("connecting and listening report the same");
    struct gpud_address address;
    char hint[GPUD_REASON_MAX];
    WORKS(gpud_address_resolve("rdma://10.0.0.1", &address, &e));
    gpud_address_hint(&address, hint, sizeof(hint));
    CHECK_SAYS(hint, "no RDMA device; soft-RoCE makes one of any Ethernet interface");

    SAY("the interface in the command is one that this host has, best one that is up");
    make_host(description, folder, "sys/class/net/lo/");
    set_file(folder, "sys/class/net/aaa/type", "1");
    check_lack("netdev aaa");
    set_file(folder, "sys/class/net/enp1s0/type", "1");
    set_file(folder, "sys/class/net/enp1s0/operstate", "up");
    check_lack("netdev enp1s0");

    SAY("a card that needs a module is told of first");
    make_host(description, folder, "sys/class/net/eth0/");
    make_host(description, folder, "sys/devices/");
    check_lack("the card of eth0 (driver mlx5_core) becomes one by another module: modprobe "
               "mlx5_ib");
    set_file(folder, "sys/module/mlx5_ib/version", "1");
    check_lack("rdma link add rxe0");

    char path[128], why[GPUD_REASON_MAX];
    SAY("modules, nodes and permissions");
    start_host(NULL);
    CHECK(!gpud_rdma_find_lack(why), "lacks: %s", why);
    set_file(folder, "sys/class/infiniband_verbs", NULL);
    set_file(folder, "sys/class/infiniband_verbs/abi_version", "6");
    check_lack("cannot use the RDMA device mlx5_0: modprobe ib_uverbs");
    start_without("sys/class/misc/rdma_cm");
    check_lack("modprobe rdma_ucm");
    start_without("dev/infiniband/rdma_cm");
    check_lack("/dev/infiniband/rdma_cm is not there: a container needs it");
    start_host(NULL);
    snprintf(path, sizeof(path), "%s/dev/infiniband/rdma_cm", folder);
    CHECK(chmod(path, 0) == 0, "%s", strerror(errno));
    CHECK_EQUAL(run_child(check_forbidden, NULL), 0);

    SAY("no port that is up");
    start_without("sys/class/infiniband/siw0");
    set_file(folder, "sys/class/infiniband/mlx5_0/ports/1/state", "1: DOWN");
    set_file(folder, "sys/class/net/eth0/flags", "0x1002");
    check_lack("port 1 of mlx5_0 is not active: eth0 is down: ip link set eth0 up");
    set_file(folder, "sys/class/net/eth0/flags", "0x1003");
    set_file(folder, "sys/class/net/eth0/carrier", "0");
    check_lack("eth0 has no carrier");
    set_file(folder, "sys/class/infiniband/mlx5_0/ports/1/link_layer", "InfiniBand");
    check_lack("it has no link");
    set_file(folder, "sys/class/infiniband/mlx5_0/ports", NULL);
    check_lack("mlx5_0 has no port");

    SAY("what the kernel shows, and what cards say");
    start_host(NULL);
    uint32_t count;
    struct gpud_network_host_info host;
    struct gpud_network_card_list *cards = list(&count, &host);
    CHECK_EQUAL(count, 3);
    check_first(cards);
    struct gpud_network_card_info card = get(cards, 1);
    CHECK_TEXT(card.name, "rxe0");
    CHECK_TEXT(card.driver, "rdma_rxe");
    CHECK_TEXT(card.pci, "");
    CHECK_TEXT(card.firmware, "");
    CHECK_EQUAL(card.numa_node, -1);
    CHECK(card.software && card.available && !card.dmabuf && !card.peermem, "%s", card.reason);
    CHECK_SAYS(card.no_dmabuf, "the driver of rxe0 takes no dma-bufs");
    CHECK_SAYS(card.no_peermem, "rxe0 is software");
    CHECK_EQUAL(card.ports, 1);
    CHECK(!card.port[0]->active, "rxe0 is up");
    CHECK_SAYS(card.port[0]->reason, "ip link set v0 up");

    card = get(cards, 2);
    CHECK_TEXT(card.name, "siw0");
    CHECK(!card.available, "iWARP is available");
    CHECK_SAYS(card.reason, "not for InfiniBand or RoCE");
    CHECK_SAYS(card.reason, "modprobe rdma_rxe && rdma link add rxe0 type rxe netdev");
    CHECK_SAYS(card.no_dmabuf, "siw0 cannot be asked: ");
    CHECK_EQUAL(card.ports, 1);
    const struct gpud_network_port_info *port = card.port[0];
    CHECK(port->active && !port->netdev[0], "siw0 is on %s", port->netdev);
    CHECK_SAYS(port->reason, "it has no IP address: another network namespace may have its");
    CHECK(host.usable && !host.reason[0], "the host cannot be used: %s", host.reason);
    CHECK_EQUAL(host.pin_max, gpud_rdma_pin_room());

    SAY("a caller's sizes, and what is not there");
    struct gpud_network_card_info small = {.size = sizeof(size_t) + 4, .model = "untouched"};
    WORKS(gpud_network_card_list_get_info(cards, 0, &small, &e));
    CHECK(strncmp(small.name, "mlx5", 4) == 0 && !small.name[4], "%s", small.name);
    CHECK_TEXT(small.model, "untouched");
    EXPECT(GPUD_INVALID, "network card 3 of 3",
           gpud_network_card_list_get_info(cards, 3, &small, &e));
    gpud_network_card_list_destroy(&cards);
    CHECK(!cards, "the pointer stays");
    gpud_network_card_list_destroy(&cards);
    gpud_network_card_list_destroy(NULL);

    SAY("cards that cannot be used, or asked");
    start_host(NULL);
    fake_verbs_open_errno = ENODEV;
    check_card("libibverbs cannot open mlx5_0: ", "mlx5_0 cannot be asked: ");
    cards = list(NULL, &host);
    CHECK(!host.usable, "it is usable");
    CHECK_SAYS(host.reason, "libibverbs cannot open mlx5_0");
    gpud_network_card_list_destroy(&cards);
    fake_verbs_open_errno = 0;
    fake_verbs_errno = EPROTONOSUPPORT;
    check_card("", "takes no dma-bufs");
    fake_verbs_errno = EIO;
    check_card("", "does not say whether it takes dma-bufs");
    fake_verbs_errno = 0;
    set_file(folder, "sys/class/infiniband_verbs/uverbs0", NULL);
    check_card("programs cannot use mlx5_0: modprobe ib_uverbs", "cannot be asked");
    start_without("dev/infiniband/uverbs0");
    check_card("/dev/infiniband/uverbs0 is not there", "cannot be asked");

    SAY("a card that libibverbs does not know");
    start_host("sys/class/infiniband/siw0/");
    set_file(folder, "sys/class/infiniband/siw0/node_type", "1: CA");
    set_file(folder, "sys/class/infiniband_verbs/uverbs0/ibdev", "siw0");
    set_file(folder, "dev/infiniband/uverbs0", "");
    check_card("no provider for siw0: apt install ibverbs-providers", "cannot be asked");

    SAY("an Ethernet port without an address of its own");
    start_without("sys/class/infiniband/mlx5_0/ports/1/gids/3");
    set_file(folder, "sys/class/infiniband/mlx5_0/ports/1/gids/10", NULL);
    cards = list(NULL, NULL);
    port = get(cards, 0).port[0];
    CHECK(port->active, "port 1 is not active");
    CHECK_SAYS(port->reason, "eth0 has no IP address: ip address add");
    gpud_network_card_list_destroy(&cards);

    SAY("no card at all is no failure");
    start_host("sys/class/net/eth0/");
    cards = list(&count, &host);
    CHECK_EQUAL(count, 0);
    CHECK(!host.usable, "it is usable");
    CHECK_SAYS(host.reason, "netdev eth0");
    gpud_network_card_list_destroy(&cards);

    SAY("modules for memory by its address");
    start_host(NULL);
    EXPECT(GPUD_UNSUPPORTED, "modprobe nvidia-peermem",
           gpud_rdma_check_peermem(&gpud_cuda_ops, &e));
    EXPECT(GPUD_UNSUPPORTED, "ROCm", gpud_rdma_check_peermem(&gpud_hip_ops, &e));
    EXPECT(GPUD_UNSUPPORTED, "such devices", gpud_rdma_check_peermem(&gpud_opencl_ops, &e));
    set_file(folder, "sys/kernel/mm/memory_peers/nv_mem_nc/version", "1");
    WORKS(gpud_rdma_check_peermem(&gpud_cuda_ops, &e));
    EXPECT(GPUD_UNSUPPORTED, "ROCm", gpud_rdma_check_peermem(&gpud_hip_ops, &e));
    start_host(NULL);
    set_file(folder, "sys/module/nvidia_peermem/version", "550.1");
    WORKS(gpud_rdma_check_peermem(&gpud_cuda_ops, &e));
    cards = list(NULL, NULL);
    card = get(cards, 0);
    CHECK(card.peermem && !card.no_peermem[0], "no peermem: %s", card.no_peermem);
    CHECK(!get(cards, 1).peermem, "software has peermem");
    gpud_network_card_list_destroy(&cards);
}

static void check_limits(void *argument)
{
    char why[GPUD_REASON_MAX];
    struct rlimit limit;
    drop_rights();
    CHECK(getrlimit(RLIMIT_MEMLOCK, &limit) == 0, "%s", strerror(errno));
    rlim_t max = limit.rlim_max;
    limit.rlim_cur = max < 1 << 20 ? max : 1 << 20;
    set_limit(RLIMIT_MEMLOCK, limit.rlim_cur);
    CHECK_EQUAL(gpud_rdma_pin_room(), limit.rlim_cur);
    gpud_rdma_explain_pin_room(gpud_rdma_pin_room(), why);
    char part[64];
    snprintf(part, sizeof(part), "may register %llu kB", (unsigned long long)limit.rlim_cur / 1024);
    CHECK_SAYS(why, part);
    CHECK_SAYS(why, "needs 133696 kB for each connection");
    CHECK_SAYS(why, "ulimit -l unlimited");
    if (max != RLIM_INFINITY)
        return;
    set_limit(RLIMIT_MEMLOCK, RLIM_INFINITY);
    CHECK(gpud_rdma_pin_room() == UINT64_MAX, "there is a limit");
}

int main(int argc, char **argv)
{
    CHECK(argc == 2, "give the host's description");
    description = argv[1];
    snprintf(folder, sizeof(folder), "/tmp/gpud-network-XXXXXX");
    CHECK(mkdtemp(folder) && chmod(folder, 0755) == 0, "%s", strerror(errno));
    gpud_sysfs_root = folder;
    test_cards();
    char why[GPUD_REASON_MAX];
    SAY("how much memory may be registered");
    CHECK_EQUAL(run_child(check_limits, NULL), 0);
    gpud_rdma_explain_pin_room(UINT64_MAX, why);
    CHECK_TEXT(why, "");
    gpud_rdma_explain_pin_room(UINT64_C(133696) << 10, why);
    CHECK_TEXT(why, "");
    gpud_rdma_explain_pin_room((UINT64_C(133696) << 10) - 1, why);
    CHECK_SAYS(why, "may register 133695 kB");
    set_file(folder, "sys", NULL);
    set_file(folder, "dev", NULL);
    CHECK(rmdir(folder) == 0, "%s is not empty", folder);
    return 0;
}
