"""The explorer: one HTML page with a slider for every limit of a model, and what the best policy then does."""

from conrl.explorer.making import Page, explore, to_html

__all__ = ["Page", "explore", "to_html"]
