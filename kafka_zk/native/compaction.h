/* The log cleaner's two loops over the records of a batch. No Python objects. */
#ifndef KAFKA_ZK_COMPACTION_H
#define KAFKA_ZK_COMPACTION_H

#include "records.h"
#include "siphash.h"

/* An entry of the table; a free entry is all zeros. Layout: storage/cleaner/offset_map.py. */
typedef struct {
    Digest digest;
    uint64_t next_offset; /* the key's last offset plus one */
} Entry;

/* The memory of storage/cleaner/offset_map.OffsetMap. Searches end because `slots` is prime and at least one entry is
 * free: max_size < slots. */
typedef struct {
    const uint8_t *secret;
    Entry *entries;
    uint64_t slots, size, max_size;
    uint8_t *replaced; /* a bit for each offset from first_offset on: a later record has the same key */
    int64_t first_offset;
    uint64_t replaced_count;
} OffsetMap;

/* The records of a batch, decompressed. */
typedef struct {
    const uint8_t *start, *end;
    int32_t count, last_offset_delta;
    int64_t base_offset;
} Records;

typedef enum { DONE, FULL, MALFORMED } Status;

/* Store the last offset of each key, for records from start_offset (not negative) on. FULL: no room for a key.
 * *in_order: whether the offsets ascend and are at most the batch's last offset. */
Status note_keys(OffsetMap *map, const Records *records, int64_t start_offset, bool *in_order);

typedef struct {
    int32_t kept_count, keyless_count;
    bool has_tombstone;
    int64_t max_timestamp_delta;
    size_t size; /* of the kept records */
} Chosen;

/* Copy the records to keep to `out`, which must have room for all records. Records after latest_offset are kept. */
Status choose(
    const OffsetMap *map, const Records *records, int64_t latest_offset, bool keeps_tombstones, uint8_t *out,
    Chosen *chosen);

#endif
