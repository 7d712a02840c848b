/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The page, its data and /metrics, over HTTP: monitor.h says who may ask for what. */
#include "monitor/monitor.h"

#include "channels/channels.h"
#include "json.h"

#include <libsoup/soup.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

/* === data ==================================================================================== */
/* The model as JSON, which the page shows, and as metrics. Units stand in the names; unknown values
 * are null. */

static GBytes *report_finish(JsonBuilder *builder)
{
    JsonNode *root = json_builder_get_root(builder);
    char *text = json_to_string(root, FALSE);
    json_node_unref(root);
    g_object_unref(builder);
    return g_bytes_new_take(text, strlen(text));
}

/* --- now ------------------------------------------------------------------------------------- */

static void report_add_sample(JsonBuilder *builder, const struct monitor_series *series)
{
    const struct monitor_sample *newest = monitor_series_get(series, series->count - 1);
    json_begin_object(builder, "sample");
    json_put_number(builder, "rate_hz", (double)newest->rate_hz);
    json_put_int(builder, "dropped", newest->dropped);
    json_put_number(builder, "latency_p99_s", (double)newest->latency_p99_s);
    json_builder_end_object(builder);
}

static void report_add_receiver(JsonBuilder *builder, const struct monitor_receiver *receiver)
{
    const struct monitor_figures *figures = &receiver->figures;
    /* "Beyond the last bound" has no number in JSON: it is the longest latency of all. */
    double longest = (double)receiver->info.stats.latency_max_ns / 1e9;
    double p50 = isinf(figures->latency_p50_s) ? longest : figures->latency_p50_s;
    double p99 = isinf(figures->latency_p99_s) ? longest : figures->latency_p99_s;
    json_builder_begin_object(builder);
    channels_put_receiver(builder, &receiver->info);
    json_put_number(builder, "rate_hz", figures->rate_hz);
    json_put_number(builder, "dropped_hz", figures->dropped_hz);
    json_put_number(builder, "latency_p50_s", p50);
    json_put_number(builder, "latency_p99_s", p99);
    json_put_rate(builder, "latency_max_s", longest);
    report_add_sample(builder, &receiver->series);
    json_builder_end_object(builder);
}

static void report_add_channel(JsonBuilder *builder, const struct monitor_channel *channel)
{
    static const char *const severities[] = {"off", "good", "warning", "bad"};
    static const char *const presences[] = {"there", "gone", "never"};
    static const char *const ends[] = {"unknown", "goodbye", "death"};
    static const char *const kinds[] = {[GPUD_MEDIA_PICTURE] = "Picture",
                                        [GPUD_MEDIA_AUDIO] = "Sound",
                                        [GPUD_MEDIA_ANCILLARY] = "Ancillary data",
                                        [GPUD_MEDIA_DATA] = "Data",
                                        [GPUD_MEDIA_TENSOR] = "Tensors"};
    const struct gpud_channel_info *info = &channel->info;
    char *sender = monitor_name(info->name, info->program);
    bool gone = channel->presence == MONITOR_GONE_SINCE;
    bool known = info->configured && (size_t)info->media.kind < G_N_ELEMENTS(kinds);
    json_builder_begin_object(builder);
    channels_put_channel(builder, info);
    json_put_string(builder, "state", channel->state);
    json_put_string(builder, "severity", severities[channel->severity]);
    json_put_string(builder, "presence", presences[channel->presence]);
    json_put_string(builder, "end", gone ? ends[channel->end] : NULL);
    json_put_number(builder, "absent_since_s",
                    channel->presence == MONITOR_THERE ? NAN : (double)channel->absent_since / 1e6);
    json_put_bool(builder, "expected", channel->expected);
    channels_put_waiting(builder, channel->waiting);
    json_put_string(builder, "sender", info->pid || info->answered ? sender : NULL);
    g_free(sender);
    json_put_text(builder, "media", channel->media);
    json_put_text(builder, "brief", channel->brief);
    json_put_string(builder, "kind", known ? kinds[info->media.kind] : NULL);
    json_put_bool(builder, "has_picture",
                  info->configured && info->media.kind == GPUD_MEDIA_PICTURE);
    json_put_bool(builder, "has_signal", channel->has_signal);
    json_put_number(builder, "frozen_s", channel->ages.frozen_s);
    json_put_number(builder, "black_s", channel->ages.black_s);
    json_put_number(builder, "silent_s", channel->ages.silent_s);
    json_put_number(builder, "rate_hz", channel->figures.rate_hz);
    json_put_number(builder, "dropped_hz", channel->figures.dropped_hz);
    report_add_sample(builder, &channel->series);
    json_begin_array(builder, "receivers");
    for (guint i = 0; i < channel->receivers->len; i++) {
        const struct monitor_receiver *receiver = channel->receivers->pdata[i];
        if (!receiver->is_own)
            report_add_receiver(builder, receiver);
    }
    json_builder_end_array(builder);
    json_builder_end_object(builder);
}

/* Channels and receivers as they are, and the events after that number. */
static GBytes *report_state(const struct monitor_model *model, uint64_t after)
{
    JsonBuilder *builder = json_builder_new();
    json_builder_begin_object(builder);
    json_put_string(builder, "version", gpud_version_string());
    json_put_string(builder, "host", g_get_host_name());
    json_put_int(builder, "pid", getpid()); /* another one: its events are numbered anew */
    json_put_rate(builder, "time_s", (double)model->updated / 1e6);
    json_begin_array(builder, "notes");
    for (guint i = 0; i < model->notes->len; i++)
        json_builder_add_string_value(builder, model->notes->pdata[i]);
    json_builder_end_array(builder);
    json_begin_array(builder, "channels");
    for (guint i = 0; i < model->channels->len; i++)
        report_add_channel(builder, model->channels->pdata[i]);
    json_builder_end_array(builder);
    json_begin_array(builder, "events");
    for (const GList *link = model->events.head; link; link = link->next) {
        const struct monitor_event *event = link->data;
        if (event->number <= after)
            continue;
        json_builder_begin_object(builder);
        json_put_int(builder, "number", (gint64)event->number);
        json_put_number(builder, "time_s", (double)event->time / 1e6);
        json_put_string(builder, "kind", event->kind);
        json_put_text(builder, "channel", event->channel);
        json_put_string(builder, "text", event->text);
        json_builder_end_object(builder);
    }
    json_builder_end_array(builder);
    json_builder_end_object(builder);
    return report_finish(builder);
}

/* --- ten minutes ------------------------------------------------------------------------------ */

static void add_number(JsonBuilder *builder, double value)
{
    if (isfinite(value))
        json_builder_add_double_value(builder, round(value * 1e5) / 1e5);
    else
        json_builder_add_null_value(builder);
}

static void add_series(JsonBuilder *builder, const struct monitor_series *series)
{
    json_begin_array(builder, "rate_hz");
    for (unsigned i = 0; i < series->count; i++)
        add_number(builder, (double)monitor_series_get(series, i)->rate_hz);
    json_builder_end_array(builder);
    json_begin_array(builder, "dropped");
    for (unsigned i = 0; i < series->count; i++)
        json_builder_add_int_value(builder, monitor_series_get(series, i)->dropped);
    json_builder_end_array(builder);
    json_begin_array(builder, "latency_p99_s");
    for (unsigned i = 0; i < series->count; i++)
        add_number(builder, (double)monitor_series_get(series, i)->latency_p99_s);
    json_builder_end_array(builder);
}

/* The samples of all of them, oldest first, the newest of the time of the last state. */
static GBytes *report_history(const struct monitor_model *model)
{
    JsonBuilder *builder = json_builder_new();
    json_builder_begin_object(builder);
    json_put_int(builder, "period_s", 1);
    json_put_rate(builder, "time_s", (double)model->updated / 1e6);
    json_begin_array(builder, "channels");
    for (guint i = 0; i < model->channels->len; i++) {
        const struct monitor_channel *channel = model->channels->pdata[i];
        json_builder_begin_object(builder);
        json_put_string(builder, "address", channel->info.address);
        add_series(builder, &channel->series);
        json_begin_array(builder, "receivers");
        for (guint j = 0; j < channel->receivers->len; j++) {
            const struct monitor_receiver *receiver = channel->receivers->pdata[j];
            if (receiver->is_own)
                continue;
            json_builder_begin_object(builder);
            json_put_int(builder, "id", (gint64)receiver->info.id);
            add_series(builder, &receiver->series);
            json_builder_end_object(builder);
        }
        json_builder_end_array(builder);
        json_builder_end_object(builder);
    }
    json_builder_end_array(builder);
    json_builder_end_object(builder);
    return report_finish(builder);
}

/* --- metrics ------------------------------------------------------------------------------------
 */

static const char *gone_how(const struct monitor_channel *channel)
{
    static const char *const ends[] = {[CHANNELS_END_UNKNOWN] = "unknown",
                                       [CHANNELS_END_ORDERLY] = "ended",
                                       [CHANNELS_END_DEATH] = "died"};
    if (channel->presence == MONITOR_GONE_SINCE)
        return ends[channel->end];
    return channel->presence == MONITOR_NEVER && channel->expected ? "never" : NULL;
}

/* What the channels say, and those that are gone or expected. */
static GBytes *report_metrics(const struct monitor_model *model, bool openmetrics)
{
    GPtrArray *channels = metrics_collect(model->folders);
    for (guint i = 0; i < model->channels->len; i++) {
        const struct monitor_channel *known = model->channels->pdata[i];
        struct metrics_channel *channel = metrics_find(channels, known->info.address);
        if (!channel->is_there && known->presence == MONITOR_THERE) { /* none could be asked */
            channel->info = known->info;
            channel->is_there = true;
        }
        channel->expected = known->expected;
        channel->frozen_s = known->ages.frozen_s;
        channel->black_s = known->ages.black_s;
        channel->silent_s = known->ages.silent_s;
        channel->gone_how = gone_how(known);
        channel->gone_s = (double)(g_get_real_time() - known->absent_since) / 1e6;
    }
    GBytes *text = g_string_free_to_bytes(metrics_format(channels, openmetrics));
    g_ptr_array_unref(channels);
    return text;
}

/* === server ================================================================================== */

#define DEFAULT_LISTEN "127.0.0.1:8477"
/* The one thing that can be changed, by POST alone. */
#define DISMISS "/api/dismiss"
/* Connections at once, and of them from one address; a browser has six. */
#define CONNECTIONS_MAX 256
#define CONNECTIONS_PER_ADDRESS_MAX 8
/* What a connection may take: from its start to the end of its first request's headers, from there
 * to the end of the answer, and from there to the end of the next headers. */
#define HEADERS_SECONDS 10
#define ANSWER_SECONDS 60
#define IDLE_SECONDS 60
/* A client that sends many requests at once gets so many answers, and has to connect again. */
#define REQUESTS_MAX 100
/* No request needs a body. One that is announced to be small is read, so that its client sees why
 * it is refused; else the connection ends. */
#define BODY_MAX (1 << 20)

struct connection {
    struct monitor_server *server;
    GSocketConnection *stream; /* libsoup's; its end is the end of this */
    GSocketAddress *remote;
    char *address;  /* the same for all that share their places */
    guint deadline; /* a source; 0: none */
    unsigned requests;
    bool answering; /* from the end of the headers on */
    bool ended;     /* shut down, and libsoup has not noticed it yet */
};

struct monitor_server {
    struct monitor_model *model;
    struct monitor_thumbnails *thumbnails; /* NULL: none are shown */
    char *token_digest;                    /* NULL: none */
    bool is_loopback;
    SoupServer *soup;
    GSocketService *service;
    GQueue connections; /* struct connection, oldest first */
    char *host;         /* as in a URL: "127.0.0.1", "[::1]" */
    char *url;
};

/* --- answers --------------------------------------------------------------------------------- */

static void answer(SoupServerMessage *message, const char *type, GBytes *body)
{
    soup_server_message_set_status(message, SOUP_STATUS_OK, NULL);
    soup_message_headers_set_content_type(soup_server_message_get_response_headers(message), type,
                                          NULL);
    soup_message_body_append_bytes(soup_server_message_get_response_body(message), body);
    g_bytes_unref(body);
}

static void server_refuse(SoupServerMessage *message, guint status, const char *why)
{
    soup_server_message_set_status(message, status, NULL);
    soup_server_message_set_response(message, "text/plain; charset=utf-8", SOUP_MEMORY_COPY, why,
                                     strlen(why));
}

static void answer_metrics(const struct monitor_server *server, SoupServerMessage *message)
{
    const char *accept =
        soup_message_headers_get_list(soup_server_message_get_request_headers(message), "Accept");
    bool openmetrics = accept && strstr(accept, "application/openmetrics-text");
    if (!server->model->updated) {
        server_refuse(message, SOUP_STATUS_SERVICE_UNAVAILABLE,
                      "the channels have not answered yet\n");
        return;
    }
    answer(message, openmetrics ? METRICS_OPENMETRICS_TYPE : METRICS_TEXT_TYPE,
           report_metrics(server->model, openmetrics));
}

static void answer_dismiss(const struct monitor_server *server, SoupServerMessage *message,
                           const char *address)
{
    guint count = monitor_model_dismiss(server->model, address);
    char *text = g_strdup_printf("%u\n", count);
    if (address && count == 0)
        server_refuse(message, SOUP_STATUS_NOT_FOUND, "there is no such channel that is gone\n");
    else
        answer(message, "text/plain; charset=utf-8", g_bytes_new(text, strlen(text)));
    g_free(text);
}

static void answer_thumbnail(const struct monitor_server *server, SoupServerMessage *message,
                             const char *address)
{
    char *reason = NULL;
    if (!server->thumbnails) {
        server_refuse(message, SOUP_STATUS_NOT_FOUND, "this monitor shows no pictures\n");
        return;
    }
    /* Only of what it lists, so that no request makes it connect elsewhere. */
    const struct monitor_channel *channel =
        address ? monitor_model_find(server->model, address) : NULL;
    if (!channel || channel->presence != MONITOR_THERE) {
        server_refuse(message, SOUP_STATUS_NOT_FOUND, "there is no such channel\n");
        return;
    }
    const char *type;
    GBytes *image = monitor_thumbnails_get(server->thumbnails, address, &type, &reason);
    if (image)
        answer(message, type, image);
    else
        server_refuse(message, SOUP_STATUS_ACCEPTED, reason);
    g_free(reason);
}

static void answer_file(SoupServerMessage *message, const char *path)
{
    static const struct {
        const char *path, *resource, *type;
    } files[] = {
        {"/", "index.html", "text/html; charset=utf-8"},
        {"/monitor.css", "monitor.css", "text/css; charset=utf-8"},
        {"/monitor.js", "monitor.js", "text/javascript; charset=utf-8"},
        {"/charts.js", "charts.js", "text/javascript; charset=utf-8"},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(files); i++) {
        if (strcmp(path, files[i].path) != 0)
            continue;
        char *resource = g_strconcat("/gpudirect/monitor/", files[i].resource, NULL);
        answer(message, files[i].type, g_resources_lookup_data(resource, 0, NULL));
        g_free(resource);
        return;
    }
    server_refuse(message, SOUP_STATUS_NOT_FOUND, "there is no such page\n");
}

static void server_handle(SoupServer *soup, SoupServerMessage *message, const char *path,
                          GHashTable *query, gpointer user)
{
    const struct monitor_server *server = user;
    struct monitor_model *model = server->model;
    const char *after = query ? g_hash_table_lookup(query, "after") : NULL;
    const char *channel = query ? g_hash_table_lookup(query, "channel") : NULL;
    if (strcmp(path, "/api/state") == 0)
        answer(message, "application/json",
               report_state(model, after ? g_ascii_strtoull(after, NULL, 10) : 0));
    else if (strcmp(path, "/api/history") == 0)
        answer(message, "application/json", report_history(model));
    else if (strcmp(path, "/api/thumbnail") == 0)
        answer_thumbnail(server, message, channel);
    else if (strcmp(path, "/metrics") == 0)
        answer_metrics(server, message);
    else if (strcmp(path, DISMISS) == 0)
        answer_dismiss(server, message, channel);
    else
        answer_file(message, path);
}

/* --- permission ------------------------------------------------------------------------------ */

/* By the name in the header Host, without its port: a forwarded one is another. */
static bool names_this_host(const struct monitor_server *server, const char *host)
{
    const char *const names[] = {"localhost", "127.0.0.1", "[::1]", server->host};
    for (size_t i = 0; host && i < G_N_ELEMENTS(names); i++) {
        size_t length = strlen(names[i]);
        if (g_ascii_strncasecmp(host, names[i], length) == 0 &&
            (host[length] == '\0' || host[length] == ':'))
            return true;
    }
    return false;
}

/* Takes as long for every wrong token. */
static bool has_token(const struct monitor_server *server, const char *authorization)
{
    if (!authorization || !g_str_has_prefix(authorization, "Bearer "))
        return false;
    char *given =
        g_compute_checksum_for_string(G_CHECKSUM_SHA256, authorization + strlen("Bearer "), -1);
    volatile unsigned char difference = 0;
    for (size_t i = 0; given[i] && server->token_digest[i]; i++)
        difference |= (unsigned char)(given[i] ^ server->token_digest[i]);
    g_free(given);
    return difference == 0;
}

static bool has_body(SoupMessageHeaders *request)
{
    return soup_message_headers_get_encoding(request) != SOUP_ENCODING_CONTENT_LENGTH
               ? soup_message_headers_get_one(request, "Transfer-Encoding") != NULL
               : soup_message_headers_get_content_length(request) > 0;
}

/* Before a request's body is read; a status that is set here is the answer. */
static void server_check(SoupServer *soup, SoupServerMessage *message, const char *path,
                         GHashTable *query, gpointer user)
{
    const struct monitor_server *server = user;
    SoupMessageHeaders *request = soup_server_message_get_request_headers(message);
    SoupMessageHeaders *response = soup_server_message_get_response_headers(message);
    const char *method = soup_server_message_get_method(message);
    bool dismisses = strcmp(path, DISMISS) == 0;
    bool is_data = g_str_has_prefix(path, "/api/") || strcmp(path, "/metrics") == 0;
    soup_message_headers_append(response, "Content-Security-Policy",
                                "default-src 'none'; script-src 'self'; style-src 'self'; "
                                "img-src blob: data:; connect-src 'self'; base-uri 'none'; "
                                "form-action 'none'; frame-ancestors 'none'");
    soup_message_headers_append(response, "X-Content-Type-Options", "nosniff");
    soup_message_headers_append(response, "Referrer-Policy", "no-referrer");
    soup_message_headers_append(response, "Cross-Origin-Resource-Policy", "same-origin");
    soup_message_headers_append(response, "Cache-Control", "no-store");
    if (server->is_loopback &&
        !names_this_host(server, soup_message_headers_get_one(request, "Host"))) {
        server_refuse(
            message, SOUP_STATUS_MISDIRECTED_REQUEST,
            "this monitor answers to localhost alone: forward a port to it, or start it with "
            "--listen and a token\n");
    } else if (server->token_digest && is_data &&
               !has_token(server, soup_message_headers_get_one(request, "Authorization"))) {
        /* The page itself holds nothing that is secret, and asks its user for the token. */
        soup_message_headers_append(response, "WWW-Authenticate", "Bearer");
        server_refuse(message, SOUP_STATUS_UNAUTHORIZED,
                      "the token is missing, or is another one\n");
    } else if (dismisses && strcmp(method, "POST") != 0) {
        soup_message_headers_append(response, "Allow", "POST");
        server_refuse(message, SOUP_STATUS_METHOD_NOT_ALLOWED, "this changes something: POST it\n");
    } else if (dismisses &&
               g_strcmp0(soup_message_headers_get_one(request, "X-Gpudirect"), "dismiss") != 0) {
        /* A page of another site may POST to this host, and sends its Host; but a header of this
         * name only with a permission that is never given (CORS). */
        server_refuse(
            message, SOUP_STATUS_FORBIDDEN,
            "this needs the header \"X-Gpudirect: dismiss\", which pages of other sites cannot "
            "send\n");
    } else if (!dismisses && strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0) {
        soup_message_headers_append(response, "Allow", "GET, HEAD");
        server_refuse(message, SOUP_STATUS_METHOD_NOT_ALLOWED, "nothing can be changed here\n");
    } else if (has_body(request)) {
        server_refuse(message, SOUP_STATUS_REQUEST_ENTITY_TOO_LARGE,
                      "no request has a body here\n");
    } else {
        return;
    }
    soup_message_headers_replace(response, "Connection", "close");
}

/* --- connections ----------------------------------------------------------------------------- */

static void end_connection(struct connection *connection)
{
    connection->ended = true;
    g_socket_shutdown(g_socket_connection_get_socket(connection->stream), TRUE, TRUE, NULL);
}

static gboolean pass_deadline(gpointer user)
{
    struct connection *connection = user;
    connection->deadline = 0;
    end_connection(connection);
    return G_SOURCE_REMOVE;
}

static void set_deadline(struct connection *connection, guint seconds)
{
    if (connection->deadline)
        g_source_remove(connection->deadline);
    connection->deadline = g_timeout_add_seconds(seconds, pass_deadline, connection);
}

static void free_connection(struct connection *connection)
{
    if (connection->deadline)
        g_source_remove(connection->deadline);
    g_queue_remove(&connection->server->connections, connection);
    g_object_set_data(G_OBJECT(connection->remote), "connection", NULL);
    g_object_unref(connection->remote);
    g_free(connection->address);
    g_free(connection);
}

static void forget_connection(gpointer user, GObject *stream)
{
    free_connection(user);
}

/* By the object that libsoup was given with it. NULL: it is closed. */
static struct connection *connection_of(SoupServerMessage *message)
{
    GSocketAddress *remote = soup_server_message_get_remote_address(message);
    return remote ? g_object_get_data(G_OBJECT(remote), "connection") : NULL;
}

/* Also of requests that libsoup refuses without asking check(). */
static void end_headers(SoupServerMessage *message, gpointer user)
{
    struct connection *connection = connection_of(message);
    SoupMessageHeaders *request = soup_server_message_get_request_headers(message);
    soup_message_headers_remove(request, "Range"); /* many copies of a part */
    if (!connection)
        return;
    connection->answering = true;
    set_deadline(connection, ANSWER_SECONDS);
    if (++connection->requests == REQUESTS_MAX)
        soup_message_headers_replace(soup_server_message_get_response_headers(message),
                                     "Connection", "close");
    if (has_body(request) &&
        (soup_message_headers_get_encoding(request) != SOUP_ENCODING_CONTENT_LENGTH ||
         soup_message_headers_get_content_length(request) > BODY_MAX))
        end_connection(connection);
}

static void begin_request(SoupServer *soup, SoupServerMessage *message, gpointer user)
{
    soup_message_body_set_accumulate(soup_server_message_get_request_body(message), FALSE);
    g_signal_connect(message, "got-headers", G_CALLBACK(end_headers), NULL);
}

static void end_request(SoupServer *soup, SoupServerMessage *message, gpointer user)
{
    struct connection *connection = connection_of(message);
    if (!connection)
        return;
    connection->answering = false;
    set_deadline(connection, IDLE_SECONDS);
}

/* An address, or a network of IPv6, of which one host has all addresses. */
static char *describe_remote(GSocketAddress *remote)
{
    GInetAddress *ip = g_inet_socket_address_get_address(G_INET_SOCKET_ADDRESS(remote));
    const guint8 *bytes = g_inet_address_to_bytes(ip);
    static const guint8 mapped[12] = {[10] = 0xff, 0xff}; /* of IPv4 */
    if (g_inet_address_get_family(ip) == G_SOCKET_FAMILY_IPV4 || memcmp(bytes, mapped, 12) == 0)
        return g_inet_address_to_string(ip);
    return g_strdup_printf("%02x%02x:%02x%02x:%02x%02x:%02x%02x", bytes[0], bytes[1], bytes[2],
                           bytes[3], bytes[4], bytes[5], bytes[6], bytes[7]);
}

/* Whether there is room for one more, of an address or of any (NULL). The oldest that asks for
 * nothing is closed to make room, so that idle connections cannot lock out others. */
static bool make_room(struct monitor_server *server, const char *address, guint max)
{
    struct connection *oldest = NULL;
    guint count = 0;
    for (const GList *link = server->connections.head; link; link = link->next) {
        struct connection *connection = link->data;
        if (connection->ended || (address && strcmp(connection->address, address) != 0))
            continue;
        count++;
        if (!oldest && !connection->answering)
            oldest = connection;
    }
    if (count >= max && oldest)
        end_connection(oldest);
    return count < max || oldest;
}

/* One that is not taken closes with its last reference. */
static gboolean take_connection(GSocketService *service, GSocketConnection *stream, GObject *source,
                                gpointer user)
{
    struct monitor_server *server = user;
    GSocketAddress *local = g_socket_connection_get_local_address(stream, NULL);
    GSocketAddress *remote = g_socket_connection_get_remote_address(stream, NULL);
    char *address = local && remote ? describe_remote(remote) : NULL;
    if (address && make_room(server, address, CONNECTIONS_PER_ADDRESS_MAX) &&
        make_room(server, NULL, CONNECTIONS_MAX)) {
        struct connection *connection = g_new0(struct connection, 1);
        connection->server = server;
        connection->stream = stream;
        connection->remote = g_object_ref(remote);
        connection->address = g_steal_pointer(&address);
        g_queue_push_tail(&server->connections, connection);
        g_object_set_data(G_OBJECT(remote), "connection", connection);
        g_object_weak_ref(G_OBJECT(stream), forget_connection, connection);
        set_deadline(connection, HEADERS_SECONDS);
        soup_server_accept_iostream(server->soup, G_IO_STREAM(stream), local, remote, NULL);
    }
    g_free(address);
    g_clear_object(&local);
    g_clear_object(&remote);
    return TRUE;
}

static bool server_listen(struct monitor_server *server, const char *listen, GError **error)
{
    GSocketConnectable *parsed = g_network_address_parse(listen, 8477, error);
    if (!parsed)
        return false;
    GNetworkAddress *network = G_NETWORK_ADDRESS(parsed);
    GSocketAddress *got = NULL, *wanted = g_inet_socket_address_new_from_string(
                                    g_network_address_get_hostname(network),
                                    g_network_address_get_port(network));
    GInetAddress *ip =
        wanted ? g_inet_socket_address_get_address(G_INET_SOCKET_ADDRESS(wanted)) : NULL;
    server->is_loopback = ip && g_inet_address_get_is_loopback(ip);
    if (!wanted)
        g_set_error(error, G_IO_ERROR, G_IO_ERROR_INVALID_ARGUMENT,
                    "\"%s\" is not an IP address with a port, such as 127.0.0.1:8477 or [::]:8477",
                    listen);
    else if (!server->is_loopback && !server->token_digest)
        g_set_error(error, G_IO_ERROR, G_IO_ERROR_PERMISSION_DENIED,
                    "%s can be reached from other hosts: that needs a token (--token-file)",
                    listen);
    else if (g_socket_listener_add_address(G_SOCKET_LISTENER(server->service), wanted,
                                           G_SOCKET_TYPE_STREAM, G_SOCKET_PROTOCOL_TCP, NULL, &got,
                                           error)) {
        char *text = g_inet_address_to_string(ip);
        bool is_v6 = g_inet_address_get_family(ip) == G_SOCKET_FAMILY_IPV6;
        server->host = g_strdup_printf(is_v6 ? "[%s]" : "%s", text);
        server->url = g_strdup_printf("http://%s:%u/", server->host,
                                      g_inet_socket_address_get_port(G_INET_SOCKET_ADDRESS(got)));
        g_free(text);
        g_object_unref(got);
    }
    g_clear_object(&wanted);
    g_object_unref(parsed);
    return server->url;
}

struct monitor_server *monitor_server_new(const char *listen, const char *token,
                                          struct monitor_model *model,
                                          struct monitor_thumbnails *thumbnails, GError **error)
{
    struct monitor_server *server = g_new0(struct monitor_server, 1);
    server->model = model;
    server->thumbnails = thumbnails;
    if (token)
        server->token_digest = g_compute_checksum_for_string(G_CHECKSUM_SHA256, token, -1);
    server->soup = soup_server_new("server-header", "gpudirect-monitor", NULL);
    server->service = g_socket_service_new();
    g_socket_listener_set_backlog(G_SOCKET_LISTENER(server->service), CONNECTIONS_MAX);
    soup_server_add_early_handler(server->soup, NULL, server_check, server, NULL);
    soup_server_add_handler(server->soup, NULL, server_handle, server, NULL);
    g_signal_connect(server->soup, "request-started", G_CALLBACK(begin_request), NULL);
    g_signal_connect(server->soup, "request-finished", G_CALLBACK(end_request), NULL);
    g_signal_connect(server->soup, "request-aborted", G_CALLBACK(end_request), NULL);
    g_signal_connect(server->service, "incoming", G_CALLBACK(take_connection), server);
    if (!server_listen(server, listen ? listen : DEFAULT_LISTEN, error)) {
        monitor_server_free(server);
        return NULL;
    }
    g_socket_service_start(server->service);
    return server;
}

void monitor_server_free(struct monitor_server *server)
{
    g_signal_handlers_disconnect_by_data(server->service, server);
    g_socket_service_stop(server->service);
    g_socket_listener_close(G_SOCKET_LISTENER(server->service));
    g_object_unref(server->service);
    soup_server_disconnect(server->soup);
    g_object_unref(server->soup);
    while (server->connections.length > 0 && g_main_context_iteration(NULL, FALSE))
        ; /* those that are being closed */
    while (server->connections.length > 0) {
        struct connection *connection = server->connections.head->data;
        g_object_weak_unref(G_OBJECT(connection->stream), forget_connection, connection);
        free_connection(connection);
    }
    g_free(server->token_digest);
    g_free(server->host);
    g_free(server->url);
    g_free(server);
}

const char *monitor_server_url(const struct monitor_server *server)
{
    return server->url;
}
