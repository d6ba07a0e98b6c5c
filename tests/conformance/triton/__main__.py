"""Run Triton's own test suite on emu.triton.

    python tests/conformance/triton CHECKOUT [--only TEXT] [--sample N] [--interpret] [--reference]
        [--device cuda|cpu] [--capability M.N] [--jobs N]

``CHECKOUT`` is a checkout of Triton, of any day; its Python package may be there, and is not used. Each file of
``python/test/unit`` that has a meaning without a GPU runs under ``emu run -m pytest``; see ``suite.py``. A test that
needs Triton's own compiler or tools, or reads MLIR or a GPU's assembly once its kernels are compiled, is counted as
absent. Prints a line per file, then how often each kind of failure was met, with one test that has it. ``--out`` writes
each test's outcome, and ``--before`` names the tests whose outcome differs from that of such a file.
"""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import suite

FILES = (
    "language/test_annotations.py",
    "language/test_compile_errors.py",
    "language/test_conversions.py",
    "language/test_core.py",
    "language/test_decorator.py",
    "language/test_frontend.py",
    "language/test_libdevice.py",
    "language/test_line_info.py",
    "language/test_matmul.py",
    "language/test_module.py",
    "language/test_mxfp.py",
    "language/test_random.py",
    "language/test_standard.py",
    "language/test_subprocess.py",
    "language/test_tensor_descriptor.py",
    "language/test_tuple.py",
    "runtime/test_autotune_listener.py",
    "runtime/test_autotuner.py",
    "runtime/test_cache.py",
    "runtime/test_compilation_listener.py",
    "runtime/test_driver.py",
    "runtime/test_interpreter.py",
    "runtime/test_launch.py",
    "runtime/test_specialize.py",
    "test_debug.py",
    "test_knobs.py",
)
"""Those that test the language and the runtime. The others read MLIR, PTX or SASS, or drive one GPU."""


def main() -> int:
    """Run the files; return 1 if a test failed, crashed or hung."""
    parser = suite.arguments(__doc__)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--interpret", action="store_true", help="kernels run as Python")
    parser.add_argument("--reference", action="store_true", help="on the reference back end")
    parser.add_argument(
        "--device",
        choices=("cuda", "cpu"),
        default="cuda",
        help="where tensors are: on the emulated GPU, as on a machine that has one (default), or in host memory",
    )
    parser.add_argument(
        "--capability",
        metavar="M.N",
        help="compute capability of the emulated GPU (default: 8.0): tests choose by it what they expect",
    )
    options = parser.parse_args()
    environment = suite.environment(HERE)
    environment["EMU_AUTOTUNE"] = "full"  # its tests expect that configurations are measured
    if options.interpret:
        environment["TRITON_INTERPRET"] = "1"
    if options.capability:
        environment["EMU_CUDA_CAPABILITY"] = options.capability
    if options.reference:
        environment["EMU_TRITON_BACKEND"] = "reference"
    root = options.checkout.resolve() / "python"
    unit = root / "test" / "unit"
    files = [unit / name for name in FILES if options.only in name and (unit / name).exists()]
    how = suite.Suite(
        root=root,
        folder=unit,
        environment=environment,
        command=suite.emu_run_pytest(),
        arguments=("-p", "plugin", "--device", options.device),
        options=options,
    )
    return suite.report(suite.run(files, how), options)


if __name__ == "__main__":
    sys.exit(main())
