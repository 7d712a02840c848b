/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* AMD's GPUs and the links between them as amdkfd reports them: two hives of MI210 as they should
 * be, and each fault that they can have. Files that say "EPERM" cannot be read. */
#include "topology/topology.h"

#include "device/device.h"
#include "route/route.h"

#include "support/check.h"
#include "support/host.h"

#include <errno.h>
#include <math.h>
#include <sys/utsname.h>

#define NODES "sys/class/kfd/kfd/topology/nodes"
#define FIRST "0000:63:00.0"  /* node 2 */
#define SECOND "0000:43:00.0" /* node 3, in one hive with it */
#define OTHER "0000:c3:00.0"  /* node 7, in the other hive */

__typeof__(read) __real_read, __wrap_read;
ssize_t __wrap_read(int fd, void *data, size_t size)
{
    ssize_t got = __real_read(fd, data, size);
    if (got < 6 || memcmp(data, "EPERM\n", 6) != 0)
        return got;
    errno = EPERM;
    return -1;
}

static const char *mi210;
static char folder[] = "/tmp/gpud-kfd-XXXXXX";

static void fresh(void)
{
    set_file(folder, "sys", NULL);
    set_file(folder, "boot", NULL);
    make_host(mi210, folder, NULL);
}

/* One pair on the tree as it is now. */
static struct gpud_kfd_reach explain(const char *from, const char *to)
{
    struct gpud_kfd kfd;
    struct gpud_kfd_reach reach;
    WORKS(gpud_kfd_read(&kfd, &e));
    gpud_kfd_explain(&kfd, from, to, &reach);
    reach.link = NULL;
    CHECK(reach.direct == (reach.reason[0] == '\0'), "%s to %s: direct %d, \"%s\"", from, to,
          reach.direct, reach.reason);
    gpud_kfd_clear(&kfd);
    return reach;
}

static void check_refused(const char *from, const char *to, const char *text)
{
    struct gpud_kfd_reach reach = explain(from, to);
    CHECK(!reach.direct, "%s to %s", from, to);
    CHECK_SAYS(reach.reason, text);
}

/* The xGMI link from FIRST to SECOND. */
static void set_xgmi(const char *properties)
{
    char text[128];
    gpud_print(text, "type 11\nnode_from 2\nnode_to 3\n%s", properties);
    set_file(folder, NODES "/2/io_links/1/properties", text);
}

static void check_ignored(const char *text)
{
    struct gpud_kfd kfd;
    WORKS(gpud_kfd_read(&kfd, &e));
    CHECK_SAYS(kfd.ignored, text);
    gpud_kfd_clear(&kfd);
}

/* folders: these as well, as before Linux 6.0; else links to processors stay, which are there
 * whatever the configuration. */
static void drop_peers(bool folders)
{
    for (int node = 0; node < 10; node++) {
        char path[128];
        gpud_print(path, NODES "/%d/p2p_links", node);
        if (folders)
            set_file(folder, path, NULL);
        for (int link = 1; link < 5 && !folders; link++) {
            gpud_print(path, NODES "/%d/p2p_links/%d", node, link);
            set_file(folder, path, NULL);
        }
    }
}

static void set_config(const char *text)
{
    struct utsname name;
    char path[256];
    CHECK(uname(&name) == 0, "uname: %s", strerror(errno));
    gpud_print(path, "boot/config-%s", name.release);
    set_file(folder, path, text);
}

int main(int argc, char **argv)
{
    CHECK(argc == 2, "give the description of the host");
    mi210 = argv[1];
    CHECK(mkdtemp(folder), "mkdtemp: %s", strerror(errno));
    gpud_sysfs_root = folder;
    SAY("the choice of a route knows the way to the host, where the driver does not say");
    fresh();
    CHECK_EQUAL(gpud_kfd_get()->node_count, 10);
    static struct gpud_device_ops ops = {.name = "hip"};
    struct gpud_context context = {.token = 1};
    struct gpud_device device = {.ops = &ops, .context = &context};
    struct gpud_endpoint end;
    gpud_print(device.info.pci, "%s", FIRST);
    gpud_endpoint_describe(&end, &device, "a GPU");
    CHECK_EQUAL(end.host_rate, 32000);
    device.host_rate = 12345;
    gpud_endpoint_describe(&end, &device, "a GPU");
    CHECK_EQUAL(end.host_rate, 12345);
    device.host_rate = 0;
    gpud_print(device.info.pci, "0000:01:00.0");
    gpud_endpoint_describe(&end, &device, "a GPU of others");
    CHECK_EQUAL(end.host_rate, 0);

    SAY("two hives of four MI210, on two sockets");
    struct gpud_kfd kfd;
    fresh();
    WORKS(gpud_kfd_read(&kfd, &e));
    CHECK_EQUAL(kfd.node_count, 10);
    CHECK(kfd.ignored[0] == '\0', "\"%s\" is ignored", kfd.ignored);
    CHECK_EQUAL(kfd.link_count, 2 * 5 + 8 * (1 + 3 + 5));
    CHECK_EQUAL(kfd.denied, 0);
    CHECK(kfd.has_peer_links && !kfd.peer_off, "peer links are there, and on");
    const struct gpud_kfd_node *node = gpud_kfd_find(&kfd, FIRST);
    CHECK(node && node->number == 2 && node->gpu && node->gfx == 90010 && node->vendor == 4098,
          "node 2 is at %s", FIRST);
    CHECK_EQUAL(node->render_minor, 128);
    CHECK(node->hidden == 0 && node->visible == 68702699520, "64 GB, all visible");
    CHECK(gpud_kfd_find(&kfd, SECOND)->hive == node->hive, "one hive");
    CHECK(gpud_kfd_find(&kfd, OTHER)->hive != node->hive, "another hive");
    CHECK(gpud_kfd_find(&kfd, "0000:63:00.3") == node, "another function of the card");
    CHECK(!gpud_kfd_find(&kfd, "0000:00:00.0") && !gpud_kfd_find(&kfd, "") &&
              !gpud_kfd_find(&kfd, "0001:63:00.0"),
          "what is no GPU of AMD's is not found");
    CHECK_EQUAL(gpud_kfd_host_rate(&kfd, FIRST), 32000);
    CHECK_EQUAL(gpud_kfd_host_rate(&kfd, "0000:00:00.0"), 0);
    gpud_kfd_clear(&kfd);
    gpud_kfd_clear(&kfd);

    struct gpud_kfd_reach reach = explain(FIRST, SECOND);
    CHECK(reach.known && reach.direct && reach.hops == 1 && reach.atomics, "xGMI in a hive");
    CHECK(fabs(reach.bandwidth - 50e9) < 1, "50 GB/s, not %g", reach.bandwidth);
    reach = explain(FIRST, OTHER);
    CHECK(reach.known && reach.direct && reach.hops == 0 && reach.bandwidth == 0, "PCIe beyond");
    reach = explain(FIRST, FIRST);
    CHECK(reach.direct, "itself");

    SAY("the best of several links; hops; atomics");
    fresh();
    set_xgmi("weight 30\nmax_bandwidth 100000\nflags 5");
    reach = explain(FIRST, SECOND);
    CHECK(reach.direct && reach.hops == 2 && !reach.atomics, "two hops: %u", reach.hops);
    set_file(folder, NODES "/2/p2p_links/9/properties",
             "type 2\nnode_from 2\nnode_to 3\nweight 5\nflags 1");
    CHECK_EQUAL(explain(FIRST, SECOND).hops, 2); /* xGMI all the same */
    set_xgmi("weight 15\nflags 0");
    reach = explain(FIRST, SECOND);
    CHECK(reach.direct && reach.hops == 0, "xGMI is off, PCIe is there");
    set_file(folder, NODES "/2/p2p_links/9", NULL);
    check_refused(FIRST, SECOND, "shows the link from 0000:63:00.0 to 0000:43:00.0 as disabled");
    set_xgmi("weight 15\nflags 17");
    check_refused(FIRST, SECOND, "NO_PEER_TO_PEER_DMA");

    SAY("without CONFIG_HSA_AMD_P2P: no links over PCIe from GPU to GPU");
    fresh();
    drop_peers(false);
    CHECK(explain(FIRST, SECOND).direct, "xGMI needs none of it");
    check_refused(FIRST, OTHER, "most likely its amdgpu is built without CONFIG_HSA_AMD_P2P");
    set_config("CONFIG_PCI_P2PDMA=y\n# CONFIG_HSA_AMD_P2P is not set");
    check_refused(FIRST, OTHER, "the kernel is built without CONFIG_HSA_AMD_P2P: install");
    set_file(folder, "sys/module/amdgpu/version", "6.8.5"); /* of another build than the kernel */
    check_refused(FIRST, OTHER, "most likely its amdgpu is built without CONFIG_HSA_AMD_P2P");
    set_file(folder, "sys/module/amdgpu/version", NULL);
    set_config("CONFIG_HSA_AMD_P2P=y");
    check_refused(FIRST, OTHER, "behind no common PCIe switch");

    SAY("switched off, and before Linux 6.0");
    set_file(folder, "sys/module/amdgpu/parameters/pcie_p2p", "N");
    check_refused(FIRST, OTHER, "pcie_p2p=0");
    CHECK(explain(FIRST, SECOND).direct, "xGMI needs none of it");
    set_file(folder, "sys/module/amdgpu/parameters/pcie_p2p", "Y");
    drop_peers(true);
    check_refused(FIRST, OTHER, "too old");

    SAY("a small BAR: others cannot write that GPU, it can write others");
    fresh();
    set_file(folder, NODES "/7/mem_banks/0/properties",
             "heap_type 1\nsize_in_bytes 268435456\nflags 0");
    set_file(folder, NODES "/7/mem_banks/1/properties",
             "heap_type 2\nsize_in_bytes 68434264064\nflags 0");
    set_file(folder, NODES "/2/p2p_links/2", NULL);
    check_refused(FIRST, OTHER, "shows only 0.25 GiB of the 63.98 GiB of memory of 0000:c3:00.0");
    CHECK(explain(OTHER, FIRST).direct, "the other way");

    SAY("what is not known of a BAR is not held against it");
    set_file(folder, NODES "/7/mem_banks", NULL);
    check_refused(FIRST, OTHER, "only the other direction is possible");

    SAY("one direction only, though the BAR is large");
    fresh();
    set_file(folder, NODES "/2/p2p_links/2", NULL);
    check_refused(FIRST, OTHER, "only the other direction is possible");
    CHECK(explain(OTHER, FIRST).direct, "the other way");

    SAY("what the device cgroup keeps from this process");
    fresh();
    set_file(folder, NODES "/7/properties", "EPERM");
    set_file(folder, NODES "/7/gpu_id", "EPERM");
    check_refused(FIRST, OTHER, "docker --device /dev/kfd --device /dev/dri");
    check_refused(OTHER, FIRST, "nothing of 1 of its compute nodes");
    CHECK(explain(FIRST, OTHER).known, "a GPU that is hidden is not one that there is not");
    CHECK(explain(FIRST, SECOND).direct, "the others are as before");
    WORKS(gpud_kfd_read(&kfd, &e));
    CHECK(kfd.node_count == 10 && kfd.denied == 1 && !kfd.ignored[0], "%zu nodes, %zu denied, %s",
          kfd.node_count, kfd.denied, kfd.ignored);
    gpud_kfd_clear(&kfd);

    static const struct {
        const char *path, *text, *says;
    } wrong[] = {
        {"/2/properties", "", "/2/properties is ignored: it has no line \"simd_count\""},
        {"/2/properties", "simd_count", "no line \"simd_count\""},
        {"/2/properties", "simd_count -1", "no line \"simd_count\""},
        {"/2/properties", "simd_count 99999999999999999999999", "no line \"simd_count\""},
        {"/2/properties", "simd_count 416\nlocation_id 65536",
         "location_id 65536 in domain 0 is not a PCI address"},
        {"/2/properties", "\xff\xfe\x80 416\n\xc3\x28", "no line \"simd_count\""},
        {"/2/io_links/1/properties", "type 11\nnode_from 2", "no line \"node_to\""},
        {"/2/io_links/1/properties", "type 11\nnode_from 2\nnode_to 2\nflags 1", "to itself"},
        {"/2/io_links/1/properties", "type 11\nnode_from 4\nnode_to 3\nflags 1", "another node"},
        {"/2/io_links/1/properties", "type 11\nnode_from 2\nnode_to 4294967296\nflags 1",
         "no line \"node_to\" with a number up to 4294967295"},
        {"/2/mem_banks/0/properties", "heap_type 1\nsize_in_bytes 18446744073709551616",
         "no line \"size_in_bytes\""},
    };
    SAY("files that are not as they should be");
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        char path[128];
        fresh();
        gpud_print(path, NODES "%s", wrong[i].path);
        set_file(folder, path, wrong[i].text);
        check_ignored(wrong[i].says);
        CHECK(!explain("0000:63:00.0", "0000:43:00.0").direct || i == 10, "%zu is used", i);
        CHECK(explain("0000:03:00.0", "0000:26:00.0").direct, "%zu costs what it does not say", i);
    }
    SAY("links to nodes that are not there, files and folders in each other's place, gpu_id "
        "missing");
    fresh();
    set_file(folder, NODES "/2/io_links/1/properties",
             "type 11\nnode_from 2\nnode_to 4000000000\nweight 15\nflags 1");
    set_file(folder, NODES "/2/gpu_id", NULL);
    set_file(folder, NODES "/3/properties", NULL);
    set_file(folder, NODES "/3/properties/0", "");
    set_file(folder, NODES "/junk/properties", "simd_count 416\nlocation_id 768");
    set_file(folder, NODES "/-1/properties", "simd_count 416\nlocation_id 768");
    set_link(folder, NODES "/11", ".");
    set_file(folder, NODES "/2/io_links/2", NULL);
    set_link(folder, NODES "/2/io_links/2", "../..");
    set_file(folder, NODES "/2/io_links/3/properties", NULL);
    set_link(folder, NODES "/2/io_links/3/properties", "properties");
    check_ignored("is ignored: ");
    CHECK(!explain("0000:63:00.0", "0000:43:00.0").known, "node 3 says nothing");
    CHECK(explain("0000:03:00.0", "0000:26:00.0").direct, "the others are as before");
    SAY("a node without an end, and thousands of them");
    fresh();
    set_link(folder, NODES "/12/properties", "/dev/zero");
    check_ignored("/12/properties is ignored");
    fresh();
    for (int n = 10; n < 3000; n++) {
        char path[64], text[64];
        gpud_print(path, NODES "/%d/properties", n);
        gpud_print(text, "simd_count 4\nlocation_id %d\ndomain %d", 256 + n % 256, n);
        set_file(folder, path, text);
    }
    check_ignored("nodes beyond 256");
    CHECK(explain(FIRST, SECOND).direct, "the first are used");

    SAY("a machine with processors alone, and one without amdkfd");
    fresh();
    for (int n = 2; n < 10; n++) {
        char path[64];
        gpud_print(path, NODES "/%d", n);
        set_file(folder, path, NULL);
    }
    WORKS(gpud_kfd_read(&kfd, &e));
    CHECK(kfd.node_count == 2 && !kfd.nodes[0].gpu && !kfd.nodes[1].gpu, "two processors");
    gpud_kfd_clear(&kfd);
    reach = explain(FIRST, SECOND);
    CHECK(!reach.known, "a GPU is known");
    CHECK_SAYS(reach.reason, "knows no GPU at 0000:63:00.0");
    set_file(folder, "sys/class/kfd", NULL);
    WORKS(gpud_kfd_read(&kfd, &e));
    CHECK(kfd.node_count == 0 && kfd.link_count == 0 && !kfd.ignored[0], "nothing");
    gpud_kfd_clear(&kfd);
    CHECK(!explain(FIRST, SECOND).known, "nothing is known");
    set_file(folder, "sys", NULL);
    set_file(folder, "boot", NULL);
    CHECK(rmdir(folder) == 0, "something is left in %s", folder);
    return 0;
}
