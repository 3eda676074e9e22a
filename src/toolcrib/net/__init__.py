"""Guarded outbound HTTP: which URLs may be asked for, and a client that asks for no others."""
