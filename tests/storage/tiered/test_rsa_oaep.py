"""RSA-OAEP with SHA3-512, against OpenSSL."""

import shutil
import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from kafka_zk.storage.tiered.rsa_oaep import (
    OVERHEAD_BYTES,
    RsaPrivateNumbers,
    RsaPublicNumbers,
    oaep_decrypt,
    oaep_encrypt,
)
from tests.storage.tiered.encryption_keys import DATA_KEY, ENCRYPTED_DATA_KEY, PRIVATE_PEM, other_pair


def numbers(pem: str) -> RsaPrivateNumbers:
    key = load_pem_private_key(pem.encode(), None)
    assert isinstance(key, RSAPrivateKey)
    found = key.private_numbers()
    public = RsaPublicNumbers(found.public_numbers.n, found.public_numbers.e)
    return RsaPrivateNumbers(public, found.p, found.q, found.d)


KEY = numbers(PRIVATE_PEM)
LONGEST = KEY.public.size_bytes - OVERHEAD_BYTES


def test_what_openssl_encrypted_is_decrypted() -> None:
    assert oaep_decrypt(KEY, ENCRYPTED_DATA_KEY) == DATA_KEY


@pytest.mark.parametrize("message", [b"", b"\x00", b"\x01\x00", DATA_KEY, bytes(LONGEST)])
def test_openssl_decrypts_what_is_encrypted(tmp_path: Path, message: bytes) -> None:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not installed")
    key, encrypted, decrypted = tmp_path / "key.pem", tmp_path / "encrypted", tmp_path / "decrypted"
    key.write_text(PRIVATE_PEM)
    encrypted.write_bytes(oaep_encrypt(KEY.public, message))
    options = ("rsa_padding_mode:oaep", "rsa_oaep_md:sha3-512", "rsa_mgf1_md:sha3-512")
    command = [openssl, "pkeyutl", "-decrypt", "-inkey", str(key), "-in", str(encrypted), "-out", str(decrypted)]
    subprocess.run([*command, *(text for each in options for text in ("-pkeyopt", each))], check=True, timeout=60)
    assert decrypted.read_bytes() == message


@pytest.mark.parametrize("message", [b"", b"\x00\x01", DATA_KEY, bytes(LONGEST)])
def test_a_message_survives_encryption_which_differs_each_time(message: bytes) -> None:
    encrypted = [oaep_encrypt(KEY.public, message) for _ in range(2)]
    assert encrypted[0] != encrypted[1]
    assert {oaep_decrypt(KEY, each) for each in encrypted} == {message}


@pytest.mark.parametrize("at", [0, 1, 64, 65, 200, 255])
def test_a_changed_ciphertext_is_refused(at: int) -> None:
    changed = bytearray(ENCRYPTED_DATA_KEY)
    changed[at] ^= 1
    assert oaep_decrypt(KEY, bytes(changed)) is None


def test_a_ciphertext_of_another_size_or_key_is_refused() -> None:
    whole = KEY.public.size_bytes
    for wrong in (b"", ENCRYPTED_DATA_KEY[:-1], ENCRYPTED_DATA_KEY + b"\x00", b"\xff" * whole, bytes(whole)):
        assert oaep_decrypt(KEY, wrong) is None
    assert oaep_decrypt(numbers(other_pair()[0]), ENCRYPTED_DATA_KEY) is None


def test_the_key_is_not_printed() -> None:
    assert str(KEY.public.n)[:20] not in repr(KEY)
