"""What the commands find out, as data: nothing in here prints."""
