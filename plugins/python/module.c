/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The module, its context, its errors, and what it makes of the library's lists and events. */
#include "python.h"

#include <errno.h>
#include <gpudirect/channel.h>
#include <gpudirect/device.h>
#include <gpudirect/types.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* === error =================================================================================== */

#define STATUSES (GPUD_IO + 1)

static PyObject *classes[STATUSES]; /* by status */
static PyObject *error_class, *taken_back_class, *address_in_use_class;

/* Looks up the classes of gpudirect/errors.py. */
static int error_init(void)
{
    if (error_class)
        return 0;
    PyObject *module = PyImport_ImportModule("gpudirect.errors");
    if (!module)
        return -1;
    error_class = PyObject_GetAttrString(module, "Error");
    taken_back_class = PyObject_GetAttrString(module, "TakenBack");
    address_in_use_class = PyObject_GetAttrString(module, "AddressInUse");
    PyObject *by_name = PyObject_GetAttrString(module, "BY_STATUS");
    int result = error_class && taken_back_class && address_in_use_class && by_name ? 0 : -1;
    for (int status = GPUD_AGAIN; result == 0 && status < STATUSES; status++) {
        classes[status] =
            PyMapping_GetItemString(by_name, gpud_status_string((enum gpud_status)status));
        if (!classes[status])
            result = -1;
    }
    Py_XDECREF(by_name);
    Py_DECREF(module);
    return result;
}

static int set_attribute(PyObject *object, const char *name, PyObject *value)
{
    int result = value ? PyObject_SetAttrString(object, name, value) : -1;
    Py_XDECREF(value);
    return result;
}

PyObject *error_new(const struct gpud_error *error)
{
    /* A newer library may have statuses that this build does not know. */
    PyObject *type =
        error->status > GPUD_OK && error->status < STATUSES ? classes[error->status] : error_class;
    if (error->status == GPUD_IO && error->native == EADDRINUSE && error->origin &&
        strcmp(error->origin, "errno") == 0)
        type = address_in_use_class;
    PyObject *text =
        PyUnicode_DecodeUTF8(error->reason, (Py_ssize_t)strlen(error->reason), "replace");
    PyObject *made = text ? PyObject_CallFunctionObjArgs(type, text, NULL) : NULL;
    Py_XDECREF(text);
    if (!made)
        return NULL;
    PyObject *origin = error->origin ? PyUnicode_FromString(error->origin) : Py_NewRef(Py_None);
    PyObject *status = PyUnicode_FromString(gpud_status_string(error->status));
    if (set_attribute(made, "status", status) < 0 ||
        set_attribute(made, "native", PyLong_FromLong(error->native)) < 0 ||
        set_attribute(made, "origin", Py_XNewRef(origin)) < 0)
        Py_CLEAR(made);
    Py_XDECREF(origin);
    return made;
}

void *error_raise(const struct gpud_error *error)
{
    PyObject *made = error_new(error);
    if (made)
        PyErr_SetObject((PyObject *)Py_TYPE(made), made);
    Py_XDECREF(made);
    return NULL;
}

void *error_raise_text(enum gpud_status status, const char *text)
{
    struct gpud_error error = {.status = status};
    PyOS_snprintf(error.reason, sizeof(error.reason), "%s", text);
    return error_raise(&error);
}

void *error_raise_taken_back(void)
{
    PyErr_SetString(taken_back_class,
                    "the sender took the frame back, because it was held for too long, or its "
                    "writer died: the bytes are no longer those of the frame");
    return NULL;
}

/* === context ================================================================================= */

/* For the sentence that refuses it. */
#define CONTEXT_SPAWN                                                      \
    "start processes by multiprocessing's \"spawn\" (torch's DataLoader: " \
    "multiprocessing_context=\"spawn\")"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct gpud_context *shared_context;
static long owner;

bool context_is_foreign(long pid)
{
    return pid != (long)getpid();
}

struct gpud_context *context_get(void)
{
    struct gpud_error error;
    enum gpud_status status = GPUD_OK;
    Py_BEGIN_ALLOW_THREADS
    pthread_mutex_lock(&lock);
    if (!shared_context) {
        status = gpud_context_create(NULL, &shared_context, &error);
        owner = (long)getpid();
    }
    pthread_mutex_unlock(&lock);
    Py_END_ALLOW_THREADS
    if (status != GPUD_OK)
        return error_raise(&error);
    if (context_is_foreign(owner)) {
        PyErr_SetString(PyExc_RuntimeError,
                        "gpudirect was used before this process was forked: " CONTEXT_SPAWN
                        ", or use gpudirect first in the child");
        return NULL;
    }
    return shared_context;
}

/* === convert ================================================================================= */

static const char *const policies[] = {
    [GPUD_SLOW_BLOCK] = "block",
    [GPUD_SLOW_DROP_NEWEST] = "drop-newest",
    [GPUD_SLOW_DROP_OLDEST] = "drop-oldest",
};

PyObject *convert_text(const char *text)
{
    return PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
}

PyObject *convert_time(uint64_t ns)
{
    return ns == UINT64_MAX ? Py_NewRef(Py_None) : PyLong_FromUnsignedLongLong(ns);
}

PyObject *convert_media(const struct gpud_media *media)
{
    char text[GPUD_MEDIA_TEXT_MAX];
    if (gpud_media_to_string(media, text, sizeof(text), NULL) != GPUD_OK)
        return Py_NewRef(Py_None);
    return convert_text(text);
}

/* The name of a policy: "block", "drop-newest", "drop-oldest"; None. */
static PyObject *convert_policy(enum gpud_slow_receiver policy)
{
    if (policy <= GPUD_SLOW_DEFAULT || policy > GPUD_SLOW_DROP_OLDEST)
        return Py_NewRef(Py_None);
    return PyUnicode_FromString(policies[policy]);
}

int convert_parse_policy(PyObject *object, void *policy)
{
    enum gpud_slow_receiver *result = policy;
    *result = GPUD_SLOW_DEFAULT;
    if (object == Py_None)
        return 1;
    if (!PyUnicode_Check(object)) {
        PyErr_SetString(PyExc_TypeError, "slow_receiver is a text, or None");
        return 0;
    }
    for (int i = GPUD_SLOW_BLOCK; i <= GPUD_SLOW_DROP_OLDEST; i++)
        if (PyUnicode_CompareWithASCIIString(object, policies[i]) == 0) {
            *result = (enum gpud_slow_receiver)i;
            return 1;
        }
    PyErr_Format(PyExc_ValueError,
                 "slow_receiver is \"block\", \"drop-newest\" or \"drop-oldest\", not %R", object);
    return 0;
}

int convert_parse_device(PyObject *object, void *device)
{
    const char **result = device;
    *result = NULL;
    if (object == Py_None)
        return 1;
    if (!PyArg_Parse(object, "s;device is a text, or None", result))
        return 0;
    if (strcmp(*result, "cpu") == 0) /* as torch and numpy call it */
        *result = "host";
    return 1;
}

PyObject *convert_to_numpy(PyObject *self, PyObject *args, PyObject *names)
{
    PyObject *memory = PyMemoryView_FromObject(self);
    PyObject *first = memory ? PyTuple_Pack(1, memory) : NULL;
    PyObject *all = first ? PySequence_Concat(first, args) : NULL;
    PyObject *numpy = all ? PyImport_ImportModule("numpy") : NULL;
    PyObject *function = numpy ? PyObject_GetAttrString(numpy, "asarray") : NULL;
    PyObject *array = function ? PyObject_Call(function, all, names) : NULL;
    Py_XDECREF(function);
    Py_XDECREF(numpy);
    Py_XDECREF(all);
    Py_XDECREF(first);
    Py_XDECREF(memory);
    return array;
}

PyObject *convert_degraded(enum gpud_degraded degraded)
{
    static const char *const names[] = {
        [GPUD_DEGRADED_NO] = "",
        [GPUD_DEGRADED_HIDDEN] = "hidden",
        [GPUD_DEGRADED_PEER_ACCESS] = "peer-access",
        [GPUD_DEGRADED_USER] = "user",
        [GPUD_DEGRADED_FAILED] = "failed",
    };
    bool known = (size_t)degraded < sizeof(names) / sizeof(names[0]);
    return PyUnicode_FromString(known ? names[degraded] : "unknown");
}

/* === links =================================================================================== */

static PyObject *link_to_dict(const struct gpud_link_info *info)
{
    static const char *const phases[] = {
        [GPUD_PHASE_CONNECTING] = "connecting",
        [GPUD_PHASE_STREAMING] = "streaming",
        [GPUD_PHASE_LEAVING] = "leaving",
    };
    bool known = info->phase >= GPUD_PHASE_CONNECTING && info->phase <= GPUD_PHASE_LEAVING;
    return Py_BuildValue(
        "{s:K,s:L,s:N,s:N,s:N,s:N,s:s,s:N,s:I,s:K,s:K,s:K,s:K,s:N,s:N,s:N}", "id", info->id, "pid",
        (long long)info->pid, "name", convert_text(info->name), "device",
        convert_text(info->device), "path", convert_text(info->path), "fallback_reason",
        convert_text(info->fallback_reason), "phase", known ? phases[info->phase] : "unknown",
        "slow_receiver", convert_policy(info->slow_receiver), "held", info->held, "delivered",
        info->delivered, "dropped", info->dropped, "waiting", info->waiting, "latency_ns",
        info->latency_ns, "host", convert_text(info->host), "encrypted",
        convert_text(info->encrypted), "degraded", convert_degraded(info->degraded));
}

/* Takes the item. */
static bool append(PyObject *list, PyObject *item)
{
    bool done = item && PyList_Append(list, item) == 0;
    Py_XDECREF(item);
    return done;
}

PyObject *links_to_list(const struct gpud_link_info *const *link, size_t count)
{
    PyObject *result = PyList_New(0);
    for (size_t i = 0; result && i < count; i++)
        if (!append(result, link_to_dict(link[i])))
            Py_CLEAR(result);
    return result;
}

/* === guard =================================================================================== */

#define SLICE (50 * GPUD_MSEC)

PyObject *guard_new(PyTypeObject *type, const struct guard_ops *ops)
{
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    struct guarded *object = (struct guarded *)allocate(type, 0);
    if (!object)
        return NULL;
    pthread_mutex_init(&object->guard.lock, NULL);
    pthread_mutex_init(&object->guard.turn, NULL);
    object->guard.pid = (long)getpid();
    object->guard.ops = ops;
    return (PyObject *)object;
}

void guard_free(PyObject *object)
{
    struct guarded *self = (struct guarded *)object;
    PyTypeObject *type = Py_TYPE(object);
    guard_close(self);
    pthread_mutex_destroy(&self->guard.lock);
    pthread_mutex_destroy(&self->guard.turn);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(object);
    Py_DECREF(type);
}

static void guard_destroy(struct guarded *object)
{
    Py_BEGIN_ALLOW_THREADS
    object->guard.ops->destroy((PyObject *)object);
    Py_END_ALLOW_THREADS
}

static void raise_closed(const struct guard *guard)
{
    char text[64];
    snprintf(text, sizeof(text), "the %s is closed", guard->ops->name);
    error_raise_text(GPUD_CLOSED, text);
}

static bool check_process(const struct guard *guard)
{
    if (!context_is_foreign(guard->pid))
        return true;
    PyErr_Format(PyExc_RuntimeError,
                 "the %s belongs to the process that this one was forked from: " CONTEXT_SPAWN
                 ", and make it there",
                 guard->ops->name);
    return false;
}

static bool enter_open(struct guard *guard)
{
    pthread_mutex_lock(&guard->lock);
    bool open = !guard->closed;
    guard->users += open;
    pthread_mutex_unlock(&guard->lock);
    return open;
}

bool guard_enter(struct guarded *object)
{
    struct guard *guard = &object->guard;
    if (!check_process(guard))
        return false;
    bool open = enter_open(guard);
    if (!open)
        raise_closed(guard);
    return open;
}

void guard_leave(struct guarded *object)
{
    struct guard *guard = &object->guard;
    pthread_mutex_lock(&guard->lock);
    bool last = --guard->users == 0 && guard->closed;
    pthread_mutex_unlock(&guard->lock);
    if (last)
        guard_destroy(object);
}

static void read_info(struct guarded *object)
{
    if (!enter_open(&object->guard))
        return;
    object->guard.ops->read_info((PyObject *)object);
    guard_leave(object);
}

bool guard_read_info(struct guarded *object)
{
    if (!check_process(&object->guard))
        return false;
    read_info(object);
    return true;
}

void guard_close(struct guarded *object)
{
    struct guard *guard = &object->guard;
    if (context_is_foreign(guard->pid))
        return;
    read_info(object);
    pthread_mutex_lock(&guard->lock);
    /* Else the last call that still waits destroys it, when this part of its wait is over. */
    bool unused = !guard->closed && guard->users == 0;
    guard->closed = true;
    pthread_mutex_unlock(&guard->lock);
    if (unused)
        guard_destroy(object);
}

static bool is_closed(struct guard *guard)
{
    pthread_mutex_lock(&guard->lock);
    bool closed = guard->closed;
    pthread_mutex_unlock(&guard->lock);
    return closed;
}

PyObject *guard_method_close(PyObject *object, PyObject *unused)
{
    guard_close((struct guarded *)object);
    return Py_NewRef(Py_None);
}

PyObject *guard_get_closed(PyObject *object, void *closure)
{
    return PyBool_FromLong(is_closed(&((struct guarded *)object)->guard));
}

PyObject *guard_method_fileno(PyObject *object, PyObject *unused)
{
    struct guarded *self = (struct guarded *)object;
    struct gpud_error error;
    enum gpud_status status;
    int fd;
    if (!guard_enter(self))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    status = self->guard.ops->get_fd(object, &fd, &error);
    Py_END_ALLOW_THREADS
    guard_leave(self);
    return status == GPUD_OK ? PyLong_FromLong(fd) : error_raise(&error);
}

static int64_t guard_now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * GPUD_SEC + time.tv_nsec;
}

int guard_wait(struct guarded *object, int64_t timeout_ns, bool one_at_a_time, guard_slice_fn slice,
               guard_between_fn between, void *call, enum gpud_status *status)
{
    struct guard *guard = &object->guard;
    struct gpud_error error;
    int64_t begin = guard_now();
    for (;;) {
        int64_t left = timeout_ns - (guard_now() - begin);
        left = left < 0 ? 0 : left;
        Py_BEGIN_ALLOW_THREADS
        if (one_at_a_time)
            pthread_mutex_lock(&guard->turn);
        *status = slice(call, left < SLICE ? left : SLICE, &error);
        if (one_at_a_time)
            pthread_mutex_unlock(&guard->turn);
        Py_END_ALLOW_THREADS
        if (between && between(call) < 0) {
            *status = GPUD_OK;
            return -1;
        }
        if (*status == GPUD_OK)
            return 0;
        if ((*status == GPUD_TIMEOUT || *status == GPUD_AGAIN) && is_closed(guard)) {
            raise_closed(guard);
            *status = GPUD_CLOSED;
            return -1;
        }
        if (*status != GPUD_TIMEOUT || guard_now() - begin >= timeout_ns) {
            error_raise(&error);
            return -1;
        }
        if (PyErr_CheckSignals() < 0) {
            *status = GPUD_OK;
            return -1;
        }
    }
}

int guard_parse_timeout(PyObject *object, void *timeout_ns)
{
    int64_t *result = timeout_ns;
    *result = INT64_MAX;
    if (object == Py_None)
        return 1;
    double seconds = PyFloat_AsDouble(object);
    if (seconds == -1.0 && PyErr_Occurred()) {
        if (PyErr_ExceptionMatches(PyExc_TypeError))
            PyErr_SetString(PyExc_TypeError, "a timeout is a number of seconds, or None");
        return 0;
    }
    if (!(seconds >= 0)) {
        PyErr_SetString(PyExc_ValueError, "a timeout is at least 0 seconds; None has no end");
        return 0;
    }
    if (seconds < 1e9)
        *result = (int64_t)(seconds * 1e9);
    return 1;
}

/* === lists =================================================================================== */
/* The lists of this machine's devices and of this user's channels. */

static PyObject *device_to_dict(const struct gpud_device_info *info)
{
    return Py_BuildValue("{s:N,s:N,s:N,s:N,s:N,s:N}", "name", convert_text(info->name),
                         "description", convert_text(info->description), "pci",
                         convert_text(info->pci), "available", PyBool_FromLong(info->available),
                         "direct_writes", PyBool_FromLong(info->direct_writes), "reason",
                         convert_text(info->reason));
}

/* Functions of the module. */
static PyObject *lists_devices(PyObject *module, PyObject *unused)
{
    struct gpud_device_list *devices;
    uint32_t count;
    struct gpud_error error;
    enum gpud_status status;
    struct gpud_context *context = context_get();
    if (!context)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    status = gpud_device_list_create(context, &devices, &count, &error);
    Py_END_ALLOW_THREADS
    if (status != GPUD_OK)
        return error_raise(&error);
    PyObject *list = PyList_New(0);
    for (uint32_t i = 0; list && i < count; i++) {
        struct gpud_device_info info = GPUD_INFO_INIT(info);
        if (gpud_device_list_get_info(devices, i, &info, NULL) == GPUD_OK &&
            !append(list, device_to_dict(&info)))
            Py_CLEAR(list);
    }
    gpud_device_list_destroy(&devices);
    return list;
}

static PyObject *channel_to_dict(const struct gpud_channel_info *info, PyObject *links)
{
    return Py_BuildValue(
        "{s:N,s:L,s:N,s:N,s:N,s:N,s:N,s:N,s:N,s:I,s:I,s:N,s:K,s:K,s:K,s:K,s:d,s:N,s:N,s:N,s:N,s:N,"
        "s:N}",
        "address", convert_text(info->address), "pid", (long long)info->pid, "program",
        convert_text(info->program), "answered", PyBool_FromLong(info->answered), "reason",
        convert_text(info->reason), "name", convert_text(info->name), "device",
        convert_text(info->device), "media",
        info->configured ? convert_media(&info->media) : Py_NewRef(Py_None), "ended",
        PyBool_FromLong(info->ended), "epoch", info->epoch, "slots", info->slots, "slow_receiver",
        convert_policy(info->slow_receiver), "frames", info->frames, "delivered", info->delivered,
        "dropped", info->dropped, "connects", info->connects, "rate", info->rate, "age_ns",
        convert_time(info->age_ns), "links", links, "announced", PyBool_FromLong(info->announced),
        "host", convert_text(info->host), "host_address", convert_text(info->host_address),
        "encrypted", PyBool_FromLong(info->encrypted));
}

/* Appends the channels of one list. false: an exception is set. */
static bool add_channels(PyObject *list, const char *address, int64_t timeout_ns)
{
    struct gpud_channel_list *channels;
    uint32_t count;
    struct gpud_channel_search_info search = GPUD_INFO_INIT(search);
    struct gpud_error error;
    enum gpud_status status;
    Py_BEGIN_ALLOW_THREADS
    status = gpud_channel_list_create(address, timeout_ns, &channels, &count, &search, &error);
    Py_END_ALLOW_THREADS
    if (status != GPUD_OK) {
        error_raise(&error);
        return false;
    }
    bool works = true;
    for (uint32_t i = 0; works && i < count; i++) {
        struct gpud_channel_info info = GPUD_INFO_INIT(info);
        if (gpud_channel_list_get_info(channels, i, &info, NULL) != GPUD_OK)
            continue;
        PyObject *links = links_to_list(info.link, info.links);
        works = links && append(list, channel_to_dict(&info, links));
    }
    gpud_channel_list_destroy(&channels);
    if (works && address && strcmp(address, GPUD_CHANNELS_NETWORK) == 0 && search.note[0])
        works = PyErr_WarnEx(PyExc_RuntimeWarning, search.note, 1) == 0;
    return works;
}

static PyObject *lists_channels(PyObject *module, PyObject *args, PyObject *names)
{
    static char *keywords[] = {"address", "timeout", "network", NULL};
    const char *address = NULL;
    int64_t timeout_ns = GPUD_SEC;
    int network = 0;
    if (!PyArg_ParseTupleAndKeywords(args, names, "|zO&p:channels", keywords, &address,
                                     guard_parse_timeout, &timeout_ns, &network))
        return NULL;
    if (timeout_ns == INT64_MAX) {
        PyErr_SetString(PyExc_ValueError, "the channels' answers are waited for with a timeout: "
                                          "give seconds");
        return NULL;
    }
    PyObject *list = PyList_New(0);
    if (list && (!add_channels(list, address, timeout_ns) ||
                 (network && !add_channels(list, GPUD_CHANNELS_NETWORK, timeout_ns))))
        Py_CLEAR(list);
    return list;
}

/* === module ================================================================================== */
/* The module gpudirect._gpudirect. It works in the main interpreter alone, whose types it keeps in
 * static variables, and with the GIL: free-threaded interpreters do not load the stable ABI that it
 * is built for. */

PyTypeObject *types[TYPES];

static int module_fill(PyObject *module)
{
    static PyType_Spec *const specs[TYPES] = {
        [TYPE_PLANE] = &view_spec,        [TYPE_FRAME] = &frame_spec,
        [TYPE_RECEIVER] = &receiver_spec, [TYPE_SENDER] = &sender_spec,
        [TYPE_CAPTURE] = &capture_spec,   [TYPE_GROUP] = &group_spec,
    };
    if (PyInterpreterState_GetID(PyInterpreterState_Get()) != 0) {
        PyErr_SetString(PyExc_ImportError, "gpudirect works in the main interpreter alone: import "
                                           "it there, or start a process");
        return -1;
    }
    if (error_init() < 0)
        return -1;
    for (int i = 0; i < TYPES; i++) {
        if (!types[i])
            types[i] = (PyTypeObject *)PyType_FromModuleAndSpec(module, specs[i], NULL);
        if (!types[i] || PyModule_AddType(module, types[i]) < 0)
            return -1;
    }
    return PyModule_AddStringConstant(module, "version", gpud_version_string());
}

static PyMethodDef functions[] = {
    {"devices", lists_devices, METH_NOARGS,
     "devices()\n--\n\nThe devices of this machine, those that are absent with the reason."},
    {"channels", (PyCFunction)(void (*)(void))lists_channels, METH_VARARGS | METH_KEYWORDS,
     "channels(address=None, timeout=1.0, network=False)\n--\n\n"
     "The senders of this user, what they send and to whom. An address asks that one alone. With "
     "`network` also the channels that hosts of the network announce, each with its `host`; a "
     "RuntimeWarning says if they were not asked."},
    {0},
};

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, module_fill},
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "gpudirect._gpudirect",
    .m_doc = "The C part of gpudirect, over the public API of libgpudirect.",
    .m_methods = functions,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__gpudirect(void);

PyMODINIT_FUNC PyInit__gpudirect(void)
{
    return PyModuleDef_Init(&definition);
}

/* === media =================================================================================== */

struct media *media_new(const struct gpud_media *media)
{
    struct media *made = calloc(1, sizeof(*made));
    if (!made)
        return NULL;
    atomic_init(&made->refs, 1);
    made->media = *media;
    if (gpud_media_to_string(media, made->text, sizeof(made->text), NULL) != GPUD_OK)
        made->text[0] = '\0';
    return made;
}

struct media *media_ref(struct media *media)
{
    atomic_fetch_add_explicit(&media->refs, 1, memory_order_relaxed);
    return media;
}

void media_unref(struct media *media)
{
    if (media && atomic_fetch_sub_explicit(&media->refs, 1, memory_order_acq_rel) == 1)
        free(media);
}
