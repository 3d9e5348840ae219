/* Are the records of a produced batch, uncompressed, readable? Without Python objects. */
#ifndef KAFKA_ZK_RECORD_CHECK_H
#define KAFKA_ZK_RECORD_CHECK_H

#include <stdbool.h>
#include <stdint.h>

typedef struct {
    const uint8_t *end;        /* of the last record */
    int64_t largest_timestamp; /* in ms; -1 if there is none */
    bool counts_up;            /* the offset deltas are 0, 1, 2, ... */
} CheckedRecords;

/* Read `count` records from `start` on; false if one is malformed or does not end before `end`. */
bool check_records(const uint8_t *start, const uint8_t *end, int32_t count, int64_t base_timestamp, CheckedRecords *found);

#endif
