/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "cell.h"

#include "support/check.h"
#include "support/copies.h"
#include "support/make.h"

#define A_SEGMENT                                                                  \
    100 /* kills with one honest receiver, which lives no longer than some minutes \
         */
#define SLACK_REAL ((size_t)64 << 20) /* what others may take on a GPU that is not ours alone */
#define SLACK_RSS 8192                /* KiB that an allocator may keep */

const struct way ways[WAYS] = {
    {"map host", WAY_HOST, "host", "host", "map"},
    {"map cuda", WAY_CUDA, "cuda:0", "cuda:0", "map"},
    {"peer", WAY_PEER, "cuda:0", "cuda:1", "peer"},
    {"staged", WAY_STAGED, "cuda:0", "cuda:1", "staged"},
    {"staged up", WAY_UP, "host", "vulkan:0", "staged"},
    {"staged down", WAY_DOWN, "vulkan:0", "host", "staged"},
    {"directgma", WAY_DIRECTGMA, "opencl:0", "opencl:0", "directgma"},
    {"map hip", WAY_HIP, "hip:0", "hip:0", "map"},
    {"peer hip", WAY_HIP_PEER, "hip:0", "hip:1", "peer"},
    {"staged push", WAY_PUSH, "hip:0", "hip:1", "staged-push"},
    {"map vulkan", WAY_VULKAN, "vulkan:0", "vulkan:0", "map"},
    {"rdma host", WAY_RDMA, "host", "host", "rdma-host"},
    {"standby", WAY_STANDBY, "host", "host", "map"},
    {"group", WAY_GROUP, "host", "host", "map"},
    {"group of sound", WAY_SOUND, "host", "host", "map"},
};

void honest_start(struct peer *honest, const struct cell *cell)
{
    struct peer_orders orders = {0};
    snprintf(orders.address, sizeof(orders.address), "%s", peer_address(KILL_NAME));
    snprintf(orders.device, sizeof(orders.device), "%s", cell->way->to);
    peer_start(honest, &orders);
}

void honest_finish(struct peer *honest)
{
    PEER_FINISH(honest);
    peer_forget(honest);
}

static int64_t survive(const struct cell *cell, int kills, enum gpud_slow_receiver policy)
{
    if (!point_is_the_senders(cell->point))
        return survive_sending(cell, kills, policy);
    return cell->way->bit & WAYS_OF_GROUPS ? survive_grouped(cell, kills)
                                           : survive_receiving(cell, kills, policy);
}

/* --- leaks ------------------------------------------------------------------------------------ */

/* KiB; under a sanitizer, which keeps what is freed, nothing. */
static long resident(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return 0;
#else
    long total, pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    CHECK(file && fscanf(file, "%ld %ld", &total, &pages) == 2, "no /proc/self/statm");
    fclose(file);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
#endif
}

/* What is in use on the GPUs of this way; 0 on others. */
static size_t gpu_memory(const struct way *way)
{
    const char *names[] = {way->from, way->to};
    size_t used = 0;
    if (!gpu_is_behind(way->from))
        return 0;
    struct gpud_context *context = NEW_CONTEXT();
    for (int i = 0; i < 2; i++) {
        struct gpu gpu;
        struct gpud_device *device = OPEN_DEVICE(context, names[i]);
        gpu_open(&gpu, names[i], VIEW_FRAME_MIN);
        used += gpu_used(&gpu);
        gpu_close(&gpu);
        gpud_device_close(&device);
    }
    gpud_context_destroy(&context);
    return used;
}

static void gpu_memory_is_back(const struct way *way, size_t before)
{
    /* An account of our own is exact; see cell_run(). */
    size_t slack = getenv("GPUD_FAKE_CUDA_STRICT") ? 0 : SLACK_REAL, now = before;
    for (int64_t until = gpud_test_now() + 5 * GPUD_SEC; gpud_test_now() < until;
         gpud_test_nap(20)) {
        now = gpu_memory(way);
        if (now <= before + slack)
            return;
    }
    FAIL("I4: memory of GPUs leaks: %zu bytes were in use, %zu are", before, now);
}

/* --- all of it -------------------------------------------------------------------------------- */

/* For this process, and for those to come: what takes a network card's place, or the card of an
 * address of this host, on a port of the cell's own. */
static void choose_network(const struct cell *cell)
{
    const char *host = getenv("GPUD_TEST_HOST");
    char address[108];
    if (host) {
        snprintf(address, sizeof(address), "rdma://%s:%d", host,
                 7200 + (int)(cell->point - points));
        setenv("GPUD_TEST_ADDRESS", address, 1);
    } else {
        setenv("GPUD_TEST_COPIES", "1", 1);
        copies_install();
    }
}

void cell_run(struct cell *cell)
{
    char account[128];
    if (cell->way->bit == WAY_RDMA)
        choose_network(cell);
    runtime_make();
    snprintf(account, sizeof(account), "%s/account", getenv("XDG_RUNTIME_DIR"));
    setenv("GPUD_FAKE_CUDA_ACCOUNT", account, 1);

    /* What drivers and allocators keep they have after the first one. */
    gpu_memory(cell->way);
    cell->worst = survive(cell, 1, GPUD_SLOW_BLOCK);
    struct baseline before = baseline_take();
    size_t used = gpu_memory(cell->way);
    long kib = resident();
    for (int left = cell->kills - 1, segment = 0; left; segment++) {
        int kills = segment == 0 ? (left + 1) / 2 : left;
        kills = kills < A_SEGMENT ? kills : A_SEGMENT;
        int64_t took = survive(cell, kills, segment % 2 ? GPUD_SLOW_BLOCK : GPUD_SLOW_DROP_OLDEST);
        cell->worst = took > cell->worst ? took : cell->worst;
        left -= kills;
    }
    BASELINE_CHECK(before);
    gpu_memory_is_back(cell->way, used);
    /* An emulator's own memory, which it translates into, counts as the program's. */
    CHECK(getenv("MESON_EXE_WRAPPER") || resident() <= kib + SLACK_RSS,
          "I4: %ld KiB were resident, %ld are", kib, resident());
    unlink(account);
    /* A sender that was killed last leaves its socket behind, and the next one takes it over. */
    runtime_done();
}
