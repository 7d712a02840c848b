/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Where frames come from: a sender, a main and a backup sender, or a third-party writer; and the
 * feed, which is the one that is open. capture.c has the cards. */
#include "src/src.h"

#include <gpudirect/channel.h>
#include <gpudirect/group.h>
#include <gpudirect/target.h>
#include <string.h>

/* === link ==================================================================================== */
/* Frames of a sender. */

struct link_input {
    struct input parent;                /* first */
    struct gpud_receiver *receivers[2]; /* the second one is a pair's */
    enum gpud_status (*admit)(void *user, const struct gpud_media *media, struct gpud_error *error);
};

/* All but the address, and what is a kind's own. */
static struct gpud_receiver_params receiver_params(const struct input_params *params)
{
    const struct settings *settings = params->settings;
    struct gpud_receiver_params receiver = GPUD_PARAMS_INIT(receiver);

    receiver.name = params->name;
    receiver.device = params->device;
    receiver.slots = settings->slots_set ? settings->slots : 0; /* 0: the sender says how many */
    receiver.picture_slots = settings->slots;
    receiver.slow_receiver = settings->slow_receiver;
    receiver.require_direct = settings->require_direct;
    receiver.access = settings->access;
    receiver.psk_file = settings->psk_file;
    receiver.tls_certificate = settings->tls_certificate;
    receiver.tls_key = settings->tls_key;
    receiver.tls_ca = settings->tls_ca;
    receiver.max_frame_size = params->options->max_frame_size;
    return receiver;
}

/* Adds what a receiver has counted; shown: its route and latency are the input's. */
static void add_receiver(struct input_info *info, struct gpud_receiver *receiver, gboolean shown)
{
    struct gpud_receiver_info from = GPUD_INFO_INIT(from);

    gpud_receiver_get_info(receiver, &from);
    info->connected |= from.connected;
    info->frames += from.frames;
    info->dropped += from.dropped;
    info->corrupted += from.corrupted;
    info->connects += from.connects;
    info->disconnects += from.disconnects;
    info->copies_cpu += from.copies_cpu;
    info->copies_gpu += from.copies_gpu;
    info->waits_cpu += from.waits_cpu;
    info->waits_device += from.waits_device;
    info->kicks += from.kicks;
    if (!shown)
        return;
    info->latency_p50 = from.latency_p50_ns;
    info->latency_p99 = from.latency_p99_ns;
    info->latency_max = from.latency_max_ns;
    info->slots = from.slots;
    info->slots_max = from.slots_max;
    g_strlcpy(info->path, from.path, sizeof(info->path));
    g_strlcpy(info->fallback_reason, from.fallback_reason, sizeof(info->fallback_reason));
    g_strlcpy(info->encrypted, from.encrypted, sizeof(info->encrypted));
    g_strlcpy(info->address, from.address, sizeof(info->address));
    info->switches = from.switches;
}

static enum gpud_status link_open(const struct input_params *params, struct input **input,
                                  struct gpud_error *error)
{
    struct gpud_receiver_params receiver = receiver_params(params);
    struct gpud_context *context = gpud_gst_context_get(error);
    if (!context)
        return error->status;
    receiver.address = params->settings->address;
    receiver.busy_poll_ns =
        params->options->busy_poll ? params->options->busy_poll * GPUD_USEC : -1;
    receiver.on_event = params->on_event;
    receiver.user = params->user;

    struct link_input *link = g_new0(struct link_input, 1);
    enum gpud_status status = gpud_receiver_create(context, &receiver, &link->receivers[0], error);
    if (status != GPUD_OK) {
        g_free(link);
        return status;
    }
    link->parent.ops = &link_input_ops;
    link->admit = params->admit;
    *input = &link->parent;
    return GPUD_OK;
}

static enum gpud_status link_switch_to(struct input *input, const gchar *address,
                                       const struct settings *settings, gint64 timeout,
                                       struct gpud_error *error)
{
    struct link_input *link = (struct link_input *)input;
    struct gpud_switch_params params = GPUD_PARAMS_INIT(params);

    params.address = address;
    params.timeout_ns = timeout;
    params.admit = link->admit;
    if (gpud_address_get_host(address)) { /* others need none */
        params.psk_file = settings->psk_file;
        params.tls_certificate = settings->tls_certificate;
        params.tls_key = settings->tls_key;
        params.tls_ca = settings->tls_ca;
    }
    return gpud_receiver_switch(link->receivers[0], &params, error);
}

static void link_close(struct input *input)
{
    struct link_input *link = (struct link_input *)input;

    gpud_receiver_destroy(&link->receivers[0]);
    gpud_receiver_destroy(&link->receivers[1]);
    g_free(link);
}

static enum gpud_status link_acquire(struct input *input, gint64 timeout, struct gpud_frame **frame,
                                     struct gpud_error *error)
{
    return gpud_receiver_acquire(((struct link_input *)input)->receivers[0], timeout, frame, error);
}

static guint link_count_frames(struct input *input)
{
    return gpud_receiver_count_frames(((struct link_input *)input)->receivers[0]);
}

static void link_set_latency(struct input *input, guint64 latency)
{
    gpud_receiver_set_latency(((struct link_input *)input)->receivers[0], latency);
}

static void link_interrupt(struct input *input, gboolean interrupted)
{
    gpud_receiver_interrupt(((struct link_input *)input)->receivers[0], interrupted);
}

static void link_want_slots(struct input *input, guint slots)
{
    struct link_input *link = (struct link_input *)input;

    for (guint i = 0; i < G_N_ELEMENTS(link->receivers) && link->receivers[i]; i++)
        gpud_receiver_set_slots(link->receivers[i], slots);
}

static void link_request_key(struct input *input, const struct gpud_key_request *request)
{
    gpud_receiver_request_key(((struct link_input *)input)->receivers[0], request);
}

static void link_get_info(struct input *input, struct input_info *info)
{
    *info = (struct input_info){0};
    add_receiver(info, ((struct link_input *)input)->receivers[0], TRUE);
}

const struct input_ops link_input_ops = {
    .kind = INPUT_LINK,
    .what = "the sender",
    .open = link_open,
    .close = link_close,
    .acquire = link_acquire,
    .count_frames = link_count_frames,
    .set_latency = link_set_latency,
    .interrupt = link_interrupt,
    .want_slots = link_want_slots,
    .request_key = link_request_key,
    .switch_to = link_switch_to,
    .get_info = link_get_info,
};

/* === pairtime ================================================================================ */

static gboolean has_clock(const struct pair_clock *clock)
{
    return clock->monotonic || clock->name;
}

enum pair_match pair_match_of(const struct pair_clock *main, const struct pair_clock *backup)
{
    if (!main->known && !backup->known)
        return PAIR_MATCH_NONE;
    /* The other one will probably be alike. */
    const struct pair_clock *a = main->known ? main : backup;
    const struct pair_clock *b = backup->known ? backup : main;
    if ((!a->live && !b->live) || (!has_clock(a) && !has_clock(b)))
        return PAIR_MATCH_PTS;
    if (a->name && a->name == b->name)
        return PAIR_MATCH_CLOCK;
    if (a->monotonic && a->monotonic == b->monotonic)
        return PAIR_MATCH_MONOTONIC;
    return PAIR_MATCH_APART;
}

/* === pair ==================================================================================== */
/* Frames from a main and a backup sender, over two links: each instant is handed on once. The
 * core's group does that by the times that this file gives it; without a common time one sender is
 * used at a time, the other when that one is lost. */

/* Without a common time: how often the chosen sender is looked at, and how long it may send
 * nothing. */
#define LOOK_INTERVAL (100 * GPUD_MSEC)
#define SILENCE_MAX (500 * GPUD_MSEC)

struct pair_input {
    struct link_input link; /* first */
    struct gpud_group *group;
    const gint *preferred; /* atomic; the element's property */
    void (*on_event)(void *user, enum gpud_event event, const void *data);
    void (*on_notice)(void *user, const gchar *text);
    void *user;
    gint active; /* atomic: whose frame was handed on last; -1: none yet */

    GMutex lock; /* of the next four, which threads of the group use */
    struct pair_clock clocks[2];
    enum pair_match match;
    guint chosen; /* whose frames are handed on, where both cannot be matched */
    gboolean refused;

    /* The streaming thread's. */
    gboolean refusal_reported;
    GstClockTime looked_at; /* monotonic: for warnings of the group */
    gchar warned[2][GPUD_REASON_MAX];
    gboolean connected;
    GstClockTime handed_at; /* monotonic: the last frame */
    gboolean has_origin;    /* of the time line on which both senders' frames are placed */
    GstClockTime origin;    /* a base time of the clock */
    guint64 run;
};

static struct pair_input *pair_of(struct input *input)
{
    return (struct pair_input *)input;
}

/* The instant of a frame; called in a thread of the group. */
static uint64_t time_of(void *user, uint32_t member, const struct gpud_frame_info *info)
{
    struct pair_input *pair = user;
    struct unpack unpack = {.data = info->meta, .left = info->meta_size};
    GstClockTime running = wire_time(info->pts_ns);
    struct wire_head head;

    /* Data come in the order of their decoding times, if they have some. */
    if (g_str_equal(info->layout.format, "data") &&
        GST_CLOCK_TIME_IS_VALID(wire_time(info->dts_ns)))
        running = info->dts_ns;
    wire_head_unpack(&unpack, &head);
    g_mutex_lock(&pair->lock);
    pair->clocks[member] = (struct pair_clock){
        .known = TRUE, .live = head.live, .monotonic = head.monotonic, .name = head.clock};
    pair->match = pair_match_of(&pair->clocks[0], &pair->clocks[1]);
    enum pair_match match = pair->match;
    pair->refused |= match == PAIR_MATCH_APART;
    gboolean chosen = match != PAIR_MATCH_APART || member == pair->chosen;
    g_mutex_unlock(&pair->lock);
    if (!chosen || !GST_CLOCK_TIME_IS_VALID(running))
        return GPUD_TIME_NONE;
    if (match == PAIR_MATCH_APART)
        return monotonic_now(); /* one time line for both senders */
    /* By the senders' clock, or by their pipelines' running time. */
    return match == PAIR_MATCH_PTS ? running : wire_time(head.base_time + running);
}

static guint64 moved_time(guint64 said, gint64 by)
{
    GstClockTime time = wire_time(said);

    return GST_CLOCK_TIME_IS_VALID(time) ? (guint64)MAX(0, time_sum((gint64)time, by)) : said;
}

/* Puts the frame on one time line with the other sender's, so that a switch is not a step. */
static void pair_place(struct input *input, struct gpud_frame_info *info, struct wire_head *head)
{
    struct pair_input *pair = pair_of(input);

    info->dropped = 0; /* each sender counts its own */
    g_mutex_lock(&pair->lock);
    enum pair_match match = pair->match;
    g_mutex_unlock(&pair->lock);
    if (match == PAIR_MATCH_APART)
        return;
    if (!pair->has_origin) {
        pair->origin = head->base_time;
        pair->run = head->run;
        pair->has_origin = TRUE;
    }
    head->run = pair->run;
    if (match == PAIR_MATCH_PTS || head->base_time == pair->origin)
        return;
    gint64 moved = (gint64)head->base_time - (gint64)pair->origin;
    info->pts_ns = moved_time(info->pts_ns, moved);
    info->dts_ns = moved_time(info->dts_ns, moved);
    head->base_time = pair->origin;
}

static void pair_on_event(void *user, uint32_t member, enum gpud_event event, const void *data)
{
    struct pair_input *pair = user;

    g_atomic_int_set(&pair->active, (gint)member);
    pair->on_event(pair->user, event, data);
}

static void pair_close(struct input *input)
{
    struct pair_input *pair = pair_of(input);

    gpud_group_destroy(&pair->group);
    g_mutex_clear(&pair->lock);
    link_close(input);
}

static enum gpud_status pair_open(const struct input_params *params, struct input **input,
                                  struct gpud_error *error)
{
    struct gpud_receiver_params receiver = receiver_params(params);
    struct gpud_group_params group = GPUD_PARAMS_INIT(group);
    struct gpud_context *context = gpud_gst_context_get(error);
    const gchar *const addresses[] = {params->settings->address, params->options->backup_address};
    enum gpud_status status = GPUD_OK;
    if (!context)
        return error->status;
    struct pair_input *pair = g_new0(struct pair_input, 1);

    g_mutex_init(&pair->lock);
    pair->link.parent.ops = &pair_input_ops;
    pair->preferred = params->preferred;
    pair->chosen = (guint)g_atomic_int_get(params->preferred);
    pair->on_event = params->on_event;
    pair->on_notice = params->on_notice;
    pair->user = params->user;
    pair->active = -1;
    receiver.busy_poll_ns = -1; /* threads of the group receive, and two would wait busily */
    for (guint i = 0; i < G_N_ELEMENTS(pair->link.receivers) && status == GPUD_OK; i++) {
        receiver.address = addresses[i];
        status = gpud_receiver_create(context, &receiver, &pair->link.receivers[i], error);
    }
    group.mode = GPUD_GROUP_ANY;
    group.freeze_timeout_ns = (gint64)params->options->freeze_timeout;
    group.time = time_of;
    group.on_event = pair_on_event;
    group.user = pair;
    if (status == GPUD_OK)
        status = gpud_group_create(context, &group, pair->link.receivers, 2, &pair->group, error);
    if (status == GPUD_OK)
        *input = &pair->link.parent;
    else
        pair_close(&pair->link.parent);
    return status;
}

/* --- frames ------------------------------------------------------------------------------- */

static struct gpud_group_info info_of(struct pair_input *pair, guint member)
{
    struct gpud_group_info info = GPUD_INFO_INIT(info);

    gpud_group_get_info(pair->group, member, &info);
    return info;
}

static gboolean is_connected(struct pair_input *pair, guint member)
{
    struct gpud_receiver_info info = GPUD_INFO_INIT(info);

    /* For the group, a sender whose frames are left out delivers none. */
    gpud_receiver_get_info(pair->link.receivers[member], &info);
    return info.connected;
}

/* Without a common time: takes the preferred sender where the application has changed it, and the
 * other one where the chosen one is lost or silent. */
static void pair_choose(struct pair_input *pair, guint *preferred)
{
    guint wanted = (guint)g_atomic_int_get(pair->preferred);
    gboolean changed = wanted != *preferred;
    gboolean silent = pair->connected && monotonic_now() > pair->handed_at + SILENCE_MAX;

    *preferred = wanted;
    g_mutex_lock(&pair->lock);
    guint chosen = pair->chosen;
    g_mutex_unlock(&pair->lock);
    if (changed && is_connected(pair, wanted))
        chosen = wanted;
    else if ((silent || !is_connected(pair, chosen)) && is_connected(pair, 1 - chosen))
        chosen = 1 - chosen;
    else
        return;
    g_mutex_lock(&pair->lock);
    pair->chosen = chosen;
    g_mutex_unlock(&pair->lock);
    pair->handed_at = monotonic_now(); /* it gets as long */
}

static gboolean is_apart(struct pair_input *pair)
{
    g_mutex_lock(&pair->lock);
    gboolean apart = pair->match == PAIR_MATCH_APART;
    gboolean refused = pair->refused;
    g_mutex_unlock(&pair->lock);
    if (refused && !pair->refusal_reported) {
        pair->refusal_reported = TRUE;
        pair->on_notice(
            pair->user,
            "The two senders have no common clock, so their frames cannot be matched: "
            "one of them is used at a time, and a change is a step. Let both follow one "
            "clock (PTP, or common-clock=NAME), or run them on one host.");
    }
    return apart;
}

static const gchar *pair_name_of(gint member)
{
    return member < 0 ? "none" : member == 0 ? "main" : "backup";
}

/* Each kind of fault of a sender is said once; the stats say it for as long as it lasts. */
static void report_warnings(struct pair_input *pair)
{
    GstClockTime now = monotonic_now();

    if (now < pair->looked_at + SILENCE_MAX)
        return;
    pair->looked_at = now;
    for (gint i = 0; i < (gint)G_N_ELEMENTS(pair->link.receivers); i++) {
        struct gpud_group_info info = info_of(pair, (guint)i);
        if (!info.warning[0] || strcmp(pair->warned[i], info.warning) == 0)
            continue;
        g_strlcpy(pair->warned[i], info.warning, sizeof(pair->warned[i]));
        g_autofree gchar *text =
            g_strdup_printf("The %s sender is not in step: %s", pair_name_of(i), info.warning);
        pair->on_notice(pair->user, text);
    }
}

static enum gpud_status pair_acquire(struct input *input, gint64 timeout, struct gpud_frame **frame,
                                     struct gpud_error *error)
{
    struct pair_input *pair = pair_of(input);
    struct gpud_group_request request = GPUD_PARAMS_INIT(request);
    struct gpud_group_instant instant = GPUD_INFO_INIT(instant);
    gint64 deadline = (gint64)monotonic_now() + timeout;
    guint preferred = (guint)g_atomic_int_get(pair->preferred);
    enum gpud_status status;

    do {
        gboolean apart = is_apart(pair);
        gint64 left = MAX(0, deadline - (gint64)monotonic_now());
        if (apart)
            pair_choose(pair, &preferred);
        request.preferred = (guint)g_atomic_int_get(pair->preferred);
        status = gpud_group_acquire(pair->group, &request, apart ? MIN(left, LOOK_INTERVAL) : left,
                                    &instant, error);
    } while (status == GPUD_TIMEOUT && (gint64)monotonic_now() < deadline);
    if (status == GPUD_OK) {
        *frame = instant.frames[instant.member];
        input->skip = instant.skip;
        report_warnings(pair);
        g_atomic_int_set(&pair->active, (gint)instant.member);
        pair->connected = TRUE;
        pair->handed_at = monotonic_now();
    } else if (status == GPUD_TIMEOUT && pair->connected && !is_connected(pair, 0) &&
               !is_connected(pair, 1)) {
        struct gpud_group_info main = info_of(pair, 0), backup = info_of(pair, 1);
        pair->connected = pair->has_origin = FALSE;
        return gpud_gst_error_fill(error, GPUD_PEER, "main: %.200s; backup: %.200s", main.reason,
                                   backup.reason);
    }
    return status;
}

/* Either may be the next one that is handed on. Its time line is not this pair's. */
static void pair_request_key(struct input *input, const struct gpud_key_request *request)
{
    struct gpud_key_request at_once = *request;

    at_once.at_once = TRUE;
    at_once.time_ns = GPUD_TIME_NONE;
    for (guint i = 0; i < G_N_ELEMENTS(pair_of(input)->link.receivers); i++)
        gpud_receiver_request_key(pair_of(input)->link.receivers[i], &at_once);
}

static guint pair_count_frames(struct input *input)
{
    struct pair_input *pair = pair_of(input);
    gint active = g_atomic_int_get(&pair->active);

    return active < 0 ? 0 : info_of(pair, (guint)active).held;
}

/* The receivers are the group's. */
static void pair_set_latency(struct input *input, guint64 latency)
{
}

static void pair_get_info(struct input *input, struct input_info *info)
{
    struct pair_input *pair = pair_of(input);
    gint active = g_atomic_int_get(&pair->active);
    struct gpud_group_info group = info_of(pair, 0);

    *info = (struct input_info){0};
    for (gint i = 0; i < (gint)G_N_ELEMENTS(pair->link.receivers); i++)
        add_receiver(info, pair->link.receivers[i], i == MAX(active, 0));
    info->frames = group.instants;
    info->dropped = 0;
    info->hold = (guint64)group.latency_ns;
}

static void pair_add_stats(struct input *input, GstStructure *stats)
{
    static const gchar *const matches[] = {
        [PAIR_MATCH_NONE] = "none",           [PAIR_MATCH_CLOCK] = "clock",
        [PAIR_MATCH_MONOTONIC] = "monotonic", [PAIR_MATCH_PTS] = "pts",
        [PAIR_MATCH_APART] = "apart",
    };
    struct pair_input *pair = pair_of(input);
    struct gpud_group_info info = info_of(pair, 0);

    g_mutex_lock(&pair->lock);
    enum pair_match match = pair->match;
    g_mutex_unlock(&pair->lock);
    gst_structure_set(stats, "active", G_TYPE_STRING, pair_name_of(g_atomic_int_get(&pair->active)),
                      "matched-by", G_TYPE_STRING, matches[match], "switches", G_TYPE_UINT64,
                      info.switches, "discontinuities", G_TYPE_UINT64, info.discontinuities, NULL);
    for (guint i = 0; i < G_N_ELEMENTS(pair->link.receivers); i++) {
        struct gpud_receiver_info receiver = GPUD_INFO_INIT(receiver);
        const gchar *name = pair_name_of((gint)i);
        info = info_of(pair, i);
        gpud_receiver_get_info(pair->link.receivers[i], &receiver);
        g_autoptr(GstStructure) one = gst_structure_new(
            name, "connected", G_TYPE_BOOLEAN, (gboolean)receiver.connected, "active-path",
            G_TYPE_STRING, receiver.path, "encrypted", G_TYPE_STRING, receiver.encrypted, "frames",
            G_TYPE_UINT64, info.frames, "handed-on", G_TYPE_UINT64, info.handed_on, "missed",
            G_TYPE_UINT64, info.missed, "unmatched", G_TYPE_UINT64, info.untimed, "connects",
            G_TYPE_UINT64, receiver.connects, "behind", G_TYPE_INT64, info.behind_ns, "offset",
            G_TYPE_INT64, info.offset_ns, "frozen", G_TYPE_BOOLEAN, (gboolean)info.frozen, "reason",
            G_TYPE_STRING, info.reason, "late", G_TYPE_UINT64, info.late, "ignored", G_TYPE_UINT64,
            info.ignored, "warning", G_TYPE_STRING, info.warning, NULL);
        gst_structure_set(stats, name, GST_TYPE_STRUCTURE, one, NULL);
    }
}

static const gchar *pair_get_active(struct input *input)
{
    return pair_name_of(g_atomic_int_get(&pair_of(input)->active));
}

const struct input_ops pair_input_ops = {
    .kind = INPUT_PAIR,
    .what = "the pair of senders",
    .open = pair_open,
    .close = pair_close,
    .acquire = pair_acquire,
    .count_frames = pair_count_frames,
    .set_latency = pair_set_latency,
    .interrupt = link_interrupt,
    .want_slots = link_want_slots,
    .request_key = pair_request_key,
    .get_info = pair_get_info,
    .place = pair_place,
    .add_stats = pair_add_stats,
    .get_active = pair_get_active,
};

/* === target ================================================================================== */
/* Frames from a third-party writer, which finds its slots' addresses in a file. The ring is made
 * for the negotiated caps, and recreated when the writer breaks the rules. */

struct target_input {
    struct input parent; /* first */
    gchar *device;
    guint slots;
    GMutex lock; /* of target to past; acquire reads target without it: only its thread ends it */
    struct gpud_target *target; /* NULL: no caps yet, or it could not be made */
    gchar *name;
    gboolean interrupted;
    struct input_info past; /* the counts of earlier targets */
    /* The streaming thread's. */
    struct gpud_layout layout;
    guint fps_num, fps_den;
    struct gpud_error missing; /* why there is no target */
};

static struct target_input *to_self(struct input *input)
{
    return (struct target_input *)input;
}

static enum gpud_status target_open(const struct input_params *params, struct input **input,
                                    struct gpud_error *error)
{
    struct target_input *self = g_new0(struct target_input, 1);

    self->parent.ops = &target_input_ops;
    self->name = g_strdup(params->settings->address + strlen(TARGET_SCHEME));
    self->device = g_strdup(params->device);
    self->slots = params->settings->slots;
    g_mutex_init(&self->lock);
    *input = &self->parent;
    return GPUD_OK;
}

static void target_count(struct target_input *self, struct input_info *info)
{
    struct gpud_target_info from = GPUD_INFO_INIT(from);

    *info = self->past;
    g_strlcpy(info->path, "none", sizeof(info->path));
    if (!self->target)
        return;
    gpud_target_get_info(self->target, &from);
    info->connected = from.age_ns != GPUD_TIME_NONE && from.reason[0] == '\0';
    info->frames += from.frames;
    info->dropped += from.dropped;
    info->corrupted += from.corrupted;
    info->slots = from.slots;
    g_strlcpy(info->path, from.path, sizeof(info->path));
    g_strlcpy(info->fallback_reason, from.reason, sizeof(info->fallback_reason));
}

static enum gpud_status make_target(struct target_input *self, struct gpud_error *error)
{
    struct gpud_target_params params = GPUD_PARAMS_INIT(params);
    struct gpud_context *context = gpud_gst_context_get(error);
    struct gpud_target *made = NULL;
    struct input_info counted;

    /* The old one goes first, because it owns the name. */
    g_mutex_lock(&self->lock);
    target_count(self, &counted);
    self->past.frames = counted.frames;
    self->past.dropped = counted.dropped;
    self->past.corrupted = counted.corrupted;
    struct gpud_target *gone = g_steal_pointer(&self->target);
    g_mutex_unlock(&self->lock);
    gpud_target_destroy(&gone);
    if (!context)
        return error->status;
    params.layout = &self->layout;
    params.device = self->device;
    params.slots = self->slots;
    params.name = self->name;
    params.fps_num = self->fps_num;
    params.fps_den = self->fps_num ? self->fps_den : 0;
    enum gpud_status status = gpud_target_create(context, &params, &made, error);
    if (status != GPUD_OK)
        return status;
    g_mutex_lock(&self->lock);
    self->target = made;
    gpud_target_interrupt(made, self->interrupted);
    g_mutex_unlock(&self->lock);
    return GPUD_OK;
}

static void target_close(struct input *input)
{
    struct target_input *self = to_self(input);

    gpud_target_destroy(&self->target);
    g_mutex_clear(&self->lock);
    g_free(self->name);
    g_free(self->device);
    g_free(self);
}

static enum gpud_status target_acquire(struct input *input, gint64 timeout,
                                       struct gpud_frame **frame, struct gpud_error *error)
{
    struct target_input *self = to_self(input);
    struct gpud_error why;

    if (!self->target) {
        *error = self->missing;
        return error->status;
    }
    enum gpud_status status = gpud_target_acquire(self->target, timeout, frame, error);
    if (status != GPUD_PEER && status != GPUD_CLOSED)
        return status;
    /* Only this ring has ended, not the stream: the writer will find a new one. */
    if (make_target(self, &why) != GPUD_OK) {
        self->missing = *error = why;
        return why.status;
    }
    return error->status = GPUD_PEER;
}

static void target_interrupt(struct input *input, gboolean interrupted)
{
    struct target_input *self = to_self(input);

    g_mutex_lock(&self->lock);
    self->interrupted = interrupted;
    if (self->target)
        gpud_target_interrupt(self->target, interrupted);
    g_mutex_unlock(&self->lock);
}

static void target_get_info(struct input *input, struct input_info *info)
{
    struct target_input *self = to_self(input);

    g_mutex_lock(&self->lock);
    target_count(self, info);
    g_mutex_unlock(&self->lock);
}

/* All caps that a ring can hold, of which downstream chooses. */
static GstCaps *target_get_caps(struct input *input, const GstCaps *filter)
{
    return gst_caps_from_string(SLOT_VIDEO_CAPS);
}

static enum gpud_status target_configure(struct input *input, GstCaps **caps,
                                         struct gpud_layout *layout, struct gpud_error *error)
{
    struct target_input *self = to_self(input);
    GstVideoInfo info;

    if (!video_info_from_caps(&info, *caps) || !layout_from_info(&self->layout, &info))
        return gpud_gst_error_fill(
            error, GPUD_INVALID, "the negotiated caps describe no raw video that a ring can hold");
    self->fps_num = (guint)info.fps_n;
    self->fps_den = (guint)info.fps_d;
    enum gpud_status status = make_target(self, error);
    if (status == GPUD_OK)
        *layout = self->layout;
    else
        self->missing = *error;
    return status;
}

const struct input_ops target_input_ops = {
    .kind = INPUT_TARGET,
    .what = "the writer",
    .open = target_open,
    .close = target_close,
    .acquire = target_acquire,
    .interrupt = target_interrupt,
    .get_info = target_get_info,
    .get_caps = target_get_caps,
    .configure = target_configure,
};

/* === inputs ================================================================================== */
/* Which input serves an address. */

const struct input_ops *input_ops_for(const gchar *address)
{
    if (g_str_has_prefix(address, TARGET_SCHEME))
        return &target_input_ops;
    return g_str_has_prefix(address, "v4l2:") ? &capture_input_ops : &link_input_ops;
}

/* === feed ==================================================================================== */

static void add_counters(struct input_info *info, const struct input_info *more, guint64 sign)
{
    info->frames += sign * more->frames;
    info->dropped += sign * more->dropped;
    info->corrupted += sign * more->corrupted;
    info->connects += sign * more->connects;
    info->disconnects += sign * more->disconnects;
    info->copies_cpu += sign * more->copies_cpu;
    info->copies_gpu += sign * more->copies_gpu;
    info->waits_cpu += sign * more->waits_cpu;
    info->waits_device += sign * more->waits_device;
    info->kicks += sign * more->kicks;
    info->switches += sign * more->switches;
}

void feed_get_info(struct feed *feed, struct input_info *info)
{
    memset(info, 0, sizeof(*info));
    g_strlcpy(info->path, "none", sizeof(info->path));
    g_mutex_lock(&feed->lock);
    if (feed->input)
        feed->input->ops->get_info(feed->input, info);
    g_strlcpy(info->device, feed->device ? feed->device : "none", sizeof(info->device));
    add_counters(info, &feed->past, 1);
    g_mutex_unlock(&feed->lock);
}

void feed_count_anew(struct feed *feed)
{
    struct input_info info;

    g_mutex_lock(&feed->lock);
    feed->input->ops->get_info(feed->input, &info);
    memset(&feed->past, 0, sizeof(feed->past));
    add_counters(&feed->past, &info, -UINT64_C(1));
    feed->past.connects++;
    feed->interrupted = FALSE;
    feed->input->ops->interrupt(feed->input, FALSE);
    g_mutex_unlock(&feed->lock);
    feed->dropped_seen = info.dropped;
    __atomic_store_n(&feed->skipped, 0, __ATOMIC_RELAXED);
}

static void ask_for_slots(struct feed *feed)
{
    if (feed->input && feed->slots_wanted && input_is_of_sender(feed->input->ops))
        feed->input->ops->want_slots(feed->input, feed->slots_wanted);
}

gboolean feed_open(struct feed *feed, const gchar *device, struct gpud_error *error)
{
    struct input *input;

    if (feed->open_input(feed->user, device, &input, error) != GPUD_OK)
        return FALSE;
    g_mutex_lock(&feed->lock);
    feed->input = input;
    feed->device = g_strdup(device);
    feed->interrupted = FALSE;
    __atomic_store_n(&feed->skipped, 0, __ATOMIC_RELAXED);
    memset(&feed->past, 0, sizeof(feed->past));
    g_mutex_unlock(&feed->lock);
    return TRUE;
}

void feed_close(struct feed *feed)
{
    g_mutex_lock(&feed->lock);
    struct input *input = g_steal_pointer(&feed->input);
    g_clear_pointer(&feed->device, g_free);
    feed->slots_wanted = 0;
    memset(&feed->past, 0, sizeof(feed->past));
    g_mutex_unlock(&feed->lock);
    feed->dropped_seen = 0;
    if (input)
        input->ops->close(input);
}

gboolean feed_replace(struct feed *feed, const gchar *device, struct gpud_error *error)
{
    gchar *chosen = g_strdup(device ? device : feed->device);
    struct input_info counted;
    struct input *input;
    enum gpud_status status = feed->open_input(feed->user, chosen, &input, error);

    if (status != GPUD_OK) {
        g_free(chosen);
        return FALSE;
    }
    g_mutex_lock(&feed->lock);
    struct input *old = feed->input;
    old->ops->get_info(old, &counted);
    counted.disconnects += counted.connected;
    add_counters(&feed->past, &counted, 1);
    feed->input = input;
    ask_for_slots(feed);
    g_free(feed->device);
    feed->device = chosen;
    input->ops->interrupt(input, feed->interrupted);
    g_mutex_unlock(&feed->lock);
    old->ops->close(old);
    feed->dropped_seen = 0; /* the new one counts from 0 */
    return TRUE;
}

enum gpud_status feed_switch(struct feed *feed, const gchar *address,
                             const struct settings *settings, gint64 timeout,
                             struct gpud_error *error)
{
    enum gpud_status status = GPUD_OK;

    g_mutex_lock(&feed->lock);
    if (feed->input && feed->input->ops->switch_to && input_ops_for(address) == &link_input_ops)
        status = feed->input->ops->switch_to(feed->input, address, settings, timeout, error);
    else if (feed->input)
        status = gpud_gst_error_fill(
            error, GPUD_INVALID,
            "while the element runs it changes from one sender to another alone, without a "
            "backup-address: stop it (READY) for a card, a target or a pair of senders");
    g_mutex_unlock(&feed->lock);
    return status;
}

void feed_set_group(struct feed *feed, const gchar *name, GstElement *element)
{
    struct group_member *joined = name ? group_join(name, element) : NULL;

    g_mutex_lock(&feed->lock);
    struct group_member *left = feed->group;
    feed->group = joined;
    g_mutex_unlock(&feed->lock);
    if (left)
        group_leave(left);
}

void feed_add_stats(struct feed *feed, GstStructure *stats)
{
    guint64 dropped, missed;

    g_mutex_lock(&feed->lock);
    if (feed->group) {
        group_get_counts(feed->group, &dropped, &missed);
        gst_structure_set(stats, "group-dropped", G_TYPE_UINT64, dropped, "group-missed",
                          G_TYPE_UINT64, missed, NULL);
    }
    if (feed->input && feed->input->ops->kind == INPUT_PAIR)
        feed->input->ops->add_stats(feed->input, stats);
    g_mutex_unlock(&feed->lock);
}

void feed_interrupt(struct feed *feed, gboolean interrupted)
{
    g_mutex_lock(&feed->lock);
    feed->interrupted = interrupted;
    if (feed->input)
        feed->input->ops->interrupt(feed->input, interrupted);
    if (feed->group)
        group_interrupt(feed->group, interrupted);
    g_mutex_unlock(&feed->lock);
}

void feed_want_slots(struct feed *feed, guint slots)
{
    g_mutex_lock(&feed->lock);
    gboolean changed = feed->slots_wanted != slots;
    feed->slots_wanted = slots;
    if (changed)
        ask_for_slots(feed);
    g_mutex_unlock(&feed->lock);
}

void feed_request_key(struct feed *feed, const struct gpud_key_request *request)
{
    g_mutex_lock(&feed->lock);
    if (feed->input && feed->input->ops->request_key)
        feed->input->ops->request_key(feed->input, request);
    g_mutex_unlock(&feed->lock);
}

void feed_resume(struct feed *feed)
{
    g_mutex_lock(&feed->lock);
    feed->input->ops->interrupt(feed->input, feed->interrupted);
    g_mutex_unlock(&feed->lock);
}

void feed_set_flushing(struct feed *feed, gboolean flushing)
{
    g_mutex_lock(&feed->lock);
    g_atomic_int_set(&feed->flushing, flushing);
    g_cond_broadcast(&feed->flushed);
    g_mutex_unlock(&feed->lock);
    feed_interrupt(feed, flushing);
}

gboolean feed_sleep_until(struct feed *feed, gint64 time)
{
    g_mutex_lock(&feed->lock);
    while (!feed_is_flushing(feed) && g_cond_wait_until(&feed->flushed, &feed->lock, time))
        ;
    gboolean flushing = feed_is_flushing(feed);
    g_mutex_unlock(&feed->lock);
    return flushing;
}
