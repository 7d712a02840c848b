/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Announces this process's channels, and finds those of other hosts, by Avahi's daemon. */
#include "wire/announce.h"

#ifdef GPUD_WITH_AVAHI

#include "base/base.h"

#include <avahi-client/client.h>
#include <avahi-client/lookup.h>
#include <avahi-client/publish.h>
#include <avahi-common/alternative.h>
#include <avahi-common/domain.h>
#include <avahi-common/error.h>
#include <avahi-common/malloc.h>
#include <avahi-common/simple-watch.h>
#include <errno.h>
#include <gpudirect/channel.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define SERVICE_TYPE "_gpudirect._tcp"

/* Of a TXT record: RFC 6763, 6.1 and 6.2. */
#define TXT_STRING_MAX 255
#define TXT_MAX 1300

/* How many names are tried for a service, so how many senders of one name can be announced. */
#define RENAMES_MAX 64

/* The shortest time from one attempt to connect to the next. */
#define RETRY (2 * GPUD_SEC)

/* How long a search continues after its last use, so that the next one costs no packet. */
#define LINGER (15 * GPUD_SEC)

/* After this time a search is complete; the daemon itself reports that after about as long. */
#define SETTLING GPUD_SEC

/* Limits on what other hosts can make this process remember, and ask the daemon at a time, which
 * accepts 1,024 objects of a client by default. */
#define SERVICES_MAX (4 * GPUD_CHANNELS_MAX)
#define STREAMS_MAX (4 * GPUD_CHANNELS_MAX)
#define STREAMS_A_SERVICE 16
#define PRESENCES_MAX 4
#define RESOLVERS_KEPT 384
#define RESOLVERS_AT_ONCE 512
#define RESOLVES_A_TURN 16
#define TXT_STRINGS_MAX 64

/* Of the list of a search. */
#define PLACES_A_HOST (GPUD_CHANNELS_MAX / 8)

struct gpud_announcement {
    struct gpud_announcement *next;
    pid_t process; /* that made it; in a child of that it is void */
    char scheme[16];
    uint16_t port;
    AvahiIfIndex interface;
    char name[GPUD_PLACE_NAME_MAX + 1];
    char media[TXT_STRING_MAX];
    bool encrypted;
};

/* --- what is found: under the lock, changed by the thread alone ------------------------------- */

/* A service on one interface by one protocol, which has an address there. */
struct presence {
    AvahiIfIndex interface;
    AvahiProtocol protocol;
    enum { PRESENCE_NEW, PRESENCE_ASKED, PRESENCE_ANSWERED } state;
    AvahiServiceResolver *resolver; /* NULL: none is needed */
    struct sockaddr_storage address;
};

struct service {
    struct service *next;
    struct announcer *announcer;
    char instance[AVAHI_LABEL_MAX];
    struct presence presence[PRESENCES_MAX];
    size_t presence_count;
    enum { SERVICE_UNKNOWN, SERVICE_KNOWN, SERVICE_INVALID, SERVICE_OMITTED } state;
    bool listed;               /* by the search that goes through all */
    struct gpud_found *stream; /* at least one if it is KNOWN */
    size_t stream_count;
};

/* --- the process's client --------------------------------------------------------------------- */

/* A channel with its streams, as the daemon has it. The thread's. */
struct published {
    struct published *next;
    char scheme[16];
    uint16_t port;
    AvahiIfIndex interface;
    char channel[GPUD_PLACE_NAME_MAX + 1];
    AvahiStringList *txt; /* as it is to be */
    bool wanted;          /* it still has streams */
    enum {
        PUBLISHED_NEW,
        PUBLISHED_DONE,
        PUBLISHED_OUTDATED, /* the daemon has an earlier TXT */
        PUBLISHED_COLLIDED, /* another service has the name */
        PUBLISHED_FAILED,   /* until the daemon, its host's name or the record changes */
    } state;
    char instance[AVAHI_LABEL_MAX]; /* "": it has no name yet */
    AvahiEntryGroup *group;
};

struct announcer {
    /* Under announce_lock. */
    pthread_cond_t changed;
    int wake;         /* an eventfd that the thread polls */
    unsigned callers; /* in a search */
    struct gpud_announcement *announcements;
    bool outdated;        /* what is published is not what these say */
    int64_t browse_until; /* the last search, and LINGER */
    enum { ANNOUNCER_STARTS, ANNOUNCER_WORKS, ANNOUNCER_FAILS } state;
    char why[GPUD_REASON_MAX];
    struct service *services, **last_service;
    size_t service_count, stream_count;
    size_t unanswered;                   /* presences that are NEW or ASKED */
    char first[GPUD_PLACE_NAME_MAX + 8]; /* how the services begin that a caller waits for */
    size_t omitted;                      /* services beyond SERVICES_MAX */
    bool heard_all;                      /* the daemon says that for now there are no others */
    int64_t settle_at;                   /* when that is assumed; 0: nothing is searched */

    /* The thread's. */
    AvahiSimplePoll *poll;
    AvahiPoll api;
    AvahiClient *client;
    AvahiServiceBrowser *browser;
    bool browser_failed;
    int64_t retry_at;
    size_t asked, resolvers;
    struct published *published;
};

static struct gpud_lock announce_lock = GPUD_LOCK_INITIALIZER(GPUD_RANK_ANNOUNCE);
static struct announcer *the_announcer; /* NULL: no thread runs */
static pthread_once_t forks_watched = PTHREAD_ONCE_INIT;

/* The thread is not there in a child, and may have held the lock: the child begins anew. */
static void announce_in_child(void)
{
    gpud_lock_init(&announce_lock, GPUD_RANK_ANNOUNCE);
    the_announcer = NULL;
}

static void announce_watch_forks(void)
{
    pthread_atfork(NULL, NULL, announce_in_child);
}

/* --- descriptors that children do not keep ---------------------------------------------------- */
/* A child that held the connection to D-Bus open would keep what this process announced. */

/* The thread's; D-Bus has one descriptor, and two watches of it. */
static _Thread_local const AvahiPoll *inner_poll;
static _Thread_local struct {
    AvahiWatch *watch;
    int fd;
} watched[8];

#define WATCHED (sizeof(watched) / sizeof(watched[0]))

static AvahiWatch *watch_new(const AvahiPoll *api, int fd, AvahiWatchEvent events,
                             AvahiWatchCallback callback, void *user)
{
    AvahiWatch *watch = inner_poll->watch_new(inner_poll, fd, events, callback, user);
    for (size_t i = 0; watch && i < WATCHED; i++)
        if (!watched[i].watch) {
            watched[i].watch = watch;
            watched[i].fd = fd;
            gpud_fd_keep_from_children(fd);
            break;
        }
    return watch;
}

static void watch_free(AvahiWatch *watch)
{
    for (size_t i = 0; i < WATCHED; i++)
        if (watched[i].watch == watch) {
            watched[i].watch = NULL;
            gpud_fd_let_children_keep(watched[i].fd);
        }
    inner_poll->watch_free(watch);
}

/* === publish ================================================================================= */
/* What this process announces: under the lock as its senders want it, in the thread as the daemon
 * has it. */

static void group_changed(AvahiEntryGroup *group, AvahiEntryGroupState state, void *user)
{
    struct published *published = user;
    if (state == AVAHI_ENTRY_GROUP_COLLISION)
        published->state = PUBLISHED_COLLIDED;
    else if (state == AVAHI_ENTRY_GROUP_FAILURE)
        published->state = PUBLISHED_FAILED;
}

/* "cam1" of "cam1/audio". */
static size_t channel_length(const char *name)
{
    return strcspn(name, "/");
}

static bool published_has(const struct published *published, const struct gpud_announcement *one)
{
    size_t length = channel_length(one->name);
    return one->port == published->port && one->interface == published->interface &&
           strcmp(one->scheme, published->scheme) == 0 && length == strlen(published->channel) &&
           memcmp(one->name, published->channel, length) == 0;
}

/* Cuts a media where a field ends, so that it can be read. */
static void cut_media(char *text, size_t length)
{
    if (strlen(text) <= length)
        return;
    text[gpud_text_whole(text, length)] = '\0';
    char *comma = strrchr(text, ',');
    if (comma)
        *comma = '\0';
}

/* Adds a string, unless the record has no room left. */
static void txt_add(AvahiStringList **txt, size_t *size, const char *text)
{
    size_t length = strlen(text);
    if (length > TXT_STRING_MAX || *size + 1 + length > TXT_MAX)
        return;
    *size += 1 + length;
    *txt = avahi_string_list_add(*txt, text);
}

/* Under the lock: the record of a channel. */
static AvahiStringList *txt_make(const struct announcer *announcer,
                                 const struct published *published)
{
    AvahiStringList *txt = NULL;
    size_t size = 0, length = strlen(published->channel);
    char text[2 * TXT_STRING_MAX] = "streams=";
    bool encrypted = false;
    for (const struct gpud_announcement *one = announcer->announcements; one; one = one->next) {
        size_t used = strlen(text);
        if (!published_has(published, one))
            continue;
        encrypted = one->encrypted;
        if (used + 1 + strlen(one->name) <= TXT_STRING_MAX)
            gpud_print_n(text + used, sizeof(text) - used, "%s%s", text[used - 1] == '=' ? "" : ",",
                         one->name);
    }
    txt_add(&txt, &size, "txtvers=1");
    txt_add(&txt, &size, text);
    gpud_print(text, "scheme=%s", published->scheme);
    txt_add(&txt, &size, text);
    gpud_print(text, "name=%s", published->channel);
    txt_add(&txt, &size, text);
    txt_add(&txt, &size, encrypted ? "encrypted=1" : "encrypted=0");
    txt_add(&txt, &size, "version=" GPUD_VERSION);
    for (const struct gpud_announcement *one = announcer->announcements; one; one = one->next) {
        if (!published_has(published, one) || !one->media[0])
            continue;
        gpud_print(text, "media%s=%s", one->name + length, one->media); /* "media/audio=…" */
        cut_media(text, TXT_STRING_MAX);
        txt_add(&txt, &size, text);
    }
    return avahi_string_list_reverse(txt);
}

/* Under the lock: the records as the senders want them. */
static void publish_plan(struct announcer *announcer)
{
    if (!announcer->outdated)
        return;
    announcer->outdated = false;
    for (struct published *one = announcer->published; one; one = one->next)
        one->wanted = false;
    for (const struct gpud_announcement *want = announcer->announcements; want; want = want->next) {
        struct published *one = announcer->published;
        while (one && !published_has(one, want))
            one = one->next;
        if (!one) {
            one = calloc(1, sizeof(*one));
            if (!one)
                continue; /* not announced, as without a daemon */
            one->port = want->port;
            one->interface = want->interface;
            gpud_print(one->scheme, "%s", want->scheme);
            gpud_print(one->channel, "%.*s", (int)channel_length(want->name), want->name);
            one->next = announcer->published;
            announcer->published = one;
        }
        if (one->wanted)
            continue;
        one->wanted = true;
        AvahiStringList *txt = txt_make(announcer, one);
        if (avahi_string_list_equal(txt, one->txt)) {
            avahi_string_list_free(txt);
            continue;
        }
        avahi_string_list_free(one->txt);
        one->txt = txt;
        if (one->state == PUBLISHED_DONE)
            one->state = PUBLISHED_OUTDATED;
        else if (one->state == PUBLISHED_FAILED)
            one->state = PUBLISHED_NEW;
    }
}

static void publish_name(struct announcer *announcer, struct published *one)
{
    if (one->instance[0]) {
        char *other = avahi_alternative_service_name(one->instance);
        gpud_print(one->instance, "%s", other ? other : one->instance);
        avahi_free(other);
        return;
    }
    const char *host = avahi_client_get_host_name(announcer->client);
    gpud_print(one->instance, "%s on %s", one->channel[0] ? one->channel : "gpudirect",
               host ? host : "?");
}

/* Registers a service under its name, or another one if another service has that. */
static void publish_add(struct announcer *announcer, struct published *one)
{
    int failed = AVAHI_ERR_COLLISION;
    if (!one->group)
        one->group = avahi_entry_group_new(announcer->client, group_changed, one);
    else
        avahi_entry_group_reset(one->group);
    if (!one->instance[0])
        publish_name(announcer, one);
    for (int i = 0; one->group && failed == AVAHI_ERR_COLLISION && i < RENAMES_MAX; i++) {
        if (one->state == PUBLISHED_COLLIDED)
            publish_name(announcer, one);
        failed = avahi_entry_group_add_service_strlst(
            one->group, one->interface, AVAHI_PROTO_UNSPEC, 0, one->instance, SERVICE_TYPE, NULL,
            NULL, one->port, one->txt);
        one->state = failed ? PUBLISHED_COLLIDED : PUBLISHED_DONE;
    }
    if (!one->group || failed || avahi_entry_group_commit(one->group) != AVAHI_OK)
        one->state = PUBLISHED_FAILED;
}

static void publish_update(struct published *one)
{
    int failed =
        avahi_entry_group_update_service_txt_strlst(one->group, one->interface, AVAHI_PROTO_UNSPEC,
                                                    0, one->instance, SERVICE_TYPE, NULL, one->txt);
    one->state = failed ? PUBLISHED_FAILED : PUBLISHED_DONE;
}

/* Brings the daemon's records to what is planned. */
static void publish(struct announcer *announcer)
{
    AvahiClientState state = avahi_client_get_state(announcer->client);
    for (struct published **link = &announcer->published; *link;) {
        struct published *one = *link;
        if (!one->wanted) {
            if (one->group)
                avahi_entry_group_free(one->group);
            avahi_string_list_free(one->txt);
            *link = one->next;
            free(one);
            continue;
        }
        link = &one->next;
        if (state == AVAHI_CLIENT_S_COLLISION || state == AVAHI_CLIENT_S_REGISTERING) {
            /* The host gets another name, or other addresses. */
            if (one->group && one->state != PUBLISHED_NEW)
                avahi_entry_group_reset(one->group);
            one->state = PUBLISHED_NEW;
            one->instance[0] = '\0';
        }
        if (state != AVAHI_CLIENT_S_RUNNING)
            continue;
        if (one->state == PUBLISHED_NEW || one->state == PUBLISHED_COLLIDED)
            publish_add(announcer, one);
        else if (one->state == PUBLISHED_OUTDATED)
            publish_update(one);
    }
}

/* The daemon, or the connection to it, is gone: everything is registered anew. */
static void publish_forget(struct announcer *announcer)
{
    for (struct published *one = announcer->published; one; one = one->next) {
        one->group = NULL; /* freed with the client */
        one->state = PUBLISHED_NEW;
        one->instance[0] = '\0';
    }
}

/* === browse ================================================================================== */
/* What other hosts announce. Their words are bounded and checked as they come. */

/* --- the record ------------------------------------------------------------------------------- */

/* Gets the value of a key, cleaned; "" if it is missing. false: it is too long, and value is "". */
static bool txt_get(AvahiStringList *txt, const char *key, char *value, size_t room)
{
    size_t length = strlen(key);
    value[0] = '\0';
    for (int i = 0; txt && i < TXT_STRINGS_MAX; i++, txt = avahi_string_list_get_next(txt)) {
        const char *text = (const char *)avahi_string_list_get_text(txt);
        size_t size = avahi_string_list_get_size(txt);
        if (size <= length || text[length] != '=' || strncasecmp(text, key, length) != 0)
            continue;
        size -= length + 1;
        if (size >= room)
            return false;
        memcpy(value, text + length + 1, size);
        value[size] = '\0';
        gpud_text_clean(value, size);
        return true;
    }
    return true;
}

static bool is_scheme(const char *text)
{
    return text[0] && text[strspn(text, "abcdefghijklmnopqrstuvwxyz")] == '\0';
}

static bool is_host(const char *text)
{
    return text[0] != '.' && text[0] != '-' && text[strspn(text, GPUD_NAME_CHARACTERS)] == '\0';
}

/* Adds the stream `name`. false: it does not belong to the channel `base`. */
static bool add_stream(struct service *service, const struct gpud_found *base, const char *name,
                       AvahiStringList *txt)
{
    char key[sizeof("media") + GPUD_PLACE_NAME_MAX];
    size_t length = strlen(base->name);
    if (strlen(name) > GPUD_PLACE_NAME_MAX || strncmp(name, base->name, length) != 0 ||
        (name[length] && name[length] != '/') ||
        (name[0] && !gpud_place_is_name(name, strlen(name))))
        return false;
    struct gpud_found *stream = &service->stream[service->stream_count++];
    *stream = *base;
    gpud_print(stream->name, "%s", name);
    gpud_print(key, "media%s", name + length);
    txt_get(txt, key, stream->media, sizeof(stream->media));
    return true;
}

/* What all streams of a service have in common. false: the record is invalid. */
static bool read_base(struct gpud_found *base, const char *host, uint16_t port,
                      AvahiStringList *txt)
{
    char encrypted[2];
    if (port == 0 || !host || strlen(host) >= sizeof(base->host) || !is_host(host) ||
        !txt_get(txt, "scheme", base->scheme, sizeof(base->scheme)) || !is_scheme(base->scheme) ||
        !txt_get(txt, "name", base->name, sizeof(base->name)) || strchr(base->name, '/') ||
        (base->name[0] && !gpud_place_is_name(base->name, strlen(base->name))))
        return false;
    base->port = port;
    gpud_print(base->host, "%s", host);
    txt_get(txt, "version", base->version, sizeof(base->version));
    txt_get(txt, "encrypted", encrypted, sizeof(encrypted));
    base->encrypted = encrypted[0] == '1';
    return true;
}

/* Under the lock: reads what the service's host says of it. */
static void read_service(struct service *service, const char *host, uint16_t port,
                         AvahiStringList *txt, bool own_host)
{
    struct announcer *announcer = service->announcer;
    struct gpud_found base = {.own_host = own_host};
    char streams[TXT_STRING_MAX + 1], *rest = streams;
    announcer->stream_count -= service->stream_count;
    service->stream_count = 0;
    service->state = SERVICE_INVALID;
    if (!read_base(&base, host, port, txt))
        return;
    txt_get(txt, "streams", streams, sizeof(streams));
    if (!streams[0])
        gpud_print(streams, "%s", base.name);
    if (!service->stream)
        service->stream = calloc(STREAMS_A_SERVICE, sizeof(*service->stream));
    size_t room = service->stream ? STREAMS_MAX - announcer->stream_count : 0;
    while (rest && service->stream_count < STREAMS_A_SERVICE && service->stream_count < room)
        if (!add_stream(service, &base, strsep(&rest, ","), txt)) {
            service->stream_count = 0;
            return;
        }
    announcer->stream_count += service->stream_count;
    service->state = service->stream_count ? SERVICE_KNOWN : SERVICE_OMITTED;
}

/* --- services --------------------------------------------------------------------------------- */

static void presence_end(struct announcer *announcer, struct presence *presence)
{
    if (presence->resolver) {
        avahi_service_resolver_free(presence->resolver);
        presence->resolver = NULL;
        announcer->resolvers--;
    }
}

/* Under the lock. */
static void presence_answer(struct announcer *announcer, struct presence *presence)
{
    announcer->asked -= presence->state == PRESENCE_ASKED;
    announcer->unanswered -= presence->state != PRESENCE_ANSWERED;
    presence->state = PRESENCE_ANSWERED;
}

static void read_address(struct presence *presence, const AvahiAddress *address)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    memset(&presence->address, 0, sizeof(presence->address));
    if (address && address->proto == AVAHI_PROTO_INET) {
        v4.sin_addr.s_addr = address->data.ipv4.address;
        memcpy(&presence->address, &v4, sizeof(v4));
    } else if (address && address->proto == AVAHI_PROTO_INET6) {
        memcpy(&v6.sin6_addr, address->data.ipv6.address, sizeof(v6.sin6_addr));
        if (IN6_IS_ADDR_LINKLOCAL(&v6.sin6_addr))
            v6.sin6_scope_id = (uint32_t)presence->interface;
        memcpy(&presence->address, &v6, sizeof(v6));
    }
}

static void resolved(AvahiServiceResolver *resolver, AvahiIfIndex interface, AvahiProtocol protocol,
                     AvahiResolverEvent event, const char *name, const char *type,
                     const char *domain, const char *host, const AvahiAddress *address,
                     uint16_t port, AvahiStringList *txt, AvahiLookupResultFlags flags, void *user)
{
    struct service *service = user;
    struct announcer *announcer = service->announcer;
    struct presence *presence = service->presence;
    struct presence *end = presence + service->presence_count;
    while (presence < end && presence->resolver != resolver)
        presence++;
    if (presence == end)
        return;
    gpud_lock_take(&announce_lock);
    presence_answer(announcer, presence);
    if (event == AVAHI_RESOLVER_FOUND) {
        read_address(presence, address);
        read_service(service, host, port, txt, flags & AVAHI_LOOKUP_RESULT_LOCAL);
    } else if (service->state == SERVICE_UNKNOWN) {
        service->state = SERVICE_INVALID;
    }
    pthread_cond_broadcast(&announcer->changed);
    gpud_lock_release(&announce_lock);
    /* A resolver that is kept reports changes; that of an invalid service is not kept. */
    if (service->state != SERVICE_KNOWN || announcer->resolvers > RESOLVERS_KEPT)
        presence_end(announcer, presence);
}

/* Not under the lock: the daemon is told. */
static void service_free(struct service *service)
{
    for (size_t i = 0; i < service->presence_count; i++)
        presence_end(service->announcer, &service->presence[i]);
    free(service->stream);
    free(service);
}

/* Under the lock; the service is to be freed. */
static void service_unlink(struct announcer *announcer, struct service **link)
{
    struct service *gone = *link;
    for (size_t i = 0; i < gone->presence_count; i++)
        presence_answer(announcer, &gone->presence[i]);
    *link = gone->next;
    if (announcer->last_service == &gone->next)
        announcer->last_service = link;
    announcer->service_count--;
    announcer->stream_count -= gone->stream_count;
}

/* Under the lock. */
static struct service **service_find(struct announcer *announcer, const char *instance)
{
    struct service **link = &announcer->services;
    while (*link && strcmp((*link)->instance, instance) != 0)
        link = &(*link)->next;
    return link;
}

/* Under the lock. */
static void service_add(struct announcer *announcer, const char *instance, AvahiIfIndex interface,
                        AvahiProtocol protocol)
{
    struct service *service = *service_find(announcer, instance);
    if (!service) {
        service = announcer->service_count < SERVICES_MAX ? calloc(1, sizeof(*service)) : NULL;
        if (!service) {
            announcer->omitted++;
            return;
        }
        service->announcer = announcer;
        gpud_print(service->instance, "%s", instance);
        *announcer->last_service = service;
        announcer->last_service = &service->next;
        announcer->service_count++;
    }
    if (service->presence_count == PRESENCES_MAX)
        return;
    service->presence[service->presence_count++] =
        (struct presence){.interface = interface, .protocol = protocol};
    announcer->unanswered++;
}

/* Under the lock: removes the service from an interface. Returns what is to be freed: the service,
 * if it was the last one, or NULL and *gone. */
static struct service *service_remove(struct announcer *announcer, const char *instance,
                                      AvahiIfIndex interface, AvahiProtocol protocol,
                                      struct presence *gone)
{
    struct service **link = service_find(announcer, instance), *service = *link;
    for (size_t i = 0; service && i < service->presence_count; i++) {
        struct presence *one = &service->presence[i];
        if (one->interface != interface || one->protocol != protocol)
            continue;
        if (service->presence_count == 1) {
            service_unlink(announcer, link);
            return service;
        }
        presence_answer(announcer, one);
        *gone = *one;
        *one = service->presence[--service->presence_count];
        return NULL;
    }
    return NULL;
}

static void browsed(AvahiServiceBrowser *browser, AvahiIfIndex interface, AvahiProtocol protocol,
                    AvahiBrowserEvent event, const char *name, const char *type, const char *domain,
                    AvahiLookupResultFlags flags, void *user)
{
    struct announcer *announcer = user;
    struct presence gone = {.resolver = NULL};
    struct service *left = NULL;
    gpud_lock_take(&announce_lock);
    if (event == AVAHI_BROWSER_NEW && strcmp(domain, "local") == 0)
        service_add(announcer, name, interface, protocol);
    else if (event == AVAHI_BROWSER_REMOVE)
        left = service_remove(announcer, name, interface, protocol, &gone);
    else if (event == AVAHI_BROWSER_ALL_FOR_NOW)
        announcer->heard_all = true;
    else if (event == AVAHI_BROWSER_FAILURE)
        announcer->browser_failed = true;
    pthread_cond_broadcast(&announcer->changed);
    gpud_lock_release(&announce_lock);
    presence_end(announcer, &gone);
    if (left)
        service_free(left);
}

/* Forgets all that was found. client_gone: its resolvers have been freed with it. */
static void browse_forget(struct announcer *announcer, bool client_gone)
{
    gpud_lock_take(&announce_lock);
    struct service *all = announcer->services;
    announcer->services = NULL;
    announcer->last_service = &announcer->services;
    announcer->service_count = announcer->stream_count = announcer->unanswered = 0;
    announcer->omitted = 0;
    announcer->heard_all = false;
    announcer->settle_at = 0;
    gpud_lock_release(&announce_lock);
    announcer->asked = 0;
    while (all) {
        struct service *next = all->next;
        for (size_t i = 0; client_gone && i < all->presence_count; i++)
            all->presence[i].resolver = NULL;
        service_free(all);
        all = next;
    }
    if (announcer->browser && !client_gone)
        avahi_service_browser_free(announcer->browser);
    announcer->browser = NULL;
    announcer->browser_failed = false;
    if (client_gone)
        announcer->resolvers = 0;
}

/* Asks for the records of a service, where that was not done. */
static void service_resolve(struct announcer *announcer, struct service *service)
{
    for (size_t i = 0; i < service->presence_count; i++) {
        struct presence *one = &service->presence[i];
        if (one->state != PRESENCE_NEW)
            continue;
        one->resolver = avahi_service_resolver_new(announcer->client, one->interface, one->protocol,
                                                   service->instance, SERVICE_TYPE, "local",
                                                   one->protocol, 0, resolved, service);
        announcer->resolvers += one->resolver != NULL;
        gpud_lock_take(&announce_lock);
        one->state = PRESENCE_ASKED;
        announcer->asked++;
        if (!one->resolver)
            presence_answer(announcer, one);
        pthread_cond_broadcast(&announcer->changed);
        gpud_lock_release(&announce_lock);
    }
}

/* Asks for some, first for what a caller waits for, and for as many as the daemon takes; the
 * answers come meanwhile. Returns whether some are left. */
static bool browse_resolve(struct announcer *announcer)
{
    char first[sizeof(announcer->first)];
    size_t calls = 0;
    gpud_lock_take(&announce_lock);
    gpud_print(first, "%s", announcer->first);
    gpud_lock_release(&announce_lock);
    /* The list is changed by this thread alone, so that it is read without the lock. */
    for (int all = !first[0]; all < 2; all++)
        for (struct service *one = announcer->services; one; one = one->next) {
            if (!all && strncasecmp(one->instance, first, strlen(first)) != 0)
                continue;
            bool has_new = false;
            for (size_t i = 0; i < one->presence_count; i++)
                has_new |= one->presence[i].state == PRESENCE_NEW;
            if (!has_new)
                continue;
            if (calls++ == RESOLVES_A_TURN || announcer->asked >= RESOLVERS_AT_ONCE)
                return announcer->asked < RESOLVERS_AT_ONCE;
            service_resolve(announcer, one);
        }
    return false;
}

/* Returns whether it is to be called again soon. */
static bool browse(struct announcer *announcer, bool wanted)
{
    if (announcer->browser && (!wanted || announcer->browser_failed))
        browse_forget(announcer, false);
    if (!wanted)
        return false;
    if (!announcer->browser) {
        announcer->browser =
            avahi_service_browser_new(announcer->client, AVAHI_IF_UNSPEC, AVAHI_PROTO_UNSPEC,
                                      SERVICE_TYPE, NULL, 0, browsed, announcer);
        gpud_lock_take(&announce_lock);
        announcer->heard_all = !announcer->browser;
        announcer->settle_at = gpud_deadline(SETTLING);
        gpud_lock_release(&announce_lock);
    }
    return browse_resolve(announcer);
}

/* === thread ================================================================================== */

static void client_changed(AvahiClient *client, AvahiClientState state, void *user)
{
    /* The thread looks at the state after each turn. */
}

static void drained(AvahiWatch *watch, int fd, AvahiWatchEvent events, void *user)
{
    gpud_event_drain(fd);
}

/* Whether the daemon can be asked; if not, searches end with the reason. */
static void announcer_report(struct announcer *announcer, int number)
{
    gpud_lock_take(&announce_lock);
    announcer->state = number ? ANNOUNCER_FAILS : ANNOUNCER_WORKS;
    if (number == AVAHI_ERR_NO_DAEMON)
        gpud_print(announcer->why, "no channels of other hosts were asked for: Avahi's daemon, or "
                                   "the D-Bus by which it is asked, does not run (apt install "
                                   "avahi-daemon; systemctl start avahi-daemon)");
    else if (number)
        gpud_print(announcer->why,
                   "no channels of other hosts were asked for: Avahi cannot be reached: %s",
                   avahi_strerror(number));
    pthread_cond_broadcast(&announcer->changed);
    gpud_lock_release(&announce_lock);
}

/* Connects to the daemon, again after either was gone. */
static void connect_client(struct announcer *announcer)
{
    int number = 0;
    if (announcer->client && avahi_client_get_state(announcer->client) == AVAHI_CLIENT_FAILURE) {
        avahi_client_free(announcer->client);
        announcer->client = NULL;
        publish_forget(announcer);
        browse_forget(announcer, true);
    }
    if (!announcer->client && gpud_now() >= announcer->retry_at) {
        announcer->client = avahi_client_new(&announcer->api, AVAHI_CLIENT_NO_FAIL, client_changed,
                                             announcer, &number);
        announcer->retry_at = gpud_deadline(RETRY);
        if (!announcer->client)
            announcer_report(announcer, number ? number : AVAHI_ERR_FAILURE);
    }
    if (announcer->client)
        announcer_report(announcer,
                         avahi_client_get_state(announcer->client) == AVAHI_CLIENT_CONNECTING
                             ? AVAHI_ERR_NO_DAEMON
                             : 0);
}

/* One turn. Returns when the next is due, or 0 if nothing needs the thread any more. */
static int64_t announcer_turn(struct announcer *announcer)
{
    int64_t now = gpud_now();
    gpud_lock_take(&announce_lock);
    publish_plan(announcer);
    bool searches = now < announcer->browse_until;
    bool needed = searches || announcer->callers || announcer->announcements;
    int64_t next = searches ? announcer->browse_until : INT64_MAX;
    if (!needed)
        the_announcer = NULL; /* the next call makes another one */
    gpud_lock_release(&announce_lock);
    if (!needed)
        return 0;
    connect_client(announcer);
    if (!announcer->client)
        return announcer->retry_at < next ? announcer->retry_at : next;
    AvahiClientState state = avahi_client_get_state(announcer->client);
    if (state == AVAHI_CLIENT_FAILURE)
        return now; /* in the next turn */
    if (state != AVAHI_CLIENT_CONNECTING) {
        publish(announcer);
        if (browse(announcer, searches))
            return now;
    }
    return next;
}

static void announcer_free(struct announcer *announcer)
{
    if (announcer->client)
        avahi_client_free(announcer->client);
    publish_forget(announcer);
    browse_forget(announcer, true);
    while (announcer->published) {
        struct published *gone = announcer->published;
        announcer->published = gone->next;
        avahi_string_list_free(gone->txt);
        free(gone);
    }
    if (announcer->poll)
        avahi_simple_poll_free(announcer->poll);
    gpud_fd_close(&announcer->wake);
    pthread_cond_destroy(&announcer->changed);
    free(announcer);
}

static void *announcer_run(void *arg)
{
    struct announcer *announcer = arg;
    int64_t next;
    inner_poll = avahi_simple_poll_get(announcer->poll);
    announcer->api = *inner_poll;
    announcer->api.watch_new = watch_new;
    announcer->api.watch_free = watch_free;
    while ((next = announcer_turn(announcer)) != 0) {
        int64_t left = (next - gpud_now()) / GPUD_MSEC + 1;
        int wait = next == INT64_MAX ? -1 : left < 0 ? 0 : left > INT32_MAX ? INT32_MAX : (int)left;
        if (avahi_simple_poll_iterate(announcer->poll, wait) != 0)
            gpud_nap(RETRY);
    }
    announcer_free(announcer);
    return NULL;
}

/* Under the lock: the process's announcer, with its thread. NULL: it has none; *error says why. */
static struct announcer *announcer_get(struct gpud_error *error)
{
    pthread_attr_t detached;
    pthread_t thread;
    if (the_announcer)
        return the_announcer;
    if (gpud_library_need(&gpud_library_avahi, error) != GPUD_OK)
        return NULL;
    pthread_once(&forks_watched, announce_watch_forks);
    struct announcer *made = calloc(1, sizeof(*made));
    if (!made) {
        gpud_fail(error, GPUD_NO_MEMORY, "out of memory for Avahi");
        return NULL;
    }
    gpud_cond_init(&made->changed);
    made->last_service = &made->services;
    made->outdated = true;
    made->poll = avahi_simple_poll_new();
    made->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    const AvahiPoll *api = made->poll ? avahi_simple_poll_get(made->poll) : NULL;
    int failed = made->wake < 0 ? errno : ENOMEM;
    if (api && made->wake >= 0 && api->watch_new(api, made->wake, AVAHI_WATCH_IN, drained, made)) {
        pthread_attr_init(&detached);
        pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
        failed = pthread_create(&thread, &detached, announcer_run, made);
        pthread_attr_destroy(&detached);
    }
    if (!failed)
        return the_announcer = made;
    gpud_fail_native(error, GPUD_NO_MEMORY, "errno", failed, "cannot start a thread for Avahi: %s",
                     strerror(failed));
    if (made->poll)
        avahi_simple_poll_free(made->poll);
    gpud_fd_close(&made->wake);
    pthread_cond_destroy(&made->changed);
    free(made);
    return NULL;
}

/* === calls =================================================================================== */

/* The index of the interface with the place's address; AVAHI_IF_UNSPEC: all. false: it is not to be
 * announced. */
static bool find_interface(const struct gpud_place *place, AvahiIfIndex *interface)
{
    struct sockaddr_storage address;
    *interface = AVAHI_IF_UNSPEC;
    if (!gpud_place_to_sockaddr(place, &address))
        return false;
    if (gpud_place_is_wildcard(place))
        return true;
    unsigned index, flags;
    if (!gpud_network_find_interface(&address, &index, &flags) || flags & IFF_LOOPBACK)
        return false;
    *interface = (AvahiIfIndex)index;
    return true;
}

void gpud_announce_begin(const struct gpud_scheme *scheme, const struct gpud_place *place,
                         bool encrypted, struct gpud_announcement **announcement)
{
    AvahiIfIndex interface;
    *announcement = NULL;
    struct gpud_announcement *made =
        find_interface(place, &interface) ? calloc(1, sizeof(*made)) : NULL;
    if (!made)
        return;
    made->process = getpid();
    made->port = place->port;
    made->interface = interface;
    made->encrypted = encrypted;
    gpud_print(made->scheme, "%s", scheme->name);
    gpud_print(made->name, "%s", place->name);
    gpud_lock_take(&announce_lock);
    struct announcer *announcer = announcer_get(NULL);
    if (announcer) {
        /* Behind the others: a channel's streams are listed as they came. */
        struct gpud_announcement **last = &announcer->announcements;
        while (*last)
            last = &(*last)->next;
        *last = made;
        announcer->outdated = true;
        gpud_event_raise(announcer->wake);
        *announcement = made;
    }
    gpud_lock_release(&announce_lock);
    if (!*announcement)
        free(made);
}

void gpud_announce_update(struct gpud_announcement *announcement, const struct gpud_media *media)
{
    char text[GPUD_MEDIA_TEXT_MAX];
    if (!announcement || announcement->process != getpid() ||
        gpud_media_to_string(media, text, sizeof(text), NULL) != GPUD_OK)
        return;
    cut_media(text, sizeof(announcement->media) - 1);
    gpud_lock_take(&announce_lock);
    gpud_print(announcement->media, "%s", text);
    the_announcer->outdated = true; /* it is there as long as an announcement */
    gpud_event_raise(the_announcer->wake);
    gpud_lock_release(&announce_lock);
}

void gpud_announce_end(struct gpud_announcement **announcement)
{
    struct gpud_announcement *gone = *announcement;
    *announcement = NULL;
    if (!gone)
        return;
    if (gone->process == getpid()) {
        gpud_lock_take(&announce_lock);
        struct gpud_announcement **link = &the_announcer->announcements;
        while (*link != gone)
            link = &(*link)->next;
        *link = gone->next;
        the_announcer->outdated = true;
        gpud_event_raise(the_announcer->wake);
        gpud_lock_release(&announce_lock);
    }
    free(gone);
}

/* --- searching -------------------------------------------------------------------------------- */

/* Under the lock. NULL: nothing can be asked, and why. */
static struct announcer *search_begin(int64_t deadline, struct gpud_error *error)
{
    struct announcer *announcer = announcer_get(error);
    if (!announcer)
        return NULL;
    int64_t until = gpud_deadline_from(deadline, LINGER);
    announcer->callers++;
    if (announcer->browse_until < until)
        announcer->browse_until = until;
    gpud_event_raise(announcer->wake);
    return announcer;
}

/* Under the lock. */
static void search_end(struct announcer *announcer)
{
    if (--announcer->callers == 0)
        announcer->browse_until = gpud_deadline(LINGER);
    gpud_event_raise(announcer->wake);
}

/* Under the lock: waits for the next change. false: the search is over. */
static bool search_wait(struct announcer *announcer, int64_t deadline)
{
    int64_t now = gpud_now();
    bool waits = announcer->unanswered > 0 || !announcer->settle_at ||
                 (!announcer->heard_all && now < announcer->settle_at);
    if (announcer->state == ANNOUNCER_FAILS || !waits || now >= deadline)
        return false;
    if (announcer->settle_at && announcer->settle_at > now && announcer->settle_at < deadline)
        deadline = announcer->settle_at;
    gpud_lock_wait_until(&announce_lock, &announcer->changed, deadline);
    return true;
}

/* Prefers an address that every connection on this host can use. */
static const struct sockaddr_storage *best_address(const struct service *service)
{
    const struct sockaddr_storage *best = NULL;
    for (size_t i = 0; i < service->presence_count; i++) {
        const struct sockaddr_storage *one = &service->presence[i].address;
        struct sockaddr_in6 v6;
        memcpy(&v6, one, sizeof(v6));
        if (one->ss_family == AF_INET)
            return one;
        if (one->ss_family == AF_INET6 && (!best || !IN6_IS_ADDR_LINKLOCAL(&v6.sin6_addr)))
            best = one;
    }
    return best;
}

/* Whether the list has the stream already, by another service. */
static bool is_listed(const struct gpud_found *found, size_t count, const struct gpud_found *one)
{
    for (size_t i = 0; i < count; i++)
        if (found[i].port == one->port && strcmp(found[i].name, one->name) == 0 &&
            strcasecmp(found[i].host, one->host) == 0 && strcmp(found[i].scheme, one->scheme) == 0)
            return true;
    return false;
}

/* Under the lock: adds the streams of a service whose host has so many places at most. */
static void search_take(struct service *service, size_t places, struct gpud_found *found,
                        size_t *count)
{
    const struct sockaddr_storage *address = best_address(service);
    size_t of_host = service->stream_count;
    for (size_t i = 0; i < *count; i++)
        of_host += strcasecmp(found[i].host, service->stream[0].host) == 0;
    if (service->listed || !address || of_host > places ||
        *count + service->stream_count > GPUD_CHANNELS_MAX)
        return;
    service->listed = true;
    for (size_t i = 0; i < service->stream_count; i++) {
        if (is_listed(found, *count, &service->stream[i]))
            continue;
        struct gpud_found *one = &found[(*count)++];
        *one = service->stream[i];
        gpud_sockaddr_print_host((const struct sockaddr *)address, one->address,
                                 sizeof(one->address));
    }
}

enum gpud_status gpud_announce_search(int64_t deadline, struct gpud_found **found, size_t *count,
                                      struct gpud_found_rest *rest, struct gpud_error *error)
{
    enum gpud_status status = GPUD_OK;
    struct gpud_found *list = calloc(GPUD_CHANNELS_MAX, sizeof(*list));
    if (!list)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a list of channels");
    *rest = (struct gpud_found_rest){.omitted = 0};
    *count = 0;
    gpud_lock_take(&announce_lock);
    struct announcer *announcer = search_begin(deadline, error);
    if (!announcer) {
        status = GPUD_NO_MEMORY;
        goto out;
    }
    while (search_wait(announcer, deadline))
        ;
    if (announcer->state == ANNOUNCER_FAILS)
        status = gpud_fail(error, GPUD_NO_DEVICE, "%s", announcer->why);
    else if (!announcer->settle_at)
        status = gpud_fail(error, GPUD_TIMEOUT,
                           "no channels of other hosts were asked for: Avahi's daemon, or the "
                           "system's D-Bus, did not answer in time");
    /* First each host its own places, then what is left. */
    rest->omitted = announcer->omitted + announcer->unanswered;
    for (struct service *one = announcer->services; one; one = one->next)
        one->listed = false;
    for (int all = 0; all < 2; all++)
        for (struct service *one = announcer->services; one; one = one->next)
            if (one->state == SERVICE_KNOWN)
                search_take(one, all ? GPUD_CHANNELS_MAX : PLACES_A_HOST, list, count);
    for (struct service *one = announcer->services; one; one = one->next) {
        rest->invalid += one->state == SERVICE_INVALID;
        rest->omitted += one->state == SERVICE_OMITTED;
        if (one->state == SERVICE_KNOWN && !one->listed && best_address(one))
            rest->omitted += one->stream_count;
    }
    search_end(announcer);
out:
    gpud_lock_release(&announce_lock);
    if (status == GPUD_OK)
        *found = list;
    else
        free(list);
    return status;
}

/* Whether "studio-a", "studio-a.local" or an address is this service's host. */
static bool is_host_of(const struct service *service, const char *host)
{
    const char *own = service->stream[0].host;
    size_t length = strlen(host);
    char text[64];
    if (length > 0 && host[length - 1] == '.')
        length--;
    if (strncasecmp(own, host, length) == 0 &&
        (own[length] == '\0' || strcasecmp(own + length, ".local") == 0))
        return true;
    for (size_t i = 0; i < service->presence_count; i++) {
        const struct sockaddr_storage *one = &service->presence[i].address;
        gpud_sockaddr_print_host((const struct sockaddr *)one, text, sizeof(text));
        if (one->ss_family && strcmp(text, host) == 0)
            return true;
    }
    return false;
}

/* Under the lock: the service with that channel; of several the one at the usual port. */
static const struct service *find_service(const struct announcer *announcer,
                                          const struct gpud_scheme *scheme, const char *host,
                                          const char *name)
{
    const struct service *best = NULL;
    for (const struct service *one = announcer->services; one; one = one->next) {
        bool has = false;
        for (size_t i = 0; one->state == SERVICE_KNOWN && i < one->stream_count; i++)
            has |= !name[0] || strcmp(one->stream[i].name, name) == 0;
        if (!has || strcmp(one->stream[0].scheme, scheme->name) != 0 || !best_address(one) ||
            !is_host_of(one, host))
            continue;
        if (!best || one->stream[0].port == scheme->port)
            best = one;
    }
    return best;
}

uint16_t gpud_announce_find_port(const struct gpud_scheme *scheme, const char *host,
                                 const char *name, int64_t deadline,
                                 struct sockaddr_storage addresses[GPUD_LOOKUP_MAX], size_t *count)
{
    const struct service *found = NULL;
    uint16_t port = 0;
    gpud_lock_take(&announce_lock);
    struct announcer *announcer = search_begin(deadline, NULL);
    if (announcer && name[0]) /* "cam1 on studio-a" */
        gpud_print(announcer->first, "%.*s on ", (int)channel_length(name), name);
    while (announcer && !(found = find_service(announcer, scheme, host, name)) &&
           search_wait(announcer, deadline))
        ;
    if (found)
        port = found->stream[0].port;
    if (count)
        *count = 0;
    for (size_t i = 0; found && count && i < found->presence_count; i++) {
        struct sockaddr_storage *one = &addresses[*count];
        if (!found->presence[i].address.ss_family || *count == GPUD_LOOKUP_MAX)
            continue;
        *one = found->presence[i].address;
        *gpud_sockaddr_port(one) = htons(port);
        ++*count;
    }
    if (announcer)
        search_end(announcer);
    gpud_lock_release(&announce_lock);
    return port;
}

#else

/* === calls =================================================================================== */

void gpud_announce_begin(const struct gpud_scheme *scheme, const struct gpud_place *place,
                         bool encrypted, struct gpud_announcement **announcement)
{
    *announcement = NULL;
}

void gpud_announce_update(struct gpud_announcement *announcement, const struct gpud_media *media)
{
}

void gpud_announce_end(struct gpud_announcement **announcement)
{
}

enum gpud_status gpud_announce_search(int64_t deadline, struct gpud_found **found, size_t *count,
                                      struct gpud_found_rest *rest, struct gpud_error *error)
{
    return gpud_fail(error, GPUD_UNSUPPORTED,
                     "no channels of other hosts were asked for: this libgpudirect is built "
                     "without avahi: configure it with -Davahi=enabled");
}

uint16_t gpud_announce_find_port(const struct gpud_scheme *scheme, const char *host,
                                 const char *name, int64_t deadline,
                                 struct sockaddr_storage addresses[GPUD_LOOKUP_MAX], size_t *count)
{
    if (count)
        *count = 0;
    return 0;
}

#endif
