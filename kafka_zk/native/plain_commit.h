/* Decodes a plain OffsetCommit request, and encodes its records for __consumer_offsets and its response. No Python
 * objects.
 *
 * Plain means version 6 to 9, at most MAX_ROWS partitions, names in ASCII, and neither metadata nor tagged fields.
 * Nearly all requests of consumers are plain. Python code decodes all others, and raises an error for malformed ones.
 *
 * Source: OffsetCommitRequest.json, OffsetCommitResponse.json, OffsetCommitKey.json, OffsetCommitValue.json@3.9.
 */
#ifndef KAFKA_ZK_PLAIN_COMMIT_H
#define KAFKA_ZK_PLAIN_COMMIT_H

#include "wire.h"

#define MAX_ROWS 100
#define ROW_BYTES 18 /* partition, offset, leader epoch, and two bytes for null or empty metadata */

typedef struct {
    Bytes group_id, member_id, group_instance_id;
    int32_t generation_id, topic_count, row_count;
    Reader topics; /* positioned at the first topic */
    size_t most_batch_bytes, most_response_bytes; /* upper bounds for the two functions below */
} PlainCommit;

typedef struct {
    Bytes name;
    int32_t row_count;
    const uint8_t *rows;
} CommittedTopic;

/* Read the whole request. False if it is malformed or not plain. */
bool read_plain_commit(int version, const uint8_t *body, size_t size, PlainCommit *commit);

/* Read the next topic and advance the reader. False as above. */
bool read_committed_topic(Reader *topics, CommittedTopic *topic);

typedef struct {
    int32_t partition, leader_epoch;
    int64_t offset;
} CommittedRow;

CommittedRow committed_row(const CommittedTopic *topic, int32_t index);

/* Write the batch and return its size. CRC, base offset and leader epoch are not set. This and the next function return
 * 0 if `out` is too small. */
size_t write_commit_batch(const PlainCommit *commit, int64_t now_ms, uint8_t *out);

/* Write the response without errors, and return its size. */
size_t write_commit_response(const PlainCommit *commit, int32_t correlation_id, uint8_t *out);

#endif
