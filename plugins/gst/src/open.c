/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What it opens: a device, and a sender, a group, a target or a card. */
#include "src/src.h"

#include "base/plugin.h"
#include "memory/memory.h"
#include "wire/codec.h"

#include <gst/allocators/gstfdmemory.h>

/* === device ================================================================================== */
/* The device on which gpudirectsrc's frames arrive, and its consequences for caps and contexts.
 *
 * A device that the user names is used. With `auto`, frames arrive on downstream's GPU if
 * downstream prefers GPU memory. If not, they arrive on the sender's device: its GPU, if that
 * belongs to this machine, its driver is available and downstream accepts such memory (as fakesink,
 * tee, and appsink without caps do); otherwise in host memory. The sender names its device while
 * the link is being made; a receiver on that device then replaces this one before the sender relies
 * on it. Frames of a card or a third-party writer have no device yet: they arrive on the GPU that
 * downstream prefers (of several, the one nearest to the card), or on the host. Frames on a GPU are
 * pushed as its memory if downstream accepts it, otherwise as memory that maps to the CPU on
 * demand, or, if downstream accepts nothing else, as dma-bufs. */

#define GST_CAT_DEFAULT gst_gpudirect_src_debug

/* Chooses the device that frames shall arrive on; g_free it. */
static gchar *gst_gpudirect_src_choose_device(GstGpudirectSrc *self, const struct input_ops *ops)
{
    gint number;
    gchar *device = device_choice_choose(&self->endpoint.device, &number, &self->follow.enabled);

    self->follow.moves = 0;
    /* Frames of a card or a third-party writer have no device yet; two senders may have two. */
    struct src_options options = src_options_read(&self->options, self);
    if (!input_is_of_sender(ops) || src_options_have_backup(&options))
        self->follow.enabled = FALSE;
    g_atomic_int_set(&self->endpoint.device.opened_on, number);
    return device;
}

GstCaps *gst_gpudirect_src_offer(GstGpudirectSrc *self, GstCaps *caps)
{
    gint number;
    enum gpu_use use = device_choice_get_use(&self->endpoint.device, &number);

    g_mutex_lock(&self->feed.lock);
    if (self->feed.input) {
        number = g_atomic_int_get(&self->endpoint.device.opened_on);
        use = number >= 0 ? GPU_USE_NAMED : GPU_USE_NONE;
    }
    g_mutex_unlock(&self->feed.lock);
    return gpu_filter_caps(caps, use, number);
}

/* Without a GPU that GStreamer can use, the core still maps frames for the CPU. */
static struct gpu *get_gpu(GstGpudirectSrc *self)
{
    gint number = g_atomic_int_get(&self->endpoint.device.opened_on);
    struct gpud_error error;

    if (number < 0)
        return NULL;
    struct gpu *gpu = gpu_get(number, &error);
    if (!gpu)
        GST_WARNING_OBJECT(self, "no %s: %s", gpu_get_vendor(number)->memory, error.reason);
    return gpu;
}

GstCaps *gst_gpudirect_src_offer_card(GstGpudirectSrc *self, GstCaps *caps)
{
    struct gpu *gpu = get_gpu(self);
    GstCaps *both = gst_caps_new_empty(), *in_dmabufs = caps_into_dmabufs(caps);

    for (guint i = 0; gpu && i < gst_caps_get_size(caps); i++) {
        GstCaps *one = gst_caps_copy_nth(caps, i);
        GstCaps *on_gpu = gpu_caps_in_memory(one, gpu->vendor);
        if (on_gpu)
            gst_caps_append(both, on_gpu);
        gst_caps_unref(one);
    }
    gst_caps_append(both, caps);
    gst_caps_append(both, in_dmabufs);
    return both;
}

struct gpu *gst_gpudirect_src_gpu_of_caps(GstGpudirectSrc *self, const GstCaps *caps)
{
    return gpu_vendor_of_caps(caps) ? get_gpu(self) : NULL;
}

/* Elements that pass memory through accept any caps; the CAPS query also reaches those behind them.
 */
static gboolean downstream_takes(GstGpudirectSrc *self, GstCaps *caps)
{
    GstPad *pad = GST_BASE_SRC_PAD(self);

    if (!gst_pad_peer_query_accept_caps(pad, caps))
        return FALSE;
    GstCaps *possible = gst_pad_peer_query_caps(pad, caps);
    gboolean takes = gst_caps_can_intersect(possible, caps);
    gst_caps_unref(possible);
    return takes;
}

gboolean gst_gpudirect_src_fills_files(GstQuery *query)
{
    GstAllocator *allocator = NULL;

    if (gst_query_get_n_allocation_params(query) > 0)
        gst_query_parse_nth_allocation_param(query, 0, &allocator, NULL);
    gboolean fills =
        allocator && GST_IS_FD_ALLOCATOR(allocator) && GST_ALLOCATOR_GET_CLASS(allocator)->alloc;
    gst_clear_object(&allocator);
    return fills;
}

/* unixfdsink accepts any caps, and then only memory of its allocator. */
static gboolean downstream_takes_gpu(GstGpudirectSrc *self, GstCaps *caps)
{
    if (!downstream_takes(self, caps))
        return FALSE;
    GstQuery *query = gst_query_new_allocation(caps, FALSE);
    gboolean takes =
        !gst_pad_peer_query(GST_BASE_SRC_PAD(self), query) || !gst_gpudirect_src_fills_files(query);
    gst_query_unref(query);
    return takes;
}

/* NULL: downstream does not accept dma-bufs of this format. */
static GstCaps *find_dmabufs(GstGpudirectSrc *self, const GstCaps *caps)
{
    GstCaps *all = caps_into_dmabufs(caps), *found = NULL;

    for (guint i = 0; i < gst_caps_get_size(all) && !found; i++) {
        found = gst_caps_copy_nth(all, i);
        if (!downstream_takes(self, found))
            gst_clear_caps(&found);
    }
    gst_caps_unref(all);
    return found;
}

static GstCaps *agree_on_dmabufs(GstGpudirectSrc *self, const GstCaps *caps)
{
    GstCaps *found = find_dmabufs(self, caps);
    struct gpud_error error;

    if (found && !dmabuf_can_be_made(&error))
        gst_clear_caps(&found);
    return found;
}

GstCaps *gst_gpudirect_src_agree(GstGpudirectSrc *self, GstCaps *caps, struct gpu **gpu)
{
    struct gpu *found = get_gpu(self);
    GstCaps *on_gpu = found ? gpu_caps_in_memory(caps, found->vendor) : NULL;

    *gpu = NULL;
    if (on_gpu && downstream_takes_gpu(self, on_gpu)) {
        gst_caps_unref(caps);
        *gpu = found;
        return on_gpu;
    }
    gst_clear_caps(&on_gpu);
    if (gst_pad_peer_query_accept_caps(GST_BASE_SRC_PAD(self), caps))
        return caps;
    GstCaps *in_dmabufs = agree_on_dmabufs(self, caps);
    gst_caps_unref(caps);
    return in_dmabufs;
}

/* --- the sender's device ------------------------------------------------------------------ */

/* Bounds the moves for a sender that names another GPU each time. */
#define MOVES_MAX 2

/* Whether the sender's device is one of this machine's GPUs, of a vendor known here. */
static gboolean is_on_gpu(const struct gpud_format_event *format)
{
    return gpu_of_name(format->device) >= 0 && format->pci[0];
}

gboolean gst_gpudirect_src_may_follow(GstGpudirectSrc *self, const struct gpud_format_event *format)
{
    return self->follow.enabled && self->follow.moves < MOVES_MAX &&
           (is_on_gpu(format) || g_atomic_int_get(&self->endpoint.device.opened_on) >= 0);
}

/* Whether downstream works on this GPU. Elements that name a vendor's memory do; those that accept
 * any memory have no GPU. */
static gboolean downstream_works_on(GstGpudirectSrc *self, gint number)
{
    const struct gpu_vendor *vendor = gpu_get_vendor(number);
    GstCaps *caps = gst_pad_peer_query_caps(GST_BASE_SRC_PAD(self), NULL);
    gchar *reason = NULL;
    gboolean names_it = FALSE;

    for (guint i = 0; !gst_caps_is_any(caps) && i < gst_caps_get_size(caps); i++) {
        GstCapsFeatures *features = gst_caps_get_features(caps, i);
        names_it |= !gst_caps_features_is_any(features) &&
                    gst_caps_features_contains(features, vendor->feature);
    }
    gst_caps_unref(caps);
    gboolean there =
        !names_it || device_choice_find_gpu(&self->endpoint.device, vendor, &reason) == number;
    g_free(reason);
    return there;
}

/* The GPU that the sender has its frames on, if downstream takes them there; else -1. */
static gint find_sender_gpu(GstGpudirectSrc *self, const struct gpud_format_event *format)
{
    gchar *reason = NULL;
    gint number = is_on_gpu(format) ? gpu_of_pci(format->pci) : -1;
    GstVideoInfo info;

    GstCaps *caps = number >= 0 && gpu_get_vendor(number)->is_available()
                        ? media_to_caps(&format->media, self->names, &info, &reason)
                        : NULL;
    GstCaps *on_gpu = caps ? gpu_caps_in_memory(caps, gpu_get_vendor(number)) : NULL;
    if (!on_gpu || !downstream_takes_gpu(self, on_gpu) || !downstream_works_on(self, number))
        number = -1;
    gst_clear_caps(&on_gpu);
    gst_clear_caps(&caps);
    g_free(reason);
    return number;
}

static gboolean device_move(GstGpudirectSrc *self, gint number)
{
    gchar *device = number < 0 ? g_strdup("host") : gpu_get_name(number);
    struct gpud_error error;
    gboolean moved = feed_replace(&self->feed, device, &error);

    self->follow.moves++;
    if (moved) {
        updates_clear(&self->updates);
        device_choice_set_reason(&self->endpoint.device,
                                 g_strdup_printf("%s: the sender has its frames there", device));
        g_atomic_int_set(&self->endpoint.device.opened_on, number);
        link_state_renew(&self->link);
    } else {
        GST_WARNING_OBJECT(self, "frames cannot arrive on %s, where the sender has them: %s",
                           device, error.reason);
        self->follow.enabled = FALSE;
    }
    g_free(device);
    return moved;
}

gboolean gst_gpudirect_src_follow(GstGpudirectSrc *self, const struct gpud_format_event *format)
{
    if (!self->follow.enabled || self->follow.moves >= MOVES_MAX)
        return FALSE;
    gint number = find_sender_gpu(self, format);
    return number != g_atomic_int_get(&self->endpoint.device.opened_on) &&
           device_move(self, number);
}

gboolean gst_gpudirect_src_fall_back(GstGpudirectSrc *self)
{
    return self->follow.enabled && self->follow.moves < MOVES_MAX &&
           g_atomic_int_get(&self->endpoint.device.opened_on) >= 0 && device_move(self, -1);
}

gchar *gst_gpudirect_src_advice(GstGpudirectSrc *self, const GstCaps *caps)
{
    for (guint i = 0; gpu_vendors[i]; i++) {
        GstCaps *on_gpu = gpu_caps_in_memory(caps, gpu_vendors[i]);
        gboolean wanted = on_gpu && gst_pad_peer_query_accept_caps(GST_BASE_SRC_PAD(self), on_gpu);
        gst_clear_caps(&on_gpu);
        if (wanted)
            return g_strdup_printf("they want %s: set gpudirectsrc's property device to %sN",
                                   gpu_vendors[i]->memory, gpu_vendors[i]->prefix);
    }
    GstCaps *in_dmabufs = find_dmabufs(self, caps);
    struct gpud_error error = {0};
    gboolean lacks = in_dmabufs && !dmabuf_can_be_made(&error);
    gst_clear_caps(&in_dmabufs);
    if (lacks)
        return g_strdup_printf("they want dma-bufs, and %s", error.reason);
    if (blocks_are_caps(caps))
        return g_strdup(
            "put an audioconvert and an audioresample after gpudirectsrc, if it is sound");
    return g_strdup("put a videoconvert after gpudirectsrc");
}

/* === inputs ================================================================================== */
/* Which input serves an address. */

const struct input_ops *input_ops_for(const gchar *address)
{
    if (g_str_has_prefix(address, TARGET_SCHEME))
        return &target_input_ops;
    return g_str_has_prefix(address, "v4l2:") ? &capture_input_ops : &link_input_ops;
}

/* === open ==================================================================================== */
/* Opens gpudirectsrc's input according to the properties, and closes it. */

static const struct input_ops *ops_for(const GstGpudirectSrc *self,
                                       const struct src_options *options)
{
    const struct input_ops *ops = input_ops_for(self->endpoint.running.address);

    return ops == &link_input_ops && src_options_have_backup(options) ? &pair_input_ops : ops;
}

static enum gpud_status check_backup(const struct input_params *params, const struct input_ops *ops,
                                     struct gpud_error *error)
{
    const gchar *backup = params->backup_address ? params->backup_address : "", *why = NULL;

    if (!backup[0] && params->freeze_timeout == 0)
        return GPUD_OK;
    if (!backup[0])
        why = "freeze-timeout needs a second sender: set backup-address to its address";
    else if (ops != &pair_input_ops || input_ops_for(backup) != &link_input_ops)
        why = "address and backup-address are both to be senders', names such as cam1 and cam1b";
    else if (g_str_equal(params->address, backup))
        why = "backup-address is the same as address: set it to that of a second sender";
    if (!why)
        return GPUD_OK;
    *error = (struct gpud_error){.status = GPUD_INVALID};
    g_strlcpy(error->reason, why, sizeof(error->reason));
    return GPUD_INVALID;
}

static void warn(void *user, const gchar *text)
{
    GstGpudirectSrc *self = user;

    GST_ELEMENT_WARNING(self, CORE, CLOCK, ("%s", text), (NULL));
}

enum gpud_status gst_gpudirect_src_open_input(void *user, const gchar *device, struct input **input,
                                              struct gpud_error *error)
{
    GstGpudirectSrc *self = user;
    struct src_options options = src_options_read(&self->options, self);
    const struct input_ops *ops = ops_for(self, &options);

    GST_OBJECT_LOCK(self);
    gchar *card_input = g_strdup(self->card.input);
    GstStructure *controls = self->card.controls ? gst_structure_copy(self->card.controls) : NULL;
    g_atomic_int_set(&self->card.input_changed, FALSE);
    GST_OBJECT_UNLOCK(self);
    g_autofree gchar *name = endpoint_find_pipeline_name(GST_ELEMENT(self));
    struct input_params params = {
        .address = self->endpoint.running.address,
        .device = device,
        .name = name,
        .backup_address = options.backup_address,
        .freeze_timeout = options.freeze_timeout,
        .preferred = &self->options.preferred,
        .access = self->endpoint.running.access,
        .psk_file = self->endpoint.running.psk_file,
        .slots = self->endpoint.running.slots,
        .slots_set = self->endpoint.running.slots_set,
        .slow_receiver = self->endpoint.running.slow_receiver,
        .require_direct = self->endpoint.running.require_direct,
        .method = io_mode_method(options.io_mode),
        .max_frame_size = options.max_frame_size,
        .busy_poll = options.busy_poll,
        .card_input = card_input,
        .card_controls = controls,
        .on_event = gst_gpudirect_src_on_event,
        .on_notice = warn,
        .user = self,
    };

    enum gpud_status status = check_backup(&params, ops, error);
    if (status == GPUD_OK)
        status = ops->open(&params, input, error);
    g_free(card_input);
    g_clear_pointer(&controls, gst_structure_free);
    return status;
}

/* Drops the state of the stream. */
static void reset_stream(GstGpudirectSrc *self)
{
    const gchar *address = self->endpoint.running.address;
    gboolean card = address && !input_is_of_sender(input_ops_for(address));

    updates_clear(&self->updates);
    g_ptr_array_set_size(self->sticky_names, 0);
    pictures_reset(&self->pictures);
    self->pictures.slots = self->endpoint.running.slots;
    link_state_reset(&self->link);
    src_signal_forget(&self->signal);
    times_reset(&self->times, card);
    latency_reset(&self->latency, self->endpoint.running.slots, card);
    self->discont = TRUE;
    self->loss_reported = FALSE;
    self->returned_at = self->blocked_longest = 0;
    g_atomic_int_set(&self->sender_live, -1);
    self->dropped = self->frames = self->skipped_unreported = 0;
}

/* Opens the input, on a device by the properties. FALSE: an error was posted. */
static gboolean gst_gpudirect_src_open(GstGpudirectSrc *self)
{
    const gchar *address = self->endpoint.running.address;
    const struct input_ops *ops = input_ops_for(address);
    struct gpud_error error;

    gchar *device = gst_gpudirect_src_choose_device(self, ops);
    reset_stream(self);
    self->names = names_of(address);
    gboolean opened = feed_open(&self->feed, device, &error);
    g_free(device);
    if (opened)
        return TRUE;
    gchar *what = g_strdup_printf("Cannot receive from %s at \"%s\"", ops->what, address);
    gpud_gst_error_post(GST_ELEMENT(self), GPUD_GST_OPEN_SOURCE, &error, what);
    g_free(what);
    return FALSE;
}

void gst_gpudirect_src_close(GstGpudirectSrc *self)
{
    reset_stream(self);
    feed_close(&self->feed);
}

gboolean gst_gpudirect_src_open_card(GstGpudirectSrc *self)
{
    const struct settings *settings = &self->endpoint.settings;

    GST_OBJECT_LOCK(self);
    kept_card_note(&self->kept, settings, self->options.io_mode);
    gboolean card = kept_card_is_card(settings);
    if (card)
        settings_copy(&self->endpoint.running, settings);
    GST_OBJECT_UNLOCK(self);
    return !card || (settings_check(GST_ELEMENT(self), &self->endpoint.running) &&
                     gst_gpudirect_src_open(self));
}

static gboolean restart_card(GstGpudirectSrc *self)
{
    struct gpud_error error;

    /* Downstream may have changed its device since READY. */
    gchar *device = gst_gpudirect_src_choose_device(self, self->feed.input->ops);
    gboolean same = g_strcmp0(device, self->feed.device) == 0;
    g_free(device);
    if (!same) {
        gst_gpudirect_src_close(self);
        return gst_gpudirect_src_open(self);
    }
    reset_stream(self);
    feed_count_anew(&self->feed);
    if (self->feed.input->ops->wait(self->feed.input, 0, &error) == GPUD_OK)
        return TRUE;
    gpud_gst_error_post(GST_ELEMENT(self), GPUD_GST_OPEN_SOURCE, &error,
                        "The capture card is gone");
    return FALSE;
}

gboolean gst_gpudirect_src_start_input(GstGpudirectSrc *self, gboolean kept)
{
    return kept ? restart_card(self) : gst_gpudirect_src_open(self);
}

void gst_gpudirect_src_stop_input(GstGpudirectSrc *self)
{
    if (!self->feed.input || self->feed.input->ops->kind != INPUT_CARD) {
        gst_gpudirect_src_close(self);
        return;
    }
    self->feed.input->ops->stop(self->feed.input);
    reset_stream(self);
}
