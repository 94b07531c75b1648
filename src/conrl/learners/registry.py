"""The learners by name."""

from __future__ import annotations

from typing import Any

from conrl.learners.conrl import ConRL

LEARNERS: dict[str, Any] = {kind.name: kind for kind in (ConRL,)}
