"""The best single deterministic policy: `planner.py`."""
