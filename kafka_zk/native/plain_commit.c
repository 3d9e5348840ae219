/* See plain_commit.h. The same in Python: protocol/offset_commit.py, broker/group/offsets_batch.py. */
#include "plain_commit.h"

#define BATCH_HEADER_BYTES 61
#define BATCH_LENGTH_ENDS 12
#define VALUE_BYTES 24
#define RECORD_BYTES 48 /* the most that a record has besides group and topic */

enum { FIRST_PLAIN = 6, INSTANCE_ID_SINCE = 7, FLEXIBLE_SINCE = 8, LAST_PLAIN = 9 };
enum { OFFSET_KEY_VERSION = 1, OFFSET_VALUE_VERSION = 3, MAGIC = 2 };

/* -- the request ----------------------------------------------------------------------------------------------------- */

static bool read_text(Reader *reader, Bytes *text)
{
    if (!read_string(reader, text))
        return false;
    for (size_t index = 0; index < text->size; index++)
        if (text->start[index] >= 0x80) /* not ASCII */
            return false;
    return true;
}

static bool read_name(Reader *reader, Bytes *name)
{
    return read_text(reader, name) && name->start;
}

static bool has_metadata(const uint8_t *row, bool flexible)
{
    uint64_t end = big_endian(row + ROW_BYTES - 2, 2); /* null or "", and no tagged fields if flexible */
    return flexible ? end != 0x0100 && end != 0 : end != 0 && end != 0xFFFF;
}

bool read_committed_topic(Reader *topics, CommittedTopic *topic)
{
    if (!read_name(topics, &topic->name) || !read_count(topics, &topic->row_count) || topic->row_count == 0
        || !has(topics, (size_t)topic->row_count * ROW_BYTES))
        return false;
    topic->rows = topics->position;
    for (int32_t index = 0; index < topic->row_count; index++, topics->position += ROW_BYTES)
        if (has_metadata(topics->position, topics->flexible))
            return false;
    return read_no_tagged_fields(topics);
}

bool read_plain_commit(int version, const uint8_t *body, size_t size, PlainCommit *commit)
{
    if (version < FIRST_PLAIN || version > LAST_PLAIN)
        return false;
    Reader reader = {body, body + size, version >= FLEXIBLE_SINCE, 2 * MAX_ROWS}; /* every topic has a row */
    uint64_t generation_id;
    commit->group_instance_id = (Bytes){NULL, 0};
    if (!read_name(&reader, &commit->group_id) || !read_number(&reader, 4, &generation_id)
        || !read_name(&reader, &commit->member_id)
        || (version >= INSTANCE_ID_SINCE && !read_text(&reader, &commit->group_instance_id))
        || !read_count(&reader, &commit->topic_count) || commit->topic_count == 0)
        return false;
    commit->generation_id = (int32_t)generation_id;
    commit->topics = reader;
    commit->row_count = 0;
    commit->most_batch_bytes = BATCH_HEADER_BYTES;
    commit->most_response_bytes = 16 + size; /* rows are shorter than in the request; 16: all other fields */
    for (int32_t index = 0; index < commit->topic_count; index++) {
        CommittedTopic topic;
        if (!read_committed_topic(&reader, &topic))
            return false;
        commit->row_count += topic.row_count;
        commit->most_batch_bytes += (size_t)topic.row_count * (RECORD_BYTES + commit->group_id.size + topic.name.size);
    }
    return commit->row_count <= MAX_ROWS && read_no_tagged_fields(&reader) && reader.position == reader.end;
}

CommittedRow committed_row(const CommittedTopic *topic, int32_t index)
{
    const uint8_t *row = topic->rows + (size_t)index * ROW_BYTES;
    return (CommittedRow){
        .partition = (int32_t)big_endian(row, 4), .offset = (int64_t)big_endian(row + 4, 8),
        .leader_epoch = (int32_t)big_endian(row + 12, 4),
    };
}

/* -- the batch ------------------------------------------------------------------------------------------------------- */

/* Write a zigzag varint of a number that is not negative. */
static void write_varint(Writer *writer, size_t value)
{
    write_unsigned_varint(writer, value << 1);
}

static size_t varint_bytes(size_t value)
{
    size_t size = 1;
    for (value <<= 1; value >= 0x80; value >>= 7)
        size++;
    return size;
}

static void write_record(
    Writer *writer, Bytes group_id, const CommittedTopic *topic, int32_t index, size_t offset_delta, int64_t now_ms)
{
    const uint8_t *row = topic->rows + (size_t)index * ROW_BYTES;
    size_t key_bytes = 2 + 2 + group_id.size + 2 + topic->name.size + 4;
    write_varint(writer, 2 + varint_bytes(offset_delta) + varint_bytes(key_bytes) + key_bytes + 1 + VALUE_BYTES + 1);
    write_number(writer, 2, 0); /* attributes, timestamp delta */
    write_varint(writer, offset_delta);
    write_varint(writer, key_bytes);
    write_number(writer, 2, OFFSET_KEY_VERSION);
    write_string(writer, group_id);
    write_string(writer, topic->name);
    write_bytes(writer, row, 4); /* partition */
    write_varint(writer, VALUE_BYTES);
    write_number(writer, 2, OFFSET_VALUE_VERSION);
    write_bytes(writer, row + 4, 12); /* offset, leader epoch */
    write_number(writer, 2, 0); /* metadata */
    write_number(writer, 8, now_ms);
    write_number(writer, 1, 0); /* headers */
}

static void write_batch_header(Writer *writer, size_t batch_bytes, int32_t record_count, int64_t now_ms)
{
    write_number(writer, 8, 0); /* base offset */
    write_number(writer, 4, (int64_t)batch_bytes - BATCH_LENGTH_ENDS);
    write_number(writer, 4, -1); /* leader epoch */
    write_number(writer, 1, MAGIC);
    write_number(writer, 4, 0); /* CRC */
    write_number(writer, 2, 0); /* attributes */
    write_number(writer, 4, record_count - 1); /* last offset delta */
    write_number(writer, 8, now_ms);
    write_number(writer, 8, now_ms);
    write_number(writer, 8, -1); /* producer id, epoch and sequence: none */
    write_number(writer, 2, -1);
    write_number(writer, 4, -1);
    write_number(writer, 4, record_count);
}

size_t write_commit_batch(const PlainCommit *commit, int64_t now_ms, uint8_t *out)
{
    Writer header = {out, out + BATCH_HEADER_BYTES, false, false};
    Writer records = {out + BATCH_HEADER_BYTES, out + commit->most_batch_bytes, false, false};
    Reader topics = commit->topics;
    CommittedTopic topic;
    size_t offset_delta = 0;
    for (int32_t number = 0; number < commit->topic_count && read_committed_topic(&topics, &topic); number++)
        for (int32_t index = 0; index < topic.row_count; index++)
            write_record(&records, commit->group_id, &topic, index, offset_delta++, now_ms);
    size_t size = (size_t)(records.position - out);
    write_batch_header(&header, size, commit->row_count, now_ms);
    return records.is_full ? 0 : size;
}

/* -- the response ---------------------------------------------------------------------------------------------------- */

size_t write_commit_response(const PlainCommit *commit, int32_t correlation_id, uint8_t *out)
{
    Writer writer = {out, out + commit->most_response_bytes, commit->topics.flexible, false};
    Reader topics = commit->topics;
    CommittedTopic topic;
    write_number(&writer, 4, correlation_id);
    write_no_tagged_fields(&writer); /* of the header */
    write_number(&writer, 4, 0); /* throttle time */
    write_length(&writer, 4, (size_t)commit->topic_count);
    for (int32_t number = 0; number < commit->topic_count && read_committed_topic(&topics, &topic); number++) {
        write_string(&writer, topic.name);
        write_length(&writer, 4, (size_t)topic.row_count);
        for (int32_t index = 0; index < topic.row_count; index++) {
            write_bytes(&writer, topic.rows + (size_t)index * ROW_BYTES, 4); /* partition */
            write_number(&writer, 2, 0); /* no error */
            write_no_tagged_fields(&writer);
        }
        write_no_tagged_fields(&writer);
    }
    write_no_tagged_fields(&writer);
    return writer.is_full ? 0 : (size_t)(writer.position - out);
}
