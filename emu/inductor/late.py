"""Modules of torch's that were imported before ``triton`` was found: they do now what they do at import if it is there.

A program may have used parts of torch that import Dynamo, such as an optimizer, before ``emu.inductor.install()``. Some
modules then hold names only if Triton was there, and would fail with a NameError far from the cause.
"""

from __future__ import annotations

import ast
import inspect
import sys
from types import ModuleType
from typing import Any

_MODULES = ("torch._dynamo.utils", "torch._inductor.runtime.hints")
_QUESTION = "has_triton_package()"


def run() -> None:
    """Run what the loaded modules left out; a second call changes nothing."""
    for name in _MODULES:
        module = sys.modules.get(name)
        if module is not None and not hasattr(module, "triton"):
            _run_in(module)


def _run_in(module: ModuleType) -> None:
    """Run the blocks at the top of a module that ask for Triton, and give what they define to who has what was there."""
    names: dict[str, Any] = vars(module)
    before = dict(names)
    for node in ast.parse(inspect.getsource(module)).body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == _QUESTION:
            code = compile(ast.Module(node.body, []), str(module.__file__), "exec")
            exec(code, names)  # noqa: S102 - torch's own lines
    changed = {n: value for n, value in before.items() if names[n] is not value}
    for other in [m for n, m in sys.modules.items() if n.startswith("torch.")]:
        for name, value in changed.items():
            if vars(other).get(name) is value:
                setattr(other, name, names[name])
