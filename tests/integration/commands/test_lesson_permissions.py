"""The lesson's chapter about ACLs and quotas: its statements match what happened in the cluster."""

import json

import pytest

from kafka_zk.learn.lesson.permissions import BYTE_RATE, RECORD_BYTES, RECORDS
from tests.integration.processes import kafka_zk

pytestmark = [pytest.mark.integration, pytest.mark.long]


def test_what_the_chapter_shows() -> None:
    """A write without an ACL is refused, and with one it succeeds. A Deny beats the Allow of a prefix. A quota
    throttles.
    """
    done = kafka_zk("lesson", "--json", "--chapter", "10", timeout_s=120)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)["chapter 10"]
    assert report["refused"] == "TOPIC_AUTHORIZATION_FAILED"
    assert {"User:admin", "User:alice"} <= report["connected"].keys()
    assert report["allowed"] == {"acl": "Allow User:alice Write from *", "offset": 0}
    assert report["denied"] == "by the ACL Deny User:bob Read from * of Topic:LITERAL:letters"
    throttled = report["throttled"]
    assert throttled["quotas"] == {"producer_byte_rate": str(BYTE_RATE)}, "the quotas contain keys of the login"
    assert throttled["by"] == {"key": "producer_byte_rate", "user": "alice", "bound": BYTE_RATE}
    assert throttled["held_s"] > RECORDS * RECORD_BYTES / BYTE_RATE / 2, "the throttle was too short"
    assert throttled["held_s"] > 3 * throttled["free_s"]
