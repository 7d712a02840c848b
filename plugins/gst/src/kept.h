/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A capture card is opened in READY, where its formats are queried, and stays open until NULL. The
 * properties that it was opened with are kept, to reopen it when they have changed. */
#ifndef GPUD_GST_SRC_KEPT_H
#define GPUD_GST_SRC_KEPT_H

#include "element/settings.h"
#include "src/iomode.h"

struct kept_card {
    struct settings settings;
    enum io_mode io_mode;
};

/* Whether the settings are a capture card's. */
gboolean kept_card_is_card(const struct settings *settings);

void kept_card_note(struct kept_card *kept, const struct settings *settings, enum io_mode io_mode);
void kept_card_clear(struct kept_card *kept);

/* Whether the card was opened with equivalent properties. */
gboolean kept_card_serves(const struct kept_card *kept, const struct settings *settings,
                          enum io_mode io_mode);

#endif
