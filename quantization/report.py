"""Reports of quantisations: each product's form, its part in the error, and the causes, as JSON and HTML."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from html import escape

import numpy as np

from ..runtime.report import html
from .budget import WidthSearch
from .cures import Cure, CureTrial
from .observation import Activation, Sample
from .plan import Plan, ProductPlan
from .reasons import decibels, faults
from .speed import predicted_times
from .switches import OutputErrors

SCHEMA = 1
"""Version of the record, raised when a key is removed or changes its meaning."""


@dataclass(frozen=True)
class ProductReport:
    """A product in a report.

    Attributes:
        node: the node's name.
        operator: its operator.
        shape: the shape of the weights.
        form: the chosen form.
        narrowest: the narrowest form it may have.
        bytes: bytes of the weights in this form.
        float_bytes: bytes of the weights in float.
        forms: the bytes of the weights, and the predicted nanoseconds of a call, in each form that it may have; see
            `predicted_times`.
        share: share of the square error of the outputs, see `Contribution`.
        weight_db: signal to noise of the narrowest weights, in decibels.
        reasons: the detected reasons for a large error.
        trials: the cures that were tried, and their effect.
        cure: the countermeasure that was applied.
    """

    node: str
    operator: str
    shape: tuple[int, ...]
    form: str
    narrowest: str
    bytes: int
    float_bytes: int
    forms: Mapping[str, Mapping[str, float]]
    share: float
    weight_db: float
    reasons: tuple[str, ...]
    trials: tuple[CureTrial, ...]
    cure: str


@dataclass(frozen=True)
class QuantizationReport:
    """The account of a quantisation.

    Attributes:
        options: the options, as a record.
        errors: the errors of the outputs on the measured samples.
        narrowest: the errors with every product in its narrowest form.
        is_met: whether the budget is met; True without one.
        products: the products, the largest share first.
    """

    options: Mapping[str, object]
    errors: OutputErrors
    narrowest: OutputErrors
    is_met: bool
    products: tuple[ProductReport, ...]

    @property
    def bytes(self) -> int:
        """Bytes of the weights of all products."""
        return sum(item.bytes for item in self.products)

    @property
    def float_bytes(self) -> int:
        """The same in float."""
        return sum(item.float_bytes for item in self.products)

    @property
    def nanoseconds(self) -> float:
        """Predicted nanoseconds of all products in a call."""
        return sum(item.forms[item.form]["nanoseconds"] for item in self.products)

    @property
    def float_nanoseconds(self) -> float:
        """The same in float."""
        return sum(item.forms["float"]["nanoseconds"] for item in self.products)

    def record(self) -> dict[str, object]:
        """The report as a record for JSON."""
        return {
            "schema": SCHEMA,
            "options": dict(self.options),
            "error": self.errors.relative,
            "kld": self.errors.kld,
            "narrowest": {"error": self.narrowest.relative, "kld": self.narrowest.kld},
            "is_met": self.is_met,
            "bytes": self.bytes,
            "float_bytes": self.float_bytes,
            "nanoseconds": self.nanoseconds,
            "float_nanoseconds": self.float_nanoseconds,
            "products": [asdict(item) for item in self.products],
        }

    @property
    def summary(self) -> str:
        """One line."""
        narrow = sum(item.form != "float" for item in self.products)
        text = (
            f"{narrow} of {len(self.products)} products quantised, weights {self.bytes / 1e6:.2f} MB of "
            f"{self.float_bytes / 1e6:.2f} MB, error {self.errors.relative:.3g}, KL divergence {self.errors.kld:.3g}, "
            f"predicted time {self.nanoseconds / (self.float_nanoseconds or 1.0):.2f} of float's"
        )
        return text if self.is_met else f"{text}; THE BUDGET IS NOT MET"

    def __repr__(self) -> str:
        return f"QuantizationReport({self.summary})"

    def rows(self) -> list[tuple[str, ...]]:
        """The products as rows of a table, see `COLUMNS`."""
        return [
            (
                item.node,
                item.operator,
                "x".join(map(str, item.shape)),
                item.form,
                ", ".join(f"{name} {form['nanoseconds'] / 1e3:.3g}" for name, form in item.forms.items()),
                f"{100 * item.share:.1f} %",
                f"{item.weight_db:.0f} dB",
                "; ".join(item.reasons),
                "; ".join(f"{each.cure}: {each.before:.2g} to {each.after:.2g}" for each in item.trials),
                item.cure,
            )
            for item in self.products
        ]

    def _repr_html_(self) -> str:
        return html.heading(self.summary) + html.table(COLUMNS, self.rows())

    def to_html(self) -> str:
        """The report as a page."""
        head = "".join(f"<th>{escape(item)}</th>" for item in COLUMNS)
        body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in self.rows())
        return (
            "<!doctype html><!-- Written by stepwell-quantize --><meta charset='utf-8'><title>Quantisation</title>"
            "<style>body{font:14px system-ui;margin:2em}table{border-collapse:collapse}"
            "td,th{padding:.3em .8em;border-bottom:1px solid #ddd;text-align:left}</style>"
            f"<h1>Quantisation</h1><p>{escape(self.summary)}</p><table><tr>{head}</tr>{body}</table>"
        )


COLUMNS = (
    *("node", "operator", "weights", "form", "predicted µs", "share of error", "weights' signal to noise", "why"),
    *("cures tried: error of this product alone", "what was done"),
)


def make_report(
    plan: Plan,
    found: WidthSearch,
    seen: Mapping[str, Activation],
    tried: Mapping[int, Sequence[Cure]],
    sample: Sample,
) -> QuantizationReport:
    """Returns the report of a search.

    Args:
        plan: the products and their forms.
        found: the result of the search.
        seen: the statistics of activations.
        tried: the cures that were tried, by product.
        sample: the call for which times are predicted.
    """
    times = predicted_times(plan, sample)
    entries = [
        ProductReport(
            item.product.name,
            item.product.node.op_type,
            item.product.weight.shape,
            item.widths[level].name,
            item.widths[-1].name,
            item.widths[level].nbytes,
            item.widths[0].nbytes,
            {width.name: {"bytes": width.nbytes, "nanoseconds": predicted[width.name]} for width in item.widths},
            contribution.share,
            decibels(item.product.weight, item.widths[-1].weight),
            tuple(fault.text for fault in faults(plan, item, seen)),
            tuple(_trials(item, index, found, tried.get(index, ()))),
            _cure(plan, item, level),
        )
        for index, (item, level, contribution, predicted) in enumerate(
            zip(plan.products, found.levels, found.contributions, times, strict=True)
        )
    ]
    order = sorted(entries, key=lambda item: -item.share)
    return QuantizationReport(plan.options.record(), found.errors, found.narrowest, found.is_met, tuple(order))


def _trials(item: ProductPlan, index: int, found: WidthSearch, tried: Sequence[Cure]) -> Iterator[CureTrial]:
    levels = {width.name: level for level, width in enumerate(item.widths)}
    before = float(np.sqrt(found.alone[index, len(item.widths) - 1])) if tried else 0.0
    for each in tried:
        level = levels[each.form.name]
        after = float(np.sqrt(found.alone[index, level]))
        yield CureTrial(each.fault.text, each.form.cure or each.form.name, before, after, found.levels[index] == level)


def _cure(plan: Plan, item: ProductPlan, level: int) -> str:
    if level == len(item.widths) - 1:
        return "outliers moved into the weights" if plan.options.smooth and item.product.is_matrix else ""
    width = item.widths[level]
    return width.cure or f"kept in {width.name}"
