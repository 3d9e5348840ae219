"""Which modules brokers and commands load at the start. Each test uses its own process, because imported modules stay.
"""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

MOST_MODULES = 900
"""Limit for the broker's modules with those of the standard library, Twisted and kazoo. A hundred modules take about a
tenth of the time and memory of a start."""

BROKER = """
import sys
import kafka_zk.cli.main, kafka_zk.cli.cluster.broker
from kafka_zk.broker.config.kafka_config import KafkaConfig
KafkaConfig.from_properties({"zookeeper.connect": "127.0.0.1:2181"})
early = {"twisted", "kazoo", "asyncio", "ssl"} & sys.modules.keys()
assert not early, f"loaded by the command line or the configuration: {early}"
from kafka_zk.network.twisted_tcp import without_pyopenssl
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import BROKER_VERSIONS
with without_pyopenssl():
    import kafka_zk.broker.process.server
for api_key in BROKER_VERSIONS:
    codec.request(api_key), codec.response(api_key)
heavy = {
    "kafka", "OpenSSL", "cryptography", "twisted.web", "twisted.protocols.tls", "numpy", "pyspark", "rich", "unittest",
    "prometheus_client", "backports.zstd", "lz4", "snappy", "sqlite3",
    "kafka_zk.network.tls_transport", "kafka_zk.network.tls_port", "kafka_zk.broker.process.live_tls",
}
assert not heavy & sys.modules.keys(), f"not needed by a broker that has no work yet: {heavy & sys.modules.keys()}"
print(len(BROKER_VERSIONS), len(sys.modules))
"""


def run(script: str) -> str:
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_broker_loads_every_message_and_nothing_heavy() -> None:
    messages, modules = map(int, run(BROKER).split())
    assert messages > 50
    assert modules <= MOST_MODULES


COMMAND = """
import sys
from kafka_zk.cli.main import run
code = run({arguments})
heavy = {{"kafka", "OpenSSL", "cryptography"}} & sys.modules.keys()
print(code, heavy or "lean")
"""


@pytest.mark.parametrize("arguments", [
    ["topics", "list", "--bootstrap-server", "127.0.0.1:1"],
    ["znodes", "--zookeeper", "127.0.0.1:1"],
    ["consume", "--topic", "t", "--bootstrap-server", "127.0.0.1:1"],
])  # fmt: skip
def test_a_command_loads_no_client_of_others_and_no_pyopenssl(arguments: list[str]) -> None:
    """Without these imports, a command takes half the CPU time. In this test no server listens, so the command
    fails.
    """
    assert run(COMMAND.format(arguments=arguments)).split() == ["1", "lean"]


HIDDEN = """
import sys
from kafka_zk.network.twisted_tcp import without_pyopenssl
with without_pyopenssl():
    import twisted.internet.epollreactor
    assert "cryptography" not in sys.modules
import OpenSSL.SSL
with without_pyopenssl():
    import OpenSSL
print("found again")
"""


def test_pyopenssl_is_found_again_after_the_broker_was_loaded() -> None:
    """A user's authorizer may need it."""
    assert run(HIDDEN) == "found again\n"
