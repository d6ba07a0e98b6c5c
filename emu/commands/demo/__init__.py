"""``emu demo``: one program per system, each checked, in a table.

Internal: names may change in any release.
"""

from emu.commands.demo.tour import run_demo

__all__ = ["run_demo"]
