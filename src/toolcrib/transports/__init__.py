"""Doors: they decode a request, hand it to the one service, and encode its answer."""
