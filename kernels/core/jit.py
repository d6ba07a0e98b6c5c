"""``jit``: Numba's ``njit`` with a disk cache that never returns stale code.

Numba's own cache has two traps. It stamps an entry with the contents of the function's *own* file,
so that an edit of a helper in another module keeps returning the old machine code. And it numbers
its data files through an index which two processes that compile at once can overwrite, so that one
signature can load the code of another.

The cache here lies outside the source tree, in a folder named by a digest of every source file that
the function can call, and keeps one file per (function, signature, CPU) whose name is a hash of that
key: two processes that compile the same thing write the same file, each by an atomic rename. What a
function can call follows from the layers: kernels know kernels only, ``comm`` knows both, any other
room may know the whole package, and so may a function of a user's, for which its own file counts too. An
edit there starts a new folder; folders not used for 30 days are removed. A function is compiled by one process at a time: PEs that all meet an unknown kernel wait for
the first of them and load its code.

Set ``EMU_CACHE_DIR`` to move the cache; ``cache_folder`` says which folders are trusted.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import pickle
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias, TypeVar, cast, get_args, get_origin, get_type_hints

import numba
from numba import extending, types
from numba.core import caching, errors, sigutils
from numba.core import dispatcher as dispatching
from numba.core.compiler_lock import global_compiler_lock
from numba.core.typing.templates import make_concrete_template

from emu.kernels.core import cache_files, cache_folder, linking, system
from emu.kernels.core.annotations import (
    CArray,
    Dispatcher,
    EntryPoint,
    Intrinsic,
    IrBuilder,
    IrValue,
    IrValues,
    NumbaType,
    Signature,
    TargetContext,
    Typed,
    TypingContext,
)
from emu.kernels.core.late_blas import look_for_blas_later

F = TypeVar("F", bound=Callable[..., object])
Types: TypeAlias = tuple[NumbaType, ...]  # of the arguments of a kernel

# Numba exports it without saying so to type checkers.
carray: Callable[..., CArray] = getattr(numba, "carray")  # noqa: B009 - mypy does not see the attribute


def intrinsic(typed: Callable[..., Typed]) -> Intrinsic:
    """``numba.extending.intrinsic`` with the type of what a kernel calls: that takes no typing context."""
    found: Intrinsic = extending.intrinsic(typed)
    return found


def fixed_intrinsic(
    result: NumbaType, *arguments: NumbaType
) -> Callable[[Callable[..., IrValue | None]], Intrinsic]:
    """Make an intrinsic whose types do not depend on the call.

    Args:
        result: Type of the result.
        *arguments: Types of the arguments.

    Returns:
        A decorator of ``emit(builder, *values)``, which emits the instructions and returns the result; where
        that is ``void``, what it returns is dropped.
    """
    signature = result(*arguments)

    def decorate(emit: Callable[..., IrValue | None]) -> Intrinsic:
        def codegen(
            context: TargetContext, builder: IrBuilder, _: Signature, args: IrValues
        ) -> IrValue:
            value = emit(builder, *args)
            return context.get_dummy_value() if result == types.void else value

        # Numba matches calls with the parameters behind the first: those of `emit`, behind its builder.
        @functools.wraps(emit)
        def typed(typingctx: TypingContext, *args: NumbaType) -> Typed:
            return signature, codegen

        return intrinsic(typed)

    return decorate


_ROOMS = {"emu.kernels": ("kernels",), "emu.comm": ("kernels", "comm")}
"""Rooms whose sources the compiled code of a room depends on; of any other module: the whole package."""


def source_digest(root: Path, rooms: tuple[str, ...] = ("",)) -> str:
    """Hash every Python source of ``rooms``, following the package's own symlinks.

    Args:
        root: The package folder.
        rooms: Folders in it. Default: all of it.

    Returns:
        32 hexadecimal digits which change when any of the sources, the version of Numba, or what may be used of
        the system changes.
    """
    versions = numba.__version__ if system.LINUX else f"{numba.__version__} portable"
    return cache_files.source_digest(root, rooms, versions)


@functools.cache
def _digest_of(room: str) -> str:
    # This file is <package>/kernels/core/jit.py under the name by which it was imported.
    return source_digest(Path(__file__).parents[2], _ROOMS.get(room, ("",)))


def cache_dir(room: str = "emu") -> Path:
    """Return the folder of the compiled code of ``room``'s kernels; it may not exist yet.

    Args:
        room: The first two parts of a module's name.
    """
    return cache_folder.base() / _digest_of(room)


def _room(module: str) -> str:
    return ".".join(module.split(".", 2)[:2])


_PACKAGE = __name__.partition(".")[0]


def _stamp(function: Callable[..., object], file: str) -> str:
    """Return the digest of all sources that a function's code depends on.

    A function from outside of the package may call anything in it. Besides the package its own file counts;
    other files of the user's are not followed.
    """
    digest = _digest_of(_room(function.__module__))
    if function.__module__.partition(".")[0] == _PACKAGE:
        return digest
    own = Path(file).read_bytes()
    return hashlib.sha256(digest.encode() + own).hexdigest()[: len(digest)]


class _Locator(caching._CacheLocator):
    """Names the folder for a function; the digest in that name is the stamp."""

    def __init__(self, py_func: Callable[..., object], py_file: str) -> None:
        self._py_file = py_file
        self._module = py_func.__module__
        self._lineno = py_func.__code__.co_firstlineno
        self._digest = _stamp(py_func, py_file)

    def get_cache_path(self) -> str:
        return str(cache_folder.base() / self._digest)

    def ensure_cache_path(self) -> None:
        """Nothing yet: it is made when something is stored."""

    def get_source_stamp(self) -> str:
        return self._digest

    def get_disambiguator(self) -> str:
        return f"{self._module}-{self._lineno}"

    @classmethod
    def from_function(cls, py_func: Callable[..., object], py_file: str) -> _Locator:
        return cls(py_func, py_file)


class _Impl(caching.CompileResultCacheImpl):
    _locator_classes = [_Locator]  # noqa: RUF012 - the form that the base class has


class _KeyedFiles(caching.IndexDataCacheFile):
    """One file per key, named by the key's hash: no index, so nothing to race on."""

    def _name(self, key: object) -> str:
        hashed = hashlib.sha256(repr(key).encode()).hexdigest()[:24]
        return f"{self._index_name.removesuffix('.nbi')}.{hashed}.nbc"

    def save(self, key: object, data: object) -> None:
        payload = self._dump((repr(key), data))
        path = cache_files.store_checked(self._source_stamp, self._name(key), payload)
        if path is not None:
            cache_files.keep_tidy(path.parent)

    def load(self, key: object) -> object | None:
        path = cache_files.find(self._source_stamp, self._name(key))
        payload = cache_files.read_checked(path)
        if payload is None:
            return None  # compile
        stored, data = pickle.loads(payload)
        return data if stored == repr(key) else None

    def has(self, key: object) -> bool:
        """Return whether there is an entry."""
        return cache_files.find(self._source_stamp, self._name(key)) is not None


class _DigestCache(caching.FunctionCache):
    _impl_class = _Impl

    def __init__(self, py_func: Callable[..., object]) -> None:
        super().__init__(py_func)
        files = self._cache_file
        base = files._index_name.removesuffix(".nbi")
        self.digest = files._source_stamp
        self._files = _KeyedFiles(self._cache_path, base, self.digest)
        self._cache_file = self._files

    def is_stored(self, signature: Types, context: TargetContext) -> bool:
        """Return whether there is an entry for the signature."""
        return self._files.has(self._index_key(signature, context.codegen()))


_being_compiled: set[str] = set()  # by this process


@contextlib.contextmanager
def _alone(name: str, digest: str) -> Iterator[None]:
    """Keep other processes from compiling the function of this name; a lost lock costs time only."""
    if name in _being_compiled:
        yield
        return
    lock = f"lock-{hashlib.sha256(name.encode()).hexdigest()[:24]}"
    with cache_files.alone(digest, lock, name):
        _being_compiled.add(name)
        try:
            yield
        finally:
            _being_compiled.discard(name)


class NotStoredError(Exception):
    """Inside :func:`only_stored`, the code of a kernel that was called is not in the cache."""


_only_stored = False  # for the process: it is set before there are threads


@contextlib.contextmanager
def only_stored() -> Iterator[None]:
    """Load compiled code, but compile none: what is not in the cache raises NotStoredError."""
    global _only_stored
    _only_stored = True
    try:
        yield
    finally:
        _only_stored = False


_FunctionCompiler: Any = getattr(dispatching, "_FunctionCompiler")  # noqa: B009 - mypy does not see the attribute


class _CalleeCompiler(_FunctionCompiler):  # type: ignore[misc]  # see above
    """Compiles a function for other kernels only: without the wrappers through which Python and C call it."""

    def _customize_flags(self, flags: Any) -> Any:
        flags.no_cpython_wrapper = flags.no_cfunc_wrapper = True
        return flags


class _Compilation:
    """Compilation of one kernel, with an entry for Python or only as a part of the kernels that call it.

    Args:
        dispatcher: The kernel.
        optimize_first: See :attr:`emu.kernels.core.linking.Library.optimize_first`.
    """

    def __init__(self, dispatcher: Any, optimize_first: bool) -> None:
        self._dispatcher = dispatcher
        self._optimize_first = optimize_first
        self._name = f"{dispatcher.py_func.__module__}.{dispatcher.py_func.__qualname__}"
        self._compile_here, self._cache = dispatcher.compile, dispatcher._cache
        self._compiler = _CalleeCompiler(
            dispatcher.py_func,
            dispatcher.targetdescr,
            dispatcher.targetoptions,
            dispatcher.locals,
            dispatcher._compiler.pipeline_class,
        )
        self._callees: set[tuple[Any, ...]] = set()  # overloads without an entry

    def compile(self, signature: Any) -> Any:
        """Compile with an entry for Python, alone among processes; in place of ``Dispatcher.compile``."""
        dispatcher, cache = self._dispatcher, self._cache
        context = dispatcher.targetctx
        look_for_blas_later()
        with global_compiler_lock:  # first: the thread that has it may need the same function
            arguments, _ = sigutils.normalize_signature(signature)
            if arguments in self._callees:
                self._callees.discard(arguments)
                del dispatcher.overloads[arguments]
            if arguments in dispatcher.overloads or cache.is_stored(signature, context):
                return self._compile_here(signature)
            if _only_stored:
                raise NotStoredError(self._name)
            with _alone(self._name, cache.digest), linking.as_whole(context.codegen()):
                return self._compile_here(signature)

    def call_template(self, args: Any, kws: Any) -> tuple[Any, Any, Any, dict[str, Any]]:
        """Return what the compiler needs of a callee; in place of ``Dispatcher.get_call_template``."""
        dispatcher = self._dispatcher
        parameters, folded = self._compiler.fold_argument_types(args, kws)
        self._compile_callee(tuple(folded))
        name = dispatcher.py_func.__name__
        signatures = dispatcher.nopython_signatures
        template = make_concrete_template(f"CallTemplate({name})", name, signatures)
        return template, parameters, folded, {}

    def _compile_callee(self, arguments: tuple[Any, ...]) -> None:
        dispatcher, compiler = self._dispatcher, self._compiler
        # The counter is how Numba recognises recursion.
        with global_compiler_lock, dispatcher._compiling_counter:
            if arguments in dispatcher.overloads:
                return
            with linking.as_whole(dispatcher.targetctx.codegen()):
                try:
                    result = compiler.compile(arguments, None)
                except errors.ForceLiteralArg as error:
                    fold = compiler.fold_argument_types
                    raise error.bind_fold_arguments(lambda args, kws: fold(args, kws)[1]) from None
            result.library.optimize_first = self._optimize_first
            dispatcher.overloads[arguments] = result
            self._callees.add(arguments)


def jit(*, optimize_first: bool = False, **options: object) -> Callable[[F], F]:
    """Compile a function with Numba in nopython mode and cache the code on disk.

    The GIL is released while compiled code runs, division follows IEEE 754 rather than Python
    (``error_model="numpy"``), and no fast-math flag is set: NaN and infinity keep their meaning.

    Args:
        optimize_first: Optimise a function that other kernels call before it is optimised as a part of them.
            It costs time and is for the few whose loops come out slower otherwise; see ``linking``.
        **options: Further options of ``numba.njit``.

    Returns:
        A decorator.
    """
    settings: dict[str, Any] = {"nogil": True, "error_model": "numpy", **options}

    def decorate(function: F) -> F:
        dispatcher: Dispatcher = numba.njit(**settings)(function)
        # Under NUMBA_DISABLE_JIT there is no cache; what was typed at a prompt has no file to stamp it by.
        if hasattr(dispatcher, "_cache") and os.path.isfile(function.__code__.co_filename):
            dispatcher._cache = _DigestCache(function)
            compilation = _Compilation(dispatcher, optimize_first)
            dispatcher.compile = compilation.compile
            dispatcher.get_call_template = compilation.call_template
        return cast(F, dispatcher)

    return decorate


def is_stored(function: Dispatcher, signature: Types) -> bool:
    """Return whether the code of a kernel for this signature is in the cache: loading takes no compiler."""
    cache = getattr(function, "_cache", None)
    return isinstance(cache, _DigestCache) and cache.is_stored(signature, function.targetctx)


def entry_signature(integers: int, floats: int = 0) -> Types:
    """Return the signature that :func:`entry` compiles."""
    return (types.int64,) * integers + (types.float64,) * floats


def _numba_type(annotation: Any) -> NumbaType:
    """Return the Numba type of ``int``, ``float``, a tuple, or a named tuple of those."""
    if annotation in (int, float):
        return types.int64 if annotation is int else types.float64
    if get_origin(annotation) is tuple:
        return types.BaseTuple.from_types([_numba_type(part) for part in get_args(annotation)])
    fields = get_type_hints(annotation)
    parts = [_numba_type(fields[name]) for name in annotation._fields]
    return types.BaseTuple.from_types(parts, pyclass=annotation)


def annotated_signature(function: Dispatcher) -> Types:
    """Return the signature that a kernel's annotations say: ``int``, ``float`` and tuples of them."""
    hints = get_type_hints(getattr(function, "py_func", function))
    return tuple(_numba_type(kind) for name, kind in hints.items() if name != "return")


def annotated_entry(function: Dispatcher) -> EntryPoint:
    """Return :func:`entry` for a kernel whose annotations say its argument types.

    Plain tuples may be passed where a named tuple is annotated. Their lengths are checked, nothing else.
    """
    return _entry(function, annotated_signature(function))


def _entry(function: Dispatcher, signature: Types) -> EntryPoint:
    if not hasattr(function, "overloads"):  # under NUMBA_DISABLE_JIT
        plain: EntryPoint = function
        return plain
    function.compile(signature)
    found: EntryPoint = function.overloads[signature].entry_point
    return found


def entry(function: Dispatcher, integers: int, floats: int = 0) -> EntryPoint:
    """Return the entry point of a kernel of ``int64`` arguments, for calls from Python.

    Numba's dispatcher looks at the type of each argument on each call; the entry behind it only
    converts them, which saves 60 of 160 ns. It checks nothing: pass Python integers and floats.

    Args:
        function: A kernel made by :func:`jit`.
        integers: Number of its arguments that are ``int64``.
        floats: Number of ``float64`` arguments that follow them.

    Returns:
        The entry; under ``NUMBA_DISABLE_JIT`` the function itself.
    """
    return _entry(function, entry_signature(integers, floats))


def native_address(function: Dispatcher, integers: int) -> int:
    """Return the address of a kernel of ``int64`` arguments, for native code: a C function of them that returns one.

    It lives as long as the process. Nobody may call it with an argument that makes the kernel raise.

    Args:
        function: A kernel made by :func:`jit`, which returns an integer.
        integers: Number of its arguments.

    Raises:
        RuntimeError: Numba is told not to compile (``NUMBA_DISABLE_JIT``).
    """
    if not hasattr(function, "overloads"):
        raise RuntimeError("a kernel has no native code while NUMBA_DISABLE_JIT is set")
    signature = entry_signature(integers)
    function.compile(signature)
    compiled: Any = function.overloads[signature]
    name = compiled.fndesc.llvm_cfunc_wrapper_name
    return int(compiled.library.get_pointer_to_function(name))


def entry_when_called(
    function: Dispatcher, integers: int, make: Callable[[Dispatcher, int], EntryPoint] = entry
) -> EntryPoint:
    """Return :func:`entry`, or what ``make`` returns, which is looked up, or compiled, at its first call only.

    A process that imports the kernel and never calls it, as a launcher does, loads no compiled code: the first
    that is loaded costs 0.2 s, for Numba's registries.

    What is returned stands in for the entry in the modules of the package, and only there: at that
    first call it puts the entry in its place, so that later calls take no way round.

    Args:
        function: A kernel made by :func:`jit`.
        integers: Number of its arguments, all ``int64``.
        make: What makes the entry of both.
    """
    if not hasattr(function, "overloads"):  # under NUMBA_DISABLE_JIT
        return entry(function, integers)

    def late(*arguments: object) -> object:
        found = make(function, integers)
        _replace_everywhere(late, found)
        return found(*arguments)

    _late_entries.append((late, function, integers, make))
    return late


_late_entries: list[
    tuple[EntryPoint, Dispatcher, int, Callable[[Dispatcher, int], EntryPoint]]
] = []
"""What :func:`entry_when_called` has returned, with its arguments."""


def load_stored_entries() -> None:
    """Load now what :func:`entry_when_called` would load later, of the kernels that are in the cache."""
    for late, function, integers, make in _late_entries:
        if is_stored(function, entry_signature(integers)):
            _replace_everywhere(late, make(function, integers))


def _replace_everywhere(late: EntryPoint, found: EntryPoint) -> None:
    """Put an entry in the place of what stood in for it: later calls take no way round."""
    for name, module in list(sys.modules.items()):
        if name.startswith("emu."):
            for variable, value in list(vars(module).items()):
                if value is late:
                    setattr(module, variable, found)
