/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Channels, ring pages and frames between processes of this machine, by TCP: the cases of
 * tests/network. Arguments: the names of cases, else all. */
#include "tcp.h"

int main(int argc, char **argv)
{
    tcp_begin();
    run_cases(channel_cases, argc, argv);
    run_cases(link_cases, argc, argv);
    return tcp_done();
}
