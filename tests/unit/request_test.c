/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The first bytes of connections between hosts: encoded and decoded, padded, cut, altered; and
 * refusals as texts. */
#include "support/check.h"
#include "wire/rdma/kind.h"

#define ROOM 256

static uint8_t bytes[ROOM];

/* As it may arrive: with zeros, or with whatever, behind it. */
static void pad(size_t size, int with)
{
    memset(bytes + size, with, sizeof(bytes) - size);
}

/* --- refusals --------------------------------------------------------------------------------- */

static void send_refusal(const struct gpud_refusal *refusal, struct gpud_refusal *got)
{
    size_t size = gpud_refusal_write(refusal, bytes);
    CHECK(size <= GPUD_REFUSAL_MAX, "%zu bytes", size);
    pad(size, 0);
    memset(got, 0x5a, sizeof(*got));
    WORKS(gpud_refusal_read(bytes, ROOM, got, &e));
    CHECK(got->reason == refusal->reason && strcmp(got->names, refusal->names) == 0 &&
              got->version == GPUD_REQUEST_VERSION,
          "reason %d, version %u, \"%s\"", got->reason, got->version, got->names);
}

int main(void)
{
    SAY("requests");
    struct gpud_request request = {.number = 96}, got;
    size_t size;
    for (size_t length = 0; length <= GPUD_PLACE_NAME_MAX; length++) {
        memset(request.name, 'n', length);
        request.name[length] = '\0';
        size = gpud_request_write(&request, bytes);
        CHECK(size <= GPUD_REQUEST_MAX, "%zu bytes", size);
        for (int with = 0; with < 256; with += 51) {
            pad(size, with);
            memset(&got, 0x5a, sizeof(got));
            WORKS(gpud_request_read(bytes, ROOM, &got, &e));
            CHECK(got.number == 96 && strcmp(got.name, request.name) == 0, "\"%s\"", got.name);
        }
        WORKS(gpud_request_read(bytes, size, &got, &e));
        for (size_t cut = 0; cut < size; cut++)
            EXPECT(GPUD_PEER, "", gpud_request_read(bytes, cut, &got, &e));
    }
    gpud_print(request.name, "cam1");
    size = gpud_request_write(&request, bytes);
    CHECK(size == 12 && memcmp(bytes, "GPUR\x01\x0c\x60\0cam1", 12) == 0, "other bytes");

    bytes[4] = 2;
    EXPECT(GPUD_UNSUPPORTED, "version 2", gpud_request_read(bytes, size, &got, &e));
    bytes[4] = 1;
    bytes[0] = 'g';
    EXPECT(GPUD_PEER, "not a gpudirect program", gpud_request_read(bytes, size, &got, &e));
    bytes[0] = 'G';
    bytes[9] = '/';
    WORKS(gpud_request_read(bytes, size, &got, &e));
    CHECK_TEXT(got.name, "c/m1");
    bytes[10] = '/';
    EXPECT(GPUD_PEER, "malformed", gpud_request_read(bytes, size, &got, &e));
    bytes[10] = 'm';
    bytes[9] = '\0';
    EXPECT(GPUD_PEER, "malformed", gpud_request_read(bytes, size, &got, &e));
    bytes[9] = 'a';
    bytes[6] = 0; /* a question for names */
    WORKS(gpud_request_read(bytes, size, &got, &e));
    CHECK_EQUAL(got.number, 0);
    bytes[6] = 33;
    WORKS(gpud_request_read(bytes, size, &got, &e));
    memset(bytes + 8, 'n', ROOM - 8);
    bytes[5] = 8 + GPUD_PLACE_NAME_MAX + 1;
    EXPECT(GPUD_PEER, "malformed", gpud_request_read(bytes, ROOM, &got, &e));
    bytes[5] = 7;
    EXPECT(GPUD_PEER, "malformed", gpud_request_read(bytes, ROOM, &got, &e));
    SAY("replies");
    uint32_t number = 7;
    size = gpud_reply_write(0x1234, bytes);
    CHECK(size == 8 && memcmp(bytes, "GPUR\x01\x08\x34\x12", 8) == 0, "other bytes");
    pad(size, 0xff);
    WORKS(gpud_reply_read(bytes, ROOM, &number, &e));
    CHECK_EQUAL(number, 0x1234);
    for (size_t cut = 0; cut < size; cut++)
        EXPECT(GPUD_PEER, "", gpud_reply_read(bytes, cut, &number, &e));
    bytes[5] = 9; /* only requests have a name */
    EXPECT(GPUD_PEER, "malformed", gpud_reply_read(bytes, ROOM, &number, &e));
    bytes[5] = 8;
    bytes[4] = 77;
    EXPECT(GPUD_UNSUPPORTED, "version 77", gpud_reply_read(bytes, ROOM, &number, &e));
    CHECK_EQUAL(number, 0x1234);
    SAY("refusals");
    struct gpud_place place;
    struct gpud_refusal refusal = {.reason = GPUD_REFUSAL_UNKNOWN_NAME}, heard;
    WORKS(gpud_place_parse(&gpud_rdma_scheme, "rdma://10.0.0.2/cam9", &place, NULL, &e));
    send_refusal(&refusal, &heard);
    EXPECT(GPUD_CLOSED, "no channel \"cam9\" at 10.0.0.2, port 7174; there is one without a name",
           gpud_refusal_explain(&heard, &place, &e));
    gpud_refusal_add_name(&refusal, "cam1");
    gpud_refusal_add_name(&refusal, ""); /* has nothing to be told by */
    send_refusal(&refusal, &heard);
    EXPECT(GPUD_CLOSED, "there are: cam1", gpud_refusal_explain(&heard, &place, &e));
    gpud_refusal_add_name(&refusal, "cam2");
    send_refusal(&refusal, &heard);
    EXPECT(GPUD_CLOSED, "there are: cam1, cam2", gpud_refusal_explain(&heard, &place, &e));

    /* As many as fit, whatever their lengths are. */
    for (size_t length = 1; length <= GPUD_PLACE_NAME_MAX; length++) {
        char name[GPUD_PLACE_NAME_MAX + 1] = "";
        refusal = (struct gpud_refusal){.reason = GPUD_REFUSAL_NAME_WANTED};
        for (int i = 0; i < 200; i++) {
            memset(name, 'a' + i % 26, length);
            gpud_refusal_add_name(&refusal, name);
        }
        send_refusal(&refusal, &heard);
        EXPECT(GPUD_CLOSED, "put /NAME behind the port", gpud_refusal_explain(&heard, &place, &e));
        EXPECT(GPUD_CLOSED, " and more", gpud_refusal_explain(&heard, &place, &e));
    }

    static const struct {
        enum gpud_refusal_reason reason;
        enum gpud_status status;
        const char *says;
    } others[] = {
        {GPUD_REFUSAL_OTHER_VERSION, GPUD_UNSUPPORTED, "by version 1 of the protocol"},
        {GPUD_REFUSAL_MALFORMED, GPUD_PEER, "malformed"},
        {GPUD_REFUSAL_BUSY, GPUD_CLOSED, "too many"},
        {GPUD_REFUSAL_UNABLE, GPUD_CLOSED, "its log says why"},
    };
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        refusal = (struct gpud_refusal){.reason = others[i].reason};
        send_refusal(&refusal, &heard);
        EXPECT(others[i].status, others[i].says, gpud_refusal_explain(&heard, &place, &e));
    }

    static const char *const bent[] = {"", "0", "65536", "123456", "12a", "cam1", "7,8", "+7"};
    refusal = (struct gpud_refusal){.reason = GPUD_REFUSAL_UNKNOWN_NAME, .names = "7175"};
    WORKS(gpud_place_parse(&gpud_rdma_scheme, "rdma://10.0.0.2/cam9", &place, NULL, &e));
    CHECK_EQUAL(gpud_refusal_moved_to(&refusal), 0);
    for (uint32_t port = 1; port <= UINT16_MAX; port += 7) {
        gpud_refusal_set_moved(&refusal, (uint16_t)port);
        send_refusal(&refusal, &heard);
        CHECK_EQUAL(gpud_refusal_moved_to(&heard), port);
    }
    EXPECT(GPUD_CLOSED, "\"cam9\" at 10.0.0.2, port 7174, has just moved",
           gpud_refusal_explain(&heard, &place, &e));
    for (size_t i = 0; i < sizeof(bent) / sizeof(bent[0]); i++) {
        gpud_print(refusal.names, "%s", bent[i]);
        size = gpud_refusal_write(&refusal, bytes);
        EXPECT(GPUD_PEER, "malformed", gpud_refusal_read(bytes, size, &heard, &e));
    }

    refusal = (struct gpud_refusal){.reason = GPUD_REFUSAL_PROOF, .names = "key"};
    send_refusal(&refusal, &heard);
    EXPECT(GPUD_NO_ACCESS, "wants a key: set psk-file", gpud_refusal_explain(&heard, &place, &e));
    gpud_print(refusal.names, "certificate");
    send_refusal(&refusal, &heard);
    EXPECT(GPUD_NO_ACCESS, "set tls-certificate", gpud_refusal_explain(&heard, &place, &e));
    gpud_print(refusal.names, "none");
    send_refusal(&refusal, &heard);
    EXPECT(GPUD_NO_ACCESS, "neither a key", gpud_refusal_explain(&heard, &place, &e));

    static const char *const names[] = {",",  "a,,b",  ",a",        "a/",
                                        "/a", "a/b/c", "a\x1b[31m", "a,b,,"};
    refusal = (struct gpud_refusal){.reason = GPUD_REFUSAL_UNKNOWN_NAME};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        gpud_print(refusal.names, "%s", names[i]);
        size = gpud_refusal_write(&refusal, bytes);
        EXPECT(GPUD_PEER, "malformed", gpud_refusal_read(bytes, size, &heard, &e));
    }
    memset(bytes + 8, 'n', ROOM - 8);
    for (unsigned length = 0; length < 256; length++) {
        bytes[5] = (uint8_t)length;
        enum gpud_status status = gpud_refusal_read(bytes, ROOM, &heard, NULL);
        CHECK(status == (length >= 8 && length <= 8 + GPUD_PLACE_NAME_MAX ? GPUD_OK : GPUD_PEER),
              "%u bytes: %s", length, gpud_status_string(status));
    }
    bytes[5] = 8;
    for (unsigned reason = 0; reason < 256; reason++) {
        bytes[6] = (uint8_t)reason;
        enum gpud_status status = gpud_refusal_read(bytes, ROOM, &heard, NULL);
        bool known = reason >= 1 && reason <= GPUD_REFUSAL_PROOF && reason != GPUD_REFUSAL_MOVED;
        CHECK(status == (known ? GPUD_OK : GPUD_PEER), "reason %u: %s", reason,
              gpud_status_string(status));
    }
    /* Of another version everything but the first bytes may mean something else. */
    bytes[4] = 9;
    bytes[5] = 200;
    WORKS(gpud_refusal_read(bytes, ROOM, &heard, &e));
    CHECK(heard.reason == GPUD_REFUSAL_OTHER_VERSION && heard.version == 9 && !heard.names[0],
          "reason %d, version %u, \"%s\"", heard.reason, heard.version, heard.names);
    return 0;
}
