"""Several classes by two-class machines: equal to machines trained alone, on one shared Gram matrix."""

import pickle
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_digits, load_iris
from sklearn.utils.multiclass import _ovr_decision_function

from mercer import SVC
from mercer.certificates import certificate, quadratic
from mercer.certificates.status import IndefiniteKernelWarning, Status
from mercer.data import Precomputed as GivenValues
from mercer.data import as_data
from mercer.gram import CachePolicy, Gram, backends
from mercer.kernels import RBF, Linear, Precomputed, Sigmoid
from mercer.multiclass.training import class_scores, make_tasks, ranking_scores, train, winners
from mercer.problems import c_svc
from mercer.solvers import Control, Interruption, Limits, select, solve
from mercer.solvers.certified_rounds import solve_certified
from mercer.solvers.dual import small_problems, working_set_sizes
from pairs import every_pair

X, y = load_iris(return_X_y=True)
X = np.tile(X, 17) / 17**0.5  # the same distances, in rows so long that caching kernel values is worthwhile
KERNEL = RBF(gamma=0.5)
TIGHT = Limits(tol=1e-8)


def gram(cache_policy=CachePolicy.EXPENSIVE, **options):
    return Gram(KERNEL, as_data(X), cache_policy=cache_policy, **options)


def test_tasks_of_each_scheme():
    codes = np.array([2, 0, 1, 1, 0])
    (pair,) = make_tasks(np.array([0, 1, 1]), 2, "ovo")
    assert (pair.rows.tolist(), pair.signs.tolist(), pair.positive, pair.negative) == (
        [0, 1, 2],
        [-1.0, 1.0, 1.0],
        1,
        0,
    )
    assert make_tasks(np.array([0, 1, 1]), 2, "ovr")[0].signs.tolist() == [-1.0, 1.0, 1.0]
    pairs = make_tasks(codes, 3, "ovo")
    assert [(t.positive, t.negative, t.rows.tolist(), t.signs.tolist()) for t in pairs] == [
        (0, 1, [1, 4, 2, 3], [1.0, 1.0, -1.0, -1.0]),
        (0, 2, [1, 4, 0], [1.0, 1.0, -1.0]),
        (1, 2, [2, 3, 0], [1.0, 1.0, -1.0]),
    ]
    rest = make_tasks(codes, 3, "ovr")
    assert [(t.positive, t.negative, t.rows.tolist()) for t in rest] == [(k, None, [0, 1, 2, 3, 4]) for k in range(3)]
    assert rest[2].signs.tolist() == [1.0, -1.0, -1.0, -1.0, -1.0]


@pytest.mark.parametrize("cache_policy", [CachePolicy.NONE, CachePolicy.EXPENSIVE])
def test_one_versus_one_is_independent_machines(cache_policy):
    machines = train(gram(cache_policy), y, 3, 2.0, control=Control(TIGHT))
    K = KERNEL.block(as_data(X), as_data(X))
    raw = K @ machines.coefficients + machines.biases
    for column, (i, j) in enumerate(combinations(range(3), 2)):
        rows = np.flatnonzero((y == i) | (y == j))
        signs = np.where(y[rows] == i, 1.0, -1.0)
        alone = solve(c_svc(signs, 2.0), Gram(KERNEL, as_data(X[rows])), control=Control(TIGHT))
        # Not equal to the last bit: distances are computed around the mean of other rows.
        np.testing.assert_allclose(raw[:, column], K[:, rows] @ alone.beta + alone.bias, atol=1e-6)
        assert machines.solutions[column].certificate.dual == pytest.approx(alone.certificate.dual, rel=1e-9)
        assert not machines.coefficients[np.setdiff1d(np.arange(150), rows), column].any()


def test_one_versus_rest_is_independent_machines():
    machines = train(gram(), y, 3, 2.0, scheme="ovr", control=Control(TIGHT))
    K = KERNEL.block(as_data(X), as_data(X))
    for k in range(3):
        alone = solve(c_svc(np.where(y == k, 1.0, -1.0), 2.0), gram(), control=Control(TIGHT))
        np.testing.assert_allclose(K @ machines.coefficients[:, k], K @ alone.beta, atol=1e-6)
        assert machines.biases[k] == pytest.approx(alone.bias, abs=1e-6)


def test_threads_change_no_bit():
    one, two = (train(gram(n_jobs=n), y, 3, 2.0) for n in (1, 2))
    np.testing.assert_array_equal(one.coefficients, two.coefficients)
    np.testing.assert_array_equal(one.biases, two.biases)


@pytest.mark.parametrize(("scheme", "most"), [("ovo", 6 * 50**2), ("ovr", 150**2)])
def test_small_machines_evaluate_one_matrix_in_all(scheme, most):
    shared = gram()
    machines = train(shared, y, 3, 1.0, scheme=scheme)
    assert machines.certificate.status is Status.OPTIMAL
    assert shared.n_values == machines.certificate.n_kernel_values == most


def test_large_machines_share_kept_rows(monkeypatch):
    monkeypatch.setattr(small_problems, "SMALL_AMONG_MANY", 0)
    shared, alone = gram(CachePolicy.EXPENSIVE), gram(CachePolicy.NONE)
    train(shared, y, 3, 1.0, scheme="ovo")
    train(alone, y, 3, 1.0, scheme="ovo")
    assert shared.n_values < 0.8 * alone.n_values


def test_penalties_of_single_rows():
    C = np.where(np.arange(150) % 2 == 0, 1.0, 1e-12)
    machines = train(gram(), y, 3, C, control=Control(Limits(tol=1e-6)))
    half = train(Gram(KERNEL, as_data(X[::2])), y[::2], 3, 1.0, control=Control(Limits(tol=1e-6)))
    np.testing.assert_allclose(machines.coefficients[::2], half.coefficients, atol=1e-3)
    assert (np.abs(machines.coefficients[1::2]) <= 1e-12).all()


@pytest.mark.parametrize("scheme", ["ovo", "ovr"])
def test_the_certificate_of_the_whole(scheme):
    machines = train(gram(), y, 3, 2.0, scheme=scheme)
    combined = machines.certificate
    assert combined.status is Status.OPTIMAL
    assert combined.primal == sum(s.certificate.primal for s in machines.solutions)
    assert len(combined.parts) == 3
    assert combined.verify().status is Status.OPTIMAL
    pair = train(Gram(KERNEL, as_data(X[:100])), y[:100], 2, 2.0, scheme=scheme)
    assert pair.certificate is pair.solutions[0].certificate


@pytest.mark.parametrize("scheme", ["ovo", "ovr"])
def test_warm_start_goes_on(scheme):
    cold = train(gram(), y, 3, 20.0, scheme=scheme, control=Control(TIGHT))
    stopped = train(gram(), y, 3, 20.0, scheme=scheme, control=Control(Limits(tol=1e-8, max_iter=5)))
    assert stopped.certificate.status is Status.MAX_ITER
    assert [s.n_iter for s in stopped.solutions] == [5, 5, 5]
    warm = train(gram(), y, 3, 20.0, scheme=scheme, control=Control(TIGHT), warm_start=stopped)
    assert warm.certificate.dual == pytest.approx(cold.certificate.dual, rel=1e-8)
    other = train(gram(), y, 3, 5.0, scheme=scheme, control=Control(TIGHT), warm_start=cold)
    assert other.certificate.status is Status.OPTIMAL


def test_the_time_limit_is_for_all_machines_together():
    machines = train(gram(), y, 3, 1.0, control=Control(Limits(max_seconds=0.0)))
    assert len(machines.solutions) == 3
    assert machines.certificate.status is Status.TIME_LIMIT
    assert not machines.coefficients.any()


def test_each_machine_has_the_time_that_those_before_it_left(monkeypatch):
    monkeypatch.setattr(small_problems, "SMALL_AMONG_MANY", 0)
    left = []

    def listening(*args, control, **options):
        left.append(control.limits.max_seconds)
        return solve_certified(*args, control=control, **options)

    monkeypatch.setattr(select, "solve_certified", listening)
    machines = train(gram(), y, 3, 1.0, control=Control(Limits(max_seconds=60.0)))
    # Each solution keeps the limit of the fit.
    assert [solution.limits.max_seconds for solution in machines.solutions] == [60.0] * 3
    assert left[0] == pytest.approx(60.0, abs=1e-2)
    assert left[0] > left[1] > left[2]
    assert left[1] == pytest.approx(left[0] - machines.solutions[0].seconds, abs=1e-2)
    assert left[2] == pytest.approx(left[1] - machines.solutions[1].seconds, abs=1e-2)


def test_a_stop_ends_the_current_machine_and_all_after_it(monkeypatch):
    monkeypatch.setattr(small_problems, "SMALL_AMONG_MANY", 0)
    interruption, tasks = Interruption(), []

    def callback(progress):
        tasks.append(progress)
        interruption.request()

    rng = np.random.default_rng(0)
    noise = Gram(Linear(), as_data(rng.normal(size=(3000, 5))))
    machines = train(
        noise, rng.integers(0, 3, 3000), 3, 1e6, control=Control(callback=callback, interruption=interruption)
    )
    assert machines.certificate.status is Status.INTERRUPTED
    assert len(tasks) == 1
    assert [s.status for s in machines.solutions] == [Status.INTERRUPTED] * 3
    assert [bool(s.trace) for s in machines.solutions] == [True, False, False]
    assert [s.n_kernel_values for s in machines.solutions[1:]] == [0, 0]
    assert [s.beta.any() for s in machines.solutions[1:]] == [False, False]


@pytest.mark.parametrize("n_classes", [2, 10, 26])
@pytest.mark.parametrize("scheme", ["ovo", "ovr"])
def test_machines_without_time_left_evaluate_no_kernel_values(n_classes, scheme):
    rng = np.random.default_rng(0)
    shared = Gram(Sigmoid(1.0, 1.0), as_data(rng.normal(size=(2600, 5))))
    machines = train(
        shared, np.arange(2600) % n_classes, n_classes, 1.0, scheme=scheme, control=Control(Limits(max_seconds=0.0))
    )
    assert {s.status for s in machines.solutions} == {Status.TIME_LIMIT}
    assert shared.n_values == 0
    assert machines.certificate.gap == sum(task.rows.size for task in machines.tasks)


def test_definiteness_is_tested_once_for_all_pairs():
    K = KERNEL.block(as_data(X), as_data(X))
    shared = Gram(Precomputed(), GivenValues(K))
    train(shared, y, 3, 1.0, control=Control(Limits(max_iter=0)))
    assert shared.is_convex
    assert shared.n_values == 128**2 + 150**2  # two checks of definiteness, and no solver step


# Scores.


def test_two_classes_have_one_score():
    raw = np.array([[-0.5], [0.0], [2.0]])
    for scheme in ("ovo", "ovr"):
        scores = class_scores(raw, 2, scheme)
        assert scores.tolist() == [-0.5, 0.0, 2.0]
        assert winners(scores).tolist() == [0, 0, 1]


def test_the_largest_of_one_versus_rest_wins():
    raw = np.array([[-1.0, 2.0, 3.0], [-3.0, -1.0, -2.0], [1.0, 1.0, 0.0]])
    assert class_scores(raw, 3, "ovr") is raw
    assert winners(raw).tolist() == [2, 1, 0]


def test_votes_by_hand():
    # Pairs (0, 1), (0, 2) and (1, 2). Row 0: class 0 wins two votes. Row 1: each class has one vote, and class 1 the
    # largest confidence: -0.1 + 0.2 = 0.1, 0.1 + 3 = 3.1 and -0.2 - 3 = -3.2.
    raw = np.array([[1.0, 2.0, -1.0], [-0.1, 0.2, -3.0]])
    raw[1] = [0.1, -0.2, 3.0]
    scores = class_scores(raw, 3, "ovo")
    assert winners(scores)[0] == 0
    np.testing.assert_allclose(scores[1], [1 - 0.1 / 3.3, 1 + 2.9 / (3 * 3.9), 1 - 2.8 / (3 * 3.8)])
    assert winners(scores)[1] == 1


def test_rows_are_ranked_by_the_decision_value_against_the_closest_class():
    raw, pairs = np.random.default_rng(0).normal(size=(40, 10)), list(combinations(range(5), 2))
    values = {(i, j): raw[:, k] for k, (i, j) in enumerate(pairs)} | {
        (j, i): -raw[:, k] for k, (i, j) in enumerate(pairs)
    }
    expected = [np.min([values[i, j] for j in range(5) if j != i], axis=0) for i in range(5)]
    np.testing.assert_array_equal(ranking_scores(raw, 5, "ovo"), np.transpose(expected))
    assert ranking_scores(raw[:, :5], 5, "ovr").tolist() == raw[:, :5].tolist()


def test_values_of_machines_are_those_of_all_their_coefficients():
    codes = np.arange(150) % 6
    gram = Gram(KERNEL, as_data(X))
    remaining, out = np.arange(20, 150), np.arange(15)
    machines = train(gram.restrict(remaining), codes[remaining], 6, 1.0)
    beta = np.zeros((150, 15))
    beta[remaining] = machines.coefficients
    expected = KERNEL.block(as_data(X[:15]), as_data(X)) @ beta + machines.biases
    np.testing.assert_allclose(machines.values(gram, remaining, out), expected, atol=1e-10)


@given(st.integers(3, 6), st.integers(0, 2**32 - 1))
def test_scores_are_those_of_scikit_learn(n_classes, seed):
    raw = np.random.default_rng(seed).normal(size=(20, n_classes * (n_classes - 1) // 2))
    np.testing.assert_allclose(
        class_scores(raw, n_classes, "ovo"), _ovr_decision_function(raw < 0, -raw, n_classes), atol=1e-12
    )


@given(st.integers(3, 6), st.integers(0, 2**32 - 1))
def test_no_confidence_outweighs_a_vote(n_classes, seed):
    rng = np.random.default_rng(seed)
    raw = rng.normal(size=(50, n_classes * (n_classes - 1) // 2)) * 10.0 ** rng.integers(-3, 9)
    votes = np.zeros((50, n_classes))
    for column, (i, j) in enumerate(combinations(range(n_classes), 2)):
        votes[np.arange(50), np.where(raw[:, column] > 0, i, j)] += 1
    won = winners(class_scores(raw, n_classes, "ovo"))
    assert (votes[np.arange(50), won] == votes.max(axis=1)).all()


def test_a_machine_that_cannot_decide_votes_for_its_second_class():
    # As LIBSVM's do; and with two classes the score 0 is that of the first one, which is the machine's second.
    scores = class_scores(np.zeros((1, 3)), 3, "ovo")
    np.testing.assert_array_equal(scores, [[0.0, 1.0, 2.0]])


def test_classes_against_the_rest_share_the_whole_matrix():
    """Also for cheap kernel values: the matrix is evaluated once; each certificate adds its own evaluations."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(900, 3)), rng.integers(0, 4, 900)
    with pytest.warns(IndefiniteKernelWarning):
        machine = SVC(kernel="sigmoid", gamma=0.1, multi_class="ovr").fit(X, y)
    first, *others = [part.n_kernel_values for part in machine.certificate_.parts]
    assert first > 900 * 900
    assert max(others) < 0.75 * 900 * 900


def test_more_pairs_than_could_be_kept_are_refused():
    codes = np.arange(1600) % 800
    with pytest.raises(ValueError, match=r"800 classes, which are 319,600 pairs.*use SVR"):
        make_tasks(codes, 800, "ovo")
    assert len(make_tasks(codes, 800, "ovr")) == 800


def test_linear_machines_on_few_rows():
    machines = train(Gram(Linear(), as_data([[0.0], [1.0], [2.0], [3.0]])), [0, 1, 2, 3], 4, 1.0)
    assert machines.certificate.status is Status.OPTIMAL
    assert len(machines.solutions) == 6


@pytest.mark.parametrize("n", [150, 500])
def test_machines_against_the_rest_share_the_whole_matrix(n):
    """Short rows are not cached, because evaluating them is as fast as a lookup; the whole matrix is shared."""
    rng = np.random.default_rng(n)
    X, y = rng.normal(size=(n, 5)), rng.integers(0, 6, n)
    gram = Gram(RBF(gamma=0.3), as_data(X), cache_policy=CachePolicy.EXPENSIVE)
    machines = train(gram, y, 6, 1.0, scheme="ovr")
    certificates = [solution.certificate for solution in machines.solutions]
    evaluated = sum(
        n * c.n_support for c in certificates
    )  # each certificate evaluates its own values, independently of the solver
    assert gram.n_values <= 1.1 * n * n + evaluated
    for k, solution in enumerate(machines.solutions):
        alone = solve(c_svc(np.where(y == k, 1.0, -1.0), 1.0), Gram(RBF(gamma=0.3), as_data(X)))
        np.testing.assert_array_equal(solution.beta, alone.beta)


def test_certificates_are_computed_again_on_one_gram_matrix_with_the_threads_of_the_fit(monkeypatch):
    machines = train(Gram(RBF(gamma=0.1), as_data(X), n_jobs=1, memory_limit=10**6), y, 3, 1.0)
    made = []
    monkeypatch.setattr(quadratic, "Gram", lambda *args, **options: made.append(options) or Gram(*args, **options))
    machines.certificate.examples()
    machines.certificate.verify()
    assert [(one["n_jobs"], one["memory_limit"]) for one in made] == [(1, 10**6)] * 2


@every_pair(scheme=["ovo", "ovr", "joint"], size=["small", "large"], kind=[(4, False), (200, False), (4, True)])
def test_ten_classes_evaluate_at_most_one_gram_matrix(scheme, size, kind, monkeypatch):
    """Unshared, the evaluations would be 1.8 matrices for pairs, and 10 for one-versus-rest, with certificates."""
    p, by_python = kind
    if size == "large":  # solver paths for problems that are too many or too large for one native call
        monkeypatch.setattr(small_problems, "SMALL_AMONG_MANY", 0)
        monkeypatch.setattr(working_set_sizes, "WHOLE_PROBLEM", 100)
        monkeypatch.setattr(working_set_sizes, "_WORKING_SETS", (128, 256))
    rng = np.random.default_rng(0)
    labels = np.arange(900) % 10
    rows = rng.normal(size=(10, p))[labels] + rng.normal(size=(900, p))
    kernel = RBF(gamma=0.5 / p)
    if by_python:
        monkeypatch.setattr(backends, "MAX_PROGRAM", 0)
    # Each thread needs memory of its own.
    machine = SVC(kernel=kernel, C=5.0, multi_class=scheme, n_jobs=2).fit(rows, labels)
    certificate = machine.certificate_
    assert certificate.status is Status.OPTIMAL
    if size == "large" and scheme != "joint" and not by_python:  # evaluating tiles is faster than writing whole rows
        assert certificate.n_kernel_values > 900**2
        assert certificate.peak_memory_bytes < 8 * 900**2  # the size of a cache of all values
        return
    assert certificate.n_kernel_values <= 900**2
    remaining = 8 * 900**2
    assert (
        certificate.peak_memory_bytes <= (6 if by_python else 4) * remaining
    )  # cached values, working sets and blocks
    # The row cache takes three quarters of the memory that other uses leave.
    others = (1 << 30) - Gram(kernel, as_data(rows), memory_limit=1 << 30)._store.room
    limit = others + remaining * 4 // 3 - 8
    unshared = SVC(kernel=kernel, C=5.0, multi_class=scheme, memory_limit=limit).fit(rows, labels)
    np.testing.assert_allclose(machine.decision_function(rows), unshared.decision_function(rows), atol=0.02)
    if scheme == "ovr" and size == "large":
        unshared.set_params(memory_limit=(16 << 20) + remaining // 2).fit(
            rows, labels
        )  # a cache for a third of the rows
        assert unshared.certificate_.n_kernel_values > 900**2


def test_objectives_of_all_machines_are_completed_on_one_gram_matrix(monkeypatch):
    monkeypatch.setattr(small_problems, "SMALL_AMONG_MANY", 0)
    monkeypatch.setattr(working_set_sizes, "WHOLE_PROBLEM", 100)
    rng = np.random.default_rng(0)
    rows, labels = rng.normal(size=(3000, 5)), np.arange(3000) % 3
    machine = SVC(C=0.1, gamma=0.1).fit(rows, labels)
    assert all(one.certified.objective_error > 0.0 for one in machine.solution_)
    made = []
    monkeypatch.setattr(quadratic, "Gram", lambda *args, **options: made.append(options) or Gram(*args, **options))
    combined = machine.certificate_
    assert len(made) == 1
    assert combined.objective_error == 0.0
    assert machine.certificate_ == combined
    assert len(made) == 1
    assert combined.dual == pytest.approx(combined.verify().dual, rel=1e-10)


@pytest.mark.parametrize("multi_class", ["ovo", "ovr"])
def test_the_certificate_of_many_machines_is_that_of_its_parts(multi_class):
    digits, labels = load_digits(return_X_y=True)
    machine = SVC(C=10.0, gamma=0.001, multi_class=multi_class).fit(digits[:900], labels[:900])
    combined = machine.certificate_
    assert combined.parts[-1].verify().n_support == combined.parts[-1].n_support > 0
    assert [part.kkt_violation for part in combined.parts[:3]] == [part.kkt_violation for part in combined.parts][:3]
    assert machine.solution_[-1] is machine.solution_[len(combined.parts) - 1]
    with pytest.raises(IndexError):
        combined.parts[len(combined.parts)]
    together = certificate.combine([solution.certificate for solution in machine.solution_])
    assert combined.parts == together.parts
    assert hash(combined.parts) == hash(together.parts)
    for name in ("primal", "dual", "seconds", "relative_gap"):
        assert getattr(combined, name) == pytest.approx(getattr(together, name), rel=1e-12)
    assert combined.gap == pytest.approx(together.gap, rel=0, abs=1e-9 * combined.primal)
    close = {name: getattr(together, name) for name in ("primal", "dual", "gap", "relative_gap", "seconds")}
    assert replace(combined, **close) == together
    again = pickle.loads(pickle.dumps(machine))
    assert pickle.loads(pickle.dumps(combined)).parts == combined.parts
    assert again.certificate_.parts == combined.parts
