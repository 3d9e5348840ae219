"""A broker's process has no TLS and no asyncio until something uses them."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

SCRIPT = """
import sys
import kafka_zk.cli.main, kafka_zk.cli.cluster.broker
from kafka_zk.broker.config.kafka_config import KafkaConfig
config, _ = KafkaConfig.from_properties({"zookeeper.connect": "127.0.0.1:2181"})
early = {"twisted", "asyncio", "ssl", "hashlib", "OpenSSL"} & sys.modules.keys()
assert not early, f"loaded by the command line or the configuration: {early}"
from kafka_zk.broker.process.lean_imports import import_lean
import_lean(tls_listeners=config.has_tls_listeners)
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import BROKER_VERSIONS
for api_key in BROKER_VERSIONS:
    codec.request(api_key), codec.response(api_key)
import kafka_zk.broker.process.server
heavy = {"kafka", "OpenSSL.SSL", "cryptography", "_ssl", "_hashlib", "asyncio.base_events"}
assert not heavy & sys.modules.keys(), f"4 % of a broker's memory each: {heavy & sys.modules.keys()}"
print(len(BROKER_VERSIONS))
"""


def test_every_message_is_there_and_no_foreign_client() -> None:
    """In a process of its own, since what is imported stays."""
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 50


COMMAND = """
import sys
from kafka_zk.cli.main import run
code = run({arguments})
heavy = {{"kafka", "OpenSSL.SSL", "cryptography"}} & sys.modules.keys()
print(code, heavy or "lean")
"""


@pytest.mark.parametrize("arguments", [
    ["topics", "list", "--bootstrap-server", "127.0.0.1:1"],
    ["znodes", "--zookeeper", "127.0.0.1:1"],
    ["consume", "--topic", "t", "--bootstrap-server", "127.0.0.1:1"],
])  # fmt: skip
def test_a_command_has_no_client_of_others_and_no_tls(arguments: list[str]) -> None:
    """Without them it takes half the processor time. Here it finds nobody."""
    script = COMMAND.format(arguments=arguments)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.split() == ["1", "lean"], done


LATER = """
from kafka_zk.broker.process.lean_imports import import_lean
import_lean()
import kafka_zk.broker.process.server
import asyncio, hashlib, hmac, http.cookiejar, ssl
import asyncio.subprocess
from asyncio import Queue
assert hashlib.sha256(b"").hexdigest().startswith("e3b0c442")
assert hmac.new(b"key", b"", "md5").digest_size == 16
assert ssl.create_default_context().check_hostname
assert len(http.cookiejar.CookieJar()) == 0
async def three():
    return 3
assert asyncio.run(three()) == 3 and asyncio.Future is not object and asyncio.subprocess.PIPE == -1
print("all there")
"""


def test_what_is_left_out_is_there_when_it_is_used() -> None:
    done = subprocess.run([sys.executable, "-c", LATER], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "all there\n", done.stderr


WITH_TLS = """
import sys
from kafka_zk.broker.process.lean_imports import import_lean
import_lean(tls_listeners=True)
import kafka_zk.broker.process.server
import OpenSSL.SSL, hashlib, ssl
assert "_ssl" in sys.modules and "_hashlib" in sys.modules
assert "kafka" not in sys.modules and type(ssl) is type(sys) is type(hashlib)
print("nothing of TLS is replaced")
"""


def test_tls_listeners_have_the_real_modules() -> None:
    done = subprocess.run([sys.executable, "-c", WITH_TLS], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "nothing of TLS is replaced\n", done.stderr
