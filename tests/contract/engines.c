/* Two components in C, as anybody may write them: a tensor engine with a fixed service time, and one that follows a script.
 * tests/contract/engines.py has the same two in Python; tests/contract/compiled.py builds this file against abi.h. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <string.h>

#include "abi.h"

/* ---- A tensor engine: init + body + finalize cycles a job, or `latency` where that is above 0; one job at a time. */

typedef struct {
    int64_t latency, job, due, free_at;
} FixedState;

typedef struct {
    kb_engine_ops ops;
    const kb_core_api *core;
    FixedState is;
} Fixed;

static int64_t fixed_end(Fixed *f, int64_t now) {
    f->core->complete(f->core->core, f->is.job);
    f->is.job = -1;
    f->is.due = KB_NEVER;
    f->is.free_at = now + 1; /* this cycle is the job's last */
    return KB_NEVER;
}

static int64_t fixed_accept(void *self, const kb_job *job, int64_t now) {
    Fixed *f = self;
    if (f->is.job >= 0 || now < f->is.free_at)
        return KB_BUSY;
    int64_t cycles = f->is.latency > 0 ? f->is.latency : job->params[0] + job->params[1] + job->params[2];
    f->is.job = job->id;
    f->is.due = now + cycles - 1;
    return f->is.due == now ? fixed_end(f, now) : f->is.due;
}

static int64_t fixed_advance(void *self, int64_t now, const kb_core_api *core) {
    Fixed *f = self;
    f->core = core;
    return f->is.job >= 0 && now == f->is.due ? fixed_end(f, now) : f->is.due;
}

static int64_t fixed_snapshot(void *self, void *buf, int64_t room) {
    if (room >= (int64_t)sizeof(FixedState))
        memcpy(buf, &((Fixed *)self)->is, sizeof(FixedState));
    return sizeof(FixedState);
}

static int64_t fixed_restore(void *self, const void *buf, int64_t n) {
    if (n != sizeof(FixedState))
        return KB_FAILED;
    memcpy(&((Fixed *)self)->is, buf, n);
    return KB_OK;
}

/* ---- A script: in cycle `at` do `what`. Every notice is written down as (kind, which, cycle). */

enum { OPEN, CLOSE, ASK, SUBMIT, EMIT, WATCH, SHAPE, COUNT, STARTED };
enum { MOST = 64 };

typedef struct {
    int64_t at, what, a, b, c;
} Action;

typedef struct {
    int64_t next, n_log, job, due, ids[MOST], log[2 * MOST][3];
} ScriptState;

typedef struct {
    kb_engine_ops ops;
    const kb_core_api *core;
    int64_t n, latency;
    Action action[MOST];
    ScriptState is;
} Script;

static void script_note(Script *s, int64_t kind, int64_t which, int64_t now) {
    if (s->is.n_log < 2 * MOST) {
        int64_t *to = s->is.log[s->is.n_log++];
        to[0] = kind, to[1] = which, to[2] = now;
    }
}

#ifndef FIRST_HEADER /* functions that abi.h has got since its first version */

/* How many share a resource, and of the first two what they are: one number for each. */
static void script_members(Script *s, int64_t resource, int64_t now) {
    kb_member found[2];
    int64_t n = s->core->members(s->core->core, (int32_t)resource, found, 2);
    script_note(s, 101, n, now);
    for (int64_t k = 0; k < n && k < 2; k++)
        script_note(s, 101, ((found[k].engine + 1) * 100 + found[k].weight) * 1000000 + found[k].nbytes * 100 + found[k].num, now);
}

/* Watch a resource, set its capacity, or say who shares it. */
static void script_shape(Script *s, const Action *a, int64_t now) {
    const kb_core_api *k = s->core;
    int64_t said = KB_OK;
    if (a->what == COUNT)
        script_members(s, a->a, now);
    else
        said = a->what == WATCH ? k->watch(k->core, (int32_t)a->a) : k->set_capacity(k->core, (int32_t)a->a, a->b, 1);
    if (said != KB_OK)
        script_note(s, 103, said, now);
}

#endif

static int64_t script_do(Script *s, const Action *a, int64_t now) {
    const kb_core_api *k = s->core;
    if (a->what == OPEN) {
        int32_t path[2] = {(int32_t)(a->b % 1000), (int32_t)(a->b / 1000)};
        return k->open_flow(k->core, a->a, path, path[1] ? 2 : 1, (int32_t)a->c);
    }
    if (a->what == CLOSE) {
        if (s->is.ids[a->a] >= 0)
            script_note(s, 100, k->close_flow(k->core, s->is.ids[a->a]), now);
        s->is.ids[a->a] = -1;
        return -1;
    }
    if (a->what == ASK) {
        uint64_t reads = (uint64_t)a->a, writes = (uint64_t)a->b;
        return k->ask_banks(k->core, (int32_t)a->c, &reads, &writes, 1);
    }
    if (a->what == SUBMIT) {
        kb_job job;
        memset(&job, 0, sizeof job);
        job.n_params = 6;
        job.n_regions = 1;
        job.region[0].nbytes = 64;
        if (a->a == KB_DMA) {
            int64_t params[6] = {0, 0, 256 * a->c, 64 * a->c, 64 * a->c, 1};
            memcpy(job.params, params, sizeof params);
        } else {
            job.params[1] = a->c;
        }
        return k->submit(k->core, (int32_t)a->a, (int32_t)a->b, &job);
    }
#ifndef FIRST_HEADER
    if (a->what == WATCH || a->what == SHAPE || a->what == COUNT) {
        script_shape(s, a, now);
        return -1;
    }
#endif
    if (a->what == STARTED) {
        if (s->is.ids[a->a] >= 0) {
            int64_t at = k->started(k->core, s->is.ids[a->a]);
            script_note(s, 102, at == KB_BUSY ? KB_NEVER : at, now);
        }
        return -1;
    }
    if (s->is.job >= 0)
        k->emit(k->core, s->is.job, "said", a->a);
    return -1;
}

static int64_t script_when(Script *s) {
    int64_t at = s->is.next < s->n ? s->action[s->is.next].at : KB_NEVER;
    return s->is.due < at ? s->is.due : at;
}

static int64_t script_advance(void *self, int64_t now, const kb_core_api *core) {
    Script *s = self;
    s->core = core;
    if (s->is.due == now) {
        core->complete(core->core, s->is.job);
        s->is.job = -1;
        s->is.due = KB_NEVER;
    }
    for (; s->is.next < s->n && s->action[s->is.next].at <= now; s->is.next++)
        s->is.ids[s->is.next] = script_do(s, &s->action[s->is.next], now);
    return script_when(s);
}

static int64_t script_accept(void *self, const kb_job *job, int64_t now) {
    Script *s = self;
    if (s->is.job >= 0)
        return KB_BUSY;
    s->is.job = job->id;
    s->is.due = now + s->latency;
    return s->is.due;
}

static int64_t script_notify(void *self, int32_t notice, int64_t id, int64_t now) {
    Script *s = self;
    int64_t which = 0;
#ifndef FIRST_HEADER
    if (notice == KB_MEMBERS) {
        script_note(s, notice, id, now);
        return KB_NEVER;
    }
#endif
    while (which < s->is.next && s->is.ids[which] != id)
        which++;
    s->is.ids[which] = -1;
    script_note(s, notice, which, now);
    return KB_NEVER;
}

static int64_t script_snapshot(void *self, void *buf, int64_t room) {
    if (room >= (int64_t)sizeof(ScriptState))
        memcpy(buf, &((Script *)self)->is, sizeof(ScriptState));
    return sizeof(ScriptState);
}

static int64_t script_restore(void *self, const void *buf, int64_t n) {
    if (n != sizeof(ScriptState))
        return KB_FAILED;
    memcpy(&((Script *)self)->is, buf, n);
    return KB_OK;
}

/* ---- A sleeper: runs every `latency` cycles and does nothing. */

static int64_t sleeper_advance(void *self, int64_t now, const kb_core_api *core) {
    (void)core;
    return ((Fixed *)self)->is.latency ? now + ((Fixed *)self)->is.latency : KB_NEVER;
}

/* ---- Python: make them, read the script's notes. */

static void forget(PyObject *capsule) { PyMem_Free(PyCapsule_GetPointer(capsule, KB_CAPSULE)); }

static PyObject *hand_over(kb_engine_ops *ops, const char *name, int32_t places) {
    ops->abi_version = KB_ABI_VERSION;
    ops->struct_size = sizeof(kb_engine_ops);
    ops->self = ops;
    ops->name = name;
    ops->jobs = ops->flows = ops->asks = places;
    return PyCapsule_New(ops, KB_CAPSULE, forget);
}

static PyObject *make_fixed(PyObject *module, PyObject *args) {
    long long latency = 0;
    if (!PyArg_ParseTuple(args, "|L", &latency))
        return NULL;
    Fixed *f = PyMem_Calloc(1, sizeof(Fixed));
    if (!f)
        return PyErr_NoMemory();
    f->is.latency = latency;
    f->is.job = -1;
    f->is.due = KB_NEVER;
    f->ops.accept = fixed_accept;
    f->ops.advance = fixed_advance;
    f->ops.snapshot = fixed_snapshot;
    f->ops.restore = fixed_restore;
    return hand_over(&f->ops, "Fixed", 0);
}

static PyObject *make_sleeper(PyObject *module, PyObject *args) {
    long long latency = 0;
    if (!PyArg_ParseTuple(args, "|L", &latency))
        return NULL;
    Fixed *f = PyMem_Calloc(1, sizeof(Fixed));
    if (!f)
        return PyErr_NoMemory();
    f->is.latency = latency;
    f->ops.advance = sleeper_advance;
    return hand_over(&f->ops, "Sleeper", 0);
}

static PyObject *make_script(PyObject *module, PyObject *args) {
    const char *data;
    Py_ssize_t size;
    long long latency;
    if (!PyArg_ParseTuple(args, "y#L", &data, &size, &latency))
        return NULL;
    if (size % sizeof(Action) || size > (Py_ssize_t)(MOST * sizeof(Action))) {
        PyErr_SetString(PyExc_ValueError, "a script has at most 64 actions of five numbers");
        return NULL;
    }
    Script *s = PyMem_Calloc(1, sizeof(Script));
    if (!s)
        return PyErr_NoMemory();
    memcpy(s->action, data, size);
    s->n = size / sizeof(Action);
    s->latency = latency;
    s->is.job = -1;
    s->is.due = KB_NEVER;
    s->ops.accept = script_accept;
    s->ops.advance = script_advance;
    s->ops.notify = script_notify;
    s->ops.snapshot = script_snapshot;
    s->ops.restore = script_restore;
    return hand_over(&s->ops, "Script", MOST);
}

static PyObject *read_log(PyObject *module, PyObject *capsule) {
    Script *s = PyCapsule_GetPointer(capsule, KB_CAPSULE);
    return s ? PyBytes_FromStringAndSize((const char *)s->is.log, s->is.n_log * sizeof s->is.log[0]) : NULL;
}

/* A component that says what is asked for of its own version and size. */
static PyObject *make_liar(PyObject *module, PyObject *args) {
    unsigned int version, size;
    int jobs = 0;
    if (!PyArg_ParseTuple(args, "II|i", &version, &size, &jobs))
        return NULL;
    PyObject *made = make_sleeper(module, PyTuple_New(0));
    kb_engine_ops *ops = PyCapsule_GetPointer(made, KB_CAPSULE);
    ops->abi_version = version;
    ops->struct_size = size;
    ops->jobs = jobs;
    return made;
}

static PyMethodDef methods[] = {
    {"fixed", make_fixed, METH_VARARGS, "A tensor engine with a service time."},
    {"sleeper", make_sleeper, METH_VARARGS, "Runs every so many cycles; 0: never again."},
    {"script", make_script, METH_VARARGS, "Follows a script."},
    {"log", read_log, METH_O, "What a script was told, as bytes of int64."},
    {"liar", make_liar, METH_VARARGS, "Lies about its ABI."},
    {NULL, NULL, 0, NULL}};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "engines", NULL, -1, methods};

PyMODINIT_FUNC PyInit_engines(void) {
    PyObject *module = PyModule_Create(&definition);
    if (module)
        PyModule_AddIntConstant(module, "OPS_SIZE", sizeof(kb_engine_ops));
    return module;
}
