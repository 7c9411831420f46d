"""The page of kernels and its pictures agree with the kernels in the library."""

import importlib.util
from pathlib import Path

import pytest

Image = pytest.importorskip("PIL.Image")
PATH = Path(__file__).parent.parent / "docs" / "pictures" / "kernels.py"
DUE = "run: python docs/pictures/kernels.py"

spec = importlib.util.spec_from_file_location("kernels_page", PATH)
written = importlib.util.module_from_spec(spec)
spec.loader.exec_module(written)


def test_every_kernel_has_a_row():
    names = written.public_kernels()
    assert set(names) == set(written.ROWS), "a kernel needs a row in docs/pictures/kernels.py"
    assert {"Linear", "RBF", "Sum", "Callable", "Spectrum"} <= set(names)
    assert "Kernel" not in names


@pytest.mark.parametrize("name", written.ROWS)
def test_a_row_shows_its_kernel(name):
    drawn = written.ROWS[name].drawn
    assert name == "Precomputed" or type(drawn[0]).__name__ == name
    text = written.page()
    for kernel in drawn:
        assert repr(kernel) in text


def test_the_page_is_up_to_date():
    assert written.PAGE.read_text() == written.page(), DUE


def test_the_pictures_are_up_to_date():
    expected = {name: written.description(row) for name, row in written.ROWS.items() if row.drawn}
    pictures = {}
    for path in written.PICTURES.glob("*.png"):
        with Image.open(path) as picture:
            pictures[path.stem] = picture.info["Description"]
    assert pictures == expected, DUE
    assert sum(path.stat().st_size for path in written.PICTURES.iterdir()) < 1 << 20
