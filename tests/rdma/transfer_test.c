/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Transfers between two processes (gpudirect/transfer.h), over the kernel's soft-RoCE; to be run by
 * tests/vm/guest --rdma. Arguments: the names of cases, else all. */
#include "transfer_ends.h"

int main(int argc, char **argv)
{
    static const struct rdma_case cases[] = {
        {"connecting", test_connecting},
        {"puts", test_puts},
        {"gets", test_gets},
        {"messages", test_transfer_messages},
        {"missing-receives", test_missing_receives},
        {"rights", test_rights},
        {"stale-keys", test_stale_keys},
        {"forged-keys", test_forged_keys},
        {"depth", test_depth},
        {"events", test_events},
        {"killed-peer", test_killed_peer},
        {"closing", test_closing},
        {"registration", test_registration},
        {"idle", test_idle},
    };
    return run_cases(cases, sizeof(cases) / sizeof(cases[0]), argc, argv);
}
