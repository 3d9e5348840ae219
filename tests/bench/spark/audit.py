"""The time of `kafka-zk lake audit` for a large table: `python -m tests.bench.spark.audit`.

The bench writes the tables first, with one file's rows shared by hard links where the format allows it: a Delta log
whose statistics describe each file, and a folder of Parquet files with offsets of their own. With ``--scan``, the audit
reads every offset; the Delta files, which are links, then disagree with their statistics, so only the folder is
scanned.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import click
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

_PARTITIONS = 12


class Run(NamedTuple):
    """``name``: the table and the options; ``exit_code``: 0 for a clean table."""

    name: str
    rows: int
    seconds: float
    peak_bytes: int
    exit_code: int


def _rows(partition: int, first: int, count: int) -> pa.Table:
    return pa.table(
        {
            "topic": pa.array(["flights"]).take(pa.array(np.zeros(count, np.int32))),
            "partition": np.full(count, partition, np.int32),
            "offset": np.arange(first, first + count, dtype=np.int64),
        }
    )


def write_delta(folder: Path, files: int, rows_each: int) -> None:
    """Each file gets the bounds that its own rows would have; ten entries make one version."""
    log = folder / "_delta_log"
    log.mkdir(parents=True)
    pq.write_table(_rows(0, 0, rows_each), folder / "part-000000.parquet")
    size = (folder / "part-000000.parquet").stat().st_size
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}}
              for name, kind in (("topic", "string"), ("partition", "integer"), ("offset", "long"))]  # fmt: skip
    lines = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {"metaData": {"id": "bench", "format": {"provider": "parquet", "options": {}}, "partitionColumns": [],
                      "schemaString": json.dumps({"type": "struct", "fields": fields}), "configuration": {}}},
    ]  # fmt: skip
    for number in range(files):
        name, first = f"part-{number:06d}.parquet", number // _PARTITIONS * rows_each
        if number:
            os.link(folder / "part-000000.parquet", folder / name)
        low = {"topic": "flights", "partition": number % _PARTITIONS, "offset": first}
        statistics = {"numRecords": rows_each, "minValues": low, "maxValues": {**low, "offset": first + rows_each - 1},
                      "nullCount": dict.fromkeys(low, 0)}  # fmt: skip
        lines.append({"add": {"path": name, "partitionValues": {}, "size": size, "modificationTime": 0,
                              "dataChange": True, "stats": json.dumps(statistics)}})  # fmt: skip
    for version, start in enumerate(range(0, len(lines), 10)):
        text = "\n".join(map(json.dumps, lines[start : start + 10]))
        (log / f"{version:020d}.json").write_text(text)


def write_parquet(folder: Path, files: int, rows_each: int) -> None:
    folder.mkdir()
    for number in range(files):
        rows = _rows(number % _PARTITIONS, number // _PARTITIONS * rows_each, rows_each)
        pq.write_table(rows, folder / f"part-{number:06d}.parquet")


def run(name: str, folder: Path, rows: int, *options: str) -> Run:
    """Run the audit in a process of its own, whose start counts."""
    began_s = time.monotonic()
    command = [sys.executable, "-m", "kafka_zk", "lake", "audit", str(folder), "--json", *options]
    done = subprocess.run(command, stdout=subprocess.DEVNULL, check=False)
    seconds = time.monotonic() - began_s
    peak_bytes = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    return Run(name, rows, seconds, peak_bytes, done.returncode)


@click.command()
@click.option("--rows", default=100_000_000, show_default=True, type=click.IntRange(1))
@click.option("--files", default=2_000, show_default=True, type=click.IntRange(1))
@click.option("--json", "as_json", is_flag=True)
def main(rows: int, files: int, as_json: bool) -> None:
    """Audit tables of --rows rows in --files files."""
    rows_each = rows // files
    with tempfile.TemporaryDirectory() as place:
        delta, parquet = Path(place) / "delta", Path(place) / "parquet"
        write_delta(delta, files, rows_each)
        write_parquet(parquet, files, rows_each)
        found = [
            run("Delta, statistics", delta, rows_each * files),
            run("Parquet, footers", parquet, rows_each * files),
            run("Parquet, --scan", parquet, rows_each * files, "--scan"),
        ]
    if as_json:
        click.echo(json.dumps([each._asdict() for each in found]))
        return
    for each in found:
        click.echo(f"{each.name:20} {each.rows:>13,} rows {each.seconds:6.1f} s, at most {each.peak_bytes >> 20} MiB, "
                   f"exit code {each.exit_code}")  # fmt: skip


if __name__ == "__main__":
    main()
