"""Repositories of Hugging Face's hub, through its own library (`pip install 'omg-marl[hub]'`).

The library finds the user's token by itself (HF_TOKEN, or what `hf auth login` has stored); nothing here reads it.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING

from omg.errors import UserError
from omg.names import inert
from omg.sharing.archive import Source
from omg.sharing.contents import MOST_FILES
from omg.sharing.places import Place

if TYPE_CHECKING:
    from huggingface_hub import HfFileSystem


def check_installed() -> None:
    """Raises `UserError` where the library is missing; its reports of use are off unless the user wants them."""
    if find_spec("huggingface_hub") is None:
        raise UserError(
            "hf:// addresses need the package huggingface_hub, which is not installed. Install it with: "
            "pip install 'omg-marl[hub]'"
        )
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")


def upload(place: Place, folder: Path, *, public: bool) -> str:
    """Puts a folder into a repository as one commit; the repository is made if there is none.

    Args:
        place: the repository.
        folder: all of it is shared.
        public: who may read a repository that is made: everybody, or the owner.

    Returns:
        The address of the commit.

    Raises:
        UserError: the hub does not answer or does not take it.
    """
    check_installed()
    if place.revision is not None:
        raise UserError(f"{place.shown}: a revision is made by pushing; leave @{inert(place.revision)} out.")
    with _told(place):
        from huggingface_hub import HfApi

        api = HfApi()
        api.create_repo(place.repository, private=not public, exist_ok=True)
        done = api.upload_folder(repo_id=place.repository, folder_path=folder, commit_message="omg push")
        return str(done.commit_url)


@contextmanager
def open_repository(place: Place) -> Iterator[Source]:
    """The files of a repository at one revision, that of this moment unless the address names one.

    Raises:
        UserError: there is no such repository, or the hub does not answer.
    """
    check_installed()
    with _told(place):
        from huggingface_hub import HfApi, HfFileSystem
        from huggingface_hub.hf_api import RepoFile

        # One commit, however long it takes: files of two must not be mixed.
        api = HfApi()
        sha = api.repo_info(place.repository, revision=place.revision).sha
        tree = islice(api.list_repo_tree(place.repository, recursive=True, revision=sha), 4 * MOST_FILES)
        sizes = {entry.path: entry.size for entry in tree if isinstance(entry, RepoFile)}
        files = HfFileSystem(skip_instance_cache=True)
    yield _Repository(place, files, f"{place.repository}@{sha}", sizes)


class _Repository:
    """Implements `Source`."""

    def __init__(self, place: Place, files: HfFileSystem, root: str, sizes: Mapping[str, int]) -> None:
        self._place, self._files, self._root, self._sizes = place, files, root, sizes

    @property
    def sizes(self) -> Mapping[str, int]:
        return self._sizes

    def open(self, place: str) -> io.RawIOBase:
        with _told(self._place):
            # 0: one answer, read as it comes; asked for with the first read.
            return _Stream(self._place, self._files.open(f"{self._root}/{place}", "rb", block_size=0))


class _Stream(io.RawIOBase):
    """A file of the hub; what goes wrong while it is read is told as anywhere else."""

    def __init__(self, place: Place, stream: IO[bytes]) -> None:
        self._place, self._stream = place, stream

    def read(self, size: int = -1) -> bytes:
        with _told(self._place):
            return self._stream.read(size)

    def close(self) -> None:
        with suppress(Exception):  # It was read to its end, or given up.
            self._stream.close()
        super().close()


@contextmanager
def _told(place: Place) -> Iterator[None]:
    """Whatever goes wrong between here and the hub, of whichever library, becomes one line."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        said = inert(" ".join(str(error).split()))[:300]
        raise UserError(
            f"{place.shown}: the hub refuses or does not answer ({type(error).__name__}: {said})."
        ) from None
