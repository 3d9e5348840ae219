"""Memory that the operating system allocates by the page."""

import mmap
from contextlib import suppress

_HUGE_PAGES: int | None = getattr(mmap, "MADV_HUGEPAGE", None)


def zeroed_memory(size_bytes: int) -> mmap.mmap:
    """The memory occupies pages only when they are touched, and is freed when the mapping is closed.

    Huge pages are used where available, because address translation would dominate random access to small pages.
    Raises: OSError, MemoryError.
    """
    memory = mmap.mmap(-1, size_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)  # shared memory has small pages
    _use_huge_pages(memory)
    return memory


def grown_memory(memory: mmap.mmap, size_bytes: int) -> mmap.mmap:
    """The same content in more memory; nothing may still refer to the old mapping.

    Without ``mremap``, the content is copied. Raises: OSError, MemoryError.
    """
    try:
        memory.resize(size_bytes)
    except (SystemError, AttributeError):  # SystemError until Python 3.14
        new = zeroed_memory(size_bytes)
        new[: len(memory)] = memory[:]
        memory.close()
        return new
    _use_huge_pages(memory)
    return memory


def _use_huge_pages(memory: mmap.mmap) -> None:
    if _HUGE_PAGES is not None:
        with suppress(OSError):  # a kernel without huge pages is only slower
            memory.madvise(_HUGE_PAGES)
