# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""A training loop with torchtitan's container of optimizers. Its Trainer needs a GPU."""

import itertools
import time

import torch
from torchtitan.components.optimizer import OptimizersContainer, default_adamw


def main():
    torch.set_num_threads(1)
    model = torch.nn.Linear(16, 16)
    config = default_adamw()
    config.implementation = "for-loop"
    optimizers = OptimizersContainer(config, model_parts=[model])
    for step in itertools.count():
        model(torch.randn(4, 16)).square().mean().backward()
        optimizers.step()
        optimizers.zero_grad()
        time.sleep(0.002)
        if step % 5 == 4:
            print("five steps", flush=True)


if __name__ == "__main__":
    main()
