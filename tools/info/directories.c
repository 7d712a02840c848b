/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Where to look for channels. All folders are asked at once, so that one user's hanging senders do
 * not hold up the others. */
#include "directories.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* A sender that has not answered by then hangs. */
#define ANSWER_TIMEOUT GPUD_SEC

struct question {
    char *address; /* of gpud_channel_list_create() */
    struct gpud_channel_list *channels;
    struct gpud_error error;
};

static gpointer ask(gpointer data)
{
    struct question *question = data;
    gpud_channel_list_create(question->address, ANSWER_TIMEOUT, &question->channels,
                             &question->error);
    return NULL;
}

static void add(GPtrArray *questions, char *address)
{
    struct question *question = g_new0(struct question, 1);
    question->address = address;
    g_ptr_array_add(questions, question);
}

static void question_free(gpointer data)
{
    struct question *question = data;
    gpud_channel_list_destroy(&question->channels);
    g_free(question->address);
    g_free(question);
}

/* Adds folders that belong to the user with the number in the path, because any user can make a
 * folder in /tmp. */
static void add_users(GPtrArray *questions, const char *pattern, const char *format)
{
    glob_t found;
    if (glob(pattern, 0, NULL, &found) != 0)
        return;
    for (size_t i = 0; i < found.gl_pathc; i++) {
        const char *path = found.gl_pathv[i];
        unsigned user;
        struct stat st;
        if (sscanf(path, format, &user) == 1 && lstat(path, &st) == 0 && S_ISDIR(st.st_mode) &&
            st.st_uid == user)
            add(questions, g_strdup_printf("unix:%s/", path));
    }
    globfree(&found);
}

static void list_free(gpointer data)
{
    struct gpud_channel_list *channels = data;
    gpud_channel_list_destroy(&channels);
}

static bool is_first_again(const GPtrArray *lists, const struct gpud_channel_list *channels)
{
    return lists->len > 0 && strcmp(info_search_of(lists->pdata[0]).directory,
                                    info_search_of(channels).directory) == 0;
}

static GPtrArray *take_lists(const GPtrArray *questions)
{
    GPtrArray *lists = g_ptr_array_new_with_free_func(list_free);
    for (guint i = 0; i < questions->len; i++) {
        struct question *question = questions->pdata[i];
        if (question->channels && !is_first_again(lists, question->channels))
            g_ptr_array_add(lists, g_steal_pointer(&question->channels));
    }
    return lists;
}

GPtrArray *info_ask_channels(const struct info_channels_options *options, struct gpud_error *error)
{
    GPtrArray *questions = g_ptr_array_new_with_free_func(question_free);
    GPtrArray *lists = NULL;
    add(questions, options->folder ? g_strdup_printf("unix:%s/", options->folder)
                                   : g_strdup(options->address));
    if (options->all_users) {
        add_users(questions, "/run/user/*/gpudirect", "/run/user/%u/gpudirect");
        add_users(questions, "/tmp/gpudirect-*", "/tmp/gpudirect-%u");
    }
    GThread **threads = g_new0(GThread *, questions->len);
    for (guint i = 0; i < questions->len; i++)
        threads[i] = g_thread_new("ask", ask, questions->pdata[i]);
    for (guint i = 0; i < questions->len; i++)
        g_thread_join(threads[i]);
    g_free(threads);
    struct question *first = questions->pdata[0];
    if (first->channels)
        lists = take_lists(questions);
    else
        *error = first->error;
    g_ptr_array_unref(questions);
    return lists;
}
