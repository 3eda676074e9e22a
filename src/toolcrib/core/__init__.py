"""What things are: plain data and contracts, no input or output."""
