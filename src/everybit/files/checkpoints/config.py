"""A model's config.json against its tensors, wherever the relation is certain for that tensor.

Names alone rarely make it certain, so only names that one family of layouts uses are looked at, and
only what no loader mends by itself: padded vocabularies and added layers are harmless.
"""

from __future__ import annotations

import itertools
import json
import re
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from everybit.core.errors import PathError
from everybit.core.finding import Certainty, Location, Severity
from everybit.core.rule import rule
from everybit.files.checkpoints.contents import is_learned
from everybit.files.source import ByteSource

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from everybit.core.finding import Finding
    from everybit.files.checkpoints.contents import Contents, Shelf
    from everybit.files.tensor import FileTensor

_MAX_BYTES: Final = 16 * 1024 * 1024
_EMBEDDING: Final = re.compile(
    r"^(?P<above>.*?)(embed_tokens|wte|word_embeddings|tok_embeddings)\.weight$"
)
_LAYERS: Final = re.compile(
    r"^(?P<stem>.*?\b(layers|h|encoder\.layer|decoder\.layers|blocks|block))\.(?P<index>\d+)\."
)
_FEED_FORWARD: Final = re.compile(r"\.\d+\.(mlp\.(gate_proj|up_proj)|intermediate\.dense)\.weight$")
_HEADS: Final = ("lm_head.weight", "embed_out.weight", "output.weight")
#: Words in a layer stack's name that say it is not the language model's.
_OTHER_TOWER: Final = re.compile(
    r"(vision|visual|audio|image|speech|adapter|mtp|nextn|draft|resampler|projector)", re.I
)
#: Keys with which the width of the embedding is another one.
_OTHER_WIDTH: Final = ("embedding_size", "word_embed_proj_dim", "emb_size", "embed_dim")
#: Keys with which layers share their tensors, or have none.
_OTHER_LAYERS: Final = ("num_hidden_groups", "block_configs", "layers_block_type", "layer_share")
_PADDING: Final = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """What a config says of a tensor, and the tensor says otherwise."""

    key: str
    says: int | bool
    tensor: str
    shard: str
    message: str
    certainty: Certainty = Certainty.STRONG
    severity: Severity = Severity.ERROR


def read_json_object(path: Path) -> dict[str, Any] | None:
    """Return the object of a small JSON file; None where it is none.

    Raises:
        PathError: It cannot be opened.
    """
    with ByteSource(path) as source:
        if source.size > _MAX_BYTES:
            return None
        data = source.read(0, source.size)
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def check_config(
    shelf: Shelf, config: str, weights: Mapping[str, Contents], *, full: bool
) -> list[Finding]:
    """Return the findings for a config.json and the weights beside it.

    Args:
        shelf: The target's files.
        config: The config's path relative to the target.
        weights: The model's files, all whole, by path.
        full: Tensors' bytes may be compared.
    """
    try:
        says = read_json_object(shelf.files[config])
    except PathError:
        return []
    if says is None or not weights:
        return []
    places = {t.name: (name, t) for name, found in weights.items() for t in found.tensors}
    language = says.get("text_config")
    text = language if isinstance(language, dict) else says
    odd = [
        *_embedding(text, places),
        *_layers(text, places),
        *_feed_forward(text, places),
        *_tying(shelf, says, places, weights, full=full),
    ]
    # One config of another model contradicts all of its tensors: that is told once.
    if not odd:
        return []
    first = odd[0]
    return [
        rule("FIL114").finding(
            f"{first.shard}: {first.message}",
            where=Location(path=first.shard, tensor=first.tensor),
            evidence={
                "config": config,
                "config_key": first.key,
                "config_value": first.says,
                **({"also": [item.message for item in odd[1:8]]} if odd[1:] else {}),
            },
            severity=max((item.severity for item in odd), key=lambda severity: severity.rank),
            certainty=first.certainty,
            remedy=f"Fetch {config} and the weights again from one and the same model.",
        )
    ]


def _number(says: Mapping[str, Any], *keys: str) -> tuple[str, int] | None:
    for key in keys:
        value = says.get(key)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return key, value
    return None


def _embedding(
    says: Mapping[str, Any], places: Mapping[str, tuple[str, FileTensor]]
) -> Iterator[Expectation]:
    found = [
        (name, shard, tensor)
        for name, (shard, tensor) in places.items()
        if _EMBEDDING.match(name) and not _OTHER_TOWER.search(name)
        if len(tensor.shape) == 2 and is_learned(tensor)
    ]
    # With several vocabularies nothing tells which one an embedding is for.
    several = sum("vocab_size" in key and key != "type_vocab_size" for key in says) > 1
    vocabulary = None if several else _number(says, "vocab_size")
    width = _number(says, "hidden_size", "n_embd", "d_model")
    if any(key in says for key in _OTHER_WIDTH):
        width = None
    for name, shard, tensor in found[:4]:
        rows, columns = tensor.shape
        if vocabulary and (
            rows < vocabulary[1] or rows > vocabulary[1] + max(_PADDING, vocabulary[1] // 10)
        ):
            yield _disagrees(vocabulary, name, shard, f"has {rows} rows")
        if width and columns != width[1] and not _is_factorised(name, columns, width[1], places):
            yield _disagrees(width, name, shard, f"is {columns} wide")


def _disagrees(setting: tuple[str, int], tensor: str, shard: str, holds: str) -> Expectation:
    """Return what a setting expects of a tensor that is otherwise."""
    key, says = setting
    message = f"{tensor} {holds}, {key} is {says}"
    return Expectation(key=key, says=says, tensor=tensor, shard=shard, message=message)


def _is_factorised(
    name: str, columns: int, width: int, places: Mapping[str, tuple[str, FileTensor]]
) -> bool:
    """Return whether an embedding may be of another width than the model, and projected to it."""
    if re.search(r"(embed_tokens|embeddings?|wte)\.\w+\.weight$", name) and not re.search(
        r"(^|\.)embeddings\.word_embeddings\.weight$", name
    ):
        return True  # an embedding that is a module of several parts
    return any(
        re.search(r"(embed|proj_in|project_in|input_proj)", other)
        and other != name
        and set(tensor.shape) == {columns, width}
        for other, (_, tensor) in places.items()
    )


def _layers(
    says: Mapping[str, Any], places: Mapping[str, tuple[str, FileTensor]]
) -> Iterator[Expectation]:
    number = _number(says, "num_hidden_layers", "n_layer", "n_layers", "num_layers")
    if number is None or any(key in says for key in _OTHER_LAYERS):
        return
    stacks: dict[str, set[int]] = defaultdict(set)
    example: dict[tuple[str, int], str] = {}
    for name in places:
        match = _LAYERS.match(name)
        if match and len(match["index"]) < 6 and not _OTHER_TOWER.search(match["stem"]):
            index = int(match["index"])
            stacks[match["stem"]].add(index)
            example.setdefault((match["stem"], index), name)
    # With several stacks (encoder and decoder) the number may be meant for either, and models of
    # images count their blocks in other ways.
    if len(stacks) != 1 or not any(_EMBEDDING.match(name) for name in places):
        return
    ((stem, indices),) = stacks.items()
    key, wanted = number
    num_missing = wanted - sum(index < wanted for index in indices)
    absent = (index for index in itertools.count() if index not in indices)
    missing = list(itertools.islice(absent, min(num_missing, 8)))
    extra = len(indices) - wanted
    if missing:
        listed = ", ".join(map(str, missing)) + (" ..." if num_missing > 8 else "")
        name = example[stem, max(indices)]
        yield Expectation(
            key=key,
            says=wanted,
            tensor=name,
            shard=places[name][0],
            message=f"{key} is {wanted} and {stem} holds {len(indices)} layers: "
            f"{listed} {'is' if num_missing == 1 else 'are'} missing",
        )
    elif extra > max(4, wanted // 4):
        name = example[stem, max(indices)]
        yield Expectation(
            key=key,
            says=wanted,
            tensor=name,
            shard=places[name][0],
            message=f"{key} is {wanted} and {stem} holds {len(indices)} layers: loaders leave "
            f"the last {extra} out",
            severity=Severity.WARNING,
        )


def _feed_forward(
    says: Mapping[str, Any], places: Mapping[str, tuple[str, FileTensor]]
) -> Iterator[Expectation]:
    width = _number(says, "intermediate_size")
    if width is None or "block_configs" in says:
        return
    found = [
        (name, shard, tensor.shape[0])
        for name, (shard, tensor) in places.items()
        if _FEED_FORWARD.search(name) and not _OTHER_TOWER.search(name)
        if len(tensor.shape) == 2 and is_learned(tensor)
    ]
    # Layers of several widths, or wider by a whole factor, are made so on purpose.
    if len({rows for _, _, rows in found}) != 1:
        return
    name, shard, rows = found[0]
    if not rows % width[1] or not width[1] % rows:
        return
    yield _disagrees(width, name, shard, f"has {rows} rows")


def _tying(
    shelf: Shelf,
    says: Mapping[str, Any],
    places: Mapping[str, tuple[str, FileTensor]],
    weights: Mapping[str, Contents],
    *,
    full: bool,
) -> Iterator[Expectation]:
    tied = says.get("tie_word_embeddings")
    architectures = says.get("architectures")
    causal = isinstance(architectures, list) and any(
        str(name).endswith("ForCausalLM") for name in architectures
    )
    embedding = "model.embed_tokens.weight"
    if not isinstance(tied, bool) or not causal or embedding not in places:
        return
    head = next((name for name in _HEADS if name in places), None)
    shard, tensor = places[embedding]
    if not tied and head is None and "quantization_config" not in says:
        yield Expectation(
            key="tie_word_embeddings",
            says=False,
            tensor=embedding,
            shard=shard,
            message="tie_word_embeddings is false and there is no lm_head.weight: loaders fill "
            "the head with random numbers",
        )
    if tied and head is not None and full and places[head][1].shape == tensor.shape:
        other_shard, other = places[head]
        one = shelf.digests.of(weights[shard], [tensor])
        two = shelf.digests.of(weights[other_shard], [other])
        if list(one.values()) != list(two.values()) and one and two:
            yield Expectation(
                key="tie_word_embeddings",
                says=True,
                tensor=head,
                shard=other_shard,
                message=f"tie_word_embeddings is true and {head} is not equal to {embedding}: "
                "loaders use one of them and drop the other",
                severity=Severity.WARNING,
            )


def check_adapter(shelf: Shelf, config: str, weights: Mapping[str, Contents]) -> list[Finding]:
    """Return the findings for an adapter_config.json and the adapter's weights beside it.

    The rank is certain for LoRA without patterns of ranks: it is the first size of every `lora_A`.
    """
    try:
        says = read_json_object(shelf.files[config])
    except PathError:
        return []
    if says is None or str(says.get("peft_type", "LORA")).upper() != "LORA":
        return []
    rank, patterns = says.get("r"), says.get("rank_pattern")
    if not isinstance(rank, int) or isinstance(rank, bool) or patterns:
        return []
    odd = [
        (name, tensor)
        for name, found in weights.items()
        for tensor in found.tensors
        if tensor.name.endswith((".lora_A.weight", ".lora_A.default.weight"))
        if len(tensor.shape) == 2 and is_learned(tensor) and tensor.shape[0] != rank
    ]
    if not odd:
        return []
    name, tensor = odd[0]
    return [
        rule("FIL114").finding(
            f"{name}: {tensor.name} has rank {tensor.shape[0]}, r is {rank}",
            where=Location(path=name, tensor=tensor.name),
            evidence={
                "config": config,
                "config_key": "r",
                "config_value": rank,
                "num_different": len(odd),
            },
            certainty=Certainty.STRONG,
            remedy=f"Fetch {config} and {name} again from one save.",
        )
    ]
