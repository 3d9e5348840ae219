"""Masters and targets: what is refused before Spark starts, and what is left to Spark."""

import socket
from pathlib import Path

import pytest

from kafka_zk.spark_jobs.errors import WronglyAsked
from kafka_zk.spark_jobs.extraction.preflight import check_folder, check_master, check_not_connect


@pytest.mark.parametrize(
    "master", ["local", "local[2]", "local[*]", "local[*,4]", "local-cluster[2,1,512]", "k8s://https://h:6443"]
)
def test_masters_that_spark_knows(master: str) -> None:
    check_master(master)


@pytest.mark.parametrize("master", ["", "Local", "local[]", "local[0]", "h:7077", "spark://h", "mesos://h:1", "yarn-x"])
def test_masters_that_it_does_not_know(master: str) -> None:
    with pytest.raises(WronglyAsked, match="--master"):
        check_master(master)


def test_yarn_needs_to_know_where_it_is() -> None:
    with pytest.raises(WronglyAsked, match="neither HADOOP_CONF_DIR nor YARN_CONF_DIR is set"):
        check_master("yarn", {})
    check_master("yarn", {"YARN_CONF_DIR": "/etc/hadoop"})


def test_one_of_several_standalone_masters_is_enough() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        check_master(f"spark://127.0.0.1:1,127.0.0.1:{server.getsockname()[1]}")


def test_a_folder_that_can_be_made(tmp_path: Path) -> None:
    for target in (str(tmp_path), f"{tmp_path}/a/b", f"file://{tmp_path}/a", f"file:{tmp_path}", "hdfs://h/lake"):
        check_folder(target, {}, {})


def test_a_file_is_no_folder_and_holds_none(tmp_path: Path) -> None:
    file = tmp_path / "a file"
    file.touch()
    for target in (str(file), f"file:{tmp_path}/a%20file"):
        with pytest.raises(WronglyAsked, match="is a file, not a folder"):
            check_folder(target, {}, {})
    with pytest.raises(WronglyAsked, match=r"a file is a file"):
        check_folder(f"{file}/lake", {}, {})


def test_where_the_default_file_system_may_be_another_spark_judges(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    check_folder(str(file), {}, {"HADOOP_CONF_DIR": "/etc/hadoop"})
    check_folder(str(file), {"spark.hadoop.fs.defaultFS": "hdfs://h"}, {})


@pytest.mark.parametrize(
    ("master", "config", "environ"),
    [
        ("sc://h", {}, {}),
        (None, {"spark.remote": "sc://h"}, {}),
        (None, {}, {"SPARK_REMOTE": "sc://h"}),
    ],
)
def test_a_server_of_spark_connect(master: str | None, config: dict[str, str], environ: dict[str, str]) -> None:
    with pytest.raises(WronglyAsked, match="sc://h is a Spark Connect server: use a classic session"):
        check_not_connect(master, config, environ)
    check_not_connect("local[1]", {}, {})
