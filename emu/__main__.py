"""``python -m emu`` is the command ``emu``."""

from __future__ import annotations

import sys

from emu.commands.main import main

if __name__ == "__main__":
    sys.exit(main())
