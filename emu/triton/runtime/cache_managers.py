"""Folders of files by key, which programs keep beside Triton's kernels: ``triton.runtime.cache.get_cache_manager``.

emu's own compiled kernels are elsewhere, see :mod:`emu.triton.runtime.cache`.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

from emu.triton import knobs
from emu.triton.runtime.checks import as_mapping, check_text

_GROUP = "__grp__"


class CacheManager:
    """Base of what keeps the files of one key.

    Args:
        key: A text that may name a folder.
        override: Use the folder ``knobs.cache.override_dir``, whose files replace others.
        dump: Use the folder ``knobs.cache.dump_dir``, whose files are for reading.
    """

    def __init__(self, key: str, override: bool = False, dump: bool = False) -> None:
        self.key = key

    def get_file(self, filename: str) -> str | None:
        """Return the path of a file, or None."""
        raise NotImplementedError

    def put(self, data: bytes | str, filename: str, binary: bool = True) -> str:
        """Write a file; return its path."""
        raise NotImplementedError

    def get_group(self, filename: str) -> dict[str, str] | None:
        """Return the paths of the files of a group by name; None unless all are there."""
        raise NotImplementedError

    def put_group(self, filename: str, group: Mapping[str, str]) -> str:
        """Note which files, by name, make a group; return the path of the note."""
        raise NotImplementedError


class FileCacheManager(CacheManager):
    """Keeper of the files of one key in a folder of ``knobs.cache.dir``.

    Attributes:
        key: The key.
        cache_dir: The folder of its files.
        lock_path: A path for a lock in it; None of the folder ``override_dir``.

    Raises:
        RuntimeError: ``knobs.cache.dir`` is empty.
    """

    def __init__(self, key: str, override: bool = False, dump: bool = False) -> None:
        super().__init__(key)
        settings = knobs.cache
        base = settings.dump_dir if dump else settings.override_dir if override else settings.dir
        if not base:
            raise RuntimeError("knobs.cache.dir must name a folder, but is empty")
        self.cache_dir = os.path.join(base, key)
        self.lock_path: str | None = None
        if dump or not override:
            self.lock_path = os.path.join(self.cache_dir, "lock")
            os.makedirs(self.cache_dir, exist_ok=True)

    def _make_path(self, filename: str) -> str:
        return os.path.join(self.cache_dir, check_text("filename", filename))

    def has_file(self, filename: str) -> bool:
        """Return whether there is a file of this name."""
        return os.path.exists(self._make_path(filename))

    def get_file(self, filename: str) -> str | None:
        """Return the path of a file, or None."""
        return self._make_path(filename) if self.has_file(filename) else None

    def put(self, data: bytes | str, filename: str, binary: bool = True) -> str:
        """Write a file by an atomic rename; return its path.

        Args:
            data: Bytes; anything else is written as text.
            filename: Its name.
            binary: Ignored: ``data`` says it.
        """
        del binary
        check_text("filename", filename)
        content = data if isinstance(data, bytes) else str(data).encode()
        os.makedirs(self.cache_dir, exist_ok=True)
        number, temporary = tempfile.mkstemp(prefix="tmp.", dir=self.cache_dir)
        with open(number, "wb") as file:
            file.write(content)
        path = self._make_path(filename)
        os.replace(temporary, path)
        return path

    def get_group(self, filename: str) -> dict[str, str] | None:
        """Return the paths of the files of a group by name; None unless all are there."""
        paths = _read_group(self.get_file(_GROUP + check_text("filename", filename)))
        if not isinstance(paths, dict) or not all(map(os.path.exists, paths.values())):
            return None
        return paths

    def put_group(self, filename: str, group: Mapping[str, str]) -> str:
        """Note which files, by name, make a group; return the path of the note."""
        paths = as_mapping("group", group)
        for path in paths.values():
            check_text("a path of group", path)
        return self.put(
            json.dumps({"child_paths": paths}), _GROUP + check_text("filename", filename)
        )


def _read_group(path: str | None) -> Any:
    """Return what a note of a group lists; None if there is none, or it is damaged."""
    if path is None:
        return None
    with contextlib.suppress(OSError, ValueError, AttributeError), open(path) as file:
        return json.load(file).get("child_paths")
    return None


class RemoteCacheBackend:
    """Base of remote stores of the files of one key.

    Args:
        key: The key.
    """

    def __init__(self, key: str) -> None:
        self.key = key

    def get(self, filenames: Sequence[str]) -> dict[str, bytes]:
        """Return the contents of those files that there are."""
        raise NotImplementedError

    def put(self, filename: str, data: bytes) -> object:
        """Store a file."""
        raise NotImplementedError


class RedisRemoteCacheBackend(RemoteCacheBackend):
    """Store of files in Redis, at ``knobs.redis``.

    Raises:
        ModuleNotFoundError: The package redis is not installed.
    """

    def __init__(self, key: str) -> None:
        import redis  # type: ignore[import-not-found, import-untyped, unused-ignore]  # optional

        super().__init__(key)
        self._redis = redis.Redis(host=knobs.redis.host, port=knobs.redis.port)

    def _key(self, filename: str) -> str:
        return knobs.redis.key_format.format(key=self.key, filename=filename)

    def get(self, filenames: Sequence[str]) -> dict[str, bytes]:
        """Return the contents of those files that there are."""
        found = self._redis.mget([self._key(name) for name in filenames])
        return {n: data for n, data in zip(filenames, found, strict=True) if data is not None}

    def put(self, filename: str, data: bytes) -> object:
        """Store a file."""
        return self._redis.set(self._key(filename), data)


class RemoteCacheManager(CacheManager):
    """Keeper of the files of one key in a remote store, with copies in a folder.

    Raises:
        RuntimeError: ``knobs.cache.remote_manager_class`` is not set.
    """

    def __init__(self, key: str, override: bool = False, dump: bool = False) -> None:
        super().__init__(key)
        store = knobs.cache.remote_manager_class
        if store is None:
            raise RuntimeError(
                "knobs.cache.remote_manager_class (TRITON_REMOTE_CACHE_BACKEND) must be a class, but is None"
            )
        self._files = FileCacheManager(key, override, dump)
        self._store: RemoteCacheBackend | None = None if override or dump else store(key)

    def get_file(self, filename: str) -> str | None:
        """Return the path of a copy of a file, or None."""
        if self._store is None:
            return self._files.get_file(filename)
        found = self._store.get([filename])
        return self._files.put(found[filename], filename) if filename in found else None

    def put(self, data: bytes | str, filename: str, binary: bool = True) -> str:
        """Store a file; return the path of its copy."""
        if self._store is not None:
            data = data if isinstance(data, bytes) else str(data).encode()
            self._store.put(filename, data)
        return self._files.put(data, filename)

    def get_group(self, filename: str) -> dict[str, str] | None:
        """Return the paths of copies of the files of a group by name; None unless all are there."""
        if self._store is None:
            return self._files.get_group(filename)
        names = _read_group(self.get_file(_GROUP + filename))
        if names is None:
            return None
        found = self._store.get(list(names))
        if len(found) != len(names):
            return None
        return {name: self._files.put(data, name) for name, data in found.items()}

    def put_group(self, filename: str, group: Mapping[str, str]) -> str:
        """Note which files, by name, make a group; return the path of the copy of the note."""
        if self._store is None:
            return self._files.put_group(filename, group)
        return self.put(json.dumps({"child_paths": sorted(group)}), _GROUP + filename)


def _folder_name(key: str) -> str:
    """Return a digest in base 16 as a shorter text that can name a folder."""
    try:
        digest = bytes.fromhex(check_text("key", key))
    except ValueError:
        raise ValueError(f"key must be a digest in base 16, but got {key!r:.60}") from None
    return base64.b32encode(digest).decode().rstrip("=")


def _base32(key: str) -> str:
    """Return a digest in base 16 as a text that can name a folder; programs import it."""
    return _folder_name(key)


def default_cache_dir() -> str:
    """Return the folder of cached files, as older releases of Triton name it."""
    return knobs.cache.dir


def default_override_dir() -> str:
    """Return the folder of files that replace others."""
    return knobs.cache.override_dir


def default_dump_dir() -> str:
    """Return the folder of files that are for reading."""
    return knobs.cache.dump_dir


def _manager(key: str, **which: bool) -> CacheManager:
    cls: Any = knobs.cache.manager_class or FileCacheManager
    made: CacheManager = cls(_folder_name(key), **which)
    return made


def get_cache_manager(key: str) -> CacheManager:
    """Return the keeper of the files of a key, a digest in base 16."""
    return _manager(key)


def get_override_manager(key: str) -> CacheManager:
    """Return the keeper of the files that replace others."""
    return _manager(key, override=True)


def get_dump_manager(key: str) -> CacheManager:
    """Return the keeper of files that are for reading."""
    return _manager(key, dump=True)
