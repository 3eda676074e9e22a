"""The built-in broad tools and policies."""
