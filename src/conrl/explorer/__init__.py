"""The explorer: one HTML page with a slider for every limit of a model, and what the best policy then does."""

from conrl.explorer.making import Page, explore

__all__ = ["Page", "explore"]
