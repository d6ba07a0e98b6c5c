"""The scripts of tests/conformance/sdy, as modules: generators of programs, the fuzzer."""

import sys
from pathlib import Path

# Behind everything else, so that their names hide nobody's.
sys.path.append(str(Path(__file__).resolve().parents[1] / "conformance" / "sdy"))
