/* See produce.h. The same in Python: protocol/produce.py. */
#include "produce.h"

bool begin_request(Reader *reader, int version, const uint8_t *body, size_t size, ProduceStart *found)
{
    uint64_t acks, timeout_ms;
    *reader = (Reader){body, body + size, version >= FLEXIBLE_SINCE, MOST_ELEMENTS};
    if (version < FIRST_VERSION || version > LAST_VERSION || !read_string(reader, &found->transactional_id)
        || !read_number(reader, 2, &acks) || !read_number(reader, 4, &timeout_ms)
        || !read_count(reader, &found->topic_count))
        return false;
    found->acks = (int16_t)acks;
    found->timeout_ms = (int32_t)timeout_ms;
    return true;
}

bool next_topic(Reader *reader, Bytes *name, int32_t *partition_count)
{
    return read_string(reader, name) && name->start && read_count(reader, partition_count);
}

bool next_partition(Reader *reader, int32_t *number, Bytes *records)
{
    uint64_t value;
    if (!read_number(reader, 4, &value) || !read_bytes(reader, 4, records) || !records->start)
        return false;
    *number = (int32_t)value;
    return read_no_tagged_fields(reader);
}

bool end_topic(Reader *reader)
{
    return read_no_tagged_fields(reader);
}

Writer begin_response(uint8_t *start, size_t size, int version, int32_t correlation_id, int32_t topic_count)
{
    Writer writer = {start, start + size, version >= FLEXIBLE_SINCE, false};
    write_number(&writer, 4, correlation_id);
    write_no_tagged_fields(&writer); /* of the header */
    write_length(&writer, 4, (size_t)topic_count);
    return writer;
}

void write_topic(Writer *writer, Bytes name, int32_t partition_count)
{
    write_string(writer, name);
    write_length(writer, 4, (size_t)partition_count);
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
        write_length(writer, 4, 0); /* errors of records */
        if (writer->flexible)
            write_number(writer, 1, 0); /* no message */
        else
            write_number(writer, 2, -1);
    }
    write_no_tagged_fields(writer);
}

void write_topic_end(Writer *writer)
{
    write_no_tagged_fields(writer);
}

void write_response_end(Writer *writer, int32_t throttle_time_ms)
{
    write_number(writer, 4, throttle_time_ms);
    write_no_tagged_fields(writer);
}
