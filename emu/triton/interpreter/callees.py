"""What the rewritten parts of a kernel call: assignments, conditions, and the functions of kernels."""

from __future__ import annotations

import builtins
import functools
import operator
import pdb  # noqa: T100 - kernels stop in it
from collections.abc import Callable, Sequence
from typing import Any

from emu.tile.assertions import Failure, find_failure, with_details
from emu.triton import language
from emu.triton.codegen.expressions import member_of
from emu.triton.interpreter import debugging
from emu.triton.interpreter.ranges import Counter
from emu.triton.interpreter.rewriting import as_python
from emu.triton.language import overflow
from emu.triton.language.context import current
from emu.triton.language.conversion import to_tensor
from emu.triton.language.debugging import shown as shown_operands
from emu.triton.language.iteration import check_plain_range
from emu.triton.language.values import tensor
from emu.triton.source import BoundMethod, ConstexprFunction, JITCallable

_KEPT = "_as_python"
_PLAIN = (bool, int, float)
_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "Eq": lambda a, b: _equality(operator.eq, a, b),
    "NotEq": lambda a, b: _equality(operator.ne, a, b),
    "Lt": operator.lt,
    "LtE": operator.le,
    "Gt": operator.gt,
    "GtE": operator.ge,
    "Is": lambda a, b: _unwrapped(a) is _unwrapped(b),
    "IsNot": lambda a, b: _unwrapped(a) is not _unwrapped(b),
    "In": lambda a, b: a in b,
    "NotIn": lambda a, b: a not in b,
}


_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "Add": operator.add,
    "Sub": operator.sub,
    "Mult": operator.mul,
}


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, (*_PLAIN, str, language.dtype, JITCallable))


def _unwrapped(value: object) -> Any:
    return value.value if isinstance(value, language.constexpr) else value


def _equality(compare: Callable[[Any, Any], Any], first: Any, second: Any) -> Any:
    """Compare for equality; a list is a tuple in kernels, and equal to one with the same items."""
    sequences = (list, tuple, language.tuple)
    if isinstance(first, sequences) and isinstance(second, sequences):
        first, second = _as_tuple(first), _as_tuple(second)
    return compare(first, second)


def _as_tuple(value: Any) -> Any:
    if isinstance(value, language.tuple):
        value = value.values
    if isinstance(value, list | tuple):
        return tuple([_as_tuple(item) for item in value])
    return value


def assigned(value: Any) -> Any:
    """Return the value that a variable has after an assignment: numbers become tensors, in tuples too.

    What kernels do not know, such as lists and arrays, stays Python's.
    """
    plain = _unwrapped(value)
    if isinstance(plain, _PLAIN):
        try:
            return to_tensor(plain)
        except ValueError:  # an integer of more than 64 bits is Python's
            return plain
    if isinstance(plain, language.tuple):
        return language.tuple([assigned(v) for v in plain.values], plain._type)
    if isinstance(plain, tuple):
        items = [assigned(v) for v in plain]
        make = getattr(type(plain), "_make", tuple)
        return make(items)
    return value


def _range(*arguments: object, **keywords: object) -> Counter:
    check_plain_range(arguments, keywords)
    parts = [0, *arguments] if len(arguments) == 1 else list(arguments)
    return Counter([*parts, 1][:3])


def _tl_range(*arguments: Any, **keywords: Any) -> Counter:
    found = language.range(*arguments, **keywords)
    return Counter([found.start, found.end, found.step])


def _static_range(*arguments: Any, **keywords: Any) -> range:
    # Known numbers, such as a shape's, are plain here; tensors are refused by the language.
    found = language.static_range(*arguments, **keywords)
    return range(*[_unwrapped(v) for v in (found.start, found.end, found.step)])


def _extreme(name: str) -> Callable[..., Any]:
    plain, fold = getattr(builtins, name), getattr(language.core, f"builtin_{name}")

    def apply(*values: Any, propagate_nan: Any = None, **keywords: Any) -> Any:
        given = (
            list(values[0]) if len(values) == 1 and not isinstance(values[0], tensor) else values
        )
        if keywords or not any(isinstance(v, tensor) for v in given):
            return plain(*values, **keywords)
        more = {} if propagate_nan is None else {"propagate_nan": propagate_nan}
        return fold(*given, **more)

    apply.__name__ = name
    return apply


def _length(value: Any) -> int:
    if isinstance(value, tensor):
        if not value.extents:
            raise TypeError("len() needs a tuple or a tensor with a shape, but got a scalar")
        return value.extents[0]
    return len(value)


def _absolute(value: Any) -> Any:
    return language.abs(value) if isinstance(value, tensor) else abs(value)


def _isinstance(value: object, kinds: Any) -> bool:
    given = [_unwrapped(k) for k in kinds] if isinstance(kinds, tuple | language.tuple) else [kinds]
    real = tuple(given)
    if isinstance(value, real) or isinstance(_unwrapped(value), real):
        return True
    # Known values are plain here.
    return language.constexpr in given and not isinstance(value, language.core.base_value)


def _condition(value: object, **_: object) -> object:
    return value


def _static_assert(cond: object, msg: object = "") -> None:
    # A variable is a tensor here even where the compiler knows its value.
    if isinstance(cond, tensor):
        cond = bool(cond)
    language.static_assert(cond, msg)  # type: ignore[arg-type]  # any text


_STAND_INS: dict[Any, Callable[..., Any]] = {
    range: _range,
    language.range: _tl_range,
    language.static_range: _static_range,
    language.condition: _condition,
    language.static_assert: _static_assert,
    max: _extreme("max"),
    min: _extreme("min"),
    len: _length,
    abs: _absolute,
    isinstance: _isinstance,
    breakpoint: debugging.stop,
    pdb.set_trace: debugging.stop,
}
"""Functions of Python and of the language that kernels have in another form."""


def _source_of(function: JITCallable) -> str | None:
    """Return the source of a function; None of one that ``exec`` made, which Python runs as it is."""
    try:
        return function.src
    except ValueError:
        return None


class Callees:
    """Functions that rewritten kernels call, as the variable ``_emu``."""

    def __init__(self) -> None:
        self._held: list[Any] = []
        self._operands: list[dict[str, object]] = []  # of the conditions that are evaluated
        self._failure: Failure | None = None  # of the last assert statement

    assigned = staticmethod(assigned)

    def __repr__(self) -> str:
        return "<the interpreter's own>"

    def reset(self) -> None:
        """Forget the operands of conditions that an error interrupted."""
        self._held.clear()
        self._operands.clear()

    def python(self, function: JITCallable) -> Callable[..., Any]:
        """Return a jit function as one that Python executes."""
        # Kept on the function itself: a debugger that steps sees no lookup of ours in Python.
        found: tuple[str | None, Callable[..., Any]] | None = function.__dict__.get(_KEPT)
        if found is None or found[0] != _source_of(function):
            with debugging.untraced():  # reading a file calls what a debugger does not know to skip
                source = _source_of(function)
                made = function.fn if source is None else as_python(function, self)
            found = function.__dict__[_KEPT] = source, made
        return found[1]

    def callee(self, function: Any) -> Any:
        """Return what is called for a function of a kernel."""
        function = _unwrapped(function)
        if isinstance(function, JITCallable):
            return function if isinstance(function, ConstexprFunction) else self.python(function)
        try:
            return _STAND_INS.get(function, function)
        except TypeError:  # not hashable
            return function

    def method(self, instance: Any, name: str) -> Any:
        """Return what is called for an attribute: of an aggregate, a jit function is bound to the instance."""
        found = member_of(instance, name)
        if isinstance(found, BoundMethod):
            return functools.partial(self.callee(found.__func__), found.__self__)
        return self.callee(found)

    @staticmethod
    def value_of(value: Any) -> Any:
        """Return ``value.value``; a plain value, as a constexpr is here, is its own."""
        return value if _is_plain(value) else value.value

    @staticmethod
    def type_of(value: Any) -> Any:
        """Return ``value.type``; that of a plain value, as a constexpr is here, holds the value."""
        if _is_plain(value) or type(value) is tuple:
            return language.constexpr_type(value)
        return value.type

    def asserting(self) -> None:
        """Keep the values of the operands of the condition that follows, for its error."""
        self._operands.append({})

    def shows(self, name: str, value: Any) -> Any:
        """Keep and return the value of an operand of an asserted condition."""
        self._operands[-1][name] = value
        return value

    def asserted(self, _: None, condition: Any) -> Any:
        """Return a condition whose operands were kept."""
        current().operands = self._operands.pop()
        return condition

    def every(self, condition: Any) -> Any:
        """Return whether an asserted condition holds, for every element; true where assertions have no effect."""
        if not current().debug:
            return True
        self._failure = None
        known = to_tensor(condition) if isinstance(condition, _PLAIN) else condition
        if not isinstance(known, tensor):
            return condition
        values = shown_operands(current().operands, known)
        arrays = [value.array for value in values.values()]  # type: ignore[attr-defined]  # known values
        holds = known.handle.array.astype(bool)  # type: ignore[attr-defined]  # a known value
        self._failure = find_failure(holds, list(values), arrays)
        return self._failure is None

    def reason(self, message: object = "") -> str:
        """Return the message of an assertion, with how it failed."""
        return with_details(str(_unwrapped(message)), self._failure)

    @staticmethod
    def goes_round(place: str, condition: Any) -> bool:
        """Return whether a ``while`` loop goes on; let others know, and stop it, where it waits."""
        goes_on = bool(condition)
        spins = current().builder.spins  # type: ignore[attr-defined]  # of an evaluator
        if spins is not None:
            handle = getattr(condition, "handle", None)
            spins.goes_round(place, getattr(handle, "reads", ()), goes_on)
        return goes_on

    @staticmethod
    def is_(first: object, second: object) -> bool:
        """Return whether two values are one."""
        return _unwrapped(first) is _unwrapped(second)

    @staticmethod
    def equality(kind: str, first: object, second: object) -> Any:
        """Return whether two values are equal, or with ``"NotEq"`` whether they are not."""
        return _COMPARISONS[kind](first, second)

    @staticmethod
    def arithmetic(kind: str, first: Any, second: Any) -> Any:
        """Return a sum, difference or product; of integers one that fits, where that is checked."""
        apply = _ARITHMETIC[kind]
        result = apply(first, second)
        if isinstance(result, tensor) and current().sanitize_overflow:
            overflow.check(apply, _unwrapped(first), _unwrapped(second))
        return result

    @staticmethod
    def not_(value: Any) -> Any:
        """Return ``not`` of a condition."""
        return value.__not__() if isinstance(value, tensor) else not value

    def goes_on(self, value: Any, decides: bool) -> bool:
        """Hold the first operand of ``and`` or ``or``; return whether the second is to be evaluated."""
        self._held.append(value)
        return isinstance(value, tensor) or bool(value) is not decides

    def held(self) -> Any:
        """Return the operand that was held."""
        return self._held.pop()

    def joined(self, second: Any, decides: bool) -> Any:
        """Return ``and`` or ``or`` of the operand that was held and another."""
        first = self._held.pop()
        if not isinstance(first, tensor):
            return second
        if not isinstance(second, tensor):
            return second if bool(second) is decides else first
        return first.logical_or(second) if decides else first.logical_and(second)

    def chain(self, kinds: Sequence[str], *operands: Any) -> Any:
        """Return the comparisons of neighbours, joined by ``and``."""
        result: Any = True
        for kind, left, right in zip(kinds, operands, operands[1:], strict=False):
            value = _COMPARISONS[kind](left, right)
            if not self.goes_on(result, False):
                return self.held()
            result = self.joined(value, False)
        return result


CALLEES = Callees()
"""The one instance: rewritten functions are kept for all launches."""
