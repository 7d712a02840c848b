/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "python.h"

#include <gpudirect/receiver.h>

#include <string.h>

struct receiver {
    struct guarded base;
    struct gpud_receiver *receiver;
    struct gpud_receiver_info info; /* with the GIL: see guard_read_info() */
    struct gpud_device *device;     /* of alloc's memory; NULL: there is no alloc */
    PyObject *on_event, *alloc;     /* or NULL */
    PyObject *on_disconnect;        /* called by a loop that waits; NULL: it raises */
    int64_t timeout_ns;             /* of a step of the iteration */
    bool allow_old_dlpack;
    /* guarded by guard.turn: the library calls on_event() inside an acquire */
    char path[32];       /* the route of the connection */
    struct media *media; /* of the frames that follow; NULL: none was announced */
    struct events events;
    bool ended;                 /* by EOS: that its sender leaves is no loss */
    char loss[GPUD_REASON_MAX]; /* last told, and no frame came since; "": none */
};

static PyTypeObject *type;

/* --- inside gpud_receiver_acquire(), without the GIL --------------------------------------- */

static void receiver_on_event(void *user, enum gpud_event event, const void *data)
{
    struct receiver *self = user;
    if (event == GPUD_EVENT_CONNECTED) {
        memcpy(self->path, ((const struct gpud_peer_info *)data)->path, sizeof(self->path));
        self->ended = false;
    } else if (event == GPUD_EVENT_FORMAT) {
        media_unref(self->media);
        self->media = media_new(&((const struct gpud_format_event *)data)->media);
    } else if (event == GPUD_EVENT_USER && self->on_event) {
        events_note(&self->events, 0, data);
    }
}

static enum gpud_status receiver_alloc(void *user, const struct gpud_layout *layout, uint32_t slot,
                                       struct gpud_memory **memory, struct gpud_error *error)
{
    struct receiver *self = user;
    PyGILState_STATE state = PyGILState_Ensure();
    enum gpud_status status = memory_ask(self->alloc, self->device, layout, slot, memory, error);
    /* An exception stays set in this thread, for finish_slice(). */
    PyGILState_Release(state);
    return status;
}

struct call {
    struct receiver *self;
    bool loop; /* a step of an iteration */
    struct gpud_frame *frame;
    struct media *media;
    char path[32];
    struct events events;
    struct gpud_error loss; /* to be told; GPUD_OK: none */
};

/* A sender that fails again and again for one reason is told of once. */
static void note_loss(struct call *call, const struct gpud_error *error)
{
    struct receiver *self = call->self;
    if (!self->ended && strcmp(self->loss, error->reason) != 0)
        call->loss = *error;
    memcpy(self->loss, error->reason, sizeof(self->loss));
}

static enum gpud_status receiver_acquire_slice(void *user, int64_t timeout_ns,
                                               struct gpud_error *error)
{
    struct call *call = user;
    struct receiver *self = call->self;
    enum gpud_status status =
        gpud_receiver_acquire(self->receiver, timeout_ns, &call->frame, error);
    if (status == GPUD_PEER && call->loop && (self->on_disconnect || self->ended)) {
        note_loss(call, error);
        /* Waits for the next sender from here on, which arms the descriptor. */
        status = gpud_receiver_acquire(self->receiver, 0, &call->frame, error);
    }
    if (status == GPUD_OK || status == GPUD_CLOSED) {
        self->ended = status == GPUD_CLOSED;
        self->loss[0] = '\0';
    }
    if (status == GPUD_OK && self->media)
        call->media = media_ref(self->media);
    memcpy(call->path, self->path, sizeof(call->path));
    call->events = events_take(&self->events);
    return status;
}

/* --- with the GIL -------------------------------------------------------------------------- */

static int tell_loss(struct call *call)
{
    struct gpud_error loss = call->loss;
    call->loss.status = GPUD_OK;
    if (loss.status == GPUD_OK)
        return 0;
    PyObject *handler = Py_NewRef(call->self->on_disconnect);
    PyObject *error = error_new(&loss);
    PyObject *done = error ? PyObject_CallFunctionObjArgs(handler, error, NULL) : NULL;
    Py_XDECREF(done);
    Py_XDECREF(error);
    Py_DECREF(handler);
    return done ? 0 : -1;
}

static int finish_slice(void *user)
{
    struct call *call = user;
    struct events events = call->events;
    call->events = (struct events){NULL, NULL};
    bool raised = PyErr_Occurred() != NULL; /* by alloc() */
    if (events_deliver(events, raised ? NULL : call->self->on_event, false) < 0)
        return -1;
    return raised || tell_loss(call) < 0 ? -1 : 0;
}

static void receiver_destroy(PyObject *object)
{
    struct receiver *self = (struct receiver *)object;
    gpud_receiver_destroy(&self->receiver);
    gpud_device_close(&self->device);
}

static enum gpud_status receiver_get_fd(PyObject *object, int *fd, struct gpud_error *error)
{
    return gpud_receiver_get_fd(((struct receiver *)object)->receiver, fd, error);
}

GUARD_READ_INFO(receiver)

static const struct guard_ops guard_ops = {"receiver", receiver_destroy, receiver_get_fd,
                                           read_info};

static PyObject *receiver_acquire(struct receiver *self, int64_t timeout_ns, bool loop,
                                  enum gpud_status *status)
{
    struct call call = {.self = self, .loop = loop};
    PyObject *frame = NULL;
    *status = GPUD_CLOSED;
    if (!guard_enter(&self->base))
        return NULL;
    int result = guard_wait(&self->base, timeout_ns, true, receiver_acquire_slice, finish_slice,
                            &call, status);
    if (result == 0 && !call.media) {
        PyErr_NoMemory();
        result = -1;
    }
    if (result == 0) {
        struct hold *hold = hold_new(call.frame, call.media, false);
        if (hold) {
            hold->allow_old_dlpack = self->allow_old_dlpack;
            memcpy(hold->route, call.path, sizeof(hold->route));
            frame = frame_new(hold, NULL);
        }
    } else {
        gpud_frame_release(&call.frame);
    }
    media_unref(call.media);
    guard_leave(&self->base);
    return frame;
}

static PyObject *receiver_method_acquire(PyObject *object, PyObject *args, PyObject *names)
{
    static char *keywords[] = {"timeout", NULL};
    struct receiver *self = (struct receiver *)object;
    int64_t timeout_ns = INT64_MAX;
    enum gpud_status status;
    if (!PyArg_ParseTupleAndKeywords(args, names, "|O&:acquire", keywords, guard_parse_timeout,
                                     &timeout_ns))
        return NULL;
    return receiver_acquire(self, timeout_ns, false, &status);
}

static PyObject *poll(PyObject *object, bool loop)
{
    enum gpud_status status;
    PyObject *frame = receiver_acquire((struct receiver *)object, 0, loop, &status);
    if (frame || status != GPUD_TIMEOUT)
        return frame;
    PyErr_Clear();
    return Py_NewRef(Py_None);
}

static PyObject *receiver_method_poll(PyObject *object, PyObject *unused)
{
    return poll(object, false);
}

static PyObject *method_poll_loop(PyObject *object, PyObject *unused)
{
    return poll(object, true);
}

static PyObject *receiver_next(PyObject *object)
{
    struct receiver *self = (struct receiver *)object;
    enum gpud_status status;
    PyObject *frame = receiver_acquire(self, self->timeout_ns, true, &status);
    /* The end of the stream is that of the loop; another loop takes the next stream. A process that
     * was forked is told so. */
    if (!frame && status == GPUD_CLOSED && !PyErr_ExceptionMatches(PyExc_RuntimeError))
        PyErr_Clear();
    return frame;
}

static PyObject *receiver_get_info(PyObject *object, void *closure)
{
    struct receiver *self = (struct receiver *)object;
    if (!guard_read_info(&self->base))
        return NULL;
    struct gpud_receiver_info info = self->info;
    return Py_BuildValue(
        "{s:N,s:N,s:N,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:I,s:N,s:N,s:N}",
        "connected", PyBool_FromLong(info.connected), "path", convert_text(info.path),
        "fallback_reason", convert_text(info.fallback_reason), "frames", info.frames, "dropped",
        info.dropped, "corrupted", info.corrupted, "connects", info.connects, "disconnects",
        info.disconnects, "copies_cpu", info.copies_cpu, "copies_gpu", info.copies_gpu, "waits_cpu",
        info.waits_cpu, "waits_device", info.waits_device, "kicks", info.kicks, "latency_p50_ns",
        info.latency_p50_ns, "latency_p99_ns", info.latency_p99_ns, "latency_max_ns",
        info.latency_max_ns, "slots", info.slots, "device", convert_text(info.device),
        "device_reason", convert_text(info.device_reason), "whole_reason",
        convert_text(info.whole_reason));
}

/* --- the type ------------------------------------------------------------------------------ */

/* The device that "auto" stands for is known once there is a receiver. */
static enum gpud_status receiver_open_device(struct receiver *self, struct gpud_context *context,
                                             struct gpud_error *error)
{
    struct gpud_receiver_info info = GPUD_INFO_INIT(info);
    gpud_receiver_get_info(self->receiver, &info);
    return gpud_device_open(context, info.device, &self->device, error);
}

static int receiver_create(struct receiver *self, struct gpud_receiver_params *params)
{
    struct gpud_error error;
    enum gpud_status status;
    struct gpud_context *context = context_get();
    if (!context)
        return -1;
    params->on_event = receiver_on_event;
    params->alloc = self->alloc ? receiver_alloc : NULL;
    params->user = self;
    Py_BEGIN_ALLOW_THREADS
    status = gpud_receiver_create(context, params, &self->receiver, &error);
    if (status == GPUD_OK && self->alloc)
        status = receiver_open_device(self, context, &error);
    Py_END_ALLOW_THREADS
    if (status != GPUD_OK)
        error_raise(&error);
    return status == GPUD_OK ? 0 : -1;
}

static PyObject *receiver_make(PyTypeObject *own, PyObject *args, PyObject *names)
{
    static char *keywords[] = {
        "address",        "device",         "timeout", "name",     "slots",
        "slow_receiver",  "require_direct", "route",   "access",   "psk_file",
        "busy_poll",      "on_event",       "alloc",   "by_lines", "allow_old_dlpack",
        "max_frame_size", "on_disconnect",  NULL};
    struct gpud_receiver_params params = GPUD_PARAMS_INIT(params);
    PyObject *handler = NULL, *allocator = NULL, *on_disconnect = NULL;
    int64_t timeout_ns = INT64_MAX;
    int direct = 0, by_lines = 0, allow_old = 0;
    unsigned long long max_frame_size = 0;
    params.device = "auto";
    if (!PyArg_ParseTupleAndKeywords(
            args, names, "s|O&$O&zIO&pzzzO&O&O&ppKO&:Receiver", keywords, &params.address,
            convert_parse_device, &params.device, guard_parse_timeout, &timeout_ns, &params.name,
            &params.slots, convert_parse_policy, &params.slow_receiver, &direct, &params.route,
            &params.access, &params.psk_file, convert_parse_busy_poll, &params.busy_poll_ns,
            events_parse_handler, &handler, events_parse_handler, &allocator, &by_lines, &allow_old,
            &max_frame_size, events_parse_handler, &on_disconnect))
        return NULL;
    params.max_frame_size = max_frame_size;
    params.require_direct = direct;
    params.by_lines = by_lines;
    struct receiver *self = (struct receiver *)guard_new(own, &guard_ops);
    if (!self)
        return NULL;
    self->timeout_ns = timeout_ns;
    self->allow_old_dlpack = allow_old;
    self->on_event = Py_XNewRef(handler);
    self->alloc = Py_XNewRef(allocator);
    self->on_disconnect = Py_XNewRef(on_disconnect);
    if (receiver_create(self, &params) < 0)
        Py_CLEAR(self);
    return (PyObject *)self;
}

static int traverse(PyObject *object, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(((struct receiver *)object)->on_event);
    Py_VISIT(((struct receiver *)object)->alloc);
    Py_VISIT(((struct receiver *)object)->on_disconnect);
    return 0;
}

static int receiver_clear(PyObject *object)
{
    Py_CLEAR(((struct receiver *)object)->on_event);
    Py_CLEAR(((struct receiver *)object)->alloc);
    Py_CLEAR(((struct receiver *)object)->on_disconnect);
    return 0;
}

static void receiver_free(PyObject *object)
{
    struct receiver *self = (struct receiver *)object;
    PyObject_GC_UnTrack(object);
    guard_close(&self->base);
    receiver_clear(object);
    media_unref(self->media);
    guard_free(object);
}

static PyMethodDef methods[] = {
    {"acquire", (PyCFunction)(void (*)(void))receiver_method_acquire, METH_VARARGS | METH_KEYWORDS,
     "acquire($self, /, timeout=None)\n--\n\n"
     "The next frame. Waits without the GIL, so many seconds at most, and connects first where\n"
     "needed. Raises Timeout; Closed at the end of the stream; PeerLost if the sender vanished,\n"
     "whatever on_disconnect says, which is for loops. After both of the latter the next call\n"
     "connects again."},
    {"poll", receiver_method_poll, METH_NOARGS,
     "poll($self, /)\n--\n\n"
     "The next frame, or None if no frame is waiting. Does not wait. Raises as acquire() does."},
    {"_poll_loop", method_poll_loop, METH_NOARGS, "poll(), as a step of `async for`."},
    {"fileno", guard_method_fileno, METH_NOARGS,
     "fileno($self, /)\n--\n\nA descriptor to poll, readable when poll() may return a frame."},
    {"close", guard_method_close, METH_NOARGS,
     "close($self, /)\n--\n\nDisconnects. Frames that are held stay valid. Calls that wait in "
     "other "
     "threads raise Closed."},
    {0},
};

static PyGetSetDef attributes[] = {
    {"info", receiver_get_info, NULL,
     "State and counters, as gpud_receiver_info has them; of a closed one, the last.", NULL},
    {"closed", guard_get_closed, NULL, "Whether it was closed.", NULL},
    {0},
};

static PyType_Slot slots[] = {
    {Py_tp_new, receiver_make},
    {Py_tp_dealloc, receiver_free},
    {Py_tp_traverse, traverse},
    {Py_tp_clear, receiver_clear},
    {Py_tp_iter, PyObject_SelfIter},
    {Py_tp_iternext, receiver_next},
    {Py_tp_methods, methods},
    {Py_tp_getset, attributes},
    {Py_tp_doc, "The C part of gpudirect.Receiver."},
    {0},
};

static PyType_Spec spec = {
    .name = "gpudirect._gpudirect.Receiver",
    .basicsize = sizeof(struct receiver),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = slots,
};

int receiver_init(PyObject *module)
{
    if (!type)
        type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, NULL);
    return type ? PyModule_AddObjectRef(module, "Receiver", (PyObject *)type) : -1;
}
