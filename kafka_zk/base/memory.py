"""Memory that the operating system allocates by the page."""

import mmap
from contextlib import suppress


def zeroed_memory(size_bytes: int) -> mmap.mmap:
    """The memory occupies pages only when they are touched, and is freed when the mapping is closed.

    Huge pages are used where available: with small pages, address translation would dominate random access.
    """
    memory = mmap.mmap(-1, size_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)  # shared memory has small pages
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):
            memory.madvise(mmap.MADV_HUGEPAGE)
    return memory
