"""Approximation by cells: the tree, the machines of cells, their bound of the optimum, and how a fit of them ends."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from mercer import (
    SVC,
    SVR,
    Cells,
    KernelSearchCV,
    OneClassSVM,
    as_model,
    leave_one_out,
    load_model,
    save_model,
)
from mercer.approximate import CellsMachine, Task, way_of
from mercer.approximate.cell_machine import train_cell
from mercer.approximate.cell_size import affordable, chosen_size, least_cell
from mercer.approximate.median_tree import grow, middle
from mercer.certificates.solution import Limits
from mercer.certificates.status import Status
from mercer.data import as_data
from mercer.kernels import RBF, Laplacian, Spectrum
from mercer.kernels.kernel import as_rows
from mercer.model_selection.rows_learnt import sealed_rows_learnt
from mercer.multiclass.training import class_scores, winners
from mercer.solvers import Control
from mercer.solvers.forecast import Pilot
from mercer.specs import ForOneClassSVM, ForSVC, ForSVR
from mercer.studies.models import verify

TIGHT = Limits(tol=1e-6)


def task_of(X: Any, y: Any, spec: Any, kernel: Any = None, weights: Any = None, **about: Any) -> Task:
    kernel = kernel or RBF(gamma=1.0)
    data = as_rows(kernel, X)
    weights = np.ones(data.n) if weights is None else np.asarray(weights, dtype=float)
    rows = np.flatnonzero(weights > 0.0)
    n_classes = int(np.max(y)) + 1 if isinstance(spec, ForSVC) else 0
    return Task(
        spec, kernel.resolve(data), data, rows, np.asarray(y)[rows], weights[rows], n_classes, **({"n_jobs": 1} | about)
    )


def trained(task: Task, limits: Limits = TIGHT, **way: Any) -> CellsMachine:
    return Cells(**way).train(task, Control(limits))


def classes(n: int, n_classes: int = 2, seed: int = 0, p: int = 2) -> tuple[Any, Any]:
    """Stripes of classes, a tenth of whose labels are noise."""
    random = np.random.default_rng(seed)
    X = random.standard_normal((n, p))
    y = np.floor(2.0 * X[:, 0]).astype(int) % n_classes
    noisy = random.random(n) < 0.1
    y[noisy] = random.integers(0, n_classes, noisy.sum())
    y[:n_classes] = np.arange(n_classes)
    return X, y


@given(
    seed=st.integers(0, 10_000),
    n=st.integers(1, 300),
    p=st.integers(1, 4),
    digits=st.integers(0, 3),
    cell_rows=st.integers(1, 80),
    overlap=st.sampled_from([0.0, 0.1, 0.4]),
)
@settings(max_examples=60, deadline=None)
def test_every_row_has_one_home(seed: int, n: int, p: int, digits: int, cell_rows: int, overlap: float) -> None:
    X = np.random.default_rng(seed).standard_normal((n, p)).round(digits)
    data = as_data(X)
    tree, cells = grow(RBF(gamma=1.0), data, cell_rows, overlap=overlap, n_jobs=1)
    homes = np.concatenate([cell.rows[cell.is_home] for cell in cells])
    assert np.array_equal(np.sort(homes), np.arange(n))
    cell_of = tree.cells_of(data, n_jobs=1)
    for number, cell in enumerate(cells):
        assert (cell_of[cell.rows[cell.is_home]] == number).all()
        assert (np.diff(cell.rows) > 0).all()
    one_by_one = [tree.cells_of(data.rows(np.array([i])), n_jobs=1)[0] for i in range(0, n, 17)]
    assert np.array_equal(cell_of[::17], one_by_one)


def test_cells_are_balanced_and_overlap_by_the_share_asked_for() -> None:
    X = np.random.default_rng(0).standard_normal((1600, 3))
    _, cells = grow(RBF(gamma=1.0), as_data(X), 400, overlap=0.1, n_jobs=1)
    assert [int(cell.is_home.sum()) for cell in cells] == [400] * 4
    assert sum(cell.rows.size for cell in cells) == pytest.approx(1600 * 1.1**2, abs=4)
    _, disjoint = grow(RBF(gamma=1.0), as_data(X), 400, overlap=0.0, n_jobs=1)
    assert sum(cell.rows.size for cell in disjoint) == 1600


def test_the_cut_is_the_median_and_ties_stay_together() -> None:
    assert middle(np.array([5.0, 1.0, 2.0, 9.0])) == 3.5
    assert middle(np.array([1.0, 1.0, 1.0, 2.0])) == 1.5
    assert middle(np.r_[np.zeros(99), 1.0]) is None  # nearly all rows would be on one side
    below, above = 1.0, np.nextafter(1.0, 2.0)
    assert middle(np.array([below, above])) == below


@pytest.mark.parametrize("offset", [0.0, 1e8])
def test_cuts_do_not_depend_on_the_offset_or_the_unit_of_columns(offset: float) -> None:
    X = np.random.default_rng(1).integers(0, 1000, (500, 3)).astype(float)
    sizes = [[c.rows.tolist() for c in grow(RBF(gamma=1.0), as_data(scale * (X + offset)), 100, n_jobs=1)[1]]
             for scale in (1.0, 2.0**40)]  # fmt: skip
    assert sizes[0] == sizes[1]
    assert len(sizes[0]) == 8


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("scheme", ["ovo", "ovr"])
def test_one_cell_is_the_exact_machine_to_the_bit(n_classes: int, scheme: str) -> None:
    X, y = classes(120, n_classes)
    weights = np.where(np.arange(120) % 5 == 4, 0.0, 1.0 + np.arange(120) % 3)
    machine = trained(task_of(X, y, ForSVC(C=3.0), weights=weights, scheme=scheme), Limits())
    exact = SVC(C=3.0, kernel=RBF(gamma=1.0), multi_class=scheme).fit(X, y, weights)
    assert np.array_equal(machine.values(as_data(X)), exact._raw_decision(as_data(X)))
    least = "14,769 rows, for pairs of 4 classes," if (n_classes, scheme) == (4, "ovo") else "8,000 rows"
    assert machine.reason == (
        f"one cell of all 96 rows, which is the exact machine, because cells have at least {least} unless cell_rows "
        "asks for fewer."
    )


def test_one_cell_of_a_regression_is_the_exact_machine_to_the_bit() -> None:
    X, _ = classes(120)
    y = np.sin(X[:, 0])
    machine = trained(task_of(X, y, ForSVR(C=3.0, epsilon=0.1)), Limits())
    exact = SVR(C=3.0, kernel=RBF(gamma=1.0)).fit(X, y)
    assert np.array_equal(machine.values(as_data(X))[:, 0], exact.predict(X))


@pytest.mark.parametrize("seed", range(12))
def test_cells_bound_the_optimum_of_classifiers_from_below(seed: int) -> None:
    random = np.random.default_rng(seed)
    n_classes, n = int(random.choice([2, 2, 4])), int(random.integers(30, 120))
    X, y = classes(n, n_classes, seed)
    squared, bias, scheme = bool(seed % 3 == 1), seed % 4 != 2, ("ovo", "ovr")[seed % 2]
    C, gamma = float(10.0 ** random.uniform(-2, 3)), float(10.0 ** random.uniform(-2, 1))
    weights = np.where(random.random(n) < 0.3, 2.0, 1.0)
    task = task_of(X, y, ForSVC(C=C, squared=squared, bias=bias), RBF(gamma=gamma), weights, scheme=scheme)
    certificate = trained(task, cell_rows=n // 4).certificate
    exact = SVC(
        C=C, kernel=RBF(gamma=gamma), loss="squared_hinge" if squared else "hinge", fit_intercept=bias,
        multi_class=scheme, tol=1e-6,
    ).fit(X, y, weights)  # fmt: skip
    assert certificate.status == Status.OPTIMAL
    assert 0.0 < certificate.exact_dual <= exact.certificate_.primal
    assert certificate.distance_to_exact == np.inf


@pytest.mark.parametrize("seed", range(6))
def test_cells_bound_the_optimum_of_other_machines_from_below(seed: int) -> None:
    random = np.random.default_rng(seed)
    X, _ = classes(90, seed=seed)
    y = np.sin(2.0 * X[:, 0]) + 0.1 * random.standard_normal(90)
    for squared in (False, True):
        loss = "squared_epsilon_insensitive" if squared else "epsilon_insensitive"
        epsilon = 0.1 * (seed % 2)
        certificate = trained(task_of(X, y, ForSVR(C=5.0, epsilon=epsilon, squared=squared)), cell_rows=30).certificate
        exact = SVR(C=5.0, epsilon=epsilon, loss=loss, kernel=RBF(gamma=1.0), tol=1e-6).fit(X, y)
        assert 0.0 < certificate.exact_dual <= exact.certificate_.primal
    nu = float(random.uniform(0.1, 0.9))
    certificate = trained(task_of(X, y, ForOneClassSVM(nu=nu)), cell_rows=30).certificate
    detector = OneClassSVM(nu=nu, kernel=RBF(gamma=1.0), tol=1e-6).fit(X)
    assert np.isfinite(certificate.exact_dual)
    assert certificate.exact_dual <= detector.certificate_.primal


def test_every_cell_has_the_share_nu_of_its_rows_outside() -> None:
    X, y = classes(400, seed=3)
    machine = trained(task_of(X, y, ForOneClassSVM(nu=0.2)), cell_rows=100, overlap=0.0)
    outside = machine.values(as_data(X))[:, 0] < -1e-6
    cell_of = machine.tree.cells_of(as_data(X))
    for number in range(4):
        assert 0.1 < outside[cell_of == number].mean() <= 0.2


@pytest.mark.parametrize("scheme", ["ovo", "ovr"])
def test_a_cell_without_a_class_never_answers_it(scheme: str) -> None:
    random = np.random.default_rng(0)
    centres = np.array([[0.0, 0.0], [20.0, 0.0], [20.0, 3.0], [0.0, 20.0], [3.0, 20.0]])
    y = np.arange(500) % 5
    X = centres[y] + random.standard_normal((500, 2))
    machine = trained(task_of(X, y, ForSVC(C=10.0), scheme=scheme), cell_rows=110, overlap=0.0)
    cell_of = machine.tree.cells_of(as_data(X))
    predicted = winners(class_scores(machine.values(as_data(X)), 5, scheme))
    sizes = []
    for number in range(machine.tree.n_cells):
        inside = cell_of == number
        assert set(predicted[inside]) <= set(y[inside])
        sizes.append(np.unique(y[inside]).size)
    assert min(sizes) == 1  # its answer is constant
    assert 2 in sizes  # one machine for two of five classes
    assert (predicted == y).mean() > 0.95


@pytest.mark.parametrize("n_jobs", [2, 5])
def test_results_do_not_depend_on_the_number_of_threads(n_jobs: int) -> None:
    X, y = classes(600, 3, p=3)
    task = task_of(X, y, ForSVC(C=2.0))
    one, several = (trained(replace(task, n_jobs=k), cell_rows=80) for k in (1, n_jobs))
    assert np.array_equal(one.values(task.data), several.values(task.data))
    assert one.certificate.exact_dual == several.certificate.exact_dual


def test_certificates_of_cells_are_verified_on_the_rows_of_the_fit() -> None:
    X, y = classes(200, 3)
    machine = trained(task_of(X, y, ForSVC(C=2.0)), Limits(), cell_rows=60)
    parts = machine.certificate.parts
    assert len(parts) >= 4
    again = machine.certificate.verify()
    assert again.status == Status.OPTIMAL
    assert again.primal == pytest.approx(machine.certificate.primal, rel=1e-9)
    assert all(part.evidence.data.stored is X for part in parts)  # no copy of the rows is kept


def test_rows_that_cannot_be_divided_stay_in_one_cell() -> None:
    machine = trained(task_of(np.ones((40, 3)), np.arange(40) % 2, ForSVC(C=1.0)), cell_rows=10)
    assert machine.tree.n_cells == 1
    assert "no cut divides the rows, which are equal" in machine.reason
    X, y = classes(200)
    X[50:150] = X[50]  # a hundred equal rows are one cell, others are divided
    machine = trained(task_of(np.column_stack([X, np.full(200, 7.0)]), y, ForSVC(C=1.0)), cell_rows=20)
    assert machine.tree.n_cells > 5


def test_sparse_rows_have_the_cells_of_dense_ones_at_prediction() -> None:
    X = sp.random(300, 40, 0.1, format="csr", random_state=0)
    y = (np.asarray(X.sum(axis=1)).ravel() > 2.0).astype(int)
    machine = trained(task_of(X, y, ForSVC(C=5.0)), cell_rows=80)
    assert machine.tree.n_cells == 4
    assert np.allclose(machine.values(as_data(X)), machine.values(as_data(X.toarray())), atol=1e-9)


def test_strings_are_divided_by_their_kernel() -> None:
    random = np.random.default_rng(0)
    shares = [[0.25] * 4, [0.4, 0.1, 0.1, 0.4]]
    y = np.arange(160) % 2
    rows = ["".join(random.choice(list("ACGT"), 25, p=shares[label])) for label in y]
    kernel = Spectrum(3)
    machine = trained(task_of(rows, y, ForSVC(C=1.0), kernel), cell_rows=50)
    assert machine.tree.n_cells == 4
    assert ((machine.values(as_rows(kernel, rows))[:, 0] > 0.0) == y).mean() > 0.9
    assert as_rows(kernel, [rows[i] for i in machine.tree.rows]).n == machine.tree.pivots.n


def test_a_stopped_fit_answers_for_every_row_and_names_what_is_unfinished() -> None:
    X, y = classes(1500)
    task = task_of(X, y, ForSVC(C=5.0), RBF(gamma=10.0))
    machine = trained(task, Limits(max_seconds=0.0), cell_rows=200)
    assert machine.certificate.status == Status.TIME_LIMIT
    assert "stopped before" in machine.reason
    assert ((machine.values(task.data)[:, 0] > 0.0) == y).mean() > 0.8
    full = trained(task, cell_rows=200).certificate
    assert machine.certificate.gap > full.gap


def test_a_callback_stops_cells_and_hears_of_them() -> None:
    X, y = classes(900)
    heard: list[str] = []
    control = Control(TIGHT, lambda progress: heard.append(progress.stage))
    machine = Cells(cell_rows=150).train(task_of(X, y, ForSVC(C=5.0)), control)
    assert machine.certificate.status == Status.OPTIMAL
    assert heard[-1] == "cell 8 of 8"
    control = Control(TIGHT, lambda progress: True)
    stopped = Cells(cell_rows=150).train(task_of(X, y, ForSVC(C=5.0)), control)
    assert control.interruption.requested
    assert stopped.certificate.status in (Status.INTERRUPTED, Status.OPTIMAL)  # if all cells were done by then


def test_kernel_values_are_refused() -> None:
    X, y = classes(30)
    task = task_of(X @ X.T, y, ForSVC(C=1.0), SVC(kernel="precomputed")._kernel_asked_for())
    with pytest.raises(ValueError, match="needs rows, not kernel values"):
        trained(task, cell_rows=10)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"cell_rows": 0}, "cell_rows must be an integer >= 1"),
        ({"cell_rows": 2.5}, "cell_rows"),
        ({"overlap": 0.6}, "overlap must be a number from 0 to 0.5"),
        ({"overlap": -0.1}, "overlap"),
        ({"overlap": float("nan")}, "overlap"),
    ],
)
def test_wrong_parameters_are_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Cells(**wrong)


def test_the_pilot_keeps_cells_small_at_a_boundary_and_not_on_smooth_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mercer.approximate.cell_size.LEAST_CELL", 300)
    monkeypatch.setattr("mercer.approximate.cell_size._PILOT_ROWS", 400)
    random = np.random.default_rng(0)
    blobs = np.arange(3000) % 6
    X = 5.0 * np.column_stack([blobs // 2, blobs % 2]) + random.standard_normal((3000, 2))
    control, check = Control(Limits()), lambda: None
    size, why = chosen_size(task_of(X, blobs % 2, ForSVC(C=1.0)), 0.1, control, check)
    assert size == 300
    assert "quarters of a part of" in why
    Z = random.standard_normal((3000, 8))
    noisy = (random.random(3000) < 1.0 / (1.0 + np.exp(-Z.sum(axis=1)))).astype(int)
    size, why = chosen_size(task_of(Z, noisy, ForSVC(C=10.0), Laplacian(gamma=0.1)), 0.1, control, check)
    assert size == 3000
    assert "two cells would lose too much" in why


def test_the_size_of_cells_is_limited_by_rows_and_by_time() -> None:
    pilots = [Pilot(2000, 0.1, 1000), Pilot(8000, 1.6, 4000)]  # exponent 2

    def chosen(size: int, left: float = np.inf) -> tuple[int, str]:
        return affordable(1_000_000, size, 0.1, pilots, left)

    assert chosen(62_500) == (62_500, "")
    size, why = chosen(1_000_000)
    assert size == 62_500  # times 1.1 ** 4 are 91,506 rows
    assert "no machine is trained on more than 100,000 rows unless cell_rows asks for it" in why
    seconds = [1e6, 4000.0, 1200.0, 1.0]  # 16 cells take 16 * 1.6 * (91,506 / 8,000) ** 2 = 3,350 seconds
    assert [chosen(1_000_000, left)[0] for left in seconds] == [62_500, 31_250, 7813, 3907]
    assert "larger ones not to end within max_seconds" in chosen(1_000_000, 1000.0)[1]


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_bound_that_costs_much_is_estimated_and_proved_when_asked(
    n_classes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y = classes(600, n_classes)
    task = task_of(X, y, ForSVC(C=2.0))
    proved = trained(task, cell_rows=150)
    monkeypatch.setattr("mercer.approximate.cells_evidence.PROVED_VALUES", 1e4)
    machine = trained(task, cell_rows=150)
    certificate, bound = machine.certificate, proved.certificate.exact_dual
    assert certificate.exact_dual == -np.inf
    assert 0.5 * bound < certificate.estimated_dual <= 1.02 * bound
    assert "estimated from a sample and not proved" in certificate.distance_in_words
    assert "certificate_.prove() computes a proved one" in machine.reason
    assert certificate.prove().exact_dual == bound
    assert certificate.verify().exact_dual == pytest.approx(bound, rel=1e-9)


@pytest.mark.parametrize("scheme", ["ovo", "ovr"])
def test_machines_of_a_few_rows_are_certified_in_all_rows_of_their_cell(scheme: str) -> None:
    X, y = classes(1500, 3)
    tasks = [
        task_of(X, y, ForSVC(C=5.0), scheme=scheme),
        task_of(X, X[:, 0], ForSVR(C=5.0, epsilon=0.1, squared=True)),
        task_of(X, y, ForOneClassSVM(nu=0.2), weights=1.0 + y),
    ]
    for task in tasks:
        machine = trained(task, Limits(max_seconds=0.0), cell_rows=400)
        certificate = machine.certificate
        again = certificate.verify()
        assert certificate.status == Status.TIME_LIMIT
        assert again.primal == pytest.approx(certificate.primal, rel=1e-6)
        assert again.dual == pytest.approx(certificate.dual, rel=1e-6)
        assert trained(task, cell_rows=400).certificate.dual <= certificate.primal


def test_every_cell_has_a_share_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[float] = []

    def train(task: Task, rows: Any, is_home: Any, control: Control) -> Any:
        limits.append(control.limits.max_seconds or 0.0)
        return train_cell(task, rows, is_home, control)

    monkeypatch.setattr("mercer.approximate.cells.train_cell", train)
    X, y = classes(800)
    trained(task_of(X, y, ForSVC(C=1.0)), replace(TIGHT, max_seconds=1e6), cell_rows=100)
    assert limits[0] == 0.0  # it measures what a cell takes for which no time is left
    limits = limits[1:]
    assert len(limits) == 8
    assert limits[0] == pytest.approx(2.5e5, rel=0.01)  # two shares of eight
    assert limits[-1] == pytest.approx(1e6, rel=0.01)


@pytest.mark.parametrize(("shares", "scheme", "least"), [
    ([0.1] * 10, "ovo", 1500), ([0.1] * 10, "ovr", 300), ([0.6, 0.3, 0.1], "ovo", 333), ([0.5, 0.5], "ovo", 300),
])  # fmt: skip
def test_cells_of_many_classes_have_more_rows(
    shares: list[float], scheme: str, least: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mercer.approximate.cell_size.LEAST_CELL", 300)
    y = np.repeat(np.arange(len(shares)), np.round(1000 * np.array(shares)).astype(int))
    task = task_of(np.arange(1000.0)[:, None], y, ForSVC(C=1.0), scheme=scheme)
    assert least_cell(task) == least
    if least > 1000 // 2:
        size, why = chosen_size(task, 0.1, Control(Limits()), lambda: None)
        assert size == 1000
        assert why.startswith("because cells have at least 1,500 rows, for pairs of 10 classes, unless cell_rows")


def test_a_classifier_of_cells_has_what_others_have() -> None:
    X, y = classes(600, 3)
    labels = np.array(["a", "b", "c"])[y]
    machine = SVC(C=5.0, gamma=5.0, approximation=Cells(cell_rows=150), probability=True).fit(X, labels)
    exact = SVC(C=5.0, gamma=5.0).fit(X, labels)
    assert machine.score(X, labels) == pytest.approx(exact.score(X, labels), abs=0.05)
    assert machine.decision_function(X).shape == (600, 3)
    assert np.array_equal(machine.classes_[machine.predict_proba(X).argmax(axis=1)], machine.predict(X))
    assert machine.certificate_.exact_dual <= exact.certificate_.primal
    assert "the exact objective is at least" in str(machine.certificate_)
    assert clone(machine).approximation == Cells(cell_rows=150)
    assert way_of("cells") == Cells()
    state = pickle.dumps(machine)
    assert len(state) < 400_000  # no training rows besides the support vectors
    other = pickle.loads(state)
    assert np.array_equal(other.decision_function(X), machine.decision_function(X))
    assert other.certificate_ == machine.certificate_


def test_attributes_of_a_single_sum_are_missing_and_say_why() -> None:
    X, y = classes(300)
    machine = SVC(approximation=Cells(cell_rows=100)).fit(X, y)
    for name in ("support_", "support_vectors_", "dual_coef_", "n_support_", "function_"):
        assert not hasattr(machine, name)
    with pytest.raises(AttributeError, match="4 cells of 75 rows, each an exact machine"):
        _ = machine.dual_coef_
    with pytest.raises(AttributeError, match="has no exact solution"):
        _ = machine.solution_
    with pytest.raises(AttributeError, match="object has no attribute 'unknown_'"):
        _ = machine.unknown_


def test_a_regression_and_a_detector_of_cells() -> None:
    X, _ = classes(600)
    y = np.sin(2.0 * X[:, 0]) + X[:, 1]
    machine = SVR(C=10.0, approximation=Cells(cell_rows=200)).fit(X, y)
    assert machine.score(X, y) > 0.98
    detector = OneClassSVM(contamination=0.1, approximation=Cells(cell_rows=200)).fit(X)
    assert (detector.predict(X) < 0).mean() == pytest.approx(0.1, abs=0.002)
    assert np.array_equal(detector.decision_function(X), detector.score_samples(X) - detector.offset_)


def test_text_and_missing_values_are_refused_as_by_an_exact_machine() -> None:
    X, y = classes(60)
    X[3, 1] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        SVC(approximation="cells").fit(X, y)
    with pytest.raises(ValueError, match="one class only"):
        SVC(approximation="cells").fit(np.nan_to_num(X), np.ones(60))
    with pytest.raises(ValueError, match="finite C"):
        SVC(C=np.inf, approximation="cells").fit(np.nan_to_num(X), y)


def test_leave_one_out_of_approximate_machines_is_refused() -> None:
    X, y = classes(60)
    with pytest.raises(ValueError, match="set approximation=None"):
        leave_one_out(SVC(approximation=Cells(cell_rows=20)), X, y)
    with pytest.raises(ValueError, match="set approximation=None"):
        KernelSearchCV(SVC(approximation="cells"), {"C": [1.0]}, cv="leave_one_out").fit(X, y)


def test_sealed_rows_in_a_cell_are_found() -> None:
    X, y = classes(200)
    machine = SVC(approximation=Cells(cell_rows=60)).fit(X, y)
    assert sealed_rows_learnt(machine, X, np.arange(150), np.arange(150, 200)) == 50
    machine = SVC(approximation=Cells(cell_rows=60)).fit(X[:150], y[:150])
    assert sealed_rows_learnt(machine, X, np.arange(150), np.arange(150, 200)) == 0


def stored(machine: Any, X: Any, y: Any, folder: Any, weights: Any = None) -> Any:
    """The model of a file, whose decision values are those of the machine to the bit."""
    save_model(folder / "m.mercer", as_model(machine, X, y, weights))
    model = load_model(folder / "m.mercer")
    rows = machine._new_rows(X)
    assert np.array_equal(model.decision_values(X), machine._values(rows, machine.intercept_))
    return model


@pytest.mark.parametrize("scheme", ["ovo", "ovr"])
@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_a_model_file_of_cells_gives_the_same_bits_and_is_verified(n_classes: int, scheme: str, tmp_path: Any) -> None:
    X, y = classes(250, n_classes, p=3)
    X[y == 2] += 20.0  # some cells have one class or two
    weights = np.where(np.arange(250) < 9, 0.0, 1.0 + np.arange(250) % 3)
    machine = SVC(C=5.0, approximation=Cells(cell_rows=50), multi_class=scheme).fit(X, y, weights)
    model = stored(machine, X, y, tmp_path, weights)
    columns = {str(j): X[:, j] for j in range(3)} | {"y": y}
    verification = verify(model, columns)
    assert verification.findings == ()
    assert verification.recomputed.exact_dual == pytest.approx(machine.certificate_.exact_dual, rel=1e-9)
    save_model(tmp_path / "alone.mercer", machine)
    assert np.array_equal(load_model(tmp_path / "alone.mercer").predict(X), machine.predict(X))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_bound_of_cells_is_computed_again_from_the_rows(n_classes: int) -> None:
    X, y = classes(200, n_classes)
    weights = np.where(np.arange(200) % 7 == 0, 0.0, 1.0 + np.arange(200) % 2)
    certificate = SVC(approximation=Cells(cell_rows=50)).fit(X, y, weights).certificate_
    again = certificate.verify()
    assert again.dual == pytest.approx(certificate.dual, rel=1e-9)
    assert again.exact_dual == pytest.approx(certificate.exact_dual, rel=1e-9)
    assert again.distance_in_words == certificate.distance_in_words
    assert again.seconds == certificate.seconds
    assert len(again.examples()) == len(certificate.parts)
    assert certificate.prove().exact_dual == certificate.exact_dual
    X[:] = X[::-1]  # the bound is that of the rows as they are now
    assert certificate.verify().exact_dual != pytest.approx(certificate.exact_dual, rel=1e-3)
    with pytest.raises(ValueError, match="pickled or loaded from a file"):
        pickle.loads(pickle.dumps(certificate)).verify()


@pytest.mark.parametrize("machine", [SVR(C=5.0), OneClassSVM(nu=0.3)])
def test_the_bound_of_cells_of_other_machines_is_computed_again(machine: Any) -> None:
    X, _ = classes(150)
    certificate = clone(machine).set_params(approximation=Cells(cell_rows=50)).fit(X, np.sin(X[:, 0])).certificate_
    assert certificate.verify().exact_dual == pytest.approx(certificate.exact_dual, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("way", ["cells", Cells(cell_rows=200)])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_distance_of_a_single_cell_is_its_gap(way: Any, n_classes: int, tmp_path: Any) -> None:
    X, y = classes(200, n_classes)
    machine, exact = SVC(approximation=way, tol=0.1).fit(X, y), SVC(tol=0.1).fit(X, y)
    certificate = machine.certificate_
    assert certificate.exact_dual == pytest.approx(exact.certificate_.dual, rel=1e-12)
    assert certificate.exact_primal == pytest.approx(exact.certificate_.primal, rel=1e-9)
    assert certificate.exact_primal >= exact.certificate_.primal
    assert certificate.distance_to_exact == pytest.approx(exact.certificate_.relative_gap, rel=1e-4, abs=1e-11)
    for other in (certificate.verify(), certificate.prove()):
        assert other.distance_to_exact == pytest.approx(certificate.distance_to_exact, rel=1e-4, abs=1e-11)
    model, columns = stored(machine, X, y, tmp_path), {"0": X[:, 0], "1": X[:, 1], "y": y}
    verification = verify(model, columns)
    assert verification.findings == ()
    assert verification.recomputed.distance_to_exact == pytest.approx(
        certificate.distance_to_exact, rel=1e-4, abs=1e-11
    )
    false = replace(model.cells.certificate, exact_primal=0.999 * certificate.exact_primal)
    findings = verify(replace(model, cells=replace(model.cells, certificate=false)), columns).findings
    assert any(finding.startswith("the objective in the exact problem is") for finding in findings)


def test_nothing_is_proved_by_a_single_cell_of_a_kernel_that_is_not_positive_semidefinite() -> None:
    X, y = classes(150)
    machine = SVC(kernel="sigmoid", gamma=3.0, coef0=-2.0, approximation="cells")
    with pytest.warns(ConvergenceWarning, match="not known to be positive semidefinite"):
        certificate = machine.fit(X, y).certificate_
    assert certificate.status == Status.STATIONARY
    assert certificate.distance_in_words == "not known"
    assert certificate.verify().exact_dual == -np.inf


def test_false_claims_of_cells_in_a_model_file_are_found(tmp_path: Any) -> None:
    X, y = classes(200, 3, p=3)
    machine = SVC(C=5.0, approximation=Cells(cell_rows=50)).fit(X, y)
    model, columns = stored(machine, X, y, tmp_path), {str(j): X[:, j] for j in range(3)} | {"y": y}
    cells, parts = model.cells, model.parts
    bound = replace(cells.certificate, exact_dual=1.01 * cells.certificate.exact_dual)
    other = replace(parts[0], beta=0.9 * parts[0].beta)
    primal = replace(cells.certificate, exact_primal=1.01 * cells.certificate.exact_dual)
    forged = {
        "the objective in the exact problem is": replace(model, cells=replace(cells, certificate=primal)),
        "the lower bound of the exact objective is": replace(model, cells=replace(cells, certificate=bound)),
        "the tree sends": replace(model, cells=replace(cells, thresholds=cells.thresholds + 0.5)),
        "the dual objective is": replace(model, parts=(other, *parts[1:])),
        "a bias is": replace(model, parts=(replace(parts[0], bias=parts[0].bias + 0.1), *parts[1:])),
    }
    for message, false in forged.items():
        assert any(finding.startswith(message) for finding in verify(false, columns).findings), message


def test_a_single_sum_is_asked_of_cells_in_vain(tmp_path: Any) -> None:
    X, y = classes(100)
    model = stored(SVC(approximation=Cells(cell_rows=50)).fit(X, y), X, y, tmp_path)
    with pytest.raises(ValueError, match="needs a model that is one sum over support vectors"):
        _ = model.machines


@pytest.mark.parametrize("way", [Cells(cell_rows=10_000), "cells"])
@pytest.mark.parametrize("n", [2, 3, 5])
def test_cells_larger_than_the_table_are_the_exact_machine(n: int, way: Any) -> None:
    X, y = np.arange(2.0 * n).reshape(n, 2), np.arange(n) % 2
    machine, exact = SVC(approximation=way).fit(X, y), SVC().fit(X, y)
    assert np.array_equal(machine.decision_function(X), exact.decision_function(X))


def test_cells_of_one_row_answer_its_class() -> None:
    X, y = np.random.default_rng(0).standard_normal((40, 2)), np.arange(40) % 3
    machine = SVC(approximation=Cells(cell_rows=1, overlap=0.0)).fit(X, y)
    assert machine.score(X, y) == 1.0


def test_rare_classes_duplicates_and_constant_columns_have_right_answers() -> None:
    random = np.random.default_rng(1)
    X = np.column_stack([random.standard_normal((600, 2)), np.full(600, 3.0)])
    X[300:] = X[:300]  # every row twice
    y = np.zeros(600, dtype=int)
    y[[7, 307]] = 1  # a class of one row and its copy
    y[X[:, 0] > 1.5] = 2
    machine = SVC(C=100.0, gamma=3.0, approximation=Cells(cell_rows=100)).fit(X, y)
    assert machine.score(X, y) == pytest.approx(SVC(C=100.0, gamma=3.0).fit(X, y).score(X, y), abs=0.01)
    assert machine.certificate_.status == Status.OPTIMAL


def test_a_row_of_weight_0_is_as_if_it_were_not_there() -> None:
    X, y = classes(300)
    weights = np.where(np.arange(300) % 4 == 1, 0.0, 1.0)
    way = Cells(cell_rows=60)
    one = SVC(approximation=way, gamma=1.0).fit(X, y, weights)
    other = SVC(approximation=way, gamma=1.0).fit(X[weights > 0.0], y[weights > 0.0])
    assert np.allclose(one.decision_function(X), other.decision_function(X), atol=1e-9)


def test_the_distance_of_one_cell_is_the_gap_with_its_rounding():
    X, y = classes(120, 2)
    certificate = SVC(approximation=Cells(cell_rows=200)).fit(X, y).certificate_
    assert certificate.exact_primal >= certificate.primal + certificate.rounding
    assert certificate.exact_dual <= certificate.dual
    assert certificate.distance_to_exact >= certificate.relative_gap > 0.0
