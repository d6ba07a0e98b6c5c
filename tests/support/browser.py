"""A real browser for pages that are written: headless Chromium, as Debian packages it.

``EMU_BROWSER`` names another executable. Without one, tests are skipped by name.
"""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
    *("--no-first-run", "--disable-extensions", "--enable-logging=stderr"),
    *("--host-resolver-rules=MAP * ~NOTFOUND", "--virtual-time-budget=20000"),
)


def find_browser() -> str:
    """Return the path of a browser; skip the test where there is none."""
    named = os.environ.get("EMU_BROWSER")
    found = named or next((path for name in _NAMES if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip("no browser: apt-get install chromium, or set EMU_BROWSER")
    return found


def run_page(page: Path, probe: str, *, at: str = "", size: tuple[int, int] = (1280, 900)) -> Any:
    """Open a page without a network, run a script in it, and return what that returns.

    Args:
        page: The page.
        probe: Body of a JavaScript function, run when the page is shown; what it returns is data.
        at: Fragment of the address: ``"value=%25h&step=3"``.
        size: Width and height of the window.

    Raises:
        AssertionError: The page raises an error, or asks for something from a network.
    """
    report = (
        "<script>addEventListener('load', () => { let found; try { found = {result: (() => {"
        + probe
        + "})()}; } catch (error) { found = {error: String(error)}; }"
        "const box = document.createElement('output'); box.id = 'probe';"
        "box.textContent = JSON.stringify(found); document.body.replaceChildren(box); });</script>"
    )
    probed = page.with_suffix(".probed.html")
    probed.write_text(page.read_text().replace("</body>", f"{report}</body>"))
    done = subprocess.run(
        [
            *(find_browser(), *_FLAGS, f"--window-size={size[0]},{size[1]}"),
            *(f"--user-data-dir={page.parent / 'profile'}", "--dump-dom"),
            f"{probed.as_uri()}#{at}",
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    complaints = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    assert not complaints, complaints
    match = re.search(r'<output id="probe">(.*?)</output>', done.stdout, re.DOTALL)
    assert match is not None, done.stderr[-2000:]
    found = json.loads(html.unescape(match[1]))
    assert "error" not in found, found
    return found.get("result")
