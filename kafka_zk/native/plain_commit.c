#include "plain_commit.h"

#include <string.h>

#define BATCH_HEADER_BYTES 61
#define BATCH_LENGTH_POSITION 8
#define VALUE_BYTES 24
#define RECORD_BYTES 48 /* at most, without group and topic: varints, the numbers of the key, the value, no headers */

enum { FIRST_PLAIN = 6, INSTANCE_ID_SINCE = 7, FLEXIBLE_SINCE = 8, LAST_PLAIN = 9 };
enum { OFFSET_KEY_VERSION = 1, OFFSET_VALUE_VERSION = 3, MAGIC = 2 };
enum { MAX_TEXT_BYTES = 0x7FFF };

/* -- numbers --------------------------------------------------------------------------------------------------------- */

static uint64_t big_endian(const uint8_t *bytes, unsigned size)
{
    uint64_t value = 0;
    for (unsigned index = 0; index < size; index++)
        value = value << 8 | bytes[index];
    return value;
}

static uint8_t *put(uint8_t *out, uint64_t value, unsigned size)
{
    for (unsigned index = size; index-- > 0; value >>= 8)
        out[index] = (uint8_t)value;
    return out + size;
}

static uint8_t *put_unsigned_varint(uint8_t *out, uint32_t value)
{
    for (; value >= 0x80; value >>= 7)
        *out++ = (uint8_t)(value | 0x80);
    *out++ = (uint8_t)value;
    return out;
}

/* A zigzag varint of a number that is not negative. */
static uint8_t *put_varint(uint8_t *out, uint32_t value)
{
    return put_unsigned_varint(out, value << 1);
}

static uint8_t *put_bytes(uint8_t *out, const void *bytes, size_t size)
{
    memcpy(out, bytes, size);
    return out + size;
}

/* -- the request ----------------------------------------------------------------------------------------------------- */

static bool read_number(Reader *reader, unsigned size, uint64_t *value)
{
    if ((size_t)(reader->end - reader->position) < size)
        return false;
    *value = big_endian(reader->position, size);
    reader->position += size;
    return true;
}

/* A varint of at most three bytes: every length that a plain request can have. */
static bool read_short_varint(Reader *reader, uint32_t *value)
{
    *value = 0;
    for (unsigned shift = 0; shift < 21 && reader->position < reader->end; shift += 7) {
        uint8_t byte = *reader->position++;
        *value |= (uint32_t)(byte & 0x7F) << shift;
        if (byte < 0x80)
            return true;
    }
    return false;
}

/* A length; 0 is null, otherwise it is one less, in both kinds of versions. `size`: of the field in old versions. */
static bool read_length(Reader *reader, unsigned size, uint32_t *length_plus_one)
{
    uint64_t length;
    if (reader->flexible)
        return read_short_varint(reader, length_plus_one);
    if (!read_number(reader, size, &length))
        return false;
    *length_plus_one = (uint32_t)(length + 1) & (uint32_t)(((uint64_t)1 << 8 * size) - 1);
    return true;
}

static bool read_text(Reader *reader, Text *text)
{
    uint32_t length_plus_one;
    if (!read_length(reader, 2, &length_plus_one))
        return false;
    *text = (Text){NULL, 0};
    if (length_plus_one == 0)
        return true;
    uint32_t size = length_plus_one - 1;
    if (size > MAX_TEXT_BYTES || size > (size_t)(reader->end - reader->position))
        return false;
    *text = (Text){reader->position, size};
    for (uint32_t index = 0; index < size; index++)
        if (reader->position[index] >= 0x80)
            return false;
    reader->position += size;
    return true;
}

static bool read_name(Reader *reader, Text *name)
{
    return read_text(reader, name) && name->start != NULL;
}

static bool read_count(Reader *reader, uint32_t *count)
{
    uint32_t length_plus_one;
    if (!read_length(reader, 4, &length_plus_one) || length_plus_one < 2 || length_plus_one > MAX_ROWS + 1)
        return false;
    *count = length_plus_one - 1;
    return true;
}

/* The end of a struct: no tagged fields. */
static bool read_end(Reader *reader)
{
    return !reader->flexible || (reader->position < reader->end && *reader->position++ == 0);
}

static bool has_metadata(const uint8_t *row, bool flexible)
{
    uint64_t end = big_endian(row + ROW_BYTES - 2, 2); /* null or ""; then, if flexible, no tagged fields */
    return flexible ? end != 0x0100 && end != 0 : end != 0 && end != 0xFFFF;
}

bool read_committed_topic(Reader *topics, CommittedTopic *topic)
{
    if (!read_name(topics, &topic->name) || !read_count(topics, &topic->row_count))
        return false;
    if (topic->row_count > (size_t)(topics->end - topics->position) / ROW_BYTES)
        return false;
    topic->rows = topics->position;
    for (uint32_t index = 0; index < topic->row_count; index++, topics->position += ROW_BYTES)
        if (has_metadata(topics->position, topics->flexible))
            return false;
    return read_end(topics);
}

bool read_plain_commit(int version, const uint8_t *body, size_t size, PlainCommit *commit)
{
    if (version < FIRST_PLAIN || version > LAST_PLAIN)
        return false;
    Reader reader = {body, body + size, version >= FLEXIBLE_SINCE};
    uint64_t generation_id;
    commit->group_instance_id = (Text){NULL, 0};
    if (!read_name(&reader, &commit->group_id) || !read_number(&reader, 4, &generation_id)
        || !read_name(&reader, &commit->member_id)
        || (version >= INSTANCE_ID_SINCE && !read_text(&reader, &commit->group_instance_id))
        || !read_count(&reader, &commit->topic_count))
        return false;
    commit->generation_id = (int32_t)generation_id;
    commit->topics = reader;
    commit->row_count = 0;
    commit->key_bytes = 0;
    for (uint32_t index = 0; index < commit->topic_count; index++) {
        CommittedTopic topic;
        if (!read_committed_topic(&reader, &topic))
            return false;
        commit->row_count += topic.row_count;
        commit->key_bytes += topic.row_count * (commit->group_id.size + topic.name.size);
    }
    return commit->row_count <= MAX_ROWS && read_end(&reader) && reader.position == reader.end;
}

CommittedRow committed_row(const CommittedTopic *topic, uint32_t index)
{
    const uint8_t *row = topic->rows + (size_t)index * ROW_BYTES;
    return (CommittedRow){
        .partition = (int32_t)big_endian(row, 4), .offset = (int64_t)big_endian(row + 4, 8),
        .leader_epoch = (int32_t)big_endian(row + 12, 4),
    };
}

/* -- the batch ------------------------------------------------------------------------------------------------------- */

size_t most_batch_bytes(const PlainCommit *commit)
{
    return BATCH_HEADER_BYTES + (size_t)commit->row_count * RECORD_BYTES + commit->key_bytes;
}

/* The bytes of a number's varint, as a signed one. */
static uint32_t varint_bytes(uint32_t value)
{
    uint32_t size = 1;
    for (value <<= 1; value >= 0x80; value >>= 7)
        size++;
    return size;
}

static uint8_t *put_text(uint8_t *out, Text text)
{
    return put_bytes(put(out, text.size, 2), text.start, text.size);
}

static uint8_t *put_record(
    uint8_t *out, Text group_id, const CommittedTopic *topic, uint32_t index, uint32_t offset_delta, int64_t now_ms)
{
    const uint8_t *row = topic->rows + (size_t)index * ROW_BYTES;
    uint32_t key_bytes = (uint32_t)(2 + 2 + group_id.size + 2 + topic->name.size + 4);
    uint32_t body_bytes = 2 + varint_bytes(offset_delta) + varint_bytes(key_bytes) + key_bytes + 1 + VALUE_BYTES + 1;
    out = put_varint(out, body_bytes);
    out = put(out, 0, 2); /* attributes, timestamp delta */
    out = put_varint(out, offset_delta);
    out = put_varint(out, key_bytes);
    out = put(out, OFFSET_KEY_VERSION, 2);
    out = put_text(put_text(out, group_id), topic->name);
    out = put_bytes(out, row, 4); /* partition */
    out = put_varint(out, VALUE_BYTES);
    out = put(out, OFFSET_VALUE_VERSION, 2);
    out = put_bytes(out, row + 4, 12); /* offset, leader epoch */
    out = put(out, 0, 2); /* metadata */
    out = put(out, (uint64_t)now_ms, 8);
    *out++ = 0; /* headers */
    return out;
}

size_t write_commit_batch(const PlainCommit *commit, int64_t now_ms, uint8_t *out)
{
    uint8_t *at = out + BATCH_HEADER_BYTES;
    Reader topics = commit->topics;
    CommittedTopic topic;
    uint32_t offset_delta = 0;
    for (uint32_t number = 0; number < commit->topic_count && read_committed_topic(&topics, &topic); number++)
        for (uint32_t index = 0; index < topic.row_count; index++)
            at = put_record(at, commit->group_id, &topic, index, offset_delta++, now_ms);
    size_t size = (size_t)(at - out);
    at = put(out, 0, BATCH_LENGTH_POSITION); /* base offset */
    at = put(at, size - BATCH_LENGTH_POSITION - 4, 4);
    at = put(at, UINT32_MAX, 4); /* leader epoch */
    at = put(at, MAGIC, 1);
    at = put(at, 0, 4); /* CRC */
    at = put(at, 0, 2); /* attributes */
    at = put(at, commit->row_count - 1, 4); /* last offset delta */
    at = put(at, (uint64_t)now_ms, 8);
    at = put(at, (uint64_t)now_ms, 8);
    at = put(at, UINT64_MAX, 8); /* producer id, epoch and sequence: none */
    at = put(at, UINT64_MAX, 6);
    put(at, commit->row_count, 4);
    return size;
}

/* -- the response ---------------------------------------------------------------------------------------------------- */

size_t most_response_bytes(size_t body_size)
{
    return 16 + body_size; /* a row is shorter than in the request; 16: correlation id, throttle time, counts, ends */
}

size_t write_commit_response(const PlainCommit *commit, int32_t correlation_id, uint8_t *out)
{
    Reader topics = commit->topics;
    CommittedTopic topic;
    bool flexible = topics.flexible;
    uint8_t *at = put(out, (uint32_t)correlation_id, 4);
    at = put(at, 0, flexible ? 5 : 4); /* no tagged fields, no throttle time */
    at = flexible ? put_unsigned_varint(at, commit->topic_count + 1) : put(at, commit->topic_count, 4);
    for (uint32_t number = 0; number < commit->topic_count && read_committed_topic(&topics, &topic); number++) {
        at = flexible ? put_unsigned_varint(at, (uint32_t)topic.name.size + 1) : put(at, topic.name.size, 2);
        at = put_bytes(at, topic.name.start, topic.name.size);
        at = flexible ? put_unsigned_varint(at, topic.row_count + 1) : put(at, topic.row_count, 4);
        for (uint32_t index = 0; index < topic.row_count; index++) {
            at = put_bytes(at, topic.rows + (size_t)index * ROW_BYTES, 4);
            at = put(at, 0, flexible ? 3 : 2); /* no error, no tagged fields */
        }
        at = put(at, 0, flexible ? 1 : 0);
    }
    at = put(at, 0, flexible ? 1 : 0);
    return (size_t)(at - out);
}
