/* Decodes the records of a batch of magic 2. No Python objects: tests/fuzz_native fuzzes this file alone.
 *
 * Every function gets the end of the bytes and reads nothing at or after it. The same in Python:
 * storage/cleaner/record_filter.py. Source: DefaultRecord.java, ByteUtils.java@3.9.
 */
#ifndef KAFKA_ZK_RECORDS_H
#define KAFKA_ZK_RECORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MAX_VARINT_BYTES 10 /* of a 64-bit value */

typedef struct {
    const uint8_t *start;
    const uint8_t *end; /* where the next record begins */
    int64_t timestamp_delta;
    int32_t offset_delta;
    const uint8_t *key; /* NULL: no key */
    size_t key_size;
    bool has_value;
} Record;

/* Read a zigzag varint and advance *position. False if it extends beyond `end` or is too long. As in Java, bits that do
 * not fit into 64 are dropped. */
static inline bool read_varint(const uint8_t **position, const uint8_t *end, int64_t *value)
{
    uint64_t bits = 0;
    if (*position < end && **position < 0x80) { /* most varints have one byte */
        bits = *(*position)++;
        *value = (int64_t)(bits >> 1) ^ -(int64_t)(bits & 1);
        return true;
    }
    for (unsigned index = 0; index < MAX_VARINT_BYTES && *position < end; index++) {
        uint8_t byte = *(*position)++;
        bits |= (uint64_t)(byte & 0x7F) << (7 * index);
        if (byte < 0x80) {
            *value = (int64_t)((bits >> 1) ^ (0 - (bits & 1)));
            return true;
        }
    }
    return false;
}

/* Read the record at `start`. False if it is malformed or extends beyond `end`. The value and the headers are not
 * decoded. */
static inline bool read_record(const uint8_t *start, const uint8_t *end, Record *record)
{
    const uint8_t *position = start;
    int64_t length, offset_delta, key_size;
    if (!read_varint(&position, end, &length) || length < 1 || length > end - position)
        return false;
    end = position + length;
    position++; /* attributes, unused */
    if (!read_varint(&position, end, &record->timestamp_delta) || !read_varint(&position, end, &offset_delta)
        || !read_varint(&position, end, &key_size))
        return false;
    if (offset_delta < INT32_MIN || offset_delta > INT32_MAX || key_size > end - position)
        return false;
    record->key = key_size < 0 ? NULL : position;
    record->key_size = key_size < 0 ? 0 : (size_t)key_size;
    position += record->key_size;
    if (position == end)
        return false;
    record->has_value = !(*position & 1); /* zigzag: the size of null, -1, is odd; other sizes are even */
    record->start = start;
    record->end = end;
    record->offset_delta = (int32_t)offset_delta;
    return true;
}

#endif
