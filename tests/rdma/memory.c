/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Memories of devices, as far as soft-RoCE can register them: it takes no dma-bufs. */
#include "cases.h"

#include "device/device.h"
#include "base/base.h"
#include "support/make.h"

#include <sys/stat.h>

void test_host_memory(void)
{
    struct target from;
    char why[GPUD_REASON_MAX];
    struct gpud_context *context = NEW_CONTEXT();
    struct gpud_device *host = OPEN_DEVICE(context, "host");
    struct gpud_memory *memory = NEW_MEMORY(host, 100000);
    struct pair pair = make_pair();
    make_target(&pair.a, 100000, GPUD_RDMA_LOCAL, &from);
    fill(from.bytes, from.size, 3);
    CHECK(!gpud_rdma_has_dmabuf(pair.b.rdma, host, why) && why[0], "the host needs no way");
    CHECK(!gpud_rdma_has_peermem(pair.b.rdma, host, why) && why[0], "the host needs no way");
    struct gpud_rdma_region *region;
    enum gpud_rdma_way way;
    WORKS(
        gpud_rdma_register_memory(pair.b.rdma, memory, GPUD_RDMA_REMOTE_WRITE, &region, &way, &e));
    CHECK_EQUAL(way, GPUD_RDMA_HOST);
    /* It is kept. */
    char *bytes = gpud_memory_get_native(memory);
    gpud_memory_unref(&memory);
    struct target to = {.region = region};
    WORKS(write_to(&pair.a, &from, 0, &to, 0, from.size, &e));
    drain(&pair.a);
    CHECK(memcmp(from.bytes, bytes, from.size) == 0, "the bytes are there");
    gpud_rdma_unregister(&region);
    gpud_rdma_unregister(&region);
    drop_target(&from);
    drop_pair(&pair);
    gpud_device_close(&host);
    gpud_context_destroy(&context);
}

/* The fake driver's memory: no card can have its pages, and each way says why. */
void test_device_memory(void)
{
    struct gpud_rdma_region *region = NULL;
    enum gpud_rdma_way way;
    char why[GPUD_REASON_MAX];
    struct gpud_context *context = NEW_CONTEXT();
    struct gpud_device *cuda = OPEN_DEVICE(context, "cuda:0");
    struct gpud_memory *memory = NEW_MEMORY(cuda, 1 << 20);
    struct pair pair = make_pair();
    CHECK(!gpud_rdma_has_dmabuf(pair.a.rdma, cuda, why), "rxe takes no dma-bufs");
    CHECK(strstr(why, "rxe0 takes no dma-bufs"), "dma-buf: %s", why);

    char root[] = "/tmp/sysfs-XXXXXX", path[100];
    CHECK(mkdtemp(root), "mkdtemp: %m");
    gpud_sysfs_root = root;
    CHECK(!gpud_rdma_has_peermem(pair.a.rdma, cuda, why), "there is no module");
    CHECK(strstr(why, "nvidia-peermem is not loaded"), "peermem: %s", why);
    EXPECT(GPUD_UNSUPPORTED, "dma-buf: the driver of rxe0",
           gpud_rdma_register_memory(pair.a.rdma, memory, 0, &region, &way, &e));
    EXPECT(GPUD_UNSUPPORTED, "peermem: nvidia-peermem is not loaded",
           gpud_rdma_register_memory(pair.a.rdma, memory, 0, &region, &way, &e));

    /* With the module it is tried, and rxe's kernel half knows nothing of it. */
    static const char *const folders[] = {"/sys", "/sys/module", "/sys/module/nvidia_peermem",
                                          "/sys/module/nvidia_peermem/version"};
    for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
        gpud_print(path, "%s%s", root, folders[i]);
        CHECK(mkdir(path, 0700) == 0, "mkdir: %m");
    }
    EXPECT(GPUD_UNSUPPORTED, "peermem: rxe0 cannot register 1048576 bytes of cuda:0",
           gpud_rdma_register_memory(pair.a.rdma, memory, 0, &region, &way, &e));
    gpud_sysfs_root = "";
    gpud_memory_unref(&memory);
    drop_pair(&pair);
    gpud_device_close(&cuda);
    gpud_context_destroy(&context);
}
