"""Functions under ``@triton.jit``: their source, their parameters, and what else they depend on."""

from __future__ import annotations

import ast
import functools
import hashlib
import inspect
import linecache
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import FunctionType, ModuleType
from typing import Any, TypeVar

from emu.triton.formats import FORMATS

F = TypeVar("F", bound=Callable[..., object])

_DEF = re.compile(r"^[ \t]*def\s+\w+\s*[\[(]")
_EMPTY = inspect.Parameter.empty
# Python 3.11 counts the depth of the trees of all threads together, and raises SystemError where two overlap.
_one_parser = threading.Lock()
_PLAIN = (bool, int, float, str, bytes, type(None))
_PURE_MODULES = (
    "builtins",
    "copy",
    "emu.triton",
    "math",
)  # what their functions return depends on their arguments alone

# Spellings of dtypes by the other names that annotations have for them.
_CANONICAL = {
    **{f.language_name: f.spelling for f in FORMATS},
    "float8_e4m3fn": "fp8e4nv",
    "float8_e5m2": "fp8e5",
    "float8_e4m3fnuz": "fp8e4b8",
    "float8_e5m2fnuz": "fp8e5b16",
    "half": "fp16",
    "float": "fp32",
    "double": "fp64",
    "bool": "i1",
    "uint1": "u1",
}


def canonical_type(annotation: Any) -> str:
    """Return the short spelling of a type annotation: ``*fp32``, ``i64``, ``constexpr``.

    Args:
        annotation: A string, a dtype or pointer type of ``triton.language``, or a class.
    """
    if isinstance(annotation, str):
        text = annotation.strip()
        if text.startswith("const "):
            return "*k" + canonical_type(text.removeprefix("const ")).removeprefix("*")
        if text.endswith("*"):
            return "*" + canonical_type(text[:-1])
        if text.startswith("*"):
            return "*" + canonical_type(text[1:])
        text = text.rpartition(".")[2]
    elif hasattr(annotation, "element_ty") and annotation.is_ptr():
        return "*" + canonical_type(annotation.element_ty)
    elif isinstance(annotation, type):
        text = annotation.__name__
    else:
        text = str(getattr(annotation, "name", annotation))
    return _CANONICAL.get(text.removesuffix("_t"), text.removesuffix("_t"))


class KernelParam:
    """One parameter of a jit function.

    Attributes:
        num: Its position.
        name: Its name.
        default: Its default; ``inspect.Parameter.empty`` if it has none.
        do_not_specialize: Whether its value never becomes part of the kernel.
        do_not_specialize_on_alignment: Kept: divisibility by 16 never makes another kernel here.
        annotation: Canonical spelling of its annotation, ``""`` without one.
        is_constexpr: Whether the annotation is ``constexpr``.
        is_const: Whether the annotation is of a pointer to what is only read.
    """

    __slots__ = (
        "annotation",
        "default",
        "do_not_specialize",
        "do_not_specialize_on_alignment",
        "is_const",
        "is_constexpr",
        "name",
        "num",
        "parameter",
    )

    def __init__(
        self,
        num: int,
        parameter: inspect.Parameter,
        do_not_specialize: bool = False,
        do_not_specialize_on_alignment: bool = False,
    ) -> None:
        self.num = num
        self.parameter = parameter
        self.name = parameter.name
        self.default = parameter.default
        self.do_not_specialize = do_not_specialize
        self.do_not_specialize_on_alignment = do_not_specialize_on_alignment
        found = parameter.annotation
        self.annotation = "" if found is _EMPTY else canonical_type(found)
        self.is_constexpr = "constexpr" in self.annotation
        self.is_const = self.annotation.startswith("*k")

    @property
    def has_default(self) -> bool:
        """Whether the parameter has a default."""
        return self.default is not _EMPTY

    @property
    def annotation_type(self) -> str:
        """The dtype that the annotation names (of a pointer: the elements'), ``""`` if it names none."""
        name = self.annotation.removeprefix("*k").removeprefix("*")
        return name if name in _CANONICAL.values() else ""

    def __repr__(self) -> str:
        return f"KernelParam({self.num}, {self.name!r})"


class _CallSignature:
    """What :func:`inspect.signature` says of a function: as in Triton, that of ``__call__``.

    It must be said: ``inspect`` takes an object with ``__get__`` for a built-in function, which has none.
    """

    def __get__(self, instance: object, owner: type) -> inspect.Signature:
        if instance is None or not callable(instance):
            raise AttributeError("__signature__")
        return inspect.signature(instance.__call__)


class JITCallable:
    """A Python function whose source is compiled, not run.

    Attributes:
        fn: The function.
        signature: Its signature.
        params: Its parameters.
        arg_names: Their names.
        file_name: The file that it is written in.
        used_global_vals: After the first look at :attr:`cache_key`: by name and identity of the
            namespace, the value of each global that the function, or one that it calls, depends on,
            and that namespace.
        asks_num_warps: Likewise, whether it, or a function that it calls, names one that returns the launch's
            ``num_warps``: only then is that number part of the kernel.
    """

    def __init__(
        self,
        fn: Callable[..., object],
        *,
        do_not_specialize: Sequence[int | str] = (),
        do_not_specialize_on_alignment: Sequence[int | str] = (),
        noinline: bool = False,
        needs_source: bool = True,
    ) -> None:
        """Take a function.

        Args:
            fn: Written with ``def`` in a file (or a notebook's cell).
            do_not_specialize: Names or positions of parameters.
            do_not_specialize_on_alignment: Names or positions of parameters.
            noinline: Kept; a call means the same either way.
            needs_source: Whether it must be written in a file; what Python runs itself need not.

        Raises:
            ValueError: The source of the function cannot be read.
        """
        code = fn.__code__
        # Libraries that write kernels answer for their names by a getlines of their own.
        is_unwritten = code.co_filename.startswith("<") and not linecache.getlines(code.co_filename)
        if is_unwritten and needs_source:
            raise ValueError("@jit functions should be defined in a Python file")
        self.fn = fn
        self.noinline = noinline
        self.file_name = code.co_filename
        self.signature = inspect.signature(fn)
        self.arg_names = list(self.signature.parameters)
        self.params = [
            KernelParam(
                n,
                p,
                n in do_not_specialize or p.name in do_not_specialize,
                n in do_not_specialize_on_alignment or p.name in do_not_specialize_on_alignment,
            )
            for n, p in enumerate(self.signature.parameters.values())
        ]
        self.used_global_vals: dict[tuple[str, int], tuple[object, Mapping[str, object]]] = {}
        self.asks_num_warps = False
        self._src: str | None = None
        self._tree: ast.Module | None = None
        self._key: str | None = None
        self.__doc__ = fn.__doc__
        self.__name__ = fn.__name__
        self.__qualname__ = fn.__qualname__
        self.__globals__ = fn.__globals__
        self.__module__ = fn.__module__

    # ---- source

    __signature__ = _CallSignature()

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        """Return the function, as an attribute of an aggregate's instance bound to that."""
        if getattr(instance, "__triton_aggregate__", False):
            return BoundMethod(self, instance)
        return self

    @functools.cached_property
    def _lines(self) -> tuple[list[str], int]:
        try:
            return inspect.getsourcelines(self.fn)
        except (OSError, TypeError) as error:
            raise ValueError("@jit functions should be defined in a Python file") from error

    @functools.cached_property  # not a property: libraries that write kernels set it
    def raw_src(self) -> list[str]:
        """Lines of the source with the decorators, as they stand in the file."""
        return self._lines[0]

    @functools.cached_property
    def starting_line_number(self) -> int:
        """Line number in the file of the first line, a decorator's if there is one."""
        return self._lines[1]

    @functools.cached_property
    def _definition(self) -> tuple[int, int]:
        for number, line in enumerate(self.raw_src):
            if _DEF.match(line):
                return number, len(line) - len(line.lstrip())
        raise ValueError(f"{self.__name__} must be a function written with def")

    @functools.cached_property
    def def_file_line_number(self) -> int:
        """Line number in the file of the line with ``def``."""
        return self.starting_line_number + self._definition[0]

    @functools.cached_property
    def def_file_col_number(self) -> int:
        """Number of blanks before ``def``."""
        return self._definition[1]

    @property
    def src(self) -> str:
        """The source from ``def`` on, without its indentation."""
        if self._src is None:
            first, indent = self._definition
            blank = self.raw_src[first][:indent]
            self._src = "".join(line.removeprefix(blank) for line in self.raw_src[first:])
        return self._src

    @src.setter
    def src(self, _: str) -> None:
        raise AttributeError(
            "src cannot be set; _unsafe_update_src() can, but then clear the hash of all callers"
        )

    def _unsafe_update_src(self, new_src: str) -> None:
        """Replace the source; the keys of functions that call this one do not change with it."""
        self._src = new_src
        self._tree = None
        self._key = None

    def parse(self) -> ast.Module:
        """Return the syntax tree of :attr:`src`; line 1 is that with ``def``."""
        if self._tree is None:
            with _one_parser:
                tree = ast.parse(self.src)
            if len(tree.body) != 1 or not isinstance(tree.body[0], ast.FunctionDef):
                raise ValueError(f"{self.__name__} must be one function written with def")
            self._tree = tree
        return self._tree

    # ---- surroundings

    @property
    def nonlocals(self) -> dict[str, object]:
        """Values of the variables of enclosing functions that it uses."""
        if self.fn.__closure__ is None:
            return {}
        found = {}
        for name, cell in zip(self.fn.__code__.co_freevars, self.fn.__closure__, strict=True):
            try:
                found[name] = cell.cell_contents
            except ValueError:  # not assigned yet: the function itself, while it is decorated
                continue
        return found

    def get_capture_scope(self) -> dict[str, object]:
        """Return the values of names outside the function."""
        nonlocals = self.nonlocals
        return self.__globals__ | nonlocals if nonlocals else self.__globals__

    @property
    def cache_key(self) -> str:
        """Digest of its source, of all jit functions it can call, and of the globals they use."""
        if self._key is None:
            self._key = f"recursion:{self.__module__}.{self.__qualname__}"
            try:
                self._key = self._digest()
            except BaseException:
                self._key = None
                raise
        return self._key

    @property
    def hash(self) -> str | None:
        """:attr:`cache_key` if it has been computed; setting ``None`` forgets it."""
        return self._key

    @hash.setter
    def hash(self, value: str | None) -> None:
        self._key = value

    def _digest(self) -> str:
        self.used_global_vals = {}
        self.asks_num_warps = False
        digest = hashlib.sha256(self.src.encode())
        digest.update(f"{self.file_name}:{self.def_file_line_number}".encode())
        nonlocals = _Cells(self)
        for name, chain in sorted(set(references(self.parse()))):
            space: Mapping[str, object] = nonlocals if name in nonlocals else self.__globals__
            if name not in space:
                continue
            value = _follow(space[name], chain)
            if isinstance(value, JITCallable):
                digest.update(f"{name}{chain}{value.cache_key}{value.noinline}".encode())
                self._depend_on(value)
            elif isinstance(value, type) and hasattr(value, "__triton_aggregate__"):
                for member in _members(value):
                    if isinstance(member, JITCallable):
                        digest.update(f"{name}{chain}.{member.cache_key}".encode())
                        self._depend_on(member)
                    else:
                        digest.update(f"{name}{chain}.{member}".encode())
            elif (text := _text(value)) is not None:
                digest.update(f"{name}{chain}={text}".encode())
                if not chain and value is not None:
                    self.used_global_vals[name, id(space)] = (value, space)
            else:
                self.asks_num_warps |= _is_marked(value)
                self._check_reference(".".join((name, *chain)), value)
        return digest.hexdigest()

    def _check_reference(self, name: str, value: object) -> None:
        """Check what is part of no key. A kernel may use it; whether it can, the compiler says."""

    def _depend_on(self, called: JITCallable) -> None:
        """Add what became part of a function that this one calls: globals, and whether it asks for ``num_warps``.

        Raises:
            RuntimeError: One of them has another value here.
        """
        self.asks_num_warps |= called.asks_num_warps
        for key, (value, space) in called.used_global_vals.items():
            found = space.get(key[0])
            if plain_value(found) != plain_value(value):
                raise RuntimeError(
                    f"Global variable {key[0]} has value {found!r}, but {called.__name__}, which {self.__name__} "
                    f"calls, was compiled with {value!r}"
                )
            self.used_global_vals[key] = value, space

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.__module__}:{self.__qualname__})"


class _Cells(Mapping[str, object]):
    """Present values of the variables of enclosing functions that a function uses."""

    def __init__(self, function: JITCallable) -> None:
        closure = function.fn.__closure__ or ()
        self._cells = dict(zip(function.fn.__code__.co_freevars, closure, strict=True))

    def __getitem__(self, name: str) -> object:
        try:
            return self._cells[name].cell_contents
        except ValueError:  # not assigned yet: the function itself, while it is decorated
            raise KeyError(name) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._cells)

    def __len__(self) -> int:
        return len(self._cells)


class ConstexprFunction(JITCallable):
    """A Python function that runs while a kernel is compiled."""

    def _check_reference(self, name: str, value: object) -> None:
        """Check that a kernel kept on disk cannot hold what another function returned when it was compiled.

        Raises:
            RuntimeError: The value is a function whose source is part of no key.
        """
        if not callable(value) or isinstance(value, type) or plain_value(value) is not value:
            return
        home = str(getattr(value, "__module__", ""))
        if home.startswith(_PURE_MODULES) or self.fn.__module__.startswith("emu."):
            return
        raise RuntimeError(
            f"Unsupported function referenced: {name}, by the constexpr function {self.__qualname__}: kernels that are kept "
            f"on disk would not notice that it returns something else; decorate it with @triton.constexpr_function, or pass what "
            f"it returns to the kernel"
        )

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        return self if instance is None else BoundMethod(self, instance)

    def __call__(self, *args: object, **kwargs: object) -> Any:
        """Call the function with the values of constexprs in their place."""
        plain = {name: plain_value(value) for name, value in kwargs.items()}
        return self.fn(*map(plain_value, args), **plain)


def constexpr_function(fn: Callable[..., object]) -> ConstexprFunction:
    """Make a function callable in kernels; it runs at compile time, on plain Python values.

    Raises:
        TypeError: ``fn`` is not a function written with ``def``.
    """
    if not hasattr(fn, "__code__"):
        raise TypeError(f"fn must be a function written with def, but got {type(fn).__name__}")
    return ConstexprFunction(fn)


def must_use_result(fn: Any, hint: str | bool = True) -> Any:
    """Make ignoring the result of a function an error in kernels.

    Args:
        fn: The function, under its other decorators; or a text, to get a decorator.
        hint: Text that the error adds.
    """
    if isinstance(fn, str):
        return functools.partial(must_use_result, hint=fn)
    try:
        fn._must_use_result = hint
    except (AttributeError, TypeError):
        raise TypeError(f"fn must be a function, or a text, but got {type(fn).__name__}") from None
    return fn


def asking_num_warps(function: F) -> F:
    """Mark a function of the language that returns the launch's ``num_warps``: see :class:`JITCallable`."""
    vars(function)["asks_num_warps"] = True
    return function


def _is_marked(value: object) -> bool:
    return isinstance(value, FunctionType) and "asks_num_warps" in vars(value)


class BoundMethod:
    """A jit function or constexpr function as a method of an instance, which is its first argument."""

    def __init__(self, function: JITCallable, instance: object) -> None:
        self.__func__ = function
        self.__self__ = instance
        self.__name__ = function.__name__
        self._must_use_result = getattr(function, "_must_use_result", False)

    def __call__(self, *args: object, **kwargs: object) -> Any:
        """Call a constexpr function with the instance."""
        called: Any = self.__func__
        return called(self.__self__, *args, **kwargs)


def plain_value(value: Any) -> Any:
    """Return the value of a constexpr, inside tuples too; anything else as it is."""
    if type(value).__name__ == "constexpr":
        return plain_value(value.value)
    if type(value) in (list, tuple):
        return type(value)(map(plain_value, value))
    return value


def _follow(value: object, chain: tuple[str, ...]) -> Any:
    """Return the attribute that a chain of names leads to, through modules and classes only."""
    for attribute in chain:
        if not isinstance(value, ModuleType | type):
            break
        value = getattr(value, attribute, None)
    return value


def _members(cls: Any) -> Iterator[JITCallable | str]:
    """Yield what the meaning of an aggregate depends on: its methods, and its fields as text."""
    for name, kind in cls.__aggregate_fields__.items():
        default = _text(cls.__aggregate_defaults__.get(name))
        yield f"{name}: {getattr(kind, '__qualname__', kind)} = {default}"
        if isinstance(kind, type) and hasattr(kind, "__aggregate_fields__"):
            yield from _members(kind)
    for owner in cls.__mro__:
        if "__aggregate_fields__" not in vars(owner) or owner.__module__.startswith("emu.triton."):
            continue
        for name, member in sorted(vars(owner).items()):
            plain = getattr(member, "__func__", member)  # of a static method, too
            if isinstance(plain, JITCallable):
                yield plain
            elif isinstance(plain, FunctionType):
                try:
                    yield ConstexprFunction(plain)
                except (ValueError, OSError):
                    yield name


def _text(value: object) -> str | None:
    """Return the spelling of a value that can become part of a kernel; None for others."""
    value = plain_value(value)
    if isinstance(value, tuple):
        parts = [_text(v) for v in value]
        return None if None in parts else f"({', '.join(map(str, parts))})"
    if isinstance(value, JITCallable):
        return value.cache_key
    if isinstance(value, _PLAIN) or hasattr(value, "primitive_bitwidth"):
        return f"{type(value).__name__}:{value}"
    return None


def references(tree: ast.AST) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the global names that a function uses, each with the attributes that it reads of them.

    Args:
        tree: A module that holds the function alone.
    """
    defaults = {
        id(node)
        for function in getattr(tree, "body", ())
        if isinstance(function, ast.FunctionDef)
        for default in (*function.args.defaults, *filter(None, function.args.kw_defaults))
        for node in ast.walk(default)
    }  # Python has worked them out; they may be of names that change
    stored = {n.arg for n in ast.walk(tree) if isinstance(n, ast.arg)}
    for node in _in_order(tree):
        if id(node) in defaults:
            continue
        name, chain = _chain(node)
        if name is None:
            continue
        if isinstance(name.ctx, ast.Store):
            stored.add(name.id)
        elif name.id not in stored:
            yield name.id, chain


def _chain(node: ast.AST) -> tuple[ast.Name | None, tuple[str, ...]]:
    """Return the name that a node is or reads attributes of, with these; None for other nodes."""
    chain: list[str] = []
    while isinstance(node, ast.Attribute):
        chain.append(node.attr)
        node = node.value
    return (node, tuple(reversed(chain))) if isinstance(node, ast.Name) else (None, ())


def _in_order(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a tree in the order in which Python evaluates them; of ``a.b.c`` the whole alone."""
    if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
        yield ast.Name(node.target.id, ast.Load())
    yield node
    if isinstance(node, ast.Attribute) and _chain(node)[0] is not None:
        return
    children = list(ast.iter_child_nodes(node))
    if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.NamedExpr | ast.For):
        # The value comes before the targets.
        value = node.iter if isinstance(node, ast.For) else node.value
        children.sort(key=lambda child: child is not value)
    elif isinstance(node, ast.comprehension):
        children.sort(key=lambda child: child is not node.iter)
    elif isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp):
        children.sort(key=lambda child: not isinstance(child, ast.comprehension))
    for child in children:
        yield from _in_order(child)
