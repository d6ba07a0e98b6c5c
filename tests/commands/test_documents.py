"""The README and the manual say what is so, and every example runs."""

import ast
import re
import shlex
from importlib.util import find_spec
from pathlib import Path

import pytest
from trace_samples import sample_bytes
from traces import bytes_of, training_loop

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "examples/README.md"])
EXAMPLES = sorted((ROOT / "examples").rglob("*.py"))
LONG = ("mc2/all_gather_matmul_custom.py", "sdy/mlp.py")
"""Ends of the paths of examples that compute for seconds."""


def blocks(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)


def programs():
    """Every Python block of the README and the manual, with its page and its number there."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    return [
        pytest.param(
            page, program, id=f"{page.relative_to(ROOT)}-{number}", marks=rarely(number > 0)
        )
        for page in pages
        for number, program in enumerate(blocks(page, "python"))
    ]


def rarely(choice):
    """Return the marks of what only the thorough run does, because it starts programs that resemble others."""
    return [pytest.mark.slow] if choice else []


def examples():
    """Every example, with its path as the test's name; the quick run has the first short one of each folder."""
    short = [example for example in EXAMPLES if not str(example).endswith(LONG)]
    first = {example.parent: example for example in reversed(short)}
    return [
        pytest.param(path, id=str(path.relative_to(ROOT)), marks=rarely(path != first[path.parent]))
        for path in EXAMPLES
    ]


def expected(program):
    """What the program's own comments say that it prints, in order."""
    return re.findall(r"^ *print\(.*\)  # (.*)$", program, re.MULTILINE)


def how_to_run(page, program):
    """The arguments of ``emu`` for a program whose first comment names its file; None: python.

    The page says them: ``emu run -n 4 ring.py``.
    """
    name = re.match(r"# (\w+\.py)\b", program)
    if name is None:
        return None
    return re.search(rf"emu (run [^`\n]*\b{re.escape(name[1])})", page.read_text())[1].split()


@pytest.mark.parametrize(("page", "program"), programs())
def test_the_program_runs_alone_and_prints_what_it_says(page, program, tmp_path, command):
    for needed in ("torch", "jax", "iris", "triton_dist"):
        if re.search(rf"^import {needed}\b", program, re.MULTILINE):
            pytest.importorskip(needed)
    words = how_to_run(page, program)
    file = tmp_path / (words[-1] if words else "program.py")
    file.write_text(program)
    done = command(*words[:-1], file) if words else command.python(file)
    assert done.returncode == 0, done.stdout + done.stderr
    printed = re.sub(r"^\[\d+\] ", "", done.stdout, flags=re.MULTILINE) if words else done.stdout
    lines = iter(printed.splitlines())
    missing = [each for each in expected(program) if each not in lines]
    assert missing == [], done.stdout


# What the commands of the manual are run on: files by their names there.
FILES = {
    "program.mlir": """
sdy.mesh @mesh = <["x"=2]>
func.func @main(%arg0: tensor<4x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
                %arg1: tensor<4x4xf32>, %arg2: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %4 = stablehlo.dot %arg0, %arg1 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %5 = stablehlo.add %4, %arg2 : tensor<4x4xf32>
  return %5 : tensor<4x4xf32>
}
""",
    "test.mlir": """
func.func @f(%a: tensor<4xf32>) { return }
// -----
// expected-error @+1 {{unknown mesh: @none}}
func.func @f(%a: tensor<4xf32> {sdy.sharding = #sdy.sharding<@none, [{}]>}) { return }
""",
    "ring.emutrace": bytes_of(training_loop(3, 3)),
    "message.bin": bytes([1, *[0] * 82, 1, 0, 0, 0, 0, 3, 4, *[0] * 6]),
    "train.py": "import sys, torch\nprint(torch.ones(2, device='cuda').device, sys.argv[1:])\n",
}


PACKED = bytes([*[0] * 79, 1, 0, 0, 0, 0, 3, 4, *[0] * 6])  # packed to 1, which the manual warns of


def console_commands():
    """Every ``$ emu …`` of the manual, and the lines that it shows below."""
    found = {}
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        for block in blocks(page, "console"):
            for part in re.split(r"^\$ ", block.replace("\\\n", " "), flags=re.MULTILINE)[1:]:
                line, *shown = part.splitlines()
                if line.startswith("emu "):
                    found[line] = shown
    return [pytest.param(line, shown, id=line) for line, shown in found.items()]


@pytest.mark.parametrize(("line", "shown"), console_commands())
def test_the_command_of_the_manual_prints_what_it_shows(line, shown, command):
    for name, content in FILES.items():
        data = content if isinstance(content, bytes) else content.encode()
        (command.folder / name).write_bytes(data)
    if "run.emutrace" in line:
        (command.folder / "run.emutrace").write_bytes(sample_bytes(command.folder))
    words = shlex.split(line.replace("00000000…", PACKED.hex()), comments=True)[1:]
    if "train.py" in words:
        pytest.importorskip("torch")
    done = command(*words)
    printed = done.stdout + done.stderr
    refused = any(each.startswith("emu: ") for each in shown)
    assert done.returncode == (1 if refused else 0), printed
    lines = (each.rstrip() for each in printed.splitlines())
    assert [each for each in shown if each != "…" and each.rstrip() not in lines] == [], printed
    assert printed or "--html" in words


def test_the_make_targets_that_the_documents_name_exist():
    named = {
        name
        for page in PAGES
        for text in [*blocks(page, "console"), *re.findall(r"`(make [^`]*)`", page.read_text())]
        for name in re.findall(r"\bmake (\w[\w-]*)", text)
    }
    makefile = (ROOT / "Makefile").read_text()
    assert {"demo", "test"} <= named
    assert named <= set(re.findall(r"^([\w-]+):", makefile, re.MULTILINE))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page):
    prose = re.sub(
        r"^```.*?^```|``.*?``|`[^`]*`", "", page.read_text(), flags=re.DOTALL | re.MULTILINE
    )
    targets = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", prose)
    assert [target for target in targets if not (page.parent / target).exists()] == []


@pytest.mark.parametrize("example", examples())
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
    recorded = ROOT / "docs" / "gallery" / f"{example.parent.name}-{example.stem}.txt"
    assert without_figures(done.stdout) == without_figures(recorded.read_text())


def without_figures(printed):
    """Return the lines that a run prints, without what differs between runs: figures, order, folders."""
    printed = re.sub(r"[^ (]*/(?=examples/)", "", printed)
    lines = re.sub(r"-?\d+(\.\d+)?(e-?\d+)?", "#", printed).splitlines()
    return {" ".join(line.split()) for line in lines} - {""}


def test_the_list_of_examples_is_complete_and_says_what_each_says_of_itself():
    listed = re.findall(
        r"^\| \[(\S+)\]\(\1\) \| (.*) \|$", (ROOT / "examples/README.md").read_text(), re.MULTILINE
    )
    said = {
        path.relative_to(ROOT / "examples").as_posix(): ast.get_docstring(
            ast.parse(path.read_text())
        ).splitlines()[0]
        for path in EXAMPLES
    }
    assert dict(listed) == said


@pytest.mark.slow
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
