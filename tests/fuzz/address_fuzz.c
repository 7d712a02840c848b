/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Addresses: what resolves is an absolute path that fits, in the private directory unless unix: was
 * said, and leads back to the address; between hosts it is an address again, which means the
 * same and is already as it should be written. */
#include "fuzz.h"
#include "wire/wire.h"
#include "wire/rdma/kind.h"
#include "wire/unix/unix.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char directory[] = "/tmp/gpud-fuzz-XXXXXX";

static void clean_up(void)
{
    char made[64];
    gpud_print(made, "%s/gpudirect", directory);
    rmdir(made);
    rmdir(directory);
}

static void check_network(const struct gpud_scheme *scheme, const char *address)
{
    struct gpud_place place, again;
    struct sockaddr_storage number;
    struct gpud_error error = {.reason = ""};
    char text[GPUD_ADDRESS_MAX], same[GPUD_ADDRESS_MAX];
    memset(&place, 'x', sizeof(place));
    memset(text, 'x', sizeof(text));
    if (gpud_place_parse(scheme, address, &place, text, &error) != GPUD_OK) {
        if (strlen(error.reason) < 10)
            abort();
        return;
    }
    if (!memchr(text, '\0', sizeof(text)) || strlen(place.host) == 0 || place.port == 0 ||
        (place.name[0] && !gpud_place_is_name(place.name, strlen(place.name))) ||
        gpud_place_parse(scheme, text, &again, same, NULL) != GPUD_OK || strcmp(text, same) != 0)
        abort();
    again.usual_port = place.usual_port; /* what is written whole has its port */
    if (memcmp(&place, &again, sizeof(place)) != 0)
        abort();
    bool is_number = gpud_place_to_sockaddr(&place, &number);
    if (is_number != (place.family != AF_UNSPEC) || (is_number && number.ss_family != place.family))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool made;
    if (!made) {
        if (!mkdtemp(directory))
            abort();
        setenv("XDG_RUNTIME_DIR", directory, 1);
        atexit(clean_up);
        made = true;
    }
    char *address = malloc(size + 1);
    struct gpud_address resolved;
    const char *path = resolved.place;
    struct gpud_error error = {.reason = ""};
    if (!address)
        return 0;
    memcpy(address, data, size);
    address[size] = '\0';
    memset(&resolved, 'x', sizeof(resolved));
    if (strncmp(address, "rdma:", strlen("rdma:")) == 0)
        check_network(&gpud_rdma_scheme, address);
    else if (strncmp(address, "tcp:", strlen("tcp:")) == 0)
        check_network(&gpud_tcp_scheme, address);
    else if (gpud_address_resolve(address, &resolved, &error) == GPUD_OK) {
        const char *name = strrchr(path, '/');
        if (path[0] != '/' || !memchr(path, '\0', GPUD_SOCKET_PATH_MAX) ||
            strcmp(resolved.text, address) != 0)
            abort();
        char text[GPUD_ADDRESS_MAX];
        if (strncmp(address, "unix:", 5) != 0 &&
            (strncmp(path, directory, strlen(directory)) != 0 || name[1] == '.' ||
             !gpud_socket_entry_address(name + 1, text, sizeof(text)) ||
             strcmp(text, address) != 0))
            abort();
    } else if (strlen(error.reason) < 10) {
        abort();
    }
    free(address);
    return 0;
}
