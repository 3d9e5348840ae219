/* See produce.h. Its Python equals: protocol/produce.py. */
#include "produce.h"

#include <string.h>

static bool has(const RequestReader *reader, size_t size)
{
    return size <= (size_t)(reader->end - reader->position);
}

/* A big-endian number of 1 to 4 bytes. */
static bool read_number(RequestReader *reader, size_t size, uint32_t *value)
{
    if (!has(reader, size))
        return false;
    *value = 0;
    while (size--)
        *value = *value << 8 | *reader->position++;
    return true;
}

/* Varints of more than four bytes are not ordinary. */
static bool read_unsigned_varint(RequestReader *reader, uint32_t *value)
{
    *value = 0;
    for (unsigned shift = 0; shift < 28 && has(reader, 1); shift += 7) {
        uint8_t byte = *reader->position++;
        *value |= (uint32_t)(byte & 0x7F) << shift;
        if (byte < 0x80)
            return true;
    }
    return false;
}

/* The length of what follows; -1 is null. `size`: of a length in a version that is not flexible. */
static bool read_length(RequestReader *reader, size_t size, int32_t *length)
{
    uint32_t value;
    if (reader->flexible) {
        if (!read_unsigned_varint(reader, &value))
            return false;
        *length = (int32_t)value - 1;
    } else {
        if (!read_number(reader, size, &value))
            return false;
        *length = size == 2 ? (int16_t)value : (int32_t)value;
    }
    return *length >= -1 && (*length < 0 || has(reader, (size_t)*length));
}

static bool read_bytes(RequestReader *reader, size_t length_size, Bytes *bytes)
{
    int32_t length;
    if (!read_length(reader, length_size, &length))
        return false;
    bytes->start = length < 0 ? NULL : reader->position;
    bytes->size = length < 0 ? 0 : (size_t)length;
    reader->position += bytes->size;
    return true;
}

static bool read_string(RequestReader *reader, Bytes *text)
{
    return read_bytes(reader, 2, text) && text->size <= INT16_MAX;
}

static bool read_count(RequestReader *reader, int32_t *count)
{
    if (!read_length(reader, 4, count) || *count < 0 || *count > MOST_ELEMENTS - reader->element_count)
        return false;
    reader->element_count += *count;
    return true;
}

static bool has_no_tagged_fields(RequestReader *reader)
{
    uint32_t count;
    return !reader->flexible || (read_number(reader, 1, &count) && count == 0);
}

bool begin_request(RequestReader *reader, int version, const uint8_t *body, size_t size, ProduceStart *found)
{
    uint32_t acks, timeout_ms;
    *reader = (RequestReader){body, body + size, version >= FLEXIBLE_SINCE, 0};
    if (version < FIRST_VERSION || version > LAST_VERSION || !read_string(reader, &found->transactional_id)
        || !read_number(reader, 2, &acks) || !read_number(reader, 4, &timeout_ms)
        || !read_count(reader, &found->topic_count))
        return false;
    found->acks = (int16_t)acks;
    found->timeout_ms = (int32_t)timeout_ms;
    return true;
}

bool next_topic(RequestReader *reader, Bytes *name, int32_t *partition_count)
{
    return read_string(reader, name) && name->start && read_count(reader, partition_count);
}

bool next_partition(RequestReader *reader, int32_t *number, Bytes *records)
{
    uint32_t value;
    if (!read_number(reader, 4, &value) || !read_bytes(reader, 4, records) || !records->start)
        return false;
    *number = (int32_t)value;
    return has_no_tagged_fields(reader);
}

bool end_topic(RequestReader *reader)
{
    return has_no_tagged_fields(reader);
}

static void write_number(Writer *writer, unsigned size, int64_t value)
{
    if (writer->is_full || writer->end - writer->position < (ptrdiff_t)size) {
        writer->is_full = true;
        return;
    }
    while (size--)
        *writer->position++ = (uint8_t)((uint64_t)value >> 8 * size);
}

/* The length of a text or an array, which is not null. `size`: in a version that is not flexible. */
static void write_length(Writer *writer, int version, unsigned size, size_t length)
{
    if (version < FLEXIBLE_SINCE) {
        write_number(writer, size, (int64_t)length);
        return;
    }
    size_t value = length + 1;
    for (; value >= 0x80; value >>= 7)
        write_number(writer, 1, (int64_t)(value & 0x7F) | 0x80);
    write_number(writer, 1, (int64_t)value);
}

static void write_no_tagged_fields(Writer *writer, int version)
{
    if (version >= FLEXIBLE_SINCE)
        write_number(writer, 1, 0);
}

void write_response_start(Writer *writer, int version, int32_t correlation_id, int32_t topic_count)
{
    write_number(writer, 4, correlation_id);
    write_no_tagged_fields(writer, version); /* of the header */
    write_length(writer, version, 4, (size_t)topic_count);
}

void write_topic(Writer *writer, int version, Bytes name, int32_t partition_count)
{
    write_length(writer, version, 2, name.size);
    if (writer->is_full || name.size > (size_t)(writer->end - writer->position)) {
        writer->is_full = true;
        return;
    }
    memcpy(writer->position, name.start, name.size);
    writer->position += name.size;
    write_length(writer, version, 4, (size_t)partition_count);
}

void write_result(Writer *writer, int version, const PartitionResult *result)
{
    write_number(writer, 4, result->partition);
    write_number(writer, 2, result->error_code);
    write_number(writer, 8, result->base_offset);
    write_number(writer, 8, result->log_append_time_ms);
    if (version >= 5)
        write_number(writer, 8, result->log_start_offset);
    if (version >= 8) {
        write_length(writer, version, 4, 0); /* errors of records */
        if (version >= FLEXIBLE_SINCE)
            write_number(writer, 1, 0); /* no message */
        else
            write_number(writer, 2, -1);
    }
    write_no_tagged_fields(writer, version);
}

void write_topic_end(Writer *writer, int version)
{
    write_no_tagged_fields(writer, version);
}

void write_response_end(Writer *writer, int version, int32_t throttle_time_ms)
{
    write_number(writer, 4, throttle_time_ms);
    write_no_tagged_fields(writer, version);
}
