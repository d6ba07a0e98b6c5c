"""Why a value is sharded as it is: the steps that brought each axis, and the cuts.

Propagation tells a listener of each step (`emu.sdy.propagation.events`). A
recorder keeps them; from the kept steps the history of each axis of each value
is read backwards, to the text that first named it.

Values are spoken of by the names they have in the text. Passes copy, split and
replace operations before propagation starts, but all that they make carries
the location of what it is made from: so the names travel in the locations.
"""

from __future__ import annotations

from emu.sdy.provenance.explanation import Explanation, ValueReport, explain
from emu.sdy.provenance.history import Link, Rejection

__all__ = ["Explanation", "Link", "Rejection", "ValueReport", "explain"]
