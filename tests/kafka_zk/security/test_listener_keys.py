"""Which login module a listener has for a mechanism: its own key, or a section of the JAAS file."""

from pathlib import Path

import pytest

from kafka_zk.security.errors import InvalidSecurity
from kafka_zk.security.listener_keys import JAAS_FILE, ListenerKeys, is_read_for_listener

MODULES = "org.apache.kafka.common.security."
FILE = f"""
KafkaServer {{
    {MODULES}scram.ScramLoginModule required username="of all" password="hidden";
    {MODULES}plain.PlainLoginModule required user_a="hidden";
}};
inside.KafkaServer {{
    {MODULES}scram.ScramLoginModule required username="of one";
}};
Client {{ org.apache.zookeeper.server.auth.DigestLoginModule required username="z" password="z"; }};
"""


@pytest.fixture
def file(tmp_path: Path) -> dict[str, str]:
    path = tmp_path / "jaas.conf"
    path.write_text(FILE)
    return {JAAS_FILE: str(path)}


def test_each_mechanism_has_its_module_of_the_section(file: dict[str, str]) -> None:
    keys = ListenerKeys(file, "OUTSIDE")
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        assert keys.login_module(mechanism).options["username"] == "of all"
    assert keys.login_module("PLAIN").options == {"user_a": "hidden"}


def test_the_section_of_the_listener_wins_and_the_property_over_both(file: dict[str, str]) -> None:
    module = f"{MODULES}scram.ScramLoginModule required username=b;"
    own = {"listener.name.inside.scram-sha-256.sasl.jaas.config": module}
    assert ListenerKeys(file, "INSIDE").login_module("SCRAM-SHA-256").options["username"] == "of one"
    assert ListenerKeys({**file, **own}, "INSIDE").login_module("SCRAM-SHA-256").options["username"] == "b"
    assert ListenerKeys({**file, **own}, "INSIDE").login_module("SCRAM-SHA-512").options["username"] == "of one"


def test_a_section_without_the_module_is_not_left_for_the_other(file: dict[str, str]) -> None:
    """In Kafka, too, sections are not merged."""
    with pytest.raises(InvalidSecurity, match=r"section inside\.KafkaServer lacks the login module") as refused:
        ListenerKeys(file, "INSIDE").login_module("PLAIN")
    assert "hidden" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "reason"),
    [("", "no section l.KafkaServer or KafkaServer"), ("KafkaServer { hidden", "not a JAAS"), (None, "No such")],
)
def test_a_file_that_says_nothing_refuses_the_start(tmp_path: Path, text: str | None, reason: str) -> None:
    path = tmp_path / "jaas.conf"
    if text is not None:
        path.write_text(text)
    with pytest.raises(InvalidSecurity, match=reason) as refused:
        ListenerKeys({JAAS_FILE: str(path)}, "L").login_module("PLAIN")
    assert "hidden" not in str(refused.value)


def test_keys_that_count_under_a_listener() -> None:
    for key in ("ssl.keystore.location", "plain.sasl.jaas.config", "scram-sha-256.connections.max.reauth.ms",
                "oauthbearer.sasl.oauthbearer.expected.issuer", "sasl.oauthbearer.expected.issuer",
                "plain.sasl.server.callback.handler.class"):  # fmt: skip
        assert is_read_for_listener(key)
    for key in ("sasl.jaas.config", "sasl.server.callback.handler.class", "plain.ssl.keystore.location"):
        assert not is_read_for_listener(key)
