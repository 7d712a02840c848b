/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Opens gpudirectsink's sender on a device, and closes it. */
#include "sink/open.h"

#include "base/context.h"
#include "base/errors.h"
#include "sink/events.h"
#include "sink/policy.h"
#include "sink/standby.h"

#define GST_CAT_DEFAULT gst_gpudirect_sink_debug

static gboolean device_is_host(const gchar *device)
{
    return g_str_equal(device, "host");
}

static enum gpud_status create_sender(GstGpudirectSink *self, const gchar *device,
                                      struct gpud_sender **replaces, struct gpud_sender **core,
                                      struct gpud_error *error)
{
    struct gpud_sender_params params = GPUD_PARAMS_INIT(params);
    struct gpud_context *context = gpud_gst_context_get(error);

    g_autofree gchar *name = endpoint_find_pipeline_name(GST_ELEMENT(self));
    params.address = self->endpoint.running.address;
    params.name = name;
    params.device = device;
    params.slots = self->endpoint.running.slots_set ? self->endpoint.running.slots : 0;
    params.picture_slots = self->endpoint.running.slots;
    /* Between hosts memory for metas is pinned, beside each frame in flight. */
    params.large_meta_max = self->large_metas.max =
        gst_gpudirect_sink_is_between_hosts(self) ? META_LARGE_DEFAULT : GPUD_LARGE_META_MAX;
    g_clear_pointer(&self->large_metas.data, g_free); /* of another size */
    params.slow_receiver = gst_gpudirect_sink_policy(self);
    params.require_direct = self->endpoint.running.require_direct;
    params.access = self->endpoint.running.access;
    params.psk_file = self->endpoint.running.psk_file;
    params.allow_unauthenticated = self->endpoint.running.allow_unauthenticated;
    params.on_connect = sink_clients_on_connect;
    params.on_disconnect = sink_clients_on_disconnect;
    params.user = &self->clients;
    params.replaces = replaces;
    GST_OBJECT_LOCK(self);
    params.standby = self->standby.wanted;
    GST_OBJECT_UNLOCK(self);
    enum gpud_status status =
        context ? gpud_device_open(context, "host", &self->host, error) : error->status;
    if (status == GPUD_OK)
        status = gpud_device_open(context, device, &self->ring_device, error);
    return status == GPUD_OK ? gpud_sender_create(context, &params, core, error) : status;
}

static gboolean open_sender(GstGpudirectSink *self, const gchar *device,
                            struct gpud_sender **replaces)
{
    struct gpud_sender *core;
    struct gpud_error error;

    if (create_sender(self, device, replaces, &core, &error) != GPUD_OK) {
        gchar *what =
            g_strdup_printf("Cannot send on the address \"%s\"", self->endpoint.running.address);
        gpud_gst_error_post(GST_ELEMENT(self), GPUD_GST_OPEN_SINK, &error, what);
        g_free(what);
        gpud_device_close(&self->ring_device);
        gpud_device_close(&self->host);
        return FALSE;
    }
    struct shared_sender *sender =
        shared_sender_new(core, self->endpoint.running.slots, device_is_host(device));
    shared_sender_set_slow_receiver(sender, gst_gpudirect_sink_policy(self));
    g_atomic_int_set(&self->endpoint.device.opened_on, gpu_of_name(device));
    self->reads_buffers = g_str_has_prefix(device, "opencl:");
    g_ptr_array_set_size(self->sticky_names, 0);
    self->failed = FALSE;
    self->reported.refusals = self->reported.drops = 0;
    GST_OBJECT_LOCK(self);
    self->sender = sender;
    GST_OBJECT_UNLOCK(self);
    gst_gpudirect_sink_begin_standby(self);
    /* unlock() may have interrupted the previous sender, or none. */
    if (g_atomic_int_get(&self->unlocked))
        shared_sender_interrupt(sender, TRUE);
    return TRUE;
}

gboolean gst_gpudirect_sink_open_sender(GstGpudirectSink *self, const gchar *device)
{
    if (!open_sender(self, device, NULL))
        return FALSE;
    gst_gpudirect_sink_note_opened(self);
    return TRUE;
}

static struct gpud_sender *take_sender(GstGpudirectSink *self)
{
    GST_OBJECT_LOCK(self);
    struct shared_sender *sender = g_steal_pointer(&self->sender);
    GST_OBJECT_UNLOCK(self);
    struct gpud_sender *core = sender ? shared_sender_take(sender) : NULL;
    shared_sender_unref(sender);
    g_atomic_int_set(&self->endpoint.device.opened_on, -1);
    gpud_device_close(&self->ring_device);
    gpud_device_close(&self->host);
    return core;
}

gboolean gst_gpudirect_sink_replace_sender(GstGpudirectSink *self, const gchar *device)
{
    struct gpud_sender *before = take_sender(self);
    gboolean opened = open_sender(self, device, &before);

    gpud_sender_destroy(&before); /* where the new one could not be made */
    return opened;
}

void gst_gpudirect_sink_close_sender(GstGpudirectSink *self)
{
    struct gpud_sender *core = take_sender(self);

    gpud_sender_destroy(&core);
}
