/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The objects of a test, in one expression each: what cannot be made ends it. What follows an
 * object's context are the parameters that differ from the defaults: `.address = "cam1"`. For files
 * that have a WORKS(), from support/check.h or conformance.h. */
#ifndef GPUD_TESTS_MAKE_H
#define GPUD_TESTS_MAKE_H

#include <gpudirect/gpudirect.h>

/* A call that must work, and what it writes to `given`. */
#define GIVEN(type, call) \
    ({                    \
        type given;       \
        WORKS(call);      \
        given;            \
    })

#define WITH_SIZE(type, ...) (&(struct type){.size = sizeof(struct type), __VA_ARGS__})

#define NEW_CONTEXT() GIVEN(struct gpud_context *, gpud_context_create(NULL, &given, &e))
#define OPEN_DEVICE(context, name) \
    GIVEN(struct gpud_device *, gpud_device_open(context, name, &given, &e))
#define NEW_MEMORY(device, size) \
    GIVEN(struct gpud_memory *, gpud_memory_alloc(device, size, GPUD_MEMORY_PLAIN, &given, &e))
#define NEW_MEMORY_FOR(device, size, usage) \
    GIVEN(struct gpud_memory *, gpud_memory_alloc_for(device, size, usage, &given, &e))
#define NEW_QUEUE(device) GIVEN(struct gpud_queue *, gpud_queue_create(device, &given, &e))
#define LAYOUT(...) GIVEN(struct gpud_layout, gpud_layout_init(&given, __VA_ARGS__, &e))

#define NEW_SENDER(context, ...) \
    GIVEN(struct gpud_sender *,  \
          gpud_sender_create(context, WITH_SIZE(gpud_sender_params, __VA_ARGS__), &given, &e))
#define NEW_RECEIVER(context, ...) \
    GIVEN(struct gpud_receiver *,  \
          gpud_receiver_create(context, WITH_SIZE(gpud_receiver_params, __VA_ARGS__), &given, &e))

#define NEW_GROUP(context, receivers, count, ...)                                                 \
    GIVEN(struct gpud_group *,                                                                    \
          gpud_group_create(context, WITH_SIZE(gpud_group_params, __VA_ARGS__), receivers, count, \
                            &given, &e))

/* In a file that includes <pthread.h>. */
#define NEW_THREAD(run, argument)                                               \
    ({                                                                          \
        pthread_t thread_;                                                      \
        CHECK(pthread_create(&thread_, NULL, run, argument) == 0, "no thread"); \
        thread_;                                                                \
    })

/* A slot to write, and the next frame to read. */
#define ACQUIRE_SLOT(sender, timeout) \
    GIVEN(struct gpud_frame *, gpud_sender_acquire(sender, timeout, &given, &e))
#define ACQUIRE_FRAME(receiver, timeout) \
    GIVEN(struct gpud_frame *, gpud_receiver_acquire(receiver, timeout, &given, &e))

/* The frame's bytes, for GPUD_READ or GPUD_WRITE. */
#define MAP_FRAME(frame, access, timeout) \
    GIVEN(void *, gpud_frame_map(frame, access, timeout, &given, &e))

/* What an object says of itself: INFO(sender, first). */
#define INFO(kind, object)                                       \
    ({                                                           \
        struct gpud_##kind##_info info_ = GPUD_INFO_INIT(info_); \
        gpud_##kind##_get_info(object, &info_);                  \
        info_;                                                   \
    })

#endif
