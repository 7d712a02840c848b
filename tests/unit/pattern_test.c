/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The canary's pattern detects the faults that it is for: nothing written, a shifted or short copy,
 * a single wrong byte in what it covers, the pattern of another test; and it never writes past the
 * frame. */
#include "stream/shared/shared.h"
#include "support/check.h"

#define ROOM (UINT64_C(1) << 20)
#define HEAD 65536
#define TAIL 4096

static uint8_t frame[ROOM + 64], other[ROOM + 64];

static void test_size(uint64_t size)
{
    memset(frame, 0, sizeof(frame));
    CHECK(!gpud_pattern_check(frame, size, 42), "%llu zeros pass", (unsigned long long)size);
    memset(frame, 0x5a, sizeof(frame));
    gpud_pattern_write(frame, size, 42);
    for (unsigned i = 0; i < 64; i++)
        CHECK(frame[size + i] == 0x5a, "byte %u behind a frame of %llu was written", i,
              (unsigned long long)size);
    CHECK(gpud_pattern_check(frame, size, 42), "the pattern does not recognise itself at %llu",
          (unsigned long long)size);

    /* Every covered byte counts. */
    uint64_t step = size > 2000 ? 97 : 1;
    for (uint64_t i = 0; i < size; i += step) {
        bool covered = i < HEAD || i >= size - TAIL || size <= HEAD + TAIL;
        frame[i] ^= 0x10;
        CHECK(gpud_pattern_check(frame, size, 42) == !covered, "byte %llu of %llu %s",
              (unsigned long long)i, (unsigned long long)size,
              covered ? "does not count" : "counts and is not written");
        frame[i] ^= 0x10;
    }
    frame[size - 1] ^= 1;
    CHECK(!gpud_pattern_check(frame, size, 42), "the last byte does not count");
    frame[size - 1] ^= 1;
    if (size < 16)
        return; /* so few bytes may agree by chance */
    CHECK(!gpud_pattern_check(frame, size, 43), "the pattern of another test passes");
    for (unsigned shift = 1; shift <= 8; shift++) {
        memcpy(other, frame + shift, size - shift);
        CHECK(!gpud_pattern_check(other, size - shift, 42), "a copy shifted by %u passes", shift);
    }
    memcpy(other, frame, size);
    memset(other + size - 8, 0, 8);
    CHECK(!gpud_pattern_check(other, size, 42), "a copy short by 8 passes");
}

int main(void)
{
    static const uint64_t sizes[] = {1,     2,     7,     8,     100,   4095,  4096,    4097, 65535,
                                     65536, 65537, 69631, 69632, 69633, 70000, 1 << 17, ROOM};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        test_size(sizes[i]);
    SAY("the canary's pattern at %zu sizes", sizeof(sizes) / sizeof(sizes[0]));
    return 0;
}
