"""`emu tiling`."""

import io
import re
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from emu.comm.errors import ArgumentError
from emu.comm.tiling import Mc2Msg92, Mc2Msg128, Mc2MsgV1, make_mc2msg
from emu.commands.tiling import explain

ROOT = Path(__file__).resolve().parents[2]
LISTING = ROOT / "tests" / "comm" / "tiling" / "seed_listing.txt"
MESSAGE = Mc2MsgV1(preparePosition=1, commAlg=1, recvArgIndex=3, commOutArgIndex=4)
NESTED = """
BEGIN_TILING_DATA_DEF(Matrix)
    TILING_DATA_FIELD_DEF(uint16_t, mmVar);
    TILING_DATA_FIELD_DEF_ARR(uint16_t, 3, mmArr);
END_TILING_DATA_DEF;
BEGIN_TILING_DATA_DEF(Sample)
    TILING_DATA_FIELD_DEF(uint32_t, blkDim);
    TILING_DATA_FIELD_DEF_STRUCT(Matrix, mm);
END_TILING_DATA_DEF;
Sample tiling;
tiling.set_blkDim(8);
tiling.mm.set_mmVar(cores);
"""


def printed(file=None, **options):
    text = io.StringIO()
    explain(file, console=Console(file=text, width=160), **options)
    return text.getvalue()


def row(text, field):
    """The cells of a field's line."""
    (line,) = [line for line in text.splitlines() if re.match(rf"\s*\d.* {field}( |$)", line)]
    return re.split(r"\s{2,}", line.strip())


def write(tmp_path, content):
    path = tmp_path / "data"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(path)


def test_bytes_in_hexadecimal_are_explained(command):
    done = command("tiling", "--hex", MESSAGE.to_bytes().hex(" ", 4))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[0] == (
        "Mc2Msg: version v1, 96 bytes (96 bytes; commAlg is 1 (full mesh) at 83; "
        "recvArgIndex is 3 at 88; commOutArgIndex is 4 at 89)"
    )
    assert row(done.stdout, "commAlg") == ["83", "1", "uint8_t", "commAlg", "1", "full mesh", "01"]
    assert row(done.stdout, "sendCntPH") == ["20", "4", "padding", "sendCntPH", "00 00 00 00"]
    assert row(done.stdout, "preparePosition")[4:] == ["1", "kernel", "01 00 00 00"]


def test_a_binary_file_and_standard_input_are_explained(command, tmp_path):
    data = Mc2Msg128(sendOff=2**40, commAlg=2, recvArgIndex=1).to_bytes()
    path = write(tmp_path, data)
    done = command("tiling", path)
    assert "Mc2Msg128: version 128, 128 bytes" in done.stdout
    assert row(done.stdout, "commAlg")[4:6] == ["2", "double ring"]
    piped = subprocess.run(
        [sys.executable, "-m", "emu", "tiling", "-"],
        input=data,
        env=command.environment,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert piped.stdout.decode() == done.stdout


def test_the_listing_is_explained_with_its_values(command):
    done = command("tiling", LISTING)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Mc2Msg: 96 bytes, the message's version v1, of operator Mc2MsgOp\n" in done.stdout
    _, values = done.stdout.split("tiling: AllGatherMatmulCustomTilingData, 96 bytes\n")
    assert row(values, "msg.commAlg") == [
        "83",
        "1",
        "uint8_t",
        "msg.commAlg",
        "1",
        "full mesh",
        "01",
    ]
    assert row(values, "msg.commOutArgIndex")[0] == "89"
    assert row(values, "msg.commOutArgIndex")[-2:] == ["4", "04"]


def test_only_what_is_named_of_a_text_is_explained(tmp_path):
    path = write(tmp_path, NESTED)
    assert printed(path, name="Matrix").splitlines()[0] == "Matrix: 8 bytes"
    assert "Sample" not in printed(path, name="Matrix")
    text = printed(path, name="tiling")
    assert text.startswith("tiling: Sample, 16 bytes\n")
    assert text.endswith("line 12 has no constant value: tiling.mm.mmVar = cores\n")


def test_bytes_are_read_as_the_struct_of_macros(tmp_path):
    header = Path(write(tmp_path, NESTED))
    data = "ff" * 4 + "08000000 00000007 0100 0a00 0200 0800" + "ee" * 40
    text = printed(hexadecimal=data, struct=header, offset=4)
    assert text.startswith("Sample: 16 bytes\n")
    assert row(text, "blkDim")[0] == "4"
    assert row(text, "mmPH") == ["8", "4", "padding", "mmPH", "not zero: ignored", "00 00 00 07"]
    assert row(text, "mm.mmArr")[4:] == ["[10, 2, 8]", "0a 00 02 00 08 00"]
    assert f"40 bytes follow at 20: {'ee ' * 32}…" in text
    assert row(printed(hexadecimal="01" * 8, struct=header, name="Matrix"), "mmVar")[4] == "257"
    assert printed(hexadecimal="01" * 16, struct=header, name="tiling").startswith("Sample:")


def test_numbered_messages_are_explained():
    message = make_mc2msg("v2", task0={"opType": 6, "groupName": "hccl[red]world", "reduceType": 9})
    text = printed(hexadecimal=message.to_bytes().hex())
    assert row(text, "task0.opType")[4:] == ["6", "allgather", "06 00 00 00"]
    assert row(text, "task0.reduceType")[5] == "unknown"
    assert row(text, "task0.groupName")[4:] == ["b'hccl[red]world'", "68 63 63 6c 5b 72 65 64 …"]
    assert row(text, "config.reserved")[4] == "8 zeros"


@pytest.mark.parametrize("text", ["0x01, 0x00", "01:00", "01_00", "0100", "01 00", "0x0100"])
def test_hexadecimal_is_read_as_it_is_usually_written(text, tmp_path):
    header = "BEGIN_TILING_DATA_DEF(S) TILING_DATA_FIELD_DEF(uint16_t, a) END_TILING_DATA_DEF"
    path = Path(write(tmp_path, header))
    assert row(printed(hexadecimal=text + "00" * 6, struct=path), "a")[4] == "1"


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["--hex", "0"], 1, "hex must be pairs of hexadecimal digits, but got 1 digits"),
        (["--hex", "0g"], 1, "hex must be pairs of hexadecimal digits, but got 'g'"),
        (["--hex", "00" * 50], 1, "message must have 96 (v1), 128 (CANN 8.1 and later)"),
        (["--hex", Mc2Msg92(commAlg=1).to_bytes().hex()], 1, "is packed to 1: sendCnt at 20"),
        (["--hex", "00" * 96, "--version", "128"], 1, "but got 96, the size of version v1"),
        (["--hex", "00" * 96, "--version", "7"], 1, "version must be one of v1, 128, 112, packed"),
        (["--hex", "00" * 96, "--offset", "97"], 1, "offset must be in [0, 96], but got 97"),
        (["--hex", "00" * 96, "--offset", "-1"], 2, "must be a number of bytes, but got '-1'"),
        (["--hex", "00" * 96, "--name", "x"], 1, "name must be one in macros, but there are none"),
        (["nothing.bin"], 2, "No such file or directory: 'nothing.bin'"),
        ([], 2, "one of the arguments FILE --hex is required"),
        ([LISTING, "--name", "Mc2"], 1, "name must be one of Mc2Msg, AllGather"),
        ([LISTING, "--version", "v1"], 1, "must be given for bytes, but the file is text with macros"),
        (["--hex", "00" * 95, "--struct", LISTING], 1, "must hold the 96 bytes of AllGather"),
        (["--hex", "00", "--struct", ROOT / "LICENSE"], 1, "must be a text with TILING_DATA_DEF"),
    ],
)  # fmt: skip
def test_what_cannot_be_explained_fails_with_the_reason(arguments, status, message, command):
    done = command("tiling", *arguments)
    assert (done.returncode, done.stdout) == (status, "")
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_mistakes_in_macros_name_their_line(tmp_path):
    with pytest.raises(ArgumentError, match=r"line 3: type of field Matrix.mmVar must be one of"):
        printed(write(tmp_path, NESTED.replace("uint16_t, mmVar", "half, mmVar")))
    with pytest.raises(ArgumentError, match="text with macros must be UTF-8"):
        printed(write(tmp_path, NESTED.encode() + b"\xff"))
    with pytest.raises(ArgumentError, match="there are none"):
        printed(write(tmp_path, "// BEGIN_TILING_DATA_DEF"), emit="c")


@pytest.mark.parametrize(
    ("how", "text"),
    [
        ("c", "} Mc2Msg;\n"),
        ("cpp", "static_assert(offsetof(Mc2Msg, sendCnt) == 24"),
        ("macros", "    TILING_DATA_FIELD_DEF(uint64_t, sendCnt);\n"),
    ],
)
def test_the_struct_is_written_for_a_compiler(how, text, command):
    done = command("tiling", LISTING, "--emit", how)
    assert (done.returncode, done.stderr) == (0, "")
    assert text in done.stdout
    assert "Custom" in done.stdout
    assert "Custom" not in command("tiling", LISTING, "--emit", how, "--name", "Mc2Msg").stdout


def test_a_detected_message_is_written_for_a_compiler(capsys):
    explain(None, hexadecimal=Mc2Msg128().to_bytes().hex(), emit="c")
    assert "uint64_t sendCnt;" in capsys.readouterr().out


def test_the_command_loads_neither_numpy_nor_numba(command):
    script = command.script(
        "import sys\n"
        "from emu.commands.main import main\n"
        f"status = main(['tiling', '--hex', '{MESSAGE.to_bytes().hex()}'])\n"
        "print(status, [name for name in ('numba', 'numpy', 'torch') if name in sys.modules])\n"
    )
    done = command.python(script)
    assert done.stdout.splitlines()[-1] == "0 []", done.stderr
