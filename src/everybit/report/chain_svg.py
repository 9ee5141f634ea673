"""The chain as a picture: what runs and arrives, what each step computes, what comes out."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

from everybit.core.link import Link
from everybit.report.chain import Standing
from everybit.report.markup import Markup, join, tag

if TYPE_CHECKING:
    from collections.abc import Sequence
    from collections.abc import Set as AbstractSet

    from everybit.report.chain import LinkState

_BEFORE: Final = (Link.ENVIRONMENT, Link.CODE, Link.FILE, Link.LOAD, Link.INIT)
_STEP: Final = (
    Link.BATCH,
    Link.RNG,
    Link.STATE,
    Link.FORWARD,
    Link.LOSS,
    Link.GRAD,
    Link.REDUCE,
    Link.UPDATE,
)
_AFTER: Final = (Link.SAVE, Link.EXPORT, Link.OUTPUT)
_GROUPS: Final = (("before the run", _BEFORE), ("each step", _STEP), ("what comes out", _AFTER))

_NODE_WIDTH: Final = 92.0
_NODE_HEIGHT: Final = 46.0


def draw_chain(states: Sequence[LinkState], shown: AbstractSet[str]) -> Markup:
    """Return the picture in two shapes, one for wide and one for narrow screens.

    Args:
        states: How each link stands.
        shown: Ids of the findings that have a place on the page.
    """
    told = [f"{state.link}: {state.words}" for state in states if state.standing in _LOUD]
    label = "The chain of links. " + ("; ".join(told) if told else "No broken link.")
    by_link = {state.link: state for state in states}
    return join([_wide(by_link, shown, label), _narrow(by_link, shown, label)])


_LOUD: Final = (Standing.BROKEN, Standing.DOUBTFUL)


def _wide(states: dict[Link, LinkState], shown: AbstractSet[str], label: str) -> Markup:
    pitch, row, top, left = 112.0, 96.0, 24.0, 2.0
    # The last row ends below `update`.
    starts = {"before the run": 0, "each step": 0, "what comes out": 5}
    places: dict[Link, tuple[float, float]] = {}
    parts: list[Markup] = []
    for index, (name, links) in enumerate(_GROUPS):
        y = top + index * row
        x = left + starts[name] * pitch
        if starts[name]:
            middle = y + _NODE_HEIGHT / 2 + 4
            parts.append(tag("text", name, x=x - 14, y=middle, class_="group end"))
        else:
            parts.append(tag("text", name, x=x, y=y - 9, class_="group"))
        for offset, link in enumerate(links):
            places[link] = (x + offset * pitch, y)
    width = left + 8 * pitch - (pitch - _NODE_WIDTH) + 2
    parts += _wires(states, places)
    parts += _bridges(places)
    parts += [_node(states[link], *place, shown) for link, place in places.items()]
    height = top + 2 * row + _NODE_HEIGHT + 4
    return _picture(parts, width, height, "wide", label)


def _narrow(states: dict[Link, LinkState], shown: AbstractSet[str], label: str) -> Markup:
    pitch, row, left = 98.0, 62.0, 2.0
    places: dict[Link, tuple[float, float]] = {}
    parts: list[Markup] = []
    y = 0.0
    for name, links in _GROUPS:
        y += 20
        parts.append(tag("text", name, x=left, y=y - 8, class_="group"))
        for offset, link in enumerate(links):
            places[link] = (left + offset % 4 * pitch, y + offset // 4 * row)
        y += -(-len(links) // 4) * row + 4
    parts += _wires(states, places)
    parts += [_node(states[link], *place, shown) for link, place in places.items()]
    return _picture(parts, left + 3 * pitch + _NODE_WIDTH + 2, y - 14, "narrow", label)


def _wires(states: dict[Link, LinkState], places: dict[Link, tuple[float, float]]) -> list[Markup]:
    wires = []
    for _, links in _GROUPS:
        for link, following in pairwise(links):
            (x, y), (next_x, next_y) = places[link], places[following]
            if y != next_y:
                continue
            start, end, middle = x + _NODE_WIDTH, next_x, y + _NODE_HEIGHT / 2
            broken = states[link].standing is Standing.BROKEN
            wires.append(
                tag(
                    "line",
                    class_="wire cut" if broken else "wire",
                    x1=start,
                    x2=end,
                    y1=middle,
                    y2=middle,
                )
            )
    return wires


def _bridges(places: dict[Link, tuple[float, float]]) -> list[Markup]:
    half = _NODE_WIDTH / 2
    init_x, init_y = places[Link.INIT]
    state_x, state_y = places[Link.STATE]
    update_x, update_y = places[Link.UPDATE]
    save_x, save_y = places[Link.SAVE]
    low = update_y + _NODE_HEIGHT + 18
    lane = state_y - 24
    return [
        tag(
            "path",
            class_="wire",
            d=f"M{init_x + half:g} {init_y + _NODE_HEIGHT:g}V{lane:g}H{state_x + half:g}"
            f"V{state_y:g}",
        ),
        tag(
            "path",
            class_="wire",
            d=f"M{update_x + half:g} {update_y + _NODE_HEIGHT:g}V{low:g}H{state_x + half:g}"
            f"V{state_y + _NODE_HEIGHT + 1:g}",
        ),
        tag("text", "next step", x=state_x + half + 8, y=low - 5, class_="lane"),
        tag("path", class_="wire", d=f"M{save_x + half:g} {low:g}V{save_y:g}"),
    ]


def _node(state: LinkState, x: float, y: float, shown: AbstractSet[str]) -> Markup:
    shape = tag(
        "g",
        tag("rect", x=x, y=y, width=_NODE_WIDTH, height=_NODE_HEIGHT, rx=8),
        tag("text", state.link, x=x + _NODE_WIDTH / 2, y=y + 20, class_="name"),
        tag("text", state.words, x=x + _NODE_WIDTH / 2, y=y + 36, class_="words"),
        class_=f"node {state.standing}",
    )
    if not state.finding:
        return shape
    return tag("a", shape, href=f"#f-{state.finding}" if state.finding in shown else "#findings")


def _picture(parts: list[Markup], width: float, height: float, css: str, label: str) -> Markup:
    return tag(
        "svg",
        parts,
        viewBox=f"0 0 {width:g} {height:g}",
        class_=f"chain {css}",
        role="img",
        aria_label=label,
    )
