"""Makes ``docs/reference/damaged-files.md`` from the results.

``python -m tests.storage.damaged_files_page`` runs our storage on damaged files again, and writes both.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.storage.damaged_files import (
    KAFKA,
    OURS,
    REFUSED,
    Outcome,
    Results,
    Served,
    damages,
    ranges,
    run_here,
    store,
    stored,
    undamaged,
)
from tests.storage.made_directory import CLEAN, END, KILLED, make

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "reference" / "damaged-files.md"
_HEAD = """# Damaged files

What a broker serves after one file of its log directory was damaged: kafka-zk and Apache Kafka 3.9.1, each started on
a copy of the same directory. `python -m tests.peers.logs.damaged_files` starts both and writes this page.
`tests/storage/test_damaged_files.py` and `tests/peers/logs/test_damaged_files.py` check that it is true, and that
kafka-zk is never worse: it starts where Kafka starts, serves what Kafka serves, and serves nothing that was not
produced.

The directory has three topics of one partition with {end} offsets each, in ten segments and nine leader epochs:
one with deleted records (DeleteRecords) and an idempotent producer, one with transactions that were committed, aborted
and left open, and one that was compacted. After the *clean stop* everything is on the disk. At the *kill* the recovery
point is the beginning of the fifth segment. The *closed* segment is the third, the *unflushed* one the eighth.

Kinds of damage: *zeroed*, as long as before and all NUL; *torn*, cut in the middle; *empty*; *NUL tail*, 4 KiB of NUL
behind the content; *missing*; *garbage*, random bytes; *short*, cut between two batches.

How to read a cell:

- `all`: everything is served as before, the next record gets the next offset, and a batch that its producer sends
  again is recognized.
- `loses A–B`: these records are not served.
- `ends at N`: the next record gets offset N.
- `does not serve new records`: the next record is acknowledged, and cannot be read.
- `forgets`: a batch that its producer sends again is appended a second time.
- `serves aborted A`: a reader of committed records gets a record of an aborted transaction.
- `brings back A–B`: deleted records are served again.
- `offline`: the log directory is offline. `does not start`: the broker ends.

One difference is intended. After a kill Kafka serves records behind lost ones; kafka-zk ends the log before the gap:
later records were not durable either, and a follower fetches all of them again, but would never fill a gap.
"""


def document(results: Results) -> str:
    """The page for these results."""
    lines = [_HEAD.format(end=END)]
    columns = [f"{who}, {ending}" for ending in (CLEAN, KILLED) for who in (KAFKA, OURS)]
    lines += [f"| file | damage | {' | '.join(columns)} |", "|---" * (2 + len(columns)) + "|"]
    rows: dict[tuple[str, str], list[str]] = {}
    for damage in damages():
        at = 2 * (damage.ending == KILLED)
        cells = rows.setdefault((damage.label, damage.kind), [""] * len(columns))
        expected = undamaged(results, damage.ending)
        cells[at : at + 2] = [_cell(results[damage.name][who], expected) for who in (KAFKA, OURS)]
    order = list(dict.fromkeys(label for label, _ in rows))
    for (label, kind), cells in sorted(rows.items(), key=lambda row: order.index(row[0][0])):
        lines.append(f"| {label} | {kind} | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def _cell(outcome: Outcome, expected: Mapping[str, Served]) -> str:
    if outcome == REFUSED:
        return "does not start"
    texts = {topic: _text(served, expected[topic]) for topic, served in outcome.items()}
    different = {topic: text for topic, text in texts.items() if text != "all"}
    if len(set(texts.values())) == 1:
        return next(iter(texts.values()))
    return "; ".join(f"{topic}: {text}" for topic, text in different.items())


def _text(served: Served | None, expected: Served) -> str:
    if served is None:
        return "offline"
    lost = sorted({*expected.uncommitted} - {*served.uncommitted})
    hidden = sorted({*expected.committed} - {*served.committed} - {*lost})
    found = [
        (lost, f"loses {_span(lost, expected.uncommitted)}"),
        (hidden, f"hides {_span(hidden, expected.committed)} from readers of committed records"),
        (served.wrong, f"serves wrong {_span(served.wrong, expected.uncommitted)}"),
        (served.aborted, f"serves aborted {_span(served.aborted, served.aborted)}"),
    ]
    back = sorted({*served.uncommitted} - {*expected.uncommitted} - {*served.wrong})
    found.append((back, f"brings back {_span(back, back)}"))
    texts = [text for offsets, text in found if offsets]
    if served.next_offset is None:
        texts.append("takes no records")
    elif not served.serves_new:
        texts.append("does not serve new records")
    elif served.next_offset != expected.next_offset:
        texts.append(f"ends at {served.next_offset}")
    elif not served.knows_producer:
        texts.append("forgets")
    return ", ".join(texts) or "all"


def _span(offsets: Sequence[int], among: Sequence[int]) -> str:
    """The offsets; ``A–B`` if they are all of ``among`` between the two."""
    if len(offsets) > 1 and [each for each in among if offsets[0] <= each <= offsets[-1]] == list(offsets):
        return f"{offsets[0]}–{offsets[-1]}"
    return ranges(offsets).replace("-", "–").replace(" ", ", ")


def write(results: Results) -> None:
    """Store the results, and write the page."""
    store({damage.name: results[damage.name] for damage in damages()})
    DOCUMENT.write_text(document(results))


def main() -> None:
    results = stored()
    with tempfile.TemporaryDirectory() as folder:
        made = make(Path(folder) / "made")
        for number, damage in enumerate(damages()):
            results.setdefault(damage.name, {})[OURS] = run_here(damage, made, Path(folder) / str(number))
    write(results)


if __name__ == "__main__":
    main()
