"""Run suites of torch.compile on emu's Triton.

    python tests/conformance/inductor [--pytorch CHECKOUT] [--backend triton|cpp] [--only TEXT] [--sample N] [--jobs N]
        [--without-skips]

Without a checkout: ``operators.py``, every operator that the installed torch describes for its own tests (``op_db``),
compiled and compared with itself run eagerly. With one: PyTorch's suite for a Triton back end of the CPU,
``test/inductor/test_triton_cpu_backend.py``. ``--backend cpp`` runs the same with Inductor's own C++ for the CPU:
what fails there as well is not Triton's. See ``suite.py`` for how the tests run.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import suite


def main() -> int:
    """Run the files; return 1 if a test failed, gave a wrong answer, crashed or hung."""
    parser = suite.arguments(__doc__)
    parser.add_argument("--pytorch", type=Path, metavar="CHECKOUT")
    parser.add_argument("--backend", choices=("triton", "cpp"), default="triton")
    parser.add_argument(
        "--operators", default="", metavar="TEXT", help="those whose names hold TEXT"
    )
    parser.add_argument("--dtypes", default="float32,float16,int64,bool", metavar="LIST")
    parser.add_argument("--samples", type=int, default=3, help="of each operator (default: 3)")
    parser.add_argument(
        "--without-skips",
        action="store_true",
        help="run what PyTorch's suite leaves out for other back ends of Triton on a CPU, too",
    )
    options = parser.parse_args()
    environment = suite.environment(HERE)
    environment["CONFORMANCE_BACKEND"] = options.backend
    environment["CONFORMANCE_OPERATORS"] = options.operators
    environment["CONFORMANCE_DTYPES"] = options.dtypes
    environment["CONFORMANCE_SAMPLES"] = str(options.samples)
    environment["CONFORMANCE_WITHOUT_SKIPS"] = "1" if options.without_skips else ""
    environment["TORCHINDUCTOR_COMPILE_THREADS"] = "1"  # --jobs uses the other cores
    environment["OMP_NUM_THREADS"] = "1"
    environment["PYTORCH_PRINT_REPRO_ON_FAILURE"] = "0"  # a line behind each error
    environment.setdefault("TORCHINDUCTOR_CACHE_DIR", str(Path("/tmp", f"inductor-{os.getpid()}")))
    root, files = HERE, [HERE / "operators.py"]
    if options.pytorch is not None:
        root = options.pytorch.resolve() / "test" / "inductor"
        files = [root / "test_triton_cpu_backend.py"]
    how = suite.Suite(
        root=root,
        folder=root,
        environment=environment,
        command=(sys.executable, "-m", "pytest"),
        arguments=("-p", "plugin"),
        options=options,
    )
    chosen = [file for file in files if options.only in file.name]
    return suite.report(suite.run(chosen, how), options)


if __name__ == "__main__":
    sys.exit(main())
