"""From a pickle's nodes to the sidecar's tree: values as JSON, objects as inert records.

Nothing recurses without bound: what is reached twice, or lies deep, stands in the table `shared`
and is referred to by its number, so that the tree takes space and time linear in the pickle.
"""

from __future__ import annotations

import base64
import math
import struct
from collections import Counter, deque
from typing import TYPE_CHECKING, Any, Final

from everybit.files.converting.naming import below, key_text, same_key
from everybit.files.converting.objects import Content, children, content_of, module_name
from everybit.files.converting.tensors import (
    TENSORS,
    extras_of,
    is_numeric_array,
    spec_of_array,
    spec_of_call,
)
from everybit.files.pickles.nodes import (
    Blob,
    Call,
    CallKind,
    DictNode,
    Extension,
    Global,
    ListNode,
    Node,
    Persistent,
    SetNode,
    Text,
    TupleNode,
)
from everybit.files.pickles.torch_values import OddError, as_text

if TYPE_CHECKING:
    from everybit.files.converting.collecting import Collection
    from everybit.files.converting.origins import Origin

#: Objects nested deeper than this go into the table.
MAX_DEPTH: Final = 40
#: Longer bytes are an entry of the safetensors files.
MAX_INLINE_BYTES: Final = 4096
_EXACT: Final = 1 << 53
_SMALL_TUPLE: Final = 16
_TENSOR_CLASSES: Final = frozenset(
    {"torch:Tensor", "torch.nn.parameter:Parameter", "torch.nn.parameter:Buffer"}
)
_CONTAINERS: Final = (Call, DictNode, ListNode, TupleNode, SetNode, Blob)


class Encoder:
    """Turns one pickle into JSON.

    Args:
        origin: The pickle.
        found: Where storages and tensors are collected.
        shared: The table of objects that are reached more than once; it grows.
        objects: How often each name that makes an object was met; it grows.
    """

    def __init__(
        self,
        origin: Origin,
        found: Collection,
        shared: list[Any],
        objects: Counter[str],
    ) -> None:
        self.origin = origin
        self.found = found
        self.shared = shared
        self.objects = objects
        self.counts = _count_uses(origin.pickle.result)
        self.numbers: dict[int, int] = {}
        self.names: dict[int, str] = {}
        self.by_number: dict[int, str] = {}
        self.waiting: deque[tuple[Node, str, int]] = deque()

    def run(self, path: str) -> Any:
        """Return the pickle's result as JSON; tensors in it are called by paths below `path`."""
        tree = self.encode(self.origin.pickle.result, path, 0)
        while self.waiting:
            node, place, number = self.waiting.popleft()
            self.shared[number] = self.emit(node, place, 1)
        return tree

    def encode(self, node: Node, path: str, depth: int) -> Any:
        """Return a node as JSON, or a reference to where it stands."""
        if not isinstance(node, _CONTAINERS):
            return self.scalar(node, path)
        number = self.numbers.get(id(node))
        if number is not None:
            return {"$ref": number}
        if isinstance(node, Call) and id(node) in self.names:
            return {"$tensor": self.names[id(node)]}
        if depth <= MAX_DEPTH and (self.counts[id(node)] < 2 or not self.has_identity(node)):
            return self.emit(node, path, depth)
        number = self.numbers[id(node)] = len(self.shared)
        self.shared.append(None)
        self.waiting.append((node, path, number))
        return {"$ref": number}

    def has_identity(self, node: Node) -> bool:
        """Return whether it matters that a node which is used twice stays one object."""
        if isinstance(node, TupleNode):
            return len(node.items) > _SMALL_TUPLE or any(
                isinstance(item, _CONTAINERS) for item in node.items
            )
        if isinstance(node, Blob):
            return node.mutable or len(node.data) > MAX_INLINE_BYTES
        if isinstance(node, Call) and node.name in TENSORS:
            # A tensor with nothing but its elements is known by its name.
            return node.state is not None or any(
                extra is not None for extra in extras_of(node.name, node.arguments)
            )
        return True

    def emit(self, node: Node, path: str, depth: int) -> Any:
        """Return what a container or an object holds."""
        if isinstance(node, Call):
            return self.call(node, path, depth)
        if isinstance(node, Blob):
            return self.bytes_of(node.data, path, mutable=node.mutable)
        if isinstance(node, DictNode):
            return self.mapping("$dict", node.pairs, path, depth)
        items = self.sequence(node.items, path, depth)
        if isinstance(node, ListNode):
            return items
        if isinstance(node, TupleNode):
            return {"$tuple": items}
        return {"$frozenset" if node.frozen else "$set": items}

    def sequence(self, items: list[Node], path: str, depth: int) -> list[Any]:
        """Return items, each under its number."""
        return [self.encode(item, below(path, str(n)), depth + 1) for n, item in enumerate(items)]

    def mapping(self, mark: str, pairs: list[tuple[Node, Node]], path: str, depth: int) -> Any:
        """Return a dictionary: a JSON object where all keys are texts, else a list of pairs."""
        kept: dict[object, tuple[Node, Node]] = {}
        for key, value in pairs:
            # A later value of an equal key replaces the earlier one, under the key that was there.
            same = same_key(key)
            kept[same] = (kept[same][0], value) if same in kept else (key, value)
        found: dict[str, Any] = {}
        listed = []
        plain = all(isinstance(key, str) and key[:1] != "$" for key, _ in kept.values())
        for index, (key, value) in enumerate(kept.values()):
            encoded = self.encode(value, below(path, key_text(key, index)), depth + 1)
            if plain:
                found[key] = encoded
            else:
                listed.append([self.encode(key, below(path, f"key{index}"), depth + 1), encoded])
        if plain:
            return found if mark == "$dict" else {mark: found}
        return {mark: listed}

    # -- single values ---------------------------------------------------------------------------

    def scalar(self, node: Node, path: str) -> Any:
        """Return a plain value, a name, or an object from outside the pickle."""
        if node is None or isinstance(node, bool | str):
            return node
        if isinstance(node, int):
            return node if -_EXACT <= node <= _EXACT else {"$int": hex(node)}
        if isinstance(node, float):
            return node if math.isfinite(node) else {"$float": struct.pack(">d", node).hex()}
        if isinstance(node, Text):
            try:
                return node.data.decode("utf-8")
            except UnicodeDecodeError:
                return {"$text": base64.b64encode(node.data).decode("ascii")}
        if isinstance(node, Global):
            return {"$global": module_name(node)}
        if isinstance(node, Extension):
            return {"$extension": node.code}
        assert isinstance(node, Persistent)
        return self.outside(node, path)

    def outside(self, node: Persistent, path: str) -> Any:
        """Return a storage, a tensor of torch 0.1, or a class with its source."""
        parts = node.id.items if isinstance(node.id, TupleNode) else []
        if len(parts) > 1 and as_text(parts[0]) == "module":
            return self.encode(parts[1], path, MAX_DEPTH)
        number = _number(node.id)
        if number is not None and (self.origin.tensors or self.origin.held):
            return self.numbered(number, path)
        storage = self.found.bare_storage(self.origin, node, path)
        kind = parts[1] if len(parts) > 1 else None
        name = module_name(kind) if isinstance(kind, Global) else ""
        return {"$storage": storage.index, "class": name}

    def numbered(self, number: int, path: str) -> Any:
        """Return what torch 0.1 refers to by a number."""
        name = self.by_number.get(number)
        if name is None:
            spec = self.origin.tensors.get(number)
            if spec is None:
                raise self.found.refuse(f"the object at {path} is a storage without a tensor")
            name = self.found.tensor(self.origin, spec, path).name
            self.by_number[number] = name
        return {"$tensor": name}

    def bytes_of(self, data: bytes, path: str, *, mutable: bool = False) -> Any:
        """Return bytes as base64, or as an entry of the safetensors files where they are long."""
        mark = "$bytearray" if mutable else "$bytes"
        if len(data) > MAX_INLINE_BYTES:
            return {mark: {"$tensor": self.found.blob(self.origin, data, path).name}}
        return {mark: base64.b64encode(data).decode("ascii")}

    # -- objects ---------------------------------------------------------------------------------

    def call(self, call: Call, path: str, depth: int) -> Any:
        """Return an object: a tensor, an array, a container of the library, or a record."""
        if call.name in TENSORS:
            self.refuse_changes(call, path)
            return self.tensor(call, call.name, call.arguments, path, depth)
        if is_numeric_array(call):
            try:
                spec = spec_of_array(call)
            except OddError:
                pass  # text, objects or foreign byte order: kept as a record with its bytes
            else:
                self.refuse_changes(call, path)
                return {"$array": self.found.tensor(self.origin, spec, path).name}
        content = content_of(call)
        if content.data is not None:
            return self.bytes_of(content.data, path, mutable=content.mutable)
        if content.tensor is not None:
            self.refuse_changes(call, path)
            return self.of_class(call, content, path, depth)
        if content.mark == "$ordered":
            found = self.mapping("$ordered", content.pairs, path, depth)
            if call.state is not None:
                found["attributes"] = self.encode(call.state, path, depth + 1)
            return found
        if content.mark:
            return {content.mark: self.sequence(content.items, path, depth)}
        return self.record(call, content, path, depth)

    def refuse_changes(self, call: Call, path: str) -> None:
        """Refuse a tensor or array in which the pickle would set items."""
        if call.items or call.pairs:
            what = f"the pickle changes the tensor at {path or 'its root'} after it is made"
            raise self.found.refuse(what)

    def tensor(
        self, call: Call, name: str, args: list[Node], path: str, depth: int
    ) -> dict[str, Any]:
        """Return a tensor's name; what is not in its elements stands beside it."""
        try:
            described = spec_of_call(name, args)
        except OddError as odd:
            raise self.found.refuse(f"the tensor at {path or 'its root'}: {odd}") from None
        view = self.found.tensor(
            self.origin, described.spec, path, requires_grad=described.requires_grad
        )
        found: dict[str, Any] = {"$tensor": view.name}
        if described.quantizer is not None:
            found["quantizer"] = self.encode(described.quantizer, path, depth + 1)
        if described.hooks is not None:
            found["hooks"] = self.encode(described.hooks, below(path, "hooks"), depth + 1)
        if call.state is not None:
            found["attributes"] = self.encode(call.state, path, depth + 1)
        if len(found) == 1:
            self.names[id(call)] = view.name
        return found

    def of_class(self, call: Call, content: Content, path: str, depth: int) -> Any:
        """Return a tensor that is made one of a subclass, or given attributes."""
        assert content.tensor is not None
        _, kind, _, state = content.args
        tensor = self.tensor(call, *content.tensor, path, depth)
        self.names.pop(id(call), None)
        tensor["class"] = module_name(kind) if isinstance(kind, Global) else ""
        if tensor["class"] not in _TENSOR_CLASSES:
            self.objects[tensor["class"]] += 1
        if state is not None:
            tensor["attributes"] = self.encode(state, path, depth + 1)
        return tensor

    def record(self, call: Call, content: Content, path: str, depth: int) -> Any:
        """Return an object by the name of what makes it and what that is given."""
        found: dict[str, Any] = {}
        if isinstance(content.maker, Global):
            name = module_name(content.maker)
            self.objects[name] += 1
            found["$object"] = name
        else:
            found["$call"] = self.encode(content.maker, below(path, "call"), depth + 1)
        if call.kind is not CallKind.REDUCE:
            found["by"] = str(call.kind)
        if content.args:
            places = content.places or [str(n) for n in range(len(content.args))]
            found["args"] = [
                self.spread(content, path, depth)
                if content.spread and arg is content.args[-1]
                else self.encode(arg, below(path, place) if place else path, depth + 1)
                for arg, place in zip(content.args, places, strict=True)
            ]
        if content.other_args is not None:
            found["args"] = self.encode(content.other_args, path, depth + 1)
        if call.kwargs is not None:
            found["kwargs"] = self.encode(call.kwargs, path, depth + 1)
        if call.state is not None:
            found["state"] = self.encode(call.state, path, depth + 1)
        if call.items:
            found["items"] = self.sequence(call.items, path, depth)
        if call.pairs:
            found["pairs"] = self.mapping("$dict", call.pairs, path, depth)
        return found

    def spread(self, content: Content, path: str, depth: int) -> Any:
        """Return the tuple that is a call's last argument, its items under names of their own."""
        items = content.args[-1].items
        names = [*content.spread, *(str(n) for n in range(len(content.spread), len(items)))]
        return {
            "$tuple": [
                self.encode(item, below(path, name), depth + 2)
                for item, name in zip(items, names, strict=False)
            ]
        }


def _number(node: Node) -> int | None:
    node = as_text(node)
    if isinstance(node, str):
        return int(node) if node.isdecimal() and len(node) <= 20 else None
    return node if isinstance(node, int) and not isinstance(node, bool) else None


def _count_uses(root: Node) -> Counter[int]:
    """Return how often each container is mentioned, every object looked into once."""
    counts: Counter[int] = Counter()
    todo = [root]
    while todo:
        node = todo.pop()
        if not isinstance(node, _CONTAINERS):
            continue
        counts[id(node)] += 1
        if counts[id(node)] == 1:
            todo.extend(children(node))
    return counts
