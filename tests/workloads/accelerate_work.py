# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""A job of Accelerate that accumulates the gradients of two batches for each step of its optimizer, and evaluates after ten of
these."""

import time

import torch
from accelerate import Accelerator
from torch.profiler import record_function


def main():
    torch.set_num_threads(1)
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    model = torch.nn.Linear(16, 16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.001)
    data = torch.utils.data.DataLoader(torch.randn(80, 16), batch_size=4)
    model, optimizer, data = accelerator.prepare(model, optimizer, data)
    while True:
        for batch in data:
            time.sleep(0.002)
            with accelerator.accumulate(model):
                accelerator.backward(model(batch).square().mean())
                optimizer.step()
                optimizer.zero_grad()
        with record_function("evaluate"), torch.no_grad():
            for batch in data:
                model(batch).neg().mean()
        print("ten steps", flush=True)


if __name__ == "__main__":
    main()
