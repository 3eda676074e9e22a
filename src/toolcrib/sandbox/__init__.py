"""Where commands run: backends that keep a command apart from the machine, and say how far."""
