/* SipHash-2-4 with 128 bits of output: a keyed hash, so that nobody can construct two keys with the same digest.
 *
 * Source: Aumasson and Bernstein, "SipHash: a fast short-input PRF"; the 128-bit variant of its authors.
 */
#ifndef KAFKA_ZK_SIPHASH_H
#define KAFKA_ZK_SIPHASH_H

#include <stddef.h>
#include <stdint.h>

#define SECRET_BYTES 16

typedef struct {
    uint64_t low, high;
} Digest;

/* Up to 8 bytes as a little-endian number, on any processor. */
static inline uint64_t little_endian(const uint8_t *bytes, size_t size)
{
    uint64_t number = 0;
    for (size_t index = 0; index < size; index++)
        number |= (uint64_t)bytes[index] << (8 * index);
    return number;
}

static inline uint64_t rotate_left(uint64_t number, unsigned bits)
{
    return number << bits | number >> (64 - bits);
}

static inline void sip_rounds(uint64_t v[4], unsigned count)
{
    while (count--) {
        v[0] += v[1], v[2] += v[3];
        v[1] = rotate_left(v[1], 13) ^ v[0], v[3] = rotate_left(v[3], 16) ^ v[2];
        v[0] = rotate_left(v[0], 32);
        v[2] += v[1], v[0] += v[3];
        v[1] = rotate_left(v[1], 17) ^ v[2], v[3] = rotate_left(v[3], 21) ^ v[0];
        v[2] = rotate_left(v[2], 32);
    }
}

static inline void sip_word(uint64_t v[4], uint64_t word)
{
    v[3] ^= word;
    sip_rounds(v, 2);
    v[0] ^= word;
}

static inline Digest siphash(const uint8_t secret[SECRET_BYTES], const uint8_t *data, size_t size)
{
    uint64_t first = little_endian(secret, 8), second = little_endian(secret + 8, 8);
    uint64_t v[4] = {
        first ^ 0x736f6d6570736575, second ^ 0x646f72616e646f6d ^ 0xee,
        first ^ 0x6c7967656e657261, second ^ 0x7465646279746573,
    };
    Digest digest;
    size_t tail = size % 8;
    for (const uint8_t *word = data, *end = data + (size - tail); word != end; word += 8)
        sip_word(v, little_endian(word, 8));
    sip_word(v, little_endian(data + (size - tail), tail) | (uint64_t)size << 56);
    v[2] ^= 0xee;
    sip_rounds(v, 4);
    digest.low = v[0] ^ v[1] ^ v[2] ^ v[3];
    v[1] ^= 0xdd;
    sip_rounds(v, 4);
    digest.high = v[0] ^ v[1] ^ v[2] ^ v[3];
    return digest;
}

#endif
