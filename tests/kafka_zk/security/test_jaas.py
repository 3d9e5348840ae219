"""JAAS login files and properties as Java reads them."""

import pytest

from kafka_zk.security.jaas import InvalidJaas, LoginModule, parse_file, parse_property, property_text


def test_sections_modules_comments_and_quotes() -> None:
    text = r"""
    // for the brokers
    KafkaServer {
        org.example.Plain REQUIRED user_a="x;y}" ;
        org.example.Second optional key='it "is"';
    };
    /* for
       ZooKeeper */
    Client {
        org.example.Digest required username=kafka
        password="a \"quoted\" = \\ one";
    };
    Empty { };
    """
    assert parse_file(text) == {
        "KafkaServer": (
            LoginModule("org.example.Plain", {"user_a": "x;y}"}),
            LoginModule("org.example.Second", {"key": 'it "is"'}),
        ),
        "Client": (LoginModule("org.example.Digest", {"username": "kafka", "password": 'a "quoted" = \\ one'}),),
        "Empty": (),
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Client {", "ends where a name"),
        ("Client { m required username=kafka }", "'}' where a name"),
        ("Client { m required username kafka; };", "'='"),
        ('Client { m required\npassword="x; };', "line 2"),
        ("Client { m required; }", "ends where ';'"),
        ("{ };", "'{'"),
        ("Client { m username=kafka; };", "required, requisite"),
    ],
)
def test_what_java_refuses_is_refused_with_the_place(text: str, message: str) -> None:
    with pytest.raises(InvalidJaas, match=message):
        parse_file(text)


def test_a_property_has_one_module() -> None:
    module = parse_property('org.example.Scram required username="alice" tokenauth=true;')
    assert module == LoginModule("org.example.Scram", {"username": "alice", "tokenauth": "true"})


@pytest.mark.parametrize("text", ["", "m required", "m required; n required;", "m required user=a"])
def test_a_property_with_no_or_several_modules_is_refused(text: str) -> None:
    with pytest.raises(InvalidJaas):
        parse_property(text)


@pytest.mark.parametrize("text", ["m required password s3cret;", "m required password=a s3cret", "m required; s3cret",
                                  "m s3cret a=b;"])  # fmt: skip
def test_neither_a_message_nor_a_repr_shows_a_value(text: str) -> None:
    with pytest.raises(InvalidJaas) as refused:
        parse_property(text)
    assert "s3cret" not in str(refused.value)
    assert "s3cret" not in repr(LoginModule("m", {"password": "s3cret"}))


@pytest.mark.parametrize("value", ["pw", 'a"b', "a\\b", "", "a;b = {c}", "//x", "ü\n"])
def test_a_module_survives_being_written_and_read(value: str) -> None:
    module = LoginModule("a.B", {"username": value, "password": "x"})
    assert parse_property(property_text(module)) == module
