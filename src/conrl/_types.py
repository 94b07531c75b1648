"""The types of arrays; shapes are written where they are used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Arrays = Mapping[str, Array]  # what a learner or a planner has learned
Bool = NDArray[np.bool_]
Float = NDArray[np.float64]
Float32 = NDArray[np.float32]
Index = NDArray[np.integer[Any]]
Int = NDArray[np.int64]
