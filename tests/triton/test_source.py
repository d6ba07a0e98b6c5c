"""Source, parameters and keys of jit functions."""

import ast
import functools
import importlib.util
import inspect
import linecache
import math
import sys
import threading

import pytest

from emu import triton
from emu.triton import language as tl
from emu.triton.source import ConstexprFunction, JITCallable, constexpr_function

SOURCE = '''
from emu.triton import language as tl
from emu.triton.source import JITCallable, constexpr_function

WIDTH = tl.constexpr({width})
PLAIN = {plain}


@constexpr_function
def doubled(n):
    return n * {factor}


class Space:
    @staticmethod
    @JITCallable
    def inner(x):
        return x + {inner}


@JITCallable
def middle(x):
    return Space.inner(x) * WIDTH


@JITCallable
def kernel(
    x_ptr,
    n: tl.int32,
    WIDTH_: tl.constexpr = 4,
    *,
    y: "*fp32" = None,
    z: "const *fp16" = None,
):
    """Text with {{odd}}
 indentation."""
    return middle(n) + doubled(3)


@JITCallable
def unrelated(n):
    PLAIN = n
    return PLAIN
'''
VALUES = {"width": 8, "plain": 1, "factor": 2, "inner": 1}


@pytest.fixture
def load(tmp_path):
    """``load(name, **values)`` gives a module of that source."""

    def make(**values):
        # One file after the other stands at the same place, as an edited one does.
        place = tmp_path / "kernels.py"
        place.write_text(SOURCE.format(**VALUES | values))
        spec = importlib.util.spec_from_file_location("kernels", place)
        module = importlib.util.module_from_spec(spec)
        exec(compile(place.read_text(), place, "exec"), vars(module))  # noqa: S102
        for value in vars(module).values():
            if isinstance(value, JITCallable):
                assert value.src
        module.Space.inner.src  # noqa: B018
        linecache.clearcache()
        return module

    return make


def test_source_begins_with_def_and_has_no_indentation(load):
    module = load()
    assert module.Space.inner.src == "def inner(x):\n    return x + 1\n"
    kernel = module.kernel
    assert kernel.src.startswith("def kernel(\n    x_ptr,")
    assert kernel.raw_src[0] == "@JITCallable\n"
    assert kernel.def_file_line_number == kernel.starting_line_number + 1
    assert module.Space.inner.def_file_col_number == 4
    tree = kernel.parse()
    assert isinstance(tree.body[0], ast.FunctionDef)
    assert kernel.__name__ == "kernel"
    assert kernel.__module__ == "kernels"
    assert kernel.__doc__.startswith("Text with {odd}\n")


def test_parameters(load):
    params = {p.name: p for p in load().kernel.params}
    assert list(params) == ["x_ptr", "n", "WIDTH_", "y", "z"]
    assert [p.num for p in params.values()] == [0, 1, 2, 3, 4]
    assert params["WIDTH_"].is_constexpr
    assert not params["n"].is_constexpr
    assert params["WIDTH_"].default == 4
    assert params["WIDTH_"].has_default
    assert not params["x_ptr"].has_default
    annotations = {n: (p.annotation, p.annotation_type, p.is_const) for n, p in params.items()}
    assert annotations == {
        "x_ptr": ("", "", False),
        "n": ("i32", "i32", False),
        "WIDTH_": ("constexpr", "", False),
        "y": ("*fp32", "fp32", False),
        "z": ("*kfp16", "fp16", True),
    }


def test_parameters_are_excluded_from_specialisation_by_name_or_number():
    def f(a, b, c):
        pass

    params = JITCallable(f, do_not_specialize=["a", 2], do_not_specialize_on_alignment=[1]).params
    assert [p.do_not_specialize for p in params] == [True, False, True]
    assert [p.do_not_specialize_on_alignment for p in params] == [False, True, False]


@pytest.mark.parametrize("changed", ["width", "factor", "inner"])
def test_a_key_depends_on_what_the_function_calls_and_reads(load, changed):
    before, again, after = load(), load(), load(**{changed: 5})
    assert before.kernel.cache_key == again.kernel.cache_key
    assert before.kernel.cache_key != after.kernel.cache_key
    assert before.unrelated.cache_key == after.unrelated.cache_key


def test_a_key_does_not_depend_on_what_the_function_does_not_use(load):
    assert load().kernel.cache_key == load(plain=2).kernel.cache_key
    assert load().unrelated.cache_key == load(plain=2).unrelated.cache_key


def test_globals_are_recorded_with_their_values(load):
    module = load()
    assert module.kernel.used_global_vals == {}
    assert module.kernel.cache_key
    ((name, _), (value, space)) = next(iter(module.kernel.used_global_vals.items()))
    assert name == "WIDTH"
    assert value.value == 8
    assert space is vars(module)


def test_threads_parse_one_after_the_other(monkeypatch):
    def function(x):
        return x

    parse, busy, second = ast.parse, threading.Lock(), threading.Event()
    overlaps = []

    def parse_slowly(*args, **kwargs):
        if not busy.acquire(blocking=False):
            overlaps.append(threading.get_ident())
            second.set()
            return parse(*args, **kwargs)
        try:
            second.wait(0.2)  # the other thread is free to come here, too
            return parse(*args, **kwargs)
        finally:
            busy.release()

    monkeypatch.setattr("emu.triton.source.ast.parse", parse_slowly)
    threads = [threading.Thread(target=JITCallable(function).parse) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not overlaps


def test_an_updated_source_has_another_key(load):
    kernel = load().unrelated
    before = kernel.cache_key
    with pytest.raises(AttributeError, match="_unsafe_update_src"):
        kernel.src = "def unrelated(n):\n    return 1\n"
    kernel._unsafe_update_src("def unrelated(n):\n    return 1\n")
    assert kernel.cache_key != before
    assert ast.unparse(kernel.parse()) == "def unrelated(n):\n    return 1"


def test_recursive_functions_have_a_key():
    @JITCallable
    def even(n):
        return odd(n)

    @JITCallable
    def odd(n):
        return even(n)

    assert even.cache_key
    assert odd.cache_key


def test_closures_are_part_of_a_key():
    def make(value):
        @JITCallable
        def f(x):
            return x + value

        return f

    keys = {make(tl.constexpr(v)).cache_key for v in (1, 2, 1)}
    assert len(keys) == 2


def test_functions_without_source_are_refused():
    space = {}
    exec("def f(x): pass", space)  # noqa: S102
    with pytest.raises(ValueError, match="@jit functions should be defined in a Python file"):
        JITCallable(space["f"])
    with pytest.raises(ValueError, match="must be a function written with def"):
        JITCallable(lambda x: x).src  # noqa: B018


def test_a_source_that_a_patched_linecache_gives_is_read(monkeypatch):
    text = "def f(x):\n    return x + 1\n"
    plain = linecache.getlines

    def getlines(name, module_globals=None):
        return text.splitlines(True) if name == "<f of 2>" else plain(name, module_globals)

    monkeypatch.setattr(linecache, "getlines", getlines)
    space = {}
    exec(compile(text, "<f of 2>", "exec"), space)  # noqa: S102 - as xformers makes kernels
    assert JITCallable(space["f"]).src == text


def test_constexpr_functions_run_as_they_are():
    @constexpr_function
    def area(shape, scale=1):
        return shape[0] * shape[1] * scale

    assert isinstance(area, ConstexprFunction)
    assert area((2, 3)) == 6
    assert area((tl.constexpr(2), 3), scale=tl.constexpr(2)) == 12
    assert sys.modules[area.__module__] is not None


def test_inspect_sees_the_parameters_of_a_call():
    @triton.jit
    def kernel(x_ptr, BLOCK: tl.constexpr):
        pass

    @triton.constexpr_function
    def double(n):
        return 2 * n

    for function in (kernel, double):
        assert [p.kind.name for p in inspect.signature(function).parameters.values()] == [
            "VAR_POSITIONAL",
            "VAR_KEYWORD",
        ]
    assert inspect.signature(functools.wraps(kernel)(lambda: None)) == inspect.signature(kernel)
    assert "fn" in inspect.signature(type(kernel)).parameters


def tuned_elsewhere():
    return 4


@triton.constexpr_function
def asks_python():
    return tuned_elsewhere() * max(1, 2)


@triton.constexpr_function
def asks_a_module():
    return inspect.getmodulename("kernel.py")


@triton.jit
def calls_what_asks(x_ptr):
    tl.store(x_ptr, asks_python())


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (asks_python, "tuned_elsewhere"),
        (asks_a_module, r"inspect\.getmodulename"),
        (calls_what_asks, "tuned_elsewhere"),
    ],
)
def test_what_plain_functions_return_cannot_become_part_of_a_kept_kernel(function, name):
    for _ in range(2):
        with pytest.raises(RuntimeError, match=rf"Unsupported function referenced: {name}, by the"):
            _ = function.cache_key


def test_constexpr_functions_may_use_python_s_own_functions():
    @triton.constexpr_function
    def bits(n):
        return math.ceil(math.log2(max(n, 2))) + len([n])

    assert bits.cache_key
    assert bits(9) == 5
