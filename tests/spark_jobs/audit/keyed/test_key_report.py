"""Exit codes and repair statements of audits by key."""

import pytest

from kafka_zk.spark_jobs.audit.findings import Kind
from kafka_zk.spark_jobs.audit.keyed.key_report import KeyReport
from kafka_zk.spark_jobs.audit.repairs import delete_key


@pytest.mark.parametrize(
    ("counts", "not_checked", "code"),
    [
        ({}, [], 0),
        ({}, ["a column"], 2),
        ({Kind.BEHIND: 1}, [], 2),
        ({Kind.SHIFTED: 1}, [], 2),
        ({Kind.BEHIND: 1, Kind.MISSING: 1}, [], 1),
    ],
)
def test_only_faults_exit_with_1(counts: dict[Kind, int], not_checked: list[str], code: int) -> None:
    assert KeyReport("delta", ["id"], True, [], [], [], counts, not_checked).exit_code == code


def test_rows_are_deleted_by_their_key() -> None:
    key = '{"a.b":1,"name":"it\'s","yes":true}'
    assert delete_key("delta.`/t`", key) == (
        "DELETE FROM delta.`/t` WHERE `a.b` = 1 AND `name` = 'it\\'s' AND `yes` = true",
    )
    assert delete_key("", '{"id":1}') == ("rewrite the files without the rows WHERE `id` = 1",)
