"""Shardy in Python: MLIR text, the sdy dialect, rules, propagation, explanations.

    >>> import emu.sdy
    >>> module = emu.sdy.parse(text)              # StableHLO with sdy shardings
    >>> emu.sdy.run(module, "sdy-propagation-pipeline")
    >>> print(module)
    >>> print(emu.sdy.explain(text).value("%5")[0])

Only what is asked for is imported.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
