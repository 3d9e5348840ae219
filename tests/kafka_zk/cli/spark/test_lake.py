"""``kafka-zk lake`` up to the point where it needs Spark."""

import pytest

from kafka_zk.cli.main import run


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--to", "lake"], "folders need --zookeeper and --group"),
        (["--to", "lake", "--group", "g"], "folders need --zookeeper and --group"),
        (["--to", "lake", "--format", "iceberg"], "'lake' is not an Iceberg table"),
        (["--to", "lake", "--format", "csv"], "'csv' is not one of 'parquet', 'delta', 'iceberg'"),
        (["--to", "s3://bucket/t", "--format", "delta"], "Hadoop has no file system s3://, only s3a://"),
    ],
)
def test_what_compact_cannot_do_is_told_at_once(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["lake", "compact", *arguments]) == 2
    assert told in capsys.readouterr().err
