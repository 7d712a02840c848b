/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Where to look for channels. All folders are asked at once, so that one user's hanging senders do
 * not hold up the others. */
#include "channels/ask.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* A sender that has not answered by then hangs. */
#define ANSWER_TIMEOUT GPUD_SEC

struct question {
    char *address; /* of gpud_channel_list_create() */
    struct channels_folder *folder;
    bool is_extra; /* one of the scope's `more` */
    struct gpud_error error;
};

static gpointer ask(gpointer data)
{
    struct question *question = data;
    struct channels_folder *folder = question->folder;
    gpud_channel_list_create(question->address, ANSWER_TIMEOUT, &folder->channels, &folder->count,
                             &folder->search, &question->error);
    return NULL;
}

static void folder_free(gpointer data)
{
    struct channels_folder *folder = data;
    if (folder)
        gpud_channel_list_destroy(&folder->channels);
    g_free(folder);
}

static struct question *add(GPtrArray *questions, char *address)
{
    struct question *question = g_new0(struct question, 1);
    question->folder = g_new0(struct channels_folder, 1);
    question->folder->search.size = sizeof(question->folder->search);
    question->address = address;
    g_ptr_array_add(questions, question);
    return question;
}

static void question_free(gpointer data)
{
    struct question *question = data;
    folder_free(question->folder);
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

/* What could not be asked is shown as an empty folder. */
static void explain(struct question *question)
{
    struct gpud_channel_search_info *search = &question->folder->search;
    g_strlcpy(search->directory, question->address, sizeof(search->directory));
    if (!question->folder->channels)
        g_strlcpy(search->note, question->error.reason, sizeof(search->note));
}

static bool is_first_again(const GPtrArray *folders, const struct channels_folder *folder)
{
    const struct channels_folder *first = folders->len > 0 ? folders->pdata[0] : NULL;
    return first && strcmp(first->search.directory, folder->search.directory) == 0;
}

static GPtrArray *take_folders(const GPtrArray *questions)
{
    GPtrArray *folders = g_ptr_array_new_with_free_func(folder_free);
    for (guint i = 0; i < questions->len; i++) {
        struct question *question = questions->pdata[i];
        if (question->is_extra)
            explain(question);
        if (question->is_extra ||
            (question->folder->channels && !is_first_again(folders, question->folder)))
            g_ptr_array_add(folders, g_steal_pointer(&question->folder));
    }
    return folders;
}

GPtrArray *channels_ask(const struct channels_scope *scope, struct gpud_error *error)
{
    GPtrArray *questions = g_ptr_array_new_with_free_func(question_free);
    GPtrArray *folders = NULL;
    add(questions,
        scope->folder ? g_strdup_printf("unix:%s/", scope->folder) : g_strdup(scope->address));
    if (scope->all_users) {
        add_users(questions, "/run/user/*/gpudirect", "/run/user/%u/gpudirect");
        add_users(questions, "/tmp/gpudirect-*", "/tmp/gpudirect-%u");
    }
    for (char *const *more = scope->more; more && *more; more++)
        add(questions, g_strdup(*more))->is_extra = true;
    GThread **threads = g_new0(GThread *, questions->len);
    for (guint i = 0; i < questions->len; i++)
        threads[i] = g_thread_new("ask", ask, questions->pdata[i]);
    for (guint i = 0; i < questions->len; i++)
        g_thread_join(threads[i]);
    g_free(threads);
    struct question *first = questions->pdata[0];
    if (first->folder->channels)
        folders = take_folders(questions);
    else
        *error = first->error;
    g_ptr_array_unref(questions);
    return folders;
}

GPtrArray *channels_collect(const GPtrArray *folders)
{
    GPtrArray *channels = g_ptr_array_new_with_free_func(g_free);
    GHashTable *seen = g_hash_table_new(g_str_hash, g_str_equal);
    for (guint i = 0; i < folders->len; i++) {
        const struct channels_folder *folder = folders->pdata[i];
        for (uint32_t j = 0; j < folder->count; j++) {
            struct gpud_channel_info *info = g_new0(struct gpud_channel_info, 1);
            info->size = sizeof(*info);
            gpud_channel_list_get_info(folder->channels, j, info, NULL);
            if (g_hash_table_add(seen, info->address))
                g_ptr_array_add(channels, info);
            else
                g_free(info);
        }
    }
    g_hash_table_unref(seen);
    return channels;
}
