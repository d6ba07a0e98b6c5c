"""``CheckMode``: dispatch modes through which checks see the operators that a thread runs."""

from __future__ import annotations

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class CheckMode(TorchDispatchMode):  # type: ignore[misc, unused-ignore] # Any without torch
    """What all of them have in common."""

    supports_higher_order_operators = True
    is_check = True
    """It is no program's: see :func:`emu.accelerator.division.program_modes`."""

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Return True: functions are compiled although this mode is there, which sees what the compiled ones run."""
        return True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Return False: torch need not load Dynamo to keep it from this mode, as it skips the frames of emu anyway."""
        return False

    def leave(self, what: str) -> None:
        """Leave the mode in this thread.

        Args:
            what: What is checked, for the error.

        Raises:
            RuntimeError: Another dispatch mode was entered after it, and not left.
        """
        depth = torch._C._len_torch_dispatch_stack()
        if not depth or torch._C._get_dispatch_stack_at(depth - 1) is not self:
            raise RuntimeError(
                f"every dispatch mode entered after the check of {what} must be left first"
            )
        self.__exit__(None, None, None)
