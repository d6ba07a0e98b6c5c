"""``emu trace``: what is done with a trace that ``emu run --trace`` has written.

Internal: names may change in any release.
"""
