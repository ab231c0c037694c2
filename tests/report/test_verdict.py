"""Sentences say what the tables say, and no more."""

from dataclasses import replace
from pathlib import Path

import pytest
from simulated import GRID, Line, Slow, simulate

from speedbump.report.curves import Curve
from speedbump.report.study import Progress, read_study
from speedbump.report.verdict import (
    advise,
    condition,
    curve_sentence,
    edges,
    headline,
    latency_finding,
    spans_words,
    verdict_sentence,
)

MEDIUM = Line(slow=(Slow(512, 512, 10.7),))
LARGE = Line("gpt2-large", slow=(Slow(384, 384, 14.5, confirmed=True),))
SMOOTH = Line("gpt2", "cpu")
ABOVE = Line(axes={"kv_cache": "off"}, slow=(Slow(512, 512, 2.0),), verdict="excess")
UNTOLD = Line("opt-350m", verdict="undetermined", reason="two normal lengths are too few")
WHY_BUSY = (
    "the machine was busy while this was measured: 9 of 10 cells disturbed, the fixed workload took 12 times as long "
    "as at rest"
)
BUSY = Line("distilgpt2", "cpu", verdict="undetermined", reason=WHY_BUSY, busy=True)
STEP = Line("gpt2", slow=(Slow(384, 768, 5.0, kind="step up"),), verdict="step")
DOWN = Line("gpt2", slow=(Slow(128, 384, 2.0, kind="step down"),), verdict="step")
FAST = Line("gpt2", reason="at 512 tokens: suspiciously fast, 5.0 times below the trend: look at it")
STOPPED = Line(
    "gpt2",
    verdict="undetermined",
    reason="from 384 tokens nothing finished, stopped by the memory guard",
    stopped_from=384,
)
RATE_CHANGE = Line(
    "gpt2",
    verdict="rate change",
    rate={
        "rate_from": 384,
        "rate_from_low": 256,
        "rate_from_high": 400,
        "rate_ratio": 2.0,
        "rate_ratio_low": 1.9,
        "rate_ratio_high": 2.1,
    },
)
FAILED = Line("bloom-560m", failed=dict.fromkeys(GRID, "out_of_memory"), reason="every run ran out of memory")


def curves(folder: Path, *lines: Line) -> list[Curve]:
    return read_study(simulate(folder, list(lines))).curves


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ((), "Nothing is measured yet."),
        (
            (MEDIUM,),
            "GPT-2 Medium on MPS falls into a slow regime at 512 tokens: 10.7× (95 % interval 9.1–12.8) what its trend "
            "expects, seen in one process.",
        ),
        (
            (MEDIUM, LARGE),
            "Both measured curves fall into a slow regime; the worst, GPT-2 Large on MPS, takes 14.5× (95 % interval "
            "12.3–17.4) what its trend expects at 384 tokens, confirmed in another process.",
        ),
        (
            (MEDIUM, SMOOTH),
            "1 of 2 measured curves falls into a slow regime: GPT-2 Medium on MPS takes 10.7× (95 % interval 9.1–12.8) "
            "what its trend expects at 512 tokens, seen in one process.",
        ),
        (
            (MEDIUM, ABOVE, UNTOLD, FAILED),
            "1 of 3 measured curves falls into a slow regime: GPT-2 Medium on MPS takes 10.7× (95 % interval 9.1–12.8) "
            "what its trend expects at 512 tokens, seen in one process; 1 curve is above its trend without a proven "
            "return, 1 cannot be judged and 1 could not be measured.",
        ),
        (
            (SMOOTH,),
            "No slow regime was found for GPT-2 on the CPU between 128 and 768 tokens; a slow-down of 1.5× at any "
            "inner length, or of 1.7× at the ends, would have been noticed; a regime narrower than 128 tokens could "
            "have been missed.",
        ),
        (
            (SMOOTH, Line("distilgpt2", "cpu")),
            "No slow regime was found in either of 2 measured curves between 128 and 768 tokens; a slow-down "
            "of 1.5× at any inner length, or of 1.7× at the ends, would have been noticed; a regime narrower than 128 "
            "tokens could have been missed.",
        ),
        ((SMOOTH, UNTOLD), "No slow regime was found in 1 of 2 measured curves; 1 curve cannot be judged."),
        (
            (SMOOTH, FAILED),
            "No slow regime was found for GPT-2 on the CPU between 128 and 768 tokens; a slow-down of 1.5× at any "
            "inner length, or of 1.7× at the ends, would have been noticed; a regime narrower than 128 tokens could "
            "have been missed; 1 curve could not be measured.",
        ),
        (
            (RATE_CHANGE,),
            "Each further token of GPT-2 on MPS costs 2.0× as much from 384 tokens on (95 % interval 1.9–2.1); no slow "
            "regime was found between 128 and 768 tokens; a slow-down of 1.5× at any inner length, or of 1.7× at the "
            "ends, would have been noticed; a regime narrower than 128 tokens could have been missed.",
        ),
        (
            (SMOOTH, RATE_CHANGE, FAILED),
            "In 1 of 2 measured curves the rate changes for good, and none falls into a slow regime: each further "
            "token of GPT-2 on MPS costs 2.0× as much from 384 tokens on (95 % interval 1.9–2.1); 1 curve could not be "
            "measured.",
        ),
        (
            (MEDIUM, RATE_CHANGE),
            "1 of 2 measured curves falls into a slow regime: GPT-2 Medium on MPS takes 10.7× (95 % interval 9.1–12.8) "
            "what its trend expects at 512 tokens, seen in one process; 1 curve changes its rate for good.",
        ),
        ((UNTOLD,), "Whether OPT-350M on MPS has a slow regime cannot be told: two normal lengths are too few."),
        (
            (UNTOLD, ABOVE),
            "No slow regime is shown in 2 measured curves; 1 curve is above its trend without a proven return and 1 "
            "cannot be judged.",
        ),
        (
            (BUSY,),
            "The machine was busy while DistilGPT-2 on the CPU was measured: 9 of 10 runs disturbed, the fixed "
            "workload took 12 times as long as at rest; whether it has a slow regime cannot be told.",
        ),
        (
            (BUSY, MEDIUM),
            "The machine was busy while 1 of 2 curves was measured, which cannot be judged; of the others: GPT-2 "
            "Medium on MPS falls into a slow regime at 512 tokens: 10.7× (95 % interval 9.1–12.8) what its trend "
            "expects, seen in one process.",
        ),
        (
            (BUSY, replace(BUSY, model="gpt2")),
            "The machine was busy while both curves were measured: nothing can be told of them.",
        ),
        (
            (STEP,),
            "GPT-2 on MPS takes 5.0× (95 % interval 4.2–6.0) as long from 384 tokens on, and stays so as far as was "
            "measured; seen in one process.",
        ),
        (
            (STEP, SMOOTH, UNTOLD),
            "1 of 3 measured curves takes a step: GPT-2 on MPS takes 5.0× (95 % interval 4.2–6.0) as long from 384 "
            "tokens on, seen in one process; 1 curve cannot be judged.",
        ),
        (
            (DOWN,),
            "GPT-2 on MPS takes 0.50× (95 % interval 0.42–0.59) as long from 512 tokens on, and stays so as far as "
            "was measured; seen in one process.",
        ),
        (
            (MEDIUM, STEP),
            "1 of 2 measured curves falls into a slow regime: GPT-2 Medium on MPS takes 10.7× (95 % interval "
            "9.1–12.8) what its trend expects at 512 tokens, seen in one process; 1 curve takes a step.",
        ),
        (
            (STOPPED,),
            "Whether GPT-2 on MPS has a slow regime cannot be told: from 384 tokens nothing finished, stopped by the "
            "memory guard; a smaller model, half-precision weights or shorter lengths may finish.",
        ),
        (
            (FAST,),
            "No slow regime was found for GPT-2 on MPS between 128 and 768 tokens; a slow-down of 1.5× at any inner "
            "length, or of 1.7× at the ends, would have been noticed; a regime narrower than 128 tokens could have "
            "been missed; at 512 tokens: suspiciously fast, 5.0 times below the trend: look at it.",
        ),
        ((FAILED,), "BLOOM-560M on MPS could not be measured: every run ran out of memory."),
        ((FAILED, Line("gpt2", failed=dict.fromkeys(GRID, "killed"))), "None of 2 curves could be measured."),
        (
            (ABOVE,),
            "GPT-2 Medium on MPS takes 2.0× (95 % interval 1.7–2.4) what its trend expects at 512 tokens, but that a "
            "longer output is faster again is not shown.",
        ),
    ],
)
def test_verdict(tmp_path: Path, lines: tuple[Line, ...], expected: str) -> None:
    found = curves(tmp_path, *lines)
    assert verdict_sentence(found) == expected
    whole = headline(found)
    joined = f"{whole.main[:-1]}; {whole.rest}" if whole.rest else whole.main
    assert verdict_sentence(found) == joined


def test_partial_report_says_on_how_much_it_rests(tmp_path: Path) -> None:
    found = curves(tmp_path, MEDIUM)
    assert verdict_sentence(found, Progress(30, 12)).endswith("seen in one process (12 of 30 runs done so far).")
    assert verdict_sentence(found, Progress(1, 0)).endswith("(0 of 1 run done so far).")
    assert verdict_sentence(found, Progress(30, 30)) == verdict_sentence(found)


def test_lower_bound_is_said_as_such_and_has_no_upper_end(tmp_path: Path) -> None:
    (curve,) = curves(tmp_path, Line(slow=(Slow(512, 512, 9.0),), stopped={512: 90.0}))
    assert "at least 9.0× what its trend expects" in curve_sentence(curve)
    assert "interval" not in curve_sentence(curve)


@pytest.mark.parametrize(
    ("slow", "where", "edge"),
    [
        (Slow(640, 768, 5.0), "from 640 tokens to the end of what was measured (768)", "no return was seen up to 768"),
        (Slow(128, 256, 5.0), "from the start of what was measured (128) to 256 tokens", "lies below 128 tokens"),
        (Slow(128, 768, 5.0), "at every length measured (128–768 tokens)", "no return was seen up to 768"),
        (Slow(384, 512, 5.0), "at 384–512 tokens", "begins between 256 and 384 tokens and ends between 512 and 640"),
    ],
)
def test_open_edges(tmp_path: Path, slow: Slow, where: str, edge: str) -> None:
    (curve,) = curves(tmp_path, Line(slow=(slow,)))
    assert where in curve_sentence(curve)
    assert edge in edges(curve.accepted[0])


def test_several_regimes(tmp_path: Path) -> None:
    (curve,) = curves(tmp_path, Line(slow=(Slow(256, 256, 3.0), Slow(512, 640, 6.0))))
    assert "2 slow regimes, the worst at 512–640 tokens" in curve_sentence(curve)
    advice = advise(curve)
    assert advice.avoid == ((256, 256), (512, 640))
    assert advice.normal == ((128, 128), (384, 384), (768, 768))
    assert advice.unsure == ((129, 255), (257, 383), (385, 511), (641, 767))


def test_lengths_of_an_undetermined_curve_are_not_called_normal(tmp_path: Path) -> None:
    found = curves(tmp_path, UNTOLD, Line(slow=(Slow(512, 512, 3.0, accepted=False),), verdict="undetermined"))
    assert all(advise(curve).normal == () for curve in found)
    assert all(advise(curve).avoid == () for curve in found)


def test_lengths_of_a_smooth_curve(tmp_path: Path) -> None:
    (curve,) = curves(tmp_path, SMOOTH)
    assert advise(curve).normal == ((128, 768),)
    assert spans_words(advise(curve).avoid) == ""


def test_condition_names_the_life_of_the_process(tmp_path: Path) -> None:
    assert condition(curves(tmp_path, SMOOTH)) == "a fresh process that repeats one output length"
    persistent = Line(axes={"lifetime": "persistent", "order": "shuffled"})
    assert condition(curves(tmp_path, persistent)) == "one process that goes through many output lengths (shuffled)"
    assert "unless a curve's name says otherwise" in condition(curves(tmp_path, SMOOTH, persistent))


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (
            (MEDIUM,),
            "GPT-2 Medium on MPS is slow at 512 tokens: it begins between 384 and 512 tokens and ends between 512",
        ),
        ((MEDIUM, LARGE, SMOOTH), "2 of 3 curves leave their trend within 384–512 tokens and 2 of them return"),
        ((MEDIUM, SMOOTH), "1 of 2 curves leaves its trend at 512 tokens and returns"),
        (
            (Line(slow=(Slow(640, 768, 5.0),)), SMOOTH),
            "1 of 2 curves leaves its trend within 640–768 tokens, and no return",
        ),
        ((SMOOTH,), "Latency grows with the output length and stays on its trend"),
        ((ABOVE, SMOOTH), "1 curve of 2 above the trend, none with a proven return"),
        ((STEP,), "GPT-2 on MPS takes 5.0× (95 % interval 4.2–6.0) as long from 384 tokens on: the step lies between"),
        ((STEP, SMOOTH), "1 curve of 2 takes a step"),
        ((SMOOTH, UNTOLD), "1 of 2 curves stays on its trend; 1 curve cannot be judged"),
        ((FAILED,), "Latency by output length"),
    ],
)
def test_latency_finding(tmp_path: Path, lines: tuple[Line, ...], expected: str) -> None:
    assert latency_finding(curves(tmp_path, *lines)).startswith(expected)


def test_names_say_only_what_tells_curves_apart(tmp_path: Path) -> None:
    new = "macos-14.8_torch-2.14.0_transformers-4.57.6"
    found = curves(
        tmp_path,
        Line(),
        Line(axes={"kv_cache": "off"}),
        Line(axes={"batch": 2}),
        Line(machine="other", stack="linux-6.1_torch-2.13.0_transformers-5.24.0"),
        Line(stack=new),
    )
    assert sorted(curve.name for curve in found) == [
        "GPT-2 Medium, MPS, batch 2, simulated-36gb, torch 2.8.0",
        "GPT-2 Medium, MPS, cache off, simulated-36gb, torch 2.8.0",
        "GPT-2 Medium, MPS, other",
        "GPT-2 Medium, MPS, simulated-36gb, torch 2.14.0",
        "GPT-2 Medium, MPS, simulated-36gb, torch 2.8.0",
    ]
    assert {curve.spoken for curve in curves(tmp_path, SMOOTH)} == {"GPT-2 on the CPU"}


def test_a_stopped_curve_names_what_would_fit(tmp_path: Path) -> None:
    (curve,) = curves(tmp_path, STOPPED)
    instead = [{"model": "gpt2", "title": "GPT-2", "dtype": "float16"}]
    told = verdict_sentence([replace(curve, fits={"longest": 352, "instead": instead})])
    assert told.endswith("by the estimate of memory, GPT-2 in float16 or lengths up to 352 would fit.")
