/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Which channels there are, which receivers wait for one, and asking them. */
#include "channels/channels.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* === waiting ================================================================================= */

#define PREFIX ".waiting!"
#define NOTE_MAX 512
#define WAITERS_MAX 1024 /* of one folder */

/* The name of the receivers that take a monitor's thumbnails. */
#define MONITOR "gpudirect-monitor"

static void waiter_free(gpointer data)
{
    struct channels_waiter *waiter = data;
    g_free(waiter->address);
    g_free(waiter->name);
    g_free(waiter);
}

/* Where bare names lie, as core/base/base.h says. */
static bool is_runtime_directory(const char *folder)
{
    const char *base = g_getenv("XDG_RUNTIME_DIR"), *given = g_getenv("GPUDIRECT_DIR");
    char *usual = g_strdup_printf("/run/user/%u", geteuid());
    struct stat st;
    if (!given || !given[0])
        given = g_getenv("NVIDIA_DRA_LOCAL_IPC_DIR");
    bool is_shared =
        given && lstat(given, &st) == 0 && (st.st_uid != geteuid() || st.st_mode & 077);
    char *own = is_shared           ? g_strdup_printf("%s/gpudirect-%u", given, geteuid())
                : given && given[0] ? g_strdup(given)
                : base && base[0]   ? g_strdup_printf("%s/gpudirect", base)
                : g_file_test(usual, G_FILE_TEST_IS_DIR)
                    ? g_strdup_printf("%s/gpudirect", usual)
                    : g_strdup_printf("/tmp/gpudirect-%u", geteuid());
    bool is_own = strcmp(folder, own) == 0;
    g_free(own);
    g_free(usual);
    return is_own;
}

/* Another user's word is shown to people: made to be text. */
static char *waiting_clean(const char *text)
{
    char *valid = g_utf8_make_valid(text, -1);
    for (char *c = valid; *c; c++)
        if (g_ascii_iscntrl(*c))
            *c = '?';
    return valid;
}

static struct channels_waiter *waiting_parse(const char *folder, char *text)
{
    enum { PROCESS, NAME, WHAT, SINCE, LINES };
    char **line = g_strsplit(text, "\n", LINES + 1);
    struct channels_waiter *waiter = NULL;
    if (g_strv_length(line) > SINCE && line[WHAT][0]) {
        const char *namespace = strchr(line[PROCESS], ' ');
        char *what = waiting_clean(line[WHAT]);
        struct stat st;
        waiter = g_new0(struct channels_waiter, 1);
        /* "cam1!subs" of this folder, "/run/studio/cam1" or "rdma://…" */
        if (strchr(what, '/'))
            waiter->address = g_strdup_printf("%s%s", what[0] == '/' ? "unix:" : "", what);
        else if (is_runtime_directory(folder))
            waiter->address = g_strdelimit(g_strdup(what), "!", '/');
        else
            waiter->address = g_strdup_printf("unix:%s/%s", folder, what);
        waiter->name = waiting_clean(line[NAME]);
        waiter->since = g_ascii_strtoll(line[SINCE], NULL, 10);
        /* A process id means nothing in another container's PID namespace. */
        if (namespace && stat("/proc/self/ns/pid", &st) == 0 &&
            g_ascii_strtoull(namespace + 1, NULL, 10) == st.st_ino)
            waiter->pid = g_ascii_strtoll(line[PROCESS], NULL, 10);
        g_free(what);
    }
    g_strfreev(line);
    return waiter;
}

/* NULL: no receiver waits by this note. */
static struct channels_waiter *read_note(int directory, const char *folder, const char *entry)
{
    char text[NOTE_MAX + 1];
    struct stat st;
    ssize_t size = -1;
    int fd = openat(directory, entry, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return NULL;
    /* The receiver's lock, which the kernel releases when it dies. */
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && fcntl(fd, F_OFD_GETLK, &lock) == 0 &&
        lock.l_type != F_UNLCK)
        size = pread(fd, text, NOTE_MAX, 0);
    close(fd);
    if (size <= 0)
        return NULL;
    text[size] = '\0';
    return waiting_parse(folder, text);
}

/* Those in a folder, as struct channels_waiter; without a monitor's thumbnails. address: that one
 * alone; NULL: all. To be freed with g_ptr_array_unref(). */
static GPtrArray *channels_read_waiting(const char *folder, const char *address)
{
    GPtrArray *waiters = g_ptr_array_new_with_free_func(waiter_free);
    DIR *entries = opendir(folder);
    for (struct dirent *entry; entries && (entry = readdir(entries));) {
        if (!g_str_has_prefix(entry->d_name, PREFIX) || waiters->len == WAITERS_MAX)
            continue;
        struct channels_waiter *waiter = read_note(dirfd(entries), folder, entry->d_name);
        if (!waiter)
            continue;
        if (strcmp(waiter->name, MONITOR) == 0 ||
            (address && strcmp(waiter->address, address) != 0))
            waiter_free(waiter);
        else
            g_ptr_array_add(waiters, waiter);
    }
    if (entries)
        closedir(entries);
    return waiters;
}

/* === ask ===================================================================================== */
/* Where to look for channels. All folders are asked at once, so that one user's hanging senders do
 * not hold up the others. */

/* A sender that has not answered by then hangs. */
#define ANSWER_TIMEOUT GPUD_SEC

/* The network answers in a second, unless very many hosts announce channels. */
#define NETWORK_TIMEOUT (3 * GPUD_SEC)

struct question {
    char *address; /* of gpud_channel_list_create() */
    struct channels_folder *folder;
    bool is_extra; /* may fail */
    struct gpud_error error;
};

static gpointer ask_ask(gpointer data)
{
    struct question *question = data;
    struct channels_folder *folder = question->folder;
    bool network = g_strcmp0(question->address, GPUD_CHANNELS_NETWORK) == 0;
    gpud_channel_list_create(question->address, network ? NETWORK_TIMEOUT : ANSWER_TIMEOUT,
                             &folder->channels, &folder->count, &folder->search, &question->error);
    folder->channel = g_new0(struct gpud_channel_info, folder->count);
    for (uint32_t i = 0; i < folder->count; i++) {
        folder->channel[i].size = sizeof(folder->channel[i]);
        gpud_channel_list_get_info(folder->channels, i, &folder->channel[i], NULL);
    }
    /* Beside the socket of an address, or all of a folder. */
    const char *address = question->address;
    if (address && g_str_has_prefix(address, "unix:/") && !g_str_has_suffix(address, "/")) {
        char *beside = g_path_get_dirname(address + strlen("unix:"));
        folder->waiting = channels_read_waiting(beside, address);
        g_free(beside);
    } else if (address && g_str_has_prefix(address, "unix:/")) {
        char *path = g_strndup(address + strlen("unix:"), strlen(address) - strlen("unix:/"));
        folder->waiting = channels_read_waiting(path, NULL);
        g_free(path);
    } else {
        folder->waiting = channels_read_waiting(folder->search.directory, address);
    }
    return NULL;
}

static void folder_free(gpointer data)
{
    struct channels_folder *folder = data;
    if (!folder)
        return;
    gpud_channel_list_destroy(&folder->channels);
    g_clear_pointer(&folder->waiting, g_ptr_array_unref);
    g_free(folder->channel);
    g_free(folder);
}

static struct question *ask_add(GPtrArray *questions, char *address)
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

/* Adds folders. format: of a path with the number of the user to whom its folder has to belong,
 * because any user can make a folder in /tmp; NULL: it may belong to any. */
static void add_matches(GPtrArray *questions, const char *pattern, const char *format)
{
    glob_t found;
    if (glob(pattern, GLOB_ONLYDIR, NULL, &found) != 0)
        return;
    for (size_t i = 0; i < found.gl_pathc; i++) {
        const char *path = found.gl_pathv[i];
        unsigned user;
        struct stat st;
        if (!format || (sscanf(path, format, &user) == 1 && lstat(path, &st) == 0 &&
                        S_ISDIR(st.st_mode) && st.st_uid == user))
            ask_add(questions, g_strdup_printf("unix:%s/", path));
    }
    globfree(&found);
}

char **channels_resolve_folders(char *const *given, struct gpud_error *error)
{
    GPtrArray *folders = g_ptr_array_new_with_free_func(g_free);
    for (; *given; given++) {
        char *folder = realpath(*given, NULL);
        if (!folder) {
            g_snprintf(error->reason, sizeof(error->reason), "cannot look for channels in %s: %s",
                       *given, g_strerror(errno));
            g_ptr_array_unref(folders);
            return NULL;
        }
        g_ptr_array_add(folders, g_strdup(folder));
        free(folder);
    }
    g_ptr_array_add(folders, NULL);
    return (char **)g_ptr_array_free(folders, FALSE);
}

GPtrArray *channels_ask(const struct channels_scope *scope, struct gpud_error *error)
{
    GPtrArray *questions = g_ptr_array_new_with_free_func(question_free);
    if (!scope->folders)
        ask_add(questions, g_strdup(scope->address));
    for (char *const *folder = scope->folders; folder && *folder; folder++)
        ask_add(questions, g_strdup_printf("unix:%s/", *folder))->is_extra = scope->tolerant;
    guint own = questions->len;
    if (scope->all_users) {
        add_matches(questions, "/run/user/*/gpudirect", "/run/user/%u/gpudirect");
        add_matches(questions, "/tmp/gpudirect-*", "/tmp/gpudirect-%u");
        /* Folders of services, which only root can make there (RuntimeDirectory=gpudirect-NAME of a
         * unit), and the runtime directories of services that have one of their own. */
        add_matches(questions, "/run/gpudirect-*", NULL);
        add_matches(questions, "/run/gpudirect-*/gpudirect", NULL);
    }
    for (char *const *more = scope->more; more && *more; more++)
        ask_add(questions, g_strdup(*more))->is_extra = true;
    GThread **threads = g_new0(GThread *, questions->len);
    for (guint i = 0; i < questions->len; i++)
        threads[i] = g_thread_new("ask", ask_ask, questions->pdata[i]);
    for (guint i = 0; i < questions->len; i++)
        g_thread_join(threads[i]);
    g_free(threads);
    GPtrArray *folders = g_ptr_array_new_with_free_func(folder_free);
    const char *first = NULL; /* this user's runtime directory may be among those of all users */
    for (guint i = 0; i < questions->len; i++) {
        struct question *question = questions->pdata[i];
        struct channels_folder *folder = question->folder;
        if (question->is_extra) { /* what could not be asked is shown as an empty folder */
            g_strlcpy(folder->search.directory, question->address,
                      sizeof(folder->search.directory));
            if (!folder->channels)
                g_strlcpy(folder->search.note, question->error.reason, sizeof(folder->search.note));
        } else if (!folder->channels && i < own) { /* the scope's own have to work */
            *error = question->error;
            g_clear_pointer(&folders, g_ptr_array_unref);
            break;
        } else if (!folder->channels || g_strcmp0(folder->search.directory, first) == 0) {
            continue;
        }
        first = first ? first : folder->search.directory;
        g_ptr_array_add(folders, g_steal_pointer(&question->folder));
    }
    g_ptr_array_unref(questions);
    return folders;
}

GPtrArray *channels_collect(const GPtrArray *folders)
{
    GPtrArray *channels = g_ptr_array_new();
    GHashTable *seen = g_hash_table_new(g_str_hash, g_str_equal);
    for (guint i = 0; i < folders->len; i++) {
        const struct channels_folder *folder = folders->pdata[i];
        for (uint32_t j = 0; j < folder->count; j++) {
            struct gpud_channel_info *info = &folder->channel[j];
            if (g_hash_table_add(seen, info->address))
                g_ptr_array_add(channels, info);
        }
    }
    g_hash_table_unref(seen);
    return channels;
}

static guint hash_waiter(gconstpointer data)
{
    const struct channels_waiter *waiter = data;
    return g_str_hash(waiter->address) ^ g_int64_hash(&waiter->since);
}

static gboolean is_same_waiter(gconstpointer a, gconstpointer b)
{
    const struct channels_waiter *x = a, *y = b;
    return x->since == y->since && x->pid == y->pid && strcmp(x->address, y->address) == 0 &&
           strcmp(x->name, y->name) == 0;
}

static gint compare_waiters(gconstpointer a, gconstpointer b)
{
    const struct channels_waiter *const *x = a, *const *y = b;
    int order = strcmp((*x)->address, (*y)->address);
    return order ? order : ((*x)->since > (*y)->since) - ((*x)->since < (*y)->since);
}

GPtrArray *channels_collect_waiting(const GPtrArray *folders)
{
    GPtrArray *waiters = g_ptr_array_new();
    GHashTable *seen = g_hash_table_new(hash_waiter, is_same_waiter);
    for (guint i = 0; i < folders->len; i++) {
        const struct channels_folder *folder = folders->pdata[i];
        for (guint j = 0; folder->waiting && j < folder->waiting->len; j++)
            if (g_hash_table_add(seen, folder->waiting->pdata[j]))
                g_ptr_array_add(waiters, folder->waiting->pdata[j]);
    }
    g_hash_table_unref(seen);
    g_ptr_array_sort(waiters, compare_waiters);
    return waiters;
}

enum channels_end channels_find_end(const GPtrArray *folders, const char *address)
{
    enum channels_end end = CHANNELS_END_UNKNOWN;
    const char *host = gpud_address_get_host(address);
    /* The socket of the address: its own, or, of one on a network, that for questions about it, as
     * core/wire/unix/unix.h has them. */
    char *entry = host ? g_strdup_printf(".%.*s!%s", (int)strcspn(address, ":"), address, host)
                       : g_strdup(address);
    g_strdelimit(entry, "/", '!');
    for (guint i = 0; i < folders->len; i++) {
        const struct channels_folder *folder = folders->pdata[i];
        struct stat st;
        char *path = g_str_has_prefix(address, "unix:")
                         ? g_strdup(address + strlen("unix:"))
                         : g_build_filename(folder->search.directory, entry, NULL);
        char *directory = g_path_get_dirname(path);
        /* Of a sender on another host nothing is left here, however it ends. */
        if (lstat(path, &st) == 0)
            end = MAX(end, CHANNELS_END_DEATH);
        else if (!host && lstat(directory, &st) == 0)
            end = MAX(end, CHANNELS_END_ORDERLY);
        g_free(directory);
        g_free(path);
    }
    g_free(entry);
    return end;
}
