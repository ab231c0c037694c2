"""Stacks in the order of their versions."""

import random

from speedbump.grid.stack import left_out_in_words, not_passed_on, stack_order

OLDEST_FIRST = [
    "linux-6.1_torch-2.8.0_transformers-4.57.6",
    "linux-6.1_torch-2.9.0.dev20250901+cu128_transformers-4.57.6",
    "linux-6.1_torch-2.9.0.dev20250902+cu128_transformers-4.57.6",
    "linux-6.1_torch-2.9.0rc1_transformers-4.57.6",
    "linux-6.1_torch-2.9.0rc2_transformers-4.57.6",
    "linux-6.1_torch-2.9.0_transformers-4.57.6",
    "linux-6.2_torch-2.9.0_transformers-4.57.6",
    "linux-6.2_torch-2.9.0_transformers-5.0.0.dev0",
    "linux-6.2_torch-2.9.0_transformers-5.0.0rc1",
    "linux-6.2_torch-2.9.0_transformers-5.0.0",
    "linux-6.1_torch-2.9.0-odd_transformers-4.57.6",
    "linux-6.1_torch-2.9.1_transformers-4.57.6",
    "linux-6.1_torch-2.14.0_transformers-4.57.6",
]


def test_a_release_is_newer_than_what_led_to_it():
    shuffled = random.Random(1).sample(OLDEST_FIRST, len(OLDEST_FIRST))
    assert sorted(shuffled, key=stack_order) == OLDEST_FIRST


def test_ratios_of_the_users_shell_are_left_out_and_said(monkeypatch):
    assert left_out_in_words() == []
    monkeypatch.setenv("PYTORCH_MPS_LOW_WATERMARK_RATIO", "0.0")
    monkeypatch.setenv("PYTORCH_MPS_PREFER_METAL", "1")
    monkeypatch.setenv("PYTORCH_MPS_HIGH_WATERMARK_RATIO", "0.0")
    assert list(not_passed_on()) == ["PYTORCH_MPS_HIGH_WATERMARK_RATIO", "PYTORCH_MPS_LOW_WATERMARK_RATIO"]
    (line,) = left_out_in_words()
    assert line == (
        "PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0, PYTORCH_MPS_LOW_WATERMARK_RATIO=0.0 of your shell: "
        "not passed on; the axis watermark sets it"
    )
