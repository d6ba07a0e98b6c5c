"""The tile IR as text, and back.

A module is its functions, then the table of the locations that its operations name::

    func @kernel(%x: ptr<f32>, %n: i32) {
      %0 = arange {start = 0, end = 8} : tile<8xi32> at #0
      %1 = splat %x : tile<8xptr<f32>>
      %2 = ptr_add %1, %0 : tile<8xptr<f32>>
      %row = load %2 : tile<8xf32>
      %total = reduce %row {axis = 0} : f32 (%3: f32, %4: f32) {
        %5 = add %3, %4 : f32
        yield %5
      }
      store %x, %total
      return
    }
    #0 = "kernel.py":3:9 in "kernel"
    #1 = "lib.py":7:5 in "helper" called at #0

An operation is its results, its name, its operands, its attributes, the types of its results, its regions
and its location. Values without a name are numbered; ``%row#1`` is the second value of that name; names
that are no identifiers are quoted. Numbers are exact: ``inf``, ``nan``, and ``nan(0x7ff8000000000001)``
for a NaN with other bits. ``//`` begins a comment.
"""

from emu.tile.text.parser import ParseError, parse_module
from emu.tile.text.printer import print_module

__all__ = ["ParseError", "parse_module", "print_module"]
