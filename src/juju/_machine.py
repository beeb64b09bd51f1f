"""Facts about this machine that decide how kernels run."""

from __future__ import annotations

import os
from contextlib import suppress
from functools import cache
from pathlib import Path


@cache
def cores() -> int:
    """Processor cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def stream_bytes() -> int:
    """From so many bytes of operands and results together on, a kernel should store around the cache.

    One and a half times the last-level cache: below, plain stores are as fast and leave the result in the cache.
    """
    largest = 0
    for folder in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*"):
        with suppress(OSError, ValueError):
            if (folder / "type").read_text().strip() == "Unified":
                largest = max(largest, int((folder / "size").read_text().strip().removesuffix("K")) << 10)
    return (largest or 32 << 20) * 3 // 2
