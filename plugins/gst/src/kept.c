/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "src/kept.h"

#include "src/input.h"

gboolean kept_card_is_card(const struct settings *settings)
{
    return settings->address && settings->address[0] && input_ops_for(settings->address)->stop;
}

void kept_card_note(struct kept_card *kept, const struct settings *settings, enum io_mode io_mode)
{
    settings_copy(&kept->settings, settings);
    kept->io_mode = io_mode;
}

void kept_card_clear(struct kept_card *kept)
{
    settings_clear(&kept->settings);
}

gboolean kept_card_serves(const struct kept_card *kept, const struct settings *settings,
                          enum io_mode io_mode)
{
    const struct settings *then = &kept->settings;

    return kept_card_is_card(settings) && g_strcmp0(settings->address, then->address) == 0 &&
           g_strcmp0(settings->device, then->device) == 0 && settings->slots == then->slots &&
           settings->require_direct == then->require_direct && io_mode == kept->io_mode;
}
