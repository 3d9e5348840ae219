"""Kinds of damage to a small file: noise, cuts, flips, wrong versions, wrong numbers, a directory in its place.

Each is a function from the old content to the new content.
"""

import os
import random
from collections.abc import Callable
from pathlib import Path

HUGE = (b"9223372036854775807", b"9223372036854775808", b"4294967296", b"9" * 30)


def noise(rng: random.Random, data: bytes) -> bytes:
    return rng.randbytes(rng.randint(1, 2 * len(data) + 20))


def empty(rng: random.Random, data: bytes) -> bytes:
    return b""


def zeros(rng: random.Random, data: bytes) -> bytes:
    return bytes(len(data) or 8)


def cut(rng: random.Random, data: bytes) -> bytes:
    return data[: rng.randrange(len(data))] if data else data


def flip(rng: random.Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 5))):
        if changed:
            changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def version(rng: random.Random, data: bytes) -> bytes:
    return rng.choice((b"1", b"-1", b"7", b"x")) + data[1:]


def huge(rng: random.Random, data: bytes) -> bytes:
    return _other_number(rng, data, rng.choice(HUGE))


def negative(rng: random.Random, data: bytes) -> bytes:
    return _other_number(rng, data, rng.choice((b"-1", b"-9223372036854775808")))


def other(rng: random.Random, data: bytes) -> bytes:
    """Another plausible number."""
    return _other_number(rng, data, b"%d" % rng.randint(0, 300))


def duplicates(rng: random.Random, data: bytes) -> bytes:
    lines = data.split(b"\n")
    rows = lines[2:-1]
    if not rows:
        return data
    row = rng.choice(rows)
    return b"\n".join([lines[0], b"%d" % (len(rows) + 1), *rows, row, b""])


def foreign(rng: random.Random, data: bytes) -> bytes:
    """Add a row of an absent topic, which changes nothing for existing topics."""
    lines = data.split(b"\n")
    rows = lines[2:-1]
    rows.insert(rng.randint(0, len(rows)), b"elsewhere %d %d" % (rng.randint(0, 9), rng.randint(0, 1 << 40)))
    return b"\n".join([*lines[:1], b"%d" % len(rows), *rows, b""])


def _other_number(rng: random.Random, data: bytes, number: bytes) -> bytes:
    fields = [at for at, word in enumerate(data.split(b" ")) if word.strip().isdigit()]
    if not fields:
        return data
    words = data.split(b" ")
    at = rng.choice(fields)
    words[at] = number + words[at][len(words[at].rstrip()) :]
    return b" ".join(words)


OF_ANY_FILE: tuple[Callable[[random.Random, bytes], bytes], ...] = (noise, empty, zeros, cut, flip)
OF_TEXT = (*OF_ANY_FILE, version, huge, negative, other, duplicates, foreign)


def damage(rng: random.Random, path: Path, *, is_text: bool, may_go: bool = False) -> str:
    """Damage the file at random; returns the kind. ``may_go``: the file may be deleted."""
    what = rng.random()
    if what < 0.2:
        os.unlink(path)
        if what < 0.1 and may_go:
            return "removed"
        path.mkdir()
        if rng.random() < 0.5:
            (path / "something").write_bytes(b"in it")
        return "directory"
    how = rng.choice(OF_TEXT if is_text else OF_ANY_FILE)
    path.write_bytes(how(rng, path.read_bytes()))
    return how.__name__
