/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The receivers are the group's own, so that nothing else can acquire from them. */
#include "python.h"

#include <gpudirect/group.h>

#include <string.h>

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
    char paths[GPUD_GROUP_MEMBERS_MAX][32];
    struct media *media[GPUD_GROUP_MEMBERS_MAX]; /* NULL: none was announced */
    struct events events;
};

static PyTypeObject *type;

static const char *const states[] = {"present", "late", "skipped", "apart", "absent", "ended"};

/* --- inside gpud_group_acquire(), without the GIL ------------------------------------------ */

static void group_on_event(void *user, uint32_t member, enum gpud_event event, const void *data)
{
    struct group *self = user;
    if (event == GPUD_EVENT_CONNECTED) {
        memcpy(self->paths[member], ((const struct gpud_peer_info *)data)->path,
               sizeof(self->paths[member]));
    } else if (event == GPUD_EVENT_FORMAT) {
        media_unref(self->media[member]);
        self->media[member] = media_new(&((const struct gpud_format_event *)data)->media);
    } else if (event == GPUD_EVENT_USER && self->on_event) {
        events_note(&self->events, member, data);
    }
}

struct call {
    struct group *self;
    struct gpud_group_request request;
    struct gpud_group_instant instant;
    struct media *media[GPUD_GROUP_MEMBERS_MAX];
    char paths[GPUD_GROUP_MEMBERS_MAX][32];
    struct events events;
};

static enum gpud_status group_acquire_slice(void *user, int64_t timeout_ns,
                                            struct gpud_error *error)
{
    struct call *call = user;
    struct group *self = call->self;
    enum gpud_status status =
        gpud_group_acquire(self->group, &call->request, timeout_ns, &call->instant, error);
    for (uint32_t i = 0; i < self->count && status == GPUD_OK; i++)
        if (call->instant.frames[i] && self->media[i])
            call->media[i] = media_ref(self->media[i]);
    memcpy(call->paths, self->paths, sizeof(call->paths));
    call->events = events_take(&self->events);
    return status;
}

/* --- in a thread of the group ---------------------------------------------------------------- */

static PyObject *group_describe(const struct gpud_frame_info *info)
{
    return Py_BuildValue("{s:N,s:N,s:N,s:N,s:I,s:K,s:y#}", "pts", convert_time(info->pts_ns), "dts",
                         convert_time(info->dts_ns), "duration", convert_time(info->duration_ns),
                         "offset", convert_time(info->offset), "flags", (unsigned)info->flags,
                         "number", (unsigned long long)info->sequence, "meta",
                         (const char *)info->meta, (Py_ssize_t)info->meta_size);
}

/* What raises has no caller: it is printed, and the frame has no time. */
static uint64_t get_time(void *user, uint32_t member, const struct gpud_frame_info *info)
{
    struct group *self = user;
    uint64_t time = GPUD_TIME_NONE;
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *frame = group_describe(info);
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

static int finish_slice(void *user)
{
    struct call *call = user;
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

static void read_info(PyObject *object)
{
    struct group *self = (struct group *)object;
    /* Behind the members, all of them. */
    for (uint32_t i = 0; self->group && i <= self->count; i++) {
        self->info[i] = (struct gpud_group_info)GPUD_INFO_INIT(self->info[i]);
        gpud_group_get_info(self->group, i, &self->info[i]);
    }
}

static const struct guard_ops guard_ops = {"group", group_destroy, group_get_fd, read_info};

/* The member's frame, which is taken out of the call, or None; NULL with an exception. */
static PyObject *make_frame(struct call *call, uint32_t member)
{
    struct gpud_frame *frame = call->instant.frames[member];
    call->instant.frames[member] = NULL;
    if (!frame)
        return Py_NewRef(Py_None);
    if (!call->media[member]) {
        gpud_frame_release(&frame);
        return PyErr_NoMemory();
    }
    struct hold *hold = hold_new(frame, call->media[member], false);
    if (!hold)
        return NULL;
    hold->allow_old_dlpack = call->self->allow_old_dlpack;
    memcpy(hold->route, call->paths[member], sizeof(hold->route));
    return frame_new(hold, NULL);
}

static PyObject *make_state(enum gpud_group_state state)
{
    bool known = (unsigned)state < sizeof(states) / sizeof(states[0]);
    return PyUnicode_FromString(known ? states[state] : "unknown");
}

static PyObject *make_instant(struct call *call)
{
    const struct gpud_group_instant *instant = &call->instant;
    uint32_t count = call->self->count;
    PyObject *frames = PyTuple_New(count), *all_states = PyTuple_New(count);
    for (uint32_t i = 0; i < count && frames && all_states; i++) {
        PyObject *frame = make_frame(call, i), *state = make_state(instant->states[i]);
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
    struct call call = {
        .self = self, .request = *request, .instant = {.size = sizeof(call.instant)}};
    *status = GPUD_CLOSED;
    if (!guard_enter(&self->base))
        return NULL;
    int result =
        guard_wait(&self->base, timeout_ns, true, group_acquire_slice, finish_slice, &call, status);
    PyObject *instant = result == 0 ? make_instant(&call) : NULL;
    for (uint32_t i = 0; i < self->count; i++) {
        gpud_frame_release(&call.instant.frames[i]);
        media_unref(call.media[i]);
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
    if (instant || status != GPUD_TIMEOUT)
        return instant;
    PyErr_Clear();
    return Py_NewRef(Py_None);
}

static PyObject *group_next(PyObject *object)
{
    struct group *self = (struct group *)object;
    struct gpud_group_request request = next_of(self);
    enum gpud_status status;
    PyObject *instant = group_acquire(self, &request, self->timeout_ns, &status);
    if (!instant && status == GPUD_CLOSED && !PyErr_ExceptionMatches(PyExc_RuntimeError))
        PyErr_Clear();
    return instant;
}

static PyObject *member_info(const struct group *self, uint32_t member)
{
    const struct gpud_group_info info = self->info[member];
    return Py_BuildValue(
        "{s:N,s:I,s:I,s:K,s:K,s:K,s:K,s:L,s:L,s:N,s:N,s:K,s:K,s:N}", "connected",
        PyBool_FromLong(info.connected), "held", info.held, "room", info.room, "frames",
        info.frames, "handed_on", info.handed_on, "untimed", info.untimed, "missed", info.missed,
        "behind_ns", (long long)info.behind_ns, "offset_ns", (long long)info.offset_ns, "reason",
        convert_text(info.reason), "frozen", PyBool_FromLong(info.frozen), "ignored", info.ignored,
        "late", info.late, "warning", convert_text(info.warning));
}

static PyObject *group_get_info(PyObject *object, void *closure)
{
    struct group *self = (struct group *)object;
    if (!guard_read_info(&self->base))
        return NULL;
    const struct gpud_group_info info = self->info[self->count];
    PyObject *members = PyTuple_New(self->count);
    for (uint32_t i = 0; i < self->count && members; i++) {
        PyObject *member = member_info(self, i);
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

/* What is to be created: without the GIL. */
struct creation {
    struct group *self;
    struct gpud_context *context;
    const char *addresses[GPUD_GROUP_MEMBERS_MAX], *devices[GPUD_GROUP_MEMBERS_MAX];
    struct gpud_receiver_params receiver;
    struct gpud_group_params group;
};

static enum gpud_status group_create(struct creation *creation, struct gpud_error *error)
{
    struct group *self = creation->self;
    enum gpud_status status = GPUD_OK;
    for (uint32_t i = 0; i < self->count && status == GPUD_OK; i++) {
        creation->receiver.address = creation->addresses[i];
        creation->receiver.device = creation->devices[i];
        status = gpud_receiver_create(creation->context, &creation->receiver, &self->receivers[i],
                                      error);
    }
    creation->group.on_event = group_on_event;
    creation->group.time = self->time ? get_time : NULL;
    creation->group.user = self;
    if (status == GPUD_OK)
        status = gpud_group_create(creation->context, &creation->group, self->receivers,
                                   self->count, &self->group, error);
    return status;
}

/* members: a tuple of pairs of texts, which are borrowed. */
static bool read_members(struct creation *creation, PyObject *members)
{
    Py_ssize_t count = PyTuple_Size(members);
    if (count < 1 || count > GPUD_GROUP_MEMBERS_MAX) {
        if (!PyErr_Occurred())
            PyErr_Format(PyExc_ValueError, "a group has 1 to %d members", GPUD_GROUP_MEMBERS_MAX);
        return false;
    }
    creation->self->count = (uint32_t)count;
    for (Py_ssize_t i = 0; i < count; i++)
        if (!PyArg_ParseTuple(PyTuple_GetItem(members, i), "sO&", &creation->addresses[i],
                              convert_parse_device, &creation->devices[i]))
            return false;
    return true;
}

static PyObject *group_make(PyTypeObject *own, PyObject *args, PyObject *names)
{
    static char *keywords[] = {
        "members", "any",      "history",   "tolerance",     "latency",        "freeze_timeout",
        "timeout", "name",     "slots",     "slow_receiver", "require_direct", "route",
        "access",  "psk_file", "busy_poll", "on_event",      "time",           "allow_old_dlpack",
        NULL};
    struct creation creation = {.receiver = {.size = sizeof(creation.receiver)},
                                .group = {.size = sizeof(creation.group)}};
    PyObject *members, *handler = NULL, *time = NULL;
    int any = 0, direct = 0, allow_old = 0;
    int64_t timeout_ns = INT64_MAX;
    struct gpud_error error;
    enum gpud_status status;
    if (!PyArg_ParseTupleAndKeywords(
            args, names, "O!pIO&O&O&O&zIO&pzzzO&O&O&p:Group", keywords, &PyTuple_Type, &members,
            &any, &creation.group.history, guard_parse_timeout, &creation.group.tolerance_ns,
            guard_parse_timeout, &creation.group.latency_ns, guard_parse_timeout,
            &creation.group.freeze_timeout_ns, guard_parse_timeout, &timeout_ns,
            &creation.receiver.name, &creation.receiver.slots, convert_parse_policy,
            &creation.receiver.slow_receiver, &direct, &creation.receiver.route,
            &creation.receiver.access, &creation.receiver.psk_file, convert_parse_busy_poll,
            &creation.receiver.busy_poll_ns, events_parse_handler, &handler, events_parse_handler,
            &time, &allow_old))
        return NULL;
    creation.receiver.require_direct = direct;
    creation.group.mode = any ? GPUD_GROUP_ANY : GPUD_GROUP_ALL;
    creation.context = context_get();
    if (!creation.context)
        return NULL;
    struct group *self = creation.self = (struct group *)guard_new(own, &guard_ops);
    if (!self)
        return NULL;
    self->timeout_ns = timeout_ns;
    self->allow_old_dlpack = allow_old;
    self->on_event = Py_XNewRef(handler);
    self->time = Py_XNewRef(time);
    if (!read_members(&creation, members)) {
        Py_DECREF(self);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    status = group_create(&creation, &error);
    Py_END_ALLOW_THREADS
    if (status != GPUD_OK) {
        Py_DECREF(self);
        return error_raise(&error);
    }
    return (PyObject *)self;
}

static int traverse(PyObject *object, visitproc visit, void *arg)
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
        media_unref(self->media[i]);
    guard_free(object);
}

static PyMethodDef methods[] = {
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

static PyGetSetDef attributes[] = {
    {"info", group_get_info, NULL,
     "State and counters, as gpud_group_info has them; of a closed one, the last.", NULL},
    {"preferred", get_preferred, set_preferred,
     "Mode \"any\": the member that is taken if it is in time.", NULL},
    {"closed", guard_get_closed, NULL, "Whether it was closed.", NULL},
    {0},
};

static PyType_Slot slots[] = {
    {Py_tp_new, group_make},
    {Py_tp_dealloc, group_free},
    {Py_tp_traverse, traverse},
    {Py_tp_clear, group_clear},
    {Py_tp_iter, PyObject_SelfIter},
    {Py_tp_iternext, group_next},
    {Py_tp_methods, methods},
    {Py_tp_getset, attributes},
    {Py_tp_doc, "The C part of gpudirect.Group."},
    {0},
};

static PyType_Spec spec = {
    .name = "gpudirect._gpudirect.Group",
    .basicsize = sizeof(struct group),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = slots,
};

int group_init(PyObject *module)
{
    if (!type)
        type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, NULL);
    return type ? PyModule_AddObjectRef(module, "Group", (PyObject *)type) : -1;
}
