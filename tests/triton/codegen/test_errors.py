"""Errors say where, show the line with a caret, and name what is involved."""

import pickle
import re

import numpy as np
import pytest

from emu.triton import language as tl
from emu.triton.codegen.code_generator import build_module
from emu.triton.compiler.errors import (
    CompilationError,
    CompileTimeAssertionFailure,
    UnsupportedLanguageConstruct,
)
from emu.triton.errors import TritonError
from emu.triton.source import JITCallable as jit
from emu.triton.source import constexpr_function

GLOBAL = 3
TENSOR = np.zeros(3)
CONSTEXPR = tl.constexpr(3)


@jit
def inner(a, b):
    c = a + 1
    return c @ b


@constexpr_function
def fails(n):
    raise ArithmeticError(f"no {n}")


@jit
def mixed_returns(n):
    if n > 1:
        return 1.0
    return 3


@jit
def endless(n):
    return endless(n)


@jit
def kernel_in_a_call(x, n):
    inner(tl.load(x), n)


CASES = {}


def case(kind, text, caret):
    """Expect a kernel to be refused, with a text, at the first place where ``caret`` stands."""

    def add(function):
        CASES[function.__name__] = (jit(function), kind, text, caret)
        return function

    return add


@case(
    UnsupportedLanguageConstruct, "AST operator 'MatMult' is not (currently) implemented.", "n @ n"
)
def product(x, n):
    y = n @ n
    tl.store(x, y)


@case(
    CompilationError,
    "Cannot access global variable GLOBAL from within @jit'ed function. Triton kernels can only "
    "access global variables that are instantiated as constexpr",
    "GLOBAL)",
)
def plain_global(x, n):
    tl.store(x, GLOBAL)


@case(CompilationError, "It is of type ndarray", "TENSOR)")
def array_global(x, n):
    tl.store(x, TENSOR)


@case(CompilationError, "NameError: missing is not defined", "missing + 1")
def undefined(x, n):
    y = missing + 1  # noqa: F821
    tl.store(x, y)


@case(
    CompilationError,
    "write tl.sum(x, axis); of Python's builtins kernels have abs, bool, ",
    "sum((",
)
def other_builtin(x, n):
    tl.store(x, sum((1, 2)))


@case(CompilationError, "last is not defined: it is assigned only inside a `for`", "last)")
def only_in_a_loop(x, n):
    for i in range(n):
        last = i
    tl.store(x, last)


@case(CompilationError, "i is not defined: it is assigned only inside a `for`", "i)")
def index_after_the_loop(x, n):
    for i in range(n):
        pass
    tl.store(x, i)


@case(CompilationError, "y is not defined: it is assigned only inside one side of an `if`", "y)")
def only_in_a_branch(x, n):
    if n > 3:
        y = 1
    tl.store(x, y)


@case(CompilationError, "z is not defined: it is assigned only inside a `while`", "z)")
def only_in_a_while(x, n):
    while n > 3:
        n -= 1
        z = n
    tl.store(x, z)


@case(
    CompilationError,
    "Loop-carried variable acc has initial type int32 but is re-assigned to fp32 in loop! Please "
    "make sure that the type stays consistent.",
    "for i",
)
def loop_changes_dtype(x, n):
    acc = 0
    for i in range(n):
        acc += i * 0.5
    tl.store(x, acc)


@case(
    CompilationError,
    "Loop-carried variable acc has initial type fp32 but is re-assigned to <[16], fp32> in loop!",
    "while n",
)
def loop_changes_shape(x, n):
    acc = 0.0
    while n > 0:
        acc += tl.zeros((16,), tl.float32)
        n -= 1


@case(
    CompilationError,
    "Loop carried variable acc changed type, was constexpr[None] but is now int32",
    "for i",
)
def loop_changes_none(x, n):
    acc = None
    for i in range(n):
        acc = i


@case(
    CompilationError,
    "Mismatched type for y between then block (int32) and else block (<[8], fp32>)",
    "if n > 3",
)
def branches_differ(x, n):
    if n > 3:
        y = 1
    else:
        y = tl.zeros((8,), tl.float32)
    tl.store(x, y)


@case(
    CompilationError,
    "initial value for `y` is of type int32, but the else block redefines it as fp32",
    "if n > 3",
)
def branch_changes_type(x, n):
    y = 1
    if n > 3:
        pass
    else:
        y = 2.0
    tl.store(x, y)


@case(
    CompilationError,
    "Ternary expression with dynamic condition has inconsistent types int32 and constexpr[0.5]",
    "n if",
)
def ternary_differs(x, n):
    tl.store(x, n if n > 3 else 0.5)


@case(
    UnsupportedLanguageConstruct,
    "Cannot have `return` statements inside `while` or `for` statements in triton.",
    "if i",
)
def returns_from_a_loop(x, n):
    for i in range(n):
        if i > 3:
            return


@case(
    UnsupportedLanguageConstruct,
    "Cannot have `return` statements inside `while` or `for` statements in triton.",
    "return",
)
def returns_from_a_while(x, n):
    while n > 3:
        return


@case(CompilationError, "j has a value before the loop and is the index of a loop inside", "for i")
def index_hides_a_variable(x, n):
    j = n
    for i in range(n):
        tl.store(x + i, j)
        for j in range(i):
            pass


@case(UnsupportedLanguageConstruct, "the condition of a `while` cannot assign variables", "(v :=")
def assigns_in_a_condition(x, n):
    v = n
    while (v := v - 1) > 0:
        tl.store(x, v)


@case(UnsupportedLanguageConstruct, "unsupported AST node type: Break", "break")
def breaks(x, n):
    for _ in range(n):
        break


@case(UnsupportedLanguageConstruct, "unsupported AST node type: Continue", "continue")
def continues(x, n):
    for _ in range(n):
        continue


@case(UnsupportedLanguageConstruct, "__setitem__ is not supported in triton", "x[0]")
def sets_items(x, n):
    x[0] = n


@case(UnsupportedLanguageConstruct, "__setitem__ is not supported in triton", "x[0]")
def augments_items(x, n):
    x[0] += n


@case(UnsupportedLanguageConstruct, "Attribute assignment is not supported in triton", "n.shape")
def sets_attributes(x, n):
    n.shape = 3


@case(UnsupportedLanguageConstruct, "starred assignment targets are not supported", "*b")
def stars(x, n):
    a, *b = n, n, n


@case(CompilationError, "too many values to unpack (expected 2, got 3)", "a, b")
def too_many(x, n):
    a, b = n, n, n


@case(CompilationError, "not enough values to unpack (expected 3, got 2)", "a, b")
def too_few(x, n):
    a, b, c = n, n


@case(CompilationError, "cannot unpack non-iterable value of type int32", "a, b")
def no_tuple(x, n):
    a, b = n


@case(UnsupportedLanguageConstruct, "unsupported AST node type: With", "with")
def manages(x, n):
    with n:
        pass


@case(UnsupportedLanguageConstruct, "unsupported AST node type: Try", "try")
def tries(x, n):
    try:
        pass
    except ValueError:
        pass


@case(UnsupportedLanguageConstruct, "unsupported AST node type: Lambda", "lambda")
def anonymous(x, n):
    f = lambda v: v  # noqa: E731
    tl.store(x, f(n))


@case(UnsupportedLanguageConstruct, "unsupported AST node type: FunctionDef", "def inside")
def defines(x, n):
    def inside():
        pass


@case(UnsupportedLanguageConstruct, "unsupported AST node type: Dict", "{1")
def dictionary(x, n):
    y = {1: 2}
    tl.store(x, y[1])


@case(
    UnsupportedLanguageConstruct,
    "Only `range` and `static_range` iterators are currently supported",
    "(1, 2)",
)
def iterates(x, n):
    for i in (1, 2):
        tl.store(x, i)


@case(
    CompilationError,
    "static_range needs ints known at compile time, but got a value of type int32",
    "for i",
)
def unrolls_what_is_not_known(x, n):
    for i in tl.static_range(n):
        tl.store(x, i)


@case(
    CompilationError,
    "For loop bounds and step must all be ints, are (int32, fp32, int32)",
    "for i",
)
def float_bounds(x, n):
    for i in range(0, n * 0.5):
        tl.store(x, i)


@case(CompilationError, "For upper bound must be a scalar, got <[8], int32>", "for i")
def tensor_bounds(x, n):
    for i in range(tl.arange(0, 8)):
        tl.store(x, i)


@case(CompilationError, "step of a range must not be 0", "for i")
def no_step(x, n):
    for i in range(0, n, 0):
        tl.store(x, i)


@case(
    UnsupportedLanguageConstruct,
    "Boolean value of Tensor with more than one value is ambiguous, but the condition is <[8], int1>",
    "if tl",
)
def tensor_condition(x, n):
    if tl.arange(0, 8) > n:
        tl.store(x, 1)


@case(
    UnsupportedLanguageConstruct,
    "`if` conditionals can only accept values of type {bool, int, NoneType}, not objects of type str",
    "if ",
)
def text_condition(x, n):
    if "yes":
        tl.store(x, 1)


@case(UnsupportedLanguageConstruct, "the condition of a `while` must depend on values", "while")
def endless_while(x, n):
    while True:
        tl.store(x, 1)


@case(UnsupportedLanguageConstruct, "unsupported operand type(s) for +: 'str' and 'int'", '"a" +')
def adds_text(x, n):
    y: tl.constexpr = "a" + 1
    tl.store(x, y)


@case(UnsupportedLanguageConstruct, "AST unary operator 'USub' is not (currently) implemented", "-")
def negates_text(x, n):
    y: tl.constexpr = -"a"
    tl.store(x, y)


@case(
    UnsupportedLanguageConstruct, "comparison operator 'In' is not (currently) implemented", "n in"
)
def contains(x, n):
    y: tl.constexpr = n in (1, 2)
    tl.store(x, y)


@case(
    UnsupportedLanguageConstruct,
    "f-string containing non-constexpr conversion values, found conversion of type int32",
    "n}",
)
def text_of_a_tensor(x, n):
    tl.static_assert(True, f"{x}")
    y: tl.constexpr = f"{n}"
    tl.store(x, y)


@case(CompileTimeAssertionFailure, "3 is not 4", "tl.static_assert")
def asserts(x, n):
    tl.static_assert(CONSTEXPR == 4, f"{CONSTEXPR} is not 4")


@case(
    CompilationError, "Assertion condition could not be determined at compile-time", "tl.static_a"
)
def asserts_what_is_not_known(x, n):
    tl.static_assert(n == 4)


@case(
    CompilationError, "y is already defined. constexpr cannot be reassigned.", "y: tl.constexpr = 2"
)
def declares_twice(x, n):
    y = 1
    y: tl.constexpr = 2
    tl.store(x, y)


@case(CompilationError, "a kernel returns nothing, but returns_a_value returns", "def ")
def returns_a_value(x, n):
    return n


@case(CompilationError, "cannot add int32[64] and int32[32]", "tl.arange(0, 64) +")
def shapes_differ(x, n):
    y = tl.arange(0, 64) + tl.arange(0, 32)
    tl.store(x, y)


@case(CompilationError, "inner() missing 1 required argument: 'b'", "inner(n)")
def too_few_arguments(x, n):
    inner(n)


@case(CompilationError, "ArithmeticError: no 3", "fails(")
def compile_time_error(x, n):
    fails(CONSTEXPR)


@case(
    CompilationError,
    "float() needs a value known at compile time, but got a tensor of type",
    "float",
)
def float_of_a_tensor(x, n):
    tl.store(x, float(n))


@case(
    CompilationError, "AttributeError: n, a tensor int32[], has no attribute 'nothing'", "n.nothing"
)
def missing_attribute(x, n):
    tl.store(x, n.nothing)


@case(UnsupportedLanguageConstruct, "'int' object is not callable", "CONSTEXPR(")
def calls_a_number(x, n):
    CONSTEXPR(n)


def compile_(kernel):
    return build_module(kernel, {"x": "*fp32", "n": "i32"})


@pytest.mark.parametrize("name", sorted(CASES))
def test_what_is_refused(name):
    kernel, kind, text, caret = CASES[name]
    with pytest.raises(CompilationError) as caught:
        compile_(kernel)
    error = caught.value
    assert type(error) is kind
    lines = kernel.src.split("\n")
    places = [(i, s.index(caret)) for i, s in enumerate(lines, 1) if caret in s]
    number, column = next((p for p in places if p[0] > 1), places[0])
    absolute = kernel.def_file_line_number + number - 1
    head, source, mark, *message = str(error).split("\n")
    assert head == f"{__file__}:{absolute}:{column + 1}: in {name}, at {number}:{column}:"
    assert source == lines[number - 1]
    assert mark == " " * column + "^"
    assert text in "\n".join(message)
    assert isinstance(error, TritonError)


def test_an_error_in_a_called_function_shows_the_chain_of_calls():
    with pytest.raises(CompilationError) as caught:
        compile_(kernel_in_a_call)
    error = caught.value
    first, second = kernel_in_a_call.def_file_line_number, inner.def_file_line_number
    assert str(error).split("\n") == [
        f"{__file__}:{first + 1}:5: in kernel_in_a_call, at 2:4:",
        "    inner(tl.load(x), n)",
        "    ^",
        f"{__file__}:{second + 2}:12: in inner, at 3:11:",
        "    return c @ b",
        "           ^",
        "AST operator 'MatMult' is not (currently) implemented. Write tl.dot(a, b).",
    ]
    cause = error.__cause__
    assert type(error) is CompilationError
    assert error.error_message is None
    assert type(cause) is UnsupportedLanguageConstruct
    assert cause.error_message.startswith("AST operator")


def test_returns_of_different_types_are_refused():
    @jit
    def kernel(x, n):
        tl.store(x, mixed_returns(n))

    with pytest.raises(CompilationError, match="Return type mismatch: ") as caught:
        compile_(kernel)
    message = str(caught.value)
    assert "def mixed_returns(" in message
    assert re.search(
        r"return types of mixed_returns \(line \d+\) were: \S+ \(line \d+\), \S+ \(line \d+\)",
        message,
    )


def test_endless_recursion_is_refused_in_few_lines():
    @jit
    def kernel(x, n):
        tl.store(x, endless(n))

    with pytest.raises(CompilationError, match="cannot be recursive") as caught:
        compile_(kernel)
    assert re.search(r"the same call \d+ more times", str(caught.value))
    assert len(str(caught.value).split("\n")) < 10


def test_tracebacks_name_the_errors_as_triton_does():
    for error in (CompilationError, CompileTimeAssertionFailure, UnsupportedLanguageConstruct):
        assert error.__module__ == "emu.triton.compiler.errors"


def test_errors_can_be_pickled():
    kernel, *_ = CASES["breaks"]
    with pytest.raises(UnsupportedLanguageConstruct) as caught:
        compile_(kernel)
    again = pickle.loads(pickle.dumps(caught.value))
    assert type(again) is UnsupportedLanguageConstruct
    assert str(again) == str(caught.value)


def test_columns_are_those_of_the_file():
    if True:

        @jit
        def kernel(x, n):
            tl.store(x, n @ n)

    with pytest.raises(CompilationError) as caught:
        compile_(kernel)
    with open(__file__) as file:
        line = file.read().split("\n")[caught.value.line - 1]
    assert line == "            tl.store(x, n @ n)"
    assert line[caught.value.column - 1 :] == "n @ n)"


def test_non_ascii_text_before_a_fault_does_not_move_the_caret():
    @jit
    def kernel(x, n):
        tl.static_assert("äöü" == "äöü"), n @ n

    with pytest.raises(CompilationError) as caught:
        compile_(kernel)
    _, source, mark, _ = str(caught.value).split("\n")
    assert mark.index("^") == source.index("n @ n")


@jit
def prints(a, b):
    tl.device_print("a", a)
    return a + b


@jit
def prints_as_python(a, b):
    print("a", a)
    return a + b


@jit
def stores(a, b):
    tl.store(tl.cast(0, tl.pointer_type(tl.float32)), a)
    return a + b


@jit
def loads(a, b):
    return a + b + tl.load(tl.cast(0, tl.pointer_type(tl.float32)))


@jit
def adds(a, b):
    tl.atomic_add(tl.cast(0, tl.pointer_type(tl.float32)), a)
    return a + b


@jit
def exchanges(a, b):
    tl.atomic_cas(tl.cast(0, tl.pointer_type(tl.int32)), 0, 1)
    return a + b


@jit
def stores_in_a_branch(a, b):
    if a > b:
        tl.store(tl.cast(0, tl.pointer_type(tl.float32)), a)
    return a + b


@jit
def reducing(function: tl.constexpr, reduces: tl.constexpr):
    x = tl.zeros((8,), tl.float32)
    if reduces:
        tl.reduce(x, 0, function)
    else:
        tl.associative_scan(x, 0, function)


EFFECTS = {
    prints: ("print", "tl.device_print("),
    prints_as_python: ("print", "print("),
    stores: ("store to memory", "tl.store("),
    loads: ("load from memory", "tl.load("),
    adds: ("have atomic operations", "tl.atomic_add("),
    exchanges: ("have atomic operations", "tl.atomic_cas("),
    stores_in_a_branch: ("store to memory", "tl.store("),
}


@pytest.mark.parametrize("reduces", [True, False])
@pytest.mark.parametrize("function", EFFECTS, ids=lambda f: f.__name__)
def test_effects_in_combine_functions_are_refused_where_they_stand(function, reduces):
    effect, caret = EFFECTS[function]
    with pytest.raises(CompilationError) as caught:
        build_module(reducing, {}, {"function": function, "reduces": reduces})
    text = str(caught.value)
    what = "a reduction" if reduces else "a scan"
    assert f"the combine function of {what} must not {effect}" in text
    lines = text.splitlines()
    marked = [
        (above, under.index("^")) for above, under in zip(lines, lines[1:]) if under.strip() == "^"
    ]
    assert any(above[at:].startswith(caret) for above, at in marked), text
    assert "before it" in text
