"""The area of the PEs' events: where in it lies what they share with the launcher.

    | head | flows | for each PE: words, ring, sites |

It is sparse: memory is taken when touched. What the parts are for:

* the *head*: how many records a ring has;
* *flows*: what has changed which word of which heap last, so that a wait that ends knows who ended it (:mod:`emu.trace.ring`);
* a PE's *words*: how far its ring was filled, by the PE, and emptied, by the launcher;
* its *ring*: records (:data:`emu.trace.events.EVENT`); one whose last word is 0 has not been written to its end;
* its *sites*: a line of JSON each, one behind the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from emu.comm.layout import PAGE, round_up
from emu.trace.events import EVENT

FLOW_BITS = 16
FLOWS = 1 << FLOW_BITS
FLOW_WORDS = 4
"""A flow: place of the word, plus 1; number of the flow; when it was left; one that is not used."""

# --- words of a PE: int64. Line 0 belongs to the PE, line 1 to the launcher, line 2 is constant but for the count of lost events.
W_HEAD, W_SERIAL, W_SITES = 0, 1, 2
"""Records that were begun, ever; when the last flow began; bytes of sites."""
W_TAIL = 8
"""Records that the launcher has taken."""
W_MASK, W_PE, W_LOST = 16, 17, 24
WORDS_BYTES = 256

SITES_BYTES = 64 << 20
"""Room for a PE's sites; what comes later is called by one name."""

LEAST_RECORDS, MOST_RECORDS = 1 << 6, 1 << 24
_RECORDS, _ALL_RECORDS, _FEWEST = 1 << 16, 1 << 22, 1 << 12


def default_records(n_pes: int) -> int:
    """Return the records of a ring where nobody has said how many: 2.6 MB, or less with more than 64 PEs."""
    fair = _ALL_RECORDS // n_pes
    return max(_FEWEST, min(_RECORDS, 1 << fair.bit_length() - 1))


@dataclass(frozen=True)
class Area:
    """Byte offsets of each part, for ``n_pes`` rings of ``records`` records, a power of two."""

    n_pes: int
    records: int

    @property
    def flows(self) -> int:
        """The table of flows."""
        return PAGE

    @cached_property
    def _pes(self) -> int:
        return PAGE + round_up(FLOWS * FLOW_WORDS * 8, PAGE)

    @cached_property
    def _pe_bytes(self) -> int:
        return round_up(WORDS_BYTES + self.records * EVENT.itemsize, PAGE) + SITES_BYTES

    def words(self, pe: int) -> int:
        """Return where a PE's words are."""
        return self._pes + pe * self._pe_bytes

    def ring(self, pe: int) -> int:
        """Return where its ring is."""
        return self.words(pe) + WORDS_BYTES

    def sites(self, pe: int) -> int:
        """Return where its sites are."""
        return self.words(pe) + self._pe_bytes - SITES_BYTES

    @cached_property
    def nbytes(self) -> int:
        """Size of the area."""
        return self._pes + self.n_pes * self._pe_bytes
