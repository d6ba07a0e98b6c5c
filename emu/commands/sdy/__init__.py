"""``emu sdy``: passes and explanations as commands.

Internal: names may change in any release.
"""
