"""Wire formats that both sides of a connection share."""
