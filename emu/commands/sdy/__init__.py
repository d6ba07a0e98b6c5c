"""``emu sdy``: the passes and the explanations as commands."""
