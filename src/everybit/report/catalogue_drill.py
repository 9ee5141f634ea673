"""Words of a drill's page: English and Chinese."""

from __future__ import annotations

from typing import Final

#: As in `catalogue.WORDS`, which holds these as well.
DRILL_WORDS: Final[dict[str, tuple[str, str]]] = {
    "section.map": ("Map", "热图"),
    "section.sites": ("Locations", "位置"),
    "section.clean": ("Clean steps", "无故障步骤"),
    "drill.title": ("Drill: {target}", "演练：{target}"),
    "drill.kept": (
        "No false alarm, and no single fault at an exactly tested place was missed.",
        "没有误报；在逐位检查的位置上，没有漏掉任何一次性故障。",
    ),
    "drill.broken": (
        "{alarms} false alarms; {missed} single faults at exactly tested places were missed.",
        "误报 {alarms} 次；在逐位检查的位置上漏掉 {missed} 次一次性故障。",
    ),
    "drill.trials": (
        "{done} of {asked} trials done, seed {seed}.",
        "已完成 {done} / {asked} 次试验，种子 {seed}。",
    ),
    "drill.map.lead": (
        "Caught of those that changed a bit of the run. Dark: all. A dash: this cannot be.",
        "在改变了运行中某一位的故障中被捕获的数目。深色：全部。横线：不可能出现。",
    ),
    "drill.site": ("location", "位置"),
    "drill.dtype": ("dtype", "数据类型"),
    "drill.caught": ("caught", "捕获"),
    "drill.noted": ("noted", "仅提示"),
    "drill.missed": ("missed", "漏掉"),
    "drill.harmless": ("harmless", "无影响"),
    "drill.raised": ("raised", "报错"),
    "drill.placed": ("placed", "定位正确"),
    "drill.exact": ("every element", "逐元素正确"),
    "drill.same_end": ("right at the end", "最终逐位正确"),
    "drill.steps": ("steps until found", "发现所需步数"),
    "drill.rules": ("first caught by", "首先由此捕获"),
    "drill.loss": ("missed ones moved the loss by", "漏掉者使损失改变"),
    "drill.alarms": (
        "{alarms} alarms in {steps} clean steps: at most {bound} a step (confidence {confidence}).",
        "{steps} 个无故障步骤中有 {alarms} 次误报：每步至多 {bound}（置信度 {confidence}）。",
    ),
    "drill.cost": (
        "A guarded step takes {ratio} times a bare one, with every check at every step.",
        "每一步都做全部检查时，受监护的一步耗时为原来的 {ratio} 倍。",
    ),
    "drill.footer": (
        "Each cell and each number is in the JSON of the same drill.",
        "每个格子与数字都在同一次演练的 JSON 中。",
    ),
}
