"""One rank of a small training with DistributedDataParallel, for test_torch.py.

ddp.py JOB OTHER: trains once both jobs have all their ranks, and prints as one line of JSON what this rank saw.
"""

import hashlib
import json
import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel

job, other = sys.argv[1:]
seed = sum(job.encode())
SAMPLES = 16


def new_model() -> torch.nn.Module:
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))


def train(model: torch.nn.Module, inputs: torch.Tensor, targets: torch.Tensor) -> tuple[float, list[float]]:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in range(30):
        optimizer.zero_grad()
        loss = mse_loss(model(inputs), targets)
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        parameters = torch.cat([parameter.flatten() for parameter in model.parameters()])
        return mse_loss(model(all_inputs), all_targets).item(), parameters.tolist()


torch.set_num_threads(1)
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()

Path(f"{job}.up").touch()
deadline = time.monotonic() + 600
while not Path(f"{other}.up").exists():
    if time.monotonic() > deadline:
        sys.exit(f"the job {other} did not come up")
    time.sleep(0.1)

jobs = [""] * world
dist.all_gather_object(jobs, job)

# Each rank trains on a part of the data: together they must arrive where one process does that has all of it.
all_inputs = torch.randn(SAMPLES * world, 8, generator=torch.Generator().manual_seed(seed))
all_targets = all_inputs.sum(dim=1, keepdim=True)
mine = slice(SAMPLES * rank, SAMPLES * (rank + 1))
loss, parameters = train(DistributedDataParallel(new_model()), all_inputs[mine], all_targets[mine])
_, expected = train(new_model(), all_inputs, all_targets)

seen = {
    "rank": rank,
    "world": world,
    "local_rank": int(os.environ["LOCAL_RANK"]),
    "node": os.environ["SLURMD_NODENAME"],
    "slurm_job": os.environ["SLURM_JOB_ID"],
    "jobs": jobs,
    "loss": loss,
    "parameters": hashlib.sha256(repr(parameters).encode()).hexdigest(),
    "error": max(abs(a - b) for a, b in zip(parameters, expected)),
}
# in one piece: torchrun's processes share their output, and do not buffer it
sys.stdout.write(json.dumps(seen) + "\n")
sys.stdout.flush()
dist.destroy_process_group()
