/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What channels answered, as JSON and as metrics. */
#include "channels/channels.h"

#include "json.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

/* === json ==================================================================================== */
/* The channels as JSON. tools/schema/channels.json describes it: a new key needs an entry there,
 * and a test compares them. No key is removed or changes its meaning. */

static const char *channels_phase_name(enum gpud_link_phase phase)
{
    static const char *const names[] = {
        [GPUD_PHASE_CONNECTING] = "connecting",
        [GPUD_PHASE_STREAMING] = "streaming",
        [GPUD_PHASE_LEAVING] = "leaving",
    };
    return (size_t)phase < G_N_ELEMENTS(names) ? names[phase] : "unknown";
}

static const char *channels_policy_name(enum gpud_slow_receiver policy)
{
    static const char *const names[] = {
        [GPUD_SLOW_DEFAULT] = "default",
        [GPUD_SLOW_BLOCK] = "block",
        [GPUD_SLOW_DROP_NEWEST] = "drop-newest",
        [GPUD_SLOW_DROP_OLDEST] = "drop-oldest",
    };
    return (size_t)policy < G_N_ELEMENTS(names) ? names[policy] : "unknown";
}

const char *channels_degraded_name(enum gpud_degraded degraded)
{
    static const char *const names[] = {
        [GPUD_DEGRADED_NO] = "",
        [GPUD_DEGRADED_HIDDEN] = "hidden",
        [GPUD_DEGRADED_PEER_ACCESS] = "peer-access",
        [GPUD_DEGRADED_USER] = "user",
        [GPUD_DEGRADED_FAILED] = "failed",
    };
    return (size_t)degraded < G_N_ELEMENTS(names) ? names[degraded] : "unknown";
}

void channels_put_receiver(JsonBuilder *builder, const struct gpud_link_info *link)
{
    json_put_int(builder, "id", (gint64)link->id);
    json_put_int_if(builder, "pid", link->pid > 0, link->pid);
    json_put_text(builder, "host", link->host);
    json_put_text(builder, "encrypted", link->encrypted);
    json_put_text(builder, "name", link->name);
    json_put_text(builder, "device", link->device);
    json_put_string(builder, "state", channels_phase_name(link->phase));
    json_put_text(builder, "route", link->path);
    json_put_text(builder, "reason", link->fallback_reason);
    json_put_text(builder, "degraded", channels_degraded_name(link->degraded));
    json_put_string(builder, "slow_receiver", channels_policy_name(link->slow_receiver));
    json_put_int(builder, "frames", (gint64)link->delivered);
    json_put_int(builder, "dropped", (gint64)link->dropped);
    json_put_int(builder, "waiting", (gint64)link->waiting);
    json_put_int(builder, "held", link->held);
    json_put_rate(builder, "latency_ns", (double)link->latency_ns);
    json_put_rate(builder, "latency_max_ns", (double)link->stats.latency_max_ns);
    json_put_int(builder, "dropped_newest", (gint64)link->dropped_newest);
    json_put_int(builder, "dropped_oldest", (gint64)link->dropped_oldest);
    json_put_int(builder, "dropped_failed", (gint64)link->dropped_failed);
    json_put_int(builder, "dropped_format", (gint64)link->dropped_format);
    json_put_int(builder, "acquired", (gint64)link->stats.frames);
    json_put_int(builder, "corrupted", (gint64)link->stats.corrupted);
    json_put_int(builder, "copies_cpu", (gint64)link->stats.copies_cpu);
    json_put_int(builder, "copies_gpu", (gint64)link->stats.copies_gpu);
    json_put_int(builder, "waits_cpu", (gint64)link->stats.waits_cpu);
    json_put_int(builder, "waits_device", (gint64)link->stats.waits_device);
}

void channels_put_channel(JsonBuilder *builder, const struct gpud_channel_info *info)
{
    struct gpud_layout layout;
    json_put_string(builder, "address", info->address);
    json_put_int_if(builder, "pid", info->pid > 0, info->pid);
    json_put_text(builder, "program", info->program);
    json_put_int_if(builder, "user", info->user >= 0, info->user);
    if (info->receiver_pid)
        json_put_int(builder, "receiver_pid", info->receiver_pid);
    json_put_bool(builder, "answered", info->answered);
    json_put_text(builder, "reason", info->reason);
    if (info->announced) {
        json_begin_object(builder, "announced");
        json_put_string(builder, "host", info->host);
        json_put_string(builder, "address", info->host_address);
        json_put_bool(builder, "own_host", info->own_host);
        json_put_bool(builder, "encrypted", info->encrypted);
        json_put_text(builder, "version", info->version);
        json_builder_end_object(builder);
    }
    if (!info->answered && !info->announced)
        return;
    if (info->configured && gpud_media_get_layout(&info->media, &layout, NULL) == GPUD_OK) {
        json_begin_object(builder, "format");
        json_put_string(builder, "name", layout.format);
        json_put_int(builder, "width", layout.width);
        json_put_int(builder, "height", layout.height);
        json_put_int(builder, "size_bytes", (gint64)layout.size);
        json_builder_end_object(builder);
    } else {
        json_put_string(builder, "format", NULL);
    }
    if (!info->answered)
        return;
    json_put_text(builder, "name", info->name);
    json_put_string(builder, "device", info->device);
    json_put_int(builder, "epoch", info->epoch);
    json_put_bool(builder, "ended", info->ended);
    json_put_int(builder, "slots", info->slots);
    json_put_string(builder, "slow_receiver", channels_policy_name(info->slow_receiver));
    json_put_rate(builder, "fps", info->rate);
    json_put_int(builder, "frames", (gint64)info->frames);
    json_put_int(builder, "delivered", (gint64)info->delivered);
    json_put_int(builder, "dropped", (gint64)info->dropped);
    json_put_int(builder, "connects", (gint64)info->connects);
    json_put_int(builder, "disconnects", (gint64)info->disconnects);
    json_put_int(builder, "refused", (gint64)info->refused);
    json_put_int(builder, "copies_cpu", (gint64)info->copies_cpu);
    json_put_int(builder, "copies_gpu", (gint64)info->copies_gpu);
    json_put_int(builder, "waits_cpu", (gint64)info->waits_cpu);
    json_put_int(builder, "waits_device", (gint64)info->waits_device);
    json_put_int_if(builder, "age_ns", info->age_ns != GPUD_TIME_NONE, (gint64)info->age_ns);
}

void channels_put_waiting(JsonBuilder *builder, const GPtrArray *waiters)
{
    json_begin_array(builder, "waiting");
    for (guint i = 0; i < waiters->len; i++) {
        const struct channels_waiter *waiter = waiters->pdata[i];
        json_builder_begin_object(builder);
        json_put_string(builder, "address", waiter->address);
        json_put_text(builder, "name", waiter->name);
        json_put_int_if(builder, "pid", waiter->pid > 0, waiter->pid);
        json_put_number(builder, "since_s", (double)waiter->since / 1e6);
        json_builder_end_object(builder);
    }
    json_builder_end_array(builder);
}

void channels_print_json(const GPtrArray *folders, bool pretty)
{
    const struct channels_folder *first = folders->pdata[0];
    JsonBuilder *builder = json_builder_new();
    json_builder_begin_object(builder);
    json_put_string(builder, "version", gpud_version_string());
    json_put_string(builder, "directory", first->search.directory);
    /* Every folder that was searched, with what its list lacks. */
    json_begin_array(builder, "folders");
    for (guint i = 0; i < folders->len; i++) {
        const struct channels_folder *folder = folders->pdata[i];
        json_builder_begin_object(builder);
        json_put_string(builder, "directory", folder->search.directory);
        json_put_int(builder, "omitted", (gint64)folder->search.omitted);
        json_put_text(builder, "note", folder->search.note);
        json_builder_end_object(builder);
    }
    json_builder_end_array(builder);
    json_begin_array(builder, "channels");
    for (guint i = 0; i < folders->len; i++) {
        const struct channels_folder *folder = folders->pdata[i];
        for (uint32_t j = 0; j < folder->count; j++) {
            const struct gpud_channel_info *info = &folder->channel[j];
            json_builder_begin_object(builder);
            channels_put_channel(builder, info);
            if (info->answered) {
                json_begin_array(builder, "receivers");
                for (uint32_t k = 0; k < info->links; k++) {
                    json_builder_begin_object(builder);
                    channels_put_receiver(builder, info->link[k]);
                    json_builder_end_object(builder);
                }
                json_builder_end_array(builder);
            }
            json_builder_end_object(builder);
        }
    }
    json_builder_end_array(builder);
    GPtrArray *waiters = channels_collect_waiting(folders);
    channels_put_waiting(builder, waiters);
    g_ptr_array_unref(waiters);
    json_builder_end_object(builder);
    json_print(builder, pretty);
}

/* === metrics ================================================================================= */
/* Metrics. A family's samples stand together, so that each family goes through all channels. */

enum type { COUNTER, GAUGE, INFO, HISTOGRAM };

struct out {
    GString *text;
    bool openmetrics;
    const GPtrArray *channels; /* struct metrics_channel, each address once */
};

/* One sample: its labels are built first, its value last. */
struct sample {
    struct out *out;
    bool labelled;
};

/* A member of an info. */
struct number {
    size_t offset;
    enum { BOOLEAN, U32, U64, DOUBLE } type;
};

struct family {
    const char *name; /* without its prefix, and _total or _info */
    enum type type;
    const char *unit; /* NULL: a plain number */
    const char *help;
    enum { CHANNELS, RECEIVERS, WATCHED } of; /* WATCHED: also channels that are not there */
    const char *label; /* of the parts of a counter; NULL: it has one part, without a label */
    struct {
        const char *value;
        struct number number;
    } part[4];
    /* Of a gauge that is no member. NAN: unknown, and there is no sample. */
    double (*gauge)(const struct gpud_channel_info *channel, const struct gpud_link_info *link);
    double (*watch)(const struct metrics_channel *channel);
    void (*labels)(struct sample *sample, const struct gpud_channel_info *channel,
                   const struct gpud_link_info *link);
};

/* --- samples ------------------------------------------------------------------------------- */

/* The value is a peer's word. */
static void put_label(struct sample *sample, const char *name, const char *value)
{
    GString *text = sample->out->text;
    char *valid = g_utf8_make_valid(value, -1);
    g_string_append_printf(text, "%s%s=\"", sample->labelled ? "," : "{", name);
    for (const char *c = valid; *c; c++) {
        if (*c == '\n')
            g_string_append(text, "\\n");
        else if (*c == '"' || *c == '\\')
            g_string_append_printf(text, "\\%c", *c);
        else
            g_string_append_c(text, *c);
    }
    g_string_append_c(text, '"');
    sample->labelled = true;
    g_free(valid);
}

static void put_number_label(struct sample *sample, const char *name, double value)
{
    char text[32];
    g_snprintf(text, sizeof(text), "%.10g", value);
    put_label(sample, name, text);
}

/* channel, link: of what it is; may be NULL. */
static void metrics_begin(struct sample *sample, struct out *out, const char *name,
                          const char *suffix, const struct gpud_channel_info *channel,
                          const struct gpud_link_info *link)
{
    *sample = (struct sample){.out = out};
    g_string_append_printf(out->text, "gpudirect_%s%s", name, suffix);
    if (channel)
        put_label(sample, "channel", channel->address);
    if (!link)
        return;
    put_number_label(sample, "receiver", (double)link->id);
    put_label(sample, "name", link->name);
}

static void metrics_end(struct sample *sample, const char *format, ...) G_GNUC_PRINTF(2, 3);
static void metrics_end(struct sample *sample, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    g_string_append(sample->out->text, sample->labelled ? "} " : " ");
    g_string_append_vprintf(sample->out->text, format, args);
    g_string_append_c(sample->out->text, '\n');
    va_end(args);
}

/* --- what is said of a channel and of a receiver --------------------------------------------- */

static void build_labels(struct sample *sample, const struct gpud_channel_info *channel,
                         const struct gpud_link_info *link)
{
    put_label(sample, "version", gpud_version_string());
}

static void channel_labels(struct sample *sample, const struct gpud_channel_info *channel,
                           const struct gpud_link_info *link)
{
    static const char *const kinds[] = {"picture", "audio", "ancillary", "data", "tensor"};
    struct gpud_layout layout;
    put_number_label(sample, "pid", (double)channel->pid);
    put_label(sample, "program", channel->program);
    put_label(sample, "reason", channel->reason);
    if (!channel->answered)
        return;
    put_label(sample, "name", channel->name);
    put_label(sample, "device", channel->device);
    put_label(sample, "slow_receiver", channels_policy_name(channel->slow_receiver));
    if (!channel->configured || gpud_media_get_layout(&channel->media, &layout, NULL) != GPUD_OK ||
        (size_t)channel->media.kind >= G_N_ELEMENTS(kinds))
        return;
    put_label(sample, "media", kinds[channel->media.kind]);
    put_label(sample, "format", layout.format);
    if (channel->media.kind != GPUD_MEDIA_PICTURE)
        return;
    put_number_label(sample, "width", layout.width);
    put_number_label(sample, "height", layout.height);
}

static void receiver_labels(struct sample *sample, const struct gpud_channel_info *channel,
                            const struct gpud_link_info *link)
{
    put_number_label(sample, "pid", (double)link->pid);
    put_label(sample, "host", link->host);
    put_label(sample, "encrypted", link->encrypted);
    put_label(sample, "device", link->device);
    put_label(sample, "route", link->path);
    put_label(sample, "reason", link->fallback_reason);
    put_label(sample, "slow_receiver", channels_policy_name(link->slow_receiver));
    put_label(sample, "state", channels_phase_name(link->phase));
}

/* Of a channel of another host it is not known. */
static double up(const struct metrics_channel *channel)
{
    if (channel->info.receiver_pid || channel->info.announced)
        return NAN;
    return channel->is_there || channel->expected || channel->gone_how ? channel->info.answered
                                                                       : NAN;
}

static double gone(const struct metrics_channel *channel)
{
    return channel->gone_how ? channel->gone_s : NAN;
}

static double nominal_rate(const struct gpud_channel_info *channel,
                           const struct gpud_link_info *link)
{
    const struct gpud_fraction *nominal = &channel->media.picture.rate;
    if (!channel->configured || channel->media.kind != GPUD_MEDIA_PICTURE || nominal->num == 0 ||
        nominal->den == 0)
        return NAN;
    return (double)nominal->num / nominal->den;
}

static double frame_age(const struct gpud_channel_info *channel, const struct gpud_link_info *link)
{
    return channel->age_ns == GPUD_TIME_NONE ? NAN : (double)channel->age_ns / 1e9;
}

static double frame_size(const struct gpud_channel_info *channel, const struct gpud_link_info *link)
{
    struct gpud_layout layout;
    if (!channel->configured || gpud_media_get_layout(&channel->media, &layout, NULL) != GPUD_OK)
        return NAN;
    return (double)layout.size;
}

static double route_degraded(const struct gpud_channel_info *channel,
                             const struct gpud_link_info *link)
{
    return link->phase == GPUD_PHASE_CONNECTING ? NAN : link->degraded != GPUD_DEGRADED_NO;
}

static void degraded_labels(struct sample *sample, const struct gpud_channel_info *channel,
                            const struct gpud_link_info *link)
{
    put_label(sample, "kind", channels_degraded_name(link->degraded));
}

static double latency_max(const struct gpud_channel_info *channel,
                          const struct gpud_link_info *link)
{
    return link->stats.latency_max_ns ? (double)link->stats.latency_max_ns / 1e9 : NAN;
}

#define NUMBER(type, member)                                          \
    {                                                                 \
        offsetof(type, member), _Generic(((type *)NULL)->member, bool \
                                         : BOOLEAN, uint32_t          \
                                         : U32, uint64_t              \
                                         : U64, double                \
                                         : DOUBLE)                    \
    }
#define CHANNEL(member) NUMBER(struct gpud_channel_info, member)
#define LINK(member) NUMBER(struct gpud_link_info, member)
#define WATCH(member) NUMBER(struct metrics_channel, member)

/* clang-format off */
static const struct family families[] = {
    {"build", INFO, NULL, "The version of the library.", .labels = build_labels},
    {"channel_up", GAUGE, NULL,
     "1 if the channel's sender answers, 0 if not; a monitor knows of those that are gone, too.",
     .of = WATCHED, .watch = up},
    {"channel", INFO, NULL, "What a channel sends, and from where.", .labels = channel_labels},
    {"channel_frames", COUNTER, NULL, "Frames submitted.", .part = {{NULL, CHANNEL(frames)}}},
    {"channel_delivered_frames", COUNTER, NULL, "Frames taken, summed over receivers.",
     .part = {{NULL, CHANNEL(delivered)}}},
    {"channel_dropped_frames", COUNTER, NULL,
     "Frames that receivers lost, summed over receivers, thumbnails of a monitor included.",
     .part = {{NULL, CHANNEL(dropped)}}},
    {"channel_connects", COUNTER, NULL, "Receivers that have connected.",
     .part = {{NULL, CHANNEL(connects)}}},
    {"channel_disconnects", COUNTER, NULL, "Receivers that have left.",
     .part = {{NULL, CHANNEL(disconnects)}}},
    {"channel_refused_connections", COUNTER, NULL, "Connections that the sender refused.",
     .part = {{NULL, CHANNEL(refused)}}},
    {"channel_copies", COUNTER, NULL, "Copies of whole frames on the sender's side.",
     .label = "by", .part = {{"cpu", CHANNEL(copies_cpu)}, {"gpu", CHANNEL(copies_gpu)}}},
    {"channel_waits", COUNTER, NULL, "Times the sender's CPU waited.",
     .label = "for", .part = {{"receiver", CHANNEL(waits_cpu)}, {"device", CHANNEL(waits_device)}}},
    {"channel_rate_hertz", GAUGE, "hertz", "Frames per second, over the last one or two seconds.",
     .part = {{NULL, CHANNEL(rate)}}},
    {"channel_nominal_rate_hertz", GAUGE, "hertz", "Frames per second, as the format says.",
     .gauge = nominal_rate},
    {"channel_frame_age_seconds", GAUGE, "seconds", "Time since the last frame.",
     .gauge = frame_age},
    {"channel_frame_size_bytes", GAUGE, "bytes", "Size of a frame.", .gauge = frame_size},
    {"channel_ended", GAUGE, NULL, "1 if the stream is over, 0 if not.",
     .part = {{NULL, CHANNEL(ended)}}},
    {"channel_slots", GAUGE, NULL, "Frames in flight for each receiver, at most.",
     .part = {{NULL, CHANNEL(slots)}}},
    {"channel_receivers", GAUGE, NULL, "Receivers that are connected.",
     .part = {{NULL, CHANNEL(links)}}},
    {"channel_gone_seconds", GAUGE, "seconds",
     "Time since the sender died, ended (with a goodbye) or went (unknown how), or since the "
     "monitor misses one that is expected and was never there; the label how says which.",
     .of = WATCHED, .watch = gone},
    {"channel_frozen_seconds", GAUGE, "seconds",
     "Time since the picture last changed; of a monitor with --watch-content.", .of = WATCHED,
     .part = {{NULL, WATCH(frozen_s)}}},
    {"channel_black_seconds", GAUGE, "seconds",
     "Time since the picture was last not black; likewise.", .of = WATCHED,
     .part = {{NULL, WATCH(black_s)}}},
    {"channel_silent_seconds", GAUGE, "seconds",
     "Time since there was sound above -60 dBFS; likewise.", .of = WATCHED,
     .part = {{NULL, WATCH(silent_s)}}},
    {"receivers_waiting", GAUGE, NULL, "Receivers that wait for a sender.", .of = WATCHED,
     .part = {{NULL, WATCH(waiting)}}},
    {"receiver", INFO, NULL, "Where a receiver is, its route, and why it has no better one.",
     RECEIVERS, .labels = receiver_labels},
    {"route_degraded", GAUGE, NULL,
     "1 if a receiver's route is worse than its devices allow, 0 if not. The label kind says what "
     "to change: the receiver's GPU is hidden from the sender (hidden), there is no access from "
     "GPU to GPU (peer-access), the ends belong to different users (user), or a better route "
     "failed (failed); the label reason of gpudirect_receiver_info says how.", RECEIVERS,
     .gauge = route_degraded, .labels = degraded_labels},
    {"receiver_delivered_frames", COUNTER, NULL,
     "Frames that the receiver took. With those that it lost, and those that wait for it, they are "
     "all that were sent since it came.", RECEIVERS,
     .part = {{NULL, LINK(delivered)}}},
    {"receiver_acquired_frames", COUNTER, NULL, "Frames that the receiver took, as it says.",
     RECEIVERS, .part = {{NULL, LINK(stats.frames)}}},
    {"receiver_dropped_frames", COUNTER, NULL,
     "Frames that the receiver lost: it had no free slot (newest), a newer one took the place of "
     "one that waited (oldest), a copy failed (failed), or it was not ready for a new format in "
     "time (format).", RECEIVERS,
     .label = "cause", .part = {{"newest", LINK(dropped_newest)}, {"oldest", LINK(dropped_oldest)},
                                {"failed", LINK(dropped_failed)},
                                {"format", LINK(dropped_format)}}},
    {"receiver_corrupted_frames", COUNTER, NULL, "Frames that arrived flagged as corrupted.",
     RECEIVERS, .part = {{NULL, LINK(stats.corrupted)}}},
    {"receiver_copies", COUNTER, NULL, "Copies of whole frames on the receiver's side.", RECEIVERS,
     .label = "by", .part = {{"cpu", LINK(stats.copies_cpu)}, {"gpu", LINK(stats.copies_gpu)}}},
    {"receiver_waits", COUNTER, NULL, "Times the receiver's CPU waited.", RECEIVERS,
     .label = "for", .part = {{"frame", LINK(stats.waits_cpu)},
                              {"device", LINK(stats.waits_device)}}},
    {"receiver_held_frames", GAUGE, NULL, "Frames that the receiver has not given back.", RECEIVERS,
     .part = {{NULL, LINK(held)}}},
    {"receiver_waiting_frames", GAUGE, NULL, "Frames that the receiver can still take.", RECEIVERS,
     .part = {{NULL, LINK(waiting)}}},
    {"receiver_latency_seconds", HISTOGRAM, "seconds",
     "Time from submit to acquire; missing where sender and receiver have no common clock.",
     RECEIVERS},
    {"receiver_latency_max_seconds", GAUGE, "seconds", "The longest of these so far.", RECEIVERS,
     .gauge = latency_max},
};
/* clang-format on */

/* --- families ------------------------------------------------------------------------------ */

static double read_number(const void *info, const struct number *number)
{
    const void *at = (const char *)info + number->offset;
    switch (number->type) {
    case BOOLEAN:
        return *(const bool *)at;
    case U32:
        return *(const uint32_t *)at;
    case U64:
        return (double)*(const uint64_t *)at;
    default:
        return *(const double *)at;
    }
}

static void put_histogram(struct out *out, const struct family *family,
                          const struct gpud_channel_info *channel,
                          const struct gpud_link_info *link)
{
    static const uint32_t bounds[] = GPUD_LATENCY_BOUNDS_NS;
    struct sample sample;
    uint64_t total = 0, count = 0;
    for (size_t i = 0; i < GPUD_LATENCY_BUCKETS; i++)
        total += link->stats.latency_bucket[i];
    if (total == 0)
        return;
    for (size_t i = 0; i < GPUD_LATENCY_BUCKETS; i++) {
        metrics_begin(&sample, out, family->name, "_bucket", channel, link);
        if (i < G_N_ELEMENTS(bounds))
            put_number_label(&sample, "le", (double)bounds[i] / 1e9);
        else
            put_label(&sample, "le", "+Inf");
        count += link->stats.latency_bucket[i];
        metrics_end(&sample, "%" PRIu64, count);
    }
    metrics_begin(&sample, out, family->name, "_sum", channel, link);
    metrics_end(&sample, "%.9f", (double)link->stats.latency_sum_ns / 1e9);
    metrics_begin(&sample, out, family->name, "_count", channel, link);
    metrics_end(&sample, "%" PRIu64, total);
}

static void put_counter(struct out *out, const struct family *family,
                        const struct gpud_channel_info *channel, const struct gpud_link_info *link)
{
    const char *info = family->of == RECEIVERS ? (const char *)link : (const char *)channel;
    for (size_t i = 0; i == 0 || (i < G_N_ELEMENTS(family->part) && family->part[i].value); i++) {
        struct sample sample;
        uint64_t value;
        memcpy(&value, info + family->part[i].number.offset, sizeof(value));
        metrics_begin(&sample, out, family->name, "_total", channel, link);
        if (family->label)
            put_label(&sample, family->label, family->part[i].value);
        metrics_end(&sample, "%" PRIu64, value);
    }
}

static void metrics_put(struct out *out, const struct family *family,
                        const struct gpud_channel_info *channel, const struct gpud_link_info *link)
{
    struct sample sample;
    const void *info = family->of == RECEIVERS ? (const void *)link : (const void *)channel;
    double value = family->type == INFO ? 1
                   : family->gauge      ? family->gauge(channel, link)
                                        : read_number(info, &family->part[0].number);
    if (isnan(value))
        return;
    metrics_begin(&sample, out, family->name, family->type == INFO ? "_info" : "", channel, link);
    if (family->labels)
        family->labels(&sample, channel, link);
    metrics_end(&sample, "%.10g", value);
}

static void put_watch(struct out *out, const struct family *family,
                      const struct metrics_channel *channel)
{
    struct sample sample;
    double value =
        family->watch ? family->watch(channel) : read_number(channel, &family->part[0].number);
    if (isnan(value))
        return;
    metrics_begin(&sample, out, family->name, "", &channel->info, NULL);
    if (channel->expected)
        put_label(&sample, "expected", "yes");
    if (family->watch == gone)
        put_label(&sample, "how", channel->gone_how);
    metrics_end(&sample, "%.10g", value);
}

static void put_family(struct out *out, const struct family *family)
{
    /* The names of a family differ between the two syntaxes, those of its samples do not. */
    static const char *const types[] = {"counter", "gauge", "info", "histogram"};
    const char *type = types[family->type], *suffix = "";
    void (*put)(struct out *, const struct family *, const struct gpud_channel_info *,
                const struct gpud_link_info *) = family->type == HISTOGRAM ? put_histogram
                                                 : family->type == COUNTER ? put_counter
                                                                           : metrics_put;
    if (!out->openmetrics && family->type == COUNTER)
        suffix = "_total";
    if (!out->openmetrics && family->type == INFO)
        suffix = "_info", type = "gauge";
    g_string_append_printf(out->text, "# HELP gpudirect_%s%s %s\n# TYPE gpudirect_%s%s %s\n",
                           family->name, suffix, family->help, family->name, suffix, type);
    if (out->openmetrics && family->unit)
        g_string_append_printf(out->text, "# UNIT gpudirect_%s %s\n", family->name, family->unit);
    if (family->labels == build_labels)
        put(out, family, NULL, NULL);
    for (guint i = 0; family->labels != build_labels && i < out->channels->len; i++) {
        const struct metrics_channel *channel = out->channels->pdata[i];
        const struct gpud_channel_info *info = &channel->info;
        if (family->of == WATCHED)
            put_watch(out, family, channel);
        if (family->of == WATCHED || !channel->is_there ||
            (!info->answered && family->labels != channel_labels))
            continue;
        for (uint32_t j = 0; family->of == RECEIVERS && j < info->links; j++)
            put(out, family, info, info->link[j]);
        if (family->of == CHANNELS)
            put(out, family, info, NULL);
    }
}

GString *metrics_format(const GPtrArray *channels, bool openmetrics)
{
    struct out out = {.text = g_string_new(NULL), .openmetrics = openmetrics, .channels = channels};
    for (size_t i = 0; i < G_N_ELEMENTS(families); i++)
        put_family(&out, &families[i]);
    if (openmetrics)
        g_string_append(out.text, "# EOF\n");
    return out.text;
}

/* --- channels ------------------------------------------------------------------------------ */

struct metrics_channel *metrics_find(GPtrArray *channels, const char *address)
{
    for (guint i = 0; i < channels->len; i++) {
        struct metrics_channel *channel = channels->pdata[i];
        if (strcmp(channel->info.address, address) == 0)
            return channel;
    }
    struct metrics_channel *channel = g_new0(struct metrics_channel, 1);
    g_strlcpy(channel->info.address, address, sizeof(channel->info.address));
    channel->frozen_s = channel->black_s = channel->silent_s = NAN;
    g_ptr_array_add(channels, channel);
    return channel;
}

GPtrArray *metrics_collect(const GPtrArray *folders)
{
    GPtrArray *channels = g_ptr_array_new_with_free_func(g_free);
    GPtrArray *found = folders ? channels_collect(folders) : g_ptr_array_new();
    GPtrArray *waiters = folders ? channels_collect_waiting(folders) : g_ptr_array_new();
    for (guint i = 0; i < found->len; i++) {
        const struct gpud_channel_info *info = found->pdata[i];
        struct metrics_channel *channel = metrics_find(channels, info->address);
        channel->info = *info;
        channel->is_there = true;
    }
    for (guint i = 0; i < waiters->len; i++)
        metrics_find(channels, ((struct channels_waiter *)waiters->pdata[i])->address)->waiting++;
    g_ptr_array_unref(waiters);
    g_ptr_array_unref(found);
    return channels;
}
