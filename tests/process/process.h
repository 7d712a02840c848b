/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the tests of this folder are made of. */
#ifndef GPUD_TESTS_PROCESS_H
#define GPUD_TESTS_PROCESS_H

#include "support/check.h"
#include "support/make.h"
#include "support/media.h"
#include "support/peer.h"
#include "support/raw.h"

#include <gpudirect/gpudirect.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

/* Configures the sender for pictures, whose layout it is. */
#define CONFIGURE(sender, format, width, height)                       \
    ({                                                                 \
        struct gpud_layout layout_ = LAYOUT(format, width, height, 0); \
        WORKS(gpud_sender_configure(sender, PICTURE(&layout_), &e));   \
        layout_;                                                       \
    })

#endif
