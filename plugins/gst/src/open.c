/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Opens gpudirectsrc's input according to the properties, and closes it. */
#include "src/open.h"

#include "base/errors.h"
#include "src/apply.h"
#include "src/device.h"

#define GST_CAT_DEFAULT gst_gpudirect_src_debug

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
    gboolean card = address && input_ops_for(address)->configure;

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

gboolean gst_gpudirect_src_open(GstGpudirectSrc *self)
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
    if (!self->feed.input || !self->feed.input->ops->stop) {
        gst_gpudirect_src_close(self);
        return;
    }
    self->feed.input->ops->stop(self->feed.input);
    reset_stream(self);
}
