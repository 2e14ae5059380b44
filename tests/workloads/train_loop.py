# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""An ordinary small training loop: a model, an optimizer, a data loader; without profilers.

  train_loop.py [STEPS] [WORKERS]     STEPS 0: until it is stopped
"""

import sys

import torch
from torch import nn
from torch.profiler import record_function
from torch.utils.data import DataLoader, Dataset


class Numbers(Dataset):
    def __init__(self, size):
        gen = torch.Generator().manual_seed(1)
        self.x = torch.randn(size, 1, 16, 16, generator=gen)
        self.y = torch.randint(0, 10, (size,), generator=gen)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2))
        self.classify = nn.Sequential(nn.Flatten(), nn.Linear(8 * 8 * 8, 64), nn.ReLU(), nn.Linear(64, 10))

    def forward(self, x):
        with record_function("features"):
            x = self.features(x)
        return self.classify(x)


def main():
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    workers = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    loader = DataLoader(Numbers(256), batch_size=32, shuffle=True, num_workers=workers, persistent_workers=workers > 0)
    done = 0
    while steps == 0 or done < steps:
        for x, y in loader:
            with record_function("forward"):
                loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            done += 1
            if done == 1 or done % 20 == 0:
                print(f"step {done} loss {loss.item():.6f}", flush=True)
            if done == steps:
                break
    print(f"finished {done} steps", flush=True)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        pass
