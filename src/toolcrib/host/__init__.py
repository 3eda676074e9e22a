"""The running whole: puts the parts together and answers calls."""
