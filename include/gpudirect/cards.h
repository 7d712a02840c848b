/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* clang-format off */
/** @file
 * The capture cards of this machine: each node of V4L2, what it offers, and on which devices its
 * frames can arrive without a copy. Nothing is set, no buffer is made: a program that captures
 * meanwhile does not notice it.
 *
 * @verbatim
 *   gpud_capture_card_list_create
 *     → { gpud_capture_card_list_get_info }…
 *     → gpud_capture_card_list_destroy
 * @endverbatim
 *
 * Cards come and go as /dev/video* do: watch that folder (inotify), or udev, and make a new list
 * then.
 *
 * Thread-safety: a list is a snapshot, which any threads may read at once. *list is set only on
 * success, and the caller's to destroy; destroying NULL, or a pointer to NULL, does nothing.
 */
/* clang-format on */
#ifndef GPUDIRECT_CARDS_H
#define GPUDIRECT_CARDS_H

#include <gpudirect/capture.h>
#include <gpudirect/device.h>

GPUD_BEGIN_DECLS

struct gpud_capture_card_list;

/** How frames of a card get to one of this machine's devices. */
struct gpud_capture_card_path {
    size_t size;     /**< sizeof(the struct), as the caller knows it */
    char device[32]; /**< "host", "cuda:0" */
    bool direct;     /**< the card can probably write there itself; only a first frame proves it */
    char path[32];   /**< the best that may work, as in gpud_capture_info; "": none */
    char reason[GPUD_REASON_MAX]; /**< if not direct: why, and what would change that */
    enum gpud_distance distance;  /**< of the device from the card */
};

/** A capture card's node. Strings are valid UTF-8 without control characters. */
struct gpud_capture_card_info {
    size_t size;                  /**< sizeof(the struct), as the caller knows it */
    char address[64];             /**< "v4l2:///dev/video0", as gpud_capture_params has it */
    bool usable;                  /**< it captures video, and this user may open it */
    char reason[GPUD_REASON_MAX]; /**< if not usable: why not; all that follows is unknown then */
    char card[64];                /**< the card's name */
    char driver[32];              /**< the driver's name */
    char bus[16];                 /**< "pci", "usb"; "": the system does not say */
    char pci[16];                 /**< of the card, or of what it is plugged into; "": none */
    bool signal;                  /**< at its input: true as well where the driver cannot tell */
    char signal_reason[160];      /**< why there is no signal */
    uint32_t modes;               /**< entries of mode */
    uint32_t paths;               /**< entries of path; 0 for a node that is not usable */
    /** what gpud_capture_list_modes() lists, of when this list was made */
    const struct gpud_capture_mode *const *mode;
    /** how the card's frames get to each available device, in the order of a gpud_device_list */
    const struct gpud_capture_card_path *const *path;
};

/** Looks at /dev/video*, in the order of their numbers. A machine without any has a list of 0.
 *
 * @param context  must outlive the list
 * @param list  set to the snapshot, which the caller destroys
 * @param count  set to the number of entries; may be NULL
 * @param error  says why not; may be NULL; written on failure only
 * @return GPUD_OK, or a failure:
 * @retval GPUD_NO_MEMORY  out of memory
 */
GPUD_API enum gpud_status gpud_capture_card_list_create(struct gpud_context *context,
                                                        struct gpud_capture_card_list **list,
                                                        uint32_t *count, struct gpud_error *error);

/** Destroys a list.
 *
 * @param list  set to NULL; NULL or a pointer to NULL: nothing happens
 */
GPUD_API void gpud_capture_card_list_destroy(struct gpud_capture_card_list **list);

/** One card's node.
 *
 * @param list  the list, which owns the modes and paths that info leads to
 * @param index  0 to the count - 1
 * @param info  filled as far as its size goes
 * @param error  says why not; may be NULL; written on failure only
 * @return GPUD_OK, or a failure:
 * @retval GPUD_INVALID  there is no such entry, or the size is not set
 */
GPUD_API enum gpud_status gpud_capture_card_list_get_info(const struct gpud_capture_card_list *list,
                                                          uint32_t index,
                                                          struct gpud_capture_card_info *info,
                                                          struct gpud_error *error);

GPUD_END_DECLS

#endif
