"""Tables larger than memory: parsing into a block cache, damage, resumption, and rows that are read from it."""

import csv
import gzip
import io
import json
import lzma
import os
import random
import re
from contextlib import suppress
from itertools import pairwise

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import sparse

from mercer.data.files.checked_file import (
    DamagedFileError,
    check_arrays,
    read_checked,
    read_slices,
    write_checked,
)
from mercer.data.reading import ReadingOptions
from mercer.data.table import TableError
from mercer.studies.files.blocks import cache as cache_module
from mercer.studies.files.blocks.cache import CacheError, block_cache
from mercer.studies.files.blocks.encoding import learn_encoding
from mercer.studies.files.blocks.file_numbers import FileNumbers
from mercer.studies.files.blocks.file_rows import FileRows
from mercer.studies.files.blocks.layout import Levels
from mercer.studies.files.blocks.parquet_footer import row_groups_of
from mercer.studies.files.blocks.row_groups import RowGroups
from mercer.studies.files.blocks.sources import open_source, read_tables, table_head
from mercer.studies.files.libsvm_data import load_libsvm_data, save_libsvm_data
from mercer.studies.files.table_files import read_table
from mercer.studies.files.text_rows import open_quote, row_ends
from mercer.studies.tables.encoding import TableEncoder

KINDS = ("csv", "parquet")


def a_frame(n=300, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "whole": rng.integers(-5, 6, n),
            "short": rng.integers(0, 8, n) / 8,
            "long": rng.normal(size=n) * 1e3,
            "holes": np.where(rng.random(n) < 0.2, np.nan, rng.normal(size=n)),
            "few": rng.choice(["red", "green", "blue, or so"], n),
            "many": rng.choice([f"level {k}" for k in range(60)], n),
            "gaps": pd.Series(rng.choice(["a", "b"], n)).where(rng.random(n) < 0.9),
            "constant": 3,
            "weight": rng.integers(0, 3, n),
            "y": rng.choice(["yes", "no"], n),
        }
    )
    return frame


def write(frame, folder, kind):
    path = folder / f"table.{kind}"
    if kind == "csv":
        frame.to_csv(path, index=False)
    else:
        frame.to_parquet(path, index=False, row_group_size=70)
    return path


def source_of(path, task="classification", target="y", **options):
    return open_source(path, task, ReadingOptions(), target=target, **options)


def rows_of(path, folder, step=2_000, *, scale=True, memory=1 << 16, **options):
    """Encoded rows of a file, and its cache."""
    with block_cache(folder, path, source_of(path, **options), block_bytes=step) as cache:
        encoding = learn_encoding(cache, missing="impute", scale=scale)
        rows = FileRows(cache, encoding, np.arange(10.0), memory)
        blocks = [(block.at, block.table, block.labels.copy(), block.weights.copy()) for block in rows.blocks()]
    return rows, blocks, cache


def joined(blocks):
    tables = [table for _, table, _, _ in blocks]
    return np.vstack(tables) if isinstance(tables[0], np.ndarray) else sparse.vstack(tables).toarray()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("step", [500, 4_000, 1 << 20])
def test_encoded_blocks_are_the_encoded_table(tmp_path, kind, step):
    path = write(a_frame(), tmp_path, kind)
    rows, blocks, cache = rows_of(path, tmp_path / "cache", step, weights="weight")
    assert (cache.n_blocks > 3) == (step < 1 << 20 or kind == "parquet")
    table = read_table(path)
    counted = np.flatnonzero(table["weight"] > 0)
    encoder = TableEncoder(missing="impute").fit(table.without(["y", "weight"]).take(counted))
    expected = encoder.transform(table)
    assert rows.encoding.encoder.constant_ == encoder.constant_ == ("constant",)
    assert rows.encoding.encoder.feature_names_ == encoder.feature_names_
    assert all(one.agrees(other) for one, other in zip(rows.encoding.encoder.rules_, encoder.rules_, strict=True))
    assert (rows.n, rows.p, rows.is_sparse) == (*expected.shape, True)
    np.testing.assert_allclose(joined(blocks), expected.toarray(), rtol=1e-12, atol=1e-14)
    np.testing.assert_array_equal(np.concatenate([weights for *_, weights in blocks]), table["weight"])
    names = [*cache.levels.of["y"]]
    assert [names[int(code)] for *_, labels, _ in blocks for code in labels] == table["y"].tolist()
    places = [at for at, *_ in blocks]
    assert places[0].start == 0
    assert places[-1].stop == rows.n
    assert all(one.stop == other.start for one, other in pairwise(places))


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_that_are_not_scaled_are_those_of_the_file(tmp_path, kind):
    frame = a_frame()[["whole", "short", "long", "constant", "y"]]
    path = write(frame, tmp_path, kind)
    rows, blocks, _ = rows_of(path, tmp_path / "cache", scale=False)
    np.testing.assert_array_equal(joined(blocks), frame.drop(columns="y").to_numpy())
    assert rows.encoding.is_unchanged
    integers = write(frame[["whole", "constant", "y"]], tmp_path, kind)
    _, blocks, _ = rows_of(integers, tmp_path / "cache", scale=False)
    assert {table.dtype for _, table, *_ in blocks} == {np.dtype(np.int8)}
    exact = write(frame[["short", "y"]], tmp_path, kind)
    _, blocks, _ = rows_of(exact, tmp_path / "cache", scale=False)
    assert {table.dtype for _, table, *_ in blocks} == {np.dtype(np.float32)}


@pytest.mark.parametrize("zero_based", [False, True])
def test_svmlight_blocks_are_what_the_reader_of_whole_files_returns(tmp_path, zero_based):
    rng = np.random.default_rng(1)
    X = sparse.random_array((200, 40), density=0.2, random_state=rng, format="csr")
    path = tmp_path / "t.svm"
    save_libsvm_data(X, rng.integers(0, 3, 200), path, zero_based=zero_based)
    text = path.read_text().splitlines()
    text[5] += " # a comment 3:4"
    text[7] = "# all of it"
    text[9] = text[9].replace(" ", "  \t qid:4 ", 1)
    text[11] = "2"
    path.write_text("\n".join(["", *text]) + "\r\n\r\n")
    expected, labels = load_libsvm_data(path, zero_based=zero_based)
    _, blocks, cache = rows_of(path, tmp_path / "cache", 700, target=None, zero_based=zero_based)
    assert cache.n_blocks > 10
    np.testing.assert_array_equal(joined(blocks), expected.toarray())
    names = [*cache.levels.of["label"]]
    assert [float(names[int(code)]) for *_, block_labels, _ in blocks for code in block_labels] == labels.tolist()


def test_the_text_of_a_file_may_have_any_form_that_tables_may_have(tmp_path):
    path = tmp_path / "t.csv"
    lines = [
        f'"{k},5";"a ""b""\nc{k % 2}";{k}.234.567;{k}%;{"N/A" if k % 6 == 0 else k % 7};{"ü" if k % 2 else "ö"}'
        for k in range(1, 101)
    ]
    header = ["# made by hand", "x;t;big;share;u;y"]
    path.write_bytes(b"\xef\xbb\xbf" + "\r\n".join([*header, *lines, "", ""]).encode())
    table = read_table(path)
    rows, blocks, cache = rows_of(path, tmp_path / "cache", 300, scale=False)
    assert cache.n_blocks > 5
    assert cache.layout.categories == {"t"}
    expected = TableEncoder(missing="impute").fit(table.without(["y"]))
    values = joined(blocks)
    assert rows.encoding.encoder.feature_names_ == expected.feature_names_
    for name in ("x", "big", "share"):
        place = expected.feature_names_.index(name)
        np.testing.assert_array_equal(values[:, place], table[name])


CSV = "a,b,y\n" + "".join(f"{k},{k / 4},{'pq'[k % 2]}\n" for k in range(200))
SVM = "".join(f"{k % 2} 1:{k} 3:0.5\n" for k in range(200))


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("7,oops,p", r"column 'b' holds 'oops'"),
        ("7,1", "has 2 cells, the header has 3"),
        ("7,1,p,9", "has 4 cells, the header has 3"),
        ("7,1,", "the target 'y' is missing"),
        ("7,inf,p", "column 'b' is infinite"),
        ("7,-1e300,p", "column 'b' is infinite or too large to compute with"),
        (b"7,1,\xff", "byte 0xff is not text in UTF-8"),
    ],
)
def test_a_bad_line_is_named_and_what_was_finished_is_kept(tmp_path, line, fault):
    lines = CSV.encode().splitlines(keepends=True)
    lines[150] = (line if isinstance(line, bytes) else line.encode()) + b"\n"
    path, folder = tmp_path / "t.csv", tmp_path / "cache"
    path.write_bytes(b"".join(lines))
    byte = sum(map(len, lines[:150]))
    if line == b"7,1,\xff":
        byte += 4
    source = replace_head(open_source, path, CSV)
    with (
        pytest.raises(TableError, match=rf"line 151 \(byte {byte:,}\).*{fault}"),
        block_cache(folder, path, source, block_bytes=300),
    ):
        pass
    finished = sorted(folder.glob("block-*"))
    assert len(finished) > 3
    stamps = [os.stat(one).st_mtime_ns for one in finished]
    with pytest.raises(TableError, match=fault), block_cache(folder, path, source, block_bytes=300):
        pass
    assert [os.stat(one).st_mtime_ns for one in finished] == stamps


def replace_head(open_source, path, text):
    """The source of a file whose head (here: the whole file) is that of a text without faults."""
    raw = path.read_bytes()
    path.write_text(text)
    source = source_of(path)
    path.write_bytes(raw)
    return source


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("3:1 4:2", "the target '3:1' is no number"),
        ("1 3:1 2:2", "numbers must rise"),
        ("1 3:1 3:2", "numbers must rise"),
        ("1 0:1", "below 1"),
        ("1 2:", "no number:value"),
        ("1 :2", "no number:value"),
        ("1 2:3:4", "no number:value"),
        ("1 2 3:4", "no number:value"),
        ("1 a:4", "no number:value"),
        ("1 2:1_000", "no number:value"),
        ("1 2:nan", "NaN or infinity"),
        ("1 2:1e300", "a number too large to compute with"),
        ("inf 2:1", "NaN or infinity"),
        ("1 99999999999:1", "larger than"),
        ("x 2:1", "the target 'x' is no number"),
    ],
)
def test_a_bad_line_of_svmlight_is_named(tmp_path, line, fault):
    lines = SVM.splitlines(keepends=True)
    lines[120] = line + "\n"
    path = tmp_path / "t.svm"
    path.write_text("".join(lines))
    byte = sum(map(len, lines[:120]))
    with pytest.raises(TableError, match=rf"line 121 \(byte {byte:,}\).*{fault}"):
        rows_of(path, tmp_path / "cache", 400, target=None)


def test_rows_end_where_the_csv_module_ends_them():
    rng = random.Random(0)
    n_open = 0
    for _ in range(3_000):
        text = "".join(rng.choices('a,"\n\r', k=rng.randrange(1, 25)))
        lines, reader = text.splitlines(keepends=True), csv.reader(io.StringIO(text, newline=""))
        ends = [len("".join(lines[: reader.line_num])) for _ in reader]
        follows = list(csv.reader(io.StringIO(text + "\nz", newline="")))[-1] == ["z"]
        assert (open_quote(text.encode(), b",") is None) == follows, text
        n_open += not follows
        if not (follows and text.endswith(("\n", "\r"))):
            ends.pop()  # the last row does not end
        assert row_ends(text.encode(), b"\n", b",").tolist() == ends, text
    assert 500 < n_open < 2_500


@pytest.mark.parametrize("at", [20, 150, 200])
@pytest.mark.parametrize(
    ("line", "column", "fault"),
    [
        ('"7,1,p', 0, "never closed"),
        ('7,"1,p', 2, "never closed"),
        ('7,1,"p', 4, "never closed"),
        ('"', 0, "never closed"),
        ('7,1"x,p', 0, "column 'b' holds '1\"x'"),
        ('7,"1"x,p', 0, "column 'b' holds '1x'"),
        ('7,"1\n2",p', 0, r"column 'b' holds '1\\n2'"),
        ('7,"1\n2,p"', 0, "are one row that has 2 cells, the header has 3"),
        ("7,1\r,p", 0, "a carriage return ends the row within the line"),
        ('7,1,"p""q\n"', None, ""),
        ('7,1,p"q', None, ""),
    ],
)
def test_a_quotation_mark_at_the_wrong_place_is_named(tmp_path, line, column, fault, at):
    lines = CSV.splitlines(keepends=True)
    lines[at] = line + "\n"
    path = tmp_path / "t.csv"
    path.write_bytes("".join(lines).encode()[: None if at < 200 else -1])  # the last line has no line end
    if column is None:
        _, blocks, cache = rows_of(path, tmp_path / "cache", 300)
        assert sum(len(labels) for *_, labels, _ in blocks) == 200
        assert [*cache.levels.of["y"]] == ["p", "q", next(csv.reader(io.StringIO(line, newline="")))[2].strip()]
        return
    byte = len("".join(lines[:at])) + column
    place = rf"lines? {at + 1}( to {at + 2})? \(byte {byte:,}\)"
    with pytest.raises(TableError, match=rf"(?=.*t.csv.*{place}).*{fault}"):
        rows_of(path, tmp_path / "cache", 300)
    if "never closed" in fault:
        with pytest.raises(TableError, match=rf"never closed, in line {at + 1}"):
            read_table(path)


def test_a_cell_that_does_not_end_takes_no_more_than_the_memory(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(CSV + '7,"' + "1" * 100_000 + "\n")
    source = source_of(path, head_bytes=1_000)
    byte = len(CSV) + 2
    with pytest.raises(TableError, match=rf"line 202 \(byte {byte:,}\).*not closed within 19,\d{{3}} bytes"):
        list(source.blocks(None, Levels(), 300))
    path.write_text('a,"b,y\n' + "7,1,p\n" * 300)
    with pytest.raises(TableError, match=r"line 1 \(byte 2\).*not closed within 9\d\d bytes"):
        source_of(path, head_bytes=1_000)


def mutated(raw, rng):
    raw = bytearray(raw)
    for _ in range(rng.randrange(1, 6)):
        at = rng.randrange(len(raw))
        what = rng.randrange(4)
        if what == 0:
            raw[at] = rng.randrange(256)
        elif what == 1:
            del raw[at : at + rng.randrange(1, 9)]
        elif what == 2:
            raw[at:at] = rng.choice([b'"', b"\n", b",", b":", b"\r", b"\0", b"1e999", b"-", b"#", b" ", b"\xff\xfe"])
        else:
            del raw[at:]
            raw += b"0"
    return bytes(raw)


@pytest.mark.parametrize(("name", "text", "target"), [("t.csv", CSV, "y"), ("t.svm", SVM, None)])
def test_damaged_text_is_parsed_or_refused_with_a_table_error(tmp_path, name, text, target):
    rng = random.Random(0)
    path, refused = tmp_path / name, []
    for number in range(60):
        path.write_bytes(mutated(text.encode()[:1500], rng))
        try:
            rows_of(path, tmp_path / f"cache {number}", 200, target=target)
        except TableError as error:
            refused.append(str(error))
    assert 5 < len(refused) < 60
    assert all(str(path) in one or "target" in one or "column" in one for one in refused)


@pytest.mark.parametrize("kind", KINDS)
def test_parsing_continues_where_it_was_interrupted(tmp_path, kind):
    path, folder = write(a_frame(), tmp_path, kind), tmp_path / "cache"
    _, expected, _ = rows_of(path, tmp_path / "other")
    for stop in (1, 2, 4):
        seen = []

        def report(done, total, seen=seen, stop=stop):
            seen.append(done)
            assert total is not None
            if len(seen) == stop:
                raise KeyboardInterrupt

        with (
            pytest.raises(KeyboardInterrupt),
            block_cache(folder, path, source_of(path), block_bytes=2_000, report=report),
        ):
            pass
    assert len(list(folder.glob("block-*"))) == 7
    stamps = {one: os.stat(one).st_mtime_ns for one in folder.glob("block-*")}
    _, blocks, cache = rows_of(path, folder)
    assert all(os.stat(one).st_mtime_ns == stamp for one, stamp in stamps.items())
    np.testing.assert_array_equal(joined(blocks), joined(expected))
    assert cache.n_mended == 0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("damage", ["flip", "cut", "remove", "header"])
def test_a_damaged_block_is_parsed_again(tmp_path, kind, damage):
    path, folder = write(a_frame(), tmp_path, kind), tmp_path / "cache"
    _, expected, cache = rows_of(path, folder)
    block = cache.block_path(2)
    raw = bytearray(block.read_bytes())
    if damage == "remove":
        block.unlink()
    else:
        raw[{"flip": -200, "cut": 0, "header": 20}[damage]] ^= 0x10
        block.write_bytes(raw[:-50] if damage == "cut" else raw)
    _, blocks, cache = rows_of(path, folder)
    assert cache.n_mended == 1
    np.testing.assert_array_equal(joined(blocks), joined(expected))
    block.write_bytes(raw[:-50])
    with block_cache(folder, path, source_of(path), block_bytes=2_000) as cache:
        path.unlink()
        with pytest.raises(CacheError, match=r"block-000002.bin.* is damaged .* the file cannot be read") as caught:
            cache.read(2)
        assert f"bring the file back, and delete the folder {folder}" in caught.value.hint
        block.unlink()
        with pytest.raises(
            CacheError, match=r"block-000002.bin, parsed from .* from line \d+ on, is gone, and the file"
        ):
            cache.read(2)


@pytest.mark.parametrize("kind", KINDS)
def test_damage_after_the_first_reading_is_found_too(tmp_path, kind):
    path, folder = write(a_frame(), tmp_path, kind), tmp_path / "cache"
    with block_cache(folder, path, source_of(path), block_bytes=2_000) as cache:
        expected = cache.read(2)
        raw = bytearray(cache.block_path(2).read_bytes())
        for n_mended, place in enumerate((-60, -200), 1):
            raw[place] ^= 0x10
            cache.block_path(2).write_bytes(raw)
            raw[place] ^= 0x10
            tables = (sparse.csr_array(block.table).toarray() for block in (cache.read(2), expected))
            np.testing.assert_array_equal(*tables)
            assert cache.n_mended == n_mended
            cache.read(2)
            assert cache.n_mended == n_mended


def test_a_damaged_block_of_a_file_that_has_changed_is_refused(tmp_path):
    path, folder = write(a_frame(), tmp_path, "csv"), tmp_path / "cache"
    with block_cache(folder, path, source_of(path), block_bytes=2_000) as cache:
        cache.block_path(1).write_bytes(b"MERCERB1")
        path.write_text(path.read_text().replace("red", "rot"))
        with pytest.raises(CacheError, match=r"block-000001.bin, parsed from .* from line .* the file has changed"):
            cache.read(1)


def test_a_folder_in_the_place_of_a_block_is_named(tmp_path):
    path, folder = write(a_frame(), tmp_path, "csv"), tmp_path / "cache"
    _, _, cache = rows_of(path, folder)
    cache.block_path(1).unlink()
    cache.block_path(1).mkdir()
    with pytest.raises(CacheError, match=r"block-000001.bin.* is damaged .* cannot be written again") as caught:
        rows_of(path, folder)
    assert f"delete the folder {folder}" in caught.value.hint
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps(manifest | {"version": 0}))
    with pytest.raises(CacheError, match=r"block-000001.bin, a part of an old cache, cannot be removed"):
        rows_of(path, folder)
    cache.block_path(1).rmdir()
    rows_of(path, folder)
    assert json.loads((folder / "manifest.json").read_text()) == manifest


def test_a_changed_file_is_parsed_again(tmp_path):
    path, folder = write(a_frame(), tmp_path, "csv"), tmp_path / "cache"
    rows_of(path, folder)
    other = a_frame(seed=1)
    path = write(other, tmp_path, "csv")
    _, blocks, _ = rows_of(path, folder, scale=False)
    np.testing.assert_array_equal(joined(blocks)[:, 0], other["whole"])
    rows, _, _ = rows_of(path, folder, drop=["long"])
    assert "long" not in rows.encoding.encoder.feature_names_


def test_a_folder_with_other_files_is_refused_and_left_alone(tmp_path):
    path, folder = write(a_frame(), tmp_path, "csv"), tmp_path / "cache"
    folder.mkdir()
    (folder / "thesis.txt").write_text("all of it")
    with pytest.raises(CacheError, match=r"no cache: it holds other files, such as 'thesis.txt'"):
        rows_of(path, folder)
    assert [one.name for one in folder.iterdir() if one.name != "lock"] == ["thesis.txt"]
    with pytest.raises(CacheError, match="is a file"):
        rows_of(path, path)


def test_two_fits_do_not_share_a_folder_at_once(tmp_path):
    path, folder = write(a_frame(), tmp_path, "csv"), tmp_path / "cache"
    with block_cache(folder, path, source_of(path), block_bytes=2_000), pytest.raises(CacheError, match="another fit"):
        rows_of(path, folder)
    rows_of(path, folder)


HOSTILE = [
    b"",
    b"{}",
    b"[" * 100_000,
    b'{"format": "mercer blocks"',
    b"cos\nsystem\n(S'touch pwned'\ntR.",
    b"\x80\x05\x95",
    b"null",
]


@pytest.mark.parametrize("content", HOSTILE)
def test_a_hostile_manifest_is_refused(tmp_path, content):
    path, folder = write(a_frame(), tmp_path, "csv"), tmp_path / "cache"
    rows_of(path, folder)
    (folder / "manifest.json").write_bytes(content)
    with pytest.raises(CacheError, match="damaged") as caught:
        rows_of(path, folder)
    assert f"delete the folder {folder} and fit again" in caught.value.hint


def changed(manifest, keys, value):
    place = manifest
    for key in keys[:-1]:
        place = place[key]
    place[keys[-1]] = value


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        (("blocks",), []),
        (("blocks",), {"a": 1}),
        (("blocks", 1, "rows"), -1),
        (("blocks", 1, "rows"), 10**40),
        (("blocks", 1, "rows"), "1"),
        (("blocks", 1, "span"), [0, 1, 1]),
        (("blocks", 1, "width"), None),
        (("blocks", 1, "rows"), 10**9),
        (("blocks", 1, "width"), 10**9),
        (("blocks", 1, "span", 1), 10**18),
        (("levels", "few"), [1, 2]),
        (("levels", "few"), ["red", "red"]),
        (("levels", "few"), ["red", "green"]),
        (("levels", "long"), ["red"]),
        (("levels",), ["few"]),
    ],
)
def test_a_manifest_with_forged_entries_is_refused(tmp_path, keys, value):
    path, folder = write(a_frame(), tmp_path, "csv"), tmp_path / "cache"
    rows_of(path, folder)
    manifest = json.loads((folder / "manifest.json").read_text())
    changed(manifest, keys, value)
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(CacheError, match=r"damaged|something else now"):
        rows_of(path, folder)


def test_a_forged_block_with_valid_checksums_is_parsed_again(tmp_path):
    path, folder = tmp_path / "t.svm", tmp_path / "cache"
    path.write_text(SVM)
    _, expected, cache = rows_of(path, folder, 400, target=None)
    header, arrays = read_checked(cache.block_path(1))
    header.pop("arrays")
    for name, value in (("indices", 10**6), ("indices", -1), ("indptr", 10**6), ("indptr", -1)):
        forged = arrays[name].copy()
        forged[1] = value
        write_checked(cache.block_path(1), header, {**arrays, name: forged})
        _, blocks, read_blocks = rows_of(path, folder, 400, target=None)
        assert read_blocks.n_mended == 1
        np.testing.assert_array_equal(joined(blocks), joined(expected))


@pytest.mark.parametrize(
    ("name", "column", "value"),
    [
        ("labels", None, 2.0),
        ("labels", None, 0.5),
        ("labels", None, -1.0),
        ("labels", None, np.nan),
        ("weights", None, -1.0),
        ("weights", None, np.inf),
        ("table", "few", 3.0),
        ("table", "few", 0.5),
        ("table", "long", 1e200),
        ("table", "long", -np.inf),
    ],
)
def test_a_block_with_valid_checksums_and_numbers_that_cannot_be_is_parsed_again(tmp_path, name, column, value):
    path, folder = write(a_frame(), tmp_path, "csv"), tmp_path / "cache"
    _, expected, cache = rows_of(path, folder, weights="weight")
    header, arrays = read_checked(cache.block_path(1))
    header.pop("arrays")
    forged = arrays[name].astype(np.float64)
    forged[(0, cache.layout.names.index(column)) if column else 0] = value
    write_checked(cache.block_path(1), header, {**arrays, name: forged})
    _, blocks, read_blocks = rows_of(path, folder, weights="weight")
    assert read_blocks.n_mended == 1
    np.testing.assert_array_equal(joined(blocks), joined(expected))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_links_and_pipes_in_a_cache_are_neither_read_nor_written(tmp_path):
    path, folder, other = write(a_frame(), tmp_path, "csv"), tmp_path / "cache", tmp_path / "thesis.txt"
    _, expected, cache = rows_of(path, folder)
    other.write_text("all of it")
    cache.block_path(0).unlink()
    cache.block_path(0).symlink_to(other)
    cache.block_path(1).unlink()
    os.mkfifo(cache.block_path(1))
    with pytest.raises(CacheError, match="cannot be written again"):  # the pipe; it is not ours to remove
        rows_of(path, folder)
    cache.block_path(1).unlink()
    _, blocks, _ = rows_of(path, folder)
    np.testing.assert_array_equal(joined(blocks), joined(expected))
    assert other.read_text() == "all of it"
    assert not cache.block_path(0).is_symlink()
    (folder / "manifest.json").unlink()
    (folder / "manifest.json").symlink_to(other)
    with pytest.raises(CacheError, match=r"damaged: it is a link"):
        rows_of(path, folder)
    (tmp_path / "link").symlink_to(folder)
    with pytest.raises(CacheError, match=r"is a link, and links are not followed"):
        rows_of(path, tmp_path / "link")
    assert other.read_text() == "all of it"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # threads of libraries may run
def test_a_forked_child_does_not_hold_the_cache(tmp_path):
    path, folder = write(a_frame(), tmp_path, "csv"), tmp_path / "cache"
    read, written = os.pipe()
    with block_cache(folder, path, source_of(path), block_bytes=2_000):
        child = os.fork()
        if not child:
            os.close(written)
            os.read(read, 1)  # until the parent closes its end
            os._exit(0)
    try:
        rows_of(path, folder)
    finally:
        os.close(written)
        os.waitpid(child, 0)
        os.close(read)


def test_a_change_in_the_middle_is_noticed_though_size_and_time_are_kept(tmp_path):
    path, folder = tmp_path / "table.csv", tmp_path / "cache"
    lines = [f"{k:0200d},{k % 2}" for k in range(12_000)]
    path.write_text("\n".join(["a,y", *lines]))
    before = path.stat()
    with block_cache(folder, path, source_of(path), block_bytes=1 << 20) as cache:
        n_blocks = cache.n_blocks
    lines[6_000] = f"{99999999:0200d},0"
    path.write_text("\n".join(["a,y", *lines]))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    with block_cache(folder, path, source_of(path), block_bytes=1 << 20) as cache:
        assert max(float(cache.read(number).table.max()) for number in range(n_blocks)) == 99999999.0


def test_texts_that_exceed_their_memory_are_refused_with_their_column(tmp_path):
    path, folder = write(a_frame(), tmp_path, "csv"), tmp_path / "cache"
    with (
        pytest.raises(TableError, match=r"different texts of column 'many', such as 'level \d+', take [\d,]+ bytes"),
        block_cache(folder, path, source_of(path), block_bytes=2_000, text_bytes=5_000),
    ):
        pass
    with block_cache(folder, path, source_of(path), block_bytes=2_000, text_bytes=50_000):
        pass
    with (  # those of an earlier fit count as well
        pytest.raises(TableError, match="of memory= are for texts"),
        block_cache(folder, path, source_of(path), block_bytes=2_000, text_bytes=5_000),
    ):
        pass


def test_checked_files_tell_every_damage(tmp_path):
    path = tmp_path / "numbers.bin"
    arrays = {"a": np.arange(6.0).reshape(2, 3), "b": np.zeros(0), "c": np.arange(300_000, dtype=np.int32)}
    write_checked(path, {"step": 3}, arrays)
    header, read_arrays = read_checked(path)
    assert header["step"] == 3
    assert all(
        np.array_equal(read_arrays[name], array) and not read_arrays[name].flags.writeable
        for name, array in arrays.items()
    )
    _, places = check_arrays(path)
    np.testing.assert_array_equal(np.concatenate([part for _, part in read_slices(path, places["c"])]), arrays["c"])
    raw = path.read_bytes()
    rng = random.Random(0)
    numbers = {place.start for place in places.values()}
    for at in [0, 9, 13, 30, places["c"].start + 5, len(raw) - 1, *(rng.randrange(len(raw)) for _ in range(20))]:
        changed = bytearray(raw)
        changed[at] ^= 1 << rng.randrange(8)
        path.write_bytes(changed)
        try:
            read_checked(path)
        except DamagedFileError:
            continue
        assert any(start - 64 < at < start for start in numbers), f"byte {at}, which is no padding"
    for length in (0, 5, 15, 100, len(raw) - 1):
        path.write_bytes(raw[:length])
        for read in (read_checked, check_arrays):
            with pytest.raises(DamagedFileError):
                read(path)


def test_numbers_of_rows_in_a_file_are_like_an_array(tmp_path):
    numbers, array = FileNumbers(tmp_path, 1000), np.zeros(1000)
    rng = np.random.default_rng(0)
    for _ in range(30):
        start, stop = sorted(rng.integers(0, 1001, 2).tolist())
        values = rng.normal(size=stop - start)
        numbers[start:stop] = values
        array[start:stop] = values
        np.testing.assert_array_equal(numbers[start // 2 : stop], array[start // 2 : stop])
    numbers[:] = 3.0
    assert (numbers[:] == 3.0).all()
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ValueError, match="follow one another"):
        numbers[::2]
    with pytest.raises(OSError, match=r"needs 8,000,000,000,000,000 bytes"):
        FileNumbers(tmp_path, 10**15)


def test_numbers_of_rows_are_in_memory_while_they_fit(tmp_path):
    path = write(a_frame(), tmp_path, "csv")
    rows, _, _ = rows_of(path, tmp_path / "cache", memory=4 * 8 * 300 * 2)
    arrays = [rows.numbers(), rows.numbers()]
    assert all(isinstance(one, np.ndarray) for one in arrays)
    assert isinstance(rows.numbers(), FileNumbers)
    arrays.pop()
    assert isinstance(rows.numbers(), np.ndarray)


def test_a_full_disk_keeps_the_finished_blocks_and_names_the_bytes(tmp_path, monkeypatch):
    path, folder = write(a_frame(), tmp_path, "csv"), tmp_path / "cache"
    real, calls = cache_module.write_checked, []

    def fails(target, header, arrays):
        calls.append(target)
        if len(calls) == 3:
            arrays = {"labels": ("<f8", (10,), full())}
        return real(target, header, arrays)

    def full():
        raise OSError(28, "No space left on device")
        yield

    monkeypatch.setattr(cache_module, "write_checked", fails)
    with pytest.raises(OSError, match=r"block-000002.bin needs \d+ bytes, for which there is no space"):
        rows_of(path, folder)
    assert sorted(one.name for one in folder.glob("block-*")) == ["block-000000.bin", "block-000001.bin"]
    monkeypatch.setattr(cache_module, "write_checked", real)
    _, blocks, _ = rows_of(path, folder)
    assert sum(len(labels) for *_, labels, _ in blocks) == 300


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"target": "z"}, "there is no column 'z'"),
        ({"target": None}, "target= is missing"),
        ({"drop": ["y"]}, "the target 'y' cannot be dropped"),
        ({"weights": "few"}, "the column of weights 'few' must hold numbers"),
        ({"task": "regression"}, "the target 'y' must hold numbers"),
    ],
)
def test_options_that_mean_nothing_are_refused(tmp_path, options, fault):
    path = write(a_frame(), tmp_path, "csv")
    with pytest.raises(TableError, match=fault):
        source_of(path, **options)


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("7,oops,p", r"column 'b' holds 'oops', and numbers in nearly all"),
        ("7,1", "has 2 cells, the header has 3"),
        ("7,1,", "the target 'y' is missing"),
    ],
)
def test_a_bad_line_among_the_first_ones_has_its_byte_too(tmp_path, line, fault):
    lines = CSV.splitlines(keepends=True)
    lines[50] = line + "\n"
    path = tmp_path / "t.csv"
    path.write_text("".join(lines))
    with pytest.raises(TableError, match=rf"line 51 \(byte {sum(map(len, lines[:50])):,}\).*{fault}"):
        rows_of(path, tmp_path / "cache")


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_tables_in_parts_are_the_parts_of_the_table(tmp_path, ending):
    path = write(a_frame(), tmp_path, ending)
    table = read_table(path)
    parts = list(read_tables(path, memory="1MB"))
    assert len(parts) > 1
    for name in table.names:
        np.testing.assert_array_equal(np.concatenate([part[name] for part in parts]), table[name])
    assert [part.row_numbers([0])[0] for part in parts][:2] == [1, parts[0].n_rows + 1]
    path = tmp_path / "t.svm"
    path.write_text(SVM * 20)
    parts, table = list(read_tables(path, memory="1MB")), read_table(path)
    assert len(parts) > 1
    np.testing.assert_array_equal(np.concatenate([part["label"] for part in parts]), table["label"])
    assert abs(sparse.vstack([part.sparse for part in parts]) - table.sparse).max() == 0.0


def test_options_count_in_parts_as_in_memory(tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"a": [1.0, 9.0, 2.0], "t": ["x", "M ", "m"], "n": [1, 2, 3]}), path)
    options = {"na": ["9", "t=x"], "merge": ["t"], "text_columns": ["n"]}
    table, (part,) = read_table(path, **options), read_tables(path, **options)
    assert table["t"].tolist() == part["t"].tolist() == [None, "m", "m"]
    assert table["n"].tolist() == part["n"].tolist() == ["1", "2", "3"]
    np.testing.assert_array_equal(table["a"], part["a"])
    for name, value in (("sep", ";"), ("decimal", ","), ("limits", "half")):
        for read in (read_table, lambda path, **options: list(read_tables(path, **options))):
            with pytest.raises(TableError, match=f"{name}= is for other tables, but .* is read as parquet"):
                read(path, **{name: value})
            with pytest.raises(TableError, match=f"{name}='oops'"):
                read(write(a_frame(3), tmp_path, "csv"), **{name: "oops"})


def a_wide_row_group(folder, n=6_000, **options):
    """A Parquet file of one row group, whose pages take about 3 MB, with texts, gaps and names with points."""
    rng = np.random.default_rng(0)
    columns = {f"c{j}": rng.normal(size=n) for j in range(15)}
    columns["c0.part"] = rng.integers(0, 9, n)
    columns["gaps"] = np.where(rng.random(n) < 0.3, np.nan, columns["c3"])
    columns["text"] = [f"level {k % 700}, {'x' * (k % 50)}" if k % 7 else None for k in range(n)]
    columns["kind"] = pd.Categorical(rng.choice(["red", "green"], n))
    columns["y"] = rng.choice(["yes", "no"], n)
    frame = pd.DataFrame(columns)
    path = folder / "wide.parquet"
    frame.to_parquet(path, index=False, row_group_size=n, **options)
    return path, frame


@pytest.mark.parametrize(
    "options",
    [{}, {"data_page_version": "2.0", "compression": "zstd"}, {"compression": "none", "write_statistics": False}],
)
def test_a_row_group_larger_than_the_memory_is_read_in_sets_of_columns(tmp_path, options):
    path, _ = a_wide_row_group(tmp_path, **options)
    unlimited, narrow = RowGroups(path, None, None), RowGroups(path, 500_000, tmp_path)
    expected = pq.read_table(path)
    assert unlimited.head(10**6) == expected
    assert narrow.head(300).equals(expected.slice(0, 300))
    assert len(narrow._sets_of(0, None)) > 3
    for groups in (unlimited, narrow):
        parts = list(groups.batches(1_000, 5_555, 800, ["y", "c1", "text", "c0", "gaps", "c0.part"]))
        assert [start for start, _ in parts] == [1_000, 1_600, 2_400, 3_200, 4_000, 4_800]
        joined = pa.concat_tables(part for _, part in parts)
        assert joined.equals(expected.select(["y", "c1", "text", "c0", "gaps", "c0.part"]).slice(1_000, 4_555))
    assert [one.name for one in tmp_path.iterdir()] == ["wide.parquet"]
    pq.write_table(expected, path, row_group_size=100)
    assert RowGroups(path, 500_000, tmp_path).head(250).equals(expected.slice(0, 250))


def test_blocks_do_not_depend_on_the_sets_of_columns(tmp_path):
    path, _ = a_wide_row_group(tmp_path)
    expected, actual = (
        list(source_of(path, memory=memory, scratch=tmp_path, drop=["text"]).blocks(None, Levels(), 100_000))
        for memory in (None, 600_000)
    )
    assert len(expected) == len(actual) > 5
    for one, other in zip(expected, actual, strict=True):
        assert one.span == other.span
        np.testing.assert_array_equal(one.table, other.table)
        np.testing.assert_array_equal(one.labels, other.labels)


def test_a_page_larger_than_the_memory_is_refused_before_work_begins(tmp_path):
    path, frame = a_wide_row_group(tmp_path, use_dictionary=False, data_page_size=1 << 30)
    frame["long"] = [f"{k:0600}" for k in range(len(frame))]
    frame.to_parquet(path, index=False, row_group_size=len(frame), use_dictionary=False, data_page_size=1 << 30)
    with pytest.raises(
        TableError,
        match=r"wide.parquet, row group 1 of 1 \(6,000 rows, [\d,]+ bytes\): the pages of the column 'long' take "
        r"up to 3,[\d,]+ bytes while they are read, and 1,000,000 bytes of memory= are for reading",
    ) as caught:
        source_of(path, memory=1_000_000, scratch=tmp_path / "none")
    rows = int(re.search(r"row_group_size=([\d,]+) of pyarrow", caught.value.hint)[1].replace(",", ""))
    frame.to_parquet(path, index=False, row_group_size=rows, use_dictionary=False, data_page_size=1 << 30)
    source_of(path, memory=1_000_000, drop=["long"])
    frame.to_parquet(path, index=False, row_group_size=len(frame))
    source_of(path, memory=1_000_000, drop=["long"])  # a column that is not used is not read


def test_sizes_of_row_groups_are_those_that_pyarrow_reads(tmp_path):
    path = tmp_path / "t.parquet"
    nested = pa.array([{"x": 1, "y": [1.0, 2.0]}, None, {"x": 3, "y": []}])
    table = pa.table({"a.b": [1.0, 2.0, 3.0], "text": ["x", "ü", "x"], "nested": nested, "flag": [True, False, None]})
    for options in (
        {},
        {"use_dictionary": False, "compression": "none"},
        {"version": "1.0", "write_statistics": False},
    ):
        pq.write_table(table, path, row_group_size=2, **options)
        with open(path, "rb") as file:
            metadata, groups = pq.read_metadata(path), row_groups_of(file)
        assert len(groups) == metadata.num_row_groups == 2
        for number, group in enumerate(groups):
            other = metadata.row_group(number)
            assert (group.num_rows, group.total_byte_size) == (other.num_rows, other.total_byte_size)
            for chunk, column in zip(group.chunks, map(other.column, range(other.num_columns)), strict=True):
                names = ("path_in_schema", "num_values", "total_uncompressed_size", "total_compressed_size")
                assert all(getattr(chunk, name) == getattr(column, name) for name in names)
                assert (chunk.dictionary_page_offset or None) == column.dictionary_page_offset
                assert chunk.is_text == (column.physical_type == "BYTE_ARRAY")


def test_a_damaged_footer_of_parquet_ends_no_process(tmp_path):
    path, table = tmp_path / "t.parquet", pa.table({"a": [1.0, 2.0, 3.0] * 40, "text": ["x", "y", "x"] * 40})
    pq.write_table(table, path, row_group_size=60)
    raw, rng = path.read_bytes(), random.Random(0)
    begin = len(raw) - 8 - int.from_bytes(raw[-8:-4], "little")
    for _ in range(200):
        damaged = bytearray(raw)
        for _ in range(rng.choice([1, 1, 2, 4])):
            damaged[rng.randrange(begin, len(raw) - 8)] = rng.randrange(256)
        path.write_bytes(damaged)
        with suppress(TableError):
            list(RowGroups(path, 70_000, tmp_path).batches(0, 120, 50, ["a", "text"]))
    path.write_bytes(
        raw.replace(b"%\x02\x18\x01a", b"%\x47\x18\x01a", 1)
    )  # pyarrow's view of a column ends the process
    RowGroups(path, 70_000, tmp_path)


def test_row_groups_may_be_empty_and_their_metadata_damaged(tmp_path):
    path, table = tmp_path / "t.parquet", pa.table({"a": [1.0, 2.0, 3.0], "text": ["x", "y", "x"]})
    with pq.ParquetWriter(path, table.schema, use_dictionary=["text"], compression="none") as writer:
        for part in (table.slice(0, 0), table, table.slice(0, 0)):
            writer.write_table(part)
    raw = path.read_bytes()
    groups = RowGroups(path, 70_000, tmp_path)  # a set of columns has one, as the buffer of each is 65,536 bytes
    assert pa.concat_tables(part for _, part in groups.batches(0, 3, 2, ["a", "text"])).equals(table)
    codec = b"\x18\x04text\x15"  # the path of the column, and the head of the field of its codec
    assert codec + b"\x00" in raw
    path.write_bytes(raw.replace(b"text", b"\xffext"))
    with pytest.raises(TableError, match="cannot be read as Parquet"):
        list(RowGroups(path, 70_000, tmp_path).batches(0, 3, 2, ["a", "text"]))
    path.write_bytes(raw.replace(codec + b"\x00", codec + b"\x77"))
    with suppress(TableError):  # the lowest version of pyarrow takes an unknown codec for none, which the pages have
        read = pa.concat_tables(part for _, part in RowGroups(path, 70_000, tmp_path).batches(0, 3, 2, ["a", "text"]))
        assert read.equals(table)


def twice_a(path):
    pq.write_table(pa.table([[1.0], [2.0], ["p"]], names=["a", "a", "y"]), path)


ODD_FILES = {
    "cut.csv.gz": (
        lambda path: path.write_bytes(gzip.compress(CSV.encode())[:-9]),
        "cannot be read: Compressed file",
    ),
    "damaged.csv.gz": (
        lambda path: path.write_bytes(gzip.compress(CSV.encode())[:-8] + b"12345678"),
        "cannot be read",
    ),
    "plain.csv.gz": (lambda path: path.write_text(CSV), "cannot be read: Not a gzipped file"),
    "cut.svm.xz": (lambda path: path.write_bytes(lzma.compress(SVM.encode())[:-9]), "cannot be read"),
    "packed.parquet.gz": (lambda path: path.write_bytes(gzip.compress(b"PAR1")), "only text is read compressed"),
    "comments.svm": (lambda path: path.write_text("# one\n# two\n"), "has comments only, and no rows"),
    "returns.svm": (lambda path: path.write_text(SVM.replace("\n", "\r")), "end in carriage returns only"),
    "twice.parquet": (twice_a, "column names must differ, but 'a' occurs more than once"),
    "link.csv": (lambda path: path.symlink_to("nowhere.csv"), "is a link to nowhere.csv, which does not exist"),
    "wide.csv": (lambda path: path.write_text("a" * (2 << 20)), "cannot be read as a delimited table: field larger"),
}


@pytest.mark.parametrize("name", ODD_FILES)
def test_an_odd_file_is_refused_with_its_name(tmp_path, name):
    write, fault = ODD_FILES[name]
    write(tmp_path / name)
    with pytest.raises(TableError, match=fault) as caught:
        table_head(tmp_path / name, ReadingOptions())
    assert "twice" in name or name in str(caught.value)
    with pytest.raises(TableError):
        list(read_tables(tmp_path / name))


def test_columns_that_cannot_be_encoded_are_named(tmp_path):
    frame = a_frame()
    frame["day"] = [f"2024-01-{1 + k % 28:02}" for k in range(len(frame))]
    path = write(frame, tmp_path, "csv")
    with pytest.raises(TableError, match=r"'day' holds dates"):
        source_of(path)
    assert "day" not in source_of(path, drop=["day"]).layout.names
    assert "day" in source_of(path, categorical=["day"]).layout.categories
