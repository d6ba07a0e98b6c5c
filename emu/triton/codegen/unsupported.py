"""What to write in place of Python that kernels do not have."""

from __future__ import annotations

import ast

INTERPRET = (
    "to stop in a kernel and look at its values, run it as Python: "
    "`emu run --interpret script.py`, or TRITON_INTERPRET=1"
)
"""Said where somebody tries to debug a kernel."""

DEBUGGERS = frozenset({"pdb", "bdb", "ipdb", "pudb", "debugpy", "code", "_pytest"})
"""Modules of debuggers, which would stop in the compiler; pytest puts its own function for pdb's."""

_INSTEAD: dict[type[ast.AST], tuple[str, str]] = {
    ast.Break: ("`break`", "use `while` with a condition that the body makes false"),
    ast.Continue: ("`continue`", "put the rest of the body under an `if`"),
    ast.With: ("`with`", "kernels have no context managers"),
    ast.AsyncWith: ("`async with`", "kernels have no context managers"),
    ast.Try: (
        "`try`",
        "kernels raise nothing that could be caught; check with `if` or tl.device_assert",
    ),
    ast.Raise: (
        "`raise`",
        "use tl.device_assert, or tl.static_assert for what is known at compile time",
    ),
    ast.Lambda: ("`lambda`", "define a function with @triton.jit at the level of the module"),
    ast.FunctionDef: ("nested function", "define it with @triton.jit at the level of the module"),
    ast.AsyncFunctionDef: ("`async def`", "define a function with @triton.jit"),
    ast.ClassDef: ("`class`", "define it with @triton.aggregate at the level of the module"),
    ast.Dict: ("a dict", "use a tuple, a NamedTuple or an instance of a @triton.aggregate class"),
    ast.DictComp: (
        "a dict",
        "use a tuple, a NamedTuple or an instance of a @triton.aggregate class",
    ),
    ast.Set: ("a set", "use a tuple"),
    ast.SetComp: ("a set", "use a tuple"),
    ast.GeneratorExp: ("a generator", "use a list comprehension over a tuple"),
    ast.Import: ("`import`", "import at the level of the module"),
    ast.ImportFrom: ("`from … import`", "import at the level of the module"),
    ast.Global: ("`global`", "return the value, or store it with tl.store"),
    ast.Nonlocal: ("`nonlocal`", "return the value"),
    ast.Delete: ("`del`", "leave the variable; it costs nothing"),
    ast.Yield: ("`yield`", "return a tuple"),
    ast.YieldFrom: ("`yield from`", "return a tuple"),
    ast.Await: ("`await`", "kernels wait for nothing"),
    ast.Starred: ("a starred value", "it can stand in a tuple or in a call's arguments"),
    ast.AsyncFor: ("`async for`", "use `for`"),
    **({ast.Match: ("`match`", "use `if` and `elif`")} if hasattr(ast, "Match") else {}),
}


def advice(node: ast.AST) -> str:
    """Return the text of the error about a node that kernels cannot have."""
    kind = type(node)
    what, instead = _INSTEAD.get(kind, (f"`{kind.__name__}`", ""))
    if isinstance(node, ast.Import | ast.ImportFrom) and not DEBUGGERS.isdisjoint(_imported(node)):
        instead = INTERPRET
    text = f"{what} is not supported in kernels (unsupported AST node type: {kind.__name__})"
    return f"{text}; {instead}" if instead else text


def _imported(node: ast.Import | ast.ImportFrom) -> set[str]:
    names = {alias.name for alias in node.names} if isinstance(node, ast.Import) else {node.module}
    return {str(name).partition(".")[0] for name in names}
