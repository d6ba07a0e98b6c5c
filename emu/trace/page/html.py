"""The page itself: markup, style and scripts in one file that works without a network.

Internal: names may change in any release.
"""

from __future__ import annotations

import html
import json
from functools import cache
from importlib.resources import files

from emu.trace.page.data import MOST_BOXES, data_of
from emu.trace.statistics.summary import Statistics

_PARTS = {
    "/*STYLE*/": "style.css",
    "/*VIEW*/": "view.js",
    "/*TIMELINE*/": "timeline.js",
    "/*PANELS*/": "panels.js",
}
_DATA = "/*DATA*/null"
_TITLE = "(TITLE)"


def to_html(statistics: Statistics, title: str, most_boxes: int = MOST_BOXES) -> str:
    """Return a self-contained page.

    Args:
        statistics: The figures of the trace.
        title: What the page is called.
        most_boxes: Events that are drawn one by one; where there are more, short ones are joined.
    """
    text = json.dumps(data_of(statistics, title, most_boxes), separators=(",", ":"))
    # "</script>" in a name must not end the page's script.
    page = _template().replace(_TITLE, html.escape(title))
    return page.replace(_DATA, text.replace("<", "\\u003c"))


@cache
def _template() -> str:
    folder = files("emu.trace.page")
    page = folder.joinpath("page.html").read_text("utf-8")
    for mark, name in _PARTS.items():
        page = page.replace(mark, folder.joinpath(name).read_text("utf-8"))
    return page
