"""Files are written completely or not at all, and only regular files are replaced."""

import errno
import os
import signal
import socket
import stat
import subprocess
import sys

import numpy as np
import pytest

from mercer import SVC, as_model, save_libsvm_data, save_libsvm_model, save_model
from mercer.data.files import atomic_write
from mercer.data.files.atomic_write import open_atomically

pytestmark = pytest.mark.full  # uses processes, much memory or much time: not in test-fast

X, y = np.random.default_rng(0).normal(size=(30, 2)), np.repeat([0, 1], 15)
SAVE = {
    "model": lambda path: save_model(path, as_model(SVC().fit(X, y), X, y)),
    "LIBSVM model": lambda path: save_libsvm_model(path, SVC().fit(X, y)),
    "LIBSVM data": lambda path: save_libsvm_data(X, y, path),
}


@pytest.fixture(params=[True, False], ids=["unnamed", "named"])
def unnamed(request, monkeypatch):
    if not request.param:
        monkeypatch.delattr(os, "O_TMPFILE", raising=False)
    return request.param


@pytest.mark.parametrize("kind", SAVE)
def test_a_pipe_is_written_to_or_refused_and_never_replaced(tmp_path, kind):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = subprocess.Popen(["cat", path], stdout=subprocess.PIPE)
    if kind == "model":
        with pytest.raises(OSError, match="is a device or a pipe"):
            SAVE[kind](path)
        reader.kill()
    else:
        SAVE[kind](path)
        SAVE[kind](tmp_path / "file")
        assert reader.communicate(timeout=10)[0] == (tmp_path / "file").read_bytes()
    reader.wait()
    reader.stdout.close()
    assert path.is_fifo()


@pytest.mark.parametrize("kind", ["LIBSVM model", "LIBSVM data"])
def test_a_pipe_that_nothing_reads_is_an_error(tmp_path, monkeypatch, kind):
    monkeypatch.setattr(atomic_write, "_WAIT_FOR_READER", 0.05)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="nothing reads it; start its reader first"):
        SAVE[kind](tmp_path / "pipe")
    assert (tmp_path / "pipe").is_fifo()


def test_a_folder_that_can_be_written_and_not_read(tmp_path, unnamed, monkeypatch):
    def unreadable(path, flags, *rest, **given):
        reads = flags & (os.O_WRONLY | os.O_RDWR | os.O_PATH) == 0
        if reads and os.path.isdir(path):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return opened(path, flags, *rest, **given)

    opened = os.open
    monkeypatch.setattr(os, "open", unreadable)
    with open_atomically(tmp_path / "file", "w") as file:
        file.write("new")
    assert (tmp_path / "file").read_text() == "new"
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("kind", SAVE)
def test_paths_that_are_no_files_are_refused(tmp_path, kind):
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(tmp_path / "socket"))
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    for name, message in (("socket", "is a socket"), (".", "is a folder"), ("a", "is a loop of symbolic links")):
        with pytest.raises(OSError, match=message):
            SAVE[kind](tmp_path / name)
    assert stat.S_ISSOCK(os.stat(tmp_path / "socket").st_mode)


def test_a_device_node_stays(tmp_path):
    save_libsvm_data(X, y, os.devnull)
    with pytest.raises(OSError, match="is a device"):
        SAVE["model"](os.devnull)
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)


def test_a_link_stays_and_a_file_keeps_its_permissions(tmp_path, unnamed):
    (tmp_path / "file").write_text("old")
    os.chmod(tmp_path / "file", 0o640)
    (tmp_path / "link").symlink_to("file")
    with open_atomically(tmp_path / "link", "w") as file:
        file.write("new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_text() == "new"
    assert stat.S_IMODE(os.stat(tmp_path / "file").st_mode) == 0o640


def test_names_of_any_length_can_be_written(tmp_path, unnamed):
    name = "n" * 255
    with open_atomically(tmp_path / name, "w") as file:
        file.write("new")
    assert os.listdir(tmp_path) == [name]


def test_a_write_that_fails_changes_nothing(tmp_path, unnamed):
    (tmp_path / "file").write_text("old")

    def write_and_fail():
        with open_atomically(tmp_path / "file", "w") as file:
            file.write("half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_and_fail()
    assert os.listdir(tmp_path) == ["file"]
    assert (tmp_path / "file").read_text() == "old"


KILLED = """
import os, sys, time
if sys.argv[2] == "named" and hasattr(os, "O_TMPFILE"):
    del os.O_TMPFILE
from mercer.data.files.atomic_write import open_atomically
with open_atomically(sys.argv[1], "w") as file:
    file.write("half")
    file.flush()
    print("writing", flush=True)
    time.sleep(60)
"""


def test_temporary_files_of_a_killed_process_are_removed_by_the_next_write(tmp_path, unnamed):
    path = tmp_path / "file"
    path.write_text("old")
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, path, "unnamed" if unnamed else "named"], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "writing\n"
    with open_atomically(path, "w") as file:  # the temporary file of a running writer is not removed
        file.write("new")
    assert len(os.listdir(tmp_path)) == (1 if unnamed else 2)
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    with open_atomically(path, "w") as file:
        file.write("newer")
    assert os.listdir(tmp_path) == ["file"]
    assert path.read_text() == "newer"


def test_data_are_on_the_disk_before_the_name(tmp_path, unnamed, monkeypatch):
    calls = []
    for name in ("fsync", "replace"):
        original = getattr(os, name)
        monkeypatch.setattr(atomic_write.os, name, lambda *a, _n=name, _o=original: (calls.append(_n), _o(*a))[1])
    with open_atomically(tmp_path / "file", "w") as file:
        file.write("new")
    assert calls == ["fsync", "replace", "fsync"]
