"""Explanations of shardings: the steps that brought each axis, and the conflicts that stopped one.

Propagation reports each step to a listener (``emu.sdy.propagation.events``). A
recorder keeps the steps; from them the history of each axis of each value is
followed backwards, to the text that first named it.

Values are called by their names in the text. Passes copy, split and replace
operations before propagation starts, but everything that they create carries
the location of what it is made from: so the names travel in the locations.

Internal: names may change in any release.
"""

from __future__ import annotations

from emu.sdy.provenance.explanation import Explanation, explain
from emu.sdy.provenance.history import PathStep, Rejection
from emu.sdy.provenance.report import ValueReport

__all__ = ["Explanation", "PathStep", "Rejection", "ValueReport", "explain"]
