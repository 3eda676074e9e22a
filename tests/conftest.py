"""What holds for every test."""

from __future__ import annotations

from hypothesis import settings

# A shared machine is slow now and then; no example fails because of the clock.
settings.register_profile("toolcrib", deadline=None, max_examples=50)
settings.load_profile("toolcrib")
