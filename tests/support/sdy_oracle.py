"""Shardy's own passes, as they are in jaxlib, in a child process.

A child, because its internal checks abort the process, and some programs never
end: such a question is answered with ``aborted``, and another child takes the
next one. The
interpreter may be another one than ours (``--python``), so that jaxlib need
not be installed beside emu.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from typing import IO, Self

__all__ = ["Answer", "Oracle"]

_CHILD = """
import json, os, signal, sys
from jaxlib.mlir import ir, passmanager
from jaxlib.mlir._mlir_libs import _jax_mlir_ext
from jaxlib.mlir.dialects import chlo, sdy, stablehlo, func
registry = ir.DialectRegistry()
_jax_mlir_ext.register_dialects(registry)
context = ir.Context()
context.append_dialect_registry(registry)
context.load_all_available_dialects()
context.allow_unregistered_dialects = True
context.enable_multithreading(False) if hasattr(context, "enable_multithreading") else None
sdy.register_dialect(context)
stablehlo.register_dialect(context)
chlo.register_dialect(context)
def answer(line):
    text, pipeline, generic, locations = json.loads(line)
    messages = []
    def take(d):
        messages.append([str(d.severity).rpartition(".")[2].lower(), d.message, [n.message for n in d.notes]])
        return True
    with context, ir.Location.unknown():
        handler = context.attach_diagnostic_handler(take)
        try:
            module = ir.Module.parse(text)
            if pipeline:
                passmanager.PassManager.parse("builtin.module(" + pipeline + ")").run(module.operation)
            said = [True, module.operation.get_asm(print_generic_op_form=generic, enable_debug_info=locations), messages]
        except Exception as error:
            for d in getattr(error, "error_diagnostics", []):
                take(d)
            said = [False, str(error), messages]
        handler.detach()
    return said
# A worker, forked when all is loaded, answers until it dies; then comes the next.
while True:
    worker = os.fork()
    if not worker:
        for line in sys.stdin:
            signal.alarm(20)  # on some programs it goes round and round: that ends the worker
            said = answer(line)
            signal.alarm(0)
            print(json.dumps(said), flush=True)
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1])
    if not status:
        break
    print(json.dumps([None, f"the oracle ended with status {status}", []]), flush=True)
"""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the oracle says.

    Attributes:
        ok: Whether the passes ran.
        text: The module afterwards, or the error.
        messages: Diagnostics: severity, text, notes.
        aborted: Whether the process died of it, or had to be ended after 20 seconds.
    """

    ok: bool
    text: str
    messages: list[tuple[str, str, list[str]]]
    aborted: bool = False


class Oracle:
    """A child process that runs jaxlib's passes; use it in a ``with``."""

    def __init__(self, python: str = sys.executable) -> None:
        self._python = python
        self._child: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def ask(
        self, text: str, pipeline: str = "", *, generic: bool = False, locations: bool = False
    ) -> Answer:
        """Parse a module, run a pipeline on it, and print it."""
        child = self._started()
        try:
            pipe: IO[str] = child.stdin  # type: ignore[assignment]  # a pipe was asked for
            pipe.write(json.dumps([text, pipeline, generic, locations]) + "\n")
            pipe.flush()
            line = child.stdout.readline()  # type: ignore[union-attr]  # the same
        except BrokenPipeError:
            line = ""
        if not line:
            status = child.wait()
            self._end()
            return Answer(False, f"the oracle ended with status {status}", [], True)
        ok, answer, messages = json.loads(line)
        return Answer(bool(ok), answer, [tuple(m) for m in messages], aborted=ok is None)

    def _started(self) -> subprocess.Popen[str]:
        if self._child is None:
            self._child = subprocess.Popen(
                [self._python, "-c", _CHILD],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
        return self._child

    def _end(self) -> None:
        if self._child is not None:
            self._child.kill()
            self._child.communicate()
            self._child = None
