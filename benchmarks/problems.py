"""What is measured: named problems, grouped by workload, in two sizes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from .datasets import SOURCES, Table, load

Size = Literal["S", "full"]
Task = Literal["fit", "solve", "predict"]
Machine = Literal["SVC", "NuSVC", "SVR", "NuSVR", "OneClassSVM", "KernelRidge"]
ALL = 10**9

RACE = ("mercer", "scikit-learn", "intelex32", "intelex64", "libsvm")
"""The libraries that take part by default."""


@dataclass(frozen=True)
class Group:
    """A workload: one row of the summary.

    Attributes
    ----------
    title : str
    must : tuple of two floats, optional
        Times faster than scikit-learn and than scikit-learn-intelex that the project has set itself.
    must_limit : float, optional
        Largest multiple of the limit that it has set itself.
    figure : {"ratio", "variant", "exponent", "spread", "memory"}
        What is made of the times: ratios to the peers (geometric mean); ratios of mercer otherwise to mercer; the
        exponent of time against n; the slowest time by the median; or of the peak memory beside its goal.
    """

    title: str
    must: tuple[float, float] | None = None
    must_limit: float | None = None
    figure: Literal["ratio", "variant", "exponent", "spread", "memory"] = "ratio"


@dataclass(frozen=True)
class Problem:
    """One race.

    Attributes
    ----------
    group : str
        Key of :data:`GROUPS`.
    source : str
        Key of :data:`benchmarks.datasets.SOURCES`.
    C : float
    gamma : str
        A number, or a number of times 1/p, as in "50/p"; without meaning for the linear kernel.
    rows : dict
        Rows by size; a size that is missing leaves the problem out.
    kernel : {"rbf", "linear"}
    task : {"fit", "solve", "predict"}
        What is timed: whole `fit`; of mercer, the solver alone, from arrays to a certified solution, and of the peers
        their `fit`; `predict` of as many new rows as there were rows of training.
    contenders : tuple of str
        Keys of :data:`benchmarks.peers.CONTENDERS`.
    machine : str
        Class that is trained, of the same name in every library.
    parameter : float
        Its other parameter: epsilon of SVR, nu of the nu machines, alpha of KernelRidge.
    tag : str
        Tells problems apart that differ in their number of rows alone.
    rivals : int
        Other processes that keep a processor each busy as long as the race lasts.
    """

    group: str
    source: str
    C: float
    gamma: str
    rows: dict[str, int]
    kernel: Literal["rbf", "linear"] = "rbf"
    task: Task = "fit"
    contenders: tuple[str, ...] = RACE
    machine: Machine = "SVC"
    parameter: float = 0.0
    tag: str = ""
    rivals: int = 0

    @property
    def label(self) -> str:
        """Name within the group."""
        kernel = f"γ={self.gamma}" if self.kernel == "rbf" else "linear"
        if self.machine == "SVC":
            return " ".join(filter(None, (self.source, self.tag, f"C={self.C:g}", kernel)))
        penalty = f"C={self.C:g}" if self.machine in ("SVR", "NuSVR") else ""
        other = f"{_PARAMETERS[self.machine]}={self.parameter:g}"
        return " ".join(filter(None, (self.machine, self.source, self.tag, penalty, other, kernel)))

    @property
    def name(self) -> str:
        """Name within the whole table; what ``--only`` is matched against."""
        return f"{self.group}/{self.label}"

    def gamma_for(self, p: int) -> float:
        """Return gamma as a number for p features."""
        number, per_feature, _ = self.gamma.partition("/p")
        return float(number) / (p if per_feature else 1)

    def load(self, size: str) -> Table:
        """Return the table, the same in every process."""
        n = self.rows[size]
        if self.task == "predict":
            return load(self.source, n, n_new=n)
        return load(self.source, None if n == ALL else n)


_PARAMETERS = {"SVR": "ε", "NuSVR": "ν", "NuSVC": "ν", "OneClassSVM": "ν", "KernelRidge": "λ"}

GROUPS: dict[str, Group] = {
    "small-solve": Group("n ≤ 600, mercer's solver alone: arrays in, certified solution out", (8.0, 20.0)),
    "small-fit": Group("n ≤ 600, whole fit", (1.6, 4.0)),
    "1-2k-C1": Group("n = 1-2 k, C = 1", (25.0, 12.0)),
    "1-2k-C100": Group("n = 1-2 k, C = 100", (10.0, 9.0)),
    "10k-soft": Group("n = 10-20 k, p ≤ 30, C ≤ 1", (25.0, 6.0)),
    "10k-hard": Group("n = 10-20 k, p ≤ 30, C ≥ 10", (12.0, 8.0)),
    "mid-p": Group("n = 5-20 k, p = 54-123", (18.0, 4.5)),
    "high-p": Group("n = 7-60 k, p = 256-784", (15.0, 2.0)),
    "30-60k": Group("n = 30-60 k, p ≤ 30", (40.0, 8.0)),
    "a9a": Group("a9a as CSR", (90.0, 7.0)),
    "text": Group("tf-idf text, 5-10 k rows", (15.0, 3.0)),
    "93k": Group("covtype 93 k", must_limit=3.5),
    "classes": Group("many classes", (15.0, 6.0)),
    "svr": Group("SVR", (20.0, 5.0)),
    "nu-svr": Group("NuSVR", (20.0, 5.0)),
    "nu-svc": Group("NuSVC", (18.0, 4.5)),
    "one-class": Group("OneClassSVM", (18.0, 4.5)),
    "ridge": Group("KernelRidge, one penalty"),
    "predict-20": Group("predict, p = 20, every row a support vector", (50.0, 3.0)),
    "predict-784": Group("predict, p = 784, every row a support vector", (15.0, 1.1)),
    "ball": Group("SVDD against OneClassSVM, the same machine: goal ≤ 1.5", figure="variant"),
    "threads": Group("one thread against two: goal ≥ 1.5 at C ≤ 1, ≥ 1.3 at C ≥ 100", figure="variant"),
    "rival": Group("one thread against two beside a process that keeps a processor busy: goal ≥ 1", figure="variant"),
    "tight": Group("tolerance 1e-6 against 1e-3: goal < 2 at C ≥ 10, < 4 below", figure="variant"),
    "scaling": Group("time against n", figure="exponent"),
    "grid": Group("C × γ grid: goal for the slowest by the median < 15; scikit-learn's SVC is LIBSVM", figure="spread"),
    "memory": Group(
        "peak memory: goal 150 MB and twice the input up to C = 10, 450 MB and that above", figure="memory"
    ),
}

# Beside CSR intelex is also given the same rows dense, in case that suits it better.
_SPARSE = (*RACE, "intelex32 dense")

# Its own Python module hands over new rows one by one, and trains as scikit-learn does, for as long.
_WITHOUT_LIBSVM = RACE[:-1]

_BOTH = {"S": ALL, "full": ALL}

PROBLEMS: tuple[Problem, ...] = (
    *(
        Problem(f"small-{task}", source, C, "1/p", _BOTH if C == 1.0 else {"full": ALL}, task=task)
        for task in ("solve", "fit")
        for source in ("iris", "wdbc", "heart")
        for C in (1.0, 100.0)
    ),
    *(
        Problem(f"1-2k-C{C:g}", source, C, "1/p", rows)
        for C in (1.0, 100.0)
        for source, rows in {
            "overlapping 20": {"S": 1000, "full": 1000},
            "digits 8": _BOTH,
            "magic-like": {"full": 2000},
            "electricity": {"full": 2000},
            "svmguide1": {"full": 2000},
        }.items()
    ),
    Problem("10k-soft", "overlapping 20", 1.0, "1/p", {"S": 10_000, "full": 10_000}),
    Problem("10k-soft", "overlapping 20", 0.1, "1/p", {"full": 10_000}),
    Problem("10k-soft", "overlapping 20", 1.0, "0.1/p", {"full": 10_000}),
    Problem("10k-soft", "overlapping 20", 1.0, "10/p", {"S": 10_000, "full": 10_000}, contenders=_WITHOUT_LIBSVM),
    Problem("10k-soft", "magic-like", 1.0, "1/p", {"S": 10_000, "full": 19_000}),
    Problem("10k-soft", "susy-like", 1.0, "1/p", {"full": 20_000}),
    Problem("10k-soft", "electricity", 1.0, "1/p", {"S": 10_000, "full": 20_000}),
    Problem("10k-soft", "cod_rna", 1.0, "1/p", {"S": 20_000, "full": 20_000}),
    Problem("10k-hard", "overlapping 20", 10.0, "1/p", {"S": 10_000, "full": 10_000}),
    Problem("10k-hard", "overlapping 20", 100.0, "1/p", {"S": 10_000, "full": 10_000}, contenders=_WITHOUT_LIBSVM),
    Problem("10k-hard", "overlapping 20", 1000.0, "1/p", {"full": 10_000}),
    Problem("10k-hard", "overlapping 20", 1000.0, "0.1/p", {"full": 10_000}),
    Problem("10k-hard", "susy-like", 10.0, "0.1/p", {"S": 15_000, "full": 15_000}),
    Problem("10k-hard", "electricity", 100.0, "10/p", {"S": 10_000, "full": 20_000}),
    Problem("10k-hard", "cod_rna", 10.0, "8/p", {"S": 20_000, "full": 20_000}),
    Problem("mid-p", "overlapping 54", 1.0, "1/p", {"S": 10_000, "full": 10_000}),
    Problem("mid-p", "overlapping 100", 10.0, "1/p", {"S": 10_000, "full": 10_000}, contenders=_WITHOUT_LIBSVM),
    Problem("mid-p", "covtype 5k", 1.0, "1/p", _BOTH),
    Problem("mid-p", "covtype 5k", 100.0, "50/p", _BOTH),
    Problem("mid-p", "covtype 2", 10.0, "50/p", {"full": 20_000}),
    Problem("mid-p", "adult", 1.0, "1/p", {"S": 10_000, "full": 15_000}),
    Problem("high-p", "strokes 8", 10.0, "10/p", {"S": 10_000, "full": 10_000}),
    Problem("high-p", "usps 8", 10.0, "1/p", {"S": ALL}),
    Problem("high-p", "usps", 10.0, "1/p", {"full": ALL}),
    Problem("high-p", "mnist 8", 10.0, "10/p", {"S": 10_000, "full": 10_000}),
    Problem("high-p", "mnist", 10.0, "10/p", {"full": ALL}),
    Problem("30-60k", "susy-like", 1.0, "1/p", {"S": 30_000, "full": 30_000}, contenders=_WITHOUT_LIBSVM),
    Problem("30-60k", "overlapping 20", 1.0, "1/p", {"full": 50_000}),
    Problem("30-60k", "ijcnn1", 10.0, "20/p", _BOTH),
    Problem("30-60k", "cod_rna", 10.0, "8/p", {"full": ALL}),
    Problem("30-60k", "skin", 10.0, "3/p", {"S": 60_000, "full": 60_000}),
    Problem("a9a", "a9a", 1.0, "1/p", _BOTH, contenders=_SPARSE),
    Problem("a9a", "a9a", 10.0, "6/p", {"full": ALL}, contenders=_SPARSE),
    Problem("text", "topics", 10.0, "1", {"S": 6_000, "full": 6_000}),
    Problem("text", "sms_spam", 10.0, "1", _BOTH),
    Problem("text", "reuters earn", 10.0, "1", {"full": ALL}),
    Problem("text", "reuters earn", 1.0, "1", {"full": ALL}, kernel="linear"),
    Problem("text", "20news comp", 10.0, "1", {"S": 10_000, "full": 10_000}, contenders=_WITHOUT_LIBSVM),
    Problem("93k", "covtype 2", 10.0, "50/p", {"full": ALL}, contenders=("mercer",)),
    Problem("classes", "digits", 10.0, "1/p", _BOTH),
    Problem("classes", "vowel", 10.0, "1/p", _BOTH),
    Problem("classes", "segment", 10.0, "1/p", {"full": ALL}),
    Problem("classes", "letter", 10.0, "1/p", _BOTH),
    Problem("classes", "usps", 10.0, "10/p", _BOTH, contenders=_WITHOUT_LIBSVM),
    *(
        Problem("svr", source, C, gamma, rows, machine="SVR", parameter=epsilon, tag="" if "S" in rows else "all")
        for source, C, gamma, epsilon, rows in (
            ("casp", 1.0, "1/p", 0.1, {"S": 10_000, "full": 20_000}),
            ("casp", 10.0, "5/p", 0.2, {"S": 5_000, "full": 20_000}),
            ("cadata", 1.0, "1/p", 0.1, {"S": 20_000, "full": ALL}),
            ("cadata", 10.0, "3/p", 0.01, {"S": 5_000, "full": ALL}),
            ("cadata", 0.1, "1/p", 0.5, {"full": ALL}),
            ("casp", 1.0, "1/p", 0.1, {"full": ALL}),
        )
    ),
    Problem("nu-svr", "casp", 1.0, "1/p", {"S": 5_000, "full": 20_000}, machine="NuSVR", parameter=0.5),
    Problem("nu-svr", "cadata", 1.0, "1/p", {"full": ALL}, machine="NuSVR", parameter=0.5),
    *(
        Problem("nu-svc", "covtype 2", 1.0, "50/p", rows, machine="NuSVC", parameter=nu)
        for nu, rows in ((0.4, {"S": 5_000, "full": 20_000}), (0.2, {"full": 20_000}))
    ),
    *(
        Problem(group, "covtype 2", 1.0, "50/p", rows, contenders=others, machine="OneClassSVM", parameter=0.1)
        for group, others, rows in (
            ("one-class", ("mercer", "scikit-learn", "libsvm"), {"S": 10_000, "full": 20_000}),
            ("ball", ("mercer", "mercer SVDD"), {"S": 10_000, "full": 20_000}),
        )
    ),
    Problem(
        "ridge",
        "casp",
        1.0,
        "1/p",
        {"S": 5_500, "full": 10_000},
        contenders=("mercer", "scikit-learn"),
        machine="KernelRidge",
        parameter=1.0,
    ),
    *(
        Problem(
            f"predict-{p}",
            f"noise {p}",
            1.0,
            gamma,
            {"S": n, "full": 10_000},
            task="predict",
            contenders=_WITHOUT_LIBSVM,
        )
        for p, gamma, n in ((20, "10/p", 10_000), (784, "1/p", 4_000))
    ),
    *(
        Problem(group, source, C, gamma, {"S": n, "full": n}, contenders=("mercer", f"mercer {how}"), rivals=rivals)
        for group, how, rivals in (("threads", "1 thread", 0), ("rival", "1 thread", 1), ("tight", "tol=1e-6", 0))
        for source, n, gamma in (
            ("overlapping 20", 10_000, "1/p"),
            ("electricity", 10_000, "10/p"),
            ("digits 8", 1797, "1/p"),
        )
        for C in (1.0, 10.0, 100.0, *((1000.0,) if group == "tight" and n == 10_000 else ()))
    ),
    *(
        Problem(
            "scaling",
            "overlapping 20",
            1.0,
            "1/p",
            {"S": n, "full": n},
            contenders=("mercer",),
            tag=f"n={n:,}",
        )
        for n in (2_000, 5_000, 10_000, 20_000, 45_000, 90_000)
    ),
    *(
        Problem("grid", source, 10.0**power, gamma, {"S": n, "full": 3_000}, contenders=("mercer", "scikit-learn"))
        for source, n in (("overlapping 20", 2_000), ("electricity", 3_000), ("covtype 5k", 2_000), ("digits 8", 2_000))
        for gamma in ("0.1/p", "1/p", "10/p")  # beyond 2,048 rows working sets are chosen
        for power in range(-2, 5)
    ),
    *(
        Problem(
            "memory",
            source,
            C,
            gamma,
            {"S": 50_000, "full": 50_000} if quick else {"full": 50_000},
            contenders=("mercer",),
        )
        for source, C, gamma, quick in (
            ("ijcnn1", 10.0, "20/p", True),
            ("cod_rna", 10.0, "8/p", True),
            ("cod_rna", 100.0, "8/p", True),
            ("ijcnn1", 1000.0, "20/p", True),
            ("covtype 2", 10.0, "50/p", False),
            ("covtype 2", 100.0, "50/p", False),
            ("mnist 8", 10.0, "10/p", False),
            ("overlapping 20", 10.0, "1/p", False),
            ("overlapping 100", 1.0, "1/p", False),
            ("overlapping 20", 100.0, "1/p", False),
        )
    ),
)


def choose(size: str, pattern: str = "") -> list[Problem]:
    """Return the problems of a size whose name matches the regular expression and whose tables are at hand.

    They come in the order of their groups.
    """
    wanted = [problem for problem in _matching(size, pattern) if SOURCES[problem.source].is_available]
    return sorted(wanted, key=lambda problem: list(GROUPS).index(problem.group))


def missing(size: str, pattern: str = "") -> list[Problem]:
    """Return the problems that :func:`choose` leaves out because their tables are not at hand."""
    return [problem for problem in _matching(size, pattern) if not SOURCES[problem.source].is_available]


def _matching(size: str, pattern: str) -> list[Problem]:
    return [problem for problem in PROBLEMS if size in problem.rows and re.search(pattern, problem.name)]


def find(name: str) -> Problem:
    """Return the problem of that name."""
    return next(problem for problem in PROBLEMS if problem.name == name)
