"""Change a module's decisions, one at a time, and see whether its unit tests notice.

A test that passes both with the code it tests and with that code broken proves nothing. Each mutant has one small
fault: another comparison, `and` for `or`, a negated condition, a count that is off by one, a missing statement, `min`
for `max`, a table without one of its elements. Only the fast tests in the module's mirrored folder run, those with the
module's name first. A mutant is killed if they fail or do not end. A survivor means that a property has no test, that
the code is not needed, or that the mutant behaves the same; a person must find out which.

  make mutants MODULE=rebalance SEED=7                    200 mutants of a package, drawn by a seed
  python -m tests.mutants storage/log/log.py --mutants 0  all of a module
  python -m tests.mutants storage/log/log.py:225          all of a line: is the survivor killed now?

The same seed draws the same mutants of the same code. The checkout stays as it is: mutants live in a copy. Exit code 1
if fewer than 90 % are killed, 2 if the tests fail before anything is changed.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Column, Table
from rich.text import Text

from tests.mutants.mutations import Mutant, mutants_of
from tests.mutants.trial import ROOT, UntestedError, copied, targets

LEAST_KILLED = 0.9
Drawn = tuple[Path, Mutant]


@dataclass(frozen=True)
class Result:
    """The outcome of the mutants that were drawn."""

    module: str
    seed: int
    mutants: int
    survivors: Sequence[Drawn]

    @property
    def killed(self) -> int:
        return self.mutants - len(self.survivors)

    @property
    def kill_ratio(self) -> float:
        return self.killed / self.mutants

    def as_json(self) -> str:
        survivors = [
            {"file": str(module), "line": mutant.line, "before": mutant.before, "after": mutant.after}
            for module, mutant in self.survivors
        ]
        return json.dumps(
            {
                "module": self.module,
                "seed": self.seed,
                "mutants": self.mutants,
                "killed": self.killed,
                "kill_ratio": round(self.kill_ratio, 3),
                "survivors": survivors,
            },
            indent=2,
            ensure_ascii=False,
        )


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        mutants = drawn(options.module, options.seed, options.mutants)
        survivors = list(_survivors(mutants))
    except UntestedError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 2
    result = Result(options.module, options.seed, len(mutants), survivors)
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(result.as_json() + "\n")
    _show(result)
    return int(result.kill_ratio < LEAST_KILLED)


def drawn(name: str, seed: int, count: int) -> list[Drawn]:
    """``count`` mutants of a path (0: all of them), in the order of files and lines.

    Raises: UntestedError if there is none.
    """
    found = [
        (target.module, mutant)
        for target in targets(name)
        for mutant in mutants_of((ROOT / target.module).read_text())
        if target.line in (None, mutant.line)
    ]
    if not found:
        raise UntestedError(f"{name} decides nothing")
    chosen = random.Random(seed).sample(range(len(found)), min(count or len(found), len(found)))
    return [found[index] for index in sorted(chosen)]


def _survivors(mutants: Sequence[Drawn]) -> Iterator[Drawn]:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with copied() as copy, Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("", total=len(mutants))
        survived = 0
        for module, mutant in mutants:
            progress.update(task, description=f"{survived} survived; {module}")
            copy.check(module)
            if not copy.is_killed(module, mutant):
                survived += 1
                yield module, mutant
            progress.advance(task)


def _show(result: Result) -> None:
    console = Console()
    if result.survivors:
        table = Table(Column("survivor", no_wrap=True, overflow="fold"), "before", "after")
        for module, mutant in result.survivors:
            table.add_row(f"{module}:{mutant.line}", Text(mutant.before), Text(mutant.after))
        console.print(table)
    console.print(f"{result.killed} of {result.mutants} mutants of {result.module} killed: {result.kill_ratio:.1%}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutants",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("module", metavar="MODULE[:LINE]", help="a file or folder from the root, as rebalance")
    parser.add_argument("--seed", type=int, default=0, help="which mutants are drawn (default %(default)s)")
    parser.add_argument("--mutants", type=int, default=200, help="how many; 0: all (default %(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result there, too")
    return parser


if __name__ == "__main__":
    sys.exit(main())
