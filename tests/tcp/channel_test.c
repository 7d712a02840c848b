/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Channels, ring pages and frames between processes of this machine, by TCP: the cases of
 * tests/support. Arguments: "key", for TLS whose keys are changed again and again, and the names of
 * cases, else all. */
#include "support/peer.h"
#include "tcp.h"
#include "wire/tcp/tcp.h"

#include <openssl/ssl.h>
#include <stdatomic.h>
#include <sys/mman.h>

/* How often each side changed its key, in all processes. */
static struct changes {
    atomic_uint of_receivers, of_senders;
} * changes;

int __real_SSL_key_update(SSL *ssl, int type);
int __wrap_SSL_key_update(SSL *ssl, int type);

int __wrap_SSL_key_update(SSL *ssl, int type)
{
    atomic_fetch_add(SSL_is_server(ssl) ? &changes->of_senders : &changes->of_receivers, 1);
    return __real_SSL_key_update(ssl, type);
}

int main(int argc, char **argv)
{
    static struct gpud_access_rule access;
    bool keyed = argc > 1 && strcmp(argv[1], "key") == 0;
    tcp_begin();
    if (keyed) {
        make_key(path_of("key"), "a key of both ends");
        access = with_key(path_of("key"));
        network.access = &access;
        gpud_tls_bytes_a_key = 1024; /* a receiver says little */
        argc--;
        argv++;
    }
    changes =
        mmap(NULL, sizeof(*changes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(changes != MAP_FAILED, "mmap: %m");
    run_cases(channel_cases, argc, argv);
    run_cases(link_cases, argc, argv);
    run_cases(tcp_link_cases, argc, argv);
    SAY("%u changes of keys by senders, %u by receivers", atomic_load(&changes->of_senders),
        atomic_load(&changes->of_receivers));
    CHECK(!keyed || argc > 1 || (changes->of_senders > 100 && changes->of_receivers > 100),
          "keys are hardly changed");
    return tcp_done();
}
