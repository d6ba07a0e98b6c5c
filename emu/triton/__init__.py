"""Triton's language and runtime on a CPU: ``import emu.triton as triton``, ``import emu.triton.language as tl``."""
