"""asv's benchmarks: our own speed over time. ``compare.py`` beside this folder measures peers."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # for `rows`, which they share
