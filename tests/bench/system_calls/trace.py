"""Counts the system calls in strace's output, and the bytes that they copy."""

import re
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

_MOST_LISTED = 8

_DATA = r"p?(?:read|write)v?2?(?:64)?|recv(?:from|msg)|send(?:to|msg)"
_COPYING = re.compile(rf"(?:{_DATA})$")
_RESULT = re.compile(r"^\d+ +(?:<\.\.\. )?(\w+)(?:\(| resumed>).*\) += (-?\d+)")


class Calls(NamedTuple):
    """``counts``: by name. ``copied_bytes``: bytes copied between the process and the kernel, in both directions."""

    counts: Counter[str]
    copied_bytes: int


def parse(lines: Iterable[str]) -> Calls:
    """Parse strace's lines. A call interrupted by another thread's call has two lines, and its result in the second
    one.
    """
    counts: Counter[str] = Counter()
    copied_bytes = 0
    for line in lines:
        found = _RESULT.match(line)
        if found is None:
            continue
        name, result = found[1], int(found[2])
        counts[name] += 1
        if result > 0 and _COPYING.match(name):
            copied_bytes += result
    return Calls(counts, copied_bytes)


def row(target: str, workload: str, calls: Calls, payload_bytes: int) -> str:
    """A row of a Markdown table; all figures are per 10^6 bytes of record values."""
    megabytes = payload_bytes / 1e6
    listed = ", ".join(f"{name} {count / megabytes:.1f}" for name, count in calls.counts.most_common(_MOST_LISTED))
    total = sum(calls.counts.values()) / megabytes
    return f"| {workload} | {target} | {total:.0f} | {calls.copied_bytes / payload_bytes:.2f} | {listed} |"
