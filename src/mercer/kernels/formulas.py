"""Kernels written as text: "Spectrum(3) on seq + 0.5 * RBF(gamma=2) on age, dose + Hamming on rest".

The grammar, in which arguments are numbers, texts in quotes, True, False, None and lists of these::

    sum      = product {"+" product}
    product  = power {"*" power}
    power    = part ["**" integer]
    part     = (number | kernel | "(" sum ")") ["on" columns]
    kernel   = name ["(" [argument {"," argument}] ")"] | ("normalize" | "center" | "exp") "(" sum ")"
    argument = [name "="] value
    columns  = "rest" | column {"," column} | "[" column {"," column} "]"

Nothing in the text is executed: it names classes of kernels, and gives them values.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, NoReturn

from mercer.data.mixed_rows import REST
from mercer.data.phrasing import listing, nearest_names
from mercer.kernels.algebra import exp
from mercer.kernels.kernel import MAX_DEPTH, Kernel
from mercer.kernels.transforms import center, normalize

_OF_KERNELS: dict[str, Callable[[Kernel], Kernel]] = {"normalize": normalize, "center": center, "exp": exp}
_CONSTANTS = {"True": True, "False": False, "None": None}
_EMPTY = inspect.Signature.empty
_LONGEST = 10_000  # letters of a text

_TOKEN = re.compile(
    r"""\s*(?:
    (?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?![\w.]))
    | (?P<text>'[^']*'|"[^"]*"|`[^`]*`)
    | (?P<word>[^\W\d]\w*)
    | (?P<sign>\*\*|[-+*(),\[\]=])
    )""",
    re.VERBOSE,
)
_COLUMN = re.compile(r"""\s*(?:(?P<text>'[^']*'|"[^"]*"|`[^`]*`)|(?P<sign>\[)|(?P<word>[^\s,+*()\[\]'"`=]+))""")


def spelled(name: str) -> str:
    """Return a name in the spelling in which it is looked up: in lower case, without spaces, hyphens and "_"."""
    return re.sub(r"[\s_-]", "", name).lower()


class _Token(NamedTuple):
    kind: str  # "number", "text", "word", "sign", or "end"
    text: str
    place: int  # of its first letter, counted from 0

    @property
    def value(self) -> str:
        """The text without its quotes."""
        return self.text[1:-1] if self.kind == "text" else self.text


def parse(text: str, classes: Mapping[str, type[Kernel]]) -> Kernel:
    """Return the kernel that a text describes.

    Parameters
    ----------
    text : str
    classes : mapping of str to type
        The classes of kernels by the names that they have in a text.

    Raises
    ------
    ValueError
        If the text is not a kernel; the message says where, and what was expected there.
    """
    return _Reader(text, classes).read()


class _Reader:
    """Reads one text from left to right."""

    def __init__(self, text: str, classes: Mapping[str, type[Kernel]]) -> None:
        self.text, self.classes, self.at, self.depth = text, classes, 0, 0
        self.spelled = {spelled(name): kernel_class for name, kernel_class in classes.items()}
        if len(text) > _LONGEST:
            raise ValueError(f"a kernel that is written as text must have at most {_LONGEST:,} letters")

    def read(self) -> Kernel:
        first, kernel = self._next(), self._sum()
        last = self._next()
        if last.kind != "end":
            hint = "; put names of columns with spaces or signs in quotes" if last.kind == "word" else ""
            self._refuse("'+', '*', 'on' or the end", last, hint)
        if not isinstance(kernel, Kernel):
            self._refuse("a kernel", first)
        return kernel

    def _refuse(self, expected: str, got: _Token, hint: str = "") -> NoReturn:
        what = "the end" if got.kind == "end" else repr(got.text)
        self._fail(got.place, f"expected {expected}, got {what}{hint}")

    def _fail(self, place: int, problem: str) -> NoReturn:
        shown = self.text if len(self.text) <= 80 else f"{self.text[:77]}..."
        raise ValueError(f"kernel {shown!r}, at character {place + 1}: {problem}")

    def _next(self, pattern: re.Pattern[str] = _TOKEN) -> _Token:
        """Return the next token, which stays the next one."""
        match = pattern.match(self.text, self.at)
        if match is not None and match.lastgroup is not None:
            return _Token(match.lastgroup, match[match.lastgroup], match.start(match.lastgroup))
        rest = self.text[self.at :]
        place = self.at + len(rest) - len(rest.lstrip())
        if not rest.strip():
            return _Token("end", "", place)
        if rest.lstrip()[0] in "'\"`":
            self._fail(place, f"the quote {rest.lstrip()[0]} is not closed")
        return _Token("letter", rest.lstrip()[:1], place)

    def _take(self, token: _Token) -> _Token:
        self.at = token.place + len(token.text)
        return token

    def _sign(self, *signs: str) -> bool:
        """Take one of these signs if it comes next."""
        token = self._next()
        is_next = token.kind == "sign" and token.text in signs
        if is_next:
            self._take(token)
        return is_next

    def _expect(self, sign: str, or_else: str = "") -> None:
        if not self._sign(sign):
            self._refuse(f"{sign!r}{or_else}", self._next())

    def _sum(self) -> Any:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            self._fail(self.at, f"a kernel must be nested at most {MAX_DEPTH} deep")
        value = self._product()
        while self._sign("+"):
            place, other = self._next().place, self._product()
            value = self._made(place, lambda one, two: one + two, value, other)
        self.depth -= 1
        return value

    def _product(self) -> Any:
        value = self._power()
        while self._sign("*"):
            place, other = self._next().place, self._power()
            value = self._made(place, lambda one, two: one * two, value, other)
        return value

    def _power(self) -> Any:
        value = self._part()
        if self._sign("**"):
            token = self._next()
            if token.kind != "number" or not token.text.isdigit():
                self._refuse("a whole number as the exponent", token)
            self._take(token)
            value = self._made(token.place, lambda one, two: one**two, value, int(token.text))
        return value

    def _made(self, place: int, make: Callable[..., Any], *values: Any) -> Any:
        try:
            return make(*values)
        except (TypeError, ValueError, OverflowError) as error:
            self._fail(place, str(error))

    def _part(self) -> Any:
        token = self._next()
        if self._sign("("):
            value = self._sum()
            self._expect(")", ", '+' or '*'")
        elif token.kind == "number":
            value = _number(self._take(token).text)
        elif token.kind == "word" and token.text not in ("on", *_CONSTANTS):
            value = self._kernel(self._take(token))
        else:
            self._refuse("a kernel or a number", token)
        following = self._next()
        if following.kind != "word" or following.text != "on":
            return value
        if not isinstance(value, Kernel):
            self._refuse("'+' or '*', because a number reads no columns", following)
        self._take(following)
        columns = self._columns()
        return self._made(token.place, value.on, columns)

    def _kernel(self, name: _Token) -> Kernel:
        if name.text in _OF_KERNELS:
            self._expect("(")
            place, inner = self._next().place, self._sum()
            self._expect(")", ", '+' or '*'")
            return self._made(place, _OF_KERNELS[name.text], inner)
        kernel_class = self._class(name.text)
        if kernel_class is None:
            near = nearest_names(name.text, [*self.classes, *_OF_KERNELS])
            every = [*dict.fromkeys(one.__name__ for one in self.classes.values()), *_OF_KERNELS]
            remedy = f"did you mean {listing(near, 'or')}?" if near else f"the kernels are {', '.join(every)}"
            self._fail(name.place, f"there is no kernel {name.text!r}; {remedy}")
        positional: list[Any] = []
        named: dict[str, Any] = {}
        if self._sign("(") and not self._sign(")"):
            self._argument(kernel_class, positional, named)
            while self._sign(","):
                self._argument(kernel_class, positional, named)
            self._expect(")", " or ','")
        signature = inspect.signature(kernel_class)
        try:
            signature.bind(*positional, **named)
        except TypeError as error:
            plain = [one.replace(annotation=_EMPTY) for one in signature.parameters.values()]
            shown = inspect.Signature(plain)
            self._fail(name.place, f"{error}: write {kernel_class.__name__}{shown} with some of these")
        return self._made(name.place, lambda *values: kernel_class(*values, **named), *positional)

    def _class(self, name: str) -> type[Kernel] | None:
        """Return the class of this name, which may go on in the next words; None if no kernel has it."""
        after, part = self.at, self._next()
        while spelled(name) not in self.spelled and (part.kind == "word" or part.text == "-") and part.text != "on":
            self._take(part)
            name, part = name + part.text, self._next()
        if spelled(name) not in self.spelled:
            self.at = after
        return self.spelled.get(spelled(name))

    def _argument(self, kernel_class: type[Kernel], positional: list[Any], named: dict[str, Any]) -> None:
        token, before = self._next(), self.at
        if token.kind == "word" and token.text not in _CONSTANTS:
            self._take(token)
            if self._sign("="):
                allowed = [name for name in inspect.signature(kernel_class).parameters if name != "is_psd"]
                if token.text not in allowed:
                    near = nearest_names(token.text, allowed)
                    remedy = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(allowed) or 'none'}"
                    self._fail(token.place, f"{kernel_class.__name__} has no parameter {token.text!r}; {remedy}")
                if token.text in named:
                    self._fail(token.place, f"the parameter {token.text!r} is given twice")
                named[token.text] = self._value()
                return
            self.at = before
        if named:
            self._refuse("a parameter with its name, as in gamma=0.5, after another one with its name", token)
        positional.append(self._value())

    def _value(self) -> Any:
        token = self._next()
        if token.kind == "text":
            return self._take(token).value
        if token.kind == "word" and token.text in _CONSTANTS:
            return _CONSTANTS[self._take(token).text]
        if self._sign("-"):
            number = self._next()
            if number.kind != "number":
                self._refuse("a number", number)
            return -_number(self._take(number).text)
        if token.kind == "number":
            return _number(self._take(token).text)
        if token.kind == "sign" and token.text in "([":
            self._take(token)
            close, values = {"(": ")", "[": "]"}[token.text], []
            self.depth += 1
            if self.depth > MAX_DEPTH:
                self._fail(token.place, f"lists must be nested at most {MAX_DEPTH} deep")
            while not self._sign(close):
                values.append(self._value())
                if not self._sign(","):
                    self._expect(close, " or ','")
                    break
            self.depth -= 1
            return tuple(values)
        hint = f"; put text in quotes: '{token.text}'" if token.kind == "word" else ""
        self._refuse("a value: a number, a text in quotes, True, False, None or a list", token, hint)

    def _columns(self) -> Any:
        first = self._next(_COLUMN)
        if first.kind == "word" and first.text == "rest":
            self._take(first)
            return REST
        if first.kind == "sign":
            self._take(first)
            names = [self._column()]
            while self._sign(","):
                names.append(self._column())
            self._expect("]", " or ','")
            return names
        names = [self._column()]
        while self._sign(","):
            names.append(self._column())
        return names

    def _column(self) -> Any:
        token = self._next(_COLUMN)
        if token.kind not in ("word", "text"):
            self._refuse("the name of a column, or 'rest' for all columns that are not named", token)
        self._take(token)
        return int(token.text) if token.kind == "word" and token.text.isdecimal() else token.value


def _number(text: str) -> float:
    return int(text) if text.isdigit() else float(text)
