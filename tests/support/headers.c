/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* headers <driver.h> <prefix>...: our declarations of the driver are the vendor's. The types
 * of the functions were compared when this was compiled. */

#include "support/headers_values.h"

#include "support/check.h"

#include <ctype.h>
#include <stdbool.h>

#ifdef HAVE_VENDOR_HEADER

static const struct value *find(const char *name, size_t length)
{
    for (size_t i = 0; i < num_own_values; i++) {
        if (strlen(own_values[i].name) == length && !strncmp(own_values[i].name, name, length))
            return &own_values[i];
    }
    return NULL;
}

/* A constant that is added to driver.h must be compared, too: "NAME = " and "#define NAME ",
 * of names that begin so. */
static unsigned check_complete(const char *path, const char *prefix)
{
    FILE *file = fopen(path, "re");
    char line[512];
    unsigned seen = 0;
    CHECK(file, "%s cannot be read", path);
    while (fgets(line, sizeof line, file)) {
        for (const char *at = line; (at = strstr(at, prefix));) {
            size_t length = 0;
            while (isalnum((unsigned char)at[length]) || at[length] == '_')
                length++;
            bool whole = at == line || !(isalnum((unsigned char)at[-1]) || at[-1] == '_');
            bool defined = strncmp(line, "#define ", 8) == 0 && at == line + 8 && at[length] == ' ';
            if (whole && (defined || strncmp(at + length, " = ", 3) == 0)) {
                CHECK(find(at, length), "%.*s is not in headers_values.c", (int)length, at);
                seen++;
            }
            at += length;
        }
    }
    fclose(file);
    return seen;
}

int main(int argc, char **argv)
{
    unsigned seen = 0;
    CHECK(argc > 2, "headers <driver.h> <prefix>...");
    for (int i = 2; i < argc; i++)
        seen += check_complete(argv[1], argv[i]);
    CHECK(seen > 30, "only %u constants were found in %s", seen, argv[1]);
    CHECK_EQUAL(num_own_values, num_vendor_values);
    for (size_t i = 0; i < num_own_values; i++)
        CHECK(own_values[i].value == vendor_values[i].value,
              "%s is %llu here, %llu with the vendor", own_values[i].name, own_values[i].value,
              vendor_values[i].value);
    SAY("%zu values are the vendor's", num_own_values);
    return 0;
}

#else

int main(void)
{
    SKIP("the vendor's header is not here (cuda.h: CUDA_HOME says where it is; hip: "
         "libamdhip64-dev)");
}

#endif
