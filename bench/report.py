"""The table and the plot of a run."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot

_MEBI = 1 << 20


def _seconds(value: float) -> str:
    return f"{value * 1000:.1f} ms" if abs(value) < 1 else f"{value:.2f} s"


def _figure(name: str, value: float) -> str:
    if name in ("read", "written", "size", "memory"):
        return f"{name} {value / _MEBI:,.0f} MiB"
    if name == "processor time":
        return f"{name} {_seconds(value)}"
    return f"{value:,.0f} {name}"


def _figures(command: Mapping[str, Any]) -> list[str]:
    return [_figure(name, value) for name, value in command["figures"].items()]


def table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Render the rows as a Markdown table: median, and ratio to the first command of the row; results.json has more."""
    lines = ["| what | command | median | times ours |", "|---|---|---|---|"]
    before = ""
    for row in rows:
        ours = row["commands"][0]["median"]
        goal = row["goal"] if row["goal"] != before else "as above"
        before = row["goal"]
        for number, one in enumerate(row["commands"]):
            what = f"**{row['title']}** (goal: {goal})" if number == 0 else ""
            compared = f"{one['median'] / ours:.2f}" if number else ""
            lines.append(f"| {what} | {one['label']} | {_seconds(one['median'])} | {compared} |")
    return lines


def add(kind: str, entry: Mapping[str, Any], folder: Path, *, order: Sequence[str]) -> None:
    """Put an entry into results.json, in place of its earlier one, and write results.md and results.svg again.

    kind: rows or growths. order: the keys in the order in which they are shown.
    """
    path = folder / "results.json"
    results = json.loads(path.read_text()) if path.exists() else {"rows": [], "growths": []}
    entries = {one["key"]: one for one in results[kind] if one["key"] in order}
    entries[entry["key"]] = entry
    results[kind] = sorted(entries.values(), key=lambda one: order.index(one["key"]))
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results, indent=1) + "\n")
    (folder / "results.md").write_text("\n".join(_page(results)).rstrip() + "\n")
    _plot(results, folder / "results.svg")


def _page(results: Mapping[str, Any]) -> list[str]:
    about = (
        "Written by `make bench`; [what it means](README.md). `results.json` has each command, with the range of its "
        "times and what it read and wrote."
    )
    lines = ["# Results", "", about, "", *_runs(results), ""]
    lines += [*table(results["rows"]), ""]
    lines += ["![each command's time relative to ours, and how it grows](results.svg)", ""]
    for growth in results["growths"]:
        lines += [f"## {growth['title']}", "", *_growth_table(growth), ""]
    return lines


def _runs(results: Mapping[str, Any]) -> list[str]:
    """Say on what was run, when and how often, by the keys that `--only` takes."""
    entries = [*results["rows"], *results["growths"]]
    tools = [{f"{name} {version}" for name, version in one["run"]["tools"].items()} for one in entries]
    everywhere = set.intersection(*tools)
    keys: dict[str, list[str]] = {}
    for one, here in zip(entries, tools):
        run = one["run"]
        words = ", ".join([run["date"], run["machine"], f"{one['pairs']} alternating runs", *sorted(here - everywhere)])
        keys.setdefault(words, []).append(f"`{one['key']}`")
    runs = [f"- {words}: {', '.join(names)}." for words, names in keys.items()]
    return [f"With {', '.join(sorted(everywhere))}:", "", *runs]


def _growth_table(growth: Mapping[str, Any]) -> list[str]:
    labels = [one["label"] for one in growth["points"][0]["commands"]]
    lines = [f"| {growth['unit']} | " + " | ".join(labels) + " |", "|---" * (len(labels) + 1) + "|"]
    for point in growth["points"]:
        cells = [", ".join([_seconds(one["median"]), *_figures(one)]) for one in point["commands"]]
        lines.append(f"| {point['at']:,g} | " + " | ".join(cells) + " |")
    return lines


def save(figure: Any, path: Path) -> None:
    """Write a figure of matplotlib as SVG: the same bytes for the same figure."""
    matplotlib.rcParams["svg.hashsalt"] = "sifmod"
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


def _plot(results: Mapping[str, Any], path: Path) -> None:
    growths = results["growths"]
    figure, axes = pyplot.subplots(1 + len(growths), 1, figsize=(9, 5 + 3 * len(growths)), squeeze=False)
    bars = axes[0][0]
    labels, values = [], []
    for row in results["rows"]:
        ours = row["commands"][0]["median"]
        for one in row["commands"][1:]:
            labels.append(f"{row['key']}: {one['label']}")
            values.append(one["median"] / ours)
    bars.barh(labels[::-1], values[::-1])
    bars.axvline(1, color="black")
    bars.set_xscale("log")
    bars.set_title("time relative to ours (right of the line: slower than ours)")
    for axis, growth in zip((line[0] for line in axes[1:]), growths):
        at = [point["at"] for point in growth["points"]]
        for number, one in enumerate(growth["points"][0]["commands"]):
            medians = [point["commands"][number]["median"] for point in growth["points"]]
            axis.plot(at, medians, marker="o", label=one["label"])
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_title(growth["title"])
        axis.set_xlabel(growth["unit"])
        axis.set_ylabel("seconds")
        axis.legend()
    save(figure, path)
