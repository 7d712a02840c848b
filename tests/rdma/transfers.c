/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Writes into the other end's memory, and reads from it. */
#include "cases.h"

#define FRAME ((uint64_t)33177600) /* 3840 x 2160 of 32 bits */

void test_writes(void)
{
    static const uint64_t sizes[] = {1, 4, 64, 256, 257, 832, 4096, 100000};
    struct pair pair;
    struct target from, to;
    make_pair(&pair);
    make_target(&pair.a, FRAME, GPUD_RDMA_LOCAL, &from);
    make_target(&pair.b, FRAME, GPUD_RDMA_REMOTE_WRITE, &to);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        fill(from.bytes, FRAME < 200000 ? FRAME : 200000, (uint32_t)i);
        WORKS(write_to(&pair.a, &from, 77, &to, 4099, sizes[i], &e));
        drain(&pair.a);
        CHECK(memcmp(from.bytes + 77, to.bytes + 4099, sizes[i]) == 0, "%llu bytes are there",
              (unsigned long long)sizes[i]);
        CHECK(to.bytes[4099 + sizes[i]] == 0, "and no more");
        memset(to.bytes, 0, 200000);
    }
    fill(from.bytes, FRAME, 99);
    CHECK(gpud_rdma_has_room(pair.a.rdma, FRAME), "there is room for a frame");
    WORKS(write_to(&pair.a, &from, 0, &to, 0, FRAME, &e));
    gpud_rdma_notify(pair.a.rdma, true);
    UNTIL(&pair, gpud_rdma_progress(pair.b.rdma));
    CHECK(memcmp(from.bytes, to.bytes, FRAME) == 0, "a frame is there when its notice is");
    drain(&pair.a);
    drop_target(&from);
    drop_target(&to);
    drop_pair(&pair);
}
