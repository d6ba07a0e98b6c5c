"""Code libraries of kernels, which are optimised once: as a part of the kernel that Python calls.

Numba optimises each function on its own, makes machine code of it and wrappers around it, and optimises it
again in every caller up the chain; nobody ever calls the machine code of a kernel's thirty callees. A
:class:`Library` keeps a callee as it was lowered. Only the library of a kernel with an entry for Python is
finished: it links all that it reaches, each once, and is optimised and translated as a whole.

Other users of a library finish it as Numba's own: a user's ``numba.njit`` that calls a kernel, the wrappers of a
parallel loop.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator
from typing import Any

from llvmlite import binding
from numba.core import codegen, environment

_ENVIRONMENT = "_ZN08NumbaEnv"
_COLLECT_AFTER = 100_000


class _NoAddresses:
    """The code generator of a library that is not finished."""

    def set_env(self, name: str, value: object) -> None:
        """Do nothing: the library that is finished sets the environments of all that it links."""


_Base: Any = codegen.JITCodeLibrary  # its methods have no types


class Library(_Base):  # type: ignore[misc]  # see above
    """A library that is finished when the address of one of its own functions is needed.

    Attributes:
        optimize_first: Whether the code is also optimised on its own before it is linked into callers, as Numba
            does with all: for the few functions whose loops come out slower otherwise.
    """

    optimize_first = False
    _linking_libraries: list[Any]
    _final_module: Any

    @property
    def codegen(self) -> Any:
        """Code generator that gets the function's environment."""
        return self._codegen if self._finalized else _NoAddresses()

    def get_pointer_to_function(self, name: str) -> int:
        """Return the address of a function; 0 if there is none, as of a callee's wrapper for Python."""
        if not self._finalized and not self._defines(name):
            return 0
        return int(super().get_pointer_to_function(name))

    def _defines(self, name: str) -> bool:
        with contextlib.suppress(NameError):
            return not self._final_module.get_function(name).is_declaration
        return False

    def add_linking_library(self, library: Any) -> None:
        """Link a library when this one is finished."""
        if _is_unfinished(library):
            self._linking_libraries.append(library)
        else:
            super().add_linking_library(library)

    def finalize(self) -> None:
        """Link, optimise and translate the code, and give each function in it its environment."""
        self._link_unfinished()
        self._keep_recursive()
        super().finalize()
        for variable in self._final_module.global_variables:
            if variable.name.startswith(_ENVIRONMENT):
                found = environment.lookup_environment(variable.name)
                if found is not None:
                    self._codegen.set_env(variable.name, found)

    def _link_unfinished(self) -> None:
        """Link the libraries that are not finished, and all that those reach, each once."""
        own = {function.name for function in self._definitions()}
        seen: set[Any] = set()
        finished = []
        todo = list(self._linking_libraries)
        while todo:
            library = todo.pop()
            if library in seen:
                continue
            seen.add(library)
            if not _is_unfinished(library):
                finished.append(library)
                continue
            if library.optimize_first:
                library._optimize_early()
            self._reload_init.update(library._reload_init)
            self._final_module.link_in(library._final_module, preserve=True)
            todo += library._linking_libraries
        self._linking_libraries = finished
        # Only now: LLVM leaves out a function of this linkage that nothing linked before refers to.
        for function in self._definitions():
            if function.name not in own and function.linkage == binding.Linkage.external:
                function.linkage = "linkonce_odr"  # may vanish where it is inlined

    def _definitions(self) -> list[Any]:
        return [f for f in self._final_module.functions if not f.is_declaration]

    def _optimize_early(self) -> None:
        self._link_unfinished()
        self._optimize_final_module()
        self.optimize_first = False

    def _keep_recursive(self) -> None:
        """Keep functions that are called through a pointer from before they were known."""
        prefix = codegen.RuntimeLinker.PREFIX
        for variable in self._final_module.global_variables:
            name = variable.name.removeprefix(prefix)
            if name != variable.name and self._defines(name):
                function = self._final_module.get_function(name)
                if function.linkage == binding.Linkage.linkonce_odr:
                    function.linkage = "weak_odr"


def _is_unfinished(library: Any) -> bool:
    return isinstance(library, Library) and not library._finalized


@contextlib.contextmanager
def as_whole(generator: Any) -> Iterator[None]:
    """Make what Numba compiles in this context a :class:`Library`.

    The caller holds Numba's compiler lock. Python's garbage collector runs less often: the compiler makes many
    objects and little garbage, and the collector took a seventh of the time.

    Args:
        generator: Numba's code generator.
    """
    before, thresholds = generator._library_class, gc.get_threshold()
    generator._library_class = Library
    if thresholds[0]:
        gc.set_threshold(max(_COLLECT_AFTER, thresholds[0]), *thresholds[1:])
    try:
        yield
    finally:
        generator._library_class = before
        gc.set_threshold(*thresholds)
