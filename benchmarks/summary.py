"""Tables of docs/results.md: condenses a demo folder to JSON without ids or raw scores, and prints it as Markdown.

``python -m benchmarks.summary unplug-demo docs/data/demo.json "unplug demo"``; a test holds the page to the JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from unplug.core import read_json, write_json

ROLES = ("original", "unlearned", "retrained")


def condense(demo: Path, command: str) -> dict[str, Any]:
    """The numbers of a demo run that the page shows."""
    audit, bench = read_json(demo / "audit.json"), read_json(demo / "bench.json")
    parity, release = read_json(demo / "parity.json"), read_json(demo / "release.json")
    step = read_json(demo / "unlearned" / "unplug.json")["forget"]
    models = {model["name"]: model for model in audit["models"]}
    rows = {row["file"]: row for row in bench["rows"]}
    attack = "rmia" if "rmia" in audit["models"][0]["attacks"] else "error"  # an exact release trains no reference models
    side_by_side = demo / "approximate" / "demo.json"
    ways = read_json(side_by_side) if side_by_side.is_file() else None
    files = []
    for card in sorted((demo / "artifacts").glob("*.json")):
        facts = read_json(card)
        checks = [row for row in parity["rows"] if row["file"] == facts["file"]]
        worst = [row["psnr_db"] for row in checks if row["psnr_db"] is not None]
        row = rows[facts["file"]]
        files.append(
            {
                "file": facts["file"],
                "bytes": facts["bytes"],
                "parity": checks[0]["status"],
                "worst_psnr_db": min(worst, default=None),
                f"{attack}_auc": _auc(models.get(facts["file"]), attack),
                "median_ms": row["median_ms"],
                "median_ci95_ms": row["median_ci95_ms"],
            }
        )
    return {
        "command": command,
        "ways": ways,
        "spec": Path(audit["data"]["spec"]).name if "/" in audit["data"]["spec"] else audit["data"]["spec"],
        "samples": audit["data"]["samples"],
        "forget": audit["forget"],
        "method": step["method"],
        "compute_fraction": step["cost"]["compute_fraction"],
        "wall_fraction": step["cost"]["wall_fraction"],
        "models": {
            role: {
                "loss_auc": _auc(models[role], "loss"),
                f"{attack}_auc": _auc(models[role], attack),
                "test_mae": models[role]["utility"]["test"]["mae"],
                "test_accuracy": models[role]["utility"]["test"]["accuracy"],
                "forget_mae": models[role]["utility"]["forget"]["mae"],
            }
            for role in ROLES
        },
        "gates": {gate["name"]: gate["passed"] for gate in release["gates"]},
        "seconds": release["seconds"],
        "host": bench["rows"][0]["device"],
        "threads": bench["rows"][0]["threads"],
        "files": files,
        "versions": audit["versions"],
    }


def _auc(model: dict[str, Any] | None, attack: str) -> dict[str, Any] | None:
    return None if model is None else model["attacks"][attack]["auc"]


def markdown(facts: dict[str, Any]) -> str:
    """What the models remember and are worth, the ways that were walked side by side, and what the exported files are."""
    second, key = ("RMIA", "rmia_auc") if "rmia_auc" in facts["models"]["original"] else ("error attack", "error_auc")
    lines = _ways(facts["ways"]["ways"]) if facts.get("ways") else []
    lines += ["| | original | unlearned | retrained (oracle) |", "|---|---|---|---|"]
    for name, label, digits in (
        ("loss_auc", "loss attack, AUC", 3),
        (key, f"{second}, AUC", 3),
        ("forget_mae", "MAE on the forget set, years", 2),
        ("test_mae", "MAE on unseen faces, years", 2),
    ):
        cells = [_span(facts["models"][role][name], digits) for role in ROLES]
        lines.append(f"| {label} | {' | '.join(cells)} |")
    lines += [
        "",
        f"| file | bytes | worst parity, dB | {second} AUC on the file | median ms, this host |",
        "|---|---:|---:|---|---|",
    ]
    for row in facts["files"]:
        parity = "not run here" if row["worst_psnr_db"] is None else f"{row['worst_psnr_db']:.1f}"
        median = "" if row["median_ms"] is None else f"{row['median_ms']:.2f} ({_range(row['median_ci95_ms'], 2)})"
        auc = "" if row[key] is None else f"{row[key]['value']:.3f}"
        lines.append(f"| `{row['file']}` | {row['bytes']:,} | {parity} | {auc} | {median} |")
    return "\n".join(lines)


def _ways(ways: list[dict[str, Any]]) -> list[str]:
    """One row a way of forgetting the same person."""
    lines = [
        "| model | forgets by | seconds | of retraining | MAE on unseen faces, before and after | "
        "error on the forgotten pictures: before, after, had they never been there | verdict |",
        "|---|---|--:|--:|---|---|---|",
    ]
    for way in ways:
        before, after = way["test_mae"]
        error = ", ".join(f"{value:.1f}" for value in way["error"])
        cost = f"{way['wall_s']:.2g} | {100 * way['compute_fraction']:.2g} %"
        lines.append(f"| {way['model']} | {way['method']} | {cost} | {before:.2f}, {after:.2f} | {error} | {way['verdict']} |")
    return [*lines, ""]


def _span(estimate: dict[str, Any], digits: int) -> str:
    if estimate["low"] is None:
        return f"{estimate['value']:.{digits}f}"
    return f"{estimate['value']:.{digits}f} ({_range((estimate['low'], estimate['high']), digits)})"


def _range(bounds: Any, digits: int) -> str:
    return f"{bounds[0]:.{digits}f} to {bounds[1]:.{digits}f}"


if __name__ == "__main__":
    if len(sys.argv) == 4:
        write_json(Path(sys.argv[2]), condense(Path(sys.argv[1]), sys.argv[3]))
        print(markdown(read_json(Path(sys.argv[2]))))
    else:
        print(markdown(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))))
