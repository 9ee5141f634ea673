"""Words of the page of two runs: English and Chinese."""

from __future__ import annotations

from typing import Final

#: As in `catalogue.WORDS`, which holds these as well.
TWO_WORDS: Final[dict[str, tuple[str, str]]] = {
    "section.parting": ("Where they part", "分岔之处"),
    "section.steps": ("Over the steps", "逐步对照"),
    "section.modules": ("Over the modules", "逐模块对照"),
    "section.explained": ("What precedes it", "先于分岔的差异"),
    "section.samples": ("Sample by sample", "逐样本对照"),
    "two.title": ("{a} against {b}", "{a} 对照 {b}"),
    "two.equal": (
        "No value parts in what both runs recorded.",
        "两次运行都有记录的值中，没有任何一个分岔。",
    ),
    "two.parts": ("The runs part: {kind}.", "两次运行分岔：{kind}。"),
    "two.parts.at": (
        "The runs part at step {step}: {kind}.",
        "两次运行在第 {step} 步分岔：{kind}。",
    ),
    "two.steps.lead": (
        "Each stretch of steps, link by link: equal to the bit or not. One step of each is read.",
        "各段步、各环节：逐位相等，或不相等。每段比较一步。",
    ),
    "two.modules.lead": (
        "The step at which they part: how many recorded values of each module differ.",
        "分岔的那一步：各模块有多少记录值不同。",
    ),
    "two.link": ("link", "环节"),
    "two.strip": ("steps {first} to {last}", "第 {first} 至 {last} 步"),
    "two.compared": ("steps compared", "比较的步数"),
    "two.differing": ("steps that differ", "不同的步数"),
    "two.from": ("first that differs", "首个不同的步"),
    "two.module": ("module", "模块"),
    "two.values": ("values that differ", "不同的值"),
    "two.distance": ("relative distance", "相对距离"),
    "two.root": ("the root", "根模块"),
    "two.no_modules": (
        "No value of a module is on record at that step; run with --trace module.",
        "该步没有模块的值的记录；请以 --trace module 运行。",
    ),
    "two.no_steps": ("No step is on record in both runs.", "没有两次运行都有记录的步。"),
    "two.none": ("Nothing that precedes the values differs.", "先于各值的一切都相同。"),
    "two.before": ("in A", "A 中"),
    "two.after": ("in B", "B 中"),
    "two.entry": ("entry", "条目"),
    "two.why": ("why it can matter", "为何可能有影响"),
    "two.samples": (
        "{differing} of {samples} samples have other outputs, {changed} of {answers} answers too.",
        "{samples} 个样本中有 {differing} 个输出不同；{answers} 个回答中有 {changed} 个改变。",
    ),
    "two.footer": ("A is {a}, B is {b}.", "A 为 {a}，B 为 {b}。"),
    "chart.distance": ("Distance of the losses, relative", "损失之间的相对距离"),
}
