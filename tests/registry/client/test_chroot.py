"""Paths under a chroot, and paths that never leave this process."""

import pytest

from kafka_zk.registry.client.chroot import Chroot
from kafka_zk.registry.client.client import Check, Create, Delete, SetData


def test_paths_are_translated_both_ways() -> None:
    chroot = Chroot("/a/b")
    assert [chroot.full("/"), chroot.full("/x/y")] == ["/a/b", "/a/b/x/y"]
    assert [chroot.relative("/a/b"), chroot.relative("/a/b/x/y")] == ["/", "/x/y"]
    assert chroot.ancestors() == ["/a", "/a/b"]


def test_without_a_chroot_nothing_changes() -> None:
    chroot = Chroot()
    assert [chroot.full("/"), chroot.relative("/x"), chroot.ancestors()] == ["/", "/x", []]


def test_every_operation_keeps_its_other_fields() -> None:
    chroot = Chroot("/c")
    assert chroot.operation(Create("/x", b"d", True, True)) == Create("/c/x", b"d", True, True)
    assert chroot.operation(SetData("/x", b"d", 3)) == SetData("/c/x", b"d", 3)
    assert chroot.operation(Delete("/x", 4)) == Delete("/c/x", 4)
    assert chroot.operation(Check("/x", 5)) == Check("/c/x", 5)


@pytest.mark.parametrize("path", ["", "x", "/x/", "//x", "/x//y", "/./x", "/x/..", "/a\0b", "/\ud800"])
def test_bad_paths_are_refused_before_they_are_sent(path: str) -> None:
    """Such paths would end the connection or its thread. (UnicodeEncodeError is a ValueError, too.)"""
    with pytest.raises(ValueError):
        Chroot().full(path)
