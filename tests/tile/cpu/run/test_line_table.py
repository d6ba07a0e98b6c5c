"""Line tables of object files: each instruction that accesses memory is found again."""

import pytest

from emu.tile.cpu import native
from emu.tile.cpu.run.line_table import LineTable

TEXT = """
define i64 @"{name}"(ptr %p, i64 %n) !dbg !5 {{
  %a = load volatile i64, ptr %p, !dbg !6
  {middle}
  store volatile i64 %a, ptr %p, !dbg !7
  ret i64 0
}}
!llvm.dbg.cu = !{{!1}}
!llvm.module.flags = !{{!2}}
!0 = !DIFile(filename: "kernel", directory: "")
!1 = distinct !DICompileUnit(language: DW_LANG_C, file: !0, emissionKind: DebugDirectivesOnly)
!2 = !{{i32 2, !"Debug Info Version", i32 3}}
!3 = !DISubroutineType(types: !4)
!4 = !{{}}
!5 = distinct !DISubprogram(name: "f", file: !0, line: 1, type: !3, unit: !1, spFlags: DISPFlagDefinition)
!6 = !DILocation(line: {first}, scope: !5)
!7 = !DILocation(line: {second}, scope: !5)
"""


@pytest.mark.parametrize(("first", "second"), [(1, 2), (2, 1), (300, 70_000), (70_000, 3)])
@pytest.mark.parametrize("length", [0, 40, 400])
def test_places_of_instructions(first, second, length):
    middle = "\n".join(f"  %x{n} = load volatile i64, ptr %p" for n in range(length))
    name = native.new_name("lines")
    code = native.to_object(TEXT.format(name=name, middle=middle, first=first, second=second))
    table = LineTable(code, name)
    found = [table.find(at) for at in range(-8, 6000) if table.has(at)]
    told = [place for n, place in enumerate(found) if place and place != (found[n - 1] if n else 0)]
    assert told == [first, second]
    assert not table.has(-1)
    assert not table.has(6000)


def test_code_without_a_table():
    name = native.new_name("lines")
    code = native.to_object(f'define i64 @"{name}"() {{\n  ret i64 0\n}}')
    assert LineTable(code, name).find(0) is None
    with pytest.raises(ValueError, match="ELF"):
        LineTable(b"MZ and more", name)
