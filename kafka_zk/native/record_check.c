/* See record_check.h. The same in Python: storage/records/record_check.py. */
#include "record_check.h"

#include "records.h"
#include "wire.h"

#define MAX_INT_BYTES 5 /* Java rejects longer encodings, even of small values */
#define NO_TIMESTAMP (-1)

static bool read_int(Reader *reader, int64_t *value)
{
    const uint8_t *start = reader->position;
    return read_varint(&reader->position, reader->end, value) && reader->position - start <= MAX_INT_BYTES;
}

/* Skip a field: its length and that many bytes. A negative length means null. */
static bool skip_field(Reader *reader, bool may_be_null)
{
    int64_t size;
    if (!read_int(reader, &size) || size > reader->end - reader->position || (size < 0 && !may_be_null))
        return false;
    reader->position += size < 0 ? 0 : size;
    return true;
}

static bool skip_headers(Reader *reader, const uint8_t *record_end)
{
    int64_t count;
    if (!read_int(reader, &count) || count < 0 || count > record_end - reader->position)
        return false;
    while (count--)
        if (!skip_field(reader, false) || !skip_field(reader, true)) /* name, value */
            return false;
    return true;
}

static bool check_record(Reader *reader, int64_t *timestamp_delta, int64_t *offset_delta)
{
    int64_t size;
    if (!read_int(reader, &size) || size < 1 || size > reader->end - reader->position)
        return false;
    const uint8_t *record_end = reader->position + size;
    reader->position++; /* attributes, unused */
    return read_varint(&reader->position, reader->end, timestamp_delta) && read_int(reader, offset_delta)
        && skip_field(reader, true) && skip_field(reader, true) /* key, value */
        && skip_headers(reader, record_end) && reader->position == record_end;
}

bool check_records(const uint8_t *start, const uint8_t *end, int32_t count, int64_t base_timestamp, CheckedRecords *found)
{
    Reader reader = {.position = start, .end = end};
    found->largest_timestamp = NO_TIMESTAMP;
    found->counts_up = true;
    for (int32_t index = 0; index < count; index++) {
        int64_t timestamp_delta, offset_delta;
        if (!check_record(&reader, &timestamp_delta, &offset_delta))
            return false;
        int64_t timestamp = (int64_t)((uint64_t)base_timestamp + (uint64_t)timestamp_delta); /* overflows as in Java */
        if (timestamp > found->largest_timestamp)
            found->largest_timestamp = timestamp;
        found->counts_up &= offset_delta == index;
    }
    found->end = reader.position;
    return true;
}
