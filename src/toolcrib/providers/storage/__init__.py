"""Keeping JSON values under keys: the provider of type `storage`."""
