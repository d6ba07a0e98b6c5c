"""Passes: frozen dataclasses whose fields are their options."""
