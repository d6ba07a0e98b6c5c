"""Modules that programs import from ``triton.tools``."""
