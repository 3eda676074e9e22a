"""People: who is asked, how they answer, and what is remembered of it."""
