"""The rows of ``compare.py``: what is measured, against whom, and to what goal."""
