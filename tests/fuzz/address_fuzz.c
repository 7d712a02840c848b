/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Addresses: what resolves is an absolute path that fits, in the private directory unless unix: was
 * said. */
#include "fuzz.h"
#include "wire/channel.h"
#include "wire/unix/resolve.h"

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
    if (gpud_address_resolve(address, &resolved, &error) == GPUD_OK) {
        const char *name = strrchr(path, '/');
        if (path[0] != '/' || !memchr(path, '\0', GPUD_SOCKET_PATH_MAX) ||
            strcmp(resolved.text, address) != 0)
            abort();
        if (strncmp(address, "unix:", 5) != 0 &&
            (strncmp(path, directory, strlen(directory)) != 0 || strcmp(name + 1, address) != 0 ||
             name[1] == '.'))
            abort();
    } else if (strlen(error.reason) < 10) {
        abort();
    }
    free(address);
    return 0;
}
