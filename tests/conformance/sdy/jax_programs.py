"""Programs as JAX makes them, lowered to StableHLO with sdy shardings.

    PY tests/conformance/sdy/jax_programs.py DIR [--legalized]

with an interpreter PY that has jax writes each program as ``DIR/name.mlir``,
and once more with its locations as ``DIR/name.locations.mlir``; run
``cross.py --folder DIR`` on them. With ``--legalized`` jaxlib has made StableHLO
of CHLO, as XLA does before Shardy; run ``execute.py DIR`` on those. Nothing is compiled; the meshes are
`AbstractMesh`, so that one CPU device is enough.
"""

from __future__ import annotations

import sys
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import jax_kinds  # noqa: F401  # these register their programs
import jax_models  # noqa: F401
import jax_operations  # noqa: F401
import jax_shardings  # noqa: F401
from jax_lowering import PROGRAMS, lowered


def main() -> int:
    """Write the programs; those that this jax cannot lower are named."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    failed = 0
    for name, make in PROGRAMS.items():
        try:
            plain, located = lowered(make, legalized="--legalized" in sys.argv)
        except Exception:  # noqa: BLE001  # the others are of use nevertheless
            sys.stderr.write(f"{name} is not lowered\n{traceback.format_exc(limit=-3)}\n")
            failed += 1
            continue
        (folder / f"{name}.mlir").write_text(plain, encoding="utf-8")
        (folder / f"{name}.locations.mlir").write_text(located, encoding="utf-8")
    sys.stdout.write(f"{len(PROGRAMS) - failed} of {len(PROGRAMS)} programs are lowered\n")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
