/* Ordinary Produce requests and responses, versions 3 to 11, as bytes, without Python objects.
 *
 * Call the functions in the order of the fields: begin_request; for each topic next_topic, next_partition for each of
 * its partitions, and end_topic; at the end end_topic again. A function returns false if the request is not ordinary:
 * malformed, with a null topic or null records, with tagged fields, or with more than MOST_ELEMENTS. Then
 * protocol/produce.py decodes the request from the start, and raises an error if it is malformed.
 * Source: ProduceRequest.json, ProduceResponse.json@3.9.
 */
#ifndef KAFKA_ZK_PRODUCE_H
#define KAFKA_ZK_PRODUCE_H

#include "wire.h"

#define FIRST_VERSION 3
#define FLEXIBLE_SINCE 9
#define LAST_VERSION 11
#define MOST_ELEMENTS 1000 /* topics and partitions */

typedef struct {
    Bytes transactional_id;
    int16_t acks;
    int32_t timeout_ms, topic_count;
} ProduceStart;

bool begin_request(Reader *reader, int version, const uint8_t *body, size_t size, ProduceStart *found);
bool next_topic(Reader *reader, Bytes *name, int32_t *partition_count);
bool next_partition(Reader *reader, int32_t *number, Bytes *records);
bool end_topic(Reader *reader);

typedef struct {
    int32_t partition;
    int16_t error_code;
    int64_t base_offset, log_append_time_ms, log_start_offset;
} PartitionResult;

Writer begin_response(uint8_t *start, size_t size, int version, int32_t correlation_id, int32_t topic_count);
void write_topic(Writer *writer, Bytes name, int32_t partition_count);
void write_result(Writer *writer, int version, const PartitionResult *result);
void write_topic_end(Writer *writer);
void write_response_end(Writer *writer, int32_t throttle_time_ms);

#endif
