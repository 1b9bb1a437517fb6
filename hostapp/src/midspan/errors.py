"""The errors of the host.

OperatorError            the operator's mistake: one clear line on stderr and exit code 2
├── ConfigError          the config file: which file, which key
├── InterceptorServerError  an interceptor server that cannot be reached, or whose interceptors cannot be used
├── PluginError          a plugin that cannot be found, loaded, configured or built
└── ProblemsError             several of these at once

Whatever else escapes is a bug of midspan: a traceback and exit code 1. Nothing here imports more than the standard
library, so that the command line can name an error before anything heavy is loaded.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

__all__ = [
    "ConfigError",
    "InterceptorServerError",
    "OperatorError",
    "PluginError",
    "ProblemsError",
    "did_you_mean",
    "each_of",
    "one_line",
    "operator_error_in",
    "raise_all",
]

MAX_LINE = 1000
"""Longest text, in characters, that is taken over from elsewhere (an exception's message) into one line."""


class OperatorError(Exception):
    """Something the operator can put right. Its text is one line that says what, where and what to do."""

    exit_code = 2

    def __init__(self, message: str) -> None:
        self.message = one_line(message)
        super().__init__(self.message)


class ConfigError(OperatorError):
    """The config file cannot be used.

    Attributes:
        problem: what is wrong, without the place.
        file: the file, or None when there is none.
        key: the dotted key, or None when the whole file is wrong.
        line: the line, counted from 1, or None when it is not known.
        column: the column in that line, counted from 1 in characters, or None when it is not known.
    """

    def __init__(
        self,
        problem: str,
        *,
        file: Path | None = None,
        key: str | None = None,
        line: int | None = None,
        column: int | None = None,
    ) -> None:
        self.problem = problem
        self.file = file
        self.key = key
        self.line = line
        self.column = column
        place = ":".join(str(part) for part in (file, line, column) if part is not None)
        super().__init__(": ".join(part for part in (place, key, problem) if part))


class InterceptorServerError(OperatorError):
    """An interceptor server cannot be reached, or its interceptors cannot be used.

    Attributes:
        server: the name of its table; None for one that the command line names.
        shown: its program, or its URL without what may be secret.
        problem: what is wrong, without who and where.
    """

    def __init__(self, problem: str, *, server: str | None = None, shown: str) -> None:
        self.server = server
        self.shown = shown
        self.problem = problem
        named = f"interceptor server {server!r} ({shown})" if server else f"interceptor server {shown}"
        hint = f"; to start without it: enabled = false in [interceptor_servers.{server}]" if server else ""
        super().__init__(f"{named}: {problem}{hint}")


class PluginError(OperatorError):
    """A plugin cannot do what the operator asked for.

    Attributes:
        plugin: its id.
        problem: what is wrong, without who and where.
        instance: the config table it runs as, or None when the plugin itself is meant.
        distribution: the distribution that brings it; None for a plugin file, or when no such plugin is installed.
        version: that distribution's version.
        origin: where it comes from, in words: `midspan-pii 1.2`, or `file no_rm.py`.
        place: the mistake in the config file that it comes from, or None when it comes from none.
    """

    def __init__(
        self,
        plugin: str,
        problem: str,
        *,
        instance: str | None = None,
        distribution: str | None = None,
        version: str | None = None,
        origin: str | None = None,
        place: ConfigError | None = None,
    ) -> None:
        self.plugin = plugin
        self.problem = problem
        self.instance = instance
        self.distribution = distribution
        self.version = version
        self.origin = origin
        self.place = place
        named = f"plugin {plugin!r}" if instance in (None, plugin) else f"plugin {plugin!r} as {instance!r}"
        super().__init__(f"{named} ({origin}): {problem}" if origin else f"{named}: {problem}")

    def with_hint(self, hint: str) -> PluginError:
        """Return the same error with a remark after it: what to do."""
        return self.with_problem(f"{self.problem} ({hint})")

    def with_problem(self, problem: str, *, place: ConfigError | None = None) -> PluginError:
        """Return an error of the same plugin that says something else, and comes from another place if one is given."""
        return PluginError(
            self.plugin,
            problem,
            instance=self.instance,
            distribution=self.distribution,
            version=self.version,
            origin=self.origin,
            place=place or self.place,
        )


class ProblemsError(OperatorError):
    """Several mistakes at once. Its own line is the first of them, and says how to see all.

    Args:
        hint: what the line says of the others.

    Attributes:
        problems: the mistakes, at least one; none of them is a `ProblemsError`.
    """

    def __init__(self, problems: Iterable[OperatorError], *, hint: str = "`midspan check` tells all") -> None:
        self.problems = tuple(dict.fromkeys(one for problem in problems for one in each_of(problem)))
        first = self.problems[0]
        more = len(self.problems) - 1
        super().__init__(f"{first.message} (and {more} more: {hint})" if more else first.message)


def each_of(error: OperatorError) -> tuple[OperatorError, ...]:
    """Return the mistakes that an error consists of."""
    return error.problems if isinstance(error, ProblemsError) else (error,)


def raise_all(problems: Sequence[OperatorError]) -> None:
    """Raise what is wrong, if anything is.

    Raises:
        OperatorError: the one mistake, or all of them as `ProblemsError`.
    """
    if problems:
        raise problems[0] if len(problems) == 1 else ProblemsError(problems)


def one_line(text: str) -> str:
    """Make foreign text fit for one line of a terminal: no line breaks, no control characters, bounded."""
    flat = " ".join(text.split())
    clean = "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in flat)
    return clean if len(clean) <= MAX_LINE else clean[: MAX_LINE - 1] + "…"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return `; did you mean 'x'?` with the nearest known name, or an empty text."""
    from difflib import get_close_matches

    nearest = get_close_matches(name, list(known), n=1)
    return f"; did you mean {nearest[0]!r}?" if nearest else ""


def operator_error_in(error: BaseException) -> OperatorError | None:
    """Return the operator's mistake that an exception is, or consists of.

    Task groups wrap what passes through them. A group that holds anything else beside is a bug and stays one: None.
    """
    if isinstance(error, OperatorError):
        return error
    if isinstance(error, BaseExceptionGroup):
        found = [operator_error_in(inner) for inner in error.exceptions]  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType, reportUnknownArgumentType] - the group's parameter is not known
        return found[0] if all(found) else None
    return None
