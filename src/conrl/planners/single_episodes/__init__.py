"""Plans that keep limits on single episodes: never, chance and CVaR, with limits and floors on expectations."""
