/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Control channels over network cards, and ring pages between two processes, over the kernel's
 * soft-RoCE; to be run by tests/vm/guest --rdma. Arguments: the names of cases, else all. */
#include "channels.h"

int main(int argc, char **argv)
{
    static const struct rdma_case cases[] = {
        {"nobody", test_nobody},
        {"names", test_names},
        {"list", test_list},
        {"sharing", test_sharing},
        {"versions", test_versions},
        {"silence", test_silence},
        {"no-card", test_no_card},
        {"addresses", test_addresses},
        {"early-messages", test_early_messages},
        {"messages", test_messages},
        {"local-memory", test_local_memory},
        {"last-words", test_last_words},
        {"death", test_death},
        {"death-of-a-parent", test_death_of_a_parent},
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
    return run_cases(cases, sizeof(cases) / sizeof(cases[0]), argc, argv);
}
