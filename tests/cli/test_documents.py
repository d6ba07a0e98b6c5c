"""The README and the manual say what is so, and every example runs."""

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
EXAMPLES = sorted((ROOT / "examples").rglob("*.py"))


def blocks(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)


def expected(program):
    """What the program's own comment says that it prints."""
    return re.search(r"print\(.*\)  # (.*)$", program, re.MULTILINE)[1]


@pytest.mark.parametrize(
    ("page", "whole"),
    [
        ("README.md", ""),
        ("docs/getting-started.md", ""),
        ("docs/mc2.md", "__main__"),
        ("docs/hccl.md", "__main__"),
        ("docs/torch.md", "print("),
        ("docs/torch_npu.md", "print("),
        ("docs/triton.md", "print("),
        ("docs/shardy.md", "print("),
    ],
)
def test_the_programs_of_the_page_print_what_the_page_says(page, whole, tmp_path):
    programs = blocks(ROOT / page, "python")
    programs = [program for program in programs if whole in program]  # the others are fragments
    if any("import torch\n" in program for program in programs):
        pytest.importorskip("torch")
    assert programs
    for program in programs:
        (tmp_path / "program.py").write_text(program)
        done = subprocess.run(
            [sys.executable, "program.py"],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            text=True,
            capture_output=True,
            timeout=90,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip() == expected(program)


def test_the_make_targets_that_the_documents_name_exist():
    named = {
        name
        for page in PAGES
        for text in [*blocks(page, "console"), *re.findall(r"`(make [^`]*)`", page.read_text())]
        for name in re.findall(r"\bmake (\w+)", text)
    }
    makefile = (ROOT / "Makefile").read_text()
    assert {"demo", "test"} <= named
    assert named <= set(re.findall(r"^(\w+):", makefile, re.MULTILINE))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page):
    prose = re.sub(
        r"^```.*?^```|``.*?``|`[^`]*`", "", page.read_text(), flags=re.DOTALL | re.MULTILINE
    )
    targets = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", prose)
    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_the_reference_is_up_to_date():
    script = ROOT / "docs" / "make_reference.py"
    done = subprocess.run(
        [sys.executable, script, "--check"], text=True, capture_output=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_example_runs_as_it_says(example, command):
    for needed in re.findall(r"^ *import (torch|jax)$", example.read_text(), re.MULTILINE):
        if not find_spec(needed):
            pytest.skip(f"{needed} is not installed")
    name = re.escape(str(example.relative_to(ROOT)))
    how = rf"(?:(\w+)=(\w+) )?(?:emu run -n (\d+)|python) {name}"
    variable, value, n_pes = re.search(how, example.read_text()).groups()
    if variable:
        command.environment[variable] = value
    done = command("run", "-n", n_pes, example) if n_pes else command.python(example)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout


@pytest.mark.parametrize("n_pes", [1, 3])
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_example_runs_on_other_numbers_of_pes_or_says_what_it_needs(example, n_pes, command):
    text = example.read_text()
    own = re.search(rf"emu run -n (\d+) {re.escape(str(example.relative_to(ROOT)))}", text)
    if own is None or int(own[1]) == n_pes:
        pytest.skip("it is not started by emu run, or needs just that number")
    if "import torch" in text and not find_spec("torch"):
        pytest.skip("torch is not installed")
    done = command("run", "-n", n_pes, example)
    if done.returncode:
        assert done.returncode == 1
        needs = rf"\d+ PEs (or more )?are needed.*: emu run -n \d+ {example.relative_to(ROOT)}"
        assert re.search(needs, done.stderr), done.stderr
        assert "Traceback" not in done.stderr
        assert re.search(r"It needs \d+ PEs", text)
