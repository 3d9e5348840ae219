"""Memory that the operating system gives by the page."""

import mmap
from contextlib import suppress


def zeroed_memory(size_bytes: int) -> mmap.mmap:
    """Zeros that take no memory before they are touched, and give it back when they are closed.

    For access all over the place, hence in big pages where the system has them: with small ones, looking up pages
    would take it longer than looking up what is in them.
    """
    memory = mmap.mmap(-1, size_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)  # what is shared has small pages
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):
            memory.madvise(mmap.MADV_HUGEPAGE)
    return memory
