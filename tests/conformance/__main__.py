"""``python -m tests.conformance CLIENT FAULT [--seed S]`` runs one cell, and prints its trace and verdict.

With ``all`` for one of them or both, it runs their cells and keeps the results in a file. A later run with the same
file continues.
"""

import argparse
import sys
from pathlib import Path

from kafka_zk.embedded.faults import NeverFired
from tests.conformance import clients, faults
from tests.conformance.cell import FOLDER, NotApplicable, run_cell, running_cluster
from tests.conformance.report import full_report
from tests.conformance.table import run_table


def main() -> int:
    """Returns the exit code: 0 if the cell passed, 1 if it did not, 2 if there is no verdict."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    parser.add_argument("client", choices=["all", *clients.BY_NAME])
    parser.add_argument("fault", choices=["all", *faults.BY_NAME])
    parser.add_argument("--seed", type=int, default=1, help="how the work is cut into batches (1)")
    parser.add_argument("--json", type=Path, default=FOLDER / "table.json", help="with 'all': the file of the results")
    arguments = parser.parse_args()
    if "all" in (arguments.client, arguments.fault):
        chosen = clients.CLIENTS if arguments.client == "all" else (clients.BY_NAME[arguments.client],)
        hit_by = faults.FAULTS if arguments.fault == "all" else (faults.BY_NAME[arguments.fault],)
        return run_table(chosen, hit_by, arguments.seed, arguments.json)
    with running_cluster() as cluster:
        try:
            cell = run_cell(
                cluster, clients.BY_NAME[arguments.client], faults.BY_NAME[arguments.fault], arguments.seed
            )
        except (NotApplicable, NeverFired) as error:
            print(f"Error: {error}", file=sys.stderr)
            return 2
    print(full_report(cell))
    return 1 if cell.objections else 0


if __name__ == "__main__":
    sys.exit(main())
