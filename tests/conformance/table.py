"""Runs many cells on one cluster and keeps the results."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from kafka_zk.embedded.faults import NeverFired
from kafka_zk.testing.cluster import Cluster
from tests.conformance.cell import NotApplicable, run_cell, running_cluster
from tests.conformance.clients import Client
from tests.conformance.faults import Fault
from tests.conformance.report import verdict_line

Row = dict[str, Any]


def run_table(clients: Iterable[Client], faults: Sequence[Fault], seed: int, results: Path) -> int:
    """Run the cells that ``results`` does not have yet, and add a row for each.

    Returns the exit code: 1 if a fault never fired, because there is no verdict then. Objections are results.
    """
    rows: list[Row] = json.loads(results.read_text()) if results.exists() else []
    there = {(row["client"], row["fault"]) for row in rows}
    with running_cluster() as cluster:
        for client in clients:
            for fault in faults:
                if (client.name, fault.name) not in there:
                    rows.append(_row(cluster, client, fault, seed))
                    results.write_text("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n")
    return int(any("never_fired" in row for row in rows))


def _row(cluster: Cluster, client: Client, fault: Fault, seed: int) -> Row:
    row: Row = {"client": client.name, "fault": fault.name, "seed": seed}
    found: Row
    try:
        cell = run_cell(cluster, client, fault, seed)
    except NotApplicable:
        said, found = "not applicable", {"not_applicable": True}
    except NeverFired:
        said, found = "the fault never fired", {"never_fired": True}
    else:
        said, found = verdict_line(cell.verdict), {**cell.verdict._asdict(), "objections": cell.objections}
        if cell.objections:
            said += f"; not excused: {', '.join(cell.objections)}"
    print(f"{client.name}, {fault.name}: {said}", flush=True)
    return row | found
