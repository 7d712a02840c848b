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
        {"messages", test_messages}, {"unread messages", test_unread_messages},
        {"notices", test_notices},   {"waking", test_waking},
        {"writes", test_writes},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int64_t start = gpud_now();
        cases[i].test();
        SAY("%s: %.1f s", cases[i].name, (double)(gpud_now() - start) / (double)GPUD_SEC);
    }
    return 0;
}
