"""Live sources of tools."""
