"""Which tools exist: the catalog, the `@tool` decorator, schemas from signatures, exports."""
