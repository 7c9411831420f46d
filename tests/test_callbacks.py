"""The callbacks of scikit-learn 1.9, and estimators without them."""

import importlib
import pickle
import sys

import pytest
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from mercer import SVC, KernelRidge, LinearSVC, LogisticRegression, RBFNetworkClassifier
from mercer.estimators import _callbacks

X, y = make_classification(400, 6, flip_y=0.3, random_state=0)

needs_callbacks = pytest.mark.skipif(_callbacks.with_callbacks is None, reason="scikit-learn < 1.9 has no callbacks")


class Recorder:
    """A callback that notes what it is told, and asks for the end of the fit after some tasks."""

    def __init__(self, most=10**9):
        self.log, self.most, self.scores = [], most, []

    def setup(self, estimator, context):
        self.log.append("setup")

    def teardown(self, estimator, context):
        self.log.append("teardown")

    def on_fit_task_begin(self, estimator, context):
        self.log.append(("begin", context.task_name))

    def on_fit_task_end(self, estimator, context, *, X=None, y=None, fitted_estimator=None):
        self.log.append(("end", context.task_name))
        if fitted_estimator is not None and hasattr(fitted_estimator, "score"):
            self.scores.append(fitted_estimator.score(X, y))
        return len(self.log) > self.most


class Propagated(Recorder):
    max_propagation_depth = None


@needs_callbacks
@pytest.mark.parametrize(
    "machine", [SVC(), LinearSVC(), KernelRidge(), LogisticRegression(), RBFNetworkClassifier(n_components=5)], ids=repr
)
def test_a_fit_is_a_task(machine):
    recorder = Recorder()
    machine.set_callbacks(recorder).fit(X, y)
    log = recorder.log
    assert log[:2] == ["setup", ("begin", "fit")]
    assert log[-2:] == [("end", "fit"), "teardown"]
    assert [word for word, _ in log[1:-1]].count("begin") == [word for word, _ in log[1:-1]].count("end")
    assert recorder.scores == [machine.score(X, y)]
    assert not [name for name in vars(machine) if "callback" in name and name not in ("callback", "_skl_callbacks")]
    assert clone(machine)._skl_callbacks == [recorder]
    machine.set_callbacks()
    pickle.loads(pickle.dumps(machine))
    before = len(log)
    machine.fit(X, y)
    assert len(log) == before


@needs_callbacks
def test_progress_is_a_subtask_and_a_callback_ends_the_fit():
    recorder, stages = Recorder(most=3), []
    machine = SVC(C=1e3, gamma=0.3, tol=1e-6, callback=lambda progress: stages.append(progress.stage))
    rows, labels = make_classification(3000, 6, flip_y=0.3, random_state=0)
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        machine.set_callbacks(recorder).fit(rows, labels)
    assert machine.certificate_.status == "interrupted"
    assert recorder.log[2:4] == [("begin", "solve"), ("end", "solve")]
    assert stages == ["solve"]
    assert recorder.log[-1] == "teardown"


@needs_callbacks
def test_meta_estimators_hand_callbacks_on(recwarn):
    recorder = Propagated()
    pipeline = make_pipeline(StandardScaler(), SVC())
    GridSearchCV(pipeline, {"svc__C": [1.0, 10.0]}, cv=2).set_callbacks(recorder).fit(X, y)
    assert recorder.log.count("setup") == recorder.log.count("teardown") == 1
    assert recorder.log.count(("end", "fit")) >= 10
    assert not [one for one in recwarn if "does not support callbacks" in str(one.message)]


@needs_callbacks
def test_a_fit_that_fails_ends_its_callbacks():
    recorder = Recorder()
    with pytest.raises(ValueError, match="C must be"):
        SVC(C=-1.0).set_callbacks(recorder).fit(X, y)
    assert recorder.log == ["setup", ("begin", "fit"), "teardown"]
    with pytest.raises(TypeError, match="FitCallback"):
        SVC().set_callbacks("bar")


def test_without_callbacks_nothing_is_added(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.callback", None)
    specification = importlib.util.spec_from_file_location("old_callbacks", _callbacks.__file__)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)

    class Machine(module.SupportsCallbacks):
        def fit(self, X, y=None):
            return "fitted"

    assert Machine.fit(Machine(), X) == "fitted"
    assert not hasattr(Machine, "set_callbacks")
    assert not hasattr(Machine.fit, "__wrapped__")
    assert Machine()._report_task(None) is False
