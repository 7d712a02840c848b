/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "python.h"

#include <gpudirect/sender.h>

struct sender {
    struct guarded base;
    struct gpud_sender *sender;
    struct gpud_sender_info info; /* with the GIL: see guard_read_info() */
    struct media *media;          /* of the frames that are lent; changes with the GIL */
};

static void sender_destroy(PyObject *object)
{
    gpud_sender_destroy(&((struct sender *)object)->sender);
}

static enum gpud_status sender_get_fd(PyObject *object, int *fd, struct gpud_error *error)
{
    return gpud_sender_get_fd(((struct sender *)object)->sender, fd, error);
}

GUARD_READ_INFO(sender)

static const struct guard_ops guard_ops = {"sender", sender_destroy, sender_get_fd,
                                           sender_read_info};

/* --- the format ---------------------------------------------------------------------------- */

static int sender_configure(struct sender *self, const char *text)
{
    struct gpud_error error;
    struct gpud_media media;
    enum gpud_status status = gpud_media_from_string(&media, text, &error);
    if (status != GPUD_OK) {
        error_raise(&error);
        return -1;
    }
    struct media *made = media_new(&media);
    if (!made) {
        PyErr_NoMemory();
        return -1;
    }
    Py_BEGIN_ALLOW_THREADS
    pthread_mutex_lock(&self->base.guard.turn);
    status = gpud_sender_configure(self->sender, &media, &error);
    pthread_mutex_unlock(&self->base.guard.turn);
    Py_END_ALLOW_THREADS
    if (status == GPUD_OK) {
        struct media *before = self->media;
        self->media = made;
        made = before;
    } else {
        error_raise(&error);
    }
    media_unref(made);
    return status == GPUD_OK ? 0 : -1;
}

static PyObject *method_configure(PyObject *object, PyObject *args, PyObject *names)
{
    static char *keywords[] = {"media", NULL};
    struct sender *self = (struct sender *)object;
    const char *text;
    if (!PyArg_ParseTupleAndKeywords(args, names, "s:configure", keywords, &text) ||
        !guard_enter(&self->base))
        return NULL;
    int result = sender_configure(self, text);
    guard_leave(&self->base);
    return result == 0 ? Py_NewRef(Py_None) : NULL;
}

/* --- waiting calls ------------------------------------------------------------------------- */

struct call {
    struct sender *self;
    struct gpud_frame *frame;
    struct hold *hold;
    uint32_t count; /* of receivers, or of lines */
};

static enum gpud_status sender_acquire_slice(void *user, int64_t timeout_ns,
                                             struct gpud_error *error)
{
    struct call *call = user;
    return gpud_sender_acquire(call->self->sender, timeout_ns, &call->frame, error);
}

static enum gpud_status submit_slice(void *user, int64_t timeout_ns, struct gpud_error *error)
{
    struct call *call = user;
    return gpud_sender_submit(call->self->sender, &call->frame, timeout_ns, error);
}

static enum gpud_status lines_slice(void *user, int64_t timeout_ns, struct gpud_error *error)
{
    struct call *call = user;
    return hold_submit_lines(call->hold, call->self->sender, call->count, timeout_ns, error);
}

static enum gpud_status wait_slice(void *user, int64_t timeout_ns, struct gpud_error *error)
{
    struct call *call = user;
    return gpud_sender_wait(call->self->sender, call->count, timeout_ns, error);
}

static PyObject *sender_method_acquire(PyObject *object, PyObject *args, PyObject *names)
{
    static char *keywords[] = {"timeout", NULL};
    struct sender *self = (struct sender *)object;
    struct call call = {.self = self};
    int64_t timeout_ns = INT64_MAX;
    enum gpud_status status;
    PyObject *frame = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, names, "|O&:acquire", keywords, guard_parse_timeout,
                                     &timeout_ns) ||
        !guard_enter(&self->base))
        return NULL;
    if (!self->media) {
        error_raise_text(GPUD_INVALID,
                         "the sender has no format: give it media=, or configure() it");
    } else if (guard_wait(&self->base, timeout_ns, false, sender_acquire_slice, NULL, &call,
                          &status) == 0) {
        struct hold *hold = hold_new(call.frame, self->media, true);
        frame = hold ? frame_new(hold, object) : NULL;
    }
    guard_leave(&self->base);
    return frame;
}

static PyObject *method_submit(PyObject *object, PyObject *args, PyObject *names)
{
    static char *keywords[] = {"frame", "timeout", NULL};
    struct sender *self = (struct sender *)object;
    struct call call = {.self = self};
    int64_t timeout_ns = INT64_MAX;
    enum gpud_status status;
    PyObject *frame;
    if (!PyArg_ParseTupleAndKeywords(args, names, "O|O&:submit", keywords, &frame,
                                     guard_parse_timeout, &timeout_ns))
        return NULL;
    HELD hold = frame_find_hold(frame);
    if (!hold || !guard_enter(&self->base))
        return NULL;
    call.frame = hold_take(hold);
    int result = -1;
    if (call.frame)
        result = guard_wait(&self->base, timeout_ns, true, submit_slice, NULL, &call, &status);
    if (call.frame)
        hold_put_back(hold, call.frame);
    guard_leave(&self->base);
    return result == 0 ? Py_NewRef(Py_None) : NULL;
}

static PyObject *method_submit_lines(PyObject *object, PyObject *args, PyObject *names)
{
    static char *keywords[] = {"frame", "lines", "timeout", NULL};
    struct sender *self = (struct sender *)object;
    struct call call = {.self = self};
    int64_t timeout_ns = INT64_MAX;
    enum gpud_status status;
    PyObject *frame;
    if (!PyArg_ParseTupleAndKeywords(args, names, "OI|O&:submit_lines", keywords, &frame,
                                     &call.count, guard_parse_timeout, &timeout_ns))
        return NULL;
    HELD hold = frame_find_hold(frame);
    if (!hold || hold_check(hold) < 0 || !guard_enter(&self->base))
        return NULL;
    call.hold = hold;
    int result = guard_wait(&self->base, timeout_ns, true, lines_slice, NULL, &call, &status);
    guard_leave(&self->base);
    return result == 0 ? Py_NewRef(Py_None) : NULL;
}

static PyObject *method_wait(PyObject *object, PyObject *args, PyObject *names)
{
    static char *keywords[] = {"count", "timeout", NULL};
    struct sender *self = (struct sender *)object;
    struct call call = {.self = self, .count = 1};
    int64_t timeout_ns = INT64_MAX;
    enum gpud_status status;
    if (!PyArg_ParseTupleAndKeywords(args, names, "|IO&:wait", keywords, &call.count,
                                     guard_parse_timeout, &timeout_ns) ||
        !guard_enter(&self->base))
        return NULL;
    int result = guard_wait(&self->base, timeout_ns, false, wait_slice, NULL, &call, &status);
    guard_leave(&self->base);
    return result == 0 ? Py_NewRef(Py_None) : NULL;
}

/* --- other calls --------------------------------------------------------------------------- */

static PyObject *sender_finish(struct sender *self, enum gpud_status status,
                               const struct gpud_error *error)
{
    guard_leave(&self->base);
    return status == GPUD_OK ? Py_NewRef(Py_None) : error_raise(error);
}

static PyObject *method_send_event(PyObject *object, PyObject *args, PyObject *names)
{
    static char *keywords[] = {"kind", "data", NULL};
    struct sender *self = (struct sender *)object;
    struct gpud_error error;
    enum gpud_status status;
    Py_buffer data = {0};
    unsigned kind;
    if (!PyArg_ParseTupleAndKeywords(args, names, "I|y*:send_event", keywords, &kind, &data))
        return NULL;
    if (!guard_enter(&self->base)) {
        PyBuffer_Release(&data);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    pthread_mutex_lock(&self->base.guard.turn);
    status = gpud_sender_send_event(self->sender, kind, data.buf, (size_t)data.len, &error);
    pthread_mutex_unlock(&self->base.guard.turn);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&data);
    return sender_finish(self, status, &error);
}

static PyObject *method_send_eos(PyObject *object, PyObject *unused)
{
    struct sender *self = (struct sender *)object;
    struct gpud_error error;
    enum gpud_status status;
    if (!guard_enter(&self->base))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    pthread_mutex_lock(&self->base.guard.turn);
    status = gpud_sender_send_eos(self->sender, &error);
    pthread_mutex_unlock(&self->base.guard.turn);
    Py_END_ALLOW_THREADS
    return sender_finish(self, status, &error);
}

static PyObject *method_set_slow_receiver(PyObject *object, PyObject *policy)
{
    struct sender *self = (struct sender *)object;
    struct gpud_error error;
    enum gpud_slow_receiver slow_receiver;
    if (!convert_parse_policy(policy, &slow_receiver) || !guard_enter(&self->base))
        return NULL;
    enum gpud_status status = gpud_sender_set_slow_receiver(self->sender, slow_receiver, &error);
    return sender_finish(self, status, &error);
}

static PyObject *method_take_key_request(PyObject *object, PyObject *unused)
{
    struct sender *self = (struct sender *)object;
    struct gpud_key_request request = GPUD_INFO_INIT(request);
    if (!guard_enter(&self->base))
        return NULL;
    bool some = gpud_sender_take_key_request(self->sender, &request);
    guard_leave(&self->base);
    if (!some)
        return Py_NewRef(Py_None);
    return Py_BuildValue("{s:N,s:N,s:N}", "at_once", PyBool_FromLong(request.at_once),
                         "all_headers", PyBool_FromLong(request.all_headers), "time",
                         request.time_ns == GPUD_TIME_NONE
                             ? Py_NewRef(Py_None)
                             : PyLong_FromUnsignedLongLong(request.time_ns));
}

static PyObject *method_announce(PyObject *object, PyObject *unused)
{
    struct sender *self = (struct sender *)object;
    if (!guard_enter(&self->base))
        return NULL;
    gpud_sender_announce(self->sender);
    return sender_finish(self, GPUD_OK, NULL);
}

static PyObject *get_media(PyObject *object, void *closure)
{
    struct sender *self = (struct sender *)object;
    return self->media ? PyUnicode_FromString(self->media->text) : Py_NewRef(Py_None);
}

static PyObject *sender_get_info(PyObject *object, void *closure)
{
    struct sender *self = (struct sender *)object;
    if (!guard_read_info(&self->base))
        return NULL;
    struct gpud_sender_info info = self->info;
    return Py_BuildValue(
        "{s:I,s:N,s:N,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:N,s:N,s:N}", "receivers",
        info.receivers, "path", convert_text(info.path), "fallback_reason",
        convert_text(info.fallback_reason), "frames", info.frames, "delivered", info.delivered,
        "dropped", info.dropped, "connects", info.connects, "disconnects", info.disconnects,
        "refused", info.refused, "copies_cpu", info.copies_cpu, "copies_gpu", info.copies_gpu,
        "waits_cpu", info.waits_cpu, "waits_device", info.waits_device, "kicks", info.kicks,
        "device", convert_text(info.device), "device_reason", convert_text(info.device_reason),
        "stands_by", PyBool_FromLong(info.stands_by));
}

static PyObject *get_links(PyObject *object, void *closure)
{
    struct sender *self = (struct sender *)object;
    struct gpud_link_info info[GPUD_RECEIVERS_MAX] = {GPUD_INFO_INIT(info[0])};
    const struct gpud_link_info *link[GPUD_RECEIVERS_MAX];
    if (!guard_enter(&self->base))
        return NULL;
    size_t count = gpud_sender_list_links(self->sender, info, GPUD_RECEIVERS_MAX);
    guard_leave(&self->base);
    for (size_t i = 0; i < count; i++)
        link[i] = &info[i];
    return links_to_list(link, count);
}

/* --- the type ------------------------------------------------------------------------------ */

static PyObject *sender_make(PyTypeObject *own, PyObject *args, PyObject *names)
{
    static char *keywords[] = {"address",
                               "media",
                               "device",
                               "name",
                               "slots",
                               "slow_receiver",
                               "require_direct",
                               "route",
                               "access",
                               "psk_file",
                               "allow_unauthenticated",
                               "standby",
                               "large_meta_max",
                               "tls_certificate",
                               "tls_key",
                               "tls_ca",
                               "announce",
                               NULL};
    struct gpud_sender_params params = GPUD_PARAMS_INIT(params);
    const char *media = NULL;
    int direct = 0, unauthenticated = 0, standby = 0, announce = 1;
    struct gpud_error error;
    enum gpud_status status;
    params.device = "auto";
    if (!PyArg_ParseTupleAndKeywords(
            args, names, "s|z$O&zIO&pzzzppIzzzp:Sender", keywords, &params.address, &media,
            convert_parse_device, &params.device, &params.name, &params.slots, convert_parse_policy,
            &params.slow_receiver, &direct, &params.route, &params.access, &params.psk_file,
            &unauthenticated, &standby, &params.large_meta_max, &params.tls_certificate,
            &params.tls_key, &params.tls_ca, &announce))
        return NULL;
    params.require_direct = direct;
    params.allow_unauthenticated = unauthenticated;
    params.standby = standby;
    params.no_announce = !announce;
    struct gpud_context *context = context_get();
    struct sender *self = context ? (struct sender *)guard_new(own, &guard_ops) : NULL;
    if (!self)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    status = gpud_sender_create(context, &params, &self->sender, &error);
    Py_END_ALLOW_THREADS
    if (status != GPUD_OK)
        error_raise(&error);
    if (status != GPUD_OK || (media && sender_configure(self, media) < 0))
        Py_CLEAR(self);
    return (PyObject *)self;
}

static void sender_free(PyObject *object)
{
    struct sender *self = (struct sender *)object;
    guard_close(&self->base);
    media_unref(self->media);
    guard_free(object);
}

static PyMethodDef methods[] = {
    {"configure", (PyCFunction)(void (*)(void))method_configure, METH_VARARGS | METH_KEYWORDS,
     "configure($self, /, media)\n--\n\n"
     "Begins a new format, in the syntax of caps. Lent frames of the previous one can only be\n"
     "dropped."},
    {"acquire", (PyCFunction)(void (*)(void))sender_method_acquire, METH_VARARGS | METH_KEYWORDS,
     "acquire($self, /, timeout=None)\n--\n\n"
     "Lends a frame to write into: `with sender.acquire() as frame:` submits it at the end of the\n"
     "block and drops it at an exception. Waits without the GIL until a slot is free."},
    {"submit", (PyCFunction)(void (*)(void))method_submit, METH_VARARGS | METH_KEYWORDS,
     "submit($self, /, frame, timeout=None)\n--\n\n"
     "The part of gpudirect.Sender.submit() for frames."},
    {"submit_lines", (PyCFunction)(void (*)(void))method_submit_lines, METH_VARARGS | METH_KEYWORDS,
     "submit_lines($self, /, frame, lines, timeout=None)\n--\n\n"
     "Hands over the first rows of a lent picture that is still being written, to receivers with\n"
     "by_lines; all others get it when it is whole. Call it with more and more rows, and then\n"
     "release the frame; as a context manager it hands over the rest."},
    {"wait", (PyCFunction)(void (*)(void))method_wait, METH_VARARGS | METH_KEYWORDS,
     "wait($self, /, count=1, timeout=None)\n--\n\nWaits until so many receivers stream."},
    {"send_event", (PyCFunction)(void (*)(void))method_send_event, METH_VARARGS | METH_KEYWORDS,
     "send_event($self, /, kind, data=b'')\n--\n\n"
     "Sends a message in order with the frames; kinds with the bit 1 << 31 also reach later\n"
     "receivers."},
    {"send_eos", method_send_eos, METH_NOARGS,
     "send_eos($self, /)\n--\n\nEnds the stream; the next frame begins another."},
    {"set_slow_receiver", method_set_slow_receiver, METH_O,
     "set_slow_receiver($self, policy, /)\n--\n\n'block', 'drop-newest' or 'drop-oldest'."},
    {"take_key_request", method_take_key_request, METH_NOARGS,
     "take_key_request($self, /)\n--\n\n"
     "Whether a key frame has been asked for since the last call, by a receiver or because one is\n"
     "new or has lost a frame: None, or {'at_once': bool, 'all_headers': bool, 'time': ns or "
     "None}."},
    {"announce", method_announce, METH_NOARGS,
     "announce($self, /)\n--\n\nA frame comes soon: receivers wake up meanwhile."},
    {"fileno", guard_method_fileno, METH_NOARGS,
     "fileno($self, /)\n--\n\nA descriptor to poll, for calls with a timeout of 0."},
    {"close", guard_method_close, METH_NOARGS,
     "close($self, /)\n--\n\nStops sending. Calls that wait in other threads raise Closed."},
    {0},
};

static PyGetSetDef attributes[] = {
    {"info", sender_get_info, NULL,
     "State and counters, as gpud_sender_info has them; of a closed one, the last.", NULL},
    {"links", get_links, NULL, "Its receivers, as gpud_link_info has them.", NULL},
    {"media", get_media, NULL, "What its frames are, in the syntax of caps, or None.", NULL},
    {"closed", guard_get_closed, NULL, "Whether it was closed.", NULL},
    {0},
};

static PyType_Slot slots[] = {
    {Py_tp_new, sender_make},
    {Py_tp_dealloc, sender_free},
    {Py_tp_methods, methods},
    {Py_tp_getset, attributes},
    {Py_tp_doc, "The C part of gpudirect.Sender."},
    {0},
};

PyType_Spec sender_spec = {
    .name = "gpudirect._gpudirect.Sender",
    .basicsize = sizeof(struct sender),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .slots = slots,
};
