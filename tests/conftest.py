"""Hypothesis draws the same examples in every run, unless HYPOTHESIS_PROFILE=explore asks for new ones."""

import os

from hypothesis import settings

settings.register_profile("steady", derandomize=True)
settings.register_profile("explore", derandomize=False)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))
