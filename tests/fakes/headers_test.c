/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* headers_test <driver.h>: our declarations of the driver are the vendor's. The types of the
 * functions were compared when this was compiled. */

#include "headers_values.h"

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

/* A constant that somebody adds to driver.h is to be compared too: "NAME = " and "#define NAME". */
static void check_complete(const char *path)
{
    FILE *file = fopen(path, "re");
    char line[512];
    unsigned seen = 0;
    CHECK(file, "%s cannot be read", path);
    while (fgets(line, sizeof line, file)) {
        for (const char *at = line; (at = strstr(at, "CU"));) {
            size_t length = 0;
            while (isalnum((unsigned char)at[length]) || at[length] == '_')
                length++;
            bool whole = at == line || !(isalnum((unsigned char)at[-1]) || at[-1] == '_');
            bool constant = strncmp(at + length, " = ", 3) == 0 ||
                            (strncmp(line, "#define CU_", 11) == 0 && at == line + 8);
            if (whole && constant) {
                CHECK(find(at, length), "%.*s is not in headers_values.c", (int)length, at);
                seen++;
            }
            at += length;
        }
    }
    fclose(file);
    CHECK(seen > 30, "only %u constants were found in %s", seen, path);
}

int main(int argc, char **argv)
{
    CHECK(argc == 2, "headers_test <driver.h>");
    check_complete(argv[1]);
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
    SKIP("no <cuda.h> here to compare with; CUDA_HOME says where it is");
}

#endif
