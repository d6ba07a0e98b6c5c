"""What the benchmarks share."""

from rows.measure import Settings, duel
from rows.team import Team, Teams


class TeamBenchmark:
    """A world of ``n_pes`` that is timed inside its PEs, where asv's own clock cannot look.

    Subclasses set the PEs and call :meth:`measure` from a ``track_`` method.
    """

    timeout = 180.0
    n_pes = 2

    def setup(self, *_):
        self.team = Team("emu", self.n_pes)

    def teardown(self, *_):
        self.team.close()

    def measure(self, task, scale=1e6, **arguments):
        """Return the lower quartile of many rounds in microseconds a call (or as scaled)."""
        settings = Settings(quick=False, teams=Teams(frozenset(), self.timeout))
        settings.budget_s = 5.0
        outcome = duel(
            settings, lambda calls: self.team.seconds(task, calls, **arguments), theirs=None
        )
        if outcome.ours is None:
            raise RuntimeError(outcome.note)
        return scale * outcome.ours


def unit(text):
    """Give a ``track_`` method its unit."""

    def mark(method):
        method.unit = text
        return method

    return mark
