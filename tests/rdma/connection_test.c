/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Connections over the kernel's soft-RoCE; to be run by tests/vm/guest --rdma. */
#include "cases.h"

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*test)(void);
    } cases[] = {
        {"messages", test_messages},
        {"unread messages", test_unread_messages},
        {"notices", test_notices},
        {"waking", test_waking},
        {"writes", test_writes},
        {"words", test_words},
        {"order", test_order},
        {"full queue", test_full_queue},
        {"reads", test_reads},
        {"arguments", test_arguments},
        {"refused", test_refused},
        {"lies", test_lies},
        {"too many receives", test_too_many_receives},
        {"flood", test_flood},
        {"silence", test_silence},
        {"end", test_end},
        {"threads", test_threads},
        {"host memory", test_host_memory},
        {"device memory", test_device_memory},
        {"deaths", test_deaths},
        {"locked memory", test_locked_memory},
    };
    if (argc == 3)
        return play_peer(argv[1], (uint16_t)atoi(argv[2]));
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (argc == 2 && strcmp(argv[1], cases[i].name) != 0)
            continue;
        int64_t start = gpud_now();
        cases[i].test();
        SAY("%s: %.1f s", cases[i].name, (double)(gpud_now() - start) / (double)GPUD_SEC);
    }
    return 0;
}
