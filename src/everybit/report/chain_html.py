"""The chain as a picture made of a list: boxes and wires where there is room, a column where not.

The list is what a screen reader reads; the wires are the style sheet's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from everybit.core.link import Link
from everybit.report.chain import LinkState, Standing, explain_break, stand
from everybit.report.markup import Markup, join, tag
from everybit.report.words import pair, say, tell

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from everybit.core.verdict import Verdict
    from everybit.report.run_summary import LogSummary

_GROUPS: Final = (
    ("before", (Link.ENVIRONMENT, Link.CODE, Link.FILE, Link.LOAD, Link.INIT)),
    (
        "step",
        (
            Link.BATCH,
            Link.RNG,
            Link.STATE,
            Link.FORWARD,
            Link.LOSS,
            Link.GRAD,
            Link.REDUCE,
            Link.UPDATE,
        ),
    ),
    ("after", (Link.SAVE, Link.EXPORT, Link.OUTPUT)),
)


def draw_chain(verdict: Verdict, logs: Sequence[LogSummary], shown: Collection[str]) -> Markup:
    """Return the picture, what the first break means, and the legend.

    Args:
        verdict: The run's verdict.
        logs: What is on record.
        shown: Ids of the findings that have a place on the page.
    """
    states = {state.link: state for state in stand(verdict.findings, verdict.coverage, logs)}
    told = explain_break(verdict.findings)
    groups = [
        tag(
            "div",
            tag("h3", tell(f"chain.{name}"), id=f"chain-{name}"),
            tag(
                "ol",
                [_node(states[link], shown) for link in links],
                aria_labelledby=f"chain-{name}",
                role="list",
            ),
            tag("p", tell("chain.again"), class_="again", aria_hidden="true")
            if name == "step"
            else None,
            class_=f"group {name}",
        )
        for name, links in _GROUPS
    ]
    present = {state.standing for state in states.values()}
    legend = [
        tag("li", tag("i", class_=f"key {standing}"), tell(f"legend.{standing}"))
        for standing in Standing
        if standing in present
    ]
    return join(
        [
            tag("p", pair(told), class_="break") if told else None,
            tag("div", groups, class_="chain"),
            tag("ul", legend, class_="legend", role="list"),
        ]
    )


def _node(state: LinkState, shown: Collection[str]) -> Markup:
    # The contract's name of a link stays beside its translation: it is what `where.link` says.
    name = tag("span", tell(f"link.{state.link}"), class_="name")
    words = say(f"standing.{state.standing}") if state.words is None else state.words
    inner = join([name, tag("span", pair(words), class_="words")])
    if state.finding:
        href = f"#f-{state.finding}" if state.finding in shown else "#findings"
        inner = tag("a", inner, href=href)
    else:
        inner = tag("span", inner, class_="box")
    return tag("li", inner, class_=f"node {state.standing}", data_link=str(state.link))
