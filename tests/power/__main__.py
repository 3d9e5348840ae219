"""``python -m tests.power``: the power-loss campaign on real file systems, and its table. See ``--help``.

Exit code 1 if a cut of ours violates a promise; those of Apache Kafka are only counted.
"""

from __future__ import annotations

import argparse
import sys

from tests.power.campaign import SHAPES, Row, play, table
from tests.power.disks import FILESYSTEMS, unavailable
from tests.power.servers import KINDS, OURS


def main() -> int:
    options = _options()
    rows = []
    for filesystem in options.filesystems:
        if reason := unavailable(filesystem):
            print(f"{filesystem} is skipped: {reason}", flush=True)
            continue
        for kind in options.kind:
            for name in options.shapes:
                rows.append(_row(filesystem, name, kind, options))
    if rows:
        print(table(rows))
    return int(any(row.bad for row in rows if row.kind == OURS))


def _row(filesystem: str, name: str, kind: str, options: argparse.Namespace) -> Row:
    shape = SHAPES[name]
    whole = sum(SHAPES[each].share for each in options.shapes)
    row = Row(filesystem, name, kind)
    for verdict in play(filesystem, shape, kind, options.seed, max(1, round(options.snapshots * shape.share / whole))):
        row.add(verdict)
        print(f"{verdict.name}: {verdict.judged_s:.1f} s, {len(verdict.violations)} violations", flush=True)
        for violation in verdict.violations:
            print(f"    {violation}", flush=True)
    return row


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.power", description=__doc__)
    parser.add_argument("--snapshots", type=int, default=200, help="cuts per file system (default %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="the first run's seed (default %(default)s)")
    parser.add_argument("--filesystems", nargs="+", choices=FILESYSTEMS, default=FILESYSTEMS)
    parser.add_argument("--shapes", nargs="+", choices=tuple(SHAPES), default=tuple(SHAPES))
    parser.add_argument("--kind", nargs="+", choices=KINDS, default=(OURS,), help="kafka: Apache Kafka 3.9.1 by Maven")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
