"""Steps the wall clock of a Python process: with this folder on PYTHONPATH, ``time.time`` and ``time.time_ns`` are off
by the seconds (a double) in the file that KAFKA_ZK_STEPPED_CLOCK names; a change of the file takes effect immediately.
The monotonic clock does not change.

libfaketime would work for any process, but it breaks sleeps in Python 3.11 and later (EINVAL).
"""

import mmap
import os
import struct
import time

with open(os.environ["KAFKA_ZK_STEPPED_CLOCK"], "rb") as file:
    _offset_s = mmap.mmap(file.fileno(), 8, prot=mmap.PROT_READ)

_DOUBLE = struct.Struct("<d")
_time, _time_ns = time.time, time.time_ns


def _stepped() -> float:
    return _time() + float(_DOUBLE.unpack_from(_offset_s)[0])


def _stepped_ns() -> int:
    return _time_ns() + int(_DOUBLE.unpack_from(_offset_s)[0] * 1_000_000_000)


time.time, time.time_ns = _stepped, _stepped_ns
