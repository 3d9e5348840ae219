"""When a certificate is reported because it will expire soon."""

from kafka_zk.security.certificate import Certificate
from kafka_zk.security.expiry import ExpiryWarnings

DAY_MS = 86_400_000
BROKER = Certificate("CN=broker", frozenset({"kafka-0"}), 100 * DAY_MS)
AUTHORITY = Certificate("CN=authority", frozenset(), 1000 * DAY_MS)
SHOWN = {"SASL_SSL": [BROKER, AUTHORITY]}


def said(warnings: ExpiryWarnings, *days: float) -> list[list[str]]:
    return [warnings.due(SHOWN, int(day * DAY_MS)) for day in days]


def test_each_limit_is_told_once() -> None:
    told = said(ExpiryWarnings(), 0, 69.9, 70, 70.1, 92.9, 93, 99, 100, 101)
    assert [len(each) for each in told] == [0, 0, 1, 0, 0, 1, 0, 1, 0]
    assert told[2] == ["SASL_SSL: the certificate CN=broker expires in 30.0 days"]
    assert told[5] == ["SASL_SSL: the certificate CN=broker expires in 7.0 days"]
    assert told[7] == ["SASL_SSL: the certificate CN=broker has expired, clients refuse it"]


def test_a_start_near_the_end_is_told_once() -> None:
    assert [len(each) for each in said(ExpiryWarnings(), 98, 98.1)] == [1, 0]


def test_a_new_certificate_is_watched_anew() -> None:
    warnings = ExpiryWarnings()
    assert said(warnings, 80)[0]
    renewed = Certificate(BROKER.subject, BROKER.names, 200 * DAY_MS)
    assert not warnings.due({"SASL_SSL": [renewed]}, 80 * DAY_MS)
    assert warnings.due({"SASL_SSL": [renewed]}, 171 * DAY_MS)


def test_each_listener_is_told_of() -> None:
    told = ExpiryWarnings().due({"SSL": [BROKER], "SASL_SSL": [BROKER]}, 95 * DAY_MS)
    assert [sentence.partition(":")[0] for sentence in told] == ["SSL", "SASL_SSL"]
