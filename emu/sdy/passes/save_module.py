"""A pass that saves the module to a file in the middle of a pipeline."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from emu.mlir.diagnostics import UNKNOWN
from emu.mlir.ir import Operation
from emu.sdy.passes.base import ModulePass, Session


class SaveModule(ModulePass):
    """Write the module to ``DIRECTORY/INDEX.TITLE.mlir``.

    Attributes:
        directory: The directory; nothing is written if empty.
        title: Name of the file, without number and suffix.
        index: Number before the title, by which the files sort.
    """

    # Set here, not in the class statement: pipelines as text cannot name this pass.
    name: ClassVar[str] = "sdy-save-module"

    directory: str = ""
    title: str = ""
    index: int | None = None

    def run(self, op: Operation, session: Session) -> None:
        """Write the module; emit a warning if the file cannot be written."""
        if not self.directory:
            return
        number = "" if self.index is None else f"{self.index:02}."
        path = Path(self.directory, f"{number}{self.title}.mlir")
        try:
            path.write_text(f"{op}\n", encoding="utf-8", errors="surrogateescape")
        except OSError as error:
            session.diagnostics.warning(UNKNOWN, f"cannot write {path}: {error.strerror}")
