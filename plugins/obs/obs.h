/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the files of the plugin share. module.c loads it and knows the channels; media.c says what
 * OBS calls a format; source.c receives; feed.c sends, for output.c and filter.c. */
#ifndef GPUD_OBS_H
#define GPUD_OBS_H

#include <gpudirect/gpudirect.h>

#include <obs-module.h>
#include <util/platform.h>
#include <util/threading.h>

enum { STREAM_PICTURE, STREAM_SOUND, STREAMS };

/* --- module.c ------------------------------------------------------------------------------ */

/* Of all receivers and senders. */
extern struct gpud_context *plugin_context;

void plugin_log(int level, const char *what, const char *reason);

/* The address of a stream, or "": a programme's sound is the stream "audio" of its address. */
enum { ADDRESS_MAX = 512 };
void endpoint_get_address(obs_data_t *settings, int stream, char address[ADDRESS_MAX]);

/* What an end's settings say into the parameters of a sender or a receiver, which point into both.
 * A file that is not set is "", which the library takes like NULL. */
#define ENDPOINT_SET(params, at, settings)                                        \
    ((params).address = (at), (params).name = "OBS",                              \
     (params).slow_receiver = GPUD_SLOW_DROP_OLDEST,                              \
     (params).psk_file = obs_data_get_string(settings, "psk_file"),               \
     (params).tls_certificate = obs_data_get_string(settings, "tls_certificate"), \
     (params).tls_key = obs_data_get_string(settings, "tls_key"),                 \
     (params).tls_ca = obs_data_get_string(settings, "tls_ca"))

/* Add them to a dialog; the address with a list of channels, for an end that receives. */
void endpoint_add_channels(obs_properties_t *props);
void endpoint_add_address(obs_properties_t *props);
void endpoint_add_files(obs_properties_t *props);

/* Runs a function in OBS's thread for what is destroyed, behind what was queued before it, with a
 * copy of the settings, which may be NULL. */
void plugin_queue(void (*run)(void *owner, obs_data_t *settings), void *owner,
                  obs_data_t *settings);

/* --- media.c ------------------------------------------------------------------------------- */

/* Describes a picture to OBS, but for its data and time. Returns NULL, or why OBS cannot show it.
 */
const char *media_to_frame(const struct gpud_picture *picture, struct obs_source_frame *frame);

/* Gives OBS a block of sound, through scratch, which is grown as needed, and the caller's to
 * bfree(). Returns NULL, or why OBS cannot play it. */
const char *media_play(const struct gpud_audio *audio, const uint8_t *data, uint32_t frames,
                       uint64_t time, obs_source_t *source, float **scratch);

/* Describes OBS's pictures and sound. Returns false if gpudirect has no such format. */
bool media_from_video(struct gpud_media *media, const struct video_output_info *video);
void media_from_audio(struct gpud_media *media, const struct obs_audio_info *audio, uint32_t block);

/* --- feed.c ---------------------------------------------------------------------------------- */

/* Sends a programme. It is the first member of its owner. Channels are opened and closed, which may
 * take seconds, by OBS's thread for what is destroyed, one after the other; no call blocks. */
struct feed {
    /* Called there when the channels cannot be opened, unless feed_set() was called again since.
     * May be NULL. */
    void (*failed)(struct feed *feed);
    pthread_mutex_t lock;        /* for what follows */
    int queued;                  /* settings that are still to be followed */
    char error[GPUD_REASON_MAX]; /* why the channels are not open */
    struct feed_stream {
        pthread_mutex_t lock; /* held for a copy at most, for what follows */
        struct gpud_sender *sender;
        union {
            struct video_output_info video;
            struct obs_audio_info audio;
        } configured; /* what the sender was configured for */
        uint64_t dropped;
    } stream[STREAMS];
};
void feed_init(struct feed *feed);

/* Closes the channels and frees the owner, by bfree(), later. */
void feed_destroy(struct feed *feed);

/* Sends to the address of the settings, which are copied; NULL, or no address: nowhere. */
void feed_set(struct feed *feed, obs_data_t *settings);

/* A picture, or samples of OBS's sound, which are copied into the senders' slots. */
void feed_picture(struct feed *feed, const struct video_output_info *video,
                  const struct video_data *data);
void feed_sound(struct feed *feed, const struct audio_data *data);

/* Returns false if the channels are not open. info and dropped, of the picture, may be NULL. */
bool feed_get_info(struct feed *feed, struct gpud_sender_info *info, uint64_t *dropped);

/* Why the channels are not open, or "". */
void feed_get_error(struct feed *feed, char error[GPUD_REASON_MAX]);

/* --- what registers ------------------------------------------------------------------------- */

extern const struct obs_source_info source_info, filter_info;

/* The output, its menu, and requests of obs-websocket. */
void output_load(void);
void output_unload(void);

#endif
