"""An S3 server over HTTP for tests: moto's, in a separate process."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kafka_zk.embedded.ports import free_port
from tests.peers import jars
from tests.peers.processes import wait_until

_START_S = 60
KEYS = {"aws_access_key_id": "testing", "aws_secret_access_key": "testing"}
REGION = "us-east-1"


class S3:
    """``client``: boto3's client for this server."""

    def __init__(self, host: str, port: int) -> None:
        import boto3

        self.endpoint = f"http://{host}:{port}"
        self.client: Any = boto3.client("s3", endpoint_url=self.endpoint, region_name=REGION, **KEYS)

    def conf(self, jars_of: str = jars.SPARK_S3, *more: str) -> dict[str, str]:
        """Spark's configuration for ``s3a://`` on this server; ``more``: further jars."""
        return {
            "spark.jars": ",".join(str(path) for each in (jars_of, *more) for path in jars.jars(each).glob("*.jar")),
            "spark.hadoop.fs.s3a.endpoint": self.endpoint,
            "spark.hadoop.fs.s3a.endpoint.region": REGION,
            "spark.hadoop.fs.s3a.path.style.access": "true",
            "spark.hadoop.fs.s3a.connection.ssl.enabled": "false",
            "spark.hadoop.fs.s3a.access.key": KEYS["aws_access_key_id"],
            "spark.hadoop.fs.s3a.secret.key": KEYS["aws_secret_access_key"],
        }

    @property
    def pyiceberg(self) -> dict[str, str]:
        """PyIceberg's properties for this server."""
        return {
            "s3.endpoint": self.endpoint,
            "s3.region": REGION,
            "s3.access-key-id": KEYS["aws_access_key_id"],
            "s3.secret-access-key": KEYS["aws_secret_access_key"],
        }

    def keys(self, bucket: str, prefix: str = "") -> list[str]:
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        return sorted(each["Key"] for page in pages for each in page.get("Contents", ()))

    def read(self, bucket: str, key: str) -> bytes:
        data: bytes = self.client.get_object(Bucket=bucket, Key=key)["Body"].read()
        return data


@contextmanager
def s3_server(log: Path, host: str = "127.0.0.1") -> Iterator[S3]:
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", host, "-p", str(port)]
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
    try:
        wait_until(lambda: process.poll() is not None or _answers(host, port), _START_S, "the S3 server")
        assert process.poll() is None, log.read_text()
        yield S3(host, port)
    finally:
        process.terminate()
        process.wait()


def _answers(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), 1).close()
    except OSError:
        return False
    return True
