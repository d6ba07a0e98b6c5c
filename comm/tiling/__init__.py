"""Tiling data: structs whose bytes are those of the C++ macros, and the communication message in them.

``TilingData`` declares a struct in Python, ``read_macros`` reads the macro text of one, ``c_header``
and ``cpp_header`` write it for a compiler. ``make_mc2msg``, ``read_mc2msg``, ``detect`` and
``convert`` know every version of the message ``Mc2Msg``. Importing this loads neither NumPy nor Numba.
"""

from emu.comm.tiling.conversion import (
    ConversionError,
    convert,
    write_mc2msg,
)
from emu.comm.tiling.ctext import (
    MacroError,
)
from emu.comm.tiling.detection import (
    AmbiguousVersionError,
    Detected,
    MessageError,
    PackedMessageError,
    VersionMismatchError,
    detect,
    read_mc2msg,
)
from emu.comm.tiling.enums import (
    CommAlg,
    CommOrder,
    ExitPolicy,
    HcclCommand,
    HcclDataType,
    HcclReduceOp,
    PreparePosition,
    RspPolicy,
    UseBufferType,
    WaitPolicy,
)
from emu.comm.tiling.headers import (
    c_header,
    cpp_header,
    macro_text,
)
from emu.comm.tiling.layout import (
    Field,
    Layout,
    Row,
)
from emu.comm.tiling.macros import (
    MacroText,
    Unread,
    read_macros,
)
from emu.comm.tiling.mc2msg import (
    Mc2Msg,
    Mc2Msg92,
    Mc2Msg112,
    Mc2Msg128,
    Mc2MsgV1,
    Version,
    make_mc2msg,
    struct_of,
    version_of,
)
from emu.comm.tiling.scalars import (
    Array,
    Scalar,
    boolean,
    char,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from emu.comm.tiling.struct import (
    TilingData,
    UnknownFieldError,
    layout_of,
    structs_of,
)
from emu.comm.tiling.table import Line, annotate

__all__ = [
    "AmbiguousVersionError",
    "Array",
    "CommAlg",
    "CommOrder",
    "ConversionError",
    "Detected",
    "ExitPolicy",
    "Field",
    "HcclCommand",
    "HcclDataType",
    "HcclReduceOp",
    "Layout",
    "Line",
    "MacroError",
    "MacroText",
    "Mc2Msg",
    "Mc2Msg92",
    "Mc2Msg112",
    "Mc2Msg128",
    "Mc2MsgV1",
    "MessageError",
    "PackedMessageError",
    "PreparePosition",
    "Row",
    "RspPolicy",
    "Scalar",
    "TilingData",
    "UnknownFieldError",
    "Unread",
    "UseBufferType",
    "Version",
    "VersionMismatchError",
    "WaitPolicy",
    "annotate",
    "boolean",
    "c_header",
    "char",
    "convert",
    "cpp_header",
    "detect",
    "float32",
    "float64",
    "int8",
    "int16",
    "int32",
    "int64",
    "layout_of",
    "macro_text",
    "make_mc2msg",
    "read_macros",
    "read_mc2msg",
    "struct_of",
    "structs_of",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "version_of",
    "write_mc2msg",
]
