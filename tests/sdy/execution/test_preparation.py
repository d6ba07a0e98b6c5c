"""Prepared programs on disk: when an entry is used, when not, and what becomes of one that is damaged."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import emu.sdy
from emu.kernels.core import cache_files, cache_folder
from emu.kernels.errors import CacheFolderError, CacheWarning
from emu.sdy.execution import partitioned, preparation
from emu.sdy.execution.executable import Executable, compile
from emu.sdy.execution.preparation import folder_name
from emu.sdy.rules import register, unregister

TEXT = """
sdy.mesh @mesh = <["x"=1]>
func.func @main(%a: tensor<4x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
                %b: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [1] : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x4xf32>
  %1 = stablehlo.dot_general %0, %a, contracting_dims = [1] x [0] : (tensor<4x4xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
  return %1 : tensor<4x6xf32>
}
"""
LOOP = """
sdy.mesh @mesh = <["x"=2]>
func.func @main(%n: tensor<i32>, %a: tensor<8x3xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>})
    -> (tensor<8x3xf32>, tensor<3xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %0:2 = stablehlo.while(%i = %zero, %v = %a) : tensor<i32>, tensor<8x3xf32>
    cond { %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
           stablehlo.return %c : tensor<i1> }
    do { %j = stablehlo.add %i, %one : tensor<i32>
         %w = stablehlo.tanh %v : tensor<8x3xf32>
         stablehlo.return %j, %w : tensor<i32>, tensor<8x3xf32> }
  %f = stablehlo.constant dense<0.0> : tensor<f32>
  %1 = stablehlo.reduce(%0#1 init: %f) applies stablehlo.add across dimensions = [0] : (tensor<8x3xf32>, tensor<f32>) -> tensor<3xf32>
  return %0#1, %1 : tensor<8x3xf32>, tensor<3xf32>
}
"""


@pytest.fixture
def cache(monkeypatch) -> Iterator[Path]:
    """An empty folder of entries, beside that of kernels, which need not be compiled anew."""
    name = os.urandom(16).hex()
    monkeypatch.setattr(preparation, "folder_name", lambda: name)
    yield cache_folder.base() / name
    shutil.rmtree(cache_folder.base() / name, ignore_errors=True)


@pytest.fixture
def partitions(monkeypatch) -> list[object]:
    """The modules that are partitioned, because there is no entry."""
    found: list[object] = []
    partition = partitioned.partition

    def noted(module, *args, **kwargs):
        found.append(module)
        return partition(module, *args, **kwargs)

    monkeypatch.setattr(partitioned, "partition", noted)
    return found


def program(text: str = TEXT, *, file: str = "-", **options: object) -> Executable:
    return compile(emu.sdy.parse(text, file=file), **options)


def given(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    rng = np.random.default_rng(3)
    return [rng.normal(size=shape).astype(np.float32) for shape in shapes]


def entries(cache: Path) -> list[Path]:
    return sorted(cache.glob("*"))


def test_what_is_on_disk_is_not_partitioned_again(cache, partitions) -> None:
    inputs = given((4, 6), (4, 6))
    first, second = program(), program()
    assert len(partitions) == 1
    (entry,) = entries(cache)
    assert entry.name.endswith(".program")
    assert first(*inputs)[0].tobytes() == second(*inputs)[0].tobytes()
    for each in (first, second):
        assert each.n_devices == 1
        assert "stablehlo.dot_general" in str(each.partitioned.local)
    assert first.partitioned.inputs == second.partitioned.inputs
    assert str(first.partitioned.whole) == str(second.partitioned.whole)


@pytest.mark.parametrize("donate", [(), (1,)])
def test_an_entry_gives_the_bits_of_a_new_program_on_pes(cache, partitions, donate) -> None:
    inputs = [np.int32(3), *given((8, 3))]
    results = []
    for _ in range(2):
        with program(LOOP, donate=donate) as each:
            results.append([x.tobytes() for x in each(*inputs)])
    assert len(partitions) == 1
    assert results[0] == results[1]


def test_a_program_with_its_results_checked_may_come_from_disk(cache, partitions) -> None:
    inputs = given((4, 6), (4, 6))
    program()(*inputs)
    checked = program(check="outputs")
    checked(*inputs)
    assert checked.verdict is not None
    assert checked.verdict.findings == ()
    assert len(partitions) == 1


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (TEXT.replace("4x6", "4x8"), {}),
        (TEXT.replace("%1 : tensor<4x6xf32>\n}", "%a : tensor<4x6xf32>\n}"), {}),
        (TEXT.replace('"x"=1', '"x"=2'), {}),
        (TEXT.replace('[{"x"}, {}]', '[{}, {"x"}]'), {}),
        (TEXT, {"file": "other.mlir"}),
        (TEXT.replace("\n  %1", "\n\n  %1"), {}),
        (TEXT, {"mesh": {"x": 2}}),
        (TEXT, {"donate": [0]}),
        (TEXT, {"donate": [1]}),
        (TEXT.replace("%b: tensor<4x6xf32>", "%b: tensor<4x6xf32> {jax.buffer_donor = true}"), {}),
    ],
    ids=[
        "shape",
        "result",
        "mesh",
        "sharding",
        "file",
        "line",
        "other mesh",
        "donated",
        "other",
        "donor",
    ],
)
def test_another_program_has_another_entry(cache, partitions, text, options) -> None:
    program()
    program(text, **options)
    assert len(partitions) == 2
    assert len(entries(cache)) == 2
    program(text, **options)
    assert len(partitions) == 2


def test_a_module_that_was_changed_after_it_was_compiled_is_compiled_anew(
    cache, partitions
) -> None:
    module = emu.sdy.parse(TEXT)
    a, b = given((4, 6), (4, 6))
    (before,) = compile(module)(a, b)
    main = module.body().operations[1].body()
    main.operations[1].set_operand(1, main.arguments[1])
    (after,) = compile(module)(a, b)
    assert len(partitions) == 2
    np.testing.assert_allclose(before, a @ b.T @ a, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(after, a @ b.T @ b, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "options",
    [
        {"check": "unsharded"},
        {"path": "reference"},
        {"passes": "emu-partition-pipeline{fix-sub-axis-offsets=false}"},
    ],
    ids=lambda options: next(iter(options)),
)
def test_programs_that_are_not_kept(cache, partitions, options) -> None:
    for _ in range(2):
        program(**options)
    assert len(partitions) == 2
    assert entries(cache) == []


def test_nothing_is_kept_or_found_while_a_user_has_rules(cache, partitions) -> None:
    program()
    register("test.nobody_calls_this")(lambda op: None)
    try:
        program()
        program(TEXT.replace("4x6", "4x8"))
        assert len(partitions) == 3
        assert len(entries(cache)) == 1
    finally:
        unregister("test.nobody_calls_this")
    program()
    assert len(partitions) == 3


def test_custom_calls_are_those_of_the_process(cache, partitions) -> None:
    text = """func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
      %0 = stablehlo.custom_call @times(%x) : (tensor<3xf32>) -> tensor<3xf32>
      return %0 : tensor<3xf32> }"""
    x = np.ones(3, np.float32)
    for factor in (2, 3):
        calls = {"times": lambda op, x, factor=factor: (np.float32(factor) * x,)}
        (found,) = program(text, custom_calls=calls)(x)
        assert found.tolist() == [factor] * 3
    assert len(partitions) == 1


# --- the folder ----------------------------------------------------------------------------


def test_the_folder_changes_with_sources_and_versions(monkeypatch) -> None:
    name = folder_name.__wrapped__
    before = name()
    assert name() == before == folder_name()
    found = [before]
    for target, attribute, value in (
        (sys, "version", "4.0"),
        (np, "__version__", "9.0"),
        (ml_dtypes, "__version__", "9.0"),
        (preparation.platform, "machine", lambda: "vax"),
        (preparation, "_cpu_features", lambda: {"SSE": True}),
        (preparation, "_ROOMS", ("kernels",)),
        (preparation, "__file__", str(Path(__file__))),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(target, attribute, value)
            found.append(name())
    assert len(set(found)) == len(found)


def test_the_sources_of_every_room_that_may_be_imported_count() -> None:
    code = (
        "import sys, emu.sdy, numpy as np; p = emu.sdy.compile(emu.sdy.parse(sys.stdin.read())); "
        "p(*[np.ones((4, 6), np.float32)] * 2); import emu.sdy.execution.resident;"
        "print(*sorted({n.split('.')[1] for n in sys.modules if n.startswith('emu.')}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], input=TEXT, capture_output=True, text=True, check=True
    )
    assert set(done.stdout.split()) <= set(preparation._ROOMS)


@pytest.mark.parametrize("how", ["cut", "empty", "other bytes", "no pickle", "another pickle"])
def test_a_damaged_entry_is_ignored_and_written_anew(cache, partitions, how) -> None:
    program()
    (entry,) = entries(cache)
    whole = entry.read_bytes()
    if how == "cut":
        entry.write_bytes(whole[: len(whole) // 2])
    elif how == "empty":
        entry.write_bytes(b"")
    elif how == "other bytes":
        entry.write_bytes(whole[:100] + bytes([whole[100] ^ 1]) + whole[101:])
    else:
        payload = b"no pickle" if how == "no pickle" else b"\x80\x05K\x01."
        cache_files.store_checked(cache.name, entry.name, payload)
    a, b = given((4, 6), (4, 6))
    (found,) = program()(a, b)
    np.testing.assert_allclose(found, a @ b.T @ a, rtol=1e-5, atol=1e-5)
    assert len(partitions) == 2
    assert entry.read_bytes() == whole
    program()
    assert len(partitions) == 2


def test_a_folder_into_which_others_can_write_is_refused(cache) -> None:
    program()
    (entry,) = entries(cache)
    cache_folder._known.cache_clear()
    entry.parent.chmod(0o777)
    with pytest.raises(CacheFolderError, match="writable by its owner only"):
        program()
    entry.parent.chmod(0o700)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_the_folder_of_another_user_is_refused(cache) -> None:
    program()
    (entry,) = entries(cache)
    cache_folder._known.cache_clear()
    os.chown(entry.parent, 4321, -1)
    with pytest.raises(CacheFolderError, match="belongs to user 4321"):
        program()
    os.chown(entry.parent, 0, -1)
    cache_folder._known.cache_clear()


def test_a_disk_that_cannot_be_written_costs_time_only(monkeypatch, tmp_path, partitions) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("EMU_CACHE_DIR", str(tmp_path / "file" / "cache"))
    monkeypatch.setattr(cache_folder, "_said", [])
    monkeypatch.setattr(cache_folder, "_places", lambda: ())  # nor any other folder
    with pytest.warns(CacheWarning, match="cannot be written"):
        program()
    program()
    assert len(partitions) == 2


def test_entries_that_were_not_used_for_longest_go_first(cache, monkeypatch, partitions) -> None:
    monkeypatch.setattr(preparation, "MOST_ENTRIES", 4)
    texts = [TEXT.replace("4x6", f"4x{n}") for n in range(7, 12)]
    for age, text in enumerate(texts[:4]):
        before = set(entries(cache))
        program(text)
        (new,) = set(entries(cache)) - before
        os.utime(new, (1000 + age, 1000 + age))
    program(texts[0])  # used again
    assert len(partitions) == 4
    other = entries(cache)[0].parent / "kernel"
    other.write_bytes(b"of others")
    program(texts[4])
    assert len(entries(cache)) == 4  # three, and that of others
    assert other.exists()
    program(texts[0])
    program(texts[4])
    assert len(partitions) == 5
    program(texts[1])
    assert len(partitions) == 6


def test_large_entries_go_too(cache, monkeypatch) -> None:
    program()
    monkeypatch.setattr(preparation, "MOST_BYTES", entries(cache)[0].stat().st_size)
    program(TEXT.replace("4x6", "4x8"))
    assert len(entries(cache)) < 2


def test_two_processes_at_once(cache) -> None:
    code = (
        "import sys, numpy as np, emu.sdy; from emu.sdy.execution import preparation; "
        "preparation.folder_name = lambda: sys.argv[2]; "
        "p = emu.sdy.compile(emu.sdy.parse(sys.argv[1])); "
        "print(p(*[np.arange(24, dtype=np.float32).reshape(4, 6)] * 2)[0].tobytes().hex())"
    )
    running = [
        subprocess.Popen(
            [sys.executable, "-c", code, TEXT, cache.name], stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    found = {each.communicate()[0] for each in running}
    assert [each.returncode for each in running] == [0, 0]
    assert len(found) == 1
    assert [each.suffix for each in entries(cache)] == [".program"]
