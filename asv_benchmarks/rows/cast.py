"""cast: one Mi elements into memory that is there already, beside torch, NumPy and ml_dtypes."""

from __future__ import annotations

import functools
from typing import Any

from rows.local import clock
from rows.measure import Bench, Goal, Outcome, Settings, duel
from rows.single import on_one_thread, tensor, torch_or_none

COUNT = 1 << 20
FLOATS = ("fp32", "fp16", "bf16", "fp8_e4m3fn", "fp8_e5m2")


def dtypes() -> dict[str, Any]:
    import ml_dtypes
    import numpy as np

    found = (
        np.float32,
        np.float16,
        ml_dtypes.bfloat16,
        ml_dtypes.float8_e4m3fn,
        ml_dtypes.float8_e5m2,
    )
    return dict(zip(FLOATS, map(np.dtype, found), strict=True))


def _arrays(source: str, target: str) -> tuple[Any, Any]:
    import numpy as np

    from emu.kernels.cast import cast

    plain = np.random.default_rng(0).standard_normal(COUNT, dtype=np.float32)
    return cast(plain, dtypes()[source]), np.zeros(COUNT, dtypes()[target])


def _torch(source: str, target: str, settings: Settings) -> Outcome:
    from emu.kernels.cast import cast

    x, out = _arrays(source, target)
    ours = clock(lambda: cast(x, out.dtype, out=out))
    if torch_or_none() is None:
        return duel(settings, ours, None, "torch is not installed")
    theirs = tensor(out)
    given = tensor(x)
    with on_one_thread():
        return duel(settings, ours, clock(lambda: theirs.copy_(given)))


def _numpy(source: str, target: str, settings: Settings) -> Outcome:
    import numpy as np

    from emu.kernels.cast import cast

    x, out = _arrays(source, target)
    return duel(
        settings,
        clock(lambda: cast(x, out.dtype, out=out)),
        clock(lambda: np.copyto(out, x, casting="unsafe")),
    )


PAIRS = [(a, b) for n in FLOATS[1:] for a, b in (("fp32", n), (n, "fp32"))]


def _numpy_goal(source: str, target: str) -> Goal:
    # ml_dtypes' own bf16 to fp32 runs at the speed of memory: nothing can be three times as fast.
    return Goal(0.9 if (source, target) == ("bf16", "fp32") else 3.0)


ROWS = [
    *(
        Bench(f"cast/{a} to {b}", "torch", "us", Goal(0.9), functools.partial(_torch, a, b))
        for a, b in PAIRS
    ),
    *(
        Bench(
            f"cast/{a} to {b}",
            "numpy" if "fp16" in (a, b) else "ml_dtypes",
            "us",
            _numpy_goal(a, b),
            functools.partial(_numpy, a, b),
        )
        for a, b in PAIRS
    ),
]
