"""Run the test suites of libraries of Triton kernels on emu, unmodified.

    python tests/conformance/libraries NAME --source CHECKOUT [--only TEXT] [--select TEXT] [--sample N]
        [--functions N] [--jobs N]

``NAME`` is one of ``libraries.LIBRARIES``, ``CHECKOUT`` a checkout of its repository; what the library itself imports
(``--needs`` prints it) must be installed. The tests run as ``emu pytest`` runs them, on emulated devices, with the
first configuration of each autotuned kernel. See ``suite.py`` for how. Prints a line per file, then how many tests
pass, with launches of kernels and without, and how often each kind of failure was met.
"""

from __future__ import annotations

import sys
from fnmatch import fnmatch
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import suite
from libraries import LIBRARIES


def main() -> int:
    """Run a library's files; return 1 if a test failed, gave a wrong answer, crashed or hung."""
    parser = suite.arguments(__doc__)
    parser.add_argument("name", choices=sorted(LIBRARIES), metavar="NAME")
    parser.add_argument("--source", type=Path, metavar="CHECKOUT")
    parser.add_argument("--select", default="", metavar="TEXT", help="tests as pytest's -k")
    parser.add_argument("--needs", action="store_true", help="print the packages to install")
    parser.add_argument("--capability", metavar="M.N", help="of the emulated GPU")
    parser.add_argument("--device-model", metavar="GPU", help="that the emulated one answers as")
    options = parser.parse_args()
    library = LIBRARIES[options.name]
    if options.needs:
        print(" ".join(library.needs))
        return 0
    if options.source is None:
        parser.error("--source CHECKOUT is needed")
    source = options.source.resolve()
    root = HERE / "kernels" if library.are_ours else source
    environment = suite.environment(HERE, *(source / folder for folder in library.folders))
    environment["CONFORMANCE_SOURCE"] = str(source)
    environment |= library.environment
    environment["CONFORMANCE_LIBRARY"] = options.name
    environment["CONFORMANCE_PES"] = str(library.pes)
    environment["OMP_NUM_THREADS"] = "1"  # --jobs uses the other cores
    if options.capability:
        environment["EMU_CUDA_CAPABILITY"] = options.capability
    if options.device_model:
        environment["EMU_DEVICE_MODEL"] = options.device_model
    select = ("-k", options.select) if options.select else ()
    how = suite.Suite(
        root=root,
        folder=source,  # where libraries may leave files
        environment=environment,
        command=suite.emu_run_pytest(n_pes=library.pes)
        if library.pes
        else (sys.executable, "-m", "emu", "pytest"),
        arguments=("-p", "library_plugin", *library.arguments, *select),
        options=options,
    )
    files = [path for pattern in library.files for path in sorted(root.glob(pattern))]
    chosen = [
        path
        for path in files
        if options.only in str(path.relative_to(root))
        and not any(fnmatch(path.name, pattern) for pattern in library.left_out)
    ]
    verdicts = suite.run(chosen, how)
    print(suite.summary(verdicts))
    return suite.report(verdicts, options)


if __name__ == "__main__":
    sys.exit(main())
