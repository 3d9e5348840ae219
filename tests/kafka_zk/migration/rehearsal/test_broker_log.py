"""The decisive lines of a broker's log, as 3.9.1 writes them."""

import pytest

from kafka_zk.migration.rehearsal.broker_log import BrokerLog

_AT = "2026-11-30 00:29:50,123"


def read(*lines: str, secrets: tuple[str, ...] = ()) -> BrokerLog:
    log = BrokerLog(secrets)
    log.read(lines)
    return log


@pytest.mark.parametrize(
    "line",
    [
        "[kafka.server.KafkaServer] [KafkaServer id=1] started",
        "[kafka.server.KafkaRaftServer] [KafkaRaftServer nodeId=1] Kafka Server started",
    ],
)
def test_a_broker_has_started_in_either_mode(line: str) -> None:
    assert not read(f"{_AT} INFO [kafka.server.KafkaServer] [KafkaServer id=1] starting").is_started
    assert read(f"{_AT} INFO {line}").is_started


def test_a_broker_is_refused_until_it_is_unfenced() -> None:
    manager = "[kafka.server.BrokerLifecycleManager] [BrokerLifecycleManager id=1 isZkBroker=true]"
    log = read(
        f"{_AT} INFO {manager} Unable to register broker 1 because the controller returned error UNSUPPORTED_VERSION"
    )
    assert (log.refusal, log.is_unfenced) == ("UNSUPPORTED_VERSION", False)
    log.read([f"{_AT} INFO {manager} The broker has been unfenced. Transitioning from RECOVERY to RUNNING."])
    assert (log.refusal, log.is_unfenced) == ("", True)


def test_secrets_of_the_settings_are_hidden() -> None:
    error = f"{_AT} ERROR [x] cannot parse org.Module required password=\"hunter2\";"
    (found,) = read(error, secrets=("hunter2",)).errors
    assert "(hidden)" in found and "hunter2" not in found
