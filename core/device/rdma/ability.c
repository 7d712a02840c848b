/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "device/rdma/ability.h"

#include "device/rdma/sysfs.h"

#include <errno.h>
#include <glob.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

void gpud_rdma_explain_transport(const char *card, char why[GPUD_REASON_MAX])
{
    gpud_print_n(why, GPUD_REASON_MAX,
                 "%s is not for InfiniBand or RoCE: others (iWARP, say) have no way to notify the "
                 "peer of a write; soft-RoCE has, at the speed of the CPU, on the same Ethernet "
                 "interface, which `rdma link` names: modprobe rdma_rxe && rdma link add rxe0 type "
                 "rxe netdev INTERFACE (if %s is software, rdma link del %s first)",
                 card, card, card);
}

/* --- dma-buf ------------------------------------------------------------------------------- */

int gpud_rdma_ask_dmabuf(struct ibv_pd *domain)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    struct ibv_mr *mr = ibv_reg_dmabuf_mr(domain, 0, page, 0, -1, 0);
    if (!mr)
        return errno;
    ibv_dereg_mr(mr);
    return EBADF;
}

enum gpud_status gpud_rdma_explain_dmabuf(int number, const char *card, struct gpud_error *error)
{
    if (number == EBADF)
        return GPUD_OK;
    if (number == EOPNOTSUPP || number == EPROTONOSUPPORT)
        return gpud_fail(error, GPUD_UNSUPPORTED,
                         "the driver of %s takes no dma-bufs (mlx5, bnxt_re, irdma, efa, mana and "
                         "ionic do, from Linux 5.12 on)",
                         card);
    errno = number;
    return gpud_fail_errno(error, "the driver of %s does not say whether it takes dma-bufs", card);
}

/* --- peermem ------------------------------------------------------------------------------- */

static bool is_there(const char *pattern)
{
    char path[GPUD_SYSFS_PATH_MAX];
    glob_t found = {0};
    gpud_sysfs_path(path, "%s", pattern);
    bool there = glob(path, 0, NULL, &found) == 0;
    globfree(&found);
    return there;
}

enum gpud_status gpud_rdma_check_peermem(const struct gpud_device_ops *backend,
                                         struct gpud_error *error)
{
    if (!backend->peermem)
        return gpud_fail(error, GPUD_UNSUPPORTED,
                         "no driver gives network cards memory of such devices");
    for (const char *const *each = backend->peermem; *each; each++)
        if (is_there(*each))
            return GPUD_OK;
    return gpud_fail(error, GPUD_UNSUPPORTED, "%s", backend->no_peermem);
}

/* --- how much ------------------------------------------------------------------------------ */

/* The number behind a key of /proc/self/status. */
static unsigned long long read_status(const char *word, int base)
{
    char line[128];
    unsigned long long number = 0;
    size_t length = strlen(word);
    FILE *file = fopen("/proc/self/status", "re");
    while (file && fgets(line, sizeof(line), file)) {
        if (strncmp(line, word, length) != 0)
            continue;
        number = strtoull(line + length, NULL, base);
        break;
    }
    if (file)
        fclose(file);
    return number;
}

uint64_t gpud_rdma_pinned_bytes(void)
{
    return read_status("VmPin:", 10) * 1024;
}

/* The kernel checks the capability in the initial user namespace; root of another one has it only
 * there. */
static bool has_no_limit(void)
{
    unsigned long long first = 1, outside = 1, count = 0;
    FILE *file = fopen("/proc/self/uid_map", "re");
    if (file) {
        if (fscanf(file, "%llu %llu %llu", &first, &outside, &count) != 3)
            count = 0;
        fclose(file);
    }
    bool initial = first == 0 && outside == 0 && count == UINT32_MAX;
    return initial && read_status("CapEff:", 16) >> CAP_IPC_LOCK & 1;
}

uint64_t gpud_rdma_pin_room(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_MEMLOCK, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY || has_no_limit())
        return UINT64_MAX;
    uint64_t pinned = gpud_rdma_pinned_bytes();
    return limit.rlim_cur > pinned ? limit.rlim_cur - pinned : 0;
}

#define RING_SIZE (UINT64_C(4) * 3840 * 2160 * 4)
/* Messages, the ring page's words, and the driver's queues. */
#define BESIDE_SIZE (UINT64_C(4) << 20)

void gpud_rdma_explain_pin_room(uint64_t room, char why[GPUD_REASON_MAX])
{
    why[0] = '\0';
    if (room >= RING_SIZE + BESIDE_SIZE)
        return;
    gpud_print_n(why, GPUD_REASON_MAX,
                 "this process may register %llu kB of memory with network cards, and a ring of 4 "
                 "slots of 3840x2160 at 4 bytes a pixel needs %llu kB for each connection: raise "
                 "that limit (ulimit -l unlimited, memlock in /etc/security/limits.conf, "
                 "LimitMEMLOCK=infinity of a systemd service)",
                 (unsigned long long)room / 1024,
                 (unsigned long long)(RING_SIZE + BESIDE_SIZE) / 1024);
}

/* An upper bound for a connection's queues, if the driver pins them. */
#define QUEUES_SIZE (UINT64_C(1) << 19)

enum gpud_status gpud_rdma_fail_register(struct gpud_error *error, int number, const char *card,
                                         uint64_t size)
{
    struct rlimit limit = {.rlim_cur = RLIM_INFINITY};
    uint64_t bytes = size ? size : QUEUES_SIZE, wanted = gpud_rdma_pinned_bytes() + bytes;
    if (number == ENOMEM)
        getrlimit(RLIMIT_MEMLOCK, &limit);
    if (wanted > limit.rlim_cur)
        return gpud_fail_native(
            error, GPUD_NO_MEMORY, "errno", number,
            "%s cannot register %llu bytes: this process may lock %llu kB, %llu are needed at "
            "least; raise that limit (ulimit -l unlimited, memlock in /etc/security/limits.conf, "
            "LimitMEMLOCK=infinity of a systemd service)",
            card, (unsigned long long)bytes, (unsigned long long)limit.rlim_cur / 1024,
            (unsigned long long)wanted / 1024 + 1);
    errno = number;
    return size ? gpud_fail_errno(error, "%s cannot register %llu bytes", card,
                                  (unsigned long long)size)
                : gpud_fail_errno(error, "%s has no queues for another connection", card);
}
