"""What PEs of programs need, imported once by the fork server; it loads Numba, which launchers do not."""

import emu.sdy.execution.resident
import emu.sdy.execution.whole
import emu.stablehlo.compiled  # noqa: F401  # imported for those that are forked
