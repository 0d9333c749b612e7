"""The exit codes of the command, and the conversion of errors to one line or to JSON."""

from __future__ import annotations

import re

from dragoman import errors

OK = 0
FAILED = 1
USAGE = 2
UNREACHABLE = 3
REFUSED = 4
TIMED_OUT = 5
INTERRUPTED = 130

_REFUSALS = (errors.RpcError, errors.NotFound, errors.CapabilityNotAvailable, errors.InputNeeded)
_CODES: dict[int, tuple[type[BaseException], ...]] = {
    INTERRUPTED: (KeyboardInterrupt,),
    TIMED_OUT: (errors.Timeout,),
    FAILED: (errors.ToolError,),
    UNREACHABLE: (errors.TransportError,),
    USAGE: (errors.ConfigError, errors.SessionFileError),
    REFUSED: (*_REFUSALS, errors.ValidationError, errors.PaginationLimit),
}


_OTHERS = re.compile(r"site-packages|<frozen|[/\\]lib[/\\]python3")
"""Parts of the names of files that are not the user's."""
_HIDING_FILE = "your file dragoman.py hides the package, so give it another name; "
_LOG_HINT = "; the server's log says why, and --verbose shows it if this command started the server"
_WORDS_OF_PROGRAMS = {
    "give auth= or headers=": "give --token or --header",
    "is what auth= or headers= gives right?": "is what --token or --header gives right?",
    "give it as issuer=": "name it as `issuer` of `oauth` in a configuration file",
    "protocol_version '": "--protocol-version '",
    "with mode '": "with --mode '",
    "; raise max_pages": "",
    "; let it send less at a time, or raise max_message_bytes": "; let it send less at a time",
    "; raise max_message_bytes": "; let the server send less at a time",
    ", so give a call that may run twice idempotent=True": "",
    "give api_key=..., or set": "set",
    "give base_url=...": "give --base-url",
}
"""What errors say to programs about keyword arguments, and what the command says to a person instead."""


def for_person(text: str) -> str:
    """Return the text of an error in the words of the command line, as one line."""
    for given, said in _WORDS_OF_PROGRAMS.items():
        text = text.replace(given, said)
    return " ".join(text.split())


def exit_code(error: BaseException) -> int:
    """Return the exit code of an error."""
    if isinstance(error, errors.ModelError):
        return UNREACHABLE if error.status is None else REFUSED
    return next((code for code, kinds in _CODES.items() if isinstance(error, kinds)), FAILED)


def one_line(error: BaseException) -> str:
    """Return the cause and the remedy of an error as one line."""
    text = for_person(str(error)) or type(error).__name__
    if isinstance(error, errors.ServerCrashed):
        lines = [line.strip() for line in error.stderr_tail.splitlines() if line.strip()]
        place = next((line for line in reversed(lines) if line.startswith('File "') and not _OTHERS.search(line)), None)
        where = f"{place.partition(', in ')[0]}; " if place else ""
        where += _HIDING_FILE if lines and "initialized module 'dragoman'" in lines[-1] else ""
        return f"{error.summary} It wrote: {lines[-1]} ({where}--verbose shows all of it)" if lines else text
    if isinstance(error, errors.Timeout):
        return text if error.option is None else f"{error.summary} If the server needs longer, raise --timeout"
    if isinstance(error, errors.RpcError):
        hint = _LOG_HINT if isinstance(error, errors.InternalError) else ""
        return f"the server refused ({error.code}): {text}{hint}"
    return text if isinstance(error, errors.DragomanError) else f"{type(error).__name__}: {text}; --verbose shows where"


def error_json(error: BaseException, code: int) -> dict[str, object]:
    """Return an error as JSON."""
    found: dict[str, object] = {"kind": type(error).__name__, "message": for_person(str(error)), "exitCode": code}
    if isinstance(error, errors.RpcError):
        found["code"] = error.code
        if isinstance(error.data, dict | list | str | int | float):
            found["data"] = error.data
    return {"error": found}
