/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A URI holds the address and properties. It is parsed completely before anything is set, and
 * composed of the current settings. */
#include "base/plugin.h"

#include <gpudirect/channel.h>
#include <gst/base/gstbasesink.h>
#include <gst/base/gstbasesrc.h>
#include <string.h>

#define PROTOCOL "gpudirect"
#define PROTOCOL_V4L2 "gpudirect+v4l2"
#define PROTOCOL_TCP PROTOCOL "+tcp"
#define PROTOCOL_RDMA PROTOCOL "+rdma"

#define UNIX_PREFIX "unix:"
#define V4L2_PREFIX "v4l2://"

#define URI_MAX 4096 /* bytes */

/* The characters of a bare address. */
#define NAME_CHARACTERS                              \
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRST" \
    "UVWXYZ0123456789._-"

/* RFC 3986 allows these unescaped, and they have no special meaning in these URIs. */
#define PATH_CHARACTERS "/:@!$'()*,;="
#define VALUE_CHARACTERS "/:@!$'()*,;"

/* The URI that was set last, its keys, and what get_uri() would compose as long as no property
 * changed since. */
struct last_uri {
    gchar *uri, *composed;
    gchar **keys;
};

static GQuark last_uri_quark(void)
{
    return g_quark_from_static_string("gpudirect-uri");
}

static struct last_uri *last_uri_new(const gchar *uri, const gchar *composed, gchar **keys)
{
    struct last_uri *last = g_new0(struct last_uri, 1);

    last->uri = g_strdup(uri);
    last->composed = g_strdup(composed);
    last->keys = g_strdupv(keys);
    return last;
}

static gpointer last_uri_copy(gpointer from, gpointer user)
{
    const struct last_uri *last = from;

    return last ? last_uri_new(last->uri, last->composed, last->keys) : NULL;
}

static void last_uri_free(gpointer from)
{
    struct last_uri *last = from;

    if (!last)
        return;
    g_free(last->uri);
    g_free(last->composed);
    g_strfreev(last->keys);
    g_free(last);
}

/* A copy, because another thread may set the next one; last_uri_free() it. */
static struct last_uri *get_last_uri(GObject *element)
{
    return g_object_dup_qdata(element, last_uri_quark(), last_uri_copy, NULL);
}

/* --- properties --------------------------------------------------------------------------- */

/* Whether the property decides who is trusted, or which file is read. A URI may come from a
 * stranger's playlist, so it sets them only if the application allows it. */
static gboolean is_about_trust(const gchar *name)
{
    static const gchar *const names[] = {
        "access", "psk-file", "tls-certificate", "tls-key", "tls-ca", "allow-unauthenticated", NULL,
    };

    return g_strv_contains(names, name);
}

/* NULL: a URI cannot set it. */
static GParamSpec *find_property(GObject *element, const gchar *key)
{
    static const gchar *const others[] = {"name", "parent", "address", "trust-uri", NULL};
    GParamSpec *pspec = g_object_class_find_property(G_OBJECT_GET_CLASS(element), key);
    gboolean trusted;

    g_object_get(element, "trust-uri", &trusted, NULL);
    if (!pspec || g_strv_contains(others, pspec->name) ||
        (is_about_trust(pspec->name) && !trusted) ||
        (pspec->flags & (G_PARAM_READWRITE | G_PARAM_CONSTRUCT_ONLY)) != G_PARAM_READWRITE)
        return NULL;
    switch (G_TYPE_FUNDAMENTAL(pspec->value_type)) {
    case G_TYPE_OBJECT:
    case G_TYPE_BOXED:
    case G_TYPE_POINTER:
        return NULL;
    default:
        return pspec;
    }
}

/* The values that a property takes, for an error message; g_free it. */
static gchar *uri_describe(GParamSpec *pspec)
{
    if (G_IS_PARAM_SPEC_UINT(pspec))
        return g_strdup_printf("a number from %u to %u", G_PARAM_SPEC_UINT(pspec)->minimum,
                               G_PARAM_SPEC_UINT(pspec)->maximum);
    if (G_IS_PARAM_SPEC_BOOLEAN(pspec))
        return g_strdup("true or false");
    if (!G_IS_PARAM_SPEC_ENUM(pspec))
        return g_strdup_printf("a %s in its range", g_type_name(pspec->value_type));
    GEnumClass *klass = G_PARAM_SPEC_ENUM(pspec)->enum_class;
    GString *nicks = g_string_new("one of");
    for (guint i = 0; i < klass->n_values; i++)
        g_string_append_printf(nicks, "%s %s", i ? "," : "", klass->values[i].value_nick);
    return g_string_free(nicks, FALSE);
}

static gboolean uri_read_value(GParamSpec *pspec, const gchar *text, GValue *value)
{
    gboolean in_range = text != NULL;

    g_value_init(value, pspec->value_type);
    if (pspec->value_type == G_TYPE_STRING) {
        g_value_set_string(value, text);
        return text && g_utf8_validate(text, -1, NULL);
    }
    /* GStreamer takes a number of 64 bits as one of 32. */
    if (text && G_IS_PARAM_SPEC_UINT(pspec))
        in_range = g_ascii_string_to_unsigned(text, 10, G_PARAM_SPEC_UINT(pspec)->minimum,
                                              G_PARAM_SPEC_UINT(pspec)->maximum, NULL, NULL);
    else if (text && G_IS_PARAM_SPEC_UINT64(pspec))
        in_range = g_ascii_string_to_unsigned(text, 10, G_PARAM_SPEC_UINT64(pspec)->minimum,
                                              G_PARAM_SPEC_UINT64(pspec)->maximum, NULL, NULL);
    else if (text && G_IS_PARAM_SPEC_INT(pspec))
        in_range = g_ascii_string_to_signed(text, 10, G_PARAM_SPEC_INT(pspec)->minimum,
                                            G_PARAM_SPEC_INT(pspec)->maximum, NULL, NULL);
    else if (text && G_IS_PARAM_SPEC_INT64(pspec))
        in_range = g_ascii_string_to_signed(text, 10, G_PARAM_SPEC_INT64(pspec)->minimum,
                                            G_PARAM_SPEC_INT64(pspec)->maximum, NULL, NULL);
    return in_range && gst_value_deserialize_with_pspec(value, text, pspec) &&
           !g_param_value_validate(pspec, value);
}

static gchar *write_value(GParamSpec *pspec, const GValue *value)
{
    if (G_VALUE_HOLDS_STRING(value))
        return g_value_dup_string(value);
    if (!G_IS_PARAM_SPEC_ENUM(pspec))
        return gst_value_serialize(value);
    const GEnumValue *one =
        g_enum_get_value(G_PARAM_SPEC_ENUM(pspec)->enum_class, g_value_get_enum(value));
    return one ? g_strdup(one->value_nick) : NULL;
}

/* --- composing ---------------------------------------------------------------------------- */

static gint compare_names(gconstpointer a, gconstpointer b)
{
    return strcmp((*(GParamSpec **)a)->name, (*(GParamSpec **)b)->name);
}

/* The element's own properties that do not have their defaults, and those of these keys. */
static void add_properties(GObject *element, gchar **keys, GString *uri)
{
    static gchar *none[] = {NULL};
    guint count;
    GParamSpec **pspecs = g_object_class_list_properties(G_OBJECT_GET_CLASS(element), &count);
    gchar separator = '?';

    qsort(pspecs, count, sizeof(pspecs[0]), compare_names);
    for (guint i = 0; i < count; i++) {
        GParamSpec *pspec = find_property(element, pspecs[i]->name);
        GValue value = G_VALUE_INIT;
        gboolean named =
            g_strv_contains((const gchar *const *)(keys ? keys : none), pspecs[i]->name);
        if (!pspec || (!named && pspec->owner_type != G_OBJECT_TYPE(element)))
            continue;
        g_object_get_property(element, pspec->name, &value);
        gchar *text =
            named || !g_param_value_defaults(pspec, &value) ? write_value(pspec, &value) : NULL;
        if (text) {
            g_string_append_printf(uri, "%c%s=", separator, pspec->name);
            g_string_append_uri_escaped(uri, text, VALUE_CHARACTERS, FALSE);
            separator = '&';
        }
        g_free(text);
        g_value_unset(&value);
    }
    g_free(pspecs);
}

/* NULL: there is no address. */
static gchar *compose(GObject *element, gchar **keys)
{
    static const struct {
        const gchar *prefix, *protocol;
        const gchar *allowed; /* unescaped */
    } kinds[] = {
        {V4L2_PREFIX, PROTOCOL_V4L2 "://", PATH_CHARACTERS},
        {UNIX_PREFIX, PROTOCOL "://", PATH_CHARACTERS},
        {"", PROTOCOL "://", "/"}, /* a name */
    };
    g_autofree gchar *address = NULL;
    guint kind = 0;

    g_object_get(element, "address", &address, NULL);
    if (!address || !address[0])
        return NULL;
    const gchar *host = gpud_address_get_host(address);
    while (!g_str_has_prefix(address, kinds[kind].prefix))
        kind++;
    GString *uri = g_string_new(host ? PROTOCOL "+" : kinds[kind].protocol);
    if (host) /* brackets stand around an IPv6 address */
        g_string_append_uri_escaped(g_string_append_len(uri, address, host - address), host,
                                    PATH_CHARACTERS "[]", FALSE);
    else
        g_string_append_uri_escaped(uri, address + strlen(kinds[kind].prefix), kinds[kind].allowed,
                                    FALSE);
    add_properties(element, keys, uri);
    return g_string_free(uri, FALSE);
}

static gchar *get_uri(GstURIHandler *handler)
{
    struct last_uri *last = get_last_uri(G_OBJECT(handler));
    gchar *uri = compose(G_OBJECT(handler), last ? last->keys : NULL);

    if (last && uri && g_str_equal(uri, last->composed)) {
        g_free(uri);
        uri = g_strdup(last->uri);
    }
    last_uri_free(last);
    return uri;
}

/* --- parsing ------------------------------------------------------------------------------ */

static gchar *uri_refuse(GError **error, GstURIError code, const gchar *format, ...)
    G_GNUC_PRINTF(3, 4);

static gchar *uri_refuse(GError **error, GstURIError code, const gchar *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    g_autofree gchar *text = g_strdup_vprintf(format, arguments);
    va_end(arguments);
    g_autofree gchar *valid = g_utf8_make_valid(text, -1); /* percent signs spell any byte */
    g_autoptr(GString) shown = g_string_new(NULL);
    for (const gchar *at = valid; *at; at = g_utf8_next_char(at)) {
        gunichar c = g_utf8_get_char(at);
        g_string_append_unichar(shown, g_unichar_iscntrl(c) ? ' ' : c);
    }
    g_set_error_literal(error, GST_URI_ERROR, code, shown->str);
    return NULL;
}

/* Errors of the running element print the path unescaped. */
static gboolean is_printable(const gchar *path)
{
    if (!g_utf8_validate(path, -1, NULL))
        return FALSE;
    while (*path && !g_unichar_iscntrl(g_utf8_get_char(path)))
        path = g_utf8_next_char(path);
    return !*path;
}

static gboolean is_name(const gchar *host)
{
    return host[0] != '.' && host[strspn(host, NAME_CHARACTERS)] == '\0';
}

/* From gpudirect:// with a name or a path, or from gpudirect+v4l2:///; NULL: *error says what is
 * wrong. */
static gchar *uri_read_address(const GstUri *uri, gboolean card, GError **error)
{
    const gchar *host = gst_uri_get_host(uri);
    g_autofree gchar *path = gst_uri_get_path(uri);
    gchar *address = NULL;
    gboolean has_path = path && path[0] && !g_str_equal(path, "/");
    /* The name of a stream, as in /audio. */
    gboolean is_stream = path && path[0] == '/' && path[1] && is_name(path + 1);

    if (gst_uri_get_userinfo(uri) || gst_uri_get_port(uri) != GST_URI_NO_PORT ||
        gst_uri_get_fragment(uri))
        uri_refuse(error, GST_URI_ERROR_BAD_URI,
                   "An address cannot have a user, port or fragment: write " PROTOCOL
                   "://NAME or " PROTOCOL ":///PATH.");
    else if (host && (card || (has_path && !is_stream)))
        uri_refuse(error, GST_URI_ERROR_BAD_REFERENCE,
                   "\"%s\" is in the place of a host: for a path write three slashes, as in %s",
                   host, card ? PROTOCOL_V4L2 ":///dev/video0." : PROTOCOL ":///run/cam1.");
    else if (host && !is_name(host))
        uri_refuse(error, GST_URI_ERROR_BAD_REFERENCE,
                   "\"%s\" is not a name: letters, digits, '.', '_' and '-', and no '.' at the "
                   "beginning.",
                   host);
    else if (!host && (!has_path || path[0] != '/'))
        uri_refuse(error, GST_URI_ERROR_BAD_REFERENCE, "The address is missing: write %s",
                   card ? PROTOCOL_V4L2 ":///dev/video0."
                        : PROTOCOL "://NAME or " PROTOCOL ":///PATH.");
    else if (host)
        address = g_strconcat(host, has_path ? path : NULL, NULL);
    else if (!is_printable(path))
        uri_refuse(error, GST_URI_ERROR_BAD_REFERENCE,
                   "The path \"%s\" is not UTF-8, or has a control character.", path);
    else
        address = g_strconcat(card ? V4L2_PREFIX : UNIX_PREFIX, path, NULL);
    return address;
}

/* Whether it is gpudirect+tcp:// or another one between hosts: the address's own scheme follows the
 * plus sign. */
static gboolean is_between_hosts(const GstUri *uri)
{
    g_autofree gchar *scheme = g_ascii_strdown(gst_uri_get_scheme(uri), -1);
    g_autofree gchar *start = g_strconcat(scheme, "://", NULL);

    return g_str_has_prefix(start, PROTOCOL "+") &&
           gpud_address_get_host(start + strlen(PROTOCOL "+")) != NULL;
}

/* From gpudirect+tcp://HOST:PORT/NAME. The core checks the name when the element starts. */
static gchar *read_network_address(const GstUri *uri, GError **error)
{
    g_autofree gchar *scheme = g_ascii_strdown(gst_uri_get_scheme(uri) + strlen(PROTOCOL "+"), -1);
    const gchar *host = gst_uri_get_host(uri);
    g_autofree gchar *path = gst_uri_get_path(uri);
    gchar *address = NULL;
    guint port = gst_uri_get_port(uri);

    if (gst_uri_get_userinfo(uri) || gst_uri_get_fragment(uri) || !host)
        uri_refuse(error, GST_URI_ERROR_BAD_URI,
                   "Write " PROTOCOL "+%s://HOST:PORT/NAME, without a user or fragment.", scheme);
    else if (!is_printable(host) || (path && !is_printable(path)))
        uri_refuse(error, GST_URI_ERROR_BAD_REFERENCE,
                   "The address \"%s%s\" is not UTF-8, or has a control character.", host,
                   path ? path : "");
    else {
        gboolean brackets = strchr(host, ':') && host[0] != '[';
        GString *made = g_string_new(scheme);
        g_string_append_printf(made, "://%s%s%s", brackets ? "[" : "", host, brackets ? "]" : "");
        if (port != GST_URI_NO_PORT)
            g_string_append_printf(made, ":%u", port);
        address = g_string_free(g_string_append(made, path ? path : ""), FALSE);
    }
    return address;
}

struct setting {
    GParamSpec *pspec;
    GValue value;
};

static void setting_clear(gpointer data)
{
    g_value_unset(&((struct setting *)data)->value);
}

static gboolean read_setting(GObject *element, const gchar *key, const gchar *text,
                             GArray *settings, GError **error)
{
    struct setting setting = {.pspec = find_property(element, key), .value = G_VALUE_INIT};

    if (!setting.pspec && is_about_trust(key)) {
        uri_refuse(error, GST_URI_ERROR_BAD_URI,
                   "A URI may come from anywhere, so it cannot set %s: set the property itself, or "
                   "trust-uri=true before the URI.",
                   key);
        return FALSE;
    }
    if (!setting.pspec) {
        uri_refuse(error, GST_URI_ERROR_BAD_URI,
                   "%s has no property \"%s\" that a URI can set: gst-inspect-1.0 lists them.",
                   G_OBJECT_TYPE_NAME(element), key);
        return FALSE;
    }
    gboolean good = uri_read_value(setting.pspec, text, &setting.value);
    g_array_append_val(settings, setting);
    if (!good) {
        g_autofree gchar *wanted = uri_describe(setting.pspec);
        uri_refuse(error, GST_URI_ERROR_BAD_URI, "The property %s cannot be \"%s\": it is %s.", key,
                   text ? text : "", wanted);
    }
    return good;
}

/* NULL: *error says which one is wrong. */
static GArray *read_settings(GObject *element, const GstUri *uri, GError **error)
{
    GArray *settings = g_array_new(FALSE, FALSE, sizeof(struct setting));
    GList *keys = gst_uri_get_query_keys(uri);
    gboolean good = TRUE;

    g_array_set_clear_func(settings, setting_clear);
    for (GList *at = keys; at && good; at = at->next)
        good = read_setting(element, at->data, gst_uri_get_query_value(uri, at->data), settings,
                            error);
    g_list_free(keys);
    if (!good)
        g_clear_pointer(&settings, g_array_unref);
    return settings;
}

/* --- setting ------------------------------------------------------------------------------ */

/* Properties that the URI before this one had set get their defaults back. */
static void apply(GObject *element, const gchar *uri, const gchar *address, GArray *settings)
{
    struct last_uri *before = get_last_uri(element);
    GStrvBuilder *builder = g_strv_builder_new();

    for (gchar **key = before ? before->keys : NULL; key && *key; key++) {
        GParamSpec *pspec = g_object_class_find_property(G_OBJECT_GET_CLASS(element), *key);
        GValue value = G_VALUE_INIT;
        g_value_init(&value, pspec->value_type);
        g_param_value_set_default(pspec, &value);
        g_object_set_property(element, *key, &value);
        g_value_unset(&value);
    }
    last_uri_free(before);
    g_object_set(element, "address", address, NULL);
    for (guint i = 0; i < settings->len; i++) {
        struct setting *setting = &g_array_index(settings, struct setting, i);
        g_object_set_property(element, setting->pspec->name, &setting->value);
        g_strv_builder_add(builder, setting->pspec->name);
    }
    gchar **keys = g_strv_builder_end(builder);
    gchar *whole = compose(element, keys);
    g_object_set_qdata_full(element, last_uri_quark(), last_uri_new(uri, whole, keys),
                            last_uri_free);
    g_free(whole);
    g_strfreev(keys);
    g_strv_builder_unref(builder);
}

static gboolean set_uri(GstURIHandler *handler, const gchar *text, GError **error)
{
    GObject *element = G_OBJECT(handler);
    /* GStreamer's parser crashes if the name of a query's field is badly escaped. */
    g_autofree gchar *unescaped =
        strlen(text) <= URI_MAX ? g_uri_unescape_string(text, NULL) : NULL;
    gboolean escaped = unescaped != NULL;
    g_autoptr(GstUri) uri = escaped ? gst_uri_from_string(text) : NULL;
    g_autofree gchar *address = NULL;
    g_autoptr(GArray) settings = NULL;

    GST_OBJECT_LOCK(element);
    gboolean stopped =
        GST_STATE(element) <= GST_STATE_READY && GST_STATE_NEXT(element) <= GST_STATE_READY;
    GST_OBJECT_UNLOCK(element);
    if (!stopped)
        uri_refuse(
            error, GST_URI_ERROR_BAD_STATE,
            "The URI of %s cannot be changed while it runs: set it to the state READY first.",
            GST_OBJECT_NAME(handler));
    else if (strlen(text) > URI_MAX)
        uri_refuse(error, GST_URI_ERROR_BAD_URI, "A URI of %zu bytes is too long: the limit is %d.",
                   strlen(text), URI_MAX);
    else if (!escaped)
        uri_refuse(error, GST_URI_ERROR_BAD_URI,
                   "\"%s\" has a '%%' without two hexadecimal digits behind it, or a %%00.", text);
    else if (!uri)
        uri_refuse(error, GST_URI_ERROR_BAD_URI, "\"%s\" is not a URI: write " PROTOCOL "://NAME.",
                   text);
    else if (is_between_hosts(uri))
        address = read_network_address(uri, error);
    else
        address = uri_read_address(
            uri, g_ascii_strcasecmp(gst_uri_get_scheme(uri), PROTOCOL_V4L2) == 0, error);
    if (address)
        settings = read_settings(element, uri, error);
    if (settings)
        apply(element, text, address, settings);
    return settings != NULL;
}

/* --- interfaces --------------------------------------------------------------------------- */

static GstURIType get_uri_type(GType type)
{
    return g_type_is_a(type, GST_TYPE_BASE_SINK) ? GST_URI_SINK : GST_URI_SRC;
}

static const gchar *const *get_protocols(GType type)
{
    static const gchar *const of_channels[] = {PROTOCOL, PROTOCOL_TCP, PROTOCOL_RDMA, NULL};
    static const gchar *const all[] = {PROTOCOL, PROTOCOL_V4L2, PROTOCOL_TCP, PROTOCOL_RDMA, NULL};

    /* No card has streams, so that gpudirectsrc alone takes one. */
    return g_type_is_a(type, GST_TYPE_BASE_SRC) ? all : of_channels;
}

void uri_handler_init(gpointer interface, gpointer data)
{
    GstURIHandlerInterface *handler = interface;

    handler->get_type = get_uri_type;
    handler->get_protocols = get_protocols;
    handler->get_uri = get_uri;
    handler->set_uri = set_uri;
}
