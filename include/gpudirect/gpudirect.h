/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/** @file
 * All headers of gpudirect.
 */
#ifndef GPUDIRECT_GPUDIRECT_H
#define GPUDIRECT_GPUDIRECT_H

#include <gpudirect/capture.h>
#include <gpudirect/cards.h>
#include <gpudirect/channel.h>
#include <gpudirect/device.h>
#include <gpudirect/frame.h>
#include <gpudirect/group.h>
#include <gpudirect/layout.h>
#include <gpudirect/media.h>
#include <gpudirect/network.h>
#include <gpudirect/receiver.h>
#include <gpudirect/route.h>
#include <gpudirect/sender.h>
#include <gpudirect/target.h>
#include <gpudirect/topology.h>
#include <gpudirect/transfer.h>
#include <gpudirect/types.h>
#include <gpudirect/version.h>

#endif
