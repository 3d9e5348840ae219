/* Checks that the uncompressed records of a produced batch are readable. No Python objects. */
#ifndef KAFKA_ZK_RECORD_CHECK_H
#define KAFKA_ZK_RECORD_CHECK_H

#include <stdbool.h>
#include <stdint.h>

typedef struct {
    const uint8_t *end;        /* end of the last record */
    int64_t largest_timestamp; /* in ms; -1 without records */
    bool counts_up;            /* the offset deltas are 0, 1, 2, ... */
} CheckedRecords;

/* Read `count` records from `start` on. False if a record is malformed or extends beyond `end`. */
bool check_records(const uint8_t *start, const uint8_t *end, int32_t count, int64_t base_timestamp, CheckedRecords *found);

#endif
