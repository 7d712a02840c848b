/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Announces channels, or looks for the port of one, as a kind of connection between hosts does; a
 * part of announce_test.py.
 *
 *     tools-announcer         commands on standard input, each answered by a line:
 *         begin PORT tcp|rdma://HOST:PORT/NAME [encrypted]
 *         media tcp://… CAPS
 *         end tcp://…
 *         send rdma://HOST:PORT/NAME [quiet]      a sender, which has no card, until "stop"
 *         configure CAPS
 *         stop
 *         fork                a child that keeps everything that a child keeps, until the end
 *         port tcp://HOST/NAME MILLISECONDS
 *         lookup tcp://HOST/NAME
 *         search MILLISECONDS
 */
#include "support/check.h"

#include "base/base.h"
#include "frame/media/media.h"
#include "wire/announce.h"

#include <gpudirect/gpudirect.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#ifdef GPUD_WITH_RDMA
#include <errno.h>
#include <rdma/rdma_cma.h>

/* --- in place of librdmacm: a connection manager to which no peer connects -------------------- */

struct rdma_event_channel *rdma_create_event_channel(void)
{
    struct rdma_event_channel *made = calloc(1, sizeof(*made));
    made->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return made;
}

void rdma_destroy_event_channel(struct rdma_event_channel *channel)
{
    close(channel->fd);
    free(channel);
}

int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
    errno = EAGAIN;
    return -1;
}

int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
                   enum rdma_port_space space)
{
    *id = calloc(1, sizeof(**id));
    return 0;
}

int rdma_destroy_id(struct rdma_cm_id *id)
{
    free(id);
    return 0;
}

int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *address)
{
    return 0;
}

int rdma_listen(struct rdma_cm_id *id, int backlog)
{
    return 0;
}
#endif

/* --- the commands ------------------------------------------------------------------------------
 */

#define MAX 64

static struct gpud_context *context;
static struct gpud_sender *sender;

static struct {
    char address[GPUD_ADDRESS_MAX];
    struct gpud_announcement *announcement;
} announced[MAX];

static const struct gpud_scheme schemes[] = {
    {.name = "tcp", .port = 7175},
    {.name = "rdma", .port = 7174},
};

static const struct gpud_scheme *parse(const char *address, struct gpud_place *place)
{
    const struct gpud_scheme *scheme = &schemes[strncmp(address, "rdma:", 5) == 0];
    WORKS(gpud_place_parse(scheme, address, place, NULL, &e));
    return scheme;
}

static size_t find(const char *address)
{
    size_t i = 0;
    while (i < MAX - 1 && strcmp(announced[i].address, address) != 0)
        i++;
    return i;
}

static void answer_begin(const char *address, bool encrypted)
{
    struct gpud_place place;
    const struct gpud_scheme *scheme = parse(address, &place);
    size_t i = find("");
    gpud_print(announced[i].address, "%s", address);
    gpud_announce_begin(scheme, &place, encrypted, &announced[i].announcement);
    printf("%s\n", announced[i].announcement ? "begun" : "not announced");
}

static void answer_send(const char *address, bool quiet)
{
    struct gpud_sender_params params = GPUD_PARAMS_INIT(params);
    params.address = address;
    params.allow_unauthenticated = true;
    params.no_announce = quiet;
    WORKS(gpud_context_create(NULL, &context, &e));
    WORKS(gpud_sender_create(context, &params, &sender, &e));
    printf("sends\n");
}

static void answer_configure(const char *caps)
{
    struct gpud_media media;
    WORKS(gpud_media_from_string(&media, caps, &e));
    WORKS(gpud_sender_configure(sender, &media, &e));
    printf("configured\n");
}

static void answer_port(const char *address, int64_t milliseconds)
{
    struct gpud_place place;
    const struct gpud_scheme *scheme = parse(address, &place);
    int64_t before = gpud_now();
    uint16_t port = gpud_announce_find_port(scheme, place.host, place.name,
                                            gpud_deadline(milliseconds * GPUD_MSEC), NULL, NULL);
    printf("%u %" PRId64 "\n", port, (gpud_now() - before) / GPUD_MSEC);
}

static void answer_lookup(const char *address)
{
    struct gpud_place place;
    struct gpud_lookup *lookup;
    struct sockaddr_storage found[GPUD_LOOKUP_MAX];
    size_t count = 0;
    struct gpud_error error;
    const struct gpud_scheme *scheme = parse(address, &place);
    struct pollfd event = {.fd = eventfd(0, EFD_CLOEXEC), .events = POLLIN};
    WORKS(gpud_lookup_begin(scheme, &place, event.fd, &lookup, &e));
    CHECK(poll(&event, 1, 60000) == 1, "the look-up does not end");
    enum gpud_status status = gpud_lookup_get(lookup, found, &count, &error);
    gpud_lookup_end(&lookup);
    close(event.fd);
    printf("%s", status == GPUD_OK ? "" : error.reason);
    for (size_t i = 0; i < count; i++) {
        char host[64];
        gpud_sockaddr_print_host((const struct sockaddr *)&found[i], host, sizeof(host));
        printf("%s%s %u", i ? ", " : "", host, ntohs(*gpud_sockaddr_port(&found[i])));
    }
    printf("\n");
}

static void answer_search(int64_t milliseconds)
{
    struct gpud_found *found = NULL;
    struct gpud_found_rest rest;
    size_t count = 0;
    struct gpud_error error;
    if (gpud_announce_search(gpud_deadline(milliseconds * GPUD_MSEC), &found, &count, &rest,
                             &error) != GPUD_OK) {
        printf("%s\n", error.reason);
        return;
    }
    for (size_t i = 0; i < count; i++)
        printf("%s://%s:%u/%s ", found[i].scheme, found[i].host, found[i].port, found[i].name);
    printf("omitted=%zu invalid=%zu\n", rest.omitted, rest.invalid);
    free(found);
}

int main(void)
{
    char line[4096];
    setvbuf(stdout, NULL, _IOLBF, 0);
    while (fgets(line, sizeof(line), stdin)) {
        char *rest = line;
        line[strcspn(line, "\n")] = '\0';
        const char *verb = strsep(&rest, " "), *address = rest ? strsep(&rest, " ") : "";
        if (strcmp(verb, "begin") == 0) {
            answer_begin(address, rest != NULL);
        } else if (strcmp(verb, "media") == 0) {
            struct gpud_media media;
            WORKS(gpud_media_from_string(&media, rest, &e));
            WORKS(gpud_media_check(&media, &e));
            gpud_announce_update(announced[find(address)].announcement, &media);
            printf("updated\n");
        } else if (strcmp(verb, "end") == 0) {
            size_t i = find(address);
            gpud_announce_end(&announced[i].announcement);
            announced[i].address[0] = '\0';
            printf("ended\n");
        } else if (strcmp(verb, "fork") == 0) {
            pid_t child = fork();
            if (child == 0) { /* both are void here */
                gpud_announce_update(announced[0].announcement, NULL);
                gpud_announce_end(&announced[0].announcement);
                close(STDIN_FILENO);
                close(STDOUT_FILENO);
                pause();
            }
            printf("%d\n", (int)child);
        } else if (strcmp(verb, "send") == 0) {
            answer_send(address, rest != NULL);
        } else if (strcmp(verb, "configure") == 0) {
            answer_configure(address);
        } else if (strcmp(verb, "stop") == 0) {
            gpud_sender_destroy(&sender);
            gpud_context_destroy(&context);
            printf("stopped\n");
        } else if (strcmp(verb, "port") == 0) {
            answer_port(address, atoi(rest));
        } else if (strcmp(verb, "lookup") == 0) {
            answer_lookup(address);
        } else if (strcmp(verb, "search") == 0) {
            answer_search(atoi(address));
        } else {
            CHECK(false, "the command \"%s\"", verb);
        }
    }
    for (size_t i = 0; i < MAX; i++)
        gpud_announce_end(&announced[i].announcement);
    return 0;
}
