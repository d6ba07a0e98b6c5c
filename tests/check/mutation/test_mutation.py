"""Right programs from which one thing is removed: one run under all checks says so, but for what the table names."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from mutations import Mutant, find_mutants, run_checked

ROOT = Path(__file__).parents[3]


def _table():
    spec = importlib.util.spec_from_file_location("table", Path(__file__).with_name("table.py"))
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    assert spec.loader is not None
    spec.loader.exec_module(module)
    return module


TABLE = _table()


def _mutants(program: str) -> list[Mutant]:
    return list(find_mutants((ROOT / program).read_text()))


def _run(program: str, source: str, folder: Path):
    folder.mkdir()
    path = ROOT / program
    return run_checked(source, path.name, TABLE.PROGRAMS[program], folder, beside=path.parent)


def test_what_can_be_removed() -> None:
    source = """
world.fence()
came = d.shmem_wait_until(x, 0, 1, pred=[a, b])
d.shmem_get(x, 0, pred=came)
y = tl.load(p, mask=m, other=0)
tl.atomic_xchg(p, 1, sem="release")
tl.atomic_add(p, 1, sem="relaxed")
world.fence()
"""
    mutants = list(find_mutants(source))
    assert sorted((m.kind, m.line) for m in mutants) == [
        ("fence", 2),
        ("fence", 8),
        ("mask", 5),
        ("pred", 3),
        ("pred", 3),
        ("pred", 4),
        ("release", 6),
        ("wait", 3),
    ]
    texts = {(m.kind, m.what): m.source for m in mutants}
    assert "world.fence() #2" in {m.what for m in mutants}
    assert "pred=[b]" in texts["pred", "a in d.shmem_wait_until(x, 0, 1, pred=[a, b])"]
    assert "y = tl.load(p)\n" in texts["mask", "tl.load(p, mask=m, other=0)"]
    assert "came = pypto.zeros([1, 1], pypto.DT_INT32)" in next(
        m.source for m in mutants if m.kind == "wait"
    )
    assert "sem='relaxed')\ntl.atomic_add" in next(m.source for m in mutants if m.kind == "release")


def test_the_table_names_mutants_that_there_are() -> None:
    there = {(program, m.kind, m.what) for program in TABLE.PROGRAMS for m in _mutants(program)}
    assert {*TABLE.EQUIVALENT, *TABLE.NOT_SEEN} <= there
    assert not {*TABLE.EQUIVALENT} & {*TABLE.NOT_SEEN}


@pytest.mark.parametrize(
    ("program", "kind"),
    [
        (f"{TABLE._OURS}/fence.py", "fence"),
        (f"{TABLE._OURS}/pypto_halves.py", "pred"),
        (f"{TABLE._OURS}/triton_masks.py", "mask"),
    ],
)
def test_a_mutant_is_found(program: str, kind: str, tmp_path: Path) -> None:
    mutant = next(m for m in _mutants(program) if m.kind == kind)
    verdict = _run(program, mutant.source, tmp_path / "mutant")
    assert verdict.is_found, verdict.text


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("program", TABLE.PROGRAMS)
def test_all_mutants_of_a_program(program: str, tmp_path: Path) -> None:
    verdict = _run(program, (ROOT / program).read_text(), tmp_path / "original")
    assert not verdict.is_found, f"the original: {verdict.text}"
    wrong = []
    for number, mutant in enumerate(_mutants(program)):
        key = program, mutant.kind, mutant.what
        if key in TABLE.NOT_SEEN:
            continue
        verdict = _run(program, mutant.source, tmp_path / str(number))
        if verdict.is_found == (key in TABLE.EQUIVALENT):
            wrong.append(f"line {mutant.line}: {mutant.kind} of {mutant.what}: {verdict.how}")
    assert not wrong, "\n".join(wrong)
