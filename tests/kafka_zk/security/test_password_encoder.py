"""Passwords in ZooKeeper, as Apache Kafka encodes them."""

import pytest

from kafka_zk.security.errors import InvalidSecurity
from kafka_zk.security.password import Password
from kafka_zk.security.password_encoder import PasswordEncoder

SECRET = {"password.encoder.secret": "encoder-secret"}
OF_JAVA = (
    "initializationVector:34c/LsdwjYfTT1ymP21Yag==,"
    "keyLength:128,"
    "salt:NjoxLR5qPI7HNWF+cgImU/e0i4F56TmYZWZHzjGa/jktswixod2sT2CAo8kDHB1dIJNHo8P2w5h+mFYTbvlapUunzQ1ImRv"
    "bMIAqLt6MBoc6blMsKiPnFFJlYZforq6XDHzsV1v24iKNek4syI9NrQefSk6juq3gj5xn6mJmRKQNDLppNPmy/uqRTzX0h8hwIrP"
    "qnUON+kVzb0KsabZ8wclh4vGzLgETBUNOd4vVlwqeHvtiwZEF6ovGUuLQpg7/KapufnhAxGAR0PoYD8EIS9Jh1rJ6u8IzxaSkcJt"
    "WYYUq+1tJv0UU5MlG7A7NWSeXBedvqjGeFgwBorafBLFVGQ==,"
    "keyFactoryAlgorithm:PBKDF2WithHmacSHA512,"
    "cipherAlgorithm:AES/CBC/PKCS5Padding,"
    "iterations:4096,"
    "passwordLength:8,"
    "encryptedPassword:WPLZYNmxPViHRwYSIS2xqQ=="
)
"""The output of Kafka 3.9.1's EncryptingPasswordEncoder."""


def encoder(**others: str) -> PasswordEncoder:
    made = PasswordEncoder.of({**SECRET, **{key.replace("_", "."): value for key, value in others.items()}})
    assert made is not None
    return made


def test_what_java_has_encoded_is_read() -> None:
    assert encoder().decode(OF_JAVA).value == "störe-pw"


@pytest.mark.parametrize("password", ["", "x", "a" * 15, "a" * 16, "größer", "𝄞 of two units", "x" * 5000])
def test_what_is_encoded_is_read_again(password: str) -> None:
    made = encoder(password_encoder_key_length="256", password_encoder_iterations="2048",
                   password_encoder_keyfactory_algorithm="PBKDF2WithHmacSHA1")  # fmt: skip
    text = made.encode(Password(password))
    assert encoder().decode(text).value == password  # the encoded string contains the parameters
    assert text != made.encode(Password(password))
    assert password not in text or len(password) < 2


def test_another_secret_reads_nothing() -> None:
    other = PasswordEncoder.of({"password.encoder.secret": "another"})
    assert other is not None
    with pytest.raises(InvalidSecurity, match=r"another password\.encoder\.secret"):
        other.decode(OF_JAVA)


@pytest.mark.parametrize(
    "text",
    [
        "", "secret", OF_JAVA.replace("keyLength:128", "keyLength:1"), OF_JAVA.replace("4096", "999999999"),
        OF_JAVA.replace("AES/CBC/PKCS5Padding", "DES"), OF_JAVA.replace("passwordLength:8", "passwordLength:9"),
        OF_JAVA.replace("initializationVector:", "initializationVector:AAAA"), "," * 300_000,
        OF_JAVA.replace("salt:", "other:"),
    ],
)  # fmt: skip
def test_a_damaged_text_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(InvalidSecurity) as refused:
        encoder().decode(text)
    assert not text or text not in str(refused.value)


def test_without_a_secret_there_is_no_encoder() -> None:
    assert PasswordEncoder.of({}) is None
    assert "encoder-secret" not in repr(encoder())


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("password_encoder_iterations", "10"), ("password_encoder_iterations", "many"),
        ("password_encoder_key_length", "64"), ("password_encoder_cipher_algorithm", "AES/GCM/NoPadding"),
        ("password_encoder_keyfactory_algorithm", "MD5"),
    ],
)  # fmt: skip
def test_parameters_that_cannot_be_used_are_told(key: str, value: str) -> None:
    with pytest.raises(InvalidSecurity, match=key.replace("_", r"\.")):
        encoder(**{key: value})
