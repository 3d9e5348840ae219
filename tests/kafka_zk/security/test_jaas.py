"""JAAS login files as Java reads them."""

import pytest

from kafka_zk.security.jaas import InvalidJaas, LoginModule, parse


def test_sections_modules_comments_and_quotes() -> None:
    text = r"""
    // for the brokers
    KafkaServer {
        org.example.Plain required user_a="x;y}" ;
        org.example.Second optional;
    };
    /* for
       ZooKeeper */
    Client {
        org.example.Digest required username=kafka
        password="a \"quoted\" = \\ one";
    };
    Empty { };
    """
    assert parse(text) == {
        "KafkaServer": LoginModule("org.example.Plain", {"user_a": "x;y}"}),
        "Client": LoginModule("org.example.Digest", {"username": "kafka", "password": 'a "quoted" = \\ one'}),
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Client {", "middle"),
        ("Client { m required username=kafka }", "';'|'}'"),
        ("Client { m required username kafka; };", "'='"),
        ('Client { m required\npassword="x; };', "line 2"),
        ("Client { m required; }", "middle"),
        ("{ };", "'{'"),
    ],
)
def test_what_java_refuses_is_refused_with_the_place(text: str, message: str) -> None:
    with pytest.raises(InvalidJaas, match=message):
        parse(text)
