"""A study: what a file under config/ says, checked. Every mistake is one line that names file and key."""

import difflib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    create_model,
    model_validator,
)

from speedbump.grid.axes import AXES, REST, WATERMARK, WATERMARK_LIMITS, Axis
from speedbump.grid.listing import visible
from speedbump.grid.order import MOST_BLOCKS
from speedbump.grid.ranges import RangeError, parse_range

ACCELERATOR: Final = "accelerator"
"""Study's word for a device: the one that computes on the machine, MPS before CUDA."""


class StudyError(ValueError):
    """The study cannot be run as written; the message is one line naming file, key and what would be right."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class Protocol(_Strict):
    """How often a cell is measured. Part of the cell's identity."""

    warmups: int = Field(3, ge=0, le=100)
    repeats: int = Field(5, ge=1, le=1000)
    seed: int = Field(0, ge=0)
    request_limit_s: float | None = Field(None, gt=0, description="a slower request is stopped and kept as a bound")


class Guard(_Strict):
    """The memory guard, in GiB: a request is stopped where the machine would begin to freeze."""

    swap_growth_gb: float | None = Field(
        None,
        gt=0,
        description="growth of swap in use since the cell's start; unset: an eighth of the memory, at most 4",
    )
    free_memory_gb: float = Field(0.5, ge=0, description="memory that must stay available")
    free_disk_gb: float = Field(2.0, ge=0, description="disk that must stay free where the results go")
    warning_s: float = Field(
        120.0, gt=0, description="seconds of one request in which macOS may warn of memory pressure; critical: none"
    )


def _as_flag(value: Any) -> Any:
    """``--config`` gives words."""
    return {"true": True, "false": False}.get(str(value).lower(), value)


class Limits(_Strict):
    """What stops a cell. Not part of its identity."""

    cell_limit_s: float = Field(7200.0, gt=0, description="for the whole cell, the wait for the device apart")
    patience_s: float = Field(
        0.0, ge=0, description="how long a cell waits until the fixed workload is near its best; 0: it does not"
    )
    guard: Guard = Guard()
    allow_battery: bool = Field(False, description="measure on battery power too; the cell is flagged")
    beyond_memory: Annotated[bool, BeforeValidator(_as_flag)] = Field(
        False, description="start cells that need more memory than the machine has; the guard stops them"
    )
    allow_ballast: bool = Field(False, description="measure cells with ballast_gb: memory is really taken")
    allow_watermark: bool = Field(False, description="measure cells with a watermark: the allocator's limit is moved")
    metal_capture: bool = Field(False, description="profile cells on MPS write a Metal capture too: gigabytes")


class Refine(_Strict):
    """Rounds of further budgets where something stands out. Its final cells follow the study's protocol."""

    rounds: int = Field(1, ge=0, le=40)
    width: int = Field(16, ge=1, description="tokens; edges are bisected until known this closely")
    gap: int | None = Field(None, ge=1, description="tokens; steps wider than this are halved")
    max_cells: int | None = Field(200, ge=1, description="over all rounds")
    max_hours: float | None = Field(12.0, gt=0, description="over all rounds")
    processes: int = Field(3, ge=1, description="most repeats of the process for one budget")
    probe_warmups: int = Field(1, ge=0)
    probe_repeats: int = Field(2, ge=1)
    early_end: bool = Field(True, description="a probe may end early when its requests agree")
    cut: bool = Field(False, description="a probe's request may be stopped once it is surely slow: a lower bound")


class Refinement(Refine):
    """What plan_refinement goes by: an experiment's settings, and the study's protocol."""

    protocol: Protocol = Protocol()


def _as_list(value: Any) -> Any:
    if value is None or value == []:
        raise ValueError("is empty: name at least one value, or leave the key out")
    return value if isinstance(value, list) else [value]


def _as_bundle(value: str) -> str:
    """Snakemake takes braces for wildcards, and a script a dash for an option."""
    if not value.strip() or value.startswith("-") or {"{", "}"} & set(value):
        raise ValueError(f"{value!r} cannot be read as a file's name: none is empty, begins with - or holds braces")
    return value


def _as_numbers(value: Any) -> list[int]:
    try:
        return list(dict.fromkeys(number for part in _as_list(value) for number in parse_range(part)))
    except RangeError as error:
        raise ValueError(str(error)) from error


Lengths = Annotated[list[Annotated[int, Field(ge=1)]], BeforeValidator(_as_numbers)]


def _rest(value: Any) -> Any:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not text")
    if value not in ("nothing", "empty_cache") and not REST.fullmatch(value):
        raise ValueError(f"{value!r} is not nothing, empty_cache, or rest_<seconds>s such as rest_5s")
    return value


def _watermark(value: Any) -> Any:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not text")
    match = WATERMARK.fullmatch(value)
    if value != "default" and not (match and 0 < float(match[2]) <= WATERMARK_LIMITS[match[1]]):
        limits = " or ".join(f"{side}_<ratio> up to {most:g}" for side, most in WATERMARK_LIMITS.items())
        raise ValueError(f"{value!r} is not default, {limits}, such as high_1.0")
    return value


_WORDS = {"between_requests": _rest, "watermark": _watermark}
"""Checks of axes whose words hold a number."""


def _field(axis: Axis) -> Any:
    """Type of the axis in a study: one value or a list of them; whole numbers also as ranges."""
    if axis.kind is int:
        kind: Any = Annotated[list[Annotated[int, Field(ge=axis.least)]], BeforeValidator(_as_numbers)]
    else:
        words = (*axis.values, ACCELERATOR) if axis.name == "device" else axis.values
        value: Any = Literal[words] if words else str
        if axis.name in _WORDS:
            value = Annotated[str, BeforeValidator(_WORDS[axis.name])]
        kind = Annotated[list[value], BeforeValidator(_as_list)]
    return (kind, Field(None, description=axis.meaning))


_VERSION = re.compile(r"\d+(\.\d+)+[a-z0-9.]*(\+[a-z0-9.]+)?")


def _as_versions(value: Any) -> Any:
    for version in (versions := _as_list(value)):
        if isinstance(version, int | float):
            raise ValueError(f"YAML reads {version} as a number, 2.10 like 2.1: write versions in quotes")
        if not isinstance(version, str) or not _VERSION.fullmatch(version):
            raise ValueError(f"{version!r} is no exact version, such as 2.8.0 or 2.8.0+cpu")
    return versions


_Versions = Annotated[list[str], BeforeValidator(_as_versions)]
_Texts = Annotated[list[str], BeforeValidator(_as_list)]


class Stack(_Strict):
    """Versions that are measured in environments of their own; of several, every combination."""

    torch: _Versions = Field(description="exact versions, such as 2.8.0 or [2.7.0, 2.8.0+cpu]")
    transformers: _Versions = Field(description="exact versions")
    index: str | None = Field(None, description="package index in place of the usual one")
    extra_index: _Texts = Field([], description="further package indexes")
    find_links: _Texts = Field([], description="folders, or pages, with wheels")
    packages: _Texts = Field([], description="what else is installed, such as litserve>=0.2.16")


Axes = create_model("Axes", __base__=_Strict, **{axis.name: _field(axis) for axis in AXES})
"""The axes that a block names, each with its values."""


class Experiment(Axes):
    """A named product of axes. What it does not name is at its default."""

    name: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    when: Literal["accelerator", "no_accelerator"] | None = Field(
        None, description="only on a machine with, or without, an accelerator"
    )
    include: list[Axes] = Field([], description="further products; what one does not name is the experiment's")
    exclude: list[Axes] = Field([], description="cells left out: those that agree on every axis named")
    fit: list[Axes] = Field(
        [],
        description="in place of cells that do not fit the memory: the first of these that do, else the last at "
        "shorter lengths; what one does not name is the experiment's",
    )
    refine: Refine | None = None
    workload: str | None = Field(None, description="CSV of the lengths a replay goes through, with a column n_gen")
    lengths: Lengths | None = Field(None, description="the same lengths in place of a CSV, in order")
    keep: Literal["budget", "total"] = Field(
        "budget", description="around a regime: what stays the same at another prompt, budget or prompt + budget"
    )
    at: Literal["every", "pair"] = Field(
        "every", description="around a regime: every budget, or one within it and one beside it"
    )


class GivenRegime(_Strict):
    """A slow regime that somebody knows: budgets at which the model is normal, and slow."""

    model: str
    device: Literal["cpu", "mps", "cuda", "accelerator"] = ACCELERATOR
    n_prompt: int = Field(65, ge=1)
    instrument: Literal["free_running", "step_sync"] = Field("free_running", description="of the reference")
    normal: Lengths
    slow: Lengths


class Around(_Strict):
    """Around which regime the experiments are: what they leave out is its series', and the budgets are its edges."""

    study: str | None = Field(None, description="folder of a study whose report is built, such as results/studies/scan")
    regime: GivenRegime | None = Field(None, description="in place of a study")
    n_normal: int = Field(4, ge=1, le=100, description="normal budgets beside the edges")
    n_inside: int = Field(2, ge=1, le=100, description="budgets within the regime, the worst first")

    @model_validator(mode="after")
    def _one_source(self) -> "Around":
        if (self.study is None) == (self.regime is None):
            raise ValueError("give one of study and regime")
        return self


class Study(_Strict):
    """A file under config/."""

    study: str = Field(pattern=r"^[a-z][a-z0-9_-]*$")
    title: str
    description: str = ""
    requires: list[Literal["mps", "cuda", "accelerator"]] = Field([], description="devices without which it stops")
    models: str = Field("config/models", description="folder of the models")
    protocol: Protocol = Protocol()
    limits: Limits = Limits()
    experiments: list[Experiment] = Field([], description="may be left out where bundles are listed")
    stacks: Annotated[list[Stack], BeforeValidator(_as_list)] = Field(
        [], description="measured in place of the stack that runs Speedbump"
    )
    bundles: list[Annotated[str, AfterValidator(_as_bundle)]] = Field(
        [], description="files of make_bundle, whose machines join the report"
    )
    compare_with_paper: bool = Field(False, description="show the paper's published figures beside this machine's")
    workload: str | None = Field(
        None, description="CSV of the lengths an application really uses: n_prompt, n_gen, count"
    )
    suggests: str | None = Field(None, description="file of the study worth running after this one")
    around: Around | None = None
    blocks: int | None = Field(
        None,
        ge=1,
        le=MOST_BLOCKS,
        description="repeats of every process, one after the other, each in a random order; an experiment that names "
        "its process keeps that",
    )


class Call(_Strict):
    """What ``--config`` may say beside the study: how this call of Snakemake differs."""

    partial: Annotated[bool, BeforeValidator(_as_flag)] = Field(False, description="report what is measured so far")
    check: Annotated[bool, BeforeValidator(_as_flag)] = Field(
        False, description="measure only what decides whether known slow regimes have moved"
    )
    patience_s: float | None = Field(None, ge=0, description="in place of the study's own limit")
    machine: str | None = Field(
        None, max_length=100, pattern=r"^[a-z0-9][a-z0-9._-]*$", description="of the nodes that measure"
    )
    stack: str | None = Field(
        None, max_length=200, pattern=r"^[a-z0-9][a-z0-9.+_-]*$", description="of the nodes that measure"
    )


def read_call(config: Mapping[str, Any]) -> Call:
    """The options of the call among all that Snakemake was given. Raises StudyError."""
    given = {key: value for key, value in config.items() if key in Call.model_fields}
    try:
        return Call.model_validate(given)
    except ValidationError as error:
        raise StudyError(_one_line(error, given, "--config", Call)) from None


def named_axes(block: BaseModel) -> dict[str, list[Any]]:
    """The axes that a block of a study names, with their values."""
    values = ((axis.name, getattr(block, axis.name)) for axis in AXES)
    return {name: value for name, value in values if value is not None}


def read_study(config: Mapping[str, Any], file: str, reserved: Iterable[str] = ()) -> Study:
    """Check what Snakemake loaded from ``file``. ``reserved``: names no experiment may have.

    What a call may say beside it is left out, but for its patience. Raises StudyError.
    """
    try:
        study = Study.model_validate({key: value for key, value in config.items() if key not in Call.model_fields})
    except ValidationError as error:
        raise StudyError(_one_line(error, config, file)) from None
    patience_s = read_call(config).patience_s
    if patience_s is not None:
        study = study.model_copy(update={"limits": study.limits.model_copy(update={"patience_s": patience_s})})
    if not study.experiments and not study.bundles:
        raise StudyError(f"{file}: experiments: is missing: name at least one, or list bundles to report on")
    names = [experiment.name for experiment in study.experiments]
    for name in names:
        if names.count(name) > 1:
            raise StudyError(f"{file}: experiments: two are named {name!r}; give each its own name")
        if name in set(reserved):
            raise StudyError(f"{file}: experiments: {name!r} is the name of a rule or target; choose another")
    return study


def namesakes(study: str, file: str) -> list[str]:
    """Other files beside ``file`` whose study has the same name, so that each replaces the other's tables."""
    found = []
    for other in visible(Path(file).parent, "*.yaml"):
        try:
            named = yaml.safe_load(other.read_bytes())
        except (OSError, ValueError, yaml.YAMLError):  # a fault to be told when that study is asked for
            continue
        if other.name != Path(file).name and isinstance(named, dict) and named.get("study") == study:
            found.append(str(other))
    return found


def parse_limits(text: str) -> Limits:
    """Limits from JSON; what it leaves out keeps its default. Raises StudyError."""
    try:
        return Limits.model_validate_json(text)
    except ValidationError as error:
        raise StudyError(_one_line(error, {}, "--limits", Limits)) from None


def nearest(word: str, known: Iterable[str]) -> str:
    """``; did you mean 'x'?`` for the known word nearest to a misspelt one, else the list of known words."""
    known = sorted(known)
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.7)
    return f"; did you mean {close[0]!r}?" if close else f"; known: {', '.join(known)}"


def _one_line(error: ValidationError, config: Any, file: str, root: type[BaseModel] = Study) -> str:
    """The first mistake in plain words, and how many more there are."""
    mistakes = error.errors(include_url=False)
    first = mistakes[0]
    where = _place(first["loc"], config)
    more = f" (and {len(mistakes) - 1} more)" if len(mistakes) > 1 else ""
    return f"{file}: {where}: {_in_words(first, root)}{more}"


def _place(loc: tuple[int | str, ...], config: Any) -> str:
    """``experiments[probe].n_gen`` from the position of a mistake."""
    text, node = "", config
    for step in loc:
        try:
            node = node[step]
        except (KeyError, IndexError, TypeError):
            node = None
        if isinstance(step, int):
            label = node.get("name", step) if isinstance(node, dict) else step
            text += f"[{label}]"
        else:
            text += f".{step}" if text else str(step)
    return text or "the file"


_EXPECTED = {
    "int_type": "a whole number",
    "float_type": "a number",
    "string_type": "text",
    "bool_type": "true or false",
    "list_type": "a list",
    "model_type": "a block of keys",
    "model_attributes_type": "a block of keys",
    "dict_type": "a block of keys",
}


_ALSO = {
    "name": "or _, a letter first",
    "study": "or _ or -, a letter first",
    "machine": "or . _ -",
    "stack": "or . _ - +",
}
"""What else a name may hold, by its key."""


def _in_words(mistake: Any, root: type[BaseModel]) -> str:
    kind, given = mistake["type"], mistake["input"]
    context = mistake.get("ctx", {})
    if kind == "extra_forbidden":
        return f"unknown key{nearest(str(mistake['loc'][-1]), _keys_at(mistake['loc'], root))}"
    if kind == "missing":
        return "is missing"
    if kind == "value_error":
        return str(context["error"])
    if kind == "literal_error":
        allowed = re.findall(r"'([^']*)'", context["expected"])
        if given is False and "off" in allowed:
            return 'YAML reads off as false: write "off", in quotes'
        return f"{given!r} is not known{nearest(str(given), allowed)}"
    if kind in _EXPECTED:
        return f"{given!r} is not {_EXPECTED[kind]}"
    if kind == "string_pattern_mismatch":
        return f"{given!r} must be lower-case letters and digits, {_ALSO[mistake['loc'][-1]]}"
    message = mistake["msg"].replace("Input should be", "must be")
    return f"{given!r} {message}" if kind not in ("too_short",) else "is empty"


_BLOCKS: dict[str, type[BaseModel]] = {
    "protocol": Protocol,
    "limits": Limits,
    "guard": Guard,
    "experiments": Experiment,
    "refine": Refine,
    "include": Axes,
    "exclude": Axes,
    "fit": Axes,
    "around": Around,
    "regime": GivenRegime,
    "stacks": Stack,
}


def _keys_at(loc: tuple[int | str, ...], root: type[BaseModel]) -> list[str]:
    """The keys known in the block where an unknown one stands."""
    blocks = [_BLOCKS[step] for step in loc[:-1] if isinstance(step, str) and step in _BLOCKS]
    beside = list(Call.model_fields) if root is Study and not blocks else []
    return [*(blocks[-1] if blocks else root).model_fields, *beside]
