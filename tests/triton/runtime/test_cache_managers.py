"""Folders of files that programs keep beside kernels."""

import os

import pytest

from emu.triton import knobs
from emu.triton.runtime import cache


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(knobs, "propagate_env", False)
    with knobs.cache.scope():
        knobs.cache.dir = str(tmp_path / "cache")
        knobs.cache.dump_dir = str(tmp_path / "dump")
        knobs.cache.override_dir = str(tmp_path / "override")
        yield tmp_path


def test_a_file_is_found_under_its_key(folder):
    manager = cache.get_cache_manager("ff00")
    path = manager.put("text", "a.txt")
    assert path == os.path.join(folder, "cache", "74AA", "a.txt")
    assert manager.get_file("a.txt") == path
    with open(path) as file:
        assert file.read() == "text"
    assert manager.put(b"\0", "a.txt", binary=True) == path
    with open(path, "rb") as file:
        assert file.read() == b"\0"
    assert os.listdir(manager.cache_dir) == ["a.txt"]  # nothing temporary is left
    assert cache.get_cache_manager("ff01").get_file("a.txt") is None
    assert cache.get_dump_manager("ff00").cache_dir == os.path.join(folder, "dump", "74AA")
    assert cache.get_override_manager("ff00").get_file("a.txt") is None


def test_a_group_is_there_as_a_whole_or_not_at_all(folder):
    manager = cache.FileCacheManager("key")
    paths = {name: manager.put(name, name) for name in ("a", "b")}
    assert manager.get_group("a") is None
    manager.put_group("a", paths)
    assert manager.get_group("a") == paths
    os.remove(paths["b"])
    assert manager.get_group("a") is None
    manager.put("{ damaged", "__grp__a")
    assert manager.get_group("a") is None


class Store(cache.RemoteCacheBackend):
    files = {}  # noqa: RUF012 - of all instances, as a remote store is

    def get(self, filenames):
        return {n: self.files[self.key, n] for n in filenames if (self.key, n) in self.files}

    def put(self, filename, data):
        self.files[self.key, filename] = data


def test_files_of_a_remote_store_are_copied(folder):
    knobs.cache.remote_manager_class = Store
    manager = cache.RemoteCacheManager("key")
    manager.put("{}", "a.json")
    manager.put(b"\1", "a.bin")
    manager.put_group("a.json", {"a.json": "", "a.bin": ""})
    assert Store.files["key", "a.json"] == b"{}"
    group = manager.get_group("a.json")
    with open(group["a.bin"], "rb") as file:
        assert file.read() == b"\1"
    del Store.files["key", "a.bin"]
    assert manager.get_group("a.json") is None
    assert manager.get_file("a.bin") is None
    local = cache.RemoteCacheManager("key", dump=True)
    local.put_group("x", {"x": local.put("y", "x")})
    assert local.get_group("x") == {"x": local.get_file("x")}
    assert ("key", "x") not in Store.files


def test_without_a_store_or_a_folder_an_error_says_so(folder):
    with pytest.raises(RuntimeError, match=r"remote_manager_class .* must be a class, but is None"):
        cache.RemoteCacheManager("key")
    knobs.cache.dir = ""
    with pytest.raises(RuntimeError, match=r"knobs\.cache\.dir must name a folder, but is empty"):
        cache.FileCacheManager("key")


def test_a_program_may_put_its_own_class_there(folder):
    class Own(cache.FileCacheManager):
        pass

    knobs.cache.manager_class = Own
    assert type(cache.get_cache_manager("00")) is Own


def test_the_compiler_has_a_key():
    from emu.triton.compiler.compiler import triton_key

    assert triton_key is cache.triton_key
    assert triton_key() == f"emu-{cache.sources_digest()}"
