/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Control channels over network cards, and ring pages between two processes, over the kernel's
 * soft-RoCE; to be run by tests/vm/guest --rdma. Arguments: the names of cases, else all. */
#include "channels.h"

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*test)(void);
    } cases[] = {
        {"nobody", test_nobody},
        {"names", test_names},
        {"versions", test_versions},
        {"silence", test_silence},
        {"no-card", test_no_card},
        {"addresses", test_addresses},
        {"early-messages", test_early_messages},
        {"messages", test_messages},
        {"local-memory", test_local_memory},
        {"last-words", test_last_words},
        {"death", test_death},
        {"keys", test_keys},
        {"frames", test_frames},
        {"sleep", test_sleep},
        {"pollers", test_pollers},
        {"kicks", test_kicks},
        {"stopped", test_stopped},
        {"killed", test_killed},
        {"epochs", test_epochs},
        {"lies", test_lies},
        {"leaks", test_leaks},
        {"removal", test_removal},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        bool wanted = argc == 1;
        for (int arg = 1; arg < argc; arg++)
            wanted |= strcmp(argv[arg], cases[i].name) == 0;
        if (!wanted)
            continue;
        int64_t start = gpud_now();
        run_alone(cases[i].test);
        SAY("%s: %.1f s", cases[i].name, (double)(gpud_now() - start) / (double)GPUD_SEC);
    }
    return 0;
}
