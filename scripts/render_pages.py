"""Render the pages of docs/ that come from the code: methods.md and sections.md.

    python scripts/render_pages.py [--check]

With --check nothing is written, and it fails if a page differs from the code.
"""

import argparse
import ast
import dataclasses
import inspect
import re
import sys
from pathlib import Path
from typing import Any

from cdsa.core.config import to_dict
from cdsa.methods.registry import MethodInfo, list_methods

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
SECTIONS = (
    ("3.1 Conventional self-attention", (("nn/attention.py", "AxisAttention"),)),
    (
        "3.2 The input seen along each axis; queries, keys and values",
        (("nn/attention.py", "PROJECT"),),
    ),
    ("3.2.1 Independent", (("nn/streams.py", "Streams"),)),
    (
        "3.2.2 Joint",
        (("nn/attention.py", "JOINT_SCORE"), ("nn/attention.py", "Joint")),
    ),
    (
        "3.2.3 Decomposed, equations 1-5",
        (
            ("nn/attention.py", "APPLY"),
            ("nn/attention.py", "FULL_MAP"),
            ("nn/attention.py", "Decomposed"),
            ("nn/attention.py", "apply_sequential"),
        ),
    ),
    (
        "3.2.3 Shared, at its end",
        (("nn/attention.py", "SHARED_SCORE"), ("nn/attention.py", "Shared")),
    ),
    ("Table 1, complexity", (("paper/complexity.py", None),)),
    (
        "3.3 Framework: imputation, N = 8",
        (
            ("methods/neural/cdsa_paper.py", "PaperImputer"),
            ("nn/blocks.py", "Block"),
            ("nn/blocks.py", "Stack"),
        ),
    ),
    ("3.3 Framework: forecasting, N = 9", (("methods/neural/cdsa_paper.py", "PaperForecaster"),)),
    (
        "3.4 Implementation: z-scores, zero for missing, Adam, RMSE",
        (
            ("core/scaler.py", "Scaler"),
            ("training/windows.py", "cut"),
            ("training/loop.py", "train"),
            ("training/loss.py", "masked_loss"),
        ),
    ),
    ("3.4 The authors' schedule", (("training/loss.py", "learning_rate"),)),
    ("4.1 Data sets", (("datasets/registry.py", "open_dataset"),)),
    (
        "4.1 Burst Loss; missing at random",
        (("core/masks.py", "Bursts"), ("core/masks.py", "AtRandom")),
    ),
    (
        "4.1 Tasks: hidden, training and scored cells",
        (
            ("paper/protocols.py", "nyc_traffic"),
            ("paper/protocols.py", "kdd2015_pm25"),
            ("paper/protocols.py", "kdd2015_weather"),
            ("paper/protocols.py", "kdd2018"),
            ("paper/protocols.py", "metr_la"),
        ),
    ),
    ("4.1 Metrics", (("core/metrics.py", "measure"),)),
    ("4.2 Comparisons", (("paper/tables.py", "TABLES"),)),
    ("4.3 Ablation, losses", (("paper/tables.py", "COMPARED_LOSSES"),)),
    ("4.3 The figure of attended times", (("plots/attention.py", "plot_attended_series"),)),
)
"""Sections of the paper, and their definitions in the code."""


def render_methods() -> str:
    """A section for every method."""
    lines = [
        "# All methods",
        "",
        "What `cdsa methods` lists, in more detail. [Which method should I use?](choosing.md) helps"
        " you to choose. Settings of networks are changed with `--set name=value`; in Python, a "
        "method is a dataclass of its settings.",
        "",
        "| method | fills | forecasts | trained | needs |",
        "| --- | --- | --- | --- | --- |",
        *(summary_row(info) for info in list_methods()),
        "",
    ]
    for info in list_methods():
        lines += [*describe_method(info), ""]
    return "\n".join(lines).rstrip() + "\n"


def summary_row(info: MethodInfo) -> str:
    """The row of a method in the table at the top."""
    marks = ("yes" if mark else "" for mark in (info.fills, info.forecasts, info.trains))
    return f"| [`{info.name}`](#{info.name}) | {' | '.join(marks)} | {needs_of(info)} |"


def needs_of(info: MethodInfo) -> str:
    """What a method needs of the data and the installation."""
    return ", ".join(filter(None, [info.needs, f"extra `{info.extra}`" if info.extra else ""]))


def describe_method(info: MethodInfo) -> list[str]:
    """The lines of a method's section."""
    method = info.load()
    facts = [
        f"**{info.summary[0].upper()}{info.summary[1:]}.**",
        f"For: {info.task}.",
        f"Needs: {needs_of(info)}." if needs_of(info) else "",
        f"Trains for minutes, can be saved (`cdsa train --method {info.name}`)."
        if info.trains
        else "",
        f"Paper: {info.paper}." if info.paper else "",
        f"Code: `{method.__name__}` in `src/{method.__module__.replace('.', '/')}.py`.",
    ]
    lines = [f"## {info.name}", "", " ".join(filter(None, facts)), ""]
    lines += [unwrap(inspect.getdoc(method) or ""), ""]
    rows = setting_rows(method)
    if rows:
        lines += ["| setting | default | |", "| --- | --- | --- |", *rows, ""]
    return lines[:-1]


def setting_rows(method: type[Any]) -> list[str]:
    """The settings of a method and of its network, one row each, without those of training."""
    docs = field_docs(method)
    default = to_dict(method())
    rows = []
    for field in dataclasses.fields(method):
        if field.name in ("train", "model", "known_covariates") or field.name not in default:
            continue
        rows.append(
            f"| `{field.name}` | {default[field.name]} | {unwrap(docs.get(field.name, ''))} |"
        )
    model = getattr(method(), "model", None)
    if dataclasses.is_dataclass(model):
        docs, values = field_docs(type(model)), default["model"]
        rows += [
            f"| `model.{name}` | {value} | {unwrap(docs.get(name, ''))} |"
            for name, value in values.items()
        ]
    return rows


def field_docs(method: type[Any]) -> dict[str, str]:
    """The docstring of each setting of a class, which stands below it."""
    docs: dict[str, str] = {}
    for kind in reversed(method.__mro__[:-1]):
        if not dataclasses.is_dataclass(kind):
            continue
        (tree,) = ast.parse(inspect.cleandoc("\n" + inspect.getsource(kind))).body
        assert isinstance(tree, ast.ClassDef)
        for node, below in zip(tree.body, tree.body[1:], strict=False):
            if (
                isinstance(node, ast.AnnAssign)
                and isinstance(node.target, ast.Name)
                and isinstance(below, ast.Expr)
                and isinstance(below.value, ast.Constant)
            ):
                docs[node.target.id] = str(below.value.value)
    return docs


def unwrap(text: str) -> str:
    """A docstring with one line per paragraph and without its parameters, its examples and the
    legend of its letters; headings of numpydoc become bold."""
    text = re.sub(r"^(Parameters|Examples)\n-+\n.*?(?=^\w+\n---|\Z)", "", text, flags=re.M | re.S)
    text = re.sub(r"^(\w+)\n-+\n", r"**\1**\n\n", text.strip(), flags=re.MULTILINE)
    paragraphs = (" ".join(block.split()) for block in re.split(r"\n\s*\n", text))
    return "\n\n".join(text for text in paragraphs if text and not text.startswith("Letters:"))


def render_sections() -> str:
    """Where each part of the paper is in the code."""
    rows = [
        f"| {section} | {', '.join(locate(path, name) for path, name in definitions)} |"
        for section, definitions in SECTIONS
    ]
    return "\n".join(
        [
            "# The paper's sections in our code",
            "",
            "Line numbers are those of this version. [The paper's network](network.md) documents "
            "what the paper leaves open, [data and tables](paper.md) its data and protocols.",
            "",
            "| in the paper | in `src/cdsa/` |",
            "| --- | --- |",
            *rows,
            "",
        ]
    )


def locate(path: str, name: str | None) -> str:
    """The file and line of a definition."""
    if name is None:
        return f"`{path}`"
    tree = ast.parse((ROOT / "src" / "cdsa" / path).read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        names = [getattr(node, "name", None)]
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [getattr(target, "id", None) for target in targets]
        if name in names:
            return f"`{path}`, line {node.lineno}: `{name}`"
    raise LookupError(f"{path} has no {name}")


PAGES = {"methods.md": render_methods, "sections.md": render_sections}


def main() -> None:
    """Write the pages, or check them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    for name, render in PAGES.items():
        path, text = DOCS / name, render()
        if check and (not path.exists() or path.read_text(encoding="utf-8") != text):
            sys.exit(f"docs/{name} differs from the code. Run: python scripts/render_pages.py")
        if not check:
            path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
