/* Reads and writes the fields of requests and responses. No Python objects.
 *
 * A Reader reads nothing at or after its end; its functions return false for fields that are malformed or unusual. A
 * Writer writes nothing at or after its end.
 */
#ifndef KAFKA_ZK_WIRE_H
#define KAFKA_ZK_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct {
    const uint8_t *start; /* NULL for null */
    size_t size;
} Bytes;

typedef struct {
    const uint8_t *position, *end;
    bool flexible;         /* the version has varints and tagged fields */
    int32_t elements_left; /* remaining limit of the elements of all arrays together */
} Reader;

typedef struct {
    uint8_t *position, *end;
    bool flexible;
    bool is_full; /* a field did not fit; nothing more is written */
} Writer;

static inline bool has(const Reader *reader, size_t size)
{
    return size <= (size_t)(reader->end - reader->position);
}

static inline uint64_t big_endian(const uint8_t *bytes, unsigned size)
{
    uint64_t value = 0;
    for (unsigned index = 0; index < size; index++)
        value = value << 8 | bytes[index];
    return value;
}

static inline bool read_number(Reader *reader, unsigned size, uint64_t *value)
{
    if (!has(reader, size))
        return false;
    *value = big_endian(reader->position, size);
    reader->position += size;
    return true;
}

/* False also for varints of more than four bytes, which are unusual. */
static inline bool read_unsigned_varint(Reader *reader, uint32_t *value)
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

/* Read a length; -1 means null. `size`: the size of the length field in versions that are not flexible. */
static inline bool read_length(Reader *reader, unsigned size, int32_t *length)
{
    uint32_t length_plus_one;
    uint64_t value;
    if (reader->flexible) {
        if (!read_unsigned_varint(reader, &length_plus_one))
            return false;
        *length = (int32_t)length_plus_one - 1;
    } else {
        if (!read_number(reader, size, &value))
            return false;
        *length = size == 2 ? (int16_t)value : (int32_t)value;
    }
    return *length >= -1 && (*length < 0 || has(reader, (size_t)*length));
}

static inline bool read_bytes(Reader *reader, unsigned length_size, Bytes *bytes)
{
    int32_t length;
    if (!read_length(reader, length_size, &length))
        return false;
    *bytes = length < 0 ? (Bytes){NULL, 0} : (Bytes){reader->position, (size_t)length};
    reader->position += bytes->size;
    return true;
}

static inline bool read_string(Reader *reader, Bytes *text)
{
    return read_bytes(reader, 2, text) && text->size <= INT16_MAX;
}

/* Read the length of an array. False also for null. */
static inline bool read_count(Reader *reader, int32_t *count)
{
    if (!read_length(reader, 4, count) || *count < 0 || *count > reader->elements_left)
        return false;
    reader->elements_left -= *count;
    return true;
}

/* Read the end of a struct. False also if it has tagged fields, which are unusual. */
static inline bool read_no_tagged_fields(Reader *reader)
{
    return !reader->flexible || (has(reader, 1) && *reader->position++ == 0);
}

/* Room for `size` more bytes, or NULL. */
static inline uint8_t *room_for(Writer *writer, size_t size)
{
    if (writer->is_full || size > (size_t)(writer->end - writer->position)) {
        writer->is_full = true;
        return NULL;
    }
    writer->position += size;
    return writer->position - size;
}

static inline void write_number(Writer *writer, unsigned size, int64_t value)
{
    uint8_t *out = room_for(writer, size);
    for (unsigned index = 0; out && index < size; index++)
        out[index] = (uint8_t)((uint64_t)value >> 8 * (size - 1 - index));
}

static inline void write_unsigned_varint(Writer *writer, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        write_number(writer, 1, (int64_t)(value & 0x7F) | 0x80);
    write_number(writer, 1, (int64_t)value);
}

/* Write bytes without their length. */
static inline void write_bytes(Writer *writer, const uint8_t *start, size_t size)
{
    uint8_t *out = room_for(writer, size);
    if (out)
        memcpy(out, start, size);
}

/* Write a length, not that of null. `size`: the size of the length field in versions that are not flexible. */
static inline void write_length(Writer *writer, unsigned size, size_t length)
{
    if (writer->flexible)
        write_unsigned_varint(writer, length + 1);
    else
        write_number(writer, size, (int64_t)length);
}

static inline void write_string(Writer *writer, Bytes text)
{
    write_length(writer, 2, text.size);
    write_bytes(writer, text.start, text.size);
}

static inline void write_no_tagged_fields(Writer *writer)
{
    if (writer->flexible)
        write_number(writer, 1, 0);
}

#endif
