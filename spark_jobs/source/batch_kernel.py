"""Reads batch headers into a table of integers; compiled, without Python objects for each batch.

Each row is a batch of magic 2, with the columns below. ``record_kernel`` uses the table to read the records.
"""

import numpy as np
from numba import njit, types

from kafka_zk.storage.records.record_batch import HEADER_SIZE, LOG_OVERHEAD, MAGIC_POSITION, MIN_BATCH_LENGTH

(
    START,
    END,
    BASE_OFFSET,
    LAST_OFFSET,
    ATTRIBUTES,
    CRC,
    BASE_TIMESTAMP,
    MAX_TIMESTAMP,
    PRODUCER_ID,
    RECORD_COUNT,
    BATCH_FIELDS,
) = range(11)
"""START and END: the positions of the records, after the header."""
TIMESTAMP_TYPE_FLAG = 0x08

_input = types.Array(types.uint8, 1, "C", readonly=True)
_state = types.Tuple((types.int64, types.int64))


@njit(types.int64(_input, types.int64, types.int64), cache=True, nogil=True)
def _integer(data, position, size):  # type: ignore[no-untyped-def]
    result = np.uint64(0)
    for index in range(types.uintp(position), types.uintp(position + size)):
        result = (result << np.uint64(8)) | np.uint64(data[index])
    unused = np.uint64(64 - 8 * size)
    return np.int64(result << unused) >> np.int64(unused)


@njit(_state(_input, types.int64, types.int64[:, ::1]), cache=True, nogil=True)
def read_headers(data, position, table):  # type: ignore[no-untyped-def]
    """Fill the table with the whole batches from ``position`` on. Returns their number and end position.

    Stops at the end of the data, a partial batch, a magic other than 2, or an invalid length. The table must have a row
    for every HEADER_SIZE bytes.
    """
    count = 0
    while data.size - position >= HEADER_SIZE and data[types.uintp(position + MAGIC_POSITION)] == 2:
        length = _integer(data, position + 8, 4)
        end = position + LOG_OVERHEAD + length
        if length < MIN_BATCH_LENGTH or end > data.size:
            break
        row = table[count]
        row[START] = position + HEADER_SIZE
        row[END] = end
        row[BASE_OFFSET] = _integer(data, position, 8)
        row[CRC] = _integer(data, position + 17, 4) & 0xFFFFFFFF
        row[ATTRIBUTES] = _integer(data, position + 21, 2)
        row[LAST_OFFSET] = row[BASE_OFFSET] + _integer(data, position + 23, 4)
        row[BASE_TIMESTAMP] = _integer(data, position + 27, 8)
        row[MAX_TIMESTAMP] = _integer(data, position + 35, 8)
        row[PRODUCER_ID] = _integer(data, position + 43, 8)
        row[RECORD_COUNT] = _integer(data, position + 57, 4)
        count += 1
        position = end
    return count, position
