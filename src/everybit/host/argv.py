"""The command line of the process, with secrets and paths kept out of what is compared."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

HIDDEN: Final = "<hidden>"

_SECRET_WORDS: Final = frozenset(
    {
        "apikey",
        "auth",
        "authorization",
        "credential",
        "credentials",
        "pass",
        "passphrase",
        "passwd",
        "password",
        "pwd",
        "secret",
        "secrets",
        "token",
    }
)
_SECRET_PAIRS: Final = re.compile(
    r"(?:^|[-_.])(?:api|access|private|secret|account)[-_.]key(?:$|[-_.])"
)
_WORDS: Final = re.compile(r"[-_.]+")
_URL_PASSWORD: Final = re.compile(r"(?<=://)[^/@\s]+(?=@)")


def looks_secret(name: str) -> bool:
    """Whether a flag or variable of this name is likely to hold a secret.

    >>> looks_secret("WANDB_API_KEY"), looks_secret("--hf-token"), looks_secret("--num-tokens")
    (True, True, False)
    """
    lowered = name.lower()
    return bool(_SECRET_WORDS & set(_WORDS.split(lowered))) or bool(_SECRET_PAIRS.search(lowered))


def without_passwords(text: str) -> str:
    """Return `text` with the user part of URLs hidden.

    >>> without_passwords("https://me:secret@example.org/x")
    'https://<hidden>@example.org/x'
    """
    return _URL_PASSWORD.sub(HIDDEN, text)


def read_argv(argv: Sequence[str]) -> dict[str, Any]:
    """Return the command line.

    Returns:
        `script`, and `arguments` as given (secrets hidden); `options` is what is compared: the
        arguments with every path replaced by `<path>`.
    """
    arguments = hide_secrets(argv[1:])
    return {
        "script": argv[0] if argv else "",
        "arguments": arguments,
        "options": [_without_path(argument) for argument in arguments],
    }


def hide_secrets(arguments: Sequence[str]) -> list[str]:
    """Return the arguments with the values of secret-looking flags hidden.

    >>> hide_secrets(["--lr", "0.1", "--token", "abc", "--api-key=xyz"])
    ['--lr', '0.1', '--token', '<hidden>', '--api-key=<hidden>']
    """
    shown: list[str] = []
    hide_next = False
    for argument in arguments:
        name, equals, _ = argument.partition("=")
        is_flag = argument.startswith("-")
        if hide_next and not is_flag:
            shown.append(HIDDEN)
        elif equals and looks_secret(name):
            shown.append(f"{name}={HIDDEN}")
        else:
            shown.append(without_passwords(argument))
        hide_next = is_flag and not equals and looks_secret(argument)
    return shown


def _without_path(argument: str) -> str:
    name, equals, value = argument.partition("=")
    if equals and ("/" in value or "\\" in value):
        return f"{name}=<path>"
    return "<path>" if "/" in argument or "\\" in argument else argument
