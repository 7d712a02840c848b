/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Addresses of network cards: their meaning, their normalised form, and invalid ones. */
#include "support/check.h"
#include "wire/rdma/kind.h"

#include <arpa/inet.h>
#include <netinet/in.h>

static void check_number(const char *text, const char *printed)
{
    struct gpud_place place;
    struct sockaddr_storage address;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    char host[64];
    WORKS(gpud_place_parse(&gpud_rdma_scheme, text, &place, NULL, &e));
    CHECK(gpud_place_to_sockaddr(&place, &address), "%s is no number", text);
    memcpy(&v4, &address, sizeof(v4));
    memcpy(&v6, &address, sizeof(v6));
    CHECK_EQUAL(ntohs(address.ss_family == AF_INET ? v4.sin_port : v6.sin6_port), 99);
    gpud_sockaddr_print_host((const struct sockaddr *)&address, host, sizeof(host));
    CHECK(strcmp(host, printed) == 0, "%s is printed as \"%s\"", text, host);
}

int main(void)
{
    SAY("what addresses mean");
    static const struct {
        const char *text, *canonical;
        int family;
        const char *host;
        unsigned port;
        const char *name;
        bool wildcard;
    } good[] = {
        {"rdma://10.0.0.2", "rdma://10.0.0.2:7174", AF_INET, "10.0.0.2", 7174, "", false},
        {"rdma://10.0.0.2/", "rdma://10.0.0.2:7174", AF_INET, "10.0.0.2", 7174, "", false},
        {"rdma://10.0.0.2:1", "rdma://10.0.0.2:1", AF_INET, "10.0.0.2", 1, "", false},
        {"rdma://10.0.0.2:00080/a", "rdma://10.0.0.2:80/a", AF_INET, "10.0.0.2", 80, "a", false},
        {"rdma://studio-1.example:65535/Cam_1.b", "rdma://studio-1.example:65535/Cam_1.b",
         AF_UNSPEC, "studio-1.example", 65535, "Cam_1.b", false},
        {"rdma://10.0.0.2/cam1/audio", "rdma://10.0.0.2:7174/cam1/audio", AF_INET, "10.0.0.2", 7174,
         "cam1/audio", false},
        {"rdma://4k", "rdma://4k:7174", AF_UNSPEC, "4k", 7174, "", false},
        {"rdma://[fd00::2]", "rdma://[fd00::2]:7174", AF_INET6, "fd00::2", 7174, "", false},
        {"rdma://[fe80::1%eth0]:9/x", "rdma://[fe80::1%eth0]:9/x", AF_INET6, "fe80::1%eth0", 9, "x",
         false},
        {"rdma://[::ffff:10.0.0.2]", "rdma://[::ffff:10.0.0.2]:7174", AF_INET6, "::ffff:10.0.0.2",
         7174, "", false},
        {"rdma://0.0.0.0/cam1", "rdma://0.0.0.0:7174/cam1", AF_INET, "0.0.0.0", 7174, "cam1", true},
        {"rdma://[::]", "rdma://[::]:7174", AF_INET6, "::", 7174, "", true},
        {"rdma://[0:0::0]", "rdma://[0:0::0]:7174", AF_INET6, "0:0::0", 7174, "", true},
    };
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        struct gpud_place place;
        char canonical[GPUD_ADDRESS_MAX];
        WORKS(gpud_place_parse(&gpud_rdma_scheme, good[i].text, &place, canonical, &e));
        CHECK_TEXT(canonical, good[i].canonical);
        CHECK(place.family == good[i].family && place.port == good[i].port &&
                  strcmp(place.host, good[i].host) == 0 && strcmp(place.name, good[i].name) == 0,
              "%s: family %d, host \"%s\", port %u, name \"%s\"", good[i].text, place.family,
              place.host, place.port, place.name);
        CHECK(gpud_place_is_wildcard(&place) == good[i].wildcard, "%s: every address?",
              good[i].text);
        WORKS(gpud_place_parse(&gpud_rdma_scheme, good[i].text, NULL, canonical, &e));
        CHECK_TEXT(canonical, good[i].canonical);
        /* No other text here gives the usual port. */
        CHECK(place.usual_port == (good[i].port == 7174), "%s: the usual port?", good[i].text);
        WORKS(gpud_place_parse(&gpud_rdma_scheme, canonical, &place, NULL, &e));
        CHECK(!place.usual_port, "%s has a port", canonical);
    }
    SAY("what is particular to tcp://");
    static const struct {
        const char *text, *canonical, *host;
        bool wildcard;
    } tcp[] = {
        {"tcp://10.0.0.2/cam1", "tcp://10.0.0.2:7175/cam1", "10.0.0.2", false},
        {"tcp://:7175/x", "tcp://[::]:7175/x", "::", true},
        {"tcp://[fe80::1%25eth0]:9/x", "tcp://[fe80::1%eth0]:9/x", "fe80::1%eth0", false},
        {"tcp://[fe80::1%eth0]:9/x", "tcp://[fe80::1%eth0]:9/x", "fe80::1%eth0", false},
    };
    for (size_t i = 0; i < sizeof(tcp) / sizeof(tcp[0]); i++) {
        struct gpud_place place;
        char canonical[GPUD_ADDRESS_MAX];
        WORKS(gpud_place_parse(&gpud_tcp_scheme, tcp[i].text, &place, canonical, &e));
        CHECK_TEXT(canonical, tcp[i].canonical);
        CHECK_TEXT(place.host, tcp[i].host);
        CHECK(gpud_place_is_wildcard(&place) == tcp[i].wildcard, "%s: every address?", tcp[i].text);
    }
    SAY("what is no address");
    static const struct {
        const char *says, *texts[16];
    } bad[] = {
        {"write rdma://host",
         {"", "rdma:", "rdma:/host", "rdma://", "rdma://:7174", "rdma:///cam1", "rdma://a b",
          "rdma://-a", "rdma://.", "rdma://h\xc3\xb6st", "rdma://user@host", "rdma://300.0.0.1",
          "rdma://10.0.1", "rdma://123"}},
        {"brackets", {"rdma://::1", "rdma://fd00::2:7174/x"}},
        {"not an IPv6 address",
         {"rdma://[", "rdma://[]", "rdma://[::1", "rdma://[10.0.0.2]", "rdma://[fe80::1%]",
          "rdma://[fe80::1%eth0:1]", "rdma://[fe80::1%abcdefghijklmnopq]"}},
        {"followed by /name",
         {"rdma://[::1]x", "rdma://h:1x", "rdma://h/a/", "rdma://h//b", "rdma://h/a//b",
          "rdma://h/a/b/", "rdma://h/a b", "rdma://h/\xc3\xa4"}},
        {"a port is a number",
         {"rdma://h:", "rdma://h:0", "rdma://h:65536", "rdma://h:000080", "rdma://h:-1",
          "rdma://h:x"}},
        {"followed by /name or /name/stream", {"rdma://h/a/b/c"}},
    };
    struct gpud_place place;
    char canonical[GPUD_ADDRESS_MAX] = "untouched", text[400];
    memset(&place, 0x5a, sizeof(place));
    EXPECT(GPUD_INVALID, "no address",
           gpud_place_parse(&gpud_rdma_scheme, NULL, &place, canonical, &e));
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        for (size_t k = 0; bad[i].texts[k]; k++)
            EXPECT(GPUD_INVALID, bad[i].says,
                   gpud_place_parse(&gpud_rdma_scheme, bad[i].texts[k], &place, canonical, &e));

    strcpy(text, "rdma://h/");
    memset(text + 9, 'n', 48);
    text[57] = '\0';
    WORKS(gpud_place_parse(&gpud_rdma_scheme, text, NULL, NULL, &e));
    text[30] = '/';
    WORKS(gpud_place_parse(&gpud_rdma_scheme, text, NULL, NULL, &e));
    strcat(text, "n");
    EXPECT(GPUD_INVALID, "at most 48",
           gpud_place_parse(&gpud_rdma_scheme, text, &place, canonical, &e));
    strcpy(text, "rdma://");
    memset(text + 7, 'h', 390);
    text[sizeof(text) - 1] = '\0';
    EXPECT(GPUD_INVALID, "too long",
           gpud_place_parse(&gpud_rdma_scheme, text, &place, canonical, &e));
    text[GPUD_ADDRESS_MAX - 1] = '\0'; /* it would fit, but not with its port */
    EXPECT(GPUD_INVALID, "too long",
           gpud_place_parse(&gpud_rdma_scheme, text, &place, canonical, &e));
    CHECK(strcmp(canonical, "untouched") == 0 && place.family == 0x5a5a5a5a,
          "an output was written by a call that failed");
    text[GPUD_ADDRESS_MAX - 6] = '\0';
    WORKS(gpud_place_parse(&gpud_rdma_scheme, text, &place, canonical, &e));
    CHECK_EQUAL(strlen(canonical), GPUD_ADDRESS_MAX - 1);

    SAY("numbers");
    struct sockaddr_storage address;
    struct sockaddr other = {.sa_family = AF_UNIX};
    char host[64];
    check_number("rdma://10.0.0.2:99", "10.0.0.2");
    check_number("rdma://[FD00:0::2]:99", "fd00::2");
    check_number("rdma://[::ffff:10.0.0.2]:99", "10.0.0.2");
    check_number("rdma://[fe80::1%lo]:99", "fe80::1%lo");
    check_number("rdma://[fe80::1%1]:99", "fe80::1%lo");
    WORKS(gpud_place_parse(&gpud_rdma_scheme, "rdma://host.example", &place, NULL, &e));
    CHECK(!gpud_place_to_sockaddr(&place, &address), "a name is a number");
    CHECK(!gpud_place_is_wildcard(&place), "a name is every address");
    gpud_sockaddr_print_host(&other, host, sizeof(host));
    CHECK_TEXT(host, "?");
    return 0;
}
