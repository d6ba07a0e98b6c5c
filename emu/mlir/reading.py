"""``parse``: from a text to a verified module, or an error that shows what is wrong where."""

from __future__ import annotations

from emu.mlir.arguments import check, check_flag, check_text
from emu.mlir.diagnostics import Diagnostic, Diagnostics, MlirError, Severity, located
from emu.mlir.gc_pause import paused_collection
from emu.mlir.ir import Operation, Value
from emu.mlir.registry import load_dialects
from emu.mlir.text.lexer import SourceText, render_all
from emu.mlir.text.parser import ModuleParser
from emu.mlir.verify import verify as verify_operation


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
    received = Diagnostics() if diagnostics is None else diagnostics
    source = SourceText(text, file)
    try:
        _check_unicode(source)
        module, alike = _read(source, allow_unregistered, names)
    except MlirError as error:
        for each in error.diagnostics:
            received.emit(each)
        raise
    if verify:
        start = len(received.emitted)
        # Where a line is wrong, those that are like it are too: the second time, all are reported.
        if not verify_operation(module, Diagnostics(), alike=alike) and not verify_operation(
            module, received
        ):
            raise _error(received.emitted[start:], source)
    return module


def _read(
    source: SourceText, allow_unregistered: bool, names: dict[Value, str] | None
) -> tuple[Operation, set[Operation]]:
    parser: ModuleParser | None = None
    with paused_collection():
        try:
            parser = ModuleParser(source, allow_unregistered=allow_unregistered, names=names)
            return parser.module(), parser.alike
        except MlirError as error:
            # Errors of nested attributes were gathered on the way: the text must show them all.
            raise _error(error.diagnostics, source) from None
        except (ValueError, OverflowError):
            # Python refuses to print numbers of more than 4,300 digits.
            message = "number is too large"
        except RecursionError:
            message = "regions, types or attributes are nested too deeply"
        except MemoryError:
            message = "text is too large for the memory"
        place = source.location(0) if parser is None else located(parser.here())
        raise _error([Diagnostic(Severity.ERROR, place, message)], source)


def _error(emitted: list[Diagnostic], source: SourceText) -> MlirError:
    return MlirError(render_all(emitted, source), emitted)


def _check_unicode(source: SourceText) -> None:
    """Raise an error about the first character that cannot be encoded."""
    try:
        source.text.encode("utf-8", "surrogateescape")  # bytes that were not UTF-8 are fine
    except UnicodeEncodeError as error:
        message = f"text must be Unicode, but has {source.text[error.start]!a} here"
        found = Diagnostic(Severity.ERROR, source.location(error.start), message)
        # Rendered without the line, which could not be written either.
        raise _error([found], SourceText("", source.file)) from None
