/* Converts a plain OffsetCommit request to Python objects, see plain_commit.h. All functions hold the GIL. */
#include "plain_commit_module.h"

#include "plain_commit.h"

const char plain_commit_doc[]
    = "plain_commit(version, correlation_id, body, now_ms, committed)\n"
      "    -> (group id, generation id, member id, group instance id or None, topics, batch, response), or None\n\n"
      "Decode an OffsetCommit request with neither metadata nor tagged fields, of at most 100 partitions. None: others.\n"
      "topics: (name, partitions, committed offsets) each; the offsets are objects of the NamedTuple `committed`\n"
      "(offset, leader epoch, metadata, now_ms, no expiry time). batch: the records, with the timestamp now_ms,\n"
      "without a CRC. response: without errors.";

#define NO_EXPIRY (-1)

static unsigned long long handled;

unsigned long long plain_commits_handled(void)
{
    return handled;
}

static PyObject *new_text(Bytes text)
{
    if (text.start == NULL)
        Py_RETURN_NONE;
    return PyUnicode_FromStringAndSize((const char *)text.start, (Py_ssize_t)text.size);
}

/* Creates objects by tuple.__new__(type, (offset, leader epoch, ...)), because in Python 3.14 nothing else initializes
 * the hash. It copies the fields, so all rows share one tuple of fields. */
typedef struct {
    PyTypeObject *type;
    newfunc make;
    PyObject *arguments, *fields; /* `arguments` has the only reference to `fields`, so it may be changed */
} CommittedType;

static PyObject *new_committed(const CommittedType *shared, CommittedRow row)
{
    PyObject *offset = PyLong_FromLongLong(row.offset), *leader_epoch = PyLong_FromLong(row.leader_epoch);
    if (!offset || !leader_epoch) {
        Py_XDECREF(offset);
        Py_XDECREF(leader_epoch);
        return NULL;
    }
    PyTuple_SetItem(shared->fields, 0, offset); /* takes the reference */
    PyTuple_SetItem(shared->fields, 1, leader_epoch);
    return shared->make(shared->type, shared->arguments, NULL);
}

static PyObject *new_topic(const CommittedType *shared, const CommittedTopic *topic)
{
    PyObject *partitions = PyTuple_New(topic->row_count), *committed = PyTuple_New(topic->row_count);
    bool is_whole = partitions && committed;
    for (int32_t index = 0; is_whole && index < topic->row_count; index++) {
        CommittedRow row = committed_row(topic, index);
        PyObject *number = PyLong_FromLong(row.partition), *value = new_committed(shared, row);
        is_whole = number && value;
        PyTuple_SetItem(partitions, index, number);
        PyTuple_SetItem(committed, index, value);
    }
    PyObject *name = is_whole ? new_text(topic->name) : NULL;
    if (name)
        return Py_BuildValue("(NNN)", name, partitions, committed);
    Py_XDECREF(partitions);
    Py_XDECREF(committed);
    return NULL;
}

static PyObject *new_topics(const PlainCommit *commit, const CommittedType *shared)
{
    PyObject *topics = PyTuple_New(commit->topic_count);
    Reader reader = commit->topics;
    for (int32_t index = 0; topics && index < commit->topic_count; index++) {
        CommittedTopic topic = {0};
        read_committed_topic(&reader, &topic); /* was already read once */
        PyObject *made = new_topic(shared, &topic);
        if (made)
            PyTuple_SetItem(topics, index, made);
        else
            Py_CLEAR(topics);
    }
    return topics;
}

static PyObject *new_batch(const PlainCommit *commit, int64_t now_ms)
{
    PyObject *batch = PyByteArray_FromStringAndSize(NULL, (Py_ssize_t)commit->most_batch_bytes);
    if (!batch)
        return NULL;
    size_t size = write_commit_batch(commit, now_ms, (uint8_t *)PyByteArray_AsString(batch));
    if (PyByteArray_Resize(batch, (Py_ssize_t)size) < 0)
        Py_CLEAR(batch);
    return batch;
}

static PyObject *new_response(const PlainCommit *commit, int32_t correlation_id)
{
    uint8_t *bytes = PyMem_Malloc(commit->most_response_bytes);
    if (!bytes)
        return PyErr_NoMemory();
    size_t size = write_commit_response(commit, correlation_id, bytes);
    PyObject *response = PyBytes_FromStringAndSize((const char *)bytes, (Py_ssize_t)size);
    PyMem_Free(bytes);
    return response;
}

static PyObject *converted(const PlainCommit *commit, int32_t correlation_id, PyObject *now, PyTypeObject *type)
{
    long long now_ms = PyLong_AsLongLong(now);
    if (now_ms == -1 && PyErr_Occurred())
        return NULL;
    PyObject *result = NULL, *arguments = Py_BuildValue("((iisOi))", 0, 0, "", now, NO_EXPIRY);
    if (!arguments)
        return NULL;
    CommittedType shared = {
        type, (newfunc)PyType_GetSlot(&PyTuple_Type, Py_tp_new), arguments, PyTuple_GetItem(arguments, 0),
    };
    PyObject *topics = new_topics(commit, &shared);
    if (topics)
        result = Py_BuildValue(
            "(NiNNNNN)", new_text(commit->group_id), commit->generation_id, new_text(commit->member_id),
            new_text(commit->group_instance_id), topics, new_batch(commit, now_ms),
            new_response(commit, correlation_id));
    Py_DECREF(arguments);
    return result;
}

PyObject *py_plain_commit(PyObject *module, PyObject *const *args, Py_ssize_t arg_count)
{
    if (arg_count != 5)
        return PyErr_Format(PyExc_TypeError, "%zd arguments instead of 5", arg_count);
    long version = PyLong_AsLong(args[0]);
    long correlation_id = PyErr_Occurred() ? 0 : PyLong_AsLong(args[1]);
    if (PyErr_Occurred())
        return NULL;
    if (!PyType_Check(args[4]) || !PyType_IsSubtype((PyTypeObject *)args[4], &PyTuple_Type))
        return PyErr_Format(PyExc_TypeError, "`committed` is not a class of tuples");
    Py_buffer body;
    if (PyObject_GetBuffer(args[2], &body, PyBUF_SIMPLE) < 0)
        return NULL;
    PlainCommit commit;
    PyObject *result;
    if (read_plain_commit((int)version, body.buf, (size_t)body.len, &commit)) {
        handled++;
        result = converted(&commit, (int32_t)correlation_id, args[3], (PyTypeObject *)args[4]);
    } else {
        result = Py_NewRef(Py_None);
    }
    PyBuffer_Release(&body);
    return result;
}
