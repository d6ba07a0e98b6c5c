"""The reader of array files, against files written by hand, whole and broken."""

import json
import struct

import ml_dtypes
import numpy as np
import pytest

from emu.commands.weights import WeightFileError, float_matrices, read


def write(path, header, data=b"", *, length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text) if length is None else length) + text + data)
    return path


def entry(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


@pytest.fixture
def file(tmp_path):
    return tmp_path / "w.safetensors"


def test_tensors_of_several_dtypes_come_back_in_file_order(file):
    weights = np.arange(6, dtype=np.float32).reshape(2, 3).astype(ml_dtypes.bfloat16)
    ids = np.array([7, -8], np.int64)
    halves = np.array([[1.5], [-2.5]], np.float16)
    header = {
        "__metadata__": {"format": "np"},
        "halves": entry("F16", [2, 1], 28, 32),
        "weights": entry("BF16", [2, 3], 0, 12),
        "ids": entry("I64", [2], 12, 28),
    }
    arrays = read(write(file, header, weights.tobytes() + ids.tobytes() + halves.tobytes()))
    assert list(arrays) == ["weights", "ids", "halves"]
    assert arrays["weights"].dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(arrays["weights"], weights)
    np.testing.assert_array_equal(arrays["ids"], ids)
    np.testing.assert_array_equal(arrays["halves"], halves)
    assert not arrays["weights"].flags.writeable


def test_a_header_padded_with_spaces_and_odd_alignment_are_read(file):
    text = json.dumps({"a": entry("U8", [1], 0, 1), "b": entry("F32", [1], 1, 5)}).encode() + b"   "
    arrays = read(write(file, text, b"\x07" + struct.pack("<f", 2.5)))
    assert arrays["a"].tolist() == [7]
    assert arrays["b"].tolist() == [2.5]


def test_scalars_and_empty_tensors_are_read(file):
    header = {"none": entry("F32", [0, 4], 0, 0), "one": entry("F32", [], 0, 4)}
    arrays = read(write(file, header, struct.pack("<f", 3.0)))
    assert arrays["none"].shape == (0, 4)
    assert arrays["one"].shape == ()
    assert float(arrays["one"]) == 3.0


def test_a_file_without_tensors_is_read(file):
    assert read(write(file, {})) == {}


@pytest.mark.parametrize(
    ("header", "data", "message"),
    [
        ({"a": entry("F32", [2], 0, 8)}, b"\0" * 7, "need 8 bytes and the file has 7"),
        ({"a": entry("F32", [2], 0, 8)}, b"\0" * 9, "need 8 bytes and the file has 9"),
        ({"a": entry("F32", [2], 0, 4)}, b"\0" * 4, "must have 8 bytes, but got 4"),
        ({"a": entry("F32", [1], 4, 8)}, b"\0" * 8, "must begin at byte 0"),
        (
            {"a": entry("F32", [2], 0, 8), "b": entry("F32", [1], 4, 8)},
            b"\0" * 8,
            "'b': must begin at byte 8",
        ),
        ({"a": entry("F32", [1], 4, 0)}, b"\0" * 4, "must be \\[begin, end\\]"),
        ({"a": entry("F32", [1], 0, 2**70)}, b"\0" * 4, "must have 4 bytes"),
        ({"a": entry("F32", [2**40, 2**40], 0, 4)}, b"\0" * 4, "must have .* bytes, but got 4"),
        ({"a": entry("F32", [-1], 0, 4)}, b"\0" * 4, "shape must be a list of counts"),
        ({"a": entry("F32", [True], 0, 4)}, b"\0" * 4, "shape must be a list of counts"),
        ({"a": entry("F32", [1.0], 0, 4)}, b"\0" * 4, "shape must be a list of counts"),
        ({"a": entry("F32", "1", 0, 4)}, b"\0" * 4, "shape must be a list of counts"),
        ({"a": entry("F32", [1], 0, "4")}, b"\0" * 4, "data_offsets must be a list of counts"),
        ({"a": {**entry("F32", [1], 0, 4), "data_offsets": [0]}}, b"\0" * 4, "\\[begin, end\\]"),
        ({"a": entry("C64", [1], 0, 8)}, b"\0" * 8, "dtype must be one of .*, but got 'C64'"),
        ({"a": entry(["F32"], [1], 0, 4)}, b"\0" * 4, "dtype must be one of"),
        ({"a": {"dtype": "F32", "shape": [1]}}, b"\0" * 4, "must have exactly"),
        ({"a": 3}, b"", "must have exactly"),
        ([1, 2], b"", "must be a JSON object, but got list"),
        (b"{not json", b"", "not valid JSON"),
        (b"\xff\xfe{}", b"", "not valid JSON"),
        (b"", b"", "not valid JSON"),
        (b"[" * 100_000, b"", "not valid JSON"),
        (b'{"a": 1, "a": 2}', b"", "occurs twice"),
    ],
)
def test_a_header_that_contradicts_itself_is_refused(file, header, data, message):
    with pytest.raises(WeightFileError, match=message):
        read(write(file, header, data))


@pytest.mark.parametrize("length", [3, 2**63, 2**64 - 1])
def test_a_header_length_past_the_end_is_refused(file, length):
    with pytest.raises(WeightFileError, match=f"its length field says {length}"):
        read(write(file, b"{}", length=length))


@pytest.mark.parametrize("kept", range(8))
def test_a_file_shorter_than_its_length_field_is_refused(file, kept):
    file.write_bytes(b"\0" * kept)
    with pytest.raises(WeightFileError, match=f"at least 8 bytes long, but got {kept}"):
        read(file)


def test_every_truncation_of_a_whole_file_is_refused(file):
    whole = write(file, {"a": entry("F32", [2], 0, 8)}, b"\0" * 8).read_bytes()
    read(file)
    for kept in range(len(whole)):
        file.write_bytes(whole[:kept])
        with pytest.raises(WeightFileError):
            read(file)


def test_npy_files_are_read_and_named_by_their_stem(tmp_path):
    array = np.arange(6, dtype=np.float16).reshape(3, 2)
    np.save(tmp_path / "weights.npy", array)
    arrays = read(tmp_path / "weights.npy")
    assert list(arrays) == ["weights"]
    np.testing.assert_array_equal(arrays["weights"], array)


def test_every_truncation_of_an_npy_file_is_refused(tmp_path):
    path = tmp_path / "a.npy"
    np.save(path, np.ones((2, 2), np.float32))
    whole = path.read_bytes()
    for kept in range(0, len(whole), 5):
        path.write_bytes(whole[:kept])
        with pytest.raises(WeightFileError, match=r"not a whole \.npy file"):
            read(path)


def test_pickled_objects_and_other_suffixes_are_refused(tmp_path):
    np.save(tmp_path / "o.npy", np.array([{}], object), allow_pickle=True)
    with pytest.raises(WeightFileError, match="plain numbers"):
        read(tmp_path / "o.npy")
    with pytest.raises(WeightFileError, match="suffix must be"):
        read(tmp_path / "w.bin")
    with pytest.raises(OSError, match="No such file"):
        read(tmp_path / "absent.safetensors")


def test_float_matrices_keeps_only_matrices_of_the_weight_dtypes():
    arrays = {
        "half": np.ones((2, 3), np.float16),
        "bf16": np.ones((2, 3), ml_dtypes.bfloat16),
        "single": np.ones((1, 1), np.float32),
        "double": np.ones((2, 3), np.float64),
        "ids": np.ones((2, 3), np.int32),
        "bias": np.ones(3, np.float32),
        "stack": np.ones((2, 2, 2), np.float32),
        "empty": np.ones((0, 3), np.float32),
    }
    assert list(float_matrices(arrays)) == ["half", "bf16", "single"]
