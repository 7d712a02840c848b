/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The properties input and extra-controls, also while the card captures: controls are set at once,
 * by who sets the property; another input is selected by the streaming thread, for the buffers go
 * with the old one. */
#include "src/card.h"

#include "errors.h"
#include "src/src.h"

#define GST_CAT_DEFAULT gst_gpudirect_src_debug

void card_install(GObjectClass *klass, guint input_id, guint controls_id)
{
    const GParamFlags playing =
        G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | GST_PARAM_MUTABLE_PLAYING;

    g_object_class_install_property(
        klass, input_id,
        g_param_spec_string("input", "Input",
                            "A capture card's input, by its number or name; another one while it "
                            "captures is another signal (unset: the one that it is set to)",
                            NULL, playing));
    g_object_class_install_property(
        klass, controls_id,
        g_param_spec_boxed("extra-controls", "Extra controls",
                           "A capture card's controls, by their names, as v4l2src has them: "
                           "c,brightness=10,exposure_auto=1; menus also by their entries",
                           GST_TYPE_STRUCTURE, playing));
}

void card_take_input(struct card_settings *card, const GValue *value)
{
    const gchar *input = g_value_get_string(value);

    g_free(card->input);
    card->input = g_strdup(input && input[0] ? input : NULL);
    g_atomic_int_set(&card->input_changed, card->input != NULL);
}

void card_take_controls(struct card_settings *card, const GValue *value)
{
    g_clear_pointer(&card->controls, gst_structure_free);
    card->controls = g_value_dup_boxed(value);
}

void card_clear(struct card_settings *card)
{
    g_clear_pointer(&card->input, g_free);
    g_clear_pointer(&card->controls, gst_structure_free);
}

void gst_gpudirect_src_set_controls(GstGpudirectSrc *self)
{
    struct gpud_error error;
    enum gpud_status status = GPUD_OK;

    GST_OBJECT_LOCK(self);
    GstStructure *controls = self->card.controls ? gst_structure_copy(self->card.controls) : NULL;
    GST_OBJECT_UNLOCK(self);
    g_mutex_lock(&self->input_lock);
    if (controls && self->input && self->input->ops->set_controls)
        status = self->input->ops->set_controls(self->input, controls, &error);
    g_mutex_unlock(&self->input_lock);
    if (status != GPUD_OK)
        gpud_gst_error_warn(GST_ELEMENT(self), GPUD_GST_READ, &error,
                            "The card's controls are not all as they were asked for");
    g_clear_pointer(&controls, gst_structure_free);
}

void gst_gpudirect_src_select_input(GstGpudirectSrc *self)
{
    struct gpud_error error;

    if (!g_atomic_int_compare_and_exchange(&self->card.input_changed, TRUE, FALSE) ||
        !self->input->ops->set_input)
        return;
    GST_OBJECT_LOCK(self);
    gchar *input = g_strdup(self->card.input);
    GST_OBJECT_UNLOCK(self);
    if (self->input->ops->set_input(self->input, input, &error) != GPUD_OK)
        gpud_gst_error_warn(GST_ELEMENT(self), GPUD_GST_READ, &error,
                            "The card's input stays as it is");
    g_object_notify(G_OBJECT(self), "input");
    g_free(input);
}
