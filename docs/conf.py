"""Sphinx's configuration; `make docs` builds the pages with warnings as errors."""

import os
import re
import sys
from pathlib import Path

from sphinx.application import Sphinx

HERE = Path(__file__).resolve().parent

# Compiled kernels are then ordinary functions, whose signatures and docstrings autodoc can read.
os.environ["NUMBA_DISABLE_JIT"] = "1"
sys.path.insert(0, str(HERE / "_ext"))

project = "emu"
author = "The emu developers"
copyright = "2026, The emu developers"
release = re.findall(r"^## (\S+) - ", (HERE.parent / "CHANGELOG.md").read_text(), re.MULTILINE)[0]
version = ".".join(release.split(".")[:2])

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.intersphinx",
    "gallery",
]
exclude_patterns = ["_build", "dev"]
templates_path: list[str] = []

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4  # links such as machine.md#an-emulated-link

default_role = "code"  # docstrings may write `name` for ``name``
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True  # an attribute that is annotated as well is then described once

# A short name in an annotation, such as ArgumentError, may stand for several classes; it is then no link.
suppress_warnings = ["ref.python"]

# An inventory that cannot be reached must not fail the build: offline there are none. What is known of
# other projects is looked up only where the builder asks for it (EMU_DOCS_ONLINE=1 make docs).
intersphinx_mapping = (
    {
        "python": ("https://docs.python.org/3", None),
        "numpy": ("https://numpy.org/doc/stable", None),
        "numba": ("https://numba.readthedocs.io/en/stable", None),
    }
    if os.environ.get("EMU_DOCS_ONLINE") == "1"
    else {}
)
intersphinx_timeout = 10

html_theme = "furo"
html_title = f"emu {version}"
html_static_path = ["_static"]
html_css_files = ["emu.css"]
html_show_sourcelink = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0b6e75", "color-brand-content": "#0b6e75"},
    "dark_css_variables": {"color-brand-primary": "#5ec4cb", "color-brand-content": "#5ec4cb"},
}


def mark_code(
    app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]
) -> None:
    """Make indented blocks of docstrings literal ones, also where the line before has no ``::``."""
    for number in range(len(lines) - 2):
        before, blank, first = lines[number : number + 3]
        margin = len(before) - len(before.lstrip())
        is_prose = before.strip() and not before.lstrip().startswith(("* ", "- ", "..", ":"))
        if is_prose and not blank.strip() and first.startswith(" " * (margin + 4)):
            text = before.rstrip()
            if not text.endswith("::"):
                lines[number] = f"{text}:" if text.endswith(":") else f"{text} ::"


def join_names(
    app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]
) -> None:
    """Join parameters that are described together and whose names take more than one line."""
    for number in range(len(lines) - 2, -1, -1):
        if re.fullmatch(r" +[*\w]+(, [*\w]+)*,", lines[number]):
            lines[number] += " " + lines.pop(number + 1).strip()


def setup(app: Sphinx) -> None:
    """Connect what this file defines."""
    app.connect("autodoc-process-docstring", join_names, priority=100)  # before napoleon
    app.connect("autodoc-process-docstring", mark_code, priority=900)  # after it
