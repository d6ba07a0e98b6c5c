"""Export passes, which run after propagation."""
