"""The results of the attacks: one row each, as a table for people and as JSON."""

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

LOG_COLUMN_CHARACTERS = 100
_CONNECTION = re.compile(r"127\.0\.0\.1:\d+-127\.0\.0\.1:\d+-\d+")
_NUMBER = re.compile(r"\d+")
_LINE_HEAD = re.compile(r"^\S+ (WARNING|ERROR|CRITICAL) (\S+): ")


@dataclass(frozen=True, slots=True)
class Row:
    """The result of one attack. ``longest_wait_ms``: None if it was not measured. ``log``: each kind of warning or
    error once, with its count. ``broken``: a sentence for each broken bound.
    """

    attack: str
    longest_wait_ms: float | None
    peak_mb: float
    duration_s: float
    log: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)


def summarize(lines: Sequence[str]) -> list[str]:
    """Each kind of line once, with its count, the most frequent first; lines that differ only in numbers are of the
    same kind.
    """
    kinds: Counter[str] = Counter()
    examples: dict[str, str] = {}
    for line in lines:
        said = _CONNECTION.sub("a connection", _LINE_HEAD.sub(r"\1 ", line))
        kind = _NUMBER.sub("#", said)
        examples.setdefault(kind, said)
        kinds[kind] += 1
    return [f"{count} × {examples[kind]}" for kind, count in kinds.most_common()]


def table(rows: Sequence[Row], bounds: str) -> list[str]:
    """The lines of a table."""
    width = max(len(row.attack) for row in rows)
    lines = [f"{'attack':{width}}  longest wait  peak memory   took        log", "-" * (width + 60)]
    for row in rows:
        wait = "–" if row.longest_wait_ms is None else f"{row.longest_wait_ms:,.0f} ms"
        first, *more = row.log or ["nothing"]
        said = first if len(first) <= LOG_COLUMN_CHARACTERS else first[: LOG_COLUMN_CHARACTERS - 1] + "…"
        said += f" (and {len(more)} more kinds)" if more else ""
        verdict = "ok  " if not row.broken else "FAIL"
        lines.append(
            f"{row.attack:{width}}  {wait:>12}  {row.peak_mb:>8,.0f} MB  {row.duration_s:>4.0f} s  {verdict}  {said}"
        )
    return [*lines, bounds]


def write_json(path: Path, rows: Sequence[Row], bounds: str) -> None:
    path.write_text(json.dumps({"bounds": bounds, "attacks": [asdict(row) for row in rows]}, indent=2) + "\n")
