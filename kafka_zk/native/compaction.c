/* See compaction.h. The same in Python: storage/cleaner/record_loops.py and storage/cleaner/record_filter.py. */
#include "compaction.h"

#include <string.h>

/* The entry with this digest, or the free entry where it belongs. Double hashing, as in OffsetMap._find. */
static Entry *find(const OffsetMap *map, Digest digest)
{
    uint64_t slot = digest.low % map->slots;
    uint64_t step = 0;
    for (;;) {
        Entry *entry = &map->entries[slot];
        if (!entry->next_offset || (entry->digest.low == digest.low && entry->digest.high == digest.high))
            return entry;
        if (!step)
            step = 1 + digest.high % (map->slots - 1);
        slot = (slot + step) % map->slots;
    }
}

/* True if `replaced` has a bit for the offset; *place is its number. */
static bool has_bit(const OffsetMap *map, int64_t offset, uint64_t *place)
{
    *place = (uint64_t)offset - (uint64_t)map->first_offset;
    return offset >= map->first_offset && *place < map->replaced_count;
}

/* Store the offset as the last one of the key. False if the map is full. */
static bool put(OffsetMap *map, const Record *record, int64_t offset)
{
    Digest digest = siphash(map->secret, record->key, record->key_size);
    Entry *entry = find(map, digest);
    uint64_t place;
    if (!entry->next_offset) {
        if (map->size >= map->max_size)
            return false;
        map->size++;
        entry->digest = digest;
    } else if (entry->next_offset <= (uint64_t)offset && has_bit(map, (int64_t)(entry->next_offset - 1), &place)) {
        map->replaced[place / 8] |= (uint8_t)(1 << place % 8);
    }
    entry->next_offset = (uint64_t)offset + 1;
    return true;
}

/* Compute the record's offset. False if it or the next offset does not fit into 64 bits. */
static bool offset_of(const Records *records, const Record *record, int64_t *offset)
{
    return !__builtin_add_overflow(records->base_offset, record->offset_delta, offset) && *offset < INT64_MAX;
}

Status note_keys(OffsetMap *map, const Records *records, int64_t start_offset, bool *in_order)
{
    const uint8_t *position = records->start;
    int32_t delta_before = -1;
    *in_order = true;
    for (int32_t index = 0; index < records->count; index++) {
        Record record;
        int64_t offset;
        if (!read_record(position, records->end, &record) || !offset_of(records, &record, &offset))
            return MALFORMED;
        position = record.end;
        if (record.offset_delta <= delta_before || record.offset_delta > records->last_offset_delta)
            *in_order = false;
        delta_before = record.offset_delta;
        if (record.key && offset >= start_offset && !put(map, &record, offset))
            return FULL;
    }
    return position == records->end ? DONE : MALFORMED;
}

static bool is_replaced(const OffsetMap *map, const Record *record, int64_t offset)
{
    uint64_t place;
    if (has_bit(map, offset, &place))
        return map->replaced[place / 8] >> place % 8 & 1;
    Entry *entry = find(map, siphash(map->secret, record->key, record->key_size));
    return entry->next_offset && offset < (int64_t)(entry->next_offset - 1);
}

Status choose(
    const OffsetMap *map, const Records *records, int64_t latest_offset, bool keeps_tombstones, uint8_t *out,
    Chosen *chosen)
{
    const uint8_t *position = records->start;
    memset(chosen, 0, sizeof *chosen);
    for (int32_t index = 0; index < records->count; index++) {
        Record record;
        int64_t offset;
        if (!read_record(position, records->end, &record) || !offset_of(records, &record, &offset))
            return MALFORMED;
        position = record.end;
        if (offset <= latest_offset) {
            if (!record.key) {
                chosen->keyless_count++;
                continue;
            }
            if ((!record.has_value && !keeps_tombstones) || is_replaced(map, &record, offset))
                continue;
        }
        if (!chosen->kept_count || record.timestamp_delta > chosen->max_timestamp_delta)
            chosen->max_timestamp_delta = record.timestamp_delta;
        chosen->kept_count++;
        chosen->has_tombstone |= !record.has_value;
        size_t size = (size_t)(record.end - record.start);
        memcpy(out + chosen->size, record.start, size);
        chosen->size += size;
    }
    return position == records->end ? DONE : MALFORMED;
}
