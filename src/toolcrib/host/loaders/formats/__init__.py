"""Other people's forms of describing tools."""
