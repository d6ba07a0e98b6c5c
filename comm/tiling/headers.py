"""Source text of a struct for a compiler: C, C++, or the macros it can be declared with."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from emu.comm.errors import ArgumentError
from emu.comm.tiling.checks import check_text
from emu.comm.tiling.layout import STRUCT_ALIGNMENT, Layout
from emu.comm.tiling.scalars import Array
from emu.comm.tiling.struct import TilingData, layout_of

_KEYWORDS = frozenset(
    re.findall(
        r"\w+",
        """
        alignas alignof and and_eq asm auto bitand bitor bool break case catch char class compl
        concept const const_cast consteval constexpr constinit continue co_await co_return co_yield
        decltype default delete do double dynamic_cast else enum explicit export extern false float
        for friend goto if inline int long mutable namespace new noexcept not not_eq nullptr operator
        or or_eq private protected public register reinterpret_cast requires restrict return short
        signed sizeof static static_assert static_cast struct switch template this thread_local throw
        true try typedef typeid typename typeof union unsigned using virtual void volatile wchar_t
        while xor xor_eq
        """,
    )
)


def c_header(*structs: type[TilingData]) -> str:
    """Return a C11 header with the structs and those nested in them.

    Padding is spelled out, so that a compiler lays the structs out byte for byte as tiling data, and
    static assertions of the size and of every offset make it fail where it would not.

    Args:
        structs: What to declare; a struct used by several is declared once.

    Returns:
        The text, with an include guard named for the last struct.

    Raises:
        ArgumentError: No struct, two different ones of one name, or a name that is a keyword.
    """
    layouts = _in_order(structs)
    guard = f"{_upper(layouts[-1].name)}_TILING_H"
    parts = [
        f"#ifndef {guard}\n#define {guard}\n",
        "#include <stdbool.h>\n#include <stddef.h>\n#include <stdint.h>\n",
        *(
            _struct(layout, f"typedef struct {layout.name} {{", f"}} {layout.name};")
            + _assertions(layout, "_Static_assert")
            for layout in layouts
        ),
        f"#endif  // {guard}\n",
    ]
    return "\n".join(parts)


def cpp_header(*structs: type[TilingData], namespace: str = "") -> str:
    """Return a C++11 header with the structs and those nested in them; see ``c_header``.

    Args:
        structs: What to declare.
        namespace: Around the structs, such as ``optiling`` or ``a::b``. Default: none.

    Returns:
        The text, with an include guard named for the last struct.

    Raises:
        ArgumentError: As ``c_header``, or the namespace can't be one.
    """
    check_text(namespace, "namespace")
    layouts = _in_order(structs)
    spaces = namespace.split("::") if namespace else []
    for space in spaces:
        if not re.fullmatch(r"[A-Za-z_]\w*", space, re.ASCII) or space in _KEYWORDS:
            raise ArgumentError(f"namespace must be names joined by '::', but got {namespace!r}")
    guard = f"{_upper('_'.join([*spaces, layouts[-1].name]))}_TILING_HPP"
    parts = [
        f"#ifndef {guard}\n#define {guard}\n",
        "#include <cstddef>\n#include <cstdint>\n",
        *(f"namespace {space} {{\n" for space in spaces),
        *(
            _struct(layout, f"struct {layout.name} {{", "};") + _assertions(layout, "static_assert")
            for layout in layouts
        ),
        *(f"}}  // namespace {space}\n" for space in reversed(spaces)),
        f"#endif  // {guard}\n",
    ]
    return "\n".join(parts)


def macro_text(*structs: type[TilingData]) -> str:
    """Return the TILING_DATA_DEF text that declares the structs and those nested in them.

    Raises:
        ArgumentError: As ``c_header``, or a struct is packed, which the macros cannot say.
    """
    parts = []
    for layout in _in_order(structs):
        if layout.pack != STRUCT_ALIGNMENT:
            raise ArgumentError(
                f"struct {layout.name} must not be packed to be written in macros, "
                f"but has pack={layout.pack}"
            )
        lines = [f"BEGIN_TILING_DATA_DEF({layout.name})"]
        for item in layout.fields:
            kind = item.type
            if isinstance(kind, Layout):
                lines.append(f"    TILING_DATA_FIELD_DEF_STRUCT({kind.name}, {item.name});")
            elif isinstance(kind, Array):
                inner = f"{kind.element.c_name}, {kind.count}, {item.name}"
                lines.append(f"    TILING_DATA_FIELD_DEF_ARR({inner});")
            else:
                lines.append(f"    TILING_DATA_FIELD_DEF({kind.c_name}, {item.name});")
        parts.append("\n".join([*lines, "END_TILING_DATA_DEF;\n"]))
    return "\n".join(parts)


def _in_order(structs: Sequence[type[TilingData]]) -> list[Layout]:
    """Return the layouts, nested ones before those that hold them, each once."""
    if not structs:
        raise ArgumentError("structs must be at least one, but got none")
    found: dict[str, Layout] = {}
    for struct in structs:
        for layout in _nested(layout_of(struct)):
            if found.setdefault(layout.name, layout) != layout:
                raise ArgumentError(
                    f"structs must have different names, but got two different {layout.name}"
                )
            for name in (layout.name, *layout.by_name):
                if name in _KEYWORDS:
                    raise ArgumentError(
                        f"names in struct {layout.name} must be none of C and C++, but got {name!r}"
                    )
    return list(found.values())


def _nested(layout: Layout) -> Iterator[Layout]:
    if not layout.fields:
        raise ArgumentError(f"struct {layout.name} must have fields, but has none")
    for item in layout.fields:
        if isinstance(item.type, Layout):
            yield from _nested(item.type)
    yield layout


def _upper(name: str) -> str:
    """Return ``MATMUL_TILING_DATA`` for ``MatmulTilingData``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).upper()


def _struct(layout: Layout, head: str, foot: str) -> str:
    lines = [head, *_members(layout), foot]
    if layout.pack != STRUCT_ALIGNMENT:
        lines = [f"#pragma pack(push, {layout.pack})", *lines, "#pragma pack(pop)"]
    return "\n".join(lines) + "\n"


def _members(layout: Layout) -> Iterator[str]:
    taken = set(layout.by_name)
    for item in layout.fields:
        if item.padding:
            yield _padding(item.placeholder, item.padding, taken)
        if isinstance(item.type, Array):
            yield f"    {item.type.element.c_name} {item.name}[{item.type.count}];"
        else:
            yield f"    {item.type} {item.name};"
    if layout.tail:
        yield _padding(f"{layout.name}PH", layout.tail, taken)


def _padding(name: str, size: int, taken: set[str]) -> str:
    while name in taken:  # a field may have the name
        name += "_"
    taken.add(name)
    return f"    uint8_t {name}[{size}];"


def _assertions(layout: Layout, keyword: str) -> str:
    name = layout.name
    lines = [f'{keyword}(sizeof({name}) == {layout.size}, "size of {name}");']
    lines += [
        f'{keyword}(offsetof({name}, {item.name}) == {item.offset}, "offset of {name}.{item.name}");'
        for item in layout.fields
    ]
    return "\n".join(lines) + "\n"
