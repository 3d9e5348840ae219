"""Anonymous memory that grows with its content."""

import mmap

import pytest

from kafka_zk.base.operating_system.memory import grown_memory, zeroed_memory


class _WithoutMremap(mmap.mmap):
    def resize(self, size: int) -> None:
        raise SystemError("mmap: resizing not available--no mremap()")


@pytest.mark.parametrize(("kind", "is_copied"), [(mmap.mmap, False), (_WithoutMremap, True)])
def test_it_grows_with_its_content(kind: type[mmap.mmap], is_copied: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mmap, "mmap", kind)
    old = zeroed_memory(5_000)
    old[:5_000] = b"x" * 5_000
    new = grown_memory(old, 3_000_000)
    assert (new is not old, old.closed) == (is_copied, is_copied)
    assert new[:] == b"x" * 5_000 + bytes(2_995_000)
