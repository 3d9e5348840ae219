/* The Python interface of the native code: checks arguments and converts results. Only this file and
 * plain_commit_module.c use Python.
 *
 * No format string contains a '#': built with the headers of 3.13, it would raise SystemError in 3.11 and 3.12. */
#include <Python.h>

#include "compaction.h"
#include "plain_commit_module.h"
#include "produce.h"
#include "record_check.h"

#define RESPONSE_BYTES 4096 /* longer ones are written in Python */

/* Number of completed calls of each function, for the metric; see `handled`. */
static unsigned long long checked_batches, read_requests, written_responses;

/* -- compaction ------------------------------------------------------------------------------------------------------ */

static int is_map(const Py_buffer *secret, const Py_buffer *table)
{
    if (secret->len == SECRET_BYTES && table->len % (Py_ssize_t)sizeof(Entry) == 0
        && table->len >= 2 * (Py_ssize_t)sizeof(Entry) && (uintptr_t)table->buf % sizeof(uint64_t) == 0)
        return 1;
    PyErr_SetString(PyExc_ValueError, "a secret must have 16 bytes, a table at least two aligned entries of 24 bytes");
    return 0;
}

static int is_inside(const Py_buffer *data, Py_ssize_t start)
{
    if (start >= 0 && start <= data->len)
        return 1;
    PyErr_SetString(PyExc_ValueError, "the records must start inside the data");
    return 0;
}

static PyObject *malformed(void)
{
    PyErr_SetString(PyExc_ValueError, "a record of the batch is malformed or missing");
    return NULL;
}

PyDoc_STRVAR(digest_doc, "digest(secret, key) -> bytes\n\nThe key's 128-bit SipHash with a secret of 16 bytes.");

static PyObject *py_digest(PyObject *module, PyObject *args)
{
    Py_buffer secret, key;
    PyObject *found = NULL;
    if (!PyArg_ParseTuple(args, "y*y*", &secret, &key))
        return NULL;
    if (secret.len == SECRET_BYTES) {
        Digest digest = siphash(secret.buf, key.buf, (size_t)key.len);
        uint8_t bytes[16];
        for (unsigned index = 0; index < 8; index++) {
            bytes[index] = (uint8_t)(digest.low >> 8 * index);
            bytes[8 + index] = (uint8_t)(digest.high >> 8 * index);
        }
        found = PyBytes_FromStringAndSize((const char *)bytes, sizeof bytes);
    } else {
        PyErr_SetString(PyExc_ValueError, "a secret must have 16 bytes");
    }
    PyBuffer_Release(&secret);
    PyBuffer_Release(&key);
    return found;
}

PyDoc_STRVAR(note_keys_doc,
    "note_keys(data, start, count, base_offset, last_offset_delta, start_offset,\n"
    "          secret, table, size, max_size, first_offset, replaced) -> (size, is_full, in_order)\n\n"
    "Store the last offset of each key of a batch in the table of an offset map. Raises ValueError.");

static PyObject *py_note_keys(PyObject *module, PyObject *args)
{
    Py_buffer data, secret, table, replaced;
    Py_ssize_t start;
    int count, last_offset_delta;
    long long base_offset, start_offset, first_offset;
    unsigned long long size, max_size;
    PyObject *found = NULL;
    if (!PyArg_ParseTuple(
            args, "y*niLiLy*w*KKLw*:note_keys", &data, &start, &count, &base_offset, &last_offset_delta, &start_offset,
            &secret, &table, &size, &max_size, &first_offset, &replaced))
        return NULL;
    if (!is_map(&secret, &table) || !is_inside(&data, start))
        goto release;
    OffsetMap map = {
        secret.buf, table.buf, (uint64_t)table.len / sizeof(Entry), size, max_size,
        replaced.buf, first_offset, (uint64_t)replaced.len * 8,
    };
    Records records = {
        (const uint8_t *)data.buf + start, (const uint8_t *)data.buf + data.len, count, last_offset_delta, base_offset,
    };
    if (max_size >= map.slots || start_offset < 0) {
        PyErr_SetString(PyExc_ValueError, "max_size must be below the number of slots, start_offset at least 0");
        goto release;
    }
    bool in_order;
    Status status;
    Py_BEGIN_ALLOW_THREADS
    status = note_keys(&map, &records, start_offset, &in_order);
    Py_END_ALLOW_THREADS
    if (status == MALFORMED)
        malformed();
    else
        found = Py_BuildValue(
            "(KOO)", (unsigned long long)map.size, status == FULL ? Py_True : Py_False, in_order ? Py_True : Py_False);
release:
    PyBuffer_Release(&data);
    PyBuffer_Release(&secret);
    PyBuffer_Release(&table);
    PyBuffer_Release(&replaced);
    return found;
}

PyDoc_STRVAR(choose_doc,
    "choose(data, start, count, base_offset, latest_offset, keeps_tombstones, secret, table, first_offset, replaced)\n"
    "    -> (kept count, keyless count, has a tombstone, largest timestamp delta, kept records)\n\n"
    "The records of a batch that a cleaning keeps. Raises ValueError.");

static PyObject *py_choose(PyObject *module, PyObject *args)
{
    Py_buffer data, secret, table, replaced;
    Py_ssize_t start;
    int count, keeps_tombstones;
    long long base_offset, latest_offset, first_offset;
    uint8_t *out = NULL;
    PyObject *found = NULL;
    if (!PyArg_ParseTuple(
            args, "y*niLLpy*y*Ly*:choose", &data, &start, &count, &base_offset, &latest_offset, &keeps_tombstones,
            &secret, &table, &first_offset, &replaced))
        return NULL;
    if (!is_map(&secret, &table) || !is_inside(&data, start))
        goto release;
    OffsetMap map = {
        .secret = secret.buf, .entries = table.buf, .slots = (uint64_t)table.len / sizeof(Entry),
        .replaced = replaced.buf, .first_offset = first_offset, .replaced_count = (uint64_t)replaced.len * 8,
    };
    Records records = {
        .start = (const uint8_t *)data.buf + start, .end = (const uint8_t *)data.buf + data.len,
        .count = count, .base_offset = base_offset,
    };
    out = PyMem_Malloc((size_t)(data.len - start));
    if (!out) {
        PyErr_NoMemory();
        goto release;
    }
    Chosen chosen;
    Status status;
    Py_BEGIN_ALLOW_THREADS
    status = choose(&map, &records, latest_offset, keeps_tombstones, out, &chosen);
    Py_END_ALLOW_THREADS
    if (status == MALFORMED)
        malformed();
    else
        found = Py_BuildValue(
            "(iiOLN)", chosen.kept_count, chosen.keyless_count, chosen.has_tombstone ? Py_True : Py_False,
            (long long)chosen.max_timestamp_delta,
            PyBytes_FromStringAndSize((const char *)out, (Py_ssize_t)chosen.size));
release:
    PyMem_Free(out);
    PyBuffer_Release(&data);
    PyBuffer_Release(&secret);
    PyBuffer_Release(&table);
    PyBuffer_Release(&replaced);
    return found;
}

/* -- produce: frequently called, so arguments are passed as an array -------------------------------------------------- */

static int has_arguments(Py_ssize_t count, Py_ssize_t wanted)
{
    if (count == wanted)
        return 1;
    PyErr_Format(PyExc_TypeError, "%zd arguments instead of %zd", count, wanted);
    return 0;
}

/* Returns 0 and sets an exception if `from` is not an integer or outside of the range. */
static int get_number(PyObject *from, long long least, long long most, long long *number)
{
    *number = PyLong_AsLongLong(from);
    if (*number == -1 && PyErr_Occurred())
        return 0;
    if (*number >= least && *number <= most)
        return 1;
    PyErr_Format(PyExc_ValueError, "%lld is not between %lld and %lld", *number, least, most);
    return 0;
}

PyDoc_STRVAR(check_records_doc,
    "check_records(data, start, count, base_timestamp) -> (end, largest timestamp, counts up)\n\n"
    "Check that `count` records are readable. Raises ValueError.");

/* Holds the GIL: what one turn of the reactor checks takes less than 1 ms, except for 1 MB of empty headers, 4 ms. */
static PyObject *py_check_records(PyObject *module, PyObject *const *args, Py_ssize_t arg_count)
{
    Py_buffer data;
    long long start, count, base_timestamp;
    CheckedRecords found;
    PyObject *result = NULL;
    if (!has_arguments(arg_count, 4) || !get_number(args[2], INT32_MIN, INT32_MAX, &count)
        || !get_number(args[3], INT64_MIN, INT64_MAX, &base_timestamp))
        return NULL;
    if (PyObject_GetBuffer(args[0], &data, PyBUF_SIMPLE) < 0)
        return NULL;
    if (get_number(args[1], 0, data.len, &start)) {
        const uint8_t *bytes = data.buf;
        if (check_records(bytes + start, bytes + data.len, (int32_t)count, base_timestamp, &found)) {
            checked_batches++;
            result = Py_BuildValue(
                "(nLO)", (Py_ssize_t)(found.end - bytes), (long long)found.largest_timestamp,
                found.counts_up ? Py_True : Py_False);
        } else {
            malformed();
        }
    }
    PyBuffer_Release(&data);
    return result;
}

/* Decode UTF-8 as the Python decoder of requests does; null becomes None. */
static PyObject *text_of(Bytes bytes)
{
    if (!bytes.start)
        return Py_NewRef(Py_None);
    return PyUnicode_DecodeUTF8((const char *)bytes.start, (Py_ssize_t)bytes.size, "replace");
}

/* A slice of `body` with these bytes. `start`: the address of the first byte of `body`. */
static PyObject *view_of(PyObject *body, const uint8_t *start, Bytes bytes)
{
    PyObject *from = PyLong_FromSsize_t(bytes.start - start);
    PyObject *to = PyLong_FromSsize_t(bytes.start - start + (Py_ssize_t)bytes.size);
    PyObject *slice = from && to ? PySlice_New(from, to, NULL) : NULL;
    PyObject *view = slice ? PyObject_GetItem(body, slice) : NULL;
    Py_XDECREF(from);
    Py_XDECREF(to);
    Py_XDECREF(slice);
    return view;
}

/* Append `item` and release it. Returns 0 with an exception set, also if `item` is NULL because of an exception. */
static int append(PyObject *list, PyObject *item)
{
    int is_appended = item && PyList_Append(list, item) == 0;
    Py_XDECREF(item);
    return is_appended;
}

/* The partitions of the next topic, as a list. NULL: an error if an exception is set; otherwise not ordinary. */
static PyObject *partitions_of(Reader *reader, PyObject *body, const uint8_t *start, int32_t count)
{
    PyObject *partitions = PyList_New(0);
    int is_ordinary = partitions != NULL;
    for (int32_t index = 0; is_ordinary && index < count; index++) {
        int32_t number;
        Bytes records;
        is_ordinary = next_partition(reader, &number, &records)
            && append(partitions, Py_BuildValue("(iN)", (int)number, view_of(body, start, records)));
    }
    if (!is_ordinary || !end_topic(reader))
        Py_CLEAR(partitions);
    return partitions;
}

/* All topics, as a list. NULL has the same meaning as above. */
static PyObject *topics_of(Reader *reader, PyObject *body, const uint8_t *start, int32_t count)
{
    PyObject *topics = PyList_New(0);
    int is_ordinary = topics != NULL;
    for (int32_t index = 0; is_ordinary && index < count; index++) {
        Bytes name;
        int32_t partition_count;
        PyObject *partitions = NULL;
        is_ordinary = next_topic(reader, &name, &partition_count)
            && (partitions = partitions_of(reader, body, start, partition_count))
            && append(topics, Py_BuildValue("(NN)", text_of(name), partitions));
    }
    if (!is_ordinary)
        Py_CLEAR(topics);
    return topics;
}

PyDoc_STRVAR(read_produce_doc,
    "read_produce(version, body) -> (transactional id, acks, timeout in ms, topics), or None\n\n"
    "topics: a list of (name, list of (partition, view of its records)). None: the request is not ordinary.");

static PyObject *py_read_produce(PyObject *module, PyObject *const *args, Py_ssize_t arg_count)
{
    Py_buffer body;
    long long version;
    if (!has_arguments(arg_count, 2) || !get_number(args[0], 0, INT16_MAX, &version)
        || PyObject_GetBuffer(args[1], &body, PyBUF_SIMPLE) < 0)
        return NULL;
    Reader reader;
    ProduceStart found;
    PyObject *topics = NULL, *request = NULL;
    if (begin_request(&reader, (int)version, body.buf, (size_t)body.len, &found)
        && (topics = topics_of(&reader, args[1], body.buf, found.topic_count)) && end_topic(&reader)) {
        request = Py_BuildValue(
            "(NiiO)", text_of(found.transactional_id), (int)found.acks, (int)found.timeout_ms, topics);
        read_requests += request != NULL;
    }
    Py_XDECREF(topics);
    PyBuffer_Release(&body);
    return request || PyErr_Occurred() ? request : Py_NewRef(Py_None);
}

/* Returns 0 if the result has error details or a number that is too large; an exception may be set. */
static int get_result(PyObject *from, PartitionResult *result)
{
    long long partition, error_code, base_offset, log_append_time_ms, log_start_offset;
    if (!PyTuple_Check(from) || PyTuple_Size(from) != 8 || PyTuple_GetItem(from, 6) != Py_None
        || PyTuple_GetItem(from, 7) != Py_None || PyObject_IsTrue(PyTuple_GetItem(from, 5))
        || !get_number(PyTuple_GetItem(from, 0), INT32_MIN, INT32_MAX, &partition)
        || !get_number(PyTuple_GetItem(from, 1), INT16_MIN, INT16_MAX, &error_code)
        || !get_number(PyTuple_GetItem(from, 2), INT64_MIN, INT64_MAX, &base_offset)
        || !get_number(PyTuple_GetItem(from, 3), INT64_MIN, INT64_MAX, &log_append_time_ms)
        || !get_number(PyTuple_GetItem(from, 4), INT64_MIN, INT64_MAX, &log_start_offset))
        return 0;
    *result = (PartitionResult){
        (int32_t)partition, (int16_t)error_code, base_offset, log_append_time_ms, log_start_offset,
    };
    return 1;
}

/* Returns 0 if the topic is not a tuple (name, list of results); an exception may be set. */
static int write_one_topic(Writer *writer, int version, PyObject *topic)
{
    PyObject *results = PyTuple_Check(topic) && PyTuple_Size(topic) == 2 ? PyTuple_GetItem(topic, 1) : NULL;
    Py_ssize_t size;
    if (!results || !PyList_Check(results))
        return 0;
    const char *name = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(topic, 0), &size);
    if (!name || size > RESPONSE_BYTES || PyList_Size(results) > RESPONSE_BYTES)
        return 0;
    write_topic(writer, (Bytes){(const uint8_t *)name, (size_t)size}, (int32_t)PyList_Size(results));
    for (Py_ssize_t index = 0; index < PyList_Size(results); index++) {
        PartitionResult result;
        if (!get_result(PyList_GetItem(results, index), &result))
            return 0;
        write_result(writer, version, &result);
    }
    write_topic_end(writer);
    return !writer->is_full;
}

PyDoc_STRVAR(write_produce_doc,
    "write_produce(version, correlation_id, topics, throttle_time_ms) -> bytes, or None\n\n"
    "The response with its header. None: it is too long, or has error details.");

static PyObject *py_write_produce(PyObject *module, PyObject *const *args, Py_ssize_t arg_count)
{
    long long version, correlation_id, throttle_time_ms;
    if (!has_arguments(arg_count, 4) || !get_number(args[0], 0, INT16_MAX, &version)
        || !get_number(args[1], INT32_MIN, INT32_MAX, &correlation_id)
        || !get_number(args[3], INT32_MIN, INT32_MAX, &throttle_time_ms))
        return NULL;
    if (version < FIRST_VERSION || version > LAST_VERSION || !PyList_Check(args[2])
        || PyList_Size(args[2]) > RESPONSE_BYTES)
        return Py_NewRef(Py_None);
    uint8_t response[RESPONSE_BYTES];
    Writer writer = begin_response(
        response, sizeof response, (int)version, (int32_t)correlation_id, (int32_t)PyList_Size(args[2]));
    int is_ordinary = 1;
    for (Py_ssize_t index = 0; is_ordinary && index < PyList_Size(args[2]); index++)
        is_ordinary = write_one_topic(&writer, (int)version, PyList_GetItem(args[2], index));
    write_response_end(&writer, (int32_t)throttle_time_ms);
    if (!is_ordinary || writer.is_full) {
        PyErr_Clear(); /* the Python code will raise the same error */
        return Py_NewRef(Py_None);
    }
    written_responses++;
    return PyBytes_FromStringAndSize((const char *)response, writer.position - response);
}

PyDoc_STRVAR(handled_doc, "handled() -> dict\n\nNumber of completed calls of each function since the process started.");

static PyObject *py_handled(PyObject *module, PyObject *unused)
{
    return Py_BuildValue(
        "{s:K,s:K,s:K,s:K}", "check_records", checked_batches, "read_produce", read_requests, "write_produce",
        written_responses, "plain_commit", plain_commits_handled());
}

static PyMethodDef methods[] = {
    {"digest", py_digest, METH_VARARGS, digest_doc},
    {"note_keys", py_note_keys, METH_VARARGS, note_keys_doc},
    {"choose", py_choose, METH_VARARGS, choose_doc},
    {"check_records", (PyCFunction)(void (*)(void))py_check_records, METH_FASTCALL, check_records_doc},
    {"read_produce", (PyCFunction)(void (*)(void))py_read_produce, METH_FASTCALL, read_produce_doc},
    {"write_produce", (PyCFunction)(void (*)(void))py_write_produce, METH_FASTCALL, write_produce_doc},
    {"handled", py_handled, METH_NOARGS, handled_doc},
    {"plain_commit", (PyCFunction)(void (*)(void))py_plain_commit, METH_FASTCALL, plain_commit_doc},
    {NULL, NULL, 0, NULL},
};

static int add_constants(PyObject *module)
{
    return PyModule_AddStringConstant(module, "SOURCES", KAFKA_ZK_SOURCES);
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, add_constants}, {0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "kafka_zk.native._native", .m_methods = methods, .m_slots = slots,
};

PyMODINIT_FUNC PyInit__native(void)
{
    return PyModuleDef_Init(&definition);
}
