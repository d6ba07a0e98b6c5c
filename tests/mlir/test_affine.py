"""Affine maps, which are carried as text."""

from emu.mlir import parse, to_text


def test_affine_maps_get_short_names() -> None:
    module = parse(
        """
        #m = affine_map<(i, j)[n] -> (j, i + n)>
        #s = affine_set<(i) : (i >= 0)>
        "t.a"() {x = #m, y = [#m, affine_map<() -> ()>], z = #s, w = "affine_map<>"} : () -> ()
        """
    )
    assert to_text(module) == (
        "#map = affine_map<(d0, d1)[s0] -> (d1, d0 + s0)>\n"
        "#map1 = affine_map<() -> ()>\n"
        "#set = affine_set<(d0) : (d0 >= 0)>\n"
        "module {\n"
        '  "t.a"() {w = "affine_map<>", x = #map, y = [#map, #map1], z = #set} : () -> ()\n'
        "}\n"
    )
    assert to_text(parse(to_text(module))) == to_text(module)
