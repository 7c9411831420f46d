"""The transformers of a pipeline in a model file, and what of a fitted object is saved."""

from __future__ import annotations

from typing import Any

import sklearn
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from mercer.data import warn_user
from mercer.studies.models.model import Model
from mercer.studies.models.model_of_estimator import as_model
from mercer.studies.models.plain_state import CLASSES, read, written
from mercer.studies.models.refusals import refuse

PIPELINE = "pipeline"
"""The entry of a manifest that has the transformers; files of other models lack it."""


def parts_to_save(model: Any) -> tuple[list[tuple[str, Any]], Model]:
    """Return the named transformers and the model of what was trained: see `save_model`.

    Raises
    ------
    TypeError
        If it cannot be saved.
    """
    if isinstance(model, Model):
        return [], model
    if hasattr(model, "best_params_") or hasattr(model, "param_distributions") or hasattr(model, "param_grid"):
        check_is_fitted(model, "best_estimator_", msg=_NOT_REFITTED)
        return parts_to_save(model.best_estimator_)
    if isinstance(model, Pipeline):
        check_is_fitted(model)
        steps = [(name, step) for name, step in model.steps[:-1] if step is not None and step != "passthrough"]
        inner, machine = parts_to_save(model.steps[-1][1])
        return [*steps, *inner], machine
    return [], as_model(model)


_NOT_REFITTED = "this %(name)s has no best_estimator_: fit it, with refit=True"


def described(steps: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the transformers of a pipeline as plain data.

    Raises
    ------
    TypeError
        If one of them, or what it is made of, is not known.
    """
    entries = []
    for name, step in steps:
        try:
            entries.append([name, written(step)])
        except TypeError as error:
            what = str(error)
            what = what if what.startswith("its ") else f"it {what}"
            raise TypeError(
                f"the step {name!r} of this pipeline cannot be written: {what}, and a model file holds no functions "
                f"and no objects but {', '.join(sorted(CLASSES))}; keep it by pickle, or put it before what you save"
            ) from error
    return {"scikit_learn": sklearn.__version__, "steps": entries}


def steps_of(entry: Any) -> list[tuple[str, Any]]:
    """Return the named transformers that an entry describes; ModelFileError if it is invalid."""
    if not isinstance(entry, dict) or entry.keys() != {"scikit_learn", "steps"}:
        refuse("its pipeline is not described as it should be")
    version = entry["scikit_learn"]
    if not isinstance(version, str):
        refuse("its pipeline does not say by which version of scikit-learn it was written")
    if version.split(".")[:2] != sklearn.__version__.split(".")[:2]:
        warn_user(
            f"the transformers of this pipeline were written with scikit-learn {version}, and this is "
            f"{sklearn.__version__}: compare some predictions, or install that version",
            UserWarning,
        )
    steps = [(name, read(one)) for name, one in entry["steps"]]
    if not all(isinstance(name, str) and hasattr(step, "transform") for name, step in steps):
        refuse("a step of its pipeline is not a transformer")
    return steps


def pipeline_of(steps: list[tuple[str, Any]], model: Model) -> Pipeline:
    """Return the pipeline of fitted transformers that a model ends."""
    name, used = "model", {name for name, _ in steps}
    while name in used:
        name += "_"
    return Pipeline([*steps, (name, model)])
