"""The path of a call: gates, limits, attempts, shaping."""
