"""Findings as sentences, made from the tables alone.

Every factor names its reference: the trend, that is the latency which the curve's normal lengths lead one
to expect, or a neighbour, that is the next normal length measured. Nothing is claimed beyond an interval.
"""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from speedbump.report.curves import AFFECTED, Curve, Regime
from speedbump.report.study import Progress
from speedbump.report.words import interval, lengths, listing, plural, sentence, shortened, times

VERDICT_WORDS = {
    "slow regimes": "Slow regime",
    "excess": "Above the trend",
    "step": "Step",
    "rate change": "Rate change",
    "undetermined": "Undetermined",
    "smooth": "Smooth",
    "not measured": "Not measured",
}

Span = tuple[int, int]


@dataclass(frozen=True)
class Headline:
    """The finding, and in ``rest`` what is to be said of the other curves; empty when there is nothing."""

    main: str
    rest: str


def verdict_sentence(curves: Sequence[Curve], progress: Progress | None = None) -> str:
    """The report's one sentence: is anything slow, where, how badly, how sure.

    progress: given for a partial report, whose sentence says how much of the study it rests on.
    """
    main, rest = _verdict(curves)
    return _so_far("; ".join([main, listing(rest)]) if rest else main, progress)


def headline(curves: Sequence[Curve], progress: Progress | None = None) -> Headline:
    """The same in two sentences, for a page that has room for both."""
    main, rest = _verdict(curves)
    return Headline(_so_far(main, progress), sentence(listing(rest)) if rest else "")


def _so_far(text: str, progress: Progress | None) -> str:
    if progress is None or not progress.left:
        return sentence(text)
    return sentence(f"{text} ({progress.done:,} of {plural(progress.cells, 'run')} done so far)")


def _verdict(curves: Sequence[Curve]) -> tuple[str, list[str]]:
    """The finding, and clauses on the other curves."""
    measured = [curve for curve in curves if curve.measured]
    if not curves:
        return "Nothing is measured yet", []
    if not measured:
        if len(curves) == 1:
            return curve_sentence(curves[0]).removesuffix("."), []
        return f"None of {plural(len(curves), 'curve')} could be measured", []
    if len(measured) > 1 and (busy := sum(curve.busy for curve in measured)):
        if busy == len(measured):
            every = "both" if busy == 2 else f"all {busy}"
            return f"the machine was busy while {every} curves were measured: nothing can be told of them", []
        main, rest = _verdict([curve for curve in curves if not curve.busy])
        lead = f"the machine was busy while {busy} of {len(measured)} curves {'was' if busy == 1 else 'were'} measured"
        return f"{lead}, which cannot be judged; of the others: {main}", rest
    slow = [curve for curve in measured if curve.verdict == "slow regimes"]
    smooth = [curve for curve in measured if curve.verdict == "smooth"]
    stepped = [curve for curve in measured if curve.verdict == "step" and curve.worst]
    changed = [curve for curve in measured if curve.verdict == "rate change"]
    if len(measured) == 1:
        return curve_sentence(measured[0]).removesuffix("."), _rest(curves, without=measured)
    if slow:
        return _slow_curves(slow, len(measured)), _rest(curves, without=slow)
    if stepped:
        return _stepped_curves(stepped, len(measured)), _rest(curves, without=stepped)
    if changed:
        return _changed_rates(changed, len(measured)), _rest(curves, without=changed)
    if len(smooth) == len(measured):
        any_of = "either" if len(measured) == 2 else "any"
        main = f"no slow regime was found in {any_of} of {len(measured)} measured curves{_limits(smooth)}"
    elif smooth:
        main = f"no slow regime was found in {len(smooth)} of {plural(len(measured), 'measured curve')}"
    else:
        main = f"no slow regime is shown in {plural(len(measured), 'measured curve')}"
    return main, _rest(curves, without=smooth)


def _slow_curves(slow: Sequence[Curve], n_measured: int) -> str:
    worst = max(slow, key=lambda curve: curve.worst.slowdown if curve.worst else 0.0)
    regime = worst.worst
    assert regime is not None
    if len(slow) == 1:
        lead = f"1 of {plural(n_measured, 'measured curve')} falls into a slow regime: {worst.spoken}"
        return f"{lead} takes {factor(regime)} what its trend expects {where(regime)}, {surety(regime)}"
    every = "both" if n_measured == 2 else f"all {n_measured}"
    count = every if len(slow) == n_measured else f"{len(slow)} of {n_measured}"
    lead = f"{count} measured curves fall into a slow regime"
    place = f"{where(regime)}, {surety(regime)}"
    return f"{lead}; the worst, {worst.spoken}, takes {factor(regime)} what its trend expects {place}"


def _stepped_curves(stepped: Sequence[Curve], n_measured: int) -> str:
    largest = max(stepped, key=lambda curve: curve.worst.slowdown if curve.worst else 0.0)
    step = largest.worst
    assert step is not None
    if len(stepped) == 1:
        lead = f"1 of {plural(n_measured, 'measured curve')} takes a step: {largest.spoken}"
        return f"{lead} takes {step_words(step)}, {surety(step)}"
    count = "both" if len(stepped) == n_measured == 2 else f"{len(stepped)} of {n_measured}"
    lead = f"{count} measured curves take a step; the largest, {largest.spoken}"
    return f"{lead}, takes {step_words(step)}, {surety(step)}"


def _changed_rates(changed: Sequence[Curve], n_measured: int) -> str:
    worst = max(changed, key=lambda curve: float(curve.row["rate_ratio"] or 0.0))
    none = "none falls into a slow regime" if n_measured > 1 else "it falls into no slow regime"
    lead = f"in {len(changed)} of {plural(n_measured, 'measured curve')} the rate changes for good, and {none}"
    which = "" if len(changed) == 1 else "the most, "
    return f"{lead}: {which}{rate_words(worst)}"


def rate_words(curve: Curve) -> str:
    """``each further token of GPT-2 on MPS costs 2.0× as much from 512 tokens on (95 % interval 1.9–2.1)``."""
    row = curve.row
    if row["rate_ratio"] is None:
        return f"the rate of {curve.spoken} changes for good"
    ends = interval(row["rate_ratio_low"], row["rate_ratio_high"])
    ends = f" (95 % interval {ends})" if ends else ""
    more = f"{times(row['rate_ratio'])} as much from {row['rate_from']} tokens on{ends}"
    return f"each further token of {curve.spoken} costs {more}"


def _rest(curves: Sequence[Curve], without: Sequence[Curve]) -> list[str]:
    """What is to be said of the other curves, in as few words as are true."""
    named = {id(curve) for curve in without}
    counts = Counter(curve.verdict for curve in curves if id(curve) not in named)
    words = {
        "excess": ("is above its trend without a proven return", "are above their trend without a proven return"),
        "step": ("takes a step", "take a step"),
        "rate change": ("changes its rate for good", "change their rate for good"),
        "undetermined": ("cannot be judged", "cannot be judged"),
        "not measured": ("could not be measured", "could not be measured"),
    }
    clauses = [(counts[verdict], pair[counts[verdict] > 1]) for verdict, pair in words.items() if counts[verdict]]
    return [
        f"{plural(count, 'curve') if number == 0 else count} {clause}" for number, (count, clause) in enumerate(clauses)
    ]


def curve_sentence(curve: Curve) -> str:
    """One curve's verdict as a sentence."""
    worst = curve.worst
    if curve.busy:
        busy = str(curve.row["reason"]).replace("this was measured", f"{curve.spoken} was measured")
        return sentence(f"{busy}; whether it has a slow regime cannot be told")
    match curve.verdict:
        case "slow regimes" if worst is not None:
            several = len(curve.accepted) > 1
            regimes = f"{len(curve.accepted)} slow regimes, the worst" if several else "a slow regime"
            text = f"{curve.spoken} falls into {regimes} {where(worst)}: {factor(worst)} what its trend expects"
            return sentence(f"{text}, {surety(worst)}{_but(curve)}")
        case "step" if worst is not None:
            text = f"{curve.spoken} takes {step_words(worst)}, and stays so as far as was measured; {surety(worst)}"
            return sentence(f"{text}{_but(curve)}")
        case "step":
            return sentence(f"{curve.spoken} takes a step{_but(curve)}")
        case "excess" if worst is not None:
            text = f"{curve.spoken} takes {factor(worst)} what its trend expects {where(worst)}"
            return sentence(f"{text}, but that a longer output is faster again is not shown{_but(curve)}")
        case "excess":
            return sentence(
                f"{curve.spoken} lies above its trend, but that a longer output is faster again is not shown"
            )
        case "rate change":
            return sentence(f"{rate_words(curve)}; no slow regime was found{_limits([curve])}")
        case "smooth":
            return sentence(f"no slow regime was found for {curve.spoken}{_limits([curve])}{_but(curve)}")
        case "not measured":
            return sentence(f"{curve.spoken} could not be measured{_because(curve)}")
    return sentence(f"whether {curve.spoken} has a slow regime cannot be told{_because(curve)}{_remedy(curve)}")


def _because(curve: Curve) -> str:
    return f": {curve.row['reason'].removesuffix('.')}" if curve.row["reason"] else ""


def _but(curve: Curve) -> str:
    """What the verdict leaves out: lengths beyond which nothing finished, lengths too fast to believe."""
    return f"; {curve.row['reason'].removesuffix('.')}" if curve.row["reason"] else ""


def _remedy(curve: Curve) -> str:
    """What would make the stopped lengths finish."""
    if curve.row["stopped_from"] is None:
        return ""
    if curve.fits:
        ways = [f"{one['title']} in {one['dtype']}" for one in curve.fits["instead"][:1]]
        ways += [f"lengths up to {curve.fits['longest']}"] if curve.fits["longest"] else []
        if ways:
            return f"; by the estimate of memory, {' or '.join(ways)} would fit"
    return "; a smaller model, half-precision weights or shorter lengths may finish"


def _limits(curves: Sequence[Curve]) -> str:
    """Between which lengths, what would have been noticed in them, and what could have been missed."""
    lows = [curve.row["n_gen_min"] for curve in curves if curve.row["n_gen_min"] is not None]
    highs = [curve.row["n_gen_max"] for curve in curves if curve.row["n_gen_max"] is not None]
    text = f" between {min(lows)} and {max(highs)} tokens" if lows else ""
    seen = noticed_words(curves)
    steps = [curve.row["narrowest"] for curve in curves if curve.row["narrowest"] is not None]
    if seen:
        text = f"{text}; {seen}"
    if steps and max(steps) > 1:
        text = f"{text}; a regime narrower than {plural(max(steps), 'token')} could have been missed"
    return text


def noticed_words(curves: Sequence[Curve]) -> str:
    """``a slow-down of 1.7× at any inner length, or of 2.1× at the ends, would have been noticed``; of several curves
    the largest. Empty where one of them does not know.
    """
    inner, ends = ([curve.row[name] for curve in curves] for name in ("noticed", "noticed_ends"))
    if not inner or None in inner:
        return ""
    at_ends = None if None in ends else times(max(ends))
    if at_ends == times(max(inner)):
        return f"a slow-down of {at_ends} at any measured length would have been noticed"
    middle = f", or of {at_ends} at the ends," if at_ends else ""
    return f"a slow-down of {times(max(inner))} at any inner length{middle} would have been noticed"


def factor(regime: Regime) -> str:
    """The slow-down against the trend with its interval: ``10.7× (95 % interval 9.1–12.8)``."""
    if regime.lower_bound:
        return f"at least {times(regime.slowdown)}"
    ends = interval(regime.slowdown_low, regime.slowdown_high)
    return f"{times(regime.slowdown)} (95 % interval {ends})" if ends else f"{times(regime.slowdown)} (no interval)"


def step_words(regime: Regime) -> str:
    """``5.2× (95 % interval 4.1–6.6) as long from 64 tokens on``; a step down as a share."""
    if regime.kind != "step down":
        return f"{factor(regime)} as long from {regime.begins} tokens on"
    low, high = regime.slowdown_low, regime.slowdown_high
    share = f"{1 / regime.slowdown:.2f}×"
    if regime.lower_bound:
        return f"at most {share} as long from {regime.begins} tokens on"
    ends = f"95 % interval {1 / high:.2f}–{1 / low:.2f}" if low and high else "no interval"
    return f"{share} ({ends}) as long from {regime.begins} tokens on"


def where(regime: Regime) -> str:
    """At which lengths, with open ends said."""
    if regime.open_left and regime.open_right:
        return f"at every length measured ({lengths(regime.first_slow, regime.last_slow)} tokens)"
    if regime.open_right:
        return f"from {regime.first_slow} tokens to the end of what was measured ({regime.last_slow})"
    if regime.open_left:
        return f"from the start of what was measured ({regime.first_slow}) to {regime.last_slow} tokens"
    return f"at {lengths(regime.first_slow, regime.last_slow)} tokens"


def surety(regime: Regime) -> str:
    """Whether another process has shown it again."""
    return "confirmed in another process" if regime.confirmed else "seen in one process"


def edges(regime: Regime) -> str:
    """Where the regime begins and ends, or where the step lies, as far as is known."""
    if regime.is_step:
        down = regime.kind == "step down"
        low, high = (regime.recovery_low, regime.recovery_high) if down else (regime.onset_low, regime.onset_high)
        place = f"the step lies {_between(low, high)}" if low is not None and high is not None else "a step"
        return f"{place}, and nothing measured beyond it returns"
    if regime.open_left or regime.onset_low is None:
        begins = f"its beginning lies below {regime.first_slow} tokens, where nothing was measured"
    else:
        begins = f"it begins {_between(regime.onset_low, regime.onset_high or regime.first_slow)}"
    if regime.open_right or regime.recovery_high is None:
        return f"{begins}, and no return was seen up to {regime.last_slow}"
    return f"{begins} and ends {_between(regime.recovery_low or regime.last_slow, regime.recovery_high)}"


def levels(regime: Regime) -> str:
    """The regime's levels as a sentence when it has several; else empty."""
    if not regime.levels:
        return ""
    parts = json.loads(regime.levels)
    words = listing(f"{times(part['slowdown'])} at {lengths(part['first'], part['last'])}" for part in parts)
    return sentence(f"{plural(len(parts), 'level')}: {words}")


def _between(low: int, high: int) -> str:
    return f"between {low} and {high} tokens" if high - low > 1 else f"exactly between {low} and {high} tokens"


@dataclass(frozen=True)
class Advice:
    """Output lengths by what is known of them. Valid for the conditions under which the curve was measured."""

    avoid: tuple[Span, ...]
    unsure: tuple[Span, ...]
    normal: tuple[Span, ...]


def advise(curve: Curve) -> Advice:
    """Lengths to avoid, lengths of which it is not known, and lengths measured to be normal.

    Lengths between two normal ones count as normal; what could hide between them is the curve's ``narrowest``.
    A curve that is undetermined or not measured has no normal lengths.
    """
    avoid = [(regime.first_slow, regime.last_slow) for regime in curve.accepted]
    unsure = [(regime.first_slow, regime.last_slow) for regime in curve.suspected]
    for regime in curve.regimes:
        if regime.onset_low is not None and regime.first_slow - regime.onset_low > 1:
            unsure.append((regime.onset_low + 1, regime.first_slow - 1))
        if regime.recovery_high is not None and regime.recovery_high - regime.last_slow > 1:
            unsure.append((regime.last_slow + 1, regime.recovery_high - 1))
    blocked = avoid + unsure
    normal: list[list[int]] = []
    if curve.verdict in (*AFFECTED, "smooth"):
        run: list[int] = []
        for n_gen, state in curve.budgets.select("n_gen", "state").iter_rows():
            inside = any(first <= n_gen <= last for first, last in blocked)
            if state == "normal" and not inside:
                crossed = run and any(run[-1] < first <= n_gen for first, _ in blocked)
                if crossed:
                    normal.append(run)
                    run = []
                run.append(n_gen)
            else:
                if state == "unclear" and not inside:
                    unsure.append((n_gen, n_gen))
                normal.append(run)
                run = []
        normal.append(run)
    return Advice(tuple(sorted(avoid)), tuple(sorted(unsure)), tuple((run[0], run[-1]) for run in normal if run))


def spans_words(spans: Sequence[Span], limit: int = 6) -> str:
    """``512–624 and 700``."""
    return shortened([lengths(first, last) for first, last in spans], limit)


def condition(curves: Sequence[Curve]) -> str:
    """What the lengths hold for: the life of the process they were measured in. Empty when nothing was measured."""
    lifetimes = {curve.row["lifetime"] for curve in curves if curve.measured}
    if not lifetimes:
        return ""
    if lifetimes == {"fresh"}:
        return "a fresh process that repeats one output length"
    if lifetimes == {"persistent"}:
        orders = listing(sorted({curve.row["order"] for curve in curves}))
        return f"one process that goes through many output lengths ({orders})"
    return "a fresh process that repeats one output length, unless a curve's name says otherwise"


def latency_finding(curves: Sequence[Curve]) -> str:
    """The title above latency by output length."""
    measured = [curve for curve in curves if curve.measured]
    slow = [curve for curve in measured if curve.verdict == "slow regimes" and curve.worst]
    if len(measured) == 1 and slow and slow[0].worst:
        regime = slow[0].worst
        return f"{slow[0].spoken} is slow {where(regime)}: {edges(regime)}"
    if slow:
        back = sum(not any(regime.open_right for regime in curve.accepted) for curve in slow)
        first = min(regime.first_slow for curve in slow for regime in curve.accepted)
        last = max(regime.last_slow for curve in slow for regime in curve.accepted)
        noun = f"curve{'s' if len(measured) > 1 else ''} {'leaves its' if len(slow) == 1 else 'leave their'}"
        returned = "and returns" if len(slow) == back == 1 else f"and {back} of them return{'s' if back == 1 else ''}"
        text = f"{len(slow)} of {len(measured)} {noun} trend {_within(first, last)}"
        return f"{text} {returned}" if back else f"{text}, and no return was seen"
    stepped = [curve for curve in measured if curve.verdict == "step" and curve.worst]
    if len(measured) == 1 and stepped and stepped[0].worst:
        return f"{stepped[0].spoken} takes {step_words(stepped[0].worst)}: {edges(stepped[0].worst)}"
    if stepped:
        return f"{plural(len(stepped), 'curve')} of {len(measured)} {'takes' if len(stepped) == 1 else 'take'} a step"
    above = [curve for curve in measured if curve.verdict == "excess"]
    if len(measured) == 1 and above and above[0].worst:
        regime = above[0].worst
        return f"{above[0].spoken} lies above its trend {where(regime)}: {edges(regime)}"
    if above:
        return f"{plural(len(above), 'curve')} of {len(measured)} above the trend, none with a proven return"
    changed = [curve for curve in measured if curve.verdict == "rate change"]
    if len(measured) == len(changed) == 1:
        return sentence(rate_words(changed[0])).removesuffix(".")
    smooth = sum(curve.verdict == "smooth" for curve in measured)
    if measured and smooth == len(measured):
        return "Latency grows with the output length and stays on its trend"
    if smooth:
        stay = "stays on its" if smooth == 1 else "stay on their"
        rest = listing(_rest(measured, without=[]))
        return f"{smooth} of {plural(len(measured), 'curve')} {stay} trend; {rest}"
    return "Latency by output length"


def _within(first: int, last: int) -> str:
    return f"at {first} tokens" if first == last else f"within {first}–{last} tokens"
