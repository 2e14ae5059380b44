# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""A job of PyTorch Lightning that trains, and validates after each 20 batches.

  lightning_work.py [MODULE:CLASS]    the Trainer's profiler, a class without arguments (default: none)
"""

import importlib
import logging
import sys
import time
import warnings

import lightning.pytorch as pl
import torch


class Model(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(16, 16)

    def training_step(self, batch, batch_idx):
        time.sleep(0.002)
        return self.layer(batch).square().mean()

    def validation_step(self, batch, batch_idx):
        return self.layer(batch).neg().mean()

    def on_validation_end(self):
        print("twenty steps", flush=True)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.001)


def main():
    warnings.filterwarnings("ignore")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    torch.set_num_threads(1)
    profiler = None
    if len(sys.argv) > 1:
        module, name = sys.argv[1].split(":")
        profiler = getattr(importlib.import_module(module), name)()
    data = torch.utils.data.DataLoader(torch.randn(80, 16), batch_size=4)
    trainer = pl.Trainer(accelerator="cpu", devices=1, max_epochs=-1, limit_train_batches=20, limit_val_batches=5, num_sanity_val_steps=0,
                         logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
                         profiler=profiler)
    trainer.fit(Model(), data, data)


if __name__ == "__main__":
    main()
