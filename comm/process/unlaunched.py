"""What Worlds that no launch has made take from the environment: a launch gets it as options.

Their processes find each other, or are started by somebody else, so there is nobody whom options could be given to.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

from emu.comm.check_options import Checks
from emu.comm.errors import ArgumentError
from emu.comm.link_model import Link
from emu.comm.process.launch_options import DEFAULT_TIMEOUT
from emu.comm.world import recording
from emu.kernels.core import environment


@dataclass(frozen=True)
class Unlaunched:
    """Options of such a World.

    Attributes:
        timeout: Seconds without progress after which waiting PEs get a DeadlockError.
        link: Emulated link between each two PEs; None: as fast as memory is.
    """

    timeout: float = DEFAULT_TIMEOUT
    link: Link | None = None

    @classmethod
    def from_environment(cls) -> Unlaunched:
        """Return what ``EMU_TIMEOUT`` and ``EMU_LINK`` say.

        Of ``EMU_CHECK`` what concerns one process holds as everywhere. What would need a launch is warned of.

        Raises:
            ArgumentError: A variable breaks a rule.
        """
        checks = Checks.from_environment()
        _warn_of_launches(checks)
        _warn_of_traces()
        text = environment.link()
        try:
            link = None if text is None else Link.parse(text)
        except ArgumentError as error:
            raise ArgumentError(f"EMU_LINK: {error}") from None
        return cls(_timeout(environment.world_timeout()), link)


def _timeout(text: str | None) -> float:
    if text is None:
        return DEFAULT_TIMEOUT
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not seconds > 0:
        raise ArgumentError(
            f"EMU_TIMEOUT must be a positive number of seconds, or inf, but got {text!r}"
        )
    return seconds


def _warn_of_traces() -> None:
    """Warn that these PEs are not in the trace of the run that they belong to: no launcher takes their events."""
    if environment.is_traced() or recording.active is not None:
        warnings.warn(
            "a trace does not show PEs that were not started by emu: start them by emu run or emu.launch",
            RuntimeWarning,
            stacklevel=3,
        )


def _warn_of_launches(checks: Checks) -> None:
    """Warn of what the environment asks for and only a launch can do, as it tells findings when all have ended."""
    asked = [f"EMU_CHECK={name}" for name in ("race", "leak") if getattr(checks, name)]
    if environment.fault():
        asked.append(f"EMU_FAULT={environment.fault()}")
    if asked:
        warnings.warn(
            f"{', '.join(asked)}: not between PEs that were not started by emu, as nobody could tell what is found; start "
            "them by emu run or emu.launch. Checks within one process hold",
            RuntimeWarning,
            stacklevel=2,
        )
