"""``parse``: from a text to a verified module, or an error that shows what is wrong where."""

from __future__ import annotations

from emu.mlir.arguments import check, check_flag, check_text
from emu.mlir.diagnostics import Diagnostic, Diagnostics, MlirError, Severity
from emu.mlir.gc_pause import paused_collection
from emu.mlir.ir import Operation, Value
from emu.mlir.registry import load_dialects
from emu.mlir.text.lexer import SourceText, render
from emu.mlir.text.parser import ModuleParser
from emu.mlir.verify import verify as verify_operation

__all__ = ["parse"]


def parse(
    text: str,
    *,
    file: str = "-",
    verify: bool = True,
    allow_unregistered: bool = True,
    diagnostics: Diagnostics | None = None,
    names: dict[Value, str] | None = None,
) -> Operation:
    """Read a module.

    Args:
        text: MLIR text, in pretty or generic form.
        file: Name of the text in messages and locations. Default: "-".
        verify: Whether to verify the module. Default: True.
        allow_unregistered: Whether operations of unknown dialects are accepted, in generic form.
            Default: True.
        diagnostics: Receives the errors too. Default: None.
        names: Is filled with the names that values have in the text (``%x``, ``%x#1``). Default:
            None.

    Returns:
        The module; operations that are not one module are put into a new one.

    Raises:
        MlirError: The text is wrong; the message shows place and caret.
        ArgumentError: An argument has another type.
    """
    check_text("text", text, "MLIR text")
    check_text("file", file, "the name of a file")
    check_flag("verify", verify)
    check_flag("allow_unregistered", allow_unregistered)
    if diagnostics is not None:
        check("diagnostics", diagnostics, Diagnostics, "a Diagnostics or None")
    if names is not None:
        check("names", names, dict, "a dict or None")
    load_dialects()
    took = Diagnostics() if diagnostics is None else diagnostics
    source = SourceText(text, file)
    if (wrong := _not_unicode(text)) is not None:
        said = f"text must be Unicode, but has {text[wrong]!a} here"
        found = Diagnostic(Severity.ERROR, source.location(wrong), said)
        raise _failed([found], SourceText("", file), took)
    with paused_collection():
        parser = ModuleParser(source, allow_unregistered=allow_unregistered, names=names)
    try:
        with paused_collection():
            module = parser.module()
    except MlirError as error:
        raise _failed(error.diagnostics, source, took) from None
    except (ValueError, OverflowError):
        # Python refuses numbers of more than 4,300 digits.
        found = Diagnostic(Severity.ERROR, parser.here(), "number is too large")
        raise _failed([found], source, took) from None
    except RecursionError:
        found = Diagnostic(Severity.ERROR, parser.here(), "regions are nested too deeply")
        raise _failed([found], source, took) from None
    if verify:
        start = len(took.emitted)
        if not verify_operation(module, took):
            emitted = took.emitted[start:]
            raise MlirError("\n".join(render(d, source) for d in emitted), emitted)
    return module


def _failed(emitted: list[Diagnostic], source: SourceText, took: Diagnostics) -> MlirError:
    for each in emitted:
        took.emit(each)
    return MlirError("\n".join(render(each, source) for each in emitted), emitted)


def _not_unicode(text: str) -> int | None:
    """Return the offset of the first character that cannot be encoded, or None."""
    try:
        text.encode("utf-8", "surrogateescape")  # bytes that were not UTF-8 are fine
    except UnicodeEncodeError as error:
        return error.start
    return None
