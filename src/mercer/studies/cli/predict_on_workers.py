"""`mercer predict --cluster`: the workers of a Dask cluster predict files, a task for each."""

from __future__ import annotations

import io
import os
import shutil
import tempfile
from contextlib import ExitStack
from pathlib import Path
from threading import Event, Lock
from typing import TYPE_CHECKING, NamedTuple

from mercer.studies.cli.imports import INTERRUPTED, ended_by_ctrl_c
from mercer.studies.cli.in_parts import Agreement, Messages, SilentMessages
from mercer.studies.cli.messages import Failure
from mercer.studies.cli.predicted_parts import Asked, predicted_parts
from mercer.studies.cli.predictions import csv_writer

if TYPE_CHECKING:
    from mercer.studies.models import Model

_WARNINGS = Lock()  # threads of a worker take turns: the warnings of a process are recorded for one part at a time


class _Answers(NamedTuple):
    """What a worker says of the predictions of a file, which it has written to a file of their own."""

    header: list[str]
    messages: dict[str, tuple[str, str]]
    agreement: Agreement


def predict_on_workers(cluster: str, model: Model, tables: tuple[str, ...], out: str, asked: Asked) -> Agreement:
    """Have workers predict files, write the predictions in the order of the files, and return what agrees.

    Each worker writes the predictions of a file beside the output. They are then put together, and the output appears
    under its name once it is complete.
    """
    with ended_by_ctrl_c():
        from mercer.cluster import ClusterError, workers_of
        from mercer.studies.models import open_atomically

    place = Path(out).absolute()
    agreement, messages, has_header = Agreement(model), Messages(), False
    folder = tempfile.mkdtemp(prefix=f".{place.name}.", suffix=".parts", dir=place.parent)
    tasks = [(table, str(Path(table).absolute()), f"{folder}/{number}.csv") for number, table in enumerate(tables)]
    try:
        with ExitStack() as stack:
            workers, file = stack.enter_context(workers_of(cluster)), stack.enter_context(open_atomically(place, "wb"))
            outcomes = workers.in_order(_predict_file, (model, asked), tasks, lambda: None)
            stack.callback(outcomes.close)
            for one, (_, _, path) in zip(outcomes, tasks, strict=True):
                for key, (kind, text) in one.messages.items():
                    messages.say(kind, key, text)
                agreement.merge(one.agreement)
                if not has_header:
                    csv_writer(header := io.StringIO())(one.header)
                    file.write(header.getvalue().encode())
                    has_header = True
                with open(path, "rb") as part:
                    shutil.copyfileobj(part, file)
                os.unlink(path)
    except ClusterError as error:
        raise Failure(str(error)) from error
    except KeyboardInterrupt:
        raise Failure("interrupted", f"{out} is as it was", INTERRUPTED) from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return agreement


def _predict_file(inputs: tuple[Model, Asked], task: tuple[str, str, str]) -> _Answers:
    """Predict a file, on a worker."""
    from mercer.cluster import while_wanted
    from mercer.studies.files.blocks.cluster_rows import refuse_unseen
    from mercer.studies.models import open_atomically

    (model, asked), (name, table, chunk) = inputs, task
    refuse_unseen(table)
    refuse_unseen(os.path.dirname(chunk))
    agreement, messages, header, is_stopped = Agreement(model), SilentMessages(), list[str](), Event()
    with while_wanted(is_stopped.set), open_atomically(chunk, "w") as file:
        write, parts = csv_writer(file), predicted_parts(model, table, asked, messages, name)
        while not is_stopped.is_set():
            with _WARNINGS:
                part = next(parts, None)
            if part is None:
                break
            rows, answers, columns = part
            header = header or [*columns]
            for cells in zip(*columns.values(), strict=True):
                write(cells)
            agreement.add(rows, answers)
    return _Answers(header, messages.said, agreement)
