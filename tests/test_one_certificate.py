"""One certificate for every machine: machines that solve the same problem state the same numbers, field by field."""

import warnings
from dataclasses import fields
from fractions import Fraction

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from mercer import (
    SVC,
    SVDD,
    SVR,
    Certificate,
    GradientKernelSVC,
    KernelLogisticRegression,
    KernelRidge,
    LeastSquaresClassifier,
    LeastSquaresSVC,
    LinearSVC,
    LinearSVR,
    LogisticRegression,
    OneClassSVM,
    PegasosSVC,
    QuantileSVR,
)
from mercer.certificates.status import Status
from mercer.kernels import RBF, Linear
from mercer.solvers import Control, Limits
from mercer.solvers.rows import Bias, Hinge, LinearProblem, TableRows, solve

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 4))
Y = X[:, 0] - 0.5 * X[:, 1] + 0.5 * RNG.normal(size=120) > 0.0
TARGETS = X[:, 0] + 0.3 * RNG.normal(size=120)
CODES = np.digitize(X[:, 0] + 0.5 * RNG.normal(size=120), [-0.5, 0.5])
WEIGHTS = RNG.choice([0.5, 1.0, 2.0], 120)
TIGHT = {"kernel": "linear", "tol": 1e-10}
EXACT = {"tol_gap": 1e-10}

PAIRS = {
    "hinge": (SVC(C=0.7, **TIGHT), LinearSVC(C=0.7, loss="hinge", bias="free", **EXACT), Y),
    "hinge without bias": (
        SVC(C=0.7, fit_intercept=False, **TIGHT),
        LinearSVC(C=0.7, loss="hinge", fit_intercept=False, **EXACT),
        Y,
    ),
    "hinge with a penalised bias": (
        SVC(C=0.7, fit_intercept=False, kernel=Linear() + 1.0, tol=1e-10),
        LinearSVC(C=0.7, loss="hinge", **EXACT),
        Y,
    ),
    "squared hinge": (
        SVC(C=0.7, loss="squared_hinge", **TIGHT),
        LinearSVC(C=0.7, bias="free", **EXACT),
        Y,
    ),
    "several classes": (
        SVC(C=0.7, multi_class="ovr", **TIGHT),
        LinearSVC(C=0.7, loss="hinge", bias="free", **EXACT),
        CODES,
    ),
    "joint": (
        SVC(C=0.3, multi_class="joint", kernel=Linear() + 1.0, tol=1e-10),
        LinearSVC(C=0.3, multi_class="crammer_singer", **EXACT),
        CODES,
    ),
    "epsilon": (
        SVR(C=0.7, epsilon=0.2, **TIGHT),
        LinearSVR(C=0.7, epsilon=0.2, bias="free", **EXACT),
        TARGETS,
    ),
    "epsilon 0": (SVR(C=0.7, epsilon=0.0, **TIGHT), LinearSVR(C=0.7, bias="free", **EXACT), TARGETS),
    "squared epsilon": (
        SVR(C=0.7, epsilon=0.2, loss="squared_epsilon_insensitive", **TIGHT),
        LinearSVR(C=0.7, epsilon=0.2, loss="squared_epsilon_insensitive", bias="free", **EXACT),
        TARGETS,
    ),
}
WORK = {
    "n_iter",
    "n_kernel_values",
    "seconds",
    "peak_memory_bytes",
    "tol",
    "tol_gap",
    "absolute_gap",
    "evidence",
    "parts",
}


@pytest.mark.parametrize("name", PAIRS)
def test_machines_of_one_problem_agree_field_by_field(name):
    one, other, y = PAIRS[name]
    ours, theirs = (machine.fit(X, y, sample_weight=WEIGHTS).certificate_ for machine in (one, other))
    assert type(ours) is type(theirs) is Certificate
    size = ours.primal
    for field in fields(Certificate):
        a, b = (getattr(certificate, field.name) for certificate in (ours, theirs))
        assert (a is None) == (b is None) or field.name in ("tol", "tol_gap"), field.name
        if field.name in WORK:
            continue
        if field.name in ("primal", "dual"):
            assert a == pytest.approx(b, rel=1e-8), field.name
        elif field.name in ("gap", "rounding"):
            assert max(abs(a), abs(b)) <= 1e-9 * size, field.name
        elif field.name == "relative_gap":
            assert a == ours.gap / max(abs(ours.primal), abs(ours.dual))
            assert b == theirs.gap / max(abs(theirs.primal), abs(theirs.dual))
        elif field.name in ("kkt_violation", "dual_infeasibility", "decision_error"):
            assert max(abs(a), abs(b)) <= 1e-5, field.name
        else:
            assert a == b, field.name  # status, counts, and what neither has
    for certificate in (ours, theirs):
        again = certificate.verify()
        assert again.status is Status.OPTIMAL
        assert again.kkt_violation == pytest.approx(certificate.kkt_violation, abs=1e-9)
        assert (again.n_support, again.n_free, again.n_bounded) == (
            certificate.n_support,
            certificate.n_free,
            certificate.n_bounded,
        )


@pytest.mark.parametrize("y", [Y, CODES], ids=["two classes", "three"])
def test_logistic_machines_agree(y):
    """The objective of the linear machine is C times that of the machine with a kernel."""
    linear = LogisticRegression(C=0.5, tol_gap=1e-10).fit(X, y, sample_weight=WEIGHTS).certificate_
    kernel = KernelLogisticRegression(prior_variance=0.5, kernel="linear", tol=1e-9)
    certificate = kernel.fit(X, y, sample_weight=WEIGHTS).certificate_
    assert (linear.status, certificate.status) == (Status.OPTIMAL, Status.OPTIMAL)
    for name in ("primal", "dual"):
        assert getattr(linear, name) == pytest.approx(0.5 * getattr(certificate, name), rel=1e-8)
    for name in ("kkt_violation", "n_support", "n_free", "n_bounded"):
        assert getattr(linear, name) is getattr(certificate, name) is None
    for one in (linear, certificate):
        assert one.relative_gap == one.gap / max(one.primal, one.dual) <= 1e-9
        assert 0.0 < one.rounding < 1e-9 * one.primal


def test_least_squares_machines_agree():
    signs = np.where(Y, 1.0, -1.0)
    kernel = LeastSquaresSVC(C=2.0, kernel="linear").fit(X, Y).certificate_
    linear = LeastSquaresClassifier(alpha=0.5).fit(X, Y).certificate_
    for name in ("primal", "dual"):
        assert getattr(linear, name) == pytest.approx(getattr(kernel, name), rel=1e-9)
    ridge = KernelRidge(alpha=0.5, kernel="linear").fit(X, signs).certificate_
    for one in (kernel, linear, ridge):
        assert (one.status, one.tol, one.kkt_violation) == (Status.OPTIMAL, 1e-6, None)
        assert one.gradient_violation <= 1e-6
        assert one.relative_gap == one.gap / max(one.primal, one.dual)


EVERY = [
    SVC(C=1e-3),
    SVC(C=1e4, loss="squared_hinge"),
    QuantileSVR(),
    LinearSVC(C=1e-6),
    LinearSVC(penalty="l1", loss="hinge"),
    LinearSVR(C=1e-8),
    LogisticRegression(C=1e-6),
    KernelRidge(alpha=1e9),
    KernelLogisticRegression(prior_variance=1e-6),
    LeastSquaresClassifier(alpha=1.0),
    GradientKernelSVC(),
    PegasosSVC(max_iter=3),
    OneClassSVM(),
]


@pytest.mark.parametrize("machine", EVERY, ids=repr)
@pytest.mark.parametrize("unit", [1e-9, 1.0])
def test_every_field_means_the_same_in_every_machine(machine, unit):
    """Small objectives, too: the gap is relative to the objective alone, and each field has its type."""
    quantity = isinstance(machine, QuantileSVR | LinearSVR | KernelRidge)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        certificate = machine.fit(X, unit * TARGETS if quantity else Y).certificate_
    largest = max(abs(certificate.primal), abs(certificate.dual))
    assert certificate.gap == pytest.approx(certificate.primal - certificate.dual, rel=1e-12, abs=0.0)
    assert certificate.relative_gap == pytest.approx(certificate.gap / largest, rel=1e-12)
    assert (certificate.kkt_violation is None) != (certificate.gradient_violation is None) or isinstance(
        machine, LogisticRegression | GradientKernelSVC
    )
    assert certificate.rounding >= 0.0
    assert certificate.decision_error >= 0.0
    assert (certificate.n_support is None) == (certificate.kkt_violation is None)
    if certificate.status is Status.OPTIMAL:
        if certificate.tol_gap is not None:
            assert certificate.gap + certificate.rounding <= max(
                certificate.tol_gap * largest, certificate.absolute_gap
            )
        assert (
            certificate.kkt_violation is None or certificate.tol is None or certificate.kkt_violation <= certificate.tol
        )
    text = str(certificate)
    assert "of an objective" in text
    assert ("KKT violation" in text) == (certificate.kkt_violation is not None)


def test_an_objective_of_0_has_a_gap_of_0():
    certificate = LinearSVR(epsilon=1.0).fit(X, np.zeros(120)).certificate_
    assert (certificate.status, certificate.primal, certificate.dual, certificate.gap, certificate.relative_gap) == (
        Status.OPTIMAL,
        0.0,
        0.0,
        0.0,
        0.0,
    )


@pytest.mark.parametrize("C", [1e8, 1e10])
def test_a_gap_is_not_compared_with_the_objective_of_0(C):
    """At C = 1e12 a gap of 5.6 used to be small, because it was compared with 1e-8 C n."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(30, 40))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        certificate = LinearSVC(loss="hinge", C=C, bias="free").fit(rows, rows[:, 0] > 0).certificate_
    best = SVC(kernel="linear", C=np.inf, tol=1e-10).fit(rows, rows[:, 0] > 0).certificate_
    assert certificate.dual <= best.primal * (1.0 + 1e-9)
    assert certificate.primal + certificate.rounding >= best.dual * (1.0 - 1e-9)
    if certificate.status is Status.OPTIMAL:
        assert certificate.dual >= best.dual * (1.0 - 2e-4)
        assert certificate.primal <= best.primal * (1.0 + 2e-4)


@pytest.mark.parametrize("name", ["free", "penalised", "none", "joint", "softmax", "elastic net", "svr"])
def test_proved_signs_are_those_of_the_optimum(name):
    """At every gap, a sign that is proved is that of the optimum at a gap of 1e-9; a smaller gap proves more."""
    rows, counts = X * [1.0, 1.0, 1.0, 0.01], []
    made = {
        "free": lambda gap: LinearSVC(loss="hinge", C=0.1, bias="free", tol_gap=gap),
        "penalised": lambda gap: LinearSVC(C=0.1, tol_gap=gap),
        "none": lambda gap: LinearSVC(loss="hinge", fit_intercept=False, C=0.1, tol_gap=gap),
        "joint": lambda gap: LinearSVC(multi_class="crammer_singer", C=0.1, tol_gap=gap),
        "softmax": lambda gap: LogisticRegression(C=0.1, tol_gap=gap),
        "elastic net": lambda gap: LogisticRegression(C=0.1, l1_ratio=0.5, tol_gap=gap),
        "svr": lambda gap: LinearSVR(C=0.1, tol_gap=gap),
    }[name]
    y = TARGETS if name == "svr" else CODES if name in ("joint", "softmax") else Y
    best = np.sign(made(1e-9).fit(rows, y).coef_)
    for gap in (0.1, 0.01, 1e-3, 1e-6):
        signs = made(gap).fit(rows, y).certificate_.proved_signs()
        signs = signs.reshape(best.shape)
        assert np.isin(signs * best, [0.0, 1.0]).all()
        assert not signs[best == 0.0].any()
        counts.append(np.count_nonzero(signs))
    assert counts[-1] > 0
    assert counts[-1] >= counts[0]


def test_the_ball_around_the_mean_of_both_points_proves_more():
    """It contains the optimum, and is smaller than the ball of the gap around the weights of the machine."""
    rng, sharper = np.random.default_rng(1), 0
    for seed in range(20):
        rows = TableRows(rng.normal(size=(60, 5)), (rng.random(60) < 0.5) * 1.0)
        problem = LinearProblem(rows, Hinge(), 0.05, bias=Bias.FREE, positive=1)
        best = solve(problem, Control(Limits(tol_gap=1e-11))).w[:5]
        for steps in (1, 2, 4):
            evidence = solve(problem, Control(Limits(tol_gap=1e-11, max_iter=steps))).certificate.evidence
            evaluation = evidence.evaluate()
            if not np.isfinite(evaluation.bound):
                continue
            centre, radii = evidence.ball(evaluation.bound)
            assert np.linalg.norm(best - centre) <= radii.max() * (1.0 + 1e-6), seed
            assert radii.max() <= (2.0 * evaluation.bound) ** 0.5
            sharper += radii.max() < 0.75 * (2.0 * evaluation.bound) ** 0.5
    assert sharper > 20


def test_proved_signs_of_a_machine_without_weights_are_an_error():
    with pytest.raises(TypeError, match=r"weights of columns.* LinearSVC"):
        SVC(kernel="linear").fit(X, Y).certificate_.proved_signs()


CENTRED = X - X.mean(axis=0)
FLAT = RBF(gamma=1e-30)


@pytest.mark.parametrize("machine", [OneClassSVM(kernel="linear"), OneClassSVM(kernel="linear", nu=0.1)], ids=repr)
def test_a_one_class_machine_of_centred_columns_says_that_it_is_0(machine):
    with pytest.warns(UserWarning, match="w = 0 is the optimum .* the origin cannot be told from the training rows"):
        machine.fit(CENTRED)
    assert (machine.predict(CENTRED) == 1).all()
    assert machine.certificate_.status is Status.OPTIMAL
    assert machine.certificate_.gap <= machine.certificate_.absolute_gap
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        type(machine)(**machine.get_params()).fit(CENTRED + 3.0)


@pytest.mark.parametrize("seed", [1, 11])
def test_a_recomputation_has_the_zero_of_the_fit(seed):
    """Lengths of rows differ by orders of magnitude: the rounding errors of fit and verify differ, too."""
    random = np.random.default_rng(seed)
    rows = random.standard_normal((20, 3))
    rows = np.r_[rows, -rows] * np.exp(2.0 * np.abs(random.standard_normal((40, 1))))
    machine = OneClassSVM(kernel="poly", gamma=1.0, nu=0.1)
    with pytest.warns(UserWarning, match="w = 0 is the optimum"):
        certificate = machine.fit(rows, sample_weight=random.uniform(0.1, 3.0, 40)).certificate_
    assert certificate.status is Status.OPTIMAL
    again = certificate.verify()
    assert again.status is Status.OPTIMAL
    assert again.gap + again.rounding <= again.absolute_gap


@pytest.mark.parametrize("scale", [1e-6, 1.0])
def test_equal_rows_have_a_ball_of_radius_0(scale):
    rows = np.repeat(scale * np.random.default_rng(10).standard_normal((1, 203)), 400, axis=0)
    machine = SVDD(C=0.01, kernel="linear").fit(rows)
    assert machine.certificate_.status is Status.OPTIMAL
    assert machine.certificate_.verify().status is Status.OPTIMAL


@pytest.mark.parametrize("distance", [1e-5, 1e-3])
def test_an_optimum_near_0_is_not_called_0(distance):
    """The columns are nearly centred: 1/2 ||w||^2 is small, but float64 knows it to many digits."""
    random = np.random.default_rng(0)
    rows = random.standard_normal((30, 2))
    rows = np.r_[rows, -rows]
    rows = np.column_stack([rows, np.full(60, distance)])
    certificate = OneClassSVM(kernel="linear", nu=0.5, tol_gap=1e-3).fit(rows).certificate_
    assert certificate.absolute_gap == 0.0
    assert certificate.primal == pytest.approx(-0.5 * (30.0 * distance) ** 2, rel=1e-3)
    assert certificate.verify().absolute_gap == 0.0


@pytest.mark.parametrize(
    "machine",
    [
        SVC(kernel=FLAT),
        SVR(kernel=FLAT),
        KernelRidge(kernel=FLAT),
        KernelLogisticRegression(kernel=FLAT),
        LeastSquaresSVC(kernel=FLAT),
        GradientKernelSVC(kernel=FLAT),
    ],
    ids=repr,
)
def test_a_kernel_that_is_constant_on_the_rows_is_a_warning(machine):
    with pytest.warns(UserWarning, match="cannot tell these rows apart.*the same prediction"):
        machine.fit(X, Y)


@pytest.mark.parametrize("loss", ["epsilon_insensitive", "squared_epsilon_insensitive"])
@pytest.mark.parametrize("penalty", ["l1", "l2"])
def test_an_objective_that_is_only_rounding_is_stated_with_its_rounding(penalty, loss):
    """Constant targets of 1e10 have the optimum 0; the objective of the machine's numbers is exact in fractions."""
    rows, y = X[:30, :3], np.full(30, 1e10)
    machine = LinearSVR(penalty=penalty, loss=loss, bias="free").fit(rows, y)
    w = [Fraction(value) for value in machine.coef_.ravel().tolist()]
    bias = Fraction(float(np.ravel(machine.intercept_)[0]))
    misses = [
        Fraction(target) - bias - sum((Fraction(a) * b for a, b in zip(row, w, strict=True)), Fraction(0))
        for row, target in zip(rows.tolist(), y.tolist(), strict=True)
    ]
    losses = sum(one * one for one in misses) if loss.startswith("squared") else sum(abs(one) for one in misses)
    norm = sum(abs(one) for one in w) if penalty == "l1" else sum(one * one for one in w) / 2
    certificate = machine.certificate_
    assert certificate.status is Status.OPTIMAL
    assert abs(Fraction(certificate.primal) - losses - norm) <= Fraction(certificate.rounding)
    assert certificate.dual <= 0.0


@pytest.mark.parametrize("scaling", [1e200, 1e-200])
def test_a_scaling_whose_square_is_no_number_is_refused(scaling):
    with pytest.raises(ValueError, match=r"intercept_scaling must be between .*bias='free'"):
        LinearSVC(intercept_scaling=scaling).fit(X, Y)
