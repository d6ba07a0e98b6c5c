"""In how many turns a product with its all-reduce is fastest, on an A2, an A3 and an H100, as predicted.

`emu predict --mc2` cuts the rows of a product into turns: while one is reduced over the link, the next is multiplied. More turns hide more of the
communication, but each costs the start of a collective. No device is needed, and nothing is run: the numbers are those of the devices' files.

Run with: python examples/trace/predict_turns.py
"""

import json
import subprocess
import sys

SHAPE = "8192,2048,8192"
DEVICES = ("a2", "a3", "h100")


def predicted(device, *more):
    """Return what `emu predict` says of each number of turns, the fastest first."""
    words = [
        "predict",
        "--mc2",
        "matmul_all_reduce",
        "--shape",
        SHAPE,
        "--pes",
        "8",
        "--device",
        device,
        "--json",
        *more,
    ]
    done = subprocess.run(
        [sys.executable, "-m", "emu", *words], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


def main():
    for device in DEVICES:
        found = predicted(device)
        best = found["turns"][0]
        one = next(each for each in found["turns"] if each["turns"] == 1)
        assert best["seconds"] <= one["seconds"]
        print(
            f"{found['device']} ({found['status']}): {best['turns']} turns, {best['seconds'] * 1e3:.2f} ms, {best['hidden']:.0%} hidden; "
            f"one turn: {one['seconds'] * 1e3:.2f} ms"
        )
    slow, fast = (predicted("a2", "--link", link)["turns"][0] for link in ("0.5x", "4x"))
    assert slow["seconds"] > fast["seconds"]
    print(
        f"with half of an A2's link: {slow['seconds'] * 1e3:.2f} ms; with four times: {fast['seconds'] * 1e3:.2f} ms"
    )


if __name__ == "__main__":
    main()
