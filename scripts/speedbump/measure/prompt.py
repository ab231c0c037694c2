"""The prompt: seeded token ids, the same on every device."""

import torch


def make_prompt(seed: int, batch: int, n_prompt: int, vocabulary: int, device: str) -> torch.Tensor:
    """Uniform ids, shape (batch, n_prompt); every sequence of a batch is another one."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(vocabulary, (batch, n_prompt), generator=generator).to(device)
