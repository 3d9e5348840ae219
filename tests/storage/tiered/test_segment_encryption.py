"""The encryption of chunks and data keys, and what is refused."""

import base64
import sys
from pathlib import Path

import pytest

from kafka_zk.storage.tiered.object_store import ObjectStoreError
from kafka_zk.storage.tiered.segment_encryption import (
    OVERHEAD_BYTES,
    KeyPairFiles,
    KeyRing,
    SegmentCipher,
    SegmentEncryption,
    UndecryptableData,
    read_key_ring,
)
from tests.storage.tiered.encryption_keys import (
    DATA_KEY,
    ENCRYPTED_DATA_KEY,
    PRIVATE_PEM,
    PUBLIC_PEM,
    other_pair,
    write_pair,
)

KEY = bytes.fromhex("feffe9928665731c6d6a8f9467308308" * 2)
IV = bytes.fromhex("cafebabefacedbaddecaf888")
CONTENT = bytes.fromhex(
    "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72"
    "1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39"
)
AAD = bytes.fromhex("feedfacedeadbeeffeedfacedeadbeefabaddad2")
CIPHERTEXT = bytes.fromhex(
    "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa"
    "8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662"
)
TAG = bytes.fromhex("76fc6ece0f4e1768cddf8853bb2d551b")
"""Test case 16 of "The Galois/Counter Mode of Operation (GCM)" by McGrew and Viega."""
STORED = IV + CIPHERTEXT + TAG


@pytest.fixture
def ring(tmp_path: Path) -> KeyRing:
    return read_key_ring({"k1": write_pair(tmp_path, "k1")}, "k1")


def wrapped(key: bytes = ENCRYPTED_DATA_KEY, pair_id: str = "k1") -> SegmentEncryption:
    return SegmentEncryption(f"{pair_id}:{base64.b64encode(key).decode()}", AAD)


def test_a_chunk_of_another_implementation_is_decrypted() -> None:
    assert SegmentCipher(KEY, AAD).decrypt(STORED) == CONTENT


@pytest.mark.parametrize("content", [b"", b"1", CONTENT])
def test_a_chunk_survives_encryption_which_differs_each_time(content: bytes) -> None:
    cipher = SegmentCipher(KEY, AAD)
    stored = [cipher.encrypt(content) for _ in range(2)]
    assert stored[0] != stored[1] and stored[0][:12] != stored[1][:12]
    assert {len(each) for each in stored} == {len(content) + OVERHEAD_BYTES}
    assert {cipher.decrypt(each) for each in stored} == {content}


@pytest.mark.parametrize("at", [0, 11, 12, 40, len(STORED) - 17, len(STORED) - 16, len(STORED) - 1])
def test_a_changed_byte_of_iv_content_or_tag_is_refused(at: int) -> None:
    changed = bytearray(STORED)
    changed[at] ^= 1
    with pytest.raises(UndecryptableData, match="the tag of encrypted data is wrong"):
        SegmentCipher(KEY, AAD).decrypt(bytes(changed))


def test_another_key_or_other_additional_data_are_refused() -> None:
    for cipher in (SegmentCipher(bytes(32), AAD), SegmentCipher(KEY, AAD[:-1]), SegmentCipher(KEY, b"")):
        with pytest.raises(UndecryptableData):
            cipher.decrypt(STORED)
    with pytest.raises(UndecryptableData, match="27 bytes are too few"):
        SegmentCipher(KEY, AAD).decrypt(STORED[:27])


def test_the_data_key_of_another_implementation_is_decrypted(ring: KeyRing) -> None:
    stored = SegmentCipher(DATA_KEY, AAD).encrypt(CONTENT)
    assert ring.cipher(wrapped()).decrypt(stored) == CONTENT


def test_each_segment_has_its_own_data_key(ring: KeyRing) -> None:
    created = [ring.new_encryption() for _ in range(2)]
    assert created[0] is not None and created[1] is not None
    (first, cipher), (second, other) = created[0], created[1]
    assert first.data_key.startswith("k1:") and len(first.aad) == 32
    assert first != second
    assert ring.cipher(first).decrypt(cipher.encrypt(b"1")) == b"1"
    with pytest.raises(UndecryptableData):
        ring.cipher(first).decrypt(other.encrypt(b"1"))


def test_a_new_pair_encrypts_and_the_old_one_still_decrypts(tmp_path: Path, ring: KeyRing) -> None:
    old = write_pair(tmp_path, "k1")
    pairs = {"k1": old, "k2": write_pair(tmp_path, "k2", *other_pair())}
    rotated = read_key_ring(pairs, "k2")
    before, after = ring.new_encryption(), rotated.new_encryption()
    assert before is not None and after is not None
    assert after[0].data_key.startswith("k2:")
    for encryption, cipher in (before, after):
        assert rotated.cipher(encryption).decrypt(cipher.encrypt(b"1")) == b"1"
    with pytest.raises(UndecryptableData, match=r"key pair 'k2', which is not among this broker's encryption\.key\."):
        ring.cipher(after[0])


def test_without_an_active_pair_segments_are_not_encrypted(tmp_path: Path) -> None:
    ring = read_key_ring({"k1": write_pair(tmp_path, "k1")}, None)
    assert ring.new_encryption() is None
    ring.cipher(wrapped())


@pytest.mark.parametrize(
    "data_key",
    ["k1", "k1:", "k1:?", "k1:AAAA", f"k1:{base64.b64encode(ENCRYPTED_DATA_KEY[:-1] + b'0').decode()}", "k1:a:b"],
)
def test_a_damaged_data_key_is_refused(ring: KeyRing, data_key: str) -> None:
    """The message does not repeat the key."""
    with pytest.raises(UndecryptableData, match="cannot be decrypted with the key pair 'k1'") as raised:
        ring.cipher(SegmentEncryption(data_key, AAD))
    assert ENCRYPTED_DATA_KEY[:9].hex() not in str(raised.value) and "?" not in str(raised.value)


def test_a_pair_that_was_replaced_under_its_id_is_refused(tmp_path: Path) -> None:
    ring = read_key_ring({"k1": write_pair(tmp_path, "k1", *other_pair())}, "k1")
    with pytest.raises(UndecryptableData, match="another one of the same name"):
        ring.cipher(wrapped())


@pytest.mark.parametrize(
    ("private", "public", "problem"),
    [
        ("", PUBLIC_PEM, "private.pem: not a PEM file with a private RSA key"),
        (PUBLIC_PEM, PUBLIC_PEM, "private.pem: not a PEM file with a private RSA key"),
        (PRIVATE_PEM.replace("MII", "MIJ", 1), PUBLIC_PEM, "private.pem: not a PEM file with a private RSA key"),
        (PRIVATE_PEM, PRIVATE_PEM, "public.pem: not a PEM file with a public RSA key"),
    ],
)
def test_files_that_are_no_key_pair_are_one_sentence(tmp_path: Path, private: str, public: str, problem: str) -> None:
    """The sentence names the file, and contains nothing of it."""
    with pytest.raises(ObjectStoreError, match=problem) as raised:
        read_key_ring({"k1": write_pair(tmp_path, "k1", private, public)}, "k1")
    for line in (private + public).splitlines():
        assert not line or line not in str(raised.value)


def test_keys_that_do_not_belong_together_are_refused(tmp_path: Path) -> None:
    """Otherwise, the broker would encrypt what it cannot decrypt."""
    with pytest.raises(ObjectStoreError, match=r"private\.pem: not the private key of .*public\.pem"):
        read_key_ring({"k1": write_pair(tmp_path, "k1", public_pem=other_pair()[1])}, "k1")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    pair = write_pair(tmp_path, "k1")
    with pytest.raises(ObjectStoreError, match=r"gone\.pem: no such file"):
        read_key_ring({"k1": KeyPairFiles(pair.public, str(tmp_path / "gone.pem"))}, "k1")


def test_without_the_library_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.asymmetric.rsa", None)
    with pytest.raises(ObjectStoreError, match=r"needs kafka-zk\[security\]: pip install"):
        read_key_ring({"k1": write_pair(tmp_path, "k1")}, "k1")


def test_keys_are_not_printed(ring: KeyRing) -> None:
    created = ring.new_encryption()
    assert created is not None
    for shown in (repr(ring), repr(created[1]), repr(ring.__dict__)):
        assert DATA_KEY.hex() not in shown and len(shown) < 400
