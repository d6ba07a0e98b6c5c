"""``emu sdy``: passes and explanations as commands."""
