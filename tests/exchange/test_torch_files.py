"""PyTorch's files without PyTorch: what is read and written, and what is refused without being run."""

from __future__ import annotations

import json
import os
import pickle
import struct
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from omg.errors import UserError
from omg.exchange import read_torch, write_torch
from omg.exchange.pickled import MOST_STEPS

GOLDEN = Path(__file__).parents[1] / "golden" / "pymarl"
VALUES: dict[str, Any] = {
    "weight": np.arange(12, dtype=np.float32).reshape(3, 4),
    "long": np.array([2**40, -1]),
    "number": np.array(2.5),
    "none": np.zeros((0, 3), np.float32),
    "plain": [1, -5, 2**70, 1.5, True, None, "ü", {3: "three"}],
}


def torch_zip(path: Path, data: bytes, storages: dict[str, bytes] | None = None, **changes: Any) -> Path:
    """A file like PyTorch's around any pickle."""
    with zipfile.ZipFile(path, "w", changes.get("compression", zipfile.ZIP_STORED)) as archive:
        archive.writestr("archive/data.pkl", data)
        archive.writestr("archive/byteorder", changes.get("byteorder", "little"))
        for key, stored in (storages or {}).items():
            archive.writestr(f"archive/data/{key}", stored)
    return path


def tensor_pickle(offset: Any, size: Any, stride: Any, numel: int = 12, key: str = "0") -> bytes:
    """One tensor of float32 numbers under the name `t`, of any shape at all."""
    reference = b"(X\x07\x00\x00\x00storagectorch\nFloatStorage\n" + b"X" + struct.pack("<I", len(key)) + key.encode()
    reference += b"X\x03\x00\x00\x00cpuJ" + struct.pack("<i", numel) + b"tQ"
    numbers = b"".join(pickle.dumps(value, 2)[2:-1] for value in (offset, size, stride))
    tensor = b"ctorch._utils\n_rebuild_tensor_v2\n(" + reference + numbers + b"\x89ccollections\nOrderedDict\n)RtR"
    return b"\x80\x02}X\x01\x00\x00\x00t" + tensor + b"s."


def refusal(path: Path) -> str:
    with pytest.raises(UserError) as caught:
        read_torch(path)
    return str(caught.value)


def test_what_is_written_is_read_again(tmp_path: Path):
    write_torch(tmp_path / "a.th", VALUES)
    found = read_torch(tmp_path / "a.th")
    assert list(found) == list(VALUES)
    for name in ("weight", "long", "number", "none"):
        assert found[name].dtype == VALUES[name].dtype
        np.testing.assert_array_equal(found[name], VALUES[name])
    assert found["plain"] == VALUES["plain"]
    first = (tmp_path / "a.th").read_bytes()
    write_torch(tmp_path / "a.th", VALUES)
    assert (tmp_path / "a.th").read_bytes() == first


def test_files_of_pytorch_are_read_in_both_formats():
    said = json.loads((GOLDEN / "said.json").read_text())
    agent, mixer, optimiser = (read_torch(GOLDEN / f"{name}.th") for name in ("agent", "mixer", "opt"))
    assert not zipfile.is_zipfile(GOLDEN / "agent.th")
    assert zipfile.is_zipfile(GOLDEN / "mixer.th")
    gates = ["rnn.weight_ih", "rnn.weight_hh", "rnn.bias_ih", "rnn.bias_hh"]
    assert list(agent) == ["fc1.weight", "fc1.bias", *gates, "fc2.weight", "fc2.bias"]
    assert agent["rnn.weight_hh"].shape == (12, 4)
    assert mixer["hyper_w_1.weight"].shape == (8, 9)
    np.testing.assert_allclose(optimiser["state"][3]["square_avg"], said["square_avg"], rtol=1e-6)
    assert optimiser["param_groups"][0]["alpha"] == 0.99


def test_pytorch_reads_what_is_written(tmp_path: Path):
    torch = pytest.importorskip("torch")
    write_torch(tmp_path / "a.th", VALUES)
    found = torch.load(tmp_path / "a.th", weights_only=True)
    for name in ("weight", "long", "number", "none"):
        np.testing.assert_array_equal(found[name].numpy(), VALUES[name])
    assert found["plain"] == VALUES["plain"]


@pytest.mark.parametrize("new", [True, False])
@pytest.mark.parametrize("protocol", [2, 4])
def test_views_types_and_protocols_of_pytorch(tmp_path: Path, new: bool, protocol: int):
    torch = pytest.importorskip("torch")
    w = torch.randn(6, 4)
    given = {
        "t": w.t(),
        "cut": w[2:4, 1:3],
        "half": w.half(),
        "bf": w.bfloat16(),
        "bool": w > 0,
        "p": torch.nn.Parameter(w),
    }
    torch.save(OrderedDict(given), tmp_path / "a.th", _use_new_zipfile_serialization=new, pickle_protocol=protocol)
    for name, array in read_torch(tmp_path / "a.th").items():
        wanted = given[name].detach()
        np.testing.assert_array_equal(array, (wanted.float() if name == "bf" else wanted).numpy())


class Hostile:
    """Runs a command when it is unpickled."""

    def __init__(self, command: str):
        self.command = command

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (self.command,)


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("zipped", [True, False])
def test_a_hostile_pickle_is_refused_and_nothing_is_run(tmp_path: Path, protocol: int, zipped: bool):
    data = pickle.dumps({"fc1.weight": Hostile(f"touch {tmp_path}/run")}, protocol)
    path = tmp_path / "agent.th"
    if zipped:
        torch_zip(path, data)
    else:
        parts = (0x1950A86A20F9469CFC6C, 1001, {"protocol_version": 1001, "little_endian": True})
        path.write_bytes(b"".join(pickle.dumps(part, 2) for part in parts) + data)
    message = refusal(path)
    assert "\n" not in message
    assert "system" in message or "pickle instruction" in message
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x80\x02cbuiltins\neval\nX\x01\x00\x00\x001\x85R.", "builtins.eval"),
        (b"\x80\x02ctorch\nFloatStorage\n)R.", "it calls something"),
        (b"\x80\x02X\x01\x00\x00\x00a)R.", "it calls something"),
        (b"\x80\x02ccollections\nOrderedDict\n)\x81.", "pickle instruction NEWOBJ"),
        (b"\x80\x02(cos\nsystem\no.", "os.system"),
        (b"(S'true'\nios\nsystem\n.", "pickle instruction"),
        (b"\x80\x02}()Nu.", "a tuple is a key"),
        (b"\x80\x02]X\x01\x00\x00\x00aX\x01\x00\x00\x00bs.", "fills a list as if it were a dict"),
        (b"\x80\x02Nb.", "it is damaged"),
        (b"\x80\x02}", "it is damaged"),
        (b"", "it is damaged"),
        (b"\x80\x02" + b"]" * 60 + b"a" * 59 + b".", "nested too deeply"),
        (b"\x80\x02N" + b"0N" * MOST_STEPS + b".", "pickle instruction POP"),
        (b"\x80\x02" + b"N" * (MOST_STEPS + 1) + b".", "more than"),
    ],
)
def test_other_pickles_are_refused(tmp_path: Path, data: bytes, message: str):
    assert message in refusal(torch_zip(tmp_path / "a.th", data))


def test_a_small_file_cannot_stand_for_a_huge_one(tmp_path: Path):
    # Five lists, each of a hundred times the one before: ten thousand million in a few hundred bytes.
    lists = (b"](" + (b"h" + bytes([k])) * 100 + b"eq" + bytes([k + 1]) for k in range(5))
    nested = b"\x80\x02]q\x00" + b"".join(lists)
    assert "too many of them" in refusal(torch_zip(tmp_path / "a.th", nested + b"."))


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((0, (3, 4), (4, 1)), None),
        ((2, (2, 2), (5, 1)), None),
        ((0, (3, 4), (1, 3)), None),
        ((1, (3, 4), (4, 1)), "reaches beyond its 12 numbers"),
        ((0, (4, 4), (4, 1)), "reaches beyond its 12 numbers"),
        ((13, (0,), (1,)), "reaches beyond its 12 numbers"),
        ((-1, (3,), (1,)), "are not allowed"),
        ((11, (3,), (-1,)), "are not allowed"),
        ((0, (-3,), (1,)), "are not allowed"),
        ((0, (10**12,), (0,)), "overlap"),
        ((0, (2, 2), (1, 1)), "overlap"),
        ((0, (3, 3), (2, 1)), "overlap"),
        ((0, (3,), (1, 1)), "cannot be read"),
        ((0, (3.0,), (1,)), "cannot be read"),
        ((None, (3,), (1,)), "cannot be read"),
    ],
)
def test_tensors_lie_within_their_numbers(tmp_path: Path, shape: tuple[Any, ...], message: str | None):
    numbers = np.arange(12, dtype="<f4")
    path = torch_zip(tmp_path / "a.th", tensor_pickle(*shape), {"0": numbers.tobytes()})
    if message is not None:
        assert message in refusal(path)
        return
    offset, size, stride = shape
    wanted = [[numbers[offset + i * stride[0] + j * stride[1]] for j in range(size[1])] for i in range(size[0])]
    np.testing.assert_array_equal(read_torch(path)["t"], wanted)


def test_files_that_contradict_themselves_are_refused(tmp_path: Path):
    path, data, numbers = tmp_path / "a.th", tensor_pickle(0, (12,), (1,)), np.zeros(12, "<f4").tobytes()
    assert "no data/0" in refusal(torch_zip(path, data))
    assert "does not hold" in refusal(torch_zip(path, data, {"0": numbers[:-4]}))
    assert "bytes in" in refusal(torch_zip(path, data, {"0": numbers + numbers}))
    assert "compressed" in refusal(torch_zip(path, data, {"0": numbers}, compression=zipfile.ZIP_DEFLATED))
    assert "little-endian" in refusal(torch_zip(path, data, {"0": numbers}, byteorder="big"))
    assert "in a way that PyTorch does not" in refusal(torch_zip(path, tensor_pickle(0, (1,), (1,), -1), {"0": b""}))
    assert "no data/../version" in refusal(torch_zip(path, tensor_pickle(0, (1,), (1,), key="../version")))
    for name in ("agent.th", "mixer.th"):
        whole = (GOLDEN / name).read_bytes()
        for length in (0, 10, len(whole) // 2, len(whole) - 1):
            path.write_bytes(whole[:length])
            assert str(path) in refusal(path)
    path.write_text("not a checkpoint")
    assert "no file of PyTorch's" in refusal(path)
    assert "cannot be read" in refusal(tmp_path / "nothing.th")
    with path.open("wb") as file:
        file.truncate((1 << 30) + 1)
    assert "Allowed: 1,073,741,824 at most" in refusal(path)
