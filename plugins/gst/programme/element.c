/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* gpudirectprogramsrc: the element. */
#include "programme/programme.h"

#include <string.h>

#define GST_CAT_DEFAULT gst_gpudirect_src_debug

/* === element ================================================================================= */
/**
 * SECTION:element-gpudirectprogramsrc
 * @title: gpudirectprogramsrc
 * @short_description: Receives all streams of a channel: picture, sound and data
 * @see_also: gpudirectsrc, gpudirectsink
 *
 * gpudirectprogramsrc has a pad for each stream of a channel: `src` for that of the address itself,
 * and `src_NAME` for the stream NAME (`address=cam1/audio` of gpudirectsink: `src_audio`). Pads
 * appear with their streams, also while others run, and none waits for another one. Streams of one
 * pipeline keep their times to each other. Each stream is a gpudirectsrc, which gets the
 * properties of the same names.
 *
 * Players take it as a URI: gpudirect://cam1, and gpudirect://cam1/audio for one stream; of another
 * host gpudirect+tcp://10.0.0.1:7175/cam1.
 *
 * ## Example launch lines
 * |[
 * gst-play-1.0 gpudirect://cam1
 * ]|
 * Shows the picture and plays the sound of cam1, in step.
 * |[
 * gst-launch-1.0 gpudirectprogramsrc address=cam1 name=p p.src ! queue ! videoconvert !
 * autovideosink p.src_audio ! queue ! audioconvert ! autoaudiosink
 * ]|
 * The same by hand.
 *
 * Since: 0.1
 */

G_DEFINE_TYPE_WITH_CODE(GstGpudirectProgramSrc, gst_gpudirect_program_src, GST_TYPE_BIN,
                        G_IMPLEMENT_INTERFACE(GST_TYPE_URI_HANDLER, uri_handler_init))

/* Above gpudirectsrc, which has no rank: players get the whole programme. */
GST_ELEMENT_REGISTER_DEFINE(gpudirectprogramsrc, "gpudirectprogramsrc", GST_RANK_MARGINAL,
                            GST_TYPE_GPUDIRECT_PROGRAM_SRC)

/* What is read from the streams, and never set. */
enum { PROP_ACTIVE_PATH = OPTION_COUNT, PROP_FALLBACK_REASON, PROP_STATS, PROP_SIGNAL };

/* --- properties --------------------------------------------------------------------------- */

static void programme_hand_over(GObject *from, GObject *to, const gchar *property)
{
    GParamSpec *pspec = g_object_class_find_property(G_OBJECT_GET_CLASS(to), property);
    GValue value = G_VALUE_INIT;

    g_value_init(&value, pspec->value_type);
    g_object_get_property(from, property, &value);
    g_object_set_property(to, property, &value);
    g_value_unset(&value);
}

/* The device is that of pictures, which a stream of unknown caps rarely has, and no stream but the
 * channel's own is waited for. */
static gboolean concerns(const GParamSpec *pspec, const GstCaps *caps, gboolean main)
{
    if (pspec->owner_type != GST_TYPE_GPUDIRECT_PROGRAM_SRC || !(pspec->flags & G_PARAM_WRITABLE))
        return FALSE;
    if (g_str_equal(pspec->name, "device"))
        return caps ? !blocks_are_caps(caps) : main;
    return main || !g_str_equal(pspec->name, "connection-timeout");
}

/* The backup of a stream is the stream of that name of the backup channel. */
static gchar *find_backup(GstGpudirectProgramSrc *self, const gchar *address)
{
    const gchar *channel = self->settings.address, *backup = self->options.backup_address;

    if (!src_options_have_backup(&self->options) || strlen(address) <= strlen(channel))
        return g_strdup(backup);
    return g_strconcat(backup, g_str_has_prefix(backup, "unix:") ? "!" : "/",
                       address + strlen(channel) + 1, NULL);
}

static void on_notify(GObject *source, GParamSpec *pspec, GObject *self)
{
    g_object_notify(self, pspec->name);
}

/* The channel's own stream has stayed with its sender, and so has the programme. */
static void on_address(GObject *source, GParamSpec *pspec, GstGpudirectProgramSrc *self)
{
    struct finder *finder = g_atomic_pointer_get(&self->finder);
    g_autofree gchar *address = NULL;

    g_object_get(source, "address", &address, NULL);
    GST_OBJECT_LOCK(self);
    gboolean stays = self->started && g_strcmp0(address, self->settings.address) != 0;
    if (stays) {
        g_free(self->settings.address);
        self->settings.address = g_strdup(address);
    }
    GST_OBJECT_UNLOCK(self);
    if (stays && finder)
        finder_follow(finder, address);
    if (stays)
        g_object_notify(G_OBJECT(self), "address");
}

static GstElement *make_source(void *user, const gchar *address, const GstCaps *caps, gboolean main)
{
    static const gchar *const reports[] = {"notify::active-path", "notify::fallback-reason",
                                           "notify::signal"};
    GstGpudirectProgramSrc *self = user;
    GstElement *source = gst_element_factory_make("gpudirectsrc", NULL);
    guint count;
    GParamSpec **pspecs = g_object_class_list_properties(G_OBJECT_GET_CLASS(self), &count);

    for (guint i = 0; i < count; i++)
        if (concerns(pspecs[i], caps, main))
            programme_hand_over(G_OBJECT(self), G_OBJECT(source), pspecs[i]->name);
    GST_OBJECT_LOCK(self);
    gchar *backup = find_backup(self, address);
    GST_OBJECT_UNLOCK(self);
    g_object_set(source, "address", address, "backup-address", backup, NULL);
    g_free(backup);
    times_share(&GST_GPUDIRECT_SRC(source)->times, self->map);
    if (main) {
        /* The channel's own stream has the reports that cannot be of several. */
        g_weak_ref_set(&self->main, source);
        for (guint i = 0; i < G_N_ELEMENTS(reports); i++)
            g_signal_connect_object(source, reports[i], G_CALLBACK(on_notify), self,
                                    (GConnectFlags)0);
        g_signal_connect_object(source, "notify::address", G_CALLBACK(on_address), self,
                                (GConnectFlags)0);
    }
    g_free(pspecs);
    return source;
}

struct all_stats {
    GstStructure *all;
    gchar *channel; /* its address */
};

static void add_stats(const GValue *child, gpointer user)
{
    const struct all_stats *stats = user;
    GstStructure *one = NULL;
    g_autofree gchar *address = NULL;

    g_object_get(g_value_get_object(child), "stats", &one, "address", &address, NULL);
    gsize length = stats->channel ? strlen(stats->channel) : 0;
    gboolean other = address && strlen(address) > length;
    g_autofree gchar *pad =
        other ? g_strconcat("src_", address + length + 1, NULL) : g_strdup("src");
    gst_structure_set(stats->all, pad, GST_TYPE_STRUCTURE, one, NULL);
    gst_structure_free(one);
}

static GstStructure *make_stats(GstGpudirectProgramSrc *self)
{
    struct all_stats stats = {.all = gst_structure_new_empty("gpudirect-stats")};
    GstIterator *children = gst_bin_iterate_elements(GST_BIN(self));

    g_object_get(self, "address", &stats.channel, NULL);
    while (gst_iterator_foreach(children, add_stats, &stats) == GST_ITERATOR_RESYNC) {
        gst_structure_remove_all_fields(stats.all);
        gst_iterator_resync(children);
    }
    gst_iterator_free(children);
    g_free(stats.channel);
    return stats.all;
}

static void programme_get_property(GObject *object, guint id, GValue *value, GParamSpec *pspec)
{
    GstGpudirectProgramSrc *self = GST_GPUDIRECT_PROGRAM_SRC(object);
    gconstpointer setting;

    if (id == PROP_STATS) {
        g_value_take_boxed(value, make_stats(self));
        return;
    }
    if (id >= PROP_ACTIVE_PATH && id <= PROP_SIGNAL) {
        g_autoptr(GObject) source = g_weak_ref_get(&self->main);
        if (source)
            g_object_get_property(source, pspec->name, value);
        else
            g_param_value_set_default(pspec, value);
        return;
    }
    GST_OBJECT_LOCK(self);
    gboolean known = src_options_get(&self->options, id, value);
    if (!known && (setting = settings_field(&self->settings, id))) {
        field_get(setting, value);
        known = TRUE;
    }
    GST_OBJECT_UNLOCK(self);
    if (!known)
        G_OBJECT_WARN_INVALID_PROPERTY_ID(object, id, pspec);
}

static void hand_over_to(const GValue *child, gpointer user)
{
    const GParamSpec *pspec = user;
    GstElement *source = g_value_get_object(child);
    g_autoptr(GstObject) bin = gst_object_get_parent(GST_OBJECT(source));

    if (bin)
        programme_hand_over(G_OBJECT(bin), G_OBJECT(source), pspec->name);
}

static gboolean plays(gpointer source)
{
    gboolean signal = FALSE;

    g_object_get(source, "signal", &signal, NULL);
    return signal;
}

/* Gives each stream its address in the other channel; those whose frames come change together. */
static void move_streams(GstGpudirectProgramSrc *self, const gchar *from, const gchar *to)
{
    gint64 timeout = src_options_read(&self->options, self).connection_timeout * GPUD_SEC;
    g_autoptr(GObject) main = g_weak_ref_get(&self->main);
    GList *sources = NULL;
    guint playing = 0;

    GST_OBJECT_LOCK(self);
    for (GList *at = GST_BIN_CHILDREN(self); at; at = at->next)
        sources = g_list_prepend(sources, gst_object_ref(at->data));
    GST_OBJECT_UNLOCK(self);
    for (GList *at = sources; at; at = at->next)
        playing += plays(at->data);
    struct gate *gate = gate_new(playing, main && plays(main), timeout);
    for (GList *at = sources; at; at = at->next) {
        g_autofree gchar *address = NULL;
        g_object_get(at->data, "address", &address, NULL);
        g_autofree gchar *moved = finder_move_address(address, from, to);
        gst_gpudirect_src_set_gate(at->data, plays(at->data) ? gate : NULL, at->data == main);
        g_object_set(at->data, "address", moved, NULL);
    }
    gate_unref(gate);
    g_list_free_full(sources, gst_object_unref);
}

/* Changes the channel while the element runs, or posts a warning. */
static void change_channel(GstGpudirectProgramSrc *self, const gchar *to)
{
    struct finder *finder = g_atomic_pointer_get(&self->finder);
    gchar **address = &self->settings.address;

    GST_OBJECT_LOCK(self);
    g_autofree gchar *from = g_strdup(*address);
    gboolean has_backup = src_options_have_backup(&self->options);
    GST_OBJECT_UNLOCK(self);
    if (!finder || has_backup || !g_utf8_validate(to, -1, NULL) || !finder_follow(finder, to)) {
        g_autofree gchar *shown = g_utf8_make_valid(to, -1);
        GST_ELEMENT_WARNING(
            self, RESOURCE, SETTINGS,
            ("The address was not changed to \"%s\", and \"%s\" goes on: while the element runs it "
             "changes from one channel with a name to another, without a backup-address.",
             shown, from),
            (NULL));
        return;
    }
    GST_OBJECT_LOCK(self);
    g_free(*address);
    *address = g_strdup(to);
    GST_OBJECT_UNLOCK(self);
    move_streams(self, from, to);
}

static void programme_set_property(GObject *object, guint id, const GValue *value,
                                   GParamSpec *pspec)
{
    GstGpudirectProgramSrc *self = GST_GPUDIRECT_PROGRAM_SRC(object);

    GST_OBJECT_LOCK(self);
    gboolean started = self->started, may = settings_may_set(pspec, started);
    GST_OBJECT_UNLOCK(self);
    if (id == SETTING_ADDRESS && started) {
        const gchar *to = g_value_get_string(value);
        change_channel(self, to ? to : "");
        return;
    }
    GST_OBJECT_LOCK(self);
    gboolean known = !may || src_options_set(&self->options, id, value) ||
                     settings_set(&self->settings, id, value);
    GST_OBJECT_UNLOCK(self);
    if (!known)
        G_OBJECT_WARN_INVALID_PROPERTY_ID(object, id, pspec);
    if (!may) {
        settings_refuse(GST_ELEMENT(self), pspec);
    } else if (started && id != OPTION_CONNECTION_TIMEOUT) {
        g_autoptr(GstIterator) children = gst_bin_iterate_elements(GST_BIN(self));
        while (gst_iterator_foreach(children, hand_over_to, pspec) == GST_ITERATOR_RESYNC)
            gst_iterator_resync(children);
    }
}

/* --- states ------------------------------------------------------------------------------- */

static void changed(void *user)
{
    struct finder *finder = g_atomic_pointer_get(&GST_GPUDIRECT_PROGRAM_SRC(user)->finder);

    if (finder)
        finder_wake(finder);
}

static void set_started(GstGpudirectProgramSrc *self, gboolean started)
{
    GST_OBJECT_LOCK(self);
    self->started = started;
    GST_OBJECT_UNLOCK(self);
}

static gboolean open(GstGpudirectProgramSrc *self)
{
    const gchar *address = self->settings.address;
    struct finder_params params = {
        .address = address,
        .programme = &self->programme,
        .make_source = make_source,
        .user = self,
    };

    if (!address || !address[0]) {
        GST_ELEMENT_ERROR(
            self, RESOURCE, NOT_FOUND,
            ("No address to receive from: set the property address, to that of a channel."),
            (NULL));
        return FALSE;
    }
    set_started(self, TRUE);
    collection_open(&self->collection);
    self->programme.group_id = gst_util_group_id_next();
    struct finder *finder =
        settings_check(GST_ELEMENT(self), &self->settings) ? finder_start(&params) : NULL;
    g_atomic_pointer_set(&self->finder, finder);
    set_started(self, finder != NULL);
    return finder != NULL;
}

static GstStateChangeReturn change_state(GstElement *element, GstStateChange transition)
{
    GstGpudirectProgramSrc *self = GST_GPUDIRECT_PROGRAM_SRC(element);

    if (transition == GST_STATE_CHANGE_READY_TO_PAUSED && !open(self))
        return GST_STATE_CHANGE_FAILURE;
    if (transition == GST_STATE_CHANGE_PAUSED_TO_READY)
        finder_stop(self->finder);
    GstStateChangeReturn result = GST_ELEMENT_CLASS(gst_gpudirect_program_src_parent_class)
                                      ->change_state(element, transition);
    gboolean failed = result == GST_STATE_CHANGE_FAILURE;
    if (transition == GST_STATE_CHANGE_PAUSED_TO_READY ||
        (transition == GST_STATE_CHANGE_READY_TO_PAUSED && failed)) {
        struct finder *finder = self->finder;
        g_atomic_pointer_set(&self->finder, NULL);
        finder_free(finder);
        set_started(self, FALSE);
    }
    /* Live, also while no stream is there. */
    if (!failed && (transition == GST_STATE_CHANGE_READY_TO_PAUSED ||
                    transition == GST_STATE_CHANGE_PLAYING_TO_PAUSED))
        return GST_STATE_CHANGE_NO_PREROLL;
    return result;
}

/* Without a pad nothing downstream would hear of the end. */
static gboolean send_event(GstElement *element, GstEvent *event)
{
    GstGpudirectProgramSrc *self = GST_GPUDIRECT_PROGRAM_SRC(element);

    GST_OBJECT_LOCK(self);
    gboolean has_pads = element->numsrcpads > 0;
    GST_OBJECT_UNLOCK(self);
    if (GST_EVENT_TYPE(event) == GST_EVENT_EOS && !has_pads)
        GST_ELEMENT_ERROR(self, RESOURCE, NOT_FOUND,
                          ("No stream was found on \"%s\" before the end: start gpudirectsink with "
                           "this address.",
                           self->settings.address ? self->settings.address : ""),
                          (NULL));
    return GST_ELEMENT_CLASS(gst_gpudirect_program_src_parent_class)->send_event(element, event);
}

/* --- class -------------------------------------------------------------------------------- */

static void programme_finalize(GObject *object)
{
    GstGpudirectProgramSrc *self = GST_GPUDIRECT_PROGRAM_SRC(object);

    settings_clear(&self->settings);
    g_weak_ref_clear(&self->main);
    collection_finish(&self->collection);
    shared_map_unref(self->map);
    G_OBJECT_CLASS(gst_gpudirect_program_src_parent_class)->finalize(object);
}

static void gst_gpudirect_program_src_class_init(GstGpudirectProgramSrcClass *klass)
{
    static const struct setting_texts texts = {
        .address = "The channel (NAME, unix:/path or tcp://HOST:PORT/NAME), one of its streams "
                   "(NAME/STREAM), or any other address of gpudirectsrc",
        .device =
            "Where pictures arrive: auto, host, opencl:N, cuda:N or hip:N; as in gpudirectsrc",
        .slots = "Frames of each stream that may be in flight or held at once",
        .slow_receiver = "What happens when a stream's receiver does not keep up; block works only "
                         "with a sender that blocks itself",
        .slow_receiver_when = (GParamFlags)GST_PARAM_MUTABLE_READY,
        .address_when = (GParamFlags)GST_PARAM_MUTABLE_PLAYING,
        .require_direct = "Fail rather than receive by a copy through host memory",
        .access = "Senders whose streams are accepted, besides root's: user (this user's only), "
                  "group:NAME (and those of that group's members) or all",
        .psk_file =
            "Between hosts: a file with the sender's key, readable by its owner only; unset or "
            "empty: no key",
    };
    const GParamFlags report = G_PARAM_READABLE | G_PARAM_STATIC_STRINGS;
    GParamSpec *const pspecs[] = {
        [PROP_ACTIVE_PATH] = g_param_spec_string(
            "active-path", "Active path", "The current route of the channel's own stream, or none",
            "none", report),
        [PROP_FALLBACK_REASON] = g_param_spec_string(
            "fallback-reason", "Fallback reason",
            "Why a better path is not used; empty if there is no better one", "", report),
        [PROP_STATS] = g_param_spec_boxed(
            "stats", "Statistics",
            "A structure for each stream, by the name of its pad: the stats of its "
            "gpudirectsrc",
            GST_TYPE_STRUCTURE, report),
        [PROP_SIGNAL] =
            g_param_spec_boolean("signal", "Signal",
                                 "Whether pictures of the channel's own stream arrive, as in "
                                 "gpudirectsrc",
                                 FALSE, report),
    };
    GObjectClass *object_class = G_OBJECT_CLASS(klass);
    GstElementClass *element_class = GST_ELEMENT_CLASS(klass);

    object_class->get_property = programme_get_property;
    object_class->set_property = programme_set_property;
    object_class->finalize = programme_finalize;
    element_class->change_state = change_state;
    element_class->send_event = send_event;
    settings_install(object_class, &texts);
    src_options_install(object_class);
    fields_install(object_class, pspecs, G_N_ELEMENTS(pspecs));
    gst_element_class_add_pad_template(
        element_class,
        gst_pad_template_new(PAD_MAIN, GST_PAD_SRC, GST_PAD_SOMETIMES, GST_CAPS_ANY));
    gst_element_class_add_pad_template(
        element_class,
        gst_pad_template_new(PAD_OTHERS, GST_PAD_SRC, GST_PAD_SOMETIMES, GST_CAPS_ANY));
    gst_element_class_set_static_metadata(
        element_class, "GPU-direct programme source", "Source/Audio/Video/Hardware",
        "Receives all streams of a channel: picture, sound and data", "gpudirect authors");
}

static void gst_gpudirect_program_src_init(GstGpudirectProgramSrc *self)
{
    settings_init(&self->settings);
    src_options_init(&self->options);
    g_weak_ref_init(&self->main, NULL);
    self->map = shared_map_new();
    collection_init(&self->collection, GST_ELEMENT(self));
    self->programme = (struct stream_programme){
        .bin = GST_BIN(self),
        .collection = &self->collection,
        .changed = changed,
        .user = self,
    };
    GST_OBJECT_FLAG_SET(self, GST_ELEMENT_FLAG_SOURCE);
}
