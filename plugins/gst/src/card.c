/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The properties input and extra-controls, which may change while the card captures. Controls are
 * set at once, by the caller's thread; the input is selected by the streaming thread, because the
 * buffers are lost with the old one. */
#include "src/card.h"

#include "base/errors.h"
#include "src/debug.h"

#define GST_CAT_DEFAULT gst_gpudirect_src_debug

void card_install(GObjectClass *klass, guint input_id, guint controls_id)
{
    const GParamFlags playing =
        G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | GST_PARAM_MUTABLE_PLAYING;

    g_object_class_install_property(
        klass, input_id,
        g_param_spec_string("input", "Input",
                            "A capture card's input, by number or name; a change while it captures "
                            "is a change of signal (unset: the current input)",
                            NULL, playing));
    g_object_class_install_property(
        klass, controls_id,
        g_param_spec_boxed("extra-controls", "Extra controls",
                           "A capture card's controls, by name, as in v4l2src: "
                           "c,brightness=10,exposure_auto=1; menu items also by name",
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

void card_apply_controls(struct card_settings *card, struct feed *feed, GstElement *element)
{
    struct gpud_error error;
    enum gpud_status status = GPUD_OK;

    GST_OBJECT_LOCK(element);
    GstStructure *controls = card->controls ? gst_structure_copy(card->controls) : NULL;
    GST_OBJECT_UNLOCK(element);
    g_mutex_lock(&feed->lock);
    if (controls && feed->input && feed->input->ops->set_controls)
        status = feed->input->ops->set_controls(feed->input, controls, &error);
    g_mutex_unlock(&feed->lock);
    if (status != GPUD_OK)
        gpud_gst_error_warn(element, GPUD_GST_READ, &error,
                            "Not all of the card's controls could be set");
    g_clear_pointer(&controls, gst_structure_free);
}

void card_select_input(struct card_settings *card, struct feed *feed, GstElement *element)
{
    struct gpud_error error;

    if (!g_atomic_int_compare_and_exchange(&card->input_changed, TRUE, FALSE) ||
        !feed->input->ops->set_input)
        return;
    GST_OBJECT_LOCK(element);
    gchar *input = g_strdup(card->input);
    GST_OBJECT_UNLOCK(element);
    if (feed->input->ops->set_input(feed->input, input, &error) != GPUD_OK)
        gpud_gst_error_warn(element, GPUD_GST_READ, &error, "The card's input was not changed");
    g_object_notify(G_OBJECT(element), "input");
    g_free(input);
}
