"""Extension modules of programs, compiled from C and C++: ``triton.runtime.build.compile_module_from_src``."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import logging
import os
import platform
import shutil
import subprocess
import sysconfig
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from emu.triton import knobs
from emu.triton.runtime.cache_managers import get_cache_manager
from emu.triton.runtime.checks import as_names, check_text

_ENDINGS = {"c": ".c", "c++": ".cpp"}
_LANGUAGES = {".c": "c", ".cc": "c++", ".cpp": "c++", ".cxx": "c++"}
_COMPILERS = {"c": ("CC", ("gcc", "clang")), "c++": ("CXX", ("g++", "clang++"))}


@functools.cache
def platform_key() -> str:
    """Return a text that identifies the kind of this machine."""
    return ",".join((platform.machine(), platform.system(), *platform.architecture()))


def _find_compiler(language: str) -> str:
    variable, names = _COMPILERS[language]
    given = knobs.build.cc if language == "c" else os.environ.get(variable)
    found = given or next(filter(None, map(shutil.which, names)), None)
    if found is None:
        raise RuntimeError(
            f"a {language} compiler must be installed or named by {variable}, but there is none of {names}"
        )
    return found


def _library_flag(name: str) -> str:
    """Return the flag that links a library: by its file's name if it is one, else by its short name."""
    is_file = name.endswith((".so", ".a")) or ".so." in name
    return f"-l:{name}" if is_file else f"-l{name}"


def _build(
    name: str,
    src: str,
    srcdir: str,
    library_dirs: Sequence[str],
    include_dirs: Sequence[str],
    libraries: Sequence[str],
    ccflags: Sequence[str],
    language: str = "c",
) -> str:
    """Compile a source file into a library in ``srcdir``; return its path.

    Raises:
        RuntimeError: There is no compiler.
        subprocess.CalledProcessError: The compiler failed; what it said is on stderr.
    """
    if knobs.build.impl is not None:
        made: str = knobs.build.impl(
            name, src, srcdir, list(library_dirs), list(include_dirs), list(libraries)
        )
        return made
    path = os.path.join(srcdir, name + str(sysconfig.get_config_var("EXT_SUFFIX")))
    headers = (*include_dirs, srcdir, sysconfig.get_paths()["include"], *knobs.build.backend_dirs)
    command = [_find_compiler(language), src, "-O3", "-shared", "-fPIC", "-Wno-psabi", "-o", path]
    if language == "c++":
        command.append("-std=c++17")
    command += [*map(_library_flag, libraries), *(f"-L{folder}" for folder in library_dirs)]
    command += [*(f"-I{folder}" for folder in headers), *ccflags]
    subprocess.check_call(command, stdout=subprocess.DEVNULL)
    return path


def _load(name: str, path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} must be an extension module")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _digest(src: bytes, *lists: object) -> str:
    return hashlib.sha256(repr((src, platform_key(), *lists)).encode()).hexdigest()


def compile_so_from_src(
    src: str,
    name: str,
    library_dirs: Sequence[str] | None = None,
    include_dirs: Sequence[str] | None = None,
    libraries: Sequence[str] | None = None,
    ccflags: Sequence[str] | None = None,
    language: str = "c",
) -> str:
    """Compile a source text into a library, or find the one that was compiled from it; return its path.

    Args:
        src: The text.
        name: Name of the module.
        library_dirs: Folders of libraries.
        include_dirs: Folders of headers.
        libraries: Libraries to link: short names, or names of files.
        ccflags: Further flags of the compiler.
        language: ``"c"`` or ``"c++"``.

    Raises:
        ValueError: There is no such language.
        RuntimeError: There is no compiler.
        subprocess.CalledProcessError: The compiler failed.
    """
    given = (library_dirs, include_dirs, libraries, ccflags)
    return _compile(src, name, given, language)


def _compile(
    src: str,
    name: str,
    given: Sequence[Sequence[str] | None],
    language: str,
    again: bool = False,
) -> str:
    """Return the path of the library of a text; compile it even if it is there if ``again`` is true."""
    if language not in _ENDINGS:
        raise ValueError(f"language must be one of {tuple(_ENDINGS)}, but got {language!r:.60}")
    check_text("name", name)
    names = ("library_dirs", "include_dirs", "libraries", "ccflags")
    lists = [as_names(what, each) for what, each in zip(names, given, strict=True)]
    keeper = get_cache_manager(_digest(check_text("src", src).encode(), language, name, *lists))
    filename = name + str(sysconfig.get_config_var("EXT_SUFFIX"))
    found = None if again else keeper.get_file(filename)
    if found is not None:
        return found
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, name + _ENDINGS[language])
        path.write_text(src)
        library_dirs, include_dirs, libraries, ccflags = lists
        made = _build(
            name, str(path), folder, library_dirs, include_dirs, libraries, ccflags, language
        )
        return keeper.put(Path(made).read_bytes(), filename)


def _read(src_path: str) -> tuple[str, str, str]:
    """Return the text of a source file, its folder and its language.

    Raises:
        ValueError: The file's ending is that of no language.
    """
    path = Path(src_path).resolve()
    if path.suffix not in _LANGUAGES:
        raise ValueError(f"src_path must end in one of {tuple(_LANGUAGES)}, but is {src_path}")
    return path.read_text(), str(path.parent), _LANGUAGES[path.suffix]


def compile_so_from_file(
    src_path: str,
    name: str,
    library_dirs: Sequence[str] | None = None,
    include_dirs: Sequence[str] | None = None,
    libraries: Sequence[str] | None = None,
    ccflags: Sequence[str] | None = None,
) -> str:
    """Compile a source file into a library; return its path. See :func:`compile_so_from_src`.

    Headers beside the file are found, too.

    Raises:
        ValueError: The file's ending is that of no language.
    """
    text, folder, language = _read(src_path)
    headers = [folder, *(include_dirs or ())]
    return compile_so_from_src(text, name, library_dirs, headers, libraries, ccflags, language)


def compile_module_from_src(
    src: str,
    name: str,
    library_dirs: Sequence[str] | None = None,
    include_dirs: Sequence[str] | None = None,
    libraries: Sequence[str] | None = None,
    ccflags: Sequence[str] | None = None,
    language: str = "c",
) -> ModuleType:
    """Compile a source text into an extension module and load it; see :func:`compile_so_from_src`.

    A library in the cache that cannot be loaded is compiled again.

    Raises:
        ImportError: The module cannot be loaded.
    """
    given = (library_dirs, include_dirs, libraries, ccflags)
    path = _compile(src, name, given, language)
    try:
        return _load(name, path)
    except ImportError:
        logging.getLogger(__name__).warning(
            "Triton cache error: compiled module %s.so could not be loaded", name
        )
        return _load(name, _compile(src, name, given, language, again=True))


def compile_module_from_file(
    src_path: str,
    name: str,
    library_dirs: Sequence[str] | None = None,
    include_dirs: Sequence[str] | None = None,
    libraries: Sequence[str] | None = None,
    ccflags: Sequence[str] | None = None,
) -> ModuleType:
    """Compile a source file into an extension module and load it; see :func:`compile_so_from_file`.

    Raises:
        ImportError: The module cannot be loaded.
    """
    text, folder, language = _read(src_path)
    headers = [folder, *(include_dirs or ())]
    return compile_module_from_src(text, name, library_dirs, headers, libraries, ccflags, language)
