"""What holds for every test."""

from __future__ import annotations

import signal

from hypothesis import settings

# A shared machine is slow now and then; no example fails because of the clock.
settings.register_profile("toolcrib", deadline=None, max_examples=50)
settings.load_profile("toolcrib")

# A shell without job control has what it starts in the background ignore Ctrl-C, which programs
# inherit: those under test could not be interrupted.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
