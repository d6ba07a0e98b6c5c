"""``jit``: Numba's ``njit`` with a disk cache that never returns stale code.

Numba's own cache has two traps. It stamps an entry with the contents of the function's *own* file,
so that an edit of a helper in another module keeps returning the old machine code. And it numbers
its data files through an index which two processes that compile at once can overwrite, so that one
signature can load the code of another.

The cache here lies outside the source tree, in a folder named by a digest of every source file that
the function can call, and keeps one file per (function, signature, CPU) whose name is a hash of that
key: two processes that compile the same thing write the same file, each by an atomic rename. What a
function can call follows from the layers: kernels know kernels only, ``comm`` knows both, any other
room may know the whole package. An edit there starts a new folder; folders not used for 30 days are
removed. A function is compiled by one process at a time: PEs that all meet an unknown kernel wait for
the first of them and load its code.

Set ``EMU_CACHE_DIR`` to move the cache (default: ``$XDG_CACHE_HOME/emu`` or ``~/.cache/emu``).
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba import extending, types
from numba.core import caching, sigutils
from numba.core.compiler_lock import global_compiler_lock

from emu.kernels import cache_files

F = TypeVar("F", bound=Callable[..., Any])

# Numba exports it without saying so to type checkers.
carray: Any = getattr(numba, "carray")  # noqa: B009


def intrinsic(build: Callable[..., Any]) -> Any:
    """``numba.extending.intrinsic``, untyped: what a kernel calls takes no typing context."""
    return extending.intrinsic(build)


_CHECKSUM_BYTES = hashlib.sha256().digest_size


_ROOMS = {"emu.kernels": ("kernels",), "emu.comm": ("kernels", "comm")}
"""Whose sources the compiled code of a room depends on; of any other module: the whole package's."""


def source_digest(root: Path, rooms: tuple[str, ...] = ("",)) -> str:
    """Hash every Python source of ``rooms``, following the package's own symlinks.

    Args:
        root: The package folder.
        rooms: Folders in it. Default: all of it.

    Returns:
        32 hexadecimal digits which change when any of the sources, or the version of Numba, changes.
    """
    return cache_files.source_digest(root, rooms, numba.__version__)


@functools.cache
def cache_dir(room: str = "emu") -> Path:
    """Return the folder of the compiled code of ``room``'s kernels; it may not exist yet.

    Args:
        room: The first two parts of a module's name.
    """
    # This file is <package>/kernels/jit.py under the name by which it was imported.
    root = Path(__file__).parent.parent
    return cache_files.base() / source_digest(root, _ROOMS.get(room, ("",)))


def _room(module: str) -> str:
    return ".".join(module.split(".", 2)[:2])


@functools.cache
def _prepare_cache_dir(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(OSError):  # another user's folder, a read-only file system
        os.utime(folder)
        cache_files.remove_unused_folders(folder)


class _Locator(caching._CacheLocator):
    """Names the folder for a function; the digest in that name is the stamp."""

    def __init__(self, py_func: Callable[..., Any], py_file: str) -> None:
        self._py_file = py_file
        self._module = py_func.__module__
        self._lineno = py_func.__code__.co_firstlineno
        self._folder = cache_dir(_room(py_func.__module__))

    def get_cache_path(self) -> str:
        return str(self._folder)

    def ensure_cache_path(self) -> None:
        _prepare_cache_dir(self._folder)

    def get_source_stamp(self) -> str:
        return self._folder.name

    def get_disambiguator(self) -> str:
        return f"{self._module}-{self._lineno}"

    @classmethod
    def from_function(cls, py_func: Callable[..., Any], py_file: str) -> _Locator:
        return cls(py_func, py_file)


class _Impl(caching.CompileResultCacheImpl):
    _locator_classes = [_Locator]  # noqa: RUF012 - the form that the base class has


class _KeyedFiles(caching.IndexDataCacheFile):
    """One file per key, named by the key's hash: no index, so nothing to race on."""

    def _path(self, key: object) -> str:
        name = hashlib.sha256(repr(key).encode()).hexdigest()[:24]
        return str(self._data_path(f"{self._index_name.removesuffix('.nbi')}.{name}.nbc"))

    def save(self, key: object, data: object) -> None:
        payload = self._dump((repr(key), data))
        with self._open_for_write(self._path(key)) as file:
            file.write(hashlib.sha256(payload).digest() + payload)

    def load(self, key: object) -> object | None:
        try:
            content = Path(self._path(key)).read_bytes()
        except OSError:
            return None  # not there: compile
        payload = content[_CHECKSUM_BYTES:]
        if hashlib.sha256(payload).digest() != content[:_CHECKSUM_BYTES]:
            return (
                None  # cut short or damaged; loading damaged machine code could crash the process
            )
        stored, data = pickle.loads(payload)
        return data if stored == repr(key) else None


class _DigestCache(caching.FunctionCache):
    _impl_class = _Impl

    def __init__(self, py_func: Callable[..., Any]) -> None:
        super().__init__(py_func)
        files = self._cache_file
        base = files._index_name.removesuffix(".nbi")
        self._files = _KeyedFiles(self._cache_path, base, files._source_stamp)
        self._cache_file = self._files

    def _save_overload(self, sig: object, data: object) -> None:
        # A cache that cannot be written (read-only home, full disk) costs time, never the result.
        with contextlib.suppress(OSError):
            super()._save_overload(sig, data)

    def is_stored(self, signature: Any, context: Any) -> bool:
        """Say whether there is an entry for the signature."""
        key = self._index_key(signature, context.codegen())
        return os.path.exists(self._files._path(key))


_being_compiled: set[str] = set()  # by this process


@contextlib.contextmanager
def _alone(name: str, folder: Path) -> Iterator[None]:
    """Keep other processes from compiling the function of this name; a lost lock costs time only."""
    if name in _being_compiled:
        yield
        return
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):
            _prepare_cache_dir(folder)
        lock = Path(folder, f"lock-{hashlib.sha256(name.encode()).hexdigest()[:24]}")
        cache_files.keep_others_out(stack, lock)
        _being_compiled.add(name)
        stack.callback(_being_compiled.discard, name)
        yield


def _compile_alone(dispatcher: Any) -> Callable[[Any], Any]:
    """Return the dispatcher's ``compile`` under a lock between processes."""
    compile_here, cache = dispatcher.compile, dispatcher._cache
    name = f"{dispatcher.py_func.__module__}.{dispatcher.py_func.__qualname__}"
    folder = Path(cache.cache_path)

    def compile_alone(signature: Any) -> Any:
        with global_compiler_lock:  # first: the thread that has it may need the same function
            arguments, _ = sigutils.normalize_signature(signature)
            if arguments in dispatcher.overloads or cache.is_stored(
                signature, dispatcher.targetctx
            ):
                return compile_here(signature)
            with _alone(name, folder):
                return compile_here(signature)

    return compile_alone


def jit(**options: Any) -> Callable[[F], F]:
    """Compile a function with Numba in nopython mode and cache the code on disk.

    The GIL is released while compiled code runs, division follows IEEE 754 rather than Python
    (``error_model="numpy"``), and no fast-math flag is set: NaN and infinity keep their meaning.

    Args:
        **options: Further options of ``numba.njit``.

    Returns:
        A decorator.
    """
    settings: dict[str, Any] = {"nogil": True, "error_model": "numpy", **options}

    def decorate(function: F) -> F:
        dispatcher: Any = numba.njit(**settings)(function)
        if hasattr(dispatcher, "_cache"):  # absent under NUMBA_DISABLE_JIT
            dispatcher._cache = _DigestCache(function)
            dispatcher.compile = _compile_alone(dispatcher)
        return cast(F, dispatcher)

    return decorate


def is_stored(function: Any, signature: tuple[Any, ...]) -> bool:
    """Say whether the code of a kernel for this signature is in the cache: loading takes no compiler."""
    cache = getattr(function, "_cache", None)
    return isinstance(cache, _DigestCache) and cache.is_stored(signature, function.targetctx)


def entry_signature(integers: int, floats: int = 0) -> tuple[Any, ...]:
    """Return the signature that :func:`entry` compiles."""
    return (types.int64,) * integers + (types.float64,) * floats


def entry(function: Any, integers: int, floats: int = 0) -> Any:
    """Return what Python can call directly to run a kernel of ``int64`` arguments.

    Numba's dispatcher looks at the type of each argument on each call; the entry behind it only
    converts them, which saves 60 of 160 ns. It checks nothing: pass Python integers and floats.

    Args:
        function: A kernel made by :func:`jit`.
        integers: Number of its arguments that are ``int64``.
        floats: Number of ``float64`` arguments that follow them.

    Returns:
        The entry; under ``NUMBA_DISABLE_JIT`` the function itself.
    """
    if not hasattr(function, "overloads"):
        return function
    signature = entry_signature(integers, floats)
    function.compile(signature)
    return function.overloads[signature].entry_point
