/* Calls the native module's parsers with damaged copies of a corpus, without Python. tests/fuzz_native builds it with
 * sanitizers, which end it at the first access outside of the bytes; every buffer is exactly as large as it says.
 *
 * harness CORPUS SECONDS SEED; the corpus is a list of: size, number of records or version of an OffsetCommit (32 bits
 * each), bytes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "compaction.h"
#include "plain_commit.h"
#include "produce.h"
#include "record_check.h"

#define REPLACED_BYTES 5
#define BATCH_HEADER_BYTES 61

typedef struct {
    uint32_t size;
    int32_t count;
    uint8_t *bytes;
} Case;

static uint64_t random_state;

/* xorshift64*: the same cases for the same seed. */
static uint64_t random_below(uint64_t end)
{
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return (random_state * 0x2545F4914F6CDD1D >> 11) % end;
}

static void ensure(bool holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "broken: %s\n", what);
        abort();
    }
}

static Case *read_corpus(const char *path, size_t *count)
{
    FILE *file = fopen(path, "rb");
    ensure(file != NULL, "the corpus can be opened");
    Case *cases = NULL, next;
    for (*count = 0; fread(&next.size, 4, 1, file) == 1; ++*count) {
        ensure(fread(&next.count, 4, 1, file) == 1, "a case has a count");
        next.bytes = malloc(next.size + 1);
        ensure(fread(next.bytes, 1, next.size, file) == next.size, "a case has all its bytes");
        cases = realloc(cases, (*count + 1) * sizeof *cases);
        cases[*count] = next;
    }
    fclose(file);
    return cases;
}

/* A copy with some bytes changed, and sometimes cut off. */
static Case damaged(const Case *original)
{
    static const uint8_t boundary[] = {0, 1, 2, 0x7F, 0x80, 0x81, 0xFE, 0xFF};
    Case copy = *original;
    if (!random_below(3))
        copy.size = (uint32_t)random_below(copy.size + 1);
    copy.bytes = malloc(copy.size ? copy.size : 1);
    memcpy(copy.bytes, original->bytes, copy.size);
    for (uint64_t changes = random_below(4); changes && copy.size; changes--) {
        uint64_t choice = random_below(sizeof boundary + 4);
        copy.bytes[random_below(copy.size)]
            = choice < sizeof boundary ? boundary[choice] : (uint8_t)random_below(256);
    }
    if (!random_below(8))
        copy.count += (int32_t)random_below(3) - 1;
    return copy;
}

static bool run_check(const Case *input)
{
    CheckedRecords found;
    bool accepted = check_records(input->bytes, input->bytes + input->size, input->count, (int64_t)random_below(9), &found);
    ensure(!accepted || (found.end >= input->bytes && found.end <= input->bytes + input->size), "the end is inside");
    return accepted;
}

static bool is_inside(const Case *input, Bytes bytes)
{
    return !bytes.start || (bytes.start >= input->bytes && bytes.start + bytes.size <= input->bytes + input->size);
}

/* Reads a request, and writes a response to it into a buffer that may be too short. */
static bool run_produce(const Case *input)
{
    int version = FIRST_VERSION - 1 + (int)random_below(LAST_VERSION - FIRST_VERSION + 3);
    size_t room = random_below(200);
    uint8_t *response = malloc(room + 1);
    Writer writer = begin_response(response, room, version, 7, 1);
    Reader reader;
    ProduceStart found;
    bool accepted = begin_request(&reader, version, input->bytes, input->size, &found)
        && is_inside(input, found.transactional_id);
    for (int32_t topic = 0; accepted && topic < found.topic_count; topic++) {
        Bytes name, records;
        int32_t partition_count, number;
        accepted = next_topic(&reader, &name, &partition_count);
        ensure(!accepted || is_inside(input, name), "the name is inside");
        if (accepted)
            write_topic(&writer, name, partition_count);
        for (int32_t index = 0; accepted && index < partition_count; index++) {
            accepted = next_partition(&reader, &number, &records);
            ensure(!accepted || is_inside(input, records), "the records are inside");
            if (accepted)
                write_result(&writer, version, &(PartitionResult){number, 0, INT64_MAX, -1, 0});
        }
        accepted = accepted && end_topic(&reader);
        write_topic_end(&writer);
    }
    accepted = accepted && end_topic(&reader);
    write_response_end(&writer, 0);
    ensure(writer.position <= response + room, "the response fits");
    free(response);
    return accepted;
}

static bool run_compaction(const Case *input)
{
    static const int64_t bases[] = {0, 7, INT64_MAX - INT32_MAX - 1, INT64_MAX - 2, -5};
    static const uint64_t primes[] = {2, 3, 5, 11};
    uint8_t secret[SECRET_BYTES] = {(uint8_t)random_below(256)};
    OffsetMap map = {.secret = secret, .slots = primes[random_below(4)], .replaced_count = 8 * REPLACED_BYTES};
    map.max_size = 1 + random_below(map.slots - 1);
    map.entries = calloc(map.slots, sizeof *map.entries);
    map.replaced = calloc(REPLACED_BYTES, 1);
    map.first_offset = (int64_t)random_below(10);
    Records records = {
        input->bytes, input->bytes + input->size, input->count, (int32_t)random_below(20),
        bases[random_below(sizeof bases / sizeof *bases)],
    };
    uint8_t *out = malloc(input->size ? input->size : 1);
    bool in_order, accepted = true;
    for (unsigned round = 0; round < 2 && accepted; round++)
        accepted = note_keys(&map, &records, (int64_t)random_below(3), &in_order) != MALFORMED;
    ensure(map.size <= map.max_size, "the map is not too full");
    Chosen chosen;
    int64_t latest_offset = random_below(2) ? 5 : INT64_MAX;
    Status status = choose(&map, &records, latest_offset, random_below(2), out, &chosen);
    int32_t most = input->count < 0 ? 0 : input->count;
    ensure(chosen.size <= input->size && chosen.kept_count + chosen.keyless_count <= most, "no more is kept than was there");
    free(out);
    free(map.replaced);
    free(map.entries);
    return status == DONE;
}

/* `count` is the version of an OffsetCommit. */
static bool run_commit(const Case *input)
{
    PlainCommit commit;
    if (!read_plain_commit(input->count, input->bytes, input->size, &commit))
        return false;
    uint8_t *batch = malloc(commit.most_batch_bytes), *response = malloc(commit.most_response_bytes);
    size_t batch_size = write_commit_batch(&commit, (int64_t)random_below(1u << 20), batch);
    size_t response_size = write_commit_response(&commit, input->count, response);
    ensure(batch_size && response_size, "what is written fits");
    CheckedRecords found;
    bool readable = check_records(batch + BATCH_HEADER_BYTES, batch + batch_size, commit.row_count, 0, &found);
    ensure(readable && found.end == batch + batch_size && found.counts_up, "the records can be read");
    Reader topics = commit.topics;
    CommittedTopic topic;
    for (int32_t index = 0; index < commit.topic_count; index++) {
        ensure(read_committed_topic(&topics, &topic), "what was read can be read again");
        committed_row(&topic, topic.row_count - 1);
    }
    free(batch);
    free(response);
    return true;
}

int main(int argument_count, char **arguments)
{
    ensure(argument_count == 4, "three arguments");
    size_t count;
    uint64_t runs = 0, accepted = 0;
    Case *cases = read_corpus(arguments[1], &count);
    random_state = strtoull(arguments[3], NULL, 10) * 2 + 1;
    time_t end = time(NULL) + atoi(arguments[2]);
    do {
        for (unsigned block = 0; block < 1000; block++, runs++) {
            Case input = damaged(&cases[random_below(count)]);
            accepted += run_check(&input) | run_produce(&input) | run_compaction(&input) | run_commit(&input);
            free(input.bytes);
        }
    } while (time(NULL) < end);
    printf("%llu %llu\n", (unsigned long long)runs, (unsigned long long)accepted);
    for (size_t index = 0; index < count; index++)
        free(cases[index].bytes);
    free(cases);
    return accepted == 0 || accepted == runs;
}
