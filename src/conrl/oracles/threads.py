"""How many threads an oracle works with, unless it is told."""

from __future__ import annotations

import os


def cores() -> int:
    """How many this process may use; no more than NUMBA_NUM_THREADS says, where that is set."""
    found = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    text = os.environ.get("NUMBA_NUM_THREADS", "").strip()
    return min(found, max(1, int(text))) if text.isascii() and text.isdecimal() and len(text) < 10 else found
