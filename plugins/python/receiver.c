/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What receives: a Receiver, and a Group of them; their events, and memory of the application's. */
#include "python.h"

#include <gpudirect/group.h>
#include <gpudirect/receiver.h>

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* === events ================================================================================== */
/* Events that the library reports without the GIL, until a handler can be called with it. */

struct event {
    struct event *next;
    uint32_t member, kind;
    size_t size;
    char data[];
};

/* Zeroed: none. */
struct events {
    struct event *first, *last;
};

/* Copies an event; one for which there is no memory is lost. */
static void events_note(struct events *events, uint32_t member, const struct gpud_user_event *user)
{
    struct event *event = malloc(sizeof(*event) + user->size);
    if (!event)
        return;
    event->next = NULL;
    event->member = member;
    event->kind = user->kind;
    event->size = user->size;
    if (user->size)
        memcpy(event->data, user->data, user->size);
    if (events->first)
        events->last->next = event;
    else
        events->first = event;
    events->last = event;
}

/* All of them, which the caller delivers. */
static struct events events_take(struct events *events)
{
    struct events taken = *events;
    *events = (struct events){NULL, NULL};
    return taken;
}

/* Calls handler(member, kind, data), or handler(kind, data), for each, with the GIL. NULL: drops
 * them. Those behind one whose handler raises are lost: -1. */
static int events_deliver(struct events events, PyObject *handler, bool with_member)
{
    int result = 0;
    /* A handler may drop the last reference to the object that has it. */
    Py_XINCREF(handler);
    while (events.first) {
        struct event *event = events.first;
        PyObject *done = NULL;
        events.first = event->next;
        if (handler && result == 0 && with_member)
            done = PyObject_CallFunction(handler, "IIy#", event->member, event->kind, event->data,
                                         (Py_ssize_t)event->size);
        else if (handler && result == 0)
            done = PyObject_CallFunction(handler, "Iy#", event->kind, event->data,
                                         (Py_ssize_t)event->size);
        if (handler && !done)
            result = -1;
        Py_XDECREF(done);
        free(event);
    }
    Py_XDECREF(handler);
    return result;
}

/* A converter for PyArg_Parse's "O&": something to call, or None, which is NULL; borrowed. */
static int events_parse_handler(PyObject *object, void *handler)
{
    PyObject **result = handler;
    *result = NULL;
    if (object == Py_None)
        return 1;
    if (!PyCallable_Check(object)) {
        PyErr_Format(PyExc_TypeError, "%R is not callable: give a function, or None", object);
        return 0;
    }
    *result = object;
    return 1;
}

/* === memory ================================================================================== */
/* Memory of the application's for the frames of a receiver. */

struct block {
    struct block *next;
    Py_buffer buffer;
};

/* The library drops memory in any thread, perhaps while another one has the GIL and waits for the
 * library. So buffers are released by the interpreter, when it comes to it. */
static _Atomic(struct block *) dropped;

static int release_dropped(void *unused)
{
    struct block *block = atomic_exchange(&dropped, NULL);
    while (block) {
        struct block *next = block->next;
        PyBuffer_Release(&block->buffer);
        free(block);
        block = next;
    }
    return 0;
}

static void memory_drop(void *user)
{
    struct block *block = user;
    block->next = atomic_load(&dropped);
    while (!atomic_compare_exchange_weak(&dropped, &block->next, block))
        ;
    /* With too many calls pending it fails: the next format or release finds the block. */
    if (Py_IsInitialized())
        Py_AddPendingCall(release_dropped, NULL);
}

static struct gpud_memory *memory_wrap(struct gpud_device *device, void *native, uint64_t bytes,
                                       struct block *block)
{
    struct gpud_memory *memory = NULL;
    struct gpud_error error;
    enum gpud_status status;
    Py_BEGIN_ALLOW_THREADS
    status =
        gpud_memory_wrap(device, native, bytes, block ? memory_drop : NULL, block, &memory, &error);
    Py_END_ALLOW_THREADS
    return status == GPUD_OK ? memory : error_raise(&error);
}

static struct gpud_memory *wrap_buffer(struct gpud_device *device, PyObject *object, uint64_t bytes)
{
    struct block *block = calloc(1, sizeof(*block));
    struct gpud_memory *memory = NULL;
    if (!block) {
        PyErr_NoMemory();
        return NULL;
    }
    if (PyObject_GetBuffer(object, &block->buffer, PyBUF_WRITABLE) < 0) {
        free(block);
        return NULL;
    }
    if ((uint64_t)block->buffer.len < bytes)
        PyErr_Format(PyExc_ValueError, "alloc() gave %zd bytes, and a frame has %llu",
                     block->buffer.len, (unsigned long long)bytes);
    else
        memory = memory_wrap(device, block->buffer.buf, bytes, block);
    if (!memory) {
        PyBuffer_Release(&block->buffer);
        free(block);
    }
    return memory;
}

static struct gpud_memory *wrap_object(struct gpud_device *device, PyObject *object, uint64_t bytes)
{
    struct gpud_device_info info = GPUD_INFO_INIT(info);
    if (PyLong_Check(object)) {
        void *native = PyLong_AsVoidPtr(object);
        return PyErr_Occurred() ? NULL : memory_wrap(device, native, bytes, NULL);
    }
    gpud_device_get_info(device, &info);
    if (strcmp(info.name, "host") == 0)
        return wrap_buffer(device, object, bytes);
    PyErr_Format(PyExc_TypeError,
                 "alloc() gives the number of memory on %s, such as a tensor's data_ptr() or an "
                 "int_ptr, not %R",
                 info.name, object);
    return NULL;
}

/* === stream ================================================================================== */
/* What is received of one sender. */

struct stream {
    char path[32];       /* the route of the connection */
    struct media *media; /* of the frames that follow; NULL: none was announced */
};

static void stream_note(struct stream *stream, enum gpud_event event, const void *data)
{
    if (event == GPUD_EVENT_CONNECTED) {
        memcpy(stream->path, ((const struct gpud_peer_info *)data)->path, sizeof(stream->path));
    } else if (event == GPUD_EVENT_FORMAT) {
        media_unref(stream->media);
        stream->media = media_new(&((const struct gpud_format_event *)data)->media);
    }
}

/* As it is for a frame that was taken; without one it has no media. */
static struct stream stream_copy(const struct stream *stream, bool taken)
{
    struct stream copy = *stream;
    copy.media = taken && stream->media ? media_ref(stream->media) : NULL;
    return copy;
}

/* Owns the frame in any case. */
static PyObject *stream_make_frame(const struct stream *stream, struct gpud_frame *frame,
                                   bool allow_old_dlpack)
{
    if (!stream->media) {
        gpud_frame_release(&frame);
        return PyErr_NoMemory();
    }
    struct hold *hold = hold_new(frame, stream->media, false);
    if (!hold)
        return NULL;
    hold->allow_old_dlpack = allow_old_dlpack;
    memcpy(hold->route, stream->path, sizeof(hold->route));
    return frame_new(hold, NULL);
}

/* A converter for PyArg_Parse's "O&": seconds of busy polling, into nanoseconds of an int64_t. */
static int parse_busy_poll(PyObject *object, void *busy_poll_ns)
{
    int64_t *result = busy_poll_ns;
    double seconds = PyFloat_AsDouble(object);
    if (seconds == -1.0 && PyErr_Occurred())
        return 0;
    if (!(seconds > -10 && seconds < 10)) {
        PyErr_SetString(PyExc_ValueError, "busy_poll is a number of seconds below 10");
        return 0;
    }
    *result = (int64_t)(seconds * 1e9);
    return 1;
}

/* What poll() returns of an acquire without a timeout: None if nothing is waiting. */
static PyObject *poll_result(PyObject *made, enum gpud_status status)
{
    if (made || status != GPUD_TIMEOUT)
        return made;
    PyErr_Clear();
    return Py_NewRef(Py_None);
}

/* What a step of an iteration returns. The end of the stream is that of the loop; another loop
 * takes the next stream. A process that was forked is told so. */
static PyObject *next_result(PyObject *made, enum gpud_status status)
{
    if (!made && status == GPUD_CLOSED && !PyErr_ExceptionMatches(PyExc_RuntimeError))
        PyErr_Clear();
    return made;
}

/* === receiver ================================================================================ */
/* gpudirect._gpudirect.Receiver, which the package's own class extends. */

/* A switch that has ended and is still to be reported; address "": none is. */
struct switched {
    char address[120];
    struct gpud_error error;
};

struct receiver {
    struct guarded base;
    struct gpud_receiver *receiver;
    struct gpud_receiver_info info; /* with the GIL: see guard_read_info() */
    struct gpud_device *device;     /* of alloc's memory; NULL: there is no alloc */
    PyObject *on_event, *alloc;     /* or NULL */
    PyObject *on_disconnect;        /* called by a loop that waits; NULL: it raises */
    PyObject *on_switch;            /* or NULL */
    int64_t timeout_ns;             /* of a step of the iteration */
    bool allow_old_dlpack;
    /* guarded by guard.turn: the library calls on_event() inside an acquire */
    struct stream stream;
    struct events events;
    struct switched switched;
    bool ended;                 /* by EOS: that its sender leaves is no loss */
    char loss[GPUD_REASON_MAX]; /* last told, and no frame came since; "": none */
};

/* --- inside gpud_receiver_acquire(), without the GIL --------------------------------------- */

static void receiver_on_event(void *user, enum gpud_event event, const void *data)
{
    struct receiver *self = user;
    stream_note(&self->stream, event, data);
    if (event == GPUD_EVENT_CONNECTED) {
        self->ended = false;
    } else if (event == GPUD_EVENT_USER && self->on_event) {
        events_note(&self->events, 0, data);
    } else if (event == GPUD_EVENT_SWITCHED) {
        const struct gpud_switch_event *over = data;
        struct switched *switched = &self->switched;
        snprintf(switched->address, sizeof(switched->address), "%s", over->address);
        switched->error = (struct gpud_error){.status = over->status};
        snprintf(switched->error.reason, sizeof(switched->error.reason), "%s", over->reason);
    }
}

/* Asks alloc(slot, bytes) for the memory of a slot: a writable buffer, which is kept as long as the
 * library uses it, or the number of memory of the device. With the GIL, which it gives up
 * meanwhile. On failure an exception is set, too. */
static enum gpud_status receiver_alloc(void *user, const struct gpud_layout *layout, uint32_t slot,
                                       struct gpud_memory **memory, struct gpud_error *error)
{
    struct receiver *self = user;
    PyGILState_STATE state = PyGILState_Ensure();
    release_dropped(NULL);
    PyObject *object =
        PyObject_CallFunction(self->alloc, "IK", (unsigned)slot, (unsigned long long)layout->size);
    *memory = object ? wrap_object(self->device, object, layout->size) : NULL;
    Py_XDECREF(object);
    /* An exception stays set in this thread, for receiver_finish_slice(). */
    PyGILState_Release(state);
    if (*memory)
        return GPUD_OK;
    if (error)
        *error = (struct gpud_error){
            .status = GPUD_INVALID, .origin = "alloc", .reason = "alloc() raised an exception"};
    return GPUD_INVALID;
}

struct receiver_call {
    struct receiver *self;
    bool loop; /* a step of an iteration */
    struct gpud_frame *frame;
    struct stream stream;
    struct events events;
    struct switched switched;
    struct gpud_error loss; /* to be told; GPUD_OK: none */
};

static enum gpud_status receiver_acquire_slice(void *user, int64_t timeout_ns,
                                               struct gpud_error *error)
{
    struct receiver_call *call = user;
    struct receiver *self = call->self;
    enum gpud_status status =
        gpud_receiver_acquire(self->receiver, timeout_ns, &call->frame, error);
    if (status == GPUD_PEER && call->loop && (self->on_disconnect || self->ended)) {
        /* A sender that fails again and again for one reason is told of once. */
        if (!self->ended && strcmp(self->loss, error->reason) != 0)
            call->loss = *error;
        memcpy(self->loss, error->reason, sizeof(self->loss));
        /* Waits for the next sender from here on, which arms the descriptor. */
        status = gpud_receiver_acquire(self->receiver, 0, &call->frame, error);
    }
    if (status == GPUD_OK || status == GPUD_CLOSED) {
        self->ended = status == GPUD_CLOSED;
        self->loss[0] = '\0';
    }
    call->stream = stream_copy(&self->stream, status == GPUD_OK);
    call->events = events_take(&self->events);
    call->switched = self->switched;
    self->switched.address[0] = '\0';
    return status;
}

/* --- with the GIL -------------------------------------------------------------------------- */

/* Calls handler(address, None), or with the exception that says why the sender has stayed. */
static int switched_deliver(const struct switched *switched, PyObject *handler)
{
    PyObject *error =
        switched->error.status == GPUD_OK ? Py_NewRef(Py_None) : error_new(&switched->error);
    if (!error)
        return -1;
    Py_INCREF(handler);
    PyObject *done = PyObject_CallFunction(handler, "NN", convert_text(switched->address), error);
    Py_DECREF(handler);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

static int receiver_finish_slice(void *user)
{
    struct receiver_call *call = user;
    struct events events = call->events;
    call->events = (struct events){NULL, NULL};
    struct switched switched = call->switched;
    call->switched.address[0] = '\0';
    bool raised = PyErr_Occurred() != NULL; /* by alloc() */
    if (switched.address[0] && call->self->on_switch && !raised)
        raised = switched_deliver(&switched, call->self->on_switch) < 0;
    if (events_deliver(events, raised ? NULL : call->self->on_event, false) < 0)
        return -1;
    struct gpud_error loss = call->loss;
    call->loss.status = GPUD_OK;
    if (raised || loss.status == GPUD_OK)
        return raised ? -1 : 0;
    PyObject *handler = Py_NewRef(call->self->on_disconnect);
    PyObject *error = error_new(&loss);
    PyObject *done = error ? PyObject_CallFunctionObjArgs(handler, error, NULL) : NULL;
    Py_XDECREF(done);
    Py_XDECREF(error);
    Py_DECREF(handler);
    return done ? 0 : -1;
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

static const struct guard_ops receiver_guard_ops = {"receiver", receiver_destroy, receiver_get_fd,
                                                    receiver_read_info};

static PyObject *receiver_acquire(struct receiver *self, int64_t timeout_ns, bool loop,
                                  enum gpud_status *status)
{
    struct receiver_call call = {.self = self, .loop = loop};
    PyObject *frame = NULL;
    *status = GPUD_CLOSED;
    if (!guard_enter(&self->base))
        return NULL;
    int result = guard_wait(&self->base, timeout_ns, true, receiver_acquire_slice,
                            receiver_finish_slice, &call, status);
    if (result == 0)
        frame = stream_make_frame(&call.stream, call.frame, self->allow_old_dlpack);
    else
        gpud_frame_release(&call.frame);
    media_unref(call.stream.media);
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

static PyObject *receiver_method_poll(PyObject *object, PyObject *unused)
{
    enum gpud_status status;
    PyObject *frame = receiver_acquire((struct receiver *)object, 0, false, &status);
    return poll_result(frame, status);
}

static PyObject *method_poll_loop(PyObject *object, PyObject *unused)
{
    enum gpud_status status;
    PyObject *frame = receiver_acquire((struct receiver *)object, 0, true, &status);
    return poll_result(frame, status);
}

static PyObject *receiver_next(PyObject *object)
{
    struct receiver *self = (struct receiver *)object;
    enum gpud_status status;
    PyObject *frame = receiver_acquire(self, self->timeout_ns, true, &status);
    return next_result(frame, status);
}

static PyObject *receiver_method_switch(PyObject *object, PyObject *args, PyObject *names)
{
    static char *keywords[] = {"address", "timeout", "psk_file", "tls_certificate",
                               "tls_key", "tls_ca",  NULL};
    struct receiver *self = (struct receiver *)object;
    struct gpud_switch_params params = GPUD_PARAMS_INIT(params);
    struct gpud_error error;
    enum gpud_status status;
    int64_t timeout_ns = INT64_MAX;
    if (!PyArg_ParseTupleAndKeywords(args, names, "s|O&$zzzz:switch", keywords, &params.address,
                                     guard_parse_timeout, &timeout_ns, &params.psk_file,
                                     &params.tls_certificate, &params.tls_key, &params.tls_ca) ||
        !guard_enter(&self->base))
        return NULL;
    params.timeout_ns = timeout_ns ? timeout_ns : 1; /* 0 would be without end */
    Py_BEGIN_ALLOW_THREADS
    status = gpud_receiver_switch(self->receiver, &params, &error);
    Py_END_ALLOW_THREADS
    guard_leave(&self->base);
    return status == GPUD_OK ? Py_NewRef(Py_None) : error_raise(&error);
}

static PyObject *receiver_method_request_key(PyObject *object, PyObject *args, PyObject *names)
{
    static char *keywords[] = {"at_once", "all_headers", NULL};
    struct receiver *self = (struct receiver *)object;
    struct gpud_key_request request = GPUD_INFO_INIT(request);
    int at_once = true, all_headers = false;
    if (!PyArg_ParseTupleAndKeywords(args, names, "|$pp:request_key", keywords, &at_once,
                                     &all_headers) ||
        !guard_enter(&self->base))
        return NULL;
    request.at_once = at_once;
    request.all_headers = all_headers;
    request.time_ns = GPUD_TIME_NONE;
    gpud_receiver_request_key(self->receiver, &request);
    guard_leave(&self->base);
    Py_RETURN_NONE;
}

static PyObject *receiver_get_info(PyObject *object, void *closure)
{
    struct receiver *self = (struct receiver *)object;
    if (!guard_read_info(&self->base))
        return NULL;
    struct gpud_receiver_info info = self->info;
    return Py_BuildValue(
        "{s:N,s:N,s:N,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:I,s:N,s:N,s:N,s:N,s:N,"
        "s:K,s:N}",
        "connected", PyBool_FromLong(info.connected), "path", convert_text(info.path),
        "fallback_reason", convert_text(info.fallback_reason), "frames", info.frames, "dropped",
        info.dropped, "corrupted", info.corrupted, "connects", info.connects, "disconnects",
        info.disconnects, "copies_cpu", info.copies_cpu, "copies_gpu", info.copies_gpu, "waits_cpu",
        info.waits_cpu, "waits_device", info.waits_device, "kicks", info.kicks, "latency_p50_ns",
        info.latency_p50_ns, "latency_p99_ns", info.latency_p99_ns, "latency_max_ns",
        info.latency_max_ns, "slots", info.slots, "device", convert_text(info.device),
        "device_reason", convert_text(info.device_reason), "whole_reason",
        convert_text(info.whole_reason), "encrypted", convert_text(info.encrypted), "address",
        convert_text(info.address), "switches", info.switches, "degraded",
        convert_degraded(info.degraded));
}

/* --- the type ------------------------------------------------------------------------------ */

static PyObject *receiver_make(PyTypeObject *own, PyObject *args, PyObject *names)
{
    static char *keywords[] = {"address",
                               "device",
                               "timeout",
                               "name",
                               "slots",
                               "slow_receiver",
                               "require_direct",
                               "route",
                               "access",
                               "psk_file",
                               "busy_poll",
                               "on_event",
                               "alloc",
                               "by_lines",
                               "allow_old_dlpack",
                               "max_frame_size",
                               "on_disconnect",
                               "tls_certificate",
                               "tls_key",
                               "tls_ca",
                               "on_switch",
                               NULL};
    struct gpud_receiver_params params = GPUD_PARAMS_INIT(params);
    PyObject *handler = NULL, *allocator = NULL, *on_disconnect = NULL, *on_switch = NULL;
    int64_t timeout_ns = INT64_MAX;
    int direct = 0, by_lines = 0, allow_old = 0;
    unsigned long long max_frame_size = 0;
    struct gpud_receiver_info info = GPUD_INFO_INIT(info);
    struct gpud_error error;
    enum gpud_status status;
    params.device = "auto";
    if (!PyArg_ParseTupleAndKeywords(
            args, names, "s|O&$O&zIO&pzzzO&O&O&ppKO&zzzO&:Receiver", keywords, &params.address,
            convert_parse_device, &params.device, guard_parse_timeout, &timeout_ns, &params.name,
            &params.slots, convert_parse_policy, &params.slow_receiver, &direct, &params.route,
            &params.access, &params.psk_file, parse_busy_poll, &params.busy_poll_ns,
            events_parse_handler, &handler, events_parse_handler, &allocator, &by_lines, &allow_old,
            &max_frame_size, events_parse_handler, &on_disconnect, &params.tls_certificate,
            &params.tls_key, &params.tls_ca, events_parse_handler, &on_switch))
        return NULL;
    params.max_frame_size = max_frame_size;
    params.require_direct = direct;
    params.by_lines = by_lines;
    struct gpud_context *context = context_get();
    struct receiver *self = context ? (struct receiver *)guard_new(own, &receiver_guard_ops) : NULL;
    if (!self)
        return NULL;
    self->timeout_ns = timeout_ns;
    self->allow_old_dlpack = allow_old;
    self->on_event = Py_XNewRef(handler);
    self->alloc = Py_XNewRef(allocator);
    self->on_disconnect = Py_XNewRef(on_disconnect);
    self->on_switch = Py_XNewRef(on_switch);
    params.on_event = receiver_on_event;
    params.alloc = allocator ? receiver_alloc : NULL;
    params.user = self;
    Py_BEGIN_ALLOW_THREADS
    status = gpud_receiver_create(context, &params, &self->receiver, &error);
    if (status == GPUD_OK && allocator) { /* the device that "auto" stands for is known by now */
        gpud_receiver_get_info(self->receiver, &info);
        status = gpud_device_open(context, info.device, &self->device, &error);
    }
    Py_END_ALLOW_THREADS
    if (status == GPUD_OK)
        return (PyObject *)self;
    Py_DECREF(self);
    return error_raise(&error);
}

static int receiver_traverse(PyObject *object, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(((struct receiver *)object)->on_event);
    Py_VISIT(((struct receiver *)object)->alloc);
    Py_VISIT(((struct receiver *)object)->on_disconnect);
    Py_VISIT(((struct receiver *)object)->on_switch);
    return 0;
}

static int receiver_clear(PyObject *object)
{
    Py_CLEAR(((struct receiver *)object)->on_event);
    Py_CLEAR(((struct receiver *)object)->alloc);
    Py_CLEAR(((struct receiver *)object)->on_disconnect);
    Py_CLEAR(((struct receiver *)object)->on_switch);
    return 0;
}

static void receiver_free(PyObject *object)
{
    struct receiver *self = (struct receiver *)object;
    PyObject_GC_UnTrack(object);
    guard_close(&self->base);
    receiver_clear(object);
    media_unref(self->stream.media);
    guard_free(object);
}

static PyMethodDef receiver_methods[] = {
    {"acquire", (PyCFunction)(void (*)(void))receiver_method_acquire, METH_VARARGS | METH_KEYWORDS,
     "acquire($self, /, timeout=None)\n--\n\n"
     "The next frame. Waits without the GIL, so many seconds at most, and connects first where\n"
     "needed. Raises Timeout; Closed at the end of the stream; PeerLost if the sender vanished,\n"
     "whatever on_disconnect says, which is for loops. After both of the latter the next call\n"
     "connects again."},
    {"poll", receiver_method_poll, METH_NOARGS,
     "poll($self, /)\n--\n\n"
     "The next frame, or None if no frame is waiting. Does not wait. Raises as acquire() does."},
    {"switch", (PyCFunction)(void (*)(void))receiver_method_switch, METH_VARARGS | METH_KEYWORDS,
     "switch($self, /, address, timeout=None, *, psk_file=None, tls_certificate=None, "
     "tls_key=None,\ntls_ca=None)\n--\n\n"
     "Changes to another sender, from any thread. Does not wait: acquire(), poll() and loops\n"
     "connect to it beside the old one, and give that one's frames until the first one of the new\n"
     "sender is here. If it does not come within so many seconds, the old one goes on. "
     "on_switch()\n"
     "is told; info has the address. A key or certificates replace the receiver's own."},
    {"request_key", (PyCFunction)(void (*)(void))receiver_method_request_key,
     METH_VARARGS | METH_KEYWORDS,
     "request_key($self, /, *, at_once=True, all_headers=False)\n--\n\n"
     "Asks the sender's encoder for a key frame, from any thread; ignored without a connection.\n"
     "all_headers: with what a decoder needs to begin."},
    {"_poll_loop", method_poll_loop, METH_NOARGS, "poll(), as a step of `async for`."},
    {"fileno", guard_method_fileno, METH_NOARGS,
     "fileno($self, /)\n--\n\nA descriptor to poll, readable when poll() may return a frame."},
    {"close", guard_method_close, METH_NOARGS,
     "close($self, /)\n--\n\nDisconnects. Frames that are held stay valid. Calls that wait in "
     "other "
     "threads raise Closed."},
    {0},
};

static PyGetSetDef receiver_attributes[] = {
    {"info", receiver_get_info, NULL,
     "State and counters, as gpud_receiver_info has them; of a closed one, the last.", NULL},
    {"closed", guard_get_closed, NULL, "Whether it was closed.", NULL},
    {0},
};

static PyType_Slot receiver_slots[] = {
    {Py_tp_new, receiver_make},
    {Py_tp_dealloc, receiver_free},
    {Py_tp_traverse, receiver_traverse},
    {Py_tp_clear, receiver_clear},
    {Py_tp_iter, PyObject_SelfIter},
    {Py_tp_iternext, receiver_next},
    {Py_tp_methods, receiver_methods},
    {Py_tp_getset, receiver_attributes},
    {Py_tp_doc, "The C part of gpudirect.Receiver."},
    {0},
};

PyType_Spec receiver_spec = {
    .name = "gpudirect._gpudirect.Receiver",
    .basicsize = sizeof(struct receiver),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = receiver_slots,
};

/* === group =================================================================================== */
/* gpudirect.Group: receivers that hand on instants together. They are the group's own, so that
 * nothing else can acquire from them. */

struct group {
    struct guarded base;
    struct gpud_group *group;
    struct gpud_receiver *receivers[GPUD_GROUP_MEMBERS_MAX];
    struct gpud_group_info info[GPUD_GROUP_MEMBERS_MAX + 1]; /* see guard_read_info() */
    uint32_t count;
    int64_t timeout_ns; /* of a step of the iteration */
    uint32_t preferred;
    bool allow_old_dlpack;
    PyObject *on_event, *time; /* or NULL */
    /* guarded by guard.turn: the library calls on_event() inside an acquire */
    struct stream streams[GPUD_GROUP_MEMBERS_MAX];
    struct events events;
};

static const char *const states[] = {"present", "late", "skipped", "apart", "absent", "ended"};

/* --- inside gpud_group_acquire(), without the GIL ------------------------------------------ */

static void group_on_event(void *user, uint32_t member, enum gpud_event event, const void *data)
{
    struct group *self = user;
    stream_note(&self->streams[member], event, data);
    if (event == GPUD_EVENT_USER && self->on_event)
        events_note(&self->events, member, data);
}

struct group_call {
    struct group *self;
    struct gpud_group_request request;
    struct gpud_group_instant instant;
    struct stream streams[GPUD_GROUP_MEMBERS_MAX];
    struct events events;
};

static enum gpud_status group_acquire_slice(void *user, int64_t timeout_ns,
                                            struct gpud_error *error)
{
    struct group_call *call = user;
    struct group *self = call->self;
    enum gpud_status status =
        gpud_group_acquire(self->group, &call->request, timeout_ns, &call->instant, error);
    for (uint32_t i = 0; i < self->count && status == GPUD_OK; i++)
        call->streams[i] = stream_copy(&self->streams[i], call->instant.frames[i]);
    call->events = events_take(&self->events);
    return status;
}

/* --- in a thread of the group ---------------------------------------------------------------- */

/* What raises has no caller: it is printed, and the frame has no time. */
static uint64_t get_time(void *user, uint32_t member, const struct gpud_frame_info *info)
{
    struct group *self = user;
    uint64_t time = GPUD_TIME_NONE;
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *frame =
        Py_BuildValue("{s:N,s:N,s:N,s:N,s:I,s:K,s:y#}", "pts", convert_time(info->pts_ns), "dts",
                      convert_time(info->dts_ns), "duration", convert_time(info->duration_ns),
                      "offset", convert_time(info->offset), "flags", (unsigned)info->flags,
                      "number", (unsigned long long)info->sequence, "meta",
                      (const char *)info->meta, (Py_ssize_t)info->meta_size);
    PyObject *result =
        frame ? PyObject_CallFunction(self->time, "IO", (unsigned)member, frame) : NULL;
    if (result && result != Py_None)
        time = PyLong_AsUnsignedLongLong(result);
    if (PyErr_Occurred()) {
        time = GPUD_TIME_NONE;
        PyErr_WriteUnraisable(self->time);
    }
    Py_XDECREF(result);
    Py_XDECREF(frame);
    PyGILState_Release(state);
    return time;
}

/* --- with the GIL -------------------------------------------------------------------------- */

static int group_finish_slice(void *user)
{
    struct group_call *call = user;
    struct events events = call->events;
    call->events = (struct events){NULL, NULL};
    return events_deliver(events, call->self->on_event, true);
}

static void group_destroy(PyObject *object)
{
    struct group *self = (struct group *)object;
    gpud_group_destroy(&self->group);
    for (uint32_t i = 0; i < self->count; i++)
        gpud_receiver_destroy(&self->receivers[i]);
}

static enum gpud_status group_get_fd(PyObject *object, int *fd, struct gpud_error *error)
{
    struct gpud_group_info info = GPUD_INFO_INIT(info);
    gpud_group_get_info(((struct group *)object)->group, 0, &info);
    *fd = info.fd;
    return GPUD_OK;
}

static void group_read_info(PyObject *object)
{
    struct group *self = (struct group *)object;
    /* Behind the members, all of them. */
    for (uint32_t i = 0; self->group && i <= self->count; i++) {
        self->info[i] = (struct gpud_group_info)GPUD_INFO_INIT(self->info[i]);
        gpud_group_get_info(self->group, i, &self->info[i]);
    }
}

static const struct guard_ops group_guard_ops = {"group", group_destroy, group_get_fd,
                                                 group_read_info};

static PyObject *make_instant(struct group_call *call)
{
    const struct gpud_group_instant *instant = &call->instant;
    uint32_t count = call->self->count;
    PyObject *frames = PyTuple_New(count), *all_states = PyTuple_New(count);
    for (uint32_t i = 0; i < count && frames && all_states; i++) {
        bool known = (unsigned)instant->states[i] < sizeof(states) / sizeof(states[0]);
        struct gpud_frame *taken = call->instant.frames[i];
        call->instant.frames[i] = NULL;
        PyObject *frame =
            taken ? stream_make_frame(&call->streams[i], taken, call->self->allow_old_dlpack)
                  : Py_NewRef(Py_None);
        PyObject *state = PyUnicode_FromString(known ? states[instant->states[i]] : "unknown");
        /* Both calls own what they are given, also if it is NULL. */
        if (PyTuple_SetItem(frames, i, frame) < 0 || !frame)
            Py_CLEAR(frames);
        if (PyTuple_SetItem(all_states, i, state) < 0 || !state)
            Py_CLEAR(all_states);
    }
    if (!frames || !all_states) {
        Py_XDECREF(frames);
        Py_XDECREF(all_states);
        return NULL;
    }
    return Py_BuildValue("(KNINNI)", (unsigned long long)instant->time_ns, frames,
                         (unsigned)instant->member, PyBool_FromLong(instant->discontinuity),
                         all_states, (unsigned)instant->skip);
}

static PyObject *group_acquire(struct group *self, const struct gpud_group_request *request,
                               int64_t timeout_ns, enum gpud_status *status)
{
    struct group_call call = {
        .self = self, .request = *request, .instant = {.size = sizeof(call.instant)}};
    *status = GPUD_CLOSED;
    if (!guard_enter(&self->base))
        return NULL;
    int result = guard_wait(&self->base, timeout_ns, true, group_acquire_slice, group_finish_slice,
                            &call, status);
    PyObject *instant = result == 0 ? make_instant(&call) : NULL;
    for (uint32_t i = 0; i < self->count; i++) {
        gpud_frame_release(&call.instant.frames[i]);
        media_unref(call.streams[i].media);
    }
    guard_leave(&self->base);
    return instant;
}

static struct gpud_group_request next_of(const struct group *self)
{
    return (struct gpud_group_request){.size = sizeof(struct gpud_group_request),
                                       .preferred = self->preferred};
}

static PyObject *group_method_acquire(PyObject *object, PyObject *args, PyObject *names)
{
    static char *keywords[] = {"timeout", "newest", "at", NULL};
    struct group *self = (struct group *)object;
    struct gpud_group_request request = next_of(self);
    int64_t timeout_ns = INT64_MAX;
    int newest = 0;
    PyObject *at = Py_None;
    enum gpud_status status;
    if (!PyArg_ParseTupleAndKeywords(args, names, "|O&$pO:acquire", keywords, guard_parse_timeout,
                                     &timeout_ns, &newest, &at))
        return NULL;
    if (newest)
        request.select = GPUD_GROUP_NEWEST;
    if (at != Py_None) {
        request.select = GPUD_GROUP_AT;
        request.time_ns = PyLong_AsUnsignedLongLong(at);
        if (PyErr_Occurred())
            return NULL;
    }
    return group_acquire(self, &request, timeout_ns, &status);
}

static PyObject *group_method_poll(PyObject *object, PyObject *unused)
{
    struct gpud_group_request request = next_of((struct group *)object);
    enum gpud_status status;
    PyObject *instant = group_acquire((struct group *)object, &request, 0, &status);
    return poll_result(instant, status);
}

static PyObject *group_next(PyObject *object)
{
    struct group *self = (struct group *)object;
    struct gpud_group_request request = next_of(self);
    enum gpud_status status;
    PyObject *instant = group_acquire(self, &request, self->timeout_ns, &status);
    return next_result(instant, status);
}

static PyObject *group_get_info(PyObject *object, void *closure)
{
    struct group *self = (struct group *)object;
    if (!guard_read_info(&self->base))
        return NULL;
    const struct gpud_group_info info = self->info[self->count];
    PyObject *members = PyTuple_New(self->count);
    for (uint32_t i = 0; i < self->count && members; i++) {
        const struct gpud_group_info *of = &self->info[i];
        PyObject *member = Py_BuildValue(
            "{s:N,s:I,s:I,s:K,s:K,s:K,s:K,s:L,s:L,s:N,s:N,s:K,s:K,s:N}", "connected",
            PyBool_FromLong(of->connected), "held", of->held, "room", of->room, "frames",
            of->frames, "handed_on", of->handed_on, "untimed", of->untimed, "missed", of->missed,
            "behind_ns", (long long)of->behind_ns, "offset_ns", (long long)of->offset_ns, "reason",
            convert_text(of->reason), "frozen", PyBool_FromLong(of->frozen), "ignored", of->ignored,
            "late", of->late, "warning", convert_text(of->warning));
        if (PyTuple_SetItem(members, i, member) < 0 || !member)
            Py_CLEAR(members);
    }
    if (!members)
        return NULL;
    return Py_BuildValue(
        "{s:L,s:L,s:K,s:K,s:K,s:K,s:N}", "tolerance_ns", (long long)info.tolerance_ns, "latency_ns",
        (long long)info.latency_ns, "instants", info.instants, "incomplete", info.incomplete,
        "discontinuities", info.discontinuities, "switches", info.switches, "members", members);
}

static PyObject *get_preferred(PyObject *object, void *closure)
{
    return PyLong_FromUnsignedLong(((struct group *)object)->preferred);
}

static int set_preferred(PyObject *object, PyObject *value, void *closure)
{
    struct group *self = (struct group *)object;
    unsigned long preferred = value ? PyLong_AsUnsignedLong(value) : self->count;
    if (PyErr_Occurred())
        return -1;
    if (preferred >= self->count) {
        PyErr_Format(PyExc_ValueError, "preferred is a member: 0 to %u", self->count - 1);
        return -1;
    }
    self->preferred = (uint32_t)preferred;
    return 0;
}

/* --- the type ------------------------------------------------------------------------------ */

static PyObject *group_make(PyTypeObject *own, PyObject *args, PyObject *names)
{
    static char *keywords[] = {"members",
                               "any",
                               "history",
                               "tolerance",
                               "latency",
                               "freeze_timeout",
                               "timeout",
                               "name",
                               "slots",
                               "slow_receiver",
                               "require_direct",
                               "route",
                               "access",
                               "psk_file",
                               "busy_poll",
                               "on_event",
                               "time",
                               "allow_old_dlpack",
                               "tls_certificate",
                               "tls_key",
                               "tls_ca",
                               NULL};
    struct gpud_receiver_params receiver = GPUD_PARAMS_INIT(receiver);
    struct gpud_group_params params = GPUD_PARAMS_INIT(params);
    const char *addresses[GPUD_GROUP_MEMBERS_MAX], *devices[GPUD_GROUP_MEMBERS_MAX];
    PyObject *members, *handler = NULL, *time = NULL;
    int any = 0, direct = 0, allow_old = 0;
    int64_t timeout_ns = INT64_MAX;
    struct gpud_error error;
    enum gpud_status status;
    if (!PyArg_ParseTupleAndKeywords(
            args, names, "O!pIO&O&O&O&zIO&pzzzO&O&O&pzzz:Group", keywords, &PyTuple_Type, &members,
            &any, &params.history, guard_parse_timeout, &params.tolerance_ns, guard_parse_timeout,
            &params.latency_ns, guard_parse_timeout, &params.freeze_timeout_ns, guard_parse_timeout,
            &timeout_ns, &receiver.name, &receiver.slots, convert_parse_policy,
            &receiver.slow_receiver, &direct, &receiver.route, &receiver.access, &receiver.psk_file,
            parse_busy_poll, &receiver.busy_poll_ns, events_parse_handler, &handler,
            events_parse_handler, &time, &allow_old, &receiver.tls_certificate, &receiver.tls_key,
            &receiver.tls_ca))
        return NULL;
    receiver.require_direct = direct;
    params.mode = any ? GPUD_GROUP_ANY : GPUD_GROUP_ALL;
    params.on_event = group_on_event;
    params.time = time ? get_time : NULL;
    struct gpud_context *context = context_get();
    if (!context)
        return NULL;
    Py_ssize_t count = PyTuple_Size(members);
    if (count < 1 || count > GPUD_GROUP_MEMBERS_MAX)
        return PyErr_Format(PyExc_ValueError, "a group has 1 to %d members",
                            GPUD_GROUP_MEMBERS_MAX);
    for (Py_ssize_t i = 0; i < count; i++)
        if (!PyArg_ParseTuple(PyTuple_GetItem(members, i), "sO&", &addresses[i],
                              convert_parse_device, &devices[i]))
            return NULL;
    struct group *self = (struct group *)guard_new(own, &group_guard_ops);
    if (!self)
        return NULL;
    params.user = self;
    self->count = (uint32_t)count;
    self->timeout_ns = timeout_ns;
    self->allow_old_dlpack = allow_old;
    self->on_event = Py_XNewRef(handler);
    self->time = Py_XNewRef(time);
    Py_BEGIN_ALLOW_THREADS
    status = GPUD_OK;
    for (uint32_t i = 0; i < self->count && status == GPUD_OK; i++) {
        receiver.address = addresses[i];
        receiver.device = devices[i];
        status = gpud_receiver_create(context, &receiver, &self->receivers[i], &error);
    }
    if (status == GPUD_OK)
        status =
            gpud_group_create(context, &params, self->receivers, self->count, &self->group, &error);
    Py_END_ALLOW_THREADS
    if (status == GPUD_OK)
        return (PyObject *)self;
    Py_DECREF(self);
    return error_raise(&error);
}

static int group_traverse(PyObject *object, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(((struct group *)object)->on_event);
    Py_VISIT(((struct group *)object)->time);
    return 0;
}

/* The group's threads call `time` until it is closed. */
static int group_clear(PyObject *object)
{
    guard_close((struct guarded *)object);
    Py_CLEAR(((struct group *)object)->on_event);
    Py_CLEAR(((struct group *)object)->time);
    return 0;
}

static void group_free(PyObject *object)
{
    struct group *self = (struct group *)object;
    PyObject_GC_UnTrack(object);
    group_clear(object);
    for (uint32_t i = 0; i < self->count; i++)
        media_unref(self->streams[i].media);
    guard_free(object);
}

static PyMethodDef group_methods[] = {
    {"acquire", (PyCFunction)(void (*)(void))group_method_acquire, METH_VARARGS | METH_KEYWORDS,
     "acquire($self, /, timeout=None, *, newest=False, at=None)\n--\n\n"
     "The next instant; the newest; or that at a time in ns, which may be read again while the\n"
     "history has it. Waits without the GIL, so many seconds at most. Raises Timeout; Closed at\n"
     "the end of the last stream, after which the next call waits for the next one."},
    {"poll", group_method_poll, METH_NOARGS,
     "poll($self, /)\n--\n\nThe next instant, or None if no instant is complete. Does not wait."},
    {"fileno", guard_method_fileno, METH_NOARGS,
     "fileno($self, /)\n--\n\nA descriptor to poll, readable when poll() may return an instant."},
    {"close", guard_method_close, METH_NOARGS,
     "close($self, /)\n--\n\nDisconnects. Frames that are held stay valid. Calls that wait in "
     "other threads raise Closed."},
    {0},
};

static PyGetSetDef group_attributes[] = {
    {"info", group_get_info, NULL,
     "State and counters, as gpud_group_info has them; of a closed one, the last.", NULL},
    {"preferred", get_preferred, set_preferred,
     "Mode \"any\": the member that is taken if it is in time.", NULL},
    {"closed", guard_get_closed, NULL, "Whether it was closed.", NULL},
    {0},
};

static PyType_Slot group_slots[] = {
    {Py_tp_new, group_make},
    {Py_tp_dealloc, group_free},
    {Py_tp_traverse, group_traverse},
    {Py_tp_clear, group_clear},
    {Py_tp_iter, PyObject_SelfIter},
    {Py_tp_iternext, group_next},
    {Py_tp_methods, group_methods},
    {Py_tp_getset, group_attributes},
    {Py_tp_doc, "The C part of gpudirect.Group."},
    {0},
};

PyType_Spec group_spec = {
    .name = "gpudirect._gpudirect.Group",
    .basicsize = sizeof(struct group),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = group_slots,
};
