"""Airflow 3: extract a topic every ten minutes, and each day's records into a table of their own.

Put the file into the folder of DAGs. The workers need `pip install 'kafka-zk[spark]'` and Java 17 or later.

Any run may be repeated: `kafka-zk extract` continues where one was killed, and extracts each record once.
"""

import shlex
from datetime import datetime, timedelta

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG

EXTRACT = ["kafka-zk", "extract", "--zookeeper", "127.0.0.1:2181", "--group", "lake", "--topic", "flights"]
FROM_HERE = {"start_date": datetime(2026, 11, 1), "catchup": False, "max_active_runs": 1}
REPEATED = {"retries": 3, "retry_delay": timedelta(minutes=2)}
"""Another member of the group (exit code 3) or an open transaction (5) is gone after a while."""


def command(*more: str) -> str:
    """The report is the last line of stdout, which Airflow keeps as the task's XCom."""
    return shlex.join([*EXTRACT, *more, "--json"])


with DAG("extract_flights", schedule=timedelta(minutes=10), **FROM_HERE):
    BashOperator(
        task_id="extract",
        bash_command=command("--to", "/data/lake", "--decode", "string"),
        **REPEATED,
    )

with DAG("flights_by_day", schedule="@daily", **FROM_HERE):
    # A backfill of the day before. It does not move the group's offsets, so days may run again and in any order.
    BashOperator(
        task_id="extract",
        bash_command=command(
            "--from", "{{ (logical_date - macros.timedelta(days=1)).int_timestamp * 1000 }}",
            "--until", "{{ logical_date.int_timestamp * 1000 }}",
            "--to", "/data/days/{{ macros.ds_add(ds, -1) }}",
        ),
        **REPEATED,
    )  # fmt: skip
