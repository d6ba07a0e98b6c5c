"""What programs import from ``triton.tools``."""
