"""``Places``: which PE of a World lives on which host."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class Places:
    """The hosts of a World, whose PEs are numbered host by host.

    Attributes:
        counts: Number of PEs of each host.
        here: Number of this host.
        names: What reports call each host.
        port: A port that was free on the first host when hosts were compared, for a program's own use.
    """

    counts: tuple[int, ...]
    here: int
    names: tuple[str, ...]
    port: int = 0

    @cached_property
    def _ends(self) -> tuple[int, ...]:
        return tuple(sum(self.counts[: host + 1]) for host in range(len(self.counts)))

    @property
    def n_pes(self) -> int:
        """Number of PEs of the World."""
        return self._ends[-1]

    @property
    def n_hosts(self) -> int:
        """Number of hosts."""
        return len(self.counts)

    def pes_of(self, host: int) -> range:
        """Return the PEs of a host."""
        return range(self._ends[host] - self.counts[host], self._ends[host])

    @cached_property
    def local(self) -> range:
        """The PEs of this host."""
        return self.pes_of(self.here)

    @cached_property
    def distant(self) -> tuple[int, ...]:
        """The PEs of all other hosts."""
        return tuple(pe for pe in range(self.n_pes) if pe not in self.local)

    def host_of(self, pe: int) -> int:
        """Return the host of a PE."""
        return bisect_right(self._ends, pe)

    def hosts_of(self, pes: tuple[int, ...]) -> tuple[int, ...]:
        """Return the hosts of some PEs, in order."""
        return tuple(sorted({self.host_of(pe) for pe in pes}))

    def describe(self, host: int) -> str:
        """Return what reports call a host: its number, its name, its PEs."""
        pes = self.pes_of(host)
        which = f"PE {pes[0]}" if len(pes) == 1 else f"PEs {pes[0]} to {pes[-1]}"
        return f"host {host} ({self.names[host]}, {which})"
