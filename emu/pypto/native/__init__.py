"""The native backend: local ops as compiled kernels.

``plan`` divides a batch of ops into groups that one kernel computes each, and keeps the plan of a batch by its structure;
``writer`` writes a group as a recipe of :mod:`emu.tile.fusion`, with ``lowering`` for what the ops mean and ``emitters`` for
what its nodes mean. What cannot be compiled, and what is so small that NumPy is as fast, runs by its reference. Which of
the two computes an op depends on the op and its shapes alone, never on what it is gathered with.

Internal: names may change in any release.
"""
