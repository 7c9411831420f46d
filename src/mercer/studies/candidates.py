"""Candidates of the search: kernels, gamma and C that are tried, and what came of each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeAlias, cast

from mercer.approximate import Cells, Landmarks, Way
from mercer.certificates import Status
from mercer.data import Data, as_data, listing
from mercer.kernels import RBF, Kernel, Linear, Polynomial, as_kernel
from mercer.solvers import USUAL_EXPONENT
from mercer.studies.contenders import Matrix

C_GRID = tuple(10.0**exponent for exponent in range(-2, 4))
"""C from 0.01 to 1000."""

STEP = {"C": 10.0, "gamma_factor": 4.0, "epsilon": 3.0}
"""Factors from one value of the grid to the next."""

_SIMPLICITY = ("linear", "polynomial", "rbf")

Rows: TypeAlias = Matrix | Data
"""Encoded rows, or rows as a kernel on cells reads them."""


@dataclass(frozen=True)
class KernelChoice:
    """A kernel whose gamma is not a number yet: `gamma_factor` / (p · variance of X); or the linear machine.

    Attributes
    ----------
    family : str
        "linear", "polynomial" or "rbf", or the text of a given kernel.
    gamma_factor : float
        Multiple of the usual gamma; of a given kernel, of each gamma that a rule finds in the rows.
    degree : int
    given : Kernel or None
        A kernel of the user, or one of words.
    place : int
        Place among the given kernels, the simplest first.
    way : Way or None
        How the machine is approximated; None for an exact machine.
    """

    family: str
    gamma_factor: float = 1.0
    degree: int = 1
    given: Kernel | None = field(default=None, compare=False)
    place: int = 0
    way: Way | None = None

    @property
    def name(self) -> str:
        """Name of the kernel in messages, and how the machine is approximated."""
        names = {"linear": "linear machine", "rbf": "Gaussian kernel"}
        names["polynomial"] = f"polynomial kernel of degree {self.degree}"
        name = names[self.family] if self.given is None else f"kernel {self.family}"
        return f"{name}{approximated(self.way)}"

    @property
    def is_linear(self) -> bool:
        """Whether the machine is linear in the features."""
        return self.family == "linear"

    @property
    def has_gamma(self) -> bool:
        """Whether multiples of the usual gamma are other kernels."""
        return self.family in ("polynomial", "rbf") if self.given is None else has_rules(self.given)

    @property
    def simplicity(self) -> tuple[int, int]:
        """Sort key of the kernel's family, the simplest first; given kernels are last."""
        if self.given is not None:
            return (len(_SIMPLICITY), self.place)
        return (_SIMPLICITY.index(self.family), self.degree)

    def kernel(self, rows: Rows) -> Kernel:
        """The kernel with gamma as a number, from these training rows."""
        return self.with_gammas(rows).resolve(rows)

    def with_gammas(self, rows: Rows) -> Kernel:
        """The kernel with gammas as numbers from these rows. Nothing else is learnt from them, such as a centre."""
        if self.given is None:
            return self.kernel_at(usual_gamma(rows))
        return times_rules(self.given, self.given.resolve(rows), self.gamma_factor)

    def kernel_at(self, usual: float) -> Kernel:
        """The kernel with gamma as a number, from the usual value; not of a given kernel."""
        if self.is_linear:
            return Linear()
        gamma = self.gamma_factor * usual
        return RBF(gamma=gamma) if self.family == "rbf" else Polynomial(degree=self.degree, gamma=gamma, coef0=1.0)


def approximated(way: Way | None) -> str:
    """Return how a machine is approximated, to follow the name of its kernel; "" if it is exact."""
    if isinstance(way, Landmarks):
        return f" on at most {way.n_landmarks:,} landmarks"
    if isinstance(way, Cells):
        return " in cells" + ("" if way.cell_rows is None else f" of {way.cell_rows:,} rows")
    return "" if way is None else f" by {way.name}"


def has_rules(kernel: Kernel) -> bool:
    """Return whether a rule finds a gamma of the kernel, or of a part of it, in the rows."""
    return isinstance(getattr(kernel, "gamma", None), str) or any(map(has_rules, kernel.parts))


def times_rules(kernel: Kernel, resolved: Kernel, factor: float) -> Kernel:
    """Return a kernel with numbers in the place of the rules of its gammas: those that they found, times a factor."""
    if not has_rules(kernel):
        return kernel
    changed, numbers = dict[str, object](), resolved.get_params(deep=False)
    for name, value in kernel.get_params(deep=False).items():
        if name == "gamma" and isinstance(value, str):
            changed[name] = factor * float(cast(float, numbers[name]))
        elif isinstance(value, Kernel):
            changed[name] = times_rules(value, cast(Kernel, numbers[name]), factor)
    return kernel.with_params(**changed)


def usual_gamma(X: Matrix) -> float:
    """Return 1 / (p · variance) of these rows."""
    return float(RBF(gamma="scale").resolve(as_data(X)).gamma)


def gamma_of(kernel: Kernel) -> float | None:
    """Gamma of a kernel as `KernelChoice` makes them; None if the kernel has no gamma."""
    return float(kernel.gamma) if isinstance(kernel, (RBF, Polynomial)) else None


def multiple(factor: float) -> str:
    """A power of two as people write it: 1/16, 4."""
    return f"1/{1 / factor:g}" if factor < 1 else f"{factor:g}"


def times_usual(factor: float) -> str:
    """A multiple of the usual gamma in words."""
    comparison = "" if factor == 1 else f"{multiple(factor)} {'of' if factor < 1 else 'times'} "
    return f"{comparison}the usual value"


KERNELS = (
    KernelChoice("rbf"),
    KernelChoice("linear"),
    KernelChoice("polynomial", degree=2),
    *(KernelChoice("rbf", gamma_factor=factor) for factor in (1 / 4, 4.0, 1 / 16)),
)
"""Gaussian with gamma from 1/16 to 4 times 1/(p · variance), linear, and (gamma xᵀz + 1)².

The most promising first, for the sake of a search that is stopped.
"""


FAMILIES = {"linear": "linear", "poly": "polynomial", "rbf": "rbf"}
"""Families of kernels by the names of the option --kernel."""

_OTHER_NAMES = {"gaussian": "rbf", "polynomial": "polynomial"}


GAMMA_FACTORS = (1.0, 1 / 4, 4.0)
"""Multiples of the gammas of a given kernel that are tried, if a rule finds them."""

KernelOption: TypeAlias = str | Kernel
"""A family of kernels by its name, a text such as "Spectrum(3) on seq + RBF on rest", or a kernel."""


def kernels_named(names: KernelOption | Iterable[KernelOption]) -> tuple[KernelChoice, ...]:
    """Return the kernels that are asked for: families in the order of `KERNELS`, and then given kernels.

    Raises
    ------
    ValueError, TypeError
        If there is no such kernel, or none is given.
    """
    asked = [names] if isinstance(names, str | Kernel) else list(names)
    if not asked:
        raise ValueError(f"kernel names no family of kernels: name some of {listing(list(FAMILIES), last='or')}")
    family_of = FAMILIES | _OTHER_NAMES
    families = {family_of[one] for one in asked if isinstance(one, str) and one in family_of}
    given = [one for one in asked if not isinstance(one, str) or one not in family_of]
    return (*(one for one in KERNELS if one.family in families), *given_kernels(given))


def given_kernels(kernels: Iterable[KernelOption]) -> tuple[KernelChoice, ...]:
    """Return the choices of given kernels, texts or objects."""
    texts = {one if isinstance(one, str) else repr(one): one for one in kernels}
    return tuple(
        KernelChoice(text, factor, given=kernel, place=place)
        for place, (text, one) in enumerate(texts.items())
        for kernel in [as_kernel(one)]
        for factor in (GAMMA_FACTORS if has_rules(kernel) else (1.0,))
    )


@dataclass(frozen=True)
class Candidate:
    """A setting that the search may try: kernel, C, and for numbers epsilon."""

    choice: KernelChoice
    C: float
    epsilon: float | None = None

    @property
    def path(self) -> tuple[KernelChoice, float | None]:
        """What all candidates share that differ in C alone."""
        return (self.choice, self.epsilon)


@dataclass(frozen=True)
class Cell:
    """A candidate that was judged.

    Attributes
    ----------
    choice : KernelChoice
    C : float
    errors : tuple of float
        What the answers in each fold cost: wrong ones, or squared deviations. If a part of the validation rows was
        predicted, this is the estimate for all of them.
    figure : float
        Figure of merit of all answers, larger is better: accuracy, or R².
    seconds : float
    unfinished : tuple of Status
        How the machines in it ended that are not optimal.
    epsilon : float or None
        Half of the width of the tube, in standard deviations of the target; None for classes.
    n_rows : int
        Training rows of a fold; fewer than there are where the candidate was dropped early.
    """

    choice: KernelChoice
    C: float
    errors: tuple[float, ...]
    figure: float
    seconds: float
    unfinished: tuple[Status, ...] = ()
    epsilon: float | None = None
    n_rows: int = 0

    @property
    def candidate(self) -> Candidate:
        """What was judged."""
        return Candidate(self.choice, self.C, self.epsilon)

    @property
    def setting(self) -> str:
        """Kernel, C and epsilon, as one calls them; gamma is a number only once there are rows to fit on."""
        tube = "" if self.epsilon is None else f", epsilon\u00a0=\u00a0{self.epsilon:g}"
        return f"{self.choice.name}, C\u00a0=\u00a0{self.C:g}{tube}"

    @property
    def place(self) -> str:
        """Where the cell is in the grid: its kernel, C, and gamma as a multiple of the usual value."""
        if not self.choice.has_gamma:
            return self.setting
        return f"{self.setting}, gamma\u00a0=\u00a0{times_usual(self.choice.gamma_factor)}"

    def setting_with(self, kernel: Kernel) -> str:
        """The same with gamma's number in the kernel that it became, if that has one."""
        gamma = gamma_of(kernel)
        if self.choice.given is not None and self.choice.gamma_factor != 1.0:
            return self.place
        return self.setting if gamma is None else f"{self.setting}, gamma\u00a0=\u00a0{gamma:.3g}"

    @property
    def each_second(self) -> float:
        """Seconds of the cell in one fold, for a training row."""
        return self.seconds / (len(self.errors) * max(1, self.n_rows))

    def expected_seconds(self, n_rows: int) -> float:
        """Return about how long a final fit on so many rows takes."""
        of_fold = self.seconds / len(self.errors)
        is_linear = self.choice.is_linear or self.choice.way is not None
        return of_fold * growth(max(1, self.n_rows), max(n_rows, 1), is_linear=is_linear)

    @property
    def error(self) -> float:
        """What all answers cost, to nine digits: rounding must not decide between equally good candidates."""
        return float(f"{sum(self.errors):.9g}")

    @property
    def rank(self) -> tuple[float, ...]:
        """Smallest first: judged on more rows, since errors on fewer rows are larger; then the smaller error.

        Among equals: the simpler kernel, smaller C, smaller gamma, wider tube.
        """
        simplicity = (*self.choice.simplicity, self.C, self.choice.gamma_factor, -(self.epsilon or 0.0))
        return (-self.n_rows, self.error, *simplicity)


def growth(n_rows: int, larger: int, *, is_linear: bool = False) -> float:
    """Return the expected ratio of the times of a fit on `larger` rows and on `n_rows`; linear machines take n."""
    return (larger / n_rows) ** (1.0 if is_linear else USUAL_EXPONENT)
