/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Pictures of the kernel's test card by gpudirectsrc and by v4l2src, byte for byte: interlaced
 * ones, and a sensor's. The card's bars move, from where they stood when it was started, by a step
 * for each field: so no two pictures are alike for long, and the two fields of one differ. v4l2src
 * is told the signal's size, for by itself it has the card scale to the largest one. */
#include "card.h"

#include <gst/video/video.h>
#include <linux/videodev2.h>
#include <string.h>

#define FIELDS                                                      \
    (GST_VIDEO_BUFFER_FLAG_INTERLACED | GST_VIDEO_BUFFER_FLAG_TFF | \
     GST_VIDEO_BUFFER_FLAG_TOP_FIELD | GST_VIDEO_BUFFER_FLAG_BOTTOM_FIELD)
#define PICTURES 24
#define ROW (720 * 2)
#define IN_COMMON 4

static void take(const gchar *source, const gchar *filter, struct picture *taken)
{
    gchar *text;
    gboolean is_taken = card_take(source, filter, 0, PICTURES, taken, &text);

    check(is_taken, "%s ! %s: %s", source, filter, text);
}

/* --- beside each other --------------------------------------------------------------------- */

static void check_caps(const struct picture *ours, const struct picture *theirs)
{
    static const gchar *const names[] = {"format", "width", "height", "interlace-mode",
                                         "framerate"};
    g_autofree gchar *our = gst_caps_to_string(ours->caps),
                     *their = gst_caps_to_string(theirs->caps);
    const GstStructure *a = gst_caps_get_structure(ours->caps, 0);
    const GstStructure *b = gst_caps_get_structure(theirs->caps, 0);

    g_print("  %s, flags %x\n  v4l2src: %s, flags %x\n", our, ours->flags & FIELDS, their,
            theirs->flags & FIELDS);
    for (guint i = 0; i < G_N_ELEMENTS(names); i++) {
        const GValue *x = gst_structure_get_value(a, names[i]);
        const GValue *y = gst_structure_get_value(b, names[i]);
        check(x && y && gst_value_compare(x, y) == GST_VALUE_EQUAL, "another %s", names[i]);
    }
}

/* How far the first bar reaches in a row of UYVY, in pixels. */
static gint edge_of(const struct picture *picture, guint row)
{
    gsize size, x = 0;
    const guint8 *data = g_bytes_get_data(picture->bytes, &size);

    check(size >= (row + 1) * ROW, "a picture of %" G_GSIZE_FORMAT " bytes", size);
    for (data += row * ROW; x < ROW && memcmp(data + x, data, 4) == 0; x += 4)
        ;
    return (gint)x / 2;
}

/* The bars move to the right: the older field has its first edge further left, by what they move
 * from field to field, unless a new bar comes in between. The flags say that, which v4l2src's do
 * not in standards that begin with the bottom field. */
static void check_order(const struct picture *picture)
{
    gint top = edge_of(picture, 2), bottom = edge_of(picture, 1);

    check(top != bottom, "two fields of one time");
    if (ABS(top - bottom) < 720 / 16)
        check((top < bottom) == ((picture->flags & GST_VIDEO_BUFFER_FLAG_TFF) != 0),
              "edges at %d and %d, flags %x", top, bottom, picture->flags & FIELDS);
}

/* The first half of the first row is noise, where a wide-screen signal would be in Europe's
 * standards. */
static gboolean is_same(const struct picture *one, const struct picture *other)
{
    gsize size, other_size;
    const guint8 *a = g_bytes_get_data(one->bytes, &size);
    const guint8 *b = g_bytes_get_data(other->bytes, &other_size);

    return size == other_size && memcmp(a + ROW / 2, b + ROW / 2, size - ROW / 2) == 0;
}

/* Both begin where the bars stand at their start, and some of the pictures that they see on the way
 * are the same, though each may miss others. With rows exchanged, or of another time, none would
 * be. */
static void compare(const gchar *filter, gboolean single)
{
    static struct picture ours[PICTURES], theirs[PICTURES];
    guint same = 0;

    take("gpudirectsrc address=v4l2://" CARD, filter, ours);
    take("v4l2src device=" CARD, filter, theirs);
    check_caps(&ours[0], &theirs[0]);
    for (guint i = 0; i < PICTURES; i++)
        for (guint k = 0; k < PICTURES; k++) {
            const struct picture *our = &ours[i], *their = &theirs[k];
            /* Vertical bars look alike in both fields: where a busy card left a field out, a
             * later one of the other kind has the same bytes. */
            if (!is_same(our, their) || (single && (our->flags ^ their->flags) & FIELDS))
                continue;
            if (!single)
                check_order(our);
            same++;
        }
    check(same >= IN_COMMON, "%u pictures in common", same);
    g_print("%s: %u pictures are v4l2src's, byte for byte\n", filter, same);
    for (guint i = 0; i < PICTURES; i++) {
        picture_clear(&ours[i]);
        picture_clear(&theirs[i]);
    }
}

/* A sensor's mosaic, in a picture that stands still. */
static void compare_mosaic(const gchar *format)
{
    g_autofree gchar *filter =
        g_strdup_printf("video/x-bayer,format=%s,width=320,height=180,framerate=60/1", format);
    g_auto(Picture) our, their;
    gchar *text = NULL;

    check(card_take("gpudirectsrc address=v4l2://" CARD, filter, 2, 1, &our, &text), "%s", text);
    check(card_take("v4l2src device=" CARD, filter, 2, 1, &their, &text), "%s", text);
    check(gst_caps_can_intersect(our.caps, their.caps), "other caps");
    check(g_bytes_equal(our.bytes, their.bytes), "another picture of %s", format);
    g_print("%s: v4l2src's picture, byte for byte\n", filter);
}

int main(int argc, char **argv)
{
    gst_init(&argc, &argv);
    card_select(CARD_TV);
    card_set("Test Pattern", 0);
    card_set("OSD Text Mode", 2);
    card_set("Horizontal Movement", 5);
    card_set_standard(V4L2_STD_PAL);
    compare("video/x-raw,format=UYVY,width=720,height=576,interlace-mode=interleaved", FALSE);
    /* Before others: what is left of half a height must not halve the next one's. */
    compare("video/x-raw(format:Interlaced),format=UYVY,width=720,height=576,"
            "interlace-mode=alternate",
            TRUE);
    card_set_standard(V4L2_STD_NTSC_M);
    compare("video/x-raw,format=UYVY,width=720,height=480,interlace-mode=interleaved", FALSE);
    card_select(CARD_WEBCAM);
    card_set("Test Pattern", 0);
    card_set("OSD Text Mode", 2);
    card_set("Horizontal Movement", 3);
    compare_mosaic("bggr");
    compare_mosaic("gbrg");
    compare_mosaic("grbg");
    compare_mosaic("rggb");
    g_print("ok\n");
    return 0;
}
