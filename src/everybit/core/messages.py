"""What torch, safetensors, Transformers and DCP say of files that are damaged or something else.

A table of patterns and what is really wrong. The messages were collected from torch 2.6 to 2.13,
safetensors 0.4 to 0.8 and Transformers 4 and 5, by giving them such files.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Where(StrEnum):
    """Code that raises errors which say little by themselves."""

    LOADER = "loader"
    UNPICKLER = "unpickler"


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A message and its meaning.

    Attributes:
        pattern: Found in the text of the error.
        rules: What `everybit verify` would report, the likeliest first.
        what: What is really wrong, as sentences. `{name}` stands for the pattern's first group.
        todo: What to do. `{file}` stands for the file's path.
        raised_in: Says so little that it counts only where the error comes from there.
    """

    pattern: re.Pattern[str]
    rules: tuple[str, ...]
    what: str
    todo: str
    raised_in: Where | None = None


def _message(
    pattern: str, rules: str, what: str, todo: str, *, raised_in: Where | None = None
) -> Message:
    return Message(
        pattern=re.compile(pattern, re.MULTILINE | re.IGNORECASE),
        rules=tuple(rules.split()),
        what=what,
        todo=todo,
        raised_in=raised_in,
    )


_VERIFY: Final = "`everybit verify {file}` tells which bytes and which tensors are affected"
_FETCH: Final = "fetch it again, or take the newest whole checkpoint of the folder"
_REPAIR: Final = (
    "`everybit verify {file}` names the place; `everybit repair {file}` puts back what parity, a "
    "checksum or another copy allows"
)
_NOT_SWITCH: Final = (
    "Leave weights_only as it is: switching it off makes no damaged file whole, and lets a hostile "
    "one run code. "
)
_KEYS: Final = (
    "`everybit.load_into(model, {file})` shows which keys fit, which prefix would make them fit, "
    "and loads nothing unless all of it arrives"
)
_WAY_OUT: Final = (
    f"{_NOT_SWITCH}`everybit.load_into(model, {{file}})` and `everybit.extract({{file}}, OUT)` "
    "read its tensors without running anything it names. If the class is your own and you trust "
    "the file, name it in `torch.serialization.safe_globals([...])` around this one load, then "
    "save plain state dicts"
)

_BROKEN_PICKLE: Final = (
    "The pickle in the file cannot be followed: a byte of it is damaged, or it was cut short."
)

#: The first that fits counts: specific ones stand before general ones.
MESSAGES: Final[tuple[Message, ...]] = (
    # What is no model at all.
    _message(
        r"invalid load key, '(?:v|\\x76)'|Unsupported operand 118\b|without having git-lfs",
        "FIL118",
        "The file is most likely a git-LFS pointer, a text of three lines, and not the model "
        "itself: it begins with `v` as in `version https://git-lfs...`.",
        f"{_NOT_SWITCH}Run `git lfs pull` in the clone, or download the file itself; "
        "`everybit verify {file}` confirms it",
    ),
    _message(
        r"invalid load key, '(?:<|\\x3c)'|Unsupported operand 60\b",
        "FIL118",
        "The file begins with `<`: most likely a web page (a login or an error) that was saved "
        "under the model's name.",
        f"{_NOT_SWITCH}Look at the first lines of {{file}}, then download it again, "
        "logged in and from the file's own address",
    ),
    _message(
        r"invalid load key, '(?:\{|\[)'|Unsupported operand (?:123|91)\b",
        "FIL118",
        "The file begins like JSON: an index, a configuration or an error message of a server, "
        "and no model.",
        f"{_NOT_SWITCH}Look at the first lines of {{file}}, and name or fetch the model itself",
    ),
    _message(
        r"invalid load key, '\\x00'|Unsupported operand 0\b|filename 'storages' not found"
        r"|weights_only=True``? with files saved in the legacy \.tar format",
        "FIL118 FIL105 FIL107",
        "What stands at the beginning of the file is no model: most likely zeros that were never "
        "replaced by data (a lost or interrupted write), or a damaged first header.",
        f"{_NOT_SWITCH}`everybit verify {{file}}` tells which; {_FETCH}",
    ),
    _message(
        r"invalid load key, '|Unsupported operand \d+|WeightsUnpickler error: Unsupported operand",
        "FIL107 FIL118",
        "The file's first bytes are no model, or its pickle is damaged, or it is a pickle of a "
        "newer protocol that torch does not read.",
        f"{_NOT_SWITCH}{_VERIFY}",
    ),
    _message(
        r"invalid magic number; corrupt file",
        "FIL107 FIL118",
        "The file has neither the form of a torch archive nor that of the format before it: it is "
        "damaged at its beginning, or no checkpoint.",
        _VERIFY,
    ),
    # Folders of torch.distributed.checkpoint, whose errors quote others.
    _message(
        r"metadata is None|global metadata read failed|No such file or directory: '[^']*\.metadata",
        "FIL103 FIL104",
        "The folder's `.metadata` is missing or damaged. It is written last: the save did not "
        "finish.",
        "take the checkpoint before this one; `everybit verify` on the folder above names the "
        "newest whole one",
    ),
    # Saving.
    _message(
        r"unexpected pos \d+ vs \d+|PytorchStreamWriter failed writing|No space left on device",
        "FIL104",
        "The file could not be written to its end: the disk or quota is full, or the file system "
        "failed. What is there now is cut short.",
        "free space, then save again under a temporary name and rename it "
        "(`everybit.save` and `everybit.Vault` do); what was there before may be lost",
    ),
    # Cut short.
    _message(
        r"failed finding central directory|not a ZIP archive|File is not a zip file"
        r"|BadZipFile",
        "FIL104",
        "The archive's directory, which stands at its very end, is not there: the file was cut "
        "short (an interrupted save, copy or download), or its end was overwritten.",
        f"{_VERIFY}, and which are still whole; {_FETCH}",
    ),
    _message(
        r"unexpected EOF, expected (\d+) more bytes",
        "FIL104",
        "The file ends {name} bytes too early: it was cut short.",
        f"{_VERIFY}; {_FETCH}",
    ),
    _message(
        r"pickle data was truncated|EOFError: Ran out of input|read failed: Ran out of input"
        r"|unpickling stack underflow",
        "FIL104 FIL118",
        "The pickle ends too early: the file is empty or was cut short.",
        f"{_VERIFY}; {_FETCH}",
    ),
    _message(
        r"PytorchStreamReader failed reading file ([^:\n]*): (?:invalid header|file read failed"
        r"|file not found|read failed|decompression|crc)",
        "FIL107 FIL104",
        "The archive's record {name} cannot be read: its header is damaged, or the file is cut "
        "short, or the disk fails to read it.",
        _REPAIR,
    ),
    _message(
        r"PytorchStreamReader failed|miniz error|archive does not contain|"
        r"PytorchStreamReader.*version|enforce fail.*(?:inline_container|PyTorchStreamReader)",
        "FIL107 FIL104",
        "The archive's structure does not hold: it is damaged, cut short, or no file that "
        "`torch.save` wrote.",
        _REPAIR,
    ),
    _message(
        r"storage has wrong byte size: expected|wrong size of storage|"
        r"storage.*expected (?:\d+|-?\d+) got (?:\d+|-?\d+)",
        "FIL107",
        "The pickle and the data of a tensor disagree on its size: one of them is damaged, or "
        "they are of two files.",
        _VERIFY,
    ),
    # weights_only.
    _message(
        r"Unsupported global: GLOBAL (\S+)|GLOBAL (\S+) was not an allowed global",
        "PKL204",
        "The file is not shown to be damaged: `torch.load` refuses it since 2.6 because its pickle "
        "names {name}, which is no plain tensor or container.",
        _WAY_OUT,
    ),
    _message(
        r"Unsupported class ([\w.]+)|Trying to call reduce for unrecognized function"
        r"|Can only SETITEMS for|Can only build|Can only APPENDS? |Only persistent_load of storage"
        r"|WeightsUnpickler error|Weights only load failed",
        "FIL107 PKL204",
        "`torch.load` does not read this pickle as plain tensors: it is damaged, or it holds other "
        "objects.",
        f"{_NOT_SWITCH}`everybit verify {{file}}` tells damage from a refusal: it reads the pickle "
        "and its checksum without running it",
    ),
    _message(
        r"persistent IDs? in protocol 0|persistent_load function was specified"
        r"|A load persistent id instruction was encountered",
        "FIL118",
        "This is the pickle inside a torch archive, or a torch file opened with plain `pickle`: "
        "its tensors stand elsewhere in the archive.",
        "read the whole file with `torch.load`; where only `data.pkl` is there, the archive was "
        "unpacked and its other records are needed too",
    ),
    # safetensors.
    _message(
        r"header too large|HeaderTooLarge",
        "FIL107 FIL118",
        "The first eight bytes of a safetensors file are the length of its header, and they say "
        "more than can be: the file is something else (a git-LFS pointer, a web page, a `.bin`), "
        "or these bytes are damaged.",
        "`everybit verify {file}` tells which; fetch the file again",
    ),
    _message(
        r"header too small|HeaderTooSmall",
        "FIL104 FIL118",
        "The safetensors file is empty, or shorter than its own length field.",
        _FETCH,
    ),
    _message(
        r"invalid header length|InvalidHeaderLength",
        "FIL104 FIL107",
        "The safetensors header is said to be longer than the file: the file was cut short, or its "
        "first eight bytes are damaged.",
        f"{_VERIFY}; {_FETCH}",
    ),
    _message(
        r"incomplete metadata, file not fully covered|MetadataIncompleteBuffer",
        "FIL104 FIL107",
        "The tensors that the safetensors header lists do not end where the file ends: the file "
        "was cut short, something was appended, or the header is of another file.",
        f"{_VERIFY}; {_FETCH}",
    ),
    _message(
        r"InvalidHeaderDeserialization|invalid (?:JSON|UTF-8) in header|InvalidHeader\b"
        r"|InvalidHeaderStart",
        "FIL107",
        "The safetensors header is no JSON that describes tensors: it is damaged, of a newer "
        "release (a dtype that this one does not know), or the file is something else.",
        _VERIFY,
    ),
    _message(
        r"invalid offset for tensor|invalid shape, data type, or offset|InvalidOffset"
        r"|TensorInvalidInfo",
        "FIL107",
        "The safetensors header contradicts itself: a tensor's shape, dtype and place do not fit "
        "each other. A number in the header is damaged.",
        _VERIFY,
    ),
    # Keys and shapes.
    _message(
        r"size mismatch for ([^:\s]+): copying a param",
        "FIL116",
        "The file and the model are of different sizes: {name} has another shape in each. The file "
        "need not be damaged: it is of another configuration (vocabulary, number of classes, "
        "width), or of another model.",
        "`everybit.load_into(model, {file}, strict=False)` lists what fits and what does not; "
        "nothing of another shape is ever loaded",
    ),
    _message(
        r"Missing key\(s\) in state_dict|Unexpected key\(s\) in state_dict"
        r"|Error\(s\) in loading state_dict",
        "FIL116",
        "The names in the file and in the model differ. Most often one constant prefix is too much "
        "or missing (`module.`, `_orig_mod.`, `model.`).",
        f"Do not silence it with strict=False: then nothing may arrive. {_KEYS}",
    ),
    _message(
        r"(?:were|was) not initialized from the model checkpoint|newly initialized: \["
        r"|were not used when initializing",
        "FIL116",
        "Some weights of the model were not in the files and hold random numbers now. That is "
        "right for a new head and wrong for anything else.",
        _KEYS,
    ),
    _message(
        r"parameter group that doesn't match the size|different number of parameter groups",
        "FIL115",
        "The optimizer state is of another set of parameters: layers were added, removed or "
        "frozen, or the groups are made differently.",
        "`everybit.load_into(model, {file}, optimizer=optimizer)` matches it by parameter name",
    ),
    _message(
        r"Missing key in checkpoint state_dict: ([\w.\[\]-]*\w)",
        "FIL116",
        "The checkpoint folder does not hold {name}: the state dict that is asked for has other "
        "names than the one that was saved.",
        "`everybit verify {file}` lists what the folder holds; ask for it under the names of the "
        "save",
    ),
    _message(
        r"Size mismatch between saved torch\.Size|Global plan validation|"
        r"Failed to validate global plan",
        "FIL116 FIL107",
        "A tensor of the checkpoint folder has another shape than the one it is loaded into, or "
        "its `.metadata` does not cover it.",
        _VERIFY,
    ),
    _message(
        r"No such file or directory: '?\"?([^'\"\n]*(?:\.distcp|\.safetensors|\.pt|\.bin|\.ckpt))",
        "FIL103",
        "{name} is not there: the path is another, or a file that an index names was not copied.",
        "`everybit verify` on the folder lists what is missing; fetch just that file",
    ),
    _message(
        r"no file named ([\w./-]+(?:, [\w./-]+)*)"
        r"|does not appear to have a file named ([\w./-]*\w)",
        "FIL103",
        "The folder holds no model under a name that the library looks for ({name}).",
        "`everybit verify` on the folder lists what is there and what its index misses",
    ),
    _message(
        r"upgrade torch to at least v2\.6|CVE-2025-32434",
        "PKL204",
        "Transformers refuses pickle files with torch before 2.6, whose weights_only could be "
        "evaded. The file is not shown to be damaged.",
        "upgrade torch, or use the safetensors file of the same model",
    ),
    _message(
        r"Unable to load weights from (?:pytorch )?checkpoint file",
        "FIL104 FIL118 PKL204",
        "Transformers could not read the file; what it suggests (another framework) is seldom "
        "the cause. It is cut short, a git-LFS pointer, or refused by weights_only.",
        "`everybit verify {file}` tells which",
    ),
    # Devices.
    _message(
        r"Attempting to deserialize object on (?:a )?(\w+ device(?: \d+)?)",
        "ENV901",
        "The file is fine: its tensors were saved from a {name} that this machine does not have.",
        'load it with `torch.load({file}, map_location="cpu")`; `everybit.load_into` puts every '
        "tensor where the model is",
    ),
    # So little that it counts from a loader only.
    _message(
        r"^\s*(?:\w+\.)*OSError: \[Errno 22\] Invalid argument\s*$",
        "FIL104",
        "The file was cut short: torch looks for the archive's end before the file's beginning.",
        f"{_VERIFY}; {_FETCH}",
        raised_in=Where.LOADER,
    ),
    _message(
        r"^\s*(?:\w+\.)*EOFError:?\s*$",
        "FIL118 FIL104",
        "The file is empty, or ends before its first object.",
        f"{_VERIFY}; {_FETCH}",
        raised_in=Where.LOADER,
    ),
    _message(
        r"Can't get attribute '([^']+)' on|No module named '([^']+)'",
        "PKL204",
        "The file is not shown to be damaged: its pickle names {name}, a class or module that is "
        "not here. Whole objects were saved instead of a state dict.",
        "`everybit.load_into(model, {file})` reads a state dict in it without that code; otherwise "
        "load it where the code is, and save `model.state_dict()`",
        raised_in=Where.LOADER,
    ),
    _message(
        r"(?:don't|do not) know how to restore data location of .*tagged with (\w+)",
        "ENV901",
        "The file is fine: its tensors were saved from a device of kind {name} that this torch "
        "does not know.",
        'load it with `torch.load({file}, map_location="cpu")`',
    ),
    _message(
        r"^\s*(?:\w+\.)*(?:UnicodeDecodeError|struct\.error|UnpicklingError|error): ",
        "FIL107 FIL108",
        _BROKEN_PICKLE,
        _REPAIR,
        raised_in=Where.LOADER,
    ),
    _message(
        r"^\s*(?:\w+\.)*(?:IndexError|KeyError|ValueError|AttributeError|TypeError|RuntimeError"
        r"|OverflowError|MemoryError|AssertionError): "
        r"(?!.*(?:out of memory|CUDA|seekable|map_location))",
        "FIL107 FIL108",
        _BROKEN_PICKLE,
        _REPAIR,
        raised_in=Where.UNPICKLER,
    ),
)
