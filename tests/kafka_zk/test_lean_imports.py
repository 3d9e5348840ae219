"""A broker's process has kafka-python's tables and not its clients, and no TLS."""

import subprocess
import sys

SCRIPT = """
import sys
from kafka_zk.lean_imports import import_lean
import_lean()
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import BROKER_VERSIONS
for api_key in BROKER_VERSIONS:
    codec.request(api_key), codec.response(api_key)
import kafka_zk.server
assert not {"kafka.net", "kafka.admin", "OpenSSL.SSL", "cryptography"} & sys.modules.keys()
print(len(BROKER_VERSIONS))
"""


def test_every_message_is_there_and_no_client() -> None:
    """In a process of its own, since what is imported stays."""
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 50
