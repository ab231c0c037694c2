"""Studies: what is refused, and that each refusal is one line naming file, key and what would be right."""

import pytest

from speedbump.grid.study import StudyError, namesakes, read_call, read_study


def study(**changes):
    base = {"study": "tiny", "title": "Tiny", "experiments": [{"name": "scan", "model": "tiny", "n_gen": "8-32+8"}]}
    return {**base, **changes}


def experiment(**changes):
    return study(experiments=[{"name": "scan", "model": "tiny", "n_gen": "8-32+8", **changes}])


@pytest.mark.parametrize(
    ("stack", "message"),
    [
        ({"torch": "2.8.0"}, "x.yaml: stacks[0].transformers: is missing"),
        (
            {"torch": 2.1, "transformers": "4.57.6"},
            "x.yaml: stacks[0].torch: YAML reads 2.1 as a number, 2.10 like 2.1",
        ),
        ({"torch": ">=2.8", "transformers": "4.57.6"}, "x.yaml: stacks[0].torch: '>=2.8' is no exact version"),
        ({"torch": [], "transformers": "4.57.6"}, "x.yaml: stacks[0].torch: is empty"),
        ({"torch": "2.8.0", "transformers": "4.57.6", "extra": 1}, "x.yaml: stacks[0].extra: unknown key"),
    ],
)
def test_a_wrong_stack_is_one_line(stack, message):
    study = {"study": "s", "title": "S", "experiments": [{"name": "scan", "n_gen": 8}], "stacks": [stack]}
    with pytest.raises(StudyError) as raised:
        read_study(study, "x.yaml")
    assert str(raised.value).startswith(message)


def test_values_lists_and_ranges_become_lists():
    scan = read_study(experiment(model=["tiny", "gpt2"], n_gen=[8, "16-32+8"]), "x.yaml").experiments[0]
    assert (scan.model, scan.n_gen) == (["tiny", "gpt2"], [8, 16, 24, 32])
    assert scan.dtype is None


@pytest.mark.parametrize(
    ("config", "line"),
    [
        (study(protocol={"warmup": 2}), "protocol.warmup: unknown key; did you mean 'warmups'?"),
        (study(protocol={"repeats": "five"}), "protocol.repeats: 'five' is not a whole number"),
        (study(protocol={"repeats": 0}), "protocol.repeats: 0 must be greater than or equal to 1"),
        (study(limits={"cell_limit_s": float("inf")}), "limits.cell_limit_s: inf must be a finite number"),
        (study(experimnets=[]), "experimnets: unknown key; did you mean 'experiments'?"),
        (study(experiments=[]), "experiments: is missing: name at least one, or list bundles"),
        (study(experiments="scan"), "experiments: 'scan' is not a list"),
        (study(title=None), "title: None is not text"),
        (study(study="My Study"), "study: 'My Study' must be lower-case letters"),
        (experiment(dtype="fp32"), "experiments[scan].dtype[0]: 'fp32' is not known; "),
        (
            experiment(kv_cache=["dynamic", False]),
            "experiments[scan].kv_cache[1]: YAML reads off as false",
        ),
        (experiment(dtyp="float32"), "experiments[scan].dtyp: unknown key; did you mean 'dtype'?"),
        (
            experiment(device="gpu"),
            "experiments[scan].device[0]: 'gpu' is not known; known: accelerator, cpu, cuda, mps",
        ),
        (experiment(n_gen="64-8+8"), "experiments[scan].n_gen: '64-8+8' falls"),
        (experiment(n_gen=[]), "experiments[scan].n_gen: is empty"),
        (experiment(n_gen=0), "experiments[scan].n_gen[0]: 0 must be greater than or equal to 1"),
        (
            experiment(between_requests="rest"),
            "experiments[scan].between_requests[0]: 'rest' is not nothing, empty_cache",
        ),
        (experiment(exclude=[{"n_gne": 8}]), "experiments[scan].exclude[0].n_gne: unknown key; did you mean 'n_gen'?"),
        (experiment(refine={"width": 0}), "experiments[scan].refine.width: 0 must be greater"),
        (experiment(between_requests=5), "experiments[scan].between_requests[0]: 5 is not text"),
        (experiment(dtype=None), "experiments[scan].dtype: is empty"),
        (study(protocol={"request_limit_s": float("inf")}), "protocol.request_limit_s: inf must be a finite number"),
        (study(partail=True), "partail: unknown key; did you mean 'partial'?"),
        (experiment(name="Scan"), "experiments[Scan].name: 'Scan' must be lower-case"),
        (experiment(model=3), "experiments[scan].model[0]: 3 is not text"),
        (experiment(name="measure_cell"), "experiments: 'measure_cell' is the name of a rule"),
        (study(experiments=study()["experiments"] * 2), "experiments: two are named 'scan'"),
    ],
)
def test_a_mistake_is_one_line_with_file_and_key(config, line):
    with pytest.raises(StudyError) as refusal:
        read_study(config, "config/x.yaml", reserved=["measure_cell"])
    text = str(refusal.value)
    assert text.startswith(f"config/x.yaml: {line}")
    assert "\n" not in text


def test_several_mistakes_are_counted():
    with pytest.raises(StudyError, match=r"\(and 1 more\)"):
        read_study(study(protocol={"repeats": 0, "warmups": -1}), "x.yaml")


def test_a_call_may_say_how_it_differs_and_nothing_strange():
    assert read_call({"partial": "true", "study": "s"}).partial is True
    assert read_call({"partial": False, "machine": "apple-m3-max-36gb"}).machine == "apple-m3-max-36gb"
    assert read_call({"stack": "macos-14.8_torch-2.8.0+cpu_transformers-5.0.0"}).stack
    for given, says in [
        ({"partial": 1}, "--config: partial: 1 is not true or false"),
        ({"machine": "../../evil"}, "--config: machine: '../../evil' must be lower-case letters and digits, or . _ -"),
        ({"stack": "My Stack"}, "--config: stack: 'My Stack' must be"),
    ]:
        with pytest.raises(StudyError) as refusal:
            read_call(given)
        assert str(refusal.value).startswith(says)


@pytest.mark.parametrize("name", ["", " ", "-x.zip", "{a}.zip"])
def test_a_bundles_name_that_cannot_be_read_is_refused(name):
    with pytest.raises(StudyError, match=r"^x\.yaml: bundles\[1\]: .* cannot be read as a file's name: "):
        read_study(study(bundles=["good one's.zip", name]), "x.yaml")


def test_files_that_name_one_study_are_found(tmp_path):
    for name, text in {
        "own.yaml": "study: tiny",
        "plain.yaml": "title: x\nstudy: tiny\n",
        "quoted.yaml": "'study' : 'tiny'  # a comment\n",
        "told.yaml": "title: >-\n  of a\n  study\nstudy: other\ndescription: 'a\n\n  study: tiny\n  '\n",
        "broken.yaml": "study: [tiny\n",
        "list.yaml": "- study: tiny\n",
        "longer.yaml": "study: tiny-2\n",
        "inner.yaml": "experiments:\n  - study: tiny\n",
        "other.txt": "study: tiny\n",
    }.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe")
    (tmp_path / "folder.yaml").mkdir()
    found = namesakes("tiny", str(tmp_path / "own.yaml"))
    assert found == [str(tmp_path / "plain.yaml"), str(tmp_path / "quoted.yaml")]
