"""Records to view models, and view models to figures."""
